package analyze

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"parley/analyze/internal/synth"
	"parley/analyze/plots"
)

// A run whose columns do not fit in memory, and are read anew and worked out one after the other, gives the same
// figures to the last digit.
func TestColumnsReadAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.parquet")
	spec := synth.Spec{
		Seed: 3, Conversations: 300, Turns: 8, Slots: 16, TTFT: 60, Gap: 8, Spread: 0.4, Shared: 0.3, Chunks: 12, PerChunk: true, Cached: true,
		Failures: 0.05, Warmup: 100, Shed: 0.01, Looped: true, StopS: 40,
	}
	if _, err := synth.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	analyzed := func() (string, string) {
		runs, err := Load(context.Background(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		defer runs.Close()
		o := Options{By: []GroupSpec{{Column: "turn"}, {Column: "time"}}, Figures: FigureNames()}
		for _, s := range []string{"ttft=80ms", "tpot=9ms"} {
			slo, err := ParseObjective(s)
			if err != nil {
				t.Fatal(err)
			}
			o.Objectives = append(o.Objectives, slo)
		}
		res, err := Analyze(context.Background(), runs, o)
		if err != nil {
			t.Fatal(err)
		}
		plots, err := BuildPlots(context.Background(), runs, res, o, plots.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(plots)
		if err != nil {
			t.Fatal(err)
		}
		return string(a), string(b)
	}
	res, plots := analyzed()
	memory, many := columnMemory, manyRows
	t.Cleanup(func() { columnMemory, manyRows = memory, many })
	columnMemory, manyRows = 1, 1
	again, plotsAgain := analyzed()
	if res != again {
		t.Errorf("with columns read anew the result is\n%.2000s\nand without\n%.2000s", again, res)
	}
	if plots != plotsAgain {
		t.Error("with columns read anew, the plots differ")
	}
}
