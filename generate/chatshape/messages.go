package chatshape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/generate/rawjson"
	"parley/schemas"
)

// roles gives our name of a role for the many in use.
var roles = map[string]string{
	"user": "user", "human": "user", "prompter": "user",
	"assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "chatbot": "assistant",
	"model": "assistant", "claude": "assistant", "ai": "assistant", "bot": "assistant", "function_call": "assistant", "tool_call": "assistant",
	"system": "system", "developer": "developer",
	"tool": "tool", "function": "tool", "observation": "tool", "function_response": "tool", "tool_response": "tool", "tool_result": "tool", "ipython": "tool",
}

// Role gives our name of a role (system, developer, user, assistant, tool), or "" for one that is not known.
func Role(name string) string { return roles[strings.ToLower(strings.TrimSpace(name))] }

// messages reads a list of messages in any form.
func (b *builder) messages(raw []byte) error {
	raw = asJSON(raw)
	switch {
	case len(raw) > 0 && raw[0] == '"':
		s, err := rawjson.Text(raw)
		if err != nil {
			return err
		}
		if !b.transcript(s) {
			return errors.New("its messages are text, but not a JSON list")
		}
		return nil
	case len(raw) > 0 && raw[0] == '{':
		return b.columns(raw)
	case len(raw) == 0 || raw[0] != '[':
		return errors.New("its messages are no list")
	}
	var bad error
	i := 0
	err := rawjson.Walk(raw, func(_, v []byte) bool {
		if bad = b.item(v, i); bad != nil {
			bad = fmt.Errorf("message %d: %w", i, bad)
		}
		i++
		return bad == nil
	})
	return errors.Join(err, bad)
}

// item reads one element of a list of messages.
func (b *builder) item(raw []byte, i int) error {
	switch {
	case rawjson.Missing(raw):
		return nil
	case raw[0] == '"': // strings of the user and the assistant in turn
		s, err := rawjson.Text(raw)
		if err != nil {
			return err
		}
		b.say([]string{"user", "assistant"}[i%2], s)
		return nil
	case raw[0] == '[': // a question and its answer
		return b.history(raw)
	case raw[0] != '{':
		return errors.New("it is no object")
	}
	o, err := objectOf(raw)
	if err != nil {
		return err
	}
	return b.message(o)
}

// history reads a list of strings as those of the user and the assistant in turn.
func (b *builder) history(raw []byte) error {
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > 2 {
		return errors.New("it is a list, but not of a question and an answer")
	}
	for i, s := range list {
		b.say([]string{"user", "assistant"}[i], s)
	}
	return nil
}

// say adds a message of plain text.
func (b *builder) say(role, text string) {
	b.add(message{Message: schemas.Message{Role: role}}, text)
}

// columns reads messages that are an object: of lists of roles and contents (a feature of the datasets
// library), or around the list itself.
func (b *builder) columns(raw []byte) error {
	o, err := objectOf(raw)
	if err != nil {
		return err
	}
	if inner := o.get(messageKeys...); inner != nil {
		return b.messages(inner)
	}
	who, what := o.get(roleKeys...), o.get(contentKeys...)
	if !listOf(who, 0) || !listOf(what, 0) {
		return errors.New("its messages are an object without lists of roles and contents")
	}
	var names, texts []json.RawMessage
	if err := errors.Join(json.Unmarshal(who, &names), json.Unmarshal(what, &texts)); err != nil || len(names) != len(texts) {
		return errors.New("its messages have lists of roles and contents that do not fit together")
	}
	for i := range names {
		if err := b.message(object{"role": names[i], "content": texts[i]}); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// message reads a message of a role, an item of OpenAI's responses, or a question with its answer.
func (b *builder) message(o object) error {
	m := message{at: timeOf(o.get("timestamp", "created_at", "create_time", "time"))}
	if s, err := strconv.ParseFloat(o.text("delay_seconds"), 64); err == nil && s >= 0 && s < 1e9 {
		ms := s * 1000
		m.think = &ms
	}
	kind := o.text("type")
	who := o.get(roleKeys...)
	if len(who) > 0 && who[0] == '{' { // {"author": {"role": ...}}
		who = rawjson.Field(who, "role")
	}
	name, _ := rawjson.Scalar(who)
	switch {
	case name != "" && Role(name) != "" || kind == "message":
	case kind == "function_call" || kind == "custom_tool_call":
		name, m.calls = "assistant", readCalls([]byte("["+string(mustJSON(o))+"]"))
	case kind == "function_call_output" || kind == "custom_tool_call_output":
		name = "tool"
		o["content"], o["tool_call_id"] = o.get("output"), o.get("call_id")
	case kind == "reasoning":
		name = "assistant"
		o["reasoning_content"] = textOfParts(o.get("summary", "content"))
		delete(o, "content")
	default:
		if ok, err := b.exchange(o); ok {
			return err
		}
		if name == "" {
			return errors.New("it has no role")
		}
	}
	if m.Role = Role(name); m.Role == "" {
		return fmt.Errorf("the role %q is not known", name)
	}
	if s := o.text("name"); s != "" && kind != "function_call" {
		m.Name = &s
	}
	if s := o.text("tool_call_id"); s != "" {
		m.ToolCallID = &s
	}
	if s := o.text("reasoning_content", "reasoning", "thinking"); s != "" && m.Role == "assistant" {
		m.Reasoning = &s
	}
	if raw := asJSON(o.get("tool_calls")); len(raw) > 0 {
		if raw[0] != '[' {
			return errors.New("tool_calls is not a list")
		}
		m.calls = readCalls(raw)
	}
	if raw := asJSON(o.get("function_call")); len(raw) > 0 && raw[0] == '{' && rawjson.Field(raw, "name") != nil {
		m.calls = append(m.calls, readCalls([]byte("["+string(raw)+"]"))...)
	}
	raw := o.get(contentKeys...)
	if low := strings.ToLower(name); low == "function_call" || low == "tool_call" {
		inner := asJSON(raw)
		if len(inner) > 0 && inner[0] == '{' {
			inner = []byte("[" + string(inner) + "]")
		}
		if m.calls = readCalls(inner); len(m.calls) > 0 {
			raw = nil
		} else {
			b.note("calls of functions that are no JSON, sent as text", "%s", clip(raw))
		}
	}
	if raw == nil {
		raw = o.get("refusal")
	}
	if raw == nil && m.calls == nil && m.Reasoning == nil {
		return fmt.Errorf("the %s message has no content", m.Role)
	}
	if err := b.content(&m, raw, 0); err != nil {
		return err
	}
	return b.results(o)
}

// results reads the results of tools that a row of calls carries itself.
func (b *builder) results(o object) error {
	var bad error
	if raw := asJSON(o.get("tool_results")); listOf(raw, 0) {
		bad = rawjson.Walk(raw, func(_, v []byte) bool {
			m := message{Message: schemas.Message{Role: "tool"}}
			if v[0] == '{' {
				if id, ok := rawjson.Scalar(rawjson.Field(v, "tool_call_id")); ok {
					m.ToolCallID = &id
				}
				for _, k := range []string{"content", "output", "result"} {
					if inner := rawjson.Field(v, k); !rawjson.Missing(inner) {
						v = inner
						break
					}
				}
			}
			if v[0] == '{' {
				b.add(m, compact(v))
				return true
			}
			return b.content(&m, v, 0) == nil
		})
	}
	return bad
}

// exchange reads an element that is a question with its answer, and perhaps a system prompt before.
func (b *builder) exchange(o object) (bool, error) {
	for _, p := range append(pairKeys, [2]string{"instruction", "output"}, [2]string{"instruction", "response"}) {
		q, ok := rawjson.Scalar(o[p[0]])
		a, ok2 := rawjson.Scalar(o[p[1]])
		if !ok && !ok2 || rawjson.Missing(o[p[0]]) && rawjson.Missing(o[p[1]]) || o[p[0]] == nil || o[p[1]] == nil {
			continue
		}
		if s := o.text("system"); s != "" {
			b.say("system", s)
		}
		if q != "" {
			b.say("user", q)
		}
		if a != "" {
			b.say("assistant", a)
		}
		return true, nil
	}
	return false, nil
}

// content gives a message its content, a text or a list of parts, and adds it.
func (b *builder) content(m *message, raw []byte, depth int) error {
	switch {
	case rawjson.Missing(raw):
		b.list = append(b.list, *m)
		return nil
	case raw[0] == '"':
		s, err := rawjson.Text(raw)
		if err != nil {
			return err
		}
		b.add(*m, s)
		return nil
	case raw[0] == '[':
		return b.parts(m, raw)
	case raw[0] == '{' && depth == 0:
		o, err := objectOf(raw)
		if err != nil {
			return err
		}
		inner := o.get("parts", "content", "text", "value") // ChatGPT's own export, among others
		if inner == nil {
			return errors.New("its content is an object without parts or text")
		}
		return b.content(m, inner, 1)
	case raw[0] == '{':
		return errors.New("its content is neither text nor a list of parts")
	}
	b.add(*m, string(raw)) // a number or a truth value
	return nil
}

// add adds a message of text, in which marks stand for images.
func (b *builder) add(m message, text string) {
	if m.parts, text = b.marked(text); m.parts == nil {
		m.Content = &text
	}
	b.list = append(b.list, m)
}

// part is a part of a message's content.
type part struct {
	text string          // of a text part
	raw  json.RawMessage // another part in OpenAI's form, or a text part with more than its text
}

// parts reads a list of parts. Those that are messages of their own (Anthropic's tool results) come before.
func (b *builder) parts(m *message, raw []byte) error {
	var bad error
	m.parts = []part{}
	err := rawjson.Walk(raw, func(_, v []byte) bool {
		switch {
		case v[0] == '"':
			s, err := rawjson.Text(v)
			bad = err
			m.parts = append(m.parts, part{text: s})
		case v[0] == '{':
			bad = b.part(m, v)
		default:
			bad = errors.New("a part of its content is neither text nor an object")
		}
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	if len(m.parts) == 1 && m.parts[0].raw == nil {
		text := m.parts[0].text
		m.Content, m.parts = &text, nil
	}
	if len(m.parts) == 0 && m.parts != nil {
		m.parts = nil
		if m.calls == nil && m.Reasoning == nil && m.Content == nil {
			if m.Role == "user" && len(b.list) > 0 && b.list[len(b.list)-1].Role == "tool" {
				return nil // nothing but results of tools
			}
			empty := ""
			m.Content = &empty
		}
	}
	b.list = append(b.list, *m)
	return nil
}

func (b *builder) part(m *message, raw []byte) error {
	o, err := objectOf(raw)
	if err != nil {
		return err
	}
	kind := o.text("type")
	switch kind {
	case "text", "input_text", "output_text", "":
		if kind == "" && o.get(mediaKeys...) != nil {
			b.mediaPart(m, o, raw)
			return nil
		}
		if o["text"] == nil && kind == "" {
			return errors.New("a part of its content has no type")
		}
		p := part{text: o.text("text")}
		if kind == "text" && o.get("cache_control") != nil {
			p.raw = json.RawMessage(compact(raw))
		}
		m.parts = append(m.parts, p)
	case "refusal":
		m.parts = append(m.parts, part{text: o.text("refusal")})
	case "thinking", "reasoning":
		s := o.text("thinking", "reasoning", "text")
		m.Reasoning = joined(m.Reasoning, &s)
	case "tool_use":
		m.calls = append(m.calls, readCalls([]byte("["+string(raw)+"]"))...)
	case "tool_result":
		id := o.text("tool_use_id")
		return b.content(&message{Message: schemas.Message{Role: "tool", ToolCallID: &id}}, or(o.get("content"), `""`), 0)
	case "file", "input_file", "document":
		if inner := o.get("file"); kind == "file" && len(inner) > 0 && inner[0] == '{' {
			m.parts = append(m.parts, part{raw: json.RawMessage(compact(raw))})
			break
		}
		b.note("files in a form that no server takes, left out", "%s", clip(raw))
	default:
		b.mediaPart(m, o, raw)
	}
	return nil
}

func or(raw []byte, otherwise string) []byte {
	if rawjson.Missing(raw) {
		return []byte(otherwise)
	}
	return raw
}

// textOfParts gives the text of a list of parts as a JSON text.
func textOfParts(raw []byte) []byte {
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return raw
	}
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return mustJSON(strings.Join(all, "\n"))
}

// write puts the content and the calls into the dataset's columns.
func (m *message) write() {
	if m.parts != nil {
		var text strings.Builder
		list := []byte{'['}
		for i, p := range m.parts {
			if i > 0 {
				list = append(list, ',')
			}
			text.WriteString(p.text)
			if p.raw != nil {
				list = append(list, p.raw...)
				continue
			}
			list = append(rawjson.AppendText(append(list, `{"type":"text","text":`...), []byte(p.text)), '}')
		}
		s, all := text.String(), string(append(list, ']'))
		m.Content, m.Parts = &s, &all
	}
	if len(m.calls) > 0 {
		s := string(mustJSON(m.calls))
		m.ToolCalls = &s
	}
}

// joined puts two texts together as paragraphs; nil is none.
func joined(a, b *string) *string {
	switch {
	case a == nil || *a == "":
		return b
	case b == nil || *b == "":
		return a
	}
	s := *a + "\n\n" + *b
	return &s
}

// transcript reads a text whose lines begin with who speaks (Anthropic's HH); false if it is none.
func (b *builder) transcript(s string) bool {
	const human, assistant = "Human:", "Assistant:"
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, human) {
		return false
	}
	for who, rest := "user", s[len(human):]; ; {
		mark, next := assistant, "assistant"
		if who == "assistant" {
			mark, next = human, "user"
		}
		said, after, more := strings.Cut(rest, "\n\n"+mark)
		b.say(who, strings.TrimSpace(said))
		if !more {
			return true
		}
		who, rest = next, after
	}
}

// timeOf reads a time stamp in any of its forms; the zero time is none.
func timeOf(raw []byte) time.Time {
	s, ok := rawjson.Scalar(raw)
	if !ok {
		return time.Time{}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && f < 1e17 {
		switch { // seconds, milliseconds, microseconds since 1970
		case f > 1e14:
			f /= 1e6
		case f > 1e11:
			f /= 1e3
		}
		return time.UnixMicro(int64(f * 1e6)).UTC()
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(form, s); err == nil {
			return t
		}
	}
	return time.Time{}
}

// compact gives JSON without white space and without the members that are null, which Parquet's structs have
// for every key that another row has.
func compact(raw []byte) string {
	if bytes.Contains(raw, []byte("null")) {
		raw = withoutNulls(raw)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

func withoutNulls(raw []byte) []byte {
	if raw[0] != '{' && raw[0] != '[' {
		return raw
	}
	out := []byte{raw[0]}
	if rawjson.Walk(raw, func(k, v []byte) bool {
		if raw[0] == '{' && rawjson.Missing(v) {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if raw[0] == '{' {
			out = append(append(append(out, '"'), k...), '"', ':')
		}
		out = append(out, withoutNulls(v)...)
		return true
	}) != nil {
		return raw
	}
	return append(out, raw[0]+2)
}

// mustJSON writes what cannot fail to be JSON: texts, and values that were JSON before.
func mustJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// clip shortens a value for a note.
func clip(raw []byte) string {
	if s, ok := rawjson.Scalar(raw); ok {
		raw = []byte(s)
	}
	if len(raw) > 60 {
		return strings.ToValidUTF8(string(raw[:60]), "") + "..."
	}
	return string(raw)
}

// insertFirst puts parts before a message's content.
func (m *message) insertFirst(list ...part) {
	if m.parts == nil && m.Content != nil {
		m.parts = []part{{text: *m.Content}}
		m.Content = nil
	}
	m.parts = slices.Insert(m.parts, 0, list...)
}
