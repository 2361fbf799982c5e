package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// profile holds the flags of a --profile file. JSON is read as the YAML that it is. Flags stand at the
// top, or under the name of their verb:
//
//	seed: 7
//	replay:
//	  url: [http://127.0.0.1:8000]
//	  concurrency: 64
type profile struct{ values map[string]any }

func loadProfile(r io.Reader) (kong.Resolver, error) {
	values := map[string]any{}
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not a YAML or JSON object of flags: %w", err)
	}
	return &profile{values}, nil
}

// Validate refuses names that are no flags: a misspelled one would be ignored in silence.
func (p *profile) Validate(app *kong.Application) error {
	flags := map[string]map[string]bool{"": {}}
	for _, verb := range app.Children {
		flags[verb.Name] = map[string]bool{}
		for _, f := range verb.Flags {
			flags[verb.Name][f.Name] = true
			flags[""][f.Name] = true
		}
	}
	var problems []error
	check := func(section string, values map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if section == "" && flags[name] != nil {
				continue
			}
			if !flags[section][flagName(name)] {
				where := ""
				if section != "" {
					where = " of " + section
				}
				problems = append(problems, fmt.Errorf("--profile: there is no flag %q%s", name, where))
			}
		}
	}
	check("", p.values)
	for _, verb := range app.Children {
		section, ok := p.values[verb.Name]
		if !ok {
			continue
		}
		values, ok := section.(map[string]any)
		if !ok {
			problems = append(problems, fmt.Errorf("--profile: %q has to be an object of flags", verb.Name))
			continue
		}
		check(verb.Name, values)
	}
	return errors.Join(problems...)
}

// flagName lets a profile write max_in_flight for --max-in-flight.
func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Resolve gives the value of a flag, that of the verb's section first.
func (p *profile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if flag.Name == "help" || flag.Name == "profile" {
		return nil, nil
	}
	sections := []map[string]any{p.values}
	if verb := ctx.Selected(); verb != nil {
		if own, ok := p.values[verb.Name].(map[string]any); ok {
			sections = []map[string]any{own, p.values}
		}
	}
	for _, values := range sections {
		for key, value := range values {
			if flagName(key) != flag.Name {
				continue
			}
			return flagValue(flag, value)
		}
	}
	return nil, nil
}

// flagValue gives a profile's value as the flag's type takes it: a text flag takes numbers, lists (stages and levels)
// and words that YAML takes for something else; a repeatable one takes one value or a list.
func flagValue(flag *kong.Flag, value any) (any, error) {
	kind := flag.Target.Type()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	switch {
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.String:
		if !isList {
			list = []any{value}
		}
		texts := []any{}
		for _, v := range list {
			texts = append(texts, scalarText(v))
		}
		return texts, nil
	case kind.Kind() == reflect.Map && isObject:
		return object, nil
	case isObject: // --sampling, --extra-body
		text, err := json.Marshal(object)
		return string(text), err
	case kind.Kind() == reflect.String && isList:
		var texts []string
		for _, v := range list {
			texts = append(texts, scalarText(v))
		}
		return strings.Join(texts, ","), nil
	case kind.Kind() == reflect.String && value != nil:
		return scalarText(value), nil
	case kind == reflect.TypeFor[time.Duration]() && value != nil && fmt.Sprint(value) != "0":
		text := scalarText(value)
		if _, err := strconv.ParseFloat(text, 64); err == nil { // which would be nanoseconds
			return nil, fmt.Errorf("--profile: %s: %s has no unit: write %ss, %sms or %sm", flag.Name, text, text, text, text)
		}
		return text, nil
	}
	return value, nil
}

// scalarText gives a value as it would stand on the command line.
func scalarText(value any) string {
	if t, ok := value.(time.Time); ok { // YAML knows times
		return t.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(value)
}
