package chatshape

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/generate/rawjson"
)

// media are a record's images (videos, sounds) that its messages refer to by marks or empty parts.
type media struct {
	kind string // image, video, audio
	left []json.RawMessage
}

func (m *media) mark() string { return "<" + m.kind + ">" }

// startMedia takes the record's media.
func (b *builder) startMedia(o object) {
	b.media = nil
	for _, key := range mediaKeys {
		raw := asJSON(o.get(key))
		if raw == nil || string(raw) == `""` || string(raw) == "[]" {
			continue
		}
		kind := strings.TrimSuffix(key, "s")
		if b.media == nil {
			b.media = map[string]*media{}
		}
		if b.media[kind] == nil {
			b.media[kind] = &media{kind: kind}
		}
		m := b.media[kind]
		if raw[0] != '[' {
			m.left = append(m.left, raw)
			continue
		}
		_ = rawjson.Walk(raw, func(_, v []byte) bool { // damage shows as too few
			if !rawjson.Missing(v) {
				m.left = append(m.left, v)
			}
			return true
		})
	}
}

// take gives the next of a kind as a part; nil where it cannot be sent or there is none.
func (b *builder) take(kind string) *part {
	m := b.media[kind]
	if m == nil || len(m.left) == 0 {
		b.note(kind+" parts without data, left out", "the record has none left")
		return nil
	}
	v := m.left[0]
	m.left = m.left[1:]
	return b.sendable(kind, v)
}

// marked takes the marks of the record's media out of a text: as parts, or where there is nothing to send, as
// the text without them.
func (b *builder) marked(text string) ([]part, string) {
	var out []part
	marks, sent := false, false
	for len(b.media) > 0 {
		at, kind := -1, ""
		for k, m := range b.media {
			if i := strings.Index(text, m.mark()); i >= 0 && (at < 0 || i < at) {
				at, kind = i, k
			}
		}
		if at < 0 {
			break
		}
		if before := text[:at]; before != "" {
			out = append(out, part{text: before})
		}
		text = text[at+len(kind)+2:]
		marks = true
		if p := b.take(kind); p != nil {
			out, sent = append(out, *p), true
		}
	}
	if !marks {
		return nil, text
	}
	if text != "" {
		out = append(out, part{text: text})
	}
	all := ""
	for i := range out {
		if all += out[i].text; out[i].raw == nil {
			out[i].text = strings.Trim(out[i].text, "\n") // a line break next to an image means nothing any more
		}
	}
	if !sent {
		return nil, strings.TrimSpace(all)
	}
	return slices.DeleteFunc(out, func(p part) bool { return p.raw == nil && p.text == "" }), ""
}

// restOfMedia puts what no mark stood for before the first question of the record.
func (b *builder) restOfMedia(from int) {
	for _, key := range []string{"image", "video", "audio"} {
		m := b.media[key]
		if m == nil || len(m.left) == 0 {
			continue
		}
		var list []part
		for len(m.left) > 0 {
			if p := b.take(key); p != nil {
				list = append(list, *p)
			}
		}
		for i := from; i < len(b.list) && len(list) > 0; i++ {
			if b.list[i].Role == "user" {
				b.list[i].insertFirst(list...)
				break
			}
		}
	}
}

// mediaPart reads a part that is an image, a video or a sound, in any form.
func (b *builder) mediaPart(m *message, o object, whole []byte) {
	kind := ""
	named := o.text("type")
	for _, k := range []string{"image", "video", "audio"} {
		if strings.Contains(named, k) || named == "" && o.get(k, k+"s") != nil {
			kind = k
		}
	}
	if kind == "" {
		b.note("parts of messages of a kind that is not known, left out", "%s", named)
		return
	}
	if named == "input_audio" && o.get("input_audio") != nil {
		m.parts = append(m.parts, part{raw: json.RawMessage(compact(whole))})
		return
	}
	raw := o.get(kind+"_url", kind, "url", "source", "path", "bytes", "data")
	p := (*part)(nil)
	if raw == nil {
		p = b.take(kind)
	} else if p = b.sendable(kind, raw); p != nil && named == kind+"_url" && raw[0] == '{' {
		p.raw = json.RawMessage(`{"type":"` + named + `","` + named + `":` + compact(raw) + `}`) // with its detail
	}
	if p != nil {
		m.parts = append(m.parts, *p)
	}
}

// sendable gives an image (video, sound) as a part that servers take: by its URL, or with its data in the URL.
// nil says that it is neither, but a name of a file.
func (b *builder) sendable(kind string, raw []byte) *part {
	url := urlOf(asJSON(raw), 0)
	if url == "" {
		b.note(kind+"s left out, with their marks: a name of a file is no URL and no data", "%s", clip(raw))
		return nil
	}
	name := kind + "_url"
	return &part{raw: json.RawMessage(`{"type":"` + name + `","` + name + `":{"url":` + string(mustJSON(url)) + `}}`)}
}

// URL gives the URL of an image (video, sound) that is one already or is base64 data; "" for the name of a file.
func URL(value string) string { return urlOf(mustJSON(value), 0) }

// urlOf finds the URL or the data in a value; "" if there is none.
func urlOf(raw []byte, depth int) string {
	if len(raw) == 0 || depth > 3 {
		return ""
	}
	if raw[0] == '{' {
		o, err := objectOf(raw)
		if err != nil {
			return ""
		}
		if o.text("type") == "base64" && o.get("data") != nil { // Anthropic's source
			return "data:" + o.text("media_type") + ";base64," + o.text("data")
		}
		for _, k := range []string{"url", "bytes", "data", "b64_json", "image_url", "video_url", "audio_url", "image", "video", "audio", "path"} {
			if u := urlOf(o[k], depth+1); u != "" {
				return u
			}
		}
		return ""
	}
	s, _ := rawjson.Scalar(raw)
	if low := strings.ToLower(s[:min(len(s), 8)]); strings.HasPrefix(low, "http://") || low == "https://" || strings.HasPrefix(low, "data:") {
		return s
	}
	if len(s) >= 24 {
		for begin, kind := range base64Begins {
			if strings.HasPrefix(s, begin) {
				return "data:" + kind + ";base64," + s
			}
		}
	}
	return ""
}

// base64Begins tells files of images by how their base64 begins.
var base64Begins = map[string]string{"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
