package analyze

import (
	"fmt"
	"math"
	"slices"
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
			return WindowSpec{}, fmt.Errorf("window %q: %q is no turn index after %d", s, b, w.FirstTurn)
		}
	}
	if !ok && w.FirstTurn == math.MaxInt64 {
		return WindowSpec{}, fmt.Errorf("window %q: no conversation has so many turns", s)
	}
	return w, nil
}

// window is a part of a run in nanoseconds.
type window struct {
	from, to int64 // [from, to)
	first    int64 // turns [first, last)
	last     int64
	all      bool // rows that never came to be sent belong too
	result   Window
}

// holds says whether a turn belongs to the window: whether it was sent in it.
func (w *window) holds(f *frame, turn []int64, row int) bool {
	if turn[row] < w.first || turn[row] >= w.last {
		return false
	}
	m := f.moment[row]
	if m == schemas.NullInt {
		return w.all
	}
	return m >= w.from && m < w.to
}

// holdsEnd says whether a turn ended in the window, for rates.
func (w *window) holdsEnd(f *frame, turn []int64, row int) bool {
	e := f.end[row]
	return e != schemas.NullInt && turn[row] >= w.first && turn[row] < w.last && e >= w.from && e < w.to
}

// findWindow turns a specification into a part of this run.
func findWindow(r *run, f *frame, spec WindowSpec) (window, []Warning) {
	first, last := f.extent()
	w := window{from: first, to: last + 1, first: 0, last: math.MaxInt64, all: true}
	w.result.Kind = spec.Kind
	var warnings []Warning
	switch spec.Kind {
	case WindowAll:
		w.result.How = "from the first send to the end of the last turn"
	case WindowTurns:
		w.first = spec.FirstTurn
		if spec.LastTurn > 0 {
			w.last = spec.LastTurn
			w.result.How = fmt.Sprintf("turns %d to %d of each conversation, over the whole run", spec.FirstTurn, spec.LastTurn-1)
		} else {
			w.result.How = fmt.Sprintf("turns from index %d on, over the whole run", spec.FirstTurn)
		}
		w.result.FirstTurn, w.result.LastTurn = spec.FirstTurn, spec.LastTurn
	case WindowTime:
		w.all = false
		w.from = int64(spec.From)
		if spec.To > 0 {
			w.to = int64(spec.To)
		}
		w.result.How = "as asked"
		if w.from > last || w.to <= first {
			warnings = append(warnings, Warning{"empty_window", fmt.Sprintf("the window %s lies outside of the run, which has turns from %s to %s",
				spanText(w.from, w.to), seconds(first), seconds(last))})
		} else if w.to > last+1 {
			warnings = append(warnings, Warning{"window_end", fmt.Sprintf("the window ends %s after the run's last turn: rates count that time too", seconds(w.to-last))})
		}
	default:
		from, to, how, ok := steady(f)
		w.result.Steady, w.result.How = ok, how
		if ok {
			w.from, w.to, w.all = from, to, false
		} else {
			warnings = append(warnings, Warning{"no_steady_window", how})
		}
	}
	w.result.From, w.result.To = Num(float64(w.from)/1e9), Num(float64(w.to)/1e9)
	w.result.Seconds = Num(float64(w.to-w.from) / 1e9)
	return w, warnings
}

func seconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e9, 'f', 1, 64) + " s" }

func spanText(from, to int64) string { return seconds(from) + " to " + seconds(to) }

// extent gives the first send and the last end.
func (f *frame) extent() (first, last int64) {
	first, last = math.MaxInt64, math.MinInt64
	for i := range f.rows {
		if f.end[i] == schemas.NullInt {
			continue
		}
		first = min(first, f.moment[i])
		last = max(last, f.end[i])
	}
	if first > last {
		return 0, 0
	}
	return first, last
}

const (
	steadyLevel = 0.9 // of the level: at and above it, load counts as full
	steadyShare = 0.3 // a steady stretch shorter than this share of the run is none
)

// steady finds the stretch between ramp-up and drain: from the first moment to the last at which at least
// nine tenths of the usual number of conversations were active, thinking included. The usual number is
// the upper quartile over time, which a long drain or ramp does not move.
func steady(f *frame) (from, to int64, how string, ok bool) {
	steps := f.activeSteps()
	if len(steps) < 2 {
		return 0, 0, "no conversation ran: the whole run is used", false
	}
	level := timeQuantile(steps, 0.75)
	if level < 1 {
		level = 1
	}
	limit := steadyLevel * level
	from, to = math.MaxInt64, math.MinInt64
	for i, s := range steps[:len(steps)-1] {
		if float64(s.level) >= limit {
			from = min(from, s.at)
			to = max(to, steps[i+1].at)
		}
	}
	begin, end := steps[0].at, steps[len(steps)-1].at
	if from >= to || float64(to-from) < steadyShare*float64(end-begin) {
		return 0, 0, fmt.Sprintf("no steady stretch: at least %.0f conversations at once were active only from %s of %s on; the whole run is used",
			math.Ceil(limit), spanText(from, to), seconds(end-begin)), false
	}
	how = fmt.Sprintf("from %s to %s of %s: the first and last moment with at least %.0f conversations active (90 %% of the usual %.0f)",
		seconds(from), seconds(to), seconds(end), math.Ceil(limit), level)
	return from, to, how, true
}

// step is a level that holds from a moment to the next step.
type step struct {
	at    int64
	level int64
}

// activeSteps gives the number of active conversations over time: one is active from its first turn's
// moment to its last turn's end.
func (f *frame) activeSteps() []step {
	begin, end := f.conversationSpans()
	var starts, ends []int64
	for c := range begin {
		if end[c] > begin[c] {
			starts = append(starts, begin[c])
			ends = append(ends, end[c])
		}
	}
	return levels(starts, ends)
}

// conversationSpans gives the first send and last end of each conversation instance.
func (f *frame) conversationSpans() (begin, end []int64) {
	begin, end = make([]int64, f.convs), make([]int64, f.convs)
	for c := range begin {
		begin[c], end[c] = math.MaxInt64, math.MinInt64
	}
	for i := range f.rows {
		if f.end[i] == schemas.NullInt {
			continue
		}
		c := f.conv[i]
		begin[c] = min(begin[c], f.moment[i])
		end[c] = max(end[c], f.end[i])
	}
	return begin, end
}

// levels gives how many of the intervals [start, end) hold over time. It sorts its arguments.
func levels(starts, ends []int64) []step {
	stat.SortInts(starts)
	stat.SortInts(ends)
	var steps []step
	var level int64
	s, e := 0, 0
	for s < len(starts) || e < len(ends) {
		at := int64(math.MaxInt64)
		if s < len(starts) {
			at = starts[s]
		}
		if e < len(ends) {
			at = min(at, ends[e])
		}
		for e < len(ends) && ends[e] == at {
			level--
			e++
		}
		for s < len(starts) && starts[s] == at {
			level++
			s++
		}
		steps = append(steps, step{at, level})
	}
	return steps
}

// timeQuantile gives the q-quantile of a level over time.
func timeQuantile(steps []step, q float64) float64 {
	type weighted struct{ level, time int64 }
	var all []weighted
	var total int64
	for i, s := range steps[:len(steps)-1] {
		d := steps[i+1].at - s.at
		all = append(all, weighted{s.level, d})
		total += d
	}
	slices.SortFunc(all, func(a, b weighted) int { return int(a.level - b.level) })
	var sum int64
	for _, w := range all {
		sum += w.time
		if float64(sum) >= q*float64(total) {
			return float64(w.level)
		}
	}
	return float64(all[len(all)-1].level)
}
