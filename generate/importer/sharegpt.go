package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"

	"parley/schemas"
)

// place is where a record stands in a file that is read twice.
type place struct {
	off    int64
	size   int32 // maxRecord fits
	number int32
}

func placeOf(rec record) place {
	return place{off: rec.off, size: int32(len(rec.data)), number: int32(min(rec.number, math.MaxInt32))}
}

func (p *place) read(f io.ReaderAt) ([]byte, error) {
	data := make([]byte, p.size)
	if _, err := f.ReadAt(data, p.off); err != nil {
		return nil, fmt.Errorf("read record %d again: %w", p.number, err)
	}
	return data, nil
}

// part is a place with what it is a part of.
type part struct {
	place
	base uint64 // hash of what the parts have in common
	num  int32  // its number among them
	copy int32  // how often the same number came before, in a file that holds a thing several times
}

// grouped says which records of a file belong together. It is asked about records in the order of the
// file.
type grouped struct {
	places []place // of all groups, one after the other
	groups []member
	others []int64 // offsets of records that come with the first of their group
}

type member struct {
	off      int64 // of the group's first record in the file
	at, size int32 // its part of places
}

// group finds the parts that belong together: those of the same base, each number once. accept is asked
// about each group.
func group(parts []part, accept func(n int) bool) grouped {
	var g grouped
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.num, b.num), cmp.Compare(a.off, b.off))
	})
	for i := 1; i < len(parts); i++ {
		if parts[i].base == parts[i-1].base && parts[i].num == parts[i-1].num {
			parts[i].copy = parts[i-1].copy + 1
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.copy, b.copy), cmp.Compare(a.num, b.num))
	})
	for i := 0; i < len(parts); {
		j := i
		for j < len(parts) && parts[j].base == parts[i].base && parts[j].copy == parts[i].copy {
			j++
		}
		list := parts[i:j]
		i = j
		if len(list) < 2 || !accept(len(list)) {
			continue
		}
		m := member{off: list[0].off, at: int32(len(g.places)), size: int32(len(list))}
		for _, p := range list {
			g.places = append(g.places, p.place)
			m.off = min(m.off, p.off)
		}
		for _, p := range list {
			if p.off != m.off {
				g.others = append(g.others, p.off)
			}
		}
		g.groups = append(g.groups, m)
	}
	slices.SortFunc(g.groups, func(a, b member) int { return cmp.Compare(a.off, b.off) })
	slices.Sort(g.others)
	return g
}

// at tells what the record at an offset is: the first of a group (its members), one that has come or
// comes with such, or neither.
func (g *grouped) at(off int64) (members []place, later bool) {
	if len(g.others) > 0 && g.others[0] == off {
		g.others = g.others[1:]
		return nil, true
	}
	if len(g.groups) > 0 && g.groups[0].off == off {
		m := g.groups[0]
		g.groups = g.groups[1:]
		return g.places[m.at : m.at+m.size], false
	}
	return nil, false
}

// splitID takes a last "_" and number off an identifier.
func splitID(id string) (base string, num int32, ok bool) {
	for i := len(id) - 1; i > 0; i-- {
		if c := id[i]; c >= '0' && c <= '9' {
			continue
		} else if c == '_' && i < len(id)-1 {
			num, err := strconv.ParseInt(id[i+1:], 10, 32)
			return id[:i], int32(num), err == nil
		}
		break
	}
	return "", 0, false
}

// shareGPT reads records of from and value. Records whose identifiers differ in a last number only are
// parts of one conversation that was split for its length, and are put together again in numeric order,
// however far apart they stand: a first pass notes where they are, 32 bytes for each.
type shareGPT struct {
	*scanReader
	groups grouped
}

func newShareGPT(im *Importer) (reader, error) {
	r := &shareGPT{}
	if im.opts.Join != JoinNever {
		if err := im.source.seekable(); err != nil {
			return nil, err
		}
		parts, err := r.index(im)
		if err != nil {
			return nil, err
		}
		r.groups = group(parts, func(n int) bool {
			im.report.note("conversations joined from parts", 1)
			im.report.note("parts in them", int64(n))
			return true
		})
	}
	r.scanReader = newScanReader(im, func(data []byte, rec record) ([]schemas.Conversation, *problem) {
		return im.shareGPTRecord(data, rec.number)
	})
	return r, nil
}

// index finds the records that may be parts. Names of more than MaxParts records are dropped on the way:
// a file of millions of numbered examples takes no memory for them.
func (r *shareGPT) index(im *Importer) ([]part, error) {
	var parts []part
	count := map[uint64]int32{} // records of a name
	counter := func(base uint64) bool { return im.opts.Join == JoinAuto && count[base] > MaxParts }
	s := newScanner(im.source.reader())
	for {
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("import: %s: %w", im.source.name, err)
		}
		if rec.bad != "" {
			continue
		}
		id, ok := scalar(field(rec.data, "id"))
		if !ok {
			continue
		}
		name, num, ok := splitID(id)
		if !ok {
			continue
		}
		base := maphash.String(idSeed, name)
		if count[base]++; counter(base) {
			continue
		}
		if len(parts) == cap(parts) {
			parts = slices.DeleteFunc(parts, func(p part) bool { return counter(p.base) })
		}
		parts = append(parts, part{place: placeOf(rec), base: base, num: num})
	}
	for base, n := range count {
		if counter(base) {
			im.report.note(fmt.Sprintf("records kept apart although their identifiers differ only in a last number (more than %d of one name)", MaxParts), int64(n))
		}
	}
	return slices.DeleteFunc(parts, func(p part) bool { return counter(p.base) || count[p.base] < 2 }), nil
}

func (r *shareGPT) next() (Item, error) {
	item, rec, members, err := r.nextOf(&r.groups)
	if err != nil || item.problem != nil {
		return item, err
	}
	if members != nil {
		item.records = int64(len(members))
		item.work = func() ([]schemas.Conversation, *problem) { return r.im.joined(members) }
		return item, nil
	}
	data := bytes.Clone(rec.data)
	item.work = func() ([]schemas.Conversation, *problem) { return r.im.shareGPTRecord(data, item.where.Record) }
	return item, nil
}

// joined puts the parts of one conversation together.
func (im *Importer) joined(members []place) ([]schemas.Conversation, *problem) {
	var all schemas.Conversation
	for i := range members {
		data, err := members[i].read(im.source.file)
		if err != nil {
			return nil, fatal(err)
		}
		c, p := shareGPTMessages(data, int64(members[i].number))
		if p != nil {
			p.detail = fmt.Sprintf("record %d, a part of it: %s", members[i].number, p.detail)
			return nil, p
		}
		if i == 0 {
			all = c
			all.ConversationID, _, _ = splitID(c.ConversationID)
			continue
		}
		all.Messages = append(all.Messages, c.Messages...)
	}
	all.Messages = dropLeadingAnswers(all.Messages)
	return []schemas.Conversation{all}, nil
}

func (im *Importer) shareGPTRecord(data []byte, number int64) ([]schemas.Conversation, *problem) {
	c, p := shareGPTMessages(data, number)
	if p != nil {
		return nil, p
	}
	c.Messages = dropLeadingAnswers(c.Messages)
	return []schemas.Conversation{c}, nil
}

func shareGPTMessages(data []byte, number int64) (schemas.Conversation, *problem) {
	return chatRecord(data, fmt.Sprintf("conversation-%d", number), "conversations", "conversation", "items", "messages")
}
