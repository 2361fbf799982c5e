// Package dist has the random distributions of a generation config.
//
// A distribution is written as an object: its name under "distribution", and its parameters; as a plain
// number, which is a constant; or in short as text, as flags have it (see [Parse]).
//
//	constant    value
//	uniform     min, max (inclusive; whole bounds give whole numbers)
//	normal      mean and sd; cut off (not clamped) at min, which is 0 if absent, and max
//	zipf        alpha > 1
//	poisson     alpha, the mean
//	lognormal   average >= 1 with median_ratio in (0, 1), 0.85 if absent; or mean and sigma of the
//	            underlying normal distribution; or median with p90 or with average
//	gamma       shape and scale; or shape and average
//	geometric   p in (0, 1], or average = 1/p: 1, 2, 3, ...
//	exponential average
//	empirical   values with weights (equal if absent); or file, a CSV or Parquet file, with column and
//	            weight_column
//	quantiles   at, probabilities from 0 to 1, and values, the quantile at each; straight lines between
//	mixture     of: a list of distributions, each with a weight beside its parameters
//
// The others take min and max as well, which clamp what is drawn; 0 or null is none. Those that vLLM's
// multi-turn benchmark has mean what they mean there, but for one thing: each draw comes from the
// distribution itself. (The original rescales every batch of a lognormal so that the batch's own mean is the
// average, by which a draw depends on how many are drawn.)
//
// Draws are the same on every processor: see package schemas/random.
package dist

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"parley/generate/config"
)

// Dist is one distribution. The zero value is "not given".
type Dist struct {
	name string
	law  law // nil: not given

	Min    *float64 `json:"min,omitempty"` // clamps, where the law has no bounds of its own
	Max    *float64 `json:"max,omitempty"`
	Weight *float64 `json:"weight,omitempty"` // as a part of a mixture; 1 if absent
}

// law is the kind of a distribution with its parameters.
type law interface {
	// check tells what is wrong with the parameters, and prepares for drawing.
	check(c checker)
	draw(r *rand.Rand) float64
}

// checker tells problems of one distribution.
type checker struct {
	path    string
	resolve func(name string) string // of files
	p       *config.Problems
}

func (c checker) bad(name, format string, args ...any) {
	c.p.Add(config.Under(c.path, name), format, args...)
}

// need tells a missing parameter.
func (c checker) need(name string, v *float64) bool {
	if v == nil {
		c.bad(name, "missing")
	}
	return v != nil
}

// positive wants a parameter that is greater than 0.
func (c checker) positive(name string, v *float64) bool {
	if c.need(name, v) && *v <= 0 {
		c.bad(name, "%v must be greater than 0", *v)
		return false
	}
	return v != nil
}

// oneOf wants exactly one of two parameters, which are greater than 0.
func (c checker) oneOf(a string, x *float64, b string, y *float64) bool {
	switch {
	case x == nil && y == nil:
		c.bad(a, "missing; give %s or %s", a, b)
	case x != nil && y != nil:
		c.bad(b, "give either %s or %s", a, b)
	case x != nil:
		return c.positive(a, x)
	default:
		return c.positive(b, y)
	}
	return false
}

// Given says whether the distribution was given at all.
func (d *Dist) Given() bool { return d != nil && d.law != nil }

// Constant is the distribution that always gives v.
func Constant(v float64) Dist { return Dist{name: "constant", law: &constant{&v}} }

// Uniform gives whole numbers from min to max, both included.
func Uniform(min, max float64) Dist { return Dist{name: "uniform", law: &uniform{&min, &max}} }

// Geometric gives 1, 2, 3, ..., each further one with the probability 1-p.
func Geometric(p float64) Dist { return Dist{name: "geometric", law: &geometric{P: &p}} }

// LognormalP90 is the lognormal distribution with this median and 90th percentile.
func LognormalP90(median, p90 float64) Dist {
	return Dist{name: "lognormal", law: &lognormal{Median: &median, P90: &p90}}
}

// LognormalMean is the lognormal distribution with this median and mean.
func LognormalMean(median, mean float64) Dist {
	return Dist{name: "lognormal", law: &lognormal{Median: &median, Average: &mean}}
}

// Mixture draws from one of the distributions, by their weights.
func Mixture(of ...Dist) Dist { return Dist{name: "mixture", law: &mixture{Of: of}} }

// Weighing gives the distribution with its weight in a mixture.
func (d Dist) Weighing(w float64) Dist {
	d.Weight = &w
	return d
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

// Float draws one value. The distribution must have passed [Dist.Check].
func (d *Dist) Float(r *rand.Rand) float64 {
	return d.clamp(d.law.draw(r))
}

func (d *Dist) clamp(x float64) float64 {
	if d.Max != nil {
		x = math.Min(x, *d.Max)
	}
	if d.Min != nil {
		x = math.Max(x, *d.Min)
	}
	return x
}

// Always gives the whole number that a constant always is. ok is false for other kinds.
func (d *Dist) Always() (n int, ok bool) {
	if d == nil {
		return 0, false
	}
	l, ok := d.law.(*constant)
	if !ok || l.Value == nil {
		return 0, false
	}
	return whole(d.clamp(*l.Value)), true
}

// Int draws one value as a whole number, rounded to the nearest.
func (d *Dist) Int(r *rand.Rand) int { return whole(d.Float(r)) }

func whole(x float64) int {
	if math.IsNaN(x) { // infinity times 0, of parameters near the ends of what a number can be
		return 0
	}
	return int(math.Round(min(max(x, math.MinInt32), math.MaxInt32)))
}

// Check tells everything that is wrong with the parameters, each with its path under the given one, and
// prepares the distribution for drawing. Resolve gives the path of a file that the config names; nil takes the
// name as it is.
func (d *Dist) Check(path string, resolve func(string) string, p *config.Problems) {
	if d == nil { // left out
		return
	}
	if d.law == nil {
		p.Add(config.Under(path, "distribution"), "missing; it is one of %s", strings.Join(Names(), ", "))
		return
	}
	c := checker{path, resolve, p}
	d.law.check(c)
	if d.Min != nil && d.Max != nil && *d.Min > *d.Max {
		c.bad("min", "%v is greater than max, %v", *d.Min, *d.Max)
	}
}

// CheckRequired is [Dist.Check] of one that has to be there.
func CheckRequired(path string, d *Dist, resolve func(string) string, p *config.Problems) {
	if d == nil {
		p.Add(path, "missing: give a distribution, such as {\"distribution\": \"constant\", \"value\": 100}")
		return
	}
	d.Check(path, resolve, p)
}

// Names lists the distributions.
func Names() []string { return slices.Sorted(maps.Keys(laws)) }

// DecodeConfig reads a distribution from a parsed config.
func (d *Dist) DecodeConfig(path string, v any, p *config.Problems) {
	*d = Dist{name: "constant", law: wrong{}}
	if f, ok := config.Number(v); ok {
		v = map[string]any{"distribution": "constant", "value": f}
	}
	if text, ok := v.(string); ok {
		v = object(path, text, p)
	}
	m, ok := v.(map[string]any)
	switch {
	case v == nil: // told already
		return
	case !ok:
		p.Add(path, "expected a distribution, such as {\"distribution\": \"constant\", \"value\": 10}, and found %s", config.Describe(v))
		return
	}
	name := struct {
		Distribution string `json:"distribution"`
	}{}
	if text, ok := m["distribution"].(string); ok {
		d.name = text
	}
	kind, ok := laws[d.name]
	switch {
	case m["distribution"] == nil:
		p.Add(config.Under(path, "distribution"), "missing; it is one of %s", strings.Join(Names(), ", "))
		return
	case !ok:
		p.Add(config.Under(path, "distribution"), "unknown distribution %v; it is one of %s", m["distribution"], strings.Join(Names(), ", "))
		return
	}
	law, before := kind.make(), p.Count()
	config.Fields(path, "parameter of "+d.name, m, p, law, d, &name)
	if d.Max != nil && *d.Max == 0 {
		d.Max = nil
	}
	if p.Count() == before {
		d.law = law
	}
}

// MarshalJSON writes the distribution as a config has it.
func (d Dist) MarshalJSON() ([]byte, error) {
	if d.law == nil {
		return []byte("null"), nil
	}
	type rest Dist
	var parts [][]byte
	for _, v := range []any{struct {
		Distribution string `json:"distribution"`
	}{d.name}, d.law, rest(d)} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if b = bytes.Trim(b, "{}"); len(b) > 0 {
			parts = append(parts, b)
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}")), nil
}
