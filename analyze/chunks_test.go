package analyze

import (
	"math"
	"testing"

	"parley/analyze/stat"
)

// Counted gaps say what gaps in memory say, in the total and in every group, and say that they are counted.
func TestCountedGapsEqualExactOnes(t *testing.T) {
	o := Options{By: []GroupSpec{{Column: "turn"}}, Window: WindowSpec{Kind: WindowAll}}
	exact := analyzeOne(t, memoryRun(t, fullSpec(), o), o)
	before := exactGaps
	exactGaps = 100
	defer func() { exactGaps = before }()
	counted := analyzeOne(t, memoryRun(t, fullSpec(), o), o)
	compared := 0
	same := func(where string, a, b Num, tolerance float64) {
		t.Helper()
		if a.Known() != b.Known() || a.Known() && math.Abs(float64(a-b)) > tolerance*math.Abs(float64(a)) {
			t.Errorf("%s: exact %v, counted %v", where, a, b)
		}
		compared++
	}
	check := func(where string, a, b *Group) {
		for _, name := range []string{figITL, figChunkGap} {
			x, y := a.Figure(name), b.Figure(name)
			if x.RelativeError != 0 || y.RelativeError != stat.RelativeError {
				t.Fatalf("%s: %v and %v", where, x.RelativeError, y.RelativeError)
			}
			if x.N != y.N {
				t.Errorf("%s %s: %d and %d values", where, name, x.N, y.N)
			}
			if x.N == 0 {
				continue
			}
			same(where+" mean", x.Mean, y.Mean, 1e-9)
			same(where+" std", x.Std, y.Std, 1e-7)
			same(where+" min", x.Min, y.Min, 0)
			same(where+" max", x.Max, y.Max, 0)
			for i, p := range x.Percentiles {
				same(where+" percentile", p.Value, y.Percentiles[i].Value, stat.RelativeError)
			}
		}
	}
	check("total", &exact.Total, &counted.Total)
	if len(exact.Groups) != len(counted.Groups) || len(exact.Groups) < 5 {
		t.Fatalf("%d and %d groups", len(exact.Groups), len(counted.Groups))
	}
	for i := range exact.Groups {
		check("turn "+exact.Groups[i].Keys[0].Value, &exact.Groups[i], &counted.Groups[i])
	}
	if compared < 80 {
		t.Errorf("%d figures were compared", compared)
	}
}
