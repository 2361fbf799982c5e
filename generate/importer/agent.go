package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"parley/generate/chatshape"
	"parley/generate/prefix"
)

// agentTrace is one coding-agent session (callanjfox/kv-cache-tester, traces). Times are seconds from its
// start. Identifiers of blocks are local to it, and its sub-agents share them.
type agentTrace struct {
	ID           string         `json:"id"`
	BlockSize    int            `json:"block_size"`
	ToolTokens   int            `json:"tool_tokens"`
	SystemTokens int            `json:"system_tokens"`
	Scope        string         `json:"hash_id_scope"`
	Requests     []agentRequest `json:"requests"`
}

// agentRequest is a request, or a sub-agent with requests of its own.
type agentRequest struct {
	T         float64  `json:"t"`
	Type      string   `json:"type"` // n: whole answer, s: streamed, subagent
	Model     string   `json:"model"`
	In        int      `json:"in"`
	Out       int      `json:"out"`
	HashIDs   []uint64 `json:"hash_ids"`
	APITime   *float64 `json:"api_time"`
	ThinkTime *float64 `json:"think_time"`
	Inputs    []string `json:"input_types"` // kinds of what is new: text, tool_result, ...

	AgentID      string         `json:"agent_id"`
	SubagentType string         `json:"subagent_type"`
	DurationMS   float64        `json:"duration_ms"`
	ToolTokens   int            `json:"tool_tokens"`
	SystemTokens int            `json:"system_tokens"`
	Requests     []agentRequest `json:"requests"`
}

// newAgent reads traces of coding agents: one JSON object each, in one file or a folder of them.
//
// A request goes on from the one before as long as its first blocks are the same. Where they are not, the
// context was rewritten (compaction, thinking taken out, a changed system prompt); the requests from there
// on are a conversation of their own, which begins with as many of the messages as are unchanged and
// starts when the trace says, counted from the end of the last turn before.
//
// Sub-agents are conversations of their own too. The request after them waits for those that had ended when
// it was recorded; a sub-agent that had not ran beside its parent.
func newAgent(im *Importer, src *source) (reader, error) {
	r, err := im.records(src, nil)
	return &agentReader{r}, err
}

type agentReader struct{ *records }

func (a *agentReader) next() (Item, error) {
	item, rec, err := a.record()
	if err != nil || item.problem != nil {
		return item, err
	}
	item.exact = true
	var t agentTrace
	if err := json.Unmarshal(rec.Data, &t); err != nil {
		item.problem = parseError(err)
		return item, nil
	}
	plans, p := a.plans(&t, &item)
	if item.problem = p; p == nil {
		item.work = a.im.texts(plans...)
	}
	return item, nil
}

// session is the state while the requests of one agent are gone through.
type session struct {
	cache   *blockCache
	item    *Item
	trace   *agentTrace
	space   uint64
	id      string
	system  int
	plans   []*plan
	number  uint64 // of requests so far, the sub-agents' too
	kids    []*plan
	running []subagent // started since the last request
	used    map[string]int
}

// subagent is one that was started, with its times in the trace.
type subagent struct {
	ids        []string // its conversations
	start, end float64  // s
}

func (a *agentReader) plans(t *agentTrace, item *Item) ([]*plan, *problem) {
	if t.ID == "" {
		t.ID = fmt.Sprintf("trace-%d", item.where.Record)
	}
	switch {
	case t.BlockSize < 1 || t.BlockSize > 1<<20:
		return nil, badRecord("a block_size of %d", t.BlockSize)
	case len(t.Requests) == 0:
		return nil, badRecord("it has no requests")
	}
	space := scope("agent", t.ID)
	if t.Scope == "global" {
		space = scope("agent")
	}
	s := &session{cache: &a.im.cache, item: item, trace: t, space: space, id: t.ID, system: t.ToolTokens + t.SystemTokens, used: map[string]int{}}
	if p := s.run(t.Requests, nil, 0, 0); p != nil {
		return nil, p
	}
	return append(s.plans, s.kids...), nil
}

// run plans the requests of one agent. from is the conversation that started it, for a sub-agent; shift is
// added to all times.
func (s *session) run(list []agentRequest, from *parent, shift float64, depth int) *problem {
	if depth > 20 {
		return badRecord("sub-agents nested deeper than 20")
	}
	var current *plan
	var last *agentRequest // the request before
	for i := range list {
		q := &list[i]
		if math.IsNaN(q.T) || math.Abs(q.T) > 1e9 {
			return badRecord("request %d: t is %v", i, q.T)
		}
		if q.Type == "subagent" || q.In == 0 && len(q.Requests) > 0 {
			if p := s.subagent(q, current, last, shift, depth); p != nil {
				return p
			}
			continue
		}
		s.number++
		r := &request{at: float64((q.T + shift) * 1000), in: q.In, out: q.Out, model: q.Model,
			hashes: hashes{size: s.trace.BlockSize, ids: scoped(s.space, q.HashIDs), own: prefix.Mix(s.space, prefix.Mix(s.number, 1<<63))}}
		if p := r.check(); p != nil {
			p.detail = fmt.Sprintf("request %d: %s", i, p.detail)
			return p
		}
		r.cached = s.cache.hits(r.ids) * r.size
		w := s.wait(q, last)
		switch {
		case current == nil:
			current = s.open(s.id, r, from, s.system, nil)
		case r.continues(current.last):
			current.extend(r, w)
		default:
			common := r.common(&current.last.hashes) * r.size
			branch := &parent{id: current.id, turn: int64(len(current.turns) - 1), end: true}
			s.note("times that a coding agent's context was rewritten, so that another conversation begins")
			current = s.open(s.id, r, branch, s.system, current.inherit(common))
			if len(w.joins) > 0 {
				current.turns[0].Joins, current.turns[0].ThinkTimeMS, current.turns[0].ToolTimeMS = w.joins, w.think, w.tool
			} else {
				branch.delayMS = w.ms()
			}
		}
		last = q
	}
	return nil
}

func (s *session) note(what string) {
	s.item.notes = append(s.item.notes, chatshape.Note{What: what})
}

// open begins a conversation. Its identifier is the agent's, with a number from the second on.
func (s *session) open(id string, r *request, from *parent, system int, inherited []span) *plan {
	s.used[id]++
	if n := s.used[id]; n > 1 {
		id = fmt.Sprintf("%s/%d", id, n)
	}
	p := &plan{id: id, parent: from, tags: map[string]string{"trace": s.trace.ID}}
	if r.model != "" {
		p.tags["model"] = r.model
	}
	p.begin(r, system, inherited)
	s.plans = append(s.plans, p)
	return p
}

// subagent plans a sub-agent as conversations of their own, whose first starts when the trace says, counted
// from the end of its parent's last turn (from its start, if the sub-agent started before the answer's end).
func (s *session) subagent(q *agentRequest, current *plan, last *agentRequest, shift float64, depth int) *problem {
	if len(q.Requests) == 0 {
		return nil
	}
	if math.IsNaN(q.DurationMS) || math.Abs(q.DurationMS) > 1e12 {
		return badRecord("sub-agent %q: duration_ms is %v", q.AgentID, q.DurationMS)
	}
	name := q.AgentID
	if name == "" {
		name = fmt.Sprintf("subagent-%d", len(s.kids)+1)
	}
	kid := &session{cache: s.cache, item: s.item, trace: s.trace, space: s.space, id: s.id + "/" + name,
		system: q.ToolTokens + q.SystemTokens, number: s.number, used: s.used}
	run, inner := s.span(q, last)
	var from *parent
	if current != nil {
		from = &parent{id: current.id, turn: int64(len(current.turns) - 1), end: run.start >= last.ends()}
		if from.delayMS = float64(max(run.start-last.T, 0) * 1000); from.end {
			from.delayMS = float64((run.start - last.ends()) * 1000)
		}
	}
	p := kid.run(q.Requests, from, shift+inner, depth+1)
	s.number = kid.number
	for _, k := range kid.plans {
		run.ids = append(run.ids, k.id)
		k.tags["subagent"] = cmp.Or(q.SubagentType, "unknown")
	}
	s.kids = append(append(s.kids, kid.plans...), kid.kids...)
	s.running = append(s.running, run)
	s.note("sub-agents as conversations of their own")
	return p
}

// promptly is how soon after the answer that calls it a sub-agent starts, in seconds.
const promptly = 2

// span gives when a sub-agent ran, and what to add to the times of its requests.
//
// Requests inside have the trace's times, or count from the sub-agent's start. In the latter case the
// published traces write t when the sub-agent's result came and not when it started: three that were
// called by one answer have three t, and the same t - duration_ms, a second after that answer (trace_0010
// of kv-cache-tester). So a t long after the parent's answer is taken for the end, where the duration
// allows it, and for the start elsewhere.
func (s *session) span(q, last *agentRequest) (run subagent, inner float64) {
	length := q.DurationMS / 1000
	for i := range q.Requests {
		length = max(length, q.Requests[i].ends()-q.Requests[0].T)
	}
	if q.Requests[0].T >= q.T {
		return subagent{start: q.T, end: q.Requests[0].T + length}, 0
	}
	start := q.T
	if last != nil && q.T-last.ends() > promptly && q.T-length >= last.ends()-promptly {
		start = max(q.T-length, last.ends())
		s.note("sub-agents whose time is taken for their end (it lies as long after the call as they ran)")
	}
	return subagent{start: start, end: start + length}, start
}

// ends gives when a request's answer had come, in seconds of the trace; its start if that is not recorded.
func (q *agentRequest) ends() float64 {
	if q.APITime != nil && *q.APITime > 0 && *q.APITime < 1e9 {
		return q.T + *q.APITime
	}
	return q.T
}

func (w wait) ms() float64 {
	if w.tool != nil {
		return *w.tool
	}
	return *w.think
}

// wait tells what a request waited for since the one before, and forgets the sub-agents that were running.
// The time from the last end to the request is a tool's where the request brings a tool's result, else a
// person's. The recorded think time counts unless it is longer than the gap between the two requests: some
// recorders sum it up over requests that overlap.
func (s *session) wait(q, last *agentRequest) (w wait) {
	defer func() { s.running = nil }()
	if last == nil {
		return w
	}
	free := last.ends()
	for _, k := range s.running {
		if k.end > q.T {
			s.note("sub-agents that ran beside their parent (it went on before they had ended)")
			continue
		}
		s.note("sub-agents that their parent's next turn waits for")
		w.joins = append(w.joins, k.ids...)
		free = max(free, k.end)
	}
	gap := float64(max(q.T-free, 0) * 1000)
	if len(w.joins) == 0 && q.ThinkTime != nil && *q.ThinkTime >= 0 && *q.ThinkTime <= q.T-last.T {
		gap = float64(*q.ThinkTime * 1000)
	}
	if len(w.joins) > 0 || slices.Contains(q.Inputs, "tool_result") {
		w.tool = &gap
	} else {
		w.think = &gap
	}
	return w
}
