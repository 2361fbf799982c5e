package chatshape

import (
	"encoding/json"
	"fmt"

	"parley/generate/rawjson"
	"parley/schemas"
)

// readCalls reads a list of calls: with or without the wrapper that names a function, with arguments as JSON
// text or as an object. What names no function is no call.
func readCalls(raw []byte) []schemas.ToolCall {
	if !listOf(raw, 0) {
		return nil
	}
	var calls []schemas.ToolCall
	_ = rawjson.Walk(raw, func(_, v []byte) bool { // the list was cut out of JSON that was walked before
		if v = asJSON(v); v[0] != '{' {
			return true
		}
		o, err := objectOf(v)
		if err != nil {
			return true
		}
		c := schemas.ToolCall{ID: o.text("id", "call_id"), Type: "function"}
		if inner := asJSON(o.get("function")); len(inner) > 0 && inner[0] == '{' {
			if o, err = objectOf(inner); err != nil {
				return true
			}
		}
		args := o.get("arguments", "parameters", "input", "args")
		c.Function.Name, c.Function.Arguments = o.text("name", "function"), "{}"
		if s, ok := rawjson.Scalar(args); ok && args[0] == '"' {
			c.Function.Arguments = s
		} else if args != nil {
			c.Function.Arguments = compact(args)
		}
		if c.Function.Name != "" {
			calls = append(calls, c)
		}
		return true
	})
	return calls
}

// tools reads definitions of tools: a list, or its JSON text, of functions with or without their wrapper.
func (b *builder) tools(raw []byte) {
	list := asJSON(raw)
	if !listOf(list, 0) {
		if s, _ := rawjson.Scalar(list); s != "" && s != "[]" {
			b.note("tools that are no JSON list of definitions, left out", "%s", clip(list))
		}
		return
	}
	var out []json.RawMessage
	_ = rawjson.Walk(list, func(_, v []byte) bool { // as with calls
		if v = asJSON(v); v[0] != '{' || !json.Valid(v) {
			b.note("tools that are no JSON list of definitions, left out", "%s", clip(v))
			return true
		}
		o, err := objectOf(v)
		switch {
		case err != nil || o.get("function") != nil || o.get("name") == nil:
			out = append(out, json.RawMessage(compact(v)))
		default: // the function alone, as in OpenAI's old functions and its responses, or Anthropic's form
			fn := `{"name":` + string(o["name"])
			if d := o.get("description"); d != nil {
				fn += `,"description":` + string(d)
			}
			if p := asJSON(o.get("parameters", "input_schema")); p != nil {
				fn += `,"parameters":` + compact(p)
			}
			out = append(out, json.RawMessage(`{"type":"function","function":`+fn+`}}`))
		}
		return true
	})
	if len(out) > 0 {
		s := string(mustJSON(out))
		b.chat.Tools = &s
	}
}

// pair gives every call an identifier and every result of a tool that of its call. A result without a call
// becomes the user's, as servers refuse it otherwise.
func (b *builder) pair() {
	var open []schemas.ToolCall
	made := 0
	close := func() {
		for _, c := range open {
			b.note("calls of tools without a result", "%s", c.Function.Name)
		}
		open = nil
	}
	for i := range b.list {
		m := &b.list[i]
		switch m.Role {
		case "assistant":
			if len(m.calls) > 0 {
				close()
			}
			for k := range m.calls {
				if m.calls[k].ID == "" {
					m.calls[k].ID = fmt.Sprintf("call_%d", made)
				}
				made++
			}
			open = append(open, m.calls...)
		case "tool":
			at := -1
			for k, c := range open {
				named := m.ToolCallID != nil && *m.ToolCallID == c.ID
				if named || m.ToolCallID == nil && m.Name != nil && *m.Name == c.Function.Name && at < 0 {
					at = k
				}
			}
			if at < 0 && len(open) > 0 {
				at = 0
			}
			if at < 0 {
				b.note("results of tools that nobody called, said by the user", "message %d", i)
				m.Role, m.ToolCallID, m.Name = "user", nil, nil
				continue
			}
			id := open[at].ID
			m.ToolCallID = &id
			open = append(open[:at:at], open[at+1:]...)
		case "user":
			close()
		}
	}
	if len(b.list) > 0 && b.list[len(b.list)-1].Role != "assistant" {
		close() // calls of a last answer wait for nobody
	}
}
