package dist

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
)

// quantiles is a distribution told by some of its quantiles, straight lines between them.
type quantiles struct {
	At     []float64 `json:"at"`     // probabilities, rising from 0 to 1
	Values []float64 `json:"values"` // the quantile at each, never falling
}

func (l *quantiles) check(c checker) {
	n := len(l.At)
	switch {
	case n < 2 || n != len(l.Values):
		c.bad("values", "%d quantiles at %d probabilities: give as many, two at least", len(l.Values), n)
	case l.At[0] != 0 || l.At[n-1] != 1 || !slices.IsSorted(l.At):
		c.bad("at", "probabilities must rise from 0 to 1")
	case !slices.IsSorted(l.Values) || slices.ContainsFunc(l.Values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }):
		c.bad("values", "quantiles must not fall from one probability to the next")
	}
}

func (l *quantiles) at(u float64) float64 {
	i := sort.SearchFloat64s(l.At, u)
	if i == 0 {
		return l.Values[0]
	}
	i = min(i, len(l.At)-1)
	width := l.At[i] - l.At[i-1]
	if width <= 0 {
		return l.Values[i]
	}
	return l.Values[i-1] + float64((u-l.At[i-1])/width*(l.Values[i]-l.Values[i-1]))
}

func (l *quantiles) draw(r *rand.Rand) float64 { return l.at(r.Float64()) }

// AtScore gives the quantile of a distribution of the kind "quantiles" at a normal score: what a variable with
// this distribution is where a standard normal one that goes with it is z. ok is false for other kinds.
func (d *Dist) AtScore(z float64) (v float64, ok bool) {
	l, ok := d.law.(*quantiles)
	if !ok {
		return 0, false
	}
	return d.clamp(l.at(probability(z))), true
}

// knots are the probabilities at which Sample keeps quantiles: close together where a tail is long.
var knots = []float64{0, 0.001, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.275, 0.3, 0.325, 0.35, 0.375, 0.4, 0.425, 0.45,
	0.475, 0.5, 0.525, 0.55, 0.575, 0.6, 0.625, 0.65, 0.675, 0.7, 0.725, 0.75, 0.775, 0.8, 0.825, 0.85, 0.875, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98,
	0.985, 0.99, 0.992, 0.994, 0.996, 0.998, 0.999, 1}

// Sample is the distribution of a sample by its quantiles, rounded to four digits so that it can be read. It keeps
// no value of the sample where there are more than a handful. One with few different values keeps each with its weight.
func Sample(values []float64) Dist {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return Constant(0)
	}
	if distinct := slices.Compact(slices.Clone(sorted)); len(distinct) <= 24 {
		if len(distinct) == 1 {
			return Constant(distinct[0])
		}
		weights := make([]float64, len(distinct))
		for _, v := range sorted {
			i, _ := slices.BinarySearch(distinct, v)
			weights[i]++
		}
		return Dist{name: "empirical", law: &empirical{Values: distinct, Weights: weights}}
	}
	l := &quantiles{At: slices.Clone(knots)}
	for _, u := range knots {
		x := u * float64(len(sorted)-1)
		i := min(int(x), len(sorted)-2)
		l.Values = append(l.Values, Rounded(sorted[i]+(x-float64(i))*(sorted[i+1]-sorted[i])))
	}
	// The last stretch is the longest: its end is such that its mean stays what it was.
	if n := len(l.Values); len(sorted) >= 1000 {
		var sum, count float64
		for _, v := range sorted[int(0.999*float64(len(sorted))):] {
			sum, count = sum+v, count+1
		}
		l.Values[n-1] = Rounded(max(l.Values[n-2], 2*sum/count-l.Values[n-2]))
	}
	slices.Sort(l.Values) // rounding may have turned two neighbours
	return Dist{name: "quantiles", law: l}
}

// Rounded gives a number to four digits, which is more than is known of what was learned.
func Rounded(x float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return v
}
