package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/schemas"
)

// appendAnthropic writes a message as Anthropic's Messages take it: system messages that come first go
// into the request's system, later ones are said by the user; the results of tools that follow one
// another are one message of the user; tool calls are blocks with their arguments as an object.
func (h *History) appendAnthropic(m *schemas.Message, salt, reasoning, signature string) error {
	blocks, err := h.blocks(m, salt, reasoning, signature)
	if err != nil {
		return err
	}
	role := m.Role
	switch role {
	case "system", "developer":
		if h.buf[len(h.buf)-1] == '[' { // nothing said yet
			switch {
			case blocks == "":
			case len(h.system) == 0:
				h.system, h.systemText = append(h.system, blocks...), soleText(m, salt)
			default:
				h.system, h.systemText = append(append(h.system, ','), blocks...), nil
			}
			return nil
		}
		role = "user"
	case "tool", "function":
		if h.open {
			h.buf = h.buf[:len(h.buf)-len("]}")]
			h.add("," + blocks + "]}")
			return nil
		}
		role = "user"
	case "user", "assistant":
	default:
		return fmt.Errorf("the role %q is unknown to the anthropic API", role)
	}
	h.open = m.Role == "tool" || m.Role == "function"
	if !h.open && m.Parts == nil && m.ToolCalls == nil && reasoning == "" {
		h.item("role", role, "content", salt+str(m.Content))
	} else {
		h.item("role", role, "content", rawJSON("["+blocks+"]"))
	}
	return nil
}

// soleText gives the text of a message that is nothing but one text, as a JSON string; nil for any other.
func soleText(m *schemas.Message, salt string) []byte {
	if m.Parts == nil {
		return appendQuoted(nil, salt+str(m.Content))
	}
	parts, err := readParts(*m.Parts)
	if err != nil || len(parts) != 1 || parts[0].Kind != "text" || parts[0].Text == nil || parts[0].CacheControl != nil {
		return nil
	}
	return appendQuoted(nil, salt+*parts[0].Text)
}

// blocks gives a message's content as the inside of a list of Anthropic's blocks.
func (h *History) blocks(m *schemas.Message, salt, reasoning, signature string) (string, error) {
	var parts []string
	if m.Parts != nil {
		var err error
		if parts, err = convertParts(h.api.Kind, *m.Parts, m.Role); err != nil {
			return "", err
		}
	}
	if m.Role == "tool" || m.Role == "function" {
		if m.Parts != nil {
			return object("type", "tool_result", "tool_use_id", str(m.ToolCallID), "content", rawJSON("["+strings.Join(parts, ",")+"]")), nil
		}
		return object("type", "tool_result", "tool_use_id", str(m.ToolCallID), "content", salt+str(m.Content)), nil
	}
	var list []string
	if reasoning != "" {
		list = append(list, object("type", "thinking", "thinking", reasoning, "signature", optional(signature)))
	}
	text := salt
	if m.Parts == nil {
		text += str(m.Content)
	}
	if text != "" { // empty text blocks are refused
		list = append(list, object("type", "text", "text", text))
	}
	list = append(list, parts...)
	calls, err := readCalls(m.ToolCalls)
	for _, c := range calls {
		list = append(list, object("type", "tool_use", "id", c.id, "name", c.name, "input", rawJSON(c.object())))
	}
	return strings.Join(list, ","), err
}

// appendItem writes a message as OpenAI's Responses take it: text as a message, each tool call and each
// tool result as an item of its own.
func (h *History) appendItem(m *schemas.Message, salt, reasoning string) error {
	var content any = salt + str(m.Content)
	if m.Parts != nil {
		parts, err := convertParts(h.api.Kind, *m.Parts, m.Role)
		if err != nil {
			return err
		}
		if salt != "" && m.Role != "tool" && m.Role != "function" {
			parts = append([]string{object("type", textKind(h.api.Kind, m.Role), "text", salt)}, parts...)
		}
		content = rawJSON("[" + strings.Join(parts, ",") + "]")
	}
	calls, err := readCalls(m.ToolCalls)
	if err != nil {
		return err
	}
	if m.Role == "tool" || m.Role == "function" {
		h.item("type", "function_call_output", "call_id", str(m.ToolCallID), "output", content)
		return nil
	}
	if reasoning != "" {
		h.item("type", "reasoning", "summary", rawJSON("[]"), "content", rawJSON("["+object("type", "reasoning_text", "text", reasoning)+"]"))
	}
	if m.Parts != nil || m.Content != nil || salt != "" {
		h.item("role", m.Role, "content", content)
	}
	for _, c := range calls {
		h.item("type", "function_call", "call_id", c.id, "name", c.name, "arguments", c.args)
	}
	return nil
}

// appendOllama writes a message as Ollama's /api/chat takes it: text as one string, images as a list of
// base64, arguments of tool calls as objects.
func (h *History) appendOllama(m *schemas.Message, salt, reasoning string) error {
	content, images := str(m.Content), []string(nil)
	if m.Parts != nil {
		var err error
		if content, images, err = ollamaParts(*m.Parts); err != nil {
			return err
		}
	}
	given, err := readCalls(m.ToolCalls)
	if err != nil {
		return err
	}
	var calls []string
	for _, c := range given {
		calls = append(calls, object("function", rawJSON(object("name", c.name, "arguments", rawJSON(c.object())))))
	}
	role, name, id := m.Role, "", ""
	switch role {
	case "developer":
		role = "system"
	case "tool":
		name, id = str(m.Name), str(m.ToolCallID)
	}
	h.item("role", role, "content", salt+content, "thinking", optional(reasoning), "images", listOf(images), "tool_calls", listOf(calls),
		"tool_name", optional(name), "tool_call_id", optional(id))
	return nil
}

// listOf gives a list of JSON values, "" for none.
func listOf(values []string) rawJSON {
	if len(values) == 0 {
		return ""
	}
	return rawJSON("[" + strings.Join(values, ",") + "]")
}

// textKind names a text part.
func textKind(kind Kind, role string) string {
	switch {
	case kind != Responses:
		return "text"
	case role == "assistant":
		return "output_text"
	}
	return "input_text"
}

// part is a content part in OpenAI's chat form.
type part struct {
	raw  json.RawMessage
	Kind string          `json:"type"`
	Text *string         `json:"text"`
	URL  json.RawMessage `json:"image_url"` // a text, or an object with url and detail
	File *struct {
		Data string `json:"file_data"`
		Name string `json:"filename"`
		ID   string `json:"file_id"`
	} `json:"file"`
	CacheControl json.RawMessage `json:"cache_control"`

	url, detail string
}

func readParts(raw string) ([]part, error) {
	var list []json.RawMessage
	if err := decode(raw, &list); err != nil {
		return nil, fmt.Errorf("content_parts: %w", err)
	}
	parts := make([]part, len(list))
	for i, text := range list {
		p := &parts[i]
		if err := decode(string(text), p); err != nil {
			return nil, fmt.Errorf("content_parts: %w", err)
		}
		p.raw = text
		var image struct{ URL, Detail string }
		if json.Unmarshal(p.URL, &image) == nil {
			p.url, p.detail = image.URL, image.Detail
		} else {
			_ = json.Unmarshal(p.URL, &p.url) // neither: there is no image
		}
	}
	return parts, nil
}

// convertParts gives the parts of a message's content as the API wants them. Parts that are in another
// form than OpenAI's chat already are left as they are.
func convertParts(kind Kind, raw, role string) ([]string, error) {
	parts, err := readParts(raw)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(parts))
	for i, p := range parts {
		cache := rawJSON("")
		if kind == Anthropic {
			cache = rawJSON(p.CacheControl)
		}
		switch {
		case p.Kind == "text" && p.Text != nil && kind == Responses:
			out[i] = object("type", textKind(kind, role), "text", *p.Text)
		case p.Kind == "image_url" && kind == Responses:
			out[i] = object("type", "input_image", "image_url", optional(p.url), "detail", optional(p.detail))
		case p.Kind == "file" && p.File != nil && kind == Responses:
			out[i] = object("type", "input_file", "filename", optional(p.File.Name), "file_data", optional(p.File.Data), "file_id", optional(p.File.ID))
		case p.Kind == "image_url":
			out[i] = object("type", "image", "source", source(p.url), "cache_control", cache)
		case p.Kind == "file" && p.File != nil && p.File.Data != "":
			out[i] = object("type", "document", "source", source(p.File.Data), "cache_control", cache)
		case p.Kind == "input_audio" && kind == Anthropic, p.Kind == "file" && kind == Anthropic:
			return nil, fmt.Errorf("content part %d: the anthropic API takes no %s of this form", i, p.Kind)
		default:
			out[i] = string(p.raw)
		}
	}
	return out, nil
}

// source gives Anthropic's source object of a URL: data URLs are taken apart.
func source(url string) rawJSON {
	if media, data, ok := splitDataURL(url); ok {
		return rawJSON(object("type", "base64", "media_type", media, "data", data))
	}
	return rawJSON(object("type", "url", "url", url))
}

// splitDataURL takes a base64 data URL apart.
func splitDataURL(url string) (media, data string, ok bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	media, base64, _ := strings.Cut(head, ";")
	return media, data, ok && strings.HasSuffix(base64, "base64")
}

// ollamaParts gives the text of a message's parts, and the images as JSON strings.
func ollamaParts(raw string) (content string, images []string, err error) {
	parts, err := readParts(raw)
	if err != nil {
		return "", nil, err
	}
	var texts []string
	for i, p := range parts {
		switch {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Kind == "image_url":
			_, data, ok := splitDataURL(p.url)
			if !ok {
				return "", nil, fmt.Errorf("content part %d: the ollama API takes images as base64 data only, not by URL", i)
			}
			images = append(images, string(appendQuoted(nil, data)))
		default:
			return "", nil, fmt.Errorf("content part %d: the ollama API takes no %q", i, p.Kind)
		}
	}
	return strings.Join(texts, "\n"), images, nil
}
