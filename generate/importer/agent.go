package importer

import (
	"encoding/json"
	"fmt"
	"math"
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

	AgentID      string         `json:"agent_id"`
	SubagentType string         `json:"subagent_type"`
	ToolTokens   int            `json:"tool_tokens"`
	SystemTokens int            `json:"system_tokens"`
	Requests     []agentRequest `json:"requests"`
}

// newAgent reads traces of coding agents: one JSON object each, in one file or a folder of them.
//
// A request goes on from the one before as long as its first blocks are the same. Where they are not, the
// context was rewritten (compaction, thinking taken out, a changed system prompt); the requests from there
// on are a conversation of their own, which begins with as many of the messages as are unchanged and
// starts when the trace says, counted from the last turn before. Sub-agents are such conversations too.
func newAgent(im *Importer) reader {
	a := &agentReader{im: im, cache: infiniteCache{}}
	a.scanReader = newScanReader(im, nil)
	return a
}

type agentReader struct {
	*scanReader
	im    *Importer
	cache infiniteCache
}

func (a *agentReader) next() (Item, error) {
	rec, err := a.scan.next()
	if err != nil {
		return Item{}, err
	}
	item := Item{where: a.im.source.where(rec), records: 1, exact: true}
	if rec.bad != "" {
		item.problem = badRecord("%s", rec.bad)
		return item, nil
	}
	var t agentTrace
	if err := json.Unmarshal(rec.data, &t); err != nil {
		item.problem = parseError(err)
		return item, nil
	}
	plans, p := a.plans(&t, rec.number)
	if item.problem = p; p == nil {
		item.work = a.im.texts(plans...)
	}
	return item, nil
}

// session is the state while the requests of one agent are gone through.
type session struct {
	*agentReader
	trace  *agentTrace
	space  uint64
	id     string
	system int
	plans  []*plan
	number uint64 // of requests so far, the sub-agents' too
	kids   []*plan
	used   map[string]int
}

func (a *agentReader) plans(t *agentTrace, number int64) ([]*plan, *problem) {
	if t.ID == "" {
		t.ID = fmt.Sprintf("trace-%d", number)
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
	s := &session{agentReader: a, trace: t, space: space, id: t.ID, system: t.ToolTokens + t.SystemTokens, used: map[string]int{}}
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
		r := &request{at: (q.T + shift) * 1000, in: q.In, out: q.Out, model: q.Model,
			hashes: hashes{size: s.trace.BlockSize, ids: scoped(s.space, q.HashIDs), own: mix(s.space, mix(s.number, 1<<63))}}
		if p := r.check(); p != nil {
			p.detail = fmt.Sprintf("request %d: %s", i, p.detail)
			return p
		}
		r.cached = s.cache.hits(r.ids) * r.size
		switch {
		case current == nil:
			current = s.open(s.id, r, from, s.system, nil)
		case r.continues(current.last):
			current.extend(r, think(q, last))
		default:
			common := r.common(&current.last.hashes) * r.size
			branch := &parent{id: current.id, turn: int64(len(current.turns) - 1), delayMS: max((q.T-last.T)*1000, 0)}
			s.im.report.note("times that a coding agent's context was rewritten, so that another conversation begins", 1)
			current = s.open(s.id, r, branch, s.system, current.inherit(common))
		}
		last = q
	}
	return nil
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

// subagent plans a sub-agent as conversations of their own, whose first starts when the trace says,
// counted from the start of the last turn of its parent before it.
func (s *session) subagent(q *agentRequest, current *plan, last *agentRequest, shift float64, depth int) *problem {
	if len(q.Requests) == 0 {
		return nil
	}
	name := q.AgentID
	if name == "" {
		name = fmt.Sprintf("subagent-%d", len(s.kids)+1)
	}
	kid := &session{agentReader: s.agentReader, trace: s.trace, space: s.space, id: s.id + "/" + name,
		system: q.ToolTokens + q.SystemTokens, number: s.number, used: s.used}
	// Times inside are those of the trace; some recorders count from the sub-agent's start instead.
	inner := shift
	if q.Requests[0].T < q.T {
		inner += q.T
	}
	var from *parent
	if current != nil {
		from = &parent{id: current.id, turn: int64(len(current.turns) - 1), delayMS: max((q.T-last.T)*1000, 0)}
	}
	p := kid.run(q.Requests, from, inner, depth+1)
	s.number = kid.number
	for _, k := range kid.plans {
		if q.SubagentType != "" {
			k.tags["subagent"] = q.SubagentType
		}
	}
	s.kids = append(append(s.kids, kid.plans...), kid.kids...)
	s.im.report.note("sub-agents as conversations of their own", 1)
	return p
}

// think gives the time from the previous answer's end to a request, in ms. The recorded think time counts
// unless it is longer than the gap between the two requests: some recorders sum it up over requests that
// overlap.
func think(q, last *agentRequest) float64 {
	gap := q.T - last.T
	if last.APITime != nil {
		gap -= *last.APITime
	}
	gap = max(gap, 0)
	if q.ThinkTime != nil && *q.ThinkTime >= 0 && *q.ThinkTime <= q.T-last.T {
		return *q.ThinkTime * 1000
	}
	return gap * 1000
}
