package plots

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"parley/analyze/stat"
	"parley/schemas"
)

// NewPoints makes a cloud of values v at the moments t, in nanoseconds; status may be nil.
func NewPoints(figure, title, unit string, t []int64, v []float64, status []string, budget int) Points {
	out := Points{Figure: figure, Title: title, Unit: unit, Of: int64(len(t))}
	if status != nil {
		out.Status = []string{}
	}
	for _, i := range thin(t, v, budget) {
		out.T, out.V = append(out.T, secondsOf(t[i])), append(out.V, Num(v[i]))
		if status != nil {
			out.Status = append(out.Status, status[i])
		}
	}
	return out
}

func secondsOf(ns int64) Num {
	if ns == schemas.NullInt {
		return Missing
	}
	return Num(float64(ns) / 1e9)
}

// thin chooses at most budget points, in order of time: of each of equal stretches of time the lowest and
// the highest, and one of those between, so that neither an extreme nor the look of the cloud is lost.
func thin(t []int64, v []float64, budget int) []int {
	order := make([]int, len(t))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t[a], t[b]) })
	if len(order) <= budget {
		return order
	}
	buckets := max(budget/3, 1)
	first, last := t[order[0]], t[order[len(order)-1]]
	var out []int
	for at := 0; at < len(order); {
		bucket := bucketOf(t[order[at]], first, last, buckets)
		end := at
		low, high := order[at], order[at]
		for end < len(order) && bucketOf(t[order[end]], first, last, buckets) == bucket {
			i := order[end]
			if v[i] < v[low] {
				low = i
			}
			if v[i] > v[high] {
				high = i
			}
			end++
		}
		chosen := []int{low, order[at+(end-at)/2], high}
		slices.SortFunc(chosen, func(a, b int) int { return cmp.Or(cmp.Compare(t[a], t[b]), cmp.Compare(a, b)) })
		out = append(out, slices.Compact(chosen)...)
		at = end
	}
	return out
}

func bucketOf(t, first, last int64, buckets int) int {
	if last <= first {
		return 0
	}
	return min(int(float64(t-first)/float64(last-first)*float64(buckets)), buckets-1)
}

// NewCurve makes a distribution of at most so many points from sorted values.
func NewCurve(figure, title, unit string, sorted []float64, points int) Curve {
	c := Curve{Figure: figure, Title: title, Unit: unit, N: int64(len(sorted))}
	c.fromSorted(sorted, points)
	return c
}

// CountedCurve makes one from values that were counted.
func CountedCurve(figure, title, unit string, all *stat.Histogram, points int) Curve {
	c := Curve{Figure: figure, Title: title, Unit: unit, N: int64(all.N())}
	shares := curveShares(points)
	for i, x := range all.Quantiles(shares...) {
		c.Value, c.Share = append(c.Value, Num(x)), append(c.Share, Num(shares[i]))
	}
	return c
}

// fromSorted thins a distribution: every value where they are few, else even steps that get finer towards
// both ends, down to the extremes.
func (c *Curve) fromSorted(sorted []float64, points int) {
	n := len(sorted)
	if n == 0 {
		return
	}
	if n <= points {
		for i, v := range sorted {
			c.Value, c.Share = append(c.Value, Num(v)), append(c.Share, Num(float64(i+1)/float64(n)))
		}
		return
	}
	for _, q := range curveShares(points) {
		i := min(int(math.Round(q*float64(n-1))), n-1)
		share := Num(float64(i+1) / float64(n))
		if len(c.Share) == 0 || share > c.Share[len(c.Share)-1] {
			c.Value, c.Share = append(c.Value, Num(sorted[i])), append(c.Share, share)
		}
	}
}

// curveShares gives shares from 0 to 1, dense at the ends.
func curveShares(points int) []float64 {
	points = max(points, 16)
	out := make([]float64, 0, points)
	for i := range points {
		x := float64(i) / float64(points-1)
		out = append(out, (1-math.Cos(math.Pi*x))/2)
	}
	for _, tail := range []float64{1e-4, 1e-5, 1e-6} {
		out = append(out, 1-tail)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Add adds a place along the number, from low to high (the same if it is no bin), and what its sample says there.
func (b *Bands) Add(low, high Num, sample stat.Sample, w stat.Window, s *stat.Scratch) {
	sum := s.Summarize(sample, []float64{0.5, 0.9, 0.99}, w, false)
	x := low
	if high.Known() && high > low {
		x = (low + high) / 2
	}
	b.X, b.Low, b.High = append(b.X, x), append(b.Low, low), append(b.High, high)
	b.N, b.Mean = append(b.N, int64(sum.N)), append(b.Mean, Num(sum.Mean.Value))
	for at, to := range []*[]Num{&b.P50, &b.P90, &b.P99} {
		v := Missing // a line through what the bin cannot carry would mislead
		if sum.Quantiles[at].Carried {
			v = Num(sum.Quantiles[at].Value)
		}
		*to = append(*to, v)
	}
}

// NewTelemetry makes the series of a figure of the client or of a server, of which the counters become rates.
func NewTelemetry(source, name string, t []int64, v []float64, budget int) TelemetrySeries {
	out := TelemetrySeries{Source: source, Name: name, Rate: counter(name), Of: int64(len(t))}
	if out.Rate {
		t, v = rate(t, v)
	}
	for _, i := range thin(t, v, budget) {
		out.T, out.V = append(out.T, secondsOf(t[i])), append(out.V, Num(v[i]))
	}
	return out
}

// counter says whether a figure of the telemetry only rises. The client's counters say so in their names; the
// servers' go by the normalised names of scraping, which have no such ending.
func counter(name string) bool {
	switch name {
	case "prefix_cache_hits", "prefix_cache_queries", "preemptions", "generation_tokens", "prompt_tokens", "prompt_tokens_evaluated":
		return true
	}
	return strings.HasSuffix(name, "_total")
}

// rate turns a counter into its increase per second. A counter that fell was reset: it counts from 0.
func rate(t []int64, v []float64) ([]int64, []float64) {
	order := make([]int, len(t))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t[a], t[b]) })
	var times []int64
	var rates []float64
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if t[b] <= t[a] {
			continue
		}
		rise := v[b] - v[a]
		if rise < 0 {
			rise = v[b]
		}
		times = append(times, t[b])
		rates = append(rates, rise/(float64(t[b]-t[a])/1e9))
	}
	return times, rates
}
