package stat

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a range in which a true value lies with 95 % confidence. A side that is not known is NaN.
type Interval struct{ Low, High float64 }

// Unknown is the interval of which neither side is known.
var Unknown = Interval{math.NaN(), math.NaN()}

// Known says whether both sides are.
func (i Interval) Known() bool { return !math.IsNaN(i.Low) && !math.IsNaN(i.High) }

// Wider gives, on each side, the farther of two limits; a side that one of them does not know stays
// unknown.
func (i Interval) Wider(o Interval) Interval {
	// The built-in min and max give NaN if either is.
	return Interval{min(i.Low, o.Low), max(i.High, o.High)}
}

// StudentT gives the value that Student's t with df degrees of freedom exceeds in size with the
// probability 1-[Confidence]; infinite for less than one degree.
func StudentT(df float64) float64 {
	switch {
	case !(df >= 1):
		return math.Inf(1)
	case df > 1e6:
		return normal975
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - (1-Confidence)/2)
}

var normal975 = distuv.UnitNormal.Quantile(1 - (1-Confidence)/2)

// TwoSided gives the probability of a t at least as large in size.
func TwoSided(t, df float64) float64 {
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.CDF(-math.Abs(t))
}

// MeanStd gives the mean and the sample standard deviation (ddof 1; NaN for fewer than two values).
func MeanStd(values []float64) (mean, std float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	if len(values) == 0 {
		mean = math.NaN()
	}
	if len(values) < 2 {
		return mean, math.NaN()
	}
	return mean, math.Sqrt(squares / (n - 1))
}

// OfRuns gives the interval of the mean over repeated runs, each of which gave one value: Student's t. It
// says what runs of this length on such schedules give, not what the server gives in the long run. Take
// logarithms of what is a ratio by nature (a latency, a rate) first.
func OfRuns(values []float64) Interval {
	mean, std := MeanStd(values)
	if !(len(values) > 1) {
		return Unknown
	}
	half := StudentT(float64(len(values)-1)) * std / math.Sqrt(float64(len(values)))
	return Interval{mean - half, mean + half}
}

// Test is what a comparison of two groups of runs found: the difference of their means, its interval, and
// the probability of one as large by chance.
type Test struct {
	Diff     float64 // mean of b less mean of a
	Interval Interval
	DF       float64 // degrees of freedom
	SE       float64 // standard error of Diff
	P        float64 // two-sided; NaN if there are too few runs to test
}

// Paired tests runs that are pairs (a[i] with b[i]) by Student's t on their differences.
func Paired(a, b []float64) Test {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	return PairedDifferences(d)
}

// PairedDifferences is [Paired] for pairs of which the differences are known.
func PairedDifferences(d []float64) Test {
	mean, std := MeanStd(d)
	n := float64(len(d))
	return newTest(mean, std/math.Sqrt(n), n-1)
}

// Welch tests two groups of runs that are not pairs: Welch's t (Biometrika 34, 1947), with Satterthwaite's
// degrees of freedom.
func Welch(a, b []float64) Test {
	ma, sa := MeanStd(a)
	mb, sb := MeanStd(b)
	na, nb := float64(len(a)), float64(len(b))
	va, vb := sa*sa/na, sb*sb/nb
	df := na + nb - 2
	if va+vb > 0 {
		df = (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))
	}
	return newTest(mb-ma, math.Sqrt(va+vb), df)
}

func newTest(diff, se, df float64) Test {
	t := Test{Diff: diff, Interval: Unknown, DF: df, SE: se, P: math.NaN()}
	if !(df >= 1) || math.IsNaN(se) {
		return t
	}
	half := StudentT(df) * se
	t.Interval = Interval{diff - half, diff + half}
	switch {
	case se > 0:
		t.P = TwoSided(diff/se, df)
	case diff == 0:
		t.P = 1
	default:
		t.P = 0
	}
	return t
}

// Holm says which of several tests stand at the level given when all of them together may raise a false
// alarm with that probability at most (Holm, Scandinavian Journal of Statistics 6, 1979): p-values in rising
// order, each against the level divided by the number of tests that are left. NaN is no test.
func Holm(p []float64, level float64) []bool {
	order := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := make([]bool, len(p))
	for i, at := range order {
		if p[at] > level/float64(len(order)-i) {
			break
		}
		out[at] = true
	}
	return out
}

// skewT gives the interval of a mean from the means of few blocks, by t with an adjustment for their
// skewness. Johnson (JASA 73, 1978) adds terms of the third moment to t; what is used is its monotone
// form (Willink, Communications in Statistics 34, 2005, as in N-Skart: Tafazzoli et al., 2011): with b =
// skewness/(6 sqrt(m)), t becomes G(t) = (cuberoot(1 + 6b(t-b)) - 1)/(2b), and the interval reaches from
// mean - G(t) se to mean - G(-t) se. t has the degrees of freedom of the few long blocks, for short ones too: these
// stand in where the long ones are alike by chance, and are not independent.
func skewT(mean, se, skewness, blocks float64) Interval {
	t := StudentT(longBlocks - 1)
	b := skewness / (6 * math.Sqrt(blocks))
	g := func(t float64) float64 {
		if math.Abs(b) < 1e-4 {
			return t
		}
		return (math.Cbrt(1+6*b*(t-b)) - 1) / (2 * b)
	}
	return Interval{mean - g(t)*se, mean - g(-t)*se}
}

// skewnessOf gives the sample skewness of values around their mean, with the correction for small samples
// (G1 of Joanes and Gill, The Statistician 47, 1998).
func skewnessOf(values []float64) float64 {
	n := float64(len(values))
	mean, _ := MeanStd(values)
	var m2, m3 float64
	for _, v := range values {
		d := v - mean
		m2 += d * d / n
		m3 += d * d * d / n
	}
	if !(m2 > 0) || n < 3 {
		return 0
	}
	return m3 / math.Pow(m2, 1.5) * math.Sqrt(n*(n-1)) / (n - 2)
}
