package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{
		{[]float64{7}, 0.99, 7},
		{[]float64{1, 2}, 0.5, 1.5},
		{[]float64{1, 2, 3, 4}, 0.5, 2.5},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 1, 4},
		{[]float64{0, 10, 20, 30, 40}, 0.9, 36},
		{[]float64{5, math.Inf(1)}, 0, 5},
		{[]float64{5, math.Inf(1)}, 0.5, math.Inf(1)},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
	if !math.IsNaN(Quantile(nil, 0.5)) {
		t.Error("a quantile of nothing is a number")
	}
}

func TestSortFloatsAndInts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, RadixFrom - 1, RadixFrom, 3*RadixFrom + 7} {
		for name, draw := range map[string]func() float64{
			"latencies":  func() float64 { return math.Exp(rng.NormFloat64() * 3) },
			"both signs": func() float64 { return rng.NormFloat64() },
			"ties":       func() float64 { return float64(rng.IntN(5)) - 2 },
			"constant":   func() float64 { return 8 },
			"extremes": func() float64 {
				return []float64{0, math.Inf(1), math.Inf(-1), 5e-324, -5e-324, math.MaxFloat64}[rng.IntN(6)]
			},
		} {
			values := make([]float64, n)
			ints := make([]int64, n)
			for i := range values {
				values[i] = draw()
				ints[i] = int64(max(min(values[i], 1e15), -1e15) * 1000)
			}
			want, wantInts := slices.Clone(values), slices.Clone(ints)
			slices.Sort(want)
			slices.Sort(wantInts)
			if got := Sort(values, nil); !slices.Equal(got, want) {
				t.Errorf("sortFloats of %d %s differs", n, name)
			}
			if SortInts(ints); !slices.Equal(ints, wantInts) {
				t.Errorf("sortInts of %d %s differs", n, name)
			}
		}
	}
}
