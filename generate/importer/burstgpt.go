package importer

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"parley/generate/rawjson"
)

// burstReader reads BurstGPT. Rows of the same session are turns of one conversation; older files have no
// sessions, and each row is a conversation there. Sessions may run side by side, so the rows are held in
// memory (some 60 bytes each) until the file is at its end.
type burstReader struct {
	im     *Importer
	src    *source
	rows   []burstRow
	firsts []int32 // rows that begin a conversation, by their places
	models []string
	bad    []Item
	at     int
	start  float64 // s, of the first arrival
}

// burstRow is a row that is kept.
type burstRow struct {
	at, elapsed float64 // s
	in, out     int32
	model       int32
	row, line   int64
	next        int32 // the next row of its session, by its place
}

func newBurst(im *Importer, src *source) (reader, error) {
	r, err := im.records(src, nil)
	if err != nil {
		return nil, err
	}
	b := &burstReader{im: im, src: src}
	last := map[string]int32{}
	models := map[string]int32{}
	for {
		item, rec, err := r.record()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		row := cells(rec.Data)
		r := burstRow{row: rec.Number, line: rec.Line, next: -1}
		if item.problem == nil {
			item.problem = r.numbers(row)
		}
		if item.problem != nil {
			b.bad = append(b.bad, item)
			continue
		}
		model, _ := rawjson.Scalar(row["model"])
		kind, _ := rawjson.Scalar(row["logtype"])
		name := model + "\x00" + kind
		if _, known := models[name]; !known {
			models[name] = int32(len(b.models))
			b.models = append(b.models, name)
		}
		r.model = models[name]
		n := int32(len(b.rows))
		first := true
		if id, ok := rawjson.Scalar(row["sessionid"]); ok && id != "0" && !strings.EqualFold(id, "nan") {
			if before, ok := last[id]; ok {
				b.rows[before].next, first = n, false
			}
			last[id] = n
		}
		if b.start = min(b.start, r.at); len(b.rows) == 0 {
			b.start = r.at
		}
		b.rows = append(b.rows, r)
		if first {
			b.firsts = append(b.firsts, n)
		}
	}
}

func (r *burstRow) numbers(row row) *problem {
	var at, elapsed number
	if err := at.UnmarshalJSON(row["timestamp"]); err != nil || !at.given || at.v < -1e12 || at.v > 1e12 {
		return badRecord("the time stamp %q", clip(string(row["timestamp"])))
	}
	if err := elapsed.UnmarshalJSON(row["elapsedtime"]); err == nil && elapsed.v > 0 {
		r.elapsed = elapsed.v
	}
	in, out, p := row.lengths("requesttokens", "responsetokens")
	r.at, r.in, r.out = at.v, int32(in), int32(out)
	return p
}

func (b *burstReader) next() (Item, error) {
	if len(b.bad) > 0 && (b.at == len(b.firsts) || b.bad[0].where.Record < b.rows[b.firsts[b.at]].row) {
		item := b.bad[0]
		b.bad = b.bad[1:]
		return item, nil
	}
	if b.at == len(b.firsts) {
		return Item{}, io.EOF
	}
	r := &b.rows[b.firsts[b.at]]
	b.at++
	start := float64((r.at - b.start) * 1000)
	item := Item{where: b.src.where(rawjson.Record{Line: r.line, Number: r.row}), exact: true}
	tags := map[string]string{}
	model, kind, _ := strings.Cut(b.models[r.model], "\x00")
	if model != "" {
		tags["model"] = model
	}
	if kind != "" {
		tags["log_type"] = kind
	}
	var list []exchange
	for before := (*burstRow)(nil); ; r = &b.rows[r.next] {
		e := exchange{in: int(r.in), fresh: int(r.in), out: int(r.out), index: uint64(r.row)}
		if before != nil {
			history := list[len(list)-1].in + int(before.out)
			if e.in > history { // the prompt was counted with the history
				e.fresh = e.in - history
			} else {
				e.in += history
			}
			think := max(float64((r.at-before.at-before.elapsed)*1000), 0)
			e.think = &think
		}
		list = append(list, e)
		item.records++
		if before = r; r.next < 0 {
			break
		}
	}
	item.work = b.im.lengths(fmt.Sprintf("burstgpt-%d", item.where.Record), start, tags, list)
	return item, nil
}
