package importer

import (
	"fmt"

	"parley/schemas"
)

// Bounds of what a trace may ask for in one request; a number beyond them is a damaged record.
const (
	maxPromptTokens = 20_000_000
	maxOutputTokens = 10_000_000
)

// request is one request of a trace that records lengths and hashes.
type request struct {
	at      float64 // ms from the start of the trace
	in, out int
	hashes
	model  string
	cached int // tokens that an infinite cache would have, by the hashes
}

func (r *request) check() *problem {
	switch {
	case r.in < 1 || r.in > maxPromptTokens:
		return badRecord("a prompt of %d tokens", r.in)
	case r.out < 0 || r.out > maxOutputTokens:
		return badRecord("an answer of %d tokens", r.out)
	case len(r.ids) > r.in/r.size+1:
		return badRecord("%d hashes for %d tokens in blocks of %d", len(r.ids), r.in, r.size)
	}
	return nil
}

// continues says whether r can be the next turn after p: all of p's complete blocks (but perhaps the last,
// which some recorders see change when text is added to it) come first in r, and there is room for an
// answer and a question.
func (r *request) continues(p *request) bool {
	need := p.complete(p.in)
	if need > 8 {
		need--
	}
	return r.in >= p.in+2 && r.common(&p.hashes) >= need
}

// span is one message of a planned conversation: a part of a prompt.
type span struct {
	role     string
	from, to int
	hashes   *hashes
}

// plan is a conversation before its text is made.
type plan struct {
	id     string
	spans  []span
	turns  []schemas.Turn
	last   *request
	start  *float64
	parent *parent
	tags   map[string]string
}

type parent struct {
	id      string
	turn    int64
	end     bool // the delay counts from the end of the parent's turn, else from its start
	delayMS float64
}

// wait is what a turn waits for: conversations, and then a person or a tool.
type wait struct {
	joins       []string
	think, tool *float64 // ms
}

// person is a wait for a person's next question.
func person(ms float64) wait { return wait{think: &ms} }

// begin makes the first turn. system says how many first tokens are a system message.
func (p *plan) begin(r *request, system int, inherited []span) {
	p.spans = inherited
	at := 0
	if n := len(inherited); n > 0 {
		at = inherited[n-1].to
	} else if system > 0 && system < r.in {
		p.spans = append(p.spans, span{"system", 0, system, &r.hashes})
		at = system
	}
	p.spans = append(p.spans, span{"user", at, r.in, &r.hashes})
	p.turn(r, 0, r.cached, wait{})
}

// extend adds a turn after what it waits for. The answer before it takes the place between the two prompts,
// but leaves one token at least for the question; a longer recorded answer (reasoning that did not go into
// the history) is cut there, while the turn still asks for all of it.
func (p *plan) extend(r *request, w wait) {
	answer := min(p.last.out, r.in-p.last.in-1)
	answer = max(answer, 1)
	end := p.last.in + answer
	p.spans = append(p.spans,
		span{"assistant", p.last.in, end, &r.hashes},
		span{"user", end, r.in, &r.hashes})
	p.turn(r, end, end, w)
}

func (p *plan) turn(r *request, before, cached int, w wait) {
	prompt, fresh, known := int64(r.in), int64(r.in-before), int64(min(cached, r.in))
	out := int64(max(r.out, 1))
	p.turns = append(p.turns, schemas.Turn{
		MessageIndex: int64(len(p.spans)), NewTokens: &fresh, PromptTokens: &prompt, OutputTokens: &out,
		ThinkTimeMS: w.think, ToolTimeMS: w.tool, Joins: w.joins, ExpectedCachedTokens: &known,
	})
	p.last = r
}

// inherit gives the messages of a conversation as far as they lie within its first n tokens, so that
// another one can begin with the same. A question that is cut is left to the new turn, which begins where
// it began.
func (p *plan) inherit(n int) []span {
	var out []span
	for _, s := range p.spans {
		if s.to > n {
			if s.role == "assistant" && s.from < n {
				s.to = n
				out = append(out, s)
			}
			break
		}
		out = append(out, s)
	}
	for len(out) > 0 && out[len(out)-1].role == "user" {
		out = out[:len(out)-1]
	}
	return out
}

// conversation makes the text.
func (im *Importer) conversation(p *plan) (schemas.Conversation, *problem) {
	c := schemas.Conversation{ConversationID: p.id, Turns: p.turns, StartOffsetMS: p.start, Tags: p.tags}
	if c.Tags == nil {
		c.Tags = map[string]string{}
	}
	if p.parent != nil {
		c.ParentID, c.ParentTurn, c.ParentDelayMS = &p.parent.id, &p.parent.turn, &p.parent.delayMS
		if p.parent.end {
			end := schemas.FromEnd
			c.ParentFrom = &end
		}
	}
	for _, s := range p.spans {
		text, err := im.blocks.text(s.hashes, s.from, s.to)
		if err != nil {
			return c, fatal(fmt.Errorf("conversation %s: %w", p.id, err))
		}
		c.Messages = append(c.Messages, schemas.Message{Role: s.role, Content: &text})
	}
	return c, nil
}

// scoped gives block identifiers their namespace.
func scoped(space uint64, ids []uint64) []uint64 {
	out := make([]uint64, len(ids))
	for i, id := range ids {
		out[i] = mix(space, id)
	}
	return out
}
