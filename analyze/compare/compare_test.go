package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley/schemas"
)

var figureNames = []string{"ttft", "tpot", "e2e", "itl"}

// side makes n runs of 400 turns whose TTFT is factor times that of the dataset, with a mood of each run and
// noise of each turn; change may alter a run.
func side(seed uint64, n int, factor, mood float64, change func(i int, r *Run)) []Run {
	var out []Run
	for i := range n {
		data, own := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(seed, uint64(i)))
		r := Run{
			Label: "side", RunID: fmt.Sprint(seed, i), Grade: schemas.Valid, Pair: Pair{Dataset: "d", Repeat: i, Seed: uint64(i)},
			Latency: map[string][]float64{}, Figures: map[string]Figure{},
		}
		m := factor * math.Exp(mood*own.NormFloat64())
		for t := range 400 {
			v := 100 * m * math.Exp(0.5*data.NormFloat64()+0.1*own.NormFloat64())
			r.Turns = append(r.Turns, Turn{fmt.Sprint(t / 4), 0, int64(t % 4)})
			r.Latency["ttft"] = append(r.Latency["ttft"], v)
			r.Latency["e2e"] = append(r.Latency["e2e"], v+500)
		}
		r.Figures["request_throughput"] = Value(10 / m)
		r.Figures["error_rate"] = ShareOf(0, 400, 0)
		if change != nil {
			change(i, &r)
		}
		out = append(out, r)
	}
	return out
}

func (c *Comparison) find(t *testing.T, name string) *Difference {
	t.Helper()
	i := c.row(name)
	if i < 0 {
		t.Fatalf("no row %s", name)
	}
	return &c.Rows[i]
}

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(i int, r *Run)
		n      int
		paired bool
		alone  int
	}{
		{"all", nil, 4, true, 0},
		{"in another order", func(i int, r *Run) { r.Pair.Repeat, r.Pair.Seed = 3-i, uint64(3-i) }, 4, true, 0},
		{"one is missing", nil, 3, true, 1},
		{"other seeds", func(_ int, r *Run) { r.Pair.Seed += 9 }, 4, false, 0},
		{"another level", func(_ int, r *Run) { r.Pair.Level = "rate=2" }, 4, false, 0},
		{"another dataset", func(_ int, r *Run) { r.Pair.Dataset = "e" }, 4, false, 0},
		{"an unknown dataset", func(_ int, r *Run) { r.Pair.Dataset = "" }, 4, false, 0},
		{"only one of four", func(i int, r *Run) { r.Pair.Repeat *= 5 }, 4, false, 0},
	} {
		s := newSides(side(1, 4, 1, 0.01, nil), side(2, c.n, 1, 0.01, c.change))
		if s.paired != c.paired || len(s.alone) != c.alone {
			t.Errorf("%s: paired %v (%s), %d alone", c.name, s.paired, s.why, len(s.alone))
		}
		if c.paired {
			for i := range s.base {
				if s.base[i].Pair != s.cand[i].Pair {
					t.Errorf("%s: pair %d is %+v with %+v", c.name, i, s.base[i].Pair, s.cand[i].Pair)
				}
			}
		}
	}
}

// Latencies are over the turns that all runs have, so that a run that lost its slow turns is not the faster.
func TestCommonTurns(t *testing.T) {
	lostSlow := func(i int, r *Run) {
		slow := func(k int) bool { return r.Latency["ttft"][k] > 100 }
		var turns []Turn
		latency := map[string][]float64{}
		for k, turn := range r.Turns {
			if i == 0 && slow(k) {
				continue
			}
			turns = append([]Turn{turn}, turns...) // in another order, too
			for name, v := range r.Latency {
				latency[name] = append([]float64{v[k]}, latency[name]...)
			}
		}
		r.Turns, r.Latency = turns, latency
	}
	c := New(side(1, 3, 1, 0, nil), side(2, 3, 1, 0, lostSlow))
	if c.Common < 100 || c.Common > 300 || c.Most != 400 {
		t.Errorf("%d of %d turns in common", c.Common, c.Most)
	}
	for _, name := range []string{"ttft.mean", "ttft.p50", "ttft.turns"} {
		if r := float64(c.find(t, name).Ratio); math.Abs(r-1) > 0.02 {
			t.Errorf("%s: ratio %v of equal servers", name, r)
		}
	}
	other := func(_ int, r *Run) { r.Pair.Dataset = "e" }
	c = New(side(1, 3, 1, 0, nil), side(2, 3, 1, 0, other))
	if c.Common != 0 || !slices.ContainsFunc(c.Notes, func(n string) bool { return strings.Contains(n, "no turns in common") }) || !c.find(t, "ttft.p50").Tested {
		t.Errorf("of two datasets: %d in common, %q", c.Common, c.Notes)
	}
	if c.row("ttft.turns") >= 0 {
		t.Error("turns of two datasets are compared turn by turn")
	}
}

// A turn without a value in one run of a pair counts in neither.
func TestTurnsWithoutAValue(t *testing.T) {
	c := New(side(1, 2, 1, 0, nil), side(2, 2, 1, 0, func(_ int, r *Run) {
		for k := range r.Latency["ttft"] {
			if r.Latency["ttft"][k] > 100 {
				r.Latency["ttft"][k] = math.NaN()
			}
		}
	}))
	if d := c.find(t, "ttft.p99"); float64(d.Baseline) > 130 || !d.Tested {
		t.Errorf("%+v", d)
	}
	if d := c.find(t, "e2e.p99"); float64(d.Baseline) < 600 {
		t.Errorf("%+v", d)
	}
	// A side that does not know the figure at all.
	c = New(side(1, 2, 1, 0, nil), side(2, 2, 1, 0, func(_ int, r *Run) { delete(r.Figures, "request_throughput") }))
	if d := c.find(t, "request_throughput"); d.Tested || d.Candidate.Known() || !d.Baseline.Known() {
		t.Errorf("%+v", d)
	}
}

func TestDirections(t *testing.T) {
	for _, x := range []struct {
		factor         float64
		slower, faster bool
		headline       string
	}{
		{1.1, true, false, "WORSE beyond chance"},
		{1 / 1.1, false, true, "BETTER beyond chance"},
		{1, false, false, "No difference beyond chance"},
	} {
		c := New(side(1, 6, 1, 0.005, nil), side(2, 6, x.factor, 0.005, nil))
		if c.Slower != x.slower || c.Faster != x.faster || c.Headline() != x.headline {
			t.Errorf("%v: slower %v, faster %v, %q", x.factor, c.Slower, c.Faster, c.Headline())
		}
		if d := c.find(t, "request_throughput"); x.slower && (!d.Worse || !d.Changed) || x.faster && (d.Worse || !d.Changed) {
			t.Errorf("%+v", d)
		}
		if d := c.PrimaryRow(); d == nil || d.Name != "ttft.turns" || math.Abs(float64(d.Ratio)-x.factor) > 0.02 ||
			x.factor != 1 && !(float64(d.RatioLow) < x.factor && x.factor < float64(d.RatioHigh)) {
			t.Errorf("%v: primary %+v", x.factor, d)
		}
		if d := c.find(t, "error_rate"); !d.Tested || d.P != 1 || d.Diff != 0 {
			t.Errorf("%+v: nothing failed anywhere", d)
		}
	}
}

// The throughput of an open loop is its schedule's: the same in a pair to the last digits, which are no
// difference.
func TestRoundingIsNoDifference(t *testing.T) {
	rate := func(scale float64) func(i int, r *Run) {
		return func(i int, r *Run) { r.Figures["request_throughput"] = Value((5 + float64(i)/7) * scale) }
	}
	c := New(side(1, 4, 1, 0, rate(1)), side(2, 4, 1, 0, rate(1+2e-16)))
	if d := c.find(t, "request_throughput"); d.P != 1 || d.Changed || d.Alone {
		t.Errorf("%+v", d)
	}
	c = New(side(1, 4, 1, 0, rate(1)), side(2, 4, 1, 0, rate(1.01)))
	if d := c.find(t, "request_throughput"); !(d.P < 1e-6) || !d.Changed {
		t.Errorf("%+v", d)
	}
}

// All figures of all comparisons together raise a false alarm in one of twenty at most.
func TestDecideTogether(t *testing.T) {
	row := func(p float64) Difference { return Difference{Tested: true, P: Num(p), Worse: true} }
	a, b := &Comparison{Rows: []Difference{row(0.011), row(0.5)}}, &Comparison{Rows: []Difference{row(0.02), row(0.9), {P: 0}}}
	Decide(a)
	if !a.Rows[0].Changed || !a.Slower {
		t.Errorf("alone: %+v", a)
	}
	Decide(a, b)
	if !a.Rows[0].Changed || b.Rows[0].Changed || !b.Rows[0].Alone || b.Slower || b.Rows[2].Changed || b.Rows[2].Alone {
		t.Errorf("together: %+v, %+v", a, b)
	}
}

// The interval of a description has the distances of both runs' own intervals, squared and added.
func TestDescription(t *testing.T) {
	with := func(f Figure) func(int, *Run) { return func(_ int, r *Run) { r.Figures["ttft.p50"] = f } }
	c := New(side(1, 1, 1, 0, with(Figure{Value: 100, Low: 90, High: 110})), side(2, 1, 1, 0, with(Figure{Value: 120, Low: 110, High: 132})))
	d := c.find(t, "ttft.p50")
	low := 1.2 * math.Exp(-math.Hypot(math.Log(120.0/110), math.Log(110.0/100)))
	high := 1.2 * math.Exp(math.Hypot(math.Log(132.0/120), math.Log(100.0/90)))
	if d.Tested || d.P.Known() || math.Abs(float64(d.RatioLow)-low) > 1e-12 || math.Abs(float64(d.RatioHigh)-high) > 1e-12 {
		t.Errorf("%+v, want %v to %v", d, low, high)
	}
	if !strings.Contains(c.Why, "several runs a side") || c.Headline() != "A description, not tested" {
		t.Errorf("%q, %q", c.Why, c.Headline())
	}
	nan := math.NaN()
	c = New(side(1, 1, 1, 0, with(Figure{Value: 100, Low: nan, High: nan})), side(2, 1, 1, 0, with(Figure{Value: 120, Low: 110, High: 132})))
	if d := c.find(t, "ttft.p50"); d.RatioLow.Known() || d.RatioHigh.Known() || d.Ratio != 1.2 {
		t.Errorf("a run too short for an interval: %+v", d)
	}
}

func TestNotesSayWhatToKnow(t *testing.T) {
	c := New(side(1, 2, 1, 0, nil), side(2, 2, 1, 0, func(i int, r *Run) {
		r.Simulated = true
		r.Label = fmt.Sprint("x", i)
		if i == 1 {
			r.Grade = schemas.Invalid
		}
	}))
	if !strings.HasSuffix(c.Headline(), "1 of 4 are INVALID") {
		t.Errorf("headline %q", c.Headline())
	}
	all := strings.Join(c.Notes, "\n")
	for _, want := range []string{"INVALID: x1 (repeat 1, seed 1)", "simulated server"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q says nothing of %q", all, want)
		}
	}
}
