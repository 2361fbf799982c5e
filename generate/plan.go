package generate

import (
	"fmt"
	"iter"

	"parley/generate/importer"
	"parley/generate/prose"
	"parley/schemas/random"
)

// plan is everything about a synthetic conversation but its words.
type plan struct {
	index  int64 // number of the draw: what its random streams depend on
	kept   int64 // number among those that pass the filters
	row    int64 // its place in the dataset, in which sub-agents are conversations as well
	group  int   // of the shared prefix; -1 without one
	shared int   // tokens of the system message
	common int   // tokens of the common prefix
	own    int   // tokens of the conversation's own prefix
	turns  []turnPlan
	start  *float64 // ms
	cached int      // tokens of the first prompt that an earlier conversation has sent
	tape   int64    // first segment of the corpus
	kids   []*plan  // sub-agents, in the order in which they start
	from   *parentage
	path   []stretch // of the prefix tree: what the system message is made of
}

// turnPlan is one request: what is new in it, and its answer.
type turnPlan struct {
	tokens int     // of the user's message or the tool's result
	output int     // of the answer
	think  float64 // ms before it
	tool   bool    // brings a tool's result: the answer before it calls the tool
	joins  []int   // sub-agents of the session that it waits for
}

// firstTokens are the tokens of the first user message.
func (p *plan) firstTokens() int { return p.common + p.own + p.turns[0].tokens }

// planner draws plans in order. It is cheap: some draws per turn, no text.
type planner struct {
	spec      *Spec
	seed      uint64
	filter    importer.Filter
	corpus    *prose.Corpus // nil for the built-in prose
	common    int
	groups    []int          // tokens of each group's prefix
	own       int            // how many of them are of conversations; the others are of their sub-agents
	groupTape []int64        // where it is in the corpus
	seen      map[int]bool   // groups of the conversations so far; -1 for those without a system message
	starts    func() float64 // ms
	tape      int64
	skipped   map[string]int64 // conversations, by reason
	rows      int64            // conversations placed so far
	total     int              // conversations there are to be
	nodes     map[*PrefixNode]uint64
}

func newPlanner(s *Spec, seed uint64, filter importer.Filter) *planner {
	p := &planner{spec: s, seed: seed, filter: filter, seen: map[int]bool{}, skipped: map[string]int64{}}
	if s.PromptInput.CommonPrefix.Given() {
		p.common = bounded(s.PromptInput.CommonPrefix.Int(random.Stream(seed, "common prefix tokens")), 0)
	}
	if sp := s.SharedPrefix; sp != nil {
		for g := range max(1, sp.Groups) {
			p.groups = append(p.groups, bounded(sp.NumTokens.Int(random.Stream(seed, "shared prefix tokens", uint64(g))), 0))
		}
	}
	p.own = len(p.groups)
	if a := s.SubAgents; a != nil {
		p.groups = append(p.groups, bounded(a.SharedPrefix.Int(random.Stream(seed, "sub-agents' shared prefix tokens")), 0))
	}
	if s.Arrivals != nil {
		p.starts = s.Arrivals.Starts(seed)
	}
	if s.PrefixTree != nil {
		_, p.nodes = s.PrefixTree.flatten()
	}
	return p
}

// takeFrom lets the texts come from a corpus: first what conversations share, then theirs.
func (p *planner) takeFrom(c *prose.Corpus) {
	p.corpus = c
	p.tape = c.Segments(p.common)
	for _, n := range p.groups {
		p.groupTape = append(p.groupTape, p.tape)
		p.tape += c.Segments(n)
	}
}

func bounded(n, least int) int { return min(max(n, least), maxMessageTokens) }

// maxDraws bounds how many conversations are drawn for each that passes the filters.
const maxDraws = 10_000

// plans draws until n conversations have passed the filters; the sub-agents of one come right behind it. An error ends the sequence.
func (p *planner) plans(n int) iter.Seq2[*plan, error] {
	return func(yield func(*plan, error) bool) {
		kept, sinceKept := int64(0), 0
		p.total = n
		for index := int64(0); kept < int64(n); index++ {
			pl := p.draw(index)
			if why := p.filter.Refuses(len(pl.turns), pl.longestPrompt()); why != "" {
				p.skipped[why]++
				if sinceKept++; sinceKept > maxDraws {
					yield(nil, fmt.Errorf("of the last %d conversations drawn none passed the filters (%s): loosen --min-turns, --max-turns or --max-prompt-tokens, or change the config", sinceKept, why))
					return
				}
				continue
			}
			sinceKept = 0
			for _, each := range append([]*plan{pl}, pl.kids...) {
				p.place(each, kept)
				if !yield(each, nil) {
					return
				}
			}
			kept++
		}
	}
}

// draw makes a plan of what depends on the number alone.
func (p *planner) draw(index int64) *plan {
	s, i := p.spec, uint64(index)
	pl := &plan{index: index, group: -1, common: p.common}
	if p.own > 0 {
		pl.group = random.Stream(p.seed, "group", i).IntN(p.own)
		pl.shared = p.groups[pl.group]
	}
	var of *family
	alike := 0.0
	if s.PrefixTree != nil {
		if of = s.PrefixTree.family(p.seed, i, p.total); of != nil {
			alike = s.PrefixTree.Families.Alike
		}
	}
	scores := newLengthScores(s.Correlation, p.seed, i)
	if s.PromptInput.Prefix.Given() {
		pl.own = bounded(s.PromptInput.Prefix.Int(random.Stream(p.seed, "prefix tokens", i)), 0)
	}
	requests := p.requests(i)
	input, output := random.Stream(p.seed, "input tokens", i), random.Stream(p.seed, "output tokens", i)
	think, tool := random.Stream(p.seed, "think time", i), random.Stream(p.seed, "tool use", i)
	prompt := pl.shared + pl.common + pl.own // of a prefix tree, the first tokens count it
	for t := range requests {
		var tp turnPlan
		if s.ToolUse != nil {
			// Both numbers are drawn for each turn, so that the share does not shift what follows.
			tp.tool = tool.Float64() < s.ToolUse.Share && t > 0
		}
		tokens, gap := s.PromptInput.NumTokens, s.ThinkTime
		var score float64
		switch {
		case s.Joint != nil:
			tp.tokens, tp.output = s.Joint.Draw(input)
		case scores != nil:
			var other float64
			score, other = scores.next(of, alike)
			tp.output = lengthAt(s.PromptOutput.NumTokens, other, output)
		default:
			tp.output = s.PromptOutput.NumTokens.Int(output)
		}
		switch {
		case t == 0 && s.PromptInput.FirstNumTokens.Given():
			tokens = s.PromptInput.FirstNumTokens
		case tp.tool && s.ToolUse.NumTokens.Given():
			tokens = s.ToolUse.NumTokens
		}
		if tp.tool && s.ToolUse.ThinkTime.Given() {
			gap = s.ToolUse.ThinkTime
		}
		switch {
		case tokens.Given() && scores != nil:
			tp.tokens = lengthAt(tokens, score, input)
		case tokens.Given():
			tp.tokens = tokens.Int(input)
		}
		tp.tokens, tp.output = bounded(tp.tokens, 1), bounded(tp.output, 1)
		if t > 0 && gap.Given() {
			tp.think = max(0, float64(gap.Float(think)*1000))
		}
		if t == 0 && s.PrefixTree != nil {
			pl.path = s.PrefixTree.path(random.Stream(p.seed, "prefix tree", i), p.nodes, of, pl.own+tp.tokens)
			for _, st := range pl.path {
				pl.shared += st.tokens
			}
			tp.tokens -= pl.shared // which the first tokens are counted with
			of = nil
		}
		prompt += tp.tokens
		if s.MaxPrompt > 0 && prompt > s.MaxPrompt && t > 0 {
			break
		}
		prompt += tp.output
		pl.turns = append(pl.turns, tp)
	}
	p.delegate(pl)
	p.fitToolCalls(pl)
	return pl
}

// requests draws how many answers a conversation has. With vLLM's num_turns, messages of both roles, it is
// at least one question and answer, and every question has its answer.
func (p *planner) requests(index uint64) int {
	r := random.Stream(p.seed, "turns", index)
	if d := p.spec.PromptInput.NumRequests; d.Given() {
		return min(max(d.Int(r), 1), maxRequests)
	}
	messages := max(p.spec.PromptInput.NumTurns.Int(r), 2)
	return min((messages+1)/2, maxRequests)
}

// fitToolCalls lifts answers that call a tool to the least that a call takes.
func (p *planner) fitToolCalls(pl *plan) {
	for t := 1; t < len(pl.turns); t++ {
		if pl.turns[t].tool {
			pl.turns[t-1].output = max(pl.turns[t-1].output, minToolCall)
		}
	}
}

// place gives a plan what depends on those before it.
func (p *planner) place(pl *plan, kept int64) {
	pl.kept, pl.row = kept, p.rows
	p.rows++
	// Prompts begin with the system message of the group, or where there is none with the common prefix.
	lead := -1
	if pl.shared > 0 {
		lead = pl.group
	}
	switch {
	case len(pl.path) > 0:
		for _, st := range pl.path {
			key := -2 - int(st.number)
			if p.seen[key] {
				pl.cached += st.tokens
			}
			p.seen[key] = true
		}
	default:
		if p.seen[lead] {
			pl.cached = pl.shared + pl.common
		}
		p.seen[lead] = true
	}
	if p.starts != nil && pl.from == nil {
		at := p.starts()
		pl.start = &at
	}
	if p.corpus != nil {
		pl.tape = p.tape
		for _, n := range pl.passages() {
			if n > 0 {
				p.tape += p.corpus.Segments(n)
			}
		}
	}
}

// passages lists the lengths of the texts that the conversation takes from the corpus, in order.
func (p *plan) passages() []int {
	out := []int{p.own}
	for _, t := range p.turns {
		out = append(out, t.tokens, t.output)
	}
	return out
}

// longestPrompt gives the tokens of the last request.
func (p *plan) longestPrompt() int {
	n := p.shared + p.common + p.own
	for _, t := range p.turns {
		n += t.tokens + t.output
	}
	return n - p.turns[len(p.turns)-1].output
}

// sharedName is the value of the column prefix_group: "" if the conversation shares nothing.
func (p *plan) sharedName() string {
	switch {
	case len(p.path) > 0:
		return fmt.Sprintf("prefix-%d", p.path[0].number)
	case p.from != nil && p.shared > 0:
		return "sub-agents"
	case p.group >= 0 && p.shared > 0:
		return fmt.Sprintf("group-%d", p.group)
	case p.common > 0:
		return "common"
	}
	return ""
}
