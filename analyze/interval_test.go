package analyze

import (
	"math"
	"math/rand/v2"
	"testing"

	"parley/analyze/stat"
)

// clustered draws values of conversations that share an effect: turns of a conversation are correlated,
// conversations are of unequal length, and values have a long tail.
func clustered(rng *rand.Rand, conversations int, shared float64) sample {
	var s sample
	s.failed = -1
	for c := range conversations {
		effect := rng.NormFloat64() * shared
		turns := 1 + rng.IntN(5)
		if rng.IntN(5) == 0 {
			turns += rng.IntN(20)
		}
		for range turns {
			s.values = append(s.values, math.Exp(4+effect+math.Sqrt(1-shared*shared)*0.5*rng.NormFloat64()))
			s.cluster = append(s.cluster, int32(c))
		}
	}
	return s
}

// The intervals cover the true percentile of the process as often as they promise. 2,000 runs give the
// coverage to a standard error of 0.5 percent points.
func TestIntervalCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation of thousands of runs")
	}
	const runs = 2000
	percentiles := []float64{50, 90, 95, 99}
	for _, c := range []struct {
		name          string
		conversations int
		shared        float64
	}{
		{"independent", 300, 0},
		{"clustered", 300, 0.5},
		{"strongly clustered", 300, 0.9},
		{"few conversations", 60, 0.5},
	} {
		// The truth, from a sample so large that its own error does not matter.
		truth := clustered(rand.New(rand.NewPCG(99, 99)), 400_000, c.shared)
		trueMean := 0.0
		for _, v := range truth.values {
			trueMean += v / float64(len(truth.values))
		}
		sorted := stat.Sort(truth.values, nil)
		var want []float64
		for _, p := range percentiles {
			want = append(want, stat.Quantile(sorted, p/100))
		}
		covered, carried := make([]int, len(percentiles)), make([]int, len(percentiles))
		mean := 0
		var sc scratch
		for run := range runs {
			s := clustered(rand.New(rand.NewPCG(1, uint64(run))), c.conversations, c.shared)
			var f Figure
			sc.summarize(&f, s, &Options{Percentiles: percentiles})
			for i, p := range f.Percentiles {
				if !p.Carried {
					continue
				}
				carried[i]++
				if (!p.Low.Known() || float64(p.Low) <= want[i]) && (!p.High.Known() || float64(p.High) >= want[i]) {
					covered[i]++
				}
			}
			if float64(f.MeanLow) <= trueMean && float64(f.MeanHigh) >= trueMean {
				mean++
			}
		}
		for i, p := range percentiles {
			if carried[i] < runs/2 {
				continue
			}
			share := float64(covered[i]) / float64(carried[i])
			t.Logf("%s: p%v covered in %.1f %% of %d runs", c.name, p, share*100, carried[i])
			if share < 0.93 || share > 0.97 {
				t.Errorf("%s: the interval of p%v covers the truth in %.1f %% of the runs, want 93 to 97", c.name, p, share*100)
			}
		}
		share := float64(mean) / runs
		t.Logf("%s: mean covered in %.1f %%", c.name, share*100)
		if share < 0.93 || share > 0.97 {
			t.Errorf("%s: the interval of the mean covers the truth in %.1f %% of the runs", c.name, share*100)
		}
	}
}
