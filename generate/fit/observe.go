package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"parley/schemas"
)

// turn is what is learned of a request.
type turn struct {
	fresh, output int     // tokens
	think, tool   float64 // s; NaN where the source does not tell
	prompt        int
	cached        int // of the prompt, by an infinite cache
}

// conversation is what is learned of one.
type conversation struct {
	id     string
	start  float64 // s; NaN if unknown
	kid    bool    // started by another one
	agent  *started
	turns  []turn
	size   int // tokens of a block
	blocks []uint64
}

// started is what starts a sub-agent.
type started struct {
	call  call
	delay float64 // s
}

// call is an answer that starts sub-agents.
type call struct {
	session string
	turn    int64
}

// Observation gathers what a source is like. The zero value is not ready: see NewObservation.
type Observation struct {
	list   []conversation
	joined map[string]bool // sub-agents that a turn waits for
	notes  map[string]int64
}

// NewObservation begins an observation.
func NewObservation() *Observation {
	return &Observation{joined: map[string]bool{}, notes: map[string]int64{}}
}

// maxBlocks bounds the blocks of a first prompt that are looked at.
const maxBlocks = 4096

// Add takes a conversation, with the blocks of its first prompt if they are known.
func (o *Observation) Add(c *schemas.Conversation, size int, blocks []uint64) {
	out := conversation{id: c.ConversationID, start: math.NaN(), kid: c.ParentID != nil, size: size, blocks: blocks}
	if _, agent := c.Tags["subagent"]; agent && out.kid && c.ParentTurn != nil && c.ParentDelayMS != nil {
		out.agent = &started{call{*c.ParentID, *c.ParentTurn}, *c.ParentDelayMS / 1000}
	}
	if c.StartOffsetMS != nil {
		out.start = *c.StartOffsetMS / 1000
	}
	for _, t := range c.Turns {
		q := turn{think: math.NaN(), tool: math.NaN()}
		switch {
		case t.NewTokens != nil:
			q.fresh = int(*t.NewTokens)
		default:
			o.notes["turns without counts of tokens, which were left out"]++
			continue
		}
		if t.OutputTokens != nil {
			q.output = int(*t.OutputTokens)
		}
		if t.PromptTokens != nil {
			q.prompt = int(*t.PromptTokens)
		}
		if t.ExpectedCachedTokens != nil {
			q.cached = int(*t.ExpectedCachedTokens)
		}
		if t.ThinkTimeMS != nil {
			q.think = *t.ThinkTimeMS / 1000
		}
		if t.ToolTimeMS != nil {
			q.tool = *t.ToolTimeMS / 1000
		}
		for _, id := range t.Joins {
			o.joined[id] = true
		}
		out.turns = append(out.turns, q)
	}
	if len(out.turns) == 0 {
		return
	}
	if out.kid && out.agent == nil {
		o.notes["conversations that go on from a part of another one, learned as conversations of their own"]++
	}
	out.blocks = out.blocks[:min(len(out.blocks), maxBlocks)]
	o.list = append(o.list, out)
}

// least is how many conversations are needed to learn anything of them.
const least = 20

func (o *Observation) enough() error {
	switch n := len(o.list); {
	case n == 0:
		return errors.New("the source has no conversation whose lengths are known: import it with a tokenizer first (parley generate --from)")
	case n < least:
		return fmt.Errorf("the source has %d conversations, too few to learn from (at least %d): give more files, or describe the workload with --turns, --input-tokens and --output-tokens", n, least)
	}
	return nil
}

// Figures are what a workload is compared by.
type Figures struct {
	Conversations int
	Turns         []float64 // requests of each conversation
	First, Later  []float64 // new tokens of first and later requests
	Output        []float64
	Prompt        []float64
	Think, Tool   []float64 // s
	Reuse         float64   // share of prompt tokens that an infinite prefix cache holds
	Dispersion    map[int]float64
}

// Figures gives those of what was observed.
func (o *Observation) Figures() Figures {
	f := Figures{Conversations: len(o.list), Dispersion: map[int]float64{}}
	var prompt, cached float64
	var starts []float64
	for i := range o.list {
		c := &o.list[i]
		f.Turns = append(f.Turns, float64(len(c.turns)))
		if !math.IsNaN(c.start) {
			starts = append(starts, c.start)
		}
		for k, t := range c.turns {
			if k == 0 {
				f.First = append(f.First, float64(t.fresh))
			} else {
				f.Later = append(f.Later, float64(t.fresh))
			}
			f.Output, f.Prompt = append(f.Output, float64(t.output)), append(f.Prompt, float64(t.prompt))
			if !math.IsNaN(t.think) && k > 0 {
				f.Think = append(f.Think, t.think)
			}
			if !math.IsNaN(t.tool) && k > 0 {
				f.Tool = append(f.Tool, t.tool)
			}
			prompt, cached = prompt+float64(t.prompt), cached+float64(t.cached)
		}
	}
	if prompt > 0 {
		f.Reuse = cached / prompt
	}
	for _, s := range []int{1, 10, 60} {
		f.Dispersion[s] = dispersion(starts, float64(s))
	}
	return f
}

// dispersion is the index of dispersion of arrivals: the variance of their counts in windows of so many
// seconds over the mean; 1 for a Poisson process. NaN for fewer than three windows.
func dispersion(starts []float64, window float64) float64 {
	counts := countsIn(starts, window)
	if len(counts) < 3 {
		return math.NaN()
	}
	mean, variance := moments(counts)
	return variance / mean
}

// countsIn counts arrivals in windows, from the first arrival to the last whole window.
func countsIn(starts []float64, window float64) []float64 {
	if len(starts) < 2 {
		return nil
	}
	first, last := slices.Min(starts), slices.Max(starts)
	counts := make([]float64, int((last-first)/window))
	for _, s := range starts {
		if k := int((s - first) / window); k < len(counts) {
			counts[k]++
		}
	}
	return counts
}

func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range v {
		variance += (x - mean) * (x - mean)
	}
	return mean, variance / float64(len(v)-1)
}
