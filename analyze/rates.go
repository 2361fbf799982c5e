package analyze

import (
	"math"
	"slices"

	"parley/analyze/plots"
	"parley/analyze/stat"
	"parley/schemas"
)

// countsOf counts what the rows of a population are.
func countsOf(f *frame) func(rows []int32, w *window) Counts {
	kinds, attempts, stale := f.strs("error_kind"), f.ints("attempts"), f.ints("stale_replays")
	var s scratch
	return func(rows []int32, w *window) Counts { return countRows(f, rows, w, kinds, attempts, stale, &s) }
}

func countRows(f *frame, rows []int32, w *window, kinds *schemas.Vector, attempts, stale []int64, s *scratch) Counts {
	c := Counts{ByStatus: map[schemas.Status]int64{}, Planned: int64(len(rows)), ErrorRate: Missing}
	var byStatus [256]int64
	errorKinds, notSent := make([]int64, len(kinds.Values)), make([]int64, len(kinds.Values))
	convs := s.in.Cluster[:0]
	for _, row := range rows {
		byStatus[f.status[row]]++
		if k := kinds.Codes[row]; k >= 0 {
			if status := schemas.Statuses[f.status[row]]; status.Failed() {
				errorKinds[k]++
			} else if !status.Sent() {
				notSent[k]++
			}
		}
		if attempts[row]-stale[row] > 1 {
			c.Retried++
		}
		if e := f.end[row]; e != schemas.NullInt && e >= w.to && f.moment[row] < w.to {
			c.InFlightAtEnd++
		}
		convs = append(convs, f.conv[row])
	}
	s.in.Cluster = convs
	c.Conversations = int64(s.distinct(convs))
	for i, status := range schemas.Statuses {
		n := byStatus[i]
		if n == 0 {
			continue
		}
		c.ByStatus[status] = n
		switch {
		case status == schemas.StatusOK:
			c.OK = n
		case status.Failed():
			c.Failed += n
		case status == schemas.StatusCanceled, status == schemas.StatusAbandoned:
			c.Censored += n
		}
		if status.Sent() {
			c.Sent += n
		}
	}
	c.ErrorKinds, c.NotSent = byKind(kinds.Values, errorKinds), byKind(kinds.Values, notSent)
	if c.Sent > 0 {
		c.ErrorRate = Num(float64(c.Failed) / float64(c.Sent))
	}
	return c
}

// byKind names counts; nil if there are none.
func byKind(names []string, counts []int64) map[string]int64 {
	var out map[string]int64
	for i, n := range counts {
		if n > 0 {
			if out == nil {
				out = map[string]int64{}
			}
			out[names[i]] = n
		}
	}
	return out
}

// distinct counts the different numbers.
func (s *scratch) distinct(ids []int32) int {
	n := 0
	for _, c := range ids {
		for len(s.local) <= int(c) {
			s.local = append(s.local, make([]int32, max(1024, int(c)+1-len(s.local)))...)
		}
		if s.local[c] == 0 {
			n++
			s.local[c] = 1
		}
	}
	for _, c := range ids {
		s.local[c] = 0
	}
	return n
}

// sum is a sum of counts that some rows may not tell.
type sum struct {
	of, rows, unknown int64
}

func (s *sum) add(v int64) {
	if v == schemas.NullInt {
		s.unknown++
		return
	}
	s.of += v
	s.rows++
}

// total gives the sum if every row told its part, else nothing: a part is not the whole.
func (s *sum) total() Num {
	if s.rows == 0 || s.unknown > 0 {
		return Missing
	}
	return Num(s.of)
}

// known gives the sum over the rows that told, or nothing if none did.
func (s *sum) known() Num {
	if s.rows == 0 {
		return Missing
	}
	return Num(s.of)
}

func (s *sum) mean() Num { return s.known() / Num(s.rows) }

// cacheSums sums what says how much of the prompts a prefix cache held: over the rows whose server says so,
// and over the same rows what an infinite cache would have held. Where no server says, the ceiling covers
// every row that the dataset has one for.
type cacheSums struct {
	prompt, cached, expected, ceiling, expectedAll, ceilingAll int64
	rows, ceilings, contradictions                             int64
}

func (s *cacheSums) add(prompt, cached, ceiling, expected int64) {
	told := prompt != schemas.NullInt && cached != schemas.NullInt
	if told && cached > prompt {
		s.contradictions++ // the server contradicts itself: neither number can be believed
		return
	}
	if told {
		s.rows++
		s.prompt += prompt
		s.cached += cached
	}
	if ceiling == schemas.NullInt || expected == schemas.NullInt {
		return
	}
	s.expectedAll += expected
	s.ceilingAll += ceiling
	if told {
		s.ceilings++
		s.expected += expected
		s.ceiling += ceiling
	}
}

func (s *cacheSums) figures() (reuse, ceiling Num) {
	reuse, ceiling = Missing, Missing
	if s.contradictions > 0 {
		return reuse, ceiling
	}
	if s.prompt > 0 {
		reuse = Num(float64(s.cached) / float64(s.prompt))
	}
	switch {
	case s.rows == 0 && s.expectedAll > 0:
		ceiling = Num(float64(s.ceilingAll) / float64(s.expectedAll))
	case s.rows > 0 && s.ceilings == s.rows && s.expected > 0:
		ceiling = Num(float64(s.ceiling) / float64(s.expected))
	}
	return reuse, ceiling
}

// tokenSums sums the tokens of the completed turns among rows.
func tokenSums(f *frame) func(rows []int32) Tokens {
	prompt, cached, completion := f.ints("prompt_tokens"), f.ints("cached_tokens"), f.ints("completion_tokens")
	reasoning, asked := f.ints("reasoning_tokens"), f.ints("output_tokens_asked")
	ceiling, expected := f.ints("expected_cached_tokens"), f.ints("expected_prompt_tokens")
	source := f.strs("token_source")
	return func(rows []int32) Tokens {
		var t Tokens
		var prompts, cacheds, completions, reasonings sum
		var cache cacheSums
		sources := make([]int64, len(source.Values))
		for _, row := range rows {
			if f.status[row] != statusOK {
				continue
			}
			prompts.add(prompt[row])
			cacheds.add(cached[row])
			completions.add(completion[row])
			reasonings.add(reasoning[row])
			cache.add(prompt[row], cached[row], ceiling[row], expected[row])
			if _, zero := slices.BinarySearch(f.zeros, row); zero {
				t.CacheZeros++
			}
			if v, a := completion[row], asked[row]; v != schemas.NullInt && a != schemas.NullInt {
				t.Asked += a
				t.AskedGot += v
			}
			if s := source.Codes[row]; s >= 0 {
				sources[s]++
			}
		}
		t.Prompt, t.Cached, t.Completion, t.Reasoning = prompts.known(), cacheds.known(), completions.known(), reasonings.known()
		t.CacheReuse, t.CacheCeiling = cache.figures()
		t.CacheRows, t.Contradictions = cache.rows, cache.contradictions
		t.MeanPrompt, t.MeanOutput = prompts.mean(), completions.mean()
		for i, n := range sources {
			if n > 0 {
				if t.Sources == nil {
					t.Sources = map[string]int64{}
				}
				t.Sources[source.Values[i]] = n
			}
		}
		return t
	}
}

var tokenColumns = []string{"output_tokens_asked", "expected_cached_tokens", "expected_prompt_tokens", "token_source"}

// throughput works out the rates of a population: of its rows of any moment, the tokens that arrived in
// the window, the turns that ended in it with their prompts, and those that ran in it as in flight.
func throughput(f *frame) func(rows []int32, w *window, arrived int64) Throughput {
	prompt, cached, sent := f.ints("prompt_tokens"), f.ints("cached_tokens"), f.ints("sent_ns")
	return func(rows []int32, w *window, arrived int64) Throughput {
		var requests, conversations int64
		var prompts, cacheds sum
		starts, ends := make([]int64, 0, len(rows)), make([]int64, 0, len(rows))
		var busy float64
		contradicts := false
		for _, row := range rows {
			if f.status[row] == statusOK && w.ended(f, int(row)) {
				requests++
				prompts.add(prompt[row])
				cacheds.add(cached[row])
				contradicts = contradicts || cached[row] > prompt[row] && prompt[row] != schemas.NullInt
			}
			if f.turn[row] == 0 && f.main[row] && f.moment[row] != schemas.NullInt && w.holds(f, int(row)) {
				conversations++
			}
			if s := sent[row]; s != schemas.NullInt && w.rates(f, int(row)) {
				w.overlap(s, f.end[row], func(from, to int64) {
					starts = append(starts, from)
					ends = append(ends, to)
					busy += float64(to - from)
				})
			}
		}
		length := float64(w.length())
		t := Throughput{
			Seconds: Num(length / 1e9), PeakTokenRate: Missing, TokensPerUser: Missing,
			RequestsLow: Missing, RequestsHigh: Missing, CompletionLow: Missing, CompletionHigh: Missing, TotalLow: Missing, TotalHigh: Missing,
		}
		per := func(n Num) Num {
			if !(length > 0) {
				return Missing
			}
			return n / Num(length/1e9)
		}
		t.Requests, t.CompletionTokens, t.Conversations = per(Num(requests)), per(Num(arrived)), per(Num(conversations))
		t.PromptTokens, t.CachedTokens = per(prompts.total()), per(cacheds.total())
		if contradicts {
			t.CachedTokens = Missing
		}
		t.TotalTokens = t.PromptTokens + t.CompletionTokens
		t.MeanInFlight = Missing
		if length > 0 {
			t.MeanInFlight = Num(busy / length)
		}
		t.PeakInFlight = peak(starts, ends)
		return t
	}
}

// rateIntervals adds the intervals of rates in the long run: from blocks of time of each stretch of the window, and
// in an open loop from what each conversation brought, for its turns come in a cluster; the wider counts.
func (a *analysis) rateIntervals(t *Throughput) {
	if a.o.NoIntervals || a.w.turns {
		return
	}
	const requests, tokens, total = 0, 1, 2
	var rates [3][]stat.Estimate
	var shares []float64
	prompt, completion := a.f.ints("prompt_tokens"), a.f.ints("completion_tokens")
	for _, span := range a.w.spans {
		w := stat.Window{From: span.from, To: span.to}.WithTau(a.load)
		var blocks [3][stat.Blocks]float64
		var brought [3][]float64 // by conversation
		if a.run.meta.OfferedRate != nil {
			for i := range brought {
				brought[i] = make([]float64, a.f.convs)
			}
		}
		for row := range a.f.rows {
			at := a.f.end[row]
			if a.f.status[row] != statusOK || at < span.from || at >= span.to {
				continue
			}
			b, c := w.BlockOf(at), a.f.conv[row]
			blocks[requests][b]++
			blocks[total][b] += float64(prompt[row])
			if brought[0] != nil {
				brought[requests][c]++
				brought[tokens][c] += float64(max(completion[row], 0)) // null is below 0
				brought[total][c] += float64(max(prompt[row], 0) + max(completion[row], 0))
			}
		}
		for i := int(max(span.from, 0) / a.chunks.step); i < len(a.chunks.series); i++ {
			at := int64(i)*a.chunks.step + a.chunks.step/2
			if at >= span.to {
				break
			}
			if at >= span.from {
				b := w.BlockOf(at)
				blocks[tokens][b] += float64(a.chunks.series[i])
				blocks[total][b] += float64(a.chunks.series[i])
			}
		}
		shares = append(shares, float64(span.to-span.from)/float64(a.w.length()))
		for i := range rates {
			e := w.RateOf(blocks[i])
			if brought[i] != nil {
				e.Interval = e.Wider(w.ClusterRate(brought[i]))
			}
			rates[i] = append(rates[i], e)
		}
	}
	set := func(low, high *Num, of []stat.Estimate) {
		i := stat.JoinRates(of, shares)
		*low, *high = Num(i.Low), Num(i.High)
	}
	set(&t.RequestsLow, &t.RequestsHigh, rates[requests])
	set(&t.CompletionLow, &t.CompletionHigh, rates[tokens])
	if t.TotalTokens.Known() {
		set(&t.TotalLow, &t.TotalHigh, rates[total])
	}
}

// peak gives the highest number of intervals [start, end) that hold at once. It sorts its arguments.
func peak(starts, ends []int64) int64 {
	stat.SortInts(starts)
	stat.SortInts(ends)
	best, e := 0, 0
	for s, at := range starts {
		for e < len(ends) && ends[e] <= at {
			e++
		}
		best = max(best, s+1-e)
	}
	return int64(best)
}

// peakActive gives the most conversations at once in the window.
func peakActive(f *frame, w *window) int64 {
	begin, end := f.conversationSpans(nil)
	var starts, ends []int64
	for c := range begin {
		w.overlap(begin[c], end[c], func(from, to int64) {
			starts = append(starts, from)
			ends = append(ends, to)
		})
	}
	return peak(starts, ends)
}

// meetsObjectives gives the judgement of a turn by every objective, for rows whose chunk lists were read.
func (a *analysis) meetsObjectives() func(row int) bool {
	f, objectives := a.f, a.o.Objectives
	completion := f.ints("completion_tokens")
	values := make([]func(int) float64, len(objectives))
	for i, obj := range objectives {
		values[i] = rowFigure(obj.Figure).values(f, a.o)
	}
	return func(row int) bool {
		if f.status[row] != statusOK {
			return false
		}
		for i, obj := range objectives {
			perToken := obj.Figure == "tpot" || obj.Figure == "tpot_request"
			if perToken && completion[row] == 1 {
				continue
			}
			if v := values[i](row); !(v <= obj.Limit) || perToken && a.bursts(row) {
				return false
			}
		}
		return true
	}
}

// goodput counts the turns that met every objective: as a share of those sent in the window, and as a
// rate of those that ended in it. A turn that failed, was stopped, or has no value for an objective has
// not met it; only an answer of one token may do without a time per token.
func (a *analysis) goodput() func(p *population) *Goodput {
	f, good, completion := a.f, a.meetsObjectives(), a.f.ints("completion_tokens")
	return func(p *population) *Goodput {
		g := Goodput{Requests: Missing, Tokens: Missing, Share: Missing}
		for _, row := range p.inWindow {
			if !schemas.Statuses[f.status[row]].Sent() {
				continue
			}
			g.Of++
			if good(int(row)) {
				g.Good++
			}
		}
		if g.Of > 0 {
			g.Share = Num(float64(g.Good) / float64(g.Of))
		}
		var requests int64
		var tokens sum
		for _, row := range p.all {
			if p.w.ended(f, int(row)) && good(int(row)) {
				requests++
				tokens.add(completion[row])
			}
		}
		if s := float64(p.w.length()) / 1e9; s > 0 {
			g.Requests = Num(float64(requests) / s)
			if requests == 0 {
				g.Tokens = 0
			} else {
				g.Tokens = tokens.total() / Num(s)
			}
		}
		return &g
	}
}

// cacheByTurn gives the prefix cache reuse at each turn index, where some server told it or the dataset
// gives a ceiling.
func cacheByTurn(f *frame, rows []int32) []plots.CacheTurn {
	prompt, cached := f.ints("prompt_tokens"), f.ints("cached_tokens")
	ceiling, expected := f.ints("expected_cached_tokens"), f.ints("expected_prompt_tokens")
	var by []cacheSums
	var of []int64
	for _, row := range rows {
		t := int64(f.turn[row])
		if f.status[row] != statusOK || t < 0 || t >= maxGroups {
			continue
		}
		for int64(len(by)) <= t {
			by, of = append(by, cacheSums{}), append(of, 0)
		}
		of[t]++
		by[t].add(prompt[row], cached[row], ceiling[row], expected[row])
	}
	var out []plots.CacheTurn
	for t := range by {
		c := plots.CacheTurn{Turn: int64(t), Rows: by[t].rows}
		if c.Reuse, c.Ceiling = by[t].figures(); !c.Reuse.Known() && !c.Ceiling.Known() {
			continue
		}
		if c.Rows == 0 {
			c.Rows = of[t]
		}
		out = append(out, c)
	}
	return out
}

// conversationTimes gives the time of every conversation instance of which all turns completed, from its
// first turn's scheduled moment to its last turn's end, with and without the think time between. The
// instance belongs to the window if its first turn does.
func (a *analysis) conversationTimes() (with, without stat.Sample) {
	f, w := a.f, &a.w
	scheduled, think := f.ints("scheduled_ns"), f.floats("think_time_ms")
	const unset = math.MinInt64
	first, last := make([]int64, f.convs), make([]int64, f.convs)
	thought := make([]float64, f.convs)
	whole := make([]bool, f.convs)
	for c := range first {
		first[c], last[c], whole[c] = unset, unset, true
	}
	for row := range f.rows {
		c := f.conv[row]
		if f.status[row] != statusOK || !f.main[row] {
			whole[c] = false
			continue
		}
		last[c] = max(last[c], f.end[row])
		if f.turn[row] == 0 {
			if w.holds(f, row) {
				first[c] = scheduled[row]
			}
		} else if !math.IsNaN(think[row]) {
			thought[c] += think[row]
		}
	}
	for c := range first {
		if !whole[c] || first[c] == unset || last[c] == unset {
			continue
		}
		v := float64(last[c]-first[c]) / 1e6
		with.Values = append(with.Values, v)
		with.Cluster = append(with.Cluster, int32(c))
		with.Moments = append(with.Moments, first[c])
		without.Values = append(without.Values, v-thought[c])
	}
	without.Cluster, without.Moments = with.Cluster, with.Moments
	return with, without
}
