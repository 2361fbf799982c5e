package analyze

import (
	"slices"
	"strings"
	"testing"

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
	names := slices.Compact(slices.Sorted(slices.Values(append(neededColumns(&o), baseColumns...))))
	f := &frame{table: &schemas.Table{}, names: names, rows: len(rows)}
	if err := f.table.AppendRows(rows, names...); err != nil {
		t.Fatal(err)
	}
	if err := f.derive(); err != nil {
		t.Fatal(err)
	}
	meta.Planned = int64(len(rows))
	r := &run{label: meta.RunID, meta: *meta, frame: f, rows: len(rows), parts: []*part{{meta: *meta, file: &schemas.File[schemas.Request]{}}}}
	return &Runs{list: []*run{r}}
}

func compareSpecs(t *testing.T, base, cand synth.Spec) *Comparison {
	t.Helper()
	o := Options{Figures: scalarFigures, Window: WindowSpec{Kind: WindowAll}, NoIntervals: true}
	o.Baseline = memoryRun(t, base, o)
	res, err := Analyze(t.Context(), memoryRun(t, cand, o), o)
	if err != nil {
		t.Fatal(err)
	}
	return res.Comparison
}

func pairSpec(seed, noise uint64) synth.Spec {
	return synth.Spec{Seed: seed, Noise: noise, Conversations: 250, Turns: 7, Slots: 32, TTFT: 60, Gap: 8, Spread: 0.25, Shared: 0.15, Chunks: 8}
}

// Two runs that differ by chance alone are called different in at most one of twenty comparisons, with
// and without pairs, and a slowdown of 5 % is found.
func TestComparisonAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation of hundreds of comparisons")
	}
	for _, c := range []struct {
		name       string
		sameData   bool
		slower     float64
		pairs      int
		least, max int // alarms
	}{
		{"equal, one dataset", true, 1, 200, 0, 10},
		{"equal, two datasets", false, 1, 200, 0, 10},
		{"5 % slower, one dataset", true, 1.05, 40, 40, 40},
		{"5 % slower, two datasets", false, 1.05, 40, 38, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			alarms, wrong := 0, 0
			for i := range uint64(c.pairs) {
				a, b := pairSpec(i, 1000+i), pairSpec(i, 5000+i)
				if !c.sameData {
					b.Seed += 100_000
				}
				b.Slower = c.slower
				got := compareSpecs(t, a, b)
				if got.Paired != c.sameData {
					t.Fatalf("paired: %v (%s)", got.Paired, got.Why)
				}
				if got.Slower || got.Faster {
					alarms++
				}
				if c.slower > 1 && got.Faster {
					wrong++
				}
			}
			t.Logf("%d alarms in %d comparisons", alarms, c.pairs)
			if alarms < c.least || alarms > c.max {
				t.Errorf("%d alarms in %d comparisons, want %d to %d", alarms, c.pairs, c.least, c.max)
			}
			if wrong > 1 {
				t.Errorf("%d times a slower run was called faster", wrong)
			}
		})
	}
}

func TestComparisonSaysWhatChanged(t *testing.T) {
	a, b := pairSpec(1, 1), pairSpec(1, 2)
	b.Slots = 64
	got := compareSpecs(t, a, b)
	if len(got.Config) != 1 || got.Config[0] != (ConfigChange{"config.concurrency", "32", "64"}) {
		t.Errorf("config changes: %+v", got.Config)
	}
	if got.Pairs == 0 || got.OnlyBase+got.OnlyCand != 0 {
		t.Errorf("%d pairs, %d and %d alone", got.Pairs, got.OnlyBase, got.OnlyCand)
	}
	for _, name := range []string{"ttft.p50", "ttft.pairs", "tpot.mean", "e2e.p99", "request_throughput", "error_rate"} {
		if !slices.ContainsFunc(got.Rows, func(d Difference) bool { return d.Name == name }) {
			t.Errorf("no row %s", name)
		}
	}
}

func TestComparisonNeedsOneRunEach(t *testing.T) {
	o := Options{Figures: scalarFigures}
	o.Baseline = memoryRun(t, pairSpec(1, 1), o)
	two := memoryRun(t, pairSpec(1, 2), o)
	two.list = append(two.list, memoryRun(t, pairSpec(1, 3), o).list...)
	if _, err := Analyze(t.Context(), two, o); err == nil || !strings.Contains(err.Error(), "one run") {
		t.Errorf("error: %v", err)
	}
}

func TestGatesAgainstRuns(t *testing.T) {
	a, b := pairSpec(1, 1), pairSpec(1, 2)
	b.Slower = 1.2
	for expression, held := range map[string]bool{
		"ttft.p50 < +5%":            false,
		"ttft.p50 < +50%":           true,
		"ttft.p50 > -5%":            true,
		"ttft.p99 < +100ms":         true,
		"ttft.p50 < 1s":             true,
		"ttft.p50 < 1ms":            false,
		"error_rate < 1%":           true,
		"error_rate <= 0":           true,
		"error_rate < +1%":          true,
		"request_throughput > 1":    true,
		"output_throughput > -50%":  true,
		"ttft.p99.9 < 1s":           false, // the sample does not carry it
		"itl.p99 < 1s":              false, // not worked out
		"tpot.mean < +10%":          false,
		"e2e.max > 0s":              true,
		"goodput_share > 50%":       true,
		"cache_reuse > 10%":         false, // the server does not say
		"total_throughput > +1000%": false,
	} {
		g, err := ParseGate(expression)
		if err != nil {
			t.Error(err)
			continue
		}
		o := Options{Figures: scalarFigures, Window: WindowSpec{Kind: WindowAll}, Gates: []GateSpec{g}, Objectives: []Objective{{"ttft", 100}}}
		o.Baseline = memoryRun(t, a, o)
		res, err := Analyze(t.Context(), memoryRun(t, b, o), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Gates[0]; got.Held != held || got.Text == "" {
			t.Errorf("%s: %+v, want %v", expression, got, held)
		}
	}
}

func TestRelativeGateNeedsBaseline(t *testing.T) {
	g, err := ParseGate("ttft.p50 < +5%")
	if err != nil {
		t.Fatal(err)
	}
	if err := (Options{Gates: []GateSpec{g}}).Validate(); err == nil || !strings.Contains(err.Error(), "--baseline") {
		t.Errorf("error: %v", err)
	}
}
