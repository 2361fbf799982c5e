// Package chatshape knows what chats of others look like. One record, whatever file it came in (an element of
// a JSON array, a line of JSON lines, a row of Parquet or CSV as a JSON object), becomes a conversation.
//
// A record has the first shape that it matches (generate/README.md lists them in order). What it is wrapped in is taken off before (the
// body of a batch request, the request of a log, the row of a dataset server), and the names of its fields
// may be told ([Reader.Columns]).
//
// # What every conversation is brought to
//
// Roles have our names. A tool's result follows a call that it names; one that nobody called for is said by
// the user. Neighbouring messages of one role are one message, and an answer that nobody asked for is no
// beginning, as most chat templates refuse both. Images are content parts that a server takes, in the place
// of their marks (<image>).
//
// # Nothing is dropped in silence
//
// What a record holds for a request and cannot be kept is a [Note]; a record that is no conversation is an
// error. Other fields (scores, moderation, provenance) say nothing about a request and are passed over.
package chatshape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/generate/rawjson"
	"parley/schemas"
)

// Chat is a record as a conversation. It has no identifier where the record has none, and no counts of
// tokens but those that the record asks for.
type Chat struct {
	schemas.Conversation
	Shape string // batch, tree, rows, messages, preference, instruction, pair, questions or prompt
	Notes []Note
}

// Note is something about a record that could not be kept as it stands. What is the same for all of a kind.
type Note struct{ What, Detail string }

// ErrNotText is wrapped by the error of a request that asks for no text, such as an embedding.
var ErrNotText = errors.New("not a request for text")

// Reader reads records. The zero value is ready for use, by many goroutines.
type Reader struct {
	// Columns says under which names a record has what would be looked for elsewhere: {"messages": "chat"}.
	// The name of a field within another one has a dot: data.chat.
	Columns map[string]string
}

// Names of fields, best first.
var (
	messageKeys = []string{"messages", "conversation", "conversations", "dialog", "dialogue", "chat", "items", "data", "turns"}
	pairKeys    = [][2]string{{"prompt", "response"}, {"prompt", "completion"}, {"prompt", "answer"}, {"prompt", "output"},
		{"question", "response"}, {"question", "answer"}, {"question", "output"}, {"query", "response"}, {"query", "answer"},
		{"problem", "solution"}, {"user", "assistant"}, {"human", "assistant"}, {"input", "output"}, {"input", "response"}}
	answerKeys  = []string{"output", "response", "completion", "answer"}
	contextKeys = []string{"input", "context"}
	systemKeys  = []string{"system", "system_prompt", "system_message", "instructions"}
	toolKeys    = []string{"tools", "functions"}
	idKeys      = []string{"conversation_id", "conversation_hash", "id", "custom_id", "prompt_id", "question_id", "uuid", "message_tree_id", "session_id"}
	groupKeys   = []string{"message_tree_id", "conversation_id", "session_id", "thread_id"}
	tagKeys     = []string{"source", "language", "model", "category", "task", "type", "dataset", "split"}
	wrapperKeys = []string{"body", "params", "request", "input", "row", "record", "sample", "example", "data", "conversation", "payload", "json"}
	mediaKeys   = []string{"image", "images", "video", "videos", "audio", "audios"}
	roleKeys    = []string{"role", "from", "speaker", "author", "sender", "user"}
	contentKeys = []string{"content", "value", "text", "message", "utterance"}
)

// Wants says whether a field of a record may mean something, so that a carrier can leave the others unread.
func (r *Reader) Wants(key string) bool {
	key = strings.ToLower(key)
	for _, column := range r.Columns {
		if first, _, _ := strings.Cut(column, "."); strings.ToLower(first) == key {
			return true
		}
	}
	for _, list := range [][]string{messageKeys, answerKeys, contextKeys, systemKeys, toolKeys, idKeys, groupKeys, tagKeys, wrapperKeys, mediaKeys, roleKeys, contentKeys, outputKeys, limitKeys, bagKeys} {
		if slices.Contains(list, key) {
			return true
		}
	}
	for _, p := range pairKeys {
		if p[0] == key || p[1] == key {
			return true
		}
	}
	_, param := parameters[key]
	return param || slices.Contains(others, key)
}

// others are fields that are read in one place only.
var others = []string{"instruction", "history", "chosen", "rejected", "preferred_output", "non_preferred_output", "url", "method", "name",
	"parent_id", "message_id", "rank", "lang", "replies", "timestamp", "created_at", "delay_seconds", "tool_calls", "tool_results",
	"tool_call_id", "function_call", "reasoning_content", "reasoning", "refusal", "response"}

// Matches says whether a record with these fields may be a chat. Of each field it wants the first byte of the
// value: '[', '{', or another one.
func (r *Reader) Matches(fields map[string]byte) bool {
	if len(r.Columns) > 0 {
		return true
	}
	have := map[string]byte{}
	for k, v := range fields {
		have[strings.ToLower(k)] = v
	}
	any := func(keys []string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { _, ok := have[k]; return ok })
	}
	pair := slices.ContainsFunc(pairKeys, func(p [2]string) bool { return any(p[:1]) && any(p[1:]) })
	wrapped := slices.ContainsFunc(wrapperKeys, func(k string) bool { return have[k] == '{' })
	return any(messageKeys) || any([]string{"prompt", "chosen", "instruction"}) || pair || wrapped || any(roleKeys) && any(contentKeys)
}

// object is a record taken apart, with its names in lower case.
type object map[string]json.RawMessage

// get gives the first value that is there.
func (o object) get(keys ...string) json.RawMessage {
	for _, k := range keys {
		if v := o[k]; !rawjson.Missing(v) {
			return v
		}
	}
	return nil
}

func (o object) text(keys ...string) string {
	for _, k := range keys {
		if s, ok := rawjson.Scalar(o[k]); ok {
			return s
		}
	}
	return ""
}

func objectOf(raw []byte) (object, error) {
	fields, err := rawjson.Members(raw)
	if err != nil {
		return nil, err
	}
	for k := range fields {
		if low := strings.ToLower(k); low != k {
			if _, ok := fields[low]; !ok {
				fields[low] = fields[k]
			}
		}
	}
	return fields, nil
}

// open takes a record apart and takes off what it is wrapped in. A request is one for a single answer.
func (r *Reader) open(raw []byte) (o object, request bool, err error) {
	if len(raw) > 0 && raw[0] == '[' {
		return object{"messages": raw}, false, nil
	}
	if o, err = objectOf(raw); err != nil {
		return nil, false, err
	}
	for name, column := range r.Columns {
		at, path := raw, strings.Split(column, ".")
		for i, key := range path {
			if at = rawjson.Field(at, key); len(at) > 0 && at[0] == '"' && i < len(path)-1 {
				inner, err := rawjson.Text(at)
				if at = nil; err == nil {
					at = []byte(inner)
				}
			}
		}
		if at == nil {
			return nil, false, fmt.Errorf("it has no %s (for %s)", column, name)
		}
		delete(o, path[0])
		o[name] = at
	}
	for range 4 {
		key, inner := o.wrapped()
		if inner == nil {
			break
		}
		outer := key == "body" || key == "params" || key == "request"
		request = request || outer
		delete(o, key)
		for k, v := range inner {
			o[k] = v
		}
		if key == "body" || key == "params" {
			delete(o, "method")
		}
	}
	return o, request, nil
}

// wrapped gives what the record is wrapped in, if it is.
func (o object) wrapped() (string, object) {
	for _, key := range wrapperKeys {
		raw := asJSON(o[key])
		if len(raw) == 0 || raw[0] != '{' {
			continue
		}
		inner, err := objectOf(raw)
		if err != nil {
			continue
		}
		if key == "body" && o["url"] != nil || inner.get("messages", "prompt", "conversations", "conversation", "items") != nil && o.get("messages") == nil {
			return key, inner
		}
	}
	return "", nil
}

// asJSON gives a value, or what is in it where it is the JSON text of a list or an object.
func asJSON(raw []byte) []byte {
	if len(raw) > 2 && raw[0] == '"' && bytes.IndexByte([]byte("[{ \\"), raw[1]) >= 0 { // the last: an escaped line break
		if s, err := rawjson.Text(raw); err == nil {
			if s = strings.TrimSpace(s); s != "" && (s[0] == '[' || s[0] == '{') && json.Valid([]byte(s)) {
				return []byte(s)
			}
		}
	}
	return raw
}

// Group says whether a record is one message of a conversation that goes over several records, and of which.
// Records of the same group that follow on each other belong together.
func (r *Reader) Group(raw []byte) (group string, ok bool) {
	if len(raw) == 0 || raw[0] != '{' || len(r.Columns) > 0 {
		return "", false
	}
	role, content := false, false
	_ = rawjson.Walk(raw, func(k, v []byte) bool { // a damaged record is told when it is read
		switch key := string(k); {
		case key == "role" || key == "from":
			name, _ := rawjson.Scalar(v)
			role = roles[strings.ToLower(name)] != ""
		case key == "content" || key == "text" || key == "value" || key == "tool_calls" || key == "tool_results":
			content = true
		case slices.Contains(messageKeys[:7], key) || key == "prompt" || key == "instruction" || key == "response":
			role, content = false, false
			return false
		}
		return true
	})
	if !role || !content {
		return "", false
	}
	for _, key := range groupKeys {
		if group, ok := rawjson.Scalar(rawjson.Field(raw, key)); ok {
			return key + " " + group, true
		}
	}
	return "", true
}

// Part is what tells whether a record can be a part of a conversation that was split.
type Part struct {
	ID          string
	Messages    int
	First, Last string // the roles of the first and the last message
}

// Part looks at a record without reading it.
func (r *Reader) Part(raw []byte) (p Part) {
	o, _, err := r.open(raw)
	if err != nil {
		return p // which is told when the record is read
	}
	p.ID = o.text(idKeys...)
	for _, k := range messageKeys {
		if list := asJSON(o.get(k)); listOf(list, '{') {
			_ = rawjson.Walk(list, func(_, v []byte) bool { // as above
				if v[0] == '{' {
					m, _ := objectOf(v)
					p.Messages++
					p.Last = Role(m.text(roleKeys...))
					if p.First == "" {
						p.First = p.Last
					}
				}
				return true
			})
			break
		}
	}
	return p
}

// ID gives a record's identifier, or "".
func (r *Reader) ID(raw []byte) string {
	if column, ok := r.Columns["id"]; ok {
		id, _ := rawjson.Scalar(rawjson.Field(raw, column))
		return id
	}
	for _, key := range idKeys {
		if id, ok := rawjson.Scalar(rawjson.Field(raw, key)); ok {
			return id
		}
	}
	return ""
}

// Identifies says whether a field is a record's identifier.
func (r *Reader) Identifies(field string) bool {
	return slices.Contains(idKeys, field) || r.Columns["id"] == field
}

// Read reads a conversation: one record, or several that belong together, which are the messages of one (see
// Group) or the parts of one that was split.
func (r *Reader) Read(records ...[]byte) (*Chat, error) {
	b := &builder{reader: r}
	b.chat.Tags = map[string]string{}
	if _, ok := r.Group(records[0]); ok {
		if err := b.rows(records); err != nil {
			return nil, err
		}
		return b.finish()
	}
	for i, raw := range records {
		if err := b.record(raw, i == 0); err != nil {
			if len(records) > 1 {
				err = fmt.Errorf("part %d: %w", i+1, err)
			}
			return nil, err
		}
	}
	return b.finish()
}

// builder makes a conversation.
type builder struct {
	reader  *Reader
	chat    Chat
	list    []message
	media   map[string]*media // by kind; nil until a record has some
	request bool              // a single answer is asked for, to all of the messages
	output  int64             // tokens that every answer is to have, 0 where nothing is said
	limit   int64             // tokens that an answer may have
	body    object
}

// message is a message with what does not go into the dataset as it is.
type message struct {
	schemas.Message
	parts []part // nil for plain text
	calls []schemas.ToolCall
	at    time.Time
	think *float64 // ms before it
}

func (b *builder) note(what, format string, args ...any) {
	b.chat.Notes = append(b.chat.Notes, Note{what, fmt.Sprintf(format, args...)})
}

// record adds what a record has; the first gives what there is one of.
func (b *builder) record(raw []byte, first bool) error {
	o, request, err := b.reader.open(raw)
	if err != nil {
		return err
	}
	b.request = request && o.get("response", "choices") == nil
	if first {
		if err := b.about(o); err != nil {
			return err
		}
	}
	before := len(b.list)
	b.startMedia(o)
	if b.chat.Shape, err = b.shape(o, before); err != nil {
		return err
	}
	b.restOfMedia(before)
	if s := o.text(systemKeys...); s != "" && (before == len(b.list) || b.list[before].Role != "system") && first {
		b.list = slices.Insert(b.list, 0, message{Message: schemas.Message{Role: "system", Content: &s}})
	} else if raw := o.get(systemKeys...); first && len(raw) > 0 && raw[0] == '[' { // Anthropic: a list of text blocks
		if err := b.content(&message{Message: schemas.Message{Role: "system"}}, raw, 0); err != nil {
			return fmt.Errorf("system: %w", err)
		}
		last := b.list[len(b.list)-1]
		b.list = slices.Insert(b.list[:len(b.list)-1], 0, last)
	}
	return nil
}

// about reads what a record says of the conversation as a whole.
func (b *builder) about(o object) error {
	c := &b.chat
	c.ConversationID = o.text(idKeys...)
	for _, k := range tagKeys {
		if s := o.text(k); s != "" && len(s) <= 200 {
			c.Tags[k] = s
		}
	}
	if raw := o.get(toolKeys...); raw != nil {
		b.tools(raw)
	}
	return b.parameters(o)
}

// shape reads the messages in the first shape that matches.
func (b *builder) shape(o object, before int) (string, error) {
	if raw := o.get("prompt"); len(raw) > 0 && raw[0] == '{' && rawjson.Field(raw, "replies") != nil {
		return "tree", b.tree(raw)
	}
	name := "messages"
	if b.request {
		name = "batch"
	}
	for _, k := range messageKeys {
		raw := o.get(k)
		if raw == nil || k == "turns" && !listOf(raw, '{') || k == "data" && !listOf(asJSON(raw), 0) {
			continue
		}
		err := b.messages(raw)
		if err == nil {
			err = b.afterMessages(o)
		}
		return name, err
	}
	switch {
	case b.request:
		raw := o.get("input", "prompt")
		if raw == nil || o.get("prompt") == nil && !strings.HasSuffix(o.text("url"), "/responses") && o["url"] != nil {
			return name, fmt.Errorf("%w: the body of a request to %s has neither messages nor a prompt", ErrNotText, o.text("url"))
		}
		return name, b.prompt(raw)
	case o.get("chosen") != nil:
		return "preference", b.preference(o)
	case o.get("instruction") != nil && o.get("prompt") == nil:
		return "instruction", b.asked("instruction", o, answerKeys)
	}
	for _, p := range pairKeys {
		if o.get(p[0]) != nil && o[p[1]] != nil {
			return "pair", b.asked(p[0], o, p[1:])
		}
	}
	if raw := o.get("turns"); raw != nil {
		return "questions", b.questions(raw)
	}
	if raw := o.get("prompt", "input"); raw != nil {
		if listOf(raw, '"') {
			return "questions", b.questions(raw)
		}
		return "prompt", b.prompt(raw)
	}
	return "", fmt.Errorf("it has no messages: its fields are %s", strings.Join(fieldNames(o), ", "))
}

func fieldNames(o object) []string {
	var names []string
	for k := range o {
		names = append(names, k)
	}
	slices.Sort(names)
	if len(names) > 12 {
		names = append(names[:12], "...")
	}
	return names
}

// listOf says whether a value is a list whose first element begins with that byte, or (0) any list.
func listOf(raw []byte, first byte) bool {
	if len(raw) == 0 || raw[0] != '[' {
		return false
	}
	yes := first == 0
	_ = rawjson.Walk(raw, func(_, v []byte) bool { // damage shows when it is read
		yes = yes || v[0] == first
		return false
	})
	return yes
}

// finish brings the messages into order and derives the turns.
func (b *builder) finish() (*Chat, error) {
	b.dropLeading()
	b.pair()
	b.merge()
	c := &b.chat
	for i := range b.list {
		m := &b.list[i]
		if m.Content == nil && m.parts == nil && m.calls == nil && m.Role != "assistant" {
			return nil, fmt.Errorf("message %d: the %s message has no content", i, m.Role)
		}
		m.write()
		c.Messages = append(c.Messages, m.Message)
	}
	b.turns()
	return c, nil
}
