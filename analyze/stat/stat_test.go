package stat

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*max(1, math.Abs(b)) }

// Needs and the bounds against the binomial distribution summed by hand.
func TestBounds(t *testing.T) {
	for q, want := range map[float64]int64{0.5: 5, 0.9: 29, 0.95: 59, 0.99: 299, 0.999: 2995, 0.01: 299} {
		if got := Needs(q, Confidence); got != want {
			t.Errorf("Needs(%v) = %d, want %d", q, got, want)
		}
		if !Carries(q, float64(want)) || Carries(q, float64(want)-1) {
			t.Errorf("Carries(%v) changes elsewhere than at %d", q, want)
		}
	}
	cdf := func(n, k int, p float64) float64 { // P(Binomial(n, p) <= k)
		var sum float64
		for i := 0; i <= k; i++ {
			a, _ := math.Lgamma(float64(n + 1))
			b, _ := math.Lgamma(float64(i + 1))
			c, _ := math.Lgamma(float64(n - i + 1))
			sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
		}
		return sum
	}
	for _, n := range []int{5, 30, 299, 2000} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i + 1) // the k-th smallest is k
		}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.05} {
			upper, lower := math.NaN(), math.NaN()
			for k := 1; k <= n; k++ {
				if math.IsNaN(upper) && cdf(n, k-1, q) >= 0.95 {
					upper = float64(k)
				}
				if 1-cdf(n, k-1, q) >= 0.95 {
					lower = float64(k)
				}
			}
			bound := func(share float64, up bool) float64 {
				if math.IsNaN(share) {
					return share
				}
				return sample(values).order(share, up)
			}
			same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
			if got := bound(UpperShare(q, float64(n), 0.95), true); !same(got, upper) {
				t.Errorf("upper bound of %v from %d values: %v, want %v", q, n, got, upper)
			}
			if got := bound(LowerShare(q, float64(n), 0.95), false); !same(got, lower) {
				t.Errorf("lower bound of %v from %d values: %v, want %v", q, n, got, lower)
			}
			// Fewer independent ones bound no closer.
			if got := bound(UpperShare(q, float64(n)/2, 0.95), true); got < upper {
				t.Errorf("half as many independent values bound closer: %v < %v", got, upper)
			}
		}
	}
}

// Reference values: R's t.test and p.adjust.
func TestStudentTests(t *testing.T) {
	a, b := []float64{5.1, 4.9, 5.6, 5.8, 6.0}, []float64{5.4, 5.3, 5.7, 6.3, 6.4}
	got := Paired(a, b)
	// d = .3 .4 .1 .5 .4: mean 0.34, sd 0.151658, se 0.0678233, t 5.01303.
	if !near(got.Diff, 0.34, 1e-12) || !near(got.SE, 0.0678233, 1e-5) || got.DF != 4 || !near(got.P, 0.007414, 1e-3) ||
		!near(got.Interval.Low, 0.34-2.776445*0.0678233, 1e-5) {
		t.Errorf("paired %+v", got)
	}
	got = Welch(a, b[:4])
	ma, sa := MeanStd(a)
	mb, sb := MeanStd(b[:4])
	va, vb := sa*sa/5, sb*sb/4
	df := (va + vb) * (va + vb) / (va*va/4 + vb*vb/3)
	if !near(got.Diff, mb-ma, 1e-12) || !near(got.DF, df, 1e-12) || !near(got.SE, math.Sqrt(va+vb), 1e-12) || got.P < 0.4 || got.P > 0.8 {
		t.Errorf("welch %+v", got)
	}
	for _, one := range []Test{Paired(a[:1], b[:1]), Welch(a[:1], b), Welch(nil, nil)} {
		if !math.IsNaN(one.P) || one.Interval.Known() {
			t.Errorf("one run a side is tested: %+v", one)
		}
	}
	if p := Paired([]float64{1, 2}, []float64{1, 2}).P; p != 1 {
		t.Errorf("equal runs: P %v", p)
	}
	if got := Holm([]float64{0.01, 0.04, 0.03, 0.005, math.NaN()}, 0.05); !slices.Equal(got, []bool{true, false, false, true, false}) {
		t.Errorf("holm %v", got)
	}
	for df, want := range map[float64]float64{1: 12.7062, 5: 2.570582, 30: 2.042272, 1e9: 1.959964} {
		if got := StudentT(df); !near(got, want, 1e-5) {
			t.Errorf("t of %v degrees: %v, want %v", df, got, want)
		}
	}
	plain, skewed := skewT(10, 1, 0, 6), skewT(10, 1, 1, 6)
	if !near(plain.High, 10+2.570582, 1e-5) || skewed.High <= plain.High || skewed.Low <= plain.Low {
		t.Errorf("skewed to the right, %+v reaches farther than %+v", skewed, plain)
	}
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		scale := rapid.Float64Range(0, 6).Draw(t, "scale")
		var whole, a, b Histogram
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(scale * rng.NormFloat64())
			if rng.IntN(20) == 0 {
				values[i] = 0
			}
			whole.Add(values[i])
			if i%3 == 0 {
				a.Add(values[i])
			} else {
				b.Add(values[i])
			}
		}
		a.Merge(&b)
		slices.Sort(values)
		qs := []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1}
		got, merged := whole.Quantiles(qs...), a.Quantiles(qs...)
		for i, q := range qs {
			want := Quantile(values, q)
			if math.Abs(got[i]-want) > RelativeError*want*(1+1e-9) || got[i] != merged[i] {
				t.Fatalf("q %v of %d: %v, merged %v, want %v", q, n, got[i], merged[i], want)
			}
		}
		mean, std := MeanStd(values)
		m, s := a.MeanStd()
		if !near(m, mean, 1e-9) || n > 1 && !near(s, std, 1e-6) {
			t.Fatalf("mean %v std %v, want %v %v", m, s, mean, std)
		}
		if low, high := a.Range(); low != values[0] || high != values[n-1] || a.N() != uint64(n) {
			t.Fatalf("%v to %v, %d", low, high, a.N())
		}
		limit := values[n/2]
		below := a.AtMost(limit * (1 + 2*RelativeError))
		want := uint64(0)
		for _, v := range values {
			if v <= limit {
				want++
			}
		}
		if below < want {
			t.Fatalf("%d at most %v, want at least %d", below, limit, want)
		}
	})
	var h Histogram
	h.AddN(7, 1<<33)
	h.AddN(9, 1<<33+2)
	if q := h.Quantiles(0.25, 0.75); !near(q[0], 7, RelativeError) || !near(q[1], 9, RelativeError) || h.N() != 1<<34+2 {
		t.Errorf("counts beyond 32 bits: %v of %d", q, h.N())
	}
}

func TestTrendTests(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	alarms := [3]int{}
	const series = 2000
	for range series {
		v := make([]float64, 40)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		if MannKendall(v).P < 0.05 {
			alarms[0]++
		}
		if Pettitt(v).P < 0.05 {
			alarms[1]++
		}
		if cut, ok := MSER5(v); !ok || cut > len(v)/2 {
			alarms[2]++
		}
	}
	t.Logf("white noise: Mann-Kendall %d, Pettitt %d, MSER-5 %d of %d", alarms[0], alarms[1], alarms[2], series)
	if alarms[0] > 130 || alarms[0] < 40 || alarms[1] > 130 {
		t.Errorf("alarms on white noise: Mann-Kendall %d, Pettitt %d of %d at 5 %%", alarms[0], alarms[1], series)
	}
	v := make([]float64, 60)
	for i := range v {
		v[i] = 10 + rng.NormFloat64() + 0.1*float64(i)
	}
	if got := MannKendall(v); got.P > 0.001 || math.Abs(got.Size-5.9) > 2 {
		t.Errorf("a slope of 0.1 over 60: %+v", got)
	}
	for i := range v {
		v[i] = 10 + rng.NormFloat64()
		if i >= 40 {
			v[i] += 3
		}
	}
	if got := Pettitt(v); got.P > 0.001 || got.At < 38 || got.At > 42 || math.Abs(got.Size-3) > 1 {
		t.Errorf("a shift of 3 at 40: %+v", got)
	}
	for i := range v {
		v[i] = 10 + rng.NormFloat64()
		if i < 15 {
			v[i] -= float64(15 - i)
		}
	}
	if cut, ok := MSER5(v); !ok || cut < 10 || cut > 20 {
		t.Errorf("a warm-up of 15 is cut at %d (%v)", cut, ok)
	}
	for i := range v {
		v[i] = float64(i)
	}
	if _, ok := MSER5(v); ok {
		t.Error("a series that never comes to rest has a warm-up")
	}
}

func TestShifts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	runs := make([][]TurnPair, 3)
	for r := range runs {
		for i := range 400 {
			a := math.Exp(rng.NormFloat64())
			p := TurnPair{A: a, B: a * 1.05 * math.Exp(0.02*rng.NormFloat64())}
			if i%2 == 0 { // met a queue, which doubles what is slow
				p.Others, p.B = 1, p.B*(1.5+rng.Float64())
			}
			runs[r] = append(runs[r], p)
		}
	}
	runs[0][3].A, runs[0][7].B = math.NaN(), 0
	shifts, idle := Shifts(runs)
	for _, s := range shifts {
		if math.Abs(s-math.Log(1.05)) > 0.005 || !idle {
			t.Errorf("shift %v, idle %v", s, idle)
		}
	}
	for r := range runs {
		for i := range runs[r] {
			runs[r][i].Others = 5
		}
	}
	if shifts, idle = Shifts(runs); idle || shifts[0] < 0.2 {
		t.Errorf("nobody met an idle server: shift %v, idle %v", shifts, idle)
	}
	if shifts, _ = Shifts([][]TurnPair{nil}); !math.IsNaN(shifts[0]) {
		t.Error("a shift of nothing is a number")
	}
	got := Awaiting([]int64{30, 0, 10, 20, 40}, []int64{35, 25, 20, 5, 50})
	// At 10 turn 1 awaits; at 20 turn 1, while turn 2 has just got its token; at 30 none; at 40 none.
	if want := []int32{0, 0, 1, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("awaiting %v, want %v", got, want)
	}
}

func TestLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	series := func(of func(i int) float64) []float64 {
		v := make([]float64, 400)
		for i := range v {
			v[i] = of(i) + rng.NormFloat64()
		}
		return v
	}
	for _, c := range []struct {
		name  string
		of    func(i int) float64
		level bool
	}{
		{"level", func(int) float64 { return 20 }, true},
		{"a trend of a trifle", func(i int) float64 { return 2000 + 0.1*float64(i) }, true},
		{"a trend", func(i int) float64 { return 20 + 0.01*float64(i) }, false},
		{"a queue that grows", func(i int) float64 { return float64(i) }, false},
		{"a step", func(i int) float64 { return 20 + 2*float64(i/240) }, false},
	} {
		change, level := Level(series(c.of))
		if level != c.level {
			t.Errorf("%s: level %v, %+v", c.name, level, change)
		}
	}
	if _, level := Level(make([]float64, 400)); !level {
		t.Error("nothing happens, and it is not level")
	}
	// A walk that ends where it began has no trend, one that wanders off has, whatever a test that knows of
	// autocorrelation says.
	x := 0.0
	if change, level := Level(series(func(i int) float64 { x += 2 * rng.Float64(); return x })); level || change.Relative < 1 {
		t.Errorf("a walk upwards is level: %+v", change)
	}
}

// An autoregressive series has a known relaxation time: (1+r)/(1-r)/2 bins.
func TestRelaxation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, r := range []float64{0, 0.5, 0.9} {
		v := make([]float64, 20_000)
		x := 0.0
		for i := range v {
			x = r*x + rng.NormFloat64()
			v[i] = x
		}
		want := 0.25 * (1 + r) / (1 - r)
		if got := Relaxation(v, 0.5); got < 0.8*want || got > 2*want {
			t.Errorf("autocorrelation %v: tau %v, want about %v", r, got, want)
		}
	}
	if !math.IsNaN(Relaxation(make([]float64, 10), 1)) || Relaxation(make([]float64, 100), 1) != 0.5 {
		t.Error("a short or constant series")
	}
}

// A summary of independent values: exact figures, and intervals that are there or withheld by the window's
// length.
func TestSummarize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	in := Sample{}
	for i := range 6000 {
		in.Values = append(in.Values, math.Exp(rng.NormFloat64()))
		in.Moments = append(in.Moments, int64(i)*1e8)
		in.Cluster = append(in.Cluster, int32(i/3))
	}
	sorted := slices.Sorted(slices.Values(in.Values))
	qs := []float64{0.5, 0.9, 0.99, 0.9999}
	var s Scratch
	got := s.Summarize(in, qs, Window{0, 600e9, 1}, false)
	for i, q := range qs {
		e := got.Quantiles[i]
		if e.Value != Quantile(sorted, q) {
			t.Errorf("quantile %v: %v", q, e.Value)
		}
		truth := math.Exp([]float64{0, 1.281552, 2.326348, 3.719016}[i])
		if carried := i < 3; e.Carried != carried || e.Known() != carried {
			t.Errorf("quantile %v: carried %v, interval %+v", q, e.Carried, e.Interval)
		} else if carried && (e.Low > truth || e.High < truth || e.Lower > truth || e.Upper < truth) {
			t.Errorf("quantile %v: %+v, truth %v", q, e, truth)
		} else if !carried && (math.IsNaN(e.Lower) || !math.IsNaN(e.Upper)) {
			t.Errorf("quantile %v: bounds %v and %v", q, e.Lower, e.Upper)
		}
	}
	if m := math.Exp(0.5); !(got.Mean.Low < m && m < got.Mean.High) || got.N != 6000 || got.Clusters != 2000 {
		t.Errorf("mean %+v, n %d, clusters %d", got.Mean, got.N, got.Clusters)
	}
	got = s.Summarize(in, qs, Window{0, 600e9, 2}, false)
	if got.Quantiles[2].Known() || !got.Quantiles[1].Known() || !got.Quantiles[2].Carried {
		t.Error("600 s are 300 relaxation times of 2 s: enough for p90, not for p99")
	}
	got = s.Summarize(in, qs, Window{0, 600e9, math.NaN()}, false)
	if got.Mean.Known() || got.Quantiles[0].Known() || math.IsNaN(got.Quantiles[0].Upper) {
		t.Error("with an unknown relaxation time there are bounds and no intervals")
	}
	if got = s.Summarize(Sample{}, qs, Window{0, 1, 1}, false); !math.IsNaN(got.Mean.Value) || got.N != 0 {
		t.Errorf("nothing: %+v", got)
	}
	w := Window{0, 60e9, 0.1}
	var sent, first []int64
	for i := range 600 { // one every tenth of a second, each awaiting its token for half of it: u = 0.5
		sent, first = append(sent, int64(i)*1e8), append(first, int64(i)*1e8+5e7)
	}
	if got := w.WithTau(Load{Turns: turns(sent, first), Waiting: math.NaN()}).Tau; !near(got, 0.45, 1e-6) {
		t.Errorf("u = 0.5 at 10 turns a second suggests 1.5*(1.5/0.25)*0.5/10 = 0.45 s, not %v", got)
	}
	if got := w.WithTau(Load{Turns: turns(sent, first), Waiting: 0.64}).Tau; !near(got, 1.5*1.8/0.04*0.08, 1e-6) {
		t.Errorf("telemetry with u = 0.8: %v", got)
	}
	if got := w.WithTau(Load{Turns: turns(sent, first), Waiting: 1, Longest: 5}).Tau; !near(got, 2.5, 1e-6) {
		t.Errorf("a closed loop remembers %v s", got)
	}
	if got := w.WithTau(Load{Turns: turns(sent[:30], first[:30]), Waiting: 0}).Tau; !math.IsNaN(got) {
		t.Errorf("thirty turns know their relaxation time: %v", got)
	}
	var amounts []float64
	var moments []int64
	for i := range 600 {
		amounts, moments = append(amounts, 2), append(moments, int64(i)*1e8)
	}
	if r := Rate(amounts, moments, w); !near(r.Value, 20, 1e-12) || !near(r.Low, 20, 1e-9) || !near(r.High, 20, 1e-9) {
		t.Errorf("a steady rate: %+v", r)
	}
}

// A sample that is counted in blocks says what the sample itself says, to the width of a bucket.
func TestSummarizeBlocksEqualsSummarize(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	w := Window{From: 0, To: 600e9, Tau: 0.5}
	var in Sample
	var blocks [Blocks]Histogram
	var all Histogram
	for i := range 40_000 {
		at := int64(float64(i) / 40_000 * 600e9)
		v := math.Exp(0.5*r.NormFloat64() + math.Sin(float64(i)/3000))
		in.Values, in.Moments, in.Cluster = append(in.Values, v), append(in.Moments, at), append(in.Cluster, int32(i))
		blocks[w.BlockOf(at)].AddAll([]float64{v})
		all.Add(v)
	}
	qs := []float64{0.5, 0.9, 0.99}
	var s Scratch
	want, got := s.Summarize(in, qs, w, false), SummarizeBlocks(&all, &blocks, qs, w, 40_000, 40_000, false)
	if got.N != want.N || !near(got.Mean.Value, want.Mean.Value, 1e-9) || !near(got.Std, want.Std, 1e-9) || got.Min != want.Min || got.Max != want.Max {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range qs {
		g, e := got.Quantiles[i], want.Quantiles[i]
		for _, v := range [][2]float64{{g.Value, e.Value}, {g.Lower, e.Lower}, {g.Upper, e.Upper}, {g.Low, e.Low}, {g.High, e.High}} {
			if !(near(v[0], v[1], 2e-3) || v[0] != v[0] && v[1] != v[1]) { // bounds lie on order statistics, which move by the effective size
				t.Errorf("q%v: got %+v, want %+v", qs[i], g, e)
				break
			}
		}
		if !near(g.Value, e.Value, RelativeError) || !near(g.Effective, e.Effective, 0.05) || g.Carried != e.Carried {
			t.Errorf("q%v: got %+v, want %+v", qs[i], g, e)
		}
	}
}

// Clusters that arrive at random: their rate's interval covers it, and counting the members as if each came by
// itself does not.
func TestClusterRate(t *testing.T) {
	const rate, seconds, members = 0.5, 600.0, 7 // of clusters; 1 to 7 in each
	w := Window{To: int64(seconds * 1e9), Tau: 1}
	r := rand.New(rand.NewPCG(1, 2))
	truth := rate * (members + 1) / 2
	covered, alone := 0, 0
	const runs = 2000
	for range runs {
		var clusters, single []float64
		for at := r.ExpFloat64() / rate; at < seconds; at += r.ExpFloat64() / rate {
			n := 1 + r.IntN(members)
			clusters = append(clusters, float64(n))
			for range n {
				single = append(single, 1)
			}
		}
		if i := w.ClusterRate(clusters); i.Low <= truth && truth <= i.High {
			covered++
		}
		if i := w.ClusterRate(single); i.Low <= truth && truth <= i.High {
			alone++
		}
	}
	if share := float64(covered) / runs; share < 0.935 || share > 0.965 {
		t.Errorf("intervals of clusters cover the rate in %.1f %%, want 95 %%", 100*share)
	}
	if share := float64(alone) / runs; share > 0.75 {
		t.Errorf("intervals that take members for independent cover it in %.1f %%: the test shows nothing", 100*share)
	}
	w.Tau = 600
	if w.ClusterRate([]float64{1, 2, 3}).Known() {
		t.Error("a window of one relaxation time has an interval")
	}
}

// Stretches together: the rate is that of all time, and its variance that of independent parts.
func TestJoinRates(t *testing.T) {
	of := func(value, half float64) Estimate {
		return Estimate{Value: value, Interval: Interval{value - half, value + half}}
	}
	got := JoinRates([]Estimate{of(10, 3), of(20, 4)}, []float64{0.5, 0.5})
	if want := (Interval{15 - 2.5, 15 + 2.5}); math.Abs(got.Low-want.Low) > 1e-12 || math.Abs(got.High-want.High) > 1e-12 {
		t.Errorf("two stretches give %v, want %v", got, want)
	}
	if got := JoinRates([]Estimate{of(10, 3), {Value: 20, Interval: Unknown}}, []float64{0.5, 0.5}); got.Known() {
		t.Errorf("a stretch without an interval gives %v, want none", got)
	}
}

func turns(sent, first []int64) iter.Seq2[int64, int64] {
	return func(yield func(sent, first int64) bool) {
		for i, s := range sent {
			if !yield(s, first[i]) {
				return
			}
		}
	}
}
