package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CanonicalRole gives our name of a role (system, developer, user, assistant, tool) for one of the many in
// use, or "" for one that is not known.
func CanonicalRole(name string) string {
	return canonicalRoles[strings.ToLower(strings.TrimSpace(name))]
}

var canonicalRoles = map[string]string{
	"user": "user", "human": "user", "prompter": "user",
	"assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
	"model": "assistant", "claude": "assistant", "ai": "assistant", "bot": "assistant", "function_call": "assistant",
	"system": "system", "developer": "developer",
	"tool": "tool", "function": "tool", "observation": "tool", "function_response": "tool", "ipython": "tool",
}

// conversation makes a conversation of the current row.
func (f *Foreign) conversation(row int64) (c Conversation, err error) {
	defer Guard(f.path, &err)
	values := make(map[string]any, len(f.nodes))
	for part, n := range f.nodes {
		if values[part], err = n.value(); err != nil {
			return Conversation{}, err
		}
	}
	c = Conversation{ConversationID: fmt.Sprintf("row-%d", row), Tags: map[string]string{}}
	if id := scalarText(values["id"]); id != "" {
		c.ConversationID = id
	}
	for _, name := range tagColumns {
		if s := scalarText(values["tag "+name]); s != "" && len(s) <= 200 {
			c.Tags[name] = s
		}
	}
	if t := jsonText(values["tools"]); strings.HasPrefix(t, "[") && t != "[]" {
		c.Tools = &t
	}
	switch f.shape {
	case shapeMessages:
		err = messageList(&c, values["messages"])
	case shapePair:
		err = promptAndResponse(&c, values)
	case shapeQuestions:
		err = questions(&c, values["questions"])
	}
	if err != nil {
		return Conversation{}, err
	}
	if s := scalarText(values["system"]); s != "" && (len(c.Messages) == 0 || c.Messages[0].Role != "system") {
		c.Messages = append([]Message{{Role: "system", Content: &s}}, c.Messages...)
		for i := range c.Turns {
			c.Turns[i].MessageIndex++
		}
	}
	return c, nil
}

func promptAndResponse(c *Conversation, values map[string]any) error {
	if list, ok := values["prompt"].([]any); ok { // the prompt is itself a list of messages
		if err := messageList(c, list); err != nil {
			return err
		}
	} else if s := scalarText(values["prompt"]); s != "" {
		if in := scalarText(values["input"]); in != "" {
			s += "\n\n" + in
		}
		c.Messages = append(c.Messages, Message{Role: "user", Content: &s})
	}
	if s := scalarText(values["response"]); s != "" {
		c.Messages = append(c.Messages, Message{Role: "assistant", Content: &s})
	}
	return nil
}

func questions(c *Conversation, v any) error {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	for i, q := range list {
		s, ok := q.(string)
		if !ok {
			return fmt.Errorf("question %d is no text", i)
		}
		if i > 0 {
			c.Messages = append(c.Messages, Message{Role: "assistant"}) // nobody recorded it
		}
		c.Messages = append(c.Messages, Message{Role: "user", Content: &s})
	}
	return nil
}

// messageList takes a list of messages, a list of strings in turn, or either as JSON text.
func messageList(c *Conversation, v any) error {
	if s, ok := v.(string); ok {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		var list []any
		if err := d.Decode(&list); err != nil {
			return fmt.Errorf("its messages are text, but not a JSON list: %w", err)
		}
		v = list
	}
	list, _ := v.([]any)
	var times []time.Time
	for i, item := range list {
		switch item := item.(type) {
		case nil:
			continue
		case string:
			m := Message{Role: "user", Content: &item}
			if i%2 == 1 {
				m.Role = "assistant"
			}
			c.Messages = append(c.Messages, m)
		case map[string]any:
			m, err := message(item)
			if err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			c.Messages = append(c.Messages, m)
			times = append(times, timeOf(item["timestamp"]))
		default:
			return fmt.Errorf("message %d is neither a struct nor text", i)
		}
	}
	if len(times) == len(c.Messages) {
		thinkTimes(c, times)
	}
	return nil
}

// thinkTimes derives the turns with think times from the messages' time stamps, where there are any. Where
// only answers are stamped (WildChat), the time between two answers is taken, which has the second
// answer's own time in it.
func thinkTimes(c *Conversation, times []time.Time) {
	turns := DeriveTurns(c.Messages)
	any := false
	for i := 1; i < len(turns); i++ {
		before := times[turns[i-1].MessageIndex] // an answer: turns but the last have one
		at := times[turns[i].MessageIndex-1]
		if at.IsZero() && int(turns[i].MessageIndex) < len(times) {
			at = times[turns[i].MessageIndex]
		}
		if before.IsZero() || at.IsZero() {
			continue
		}
		ms := max(float64(at.Sub(before))/1e6, 0)
		turns[i].ThinkTimeMS = &ms
		any = true
	}
	if any {
		c.Turns = turns
	}
}

// timeOf reads a time stamp in any of its forms; the zero time is none.
func timeOf(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v
	case string:
		for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
			if t, err := time.Parse(form, v); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

func message(v map[string]any) (Message, error) {
	var m Message
	get := func(names ...string) any {
		for _, n := range names {
			if x := v[n]; x != nil {
				return x
			}
		}
		return nil
	}
	name := scalarText(get("role", "from"))
	if m.Role = CanonicalRole(name); m.Role == "" {
		return m, fmt.Errorf("the role %q is not known", name)
	}
	if s := scalarText(v["name"]); s != "" {
		m.Name = &s
	}
	if s := scalarText(v["tool_call_id"]); s != "" {
		m.ToolCallID = &s
	}
	if s := jsonText(toolCalls(v["tool_calls"])); strings.HasPrefix(s, "[") && s != "[]" {
		m.ToolCalls = &s
	}
	switch content := get("content", "value", "text").(type) {
	case nil:
	case string:
		m.Content = &content
	case []any:
		var text strings.Builder
		for _, p := range content {
			if part, ok := p.(map[string]any); ok {
				text.WriteString(scalarText(part["text"]))
			}
		}
		s, parts := text.String(), jsonText(content)
		m.Content, m.Parts = &s, &parts
	default:
		return m, errors.New("its content is neither text nor a list of parts")
	}
	if m.Content == nil && m.ToolCalls == nil {
		return m, fmt.Errorf("the %s message has no content", m.Role)
	}
	return m, nil
}

// toolCalls writes arguments that a file holds as a struct as the JSON text that servers take.
func toolCalls(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	for _, call := range list {
		if c, ok := call.(map[string]any); ok {
			if fn, ok := c["function"].(map[string]any); ok {
				if args, ok := fn["arguments"].(map[string]any); ok {
					fn["arguments"] = jsonText(args)
				}
			}
		}
	}
	return v
}

// scalarText gives a text, number or truth value as text.
func scalarText(v any) string {
	switch v := v.(type) {
	case nil, []any, map[string]any:
		return ""
	case string:
		return v
	case time.Time:
		return v.Format(time.RFC3339Nano)
	default:
		return fmt.Sprint(v)
	}
}

// jsonText gives a value as JSON, without the nulls that Parquet's structs need for keys that are not
// there. A text is taken for JSON already.
func jsonText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(withoutNulls(v)); err != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			if x != nil {
				out[k] = withoutNulls(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = withoutNulls(x)
		}
		return out
	}
	return v
}
