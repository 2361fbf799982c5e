package stat

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// The values of a run are dependent in two ways. Turns of one conversation share its prompt and its place
// in the schedule; and all that ran at about the same time shared the server's state: a slow moment hits
// many conversations. So a run is cut in two ways, by conversation and into few blocks of time; each way
// gives a variance of the figure from the sums of its parts, and the larger one counts. Few long blocks
// (batch means) do better than many short ones, whose neighbours are dependent (Schmeiser, Operations
// Research 30, 1982).

// Of blocks of two lengths, the larger variance counts: six see what is slow, twenty are not so easily all
// alike by chance. Blocks is their common multiple, into which sums are made.
const (
	longBlocks  = 6
	shortBlocks = 20
	Blocks      = 60
)

// Sample is the values that a run gave of one figure.
type Sample struct {
	Values  []float64 // none NaN
	Moments []int64   // when: nanoseconds of the window's clock
	Cluster []int32   // conversation of each value, from 0
	Block   []uint8   // [Window.BlockOf] of each moment, where many samples share their moments; else nil
	// Again, if not nil, stands in for Moments, Cluster and Block where these would take too much memory: it gives
	// the values once more, in any order, each with its conversation (below Clusters) and block. Values is then
	// sorted in place.
	Again    func(yield func(v float64, cluster int32, block uint8))
	Clusters int
}

// Window is the part of a run that a sample comes from, in nanoseconds: [From, To).
type Window struct {
	From, To int64
	// Tau is the relaxation time of the server in seconds ([Relaxation]): what it did longer ago than a
	// few of these says nothing of what it does now. NaN: not known, and nothing is long enough.
	Tau float64
}

// Seconds gives the length.
func (w Window) Seconds() float64 { return float64(w.To-w.From) / 1e9 }

// LongTaus and LongTausOuter are how many relaxation times a window must have before its interval speaks
// of the server in the long run: of a mean, a rate, and of percentiles from p5 to p95; and of
// percentiles farther out.
const (
	LongTaus      = 200
	LongTausOuter = 600
)

// momentsPerTau is how many independent moments of an extreme a relaxation time has at most. Of a mean it would be
// one half; a high percentile's are over sooner than the queue that made them.
const momentsPerTau = 1

// Needs gives how many seconds a window must have for an interval of the q-quantile (0 to 1); of a mean or
// a rate with q = 0.5. NaN if the relaxation time is not known.
func (w Window) Needs(q float64) float64 {
	if max(q, 1-q) > 0.95+1e-9 {
		return LongTausOuter * w.Tau
	}
	return LongTaus * w.Tau
}

// Long says whether the window is long enough for that.
func (w Window) Long(q float64) bool { return w.Seconds() >= w.Needs(q) }

func (w Window) block(moment int64, blocks int) int32 {
	if w.To <= w.From {
		return 0
	}
	b := int64(float64(moment-w.From) / float64(w.To-w.From) * float64(blocks))
	return int32(min(max(b, 0), int64(blocks)-1))
}

// Estimate is one statistic of a sample.
type Estimate struct {
	Value float64
	// Interval is of the long run, Unknown where the window is too short ([Window.Long]) or the sample too
	// small for one.
	Interval
	// Effective is the number of independent values that the sample's values count for at this statistic.
	Effective float64
	// Carried says whether these bound the statistic on its outer side; of a mean always true.
	Carried bool
	// Lower and Upper are one-sided bounds of a percentile, each with the confidence given: 95 %, or
	// [ShortConfidence] where the window is shorter than [LongTausOuter]. NaN where the sample has none.
	Lower, Upper, Confidence float64
}

// Summary is the distribution of a sample.
type Summary struct {
	N, Clusters   int
	Mean          Estimate
	Std, Min, Max float64
	Quantiles     []Estimate // in the order asked for
}

// Scratch is memory that one worker uses for one summary after the other.
type Scratch struct {
	sorted, spare []float64
	local         []int32
	cluster       []int32
	block         []uint8
}

// Summarize works out the distribution of a sample: the quantiles qs (0 to 1), the mean, and what the
// sample says of the server in the long run. It leaves the sample as it is (but see [Sample.Again]). plain leaves the
// intervals and effective sizes out (they are NaN).
func (s *Scratch) Summarize(in Sample, qs []float64, w Window, plain bool) Summary {
	n := len(in.Values)
	out := empty(n, len(qs))
	s.sorted = s.sorted[:0]
	if n == 0 {
		return out
	}
	out.Mean.Value, out.Std = MeanStd(in.Values)
	if in.Again != nil {
		if cap(s.spare) > 0 && &s.spare[:1][0] == &in.Values[0] { // the last sample's values, which were sorted out of there
			s.spare = s.sorted
		}
		s.sorted = in.Values[:0]
	}
	sorted := s.sort(in.Values)
	out.Min, out.Max = sorted[0], sorted[n-1]
	limits := make([]float64, 2*len(qs))
	for i, q := range qs {
		limits[i], limits[len(qs)+i] = Quantile(sorted, q), Quantile(sorted, nearer(q))
		out.Quantiles[i].Value = limits[i]
	}
	if plain {
		return out
	}
	each, clusters := in.Again, in.Clusters
	if each == nil {
		var cluster []int32
		cluster, clusters = s.renumber(in.Cluster)
		block := in.Block
		if block == nil {
			block = s.blocks(in.Moments, w)
		}
		each = eachOf(in.Values, cluster, block)
	}
	byConversation, byBlock := countParts(each, n, clusters, limits)
	out.Clusters = byConversation.used
	out.Mean.Effective = float64(n)
	out.judge(w, qs, byBlock, &byConversation, float64(n), sample(sorted))
	return out
}

// empty is a summary of n values in which nothing is known.
func empty(n, quantiles int) Summary {
	nan := math.NaN()
	none := Estimate{Value: nan, Interval: Unknown, Effective: nan, Lower: nan, Upper: nan}
	out := Summary{N: n, Mean: none, Std: nan, Min: nan, Max: nan, Quantiles: slices.Repeat([]Estimate{none}, quantiles)}
	out.Mean.Carried = true
	return out
}

// sorted gives what a sample says at its order statistics, from the values or from their histogram.
type sorted interface {
	quantile(q float64) float64
	// order gives the order statistic that stands at a share of the sample, counted from 1 and rounded up or
	// down; NaN below the first.
	order(share float64, up bool) float64
	size() float64
}

type sample []float64

func (s sample) quantile(q float64) float64 { return Quantile(s, q) }
func (s sample) size() float64              { return float64(len(s)) }
func (s sample) order(share float64, up bool) float64 {
	k := rankOf(share, float64(len(s)), up)
	if k < 1 {
		return math.NaN()
	}
	return s[min(k, len(s))-1]
}

// rankOf gives the rank, from 1, of the order statistic at a share of n values.
func rankOf(share, n float64, up bool) int {
	if up {
		return max(int(math.Ceil(share*n-1e-9)), 1)
	}
	return int(math.Floor(share*n + 1e-9))
}

// judge adds to values what they say of the long run: from the parts by time, from those by conversation
// (nil: not known), and from how many independent values there can be at most.
func (out *Summary) judge(w Window, qs []float64, byBlock parts, byConversation *parts, most float64, at sorted) {
	byLong, byShort := byBlock.join(longBlocks), byBlock.join(shortBlocks)
	if w.Long(0.5) {
		out.Mean.Interval = byLong.blockMean(out.Mean.Value).Wider(byShort.blockMean(out.Mean.Value))
		if byConversation != nil {
			out.Mean.Interval = out.Mean.Interval.Wider(byConversation.mean(out.Mean.Value))
		}
	}
	if w.Tau > 0 { // what lasted shorter than that was one moment of the server
		most = min(most, momentsPerTau*w.Seconds()/w.Tau)
	}
	long, short := byLong.effective(), byShort.effective()
	var conversations []float64
	if byConversation != nil {
		conversations = byConversation.effective()
	}
	for i, q := range qs {
		e := &out.Quantiles[i]
		effective := most
		for _, j := range []int{i, len(qs) + i} {
			if conversations != nil {
				effective = min(effective, conversations[j])
			}
			effective = min(effective, short[j])
		}
		effective = min(effective, long[i])
		e.Effective = effective
		e.Carried = Carries(q, effective)
		if e.Confidence = ShortConfidence; w.Long(1) {
			e.Confidence = Confidence
		}
		if share := LowerShare(q, effective, e.Confidence); share == share {
			e.Lower = at.order(share, false)
		}
		if share := UpperShare(q, effective, e.Confidence); share == share {
			e.Upper = at.order(share, true)
		}
		if w.Long(q) {
			e.Low, e.High = quantileInterval(at, q, effective)
		}
	}
}

// Sorted gives the values of the last sample, sorted; valid until the next.
func (s *Scratch) Sorted() []float64 { return s.sorted }

func (s *Scratch) sort(values []float64) []float64 {
	s.sorted = append(s.sorted[:0], values...) // of values onto themselves, if they may be sorted in place
	if cap(s.spare) < len(values) && len(values) >= RadixFrom {
		s.spare = make([]float64, len(values))
	}
	sorted := Sort(s.sorted, s.spare[:cap(s.spare)])
	if &sorted[0] != &s.sorted[0] {
		s.sorted, s.spare = sorted, s.sorted
	}
	return sorted
}

func (s *Scratch) blocks(moments []int64, w Window) []uint8 {
	s.block = slices.Grow(s.block[:0], len(moments))[:len(moments)]
	for i, m := range moments {
		s.block[i] = uint8(w.BlockOf(m))
	}
	return s.block
}

// renumber gives the clusters of a sample numbers from 0, and says how many there are.
func (s *Scratch) renumber(cluster []int32) ([]int32, int) {
	highest := int32(0)
	for _, c := range cluster {
		highest = max(highest, c)
	}
	if len(s.local) <= int(highest) {
		s.local = make([]int32, highest+1)
	}
	s.cluster = slices.Grow(s.cluster[:0], len(cluster))[:len(cluster)]
	next := int32(0)
	for i, c := range cluster {
		if s.local[c] == 0 {
			next++
			s.local[c] = next
		}
		s.cluster[i] = s.local[c] - 1
	}
	for _, c := range cluster {
		s.local[c] = 0
	}
	return s.cluster, int(next)
}

// parts is a sample cut into parts (conversations, or blocks of time): per part its number of values, their
// sum, and how many of them are at most each limit.
type parts struct {
	n      []int32
	sum    []float64
	at     []int32 // part*limits + limit
	limits int
	used   int // parts with values
	total  float64
}

func newParts(count, limits int, total float64) parts {
	return parts{n: make([]int32, count), sum: make([]float64, count), at: make([]int32, count*limits), limits: limits, total: total}
}

// eachOf gives values one by one, with the part of each.
func eachOf(values []float64, cluster []int32, block []uint8) func(yield func(v float64, cluster int32, block uint8)) {
	return func(yield func(float64, int32, uint8)) {
		for i, v := range values {
			yield(v, cluster[i], block[i])
		}
	}
}

// countParts cuts a sample of n values by conversation and by block of time.
func countParts(each func(yield func(v float64, cluster int32, block uint8)), n, clusters int, limits []float64) (byConversation, byBlock parts) {
	k := len(limits)
	a, b := newParts(clusters, k, float64(n)), newParts(Blocks, k, float64(n))
	// Each value is counted once, at the lowest limit that it does not exceed; summing up over the limits of
	// a part comes after.
	order := make([]int, k)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(limits[a], limits[b]) })
	rising := make([]float64, k)
	for i, at := range order {
		rising[i] = limits[at]
	}
	each(func(v float64, cluster int32, block uint8) {
		x, y := int(cluster), int(block)
		a.n[x]++
		a.sum[x] += v
		b.n[y]++
		b.sum[y] += v
		above := 0
		for _, limit := range rising {
			if v > limit {
				above++
			}
		}
		if above < k {
			a.at[x*k+order[above]]++
			b.at[y*k+order[above]]++
		}
	})
	for _, c := range []*parts{&a, &b} {
		for id, n := range c.n {
			if n > 0 {
				c.used++
			}
			row, sum := c.at[id*k:id*k+k], int32(0)
			for _, at := range order {
				sum += row[at]
				row[at] = sum
			}
		}
	}
	return a, b
}

// join makes fewer, longer parts of neighbours.
func (c *parts) join(count int) parts {
	out := newParts(count, c.limits, c.total)
	for id, n := range c.n {
		to := id * count / len(c.n)
		out.n[to] += n
		out.sum[to] += c.sum[id]
		for j := range c.limits {
			out.at[to*c.limits+j] += c.at[id*c.limits+j]
		}
	}
	for _, n := range out.n {
		if n > 0 {
			out.used++
		}
	}
	return out
}

// nearer gives the quantile at which the dependence of q's tail is also looked at: one with a tail to the
// power of two thirds, so that p99 leans on about p95, p90 on p78, and p50 on itself. The variance at an
// outer percentile comes from few parts and is often too small just when the sample happens to lack a
// slow one; the wider tail has more of them.
func nearer(q float64) float64 {
	if q >= 0.5 {
		return 1 - min(math.Pow(1-q, 2.0/3), 0.5)
	}
	return min(math.Pow(q, 2.0/3), 0.5)
}

// effective gives the effective number of independent values for the share below each limit: n* = f(1-f)/V,
// where V = m/(m-1) sum (k - f n)^2 / N^2 over the parts is the variance of the share as a ratio, reduced for
// the degrees of freedom that V has, as Korn and Graubard do (Survey Methodology 24, 1998).
func (c *parts) effective() []float64 {
	k := c.limits
	out := make([]float64, k)
	m := float64(c.used)
	if m < 2 {
		for j := range out {
			out[j] = min(c.total, 1)
		}
		return out
	}
	below := make([]float64, k)
	for id := range c.n {
		for j, n := range c.at[id*k : id*k+k] {
			below[j] += float64(n)
		}
	}
	for j := range below {
		below[j] /= c.total
	}
	// The residuals around the shares that were found, which ties can put above q.
	squares, fourths := make([]float64, k), make([]float64, k)
	for id, n := range c.n {
		if n == 0 {
			continue
		}
		for j, at := range c.at[id*k : id*k+k] {
			d := float64(at) - below[j]*float64(n)
			d *= d
			squares[j] += d
			fourths[j] += d * d
		}
	}
	all := StudentT(c.total - 1)
	for j, f := range below {
		if f >= 1 || f <= 0 {
			out[j] = m // nothing to estimate the variance from: one value per part
			continue
		}
		eff := c.total
		if v := m / (m - 1) * squares[j] / (c.total * c.total); v > 0 {
			eff = min(eff, f*(1-f)/v)
		}
		t := all / StudentT(varianceDF(m, squares[j], fourths[j]))
		out[j] = min(c.total, eff*t*t)
	}
	return out
}

// varianceDF gives the degrees of freedom of a variance that m parts give, from the sums of the second and
// fourth powers of their residuals: 2m/(kurtosis-1), by Satterthwaite's matching of moments, which is m
// for normal residuals, and few where a few parts make up the tail.
func varianceDF(m, second, fourth float64) float64 {
	kurtosis := m * fourth / (second * second)
	if !(kurtosis > 1) {
		return m - 1
	}
	return max(1, min(m-1, 2*m/(kurtosis-1)))
}

// quantileInterval gives the interval of the quantile q from sorted values that count for eff independent
// ones: the limits for its share are those of a binomial (its mid-point beta form, Jeffreys' interval),
// and the interval is what stands in the sample at those limits (Woodruff, JASA 47, 1952). A side is NaN
// where the sample has nothing to bound it with.
func quantileInterval(at sorted, q, eff float64) (low, high float64) {
	if math.IsNaN(eff) || eff <= 0 {
		return math.NaN(), math.NaN()
	}
	const a = (1 - Confidence) / 2
	x := q * eff
	lowShare := mathext.InvRegIncBeta(x+0.5, eff-x+0.5, a)
	highShare := mathext.InvRegIncBeta(x+0.5, eff-x+0.5, 1-a)
	n := at.size()
	// A limit beyond the middle of the outermost value bounds nothing.
	low, high = math.NaN(), math.NaN()
	if lowShare*n >= 0.5 {
		low = at.quantile(rankShare(lowShare, n))
	}
	if (1-highShare)*n >= 0.5 {
		high = at.quantile(rankShare(highShare, n))
	}
	return low, high
}

// rankShare turns a share of values into the quantile whose rank is that share's order statistic: value
// number i (from 1) of n stands for the share (i-0.5)/n.
func rankShare(share, n float64) float64 {
	if n < 2 {
		return 0.5
	}
	return min(max((share*n-0.5)/(n-1), 0), 1)
}

// mean gives the interval of the sample's mean from conversations: the ratio's linearised variance, with
// Student's t.
func (c *parts) mean(mean float64) Interval {
	var sum, fourth float64
	for id, n := range c.n {
		d := c.sum[id] - mean*float64(n)
		sum += d * d
		fourth += d * d * d * d
	}
	m := float64(c.used)
	if m < 2 {
		return Unknown
	}
	half := StudentT(varianceDF(m, sum, fourth)) * math.Sqrt(m/(m-1)*sum) / c.total
	return Interval{mean - half, mean + half}
}

// blockMean gives the interval of the sample's mean from blocks of time (batch means), as a ratio, with t
// adjusted for skewness.
func (c *parts) blockMean(mean float64) Interval {
	if c.used < len(c.n) {
		return Unknown
	}
	d := make([]float64, len(c.n))
	for id, n := range c.n {
		d[id] = (c.sum[id] - mean*float64(n)) * float64(len(c.n)) / c.total
	}
	return ofBlocks(mean, d)
}

// ofBlocks gives the interval of a mean from the deviations of equal blocks from it.
func ofBlocks(mean float64, deviations []float64) Interval {
	m := float64(len(deviations))
	_, std := MeanStd(deviations)
	return skewT(mean, std/math.Sqrt(m), skewnessOf(deviations), m)
}

// Rate gives what arrived per second in a window, from amounts with their moments, those outside of it left
// out, and the interval of the long-run rate from blocks of time.
func Rate(amounts []float64, moments []int64, w Window) Estimate {
	var blocks [Blocks]float64
	for i, m := range moments {
		if m >= w.From && m < w.To {
			blocks[w.BlockOf(m)] += amounts[i]
		}
	}
	return w.RateOf(blocks)
}

// RateOf is [Rate] for amounts that were summed by block already ([Window.BlockOf]).
func (w Window) RateOf(blocks [Blocks]float64) Estimate {
	e := Estimate{Value: math.NaN(), Interval: Unknown, Effective: math.NaN(), Lower: math.NaN(), Upper: math.NaN(), Carried: true}
	s := w.Seconds()
	if !(s > 0) {
		return e
	}
	mean, _ := MeanStd(blocks[:])
	e.Value = mean * Blocks / s
	if w.Long(0.5) {
		of := func(count int) Interval {
			d := BlockMeans(blocks[:], count)
			for i := range d {
				d[i] = d[i]*Blocks/s - e.Value
			}
			return ofBlocks(e.Value, d)
		}
		e.Interval = of(longBlocks).Wider(of(shortBlocks))
	}
	return e
}

// ClusterRate gives the interval of the long-run rate of what comes in clusters that begin at random moments, as the
// conversations of an open loop do: amounts has what each brought within the window. The sum of such clusters has
// the sum of their squares as its variance (Campbell's theorem: Poisson arrivals; evenly spaced ones vary less). Few
// blocks of time miss some of it, for a cluster that ends in the next block binds the two.
func (w Window) ClusterRate(amounts []float64) Interval {
	s := w.Seconds()
	if !w.Long(0.5) || !(s > 0) {
		return Unknown
	}
	var sum, squares, fourths float64
	for _, v := range amounts {
		sum += v
		squares += v * v
		fourths += v * v * v * v
	}
	if !(squares > 0) {
		return Unknown
	}
	half := StudentT(max(1, 2*squares*squares/fourths)) * math.Sqrt(squares) / s
	return Interval{sum/s - half, sum/s + half}
}

// JoinRates gives the interval of the rate over several stretches together, from the rate of each and the share of
// the time that it has. What the stretches do is taken for independent.
func JoinRates(rates []Estimate, shares []float64) Interval {
	var mean, below, above float64
	for i, e := range rates {
		low, high := shares[i]*(e.Value-e.Low), shares[i]*(e.High-e.Value)
		mean += shares[i] * e.Value
		below += low * low
		above += high * high
	}
	return Interval{mean - math.Sqrt(below), mean + math.Sqrt(above)}
}

// BlockOf gives the block of time (0 to [Blocks]-1) of a moment in the window.
func (w Window) BlockOf(moment int64) int { return int(w.block(moment, Blocks)) }
