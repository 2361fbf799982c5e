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
			if len(h.system) > 0 {
				h.system = append(h.system, ',')
			}
			h.system = append(h.system, blocks...)
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
	h.comma()
	h.add(`{"role":"` + role + `","content":`)
	if !h.open && m.Parts == nil && m.ToolCalls == nil && reasoning == "" {
		h.quoteSalted(salt, str(m.Content))
		h.add("}")
		return nil
	}
	h.add("[" + blocks + "]}")
	return nil
}

// blocks gives a message's content as the inside of a list of Anthropic's blocks.
func (h *History) blocks(m *schemas.Message, salt, reasoning, signature string) (string, error) {
	var list []string
	textBlock := func(s string) {
		if s != "" { // empty text blocks are refused
			list = append(list, string(append(appendQuoted([]byte(`{"type":"text","text":`), s), '}')))
		}
	}
	if reasoning != "" {
		b := appendQuoted([]byte(`{"type":"thinking","thinking":`), reasoning)
		if signature != "" {
			b = appendQuoted(append(b, `,"signature":`...), signature)
		}
		list = append(list, string(append(b, '}')))
	}
	if m.Role == "tool" || m.Role == "function" {
		b := appendQuoted([]byte(`{"type":"tool_result","tool_use_id":`), str(m.ToolCallID))
		b = append(b, `,"content":`...)
		if m.Parts != nil {
			parts, err := convertParts(h.api.Kind, *m.Parts, m.Role)
			if err != nil {
				return "", err
			}
			b = append(append(append(b, '['), strings.Join(parts, ",")...), ']')
		} else {
			b = appendQuoted(b, salt+str(m.Content))
		}
		return string(append(b, '}')), nil
	}
	if m.Parts != nil {
		parts, err := convertParts(h.api.Kind, *m.Parts, m.Role)
		if err != nil {
			return "", err
		}
		textBlock(salt)
		list = append(list, parts...)
	} else {
		textBlock(salt + str(m.Content))
	}
	calls, err := readCalls(m.ToolCalls)
	if err != nil {
		return "", err
	}
	for _, c := range calls {
		b := appendQuoted([]byte(`{"type":"tool_use","id":`), c.id)
		b = appendQuoted(append(b, `,"name":`...), c.name)
		b = append(append(b, `,"input":`...), c.object()...)
		list = append(list, string(append(b, '}')))
	}
	return strings.Join(list, ","), nil
}

// appendItem writes a message as OpenAI's Responses take it: text as a message, each tool call and each
// tool result as an item of its own.
func (h *History) appendItem(m *schemas.Message, salt, reasoning string) error {
	var parts []string
	var err error
	if m.Parts != nil {
		if parts, err = convertParts(h.api.Kind, *m.Parts, m.Role); err != nil {
			return err
		}
	}
	calls, err := readCalls(m.ToolCalls)
	if err != nil {
		return err
	}
	if m.Role == "tool" || m.Role == "function" {
		h.comma()
		h.add(`{"type":"function_call_output","call_id":`)
		h.quote(str(m.ToolCallID))
		h.add(`,"output":`)
		if parts != nil {
			h.add("[" + strings.Join(parts, ",") + "]")
		} else {
			h.quoteSalted(salt, str(m.Content))
		}
		h.add("}")
		return nil
	}
	if reasoning != "" {
		h.comma()
		h.add(`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":`)
		h.quote(reasoning)
		h.add("}]}")
	}
	if parts != nil || m.Content != nil || salt != "" {
		h.comma()
		h.add(`{"role":`)
		h.quote(m.Role)
		h.add(`,"content":`)
		if parts == nil {
			h.quoteSalted(salt, str(m.Content))
		} else {
			if salt != "" {
				parts = append([]string{string(append(appendQuoted([]byte(`{"type":"`+textKind(h.api.Kind, m.Role)+`","text":`), salt), '}'))}, parts...)
			}
			h.add("[" + strings.Join(parts, ",") + "]")
		}
		h.add("}")
	}
	for _, c := range calls {
		h.comma()
		h.add(`{"type":"function_call","call_id":`)
		h.quote(c.id)
		h.add(`,"name":`)
		h.quote(c.name)
		h.add(`,"arguments":`)
		h.quote(c.args)
		h.add("}")
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
	calls, err := readCalls(m.ToolCalls)
	if err != nil {
		return err
	}
	role := m.Role
	if role == "developer" {
		role = "system"
	}
	h.comma()
	h.add(`{"role":`)
	h.quote(role)
	h.add(`,"content":`)
	h.quoteSalted(salt, content)
	h.optional("thinking", reasoning)
	if len(images) > 0 {
		h.add(`,"images":`)
		for i, image := range images {
			h.add([2]string{"[", ","}[min(i, 1)])
			h.quote(image)
		}
		h.add("]")
	}
	for i, c := range calls {
		h.add([2]string{`,"tool_calls":[`, ","}[min(i, 1)])
		h.add(`{"function":{"name":`)
		h.quote(c.name)
		h.add(`,"arguments":` + c.object() + "}}")
	}
	if len(calls) > 0 {
		h.add("]")
	}
	if role == "tool" {
		h.optional("tool_name", str(m.Name))
		h.optional("tool_call_id", str(m.ToolCallID))
	}
	h.add("}")
	return nil
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
	out := make([]string, 0, len(parts))
	for i, p := range parts {
		var members []member
		put := func(name, value string) {
			if value != "" {
				members = append(members, member{name, appendQuoted(nil, value)})
			}
		}
		switch {
		case p.Kind == "text" && p.Text != nil && kind == Responses:
			put("type", textKind(kind, role))
			members = append(members, member{"text", appendQuoted(nil, *p.Text)})
		case p.Kind == "image_url" && kind == Responses:
			put("type", "input_image")
			put("image_url", p.url)
			put("detail", p.detail)
		case p.Kind == "file" && p.File != nil && kind == Responses:
			put("type", "input_file")
			put("filename", p.File.Name)
			put("file_data", p.File.Data)
			put("file_id", p.File.ID)
		case p.Kind == "image_url":
			put("type", "image")
			members = append(members, member{"source", source(p.url)})
		case p.Kind == "file" && p.File != nil && p.File.Data != "":
			put("type", "document")
			members = append(members, member{"source", source(p.File.Data)})
		case p.Kind == "input_audio" && kind == Anthropic, p.Kind == "file" && kind == Anthropic:
			return nil, fmt.Errorf("content part %d: the anthropic API takes no %s of this form", i, p.Kind)
		default:
			out = append(out, string(p.raw))
			continue
		}
		if p.CacheControl != nil && kind == Anthropic {
			members = append(members, member{"cache_control", p.CacheControl})
		}
		out = append(out, string(appendObject(nil, members)))
	}
	return out, nil
}

// source gives Anthropic's source object of a URL: data URLs are taken apart.
func source(url string) []byte {
	if media, data, ok := splitDataURL(url); ok {
		return appendObject(nil, []member{
			{"type", []byte(`"base64"`)}, {"media_type", appendQuoted(nil, media)}, {"data", appendQuoted(nil, data)},
		})
	}
	return appendObject(nil, []member{{"type", []byte(`"url"`)}, {"url", appendQuoted(nil, url)}})
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

// ollamaParts gives the text and the images of a message's parts.
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
			images = append(images, data)
		default:
			return "", nil, fmt.Errorf("content part %d: the ollama API takes no %q", i, p.Kind)
		}
	}
	return strings.Join(texts, "\n"), images, nil
}
