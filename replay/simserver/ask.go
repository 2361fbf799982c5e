package simserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// imageTokens is what a part of a message that is not text counts.
const imageTokens = 256

// ask is what a request asks for, of whichever API.
type ask struct {
	Model               string          `json:"model"`
	Stream              *bool           `json:"stream"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MaxOutputTokens     *int            `json:"max_output_tokens"`
	MinTokens           *int            `json:"min_tokens"`
	IgnoreEOS           *bool           `json:"ignore_eos"`
	Temperature         *float64        `json:"temperature"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	Messages            []wireMessage   `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Input               json.RawMessage `json:"input"`
	System              json.RawMessage `json:"system"`
	Instructions        string          `json:"instructions"`
	Tools               json.RawMessage `json:"tools"`
	Options             struct {
		NumPredict  *int     `json:"num_predict"`
		Temperature *float64 `json:"temperature"`
	} `json:"options"`
	ReturnProgress bool `json:"return_progress"`
}

type streamOptions struct {
	IncludeUsage         bool  `json:"include_usage"`
	ContinuousUsageStats *bool `json:"continuous_usage_stats"`
}

type wireMessage struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	Arguments string          `json:"arguments"` // Responses: a function call
	Output    json.RawMessage `json:"output"`    // Responses: its result
}

func parseAsk(x api, body []byte) (*ask, error) {
	a := new(ask)
	if err := json.Unmarshal(body, a); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	switch {
	case x == completions:
		if len(a.Prompt) == 0 {
			return nil, errors.New("prompt: Field required")
		}
	case x == responses:
		if len(a.Input) == 0 {
			return nil, errors.New("input: Field required")
		}
	case len(a.Messages) == 0:
		return nil, errors.New("messages: Field required, with at least one message")
	case x == messages && a.MaxTokens == nil:
		return nil, errors.New("max_tokens: Field required")
	}
	for _, n := range []*int{a.MaxTokens, a.MaxCompletionTokens, a.MaxOutputTokens} {
		if n != nil && *n < 1 {
			return nil, fmt.Errorf("max_tokens must be at least 1, got %d", *n)
		}
	}
	return a, nil
}

// streams says whether the request asks for a stream; Ollama's own API streams by default.
func (a *ask) streams(x api) bool {
	if a.Stream == nil {
		return x == ollamaChat
	}
	return *a.Stream
}

// has says whether the request has a member that some servers refuse.
func (a *ask) has(member string) bool {
	switch member {
	case "ignore_eos":
		return a.IgnoreEOS != nil
	case "min_tokens":
		return a.MinTokens != nil
	case "max_tokens":
		return a.MaxTokens != nil
	case "max_completion_tokens":
		return a.MaxCompletionTokens != nil
	case "stream_options":
		return a.StreamOptions != nil
	case "continuous_usage_stats":
		return a.StreamOptions != nil && a.StreamOptions.ContinuousUsageStats != nil
	}
	return false
}

// greedy says whether the request asks for the one most likely answer.
func (a *ask) greedy() bool {
	t := a.Temperature
	if t == nil {
		t = a.Options.Temperature
	}
	return t != nil && *t == 0
}

// limit gives the most tokens that the request allows, 0 for no limit.
func (a *ask) limit(x api, d *dialect) int {
	var limits []*int
	switch x {
	case ollamaChat:
		limits = []*int{a.Options.NumPredict}
	case responses:
		limits = []*int{a.MaxOutputTokens}
	case chat:
		if !d.onlyMax {
			limits = append(limits, a.MaxCompletionTokens)
		}
		fallthrough
	default:
		limits = append(limits, a.MaxTokens)
	}
	for _, n := range limits {
		if n != nil && *n > 0 {
			return *n
		}
	}
	return 0
}

// prompt cuts the request's text into tokens.
func (a *ask) prompt(x api, block int) (p prompt, seed uint64, err error) {
	p.block = block
	message := func(role string, content json.RawMessage, calls json.RawMessage) error {
		p.mark(role)
		if err := eachText(content, p.addText, func() { // an image is no text
			for range imageTokens {
				p.mark("image")
			}
		}); err != nil {
			return fmt.Errorf("content of a %s message: %w", role, err)
		}
		if len(calls) > 0 && string(calls) != "null" {
			p.addText(string(calls))
		}
		p.mark("end")
		return nil
	}
	if x == completions {
		err := eachText(a.Prompt, p.addText, nil)
		return p, p.chain, err
	}
	if len(a.Tools) > 2 {
		p.mark("tools")
		p.addText(string(a.Tools))
	}
	list := a.Messages
	if x == responses {
		if a.Instructions != "" {
			p.mark("system")
			p.addText(a.Instructions)
			p.mark("end")
		}
		if a.Input[0] == '"' {
			list = []wireMessage{{Role: "user", Content: a.Input}}
		} else if err := json.Unmarshal(a.Input, &list); err != nil {
			return p, 0, fmt.Errorf("input: %w", err)
		}
		for i, m := range list {
			switch m.Type {
			case "function_call":
				list[i].Role, list[i].Content = "assistant", json.RawMessage(m.Arguments)
				list[i].Content, _ = json.Marshal(m.Arguments)
			case "function_call_output":
				list[i].Role, list[i].Content = "tool", m.Output
			}
		}
	}
	if len(a.System) > 0 {
		if err := message("system", a.System, nil); err != nil {
			return p, 0, err
		}
	}
	for _, m := range list {
		if m.Role == "" {
			return p, 0, errors.New("messages: role: Field required")
		}
		if err := message(m.Role, m.Content, m.ToolCalls); err != nil {
			return p, 0, err
		}
	}
	p.mark("assistant")
	// Lengths hang on what is asked, not on the order in which requests come, nor on earlier answers, which
	// contain tags that do.
	var last prompt
	if n := len(list); n > 0 {
		_ = eachText(list[n-1].Content, last.addText, nil) // parsed above
		seed = last.chain + uint64(n)
	}
	return p, seed, nil
}

// eachText calls text for each text of a content: a string, a list of parts, or null.
func eachText(content json.RawMessage, text func(string), other func()) error {
	if len(content) == 0 || string(content) == "null" {
		return nil
	}
	if content[0] == '"' {
		var s string
		if err := json.Unmarshal(content, &s); err != nil {
			return err
		}
		text(s)
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     *string         `json:"text"`
		Thinking *string         `json:"thinking"`
		Content  json.RawMessage `json:"content"`
		Input    json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		var list []string // completions take a list of prompts
		if json.Unmarshal(content, &list) == nil {
			text(strings.Join(list, ""))
			return nil
		}
		return errors.New("must be a string or a list of parts")
	}
	for _, p := range parts {
		switch {
		case p.Text != nil:
			text(*p.Text)
		case p.Thinking != nil:
			text(*p.Thinking)
		case len(p.Content) > 0:
			if err := eachText(p.Content, text, other); err != nil {
				return err
			}
		case len(p.Input) > 0:
			text(string(p.Input))
		case other != nil && slices.Contains([]string{"image_url", "image", "input_image", "input_audio", "document"}, p.Type):
			other()
		}
	}
	return nil
}

// toolName gives the name of the first tool that the request offers.
func (a *ask) toolName() string {
	var tools []struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(a.Tools, &tools) == nil && len(tools) > 0 {
		name := tools[0].Name + tools[0].Function.Name
		odd := func(r rune) bool { // OpenAI allows these and no others
			return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
		}
		if name != "" && !strings.ContainsFunc(name, odd) {
			return name
		}
	}
	return "lookup"
}
