package dist

import (
	"strconv"
	"strings"

	"parley/generate/config"
)

// Parse reads the short form of a distribution, as flags have it, and checks it:
//
//	1000                              constant
//	500:1500                          uniform, both included
//	normal(1000,200)                  normal(mean,sd), cut off at 0
//	lognormal(median=60,p90=400)      any distribution with its parameters by name, min and max as well
//	trace.csv:ContextTokens           empirical: a column of a CSV or Parquet file
//
// Problems are told under the given name of the flag.
func Parse(name, text string, p *config.Problems) Dist {
	var d Dist
	before := p.Count()
	d.DecodeConfig(name, text, p)
	if d.Check(name, nil, p); p.Count() > before {
		d.law = wrong{} // so that nobody tells it again
	}
	return d
}

// Column takes the short form of a column apart.
func Column(text string) (file, column string, ok bool) {
	m, _ := object("", text, &config.Problems{}).(map[string]any)
	file, ok = m["file"].(string)
	column, _ = m["column"].(string)
	return file, column, ok
}

// object gives the long form of a short one; nil where it is none, which is told.
func object(path, text string, p *config.Problems) any {
	text = strings.TrimSpace(text)
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return map[string]any{"distribution": "constant", "value": f}
	}
	name, list, call := strings.Cut(text, "(")
	_, known := laws[name]
	before, after, parts := cutLast(text, ":")
	lo, err1 := strconv.ParseFloat(before, 64)
	hi, err2 := strconv.ParseFloat(after, 64)
	switch {
	case parts && err1 == nil && err2 == nil:
		return map[string]any{"distribution": "uniform", "min": lo, "max": hi}
	case call && known && strings.HasSuffix(list, ")"):
		return parameters(path, name, strings.TrimSuffix(list, ")"), p)
	case !call && parts && before != "":
		return map[string]any{"distribution": "empirical", "file": before, "column": after}
	case !call && !known && strings.Contains(text, "."):
		return map[string]any{"distribution": "empirical", "file": text}
	}
	p.Add(path, "%q is no number, no min:max such as 500:1500, no distribution such as normal(1000,200) or lognormal(median=60,p90=400), and no column of a file such as trace.csv:tokens", text)
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// parameters reads what stands between the parentheses.
func parameters(path, name, list string, p *config.Problems) any {
	m := map[string]any{"distribution": name}
	order := laws[name].order
	for i, part := range strings.Split(list, ",") {
		key, value, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			if key, value = "", key; i < len(order) {
				key = order[i]
			}
		}
		if key == "" {
			p.Add(path, "%q: name the parameters of %s, as in lognormal(median=60,p90=400)", part, name)
			return nil
		}
		m[key] = value
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			m[key] = f
		}
	}
	return m
}
