package analyze

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/analyze/compare"
	"parley/analyze/internal/synth"
	"parley/schemas"
)

// scalarFigures are figures that do not need chunk lists.
var scalarFigures = []string{"ttft", "tpot", "e2e", "send_lag"}

// memoryRun makes a run of rows in memory, with the columns that options need.
func memoryRun(t testing.TB, s synth.Spec, o Options) *Runs {
	t.Helper()
	meta := synth.Meta(s)
	var rows []schemas.Request
	for r := range synth.Rows(s) {
		rows = append(rows, *r)
	}
	return runOfRows(t, rows, meta, o)
}

func runOfRows(t testing.TB, rows []schemas.Request, meta *schemas.RunMeta, o Options) *Runs {
	t.Helper()
	meta.Planned = int64(len(rows))
	r := &run{meta: *meta, parts: []*part{{meta: *meta, memory: rows}}}
	if err := r.join(); err != nil {
		t.Fatal(err)
	}
	r.label = meta.RunID
	return &Runs{list: []*run{r}}
}

func memoryRuns(t testing.TB, o Options, specs ...synth.Spec) *Runs {
	t.Helper()
	all := &Runs{}
	for i, s := range specs {
		s.Repeat = i
		all.list = append(all.list, memoryRun(t, s, o).list...)
	}
	return all
}

func pairSpec(seed, noise uint64) synth.Spec {
	return synth.Spec{Seed: seed, Noise: noise, Conversations: 250, Turns: 7, Slots: 32, TTFT: 60, Gap: 8, Spread: 0.25, Shared: 0.15, Chunks: 8}
}

// repeats gives n specs of one dataset with noises of their own.
func repeats(n int, noise uint64, change func(*synth.Spec)) []synth.Spec {
	out := make([]synth.Spec, n)
	for i := range out {
		out[i] = pairSpec(1, noise+uint64(i))
		if change != nil {
			change(&out[i])
		}
	}
	return out
}

func slowerBy(factor float64) func(*synth.Spec) { return func(s *synth.Spec) { s.Slower = factor } }

var compareOptions = Options{Figures: scalarFigures, Window: WindowSpec{Kind: WindowAll}, NoIntervals: true, Objectives: []Objective{{"ttft", 100}}}

func compared(t *testing.T, o Options, base, cand *Runs) *Result {
	t.Helper()
	o.Baseline = base
	res, err := Analyze(t.Context(), cand, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestSeveralRunsASide(t *testing.T) {
	o := compareOptions
	for _, c := range []struct {
		name   string
		factor float64
		paired bool
		slower bool
		faster bool
	}{
		{"equal, pairs", 1, true, false, false},
		{"5 % slower, pairs", 1.05, true, true, false},
		{"5 % faster, pairs", 1 / 1.05, true, false, true},
		{"20 % slower, not pairs", 1.2, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, cand := memoryRuns(t, o, repeats(5, 100, nil)...), memoryRuns(t, o, repeats(5, 200, slowerBy(c.factor))...)
			if !c.paired {
				for _, r := range cand.list {
					r.meta.Seed += 77
				}
			}
			got := compared(t, o, base, cand).Comparisons[0]
			if !got.Tested || got.Paired != c.paired || got.Slower != c.slower || got.Faster != c.faster {
				t.Errorf("tested %v, paired %v (%s), slower %v, faster %v", got.Tested, got.Paired, got.Why, got.Slower, got.Faster)
			}
			if got.Common == 0 || got.Common != got.Most {
				t.Errorf("%d turns in common, of up to %d", got.Common, got.Most)
			}
			for _, name := range []string{"ttft.p50", "tpot.mean", "e2e.p99", "request_throughput", "output_throughput", "error_rate", "goodput_share"} {
				i := slices.IndexFunc(got.Rows, func(d compare.Difference) bool { return d.Name == name })
				if i < 0 || !got.Rows[i].Tested || !got.Rows[i].P.Known() {
					t.Errorf("%s is not tested", name)
				}
			}
			if want := map[bool]string{true: "ttft.turns", false: "ttft.mean"}[c.paired]; got.Primary != want {
				t.Errorf("the primary figure is %q, want %s", got.Primary, want)
			}
		})
	}
}

// One run a side is described: nothing is beyond chance, however large the difference.
func TestOneRunASideIsADescription(t *testing.T) {
	o := compareOptions
	o.NoIntervals = false
	for _, n := range []int{1, 3} {
		got := compared(t, o, memoryRuns(t, o, repeats(n, 100, nil)...), memoryRuns(t, o, repeats(1, 200, slowerBy(2))...)).Comparisons[0]
		if got.Tested || got.Slower || got.Faster || got.Primary != "" || got.Bad() {
			t.Errorf("%d runs against one: %+v", n, got)
		}
		if strings.Contains(got.Headline(), "beyond") {
			t.Errorf("headline %q", got.Headline())
		}
		for _, d := range got.Rows {
			if d.Tested || d.Changed || d.Alone || d.P.Known() {
				t.Errorf("%+v is tested", d)
			}
		}
	}
}

func TestComparisonByLevel(t *testing.T) {
	o := compareOptions
	side := func(noise uint64, factor float64) *Runs {
		all := &Runs{}
		for _, level := range []string{"concurrency=16", "concurrency=32"} {
			for _, r := range memoryRuns(t, o, repeats(3, noise, slowerBy(factor))...).list {
				r.meta.Level = level
				all.list = append(all.list, r)
			}
		}
		return all
	}
	g, err := ParseGate("ttft.p50 < +5%")
	if err != nil {
		t.Fatal(err)
	}
	o.Gates = []compare.Spec{g}
	res := compared(t, o, side(1, 1), side(50, 1.1))
	if len(res.Comparisons) != 2 || res.Comparisons[0].Level != "concurrency=16" || !res.Comparisons[1].Slower || len(res.Gates) != 2 {
		t.Errorf("%d comparisons, gates %+v", len(res.Comparisons), res.Gates)
	}
	base := side(1, 1)
	base.list = base.list[:3]
	res = compared(t, o, base, side(50, 1.1))
	if len(res.Comparisons) != 1 || len(res.Gates) != 2 || res.Gates[1].Outcome != compare.Undecided || len(res.Warnings) != 1 {
		t.Errorf("a level without a baseline: %d comparisons, gates %+v, warnings %+v", len(res.Comparisons), res.Gates, res.Warnings)
	}
	for _, r := range base.list {
		r.meta.Level = "concurrency=8"
	}
	o.Baseline = base
	if _, err := Analyze(t.Context(), side(50, 1), o); err == nil || !strings.Contains(err.Error(), "concurrency=32") {
		t.Errorf("error: %v", err)
	}
}

func TestComparisonSaysWhatChanged(t *testing.T) {
	o := compareOptions
	base, cand := memoryRuns(t, o, repeats(2, 1, nil)...), memoryRuns(t, o, repeats(2, 5, func(s *synth.Spec) { s.Slots = 64 })...)
	for i, r := range slices.Concat(base.list, cand.list) {
		r.meta.Simulated = true
		r.meta.Targets[0].URL = fmt.Sprintf("http://127.0.0.1:%d", 40000+i)
	}
	for _, r := range cand.list {
		r.meta.Config = []byte(`{"concurrency":64,"seed":1,"simulated_servers":["sim:?ttft=50ms&slots=8"]}`)
	}
	got := compared(t, o, base, cand).Comparisons[0]
	want := []compare.ConfigChange{{Setting: "config.concurrency", Baseline: "32", Candidate: "64"}, {Setting: "config.simulated_servers", Candidate: "sim:?ttft=50ms&slots=8"}}
	if !slices.Equal(got.Config, want) {
		t.Errorf("config changes: %+v", got.Config)
	}
}

func TestGatesAgainstRuns(t *testing.T) {
	o := compareOptions
	o.NoIntervals = false
	base, cand := memoryRuns(t, o, repeats(5, 1, nil)...), memoryRuns(t, o, repeats(5, 50, slowerBy(1.2))...)
	for expression, want := range map[string]compare.Outcome{
		"ttft.p50 < +5%":            compare.Failed,
		"ttft.turns < +5%":          compare.Failed,
		"ttft.turns < +30%":         compare.Held,
		"ttft.p50 < +50%":           compare.Held,
		"ttft.p50 > -5%":            compare.Held,
		"ttft.p99 < +100ms":         compare.Held,
		"ttft.p50 < 1s":             compare.Held,
		"ttft.p50 < 1ms":            compare.Failed,
		"error_rate < 1%":           compare.Held,
		"error_rate <= 0":           compare.Held,
		"error_rate < +1%":          compare.Held,
		"request_throughput > 1":    compare.Held,
		"output_throughput > -50%":  compare.Held,
		"tpot.mean < +10%":          compare.Failed,
		"e2e.max > 0s":              compare.Held,
		"goodput_share > 50%":       compare.Held,
		"cache_reuse > 10%":         compare.Failed, // the server does not say: it has not met the gate
		"total_throughput > +1000%": compare.Failed,
		"verdict >= SUSPECT":        compare.Held,
	} {
		g, err := ParseGate(expression)
		if err != nil {
			t.Error(err)
			continue
		}
		o.Gates = []compare.Spec{g}
		res := compared(t, o, base, cand)
		if got := res.Gates[0]; got.Outcome != want || got.Text == "" {
			t.Errorf("%s: %+v, want %v", expression, got, want)
		}
	}
}

// A gate on a figure that was not asked for has it worked out.
func TestGateAddsItsFigure(t *testing.T) {
	g, err := ParseGate("e2e.p99.9 < 100s")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Figures: []string{"ttft"}, Gates: []compare.Spec{g}}.withDefaults()
	if !slices.Contains(o.Figures, "e2e") || !slices.Contains(o.Percentiles, 99.9) {
		t.Errorf("%+v", o)
	}
}

func TestRelativeGateNeedsBaseline(t *testing.T) {
	g, err := ParseGate("ttft.p50 < +5%")
	if err != nil {
		t.Fatal(err)
	}
	if err := (Options{Gates: []compare.Spec{g}}).Validate(); err == nil || !strings.Contains(err.Error(), "--baseline") {
		t.Errorf("error: %v", err)
	}
}

// Without a baseline, gates take the repeats of a level together, and runs that have nothing in common by
// themselves.
func TestGatesByGroup(t *testing.T) {
	g, err := ParseGate("ttft.p50 < 1s")
	if err != nil {
		t.Fatal(err)
	}
	o := compareOptions
	o.Gates = []compare.Spec{g}
	for _, c := range []struct {
		name   string
		change func(i int, r *run)
		gates  int
	}{
		{"of no plan", func(i int, r *run) { r.label = fmt.Sprint(i) }, 4},
		{"of two labels", func(i int, r *run) { r.label = fmt.Sprint("l", i/2); r.meta.Label = r.label }, 2},
		{"of one level", func(i int, r *run) { r.meta.Level, r.meta.Plan = "rate=1", "p" }, 1},
		{"of four levels", func(i int, r *run) { r.meta.Level, r.meta.Plan = fmt.Sprint("rate=", i), "p" }, 4},
	} {
		runs := memoryRuns(t, o, repeats(4, 9, nil)...)
		for i, r := range runs.list {
			c.change(i, r)
		}
		res, err := Analyze(t.Context(), runs, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Gates) != c.gates {
			t.Errorf("runs %s: %d gates, want %d", c.name, len(res.Gates), c.gates)
		}
	}
}
