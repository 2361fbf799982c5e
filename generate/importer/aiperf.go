package importer

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"parley/generate/chatshape"
	"parley/generate/rawjson"
	"parley/schemas"
)

// aiperfTurn is a turn of AIPerf's datasets. text is a string; texts is a list of strings or of named groups of
// them; the same for images, audios and videos.
type aiperfTurn struct {
	Text      *string         `json:"text"`
	TextInput *string         `json:"text_input"`
	Texts     json.RawMessage `json:"texts"`
	Image     *string         `json:"image"`
	Images    json.RawMessage `json:"images"`
	Audio     *string         `json:"audio"`
	Audios    json.RawMessage `json:"audios"`
	Video     *string         `json:"video"`
	Videos    json.RawMessage `json:"videos"`
	Delay     number          `json:"delay"`     // ms after the previous answer
	Timestamp number          `json:"timestamp"` // ms
	Output    number          `json:"output_length"`
	Role      string          `json:"role"`
	Model     string          `json:"model"`
	Extra     json.RawMessage `json:"extra"`
	MaxTokens number          `json:"max_tokens"`
}

// aiperf makes conversations of AIPerf's sessions. The answers are not recorded.
type aiperf struct {
	*records
	groups grouped
	space  uint64
	size   int
	first  float64 // ms, the earliest time stamp
}

// newAIPerf reads sessions, one per line or as an array.
func newAIPerf(im *Importer, src *source) (reader, error) {
	if err := src.seekable(); err != nil {
		return nil, err
	}
	a := &aiperf{}
	begun := false
	err := src.each(nil, func(rec rawjson.Record) bool {
		type times struct {
			Timestamp number `json:"timestamp"`
			Delay     number `json:"delay"`
		}
		var s struct {
			times
			Turns []times `json:"turns"`
		}
		if rec.Bad != "" || json.Unmarshal(rec.Data, &s) != nil {
			return true
		}
		if len(s.Turns) > 0 {
			s.times = s.Turns[0]
		}
		if s.Timestamp.given && !s.Delay.given {
			a.earliest(s.Timestamp.v, &begun)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	a.records, err = im.records(src, nil)
	return aiperfSessions{a}, err
}

func (a *aiperf) earliest(at float64, begun *bool) {
	if !*begun || at < a.first {
		a.first, *begun = at, true
	}
}

// aiperfSessions reads records that are whole sessions.
type aiperfSessions struct{ *aiperf }

func (a aiperfSessions) next() (Item, error) {
	item, rec, err := a.record()
	if err != nil || item.problem != nil {
		return item, err
	}
	data := a.in.Keep(rec)
	item.work = func() (made, *problem) {
		var s struct {
			ID    json.RawMessage `json:"session_id"`
			Turns []aiperfTurn    `json:"turns"`
		}
		if err := json.Unmarshal(data, &s); err != nil {
			return made{}, parseError(err)
		}
		b := a.begin(s.ID, item.where.Record)
		if s.Turns == nil {
			s.Turns = make([]aiperfTurn, 1)
			if err := json.Unmarshal(data, &s.Turns[0]); err != nil {
				return made{}, parseError(err)
			}
		}
		for i := range s.Turns {
			if p := b.turn(i, &s.Turns[i], nil); p != nil {
				return made{}, p
			}
		}
		return b.made, nil
	}
	return item, nil
}

// aiperfSession is a conversation while its turns are read.
type aiperfSession struct {
	*aiperf
	made
	before number // time stamp of the turn before
}

func (a *aiperf) begin(id json.RawMessage, number int64) *aiperfSession {
	c := schemas.Conversation{ConversationID: fmt.Sprintf("session-%d", number), Tags: map[string]string{}}
	if name, ok := rawjson.Scalar(id); ok {
		c.ConversationID = name
	}
	return &aiperfSession{aiperf: a, made: made{rows: []schemas.Conversation{c}}}
}

// turn adds a turn. text gives the question where the record has lengths instead.
func (s *aiperfSession) turn(i int, t *aiperfTurn, text func() (string, *problem)) *problem {
	c := &s.rows[0]
	m, p := s.message(i, t, text)
	if p != nil {
		return p
	}
	turn := schemas.Turn{MessageIndex: int64(2*i + 1)}
	if p := s.times(i, t, &turn); p != nil {
		return p
	}
	for _, n := range []number{t.Output, t.MaxTokens} {
		out, p := n.count(fmt.Sprintf("turn %d: an answer", i), maxOutputTokens)
		switch {
		case p != nil:
			return p
		case n.given && turn.OutputTokens == nil:
			tokens := int64(max(out, 1))
			turn.OutputTokens = &tokens
		}
	}
	if !rawjson.Missing(t.Extra) {
		var extra map[string]json.RawMessage
		if err := json.Unmarshal(t.Extra, &extra); err != nil {
			return badRecord("turn %d: extra is no object", i)
		}
		body := "{"
		for _, k := range slices.Sorted(maps.Keys(extra)) {
			if len(body) > 1 {
				body += ","
			}
			body += string(rawjson.AppendText(nil, []byte(k))) + ":" + string(extra[k])
		}
		body += "}"
		turn.Body = &body
	}
	if t.Model != "" {
		c.Tags["model"] = t.Model
	}
	if i > 0 {
		c.Messages = append(c.Messages, schemas.Message{Role: "assistant"})
	}
	c.Messages, c.Turns = append(c.Messages, m), append(c.Turns, turn)
	return nil
}

// message gives the turn's question.
func (s *aiperfSession) message(i int, t *aiperfTurn, text func() (string, *problem)) (m schemas.Message, p *problem) {
	m.Role = "user"
	if t.Role != "" {
		if m.Role = chatshape.Role(t.Role); m.Role != "user" && m.Role != "tool" {
			return m, badRecord("turn %d: the role %q cannot ask", i, t.Role)
		}
	}
	var parts []map[string]any
	for _, k := range []struct {
		kind string
		one  *string
		list json.RawMessage
	}{{"text", t.Text, t.Texts}, {"image", t.Image, t.Images}, {"audio", t.Audio, t.Audios}, {"video", t.Video, t.Videos}} {
		list, p := aiperfList(i, k.kind+"s", k.one, k.list)
		if p != nil {
			return m, p
		}
		if k.kind == "text" && t.TextInput != nil {
			list = append(list, *t.TextInput)
		}
		for _, v := range list {
			if k.kind == "text" {
				parts = append(parts, map[string]any{"type": "text", "text": v})
			} else if url := chatshape.URL(v); url != "" {
				parts = append(parts, map[string]any{"type": k.kind + "_url", k.kind + "_url": map[string]any{"url": url}})
			} else {
				s.notes = append(s.notes, chatshape.Note{What: k.kind + "s left out: a name of a file is no URL and no data", Detail: clip(v)})
			}
		}
	}
	switch {
	case len(parts) == 0 && text != nil:
		made, p := text()
		m.Content = &made
		return m, p
	case len(parts) == 0:
		return m, badRecord("turn %d has no text", i)
	}
	all := ""
	for _, p := range parts {
		if said, ok := p["text"].(string); ok {
			all += said
		}
	}
	m.Content = &all
	if len(parts) > 1 || parts[0]["type"] != "text" {
		b, err := json.Marshal(parts)
		if err != nil {
			return m, badRecord("turn %d: %v", i, err)
		}
		list := string(b)
		m.Parts = &list
	}
	return m, nil
}

// aiperfList gives one value, a list of values, or the contents of a list of groups.
func aiperfList(i int, what string, one *string, list json.RawMessage) ([]string, *problem) {
	if one != nil {
		return []string{*one}, nil
	}
	if rawjson.Missing(list) {
		return nil, nil
	}
	var plain []string
	if json.Unmarshal(list, &plain) == nil {
		return plain, nil
	}
	var groups []struct {
		Contents []string `json:"contents"`
	}
	if err := json.Unmarshal(list, &groups); err != nil {
		return nil, badRecord("turn %d: %s is neither a list of strings nor of groups with contents", i, what)
	}
	var all []string
	for _, g := range groups {
		all = append(all, g.Contents...)
	}
	return all, nil
}

// times takes the turn's delay or its time stamp, of which there may be one.
func (s *aiperfSession) times(i int, t *aiperfTurn, turn *schemas.Turn) *problem {
	for _, n := range []number{t.Delay, t.Timestamp} {
		if n.v < 0 || n.v > 1e15 {
			return badRecord("turn %d: a delay or timestamp of %v", i, n.v)
		}
	}
	switch {
	case t.Delay.given && t.Timestamp.given:
		return badRecord("turn %d has both a delay and a timestamp", i)
	case i == 0 && t.Timestamp.given:
		at := t.Timestamp.v - s.first
		s.rows[0].StartOffsetMS = &at
	case i > 0 && t.Delay.given:
		turn.ThinkTimeMS = &t.Delay.v
	case i > 0 && t.Timestamp.given && s.before.given:
		// Arrivals only, so the think time has the answer's own time in it.
		d := max(t.Timestamp.v-s.before.v, 0)
		turn.ThinkTimeMS = &d
	}
	s.before = t.Timestamp
	return nil
}

// newAIPerfRaw reads AIPerf's Mooncake variant: one turn per line; lines of the same session_id are turns of one
// conversation, wherever they stand. Each line's text or length is that of its own question, not of the whole
// prompt.
func newAIPerfRaw(im *Importer, src *source) (reader, error) {
	if err := src.asLines(nil); err != nil {
		return nil, err
	}
	src.late = true
	a := &aiperf{space: scope("aiperf")}
	var parts []part
	var seen []*mooncakeLine
	begun := false
	err := src.each(nil, func(rec rawjson.Record) bool {
		if rec.Bad != "" {
			return true
		}
		if id, ok := rawjson.Scalar(rawjson.Field(rec.Data, "session_id")); ok {
			p := placeOf(rec)
			parts = append(parts, part{place: p, base: maphash.String(idSeed, id), num: p.number})
		}
		var at number
		if at.UnmarshalJSON(rawjson.Field(rec.Data, "timestamp")) == nil && at.given {
			a.earliest(at.v, &begun)
		}
		if l := (&mooncakeLine{}); len(seen) < 64 && json.Unmarshal(rec.Data, l) == nil {
			seen = append(seen, l)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	a.size = im.blockSize(seen, mooncakeBlock)
	a.groups = group(parts, func([]part) bool { return true })
	a.records, err = im.records(src, nil)
	return aiperfRaw{a}, err
}

// aiperfRaw reads records that are one turn each.
type aiperfRaw struct{ *aiperf }

func (r aiperfRaw) next() (Item, error) {
	item, rec, members, err := r.nextOf(&r.groups)
	if err != nil || item.problem != nil {
		return item, err
	}
	if members == nil {
		members = []place{placeOf(rec)}
	}
	item.records = int64(len(members))
	item.work = func() (made, *problem) { return r.session(members) }
	return item, nil
}

func (r aiperfRaw) session(members []place) (made, *problem) {
	var s *aiperfSession
	for i := range members {
		data, err := members[i].read(r.src.file)
		if err != nil {
			return made{}, fatal(err)
		}
		var t aiperfTurn
		if err := json.Unmarshal(data, &t); err != nil {
			return made{}, parseError(err)
		}
		if i == 0 {
			s = r.begin(rawjson.Field(data, "session_id"), int64(members[0].number))
		}
		p := s.turn(i, &t, func() (string, *problem) {
			var line mooncakeLine
			if err := json.Unmarshal(data, &line); err != nil {
				return "", parseError(err)
			}
			q, p := line.request(r.space, uint64(members[i].number), r.size, 1)
			if p != nil {
				return "", p
			}
			text, err := r.im.blocks.text(&q.hashes, 0, q.in)
			if err != nil {
				return "", fatal(err)
			}
			return text, nil
		})
		if p != nil {
			return made{}, p
		}
	}
	return s.made, nil
}
