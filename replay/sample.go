package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"parley/replay/internal/api"
	"parley/replay/internal/wire"
	"parley/schemas"
)

// sampleOf is how many of a dataset's first conversations are looked at for one that stands for all, and sampleText
// what is kept, in bytes, of each of its texts.
const sampleOf, sampleText = 64, 400

// sample is a conversation like those that the run sends, with short texts: the requests before the load are made of
// it, so that what a server does not take (tools, images, system messages, parameters) fails there.
type sample struct {
	options api.HistoryOptions
	body    string            // of its last turn
	history []schemas.Message // up to the last message, whose text the caller gives
	parts   string            // the last message's, "" for none
	has     []string          // what it has, in words
}

// newSample makes one of that conversation among the dataset's first ones which has most kinds of things.
func newSample(ds dataset) (*sample, error) {
	best := &sample{}
	n := 0
	for c, err := range ds.Conversations(0) {
		if err != nil {
			return nil, err
		}
		if s := sampled(&c); s != nil && len(s.has) > len(best.has) {
			best = s
		}
		if n++; n == sampleOf {
			break
		}
	}
	return best, nil
}

// sampled gives a conversation's first two turns as a sample, nil if it has none.
func sampled(c *schemas.Conversation) *sample {
	if len(c.Turns) == 0 {
		return nil
	}
	turn := &c.Turns[min(1, len(c.Turns)-1)]
	end := int(turn.MessageIndex)
	if end < 1 || end > len(c.Messages) {
		return nil
	}
	s := &sample{}
	note := func(there bool, what string) {
		if there {
			s.has = append(s.has, what)
		}
	}
	if c.Tools != nil {
		s.options.Tools = *c.Tools
	}
	if c.Body != nil {
		s.options.Body = *c.Body
	}
	if turn.Body != nil {
		s.body = *turn.Body
	}
	note(s.options.Tools != "", "tools")
	note(s.options.Body != "" || s.body != "", "parameters of the source")
	var system, parts, calls bool
	for i := range end {
		m := c.Messages[i]
		if m.Content != nil {
			m.Content = shortened(*m.Content)
		}
		if m.Reasoning != nil {
			m.Reasoning = shortened(*m.Reasoning)
		}
		system = system || m.Role == "system" || m.Role == "developer"
		parts = parts || m.Parts != nil
		calls = calls || m.ToolCalls != nil
		s.history = append(s.history, m)
	}
	note(system, "a system message")
	note(parts, "messages in parts")
	note(calls, "tool calls")
	note(len(c.Turns) > 1, "two turns")
	if last := s.history[end-1]; last.Role == "user" {
		s.history = s.history[:end-1]
		if last.Parts != nil {
			s.parts = *last.Parts
		}
	} else if last.Role != "assistant" { // the result of a tool: its answer comes before the next question
		ok := "OK"
		s.history = append(s.history, schemas.Message{Role: "assistant", Content: &ok})
	}
	return s
}

// shortened gives the beginning of a text.
func shortened(text string) *string {
	if len(text) > sampleText {
		text = strings.ToValidUTF8(text[:sampleText], "")
	}
	return &text
}

// last gives the user's last message with this text.
func (s *sample) last(text string) schemas.Message {
	m := schemas.Message{Role: "user", Content: &text}
	var parts []json.RawMessage
	if s.parts == "" || json.Unmarshal([]byte(s.parts), &parts) != nil {
		return m
	}
	part, err := json.Marshal(map[string]string{"type": "text", "text": text})
	if err != nil {
		return m
	}
	if all, err := json.Marshal(append(parts, part)); err == nil {
		joined := string(all)
		m.Parts = &joined
	}
	return m
}

// send asks the server with a conversation like those of the run.
func (r *run) send(s *server) func(ctx context.Context, salt, text string, p *api.Params) *schemas.Request {
	return func(ctx context.Context, salt, text string, p *api.Params) *schemas.Request {
		row := &schemas.Request{}
		session, err := r.sample.open(s.client, salt, text)
		if err != nil { // this conversation cannot be sent over this API, which its row will say
			r.warnOnce(fmt.Sprintf("a conversation of the dataset cannot be sent over the API %s: %v", s.API, err))
			session, err = new(sample).open(s.client, salt, text)
		}
		if err != nil {
			api.AsFailure(err).Fill(row)
			return row
		}
		q := *p
		q.Body = r.sample.body
		headers, fields := r.cfg.fillTemplates(func() []string { return places("probe", "0", "probe", r.meta.RunID, "0") }, nil, nil)
		q.Fields = fields
		session.Do(ctx, wire.TurnRequest{Params: &q, Headers: headers}, row)
		return row
	}
}

// open begins a session that is ready to ask.
func (s *sample) open(client *wire.Client, salt, text string) (*wire.Session, error) {
	o := s.options
	o.Salt = salt
	session, err := client.NewSession(o)
	if err != nil {
		return nil, err
	}
	for _, m := range append(s.history[:len(s.history):len(s.history)], s.last(text)) {
		if err := session.Append(m); err != nil {
			return nil, err
		}
	}
	return session, nil
}
