package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/schemas"
)

// chatMessage is a message in any of the usual shapes: role and content, or from and value.
type chatMessage struct {
	role, name, toolCallID, refusal *string
	content                         []byte
	toolCalls, functionCall         []byte
}

// parseMessage takes a message apart.
func parseMessage(data []byte) (chatMessage, error) {
	var m chatMessage
	var bad error
	str := func(to **string, key, raw []byte) {
		if missing(raw) {
			return
		}
		s, err := text(raw)
		if err != nil {
			bad = fmt.Errorf("its %s is no text", key)
		}
		*to = &s
	}
	rank := 0 // of the names that content may have
	content := func(r int, raw []byte) {
		if !missing(raw) && r > rank {
			rank, m.content = r, raw
		}
	}
	err := walk(data, func(key, raw []byte) bool {
		switch string(key) {
		case "role", "from":
			str(&m.role, key, raw)
		case "user": // some ShareGPT files
			if m.role == nil {
				str(&m.role, key, raw)
			}
		case "name":
			str(&m.name, key, raw)
		case "tool_call_id":
			str(&m.toolCallID, key, raw)
		case "refusal":
			str(&m.refusal, key, raw)
		case "content":
			content(3, raw)
		case "value":
			content(2, raw)
		case "text":
			content(1, raw)
		case "tool_calls":
			m.toolCalls = raw
		case "function_call":
			m.functionCall = raw
		}
		return bad == nil
	})
	if err != nil {
		return m, errors.New("it is no object")
	}
	return m, bad
}

// parseMessages takes a list of messages apart.
func parseMessages(raw []byte) ([]schemas.Message, *problem) {
	if missing(raw) || raw[0] != '[' {
		return nil, badRecord("its messages are no list")
	}
	var list []chatMessage
	var bad error
	err := walk(raw, func(_, v []byte) bool {
		m, err := parseMessage(v)
		if err != nil {
			bad = fmt.Errorf("message %d: %w", len(list), err)
		}
		list = append(list, m)
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, badRecord("%v", err)
	}
	return messages(list)
}

// messages turns parsed messages into ours, keeping multi-part content and tool calls as they stand.
func messages(list []chatMessage) ([]schemas.Message, *problem) {
	out := make([]schemas.Message, 0, len(list))
	for i := range list {
		m, err := list[i].message()
		if err != nil {
			return nil, badRecord("message %d: %v", i, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func (m *chatMessage) message() (schemas.Message, error) {
	var out schemas.Message
	if m.role == nil {
		return out, errors.New("it has no role")
	}
	if out.Role = schemas.CanonicalRole(*m.role); out.Role == "" {
		return out, fmt.Errorf("the role %q is not known", *m.role)
	}
	out.Name, out.ToolCallID = m.name, m.toolCallID
	if !missing(m.toolCalls) && string(m.toolCalls) != "[]" {
		if m.toolCalls[0] != '[' {
			return out, errors.New("tool_calls is not a list")
		}
		s := compact(m.toolCalls)
		out.ToolCalls = &s
	} else if !missing(m.functionCall) {
		// The older form of one call, which servers no longer take.
		s := `[{"id":"call_0","type":"function","function":` + compact(m.functionCall) + `}]`
		out.ToolCalls = &s
	}
	if err := setContent(&out, m.content); err != nil {
		return out, err
	}
	if out.Content == nil && out.ToolCalls == nil {
		if m.refusal == nil {
			return out, fmt.Errorf("the %s message has no content", out.Role)
		}
		out.Content = m.refusal
	}
	return out, nil
}

func missing(v []byte) bool { return len(v) == 0 || string(v) == "null" }

// setContent takes a string, or a list of parts.
func setContent(m *schemas.Message, raw []byte) error {
	if missing(raw) {
		return nil
	}
	switch raw[0] {
	case '"':
		s, err := text(raw)
		if err != nil {
			return err
		}
		m.Content = &s
		return nil
	case '[':
		var parts []struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil {
			return fmt.Errorf("the parts of its content: %w", err)
		}
		var text strings.Builder
		for _, p := range parts {
			if p.Text != nil {
				text.WriteString(*p.Text)
			}
		}
		s, all := text.String(), compact(raw)
		m.Content, m.Parts = &s, &all
		return nil
	}
	return fmt.Errorf("its content is neither text nor a list of parts but begins with %q", raw[0])
}

// compact takes white space out of JSON and leaves all else as it is.
func compact(raw []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// dropLeadingAnswers takes off assistant messages that nobody asked for: chat templates refuse a
// conversation that begins with one. Those of an import that may start with gpt are such.
func dropLeadingAnswers(list []schemas.Message) []schemas.Message {
	for i := range list {
		switch list[i].Role {
		case "system", "developer":
			continue
		case "assistant":
			n := i
			for n < len(list) && list[n].Role == "assistant" {
				n++
			}
			return append(list[:i:i], list[n:]...)
		}
		break
	}
	return list
}

// tagKeys are the keys of a record that become tags where their value is a scalar.
var tagKeys = []string{"source", "language", "model", "category", "task", "type", "dataset", "split"}

func tags(record map[string]json.RawMessage) map[string]string {
	out := map[string]string{}
	for _, k := range tagKeys {
		if s, ok := scalar(record[k]); ok && len(s) <= 200 {
			out[k] = s
		}
	}
	return out
}

// scalar gives a string, number or truth value as text.
func scalar(raw []byte) (string, bool) {
	if missing(raw) {
		return "", false
	}
	switch raw[0] {
	case '"':
		s, err := text(raw)
		return s, err == nil && s != ""
	case '{', '[':
		return "", false
	}
	return string(raw), true
}

// chatRecord reads one conversation of messages. keys are the names that the list of messages may have.
func chatRecord(data []byte, fallbackID string, keys ...string) (schemas.Conversation, *problem) {
	var c schemas.Conversation
	rec, err := members(data)
	if err != nil {
		return c, badRecord("%v", err)
	}
	var raw json.RawMessage
	for _, k := range keys {
		if raw = rec[k]; !missing(raw) {
			break
		}
	}
	if missing(raw) {
		return c, badRecord("it has no %s", strings.Join(keys, " or "))
	}
	var p *problem
	if c.Messages, p = parseMessages(raw); p != nil {
		return c, p
	}
	c.ConversationID = fallbackID
	for _, k := range []string{"id", "conversation_id", "conversation_hash", "prompt_id"} {
		if id, ok := scalar(rec[k]); ok {
			c.ConversationID = id
			break
		}
	}
	if t := rec["tools"]; !missing(t) && t[0] == '[' {
		s := compact(t)
		c.Tools = &s
	}
	c.Tags = tags(rec)
	return c, nil
}

// scanReader gives the records of a file of JSON values as items.
type scanReader struct {
	im   *Importer
	scan *scanner
	work func(data []byte, rec record) ([]schemas.Conversation, *problem)
}

// record reads the next record and begins its item, which has a problem already if there is no value to
// read. The record's data are valid until the next call.
func (r *scanReader) record() (Item, record, error) {
	rec, err := r.scan.next()
	if err != nil {
		return Item{}, rec, err
	}
	item := Item{where: Where{File: r.im.source.name, Line: rec.line, Record: rec.number}, records: 1}
	if rec.bad != "" {
		item.problem = badRecord("%s", rec.bad)
	}
	return item, rec, nil
}

// nextOf is record for a file of grouped records: it passes over those that came with the first of their
// group, and gives a first one's members (nil for a record of no group).
func (r *scanReader) nextOf(g *grouped) (item Item, rec record, members []place, err error) {
	for {
		if item, rec, err = r.record(); err != nil || item.problem != nil {
			return item, rec, nil, err
		}
		members, later := g.at(rec.off)
		if !later {
			return item, rec, members, nil
		}
	}
}

func (r *scanReader) next() (Item, error) {
	item, rec, err := r.record()
	if err != nil || item.problem != nil {
		return item, err
	}
	data := bytes.Clone(rec.data)
	rec.data = nil
	item.work = func() ([]schemas.Conversation, *problem) { return r.work(data, rec) }
	return item, nil
}

func newScanReader(im *Importer, work func([]byte, record) ([]schemas.Conversation, *problem)) *scanReader {
	return &scanReader{im: im, scan: newScanner(im.source.reader()), work: work}
}

func newOpenAI(im *Importer) reader {
	return newScanReader(im, func(data []byte, rec record) ([]schemas.Conversation, *problem) {
		c, p := chatRecord(data, fmt.Sprintf("conversation-%d", rec.number), "messages", "conversation", "conversations", "prompt")
		if p != nil {
			return nil, p
		}
		return []schemas.Conversation{c}, nil
	})
}

func newQuestions(im *Importer) reader {
	return newScanReader(im, func(data []byte, rec record) ([]schemas.Conversation, *problem) {
		var q map[string]json.RawMessage
		var turns []string
		if err := json.Unmarshal(data, &q); err != nil {
			return nil, badRecord("%v", err)
		}
		if err := json.Unmarshal(q["turns"], &turns); err != nil {
			return nil, badRecord("turns: %v", err)
		}
		c := schemas.Conversation{ConversationID: fmt.Sprintf("question-%d", rec.number), Tags: tags(q)}
		for _, k := range []string{"question_id", "id"} {
			if id, ok := scalar(q[k]); ok {
				c.ConversationID = id
				break
			}
		}
		for i := range turns {
			c.Messages = append(c.Messages, schemas.Message{Role: "user", Content: &turns[i]})
			if i < len(turns)-1 {
				c.Messages = append(c.Messages, schemas.Message{Role: "assistant"}) // no one recorded it
			}
		}
		return []schemas.Conversation{c}, nil
	})
}
