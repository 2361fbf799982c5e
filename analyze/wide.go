package analyze

import (
	"context"
	"math"
	"slices"

	"parley/analyze/stat"
	"parley/schemas"
)

// wide finds exact percentiles of more values than fit in memory, in two passes over them. The first
// counts the values in narrow buckets; the second keeps the values of just those buckets that a wanted
// order statistic falls into, by value and count. Times are whole nanoseconds over small numbers of
// tokens, so a bucket holds few distinct values however many it counts. Memory is bounded by the number
// of buckets and of conversations.
type wide struct {
	n        int64
	sum, sq  float64 // of the values, and of their squares
	min, max float64
	counts   []uint64
	cluster  []wideCluster
	fine     map[int]map[float64]uint64 // of the second pass, by bucket
	limits   []int                      // of the second pass: buckets of the percentiles, and of those nearer to the middle
	below    []int32                    // cluster*len(limits)+i: values in buckets up to limits[i]
}

type wideCluster struct {
	n   int32
	sum float64
}

// Buckets: 2^14 per octave (a width of 6e-5 of the value), from 2^-20 ms (one nanosecond) to 2^26 ms
// (18 hours), with what is below in the first and what is above in the last.
const (
	wideBits = 14
	wideLow  = -20
	wideHigh = 26
)

const wideBase = uint64(wideLow+1023) << wideBits

func newWide(clusters int) *wide {
	return &wide{
		min: math.Inf(1), max: math.Inf(-1),
		counts:  make([]uint64, (wideHigh-wideLow)<<wideBits),
		cluster: make([]wideCluster, clusters),
	}
}

func wideBucket(v float64) int {
	if v <= 0 {
		return 0
	}
	b := math.Float64bits(v) >> (52 - wideBits)
	if b < wideBase {
		return 0
	}
	return int(min(b-wideBase, (wideHigh-wideLow)<<wideBits-1))
}

// wideEdge gives the lower bound of a bucket.
func wideEdge(bucket int) float64 {
	if bucket == 0 {
		return 0
	}
	return math.Float64frombits((wideBase + uint64(bucket)) << (52 - wideBits))
}

func (w *wide) addAll(values []float64, cluster int32) {
	c := &w.cluster[cluster]
	c.n += int32(len(values))
	for _, v := range values {
		w.counts[wideBucket(v)]++
		w.sum += v
		w.sq += v * v
		c.sum += v
		w.min = min(w.min, v)
		w.max = max(w.max, v)
	}
	w.n += int64(len(values))
}

func (w *wide) merge(o *wide) {
	w.n += o.n
	w.sum += o.sum
	w.sq += o.sq
	w.min, w.max = min(w.min, o.min), max(w.max, o.max)
	for i, c := range o.counts {
		w.counts[i] += c
	}
	for i, c := range o.cluster {
		w.cluster[i].n += c.n
		w.cluster[i].sum += c.sum
	}
}

// rankBucket gives the bucket that holds the order statistic of a rank (from 0), and how many values
// stand in the buckets before it.
func (w *wide) rankBucket(rank int64) (bucket int, before int64) {
	for b, c := range w.counts {
		if before+int64(c) > rank {
			return b, before
		}
		before += int64(c)
	}
	return len(w.counts) - 1, before
}

// want notes the buckets that the percentiles (in percent) need.
func (w *wide) want(percentiles []float64) {
	w.fine = map[int]map[float64]uint64{}
	w.limits = nil
	for _, p := range percentiles {
		rank := p / 100 * float64(w.n-1)
		low := int64(math.Floor(rank))
		bucket := 0
		for _, r := range []int64{low, min(low+1, w.n-1)} {
			bucket, _ = w.rankBucket(r)
			if w.fine[bucket] == nil {
				w.fine[bucket] = map[float64]uint64{}
			}
		}
		w.limits = append(w.limits, bucket)
	}
	for _, p := range percentiles {
		bucket, _ := w.rankBucket(int64(nearer(p/100) * float64(w.n-1)))
		w.limits = append(w.limits, bucket)
	}
	w.below = make([]int32, len(w.cluster)*len(w.limits))
}

// again is the second pass's addAll.
func (w *wide) again(values []float64, cluster int32) {
	k := len(w.limits)
	below := w.below[int(cluster)*k : int(cluster)*k+k]
	for _, v := range values {
		b := wideBucket(v)
		for i, limit := range w.limits {
			if b <= limit {
				below[i]++
			}
		}
		if fine := w.fine[b]; fine != nil {
			fine[v]++
		}
	}
}

func (w *wide) mergeFine(o *wide) {
	for b, values := range o.fine {
		for v, n := range values {
			w.fine[b][v] += n
		}
	}
	for i, n := range o.below {
		w.below[i] += n
	}
}

// at gives the order statistic of a rank. Its bucket must have been wanted.
func (w *wide) at(rank int64) float64 {
	bucket, before := w.rankBucket(rank)
	values := make([]float64, 0, len(w.fine[bucket]))
	for v := range w.fine[bucket] {
		values = append(values, v)
	}
	slices.Sort(values)
	for _, v := range values {
		if before += int64(w.fine[bucket][v]); before > rank {
			return v
		}
	}
	return math.NaN()
}

// near gives about the quantile q, to the width of a bucket: enough for the bound of an interval.
func (w *wide) near(q float64) float64 {
	rank := q * float64(w.n-1)
	bucket, before := w.rankBucket(int64(rank))
	a, b := wideEdge(bucket), wideEdge(bucket+1)
	return min(max(a+(b-a)*(rank-float64(before)+0.5)/float64(w.counts[bucket]), w.min), w.max)
}

// summarize fills a figure after both passes.
func (w *wide) summarize(f *Figure, o *Options) {
	var s scratch
	s.summarize(f, sample{failed: -1}, o)
	f.N = w.n
	if w.n == 0 {
		return
	}
	n := float64(w.n)
	mean := w.sum / n
	f.Mean, f.Min, f.Max = Num(mean), Num(w.min), Num(w.max)
	if w.n > 1 {
		f.Std = Num(math.Sqrt(max(0, (w.sq-w.sum*mean)/(n-1))))
	}
	counts := clusterCounts{n: make([]int32, len(w.cluster)), at: w.below}
	var squares, fourth float64
	for i, c := range w.cluster {
		counts.n[i] = c.n
		if c.n > 0 {
			counts.used++
			d := c.sum - mean*float64(c.n)
			squares += d * d
			fourth += d * d * d * d
		}
	}
	m := float64(counts.used)
	f.Clusters = int64(counts.used)
	intervals := !o.NoIntervals && counts.used > 1
	if intervals {
		half := studentT(varianceDF(m, squares, fourth)) * math.Sqrt(m/(m-1)*squares) / n
		f.MeanLow, f.MeanHigh = Num(mean-half), Num(mean+half)
	}
	for i := range f.Percentiles {
		p := &f.Percentiles[i]
		if p.Carried = w.n >= p.Needs; !p.Carried {
			continue
		}
		rank := p.P / 100 * (n - 1)
		low := int64(math.Floor(rank))
		p.Value = Num(stat.Interpolate(w.at(low), w.at(min(low+1, w.n-1)), rank-float64(low)))
		if !intervals {
			continue
		}
		eff := min(counts.effective(i, len(w.limits)), counts.effective(len(f.Percentiles)+i, len(w.limits)))
		lowShare, highShare := shareLimits(p.P/100, eff)
		if lowShare*n >= 0.5 {
			p.Low = Num(w.near(rankShare(lowShare, n)))
		}
		if (1-highShare)*n >= 0.5 {
			p.High = Num(w.near(rankShare(highShare, n)))
		}
	}
}

// refine makes the second pass over the chunk lists.
func (c *chunkFigures) refine(ctx context.Context, r *run, f *frame, rows *tokenRows, pass chunkPass) error {
	type pair struct {
		gap, itl     *wide
		gaps, spread []float64
		counts       spreadMemory
	}
	workers := make([]pair, schemas.ListWorkers())
	for i := range workers {
		half := func(from *wide) *wide {
			w := &wide{n: from.n, counts: from.counts, cluster: from.cluster}
			w.want(pass.percentiles)
			return w
		}
		workers[i].gap, workers[i].itl = half(c.wideGap), half(c.wideITL)
	}
	err := r.readLists(ctx, func(worker, first int, _ int64, l *schemas.Lists) error {
		w := &workers[worker]
		for i := range l.Rows() {
			ns, tokens := l.Row(i)
			if row := first + i; len(ns) > 1 && f.main[row] && pass.in[row] {
				counts, told := rows.spread(&w.counts, row, ns, tokens)
				w.gaps, w.spread = gapsOf(ns, rows.streamed(&w.counts, row, counts, told), w.gaps[:0], w.spread[:0])
				if c.burst[row] {
					w.spread = w.spread[:0]
				}
				w.gap.again(w.gaps, f.conv[row])
				w.itl.again(w.spread, f.conv[row])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.wideGap.want(pass.percentiles)
	c.wideITL.want(pass.percentiles)
	for _, w := range workers {
		c.wideGap.mergeFine(w.gap)
		c.wideITL.mergeFine(w.itl)
	}
	return nil
}
