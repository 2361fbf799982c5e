package fit

import (
	"math"
	"slices"

	"parley/generate"
	"parley/generate/dist"
)

// arrivals learns when conversations start: their rate, and how bursty they are. It gives nil where there is
// nothing to learn.
//
// Burstiness is learned as the index of dispersion at three lengths of windows and told as that of a rate which
// rises and falls: by factors of mean 1 that last for one window of each length, independent of each other. (A rate
// that is itself random makes the doubly stochastic process of Cox 1955; that production traffic is bursty by the
// minute and by the second is seen in BurstGPT and ServeGen.) Arrivals more regular than Poisson's have gamma gaps
// instead. Time stamps that all lie on multiples of a second or more are the recorder's, and kept as a tick.
func arrivals(starts []float64) *generate.Arrivals {
	if len(starts) < least {
		return nil
	}
	slices.Sort(starts)
	length := starts[len(starts)-1] - starts[0]
	if length <= 0 {
		return nil
	}
	a := &generate.Arrivals{Rate: dist.Rounded(float64(len(starts)-1) / length), Tick: tick(starts)}
	if a.Tick > 0 {
		for i := range starts {
			starts[i] = math.Round(starts[i]/a.Tick) * a.Tick
		}
	}
	short := max(1, a.Tick)
	k := max(2, math.Round(10/short))
	windows := []float64{short, short * k, short * k * max(2, math.Round(60/(k*short)))}
	var excess []float64
	for i, window := range windows {
		counts := countsIn(starts, window)
		if len(counts) < 5 {
			break // too short to tell anything at this length
		}
		mean, variance := moments(counts)
		if i == 0 && variance < mean && a.Tick == 0 {
			a.Burstiness = dist.Rounded(min(mean/max(variance, mean/1000), 1000))
			return a
		}
		excess = append(excess, max(0, (variance-mean)/(mean*mean)))
	}
	for i, v := range solve(windows[:len(excess)], excess) {
		if v = dist.Rounded(v); v >= 0.005 {
			a.Modulation = append(a.Modulation, generate.Modulation{Seconds: windows[i], Variance: v})
		}
	}
	return a
}

// solve finds the variances of factors that last for the windows' lengths, by which the counts of these windows vary
// as they do: excess is the variance beyond Poisson's over the squared mean. One variance after the other is set so
// that its window's excess is met, until all are.
func solve(windows, excess []float64) []float64 {
	v := make([]float64, len(windows))
	for range 60 {
		for i := len(v) - 1; i >= 0; i-- {
			low, high := 0.0, 1e4
			for range 50 {
				v[i] = (low + high) / 2
				if varies(windows, v, windows[i]) < excess[i] {
					low = v[i]
				} else {
					high = v[i]
				}
			}
		}
	}
	return v
}

// varies gives the variance of the integral of the rate over a window, over its squared mean, where windows begin
// anywhere in a factor's stretch. A factor of variance v and length s has at a distance t the covariance
// v max(0, 1 - t/s), and the product of several that of the product less 1.
func varies(lengths, v []float64, window float64) float64 {
	const steps = 240
	var sum float64
	for n := range steps {
		t := (float64(n) + 0.5) / steps * window
		product := 1.0
		for i, s := range lengths {
			product *= 1 + v[i]*max(0, 1-t/s)
		}
		sum += (window - t) * (product - 1)
	}
	return 2 * sum / steps / window
}

// tick gives the largest number of seconds, from 1 on, of which all starts are multiples (within 2 ms, as recorders
// round); 0 if there is none.
func tick(starts []float64) float64 {
	for _, t := range []float64{60, 30, 15, 10, 5, 3, 2, 1} {
		if !slices.ContainsFunc(starts, func(s float64) bool { return math.Abs(s-math.Round(s/t)*t) > 0.002 }) {
			return t
		}
	}
	return 0
}
