package analyze

import (
	"math"
	"slices"

	"parley/schemas"
)

// Tokens count when they arrive, by the chunk that brought them, whatever became of their turn; requests
// count when they end. So the tokens of every stretch of time add up to those of the whole run, and agree
// with what the server itself counts over the stretch.

// tokenRows says how many tokens a turn had, and how many of them were streamed.
type tokenRows struct {
	f          *frame
	completion []int64
}

func newTokenRows(f *frame) *tokenRows {
	return &tokenRows{f: f, completion: f.ints("completion_tokens")}
}

// total gives the tokens of all turns together.
func (t *tokenRows) total() int64 {
	var n int64
	for _, k := range t.completion {
		n += max(k, 0) // null is below 0
	}
	return n
}

// hidden gives the reasoning tokens of a turn that were counted but not streamed: the first token that
// came was one of the answer.
func (f *frame) hidden(row int) int64 {
	if f.unseen == nil {
		return 0
	}
	return int64(f.unseen[row])
}

// spreadMemory is what one worker reuses.
type spreadMemory struct{ all, streamed []int64 }

// chunkTokens is how many tokens a chunk carries on average at most, where nothing else says what is too many.
const chunkTokens = 100

// spread gives the tokens of each chunk of a turn: the server's counts where it sent them (told), else the
// answer's tokens spread evenly over the chunks, else one each. Counts that add up to far more than the answer has are
// not believed. Tokens that no chunk accounts for came with the last. The result is valid until the next call.
func (t *tokenRows) spread(m *spreadMemory, row int, ns, tokens []int64) (counts []int64, told bool) {
	completion := t.completion[row]
	most := int64(len(ns)) + 2*completion
	if completion == schemas.NullInt {
		most = chunkTokens * int64(len(ns))
	}
	sum, told := chunkSum(tokens, most)
	if told = told && len(tokens) == len(ns); !told {
		m.all = evenly(m.all, completion, len(ns))
		return m.all, false
	}
	if sum >= completion {
		return tokens, true
	}
	m.all = append(m.all[:0], tokens...)
	m.all[len(ns)-1] += completion - sum
	return m.all, true
}

// chunkSum adds up the tokens of chunks; not ok if one is below 0, or they are more than most.
func chunkSum(tokens []int64, most int64) (sum int64, ok bool) {
	for _, k := range tokens {
		if k < 0 || k > most-sum {
			return 0, false
		}
		sum += k
	}
	return sum, true
}

// streamed gives the counts without tokens that were never streamed: a rate per token that was seen to
// arrive must not count those that were not.
func (t *tokenRows) streamed(m *spreadMemory, row int, counts []int64, told bool) []int64 {
	hidden := t.f.hidden(row)
	if told || hidden == 0 {
		return counts
	}
	m.streamed = evenly(m.streamed, t.completion[row]-hidden, len(counts))
	return m.streamed
}

// evenly spreads n tokens over chunks, so that any run of chunks has its share to within one token; one
// each where n is not known.
func evenly(counts []int64, n int64, chunks int) []int64 {
	counts = slices.Grow(counts[:0], chunks)[:chunks]
	if n <= 0 || n == int64(chunks) {
		for c := range counts {
			counts[c] = 1
		}
		return counts
	}
	before := int64(0)
	for c := range counts {
		upTo := int64(c+1) * n / int64(chunks)
		counts[c] = upTo - before
		before = upTo
	}
	return counts
}

// inBursts says whether an answer of several tokens came in one piece, or in bursts: more than half of its
// gaps are zero, so that its chunk times are those of whoever held them back.
func inBursts(ns, counts []int64) bool {
	if len(ns) == 1 {
		return counts[0] > 1
	}
	zero := 0
	for c := 1; c < len(ns); c++ {
		if ns[c] == ns[c-1] {
			zero++
		}
	}
	return 2*zero > len(ns)-1
}

// maxSteps bounds the series of arrivals: 8 hours of hundredths of a second.
const maxSteps = 3_000_000

// seriesStep is the step of the series of arrivals: 10 ms, or ten times as long where the run is too long
// for that.
func seriesStep(f *frame) int64 {
	last := int64(0)
	for _, e := range f.end {
		last = max(last, e)
	}
	step := int64(10e6)
	for last/step > maxSteps {
		step *= 10
	}
	return step
}

// arrive counts the tokens of a turn's chunks.
func (w *chunkWorker) arrive(ns, counts []int64, pass *chunkPass, row int, f *frame) {
	var all int64
	from, to := int64(0), int64(0) // of the step at hand
	step := 0
	for c, at := range ns {
		k := counts[c]
		all += k
		if at < from || at >= to {
			if step = w.stepOf(at); step < 0 {
				continue
			}
			from = int64(step) * w.step
			to = from + w.step
		}
		w.series[step] += k
	}
	w.phase[pass.phase[row]] += all
	if !pass.w.rates(f, row) {
		return
	}
	if spans := pass.w.spans; len(spans) == 1 && ns[0] >= spans[0].from && ns[len(ns)-1] < spans[0].to && (pass.groups == nil || pass.groups.time == nil) {
		w.count(ns[0], all, row, pass.groups) // wholly within
		return
	}
	for c, at := range ns {
		if pass.w.during(at) {
			w.count(at, counts[c], row, pass.groups)
		}
	}
}

// whole counts the tokens of a turn without chunk times, at its end.
func (w *chunkWorker) whole(t *tokenRows, pass *chunkPass, row int, f *frame) {
	if n, at := t.completion[row], f.end[row]; n > 0 && at != schemas.NullInt {
		w.arrive([]int64{at}, []int64{n}, pass, row, f)
	}
}

// count adds tokens that arrived in the window: to the total, and to their group. One by time is that of
// the time at which they arrived.
func (w *chunkWorker) count(at, tokens int64, row int, groups *groups) {
	w.arrived[0] += tokens
	if groups == nil {
		return
	}
	g := groups.id[row]
	if groups.time != nil {
		if w.bin >= len(groups.time.bins) || at < groups.time.bins[w.bin].from || at >= groups.time.bins[w.bin].to {
			if w.bin = groups.time.binOf(at); w.bin < 0 {
				w.bin = 0
				return
			}
		}
		if g = groups.pairs[w.bin*groups.others+int(groups.other[row])]; g < 0 {
			return
		}
	}
	w.arrived[g+1] += tokens
}

// stepOf gives the step of the series that a moment lies in, and makes the series long enough; -1 for a
// moment that no run has.
func (w *chunkWorker) stepOf(ns int64) int {
	i := ns / w.step
	if ns < 0 || i > 10*maxSteps {
		return -1
	}
	if int(i) >= len(w.series) {
		w.series = append(w.series, make([]int64, int(i)+1-len(w.series))...)
	}
	return int(i)
}

// bestSecondFrom is the length of window, in seconds, from which its best second says something.
const bestSecondFrom = 5

// bestSecond gives the most tokens of any second of the window that begins at a step of the series.
func (c *chunkFigures) bestSecond(w *window) Num {
	n := int(1e9 / c.step)
	if w.length() < bestSecondFrom*1e9 || n < 1 {
		return Missing
	}
	best := int64(math.MinInt64)
	for _, s := range w.spans {
		from, to := int((max(s.from, 0)+c.step-1)/c.step), int(s.to/c.step)
		var sum int64
		for i := from; i < to; i++ {
			if i < len(c.series) {
				sum += c.series[i]
			}
			if i-n >= from && i-n < len(c.series) {
				sum -= c.series[i-n]
			}
			if i-from+1 >= n {
				best = max(best, sum)
			}
		}
	}
	if best < 0 {
		return Missing
	}
	return Num(best)
}
