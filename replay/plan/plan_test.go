package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/schemas"
)

func files(p *schemas.Plan) string {
	var names []string
	for _, r := range p.Runs {
		names = append(names, strings.TrimSuffix(r.File, ".parquet"))
	}
	return strings.Join(names, " ")
}

func TestLay(t *testing.T) {
	one, two := []schemas.PlanSide{{}}, []schemas.PlanSide{{Name: "a"}, {Name: "b"}}
	for _, tt := range []struct {
		order, load string
		levels      []float64
		repeats     int
		sides       []schemas.PlanSide
		want        string
	}{
		{Interleaved, "concurrency", []float64{1, 4, 16}, 2, one, "c0001.r1 c0004.r1 c0016.r1 c0016.r2 c0004.r2 c0001.r2"},
		{Ascending, "concurrency", []float64{1, 4}, 2, one, "c0001.r1 c0001.r2 c0004.r1 c0004.r2"},
		{Interleaved, "rate", []float64{0.5, 12}, 1, one, "rate0000.5.r1 rate0012.r1"},
		{Interleaved, "concurrency", []float64{16}, 3, two, "c0016.r1.a c0016.r1.b c0016.r2.b c0016.r2.a c0016.r3.a c0016.r3.b"},
	} {
		p := &schemas.Plan{Load: tt.load, Order: tt.order, Repeats: tt.repeats, Sides: tt.sides, Seed: 5}
		if err := Lay(p, tt.levels); err != nil || files(p) != tt.want {
			t.Errorf("%s of %v: %s (%v), want %s", tt.order, tt.levels, files(p), err, tt.want)
		}
		for _, r := range p.Runs {
			if r.Seed != 5+uint64(r.Repeat) {
				t.Errorf("%s has the seed %d", r.File, r.Seed)
			}
		}
	}
}

// TestBalance: whatever the order, each run of the plan is made once; interleaved, A comes first as often as B on every
// level of an even number of repeats.
func TestBalance(t *testing.T) {
	for _, order := range []string{Interleaved, Ascending, Random} {
		for levels := 1; levels < 6; levels++ {
			p := &schemas.Plan{Load: "concurrency", Order: order, Repeats: 4, Sides: []schemas.PlanSide{{Name: "a"}, {Name: "b"}}}
			list := []float64{1, 2, 4, 8, 16}[:levels]
			if err := Lay(p, list); err != nil {
				t.Fatal(err)
			}
			names := strings.Fields(files(p))
			slices.Sort(names)
			if n := len(slices.Compact(names)); n != levels*8 || len(p.Runs) != n {
				t.Errorf("%s of %d levels: %d runs, %d of them different", order, levels, len(p.Runs), n)
			}
			first := map[float64]int{}
			for i := 0; i < len(p.Runs); i += 2 {
				if a, b := p.Runs[i], p.Runs[i+1]; a.Level != b.Level || a.Repeat != b.Repeat || a.Seed != b.Seed {
					t.Errorf("%s: %s and %s are no pair", order, a.File, b.File)
				}
				if p.Runs[i].Side == "a" {
					first[p.Runs[i].Level]++
				}
			}
			for level, n := range first {
				if order == Interleaved && n != 2 {
					t.Errorf("%d levels: A comes first in %d of 4 pairs of level %g", levels, n, level)
				}
			}
			again := &schemas.Plan{Load: "concurrency", Order: order, Repeats: 4, Sides: p.Sides}
			if err := Lay(again, list); err != nil || files(again) != files(p) {
				t.Errorf("%s is not the same again (%v)", order, err)
			}
		}
	}
}

func TestParseLevels(t *testing.T) {
	for text, want := range map[string]string{
		"1,2,4":     "[1 2 4] true",
		"16, 4":     "[4 16] true",
		"0.5,1":     "[0.5 1] true",
		"8":         "[] false",
		"8:2m,16":   "[] false",
		"1,2,2":     `error: 2 stands twice`,
		"1,x":       `error: "x"`,
		"1,-2":      `error: "-2"`,
		"1,":        `error: ""`,
		"1,inf":     `error: "inf"`,
		"8:2m,16:1": "[] false",
	} {
		levels, ok, err := ParseLevels(text)
		got := fmt.Sprint(levels, ok)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
