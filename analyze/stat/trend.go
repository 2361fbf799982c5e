package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
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
// level (Applied Statistics 28, 1979). Size is the difference of the means behind and before the most likely
// place. P is that of the paper, 2 exp(-6 K^2/(n^3+n^2)), where it is large; where it is small it comes from
// random permutations, for the paper's does not get below 0.007 for sixteen values.
func Pettitt(series []float64) Trend {
	n := len(series)
	if n < 4 {
		return Trend{P: 1}
	}
	r := ranks(series)
	most, at := pettitt(r)
	if at == 0 {
		return Trend{P: 1}
	}
	f := float64(n)
	before, _ := MeanStd(series[:at])
	behind, _ := MeanStd(series[at:])
	t := Trend{Size: behind - before, At: at, P: min(1, 2*math.Exp(-6*most*most/(f*f*f+f*f)))}
	if t.P < 0.3 {
		const permutations = 9999
		rng := rand.New(rand.NewPCG(1979, 28))
		as := 1
		for range permutations {
			rng.Shuffle(n, func(i, j int) { r[i], r[j] = r[j], r[i] })
			if k, _ := pettitt(r); k >= most {
				as++
			}
		}
		t.P = float64(as) / (permutations + 1)
	}
	return t
}

// pettitt gives the largest |U| of Pettitt's test from ranks, and the index behind which it is.
func pettitt(ranks []float64) (most float64, at int) {
	var sum float64
	for i, r := range ranks[:len(ranks)-1] {
		sum += r
		if u := math.Abs(2*sum - float64(i+1)*float64(len(ranks)+1)); u > most {
			most, at = u, i+1
		}
	}
	return most, at
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

// What counts as a change of level.
const (
	LevelFloor  = 0.05  // of the mean: less is level, however sure
	levelAlpha  = 0.001 // of a trend or shift above the floor
	levelLarge  = 0.75  // of the mean: a trend as large needs no small P if the ends of the series differ
	levelApart  = 0.83  // probability that a value of the last third exceeds one of the first
	trendBlocks = 20
	shiftBlocks = 16 // fewer and longer: Pettitt's test knows nothing of dependence
)

// Change is the strongest change of a series' level.
type Change struct {
	Relative float64 // of the series' mean: above 0 it rises
	P        float64
	Shift    bool // at one place, not a trend
}

// Level tests whether a series (means of equal short steps of time, at least 60) keeps its level, for queues
// that grow and servers that slow down. It does not if there is a trend (Mann and Kendall, with Hamed and
// Rao's correction) or a shift (Pettitt, on means of blocks, as it takes them for independent) beyond
// chance at 0.1 % and of at least 5 % of the mean; or a trend of at least 75 % after which values
// of the last third exceed those of the first in five of six pairs (or in one): a queue that wanders off
// is so autocorrelated that no test of a trend is sure of it.
func Level(series []float64) (Change, bool) {
	mean, _ := MeanStd(series)
	if !(mean > 0) || len(series) < 3*trendBlocks {
		return Change{P: 1}, true
	}
	trend := MannKendall(BlockMeans(series, trendBlocks))
	worst := Change{Relative: trend.Size / mean, P: trend.P}
	level := !(trend.P < levelAlpha && math.Abs(worst.Relative) >= LevelFloor)
	if level && math.Abs(worst.Relative) >= levelLarge {
		apart := exceeds(series[len(series)*2/3:], series[:len(series)/3])
		level = math.Abs(apart-0.5) < levelApart-0.5
	}
	if shift := Pettitt(BlockMeans(series, shiftBlocks)); level && shift.P < levelAlpha && math.Abs(shift.Size) >= LevelFloor*mean {
		worst, level = Change{Relative: shift.Size / mean, P: shift.P, Shift: true}, false
	}
	return worst, level
}

// exceeds gives the probability that a value of a exceeds one of b, ties by half (Mann and Whitney's U).
func exceeds(a, b []float64) float64 {
	r := ranks(slices.Concat(a, b))
	var sum float64
	for i := range a {
		sum += r[i]
	}
	n, m := float64(len(a)), float64(len(b))
	return (sum - n*(n+1)/2) / (n * m)
}
