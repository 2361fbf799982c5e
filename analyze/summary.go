package analyze

import (
	"math"

	"parley/analyze/stat"
)

// scratch is memory that one worker uses again and again.
type scratch struct {
	stat.Scratch
	in    stat.Sample
	local []int32 // of each conversation instance, its number in this sample plus 1
}

// sharesOf turns percentiles into shares.
func sharesOf(percentiles []float64) []float64 {
	qs := make([]float64, len(percentiles))
	for i, p := range percentiles {
		qs[i] = p / 100
	}
	return qs
}

// summarize works out the distribution of a sample, which it leaves as it is. failed is how many turns
// count as infinitely slow in the failure-aware variant; -1: there is none.
func (s *scratch) summarize(f *Figure, in stat.Sample, failed int, a *analysis) {
	sum := s.Summarize(in, sharesOf(a.o.Percentiles), a.sw, a.o.NoIntervals)
	f.fill(&sum, a.o.Percentiles, float64(sum.N))
	if failed > 0 {
		f.FailureAware = failureAware(s.Sorted(), failed, f.Percentiles)
	}
}

// fill takes over what a sample says. Without effective sizes, all of its values count as independent, or
// most of them.
func (f *Figure) fill(sum *stat.Summary, percentiles []float64, most float64) {
	f.N, f.Clusters = int64(sum.N), int64(sum.Clusters)
	f.Mean, f.MeanLow, f.MeanHigh = Num(sum.Mean.Value), Num(sum.Mean.Low), Num(sum.Mean.High)
	f.Std, f.Min, f.Max = Num(sum.Std), Num(sum.Min), Num(sum.Max)
	f.Percentiles = make([]Percentile, len(percentiles))
	for i, p := range percentiles {
		e := &sum.Quantiles[i]
		f.Percentiles[i] = Percentile{
			P: p, Value: Num(e.Value), Low: Num(e.Low), High: Num(e.High), Lower: Num(e.Lower), Upper: Num(e.Upper),
			Confidence: e.Confidence, Effective: Num(e.Effective), Carried: e.Carried, Needs: stat.Needs(p/100, stat.Confidence),
		}
		if math.IsNaN(e.Effective) && sum.N > 0 {
			f.Percentiles[i].Carried = stat.Carries(p/100, most)
		}
	}
}

// failureAware gives the percentiles of a sorted sample to which failed turns are added as infinitely
// slow ones. They count for as many independent ones as the others.
func failureAware(sorted []float64, failed int, plain []Percentile) []Percentile {
	out := make([]Percentile, len(plain))
	n := len(sorted) + failed
	for i, p := range plain {
		out[i] = Percentile{P: p.P, Value: Missing, Low: Missing, High: Missing, Lower: Missing, Upper: Missing, Needs: p.Needs}
		out[i].Effective = Num(n)
		if p.Effective.Known() && len(sorted) > 0 {
			out[i].Effective = p.Effective * Num(n) / Num(len(sorted))
		}
		out[i].Carried = stat.Carries(p.P/100, float64(out[i].Effective))
		rank := p.P / 100 * float64(n-1)
		low := int(math.Floor(rank))
		t := rank - float64(low)
		switch {
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
