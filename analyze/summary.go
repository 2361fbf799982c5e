package analyze

import (
	"math"

	"parley/analyze/stat"
)

// scratch is memory that one worker uses again and again.
type scratch struct {
	values  []float64
	conv    []int32
	cluster []int32
	sorted  []float64
	spare   []float64
	local   []int32 // of each conversation instance, its number in this sample plus 1
}

// sample is the values of a figure in one population, with the conversation instance of each.
type sample struct {
	values  []float64
	cluster []int32
	failed  int // turns that count as infinitely slow in the failure-aware variant; -1: there is none
}

// summarize works out the distribution of a sample. It leaves the sample as it is.
func (s *scratch) summarize(f *Figure, in sample, o *Options) {
	n := len(in.values)
	f.N = int64(n)
	f.Mean, f.MeanLow, f.MeanHigh, f.Std, f.Min, f.Max = Missing, Missing, Missing, Missing, Missing, Missing
	f.Percentiles = make([]Percentile, len(o.Percentiles))
	for i, p := range o.Percentiles {
		need := needs(p)
		f.Percentiles[i] = Percentile{P: p, Value: Missing, Low: Missing, High: Missing, Needs: need, Carried: int64(n) >= need}
	}
	var cluster []int32
	clusters := 0
	if n > 0 {
		cluster, clusters = s.renumber(in.cluster)
		f.Clusters = int64(clusters)
		s.distribution(f, in.values, cluster, clusters, o)
	}
	if in.failed > 0 {
		f.FailureAware = failureAware(s.sorted[:n], in.failed, o.Percentiles)
	}
}

func (s *scratch) distribution(f *Figure, values []float64, cluster []int32, clusters int, o *Options) {
	n := len(values)
	var sum float64
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(n)
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	f.Mean = Num(mean)
	if n > 1 {
		f.Std = Num(math.Sqrt(squares / float64(n-1)))
	}
	if cap(s.sorted) < n {
		s.sorted = make([]float64, n)
	}
	s.sorted = s.sorted[:n]
	copy(s.sorted, values)
	if n >= stat.RadixFrom && cap(s.spare) < n {
		s.spare = make([]float64, n)
	}
	sorted := stat.Sort(s.sorted, s.spare[:cap(s.spare)])
	if &sorted[0] != &s.sorted[0] {
		s.sorted, s.spare = sorted, s.sorted
	}
	f.Min, f.Max = Num(sorted[0]), Num(sorted[n-1])
	k := len(o.Percentiles)
	limits := make([]float64, 2*k)
	for i, p := range o.Percentiles {
		limits[i] = stat.Quantile(sorted, p/100)
		limits[k+i] = stat.Quantile(sorted, nearer(p/100))
		if f.Percentiles[i].Carried {
			f.Percentiles[i].Value = Num(limits[i])
		}
	}
	if o.NoIntervals || clusters < 2 {
		return
	}
	if half := meanInterval(values, cluster, clusters, mean); !math.IsNaN(half) {
		f.MeanLow, f.MeanHigh = Num(mean-half), Num(mean+half)
	}
	counts := countClusters(values, cluster, clusters, limits)
	for i, p := range o.Percentiles {
		if !f.Percentiles[i].Carried {
			continue
		}
		low, high := percentileInterval(sorted, p/100, min(counts.effective(i, 2*k), counts.effective(k+i, 2*k)))
		f.Percentiles[i].Low, f.Percentiles[i].High = Num(low), Num(high)
	}
}

// renumber gives the clusters of a sample numbers from 0, and says how many there are.
func (s *scratch) renumber(cluster []int32) ([]int32, int) {
	highest := int32(0)
	for _, c := range cluster {
		highest = max(highest, c)
	}
	if len(s.local) <= int(highest) {
		s.local = make([]int32, highest+1)
	}
	if cap(s.cluster) < len(cluster) {
		s.cluster = make([]int32, len(cluster))
	}
	out := s.cluster[:len(cluster)]
	next := int32(0)
	for i, c := range cluster {
		if s.local[c] == 0 {
			next++
			s.local[c] = next
		}
		out[i] = s.local[c] - 1
	}
	for _, c := range cluster {
		s.local[c] = 0
	}
	return out, int(next)
}

// failureAware gives the percentiles of a sorted sample to which failed turns are added as infinitely
// slow ones.
func failureAware(sorted []float64, failed int, percentiles []float64) []Percentile {
	out := make([]Percentile, len(percentiles))
	n := len(sorted) + failed
	for i, p := range percentiles {
		need := needs(p)
		out[i] = Percentile{P: p, Value: Missing, Low: Missing, High: Missing, Needs: need, Carried: int64(n) >= need}
		rank := p / 100 * float64(n-1)
		low := int(math.Floor(rank))
		t := rank - float64(low)
		switch {
		case !out[i].Carried:
		case low >= len(sorted) || t > 0 && low+1 >= len(sorted):
			out[i].Infinite = true
		case t == 0:
			out[i].Value = Num(sorted[low])
		default:
			out[i].Value = Num(stat.Interpolate(sorted[low], sorted[low+1], t))
		}
	}
	return out
}
