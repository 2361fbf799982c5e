package generate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"parley/generate/prose"
	"parley/schemas"
	"parley/schemas/random"
)

// builder turns plans into conversations. It is safe for concurrent use.
type builder struct {
	spec   *Spec
	seed   uint64
	prose  *prose.Prose
	corpus *prose.Corpus // nil for the built-in prose
	tools  bool          // conversations have some

	languages  []share // empty: English
	sizes      []imageSize
	sizeShares []share // of user messages, for each size

	common string   // the common prefix, with a space in front
	shared []string // the system message of each group

	stretches sync.Map // texts of the prefix tree's nodes by number
}

// maxSharedTokens bounds the shared prefixes of all groups together.
const maxSharedTokens = 32 << 20

// newBuilder makes what all conversations share.
func newBuilder(s *Spec, seed uint64, p *planner, text *prose.Prose) (*builder, error) {
	b := &builder{spec: s, seed: seed, prose: text, corpus: p.corpus}
	total := p.common
	for _, n := range p.groups {
		total += n
	}
	if total > maxSharedTokens {
		return nil, fmt.Errorf("shared prefixes have %d tokens in all (%d groups), which is too much to hold in memory (at most %d): make fewer groups or shorter prefixes", total, len(p.groups), maxSharedTokens)
	}
	var err error
	if b.languages, err = s.languages(); err != nil {
		return nil, err
	}
	if b.sizes, b.sizeShares, err = s.images(); err != nil {
		return nil, err
	}
	common := &passage{b: b, voice: text.English(), r: random.Stream(seed, "common prefix text")}
	if b.common, err = common.next(p.common, false); err != nil {
		return nil, fmt.Errorf("common prefix: %w", err)
	}
	for g, n := range p.groups {
		// The numbers of groups lie beyond those of conversations, so that no group begins like one.
		group := &passage{b: b, voice: text.English(), r: random.Stream(seed, "shared prefix text", uint64(g)), index: maxConversations + uint64(g)}
		if p.corpus != nil {
			group.tape = p.groupTape[g]
		}
		part, err := group.next(n, true)
		if err != nil {
			return nil, fmt.Errorf("shared prefix of group %d: %w", g, err)
		}
		b.shared = append(b.shared, prose.Message(part))
	}
	b.tools = s.ToolUse != nil || s.SubAgents != nil
	return b, nil
}

// passage gives texts of a conversation one after the other.
type passage struct {
	b     *builder
	voice prose.Voice
	r     *rand.Rand
	index uint64
	tape  int64
}

// next gives a text of n tokens with a space in front. One that is to be unique begins with words that no
// other conversation has there.
func (p *passage) next(n int, unique bool) (string, error) { return p.in(p.voice, n, unique) }

// code is next with code where the specification wants it.
func (p *passage) code(kind prose.Content, n int, unique bool) (string, error) {
	if u := p.b.spec.ToolUse; u != nil && u.Code {
		return p.in(p.b.prose.Code(kind), n, unique)
	}
	return p.next(n, unique)
}

func (p *passage) in(voice prose.Voice, n int, unique bool) (string, error) {
	if n == 0 {
		return "", nil
	}
	b, at := p.b, p.tape
	if b.corpus == nil {
		if unique {
			return voice.Unique(p.r, b.seed, p.index, n)
		}
		return voice.Part(p.r, n)
	}
	p.tape += b.corpus.Segments(n)
	if unique {
		return b.corpus.Unique(p.r, b.seed, p.index, at, n)
	}
	return b.corpus.Part(p.r, at, n)
}

// conversation makes the row of a plan.
func (b *builder) conversation(pl *plan) (*schemas.Conversation, error) {
	c := &schemas.Conversation{
		ConversationID: fmt.Sprintf("conv-%06d", pl.index),
		Messages:       make([]schemas.Message, 0, 2*len(pl.turns)+1),
		Turns:          make([]schemas.Turn, 0, len(pl.turns)),
		StartOffsetMS:  pl.start,
		Tags:           b.tags(),
	}
	if name := pl.sharedName(); name != "" {
		c.PrefixGroup = &name
	}
	if b.tools {
		tools := toolDefinitions()
		c.Tools = &tools
	}
	switch {
	case len(pl.path) > 0:
		text, err := b.system(pl)
		if err != nil {
			return nil, fmt.Errorf("conversation %d, shared prefix: %w", pl.index, err)
		}
		c.Messages = append(c.Messages, message("system", text))
	case pl.shared > 0:
		c.Messages = append(c.Messages, message("system", b.shared[pl.group]))
	}
	voice, language, err := b.speaker(pl.number())
	if err != nil {
		return nil, err
	}
	if language != "" {
		c.Tags["language"] = language
	}
	text := &passage{b: b, voice: voice, r: random.Stream(b.seed, "text", pl.number()), index: pl.number(), tape: pl.tape}
	prompt := 0
	call := toolCall{}
	for t := range pl.turns {
		if err := b.question(c, pl, t, text, call); err != nil {
			return nil, fmt.Errorf("conversation %d, turn %d: %w", pl.index, t, err)
		}
		b.turn(c, pl, t, &prompt)
		last, err := b.answer(c, pl, t, text)
		if err != nil {
			return nil, fmt.Errorf("conversation %d, answer %d: %w", pl.index, t, err)
		}
		call = last
	}
	pl.descend(c)
	return c, nil
}

// system makes the system message of a path through the prefix tree.
func (b *builder) system(pl *plan) (string, error) {
	var parts []string
	for _, st := range pl.path {
		text, ok := b.stretches.Load(st.number)
		if !ok {
			from := &passage{b: b, voice: b.prose.English(), r: random.Stream(b.seed, "prefix tree text", st.number), index: maxConversations + maxGroups + st.number}
			var err error
			if text, err = from.next(st.tokens, true); err != nil {
				return "", err
			}
			// Nodes come again and again; a family is made anew by each of its few.
			if st.number < familyNumbers {
				b.stretches.Store(st.number, text)
			}
		}
		parts = append(parts, text.(string))
	}
	return prose.Message(parts...), nil
}

// question adds the message that a turn brings.
func (b *builder) question(c *schemas.Conversation, pl *plan, t int, text *passage, call toolCall) error {
	var parts []string
	if t == 0 {
		parts = append(parts, b.common)
	}
	own, err := text.code(prose.Source, ownTokens(pl, t), true)
	if err != nil {
		return err
	}
	// Where there is hardly a prefix of its own, the message itself makes the prompt unique.
	n, say := pl.turns[t].tokens, text.next
	if pl.turns[t].tool {
		kind := toolResults[random.Stream(b.seed, "tool result", pl.number(), uint64(t)).IntN(len(toolResults))]
		say = func(n int, unique bool) (string, error) { return text.code(kind, n, unique) }
	}
	body, err := say(n, t == 0 && pl.own < uniqueTokens)
	if err != nil {
		return err
	}
	if t == 0 {
		n = pl.firstTokens()
	}
	content, err := b.prose.Joined(n, append(parts, own, body)...)
	if err != nil {
		return err
	}
	if pl.turns[t].tool {
		m := message("tool", content)
		m.ToolCallID, m.Name = &call.id, &call.name
		c.Messages = append(c.Messages, m)
		return nil
	}
	m := message("user", content)
	if err := b.illustrate(&m, pl.number(), t); err != nil {
		return err
	}
	c.Messages = append(c.Messages, m)
	return nil
}

// toolResults are what tools of a coding agent answer with: mostly files.
var toolResults = []prose.Content{prose.Source, prose.Source, prose.Source, prose.Output, prose.Records}

// uniqueTokens is the length from which on a prefix can be told from all others.
const uniqueTokens = 16

func ownTokens(pl *plan, t int) int {
	if t == 0 {
		return pl.own
	}
	return 0
}

// turn adds the figures of a request and counts its answer to the prompt of the next.
func (b *builder) turn(c *schemas.Conversation, pl *plan, t int, prompt *int) {
	fresh, cached := pl.turns[t].tokens, *prompt
	if t == 0 {
		// A system message is new in the first turn like the rest of its prompt.
		fresh, cached = pl.shared+pl.firstTokens(), pl.cached
	}
	*prompt += fresh
	row := schemas.Turn{
		MessageIndex:         int64(len(c.Messages)),
		NewTokens:            int64p(fresh),
		PromptTokens:         int64p(*prompt),
		OutputTokens:         int64p(pl.turns[t].output),
		ExpectedCachedTokens: int64p(cached),
	}
	if wait := pl.turns[t].think; t > 0 && pl.turns[t].tool {
		row.ToolTimeMS = &wait
	} else if t > 0 && b.spec.ThinkTime != nil {
		row.ThinkTimeMS = &wait
	}
	*prompt += pl.turns[t].output
	c.Turns = append(c.Turns, row)
}

// answer adds the assistant's message: a tool call where the next turn brings its result.
func (b *builder) answer(c *schemas.Conversation, pl *plan, t int, text *passage) (toolCall, error) {
	n := pl.turns[t].output
	if t+1 < len(pl.turns) && pl.turns[t+1].tool {
		r := random.Stream(b.seed, "tool call", pl.number(), uint64(t))
		call, m, err := newToolCall(b.prose, r, n, b.spec.ToolUse != nil && b.spec.ToolUse.Code)
		if err != nil {
			return toolCall{}, err
		}
		c.Messages = append(c.Messages, m)
		return call, nil
	}
	part, err := text.next(n, false)
	if err != nil {
		return toolCall{}, err
	}
	c.Messages = append(c.Messages, message("assistant", prose.Message(part)))
	return toolCall{}, nil
}

func (b *builder) tags() map[string]string {
	tags := maps.Clone(b.spec.Tags)
	if tags == nil {
		tags = make(map[string]string, 1)
	}
	if _, ok := tags["source"]; !ok {
		tags["source"] = "synthetic"
		if b.spec.Preset != "" {
			tags["source"] = b.spec.Preset
		}
	}
	return tags
}

func message(role, content string) schemas.Message {
	return schemas.Message{Role: role, Content: &content}
}

func int64p(n int) *int64 {
	v := int64(n)
	return &v
}
