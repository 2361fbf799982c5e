package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// qwenBlock is the size of a block in the Qwen-Bailian traces (alibaba-edu/qwen-bailian-usagetraces-anon).
const qwenBlock = 16

type qwenLine struct {
	mooncakeLine
	ChatID json.RawMessage `json:"chat_id"`
	Parent json.RawMessage `json:"parent_chat_id"`
	Type   string          `json:"type"`
	Turn   int             `json:"turn"`
}

// chat is what the first pass keeps of a line.
type chat struct {
	place
	line       int64
	id, parent int64
	at         float64
	next       int32 // the chat that goes on from this one, by its place in the list; -1 for none
	child      bool
}

// qwen puts chats together by their parents: a first pass notes where each line stands and whose child it
// is (some 80 bytes for each). A chat goes on from its parent if it is the parent's first child and its
// hashes do; otherwise, and when the parent is outside of the file, it begins a conversation of its own
// with its whole prompt.
type qwen struct {
	im    *Importer
	space uint64
	cache infiniteCache
	chats []chat
	at    int
	queue []Item
}

func newQwen(im *Importer) (reader, error) {
	if err := im.source.seekable(); err != nil {
		return nil, err
	}
	q := &qwen{im: im, space: scope("qwen"), cache: infiniteCache{}}
	byID := map[int64]int32{}
	s := newScanner(im.source.reader())
	for {
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("import: %s: %w", im.source.name, err)
		}
		c := chat{place: placeOf(rec), line: rec.line, next: -1}
		if rec.bad != "" {
			c.size = 0
			q.queue = append(q.queue, q.bad(&c, badRecord("%s", rec.bad)))
			continue
		}
		c.id, _ = strconv.ParseInt(string(field(rec.data, "chat_id")), 10, 64)
		c.parent, err = strconv.ParseInt(string(field(rec.data, "parent_chat_id")), 10, 64)
		if err != nil {
			c.parent = -1
		}
		c.at, _ = strconv.ParseFloat(string(field(rec.data, "timestamp")), 64)
		if _, twice := byID[c.id]; !twice {
			byID[c.id] = int32(len(q.chats))
		}
		q.chats = append(q.chats, c)
	}
	order := make([]int32, len(q.chats)) // by time, so that the first child is the earliest
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(q.chats[a].at, q.chats[b].at) })
	for _, i := range order {
		c := &q.chats[i]
		if c.parent < 0 {
			continue
		}
		j, ok := byID[c.parent]
		switch {
		case !ok:
			im.report.note("chats whose parent is outside of the file", 1)
		case j != i && q.chats[j].next < 0 && q.chats[j].at <= c.at && c.at > 0:
			q.chats[j].next, c.child = i, true
		default:
			im.report.note("chats that branch off from a parent that goes on elsewhere", 1)
		}
	}
	return q, nil
}

func (q *qwen) bad(c *chat, p *problem) Item {
	return Item{where: Where{File: q.im.source.name, Line: c.line, Record: int64(c.number)}, records: 1, problem: p}
}

func (q *qwen) next() (Item, error) {
	for len(q.queue) == 0 {
		if q.at == len(q.chats) {
			return Item{}, io.EOF
		}
		if c := &q.chats[q.at]; !c.child {
			if err := q.chain(c); err != nil {
				return Item{}, err
			}
		}
		q.at++
	}
	item := q.queue[0]
	q.queue = q.queue[1:]
	return item, nil
}

// chain plans the conversations of a chat and all that go on from it.
func (q *qwen) chain(c *chat) error {
	var p *plan
	var item Item
	flush := func() {
		if p != nil {
			item.work = q.im.texts(p)
			q.queue = append(q.queue, item)
		}
		p = nil
	}
	for {
		data, err := c.read(q.im.source.file)
		if err != nil {
			return err
		}
		var line qwenLine
		var r *request
		problem := (*problem)(nil)
		if err := json.Unmarshal(data, &line); err != nil {
			problem = parseError(err)
		} else {
			r, problem = line.request(q.space, uint64(c.number), qwenBlock)
		}
		switch {
		case problem != nil:
			flush()
			q.queue = append(q.queue, q.bad(c, problem))
		case p != nil && r.continues(p.last):
			r.at *= 1000
			q.cache.hits(r.ids)
			// The trace tells arrivals only, so the think time has the answer's own time in it.
			p.extend(r, person(max(r.at-p.last.at, 0)))
			item.records++
		default:
			if p != nil {
				q.im.report.note("chats that do not go on from their parent's prompt", 1)
			}
			flush()
			r.at *= 1000
			r.cached = q.cache.hits(r.ids) * r.size
			p = &plan{id: fmt.Sprintf("qwen-%d", c.id), start: &r.at, tags: map[string]string{}}
			if line.Type != "" {
				p.tags["type"] = line.Type
			}
			p.begin(r, 0, nil)
			item = q.bad(c, nil)
			item.exact = true
		}
		if c.next < 0 {
			flush()
			return nil
		}
		c = &q.chats[c.next]
	}
}
