package stat

import "math"

// Histogram counts values above 0 in buckets whose width is a fixed share of their values, in memory that
// does not depend on how many there are. A quantile of it is within [RelativeError] of the exact one. The
// zero value is empty and ready.
type Histogram struct {
	n        uint64
	zero     uint64 // values at or below 0
	sum, sq  float64
	min, max float64
	pages    []*[pageSize]uint32 // from page `first` on; nil where there is no value
	first    int
	over     map[int]uint64 // of buckets whose count has outgrown 32 bits
}

// histogramBits is how many bits of a value's fraction tell its bucket.
const (
	histogramBits = 13
	pageSize      = 1 << 9
)

// RelativeError is how far a quantile of a [Histogram] can be from the exact one, as a share of it: half
// the width of a bucket, 6.1e-5.
const RelativeError = 1.0 / (1 << (histogramBits + 1))

// Add counts a value.
func (h *Histogram) Add(v float64) { h.AddN(v, 1) }

// AddN counts a value n times.
func (h *Histogram) AddN(v float64, n uint64) {
	if n == 0 {
		return
	}
	if h.n == 0 {
		h.min, h.max = v, v
	}
	h.min, h.max = min(h.min, v), max(h.max, v)
	h.n += n
	h.sum += v * float64(n)
	h.sq += v * v * float64(n)
	if !(v > 0) {
		h.zero += n
		return
	}
	b := int(math.Float64bits(v) >> (52 - histogramBits))
	h.count(b, n)
}

// AddAll counts values.
func (h *Histogram) AddAll(values []float64) {
	if len(values) == 0 {
		return
	}
	if h.n == 0 {
		h.min, h.max = values[0], values[0]
	}
	// Bits of values from 0 on have the order of the values.
	low, high := math.Float64bits(max(h.min, 0)), math.Float64bits(max(h.max, 0))
	var sum, sq float64
	for _, v := range values {
		sum += v
		sq += v * v
		bits := math.Float64bits(v)
		if int64(bits) <= 0 {
			h.zero++
			h.min = min(h.min, v)
			low = min(low, 0)
			continue
		}
		if bits < low {
			low = bits
		}
		if bits > high {
			high = bits
		}
		b := int(bits >> (52 - histogramBits))
		if i := b/pageSize - h.first; uint(i) < uint(len(h.pages)) && h.pages[i] != nil {
			if c := &h.pages[i][b%pageSize]; *c < math.MaxUint32 {
				*c++
				continue
			}
		}
		h.count(b, 1)
	}
	h.n += uint64(len(values))
	h.sum += sum
	h.sq += sq
	h.min, h.max = min(h.min, math.Float64frombits(low)), max(h.max, math.Float64frombits(high))
}

func (h *Histogram) count(b int, n uint64) {
	page := h.page(b / pageSize)
	at := &page[b%pageSize]
	if sum := uint64(*at) + n; sum <= math.MaxUint32 {
		*at = uint32(sum)
		return
	}
	if h.over == nil {
		h.over = map[int]uint64{}
	}
	h.over[b] += n
}

func (h *Histogram) page(p int) *[pageSize]uint32 {
	switch {
	case len(h.pages) == 0:
		h.first, h.pages = p, make([]*[pageSize]uint32, 1)
	case p < h.first:
		h.pages = append(make([]*[pageSize]uint32, h.first-p), h.pages...)
		h.first = p
	case p >= h.first+len(h.pages):
		h.pages = append(h.pages, make([]*[pageSize]uint32, p-h.first-len(h.pages)+1)...)
	}
	at := &h.pages[p-h.first]
	if *at == nil {
		*at = new([pageSize]uint32)
	}
	return *at
}

// Merge adds what another histogram counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.n == 0 {
		return
	}
	if h.n == 0 {
		h.min, h.max = o.min, o.max
	}
	h.min, h.max = min(h.min, o.min), max(h.max, o.max)
	h.n += o.n
	h.zero += o.zero
	h.sum += o.sum
	h.sq += o.sq
	for i, page := range o.pages {
		if page == nil {
			continue
		}
		for j, c := range page {
			if c > 0 {
				h.count((o.first+i)*pageSize+j, uint64(c))
			}
		}
	}
	for b, c := range o.over {
		h.count(b, c)
	}
}

// N gives the number of values.
func (h *Histogram) N() uint64 { return h.n }

// Sum gives their sum.
func (h *Histogram) Sum() float64 { return h.sum }

// Range gives the smallest and the largest value; NaN for none.
func (h *Histogram) Range() (low, high float64) {
	if h.n == 0 {
		return math.NaN(), math.NaN()
	}
	return h.min, h.max
}

// MeanStd gives the exact mean and sample standard deviation.
func (h *Histogram) MeanStd() (mean, std float64) {
	n := float64(h.n)
	mean = h.sum / n
	if h.n < 2 {
		return mean, math.NaN()
	}
	return mean, math.Sqrt(max(0, h.sq-h.sum*mean) / (n - 1))
}

// each gives the buckets with values, rising: the value that each stands for, and its count.
func (h *Histogram) each(yield func(value float64, n uint64) bool) {
	if h.zero > 0 && !yield(math.Min(h.min, 0), h.zero) {
		return
	}
	for i, page := range h.pages {
		if page == nil {
			continue
		}
		for j, c := range page {
			b := (h.first+i)*pageSize + j
			n := uint64(c) + h.over[b]
			if n == 0 {
				continue
			}
			low := math.Float64frombits(uint64(b) << (52 - histogramBits))
			high := math.Float64frombits(uint64(b+1) << (52 - histogramBits))
			if !yield(min(max((low+high)/2, h.min), h.max), n) {
				return
			}
		}
	}
}

// Quantiles gives the quantiles qs as [Quantile] would of the values themselves, each to
// [RelativeError]; NaN for none.
func (h *Histogram) Quantiles(qs ...float64) []float64 {
	out := make([]float64, len(qs))
	for i := range out {
		out[i] = math.NaN()
	}
	if h.n == 0 {
		return out
	}
	for i, q := range qs {
		rank := q * float64(h.n-1)
		low := uint64(max(math.Floor(rank), 0))
		a, b := h.order(low)
		if low+1 < h.n && b > low+1 {
			out[i] = a
			continue
		}
		next, _ := h.order(min(low+1, h.n-1))
		out[i] = Interpolate(a, next, rank-float64(low))
	}
	return out
}

// order gives the order statistic of a rank (from 0), and how many values are at most that.
func (h *Histogram) order(rank uint64) (value float64, upTo uint64) {
	for v, n := range h.each {
		if upTo += n; upTo > rank {
			return v, upTo
		}
	}
	return h.max, h.n
}

// AtMost gives how many values are at most v, to the width of v's bucket: values in it count by its middle.
func (h *Histogram) AtMost(v float64) uint64 {
	var sum uint64
	for at, n := range h.each {
		if at > v {
			break
		}
		sum += n
	}
	return sum
}

type counted struct{ h *Histogram }

func (c counted) quantile(q float64) float64 { return c.h.Quantiles(q)[0] }
func (c counted) size() float64              { return float64(c.h.n) }
func (c counted) order(share float64, up bool) float64 {
	k := rankOf(share, float64(c.h.n), up)
	if k < 1 {
		return math.NaN()
	}
	v, _ := c.h.order(min(uint64(k), c.h.n) - 1)
	return v
}

// SummarizeBlocks works out the distribution of values that were counted, as [Scratch.Summarize] does, to
// [RelativeError]. blocks has a part of them, by block of time ([Window.BlockOf]), such as those of every
// so-manieth turn. clusters is the number of conversations that they come from, and most how many independent
// values they can be at most: values of one answer are not.
func SummarizeBlocks(all *Histogram, blocks *[Blocks]Histogram, qs []float64, w Window, clusters int, most float64, plain bool) Summary {
	out := SummarizeHistogram(all, qs)
	out.Clusters = clusters
	if plain || all.n == 0 {
		return out
	}
	k := len(qs)
	limits := make([]float64, 0, 2*k)
	for i := range qs {
		limits = append(limits, out.Quantiles[i].Value)
	}
	for _, q := range qs {
		limits = append(limits, all.Quantiles(nearer(q))[0])
	}
	// Counts are scaled where there are more than the parts' integers hold: only shares matter.
	var n uint64
	for b := range blocks {
		n += blocks[b].n
	}
	scale := 1.0
	if n > math.MaxInt32 {
		scale = math.MaxInt32 / float64(n)
	}
	parts := newParts(Blocks, 2*k, float64(n)*scale)
	for b := range blocks {
		h := &blocks[b]
		parts.n[b], parts.sum[b] = int32(float64(h.n)*scale), h.sum*scale
		if h.n > 0 {
			parts.used++
		}
		for j, limit := range limits {
			parts.at[b*2*k+j] = int32(float64(h.AtMost(limit)) * scale)
		}
	}
	out.Mean.Effective = most
	out.judge(w, qs, parts, nil, min(most, float64(all.n)), counted{all})
	return out
}

// SummarizeHistogram gives the distribution of counted values, without what they say of the long run.
func SummarizeHistogram(h *Histogram, qs []float64) Summary {
	out := empty(int(h.n), len(qs))
	if h.n == 0 {
		return out
	}
	out.Mean.Value, out.Std = h.MeanStd()
	out.Min, out.Max = h.Range()
	for i, v := range h.Quantiles(qs...) {
		out.Quantiles[i].Value = v
	}
	return out
}
