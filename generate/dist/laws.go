package dist

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"parley/schemas/random"
)

// kind is a kind of law, with the parameters that the short form takes without their names.
type kind struct {
	make  func() law
	order []string
}

// laws are the distributions by name.
var laws = map[string]kind{
	"constant":    {func() law { return &constant{} }, []string{"value"}},
	"uniform":     {func() law { return &uniform{} }, []string{"min", "max"}},
	"normal":      {func() law { return &normal{} }, []string{"mean", "sd"}},
	"zipf":        {func() law { return &zipf{} }, []string{"alpha"}},
	"poisson":     {func() law { return &poisson{} }, []string{"alpha"}},
	"lognormal":   {func() law { return &lognormal{} }, nil}, // which two of them would not be plain to see
	"gamma":       {func() law { return &gamma{} }, nil},
	"geometric":   {func() law { return &geometric{} }, nil},
	"exponential": {func() law { return &exponential{} }, []string{"average"}},
	"empirical":   {func() law { return &empirical{} }, nil},
	"quantiles":   {func() law { return &quantiles{} }, nil},
}

// A mixture reads distributions, which asks laws: it cannot stand in what they begin with.
func init() { laws["mixture"] = kind{func() law { return &mixture{} }, nil} }

// wrong stands for a distribution whose problems have been told.
type wrong struct{}

func (wrong) check(checker)           {}
func (wrong) draw(*rand.Rand) float64 { return 0 }

type constant struct {
	Value *float64 `json:"value"`
}

func (l *constant) check(c checker)         { c.need("value", l.Value) }
func (l *constant) draw(*rand.Rand) float64 { return *l.Value }

type uniform struct {
	Min *float64 `json:"min"`
	Max *float64 `json:"max"`
}

func (l *uniform) check(c checker) {
	if lo, hi := c.need("min", l.Min), c.need("max", l.Max); !lo || !hi {
		return
	}
	if *l.Min < 0 || *l.Min == 0 && *l.Max == 0 {
		c.bad("min", "%v must not be negative, nor 0 with max 0; for a value that never changes use constant", *l.Min)
	}
	if *l.Min > *l.Max {
		c.bad("min", "%v is greater than max, %v", *l.Min, *l.Max)
	}
	if *l.Max > 1e15 {
		c.bad("max", "%v is beyond 1e15", *l.Max)
	}
}

func (l *uniform) draw(r *rand.Rand) float64 {
	lo, hi := *l.Min, *l.Max
	if lo == math.Trunc(lo) && hi == math.Trunc(hi) {
		return lo + float64(r.Int64N(int64(hi-lo)+1))
	}
	return lo + float64((hi-lo)*r.Float64())
}

// normal is the normal distribution under the condition that the value lies between its bounds.
type normal struct {
	Mean *float64 `json:"mean"`
	SD   *float64 `json:"sd"`
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`

	from, to float64 // probabilities of the bounds
	mirrored bool    // they are those of the mirror image
}

func (l *normal) check(c checker) {
	if mean, sd := c.need("mean", l.Mean), c.positive("sd", l.SD); !mean || !sd {
		return
	}
	lo, hi := 0.0, math.Inf(1)
	if l.Min != nil {
		lo = *l.Min
	}
	if l.Max != nil && *l.Max != 0 {
		hi = *l.Max
	}
	if lo >= hi {
		c.bad("min", "%v is not less than max, %v", lo, hi)
		return
	}
	a, b := (lo-*l.Mean) / *l.SD, (hi-*l.Mean) / *l.SD
	if a > 30 || b < -30 {
		c.bad("mean", "%v is more than 30 standard deviations from all that is between min, %v, and max, %v", *l.Mean, lo, hi)
		return
	}
	// Near 1 a probability has few digits; near 0 it has all.
	if l.mirrored = a > 0; l.mirrored {
		a, b = -b, -a
	}
	l.from, l.to = probability(a), probability(b)
}

// probability gives the probability that a standard normal variable is below x: the number of which x is
// the quantile, by halving the range of all floating-point numbers from 0 to 1.
func probability(x float64) float64 {
	least, most := math.Float64bits(1e-300), math.Float64bits(1-1e-16)
	k := sort.Search(int(most-least), func(k int) bool { return random.NormalQuantile(math.Float64frombits(least+uint64(k))) >= x })
	return math.Float64frombits(least + uint64(k))
}

func (l *normal) draw(r *rand.Rand) float64 {
	x := random.NormalQuantile(l.from + float64((l.to-l.from)*r.Float64()))
	if l.mirrored {
		x = -x
	}
	return *l.Mean + float64(x**l.SD)
}

type zipf struct {
	Alpha *float64 `json:"alpha"`
}

func (l *zipf) check(c checker) {
	if c.need("alpha", l.Alpha) && *l.Alpha <= 1 {
		c.bad("alpha", "%v must be greater than 1", *l.Alpha)
	}
}

func (l *zipf) draw(r *rand.Rand) float64 { return random.Zipf(r, *l.Alpha) }

type poisson struct {
	Alpha *float64 `json:"alpha"`
}

func (l *poisson) check(c checker) {
	if c.need("alpha", l.Alpha) && (*l.Alpha < 0 || *l.Alpha > 1e9) {
		c.bad("alpha", "%v must be from 0 to 1e9: it is the mean", *l.Alpha)
	}
}

func (l *poisson) draw(r *rand.Rand) float64 { return random.Poisson(r, *l.Alpha) }

type lognormal struct {
	Average     *float64 `json:"average,omitempty"`      // of the distribution itself
	MedianRatio *float64 `json:"median_ratio,omitempty"` // median / average
	Median      *float64 `json:"median,omitempty"`
	P90         *float64 `json:"p90,omitempty"`   // 90th percentile
	Mean        *float64 `json:"mean,omitempty"`  // of the logarithm
	Sigma       *float64 `json:"sigma,omitempty"` // standard deviation of the logarithm

	mu, sigma float64
}

// z90 is the 90th percentile of the standard normal distribution.
const z90 = 1.2815515655446004

// defaultMedianRatio is vLLM's (benchmarks/multi_turn/bench_dataset.py).
const defaultMedianRatio = 0.85

// check finds mean and standard deviation of the logarithm.
//
//	average a, median m = ratio * a:  E = exp(mu + sigma^2/2), median = exp(mu), so
//	mu = ln m, sigma = sqrt(2 ln(a/m))
//	median m, 90th percentile q:  mu = ln m, sigma = ln(q/m) / z90
func (l *lognormal) check(c checker) {
	form, value := "", map[string]float64{"median_ratio": defaultMedianRatio}
	for _, g := range []struct {
		name string
		v    *float64
	}{{"mean", l.Mean}, {"sigma", l.Sigma}, {"median", l.Median}, {"p90", l.P90}, {"average", l.Average}, {"median_ratio", l.MedianRatio}} {
		if g.v != nil {
			form, value[g.name] = form+" "+g.name, *g.v
		}
	}
	median, ratio := value["median"], value["median_ratio"]
	switch form {
	case " mean sigma":
		if l.mu, l.sigma = *l.Mean, *l.Sigma; l.mu > 100 {
			c.bad("mean", "%v is the mean of the logarithm: e^%v is beyond anything; did you mean average?", l.mu, l.mu)
		} else if l.sigma < 0 {
			c.bad("sigma", "%v must not be negative", l.sigma)
		}
		return
	case " median p90":
		if !c.positive("median", l.Median) {
			return
		}
		if *l.P90 < median {
			c.bad("p90", "%v is less than the median, %v", *l.P90, median)
		}
		l.mu, l.sigma = random.Log(median), random.Log(*l.P90/median)/z90
		return
	case " median average":
		if !c.positive("median", l.Median) {
			return
		}
		if *l.Average < median {
			c.bad("average", "%v is less than the median, %v, which no lognormal can have", *l.Average, median)
		}
		ratio = median / *l.Average
	case " average", " average median_ratio":
		if *l.Average < 1 {
			c.bad("average", "%v must be at least 1", *l.Average)
		}
		if ratio <= 0 || ratio >= 1 {
			c.bad("median_ratio", "%v must be between 0 and 1, both excluded", ratio)
		}
		median = *l.Average * ratio
	default:
		c.bad("", "lognormal takes average with median_ratio or without, or median with p90 or average, or mean and sigma of the logarithm; here are:%s", cmp.Or(form, " none of them"))
		return
	}
	l.mu, l.sigma = random.Log(median), math.Sqrt(2*random.Log(1/ratio))
}

func (l *lognormal) draw(r *rand.Rand) float64 {
	return random.Exp(l.mu + float64(l.sigma*random.Normal(r)))
}

type gamma struct {
	Shape   *float64 `json:"shape"`
	Scale   *float64 `json:"scale,omitempty"`
	Average *float64 `json:"average,omitempty"`
}

func (l *gamma) check(c checker) {
	c.positive("shape", l.Shape)
	c.oneOf("scale", l.Scale, "average", l.Average)
}

func (l *gamma) draw(r *rand.Rand) float64 {
	if l.Scale != nil {
		return random.Gamma(r, *l.Shape) * *l.Scale
	}
	return random.Gamma(r, *l.Shape) * (*l.Average / *l.Shape)
}

type geometric struct {
	P       *float64 `json:"p,omitempty"`
	Average *float64 `json:"average,omitempty"`
}

func (l *geometric) check(c checker) {
	switch {
	case !c.oneOf("p", l.P, "average", l.Average):
	case l.P != nil && *l.P > 1:
		c.bad("p", "%v must be greater than 0 and at most 1", *l.P)
	case l.Average != nil && *l.Average < 1:
		c.bad("average", "%v must be at least 1", *l.Average)
	}
}

func (l *geometric) draw(r *rand.Rand) float64 {
	p := 0.0
	if l.P != nil {
		p = *l.P
	} else {
		p = 1 / *l.Average
	}
	if p >= 1 {
		return 1
	}
	// The inverse of 1 - (1-p)^k at a uniform number.
	return math.Max(1, math.Ceil(-random.Exponential(r)/random.Log1p(-p)))
}

type exponential struct {
	Average *float64 `json:"average"`
}

func (l *exponential) check(c checker)           { c.positive("average", l.Average) }
func (l *exponential) draw(r *rand.Rand) float64 { return *l.Average * random.Exponential(r) }

type empirical struct {
	Values       []float64 `json:"values,omitempty"`
	Weights      []float64 `json:"weights,omitempty"` // one per value
	File         string    `json:"file,omitempty"`    // CSV or Parquet
	CSV          string    `json:"csv,omitempty"`     // the older name of file
	Column       string    `json:"column,omitempty"`
	WeightColumn string    `json:"weight_column,omitempty"`

	sums []float64
}

func (l *empirical) check(c checker) {
	if l.CSV != "" {
		l.File, l.CSV = l.CSV, ""
	}
	if l.File != "" {
		if l.Values != nil {
			c.bad("file", "give either values or file")
			return
		}
		columns, weights, err := readColumns(l.File, c.resolve, l.WeightColumn, l.Column)
		if err != nil {
			c.bad("file", "%v", err)
			return
		}
		// The values take the place of the file, so that the resolved config needs it no more.
		*l = empirical{Values: columns[0], Weights: weights}
	}
	if len(l.Values) == 0 {
		c.bad("values", "missing; empirical needs values, or a file")
		return
	}
	l.sums = running(c, "weights", len(l.Values), l.Weights)
}

func (l *empirical) draw(r *rand.Rand) float64 { return l.Values[pick(l.sums, r)] }

type mixture struct {
	Of []Dist `json:"of"`

	sums []float64
}

func (l *mixture) check(c checker) {
	if len(l.Of) == 0 {
		c.bad("of", "missing; mixture needs a list of distributions")
		return
	}
	for i := range l.Of {
		l.Of[i].Check(fmt.Sprintf("%s.of[%d]", c.path, i), c.resolve, c.p)
	}
	weights := make([]float64, len(l.Of))
	for i, d := range l.Of {
		if weights[i] = 1; d.Weight != nil {
			weights[i] = *d.Weight
		}
	}
	l.sums = running(c, "of", len(l.Of), weights)
}

func (l *mixture) draw(r *rand.Rand) float64 { return l.Of[pick(l.sums, r)].Float(r) }

// running gives the running sums of n weights, which are 1 if there are none.
func running(c checker, field string, n int, weights []float64) []float64 {
	if weights != nil && len(weights) != n {
		c.bad(field, "%d weights for %d values", len(weights), n)
		return nil
	}
	sums, total := make([]float64, n), 0.0
	for i := range n {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		if w < 0 {
			c.bad(field, "weight %v of entry %d must not be negative", w, i)
			w = 0
		}
		total += w
		sums[i] = total
	}
	if total == 0 || math.IsInf(total, 0) {
		c.bad(field, "the weights add up to %v", total)
	}
	return sums
}

// pick draws an index by running sums of weights.
func pick(sums []float64, r *rand.Rand) int {
	x := r.Float64() * sums[len(sums)-1]
	return min(sort.Search(len(sums), func(i int) bool { return sums[i] > x }), len(sums)-1)
}
