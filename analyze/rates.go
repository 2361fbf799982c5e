package analyze

import (
	"math"

	"parley/analyze/stat"
	"parley/schemas"
)

// countGroup counts what the rows of one population are.
func countGroup(f *frame, rows []int32, w *window, s *scratch) Counts {
	c := Counts{ByStatus: map[schemas.Status]int64{}, Planned: int64(len(rows)), ErrorRate: Missing}
	var byStatus [256]int64
	kinds := f.strs("error_kind")
	errorKinds := make([]int64, len(kinds.Values))
	attempts, stale := f.ints("attempts"), f.ints("stale_replays")
	convs := s.cluster[:0]
	for _, row := range rows {
		byStatus[f.status[row]]++
		if k := kinds.Codes[row]; k >= 0 {
			errorKinds[k]++
		}
		if attempts[row]-stale[row] > 1 {
			c.Retried++
		}
		if m := f.moment[row]; m != schemas.NullInt && m < w.to && f.end[row] != schemas.NullInt && f.end[row] >= w.to {
			c.InFlightAtEnd++
		}
		convs = append(convs, f.conv[row])
	}
	s.cluster = convs
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
		case status == schemas.StatusCanceled:
			c.Censored = n
		}
		if status.Sent() {
			c.Sent += n
		}
	}
	for i, n := range errorKinds {
		if n > 0 {
			if c.ErrorKinds == nil {
				c.ErrorKinds = map[string]int64{}
			}
			c.ErrorKinds[kinds.Values[i]] = n
		}
	}
	if c.OK+c.Failed > 0 {
		c.ErrorRate = Num(float64(c.Failed) / float64(c.OK+c.Failed))
	}
	return c
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

// tokenSums sums the tokens of the completed turns among rows.
func tokenSums(f *frame, rows []int32) Tokens {
	t := Tokens{CacheReuse: Missing, CacheCeiling: Missing, MeanPrompt: Missing, MeanOutput: Missing}
	prompt, cached, completion := f.ints("prompt_tokens"), f.ints("cached_tokens"), f.ints("completion_tokens")
	reasoning, asked := f.ints("reasoning_tokens"), f.ints("output_tokens_asked")
	ceiling, expected := f.ints("expected_cached_tokens"), f.ints("expected_prompt_tokens")
	source := f.strs("token_source")
	var sayPrompt, sayCached, ceil, ceilOf, prompts, outputs int64
	sources := make([]int64, len(source.Values))
	known := func(v int64) bool { return v != schemas.NullInt }
	for _, row := range rows {
		if f.status[row] != statusOK {
			continue
		}
		if v := prompt[row]; known(v) {
			t.Prompt += v
			prompts++
			if c := cached[row]; known(c) {
				sayPrompt += v
				sayCached += c
			}
		}
		if v := cached[row]; known(v) {
			t.Cached += v
		}
		if v := completion[row]; known(v) {
			t.Completion += v
			outputs++
			if a := asked[row]; known(a) {
				t.Asked += a
				t.AskedGot += v
			}
		}
		if v := reasoning[row]; known(v) {
			t.Reasoning += v
		}
		if a, b := ceiling[row], expected[row]; known(a) && known(b) {
			ceil += a
			ceilOf += b
		}
		if s := source.Codes[row]; s >= 0 {
			sources[s]++
		}
	}
	ratio := func(a, b int64) Num {
		if b == 0 {
			return Missing
		}
		return Num(float64(a) / float64(b))
	}
	t.CacheReuse, t.CacheCeiling = ratio(sayCached, sayPrompt), ratio(ceil, ceilOf)
	t.MeanPrompt, t.MeanOutput = ratio(t.Prompt, prompts), ratio(t.Completion, outputs)
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

var tokenColumns = []string{"reasoning_tokens", "output_tokens_asked", "expected_cached_tokens", "expected_prompt_tokens", "token_source"}

// throughput works out the rates of a population: rows of any moment, of which those that ended in the
// window count as done in it, and those that ran in it as in flight.
func throughput(f *frame, rows []int32, w *window) Throughput {
	turn := f.ints("turn")
	prompt, cached, completion := f.ints("prompt_tokens"), f.ints("cached_tokens"), f.ints("completion_tokens")
	var requests, prompts, cacheds, completions, conversations int64
	starts, ends := make([]int64, 0, len(rows)), make([]int64, 0, len(rows))
	var busy float64
	sent := f.ints("sent_ns")
	for _, row := range rows {
		if f.status[row] == statusOK && w.holdsEnd(f, turn, int(row)) {
			requests++
			prompts += max(0, prompt[row])
			cacheds += max(0, cached[row])
			completions += max(0, completion[row])
		}
		if turn[row] == 0 && w.holds(f, turn, int(row)) && f.moment[row] != schemas.NullInt {
			conversations++
		}
		if s := sent[row]; s != schemas.NullInt {
			from, to := max(s, w.from), min(f.end[row], w.to)
			if from < to {
				starts = append(starts, from)
				ends = append(ends, to)
				busy += float64(to - from)
			}
		}
	}
	t := Throughput{Seconds: Num(float64(w.to-w.from) / 1e9), PeakTokenRate: Missing, TokensPerUser: Missing}
	per := func(n int64) Num {
		if w.to <= w.from {
			return Missing
		}
		return Num(float64(n) / (float64(w.to-w.from) / 1e9))
	}
	t.Requests, t.PromptTokens, t.CachedTokens, t.CompletionTokens = per(requests), per(prompts), per(cacheds), per(completions)
	t.TotalTokens, t.Conversations = per(prompts+completions), per(conversations)
	t.MeanInFlight = Missing
	if w.to > w.from {
		t.MeanInFlight = Num(busy / float64(w.to-w.from))
	}
	t.PeakInFlight = peak(starts, ends)
	return t
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
	begin, end := f.conversationSpans()
	var starts, ends []int64
	for c := range begin {
		from, to := max(begin[c], w.from), min(end[c], w.to)
		if from < to {
			starts = append(starts, from)
			ends = append(ends, to)
		}
	}
	return peak(starts, ends)
}

// goodput counts the turns that ended in the window and met every objective. A failed turn met none; a
// turn that has no value for an objective (one token has no TPOT) is not held to it.
func goodput(f *frame, rows []int32, w *window, o *Options) *Goodput {
	if len(o.Objectives) == 0 {
		return nil
	}
	turn, completion := f.ints("turn"), f.ints("completion_tokens")
	values := make([]func(int) float64, len(o.Objectives))
	for i, obj := range o.Objectives {
		values[i] = rowFigure(obj.Figure).values(f, o)
	}
	var g Goodput
	var tokens int64
	for _, row := range rows {
		ok := f.status[row] == statusOK
		if !ok && !f.failed(int(row)) || !w.holdsEnd(f, turn, int(row)) {
			continue
		}
		g.Of++
		for i := range values {
			if v := values[i](int(row)); v > o.Objectives[i].Limit {
				ok = false
			}
		}
		if ok {
			g.Good++
			tokens += max(0, completion[row])
		}
	}
	s := float64(w.to-w.from) / 1e9
	g.Requests, g.Tokens, g.Share = Missing, Missing, Missing
	if s > 0 {
		g.Requests, g.Tokens = Num(float64(g.Good)/s), Num(float64(tokens)/s)
	}
	if g.Of > 0 {
		g.Share = Num(float64(g.Good) / float64(g.Of))
	}
	return &g
}

// cacheByTurn gives the prefix cache reuse at each turn index, where some server told it or the dataset
// gives a ceiling.
func cacheByTurn(f *frame, rows []int32) []CacheTurn {
	turn := f.ints("turn")
	prompt, cached := f.ints("prompt_tokens"), f.ints("cached_tokens")
	ceiling, expected := f.ints("expected_cached_tokens"), f.ints("expected_prompt_tokens")
	type sums struct{ rows, prompt, cached, ceiling, expected int64 }
	var by []sums
	for _, row := range rows {
		t := turn[row]
		if f.status[row] != statusOK || t < 0 || t > math.MaxInt32 {
			continue
		}
		for int64(len(by)) <= t && len(by) < maxGroups {
			by = append(by, sums{})
		}
		if t >= int64(len(by)) {
			continue
		}
		s := &by[t]
		s.rows++
		if prompt[row] != schemas.NullInt && cached[row] != schemas.NullInt {
			s.prompt += prompt[row]
			s.cached += cached[row]
		}
		if ceiling[row] != schemas.NullInt && expected[row] != schemas.NullInt {
			s.ceiling += ceiling[row]
			s.expected += expected[row]
		}
	}
	var out []CacheTurn
	for t, s := range by {
		if s.rows == 0 || s.prompt == 0 && s.expected == 0 {
			continue
		}
		c := CacheTurn{Turn: int64(t), Rows: s.rows, Reuse: Missing, Ceiling: Missing}
		if s.prompt > 0 {
			c.Reuse = Num(float64(s.cached) / float64(s.prompt))
		}
		if s.expected > 0 {
			c.Ceiling = Num(float64(s.ceiling) / float64(s.expected))
		}
		out = append(out, c)
	}
	return out
}

// conversationTimes gives the time of every conversation instance of which all turns completed, from its
// first turn's scheduled moment to its last turn's end, with and without the think time between. The
// instance belongs to the window if its first turn does.
func conversationTimes(f *frame, w *window) (with, without sample) {
	turn, scheduled, think := f.ints("turn"), f.ints("scheduled_ns"), f.floats("think_time_ms")
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
		if turn[row] == 0 {
			if w.holds(f, turn, row) {
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
		with.values = append(with.values, v)
		with.cluster = append(with.cluster, int32(c))
		without.values = append(without.values, v-thought[c])
	}
	without.cluster = with.cluster
	return with, without
}
