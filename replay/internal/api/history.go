package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/schemas"
)

// A History is the conversation so far, as the API wants it sent. Each message is encoded once, when it
// is appended; a request's body is the bytes so far and a short tail, however long the history is. It
// belongs to one goroutine.
//
// The completions API has no messages. Its prompt is the messages' texts joined by one empty line, in
// order, with no names of roles before them and nothing after the last: such a server applies no
// template, and labels would be tokens that the dataset does not count. Tool calls and tools have no
// place in it.
type History struct {
	api  *API
	opts HistoryOptions
	n    int

	buf    []byte // the body's beginning, up to the end of the last message
	system []byte // Anthropic's top-level system, as the inside of a JSON list of text blocks
	// systemText is the system as a JSON string, nil unless it is one text: some servers of
	// this API take no list.
	systemText []byte
	tools      []byte // in the API's form
	body       []member
	open       bool // Anthropic: the last message is a list of tool results that may grow
	ids        map[string]string
	tail       []byte
	members    []member
	options    []member
	segs       [2][]byte
}

// member is one member of a JSON object.
type member struct {
	name string
	raw  []byte
}

// NewHistory begins a conversation. The error names what is wrong with the tools or the body.
func (a *API) NewHistory(o HistoryOptions) (*History, error) {
	h := &History{api: a, opts: o}
	var problems []error
	if o.Tools != "" {
		tools, err := convertTools(a.Kind, o.Tools)
		if err != nil {
			problems = append(problems, fmt.Errorf("tools: %w", err))
		}
		h.tools = tools
	}
	var err error
	if h.body, err = lay(nil, o.Body); err != nil {
		problems = append(problems, fmt.Errorf("body: %w", err))
	}
	switch a.Kind {
	case Completions:
		h.buf = append(h.buf, `{"prompt":"`...)
	case Responses:
		h.buf = append(h.buf, `{"input":[`...)
	default:
		h.buf = append(h.buf, `{"messages":[`...)
	}
	return h, errors.Join(problems...)
}

// lay lays the members of a source's object over those there are, but for what parley decides.
func lay(members []member, body string) ([]member, error) {
	if body == "" {
		return members, nil
	}
	more, err := parseObject([]byte(body))
	for _, m := range more {
		if !ours(m.name) {
			members = set(members, m.name, m.raw)
		}
	}
	return members, err
}

// ours says whether a member of a request's body is decided by parley and by nobody else.
func ours(name string) bool {
	switch name {
	case "messages", "input", "prompt", "stream", "stream_options", "n":
		return true
	}
	return false
}

// CheckExtra checks a value for Params.Extra: a JSON object that leaves alone what parley decides.
func CheckExtra(raw []byte) error {
	members, err := parseObject(raw)
	if err != nil {
		return err
	}
	var problems []error
	for _, m := range members {
		if ours(m.name) && m.name != "stream_options" {
			problems = append(problems, fmt.Errorf("it must not set %q, which parley fills itself", m.name))
		}
	}
	return errors.Join(problems...)
}

// parseObject gives the members of a JSON object; of those that come twice the last.
func parseObject(raw []byte) ([]member, error) {
	var w walker
	if !w.validJSON(raw) {
		return nil, errors.New("not JSON: " + excerpt(raw))
	}
	w.start(raw)
	if !w.object() {
		return nil, errors.New("not a JSON object: " + excerpt(raw))
	}
	var members []member
	for w.member() {
		name := string(w.key)
		w.peek()
		members = set(members, name, w.skip())
	}
	return members, nil
}

// set puts a member into a list, in the place of one with its name.
func set(members []member, name string, raw []byte) []member {
	for i := range members {
		if members[i].name == name {
			members[i].raw = raw
			return members
		}
	}
	return append(members, member{name, raw})
}

func remove(members []member, name string) []member {
	for i := range members {
		if members[i].name == name {
			return append(members[:i], members[i+1:]...)
		}
	}
	return members
}

// Messages gives the number of messages so far.
func (h *History) Messages() int { return h.n }

// Append adds a message of the dataset. After an error the history is as it was.
func (h *History) Append(m schemas.Message) error {
	if id := m.ToolCallID; id != nil {
		if live, ok := h.ids[*id]; ok {
			m.ToolCallID = &live
		}
	}
	return h.append(&m, str(m.Reasoning), "")
}

// append encodes one message. reasoning and signature are those of a live answer. The encoders below it
// convert before they write, so that an error leaves nothing behind but bytes at the end of buf.
func (h *History) append(m *schemas.Message, reasoning, signature string) error {
	if m.Role == "user" {
		clear(h.ids) // calls and their results are over: the source may use their ids again
	}
	if err := checkMessage(m); err != nil {
		return fmt.Errorf("message %d (%s): %w", h.n, m.Role, err)
	}
	salt := ""
	if h.n == 0 {
		salt = h.opts.Salt
	}
	if !h.opts.KeepReasoning {
		reasoning, signature = "", ""
	}
	before := len(h.buf)
	var err error
	switch h.api.Kind {
	case Completions:
		err = h.appendPrompt(m, salt)
	case Responses:
		err = h.appendItem(m, salt, reasoning)
	case Anthropic:
		err = h.appendAnthropic(m, salt, reasoning, signature)
	case Ollama:
		err = h.appendOllama(m, salt, reasoning)
	default:
		err = h.appendChat(m, salt, reasoning)
	}
	if err != nil {
		h.buf = h.buf[:before]
		return fmt.Errorf("message %d (%s): %w", h.n, m.Role, err)
	}
	h.n++
	return nil
}

// checkMessage checks the JSON columns of a message, which go into the body as they are.
func checkMessage(m *schemas.Message) error {
	for name, raw := range map[string]*string{"content_parts": m.Parts, "tool_calls": m.ToolCalls} {
		if raw == nil {
			continue
		}
		if text := strings.TrimLeft(*raw, " \t\r\n"); !strings.HasPrefix(text, "[") || !json.Valid([]byte(text)) {
			return fmt.Errorf("%s is not a JSON array: %s", name, excerpt([]byte(*raw)))
		}
	}
	if m.Role == "" {
		return errors.New("no role")
	}
	return nil
}

func (h *History) add(s string)    { h.buf = append(h.buf, s...) }
func (h *History) escape(s string) { h.buf = appendEscaped(h.buf, s) }

// rawJSON is a value that is written as it stands; an empty one leaves its member out.
type rawJSON string

// optional is a text whose member is left out when it is empty.
type optional string

// appendMembers appends members of a JSON object: a name and a value (a string, an optional, rawJSON) in turn.
func appendMembers(dst []byte, pairs ...any) []byte {
	first := true
	for i := 0; i < len(pairs); i += 2 {
		var text string
		raw := false
		switch v := pairs[i+1].(type) {
		case string:
			text = v
		case optional:
			if text = string(v); text == "" {
				continue
			}
		case rawJSON:
			if text, raw = string(v), true; text == "" {
				continue
			}
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), pairs[i].(string)...), `":`...)
		if raw {
			dst = append(dst, text...)
		} else {
			dst = appendQuoted(dst, text)
		}
	}
	return dst
}

// object gives a JSON object.
func object(pairs ...any) string { return string(append(appendMembers([]byte{'{'}, pairs...), '}')) }

// item writes a JSON object as the next element of the list that the body ends in.
func (h *History) item(pairs ...any) {
	if c := h.buf[len(h.buf)-1]; c != '[' {
		h.buf = append(h.buf, ',')
	}
	h.buf = append(appendMembers(append(h.buf, '{'), pairs...), '}')
}

// appendChat writes a message as OpenAI's chat completions take it.
func (h *History) appendChat(m *schemas.Message, salt, reasoning string) error {
	var content any = rawJSON("null")
	switch {
	case m.Parts != nil:
		content = saltedParts(*m.Parts, salt, "text")
	case m.Content != nil || salt != "":
		content = salt + str(m.Content)
	}
	// reasoning_content is the name that vLLM, SGLang and DeepSeek read back.
	h.item("role", m.Role, "content", content, "reasoning_content", optional(reasoning), "name", optional(str(m.Name)),
		"tool_call_id", optional(str(m.ToolCallID)), "tool_calls", rawJSON(str(m.ToolCalls)))
	return nil
}

// saltedParts gives a list of content parts, with the salt as a part of its own before them.
func saltedParts(parts, salt, kind string) rawJSON {
	if salt == "" {
		return rawJSON(parts)
	}
	rest := strings.TrimLeft(strings.TrimLeft(parts, " \n\t\r")[1:], " \n\t\r") // without the bracket that checkMessage has seen
	if rest != "]" {
		rest = "," + rest
	}
	return rawJSON("[" + object("type", kind, "text", salt) + rest)
}

// appendPrompt writes a message into the prompt of completions.
func (h *History) appendPrompt(m *schemas.Message, salt string) error {
	if h.n > 0 {
		h.escape("\n\n")
	}
	h.escape(salt)
	h.escape(str(m.Content))
	return nil
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// AppendAnswer adds the server's own answer. recorded is the assistant message that the dataset has in
// its place, nil where it has none: what comes next in the dataset follows on that one, so the answer is
// made to fit. Where the recorded message calls tools and the answer calls as many, the tool results
// that follow are sent under the answer's ids; where it calls another number, the recorded message goes
// into the history instead; where only the answer calls tools, its text goes in without the calls. An
// answer without text and without calls is replaced by the recorded message. live says whether the
// server's answer went in.
func (h *History) AppendAnswer(a Answer, recorded *schemas.Message) (live bool, err error) {
	clear(h.ids)
	m := a.Message
	m.Role = "assistant"
	if recorded != nil {
		given, err := readCalls(m.ToolCalls)
		if err != nil {
			return false, fmt.Errorf("the answer's tool calls: %w", err)
		}
		wanted, err := readCalls(recorded.ToolCalls)
		if err != nil {
			return false, fmt.Errorf("message %d (%s): tool_calls: %w", h.n, recorded.Role, err)
		}
		switch {
		case len(wanted) > 0 && len(given) != len(wanted):
			return false, h.Append(*recorded)
		case len(wanted) == 0:
			m.ToolCalls = nil
		default:
			for i := range given {
				if given[i].id == "" {
					given[i].id = wanted[i].id // Ollama gives none
				} else if wanted[i].id != "" && wanted[i].id != given[i].id {
					if h.ids == nil {
						h.ids = make(map[string]string)
					}
					h.ids[wanted[i].id] = given[i].id
				}
			}
			calls := writeCalls(given)
			m.ToolCalls = &calls
		}
		if m.ToolCalls == nil && str(m.Content) == "" {
			return false, h.Append(*recorded)
		}
	}
	if m.Content == nil && m.ToolCalls == nil {
		m.Content = new(string)
	}
	return true, h.append(&m, a.Reasoning, a.Signature)
}
