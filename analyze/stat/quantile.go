package stat

import (
	"math"
	"slices"
)

// Quantile gives the q-quantile (0 to 1) of sorted values by linear interpolation between order
// statistics: the value at rank q*(n-1), counted from 0. It is what numpy's default and DuckDB's
// quantile_cont compute (type 7 of Hyndman and Fan, 1996).
func Quantile(sorted []float64, q float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	rank := q * float64(n-1)
	low := int(math.Floor(rank))
	low = min(max(low, 0), n-1)
	high := min(low+1, n-1)
	return Interpolate(sorted[low], sorted[high], rank-float64(low))
}

// Interpolate goes the share t of the way from a to b. An infinite b reached only in part is infinite.
func Interpolate(a, b, t float64) float64 {
	if t <= 0 || a == b {
		return a
	}
	return a + (b-a)*t
}

// RadixFrom is the length from which sorting by digits beats comparing.
const RadixFrom = 1 << 14

// Sort sorts values, of which none may be NaN. scratch, if it is long enough, saves an allocation; the
// sorted values may be in either of the two, and the result says where.
func Sort(values, scratch []float64) []float64 {
	if len(values) < RadixFrom {
		slices.Sort(values)
		return values
	}
	if len(scratch) < len(values) {
		scratch = make([]float64, len(values))
	}
	scratch = scratch[:len(values)]
	// The low 20 bits of the key say nothing about the order of values that differ by more than 2^-32 of
	// themselves: what little is left to do after sorting by the rest, comparing does.
	const bits, buckets, low = 11, 1 << 11, 20
	// One pass counts all digits.
	var counts [4][buckets]uint32
	for _, v := range values {
		k := floatKey(v) >> low
		counts[0][k&(buckets-1)]++
		counts[1][k>>bits&(buckets-1)]++
		counts[2][k>>(2*bits)&(buckets-1)]++
		counts[3][k>>(3*bits)&(buckets-1)]++
	}
	from, to := values, scratch
	for d := range counts {
		c := &counts[d]
		if c[floatKey(from[0])>>(low+d*bits)&(buckets-1)] == uint32(len(from)) {
			continue // all have this digit
		}
		var sum uint32
		for i := range c {
			c[i], sum = sum, sum+c[i]
		}
		for _, v := range from {
			b := floatKey(v) >> (low + d*bits) & (buckets - 1)
			to[c[b]] = v
			c[b]++
		}
		from, to = to, from
	}
	finish(from)
	return from
}

// finish sorts what is nearly in order.
func finish(values []float64) {
	moves := 4 * len(values)
	for i := 1; i < len(values); i++ {
		v := values[i]
		if v >= values[i-1] {
			continue
		}
		j := i
		for ; j > 0 && v < values[j-1] && moves > 0; j-- {
			values[j] = values[j-1]
			moves--
		}
		values[j] = v
		if moves == 0 { // many values that nearly agree
			slices.Sort(values)
			return
		}
	}
}

// floatKey maps a float to an integer with the same order.
func floatKey(v float64) uint64 {
	b := math.Float64bits(v)
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// SortInts sorts moments (any int64) in the same way.
func SortInts(values []int64) {
	if len(values) < RadixFrom {
		slices.Sort(values)
		return
	}
	scratch := make([]int64, len(values))
	const bits, buckets = 11, 1 << 11
	from, to := values, scratch
	for d := 0; d < 6; d++ {
		var c [buckets]uint32
		for _, v := range from {
			c[(uint64(v)^1<<63)>>(d*bits)&(buckets-1)]++
		}
		if c[(uint64(from[0])^1<<63)>>(d*bits)&(buckets-1)] == uint32(len(from)) {
			continue
		}
		var sum uint32
		for i := range c {
			c[i], sum = sum, sum+c[i]
		}
		for _, v := range from {
			b := (uint64(v) ^ 1<<63) >> (d * bits) & (buckets - 1)
			to[c[b]] = v
			c[b]++
		}
		from, to = to, from
	}
	if &from[0] != &values[0] {
		copy(values, from)
	}
}
