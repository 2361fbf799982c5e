package analyze

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"parley/analyze/stat"
)

func TestNeeds(t *testing.T) {
	// The numbers that MLPerf's early stopping criterion asks for, and the mirrored lower percentiles.
	for p, want := range map[float64]int64{50: 11, 90: 64, 95: 130, 99: 662, 99.9: 6636, 10: 64, 1: 662} {
		if got := needs(p); got != want {
			t.Errorf("needs(%v) = %d, want %d", p, got, want)
		}
	}
}

// The two-pass percentiles are those of the values themselves.
func TestWideEqualsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		few := rapid.Bool().Draw(t, "few distinct values")
		rng := rand.New(rand.NewPCG(seed, 0))
		conv := 1 + rng.IntN(20)
		batches := make([][]float64, n)
		var all []float64
		for i := range batches {
			for range rng.IntN(8) {
				v := math.Round(math.Exp(rng.NormFloat64()*4)*1e6) / 1e6 / float64(1+rng.IntN(3))
				if few {
					v = float64(rng.IntN(3))
				}
				batches[i] = append(batches[i], v)
			}
			all = append(all, batches[i]...)
		}
		if len(all) == 0 {
			return
		}
		percentiles := []float64{1, 50, 90, 95, 99}
		w := newWide(conv)
		for i, b := range batches {
			w.addAll(b, int32(i%conv))
		}
		w.want(percentiles)
		for i, b := range batches {
			w.again(b, int32(i%conv))
		}
		var got Figure
		w.summarize(&got, &Options{Percentiles: percentiles})
		slices.Sort(all)
		for i, p := range percentiles {
			if int64(len(all)) < needs(p) {
				continue
			}
			if want := stat.Quantile(all, p/100); float64(got.Percentiles[i].Value) != want {
				t.Fatalf("p%v of %d values: %v, want %v", p, len(all), got.Percentiles[i].Value, want)
			}
		}
		if float64(got.Min) != all[0] || float64(got.Max) != all[len(all)-1] || got.N != int64(len(all)) {
			t.Fatalf("min %v max %v n %d of %v to %v, %d", got.Min, got.Max, got.N, all[0], all[len(all)-1], len(all))
		}
	})
}

func TestWideBucketsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(0, 1e9).Draw(t, "a")
		b := rapid.Float64Range(0, 1e9).Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		x, y := wideBucket(a), wideBucket(b)
		if x > y {
			t.Fatalf("%v is in bucket %d, %v in %d", a, x, b, y)
		}
		if last := (wideHigh-wideLow)<<wideBits - 1; x < last && x > 0 && (a < wideEdge(x) || a >= wideEdge(x+1)) {
			t.Fatalf("%v is in bucket %d of %v to %v", a, x, wideEdge(x), wideEdge(x+1))
		}
	})
}

func TestThinKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5000).Draw(t, "n")
		budget := rapid.IntRange(3, 300).Draw(t, "budget")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		times, values := make([]int64, n), make([]float64, n)
		for i := range times {
			times[i], values[i] = rng.Int64N(1e9), rng.NormFloat64()
		}
		got := thin(times, values, budget)
		if len(got) > max(budget, n) || n > budget && len(got) > budget {
			t.Fatalf("%d points of %d, budget %d", len(got), n, budget)
		}
		if n == 0 {
			return
		}
		low, high := math.Inf(1), math.Inf(-1)
		for i, at := range got {
			low, high = min(low, values[at]), max(high, values[at])
			if i > 0 && times[got[i-1]] > times[at] {
				t.Fatal("not in order of time")
			}
		}
		if low != slices.Min(values) || high != slices.Max(values) {
			t.Fatalf("extremes %v to %v are lost, kept %v to %v", slices.Min(values), slices.Max(values), low, high)
		}
	})
}
