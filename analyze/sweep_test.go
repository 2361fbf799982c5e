package analyze

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestSweepPareto(t *testing.T) {
	rows := []SweepRow{
		{Label: "slow", OutputTokens: 100, PerUser: 10},
		{Label: "fast", OutputTokens: 100, PerUser: 50},
		{Label: "wide", OutputTokens: 500, PerUser: 20},
		{Label: "same", OutputTokens: 500, PerUser: 20},
		{Label: "worse", OutputTokens: 400, PerUser: 20},
		{Label: "unknown", OutputTokens: Missing, PerUser: 90},
	}
	markPareto(rows)
	got := ""
	for _, r := range rows {
		got += fmt.Sprintf("%s %v, ", r.Label, r.Pareto)
	}
	if want := "slow false, fast true, wide true, same true, worse false, unknown false, "; got != want {
		t.Errorf("%s", got)
	}
}

func TestSpreadOverRunsOfOneLabel(t *testing.T) {
	o := Options{Figures: scalarFigures, Window: WindowSpec{Kind: WindowAll}}
	var all Runs
	for noise := range uint64(3) {
		r := memoryRun(t, pairSpec(1, noise), o)
		r.list[0].label = "same"
		all.list = append(all.list, r.list...)
	}
	res, err := Analyze(t.Context(), &all, o)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(res.Sweep.Labels, func(s Spread) bool { return s.Name == "ttft.p50" })
	if i < 0 {
		t.Fatalf("no spread: %+v", res.Sweep.Labels)
	}
	var want float64
	for _, r := range res.Runs {
		want += math.Log(medianOf(&r.Total, "ttft")) / 3
	}
	want = math.Exp(want)
	if s := res.Sweep.Labels[i]; s.Runs != 3 || !near(float64(s.Mean), want) || s.Low >= s.Mean || s.CV <= 0 {
		t.Errorf("%+v, want mean %v", s, want)
	}
}
