package chatshape

import (
	"parley/schemas"
)

// merge makes one message of neighbours of one role. Results of tools stay apart: each answers its own call.
func (b *builder) merge() {
	out := b.list[:0]
	for _, m := range b.list {
		if n := len(out); n > 0 && out[n-1].Role == m.Role && m.Role != "tool" {
			b.note("neighbouring messages of one role, merged", "two of the %s", m.Role)
			out[n-1].append(&m)
			continue
		}
		out = append(out, m)
	}
	b.list = out
}

// append puts another message's content behind a message's own.
func (m *message) append(o *message) {
	if m.parts != nil || o.parts != nil {
		for _, x := range []*message{m, o} {
			if x.parts == nil && x.Content != nil {
				x.parts = []part{{text: *x.Content}}
			}
		}
		m.parts, m.Content = append(m.parts, o.parts...), nil
	} else {
		m.Content = joined(m.Content, o.Content)
	}
	m.Reasoning = joined(m.Reasoning, o.Reasoning)
	m.calls = append(m.calls, o.calls...)
	if !o.at.IsZero() {
		m.at = o.at
	}
	if m.think == nil {
		m.think = o.think
	}
}

// dropLeading takes off answers that nobody asked for.
func (b *builder) dropLeading() {
	for i := range b.list {
		switch b.list[i].Role {
		case "system", "developer":
			continue
		case "assistant":
			text := ""
			if c := b.list[i].Content; c != nil {
				text = *c
			}
			b.note("answers at the beginning that nobody asked for, left out", "%s", clip([]byte(text)))
			b.list = append(b.list[:i:i], b.list[i+1:]...)
			b.dropLeading()
		}
		return
	}
}

// turns derives the requests, with the lengths, parameters and think times that the record tells.
func (b *builder) turns() {
	c := &b.chat
	if len(b.body) > 0 {
		s := string(mustJSON(b.body))
		c.Body = &s
	}
	if len(c.Messages) == 0 {
		return
	}
	turns := schemas.DeriveTurns(c.Messages)
	if b.request {
		turns = []schemas.Turn{{MessageIndex: int64(len(c.Messages))}}
	}
	told := false
	for i := range turns {
		t := &turns[i]
		at := int(t.MessageIndex)
		recorded := at < len(c.Messages)
		switch {
		case b.output > 0:
			n := b.output
			t.OutputTokens = &n
		case b.limit > 0 && !recorded:
			n := b.limit
			t.OutputTokens = &n
		case b.limit > 0 && !told:
			told = true
			b.note("limits of tokens beside recorded answers, whose lengths are asked for instead", "%d", b.limit)
		}
		t.ThinkTimeMS = b.think(turns, i)
	}
	c.Turns = turns
}

// think gives the time before a turn. Where only answers are stamped (WildChat), that between two answers is
// taken, which has the second answer's own time in it.
func (b *builder) think(turns []schemas.Turn, i int) *float64 {
	if i == 0 {
		return nil
	}
	at := int(turns[i].MessageIndex)
	if ms := b.list[at-1].think; ms != nil {
		return ms
	}
	before, asked := b.list[turns[i-1].MessageIndex].at, b.list[at-1].at
	if asked.IsZero() && at < len(b.list) {
		asked = b.list[at].at
	}
	if before.IsZero() || asked.IsZero() {
		return nil
	}
	ms := max(float64(asked.Sub(before))/1e6, 0)
	return &ms
}
