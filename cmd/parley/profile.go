package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

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
			if object, ok := value.(map[string]any); ok { // --sampling, --extra-body
				text, err := json.Marshal(object)
				return string(text), err
			}
			if flag.Target.Kind() == reflect.String {
				return fmt.Sprint(value), nil // a number, or a word that YAML takes for something else
			}
			return value, nil
		}
	}
	return nil, nil
}
