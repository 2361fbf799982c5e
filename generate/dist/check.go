package dist

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// parameters lists what each distribution takes besides min and max (and weight, in a mixture).
var parameters = map[string][]string{
	"constant":    {"value"},
	"uniform":     {},
	"zipf":        {"alpha"},
	"poisson":     {"alpha"},
	"lognormal":   {"average", "median_ratio", "median", "p90", "mean", "sigma"},
	"gamma":       {"shape", "scale", "average"},
	"geometric":   {"p", "average"},
	"exponential": {"average"},
	"empirical":   {"values", "weights", "csv", "column", "weight_column"},
	"mixture":     {"of"},
}

// Names lists the distributions.
func Names() []string {
	names := make([]string, 0, len(parameters))
	for n := range parameters {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

type checker struct {
	path     string
	d        *Dist
	problems []error
}

func (c *checker) bad(field, format string, args ...any) {
	at := c.path
	if field != "" {
		at += "." + field
	}
	c.problems = append(c.problems, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

// given lists the parameters that are set.
func (d *Dist) given() map[string]*float64 {
	all := map[string]*float64{
		"value": d.Value, "alpha": d.Alpha, "average": d.Average, "median_ratio": d.MedianRatio, "median": d.Median,
		"p90": d.P90, "mean": d.Mean, "sigma": d.Sigma, "shape": d.Shape, "scale": d.Scale, "p": d.P,
	}
	for k, v := range all {
		if v == nil {
			delete(all, k)
		}
	}
	return all
}

func (c *checker) parameters(dir string) {
	d := c.d
	takes, known := parameters[d.Distribution]
	switch {
	case d.Distribution == "":
		c.bad("distribution", "missing; it is one of %s", strings.Join(Names(), ", "))
		return
	case !known:
		c.bad("distribution", "unknown distribution %q; it is one of %s", d.Distribution, strings.Join(Names(), ", "))
		return
	}
	given := d.given()
	for _, name := range sortedKeys(given) {
		if v := *given[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			c.bad(name, "%v is not a number to calculate with", v)
		} else if !slices.Contains(takes, name) {
			c.bad(name, "%s has no such parameter; it takes %s", d.Distribution, strings.Join(append(slices.Clone(takes), "min", "max"), ", "))
		}
	}
	if d.Distribution != "empirical" && (d.Values != nil || d.Weights != nil || d.CSV != "" || d.Column != "" || d.WeightColumn != "") {
		c.bad("", "values, weights and csv belong to the distribution empirical, not to %s", d.Distribution)
	}
	if d.Distribution != "mixture" && d.Of != nil {
		c.bad("of", "belongs to the distribution mixture, not to %s", d.Distribution)
	}
	if len(c.problems) > 0 {
		return
	}
	switch d.Distribution {
	case "constant":
		c.need("value")
	case "uniform":
		c.uniform()
		return
	case "zipf":
		if c.need("alpha") && *d.Alpha <= 1 {
			c.bad("alpha", "%v must be greater than 1", *d.Alpha)
		}
	case "poisson":
		if c.need("alpha") && (*d.Alpha < 0 || *d.Alpha > 1e9) {
			c.bad("alpha", "%v must be from 0 to 1e9: it is the mean", *d.Alpha)
		}
	case "lognormal":
		c.lognormal()
	case "gamma":
		if c.need("shape") && *d.Shape <= 0 {
			c.bad("shape", "%v must be greater than 0", *d.Shape)
		}
		c.oneOf("scale", "average")
	case "geometric":
		c.oneOf("p", "average")
		if d.P != nil && (*d.P <= 0 || *d.P > 1) {
			c.bad("p", "%v must be greater than 0 and at most 1", *d.P)
		}
		if d.Average != nil && *d.Average < 1 {
			c.bad("average", "%v must be at least 1", *d.Average)
		}
	case "exponential":
		if c.need("average") && *d.Average <= 0 {
			c.bad("average", "%v must be greater than 0", *d.Average)
		}
	case "empirical":
		c.empirical(dir)
	case "mixture":
		c.mixture(dir)
	}
	if d.Min != nil && d.Max != nil && *d.Max != 0 && *d.Min > *d.Max {
		c.bad("min", "%v is greater than max, %v", *d.Min, *d.Max)
	}
}

func (c *checker) need(name string) bool {
	if c.d.given()[name] == nil {
		c.bad(name, "missing; %s needs it", c.d.Distribution)
		return false
	}
	return true
}

// oneOf wants exactly one of two positive parameters.
func (c *checker) oneOf(a, b string) {
	given := c.d.given()
	switch {
	case given[a] == nil && given[b] == nil:
		c.bad(a, "missing; %s needs %s or %s", c.d.Distribution, a, b)
	case given[a] != nil && given[b] != nil:
		c.bad(b, "give either %s or %s", a, b)
	case given[a] != nil && *given[a] <= 0:
		c.bad(a, "%v must be greater than 0", *given[a])
	case given[b] != nil && *given[b] <= 0:
		c.bad(b, "%v must be greater than 0", *given[b])
	}
}

func (c *checker) uniform() {
	d := c.d
	if d.Min == nil {
		c.bad("min", "missing; uniform needs it")
	}
	if d.Max == nil {
		c.bad("max", "missing; uniform needs it")
	}
	if len(c.problems) > 0 {
		return
	}
	if *d.Min < 0 || *d.Min == 0 && *d.Max == 0 {
		c.bad("min", "%v must not be negative, nor 0 with max 0; for a value that never changes use constant", *d.Min)
	}
	if *d.Min > *d.Max {
		c.bad("min", "%v is greater than max, %v", *d.Min, *d.Max)
	}
	if *d.Max > 1e15 {
		c.bad("max", "%v is beyond 1e15", *d.Max)
	}
}

func (c *checker) lognormal() {
	d := c.d
	switch {
	case d.Mean != nil || d.Sigma != nil:
		if d.Average != nil || d.MedianRatio != nil || d.Median != nil || d.P90 != nil {
			c.bad("", "lognormal takes mean and sigma (of the underlying normal distribution), or the average and median of the distribution itself, not both")
			return
		}
		if c.need("mean") && *d.Mean > 100 {
			c.bad("mean", "%v is the mean of the logarithm: e^%v is beyond anything; did you mean average?", *d.Mean, *d.Mean)
		}
		if c.need("sigma") && *d.Sigma < 0 {
			c.bad("sigma", "%v must not be negative", *d.Sigma)
		}
	case d.Median != nil:
		if *d.Median <= 0 {
			c.bad("median", "%v must be greater than 0", *d.Median)
		}
		if d.MedianRatio != nil {
			c.bad("median_ratio", "give either median or median_ratio")
		}
		switch {
		case d.P90 != nil && d.Average != nil:
			c.bad("p90", "median with p90, or median with average, not all three")
		case d.P90 != nil && *d.P90 < *d.Median:
			c.bad("p90", "%v is less than the median, %v", *d.P90, *d.Median)
		case d.Average != nil && *d.Average < *d.Median:
			c.bad("average", "%v is less than the median, %v, which no lognormal can have", *d.Average, *d.Median)
		case d.P90 == nil && d.Average == nil:
			c.bad("p90", "missing; median goes with p90 or with average")
		}
	default:
		if d.P90 != nil {
			c.bad("median", "missing; p90 goes with it")
		}
		if c.need("average") && *d.Average < 1 {
			c.bad("average", "%v must be at least 1", *d.Average)
		}
		if d.MedianRatio != nil && (*d.MedianRatio <= 0 || *d.MedianRatio >= 1) {
			c.bad("median_ratio", "%v must be between 0 and 1, both excluded", *d.MedianRatio)
		}
	}
}

func (c *checker) empirical(dir string) {
	d := c.d
	switch {
	case d.CSV != "" && d.Values != nil:
		c.bad("csv", "give either values or csv")
		return
	case d.CSV != "" && d.Column == "":
		c.bad("column", "missing; csv needs the name of the column of values")
		return
	case d.CSV != "":
		name := d.CSV
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		values, weights, err := readColumn(name, d.Column, d.WeightColumn)
		if err != nil {
			c.bad("csv", "%v", err)
			return
		}
		// The values take the place of the file, so that the resolved config needs it no more.
		d.Values, d.Weights = values, weights
		d.CSV, d.Column, d.WeightColumn = "", "", ""
	}
	if len(d.Values) == 0 {
		c.bad("values", "missing; empirical needs values, or csv with column")
		return
	}
	if d.Weights != nil && len(d.Weights) != len(d.Values) {
		c.bad("weights", "%d weights for %d values", len(d.Weights), len(d.Values))
		return
	}
	for i, v := range d.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.bad(fmt.Sprintf("values[%d]", i), "%v is not a number to calculate with", v)
		}
	}
	d.cumulative = c.running("weights", len(d.Values), func(i int) float64 {
		if d.Weights == nil {
			return 1
		}
		return d.Weights[i]
	})
}

func (c *checker) mixture(dir string) {
	d := c.d
	if len(d.Of) == 0 {
		c.bad("of", "missing; mixture needs a list of distributions")
		return
	}
	for i := range d.Of {
		part := checker{path: fmt.Sprintf("%s.of[%d]", c.path, i), d: &d.Of[i]}
		part.parameters(dir)
		c.problems = append(c.problems, part.problems...)
	}
	d.cumulative = c.running("of", len(d.Of), func(i int) float64 {
		if w := d.Of[i].Weight; w != nil {
			return *w
		}
		return 1
	})
}

func (c *checker) running(field string, n int, weight func(int) float64) []float64 {
	sums, total := make([]float64, n), 0.0
	for i := range n {
		w := weight(i)
		if !(w >= 0) || math.IsInf(w, 0) {
			c.bad(field, "weight %v of entry %d must be a number from 0 on", w, i)
			w = 0
		}
		total += w
		sums[i] = total
	}
	if total == 0 {
		c.bad(field, "the weights add up to nothing")
	}
	return sums
}

// readColumn reads the values (and weights, if a column is named) of a CSV file with a heading line.
// Empty cells are left out.
func readColumn(name, column, weightColumn string) (values, weights []float64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.ReuseRecord = true
	heading, err := r.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: no heading line: %w", name, err)
	}
	heading = slices.Clone(heading)
	at := func(column string) (int, error) {
		if i := slices.IndexFunc(heading, func(h string) bool { return strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")) == column }); i >= 0 {
			return i, nil
		}
		return 0, fmt.Errorf("%s: no column %q; it has %s", name, column, strings.Join(heading, ", "))
	}
	v, err := at(column)
	if err != nil {
		return nil, nil, err
	}
	w := -1
	if weightColumn != "" {
		if w, err = at(weightColumn); err != nil {
			return nil, nil, err
		}
	}
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		cell := strings.TrimSpace(rec[v])
		if cell == "" {
			continue
		}
		x, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: column %q: %q is not a number", name, line, column, cell)
		}
		values = append(values, x)
		if w >= 0 {
			y, err := strconv.ParseFloat(strings.TrimSpace(rec[w]), 64)
			if err != nil {
				return nil, nil, fmt.Errorf("%s:%d: column %q: %q is not a number", name, line, weightColumn, rec[w])
			}
			weights = append(weights, y)
		}
	}
	if len(values) == 0 {
		return nil, nil, fmt.Errorf("%s: column %q has no values", name, column)
	}
	return values, weights, nil
}
