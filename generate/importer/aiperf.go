package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"

	"parley/schemas"
)

// aiperfTurn is a turn of AIPerf's multi_turn datasets. text is a string; texts is a list of strings or of
// named groups of them; the same for images.
type aiperfTurn struct {
	Text         *string         `json:"text"`
	Texts        json.RawMessage `json:"texts"`
	Image        *string         `json:"image"`
	Images       json.RawMessage `json:"images"`
	Delay        *float64        `json:"delay"`     // ms after the previous answer
	Timestamp    *float64        `json:"timestamp"` // ms from the start of the trace
	OutputLength *int64          `json:"output_length"`
	Role         *string         `json:"role"`
	Model        *string         `json:"model"`
}

// newAIPerf reads sessions, one per line or as an array. The answers are not recorded.
func newAIPerf(im *Importer) reader {
	return newScanReader(im, func(data []byte, rec record) ([]schemas.Conversation, *problem) {
		var s struct {
			ID    json.RawMessage `json:"session_id"`
			Turns []aiperfTurn    `json:"turns"`
		}
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, parseError(err)
		}
		c := schemas.Conversation{ConversationID: fmt.Sprintf("session-%d", rec.number), Tags: map[string]string{}}
		if id, ok := scalar(s.ID); ok {
			c.ConversationID = id
		}
		var before *float64 // time stamp of the turn before
		for i := range s.Turns {
			t := &s.Turns[i]
			m, p := t.message(i)
			if p != nil {
				return nil, p
			}
			turn := schemas.Turn{MessageIndex: int64(2*i + 1)}
			if p := t.times(i, &c, &turn, before); p != nil {
				return nil, p
			}
			before = t.Timestamp
			if t.OutputLength != nil {
				if *t.OutputLength < 1 || *t.OutputLength > maxOutputTokens {
					return nil, badRecord("turn %d: an output_length of %d", i, *t.OutputLength)
				}
				turn.OutputTokens = t.OutputLength
			}
			if t.Model != nil {
				c.Tags["model"] = *t.Model
			}
			if i > 0 {
				c.Messages = append(c.Messages, schemas.Message{Role: "assistant"})
			}
			c.Messages, c.Turns = append(c.Messages, m), append(c.Turns, turn)
		}
		return []schemas.Conversation{c}, nil
	})
}

// message gives the turn's question.
func (t *aiperfTurn) message(i int) (schemas.Message, *problem) {
	m := schemas.Message{Role: "user"}
	if t.Role != nil && *t.Role != "" {
		if m.Role = schemas.CanonicalRole(*t.Role); m.Role != "user" && m.Role != "tool" {
			return m, badRecord("turn %d: the role %q cannot ask", i, *t.Role)
		}
	}
	texts, p := aiperfList(i, "texts", t.Text, t.Texts)
	if p != nil {
		return m, p
	}
	images, p := aiperfList(i, "images", t.Image, t.Images)
	if p != nil {
		return m, p
	}
	if len(texts) == 0 && len(images) == 0 {
		return m, badRecord("turn %d has no text", i)
	}
	all := ""
	parts := []any{}
	for _, s := range texts {
		all += s
		parts = append(parts, map[string]any{"type": "text", "text": s})
	}
	m.Content = &all
	if len(images) > 0 || len(texts) > 1 {
		for _, u := range images {
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": u}})
		}
		b, err := json.Marshal(parts)
		if err != nil {
			return m, badRecord("turn %d: %v", i, err)
		}
		s := string(b)
		m.Parts = &s
	}
	return m, nil
}

// aiperfList gives one value, a list of values, or the contents of a list of groups.
func aiperfList(i int, what string, one *string, list json.RawMessage) ([]string, *problem) {
	if one != nil {
		return []string{*one}, nil
	}
	if missing(list) {
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
func (t *aiperfTurn) times(i int, c *schemas.Conversation, turn *schemas.Turn, before *float64) *problem {
	return takeTimes(i, t.Delay, t.Timestamp, before, c, turn)
}

func takeTimes(i int, delay, stamp, before *float64, c *schemas.Conversation, turn *schemas.Turn) *problem {
	for _, v := range []*float64{delay, stamp} {
		if v != nil && (math.IsNaN(*v) || *v < 0 || *v > 1e15) {
			return badRecord("turn %d: a delay or timestamp of %v", i, *v)
		}
	}
	switch {
	case delay != nil && stamp != nil:
		return badRecord("turn %d has both a delay and a timestamp", i)
	case i == 0 && stamp != nil:
		c.StartOffsetMS = stamp
	case i > 0 && delay != nil:
		turn.ThinkTimeMS = delay
	case i > 0 && stamp != nil && before != nil:
		// Arrivals only, so the think time has the answer's own time in it.
		d := max(*stamp-*before, 0)
		turn.ThinkTimeMS = &d
	}
	return nil
}

// aiperfLine is a line of AIPerf's Mooncake variant: one turn.
type aiperfLine struct {
	mooncakeLine
	Delay     *float64 `json:"delay"`
	TextInput *string  `json:"text_input"`
	Text      *string  `json:"text"`
}

// aiperfRaw reads one turn per line; lines of the same session_id are turns of one conversation, wherever
// they stand. Each line's text or length is that of its own question, not of the whole prompt.
type aiperfRaw struct {
	*scanReader
	groups grouped
	space  uint64
}

func newAIPerfRaw(im *Importer) (reader, error) {
	if err := im.source.seekable(); err != nil {
		return nil, err
	}
	r := &aiperfRaw{space: scope("aiperf")}
	var parts []part
	s := newScanner(im.source.reader())
	for {
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("import: %s: %w", im.source.name, err)
		}
		if id, ok := scalar(field(rec.data, "session_id")); ok && rec.bad == "" {
			p := placeOf(rec)
			parts = append(parts, part{place: p, base: maphash.String(idSeed, id), num: p.number})
		}
	}
	r.groups = group(parts, func(int) bool { return true })
	r.scanReader = newScanReader(im, nil)
	return r, nil
}

func (r *aiperfRaw) next() (Item, error) {
	item, rec, members, err := r.nextOf(&r.groups)
	if err != nil || item.problem != nil {
		return item, err
	}
	if members == nil {
		members = []place{placeOf(rec)}
	}
	item.records = int64(len(members))
	item.work = func() ([]schemas.Conversation, *problem) { return r.session(members) }
	return item, nil
}

func (r *aiperfRaw) session(members []place) ([]schemas.Conversation, *problem) {
	c := schemas.Conversation{ConversationID: fmt.Sprintf("session-%d", members[0].number), Tags: map[string]string{}}
	var before *float64
	for i := range members {
		data, err := members[i].read(r.im.source.file)
		if err != nil {
			return nil, fatal(err)
		}
		var line aiperfLine
		if err := json.Unmarshal(data, &line); err != nil {
			return nil, parseError(err)
		}
		if id, ok := scalar(field(data, "session_id")); ok {
			c.ConversationID = id
		}
		text, p := r.question(&line, int64(members[i].number))
		if p != nil {
			return nil, p
		}
		turn := schemas.Turn{MessageIndex: int64(2*i + 1)}
		if p := takeTimes(i, line.Delay, line.Timestamp, before, &c, &turn); p != nil {
			return nil, p
		}
		before = line.Timestamp
		if line.OutputLength != nil {
			n := int64(max(*line.OutputLength, 1))
			turn.OutputTokens = &n
		}
		if i > 0 {
			c.Messages = append(c.Messages, schemas.Message{Role: "assistant"})
		}
		c.Messages = append(c.Messages, schemas.Message{Role: "user", Content: &text})
		c.Turns = append(c.Turns, turn)
	}
	return []schemas.Conversation{c}, nil
}

// question gives the line's text: as it stands, or made to the length and hashes.
func (r *aiperfRaw) question(line *aiperfLine, number int64) (string, *problem) {
	for _, s := range []*string{line.TextInput, line.Text} {
		if s != nil {
			return *s, nil
		}
	}
	q, p := line.request(r.space, uint64(number), mooncakeBlock)
	if p != nil {
		return "", p
	}
	text, err := r.im.blocks.text(&q.hashes, 0, q.in)
	if err != nil {
		return "", fatal(err)
	}
	return text, nil
}
