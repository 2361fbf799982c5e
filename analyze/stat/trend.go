package stat

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MSER5 gives how many of a series' first values to leave out as warm-up: the cut that makes the standard
// error of the mean of what is left smallest, over batches of five (White, Cobb and Spratt, 2000), among
// cuts in the first half only (Hoad, Robinson and Davies, 2008). ok is false where the best cut is
// that half: the series never came to rest.
func MSER5(series []float64) (cut int, ok bool) {
	const batch = 5
	means := make([]float64, len(series)/batch)
	for i := range means {
		means[i], _ = MeanStd(series[i*batch : (i+1)*batch])
	}
	k := len(means)
	if k < 4 {
		return 0, true
	}
	// From the back, so that each cut costs one step.
	best, at := math.Inf(1), 0
	var sum, squares float64
	shift := means[k-1]
	for d := k - 1; d >= 0; d-- {
		v := means[d] - shift
		sum += v
		squares += v * v
		n := float64(k - d)
		if d > k/2 {
			continue
		}
		// <= prefers to keep more of the run.
		if z := (squares - sum*sum/n) / (n * n); z <= best {
			best, at = z, d
		}
	}
	return at * batch, at < k/2
}

// Trend is what a test of a series for a trend or a shift of its level found.
type Trend struct {
	Size float64 // change from the series' beginning to its end, in its own unit
	At   int     // of a shift: the index of the first value behind it
	P    float64 // two-sided probability of such a series without a change
}

// MannKendall tests a series for a monotone trend (Mann 1945, Kendall 1975), with the correction of the
// variance for autocorrelation by Hamed and Rao (Journal of Hydrology 204, 1998): the ranks of the series
// less Sen's slope, their autocorrelations beyond chance. Size is Sen's slope (median of the slopes of
// all pairs, JASA 63, 1968) times the length. P is 1 for fewer than 8 values.
func MannKendall(series []float64) Trend {
	n := len(series)
	if n < 8 {
		return Trend{P: 1}
	}
	s := 0.0
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range series {
		for j := i + 1; j < n; j++ {
			s += float64(cmp.Compare(series[j], series[i]))
			slopes = append(slopes, (series[j]-series[i])/float64(j-i))
		}
	}
	slices.Sort(slopes)
	slope := Quantile(slopes, 0.5)
	f := float64(n)
	variance := f * (f - 1) * (2*f + 5) / 18
	// Ties.
	sorted := slices.Sorted(slices.Values(series))
	for i := 0; i < n; {
		j := i
		for j < n && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5) / 18
		i = j
	}
	rest := make([]float64, n)
	for i, v := range series {
		rest[i] = v - slope*float64(i)
	}
	r := ranks(rest)
	mean, _ := MeanStd(r)
	auto := func(lag int) float64 {
		var a, b float64
		for i, v := range r {
			b += (v - mean) * (v - mean)
			if i >= lag {
				a += (v - mean) * (r[i-lag] - mean)
			}
		}
		if b == 0 {
			return 0
		}
		return a / b
	}
	correction := 1.0
	for lag := 1; lag < n-2; lag++ {
		if rho := auto(lag); math.Abs(rho) > normal975/math.Sqrt(f) {
			l := f - float64(lag)
			correction += 2 / (f * (f - 1) * (f - 2)) * l * (l - 1) * (l - 2) * rho
		}
	}
	// Only positive dependence counts: negative sums would make trends out of nothing.
	variance *= max(1, correction)
	t := Trend{Size: slope * (f - 1), P: 1}
	if variance > 0 && s != 0 {
		z := (s - math.Copysign(1, s)) / math.Sqrt(variance)
		t.P = 2 * distuv.UnitNormal.CDF(-math.Abs(z))
	}
	return t
}

// ranks gives the ranks of values, from 1, ties the mean of theirs.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			out[at] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}

// Pettitt tests a series of independent values (means of blocks, for what is not) for one shift of its
// level (Applied Statistics 28, 1979). P is the approximation 2 exp(-6 K^2/(n^3+n^2)). Size is the
// difference of the means behind and before the most likely place.
func Pettitt(series []float64) Trend {
	n := len(series)
	if n < 4 {
		return Trend{P: 1}
	}
	r := ranks(series)
	var sum, most float64
	at := 0
	for i := range n - 1 {
		sum += r[i]
		u := 2*sum - float64(i+1)*float64(n+1)
		if math.Abs(u) > math.Abs(most) {
			most, at = u, i+1
		}
	}
	if at == 0 {
		return Trend{P: 1}
	}
	f := float64(n)
	before, _ := MeanStd(series[:at])
	behind, _ := MeanStd(series[at:])
	return Trend{Size: behind - before, At: at, P: min(1, 2*math.Exp(-6*most*most/(f*f*f+f*f)))}
}

// BlockMeans gives the means of equal blocks of a series; what does not fill a block at the end is left
// out.
func BlockMeans(series []float64, blocks int) []float64 {
	size := len(series) / blocks
	if size == 0 {
		return nil
	}
	out := make([]float64, blocks)
	for b := range out {
		out[b], _ = MeanStd(series[b*size : (b+1)*size])
	}
	return out
}
