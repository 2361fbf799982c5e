package generate

import (
	"fmt"
	"math/rand/v2"

	"parley/generate/config"
	"parley/generate/dist"
	"parley/schemas"
	"parley/schemas/random"
)

// SubAgents lets a session hand work to agents that it starts: conversations of their own, with a system
// message that all sub-agents share. They start when the answer that calls them has come, all of one call
// together, and the session's next request waits for them.
type SubAgents struct {
	Share        float64    `json:"share"`                            // of the requests whose answers start some, 0 to 1; the last of a session never does
	AtOnce       *dist.Dist `json:"at_once,omitempty"`                // how many one answer starts; 1 if absent
	Joined       float64    `json:"joined"`                           // share of these calls that the next request waits for; of the others it goes on beside them
	Delay        *dist.Dist `json:"delay_s,omitempty"`                // seconds from the answer to their start
	NumRequests  *dist.Dist `json:"num_requests"`                     // of each
	SharedPrefix *dist.Dist `json:"shared_prefix_num_tokens"`         // drawn once: the system message of all sub-agents
	First        *dist.Dist `json:"first_num_tokens"`                 // the task that each is given
	NumTokens    *dist.Dist `json:"num_tokens"`                       // what each later request brings: results of tools
	ToolTime     *dist.Dist `json:"tool_time_s,omitempty"`            // seconds that these tools take
	Output       *dist.Dist `json:"output_num_tokens"`                // each answer but the last
	LastOutput   *dist.Dist `json:"last_output_num_tokens,omitempty"` // the report that ends it; as the others if absent
}

func (a *SubAgents) check(at string, file func(string) string, p *config.Problems) {
	p.Share(at+"share", a.Share)
	p.Share(at+"joined", a.Joined)
	for name, d := range map[string]*dist.Dist{"at_once": a.AtOnce, "delay_s": a.Delay, "tool_time_s": a.ToolTime, "last_output_num_tokens": a.LastOutput} {
		d.Check(at+name, file, p)
	}
	for name, d := range map[string]*dist.Dist{
		"num_requests": a.NumRequests, "shared_prefix_num_tokens": a.SharedPrefix, "first_num_tokens": a.First, "num_tokens": a.NumTokens, "output_num_tokens": a.Output,
	} {
		dist.CheckRequired(at+name, d, file, p)
	}
}

// maxAtOnce bounds the sub-agents that one answer starts.
const maxAtOnce = 1000

// parentage is what starts a sub-agent.
type parentage struct {
	nth   int     // of the session's sub-agents
	turn  int     // of the session, whose end the delay counts from
	delay float64 // ms
}

// number is what the random streams and the first words of a conversation depend on: another for each
// sub-agent, and none of a conversation's or a group's.
func (p *plan) number() uint64 {
	n := uint64(p.index)
	if p.from != nil {
		n += uint64(p.from.nth+1) << 40
	}
	return n
}

// id is a sub-agent's name in its session.
func (k *parentage) id(session string) string { return fmt.Sprintf("%s/agent-%d", session, k.nth+1) }

// delegate draws the sub-agents of a session.
func (p *planner) delegate(pl *plan) {
	a := p.spec.SubAgents
	if a == nil {
		return
	}
	r := random.Stream(p.seed, "sub-agents", uint64(pl.index))
	for t := range len(pl.turns) - 1 {
		// All three are drawn for each turn, so that the share does not shift what follows.
		calls, joined, n := r.Float64() < a.Share, r.Float64() < a.Joined, 1
		if a.AtOnce != nil {
			n = min(max(a.AtOnce.Int(r), 1), maxAtOnce)
		}
		if !calls {
			continue
		}
		next := &pl.turns[t+1]
		if !next.tool { // it brings what they report, or that they were started
			next.tool, next.think = true, 0
			if u := p.spec.ToolUse; u != nil {
				next.think = seconds(u.ThinkTime, r)
			}
		}
		for range n {
			k := p.subAgent(pl, t)
			if pl.kids = append(pl.kids, k); joined {
				next.joins = append(next.joins, k.from.nth)
			}
		}
	}
}

// subAgent draws one sub-agent that the answer of a session's turn starts.
func (p *planner) subAgent(pl *plan, turn int) *plan {
	a, nth := p.spec.SubAgents, len(pl.kids)
	r := random.Stream(p.seed, "sub-agent", uint64(pl.index), uint64(nth))
	group := len(p.groups) - 1 // newPlanner puts the sub-agents' system message last
	k := &plan{index: pl.index, group: group, shared: p.groups[group], from: &parentage{nth: nth, turn: turn, delay: seconds(a.Delay, r)}}
	requests := min(max(a.NumRequests.Int(r), 1), maxRequests)
	for t := range requests {
		tp := turnPlan{tool: t > 0, tokens: bounded(a.First.Int(r), 1)}
		if t > 0 {
			tp.tokens, tp.think = bounded(a.NumTokens.Int(r), 1), seconds(a.ToolTime, r)
		}
		output := a.Output
		if t == requests-1 && a.LastOutput != nil {
			output = a.LastOutput
		}
		tp.output = bounded(output.Int(r), 1)
		k.turns = append(k.turns, tp)
	}
	p.fitToolCalls(k)
	return k
}

// seconds draws a time and gives it in ms.
func seconds(d *dist.Dist, r *rand.Rand) float64 {
	if d == nil {
		return 0
	}
	return max(0, float64(d.Float(r)*1000))
}

// descend gives a row its parent, and the turns of a session the sub-agents that they wait for.
func (p *plan) descend(c *schemas.Conversation) {
	session := c.ConversationID
	for t := range p.turns {
		for _, nth := range p.turns[t].joins {
			c.Turns[t].Joins = append(c.Turns[t].Joins, (&parentage{nth: nth}).id(session))
		}
	}
	if p.from != nil {
		turn, delay, end := int64(p.from.turn), p.from.delay, schemas.FromEnd
		c.ConversationID = p.from.id(session)
		c.Tags["subagent"] = "synthetic"
		c.ParentID, c.ParentTurn, c.ParentDelayMS, c.ParentFrom = &session, &turn, &delay, &end
	}
}
