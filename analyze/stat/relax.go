package stat

import (
	"iter"
	"math"
)

// Relaxation gives the relaxation time of a series of means of equal bins of time (dt seconds each): its
// integrated autocorrelation time, the tau with Var(mean over T) = Var(series) 2 tau/T. It is looked at on
// two scales, and the larger counts: the autocorrelation of the series, summed while sums of neighbouring
// pairs are above 0 and falling (Geyer's initial monotone sequence, Statistical Science 7, 1992), and the
// variance of the means of twenty long blocks, which sees what is slower than that. NaN for fewer than 40
// bins; dt/2 for a series that does not vary.
func Relaxation(series []float64, dt float64) float64 {
	n := len(series)
	if n < 2*shortBlocks {
		return math.NaN()
	}
	mean, std := MeanStd(series)
	if !(std > 0) {
		return dt / 2
	}
	covariance := func(lag int) float64 {
		var sum float64
		for i := lag; i < n; i++ {
			sum += (series[i] - mean) * (series[i-lag] - mean)
		}
		return sum / float64(n)
	}
	zero := covariance(0)
	sum, before := -zero, math.Inf(1)
	for lag := 0; lag+1 < n/2; lag += 2 {
		pair := min(covariance(lag)+covariance(lag+1), before)
		if pair <= 0 {
			break
		}
		sum += 2 * pair
		before = pair
	}
	fine := max(1, sum/zero) * dt
	_, spread := MeanStd(BlockMeans(series, shortBlocks))
	// Less what chance alone gives a variance of twenty values (one standard error).
	coarse := spread * spread / zero * float64(n/shortBlocks) * dt / (1 + math.Sqrt(2.0/(shortBlocks-1)))
	return max(fine, coarse) / 2
}

// Load is what a run says of how much of the server was in use.
type Load struct {
	// Turns gives when each turn was sent, and when its first token came or it ended without one, in nanoseconds.
	Turns iter.Seq2[int64, int64]
	// Waiting is the share of time in which requests waited in the server's queue, from its telemetry; NaN
	// if it does not say.
	Waiting float64
	// Longest bounds how long the server can remember, in seconds: in a closed loop, the conversations at
	// once divided by the turns a second, for no more than these can pile up. 0: no bound.
	Longest float64
}

// relaxBins is into how many bins a window is cut for its relaxation time.
const relaxBins = 8192

// tau gives the relaxation time of a window in seconds: the larger of what the number of turns that await
// their first token shows ([Relaxation]) and of what the utilisation suggests, for runs that happen to miss
// the slow moments look calm. NaN for fewer than 40 turns.
//
// The utilisation u is the square root of the share of time in which requests waited (in a queue with one
// server, two or more are there with the probability u^2) by the telemetry, else the share in which some turn
// awaited its first token; both are right for a server that works off prompts one by one, and too high
// for one that takes many at once. So above one half, the second is bounded: a number of turns that varies no
// more than that of independent ones (Poisson: variance = mean) is no queue, and at an index of dispersion
// of d (1/(1-u) in an M/M/1 queue) the relaxation time is at most four times that of such a queue.
//
// What u suggests is the integrated autocorrelation time of the number in an M/M/1 queue, (1+u)/(mu(1-u)^2)
// with mu = turns a second/u (Morse, Operations Research 3, 1955), and half as much again for times that vary
// more.
func (w Window) tau(l Load) float64 {
	var from, to []int64
	for sent, first := range l.Turns {
		if sent >= w.From && sent < w.To {
			from, to = append(from, sent), append(to, min(max(first, sent), w.To))
		}
	}
	turns := float64(len(from))
	if turns < 2*shortBlocks || w.To <= w.From {
		return math.NaN()
	}
	bins := int(min(relaxBins, 4*turns))
	series := make([]float64, bins)
	dt := w.Seconds() / float64(bins)
	for i := range from {
		addSpan(series, float64(from[i]-w.From)/1e9/dt, float64(to[i]-w.From)/1e9/dt)
	}
	SortInts(from)
	SortInts(to)
	var busy int64
	for i, end := range to { // turns that follow each other without a break are over when as many have ended as begun
		if i == 0 || from[i] > to[i-1] {
			busy -= from[i]
		}
		if i+1 == len(to) || from[i+1] > end {
			busy += end
		}
	}
	own := Relaxation(series, dt)
	suggest := func(u float64) float64 {
		tau := math.Inf(1)
		if u < 1 {
			tau = 1.5 * (1 + u) / (1 - u) / (1 - u) * u * w.Seconds() / turns
		}
		if l.Longest > 0 {
			tau = min(tau, l.Longest/2)
		}
		return tau
	}
	inUse := float64(busy) / float64(w.To-w.From)
	own = max(own, suggest(min(inUse, 0.5)))
	if !math.IsNaN(l.Waiting) {
		return max(own, suggest(math.Sqrt(l.Waiting)))
	}
	mean, std := MeanStd(series)
	return max(own, min(suggest(inUse), 4*suggest(max(0, 1-mean/(std*std)))))
}

// addSpan adds a span of time to a series of how many spans hold on average in each bin.
func addSpan(series []float64, from, to float64) {
	first, last := max(int(from), 0), min(int(to), len(series)-1)
	if first >= last {
		series[min(first, len(series)-1)] += max(to-from, 0)
		return
	}
	series[first] += float64(first+1) - from
	for b := first + 1; b < last; b++ {
		series[b]++
	}
	series[last] += to - float64(last)
}

// WithTau gives the window with the relaxation time that a load shows.
func (w Window) WithTau(l Load) Window {
	w.Tau = w.tau(l)
	return w
}
