package importer

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"

	"parley/generate/rawjson"
)

// place is where a record stands in a file that is read twice.
type place struct {
	off    int64
	size   int32 // rawjson.MaxRecord fits
	number int32
}

func placeOf(rec rawjson.Record) place {
	return place{off: rec.Off, size: int32(len(rec.Data)), number: int32(min(rec.Number, math.MaxInt32))}
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

	messages        int32 // in it
	begins, waiting bool  // it begins with an answer; it ends with a question
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
func group(parts []part, accept func(parts []part) bool) grouped {
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
		if len(list) < 2 || !accept(list) {
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

// MaxParts is the most parts that JoinAuto takes for one conversation. A real one was split at some 2,000
// tokens (FastChat's split_long_conversation.py), so 100 parts would be 200,000 tokens; more records than
// that with the same name are examples that somebody numbered.
const MaxParts = 100

// canContinue says whether parts, in the order of their numbers, show that they are pieces of one conversation
// and no numbered examples. FastChat's script numbers a part by the message at which it begins, so each number
// is the one before and the messages of the one before; an older one counted the parts, and some of its cuts
// went through a question and its answer.
func canContinue(parts []part) bool {
	if parts[0].num != 0 {
		return false
	}
	counted, placed, cut := true, true, false
	for i := 1; i < len(parts); i++ {
		a, b := &parts[i-1], &parts[i]
		counted = counted && b.num == a.num+1
		placed = placed && b.num == a.num+a.messages && a.messages > 1
		cut = cut || a.waiting || b.begins
	}
	return placed || counted && cut
}

// joins finds the records of a file of chats that are parts of one conversation.
func (im *Importer) joins(src *source) (grouped, error) {
	var none grouped
	if im.opts.Join == JoinNever {
		return none, nil
	}
	if src.kind != kindJSON { // is it worth a copy?
		if some, err := im.anyParts(src); err != nil || !some {
			return none, err
		}
	}
	if err := src.asLines(im.chats.Wants); err != nil {
		return none, err
	}
	parts, err := im.parts(src)
	if err != nil {
		return none, err
	}
	return group(parts, func(list []part) bool {
		if im.opts.Join == JoinAuto && !canContinue(list) {
			im.tell("records kept apart although their identifiers differ only in a last number: nothing shows that they are parts of one (--join always joins them)", int64(len(list)), "")
			return false
		}
		im.tell("conversations joined from parts", 1, "")
		im.tell("parts in them", int64(len(list)), "")
		return true
	}), nil
}

// anyParts says whether two records of a file that is no JSON may be parts of one conversation.
func (im *Importer) anyParts(src *source) (bool, error) {
	if src.file == nil {
		if err := src.seekable(); err != nil {
			return false, err
		}
	}
	keys, err := src.keys()
	if err != nil {
		return false, err
	}
	identified := func(column string) bool { return im.chats.Identifies(column) }
	found := false
	for k := range keys[0] {
		found = found || identified(k)
	}
	if !found {
		return false, nil
	}
	seen, some := map[uint64]bool{}, false
	err = src.each(identified, func(rec rawjson.Record) bool {
		if name, _, ok := splitID(im.chats.ID(rec.Data)); ok && rec.Bad == "" {
			h := maphash.String(idSeed, name)
			some, seen[h] = seen[h], true
		}
		return !some
	})
	return some, err
}

// parts finds the records that may be parts. Names of more than MaxParts records are dropped on the way: a
// file of millions of numbered examples takes no memory for them.
func (im *Importer) parts(src *source) ([]part, error) {
	var parts []part
	count := map[uint64]int32{} // records of a name
	counter := func(base uint64) bool { return im.opts.Join == JoinAuto && count[base] > MaxParts }
	err := src.each(nil, func(rec rawjson.Record) bool {
		name, num, ok := "", int32(0), false
		if rec.Bad == "" {
			name, num, ok = splitID(im.chats.ID(rec.Data))
		}
		if !ok {
			return true
		}
		base := maphash.String(idSeed, name)
		if count[base]++; counter(base) {
			return true
		}
		if len(parts) == cap(parts) {
			parts = slices.DeleteFunc(parts, func(p part) bool { return counter(p.base) })
		}
		p := im.chats.Part(rec.Data)
		parts = append(parts, part{place: placeOf(rec), base: base, num: num, messages: int32(p.Messages),
			begins: p.First == "assistant", waiting: p.Last == "user"})
		return true
	})
	if err != nil {
		return nil, err
	}
	for base, n := range count {
		if counter(base) {
			im.tell(fmt.Sprintf("records kept apart although their identifiers differ only in a last number (more than %d of one name)", MaxParts), int64(n), "")
		}
	}
	return slices.DeleteFunc(parts, func(p part) bool { return counter(p.base) || count[p.base] < 2 }), nil
}

// nextOf reads the next record of a file of grouped ones: it passes over those that came with the first of
// their group, and gives a first one's members (nil for a record of no group).
func (r *records) nextOf(g *grouped) (item Item, rec rawjson.Record, members []place, err error) {
	for {
		if item, rec, err = r.record(); err != nil || item.problem != nil {
			return item, rec, nil, err
		}
		members, later := g.at(rec.Off)
		if !later {
			return item, rec, members, nil
		}
	}
}
