// Package dist has the random distributions of a generation config, and the random streams that all
// synthetic data is drawn from.
//
// A distribution is written as an object: its name under "distribution", and its parameters.
//
//	constant    value
//	uniform     min, max (inclusive; whole bounds give whole numbers)
//	zipf        alpha > 1
//	poisson     alpha, the mean
//	lognormal   average >= 1 with median_ratio in (0, 1), 0.85 if absent; or mean and sigma of the
//	            underlying normal distribution; or median with p90 or with average
//	gamma       shape and scale; or shape and average
//	geometric   p in (0, 1], or average = 1/p: 1, 2, 3, ...
//	exponential average
//	empirical   values with weights (equal if absent); or csv, a file, with column and weight_column
//	mixture     of: a list of distributions, each with a weight beside its parameters
//
// Every one takes min and max, which clamp what is drawn; 0 or null is none. The first five, written as
// vLLM's multi-turn benchmark writes them, mean what they mean there, but for one thing: each draw comes
// from the distribution itself. (The original rescales every batch of a lognormal so that the batch's own
// mean is the average, by which a draw depends on how many are drawn.)
package dist

import (
	"errors"
	"math"
	"math/rand/v2"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Dist is one distribution: what the config says, in the same words. The zero value is "not given" and
// draws 0.
type Dist struct {
	Distribution string `json:"distribution"`

	Value       *float64 `json:"value,omitempty"`        // constant
	Min         *float64 `json:"min,omitempty"`          // uniform's bound; a clamp elsewhere
	Max         *float64 `json:"max,omitempty"`          // uniform's bound; a clamp elsewhere
	Alpha       *float64 `json:"alpha,omitempty"`        // zipf's exponent, poisson's mean
	Average     *float64 `json:"average,omitempty"`      // the mean of the distribution itself
	MedianRatio *float64 `json:"median_ratio,omitempty"` // lognormal: median / average
	Median      *float64 `json:"median,omitempty"`       // lognormal
	P90         *float64 `json:"p90,omitempty"`          // lognormal: 90th percentile
	Mean        *float64 `json:"mean,omitempty"`         // lognormal: mean of the logarithm
	Sigma       *float64 `json:"sigma,omitempty"`        // lognormal: standard deviation of the logarithm
	Shape       *float64 `json:"shape,omitempty"`        // gamma
	Scale       *float64 `json:"scale,omitempty"`        // gamma
	P           *float64 `json:"p,omitempty"`            // geometric

	Values       []float64 `json:"values,omitempty"`        // empirical
	Weights      []float64 `json:"weights,omitempty"`       // empirical, one per value
	CSV          string    `json:"csv,omitempty"`           // empirical: a file with a heading line
	Column       string    `json:"column,omitempty"`        // empirical: the column of values
	WeightColumn string    `json:"weight_column,omitempty"` // empirical: the column of weights
	Of           []Dist    `json:"of,omitempty"`            // mixture
	Weight       *float64  `json:"weight,omitempty"`        // as a part of a mixture; 1 if absent

	cumulative []float64 // empirical and mixture: running sums of the weights
}

// Given says whether the distribution was given at all.
func (d *Dist) Given() bool { return d != nil && d.Distribution != "" }

// Constant is the distribution that always gives v.
func Constant(v float64) Dist { return Dist{Distribution: "constant", Value: &v} }

// Uniform gives whole numbers from min to max, both included.
func Uniform(min, max float64) Dist { return Dist{Distribution: "uniform", Min: &min, Max: &max} }

// LognormalP90 is the lognormal distribution with this median and 90th percentile.
func LognormalP90(median, p90 float64) Dist {
	return Dist{Distribution: "lognormal", Median: &median, P90: &p90}
}

// LognormalMean is the lognormal distribution with this median and mean.
func LognormalMean(median, mean float64) Dist {
	return Dist{Distribution: "lognormal", Median: &median, Average: &mean}
}

// Clamped gives the distribution with bounds; a bound of 0 is none.
func (d Dist) Clamped(min, max float64) Dist {
	d.Min, d.Max = nil, nil
	if min != 0 {
		d.Min = &min
	}
	if max != 0 {
		d.Max = &max
	}
	return d
}

// z90 is the 90th percentile of the standard normal distribution.
const z90 = 1.2815515655446004

// lognormal gives mean and standard deviation of the logarithm.
//
//	average a, median m = ratio * a:  E = exp(mu + sigma^2/2), median = exp(mu), so
//	mu = ln m, sigma = sqrt(2 ln(a/m))
//	median m, 90th percentile q:  mu = ln m, sigma = ln(q/m) / z90
func (d *Dist) lognormal() (mu, sigma float64) {
	switch {
	case d.Mean != nil:
		return *d.Mean, *d.Sigma
	case d.Median != nil && d.P90 != nil:
		return math.Log(*d.Median), math.Log(*d.P90 / *d.Median) / z90
	case d.Median != nil:
		return math.Log(*d.Median), math.Sqrt(2 * math.Log(*d.Average / *d.Median))
	}
	ratio := DefaultMedianRatio
	if d.MedianRatio != nil {
		ratio = *d.MedianRatio
	}
	return math.Log(*d.Average * ratio), math.Sqrt(2 * math.Log(1/ratio))
}

// DefaultMedianRatio is the ratio of a lognormal's median to its average where none is given, as in
// vLLM's benchmarks/multi_turn/bench_dataset.py.
const DefaultMedianRatio = 0.85

// Float draws one value. The distribution must have passed [Dist.Check].
func (d *Dist) Float(r *rand.Rand) float64 {
	x := d.draw(r)
	if d.Distribution == "uniform" {
		return x
	}
	if d.Max != nil && *d.Max != 0 {
		x = math.Min(x, *d.Max)
	}
	if d.Min != nil {
		x = math.Max(x, *d.Min)
	}
	return x
}

// Int draws one value as a whole number, rounded to the nearest.
func (d *Dist) Int(r *rand.Rand) int {
	x := math.Round(d.Float(r))
	switch {
	case math.IsNaN(x):
		return 0
	case x >= math.MaxInt32:
		return math.MaxInt32
	case x <= math.MinInt32:
		return math.MinInt32
	}
	return int(x)
}

func (d *Dist) draw(r *rand.Rand) float64 {
	switch d.Distribution {
	case "constant":
		return *d.Value
	case "uniform":
		lo, hi := *d.Min, *d.Max
		if lo == math.Trunc(lo) && hi == math.Trunc(hi) {
			return lo + float64(r.Int64N(int64(hi-lo)+1))
		}
		return lo + (hi-lo)*r.Float64()
	case "zipf":
		// Zipf gives k in [0, max] with a probability in proportion to (1+k)^-alpha.
		return float64(rand.NewZipf(r, *d.Alpha, 1, 1<<62).Uint64()) + 1
	case "poisson":
		if *d.Alpha == 0 {
			return 0
		}
		return distuv.Poisson{Lambda: *d.Alpha, Src: r}.Rand()
	case "lognormal":
		mu, sigma := d.lognormal()
		return math.Exp(mu + sigma*r.NormFloat64())
	case "gamma":
		scale := 0.0
		if d.Scale != nil {
			scale = *d.Scale
		} else {
			scale = *d.Average / *d.Shape
		}
		return distuv.Gamma{Alpha: *d.Shape, Beta: 1 / scale, Src: r}.Rand()
	case "geometric":
		p := 0.0
		if d.P != nil {
			p = *d.P
		} else {
			p = 1 / *d.Average
		}
		if p >= 1 {
			return 1
		}
		// The inverse of 1 - (1-p)^k at a uniform number.
		return math.Max(1, math.Ceil(math.Log1p(-r.Float64())/math.Log1p(-p)))
	case "exponential":
		return *d.Average * r.ExpFloat64()
	case "empirical":
		return d.Values[pick(d.cumulative, r)]
	case "mixture":
		return d.Of[pick(d.cumulative, r)].Float(r)
	}
	return 0
}

// pick draws an index by running sums of weights.
func pick(cumulative []float64, r *rand.Rand) int {
	x := r.Float64() * cumulative[len(cumulative)-1]
	i := sort.Search(len(cumulative), func(i int) bool { return cumulative[i] > x })
	return min(i, len(cumulative)-1)
}

// Check says everything that is wrong with the parameters, each with its path under the given one, and
// prepares the distribution for drawing. Files of an empirical distribution are read relative to dir.
func (d *Dist) Check(path, dir string) error {
	c := checker{path: path, d: d}
	c.parameters(dir)
	return errors.Join(c.problems...)
}
