package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"parley/generate/dist"
)

// ReadSpec reads a generation config from a JSON or YAML file. Names of files in it are relative to its
// folder, or else to the working folder.
func ReadSpec(path string) (*Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	s, err := ParseSpec(text)
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	s.dir = filepath.Dir(path)
	return s, nil
}

// ParseSpec reads a generation config from its JSON or YAML text. It tells every wrong name and type at
// once, with its path; [Spec.Validate] looks at the values.
func ParseSpec(text []byte) (*Spec, error) {
	var v any
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors put a byte order mark in front
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, placeOfJSON(text, err)
		}
	} else if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("expected an object with num_conversations, prompt_input and prompt_output; a list of conversations is imported with --from")
	}
	r := &specReader{}
	return r.spec(m), errors.Join(r.problems...)
}

// placeOfJSON adds the line to an error of the JSON parser.
func placeOfJSON(text []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	if offset < 0 || offset > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:offset], []byte("\n")), err)
}

// specReader takes a decoded config apart and gathers what is wrong with it.
type specReader struct{ problems []error }

func (r *specReader) bad(path, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// object hands each field to its reader, in the order of the names, and tells those that have none.
func (r *specReader) object(path string, m map[string]any, fields map[string]func(path string, v any)) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := key
		if path != "" {
			at = path + "." + key
		}
		read, ok := fields[key]
		switch {
		case !ok:
			r.bad(at, "no such setting; here are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case m[key] != nil:
			read(at, m[key])
		}
	}
}

func (r *specReader) section(fields map[string]func(path string, v any)) func(string, any) {
	return func(path string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			r.bad(path, "expected an object and found %v", v)
			return
		}
		r.object(path, m, fields)
	}
}

func (r *specReader) spec(m map[string]any) *Spec {
	s := &Spec{}
	r.object("", m, map[string]func(string, any){
		"filetype":          r.text(&s.FileType),
		"num_conversations": r.whole(&s.NumConversations),
		"text_files":        r.texts(&s.TextFiles),
		"print_stats":       r.truth(&s.PrintStats),
		"preset":            r.text(&s.Preset),
		"max_prompt_tokens": r.whole(&s.MaxPrompt),
		"think_time_s":      r.dist(&s.ThinkTime),
		"prompt_input": r.section(map[string]func(string, any){
			"num_turns":                r.dist(&s.PromptInput.NumTurns),
			"num_requests":             r.dist(&s.PromptInput.NumRequests),
			"common_prefix_num_tokens": r.dist(&s.PromptInput.CommonPrefix),
			"prefix_num_tokens":        r.dist(&s.PromptInput.Prefix),
			"num_tokens":               r.dist(&s.PromptInput.NumTokens),
			"first_num_tokens":         r.dist(&s.PromptInput.FirstNumTokens),
		}),
		"prompt_output": r.section(map[string]func(string, any){
			"num_tokens": r.dist(&s.PromptOutput.NumTokens),
		}),
		"shared_prefix": func(path string, v any) {
			s.SharedPrefix = &SharedPrefix{}
			r.section(map[string]func(string, any){
				"groups":     r.whole(&s.SharedPrefix.Groups),
				"num_tokens": r.dist(&s.SharedPrefix.NumTokens),
			})(path, v)
		},
		"tool_use": func(path string, v any) {
			s.ToolUse = &ToolUse{}
			r.section(map[string]func(string, any){
				"share":        r.number(&s.ToolUse.Share),
				"think_time_s": r.dist(&s.ToolUse.ThinkTime),
				"num_tokens":   r.dist(&s.ToolUse.NumTokens),
			})(path, v)
		},
		"arrivals": func(path string, v any) {
			s.Arrivals = &Arrivals{}
			r.section(map[string]func(string, any){
				"rate":       r.number(&s.Arrivals.Rate),
				"burstiness": r.number(&s.Arrivals.Burstiness),
			})(path, v)
		},
		"tags": func(path string, v any) {
			tags, ok := v.(map[string]any)
			if !ok {
				r.bad(path, "expected an object of labels and found %v", v)
				return
			}
			s.Tags = make(map[string]string, len(tags))
			for k, v := range tags {
				s.Tags[k] = fmt.Sprint(v)
			}
		},
	})
	return s
}

func (r *specReader) dist(to **dist.Dist) func(string, any) {
	return func(path string, v any) {
		d, err := dist.Parse(path, v)
		if err != nil {
			r.problems = append(r.problems, err)
		}
		*to = &d
	}
}

func (r *specReader) number(to *float64) func(string, any) {
	return func(path string, v any) {
		switch v := v.(type) {
		case float64:
			*to = v
		case int:
			*to = float64(v)
		default:
			r.bad(path, "expected a number and found %v", v)
		}
	}
}

func (r *specReader) whole(to *int) func(string, any) {
	return func(path string, v any) {
		var f float64
		before := len(r.problems)
		r.number(&f)(path, v)
		if len(r.problems) > before {
			return
		}
		if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			r.bad(path, "expected a whole number and found %v", v)
			return
		}
		*to = int(f)
	}
}

func (r *specReader) text(to *string) func(string, any) {
	return func(path string, v any) {
		s, ok := v.(string)
		if !ok {
			r.bad(path, "expected text and found %v", v)
			return
		}
		*to = s
	}
}

func (r *specReader) texts(to *[]string) func(string, any) {
	return func(path string, v any) {
		list, ok := v.([]any)
		if !ok {
			r.bad(path, "expected a list of file names and found %v", v)
			return
		}
		for i, item := range list {
			s, ok := item.(string)
			if !ok {
				r.bad(fmt.Sprintf("%s[%d]", path, i), "expected a file name and found %v", item)
				continue
			}
			*to = append(*to, s)
		}
	}
}

func (r *specReader) truth(to *bool) func(string, any) {
	return func(path string, v any) {
		b, ok := v.(bool)
		if !ok {
			r.bad(path, "expected true or false and found %v", v)
			return
		}
		*to = b
	}
}
