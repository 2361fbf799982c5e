package analyze

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/schemas"
)

// baseColumns are the columns that every analysis needs: who, when, how it ended.
var baseColumns = []string{
	"conversation_id", "instance", "turn", "phase", "stage", "status", "error_kind", "attempts", "stale_replays",
	"scheduled_ns", "ready_ns", "start_ns", "sent_ns", "first_token_ns", "last_token_ns", "done_ns",
	"prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "first_answer_ns", "bytes_received", "timing_note",
}

// frame is the columns of one run in memory, in the order of its files.
type frame struct {
	rows    int
	table   *schemas.Table
	names   []string
	status  []uint8 // index into schemas.Statuses
	main    []bool  // phase main
	turn    []int64 // turn index
	phase   []int32 // code of the phase
	moment  []int64 // when the turn was sent, or would have been: what windows go by; NullInt if it never came to that
	end     []int64 // when it ended; NullInt if it never began
	conv    []int32 // conversation instance, from 0
	convs   int
	convRow []int32 // a row of each conversation instance
	firsts  bool    // start_ns is that of the first attempt
	untrue  []bool  // the server told a number of tokens that cannot be true; such counts are taken as not known
	journal []schemas.JournalState
}

func (f *frame) ints(name string) []int64         { return f.table.Vector(name).Ints }
func (f *frame) floats(name string) []float64     { return f.table.Vector(name).Floats }
func (f *frame) has(name string) bool             { return slices.Contains(f.names, name) }
func (f *frame) strs(name string) *schemas.Vector { return f.table.Vector(name) }

// read brings the named columns of the run, and the base columns, into memory.
func (r *run) read(ctx context.Context, names []string) (*frame, error) {
	names = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(baseColumns), names...))))
	if r.frame != nil && !slices.ContainsFunc(names, func(n string) bool { return !r.frame.has(n) }) {
		return r.frame, nil
	}
	f := &frame{table: &schemas.Table{}, names: names, firsts: r.tellsAttempts()}
	for _, p := range r.parts {
		from := f.table.Rows
		if err := p.readColumns(ctx, f, names); err != nil {
			return nil, err
		}
		p.rows = f.table.Rows - from
		if p.shiftNS == 0 {
			continue
		}
		for _, name := range names {
			if isMoment(name) {
				shift(f.ints(name)[from:], p.shiftNS)
			}
		}
	}
	f.rows = f.table.Rows
	r.rows = f.rows
	if err := f.derive(); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.label, err)
	}
	r.frame = f
	return f, nil
}

func (p *part) readColumns(ctx context.Context, f *frame, names []string) error {
	if p.file != nil {
		return schemas.ReadColumns(ctx, p.file, f.table, names...)
	}
	if p.memory != nil {
		return f.table.AppendRows(p.memory, names...)
	}
	state, err := schemas.ReadJournal(p.path, func(rows []schemas.Request) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return f.table.AppendRows(rows, names...)
	})
	if err != nil {
		return err
	}
	if f.table.Rows == 0 { // a journal without one batch still has columns
		err = f.table.AppendRows(nil, names...)
	}
	f.journal = append(f.journal, state)
	return err
}

// isMoment says whether a column counts from the run's origin.
func isMoment(name string) bool {
	switch name {
	case "dns_ns", "connect_ns", "tls_ns", "in_flight_wait_ns":
		return false
	}
	return strings.HasSuffix(name, "_ns")
}

func shift(v []int64, by int64) {
	for i := range v {
		if v[i] != schemas.NullInt {
			v[i] += by
		}
	}
}

// derive works out what every later step goes by.
func (f *frame) derive() error {
	status, phase := f.strs("status"), f.strs("phase")
	statuses := make([]int, len(status.Values))
	for i, s := range status.Values {
		if statuses[i] = statusIndex(s); statuses[i] < 0 {
			return fmt.Errorf("a row has the status %q, which this parley does not know: use a newer one", s)
		}
	}
	f.status = make([]uint8, f.rows)
	f.turn, f.phase = f.ints("turn"), phase.Codes
	f.main = make([]bool, f.rows)
	f.moment = make([]int64, f.rows)
	f.end = make([]int64, f.rows)
	scheduled, ready, start, sent := f.ints("scheduled_ns"), f.ints("ready_ns"), f.ints("start_ns"), f.ints("sent_ns")
	first, last, done := f.ints("first_token_ns"), f.ints("last_token_ns"), f.ints("done_ns")
	for i := range f.rows {
		if status.Codes[i] < 0 {
			return fmt.Errorf("row %d has no status", i)
		}
		f.status[i] = uint8(statuses[status.Codes[i]])
		if f.turn[i] < 0 {
			return fmt.Errorf("row %d has no turn index", i)
		}
		if phase.Codes[i] < 0 { // the column was left out of rows that were written anew
			phase.SetMissing(schemas.PhaseMain)
		}
		f.main[i] = phase.Values[phase.Codes[i]] != schemas.PhaseWarmup
		f.moment[i] = known(sent[i], start[i], ready[i], scheduled[i])
		f.end[i] = known(done[i], last[i], first[i], sent[i], start[i])
	}
	f.disbelieve()
	f.cluster()
	return nil
}

// mostTokens is more than any model's context: the largest there are hold ten million.
const mostTokens = 100_000_000

// disbelieve takes token counts that cannot be true as not known, so that no figure rests on them: what is below 0
// or above what any model holds, and answers of more streamed tokens than bytes came of their response.
func (f *frame) disbelieve() {
	f.untrue = make([]bool, f.rows)
	rows, received, note := newTokenRows(f), f.ints("bytes_received"), f.strs("timing_note")
	tpot := f.table.Vector("tpot_ms")
	for _, name := range []string{"prompt_tokens", "cached_tokens", "reasoning_tokens"} {
		for row, n := range f.ints(name) {
			if n != schemas.NullInt && (n < 0 || n > mostTokens) {
				f.ints(name)[row] = schemas.NullInt
				f.untrue[row] = true
			}
		}
	}
	for row, n := range rows.completion {
		if n == schemas.NullInt {
			continue
		}
		// The bytes of a compressed response say little of what was in it, and old files may lack them.
		small := received[row] > 0 && n-rows.hidden(row) > received[row] && !(note.Codes[row] >= 0 && strings.Contains(note.Values[note.Codes[row]], "gzip"))
		if n < 0 || n > mostTokens || small {
			rows.completion[row] = schemas.NullInt
			f.untrue[row] = true
			if tpot != nil {
				tpot.Floats[row] = math.NaN()
			}
		}
	}
}

// known gives the first moment that came.
func known(moments ...int64) int64 {
	for _, m := range moments {
		if m != schemas.NullInt {
			return m
		}
	}
	return schemas.NullInt
}

// cluster numbers the conversation instances.
func (f *frame) cluster() {
	ids, instance := f.strs("conversation_id"), f.ints("instance")
	f.conv = make([]int32, f.rows)
	type key struct {
		id       int32
		instance int64
	}
	// Nearly all instances are 0: those go by the id's code alone.
	plain := make([]int32, len(ids.Values)+1)
	for i := range plain {
		plain[i] = -1
	}
	looped := map[key]int32{}
	for i := range f.rows {
		id := ids.Codes[i]
		var c int32
		if instance[i] == 0 {
			c = plain[id+1]
			if c < 0 {
				c = int32(f.convs)
				plain[id+1] = c
			}
		} else {
			var ok bool
			if c, ok = looped[key{id, instance[i]}]; !ok {
				c = int32(f.convs)
				looped[key{id, instance[i]}] = c
			}
		}
		if int(c) == f.convs {
			f.convs++
			f.convRow = append(f.convRow, int32(i))
		}
		f.conv[i] = c
	}
}

func (f *frame) failed(row int) bool {
	return schemas.Statuses[f.status[row]].Failed()
}

// readLists gives the chunk lists of all rows to each, with the index that the batch's first row has in
// the frame, and what to add to its moments.
func (r *run) readLists(ctx context.Context, each func(worker, first int, shiftNS int64, l *schemas.Lists) error) error {
	first := 0
	for _, p := range r.parts {
		if p.file != nil {
			err := schemas.ReadLists(ctx, p.file, func(worker int, l *schemas.Lists) error {
				return each(worker, first+l.First, p.shiftNS, l)
			})
			if err != nil {
				return err
			}
		} else if p.memory != nil {
			if err := each(0, first, p.shiftNS, schemas.ListsOf(p.memory, 0)); err != nil {
				return err
			}
		} else {
			at := first
			_, err := schemas.ReadJournal(p.path, func(rows []schemas.Request) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				// The run may still be writing: rows that came after the columns were read do not count.
				rows = rows[:min(len(rows), first+p.rows-at)]
				if len(rows) == 0 {
					return nil
				}
				err := each(0, at, p.shiftNS, schemas.ListsOf(rows, at-first))
				at += len(rows)
				return err
			})
			if err != nil {
				return err
			}
		}
		first += p.rows
	}
	return nil
}
