package stat

import "math"

// Relaxation gives the relaxation time of a series of means of equal bins of time (dt seconds each): the
// time tau with Var(mean over T) = Var(series) tau/T, twice the integrated autocorrelation time. It is
// looked at on two scales, and the larger counts: the autocorrelation of the series, summed while sums of
// neighbouring pairs are above 0 and falling (Geyer's initial monotone sequence, Statistical Science 7,
// 1992), and the variance of the means of twenty long blocks, which sees what is slower than that. NaN for
// fewer than 40 bins; dt for a series that does not vary.
func Relaxation(series []float64, dt float64) float64 {
	n := len(series)
	if n < 2*effectiveBlocks {
		return math.NaN()
	}
	mean, std := MeanStd(series)
	if !(std > 0) {
		return dt
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
	// Means of blocks of whole bins.
	size := n / effectiveBlocks
	means := make([]float64, effectiveBlocks)
	for b := range means {
		means[b], _ = MeanStd(series[b*size : (b+1)*size])
	}
	_, spread := MeanStd(means)
	coarse := spread * spread / zero * float64(size) * dt
	return max(fine, coarse)
}

// Suggested gives the relaxation time that a utilisation (0 to 1) suggests for a server that works off
// rate requests a second: that of the number of requests in an M/M/1 queue, 2(1+u)/(mu(1-u)^2) with mu =
// rate/u (Morse, Operations Research 3, 1955), and half as much again for service times that vary more.
// longest bounds it: the requests of a closed loop cannot pile up for longer than their users take for a
// turn; 0 is no bound. NaN if the utilisation or the rate is not known.
func Suggested(utilisation, rate, longest float64) float64 {
	u := utilisation
	if !(u >= 0) || !(rate > 0) {
		return math.NaN()
	}
	tau := math.Inf(1)
	if u < 1 {
		tau = 1.5 * 2 * (1 + u) / (1 - u) / (1 - u) * u / rate
	}
	if longest > 0 {
		tau = min(tau, longest)
	}
	return tau
}

// Tau joins the relaxation time that a run shows with the one that its utilisation suggests: the larger
// of both, or twice the run's own where nothing is known of the utilisation, for runs that happen to miss
// the slow moments look calm.
func Tau(own, suggested float64) float64 {
	switch {
	case math.IsNaN(suggested):
		return 2 * own
	case math.IsNaN(own):
		return math.NaN()
	}
	return max(own, suggested)
}
