package analyze

import (
	"fmt"
	"math"
	"slices"

	"parley/analyze/stat"
	"parley/schemas"
)

// The steady window is what is neither warm-up nor drain.
//
// It begins when the load stands: in a closed loop with the first moment at which nine tenths of the usual
// number of conversations are active, and not before the opening burst is over (the turns that all started
// together meet a server that no later turn meets). From there on, MSER-5 (White, Cobb and Spratt,
// 2000) cuts what is unlike the rest from the requests in flight, the tokens that arrive, and TTFT.
//
// It ends when the load is no longer kept up: at the run's stop or its last arrival, or when fewer than
// nine tenths of the usual number of conversations are active. A conversation that thinks when the run
// stops holds its place until then.
//
// What is left must be level ([stat.Level]) in all three. A stage of the load is a run of its own.
const (
	steadyLevel = 0.9  // of the usual number of conversations: at and above it, the load stands
	steadyShare = 0.3  // a steady stretch shorter than this share of the run is none
	steadyDrain = 0.01 // a drain of less than this share of what is before it is none
	steadySteps = 400  // of a series, at most
)

// drift is a trend or a shift in what should be level.
type drift struct {
	what   string // empty: none
	change float64
	text   string
}

// steadyWindow finds the steady stretch of the run, or of each stage of its load.
func (f *frame) steadyWindow(r *run, w *window) []Warning {
	stages := f.stages()
	if len(stages) < 2 {
		l := f.demand(r, anyStage, nil)
		from, to, how, ok := l.stretch("run")
		w.result.How = how
		if !ok {
			return []Warning{{"no_steady_window", how}}
		}
		w.spans, w.all = []span{{from, to, anyStage}}, false
		w.drift = l.level(from, to)
		w.result.Steady = w.drift.what == ""
		if !w.result.Steady {
			w.result.How += "; not level: " + w.drift.text
			return []Warning{{"not_level", w.drift.text}}
		}
		return nil
	}
	w.stage = f.ints("stage")
	w.result.Steady = true
	var spans []span
	var warnings []Warning
	for _, stage := range stages {
		l := f.demand(r, stage, w.stage)
		from, to, how, ok := l.stretch("stage")
		if !ok {
			from, to = l.first, l.last+1
		} else if d := l.level(from, to); d.what != "" {
			ok, how = false, d.text
			if d.change > w.drift.change {
				w.drift = d
			}
		}
		if !ok {
			w.result.Steady = false
			warnings = append(warnings, Warning{"no_steady_window", fmt.Sprintf("stage %d: %s", stage, how)})
		}
		if to = min(to, l.until); from < to { // turns of one stage may outlast it
			spans = append(spans, span{from, to, stage})
		}
	}
	if len(spans) > 0 {
		w.spans, w.all = spans, false
	}
	w.result.How = fmt.Sprintf("the steady stretch of each of %d stages", len(stages))
	for i, s := range spans {
		how := fmt.Sprintf("%c stage %d from %s", ":,"[min(i, 1)], s.stage, spanText(s.from, s.to))
		if before, after := f.besides(s, w.stage); before+after > 0 {
			how += fmt.Sprintf(" (left out: %d turns before, %d after)", before, after)
		}
		w.result.How += how
	}
	return warnings
}

// besides counts the turns of a stage that were sent before its span and after it.
func (f *frame) besides(s span, stages []int64) (before, after int) {
	for row := range f.rows {
		if !f.main[row] || stages[row] != s.stage || f.end[row] == schemas.NullInt {
			continue
		}
		if m := f.moment[row]; m < s.from {
			before++
		} else if m >= s.to {
			after++
		}
	}
	return before, after
}

// fewTurns is how many turns a steady window has at least, if the run or the stage has twice as many: a smoke run, whose
// turns all start together, shows what it has.
const fewTurns = 11

// briefSeconds is how long a load must last for anyone to say whether it was steady.
const briefSeconds = 0.5

// stretch finds the steady stretch of a run, or of a stage of it, if there is enough of it to say.
func (l *demand) stretch(what string) (from, to int64, how string, ok bool) {
	_, all := l.completed(0, 0)
	lasted := float64(l.last-l.first) / 1e9
	if all > 0 && (all < fewTurns || lasted < briefSeconds) {
		return 0, 0, fmt.Sprintf("too short to say whether it was steady (%d completed turns in %.3g s); the whole %s is used", all, lasted, what), false
	}
	if from, to, how, ok = l.steady(); ok {
		if n, _ := l.completed(from, to); n < fewTurns && 2*n < all {
			ok, how = false, fmt.Sprintf("no steady stretch: only %d of the %d completed turns were sent in what is neither start nor end", n, all)
		}
	}
	if !ok {
		how += fmt.Sprintf("; the whole %s is used", what)
	}
	return from, to, how, ok
}

// completed counts the turns that completed: those sent in [from, to), and all.
func (l *demand) completed(from, to int64) (n, all int) {
	for row := range l.f.rows {
		if l.mine(row) && l.f.status[row] == statusOK {
			all++
			if m := l.f.moment[row]; m >= from && m < to {
				n++
			}
		}
	}
	return n, all
}

// stages gives the stages of the load, in order; none where the rows do not tell.
func (f *frame) stages() []int64 {
	var out []int64
	for row, s := range f.ints("stage") {
		if s != schemas.NullInt && f.main[row] && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// stageEnd gives the moment at which a stage was over, since the next one began; without a next one, the last
// moment there is.
func (f *frame) stageEnd(stage int64, stages []int64) int64 {
	end := int64(math.MaxInt64)
	for row := range f.rows {
		if f.main[row] && stages[row] > stage && f.end[row] != schemas.NullInt {
			end = min(end, f.moment[row])
		}
	}
	return end
}

// demand is what a run, or a stage of it, put on the server over time.
type demand struct {
	f           *frame
	mine        func(row int) bool // of the main phase, and of the stage
	open        bool               // turns arrive whether or not others have ended
	first, last int64              // first send, last end
	stood       int64              // when the load stood, before what it took to settle
	lastArrival int64
	stop        int64 // when no turn was started any more
	until       int64 // when the next stage began
	sent        []int64
}

func (f *frame) demand(r *run, stage int64, stages []int64) *demand {
	l := &demand{f: f, open: r.meta.OfferedRate != nil, first: math.MaxInt64, last: math.MinInt64, lastArrival: math.MinInt64, stop: math.MaxInt64, until: math.MaxInt64, sent: f.ints("sent_ns")}
	l.mine = func(row int) bool { return f.main[row] && (stages == nil || stages[row] == stage) }
	for row := range f.rows {
		if !l.mine(row) || f.end[row] == schemas.NullInt {
			continue
		}
		l.first, l.last = min(l.first, f.moment[row]), max(l.last, f.end[row])
		if f.turn[row] == 0 {
			l.lastArrival = max(l.lastArrival, f.moment[row])
		}
	}
	if r.meta.StopNS != nil {
		l.stop = *r.meta.StopNS
	}
	if stages == nil {
		return l
	}
	l.until = f.stageEnd(stage, stages)
	l.stop = min(l.stop, l.until)
	return l
}

// steady finds the stretch between warm-up and drain.
func (l *demand) steady() (from, to int64, how string, ok bool) {
	if l.first > l.last {
		return 0, 0, "no conversation ran", false
	}
	steps := l.active()
	if len(steps) < 2 {
		return 0, 0, "no conversation ran", false
	}
	begin, end := l.first, l.last
	usual := max(stat.TimeQuantile(steps, 0.75), 1)
	from, to = math.MaxInt64, math.MinInt64
	for i, s := range steps[:len(steps)-1] {
		if float64(s.Level) >= steadyLevel*usual {
			from, to = min(from, s.At), max(to, steps[i+1].At+1) // what ends at that moment belongs
		}
	}
	from, to = max(from, begin), min(to, l.stop)
	if to <= end && float64(end+1-to) < steadyDrain*float64(to-from) {
		to = end + 1
	}
	cause := fmt.Sprintf("at least %.0f conversations active, of usually %.0f", math.Ceil(steadyLevel*usual), usual)
	if l.open {
		from, to, cause = begin, min(max(l.lastArrival, begin), l.stop), "arrivals began"
	} else if burst := l.burst(from, to); burst > from {
		from, cause = burst, "the opening burst was over"
	}
	l.stood = from
	if cut, what := l.settled(from, to); cut > from {
		from, cause = cut, what+" had settled"
	}
	if float64(to-from) < steadyShare*float64(end-begin) {
		return 0, 0, fmt.Sprintf("no steady stretch: the load stood only %s of %s", spanText(from, max(from, to)), seconds(end-begin)), false
	}
	until := "the load was no longer kept up"
	switch {
	case to == l.stop:
		until = "the run stopped starting turns"
	case l.open:
		until = "arrivals ended"
	case to > end:
		until = "the run ended"
	}
	return from, to, fmt.Sprintf("from %s (%s) to %s (%s) of %s", seconds(from), cause, seconds(to), until, seconds(end)), true
}

// active gives the number of active conversations over time: one is active from its first turn's moment to
// its last turn's end, and to the run's stop if it still had turns then.
func (l *demand) active() []stat.LevelStep {
	f := l.f
	begin, end := f.conversationSpans(l.mine)
	if l.stop != math.MaxInt64 {
		for row := range f.rows {
			c := f.conv[row]
			if f.waiting(row) && begin[c] < l.stop {
				end[c] = max(end[c], l.stop)
			}
		}
	}
	return stat.SpanLevels(begin, end)
}

// burstRest is the share of the load's time that must be left behind an opening burst for its answers to be
// left out whole, and not only until they have begun.
const burstRest = 0.4

// burst gives the moment from which the opening burst of a closed loop is over: the turns that were sent
// before any had its first token. Their prompts were worked through together, and while they were
// answered no others were: it is over when half of them have ended, or in a short run when all have
// begun.
func (l *demand) burst(from, to int64) int64 {
	f := l.f
	first := f.ints("first_token_ns")
	answer := func(row int) int64 {
		if first[row] != schemas.NullInt {
			return first[row]
		}
		return f.end[row]
	}
	earliest := int64(math.MaxInt64)
	for row := range f.rows {
		if l.mine(row) && l.sent[row] != schemas.NullInt {
			earliest = min(earliest, answer(row))
		}
	}
	begun := from
	var ends []int64
	for row := range f.rows {
		if l.mine(row) && l.sent[row] != schemas.NullInt && l.sent[row] < earliest {
			begun = max(begun, answer(row)+1)
			ends = append(ends, f.end[row]+1)
		}
	}
	if len(ends) < 2 { // one alone is no burst
		return from
	}
	slices.Sort(ends)
	if over := ends[len(ends)/2]; float64(to-over) >= burstRest*float64(to-from) {
		return max(from, over)
	}
	return begun
}

// steps gives the number of steps of a series: five to a turn of mean length, so that the five of a batch
// see one turn from its first moment to its last, and turns that run in step are no cycle of it.
func (l *demand) steps(from, to int64) int {
	var turns, sum float64
	for row := range l.f.rows {
		if s := l.sent[row]; s != schemas.NullInt && l.mine(row) && s >= from && s < to {
			turns++
			sum += float64(l.f.end[row] - s)
		}
	}
	if turns == 0 || sum <= 0 {
		return 5
	}
	return 5 * int(min(max(float64(to-from)/(sum/turns), 1), steadySteps/5))
}

// series gives the requests in flight, the tokens that arrived (those of a turn spread evenly from its
// first to its last) and the mean TTFT in equal steps of a stretch of time. A step in which no turn was
// sent has the TTFT of the one before.
func (l *demand) series(from, to int64, n int) (flight, tokens, ttft []float64) {
	f := l.f
	first, last, completion := f.ints("first_token_ns"), f.ints("last_token_ns"), f.ints("completion_tokens")
	flight, tokens, ttft = make([]float64, n), make([]float64, n), make([]float64, n)
	turns := make([]float64, n)
	width := float64(to-from) / float64(n)
	add := func(series []float64, a, b int64, amount float64) { // amount per step of full overlap
		x, y := float64(max(a, from)-from)/width, float64(min(b, to)-from)/width
		for i := int(x); i < n && float64(i) < y; i++ {
			series[i] += amount * (min(y, float64(i+1)) - max(x, float64(i)))
		}
	}
	for row := range f.rows {
		s := l.sent[row]
		if s == schemas.NullInt || s >= to || f.end[row] <= from {
			continue
		}
		add(flight, s, f.end[row], 1)
		a, b := first[row], last[row]
		if a == schemas.NullInt || b == schemas.NullInt {
			continue
		}
		if k := completion[row]; k > 0 {
			if b > a {
				add(tokens, a, b, float64(k)*width/float64(b-a))
			} else if a >= from && a < to {
				tokens[min(int(float64(a-from)/width), n-1)] += float64(k)
			}
		}
		if s >= from && f.status[row] == statusOK && f.main[row] {
			i := min(int(float64(s-from)/width), n-1)
			ttft[i] += float64(a-s) / 1e6
			turns[i]++
		}
	}
	before := math.NaN()
	for i := range ttft {
		if turns[i] > 0 {
			before = ttft[i] / turns[i]
		}
		ttft[i] = before
	}
	for i := n - 1; i > 0; i-- { // what came before the first
		if math.IsNaN(ttft[i-1]) {
			ttft[i-1] = ttft[i]
		}
	}
	return flight, tokens, ttft
}

var seriesNames = [...]string{"requests in flight", "tokens per second", "TTFT"}

// settled gives the moment from which all three series look like the rest of themselves, and the one that
// was last to.
func (l *demand) settled(from, to int64) (at int64, what string) {
	at = from
	if to <= from {
		return at, ""
	}
	steps := l.steps(from, to)
	a, b, c := l.series(from, to, steps)
	for i, s := range [...][]float64{a, b, c} {
		// What never comes to rest has no warm-up to cut off: the tests of level will say so.
		cut, rest := stat.MSER5(s)
		if cut == 0 || !rest || cut > steps*2/5 || !unlike(s[:cut], s[cut:]) {
			continue
		}
		if m := from + int64(float64(to-from)*float64(cut)/float64(steps)); m > at {
			at, what = m, seriesNames[i]
		}
	}
	return at, what
}

// unlike says whether what came first differs from the rest by more than the floor, and by more than parts of
// the rest of the same length differ from each other: a slow moment at the beginning is no warm-up.
func unlike(first, rest []float64) bool {
	x, _ := stat.MeanStd(first)
	y, _ := stat.MeanStd(rest)
	_, spread := stat.MeanStd(stat.BlockMeans(rest, max(len(rest)/len(first), 3)))
	return math.Abs(x-y) > max(stat.LevelFloor*math.Abs(y), 2*spread)
}

// level tests a stretch for what changes its level ([stat.Level]). In an open loop a queue that grows can
// rest for a while, and what was before look like a warm-up: a change nearly as large as the mean counts from when the load stood.
func (l *demand) level(from, to int64) drift {
	worst := l.change(from, to)
	if worst.what == "" && l.open && l.stood < from {
		if d := l.change(l.stood, to); d.change >= 0.85 {
			return d
		}
	}
	return worst
}

func (l *demand) change(from, to int64) drift {
	var worst drift
	a, b, c := l.series(from, to, steadySteps)
	for i, s := range [...][]float64{a, b, c} {
		change, level := stat.Level(s)
		if size := math.Abs(change.Relative); !level && size > worst.change {
			way, how := "rises", "a trend over the window"
			if change.Relative < 0 {
				way = "falls"
			}
			if change.Shift {
				how = "a shift within it"
			}
			worst = drift{seriesNames[i], size, fmt.Sprintf("%s %s by %.0f %% of its mean, %s (p = %.1g)", seriesNames[i], way, 100*size, how, change.P)}
		}
	}
	return worst
}

// conversationSpans gives the first send and last end of each conversation instance, over the rows that
// count.
func (f *frame) conversationSpans(counts func(row int) bool) (begin, end []int64) {
	begin, end = make([]int64, f.convs), make([]int64, f.convs)
	for c := range begin {
		begin[c], end[c] = math.MaxInt64, math.MinInt64
	}
	for i := range f.rows {
		if f.end[i] == schemas.NullInt || counts != nil && !counts(i) {
			continue
		}
		c := f.conv[i]
		begin[c] = min(begin[c], f.moment[i])
		end[c] = max(end[c], f.end[i])
	}
	return begin, end
}
