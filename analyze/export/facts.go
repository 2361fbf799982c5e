package export

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Facts is what a run cannot know and the operator of its server tells: hardware, parallelism, precision, ... What
// nobody tells has no key in an export.
type Facts map[string]any

// ReadFacts reads a file of facts, YAML or JSON.
func ReadFacts(file string) (Facts, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := map[string]any{} // so that what is inside of it has this type too
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: it must be a list of NAME: VALUE in YAML or JSON: %w", file, err)
	}
	return f, nil
}

// Set takes over NAME=VALUE, where the value is read as YAML reads it: 8 is a number, true a truth, H100 a text.
// A name with dots is one inside of another: system_desc.division=RDI.
func (f Facts) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q: write it as NAME=VALUE, such as hw=h100", text)
	}
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil || v == nil {
		v = value
	}
	at := map[string]any(f)
	parts := strings.Split(name, ".")
	for _, part := range parts[:len(parts)-1] {
		inner, ok := at[part].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[part] = inner
		}
		at = inner
	}
	at[parts[len(parts)-1]] = v
	return nil
}

// check refuses facts that a layout has no place for: a name that is written wrong would be missing from the export
// without a word.
func (f Facts) check(format string, names []string) error {
	for name := range f {
		if slices.Contains(names, name) {
			continue
		}
		if len(names) == 0 {
			return fmt.Errorf("--fact %s: --format %s takes no facts", name, format)
		}
		return fmt.Errorf("--fact %s: --format %s has no place for it; there are %s", name, format, strings.Join(names, ", "))
	}
	return nil
}

// text gives a fact as text, or "".
func (f Facts) text(name string) string {
	if v, ok := f[name]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// number gives a fact that is a whole number of 1 or more; 0 if nobody told it.
func (f Facts) number(name string) (int, error) {
	switch v := f[name].(type) {
	case nil:
		return 0, nil
	case int:
		if v > 0 {
			return v, nil
		}
	case float64:
		if v > 0 && v == math.Trunc(v) {
			return int(v), nil
		}
	}
	return 0, fmt.Errorf("--fact %s=%v: give a whole number of 1 or more", name, f[name])
}

// inner gives the facts inside of one.
func (f Facts) inner(name string) (map[string]any, error) {
	switch v := f[name].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("--fact %s: it holds further facts: write %s.NAME=VALUE, or NAME: VALUE below it in the file", name, name)
}
