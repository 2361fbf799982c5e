package analyze

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"parley/schemas"
)

// baseColumns are the columns that every analysis needs: who, when, how it ended.
var baseColumns = []string{
	"conversation_id", "instance", "turn", "phase", "stage", "status", "error_kind", "attempts", "stale_replays",
	"scheduled_ns", "ready_ns", "start_ns", "sent_ns", "first_token_ns", "last_token_ns", "done_ns",
	"prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "first_answer_ns", "bytes_received", "timing_note",
}

// frame is the rows of one run, in the order of its files: what every step goes by, worked out once, and the columns
// that were last asked for.
type frame struct {
	rows    int
	status  []uint8 // index into schemas.Statuses
	main    []bool  // phase main
	turn    []int32 // turn index
	moment  []int64 // when the turn was sent, or would have been: what windows go by; NullInt if it never came to that
	end     []int64 // when it ended; NullInt if it never began
	conv    []int32 // conversation instance, from 0
	convs   int
	firsts  bool    // start_ns is that of the first attempt
	untrue  []int32 // rows whose server told a number of tokens that cannot be true; such counts are taken as not known
	cut     []int32 // of them, those of whose answer's tokens that is so
	judged  bool    // both are known
	leftOut []int32 // rows whose server left out a count of cached tokens that was 0: see settleCaches
	zeros   []int32 // rows whose server tells 0 cached tokens whatever came from its cache
	unseen  []int32 // reasoning tokens of each turn that were counted and not streamed; nil: there are none
	journal []schemas.JournalState

	ctx   context.Context
	parts []*part
	mu    sync.Mutex
	held  []*schemas.Vector // columns in memory, the one used longest ago first
	err   error             // of the first column that could not be read anew
}

// columnMemory is how many bytes of columns stay in memory. Those of a run that has more are read anew when they are
// needed again, so that memory does not grow with the number of columns.
var columnMemory = 384 << 20

func (f *frame) ints(name string) []int64         { return f.column(name).Ints }
func (f *frame) floats(name string) []float64     { return f.column(name).Floats }
func (f *frame) strs(name string) *schemas.Vector { return f.column(name) }

// column gives a column, which is read if it is not in memory. The caller may keep it; it does not change. Where
// reading fails, every row is null, and err says why.
func (f *frame) column(name string) *schemas.Vector {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.held, func(v *schemas.Vector) bool { return v.Name == name }); i >= 0 {
		v := f.held[i]
		f.held = append(slices.Delete(f.held, i, i+1), v)
		return v
	}
	if err := f.load(name); err != nil {
		f.err = errors.Join(f.err, err)
		f.hold(schemas.Nulls(name, f.rows))
	}
	return f.held[len(f.held)-1]
}

// load reads columns.
func (f *frame) load(names ...string) error {
	t := &schemas.Table{}
	for _, p := range f.parts {
		from := t.Rows
		if err := p.readColumns(f.ctx, f, t, names); err != nil {
			return err
		}
		if p.rows = t.Rows - from; p.shiftNS == 0 {
			continue
		}
		for _, name := range names {
			if isMoment(name) {
				shift(t.Vector(name).Ints[from:], p.shiftNS)
			}
		}
	}
	f.rows = t.Rows
	for _, name := range names {
		v := t.Vector(name)
		if name == "phase" { // the column was left out of rows that were written anew
			v.SetMissing(schemas.PhaseMain)
		}
		v.Seal()
		f.takeOut(v)
		f.hold(v)
	}
	return nil
}

// hold keeps a column, and lets go of others where there are too many.
func (f *frame) hold(v *schemas.Vector) {
	f.held = append(f.held, v)
	size := 0
	for i := len(f.held) - 1; i >= 0; i-- {
		if size += f.held[i].Size(); size > columnMemory && i < len(f.held)-1 {
			f.held = slices.Delete(f.held, 0, i+1)
			return
		}
	}
}

// read works out the frame of the run, if that was not done yet, and reads the columns that will be needed first, all
// at once where they fit in memory.
func (r *run) read(ctx context.Context, names []string) (*frame, error) {
	if r.frame != nil {
		r.frame.ctx = ctx
		return r.frame, r.frame.err
	}
	f := &frame{firsts: r.tellsAttempts(), ctx: ctx, parts: r.parts}
	rows, inFiles := 0, true
	for _, p := range r.parts {
		rows += p.rows
		inFiles = inFiles && p.file != nil
	}
	if !inFiles {
		names = append(names, "parent_id", "tool_time_ms") // a journal is not read twice for them
	}
	names = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(baseColumns), names...))))
	if !inFiles || 8*rows*len(names) <= columnMemory {
		if err := f.load(names...); err != nil {
			return nil, err
		}
	}
	err := f.derive()
	if f.err != nil {
		return nil, f.err
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.label, err)
	}
	r.rows, r.frame = f.rows, f
	return f, nil
}

func (p *part) readColumns(ctx context.Context, f *frame, t *schemas.Table, names []string) error {
	if p.file != nil {
		return schemas.ReadColumns(ctx, p.file, t, names...)
	}
	if p.memory != nil {
		return t.AppendRows(p.memory, names...)
	}
	again := f.turn != nil // rows that came after the first reading do not count: the run may still be writing
	from := t.Rows
	state, err := schemas.ReadJournal(p.path, func(rows []schemas.Request) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if again {
			rows = rows[:min(len(rows), from+p.rows-t.Rows)]
		}
		return t.AppendRows(rows, names...)
	})
	if err != nil {
		return err
	}
	if t.Rows == 0 { // a journal without one batch still has columns
		err = t.AppendRows(nil, names...)
	}
	if !again {
		f.journal = append(f.journal, state)
	}
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

// derive works out what every later step goes by, a column at a time.
func (f *frame) derive() error {
	status := f.strs("status")
	statuses := make([]uint8, len(status.Values))
	for i, s := range status.Values {
		at := statusIndex(s)
		if at < 0 {
			return fmt.Errorf("a row has the status %q, which this parley does not know: use a newer one", s)
		}
		statuses[i] = uint8(at)
	}
	f.status = make([]uint8, f.rows)
	for row, code := range status.Codes {
		if code < 0 {
			return fmt.Errorf("row %d has no status", row)
		}
		f.status[row] = statuses[code]
	}
	turn := make([]int32, f.rows)
	for row, t := range f.ints("turn") {
		if t < 0 || t > math.MaxInt32 {
			return fmt.Errorf("row %d has no turn index", row)
		}
		turn[row] = int32(t)
	}
	f.turn = turn
	phase := f.strs("phase")
	f.main = make([]bool, f.rows)
	for row, code := range phase.Codes {
		f.main[row] = phase.Values[code] != schemas.PhaseWarmup
	}
	f.moment = f.firstOf("sent_ns", "start_ns", "ready_ns", "scheduled_ns")
	f.end = f.firstOf("done_ns", "last_token_ns", "first_token_ns", "sent_ns", "start_ns")
	f.disbelieve()
	f.settleCaches()
	f.cluster()
	return nil
}

// firstOf gives, for each row, the first of some moments that came.
func (f *frame) firstOf(names ...string) []int64 {
	out := slices.Clone(f.ints(names[0]))
	for _, name := range names[1:] {
		if !slices.Contains(out, schemas.NullInt) {
			break
		}
		other := f.ints(name)
		for row, m := range out {
			if m == schemas.NullInt {
				out[row] = other[row]
			}
		}
	}
	return out
}

// mostTokens is more than any model's context: the largest there are hold ten million.
const mostTokens = 100_000_000

// believable says whether a number of tokens can be true, or is not known.
func believable(n int64) bool { return n == schemas.NullInt || n >= 0 && n <= mostTokens }

// disbelieve finds the token counts that cannot be true: what is below 0 or above what any model holds, and answers of
// more streamed tokens than bytes came of their response. Columns come without them, so that no figure rests on
// them.
func (f *frame) disbelieve() {
	reasoning, first, answer := f.ints("reasoning_tokens"), f.ints("first_token_ns"), f.ints("first_answer_ns")
	for row, n := range reasoning {
		if n > 0 && first[row] != schemas.NullInt && first[row] == answer[row] {
			if f.unseen == nil {
				f.unseen = make([]int32, f.rows)
			}
			f.unseen[row] = int32(n)
		}
	}
	received, note := f.ints("bytes_received"), f.strs("timing_note")
	for row, n := range f.ints("completion_tokens") {
		if n == schemas.NullInt {
			continue
		}
		// The bytes of a compressed response say little of what was in it, and old files may lack them.
		small := received[row] > 0 && n-f.hidden(row) > received[row] && !(note.Codes[row] >= 0 && strings.Contains(note.Values[note.Codes[row]], "gzip"))
		if !believable(n) || small {
			f.cut = append(f.cut, int32(row))
		}
	}
	for _, v := range f.held {
		f.takeOut(v)
	}
	for _, name := range []string{"prompt_tokens", "cached_tokens"} {
		f.ints(name) // if they were not read yet
	}
	f.untrue = slices.Compact(slices.Sorted(slices.Values(append(f.untrue, f.cut...))))
	f.judged = true
}

// takeOut makes the counts of a column that cannot be true unknown.
func (f *frame) takeOut(v *schemas.Vector) {
	switch v.Name {
	case "prompt_tokens", "cached_tokens", "reasoning_tokens":
		for row, n := range v.Ints {
			if !believable(n) {
				v.Ints[row] = schemas.NullInt
				if !f.judged {
					f.untrue = append(f.untrue, int32(row))
				}
			}
		}
		if v.Name == "cached_tokens" {
			for _, row := range f.leftOut {
				v.Ints[row] = 0
			}
			for _, row := range f.zeros {
				v.Ints[row] = schemas.NullInt
			}
		}
	case "completion_tokens":
		for _, row := range f.cut {
			v.Ints[row] = schemas.NullInt
		}
	case "tpot_ms":
		for _, row := range f.cut {
			v.Floats[row] = math.NaN()
		}
	}
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
