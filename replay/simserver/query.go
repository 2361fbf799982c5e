package simserver

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ParseURL reads a simulated server's configuration from a URL such as
// "sim:?prefill=20000&itl=12ms&slots=64&dialect=vllm". What the URL does not name has its default. A name may have
// dashes for its underscores, as llmsim's flags have. Every problem is reported at once.
func ParseURL(s string) (Config, error) {
	rest, ok := strings.CutPrefix(s, "sim:")
	if !ok {
		return Config{}, fmt.Errorf("simserver: %q is not a sim: URL (write sim:?itl=12ms&slots=64)", s)
	}
	rest = strings.TrimPrefix(rest, "//")
	if rest != "" && rest[0] != '?' {
		return Config{}, fmt.Errorf("simserver: %q: parameters start with '?' (write sim:?itl=12ms&slots=64)", s)
	}
	return ParseQuery(strings.TrimPrefix(rest, "?"))
}

// ParseQuery is [ParseURL] for the part after the question mark.
func ParseQuery(query string) (Config, error) {
	c := Default()
	given, err := url.ParseQuery(query)
	if err != nil {
		return Config{}, fmt.Errorf("simserver: parameters: %w", err)
	}
	vals := url.Values{}
	for name, vs := range given {
		name = strings.ReplaceAll(name, "-", "_")
		vals[name] = append(vals[name], vs...)
	}
	c.Engine, c.GPU = vals.Get("engine"), vals.Get("gpu")
	c.preset()
	known := map[string]bool{}
	err = eachParam(&c, func(p param) error {
		known[p.name] = true
		vs := vals[p.name]
		switch {
		case len(vs) == 0:
			return nil
		case len(vs) > 1:
			return fmt.Errorf("simserver: %s is given %d times", p.name, len(vs))
		}
		return p.set(vs[0])
	})
	for name := range given {
		if !known[strings.ReplaceAll(name, "-", "_")] {
			err = errors.Join(err, fmt.Errorf("simserver: unknown parameter %q (llmsim --help lists them)", name))
		}
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// Query gives the part of a sim: URL after the question mark that stands for c: the parameters that
// differ from their defaults. ParseQuery(c.Query()) is c.
func (c Config) Query() string {
	d := Default()
	d.Engine, d.GPU = c.Engine, c.GPU
	d.preset()
	d.Engine, d.GPU = "", ""
	defs := map[string]any{}
	_ = eachParam(&d, func(p param) error { defs[p.name] = p.v.Interface(); return nil })
	vals := url.Values{}
	_ = eachParam(&c, func(p param) error {
		if v := p.v.Interface(); v != defs[p.name] {
			vals.Set(p.name, fmt.Sprint(v))
		}
		return nil
	})
	return vals.Encode()
}

func (p param) set(s string) error {
	var err error
	switch p.v.Interface().(type) {
	case string:
		p.v.SetString(s)
	case bool:
		var b bool
		if b, err = strconv.ParseBool(s); s == "" {
			b, err = true, nil
		}
		p.v.SetBool(b)
	case time.Duration:
		var d time.Duration
		d, err = time.ParseDuration(s)
		p.v.SetInt(int64(d))
	case int, int64:
		var n int64
		n, err = strconv.ParseInt(s, 10, 64)
		p.v.SetInt(n)
	case float64:
		var x float64
		switch s {
		case "", "true": // "crlf" or "crlf=true" is every time
			x = 1
		case "false":
		default:
			x, err = strconv.ParseFloat(s, 64)
		}
		p.v.SetFloat(x)
	default:
		panic("simserver: Config has a field of kind " + p.v.Kind().String())
	}
	if err != nil {
		what := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number"}[p.v.Kind()]
		if p.v.Type() == reflect.TypeFor[time.Duration]() {
			what = "a duration such as 12ms"
		} else if what == "" {
			what = "a whole number"
		}
		return fmt.Errorf("simserver: %s=%s: must be %s", p.name, s, what)
	}
	return nil
}
