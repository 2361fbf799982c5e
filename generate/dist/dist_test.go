package dist_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"gonum.org/v1/gonum/stat/distuv"

	"parley/generate/config"
	"parley/generate/dist"
	"parley/schemas/random"
)

func parse(t testing.TB, config string) *dist.Dist {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(config), &v); err != nil {
		t.Fatal(err)
	}
	d, err := read(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func resolve(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join("testdata", name)
}

// read reads and checks a distribution as a config does.
func read(v any) (*dist.Dist, error) {
	var d dist.Dist
	var p config.Problems
	config.Decode("d", v, &d, &p)
	d.Check("d", resolve, &p)
	return &d, p.Err()
}

func sample(d *dist.Dist, n int) []float64 {
	r := random.Stream(11, "test")
	out := make([]float64, n)
	for i := range out {
		out[i] = d.Float(r)
	}
	return out
}

// ks is the Kolmogorov-Smirnov distance of the sample from a distribution, times the root of its size.
// Under the right distribution it exceeds 1.95 once in 1,000.
func ks(x []float64, cdf func(float64) float64) float64 {
	slices.Sort(x)
	worst, n := 0.0, float64(len(x))
	for i, v := range x {
		f := cdf(v)
		worst = max(worst, math.Abs(f-float64(i)/n), math.Abs(float64(i+1)/n-f))
	}
	return worst * math.Sqrt(n)
}

func TestContinuousAgainstTheory(t *testing.T) {
	mu := func(avg, ratio float64) (float64, float64) {
		return math.Log(avg * ratio), math.Sqrt(2 * math.Log(1/ratio))
	}
	m1, s1 := mu(1000, 0.85)
	m2, s2 := mu(350, 200.0/350)
	for name, tc := range map[string]struct {
		config string
		cdf    func(float64) float64
	}{
		"uniform":            {`{"distribution":"uniform","min":0.5,"max":2.25}`, distuv.Uniform{Min: 0.5, Max: 2.25}.CDF},
		"lognormal average":  {`{"distribution":"lognormal","average":1000}`, distuv.LogNormal{Mu: m1, Sigma: s1}.CDF},
		"lognormal ratio":    {`{"distribution":"lognormal","average":350,"median_ratio":0.5714285714285714}`, distuv.LogNormal{Mu: m2, Sigma: s2}.CDF},
		"lognormal median":   {`{"distribution":"lognormal","average":350,"median":200}`, distuv.LogNormal{Mu: m2, Sigma: s2}.CDF},
		"lognormal mean":     {`{"distribution":"lognormal","mean":5,"sigma":0.7}`, distuv.LogNormal{Mu: 5, Sigma: 0.7}.CDF},
		"lognormal p90":      {`{"distribution":"lognormal","median":100,"p90":480}`, distuv.LogNormal{Mu: math.Log(100), Sigma: math.Log(4.8) / 1.2815515655446004}.CDF},
		"gamma shape scale":  {`{"distribution":"gamma","shape":0.4,"scale":3}`, distuv.Gamma{Alpha: 0.4, Beta: 1.0 / 3}.CDF},
		"gamma average":      {`{"distribution":"gamma","shape":2.5,"average":10}`, distuv.Gamma{Alpha: 2.5, Beta: 0.25}.CDF},
		"normal":             {`{"distribution":"normal","mean":100,"sd":10}`, distuv.Normal{Mu: 100, Sigma: 10}.CDF},
		"normal cut at 0":    {`{"distribution":"normal","mean":1,"sd":2}`, cut(distuv.Normal{Mu: 1, Sigma: 2}, 0, 1e9)},
		"normal cut twice":   {`{"distribution":"normal","mean":10,"sd":2,"min":15,"max":17}`, cut(distuv.Normal{Mu: 10, Sigma: 2}, 15, 17)},
		"short":              {`"lognormal(median=100, p90=480)"`, distuv.LogNormal{Mu: math.Log(100), Sigma: math.Log(4.8) / 1.2815515655446004}.CDF},
		"short normal":       {`"normal(100,10)"`, distuv.Normal{Mu: 100, Sigma: 10}.CDF},
		"exponential":        {`{"distribution":"exponential","average":8}`, distuv.Exponential{Rate: 1.0 / 8}.CDF},
		"mixture of uniform": {`{"distribution":"mixture","of":[{"distribution":"uniform","min":0,"max":1.5,"weight":3},{"distribution":"exponential","average":2}]}`, func(x float64) float64 { return 0.75*min(1, x/1.5) + 0.25*(1-math.Exp(-x/2)) }},
	} {
		t.Run(name, func(t *testing.T) {
			if k := ks(sample(parse(t, tc.config), 40000), tc.cdf); k > 1.95 {
				t.Errorf("Kolmogorov-Smirnov statistic %.2f: not the distribution", k)
			}
		})
	}
}

// cut gives the distribution function of what of a normal distribution lies between two bounds.
func cut(d distuv.Normal, lo, hi float64) func(float64) float64 {
	return func(x float64) float64 { return (d.CDF(x) - d.CDF(lo)) / (d.CDF(hi) - d.CDF(lo)) }
}

func TestDiscreteAgainstTheory(t *testing.T) {
	zeta := 0.0
	for k := 2_000_000; k > 0; k-- { // zeta(2.5), smallest terms first
		zeta += math.Pow(float64(k), -2.5)
	}
	for name, tc := range map[string]struct {
		config string
		prob   func(k int) float64 // for k in [0, 60)
	}{
		"constant": {`{"distribution":"constant","value":7}`, func(k int) float64 {
			if k == 7 {
				return 1
			}
			return 0
		}},
		"uniform": {`{"distribution":"uniform","min":12,"max":18}`, func(k int) float64 {
			if k >= 12 && k <= 18 {
				return 1.0 / 7
			}
			return 0
		}},
		"zipf": {`{"distribution":"zipf","alpha":2.5}`, func(k int) float64 {
			if k < 1 {
				return 0
			}
			return math.Pow(float64(k), -2.5) / zeta
		}},
		"poisson":         {`{"distribution":"poisson","alpha":10}`, func(k int) float64 { return distuv.Poisson{Lambda: 10}.Prob(float64(k)) }},
		"poisson clamped": {`{"distribution":"poisson","alpha":3,"min":2,"max":4}`, clampedPoisson},
		"geometric": {`{"distribution":"geometric","p":0.3}`, func(k int) float64 {
			if k < 1 {
				return 0
			}
			return 0.3 * math.Pow(0.7, float64(k-1))
		}},
		"geometric average": {`{"distribution":"geometric","average":4}`, func(k int) float64 {
			if k < 1 {
				return 0
			}
			return 0.25 * math.Pow(0.75, float64(k-1))
		}},
		"empirical": {`{"distribution":"empirical","values":[3,9,27],"weights":[1,2,1]}`, func(k int) float64 { return map[int]float64{3: 0.25, 9: 0.5, 27: 0.25}[k] }},
		"short uniform": {`"12:18"`, func(k int) float64 {
			if k >= 12 && k <= 18 {
				return 1.0 / 7
			}
			return 0
		}},
		"short file": {`"lengths.csv:count"`, func(k int) float64 { return map[int]float64{2: 1.0 / 3, 5: 1.0 / 3, 3: 1.0 / 3}[k] }},
		"empirical csv": {`{"distribution":"empirical","csv":"lengths.csv","column":"tokens","weight_column":"count"}`, func(k int) float64 {
			return map[int]float64{5: 0.2, 11: 0.5, 40: 0.3}[k]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const draws, bins = 50000, 60
			var seen [bins]float64
			tail := 0.0
			for _, x := range sample(parse(t, tc.config), draws) {
				if x != math.Trunc(x) {
					t.Fatalf("%v is not a whole number", x)
				}
				if x < bins {
					seen[int(x)]++
				} else {
					tail++
				}
			}
			chi, df, restP, restN := 0.0, 0, 1.0, tail
			for k := range bins {
				p := tc.prob(k)
				if p*draws < 5 {
					restN += seen[k]
					if p == 0 && seen[k] > 0 {
						t.Fatalf("%d has no probability and was drawn %v times", k, seen[k])
					}
					continue
				}
				restP -= p
				chi += (seen[k] - p*draws) * (seen[k] - p*draws) / (p * draws)
				df++
			}
			if restP*draws >= 5 {
				chi += (restN - restP*draws) * (restN - restP*draws) / (restP * draws)
				df++
			}
			if df > 1 {
				if p := 1 - (distuv.ChiSquared{K: float64(df - 1)}).CDF(chi); p < 0.001 {
					t.Errorf("chi-square %.1f with %d degrees of freedom: p = %.2g", chi, df-1, p)
				}
			}
		})
	}
}

func clampedPoisson(k int) float64 {
	p := distuv.Poisson{Lambda: 3}
	switch k {
	case 2:
		return p.CDF(2)
	case 3:
		return p.Prob(3)
	case 4:
		return 1 - p.CDF(3)
	}
	return 0
}

func TestIntRoundsAndStaysInRange(t *testing.T) {
	d := parse(t, `{"distribution":"lognormal","average":50,"min":40,"max":60}`)
	r := random.Stream(1, "int")
	for range 2000 {
		if n := d.Int(r); n < 40 || n > 60 {
			t.Fatalf("drew %d", n)
		}
	}
	huge := parse(t, `{"distribution":"zipf","alpha":1.0001}`)
	for range 2000 {
		if n := huge.Int(r); n < 1 || n > math.MaxInt32 {
			t.Fatalf("drew %d", n)
		}
	}
}

func TestErrorsNameThePath(t *testing.T) {
	for _, tc := range []struct{ config, want string }{
		{`{"distribution":"zipf","alpha":1}`, "d.alpha: 1 must be greater than 1"},
		{`{"distribution":"zipf"}`, "d.alpha: missing"},
		{`{"distribution":"zapf","alpha":2}`, `d.distribution: unknown distribution zapf`},
		{`{"alpha":2}`, "d.distribution: missing"},
		{`{"distribution":"uniform","min":5}`, "d.max: missing"},
		{`{"distribution":"uniform","min":5,"max":4}`, "d.min: 5 is greater than max, 4"},
		{`{"distribution":"uniform","min":"a","max":4}`, `d.min: expected a number and found the text "a"`},
		{`{"distribution":"constant","value":1,"alpha":3}`, "d.alpha: no such parameter of constant; here are distribution, max, min, value, weight"},
		{`{"distribution":"constant","valeu":1}`, "d.valeu: no such parameter of constant"},
		{`{"distribution":"lognormal","average":0.5}`, "d.average: 0.5 must be at least 1"},
		{`{"distribution":"lognormal","average":10,"median_ratio":1}`, "d.median_ratio: 1 must be between 0 and 1"},
		{`{"distribution":"lognormal","average":10,"mean":1,"sigma":1}`, "d: lognormal takes average with median_ratio or without, or median with p90 or average, or mean and sigma of the logarithm; here are: mean sigma average"},
		{`{"distribution":"lognormal","median":10,"p90":9}`, "d.p90: 9 is less than the median, 10"},
		{`{"distribution":"lognormal","median":10,"average":9}`, "d.average: 9 is less than the median, 10"},
		{`{"distribution":"lognormal","median":0,"p90":9}`, "d.median: 0 must be greater than 0"},
		{`{"distribution":"lognormal","max":9}`, "here are: none of them"},
		{`{"distribution":"lognormal","mean":1000,"sigma":1}`, "did you mean average?"},
		{`{"distribution":"poisson","alpha":3,"min":5,"max":2}`, "d.min: 5 is greater than max, 2"},
		{`{"distribution":"empirical","values":[1,"x"]}`, "d.values[1]: expected a number"},
		{`{"distribution":"empirical","values":[1,2],"weights":[1]}`, "d.weights: 1 weights for 2 values"},
		{`{"distribution":"empirical","values":[1,2],"weights":[0,0]}`, "add up to 0"},
		{`{"distribution":"empirical","csv":"lengths.csv","column":"nope"}`, `no column "nope"; it has tokens, count`},
		{`{"distribution":"empirical","csv":"absent.csv","column":"nope"}`, "absent.csv"},
		{`{"distribution":"mixture","of":[{"distribution":"zipf","alpha":0.5}]}`, "d.of[0].alpha: 0.5 must be greater than 1"},
		{`{"distribution":"gamma","shape":1,"scale":1,"average":1}`, "either scale or average"},
		{`{"distribution":"normal","mean":10,"sd":0}`, "d.sd: 0 must be greater than 0"},
		{`{"distribution":"normal","mean":10,"sd":1,"max":5,"min":6}`, "d.min: 6 is not less than max, 5"},
		{`{"distribution":"normal","mean":10,"sd":1,"min":1000}`, "more than 30 standard deviations"},
		{`true`, "d: expected a distribution"},
		{`"long"`, `d: "long" is no number, no min:max`},
		{`"lognormal(60,400)"`, "name the parameters of lognormal"},
		{`"zipf(0.5)"`, "d.alpha: 0.5 must be greater than 1"},
		{`"normal(5,x)"`, `d.sd: expected a number and found the text "x"`},
		{`"lengths.csv:nope"`, `no column "nope"; it has tokens, count`},
		{`"lengths.csv"`, `no column ""; it has tokens, count`},
	} {
		var v any
		if err := json.Unmarshal([]byte(tc.config), &v); err != nil {
			t.Fatal(err)
		}
		_, err := read(v)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.config, err, tc.want)
		}
	}
}

func TestMaxOfZeroIsNone(t *testing.T) {
	for _, config := range []string{`{"distribution":"poisson","alpha":10,"max":0}`, `{"distribution":"poisson","alpha":10,"max":null}`} {
		if x := slices.Max(sample(parse(t, config), 100)); x < 10 {
			t.Errorf("%s: largest of 100 draws is %v", config, x)
		}
	}
}

func TestReadColumnNamesTheLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(name, []byte("a,b\n1,2\n3,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := read(map[string]any{"distribution": "empirical", "file": name, "column": "b"})
	if err == nil || !strings.Contains(err.Error(), `bad.csv:3: column "b": "x" is not a number`) {
		t.Fatalf("got %v", err)
	}
}

// Lengths that belong together come together, from a file in any of its forms, and what is resolved reads
// back as the same.
func TestJoint(t *testing.T) {
	dir := t.TempDir()
	type length struct {
		In  int32    `parquet:"in"`
		Out *float64 `parquet:"out,optional"`
	}
	three, seven := 3.0, 7.0
	if err := parquet.WriteFile(filepath.Join(dir, "a.parquet"), []length{{30, &three}, {70, &seven}, {70, &seven}, {5, nil}, {70, &seven}}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"comma.csv": "in,out,times\n30,3,1\n70,7,3\n5,,9\n", "semicolon.csv": "in;out;times\n30;3;1\n70;7;3\n", "tab.tsv": "times\tout\tin\n1\t3\t30\n3\t7\t70\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, weight := range map[string]string{"a.parquet": "", "comma.csv": "times", "semicolon.csv": "times", "tab.tsv": "times"} {
		var p config.Problems
		j := dist.Joint{File: filepath.Join(dir, name), Input: "in", Output: "out", Weight: weight}
		j.Check("j", nil, &p)
		text, err := json.Marshal(j)
		if err := errors.Join(err, p.Err()); err != nil {
			t.Fatal(err)
		}
		v, err := config.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var again dist.Joint
		config.Decode("j", v, &again, &p)
		if again.Check("j", nil, &p); p.Err() != nil {
			t.Fatal(p.Err())
		}
		r, s, sevens := random.Stream(1, "joint"), random.Stream(1, "joint"), 0
		for range 4000 {
			in, out := j.Draw(r)
			if in2, out2 := again.Draw(s); in != 10*out || in2 != in || out2 != out {
				t.Fatalf("%s: drew %d with %d, and read back %d with %d", name, in, out, in2, out2)
			}
			if out == 7 {
				sevens++
			}
		}
		if sevens < 2850 || sevens > 3150 {
			t.Errorf("%s: %d of 4000 draws have the weight of 3 in 4", name, sevens)
		}
	}
	var p config.Problems
	for _, j := range []dist.Joint{{}, {Rows: [][]float64{{1}}}, {Rows: [][]float64{{1, 2}}, Weights: []float64{1, 2}}, {File: filepath.Join(dir, "a.parquet"), Input: "in", Output: "nope"}} {
		before := p.Count()
		if j.Check("j", nil, &p); p.Count() == before {
			t.Errorf("%+v was accepted", j)
		}
	}
}

// What is resolved must read back as the same distribution.
func TestRoundTrip(t *testing.T) {
	d := parse(t, `{"distribution":"mixture","of":[{"distribution":"empirical","csv":"lengths.csv","column":"tokens","weight":2},{"distribution":"lognormal","average":9,"max":30}]}`)
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if again := parse(t, string(b)); !slices.Equal(sample(again, 500), sample(d, 500)) {
		t.Errorf("%s draws something else", b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"distribution":"lognormal","average":1000,"max":5000}`)
	f.Add(`{"distribution":"mixture","of":[{"distribution":"zipf","alpha":1.2},3]}`)
	f.Add(`{"distribution":"empirical","values":[1,2,3],"weights":[1e308,1e308,0]}`)
	f.Add(`{"distribution":"uniform","min":-1,"max":1e300}`)
	f.Add(`{"distribution":"gamma","shape":1e-300,"average":1}`)
	f.Add(`[1]`)
	f.Fuzz(func(t *testing.T, config string) {
		var v any
		if json.Unmarshal([]byte(config), &v) != nil {
			return
		}
		if strings.Contains(config, "csv") || strings.Contains(config, "file") || strings.Contains(config, ".") && strings.Contains(config, `"`) {
			return
		}
		d, err := read(v)
		if err != nil || !d.Given() {
			return
		}
		r := random.Stream(1, "fuzz")
		for range 4 { // whatever passes the check must draw without a panic
			d.Int(r)
		}
	})
}
