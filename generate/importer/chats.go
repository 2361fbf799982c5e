package importer

import (
	"errors"
	"fmt"
	"io"

	"parley/generate/chatshape"
	"parley/generate/rawjson"
	"parley/schemas"
)

// records gives a source's records as items.
type records struct {
	im  *Importer
	src *source
	in  carrier
}

func (im *Importer) records(src *source, want func(string) bool) (*records, error) {
	in, err := src.records(want)
	return &records{im, src, in}, err
}

// record reads the next record and begins its item, which has a problem already if there is no value to
// read. The record's data are valid until the next call.
func (r *records) record() (Item, rawjson.Record, error) {
	rec, err := r.in.Next()
	if err != nil {
		return Item{}, rec, err
	}
	item := Item{where: r.src.where(rec), records: 1}
	if rec.Bad != "" {
		item.problem = badRecord("%s", rec.Bad)
	}
	return item, rec, nil
}

// chats reads records of chats in any shape. Records whose identifiers differ in a last number only may be
// parts of one conversation that was split for its length (see canContinue), and are put together again in
// numeric order, however far apart they stand: a first pass notes where they are, 40 bytes for each. Records
// that are one message each belong together as long as they follow on each other.
type chats struct {
	*records
	groups grouped
	ahead  *Item // read already, after the last message of a conversation
	rows   [][]byte
	group  string
	item   Item // of rows
}

func newChats(im *Importer, src *source) (reader, error) {
	groups, err := im.joins(src)
	if err != nil {
		return nil, err
	}
	src.late = len(groups.groups) > 0
	r, err := im.records(src, im.chats.Wants)
	return &chats{records: r, groups: groups}, err
}

func (r *chats) next() (Item, error) {
	if item := r.ahead; item != nil {
		r.ahead = nil
		return *item, nil
	}
	for {
		item, rec, members, err := r.nextOf(&r.groups)
		if errors.Is(err, io.EOF) && r.rows != nil {
			return r.flush(), nil
		}
		if err != nil {
			return item, err
		}
		if item.problem == nil && members == nil {
			if group, ok := r.im.chats.Group(rec.Data); ok {
				data := r.in.Keep(rec)
				if r.rows != nil && group == r.group {
					r.rows = append(r.rows, data)
					r.item.records++
					continue
				}
				before, full := Item{}, r.rows != nil
				if full {
					before = r.flush()
				}
				r.rows, r.group, r.item = [][]byte{data}, group, item
				if full {
					return before, nil
				}
				continue
			}
		}
		switch {
		case item.problem != nil:
		case members != nil:
			item.records = int64(len(members))
			item.work = func() (made, *problem) { return r.joined(item.where, members) }
		default:
			item.work = r.chat(item.where, r.in.Keep(rec))
		}
		if r.rows != nil {
			ready := item
			r.ahead = &ready
			return r.flush(), nil
		}
		return item, nil
	}
}

// flush ends a conversation of messages that are records of their own.
func (r *chats) flush() Item {
	item := r.item
	item.work = r.chat(item.where, r.rows...)
	r.rows = nil
	return item
}

// chat is the work of reading a conversation.
func (r *chats) chat(where Where, data ...[]byte) func() (made, *problem) {
	return func() (made, *problem) {
		c, err := r.im.chats.Read(data...)
		if err != nil {
			if errors.Is(err, chatshape.ErrNotText) {
				return made{}, &problem{reason: chatshape.ErrNotText.Error(), detail: err.Error()}
			}
			return made{}, badRecord("%v", err)
		}
		if c.ConversationID == "" {
			c.ConversationID = fmt.Sprintf("conversation-%d", where.Record)
		}
		notes := append(c.Notes, chatshape.Note{What: shapeNote + c.Shape})
		return made{rows: []schemas.Conversation{c.Conversation}, notes: notes}, nil
	}
}

// joined reads the parts of one conversation.
func (r *chats) joined(where Where, members []place) (made, *problem) {
	var parts [][]byte
	for i := range members {
		data, err := members[i].read(r.src.file)
		if err != nil {
			return made{}, fatal(err)
		}
		parts = append(parts, data)
	}
	m, p := r.chat(where, parts...)()
	if p == nil {
		if base, _, ok := splitID(m.rows[0].ConversationID); ok {
			m.rows[0].ConversationID = base
		}
	}
	return m, p
}
