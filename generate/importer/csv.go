package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// table reads rows of a CSV file with a header.
type table struct {
	im   *Importer
	csv  *csv.Reader
	cols map[string]int
	row  int64
}

func newTable(im *Importer) (*table, error) {
	t := &table{im: im, csv: csv.NewReader(im.source.reader())}
	t.csv.FieldsPerRecord = -1
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if err != nil {
		return nil, fmt.Errorf("import: %s: the header: %w", im.source.name, err)
	}
	t.cols = csvColumns(strings.TrimPrefix(strings.Join(header, ","), "\ufeff"))
	return t, nil
}

// need gives the places of columns.
func (t *table) need(names ...string) ([]int, error) {
	var out []int
	var lost []string
	for _, n := range names {
		at, ok := t.cols[n]
		if !ok {
			lost = append(lost, n)
		}
		out = append(out, at)
	}
	if len(lost) > 0 {
		return nil, fmt.Errorf("import: %s has no column %s", t.im.source.name, strings.Join(lost, ", "))
	}
	return out, nil
}

// next gives the next row. A row that is no CSV is a problem; the error is io.EOF or the source's.
func (t *table) next() ([]string, Where, *problem, error) {
	row, err := t.csv.Read()
	var bad *csv.ParseError
	if err != nil && !errors.As(err, &bad) {
		return nil, Where{}, nil, err
	}
	t.row++
	line, _ := 0, 0
	if err == nil {
		line, _ = t.csv.FieldPos(0)
	} else {
		line = bad.StartLine
	}
	w := Where{File: t.im.source.name, Line: int64(line), Record: t.row, What: "row"}
	if err != nil {
		return nil, w, badRecord("%v", bad.Err), nil
	}
	return row, w, nil, nil
}

func cell(row []string, at int) string {
	if at >= len(row) {
		return ""
	}
	return strings.TrimSpace(row[at])
}

// tokenCell reads a number of tokens.
func tokenCell(row []string, at int, most int, what string) (int, *problem) {
	s := cell(row, at)
	f, err := strconv.ParseFloat(s, 64) // some files write 12.0
	if err != nil || f != math.Trunc(f) || f < 0 || f > float64(most) {
		return 0, badRecord("%s is %q", what, s)
	}
	return int(f), nil
}

// azure reads Azure's LLM inference traces: arrivals and lengths, without conversations. Each row is a
// conversation of one turn.
type azure struct {
	*table
	at    []int
	first time.Time
}

func newAzure(im *Importer) (reader, error) {
	t, err := newTable(im)
	if err != nil {
		return nil, err
	}
	at, err := t.need("timestamp", "contexttokens", "generatedtokens")
	return &azure{table: t, at: at}, err
}

// azureTimes are the forms of a time stamp: seven digits after the second in 2023, six and a zone in 2024.
// A fraction of any length is taken by the parser without being named.
var azureTimes = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339}

func (a *azure) next() (Item, error) {
	row, where, p, err := a.table.next()
	if err != nil {
		return Item{}, err
	}
	item := Item{where: where, records: 1, exact: true, problem: p}
	if p != nil {
		return item, nil
	}
	var at time.Time
	for _, form := range azureTimes {
		if at, err = time.Parse(form, cell(row, a.at[0])); err == nil {
			break
		}
	}
	if err != nil {
		item.problem = badRecord("the time stamp %q", cell(row, a.at[0]))
		return item, nil
	}
	in, p := tokenCell(row, a.at[1], maxPromptTokens, "ContextTokens")
	out, p2 := tokenCell(row, a.at[2], maxOutputTokens, "GeneratedTokens")
	switch {
	case p != nil, p2 != nil:
		if item.problem = p; p == nil {
			item.problem = p2
		}
		return item, nil
	case in == 0:
		item.problem = because("no prompt tokens")
		return item, nil
	case out == 0:
		item.problem = because("no answer tokens: a failed request")
		return item, nil
	}
	if a.first.IsZero() {
		a.first = at
	}
	start := float64(at.Sub(a.first).Nanoseconds()) / 1e6
	if start < 0 {
		a.im.report.note("arrivals before that of the first row, moved to the start", 1)
		start = 0
	}
	item.work = a.im.lengths(fmt.Sprintf("azure-%d", where.Record), start, nil, []exchange{{in: in, fresh: in, out: out, index: uint64(where.Record)}})
	return item, nil
}

// exchange is a turn of a trace that records lengths only.
type exchange struct {
	in, fresh, out int
	index          uint64 // makes its text unique
	think          *float64
}

// lengths is the work of making a conversation of lengths.
func (im *Importer) lengths(id string, start float64, tags map[string]string, list []exchange) func() ([]schemas.Conversation, *problem) {
	return func() ([]schemas.Conversation, *problem) {
		if tags == nil {
			tags = map[string]string{}
		}
		c := schemas.Conversation{ConversationID: id, StartOffsetMS: &start, Tags: tags}
		for i, e := range list {
			text, err := im.blocks.unique(2*e.index, e.fresh)
			if err != nil {
				return nil, fatal(err)
			}
			c.Messages = append(c.Messages, schemas.Message{Role: "user", Content: &text})
			prompt, fresh, out, known := int64(e.in), int64(e.fresh), int64(e.out), int64(e.in-e.fresh)
			c.Turns = append(c.Turns, schemas.Turn{MessageIndex: int64(len(c.Messages)), NewTokens: &fresh, PromptTokens: &prompt,
				OutputTokens: &out, ThinkTimeMS: e.think, ExpectedCachedTokens: &known})
			if i < len(list)-1 {
				answer, err := im.blocks.unique(2*e.index+1, e.out)
				if err != nil {
					return nil, fatal(err)
				}
				c.Messages = append(c.Messages, schemas.Message{Role: "assistant", Content: &answer})
			}
		}
		return []schemas.Conversation{c}, nil
	}
}

// burstReader reads BurstGPT. Rows of the same session are turns of one conversation; older files have no
// sessions, and each row is a conversation there. Sessions may run side by side, so the rows are held in
// memory (some 60 bytes each) until the file is at its end.
type burstReader struct {
	im     *Importer
	rows   []burstRow
	firsts []int32 // rows that begin a conversation, by their places
	models []string
	bad    []Item
	at     int
}

// burstRow is a row that is kept.
type burstRow struct {
	at, elapsed float64 // s
	in, out     int32
	model       int32
	row, line   int64
	next        int32 // the next row of its session, by its place
}

func newBurst(im *Importer) (reader, error) {
	t, err := newTable(im)
	if err != nil {
		return nil, err
	}
	at, err := t.need("timestamp", "requesttokens", "responsetokens")
	if err != nil {
		return nil, err
	}
	session, hasSession := t.cols["sessionid"]
	elapsed, hasElapsed := t.cols["elapsedtime"]
	model, hasModel := t.cols["model"]
	kind, hasKind := t.cols["logtype"]

	b := &burstReader{im: im}
	last := map[string]int32{}
	models := map[string]int32{}
	for {
		row, where, p, err := t.next()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, fmt.Errorf("import: %s: %w", im.source.name, err)
		}
		r := burstRow{row: where.Record, line: where.Line, next: -1}
		if p == nil {
			r.in, r.out, r.at, p = burstNumbers(row, at)
		}
		if p != nil {
			b.bad = append(b.bad, Item{where: where, records: 1, problem: p})
			continue
		}
		if hasElapsed {
			if v, err := strconv.ParseFloat(cell(row, elapsed), 64); err == nil && v > 0 {
				r.elapsed = v
			}
		}
		name := ""
		if hasModel {
			name = strings.Clone(cell(row, model))
		}
		if hasKind {
			name += "\x00" + strings.Clone(cell(row, kind))
		}
		if _, known := models[name]; !known {
			models[name] = int32(len(b.models))
			b.models = append(b.models, name)
		}
		r.model = models[name]
		n := int32(len(b.rows))
		first := true
		if hasSession {
			if id := strings.Clone(cell(row, session)); id != "" && id != "0" && !strings.EqualFold(id, "nan") {
				if before, ok := last[id]; ok {
					b.rows[before].next, first = n, false
				}
				last[id] = n
			}
		}
		b.rows = append(b.rows, r)
		if first {
			b.firsts = append(b.firsts, n)
		}
	}
}

func burstNumbers(row []string, at []int) (in, out int32, when float64, p *problem) {
	when, err := strconv.ParseFloat(cell(row, at[0]), 64)
	if err != nil || math.IsNaN(when) || math.Abs(when) > 1e12 {
		return 0, 0, 0, badRecord("the time stamp %q", cell(row, at[0]))
	}
	i, p := tokenCell(row, at[1], maxPromptTokens, "Request tokens")
	if p != nil {
		return 0, 0, 0, p
	}
	o, p := tokenCell(row, at[2], maxOutputTokens, "Response tokens")
	switch {
	case p != nil:
		return 0, 0, 0, p
	case o == 0:
		return 0, 0, 0, because("no answer tokens: a failed request")
	case i == 0:
		return 0, 0, 0, because("no prompt tokens")
	}
	return int32(i), int32(o), when, nil
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
	start := (r.at - b.rows[0].at) * 1000
	item := Item{where: Where{File: b.im.source.name, Line: r.line, Record: r.row, What: "row"}, exact: true}
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
			think := max((r.at-before.at-before.elapsed)*1000, 0)
			e.think = &think
		}
		list = append(list, e)
		item.records++
		if before = r; r.next < 0 {
			break
		}
	}
	item.work = b.im.lengths(fmt.Sprintf("burstgpt-%d", item.where.Record), max(start, 0), tags, list)
	return item, nil
}
