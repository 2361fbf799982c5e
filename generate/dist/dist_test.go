package dist_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"parley/generate/dist"
)

func parse(t testing.TB, config string) *dist.Dist {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(config), &v); err != nil {
		t.Fatal(err)
	}
	d, err := dist.Parse("d", v)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check("d", "testdata"); err != nil {
		t.Fatal(err)
	}
	return &d
}

func sample(d *dist.Dist, n int) []float64 {
	r := dist.Stream(11, "test")
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
	r := dist.Stream(1, "int")
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

// A draw depends on its stream only, not on how many others are drawn: these are the numbers of this
// version, on any machine.
func TestStreamsAreFixed(t *testing.T) {
	r := dist.Stream(7, "turns", 3)
	if a, b := r.Uint64(), r.Uint64(); a != 0x762a68fe526ccc47 || b != 0xd00377d6623c7d38 {
		t.Errorf("stream (7, turns, 3) gives %#x, %#x", a, b)
	}
	seen := map[uint64]bool{}
	for _, purpose := range []string{"a", "b", "ab", ""} {
		for i := range uint64(100) {
			seen[dist.Stream(1, purpose, i).Uint64()] = true
			seen[dist.Stream(1, purpose, i, 0).Uint64()] = true
		}
	}
	if len(seen) != 800 {
		t.Errorf("%d different first numbers of 800 streams", len(seen))
	}
}

func TestErrorsNameThePath(t *testing.T) {
	for _, tc := range []struct{ config, want string }{
		{`{"distribution":"zipf","alpha":1}`, "d.alpha: 1 must be greater than 1"},
		{`{"distribution":"zipf"}`, "d.alpha: missing"},
		{`{"distribution":"zapf","alpha":2}`, `d.distribution: unknown distribution "zapf"`},
		{`{"alpha":2}`, "d.distribution: missing"},
		{`{"distribution":"uniform","min":5}`, "d.max: missing"},
		{`{"distribution":"uniform","min":5,"max":4}`, "d.min: 5 is greater than max, 4"},
		{`{"distribution":"uniform","min":"a","max":4}`, `d.min: expected a number and found the text "a"`},
		{`{"distribution":"constant","value":1,"alpha":3}`, "d.alpha: constant has no such parameter"},
		{`{"distribution":"constant","valeu":1}`, "d.valeu: no distribution has such a parameter"},
		{`{"distribution":"lognormal","average":0.5}`, "d.average: 0.5 must be at least 1"},
		{`{"distribution":"lognormal","average":10,"median_ratio":1}`, "d.median_ratio: 1 must be between 0 and 1"},
		{`{"distribution":"lognormal","average":10,"mean":1,"sigma":1}`, "not both"},
		{`{"distribution":"lognormal","mean":1000,"sigma":1}`, "did you mean average?"},
		{`{"distribution":"poisson","alpha":3,"min":5,"max":2}`, "d.min: 5 is greater than max, 2"},
		{`{"distribution":"empirical","values":[1,"x"]}`, "d.values[1]: expected a number"},
		{`{"distribution":"empirical","values":[1,2],"weights":[1]}`, "d.weights: 1 weights for 2 values"},
		{`{"distribution":"empirical","values":[1,2],"weights":[0,0]}`, "add up to nothing"},
		{`{"distribution":"empirical","csv":"lengths.csv","column":"nope"}`, `no column "nope"; it has tokens, count`},
		{`{"distribution":"empirical","csv":"absent.csv","column":"nope"}`, "absent.csv"},
		{`{"distribution":"mixture","of":[{"distribution":"zipf","alpha":0.5}]}`, "d.of[0].alpha: 0.5 must be greater than 1"},
		{`{"distribution":"gamma","shape":1,"scale":1,"average":1}`, "either scale or average"},
		{`"long"`, "d: expected a distribution"},
	} {
		var v any
		if err := json.Unmarshal([]byte(tc.config), &v); err != nil {
			t.Fatal(err)
		}
		d, err := dist.Parse("d", v)
		if err == nil {
			err = d.Check("d", "testdata")
		}
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
	d := dist.Dist{Distribution: "empirical", CSV: name, Column: "b"}
	if err := d.Check("d", ""); err == nil || !strings.Contains(err.Error(), `bad.csv:3: column "b": "x" is not a number`) {
		t.Fatalf("got %v", err)
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
		d, err := dist.Parse("d", v)
		if err != nil || !d.Given() || strings.Contains(config, "csv") || d.Check("d", "") != nil {
			return
		}
		r := dist.Stream(1, "fuzz")
		for range 4 { // whatever passes the check must draw without a panic
			d.Int(r)
		}
	})
}
