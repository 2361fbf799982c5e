package importer

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"parley/generate/chatshape"
	"parley/generate/prefix"
	"parley/generate/rawjson"
	"parley/schemas"
)

// Bounds of what a trace may ask for in one request; a number beyond them is a damaged record.
const (
	maxPromptTokens = 20_000_000
	maxOutputTokens = 10_000_000
)

// number is a number of a trace. Some files write 1200.0, and those of CSV may have it in quotes.
type number struct {
	v     float64
	given bool
}

// UnmarshalJSON takes a number, or a text that is one.
func (n *number) UnmarshalJSON(raw []byte) error {
	s, ok := rawjson.Scalar(raw)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is no number", clip(s))
	}
	*n = number{v, true}
	return nil
}

func clip(s string) string { return s[:min(len(s), 40)] }

// count gives a number of tokens.
func (n number) count(what string, most int) (int, *problem) {
	if n.v != math.Trunc(n.v) || n.v < 0 || n.v > float64(most) {
		return 0, badRecord("%s of %v tokens", what, n.v)
	}
	return int(n.v), nil
}

// ms gives the moment of a time stamp, whose unit is so many milliseconds.
func (n number) ms(unit float64) (float64, *problem) {
	if math.Abs(n.v) > 1e16 {
		return 0, badRecord("a timestamp of %v", n.v)
	}
	return n.v * unit, nil
}

// arrivals counts a file's moments from its first: many traces have the time since 1970.
type arrivals struct {
	first float64
	begun bool
}

func (a *arrivals) since(at float64, item *Item) float64 {
	if !a.begun {
		a.first, a.begun = at, true
	}
	if at < a.first {
		item.notes = append(item.notes, chatshape.Note{What: "arrivals before that of the first record, moved to the start"})
	}
	return max(at-a.first, 0)
}

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
		return badRecord("%d hashes for %d tokens in blocks of %d (is the block size another one? --block-size)", len(r.ids), r.in, r.size)
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

// prefix gives the blocks of the first prompt.
func (p *plan) prefix() Prefix {
	at := p.turns[0].PromptTokens
	h := p.spans[p.turns[0].MessageIndex-1].hashes
	out := Prefix{Size: h.size}
	for i := range h.complete(int(*at)) {
		out.Blocks = append(out.Blocks, h.ids[i])
	}
	return out
}

// outline is a conversation without its text.
func (im *Importer) outline(p *plan) schemas.Conversation {
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
	return c
}

// conversation makes the text.
func (im *Importer) conversation(p *plan) (schemas.Conversation, *problem) {
	c := im.outline(p)
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
		out[i] = prefix.Mix(space, id)
	}
	return out
}

// texts is the work of making planned conversations.
func (im *Importer) texts(plans ...*plan) func() (made, *problem) {
	return func() (made, *problem) {
		var m made
		for _, p := range plans {
			if im.opts.Outline {
				m.rows = append(m.rows, im.outline(p))
				m.shared = append(m.shared, p.prefix())
				continue
			}
			c, problem := im.conversation(p)
			if problem != nil {
				return made{}, problem
			}
			m.rows = append(m.rows, c)
		}
		return m, nil
	}
}

// blockSizes are the sizes that a trace's blocks may have where nothing says which.
var blockSizes = []int{16, 32, 64, 128, 256, 512, 1024, 2048, 4096}

// blockSize tells the tokens of a block by how many hashes prompts have: one for each block, with or without
// the last that is not full. usual is taken where all prompts fit it, and where none fits better.
func (im *Importer) blockSize(lines []*mooncakeLine, usual int) int {
	if im.opts.BlockSize > 0 {
		return im.opts.BlockSize
	}
	fits := func(size int) (n, of int) {
		for _, l := range lines {
			if in, hashes := int(l.InputLength.v), len(l.HashIDs); hashes > 0 {
				of++
				if hashes == in/size || hashes == (in+size-1)/size {
					n++
				}
			}
		}
		return n, of
	}
	best, most := usual, 0
	if n, of := fits(usual); n == of {
		return usual
	} else if n > 0 {
		most = n
	}
	for _, size := range blockSizes {
		if n, _ := fits(size); n > most {
			best, most = size, n
		}
	}
	if best != usual {
		im.tell(fmt.Sprintf("blocks are of %d tokens, by the lengths of prompts and their hashes (--block-size says otherwise)", best), 1, "")
	}
	return best
}
