package analyze

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"parley/analyze/stat"
	"parley/schemas"
)

// Kinds of window.
const (
	WindowAll    = "all"
	WindowSteady = "steady"
	WindowTime   = "time"
	WindowTurns  = "turns"
)

// WindowSpec says which part of a run figures cover. The zero value is steady.
type WindowSpec struct {
	Kind      string
	From, To  time.Duration // of time, from the run's origin; To 0 is the end
	FirstTurn int64         // of turns
	LastTurn  int64         // exclusive; 0 is no bound
}

// ParseWindow reads a window: all, steady, FROM:TO (durations from the run's start, either may be left
// out), turns (every turn but each conversation's first) or turns=A:B (turn indexes, B exclusive).
func ParseWindow(s string) (WindowSpec, error) {
	switch s {
	case "", WindowSteady:
		return WindowSpec{Kind: WindowSteady}, nil
	case WindowAll:
		return WindowSpec{Kind: WindowAll}, nil
	case WindowTurns:
		return WindowSpec{Kind: WindowTurns, FirstTurn: 1}, nil
	}
	if turns, ok := strings.CutPrefix(s, "turns="); ok {
		return parseTurns(s, turns)
	}
	a, b, ok := strings.Cut(s, ":")
	if !ok {
		return WindowSpec{}, fmt.Errorf("window %q: give all, steady, turns, turns=A:B or FROM:TO with durations, such as 10s:5m", s)
	}
	w := WindowSpec{Kind: WindowTime}
	var err error
	if a != "" {
		if w.From, err = time.ParseDuration(a); err != nil || w.From < 0 {
			return WindowSpec{}, fmt.Errorf("window %q: %q is no duration such as 10s", s, a)
		}
	}
	if b != "" {
		if w.To, err = time.ParseDuration(b); err != nil || w.To <= w.From {
			return WindowSpec{}, fmt.Errorf("window %q: %q is no duration after %s", s, b, w.From)
		}
	}
	return w, nil
}

func parseTurns(s, turns string) (WindowSpec, error) {
	a, b, ok := strings.Cut(turns, ":")
	w := WindowSpec{Kind: WindowTurns}
	var err error
	if a != "" {
		if w.FirstTurn, err = strconv.ParseInt(a, 10, 64); err != nil || w.FirstTurn < 0 {
			return WindowSpec{}, fmt.Errorf("window %q: %q is no turn index", s, a)
		}
	}
	switch {
	case !ok:
		w.LastTurn = w.FirstTurn + 1
	case b != "":
		if w.LastTurn, err = strconv.ParseInt(b, 10, 64); err != nil || w.LastTurn <= w.FirstTurn {
			return WindowSpec{}, fmt.Errorf("window %q: %q is no turn index after %d; the end is exclusive: turns=%d:%d is turn %d alone", s, b, w.FirstTurn, w.FirstTurn, w.FirstTurn+1, w.FirstTurn)
		}
	}
	if !ok && w.FirstTurn == math.MaxInt64 {
		return WindowSpec{}, fmt.Errorf("window %q: no conversation has so many turns", s)
	}
	return w, nil
}

// span is a stretch of time, [from, to), in nanoseconds from the run's origin.
type span struct {
	from, to int64
	stage    int64 // of the load: only its turns belong; anyStage for every turn
}

const anyStage = -1

// window is a part of a run: turns belong to it by the moment at which they were sent, tokens by their
// arrival, requests by their end. What rates count and the time that they divide by cover the same spans.
type window struct {
	spans    []span  // disjoint, in order of time
	from, to int64   // from the first to the last
	first    int64   // turns [first, last)
	last     int64   //
	turns    bool    // some turns of each conversation only: their tokens, over the time that they took
	all      bool    // rows that never came to be sent belong too
	stage    []int64 // the rows' stages; nil without stages
	drift    drift   // of kind steady
	result   Window
}

// holds says whether a turn belongs to the window: whether it was sent in it.
func (w *window) holds(f *frame, row int) bool {
	if t := int64(f.turn[row]); t < w.first || t >= w.last {
		return false
	}
	m := f.moment[row]
	if m == schemas.NullInt {
		return w.all
	}
	s := w.at(m)
	return s >= 0 && (w.spans[s].stage == anyStage || w.spans[s].stage == w.stage[row])
}

// at gives the index of the span that a moment lies in, or -1.
func (w *window) at(m int64) int {
	if m < w.from || m >= w.to {
		return -1
	}
	i := 0
	if len(w.spans) > 1 {
		i = sort.Search(len(w.spans), func(i int) bool { return w.spans[i].to > m })
		if m < w.spans[i].from {
			return -1
		}
	}
	return i
}

// during says whether something that happened at a moment happened in the window.
func (w *window) during(m int64) bool { return w.at(m) >= 0 }

// rates says whether what a row's turn did counts in rates, if it did it in the window: that of every turn,
// warm-up's too (the server did it in that time), unless the window is of some turns only.
func (w *window) rates(f *frame, row int) bool {
	return !w.turns || f.main[row] && int64(f.turn[row]) >= w.first && int64(f.turn[row]) < w.last
}

// ended says whether a turn ended in the window, for rates.
func (w *window) ended(f *frame, row int) bool {
	return w.rates(f, row) && f.end[row] != schemas.NullInt && w.during(f.end[row])
}

// length is the time that rates divide by, in nanoseconds.
func (w *window) length() int64 {
	var sum int64
	for _, s := range w.spans {
		sum += s.to - s.from
	}
	return sum
}

// overlap gives how much of [from, to) lies in the window, piece by piece.
func (w *window) overlap(from, to int64, each func(from, to int64)) {
	i := 0
	if len(w.spans) > 1 {
		i = sort.Search(len(w.spans), func(i int) bool { return w.spans[i].to > from })
	}
	for ; i < len(w.spans) && w.spans[i].from < to; i++ {
		if a, b := max(from, w.spans[i].from), min(to, w.spans[i].to); a < b {
			each(a, b)
		}
	}
}

// findWindow turns a specification into a part of this run.
// It is an error if the run has no part of it.
func findWindow(r *run, f *frame, spec WindowSpec) (window, []Warning, error) {
	first, last, held := f.extent(r)
	w := window{last: math.MaxInt64, all: true}
	w.spans = []span{{first, last + 1, anyStage}}
	w.result.Kind = spec.Kind
	var warnings []Warning
	switch spec.Kind {
	case WindowAll:
		w.result.How = "from the first send to the end of the last turn"
		if held {
			w.result.How = "from the first send to the run's stop, when conversations were still at work"
		}
	case WindowTurns:
		w.turns, w.first = true, spec.FirstTurn
		which := fmt.Sprintf("turns from index %d on", spec.FirstTurn)
		if spec.LastTurn > 0 {
			w.last = spec.LastTurn
			which = fmt.Sprintf("turns %d to %d", spec.FirstTurn, spec.LastTurn-1)
		}
		w.spans = f.underWay(&w)
		w.result.How = which + " of each conversation, over the time in which at least one of them was under way"
		w.result.FirstTurn, w.result.LastTurn = spec.FirstTurn, spec.LastTurn
	case WindowTime:
		w.all = false
		s := &w.spans[0]
		s.from = int64(spec.From)
		if spec.To > 0 {
			s.to = int64(spec.To)
		}
		w.result.How = "as asked"
		if s.from > last || s.to <= first {
			asked := spanText(s.from, s.to)
			if spec.To == 0 {
				asked = "from " + seconds(s.from) + " on"
			}
			return w, nil, fmt.Errorf("run %s: the window %s lies outside of the run, which has turns from %s to %s: choose a --window within it", r.label, asked, seconds(first), seconds(last))
		} else if s.to > last+1 {
			w.result.How = fmt.Sprintf("%s to %s, where the run ended; asked for until %s", seconds(s.from), seconds(last), seconds(s.to))
			warnings = append(warnings, Warning{"window_end", fmt.Sprintf("the run ended at %s, before the end of the window that was asked for (%s): the window ends there", seconds(last), seconds(s.to))})
			s.to = last + 1
		}
	default:
		warnings = f.steadyWindow(r, &w)
	}
	w.cutGaps(r.meta.Sessions, f, last)
	w.from, w.to = w.spans[0].from, w.spans[len(w.spans)-1].to
	w.result.From, w.result.To = Num(float64(w.from)/1e9), Num(float64(w.to)/1e9)
	w.result.Seconds = Num(float64(w.length()) / 1e9)
	for row := range f.rows {
		if !f.main[row] || f.end[row] == schemas.NullInt || w.holds(f, row) {
			continue
		}
		from, to := w.from, w.to
		if w.stage != nil {
			if i := slices.IndexFunc(w.spans, func(s span) bool { return s.stage == w.stage[row] }); i >= 0 {
				from, to = w.spans[i].from, w.spans[i].to
			}
		}
		switch m := f.moment[row]; {
		case m < from:
			w.result.Before++
		case m >= to:
			w.result.After++
		default:
			w.result.Other++
		}
	}
	return w, warnings, nil
}

// cutGaps takes the times out of the window in which an interrupted run was not under load, before it was resumed.
// A steady window, and that of each stage, is of one session, the one that it has most time of: the load begins anew
// after a gap.
func (w *window) cutGaps(sessions []schemas.Session, f *frame, last int64) {
	if len(sessions) < 2 {
		return
	}
	ends := make([]int64, len(sessions)) // of each session: the last moment that a row of it tells
	for row := range f.rows {
		if m := f.moment[row]; m != schemas.NullInt && f.end[row] != schemas.NullInt {
			i := sort.Search(len(sessions), func(i int) bool { return sessions[i].StartNS > m }) - 1
			ends[max(i, 0)] = max(ends[max(i, 0)], f.end[row]+1)
		}
	}
	ends[len(ends)-1] = max(ends[len(ends)-1], last+1) // the run may have lasted longer than its turns
	var pieces []span
	for _, s := range w.spans {
		for i, session := range sessions {
			if a, b := max(s.from, session.StartNS), min(s.to, ends[i]); a < b {
				pieces = append(pieces, span{a, b, s.stage})
			}
		}
	}
	var kept int64
	for _, p := range pieces {
		kept += p.to - p.from
	}
	if kept == 0 || kept == w.length() {
		return // outside of the run, or within one session
	}
	if w.result.Kind != WindowSteady {
		w.spans = pieces
		w.result.How += ", without the gaps before the run was resumed"
		return
	}
	w.spans = w.spans[:0] // of each stage, or of the run without stages
	for i, p := range pieces {
		last := len(w.spans) - 1
		switch {
		case i == 0 || p.stage != pieces[i-1].stage:
			w.spans = append(w.spans, p)
		case p.to-p.from > w.spans[last].to-w.spans[last].from:
			w.spans[last] = p
		}
	}
	w.result.How += "; the longest of its parts, since the run was interrupted and resumed"
}

func seconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e9, 'f', 1, 64) + " s" }

func spanText(from, to int64) string { return seconds(from) + " to " + seconds(to) }

// extent gives the first send and the last end of the main phase, or of all phases if it has none. A run that was
// stopped while conversations held their places lasts until then (held): their thinking was part of the load.
func (f *frame) extent(r *run) (first, last int64, held bool) {
	for _, all := range []bool{false, true} {
		first, last = math.MaxInt64, math.MinInt64
		for i := range f.rows {
			if f.end[i] == schemas.NullInt || !f.main[i] && !all {
				continue
			}
			first = min(first, f.moment[i])
			last = max(last, f.end[i])
		}
		if first > last {
			continue
		}
		if stop := r.meta.StopNS; stop != nil && *stop > last+1 && f.atWork() {
			return first, *stop - 1, true
		}
		return first, last, false
	}
	return 0, -1, false
}

// atWork says whether a conversation that had begun still had turns when the run ended.
func (f *frame) atWork() bool {
	begun := make([]bool, f.convs)
	for row := range f.rows {
		begun[f.conv[row]] = begun[f.conv[row]] || f.end[row] != schemas.NullInt
	}
	for row := range f.rows {
		if begun[f.conv[row]] && f.waiting(row) {
			return true
		}
	}
	return false
}

// waiting says whether a turn was still to come in its conversation when the run stopped.
func (f *frame) waiting(row int) bool {
	kinds := f.strs("error_kind")
	k := kinds.Codes[row]
	return schemas.Statuses[f.status[row]] == schemas.StatusNotReached && f.turn[row] > 0 && (k < 0 || kinds.Values[k] != "conversation_failed")
}

// underWay gives the spans in which at least one of a window's turns was under way, from its sending to
// its end, that moment included.
func (f *frame) underWay(w *window) []span {
	sent := f.ints("sent_ns")
	var starts, ends []int64
	for row := range f.rows {
		if sent[row] != schemas.NullInt && w.rates(f, row) && f.end[row] >= sent[row] {
			starts = append(starts, sent[row])
			ends = append(ends, f.end[row]+1)
		}
	}
	var spans []span
	open := int64(0)
	for _, s := range stat.Levels(starts, ends) {
		if s.Level > 0 && open == 0 {
			spans = append(spans, span{from: s.At, stage: anyStage})
		} else if s.Level == 0 && open > 0 {
			spans[len(spans)-1].to = s.At
		}
		open = s.Level
	}
	if len(spans) == 0 {
		return []span{{0, 0, anyStage}}
	}
	return spans
}
