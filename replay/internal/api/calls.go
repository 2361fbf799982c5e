package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// toolCall is one tool call of a message in OpenAI's form.
type toolCall struct {
	id, name string
	args     string // JSON text, as the model wrote it
}

// decode decodes JSON from outside the hot path. A value of another type than expected counts as missing.
func decode(raw string, to any) error {
	err := json.Unmarshal([]byte(raw), to)
	var other *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &other) {
		return errors.New("not JSON: " + excerpt([]byte(raw)))
	}
	return nil
}

// readCalls reads a tool_calls column.
func readCalls(raw *string) ([]toolCall, error) {
	if raw == nil {
		return nil, nil
	}
	var list []struct {
		ID       string `json:"id"`
		Function struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := decode(*raw, &list); err != nil {
		return nil, err
	}
	var calls []toolCall
	for _, c := range list {
		call := toolCall{id: c.ID, name: c.Function.Name, args: string(c.Function.Args)}
		if len(c.Function.Args) > 0 && c.Function.Args[0] == '"' {
			_ = json.Unmarshal(c.Function.Args, &call.args) // a text: it was JSON a moment ago
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// writeCalls is the reverse of readCalls.
func writeCalls(calls []toolCall) string {
	list := make([]string, len(calls))
	for i, c := range calls {
		list[i] = object("id", c.id, "type", "function", "function", rawJSON(object("name", c.name, "arguments", c.args)))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// object gives the arguments as a JSON object, for the APIs that want one. What a model wrote that is
// none is kept as the text of one member.
func (c *toolCall) object() string {
	if c.args == "" {
		return "{}"
	}
	if strings.HasPrefix(strings.TrimLeft(c.args, " \t\r\n"), "{") && json.Valid([]byte(c.args)) {
		return c.args
	}
	return object("arguments", c.args)
}

// convertTools gives tool definitions in OpenAI's chat form as the API wants them. Definitions that are
// in another form already are left as they are.
func convertTools(kind Kind, tools string) ([]byte, error) {
	raw := []byte(tools)
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, errors.New("not a JSON array: " + excerpt(raw))
	}
	if kind != Anthropic && kind != Responses {
		return raw, nil
	}
	out := []byte{'['}
	for n, tool := range list {
		members, err := parseObject(tool)
		if err != nil {
			return nil, fmt.Errorf("tool %d: %w", n, err)
		}
		if n > 0 {
			out = append(out, ',')
		}
		var function []member
		for _, m := range members {
			if m.name == "function" {
				if function, err = parseObject(m.raw); err != nil {
					return nil, fmt.Errorf("tool %d: function: %w", n, err)
				}
			}
		}
		if function == nil {
			out = append(out, tool...)
			continue
		}
		object := []member{}
		if kind == Responses {
			object = append(object, member{"type", []byte(`"function"`)})
		} else if !has(function, "parameters") {
			object = append(object, member{"input_schema", []byte(`{"type":"object","properties":{}}`)})
		}
		for _, m := range function {
			switch {
			case kind == Anthropic && m.name == "parameters":
				m.name = "input_schema"
			case kind == Anthropic && m.name == "strict":
				continue
			}
			object = append(object, m)
		}
		out = appendObject(out, object)
	}
	return append(out, ']'), nil
}

// appendObject writes a JSON object.
func appendObject(dst []byte, members []member) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(appendQuoted(dst, m.name), ':'), m.raw...)
	}
	return append(dst, '}')
}
