package generate

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"parley/generate/config"
	"parley/generate/dist"
	"parley/generate/importer"
	"parley/schemas"
	"parley/schemas/random"
)

// Correlation says how lengths go together (see package fit, which learns it). Each length is drawn by a normal
// score: a standard normal variable that stands for its rank. It is for lengths that are told by quantiles.
type Correlation struct {
	InputOutput float64 `json:"input_output"`        // of the scores of a request's input and output, -1 to 1
	Input       float64 `json:"input_conversation"`  // of the inputs of two requests of a conversation, 0 to 1
	Output      float64 `json:"output_conversation"` // the same of outputs
}

func (c *Correlation) check(at string, s *Spec, p *config.Problems) {
	if !(c.InputOutput >= -1 && c.InputOutput <= 1) {
		p.Add(at+"input_output", "%v must be from -1 to 1", c.InputOutput)
	}
	p.Share(at+"input_conversation", c.Input)
	p.Share(at+"output_conversation", c.Output)
	if s.Joint != nil {
		p.Add(at+"input_output", "joint_num_tokens says already how lengths go together: leave one of the two out")
	}
}

// lengthScores draws the scores of a conversation's lengths.
type lengthScores struct {
	Correlation
	r            *rand.Rand
	input, other float64 // the conversation's own
}

func newLengthScores(c *Correlation, seed, index uint64) *lengthScores {
	if c == nil {
		return nil
	}
	r := random.Stream(seed, "length scores", index)
	return &lengthScores{Correlation: *c, r: r, input: random.Normal(r), other: random.Normal(r)}
}

// next gives the scores of the next request's input and output. The input of a family's first message goes with the
// family's score.
func (l *lengthScores) next(of *family, alike float64) (input, output float64) {
	input = float64(math.Sqrt(l.Input)*l.input) + float64(math.Sqrt(1-l.Input)*random.Normal(l.r))
	if of != nil {
		input = float64(alike*of.score) + float64(math.Sqrt(1-float64(alike*alike))*input)
	}
	// What of the output's likeness within a conversation does not come with the input comes on its own.
	rest := math.Sqrt(max(0, 1-float64(l.InputOutput*l.InputOutput)))
	own := 0.0
	if rest > 0 {
		own = min(1, max(0, (l.Output-float64(l.InputOutput*l.InputOutput*l.Input))/float64(rest*rest)))
	}
	mine := float64(math.Sqrt(own)*l.other) + float64(math.Sqrt(1-own)*random.Normal(l.r))
	return input, float64(l.InputOutput*input) + float64(rest*mine)
}

// lengthAt draws a length by its score, where it is told by quantiles, else by itself.
func lengthAt(d *dist.Dist, score float64, r *rand.Rand) int {
	if v, ok := d.AtScore(score); ok {
		return int(math.Round(v))
	}
	return d.Int(r)
}

// Modulation lets the rate of arrivals rise and fall: each stretch of so many seconds has a factor of its own,
// gamma distributed with mean 1 and this variance. Several multiply.
type Modulation struct {
	Seconds  float64 `json:"seconds"`
	Variance float64 `json:"variance"`
}

func (a *Arrivals) check(p *config.Problems) {
	if a.Rate <= 0 || a.Rate > 1e6 {
		p.Add("arrivals.rate", "%v must be greater than 0: it is the number of conversations that start per second", a.Rate)
	}
	if a.Burstiness < 0 || a.Burstiness > 1e6 {
		p.Add("arrivals.burstiness", "%v must not be negative: it is the shape of the gamma distribution of the gaps", a.Burstiness)
	}
	if !(a.Tick >= 0 && a.Tick <= 1e6) {
		p.Add("arrivals.tick_s", "%v must be 0 or more seconds", a.Tick)
	}
	for i, m := range a.Modulation {
		if !(m.Seconds >= 0.001 && m.Seconds <= 1e6) || !(m.Variance >= 0 && m.Variance <= 1e4) {
			p.Add(fmt.Sprintf("arrivals.modulation[%d]", i), "a variance of %v over %v s: seconds must be from 0.001 and the variance not negative", m.Variance, m.Seconds)
		}
	}
}

// Starts gives one start after the other, in ms.
func (a *Arrivals) Starts(seed uint64) func() float64 {
	shape := a.Burstiness
	if shape == 0 {
		shape = 1
	}
	r := random.Stream(seed, "arrivals")
	if len(a.Modulation) == 0 && a.Tick == 0 {
		at := 0.0
		return func() float64 {
			at += float64(random.Gamma(r, shape) / (shape * a.Rate) * 1000)
			return at
		}
	}
	// Time runs as fast as the rate is high: the next start is where the integral of the rate reaches it. The rate
	// is the same over each step, the shortest stretch of the modulation.
	step := 1.0
	for i, m := range a.Modulation {
		if i == 0 || m.Seconds < step {
			step = m.Seconds
		}
	}
	factor := func(k float64) float64 {
		rate := a.Rate
		for i, m := range a.Modulation {
			if m.Variance > 0 {
				stretch := math.Floor((k + 0.5) * step / m.Seconds)
				g := random.Gamma(random.Stream(seed, "arrival rate", uint64(i), uint64(stretch)), 1/m.Variance)
				rate = float64(rate * float64(g*m.Variance))
			}
		}
		return rate
	}
	at, k, rate := 0.0, -1.0, 0.0 // s
	return func() float64 {
		left := random.Gamma(r, shape) / shape
		for {
			if next := math.Floor(at / step); next > k {
				k = next
				rate = factor(k)
			}
			end := (k + 1) * step
			if area := float64(rate * (end - at)); area < left {
				left, at = left-area, end
				continue
			}
			at = min(end, at+left/rate)
			break
		}
		if a.Tick > 0 {
			return float64(math.Floor(at/a.Tick) * a.Tick * 1000)
		}
		return float64(at * 1000)
	}
}

// PrefixTree is what conversations begin with in common, as a tree: a stretch of text that a share of them begins
// with, and behind it stretches that shares of these go on with. It stands in the place of shared_prefix. The tokens
// of first messages (first_num_tokens, or num_tokens) are counted with it; a path longer than that is drawn anew.
type PrefixTree struct {
	Of       []PrefixNode    `json:"of,omitempty"`
	Families *PrefixFamilies `json:"families,omitempty"`
}

// PrefixNode is one stretch.
type PrefixNode struct {
	Share  float64      `json:"share"` // of the conversations that come this far, 0 to 1
	Tokens int          `json:"tokens"`
	Of     []PrefixNode `json:"of,omitempty"`
}

// PrefixFamilies are the many beginnings that few conversations share: a family has a text of its own.
type PrefixFamilies struct {
	Share     float64    `json:"share"` // of the conversations that belong to one
	Size      float64    `json:"size"`  // conversations of a family, mean
	NumTokens *dist.Dist `json:"num_tokens"`
	Alike     float64    `json:"alike,omitempty"` // correlation of the scores of a family's tokens and of its first messages', 0 to 1: long beginnings come with long messages
}

// maxTreeNodes bounds the nodes of a tree.
const maxTreeNodes = 10_000

func (t *PrefixTree) check(at string, s *Spec, p *config.Problems) {
	if s.SharedPrefix != nil {
		p.Add("shared_prefix", "prefix_tree stands in its place: leave one of the two out")
	}
	nodes := 0
	var walk func(at string, list []PrefixNode)
	walk = func(at string, list []PrefixNode) {
		var sum float64
		for i, n := range list {
			here := fmt.Sprintf("%sof[%d]", at, i)
			p.Share(here+".share", n.Share)
			if n.Tokens < 1 || n.Tokens > maxMessageTokens {
				p.Add(here+".tokens", "%d must be from 1 to %d", n.Tokens, maxMessageTokens)
			}
			if nodes++; nodes == maxTreeNodes+1 {
				p.Add(here, "more than %d stretches", maxTreeNodes)
			}
			sum += n.Share
			walk(here+".", n.Of)
		}
		if sum > 1.001 {
			p.Add(at+"of", "the shares sum up to %.3g, more than 1", sum)
		}
	}
	walk(at, t.Of)
	if f := t.Families; f != nil {
		p.Share(at+"families.share", f.Share)
		p.Share(at+"families.alike", f.Alike)
		if !(f.Size > 0 && f.Size <= 1e9) {
			p.Add(at+"families.size", "%v must be greater than 0", f.Size)
		}
		dist.CheckRequired(at+"families.num_tokens", f.NumTokens, s.file, p)
	}
}

// stretch is a piece of text that a conversation's system message is made of: the same number, the same text.
type stretch struct {
	number uint64
	tokens int
}

// familyNumbers are those of families; nodes have lower ones.
const familyNumbers = 1 << 32

// flatten gives the nodes their numbers, in the order of the tree.
func (t *PrefixTree) flatten() (nodes []stretch, first map[*PrefixNode]uint64) {
	first = map[*PrefixNode]uint64{}
	var walk func(list []PrefixNode)
	walk = func(list []PrefixNode) {
		for i := range list {
			n := &list[i]
			first[n] = uint64(len(nodes))
			nodes = append(nodes, stretch{uint64(len(nodes)), n.Tokens})
			walk(n.Of)
		}
	}
	walk(t.Of)
	return nodes, first
}

// family is one of the many beginnings that few conversations share.
type family struct {
	stretch
	score float64 // of its length
}

// family draws the family of a conversation, nil for one that belongs to none. total is how many conversations
// there are.
func (t *PrefixTree) family(seed, index uint64, total int) *family {
	f := t.Families
	r := random.Stream(seed, "prefix family", index)
	if f == nil || r.Float64() >= f.Share {
		return nil
	}
	families := max(1, math.Round(float64(total)*f.Share/f.Size))
	k := uint64(r.Int64N(int64(families)))
	own := random.Stream(seed, "prefix family's length", k) // the same for all that belong to it
	out := &family{stretch: stretch{number: familyNumbers + k}, score: random.Normal(own)}
	out.tokens = bounded(lengthAt(f.NumTokens, out.score, own), 1)
	return out
}

// tries is how often a path is drawn for a first message that is too short for the ones before.
const tries = 8

// path draws what a conversation begins with, of less than most tokens.
func (t *PrefixTree) path(r *rand.Rand, numbers map[*PrefixNode]uint64, of *family, most int) (out []stretch) {
	for range tries {
		sum := 0
		if out = t.drawPath(r, numbers); of != nil {
			out = append(out, of.stretch)
		}
		for _, st := range out {
			sum += st.tokens
		}
		if sum < most {
			return out
		}
	}
	sum := 0
	for i, st := range out { // as far as there is room
		if sum += st.tokens; sum >= most {
			return out[:i]
		}
	}
	return out
}

func (t *PrefixTree) drawPath(r *rand.Rand, numbers map[*PrefixNode]uint64) (out []stretch) {
	for list := t.Of; len(list) > 0; {
		u, next := r.Float64(), []PrefixNode(nil)
		for i := range list {
			if u -= list[i].Share; u < 0 {
				out = append(out, stretch{numbers[&list[i]], list[i].Tokens})
				next = list[i].Of
				break
			}
		}
		list = next
	}
	return out
}

// Outlines gives the conversations of a specification without their texts: lengths, times, and what a cache would
// hold. They are those that Run makes, in the same order.
func Outlines(s *Spec, seed uint64, n int) iter.Seq2[*schemas.Conversation, error] {
	return func(yield func(*schemas.Conversation, error) bool) {
		b := &builder{spec: s, seed: seed}
		for pl, err := range newPlanner(s, seed, importer.Filter{}).plans(n) {
			if err != nil {
				yield(nil, err)
				return
			}
			c := &schemas.Conversation{ConversationID: fmt.Sprintf("conv-%06d", pl.index), StartOffsetMS: pl.start, Tags: map[string]string{}}
			prompt := 0
			for t := range pl.turns {
				b.turn(c, pl, t, &prompt)
			}
			pl.descend(c)
			if !yield(c, nil) {
				return
			}
		}
	}
}
