package record

import (
	"bytes"
	"encoding/json"
	"strings"

	"parley/schemas"
)

// answer is what an answer said, whichever API it came by.
type answer struct {
	text, reasoning strings.Builder
	calls           []schemas.ToolCall
	id              string // the Responses API refers to earlier answers by it
	completion      int64  // tokens by the server's usage; 0 where it does not say
	failed          bool   // an error inside a 200
}

func calling(id, name, arguments string) schemas.ToolCall {
	return schemas.ToolCall{ID: id, Type: "function", Function: schemas.ToolFunction{Name: name, Arguments: arguments}}
}

// part is the shape that all APIs' events and whole answers have in common; each uses some of it.
type part struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Choices []struct {
		Text    string  `json:"text"`
		Delta   *saying `json:"delta"`
		Message *saying `json:"message"`
	} `json:"choices"`
	Message  *saying         `json:"message"`  // Ollama; Anthropic's message_start
	Response json.RawMessage `json:"response"` // Ollama's generate: text; the Responses API: the response
	Delta    json.RawMessage `json:"delta"`    // Anthropic: an object; the Responses API: text
	Block    *block          `json:"content_block"`
	Content  []block         `json:"content"` // Anthropic, whole
	Output   []struct {
		block
		Content []block `json:"content"`
		Summary []block `json:"summary"`
	} `json:"output"` // the Responses API, whole
	Item  *block          `json:"item"`
	Usage *usage          `json:"usage"`
	Eval  int64           `json:"eval_count"`
	Error json.RawMessage `json:"error"`
}

type saying struct {
	ID        string          `json:"id"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning"`
	Older     string          `json:"reasoning_content"`
	Thinking  string          `json:"thinking"`
	Refusal   string          `json:"refusal"`
	Usage     *usage          `json:"usage"`
	Calls     []struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// block is a content block of Anthropic, or an item of the Responses API.
type block struct {
	Type        string          `json:"type"`
	ID          string          `json:"id"`
	CallID      string          `json:"call_id"`
	Name        string          `json:"name"`
	Text        string          `json:"text"`
	Thinking    string          `json:"thinking"`
	PartialJSON string          `json:"partial_json"`
	Arguments   string          `json:"arguments"`
	Input       json.RawMessage `json:"input"`
}

type usage struct {
	Completion int64 `json:"completion_tokens"`
	Output     int64 `json:"output_tokens"`
}

// readAnswer reads a whole answer or a stream of events; what is no JSON in it is passed over.
func readAnswer(body []byte) *answer {
	a := &answer{}
	body = bytes.TrimSpace(body)
	if json.Valid(body) {
		a.add(body)
		return a
	}
	for line := range bytes.Lines(body) { // one JSON a line in every stream that is known
		line = bytes.TrimSpace(line)
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			line = bytes.TrimSpace(data)
		}
		if len(line) > 0 && line[0] == '{' {
			a.add(line)
		}
	}
	return a
}

func (a *answer) add(raw []byte) {
	var p part
	if json.Unmarshal(raw, &p) != nil {
		return
	}
	if len(p.Error) > 0 && string(p.Error) != "null" {
		a.failed = true
	}
	a.usage(p.Usage)
	a.completion = max(a.completion, p.Eval)
	if p.ID != "" && a.id == "" {
		a.id = p.ID
	}
	for i, c := range p.Choices {
		if i > 0 {
			break // a history goes on with the first
		}
		a.text.WriteString(c.Text)
		a.say(c.Delta)
		a.say(c.Message)
	}
	a.say(p.Message)
	a.delta(p.Type, p.Delta)
	if p.Type == "content_block_start" && p.Block != nil {
		a.block(*p.Block)
	}
	if p.Type == "response.output_item.done" && p.Item != nil && p.Item.Type == "function_call" {
		a.block(*p.Item)
	}
	if len(p.Response) > 0 && p.Response[0] == '"' {
		a.text.WriteString(unquote(p.Response))
	} else if len(p.Response) > 0 && p.Response[0] == '{' {
		var r part
		if json.Unmarshal(p.Response, &r) == nil {
			a.usage(r.Usage)
			if a.id = r.ID; len(r.Error) > 0 && string(r.Error) != "null" {
				a.failed = true
			}
		}
	}
	for _, b := range p.Content {
		a.block(b)
	}
	for _, item := range p.Output {
		for _, b := range append(item.Content, item.Summary...) {
			if b.Type == "summary_text" || b.Type == "reasoning_text" {
				b = block{Thinking: b.Text}
			}
			a.block(b)
		}
		if item.Type == "function_call" {
			a.block(item.block)
		}
	}
}

func (a *answer) usage(u *usage) {
	if u != nil {
		a.completion = max(a.completion, u.Completion, u.Output)
	}
}

func (a *answer) say(s *saying) {
	if s == nil {
		return
	}
	a.usage(s.Usage)
	if a.id == "" {
		a.id = s.ID
	}
	a.text.WriteString(textOf(s.Content))
	a.text.WriteString(s.Refusal)
	a.reasoning.WriteString(s.Reasoning + s.Thinking)
	if s.Reasoning == "" { // some servers send both names for the same text
		a.reasoning.WriteString(s.Older)
	}
	for _, c := range s.Calls {
		args := string(c.Function.Arguments)
		if strings.HasPrefix(args, `"`) {
			args = unquote(c.Function.Arguments)
		}
		// A stream names a call once and goes on with its number; a whole answer may number none of its calls.
		if at := c.Index; at < 0 || at >= len(a.calls) || c.ID != "" && a.calls[at].ID != c.ID || c.ID == "" && c.Function.Name != "" {
			c.Index = len(a.calls)
		}
		if c.Index == len(a.calls) {
			a.calls = append(a.calls, calling(c.ID, c.Function.Name, ""))
		}
		a.calls[c.Index].Function.Arguments += args
	}
}

// delta adds what Anthropic's content_block_delta and the Responses API's *.delta events carry.
func (a *answer) delta(kind string, raw json.RawMessage) {
	switch {
	case len(raw) == 0:
	case raw[0] == '"' && strings.Contains(kind, "reasoning"):
		a.reasoning.WriteString(unquote(raw))
	case raw[0] == '"' && (strings.HasSuffix(kind, "output_text.delta") || strings.HasSuffix(kind, "refusal.delta")):
		a.text.WriteString(unquote(raw))
	case raw[0] == '{' && kind == "content_block_delta":
		var b block
		if json.Unmarshal(raw, &b) == nil {
			a.text.WriteString(b.Text)
			a.reasoning.WriteString(b.Thinking)
			if n := len(a.calls); n > 0 {
				a.calls[n-1].Function.Arguments += b.PartialJSON
			}
		}
	}
}

func (a *answer) block(b block) {
	a.text.WriteString(b.Text)
	a.reasoning.WriteString(b.Thinking)
	switch b.Type {
	case "tool_use":
		arguments := string(b.Input)
		if arguments == "{}" || arguments == "null" {
			arguments = "" // a stream begins with an empty object and sends the text in pieces
		}
		a.calls = append(a.calls, calling(b.ID, b.Name, arguments))
	case "function_call":
		a.calls = append(a.calls, calling(b.CallID, b.Name, b.Arguments))
	}
}

// textOf gives a content that is a string, or a list of parts with text.
func textOf(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] == '"' {
		return unquote(raw)
	}
	var parts []block
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func unquote(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // no string is no text
	return s
}
