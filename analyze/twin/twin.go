// Package twin finds the engine behind a run: the parameters with which a model of continuous batching in steps does
// what the server did, from the rows of one run and the server's own figures beside them.
//
// # How
//
// A server that batches sends the tokens of a step together. So the chunks of all requests, in order of their arrival,
// fall apart into steps: a new one begins where a pause is, or where a request comes for the second time, unless a request
// that decodes has not come yet. A step whose
// predecessor a decoding request was in too lasted from the one's end to the other's; its decoding sequences are the
// requests with a token in it, and its prompt tokens those of the requests whose first token it has, but for what the
// cache had, and spread over the steps before it where there are more than the budget of a step. Then
//
//	time = a + b x decoding sequences + c x prompt tokens
//
// by weighted least squares (the noise is relative), without the outliers beyond four deviations, and then stretched to the
// time that all steps took together; the intervals
// are percentiles of a bootstrap over twenty stretches of time, since neighbouring steps are alike. What is left is the
// server's mood: steps of one second differ by its jitter, seconds by its drift. The budget is the
// one of the usual sizes that leaves the least unexplained. The delay before the queue is the one that puts the most
// requests into the step that they were seen in. Blocks are the tokens held by the requests under way by the server's
// share of its cache in use, and a block's size is what all counts of cached tokens are multiples of.
//
// # What it does not know
//
// A twin knows the loads that its run saw. [Fit.Beyond] says where another run left them: more requests at once, a
// fuller cache, preemptions, prefixes that are gone. There it only guesses, and in servers the cliffs are there.
package twin

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// Value is an estimate with its 95 % interval.
type Value struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Fit is an engine.
type Fit struct {
	Step        Value   `json:"step_ms"`         // a
	PerSequence Value   `json:"per_sequence_ms"` // b
	PerToken    Value   `json:"per_token_ms"`    // c
	Delay       float64 `json:"delay_ms"`        // from sending until the request stands in the queue
	Jitter      float64 `json:"jitter"`          // half the width of a step's own factor
	Drift       float64 `json:"drift"`           // deviation of the logarithm of the factor that wanders
	DriftTime   float64 `json:"drift_time_s"`    // in which that forgets
	Budget      int     `json:"budget"`          // tokens computed in a step; 0: the run did not show one
	Sequences   int     `json:"sequences"`       // that run at once; 0: the run did not show a limit
	BlockSize   int     `json:"block_tokens"`    // tokens of a block
	Blocks      *Value  `json:"blocks"`          // null: the server's figures do not tell

	Steps    int      `json:"steps"`    // that the estimates come from
	Explains float64  `json:"explains"` // share of the variance of their times
	Seen     Seen     `json:"seen"`
	Notes    []string `json:"notes,omitempty"`
}

// Seen is how far a run went.
type Seen struct {
	Requests    int     `json:"requests"`    // most under way at once
	Held        int     `json:"held"`        // most tokens of theirs
	KVUsage     float64 `json:"kv_usage"`    // most, 0 to 1; 0 where the server does not tell
	Preemptions float64 `json:"preemptions"` //
	Found       float64 `json:"found"`       // share found in the cache of the prompt tokens that an infinite one has; -1 unknown
}

// wild is the drift above which a run of minutes tells too little of the slow moments that make a p95.
const wild = 0.15

// A cache that finds prefixes token by token, or that says nothing of them, is taken to have blocks of such a size.
const usualBlock, leastBlock = 16, 8

// ErrUnlike means that a run cannot be understood as one of an engine that batches in steps.
var ErrUnlike = errors.New("no twin")

// request is what matters of a row.
type request struct {
	sent     int64
	prompt   int
	computed int // of the prompt: what the cache did not have
	chunks   []int64
}

// step is a step that was seen.
type step struct {
	end      int64
	decoding int
	firsts   []int // requests whose first token it has
	timed    bool  // its predecessor is known, so it lasted from that one's end
	lasted   float64
	prompt   float64
}

// Of finds the engine behind the rows of one run.
func Of(rows []schemas.Request, samples []schemas.Sample) (*Fit, error) {
	f := &Fit{}
	list, err := f.requests(rows)
	if err != nil {
		return nil, err
	}
	steps := split(list)
	if err := f.solve(list, steps); err != nil {
		return nil, err
	}
	if f.Drift > wild {
		f.Notes = append(f.Notes, fmt.Sprintf("the server's speed wandered by %.0f %% in the run: the twin does not know the tail of its latencies, which hangs on when it was slow", 100*f.Drift))
	}
	f.findDelay(list, steps)
	f.Seen = seen(rows, samples)
	f.BlockSize = blockSize(rows)
	f.findLimits(rows, samples)
	return f, nil
}

func (f *Fit) requests(rows []schemas.Request) ([]request, error) {
	var out []request
	unknown, several := 0, 0
	for i := range rows {
		r := &rows[i]
		if r.SentNS == nil || r.FirstTokenNS == nil || len(r.ChunkNS) == 0 || r.PromptTokens == nil {
			continue
		}
		q := request{sent: *r.SentNS, prompt: int(*r.PromptTokens), computed: int(*r.PromptTokens), chunks: r.ChunkNS}
		if r.CachedTokens != nil {
			q.computed -= int(*r.CachedTokens)
		} else {
			unknown++
		}
		if r.CompletionTokens != nil && *r.CompletionTokens > int64(len(r.ChunkNS))*5/4+1 {
			several++
		}
		out = append(out, q)
	}
	switch {
	case len(out) < 20:
		return nil, fmt.Errorf("%w: %d requests with tokens and a count of the prompt's are too few, it takes 20", ErrUnlike, len(out))
	case several > len(out)/10:
		return nil, fmt.Errorf("%w: the server sends several tokens in a chunk (speculative decoding, or a stream interval), so its steps cannot be seen", ErrUnlike)
	}
	if unknown > len(out)/10 {
		f.Notes = append(f.Notes, "the server does not tell cached tokens: all prompts count as computed, and the time per prompt token comes out too short if it has a prefix cache")
	}
	return out, nil
}

// split finds the steps.
func split(list []request) []step {
	type arrival struct {
		at  int64
		of  int
		nth int
	}
	var all []arrival
	var gaps []int64
	for i := range list {
		for k, at := range list[i].chunks {
			all = append(all, arrival{at, i, k})
			if k > 0 {
				gaps = append(gaps, at-list[i].chunks[k-1])
			}
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return int(max(-1, min(1, a.at-b.at))) })
	slices.Sort(gaps)
	pause := int64(0)
	if len(gaps) > 0 {
		pause = gaps[len(gaps)/10] * 2 / 5
	}
	var out []step
	last := make([]int, len(list)) // the step of each request's last chunk, from 1
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].at-all[to-1].at <= pause && !slices.ContainsFunc(all[from:to], func(a arrival) bool { return a.of == all[to].of }) {
			to++
		}
		// A busy server or client tears the chunks of a step apart. Whatever decodes is in every step: chunks of
		// requests that are not in this step, among them one that was in the step before it, belong to it.
		missed, again := false, false
		for _, a := range all[from:to] {
			again = again || last[a.of] == len(out)
			missed = missed || a.nth > 0 && last[a.of] == len(out)-1
		}
		if len(out) == 0 || again || !missed {
			out = append(out, step{end: all[from].at})
		}
		s := &out[len(out)-1]
		for _, a := range all[from:to] {
			if a.nth == 0 {
				s.firsts = append(s.firsts, a.of)
			} else {
				s.decoding++
				s.timed = s.timed || last[a.of] == len(out)-1
			}
			last[a.of] = len(out)
		}
		from = to
	}
	for i := 1; i < len(out); i++ {
		out[i].lasted = float64(out[i].end-out[i-1].end) / 1e6
	}
	return out
}

// budgets are the sizes in question; 0 is no limit.
var budgets = []int{0, 16384, 8192, 4096, 2048, 1024, 512, 256}

// solve finds a, b and c, and the budget under which they explain most.
func (f *Fit) solve(list []request, steps []step) error {
	best := math.Inf(1)
	for _, budget := range budgets {
		spread(list, steps, budget)
		o := regress(steps)
		if o == nil {
			return fmt.Errorf("%w: too few steps in which requests decoded one after another", ErrUnlike)
		}
		// A smaller budget has to explain clearly more.
		if o.unexplained < 0.97*best {
			best = o.unexplained
			o.to(f)
			f.Budget = budget
		}
	}
	if f.Explains < 0.2 && f.PerSequence.Low <= 0 && f.PerToken.Low <= 0 {
		f.Notes = append(f.Notes, "the time of a step hardly depends on what is in it: either so little ran at once that it does not show, or the server does not batch in steps")
	}
	return nil
}

// spread lays the computed tokens of prompts into the steps that they were computed in: the one with the first token,
// and those before it as far as the budget asks for.
func spread(list []request, steps []step, budget int) {
	room := make([]float64, len(steps))
	for s := range steps {
		steps[s].prompt = 0
		room[s] = math.Inf(1)
		if budget > 0 {
			room[s] = max(1, float64(budget-steps[s].decoding))
		}
	}
	for s := range steps {
		for _, i := range steps[s].firsts {
			left := float64(list[i].computed)
			// The last piece is what the whole ones leave.
			piece := left
			if budget > 0 && left > room[s] {
				if piece = math.Mod(left, room[s]); piece == 0 {
					piece = room[s]
				}
			}
			for k := s; left > 0; k-- {
				take := min(piece, room[k])
				steps[k].prompt += take
				room[k] -= take
				left -= take
				if k == 0 || steps[k-1].end < list[i].sent || !steps[k].timed {
					steps[k].prompt += left // it began before anything can be seen of it
					break
				}
				piece = min(left, room[k-1])
			}
		}
	}
}

// outcome is what a regression found.
type outcome struct {
	v           [3]Value
	n           int
	unexplained float64 // mean relative distance
	explains    float64
	jitter      float64
	drift       float64
	driftTime   float64 // seconds
}

func (o *outcome) to(f *Fit) {
	f.Step, f.PerSequence, f.PerToken = o.v[0], o.v[1], o.v[2]
	f.Steps, f.Explains, f.Jitter, f.Drift, f.DriftTime = o.n, o.explains, o.jitter, o.drift, o.driftTime
}

// stretches is the number of stretches of time that are drawn from for intervals, and draws how often.
const (
	stretches = 20
	draws     = 400
)

func regress(steps []step) *outcome {
	var use []*step
	for s := range steps {
		if steps[s].timed {
			use = append(use, &steps[s])
		}
	}
	if len(use) < 50 {
		return nil
	}
	all := use
	var beta [3]float64
	predict := func(s *step) float64 {
		return beta[0] + beta[1]*float64(s.decoding) + beta[2]*s.prompt
	}
	weigh := func(s *step) float64 { return 1 / math.Pow(max(s.lasted, 1e-3), 2) }
	for range 4 {
		var n normal
		for _, s := range use {
			n.add(s, weigh(s))
		}
		beta = n.solve()
		// The next round's weights come from what is expected, and its steps are those near it.
		relative := make([]float64, len(all))
		for i, s := range all {
			relative[i] = math.Abs(s.lasted/predict(s) - 1)
		}
		slices.Sort(relative)
		limit := 4 * 1.4826 * max(relative[len(relative)/2], 1e-4) // 1.4826 x the median distance is the deviation of a normal
		now, b := []*step(nil), beta
		for _, s := range all {
			if math.Abs(s.lasted/predict(s)-1) <= limit {
				now = append(now, s)
			}
		}
		use = now
		weigh = func(s *step) float64 {
			return 1 / math.Pow(max(b[0]+b[1]*float64(s.decoding)+b[2]*s.prompt, 1e-3), 2)
		}
	}
	o := &outcome{n: len(use)}
	var mean, sq, left float64
	for _, s := range use {
		mean += s.lasted / float64(len(use))
	}
	for _, s := range use {
		sq += (s.lasted - mean) * (s.lasted - mean)
		d := s.lasted - predict(s)
		left += d * d
	}
	for _, s := range all {
		o.unexplained += min(1, math.Abs(s.lasted/predict(s)-1)) / float64(len(all))
	}
	o.explains = 1 - left/sq
	o.mood(all, predict)
	// Stalls are no steps like others, but they take their time: on the whole, steps take what they took.
	var took, expected float64
	for _, s := range all {
		took += min(s.lasted, 20*predict(s))
		expected += predict(s)
	}
	longer := took / expected / math.Exp(o.drift*o.drift/2)
	// Stretches of time, drawn anew.
	var parts [stretches]normal
	first, last := use[0].end, use[len(use)-1].end+1
	for _, s := range use {
		parts[int(float64(s.end-first)/float64(last-first)*stretches)].add(s, weigh(s))
	}
	r := rand.New(rand.NewPCG(1, 2))
	var drawn [3][]float64
	for range draws {
		var n normal
		for range parts {
			n.join(&parts[r.IntN(stretches)])
		}
		for k, v := range n.solve() {
			drawn[k] = append(drawn[k], v)
		}
	}
	for k := range drawn {
		slices.Sort(drawn[k])
		o.v[k] = Value{longer * beta[k], longer * min(beta[k], drawn[k][draws/40]), longer * max(beta[k], drawn[k][draws-1-draws/40])}
	}
	return o
}

// mood finds how much steps differ from what is expected: those of one second from each other (jitter), and the
// seconds from each other (drift).
func (o *outcome) mood(steps []*step, predict func(*step) float64) {
	const second = int64(time.Second)
	type sums struct{ n, mean, sq float64 }
	seconds := map[int64]*sums{}
	for _, s := range steps {
		v := math.Log(max(s.lasted, 1e-3) / predict(s))
		v = max(-1, min(1, v)) // what was no step of the server, or a stall
		at := seconds[s.end/second]
		if at == nil {
			at = &sums{}
			seconds[s.end/second] = at
		}
		at.n++
		d := v - at.mean
		at.mean += d / at.n
		at.sq += d * (v - at.mean)
	}
	var within, free, mean, n, noise float64
	for _, a := range seconds {
		if a.n >= 5 {
			within += a.sq
			free += a.n - 1
			mean += a.mean
			n++
		}
	}
	if n < 5 {
		return
	}
	within /= free
	mean /= n
	var between, together, pairs float64
	for at, a := range seconds {
		if a.n < 5 {
			continue
		}
		between += (a.mean - mean) * (a.mean - mean) / (n - 1)
		noise += within / a.n / n
		if next := seconds[at+1]; next != nil && next.n >= 5 {
			together += (a.mean - mean) * (next.mean - mean)
			pairs++
		}
	}
	// A factor that is even from 1-j to 1+j has a deviation of j by the root of 3.
	o.jitter = min(0.9, math.Sqrt(3*within))
	slow := max(0, between-noise)
	o.drift = min(1, math.Sqrt(slow))
	o.driftTime = 1
	if share := together / max(pairs, 1) / max(slow, 1e-12); slow > 0 && share > 0.1 && pairs >= 5 {
		o.driftTime = min(60, -1/math.Log(min(0.98, share)))
	}
}

// normal is the normal equations of weighted least squares.
type normal struct {
	xx [3][3]float64
	xy [3]float64
}

func (n *normal) add(s *step, w float64) {
	x := [3]float64{1, float64(s.decoding), s.prompt}
	for i := range x {
		for k := range x {
			n.xx[i][k] += w * x[i] * x[k]
		}
		n.xy[i] += w * x[i] * s.lasted
	}
}

func (n *normal) join(o *normal) {
	for i := range n.xx {
		for k := range n.xx {
			n.xx[i][k] += o.xx[i][k]
		}
		n.xy[i] += o.xy[i]
	}
}

// solve gives the solution with no negative part: what comes out negative is left out, the most negative first.
func (n *normal) solve() (beta [3]float64) {
	out := [3]bool{}
	for {
		m, y := n.xx, n.xy
		for i := range m {
			if out[i] || m[i][i] == 0 {
				m[i], y[i] = [3]float64{}, 0
				for k := range m {
					m[k][i] = 0
				}
				m[i][i] = 1
			}
		}
		for i := range m { // Gauss; the matrix is positive, so the diagonal does
			if m[i][i] <= 1e-12*n.xx[i][i] {
				m[i][i] = 1
				y[i] = 0
			}
			for k := i + 1; k < len(m); k++ {
				by := m[k][i] / m[i][i]
				for c := i; c < len(m); c++ {
					m[k][c] -= by * m[i][c]
				}
				y[k] -= by * y[i]
			}
		}
		for i := len(m) - 1; i >= 0; i-- {
			for c := i + 1; c < len(m); c++ {
				y[i] -= m[i][c] * y[c]
			}
			y[i] /= m[i][i]
		}
		worst := -1
		for i, v := range y {
			if v < 0 && (worst < 0 || v < y[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			return y
		}
		out[worst] = true
	}
}

// findDelay finds the time before the queue. A request whose prompt one step computed stood there when that step
// began, and not yet when the one before it did, unless it had to wait for something else; so most requests give a
// lower and an upper bound, and the delay is where most of them agree.
func (f *Fit) findDelay(list []request, steps []step) {
	type bound struct {
		at   float64
		step int // +1 at a lower bound, -1 behind an upper one
	}
	var bounds []bound
	for s := 1; s < len(steps); s++ {
		for _, i := range steps[s].firsts {
			if f.Budget > 0 && list[i].computed+steps[s].decoding > f.Budget {
				continue
			}
			began := steps[s-1].end
			low := float64(began-list[i].sent) / 1e6
			lasts := f.Step.Estimate + f.PerSequence.Estimate*float64(steps[s].decoding) + f.PerToken.Estimate*steps[s].prompt
			if idle := float64(steps[s].end)/1e6 - lasts - float64(list[i].sent)/1e6; !steps[s].timed || steps[s].decoding == 0 {
				// Nothing ran: the step began when the request came.
				bounds = append(bounds, bound{idle - 0.1*lasts - 0.2, 1}, bound{idle + 0.1*lasts + 0.2, -1})
				continue
			}
			before := low - steps[s-1].lasted
			if !steps[s-1].timed {
				before = low - f.Step.Estimate
			}
			bounds = append(bounds, bound{before, 1}, bound{low, -1})
		}
	}
	slices.SortFunc(bounds, func(a, b bound) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return b.step - a.step
	})
	depth, most := 0, 0
	for i, b := range bounds {
		if depth += b.step; depth > most && i+1 < len(bounds) {
			most = depth
			f.Delay = max(0, (b.at+bounds[i+1].at)/2)
		}
	}
}

// seen says how far a run went.
func seen(rows []schemas.Request, samples []schemas.Sample) Seen {
	type change struct {
		at             int64
		requests, held int
	}
	var all []change
	var ceiling, found float64
	for i := range rows {
		r := &rows[i]
		if r.SentNS == nil || r.DoneNS == nil || r.PromptTokens == nil {
			continue
		}
		held := int(*r.PromptTokens)
		if r.CompletionTokens != nil {
			held += int(*r.CompletionTokens)
		}
		all = append(all, change{*r.SentNS, 1, held}, change{*r.DoneNS, -1, -held})
		if r.ExpectedCachedTokens != nil && r.CachedTokens != nil && r.Turn > 0 {
			ceiling += float64(min(*r.ExpectedCachedTokens, *r.PromptTokens))
			found += float64(min(*r.CachedTokens, *r.ExpectedCachedTokens))
		}
	}
	slices.SortFunc(all, func(a, b change) int { return int(max(-1, min(1, a.at-b.at))) })
	s := Seen{Found: -1}
	if ceiling > 0 {
		s.Found = found / ceiling
	}
	requests, held := 0, 0
	for _, c := range all {
		requests += c.requests
		held += c.held
		s.Requests, s.Held = max(s.Requests, requests), max(s.Held, held)
	}
	first, have := 0.0, false
	for _, x := range samples {
		switch x.Name {
		case "kv_usage":
			s.KVUsage = max(s.KVUsage, x.Value)
		case "preemptions":
			if !have {
				first, have = x.Value, true
			}
			s.Preemptions = max(s.Preemptions, x.Value-first)
		}
	}
	return s
}

// findLimits finds the limit of sequences and the blocks from the server's own figures.
func (f *Fit) findLimits(rows []schemas.Request, samples []schemas.Sample) {
	at := map[int64]map[string]float64{}
	for _, s := range samples {
		if at[s.TimeNS] == nil {
			at[s.TimeNS] = map[string]float64{}
		}
		at[s.TimeNS][s.Name] = s.Value
	}
	most, full, waits := 0.0, 0, 0
	for _, m := range at {
		most = max(most, m["running"])
	}
	shared := sharedTokens(rows) / f.BlockSize
	var sizes []float64
	for t, m := range at {
		if m["waiting"] > 0 {
			waits++
			if m["running"] == most {
				full++
			}
		}
		if u := m["kv_usage"]; u > 0.001 {
			blocks := 0
			for i := range rows {
				r := &rows[i]
				if r.FirstTokenNS == nil || r.LastTokenNS == nil || r.PromptTokens == nil || *r.FirstTokenNS > t || *r.LastTokenNS < t {
					continue
				}
				n, _ := slices.BinarySearch(r.ChunkNS, t)
				if blocks > 0 { // what all begin with is held once
					blocks -= shared
				}
				blocks += (int(*r.PromptTokens) + n + f.BlockSize - 1) / f.BlockSize
			}
			if blocks > 0 {
				sizes = append(sizes, float64(blocks)/u)
			}
		}
	}
	if waits >= 3 && full >= waits*4/5 {
		f.Sequences = int(most)
	}
	if len(at) == 0 {
		f.Notes = append(f.Notes, "the run has none of the server's own figures: the limit of requests at once and the size of the cache are not known")
	}
	if len(sizes) >= 10 {
		slices.Sort(sizes)
		// The order statistics between which the median lies with 95 %.
		n, w := float64(len(sizes)), 0.98*math.Sqrt(float64(len(sizes)))
		f.Blocks = &Value{sizes[len(sizes)/2], sizes[max(0, int(n/2-w))], sizes[min(len(sizes)-1, int(n/2+w))]}
	}
}

// blockSize gives the size of which all counts of cached tokens are multiples.
func blockSize(rows []schemas.Request) int {
	size := int64(0)
	for i := range rows {
		if c := rows[i].CachedTokens; c != nil {
			for a := *c; a != 0; {
				size, a = a, size%a
			}
		}
	}
	if size == 0 {
		return usualBlock
	}
	return max(leastBlock, int(size))
}

// sharedTokens gives the tokens that first prompts have in common: what the cache had of them, at the median.
func sharedTokens(rows []schemas.Request) int {
	var cached []int64
	for i := range rows {
		if r := &rows[i]; r.Turn == 0 && r.Instance == 0 && r.CachedTokens != nil && r.ParentID == nil {
			cached = append(cached, *r.CachedTokens)
		}
	}
	if len(cached) == 0 {
		return 0
	}
	slices.Sort(cached)
	return int(cached[len(cached)/2])
}

// Query gives the parameters of a simulated server that is the twin.
func (f *Fit) Query() url.Values {
	q := url.Values{"engine": {"batched"}}
	ms := func(v float64) string { return time.Duration(v * 1e6).String() }
	q.Set("step", ms(max(f.Step.Estimate, 0.001)))
	q.Set("step_seq", ms(f.PerSequence.Estimate))
	q.Set("step_token", ms(f.PerToken.Estimate))
	q.Set("base", ms(f.Delay))
	q.Set("jitter", strconv.FormatFloat(f.Jitter, 'f', 4, 64))
	if f.Drift > 0.005 {
		q.Set("drift", strconv.FormatFloat(f.Drift, 'f', 4, 64))
		q.Set("drift_time", time.Duration(f.DriftTime*1e9).Round(time.Millisecond).String())
	}
	q.Set("budget", strconv.Itoa(f.Budget))
	q.Set("slots", strconv.Itoa(f.Sequences))
	q.Set("block", strconv.Itoa(f.BlockSize))
	if f.Blocks != nil {
		q.Set("cache_blocks", strconv.Itoa(int(f.Blocks.Estimate)))
	}
	return q
}

// Beyond says, in a sentence each, where a run left what the twin knows: none if it did not. The run may be one of the
// server, or one of the twin.
func (f *Fit) Beyond(rows []schemas.Request, samples []schemas.Sample) []string {
	now, was := seen(rows, samples), f.Seen
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if f.Drift > wild {
		say("the tail of latencies, since the server's speed wandered by %.0f %% in the fitted run", 100*f.Drift)
	}
	if now.Requests > was.Requests*3/2+1 {
		say("%d requests at once, and the fitted run had at most %d", now.Requests, was.Requests)
	}
	if f.Blocks != nil && float64(now.Held) > 0.9*f.Blocks.Low*float64(f.BlockSize) && was.KVUsage < 0.9 {
		say("requests that hold %d tokens at once, of a cache of %.0f that the fitted run filled to %.0f %%", now.Held, f.Blocks.Estimate*float64(f.BlockSize), 100*was.KVUsage)
	}
	if now.Preemptions > 0 && was.Preemptions == 0 {
		say("%.0f preemptions, of which the fitted run had none", now.Preemptions)
	}
	if was.Found >= 0 && now.Found >= 0 && math.Abs(now.Found-was.Found) > 0.05 {
		say("the cache had %.0f %% of the prefixes that it could have had, in the fitted run %.0f %%: it evicts otherwise", 100*now.Found, 100*was.Found)
	}
	return out
}

// String has a line for each parameter.
func (f *Fit) String() string {
	var b strings.Builder
	line := func(name string, v Value, digits int, unit, what string) {
		fmt.Fprintf(&b, "%-22s %.*f %s (95 %%: %.*f to %.*f)  %s\n", name, digits, v.Estimate, unit, digits, v.Low, digits, v.High, what)
	}
	count := func(name string, n int, what, none string) {
		if n == 0 {
			what = none
			fmt.Fprintf(&b, "%-22s not seen  %s\n", name, what)
			return
		}
		fmt.Fprintf(&b, "%-22s %d  %s\n", name, n, what)
	}
	line("a step", f.Step, 3, "ms", "a")
	line("a decoding sequence", f.PerSequence, 4, "ms", "b")
	line("a prompt token", f.PerToken, 5, "ms", "c")
	fmt.Fprintf(&b, "%-22s %.2f ms  before the queue\n", "delay", f.Delay)
	fmt.Fprintf(&b, "%-22s steps by %.0f %%; seconds by %.0f %%, for about %.1f s\n", "differ", 100*f.Jitter/math.Sqrt(3), 100*f.Drift, f.DriftTime)
	count("budget of a step", f.Budget, "tokens", "no prompt was spread over steps")
	count("sequences at once", f.Sequences, "at most", "nothing waited at a limit")
	if f.Blocks != nil {
		line("blocks", *f.Blocks, 0, "", fmt.Sprintf("the cache; %d tokens each", f.BlockSize))
	} else {
		fmt.Fprintf(&b, "%-22s not known, of %d tokens each  the server's figures do not tell\n", "blocks", f.BlockSize)
	}
	fmt.Fprintf(&b, "%-22s %d steps, %.0f %% of whose variance this explains\n", "from", f.Steps, 100*f.Explains)
	fmt.Fprintf(&b, "%-22s up to %d requests at once that hold %d tokens\n", "known", f.Seen.Requests, f.Seen.Held)
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}
