// Package fit learns a workload from a dataset or a trace, and tells it as a specification that can be read,
// changed and made into as many conversations as wanted.
//
// What is learned: how many requests conversations have; the lengths of what requests bring and of answers, by their
// quantiles, how far the two go together, and how far those of one conversation are alike; think and tool times and
// the share of tools; sub-agents; arrivals and their burstiness; what prompts begin with in common. Nothing of the texts
// is, and nothing that could be looked up: the numbers by which blocks of tokens are told apart stay in the process.
package fit

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"parley/generate"
	"parley/generate/dist"
	"parley/generate/importer"
	"parley/generate/tokenizer"
)

// Observe reads files, in any form that can be imported, and one of parley's own. Requests of a trace are linked by
// their prefixes: what is learned is of conversations.
func Observe(ctx context.Context, paths []string, opts importer.Options) (*Observation, error) {
	if opts.Tokenizer == nil {
		t, err := tokenizer.Load(tokenizer.Default)
		if err != nil {
			return nil, err
		}
		opts.Tokenizer = t
	}
	opts.Outline, opts.LinkPrefixes = true, true
	im, err := importer.Open(paths, opts)
	if err != nil {
		return nil, err
	}
	defer im.Close()
	o := NewObservation()
	for item, err := range im.Items() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		res, err := im.Finish(item)
		if err != nil {
			return nil, err
		}
		prefixes := res.Prefixes()
		rows, more := im.Commit(res)
		for i := range rows {
			var p importer.Prefix
			if i < len(prefixes) {
				p = prefixes[i]
			}
			o.Add(&rows[i], p.Size, p.Blocks)
		}
		if !more {
			break
		}
	}
	return o, nil
}

// Notes tell what was left out.
func (o *Observation) Notes() []string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(o.notes)) {
		out = append(out, fmt.Sprintf("%s: %d", what, o.notes[what]))
	}
	return out
}

// Spec tells what was observed as a specification of as many conversations as were seen.
func (o *Observation) Spec() (*generate.Spec, error) {
	all := o
	o, agents := all.apart()
	if err := o.enough(); err != nil {
		return nil, err
	}
	tree := o.prefixes()
	s := &generate.Spec{FileType: "generate_conversations", NumConversations: len(o.list), PrefixTree: tree, Tags: map[string]string{"source": "learned"}}
	f := o.Figures()
	turns := dist.Sample(f.Turns)
	s.PromptInput.NumRequests = &turns
	var own, later, tools []float64
	var starts []float64
	toolTurns, laterTurns := 0, 0
	var think, tool []float64
	for i := range o.list {
		c := &o.list[i]
		if !math.IsNaN(c.start) && !c.kid {
			starts = append(starts, c.start)
		}
		for k, t := range c.turns {
			switch {
			case k == 0:
				own = append(own, float64(t.fresh))
				continue
			case !math.IsNaN(t.tool):
				toolTurns++
				tools, tool = append(tools, float64(t.fresh)), append(tool, t.tool)
			default:
				later = append(later, float64(t.fresh))
				if !math.IsNaN(t.think) {
					think = append(think, t.think)
				}
			}
			laterTurns++
		}
	}
	if len(later) == 0 {
		later = tools
	}
	if len(later) == 0 {
		later = own
	}
	first, rest, output := dist.Sample(own), dist.Sample(later), dist.Sample(f.Output)
	s.PromptInput.FirstNumTokens, s.PromptInput.NumTokens, s.PromptOutput.NumTokens = &first, &rest, &output
	if len(think) > 0 {
		d := dist.Sample(think)
		s.ThinkTime = &d
	}
	if toolTurns > 0 {
		wait, brings := dist.Sample(tool), dist.Sample(tools)
		s.ToolUse = &generate.ToolUse{Share: dist.Rounded(float64(toolTurns) / float64(laterTurns)), ThinkTime: &wait, NumTokens: &brings}
	}
	s.SubAgents = agents.subAgents(o)
	s.Correlation = o.correlation()
	if s.Correlation == nil && tree != nil && tree.Families != nil {
		s.Correlation = &generate.Correlation{} // lengths are drawn by scores, so that families' can go with them
	}
	if s.Arrivals = arrivals(starts); s.Arrivals == nil && len(starts) > 0 {
		o.notes["arrivals that tell no rate, and were left out"] += int64(len(starts))
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Arrivals != nil {
		o.notes["arrivals (bursts are learned of all clients together, not of each)"] += int64(len(starts))
	}
	return s, all.calibrate(s, all.Figures().Reuse)
}

// calibrate sets the share of families so that as much of the prompts can be reused as was seen: a long beginning
// goes with a long prompt only, of which the learned shares know nothing.
func (o *Observation) calibrate(s *generate.Spec, reuse float64) error {
	if s.PrefixTree == nil || s.PrefixTree.Families == nil {
		return nil
	}
	f := s.PrefixTree.Families
	made := func(share float64) (float64, error) {
		f.Share = share
		got := NewObservation()
		for c, err := range generate.Outlines(s, 0, s.NumConversations) {
			if err != nil {
				return 0, err
			}
			got.Add(c, 0, nil)
		}
		return got.Figures().Reuse, nil
	}
	low, high := 0.0, 1.0
	for range 12 {
		share := (low + high) / 2
		got, err := made(share)
		if err != nil {
			return err
		}
		if got < reuse {
			low = share
		} else {
			high = share
		}
	}
	f.Share = dist.Rounded((low + high) / 2)
	return nil
}

// correlation learns how lengths go together, by their ranks, which are brought to normal scores.
func (o *Observation) correlation() *generate.Correlation {
	var in, out []float64
	var first []bool
	var conv []int
	for i := range o.list {
		for k, t := range o.list[i].turns {
			in, out, conv, first = append(in, float64(t.fresh)), append(out, float64(t.output)), append(conv, i), append(first, k == 0)
		}
	}
	// First and later requests have scales of their own.
	zin := make([]float64, len(in))
	for _, which := range []bool{true, false} {
		var at []int
		for k := range in {
			if first[k] == which {
				at = append(at, k)
			}
		}
		z := scores(pick(in, at))
		for j, k := range at {
			zin[k] = z[j]
		}
	}
	zout := scores(out)
	c := &generate.Correlation{InputOutput: dist.Rounded(correlate(zin, zout)), Input: dist.Rounded(within(zin, conv)), Output: dist.Rounded(within(zout, conv))}
	if math.Abs(c.InputOutput) < 0.02 && c.Input < 0.02 && c.Output < 0.02 {
		return nil
	}
	return c
}

func pick(v []float64, at []int) []float64 {
	out := make([]float64, len(at))
	for i, k := range at {
		out[i] = v[k]
	}
	return out
}

// scores gives values the normal scores of their ranks; equal ones have the same.
func scores(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case v[a] < v[b]:
			return -1
		case v[a] > v[b]:
			return 1
		}
		return 0
	})
	z := make([]float64, len(v))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		score := math.Sqrt2 * math.Erfinv(2*(float64(i+j)/2)/float64(len(v))-1)
		for ; i < j; i++ {
			z[order[i]] = score
		}
	}
	return z
}

func correlate(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// within gives the correlation of two values of the same conversation: the mean product of neighbours.
func within(z []float64, conv []int) float64 {
	var sum, n, all float64
	for i := range z {
		all += z[i] * z[i]
		if i > 0 && conv[i] == conv[i-1] {
			sum, n = sum+z[i]*z[i-1], n+1
		}
	}
	if n < least || all == 0 {
		return 0
	}
	return max(0, min(0.95, sum/n/(all/float64(len(z)))))
}
