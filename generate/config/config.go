// Package config puts a parsed JSON or YAML value into a struct, strictly: every name that the struct does
// not have and every value of a wrong type is a problem, and all of them are told at once, each with its path.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Problems gathers what is wrong with a config.
type Problems struct{ list []error }

// Add adds a problem of the setting at a path.
func (p *Problems) Add(path, format string, args ...any) {
	if path != "" {
		format, args = "%s: "+format, append([]any{path}, args...)
	}
	p.list = append(p.list, fmt.Errorf(format, args...))
}

// Share wants a number from 0 to 1.
func (p *Problems) Share(path string, v float64) {
	if !(v >= 0 && v <= 1) {
		p.Add(path, "%v must be from 0 to 1", v)
	}
}

// Err gives all problems as one error; nil if there are none.
func (p *Problems) Err() error { return errors.Join(p.list...) }

// Count gives how many there are so far.
func (p *Problems) Count() int { return len(p.list) }

// Under puts a path in front of a name.
func Under(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// Decoder is implemented by what has a form of its own in a config.
type Decoder interface {
	DecodeConfig(path string, v any, p *Problems)
}

// Parse reads the text of a config: a JSON object, or YAML.
func Parse(text []byte) (v any, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors put a byte order mark in front
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return v, yaml.Unmarshal(text, &v)
	}
	err = json.Unmarshal(text, &v)
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("line %d: %w", 1+bytes.Count(text[:min(at.Offset, int64(len(text)))], []byte("\n")), err)
	}
	return v, err
}

// Decode puts a value into what to points at. What the value does not mention stays as it is, so that one
// config can be laid over another; null takes a setting away.
func Decode(path string, v any, to any, p *Problems) {
	decode(path, v, reflect.ValueOf(to).Elem(), p)
}

// Fields hands the entries of an object to the fields of some structs that have their names. What names
// such an entry in the message about one that none of them has.
func Fields(path, what string, m map[string]any, p *Problems, structs ...any) {
	fields := map[string]reflect.Value{}
	for _, s := range slices.Backward(structs) { // the first one that has a name gets it
		v := reflect.ValueOf(s).Elem()
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				fields[name] = v.FieldByIndex(f.Index)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if field, ok := fields[name]; ok {
			decode(Under(path, name), m[name], field, p)
			continue
		}
		p.Add(Under(path, name), "no such %s; here are %s", what, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
}

func decode(path string, v any, to reflect.Value, p *Problems) {
	if v == nil {
		to.SetZero()
		return
	}
	if d, ok := to.Addr().Interface().(Decoder); ok {
		d.DecodeConfig(path, v, p)
		return
	}
	wanted := func(what string) { p.Add(path, "expected %s and found %s", what, Describe(v)) }
	switch to.Kind() {
	case reflect.Pointer:
		if _, whole := to.Interface().(Decoder); whole || to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		decode(path, v, to.Elem(), p)
	case reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			Fields(path, "setting", m, p, to.Addr().Interface())
		} else {
			wanted("an object")
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			wanted("a list")
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
		for i, item := range list {
			decode(fmt.Sprintf("%s[%d]", path, i), item, to.Index(i), p)
		}
	case reflect.Map: // of labels
		m, ok := v.(map[string]any)
		if !ok {
			wanted("an object of labels")
			return
		}
		to.Set(reflect.MakeMapWithSize(to.Type(), len(m)))
		for k, v := range m {
			to.SetMapIndex(reflect.ValueOf(k), reflect.ValueOf(fmt.Sprint(v)))
		}
	case reflect.String:
		if s, ok := v.(string); ok {
			to.SetString(s)
		} else {
			wanted("text")
		}
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			to.SetBool(b)
		} else {
			wanted("true or false")
		}
	case reflect.Int:
		if f, ok := Number(v); !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			wanted("a whole number")
		} else {
			to.SetInt(int64(f))
		}
	case reflect.Float64:
		if f, ok := Number(v); !ok || math.IsInf(f, 0) || math.IsNaN(f) {
			wanted("a number")
		} else {
			to.SetFloat(f)
		}
	default:
		panic("config: no way to read a " + to.Type().String())
	}
}

// Number gives a number that a JSON or YAML parser has read.
func Number(v any) (float64, bool) {
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

// Describe says what a value is, for messages.
func Describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the text %q", v)
	case map[string]any:
		return "an object with " + strings.Join(slices.Sorted(maps.Keys(v)), ", ")
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}
