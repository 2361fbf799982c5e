package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"parley/schemas"
)

// mooncakeBlock is the size of a block in Mooncake's traces (FAST25-release/traces in its repository).
const mooncakeBlock = 512

// mooncakeLine is one request of a Mooncake trace.
type mooncakeLine struct {
	Timestamp    *float64 `json:"timestamp"` // ms
	InputLength  *int     `json:"input_length"`
	OutputLength *int     `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

func (l *mooncakeLine) request(space uint64, own uint64, size int) (*request, *problem) {
	if l.InputLength == nil {
		return nil, badRecord("it has no input_length")
	}
	r := &request{in: *l.InputLength, hashes: hashes{size: size, ids: scoped(space, l.HashIDs), own: mix(space, mix(own, 1<<63))}}
	if l.OutputLength != nil {
		r.out = *l.OutputLength
	}
	if l.Timestamp != nil {
		if math.IsNaN(*l.Timestamp) || math.Abs(*l.Timestamp) > 1e15 {
			return nil, badRecord("a timestamp of %v", *l.Timestamp)
		}
		r.at = *l.Timestamp
	}
	return r, r.check()
}

// parseError words an error of encoding/json for the report.
func parseError(err error) *problem {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return badRecord("%s is %s, expected %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return badRecord("%v", err)
}

// mooncake gives each request as a conversation of one turn, whose prompt is exactly that of the hashes.
type mooncake struct {
	im    *Importer
	scan  *scanner
	space uint64
	cache infiniteCache
}

func newMooncake(im *Importer) (reader, error) {
	m := &mooncake{im: im, scan: newScanner(im.source.reader()), space: scope("mooncake"), cache: infiniteCache{}}
	if im.opts.LinkPrefixes {
		return m.link()
	}
	return m, nil
}

// read gives the next request, or the problem of a bad one.
func (m *mooncake) read() (Item, *request, error) {
	rec, err := m.scan.next()
	if err != nil {
		return Item{}, nil, err
	}
	item := Item{where: Where{File: m.im.source.name, Line: rec.line, Record: rec.number}, records: 1, exact: true}
	if rec.bad != "" {
		item.problem = badRecord("%s", rec.bad)
		return item, nil, nil
	}
	var line mooncakeLine
	if err := json.Unmarshal(rec.data, &line); err != nil {
		item.problem = parseError(err)
		return item, nil, nil
	}
	r, p := line.request(m.space, uint64(rec.number), mooncakeBlock)
	item.problem = p
	return item, r, nil
}

func (m *mooncake) next() (Item, error) {
	item, r, err := m.read()
	if err != nil || item.problem != nil {
		return item, err
	}
	r.cached = m.cache.hits(r.ids) * r.size
	p := m.plan(r, item.where.Record)
	item.work = m.im.texts(p)
	return item, nil
}

func (m *mooncake) plan(r *request, number int64) *plan {
	p := &plan{id: fmt.Sprintf("mooncake-%d", number), start: &r.at}
	p.begin(r, 0, nil)
	return p
}

// texts is the work of making planned conversations.
func (im *Importer) texts(plans ...*plan) func() ([]schemas.Conversation, *problem) {
	return func() ([]schemas.Conversation, *problem) {
		rows := make([]schemas.Conversation, 0, len(plans))
		for _, p := range plans {
			c, problem := im.conversation(p)
			if problem != nil {
				return nil, problem
			}
			rows = append(rows, c)
		}
		return rows, nil
	}
}

// planned gives items that were planned beforehand.
type planned struct{ items []Item }

func (p *planned) next() (Item, error) {
	if len(p.items) == 0 {
		return Item{}, io.EOF
	}
	item := p.items[0]
	p.items[0] = Item{}
	p.items = p.items[1:]
	return item, nil
}

// link makes conversations of requests whose hashes go on from those of an earlier one. A request goes on
// from the one with the longest prompt that it contains, each has one successor at most, and one block
// that they have in common is not enough: that is the system prompt, which many have. The whole trace is
// held in memory for it (some 1 kB for each request).
func (m *mooncake) link() (reader, error) {
	type chain struct {
		item Item
		plan *plan
	}
	var chains []*chain
	var out planned
	tails := map[uint64]*chain{} // by the last complete block of its last prompt
	for {
		item, r, err := m.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("import: %s: %w", m.im.source.name, err)
		}
		if item.problem != nil {
			out.items = append(out.items, item)
			continue
		}
		var c *chain
		var key uint64
		for i := len(r.ids) - 1; i >= 1 && c == nil; i-- {
			if t := tails[r.ids[i]]; t != nil && r.continues(t.plan.last) && t.plan.last.at <= r.at {
				c, key = t, r.ids[i]
			}
		}
		if c == nil {
			c = &chain{item: item, plan: m.plan(r, item.where.Record)}
			chains = append(chains, c)
		} else {
			delete(tails, key)
			c.item.records++
			// The trace tells arrivals only, so the think time has the answer's own time in it.
			c.plan.extend(r, person(max(r.at-c.plan.last.at, 0)))
			m.im.report.note("requests that go on from another one's prompt", 1)
		}
		if n := r.complete(r.in); n >= 2 {
			tails[r.ids[n-1]] = c
		}
	}
	for _, c := range chains {
		// By the hashes in the order of the conversations; later turns know their own history.
		first := c.plan.turns[0]
		r := c.plan.spans[0].hashes
		*first.ExpectedCachedTokens = min(int64(m.cache.hits(r.ids)*r.size), *first.PromptTokens)
		for _, s := range c.plan.spans[1:] {
			m.cache.hits(s.hashes.ids)
		}
		c.item.work = m.im.texts(c.plan)
		out.items = append(out.items, c.item)
	}
	slices.SortStableFunc(out.items, func(a, b Item) int { return int(a.where.Record - b.where.Record) })
	return &out, nil
}
