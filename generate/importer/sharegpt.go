package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"

	"parley/schemas"
)

// place is where a record stands in a file that is read twice.
type place struct {
	off, line, number int64
	size              int
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
	num  int64  // its number among them
}

// grouped says which records of a file belong together: by the offset of the first of them in the file,
// and the offsets of the others.
type grouped struct {
	first  map[int64][]place
	others map[int64]struct{}
}

// group finds the parts that belong together; numbers that come twice stay by themselves. accept is asked
// about each group.
func group(parts []part, accept func(n int) bool) grouped {
	g := grouped{first: map[int64][]place{}, others: map[int64]struct{}{}}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.num, b.num), cmp.Compare(a.off, b.off))
	})
	for i := 0; i < len(parts); {
		var members []place
		j := i
		for ; j < len(parts) && parts[j].base == parts[i].base; j++ {
			if j == i || parts[j].num != parts[j-1].num {
				members = append(members, parts[j].place)
			}
		}
		i = j
		if len(members) < 2 || !accept(len(members)) {
			continue
		}
		at := slices.MinFunc(members, func(a, b place) int { return cmp.Compare(a.off, b.off) }).off
		g.first[at] = members
		for _, m := range members {
			if m.off != at {
				g.others[m.off] = struct{}{}
			}
		}
	}
	return g
}

// splitID takes a last "_" and number off an identifier.
func splitID(id string) (base string, num int64, ok bool) {
	for i := len(id) - 1; i > 0; i-- {
		if c := id[i]; c >= '0' && c <= '9' {
			continue
		} else if c == '_' && i < len(id)-1 && len(id)-i <= 18 {
			num, err := strconv.ParseInt(id[i+1:], 10, 64)
			return id[:i], num, err == nil
		}
		break
	}
	return "", 0, false
}

// shareGPT reads records of from and value. Records whose identifiers differ in a last number are parts
// of one conversation that was split for its length, and are put together again in numeric order,
// however far apart they stand: a first pass notes where they are, some 50 bytes for each.
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
			if im.opts.Join == JoinAuto && n > MaxParts {
				im.report.note(fmt.Sprintf("records kept apart although their identifiers differ only in a last number (more than %d of one name)", MaxParts), int64(n))
				return false
			}
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

func (r *shareGPT) index(im *Importer) ([]part, error) {
	var parts []part
	s := newScanner(im.source.reader())
	for {
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			return parts, nil
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
		if base, num, ok := splitID(id); ok {
			parts = append(parts, part{
				base: maphash.String(idSeed, base), num: num,
				place: place{off: rec.off, line: rec.line, number: rec.number, size: len(rec.data)},
			})
		}
	}
}

func (r *shareGPT) next() (Item, error) {
	for {
		rec, err := r.scan.next()
		if err != nil {
			return Item{}, err
		}
		if _, later := r.groups.others[rec.off]; later && rec.bad == "" {
			continue // it has come, or comes, with the first of its parts
		}
		item := Item{where: Where{File: r.im.source.name, Line: rec.line, Record: rec.number}, records: 1}
		if rec.bad != "" {
			item.problem = badRecord("%s", rec.bad)
			return item, nil
		}
		if members := r.groups.first[rec.off]; members != nil {
			item.records = int64(len(members))
			item.work = func() ([]schemas.Conversation, *problem) { return r.im.joined(members) }
			return item, nil
		}
		data := bytes.Clone(rec.data)
		item.work = func() ([]schemas.Conversation, *problem) { return r.im.shareGPTRecord(data, item.where.Record) }
		return item, nil
	}
}

// joined puts the parts of one conversation together.
func (im *Importer) joined(members []place) ([]schemas.Conversation, *problem) {
	var all schemas.Conversation
	for i := range members {
		data, err := members[i].read(im.source.file)
		if err != nil {
			return nil, fatal(err)
		}
		c, p := shareGPTMessages(data, members[i].number)
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
