package fit

import (
	"fmt"
	"math"

	"parley/generate"
	"parley/generate/dist"
)

// apart gives sessions and sub-agents as observations of their own.
func (o *Observation) apart() (sessions, agents *Observation) {
	sessions, agents = &Observation{joined: o.joined, notes: o.notes}, &Observation{joined: o.joined, notes: o.notes}
	for _, c := range o.list {
		if c.agent == nil {
			sessions.list = append(sessions.list, c)
		} else {
			agents.list = append(agents.list, c)
		}
	}
	return sessions, agents
}

// leastAgents is how many sub-agents are needed to learn anything of them.
const leastAgents = 5

// subAgents learns what answers of sessions start.
func (o *Observation) subAgents(sessions *Observation) *generate.SubAgents {
	n := len(o.list)
	if n < leastAgents {
		if n > 0 {
			o.notes[fmt.Sprintf("sub-agents, which were left out: fewer than %d", leastAgents)] += int64(n)
		}
		return nil
	}
	calls, joined := map[call]float64{}, map[call]bool{} // sub-agents of each
	shared := o.common()
	var requests float64
	for _, c := range sessions.list {
		requests += float64(len(c.turns) - 1) // the last answer starts none
	}
	var delay, num, first, later, tool, output, last []float64
	for _, c := range o.list {
		calls[c.agent.call]++
		joined[c.agent.call] = joined[c.agent.call] || o.joined[c.id]
		delay, num = append(delay, max(0, c.agent.delay)), append(num, float64(len(c.turns)))
		for k, t := range c.turns {
			if k == 0 {
				first = append(first, float64(max(1, t.fresh-shared)))
			} else {
				later = append(later, float64(t.fresh))
			}
			if k > 0 && !math.IsNaN(t.tool) {
				tool = append(tool, t.tool)
			}
			if k == len(c.turns)-1 {
				last = append(last, float64(t.output))
			} else {
				output = append(output, float64(t.output))
			}
		}
	}
	var atOnce []float64
	waited := 0.0
	for of, k := range calls {
		if atOnce = append(atOnce, k); joined[of] {
			waited++
		}
	}
	if len(later) == 0 { // all have one request
		later, output = first, last
	}
	sample := func(values []float64) *dist.Dist {
		if len(values) == 0 {
			return nil
		}
		d := dist.Sample(values)
		return &d
	}
	return &generate.SubAgents{
		Share: dist.Rounded(min(1, float64(len(calls))/max(1, requests))), Joined: dist.Rounded(waited / float64(len(calls))),
		AtOnce: sample(atOnce), Delay: sample(delay), NumRequests: sample(num), SharedPrefix: sample([]float64{float64(shared)}),
		First: sample(first), NumTokens: sample(later), ToolTime: sample(tool), Output: sample(output), LastOutput: sample(last),
	}
}

// common gives the tokens that at least half of the conversations begin with alike.
func (o *Observation) common() int {
	list, tokens := o.list, 0
	for at := 0; ; at++ {
		count := map[uint64]int{}
		var most uint64
		for _, c := range list {
			if at < len(c.blocks) {
				if count[c.blocks[at]]++; count[c.blocks[at]] > count[most] {
					most = c.blocks[at]
				}
			}
		}
		if 2*count[most] < len(o.list) || count[most] < 2 {
			return tokens
		}
		var with []conversation
		for _, c := range list {
			if at < len(c.blocks) && c.blocks[at] == most {
				with = append(with, c)
			}
		}
		list, tokens = with, tokens+with[0].size
	}
}
