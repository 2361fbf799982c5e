package dist

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parse reads a distribution from a decoded JSON or YAML value: an object, or a plain number for a
// constant. Every problem is told with its path under the given one. Names and types are looked at here;
// [Dist.Check] looks at the values.
func Parse(path string, v any) (Dist, error) {
	switch v := v.(type) {
	case map[string]any:
		return parseObject(path, v)
	case nil:
		return Dist{}, nil
	}
	if f, ok := number(v); ok {
		return Constant(f), nil
	}
	return Dist{}, fmt.Errorf("%s: expected a distribution, such as {\"distribution\": \"constant\", \"value\": 10}, and found %s", path, describe(v))
}

func parseObject(path string, m map[string]any) (Dist, error) {
	var d Dist
	var problems []error
	numbers := map[string]**float64{
		"value": &d.Value, "min": &d.Min, "max": &d.Max, "alpha": &d.Alpha, "average": &d.Average,
		"median_ratio": &d.MedianRatio, "median": &d.Median, "p90": &d.P90, "mean": &d.Mean, "sigma": &d.Sigma,
		"shape": &d.Shape, "scale": &d.Scale, "p": &d.P, "weight": &d.Weight,
	}
	texts := map[string]*string{"distribution": &d.Distribution, "csv": &d.CSV, "column": &d.Column, "weight_column": &d.WeightColumn}
	lists := map[string]*[]float64{"values": &d.Values, "weights": &d.Weights}
	for _, key := range sortedKeys(m) {
		v, at := m[key], path+"."+key
		if v == nil {
			continue
		}
		if to, ok := numbers[key]; ok {
			f, isNumber := number(v)
			if !isNumber {
				problems = append(problems, fmt.Errorf("%s: expected a number and found %s", at, describe(v)))
				continue
			}
			*to = &f
		} else if to, ok := texts[key]; ok {
			s, isText := v.(string)
			if !isText {
				problems = append(problems, fmt.Errorf("%s: expected text and found %s", at, describe(v)))
				continue
			}
			*to = s
		} else if to, ok := lists[key]; ok {
			list, err := numberList(at, v)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			*to = list
		} else if key == "of" {
			parts, isList := v.([]any)
			if !isList {
				problems = append(problems, fmt.Errorf("%s: expected a list of distributions and found %s", at, describe(v)))
				continue
			}
			for i, p := range parts {
				part, err := Parse(fmt.Sprintf("%s[%d]", at, i), p)
				if err != nil {
					problems = append(problems, err)
				}
				d.Of = append(d.Of, part)
			}
		} else {
			problems = append(problems, fmt.Errorf("%s: no distribution has such a parameter", at))
		}
	}
	// In vLLM's configs a max of 0 or null is none; uniform needs its bounds.
	if d.Distribution != "uniform" && d.Max != nil && *d.Max == 0 {
		d.Max = nil
	}
	return d, errors.Join(problems...)
}

func numberList(path string, v any) ([]float64, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: expected a list of numbers and found %s", path, describe(v))
	}
	out := make([]float64, 0, len(items))
	for i, item := range items {
		f, ok := number(item)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: expected a number and found %s", path, i, describe(item))
		}
		out = append(out, f)
	}
	return out, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return fmt.Sprintf("the text %q", v)
	case bool:
		return fmt.Sprintf("%v", v)
	case map[string]any:
		return "an object with " + strings.Join(sortedKeys(v), ", ")
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
