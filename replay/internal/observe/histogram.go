package observe

import (
	"slices"

	"parley/schemas"
)

// histogram counts values between fixed bounds.
type histogram struct {
	bounds []float64 // upper, inclusive, rising; the last bucket has none
	counts []uint64
	n      uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) add(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.n++
	h.sum += v
}

func (h *histogram) clone() *histogram {
	c := *h
	c.counts = slices.Clone(h.counts)
	return &c
}

// seconds gives the time between two moments of a row.
func seconds(from, to *int64) (float64, bool) {
	if from == nil || to == nil {
		return 0, false
	}
	return float64(*to-*from) / 1e9, true
}

// failed says whether a row is an error, by which name.
func failed(row *schemas.Request) (kind string, yes bool) {
	if !schemas.Status(row.Status).Failed() {
		return "", false
	}
	if row.ErrorKind != nil {
		return *row.ErrorKind, true
	}
	return row.Status, true
}
