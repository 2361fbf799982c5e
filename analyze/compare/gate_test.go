package compare

import (
	"math"
	"strings"
	"testing"

	"parley/schemas"
)

func gate(t *testing.T, text string) Spec {
	t.Helper()
	g, err := ParseGate(text, figureNames)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// percentileFigure is a percentile of a run with its one-sided bounds.
func percentileFigure(value, lower, upper, n, effective float64) Figure {
	return Figure{Value: value, Low: math.NaN(), High: math.NaN(), Lower: lower, Upper: upper, N: n, Effective: effective}
}

func TestGateOfOneRun(t *testing.T) {
	nan := math.NaN()
	interval := func(v, low, high float64) Figure {
		return Figure{Value: v, Low: low, High: high, Lower: nan, Upper: nan, N: 500}
	}
	for _, c := range []struct {
		gate   string
		figure Figure
		want   Outcome
		says   string // in the text
	}{
		// The bound decides, not the value.
		{"ttft.p99 < 10s", percentileFigure(350, 300, 364, 2000, 500), Held, "at least|300 ms to 364 ms"},
		{"ttft.p99 < 360ms", percentileFigure(350, 300, 364, 2000, 500), Undecided, "more turns"},
		{"ttft.p99 < 300ms", percentileFigure(350, 300, 364, 2000, 500), Failed, ""},
		{"ttft.p99 <= 300ms", percentileFigure(350, 300, 364, 2000, 500), Undecided, ""},
		{"ttft.p99 > 200ms", percentileFigure(350, 300, 364, 2000, 500), Held, ""},
		{"ttft.p99 > 400ms", percentileFigure(350, 300, 364, 2000, 500), Failed, ""},
		{"ttft.p99 > 320ms", percentileFigure(350, 300, 364, 2000, 500), Undecided, ""},
		// Too few turns bound it from below only: 199 more independent ones, each worth 4 turns.
		{"ttft.p99 < 10s", percentileFigure(350, 300, nan, 400, 100), Undecided, "at least 300 ms); wanted < 10000 ms; it would take about 796 more turns like these"},
		{"ttft.p99 < 200ms", percentileFigure(350, 300, nan, 400, 100), Failed, ""},
		{"ttft.mean < 100ms", interval(90, 85, 95), Held, ""},
		{"ttft.mean < 92ms", interval(90, 85, 95), Undecided, "about 7 times as long"},
		{"ttft.mean < 84ms", interval(90, 85, 95), Failed, ""},
		{"ttft.mean < 100ms", interval(90, nan, nan), Undecided, "a longer run, or several"},
		{"ttft.mean < 80ms", interval(90, nan, nan), Undecided, ""},
		{"ttft.mean < 80ms", Figure{Value: 90, Low: nan, High: nan, LongFrom: 1234}, Undecided, "it would take a window of 1,300 s, or several runs"},
		{"request_throughput > 10", interval(12, 11, 13), Held, ""},
		{"request_throughput > 12.5", interval(12, 11, 13), Undecided, ""},
		{"request_throughput > 14", interval(12, 11, 13), Failed, ""},
		// Extremes are of the run itself.
		{"ttft.max < 1s", Value(900), Held, ""},
		{"ttft.max < 1s", Value(1000), Failed, ""},
		// Of 2,000 turns none failed: the true rate is under 0.15 % (1 - 0.05^(1/2000)).
		{"error_rate < 1%", ShareOf(0, 2000, 0), Held, "0 % to 0.1497 %"},
		{"error_rate < 1%", ShareOf(0, 2000, 200), Undecided, "more turns"},
		{"error_rate < 1%", ShareOf(0, 40, 0), Undecided, "about 260 more turns"},
		{"error_rate < 1%", ShareOf(5, 40, 0), Failed, ""},
		{"error_rate <= 0", ShareOf(0, 40, 0), Held, ""},
		{"error_rate <= 0", ShareOf(1, 40, 0), Failed, ""},
		{"goodput_share > 90%", ShareOf(1990, 2000, 0), Held, ""},
		{"goodput_share > 99.6%", ShareOf(1990, 2000, 0), Undecided, ""},
		// What is not known fails.
		{"ttft.p50 < 1s", Value(nan), Failed, "ttft.p50 of side is not known"},
	} {
		g := gate(t, c.gate)
		runs := side(1, 1, 1, 0, func(_ int, r *Run) { r.Figures[g.name()] = c.figure })
		got := g.Check(runs, nil)
		if got.Outcome != c.want {
			t.Errorf("%s of %+v is %s, want %s: %s", c.gate, c.figure, got.Outcome, c.want, got.Text)
		}
		ok := c.says == ""
		for _, s := range strings.Split(c.says, "|") {
			ok = ok || strings.Contains(got.Text, s)
		}
		if !ok {
			t.Errorf("%s: %q does not say %q", c.gate, got.Text, c.says)
		}
		if (got.Needs != "") != (got.Outcome == Undecided) {
			t.Errorf("%s is %s and needs %q", c.gate, got.Outcome, got.Needs)
		}
		runs[0].Grade = schemas.Invalid
		if got := g.Check(runs, nil); got.Outcome != Undecided || !strings.Contains(got.Text, "INVALID") {
			t.Errorf("%s on an INVALID run is %s: %s", c.gate, got.Outcome, got.Text)
		}
	}
}

func TestGateOfRuns(t *testing.T) {
	values := func(name string, list ...float64) []Run {
		return side(1, len(list), 1, 0, func(i int, r *Run) { r.Figures[name] = Value(list[i]) })
	}
	for _, c := range []struct {
		gate string
		runs []Run
		want Outcome
		says string
	}{
		{"ttft.p99 < 120ms", values("ttft.p99", 100, 104, 98, 101), Held, "over 4 runs"},
		{"ttft.p99 < 103ms", values("ttft.p99", 100, 104, 98, 101), Undecided, "about 4 more runs like these"},
		{"ttft.p99 < 90ms", values("ttft.p99", 100, 104, 98, 101), Failed, ""},
		{"ttft.max < 103ms", values("ttft.max", 100, 104, 98, 101), Failed, "104 ms in the worst of 4"},
		{"ttft.min > 97ms", values("ttft.min", 100, 104, 98, 101), Held, "98 ms in the worst of 4"},
		{"request_throughput > 9", values("request_throughput", 10, 10.2, 9.9), Held, ""},
		{"ttft.p99 < 1s", side(1, 3, 1, 0, nil), Failed, "not known"},
		// Three runs in which nothing failed: the turns of all of them bound the rate.
		{"error_rate < 1%", side(1, 3, 1, 0, nil), Held, ""},
		{"error_rate < 0.1%", side(1, 3, 1, 0, nil), Undecided, ""},
	} {
		g := gate(t, c.gate)
		got := g.Check(c.runs, nil)
		if got.Outcome != c.want || !strings.Contains(got.Text, c.says) {
			t.Errorf("%s is %s, want %s: %s", c.gate, got.Outcome, c.want, got.Text)
		}
	}
}

func TestRelativeGates(t *testing.T) {
	for _, c := range []struct {
		gate       string
		base, cand []Run
		want       Outcome
		says       string
	}{
		{"ttft.turns < +5%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, nil), Failed, "the same turns"},
		{"ttft.turns < +15%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, nil), Held, ""},
		{"ttft.p50 < +5%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, nil), Failed, "went from"},
		{"ttft.p95 < +100ms", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, nil), Held, ""},
		{"ttft.p95 < +1ms", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, nil), Failed, ""},
		{"request_throughput > -5%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.2, 0.01, nil), Failed, ""},
		{"request_throughput > -30%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.2, 0.01, nil), Held, ""},
		{"error_rate < +1%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.2, 0.01, nil), Held, ""},
		{"ttft.turns < +5%", side(1, 3, 1, 0.1, nil), side(2, 3, 1, 0.1, nil), Undecided, "more runs a side like these"},
		{"ttft.p50 < +5%", side(1, 1, 1, 0.01, nil), side(2, 1, 1.1, 0.01, nil), Undecided, "several runs on both sides"},
		{"ttft.p50 < +5%", side(1, 5, 1, 0.01, nil), side(2, 1, 1.1, 0.01, nil), Undecided, "several runs on both sides"},
		{"itl.p50 < +5%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, nil), Failed, "not known"},
		{"ttft.turns < +5%", side(1, 5, 1, 0.01, nil), side(2, 5, 1.1, 0.01, func(_ int, r *Run) { r.Pair.Seed = 99 }), Failed, "no pairs"},
	} {
		g := gate(t, c.gate)
		// One run a side knows its own figures only.
		for _, runs := range [][]Run{c.base, c.cand} {
			for i := range runs {
				runs[i].Figures["ttft.p50"] = Value(100)
			}
		}
		got := g.Check(c.cand, New(c.base, c.cand))
		if got.Outcome != c.want || !strings.Contains(got.Text, c.says) {
			t.Errorf("%s is %s, want %s: %s", c.gate, got.Outcome, c.want, got.Text)
		}
		c.base[0].Grade = schemas.Invalid
		if got := g.Check(c.cand, New(c.base, c.cand)); got.Outcome != Undecided {
			t.Errorf("%s against an INVALID baseline is %s", c.gate, got.Outcome)
		}
	}
	g := gate(t, "ttft.p50 < +5%")
	if got := g.Check(side(1, 2, 1, 0, nil), nil); got.Outcome != Undecided || got.Needs == "" {
		t.Errorf("without a baseline of the load: %+v", got)
	}
}

func TestVerdictGate(t *testing.T) {
	for _, c := range []struct {
		gate   string
		grades []schemas.Grade
		want   Outcome
	}{
		{"verdict >= SUSPECT", []schemas.Grade{schemas.Suspect}, Held},
		{"verdict >= SUSPECT", []schemas.Grade{schemas.Valid, schemas.Invalid}, Failed},
		{"verdict >= VALID", []schemas.Grade{schemas.Valid, schemas.Suspect}, Failed},
		{"verdict >= VALID", []schemas.Grade{schemas.Valid, schemas.Valid}, Held},
	} {
		g := gate(t, c.gate)
		if got := g.Check(side(1, len(c.grades), 1, 0, func(i int, r *Run) { r.Grade = c.grades[i] }), nil); got.Outcome != c.want {
			t.Errorf("%s of %v is %s: %s", c.gate, c.grades, got.Outcome, got.Text)
		}
	}
}

// What a gate says it would take does decide it.
func TestMoreRunsAreEnough(t *testing.T) {
	// 3 pairs whose differences spread by 0.1 around 0, with the limit at log(1.05).
	text := moreRuns(math.Log1p(0.05), 0.1, 3, 1, " a side")
	// t(17)*0.1/sqrt(18) = 0.0497 is more than log(1.05) = 0.0488, t(18)*0.1/sqrt(19) = 0.0482 less.
	if text != "about 16 more runs a side like these" {
		t.Errorf("%q", text)
	}
	if text := moreRuns(1e-9, 0.1, 3, 1, ""); !strings.Contains(text, "too close") {
		t.Errorf("%q", text)
	}
}

func TestShareBounds(t *testing.T) {
	// Clopper and Pearson's table: 2 of 10, each bound with 95 %.
	low, high := shareBounds(0.2, 10)
	if math.Abs(low-0.0368) > 1e-4 || math.Abs(high-0.5069) > 1e-4 {
		t.Errorf("2 of 10: %v to %v", low, high)
	}
	if low, high = shareBounds(0, 10); low != 0 || math.Abs(high-(1-math.Pow(0.05, 0.1))) > 1e-12 {
		t.Errorf("0 of 10: %v to %v", low, high)
	}
	if low, high = shareBounds(1, 10); high != 1 || math.Abs(low-math.Pow(0.05, 0.1)) > 1e-12 {
		t.Errorf("10 of 10: %v to %v", low, high)
	}
}
