package analyze

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"parley/analyze/plots"
	"parley/schemas"
)

// lockstep is a closed loop against a server with a fixed TTFT and a fixed time per token: one-turn
// conversations, slots at a time, the first warmup of them in the warm-up phase. After stop (0: never) no
// turn starts. It counts every token that the server makes.
func lockstep(conversations, slots int, tokens int64, ttft, itl time.Duration, warmup int, stop time.Duration) (rows []schemas.Request, made []int64) {
	free := make([]int64, slots)
	for c := range conversations {
		at := slices.Min(free)
		slot := slices.Index(free, at)
		r := schemas.Request{
			ConversationID: fmt.Sprintf("c%d", c), Phase: schemas.PhaseMain, Status: string(schemas.StatusOK), Attempts: 1,
			ScheduledNS: p(at), ReadyNS: p(at), StartNS: p(at), SentNS: p(at), CompletionTokens: p(tokens),
			TokenSource: p(schemas.TokensFromUsage), PromptTokens: p(int64(50)),
		}
		if c < warmup {
			r.Phase = schemas.PhaseWarmup
		}
		if stop > 0 && at >= int64(stop) {
			continue
		}
		for k := range tokens {
			r.ChunkNS = append(r.ChunkNS, at+int64(ttft)+k*int64(itl))
		}
		made = append(made, r.ChunkNS...)
		first, last := r.ChunkNS[0], r.ChunkNS[len(r.ChunkNS)-1]
		r.FirstTokenNS, r.LastTokenNS, r.DoneNS = &first, &last, p(last)
		free[slot] = last
		r.Derive()
		rows = append(rows, r)
	}
	return rows, made
}

func within(a, b, share float64) bool { return math.Abs(a/b-1) <= share }

// Tokens per second of runs whose true rate is known, and against the server's own counter over the same
// time.
func TestThroughputKnownValues(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name          string
		conversations int
		slots         int
		tokens        int64
		ttft, itl     time.Duration
		warmup        int
		stop          time.Duration
		want          float64
		windows       []string
	}{
		{"4 at a time", 40, 4, 90, 100 * ms, 10 * ms, 0, 0, 363, []string{"all", "steady", "turns=0:1"}},
		{"4 at a time, half of them warm-up", 40, 4, 90, 100 * ms, 10 * ms, 20, 0, 363, []string{"all", "steady", "turns=0:1"}},
		{"two rounds of 16", 32, 16, 200, 50 * ms, 10 * ms, 0, 0, 1566, []string{"all", "steady"}},
		{"stopped in the second answer", 100, 8, 600, 50 * ms, 10 * ms, 0, 9 * time.Second, 800, []string{"steady"}},
	} {
		rows, made := lockstep(c.conversations, c.slots, c.tokens, c.ttft, c.itl, c.warmup, c.stop)
		meta := &schemas.RunMeta{}
		if c.stop > 0 {
			meta.StopNS = p(int64(c.stop))
		}
		for _, text := range c.windows {
			w, err := ParseWindow(text)
			if err != nil {
				t.Fatal(err)
			}
			by, err := ParseGroup("time:500ms")
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Window: w, By: []GroupSpec{by}}
			runs := runOfRows(t, rows, meta, o)
			res, err := Analyze(t.Context(), runs, o)
			if err != nil {
				t.Fatal(err)
			}
			r := &res.Runs[0]
			got := &r.Total.Throughput
			if !within(float64(got.CompletionTokens), c.want, 0.01) {
				t.Errorf("%s, window %s: %v tokens/s, want %v (%s)", c.name, text, got.CompletionTokens, c.want, r.Window.How)
			}
			var inside int
			for _, at := range made {
				if at >= int64(r.Window.From*1e9) && at < int64(r.Window.To*1e9) {
					inside++
				}
			}
			if own := float64(inside) / float64(r.Window.Seconds); !within(float64(got.CompletionTokens), own, 0.01) {
				t.Errorf("%s, window %s: %v tokens/s, the server itself counts %v", c.name, text, got.CompletionTokens, own)
			}
			if want := float64(got.CompletionTokens) / float64(c.tokens); c.warmup == 0 && !within(float64(got.Requests), want, 0.01) && text == "all" {
				t.Errorf("%s, window %s: %v turns/s, want %v", c.name, text, got.Requests, want)
			}
			if got.PeakTokenRate.Known() && got.PeakTokenRate < got.CompletionTokens*0.999 || !got.PeakTokenRate.Known() && r.Window.Seconds >= 5 && text != "turns=0:1" {
				t.Errorf("%s, window %s: best second %v, mean %v", c.name, text, got.PeakTokenRate, got.CompletionTokens)
			}
			// Groups by time add up to the total, to the last token and turn.
			var tokens, turns float64
			for i := range r.Groups {
				g := &r.Groups[i].Throughput
				tokens += float64(g.CompletionTokens * g.Seconds)
				turns += float64(g.Requests * g.Seconds)
			}
			if !near(tokens, float64(got.CompletionTokens*got.Seconds)) || !near(turns, float64(got.Requests*got.Seconds)) {
				t.Errorf("%s, window %s by time: %v tokens in %v turns, the total has %v in %v", c.name, text, tokens, turns, got.CompletionTokens*got.Seconds, got.Requests*got.Seconds)
			}
			// So does the series that is drawn.
			plots, err := BuildPlots(t.Context(), runs, res, o, plots.Budget{})
			if err != nil {
				t.Fatal(err)
			}
			ps := plots.Runs[0].PerSecond
			var drawn Num
			for _, v := range ps.CompletionTokens {
				drawn += v * ps.Step
			}
			if int(drawn) != len(made) {
				t.Errorf("%s: %v tokens are drawn, %d were made", c.name, drawn, len(made))
			}
		}
	}
}

// Later turns only: their tokens over the time that they took, not over the whole run's.
func TestThroughputOfLaterTurns(t *testing.T) {
	var rows []schemas.Request
	for c := range 3 {
		for turn := range 2 {
			// The first turns run from 0 s, the second ones from 60 s, one second each with ten tokens.
			at := float64(60_000*turn + 100*c)
			r := turnRow(string(rune('a'+c)), int64(turn), at, at, at, at, at+100, at+1000, at+1000)
			for k := range 10 {
				r.ChunkNS = append(r.ChunkNS, int64((at+100*float64(k+1))*1e6))
			}
			r.CompletionTokens = p(int64(10))
			rows = append(rows, r)
		}
	}
	w, err := ParseWindow("turns")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Window: w}
	got := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o).Total.Throughput
	if !within(float64(got.Seconds), 1.2, 1e-6) || !within(float64(got.CompletionTokens), 30/1.2, 1e-6) || !within(float64(got.Requests), 3/1.2, 1e-6) || !within(float64(got.MeanInFlight), 3/1.2, 1e-6) {
		t.Errorf("%+v", got)
	}
}

// What a server does not say is not known, and no objective is met by it.
func TestUnknownIsUnknown(t *testing.T) {
	row := func(change func(r *schemas.Request)) []schemas.Request {
		var rows []schemas.Request
		for c := range 4 {
			r := turnRow(fmt.Sprint(c), 0, 0, 0, 0, 0, 50, 150, 150)
			r.ChunkNS = []int64{50e6, 100e6, 150e6}
			r.CompletionTokens, r.CachedTokens = p(int64(3)), p(int64(16))
			r.ExpectedPromptTokens, r.ExpectedCachedTokens = p(int64(100)), p(int64(32))
			if c == 3 {
				change(&r)
			}
			r.Derive()
			rows = append(rows, r)
		}
		return rows
	}
	o := Options{Window: WindowSpec{Kind: WindowAll}, Objectives: []Objective{{"ttft", 100}, {"tpot", 60}}}
	of := func(change func(r *schemas.Request)) *RunResult {
		return analyzeOne(t, runOfRows(t, row(change), &schemas.RunMeta{}, o), o)
	}
	known := func(what string, n Num, want bool) {
		t.Helper()
		if n.Known() != want {
			t.Errorf("%s is %v", what, n)
		}
	}
	all := of(func(*schemas.Request) {})
	if g := all.Total.Goodput; g.Good != 4 || g.Of != 4 || all.Total.Tokens.CacheReuse != 0.16 || all.Total.Tokens.CacheCeiling != 0.32 {
		t.Errorf("%+v %+v", g, all.Total.Tokens)
	}
	noCount := of(func(r *schemas.Request) {
		r.PromptTokens, r.CachedTokens, r.ExpectedCachedTokens = nil, nil, p(int64(100))
	})
	th, k := noCount.Total.Throughput, noCount.Total.Tokens
	known("prompt tokens/s", th.PromptTokens, false)
	known("cached tokens/s", th.CachedTokens, false)
	known("all tokens/s", th.TotalTokens, false)
	known("output tokens/s", th.CompletionTokens, true)
	// Reuse and ceiling cover the same three rows, in the total and by turn.
	if k.CacheReuse != 0.16 || k.CacheCeiling != 0.32 || k.CacheRows != 3 || noCount.CacheTurns[0].Ceiling != 0.32 || noCount.CacheTurns[0].Rows != 3 {
		t.Errorf("reuse %v of %v, by turn %+v", k.CacheReuse, k.CacheCeiling, noCount.CacheTurns)
	}
	odd := of(func(r *schemas.Request) { r.CachedTokens = p(int64(900)) })
	known("reuse of a server that contradicts itself", odd.Total.Tokens.CacheReuse, false)
	known("cached tokens/s", odd.Total.Throughput.CachedTokens, false)
	known("reuse at turn 0", odd.CacheTurns0(), false)
	if !slices.ContainsFunc(odd.Verdict.Reasons, func(r schemas.Reason) bool { return r.Signal == "cached_above_prompt" }) {
		t.Errorf("no reason: %+v", odd.Verdict.Reasons)
	}
	for name, c := range map[string]struct {
		change func(r *schemas.Request)
		good   int64
	}{
		"no first token":         {func(r *schemas.Request) { r.FirstTokenNS = nil }, 3},
		"no token count":         {func(r *schemas.Request) { r.CompletionTokens = nil }, 3},
		"one token has no TPOT":  {func(r *schemas.Request) { r.CompletionTokens, r.ChunkNS = p(int64(1)), r.ChunkNS[:1] }, 4},
		"several in one piece":   {func(r *schemas.Request) { r.CompletionTokens, r.ChunkNS = p(int64(9)), r.ChunkNS[:1] }, 3},
		"chunks at one moment":   {func(r *schemas.Request) { r.ChunkNS = []int64{50e6, 50e6, 50e6}; r.LastTokenNS = p(int64(50e6)) }, 3},
		"failed":                 {func(r *schemas.Request) { r.Status = string(schemas.StatusIncomplete) }, 3},
		"stopped":                {func(r *schemas.Request) { r.Status = string(schemas.StatusCanceled) }, 3},
		"reasoning that is seen": {func(r *schemas.Request) { r.ReasoningTokens = p(int64(1)); r.FirstAnswerNS = p(int64(100e6)) }, 4},
	} {
		if g := of(c.change).Total.Goodput; g.Good != c.good || g.Of != 4 {
			t.Errorf("%s: %d of %d are good, want %d", name, g.Good, g.Of, c.good)
		}
	}
	// 97 of 100 tokens were reasoning that was not streamed: 100 ms for two tokens after the first.
	hidden := of(func(r *schemas.Request) {
		r.CompletionTokens, r.ReasoningTokens, r.FirstAnswerNS = p(int64(100)), p(int64(97)), r.FirstTokenNS
	})
	if f := hidden.Total.Figure("tpot"); !near(float64(f.Max), 50) || f.Population == popCompleted {
		t.Errorf("TPOT %+v", f)
	}
	bursts := of(func(r *schemas.Request) { r.ChunkNS = []int64{50e6, 50e6, 50e6}; r.LastTokenNS = p(int64(50e6)) })
	if f := bursts.Total.Figure("tpot"); f.N != 3 || f.Population == popCompleted {
		t.Errorf("TPOT %+v", f)
	}
	if !slices.ContainsFunc(bursts.Verdict.Reasons, func(r schemas.Reason) bool { return r.Signal == "bursts" }) {
		t.Errorf("no reason: %+v", bursts.Verdict.Reasons)
	}
}

// CacheTurns0 gives the reuse at the first turns.
func (r *RunResult) CacheTurns0() Num {
	for _, c := range r.CacheTurns {
		if c.Turn == 0 {
			return c.Reuse
		}
	}
	return Missing
}

// Conversations that think when a run is stopped hold their place until then.
func TestThinkersHoldTheirPlace(t *testing.T) {
	var rows []schemas.Request
	for c := range 10 {
		at := float64(10 * c)
		for turn := range 5 { // each turn takes one second, each thought four
			rows = append(rows, turnRow(string(rune('a'+c)), int64(turn), at, at, at, at, at+100, at+1000, at+1000))
			at += 5000
		}
		rows = append(rows, schemas.Request{ConversationID: string(rune('a' + c)), Turn: 5, Phase: schemas.PhaseMain, Status: string(schemas.StatusNotReached), ErrorKind: p("budget")})
	}
	o := Options{Figures: scalarFigures}
	w := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{StopNS: p(int64(24e9))}, o), o).Window
	if !w.Steady || w.To != 24 {
		t.Errorf("%+v", w)
	}
}
