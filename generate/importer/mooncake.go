package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"parley/generate/prefix"
)

// mooncakeBlock is the size of a block in Mooncake's traces (FAST25-release/traces in its repository).
const mooncakeBlock = 512

// mooncakeLine is one request of a Mooncake trace.
type mooncakeLine struct {
	Timestamp    number   `json:"timestamp"` // ms
	InputLength  number   `json:"input_length"`
	OutputLength number   `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// request gives a line's request. unit is that of its time stamp, in ms.
func (l *mooncakeLine) request(space, own uint64, size int, unit float64) (*request, *problem) {
	if !l.InputLength.given {
		return nil, badRecord("it has no input_length")
	}
	r := &request{hashes: hashes{size: size, ids: scoped(space, l.HashIDs), own: prefix.Mix(space, prefix.Mix(own, 1<<63))}}
	var p1, p2, p3 *problem
	r.in, p1 = l.InputLength.count("a prompt", maxPromptTokens)
	r.out, p2 = l.OutputLength.count("an answer", maxOutputTokens)
	r.at, p3 = l.Timestamp.ms(unit)
	if p := cmp.Or(p1, p2, p3); p != nil {
		return nil, p
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
	*records
	space uint64
	size  int
	cache blockCache
	times arrivals
	ahead []line // read to tell the size of blocks
}

type line struct {
	item Item
	mooncakeLine
}

func newMooncake(im *Importer, src *source) (reader, error) {
	r, err := im.records(src, nil)
	if err != nil {
		return nil, err
	}
	m := &mooncake{records: r, space: scope("mooncake")}
	var seen []*mooncakeLine
	for len(m.ahead) < 64 {
		l, err := m.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		m.ahead = append(m.ahead, l)
		seen = append(seen, &l.mooncakeLine)
	}
	m.size = im.blockSize(seen, mooncakeBlock)
	if im.opts.LinkPrefixes {
		return m.link()
	}
	return m, nil
}

// line parses the next line.
func (m *mooncake) line() (line, error) {
	item, rec, err := m.record()
	l := line{item: item}
	if err != nil {
		return l, err
	}
	l.item.exact = true
	if item.problem == nil {
		if err := json.Unmarshal(rec.Data, &l.mooncakeLine); err != nil {
			l.item.problem = parseError(err)
		}
	}
	return l, nil
}

// read gives the next request, or the problem of a bad one.
func (m *mooncake) read() (Item, *request, error) {
	var l line
	var err error
	if len(m.ahead) > 0 {
		l, m.ahead = m.ahead[0], m.ahead[1:]
	} else if l, err = m.line(); err != nil {
		return Item{}, nil, err
	}
	var r *request
	if l.item.problem == nil {
		if r, l.item.problem = l.request(m.space, uint64(l.item.where.Record), m.size, 1); l.item.problem == nil {
			r.at = m.times.since(r.at, &l.item)
		}
	}
	return l.item, r, nil
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
			return nil, err
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
			m.im.tell("requests that go on from another one's prompt", 1, "")
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
