package plots

import (
	"cmp"
	"iter"
	"slices"

	"parley/analyze/stat"
	"parley/schemas"
)

// Turn is a turn as time series and lanes need it. Moments are nanoseconds from the run's origin; what is not known is
// [schemas.NullInt].
type Turn struct {
	Session      int32 // its conversation instance, from 0
	Conversation string
	Instance     int64
	Index        int64
	Status       schemas.Status

	Moment                      int64 // when it was sent, or would have been
	Scheduled, Sent, First, End int64
	TTFT                        float64 // ms; NaN if it is not known
	Prompt, Output              int64   // tokens
}

// perSession gives the first moment and the last end of each of so many conversation instances.
func perSession(turns iter.Seq[Turn], sessions int) (begin, end []int64) {
	begin, end = make([]int64, sessions), make([]int64, sessions)
	for c := range begin {
		begin[c], end[c] = 1<<63-1, -1<<63
	}
	for t := range turns {
		if t.End != schemas.NullInt {
			begin[t.Session] = min(begin[t.Session], t.Moment)
			end[t.Session] = max(end[t.Session], t.End)
		}
	}
	return begin, end
}

// NewPerSecond gives the series of a whole run that ended at last, all phases, in steps of a second or of more where the
// run is long. tokens has those that arrived in each of its steps of so many nanoseconds.
func NewPerSecond(turns iter.Seq[Turn], sessions int, last int64, tokens []int64, tokenStep int64, budget int) PerSecond {
	stepS := int64(1)
	for last/1e9/stepS > int64(budget) {
		stepS = int64(stat.NiceWidth(float64(stepS) + 1))
	}
	step := stepS * 1e9
	n := int(last/step) + 1
	out := PerSecond{Step: Num(stepS)}
	zeros := func() []Num { return make([]Num, n) }
	out.Started, out.Completed, out.Failed = zeros(), zeros(), zeros()
	out.PromptTokens, out.CompletionTokens = zeros(), zeros()
	at := func(ns int64) int {
		if ns < 0 || ns == schemas.NullInt || ns > last {
			return -1
		}
		return int(ns / step)
	}
	add := func(series []Num, ns int64, v float64) {
		if i := at(ns); i >= 0 {
			series[i] += Num(v)
		}
	}
	firsts := make([][]float64, n)
	var starts, ends []int64
	for t := range turns {
		add(out.Started, t.Sent, 1)
		ok := t.Status == schemas.StatusOK
		switch {
		case ok:
			add(out.Completed, t.End, 1)
			if i := at(t.Moment); i >= 0 && t.TTFT == t.TTFT {
				firsts[i] = append(firsts[i], t.TTFT)
			}
		case t.Status.Failed():
			add(out.Failed, t.End, 1)
		}
		if ok && t.Prompt != schemas.NullInt {
			add(out.PromptTokens, t.End, float64(t.Prompt))
		}
		if t.Sent != schemas.NullInt && t.End > t.Sent {
			starts, ends = append(starts, t.Sent), append(ends, t.End)
		}
	}
	for i, n := range tokens {
		add(out.CompletionTokens, int64(i)*tokenStep, float64(n))
	}
	for _, series := range [][]Num{out.Started, out.Completed, out.Failed, out.PromptTokens, out.CompletionTokens} {
		for i := range series {
			series[i] /= Num(stepS)
		}
	}
	out.InFlight, out.InFlightPeak = stepLevels(stat.Levels(starts, ends), step, n)
	out.Conversations, _ = stepLevels(stat.SpanLevels(perSession(turns, sessions)), step, n)
	for i := range n {
		out.T = append(out.T, Num(int64(i)*stepS))
		p50, high := Missing, Missing
		if v := firsts[i]; len(v) > 0 {
			slices.Sort(v)
			p50, high = Num(stat.Quantile(v, 0.5)), Num(v[len(v)-1])
		}
		out.TTFTP50, out.TTFTMax = append(out.TTFTP50, p50), append(out.TTFTMax, high)
	}
	return out
}

// stepLevels gives the mean and the peak of a level in each of n steps of time.
func stepLevels(levels []stat.LevelStep, width int64, n int) (mean, peak []Num) {
	mean, peak = make([]Num, n), make([]Num, n)
	for i, s := range levels {
		if i+1 == len(levels) {
			break
		}
		from, to := max(s.At, 0), levels[i+1].At
		for from < to {
			k := from / width
			if k >= int64(n) {
				break
			}
			end := min(to, (k+1)*width)
			mean[k] += Num(float64(s.Level) * float64(end-from) / float64(width))
			peak[k] = max(peak[k], Num(s.Level))
			from = end
		}
	}
	return mean, peak
}

// NewLanes gives conversations from all parts of the run: evenly chosen in order of their start.
func NewLanes(turns iter.Seq[Turn], sessions int, b Budget) []Lane {
	begin, end := perSession(turns, sessions)
	var order []int32
	for c := range begin {
		if end[c] >= begin[c] {
			order = append(order, int32(c))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(begin[a], begin[b]), cmp.Compare(a, b)) })
	chosen := map[int32]int{}
	lanes := min(b.Lanes, len(order))
	for i := range lanes {
		chosen[order[i*len(order)/lanes]] = i
	}
	out := make([]Lane, lanes)
	number := func(v int64) Num {
		if v == schemas.NullInt {
			return Missing
		}
		return Num(v)
	}
	drawn := 0
	for t := range turns {
		lane, ok := chosen[t.Session]
		if !ok || t.End == schemas.NullInt || drawn >= b.Turns {
			continue
		}
		drawn++
		l := &out[lane]
		l.Conversation, l.Instance = t.Conversation, t.Instance
		l.Turns = append(l.Turns, Span{
			Turn: t.Index, Status: string(t.Status), Scheduled: secondsOf(t.Scheduled), Sent: secondsOf(t.Sent), First: secondsOf(t.First), End: secondsOf(t.End),
			Prompt: number(t.Prompt), Output: number(t.Output),
		})
	}
	for i := range out {
		slices.SortFunc(out[i].Turns, func(a, b Span) int { return cmp.Compare(a.Turn, b.Turn) })
	}
	return slices.DeleteFunc(out, func(l Lane) bool { return len(l.Turns) == 0 })
}
