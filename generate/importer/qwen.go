package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"parley/generate/chatshape"
	"parley/generate/rawjson"
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
	src   *source
	space uint64
	size  int
	cache blockCache
	chats []chat
	at    int
	queue []Item
}

func newQwen(im *Importer, src *source) (reader, error) {
	if err := src.asLines(nil); err != nil {
		return nil, err
	}
	q := &qwen{im: im, src: src, space: scope("qwen")}
	byID := map[int64]int32{}
	var seen []*mooncakeLine
	err := src.each(nil, func(rec rawjson.Record) bool {
		if l := (&mooncakeLine{}); len(seen) < 64 && json.Unmarshal(rec.Data, l) == nil {
			seen = append(seen, l)
		}
		c := chat{place: placeOf(rec), line: rec.Line, next: -1}
		if rec.Bad != "" {
			c.size = 0
			q.queue = append(q.queue, q.bad(&c, badRecord("%s", rec.Bad)))
			return true
		}
		var err error
		c.id, _ = strconv.ParseInt(string(rawjson.Field(rec.Data, "chat_id")), 10, 64)
		c.parent, err = strconv.ParseInt(string(rawjson.Field(rec.Data, "parent_chat_id")), 10, 64)
		if err != nil {
			c.parent = -1
		}
		c.at, _ = strconv.ParseFloat(string(rawjson.Field(rec.Data, "timestamp")), 64)
		if _, twice := byID[c.id]; !twice {
			byID[c.id] = int32(len(q.chats))
		}
		q.chats = append(q.chats, c)
		return true
	})
	if err != nil {
		return nil, err
	}
	q.size = im.blockSize(seen, qwenBlock)
	first := math.Inf(1)
	for i := range q.chats {
		first = min(first, q.chats[i].at)
	}
	for i := range q.chats {
		q.chats[i].at -= first
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
			im.tell("chats whose parent is outside of the file", 1, "")
		case j != i && q.chats[j].next < 0 && q.chats[j].at <= c.at:
			q.chats[j].next, c.child = i, true
		default:
			im.tell("chats that branch off from a parent that goes on elsewhere", 1, "")
		}
	}
	return q, nil
}

func (q *qwen) bad(c *chat, p *problem) Item {
	return Item{where: q.src.where(rawjson.Record{Line: c.line, Number: int64(c.number)}), records: 1, problem: p}
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
		data, err := c.read(q.src.file)
		if err != nil {
			return err
		}
		var line qwenLine
		var r *request
		problem := (*problem)(nil)
		if err := json.Unmarshal(data, &line); err != nil {
			problem = parseError(err)
		} else {
			r, problem = line.request(q.space, uint64(c.number), q.size, 1000)
		}
		switch {
		case problem != nil:
			flush()
			q.queue = append(q.queue, q.bad(c, problem))
		case p != nil && r.continues(p.last):
			r.at = float64(c.at * 1000)
			q.cache.hits(r.ids)
			// The trace tells arrivals only, so the think time has the answer's own time in it.
			p.extend(r, person(max(r.at-p.last.at, 0)))
			item.records++
		default:
			apart := p != nil
			flush()
			r.at = float64(c.at * 1000)
			r.cached = q.cache.hits(r.ids) * r.size
			p = &plan{id: fmt.Sprintf("qwen-%d", c.id), start: &r.at, tags: map[string]string{}}
			if line.Type != "" {
				p.tags["type"] = line.Type
			}
			p.begin(r, 0, nil)
			item = q.bad(c, nil)
			item.exact = true
			if apart {
				item.notes = append(item.notes, chatshape.Note{What: "chats that do not go on from their parent's prompt"})
			}
		}
		if c.next < 0 {
			flush()
			return nil
		}
		c = &q.chats[c.next]
	}
}
