package analyze

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"parley/analyze/internal/synth"
	"parley/schemas"
)

func p[T any](v T) *T { return &v }

// turnRow makes a completed turn by its moments in milliseconds: scheduled, ready, start, sent, first
// token, last token, done.
func turnRow(conversation string, turn int64, ms ...float64) schemas.Request {
	at := func(i int) *int64 { return p(int64(ms[i] * 1e6)) }
	r := schemas.Request{
		ConversationID: conversation, Turn: turn, Phase: schemas.PhaseMain, Status: string(schemas.StatusOK), Attempts: 1,
		ScheduledNS: at(0), ReadyNS: at(1), StartNS: at(2), SentNS: at(3), FirstTokenNS: at(4), LastTokenNS: at(5), DoneNS: at(6),
		TokenSource: p(schemas.TokensFromUsage), PromptTokens: p(int64(100)), CompletionTokens: p(int64(11)),
	}
	return r
}

func mean(t *testing.T, g *Group, name string) float64 {
	t.Helper()
	f := g.Figure(name)
	if f == nil {
		t.Fatalf("no figure %s", name)
	}
	return float64(f.Mean)
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, math.Abs(b)) }

// The figures of one turn, by hand.
func TestFiguresByHand(t *testing.T) {
	row := turnRow("a", 0, 100, 110, 113, 118, 218, 318, 320)
	row.FirstByteNS, row.FirstAnswerNS, row.WroteNS = p(int64(200e6)), p(int64(250e6)), p(int64(119e6))
	row.ChunkNS, row.ChunkTokens = []int64{218e6, 268e6, 318e6}, []int64{1, 5, 5}
	row.Derive()
	for from, want := range map[Moment]map[string]float64{
		FromSent: {"ttft": 100, "ttft_start": 105, "ttft_scheduled": 118, "ttfb": 82, "ttfa": 132, "e2e": 200, "e2e_scheduled": 218,
			"tpot": 10, "tpot_request": 10, "normalized_latency": 200.0 / 11, "send_lag": 18, "lag_slot": 10, "lag_scheduler": 3, "lag_connection": 5, "write_time": 1},
		FromStart:     {"ttft": 105, "ttft_sent": 100, "ttft_scheduled": 118, "ttfb": 87, "ttfa": 137, "e2e": 205, "tpot_request": 10, "normalized_latency": 205.0 / 11},
		FromScheduled: {"ttft": 118, "ttft_sent": 100, "ttft_start": 105, "ttfb": 100, "ttfa": 150, "e2e": 218},
	} {
		o := Options{From: from, Window: WindowSpec{Kind: WindowAll}, Figures: slices.DeleteFunc(FigureNames(), func(n string) bool { return n == figITL || n == figChunkGap })}
		r := analyzeOne(t, runOfRows(t, []schemas.Request{row}, &schemas.RunMeta{}, o), o)
		for name, v := range want {
			if got := mean(t, &r.Total, name); !near(got, v) {
				t.Errorf("from %s: %s = %v, want %v", from, name, got, v)
			}
		}
	}
}

// The back-off after a refusal is a figure of its own, and neither lateness of the client nor a wait for a connection.
func TestBackOffIsNotTheClients(t *testing.T) {
	once, again := turnRow("a", 0, 0, 0, 2, 3, 10, 20, 21), turnRow("b", 0, 0, 0, 4, 2004, 2010, 2020, 2021)
	again.Attempts = 3
	o := Options{Window: WindowSpec{Kind: WindowAll}, Figures: []string{"send_lag", "lag_connection", "lag_retries"}}
	r := analyzeOne(t, runOfRows(t, []schemas.Request{once, again}, &schemas.RunMeta{}, o), o)
	for name, want := range map[string]float64{"send_lag": 3.5, "lag_connection": 1, "lag_retries": 2000} {
		if got := mean(t, &r.Total, name); !near(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestLagOfEarlyReadyTurns(t *testing.T) {
	// Ready before it was scheduled: no wait for a slot, and the client is late from the schedule on.
	row := turnRow("a", 0, 100, 40, 102, 103, 110, 120, 121)
	o := Options{Window: WindowSpec{Kind: WindowAll}, Figures: []string{"lag_slot", "lag_scheduler"}}
	r := analyzeOne(t, runOfRows(t, []schemas.Request{row}, &schemas.RunMeta{}, o), o)
	if slot, late := mean(t, &r.Total, "lag_slot"), mean(t, &r.Total, "lag_scheduler"); slot != 0 || !near(late, 2) {
		t.Errorf("slot %v, scheduler %v", slot, late)
	}
}

func TestGapsOf(t *testing.T) {
	ns := []int64{0, 10e6, 30e6, 35e6, 70e6}
	for _, c := range []struct {
		name       string
		tokens     []int64
		completion int64
		hidden     int32 // reasoning tokens that were not streamed
		gaps, itl  []float64
	}{
		{"counts per chunk", []int64{1, 2, 1, 1, 4}, 9, 0, []float64{10, 20, 5, 35}, []float64{5, 5, 20, 5, 8.75, 8.75, 8.75, 8.75}},
		{"a chunk without tokens leaves its gap to the next", []int64{1, 0, 2, 1, 1}, 5, 0, []float64{10, 20, 5, 35}, []float64{15, 15, 5, 35}},
		{"tokens that came with no chunk came with the last", []int64{1, 1, 1, 1, 1}, 8, 0, []float64{10, 20, 5, 35}, []float64{10, 20, 5, 8.75, 8.75, 8.75, 8.75}},
		{"no counts, as many tokens as chunks", nil, 5, 0, []float64{10, 20, 5, 35}, []float64{10, 20, 5, 35}},
		{"no counts, four tokens a chunk", nil, 20, 0, []float64{10, 20, 5, 35}, []float64{2.5, 2.5, 2.5, 2.5, 5, 5, 5, 5, 1.25, 1.25, 1.25, 1.25, 8.75, 8.75, 8.75, 8.75}},
		{"no count at all", nil, schemas.NullInt, 0, []float64{10, 20, 5, 35}, []float64{10, 20, 5, 35}},
		{"counts that do not fit", []int64{1, 2}, 5, 0, []float64{10, 20, 5, 35}, []float64{10, 20, 5, 35}},
		{"two tokens a chunk", nil, 10, 0, []float64{10, 20, 5, 35}, []float64{5, 5, 10, 10, 2.5, 2.5, 17.5, 17.5}},
		{"hidden reasoning is not in the time between tokens", nil, 105, 100, []float64{10, 20, 5, 35}, []float64{10, 20, 5, 35}},
	} {
		rows := &tokenRows{f: &frame{unseen: []int32{c.hidden}}, completion: []int64{c.completion}}
		var m spreadMemory
		counts, told := rows.spread(&m, 0, ns, c.tokens)
		var sum int64
		for _, k := range counts {
			sum += k
		}
		if want := max(c.completion, 5); c.completion > 0 && sum != want {
			t.Errorf("%s: the chunks have %d tokens, the answer %d", c.name, sum, want)
		}
		gaps, itl := gapsOf(ns, rows.streamed(&m, 0, counts, told), nil, nil)
		if !slices.Equal(gaps, c.gaps) || !slices.Equal(itl, c.itl) {
			t.Errorf("%s: gaps %v, itl %v; want %v, %v", c.name, gaps, itl, c.gaps, c.itl)
		}
	}
}

func TestFluidityByHand(t *testing.T) {
	w := chunkWorker{chunkFigures: chunkFigures{fluid: make([]fluidCount, 1)}}
	pass := chunkPass{ttft: 100, tpot: 10}
	// Due at 100 (came at 80), 110 (came at 105: slack from the first), 120 (came at 150: late), 160 (came at
	// 158: the lost time is not held against it).
	w.fluidity([]int64{80e6, 105e6, 150e6, 158e6}, []int64{1, 1, 1, 1}, 0, -1, &pass)
	if got := w.fluid[0]; got != (fluidCount{inTime: 3, tokens: 4, turns: 1}) {
		t.Errorf("%+v", got)
	}
	w.fluidity([]int64{80e6, 105e6}, []int64{2, 2}, 0, -1, &pass)
	if got := w.fluid[0]; got != (fluidCount{inTime: 7, tokens: 8, turns: 2, good: 1}) {
		t.Errorf("%+v", got)
	}
}

// Three turns, of which one fails and one is stopped: counts, rates and failure-aware percentiles by hand.
func TestCountsAndRatesByHand(t *testing.T) {
	failed := turnRow("b", 0, 0, 0, 0, 100, 300, 400, 500)
	failed.Status, failed.ErrorKind, failed.Attempts, failed.StaleReplays = string(schemas.StatusIncomplete), p("cut"), 3, 1
	stopped := turnRow("c", 0, 0, 0, 0, 600, 700, 800, 1000)
	stopped.Status = string(schemas.StatusCanceled)
	shed := schemas.Request{ConversationID: "d", Phase: schemas.PhaseMain, Status: string(schemas.StatusShed), ScheduledNS: p(int64(5e6))}
	warm := turnRow("e", 0, 0, 0, 0, 0, 1, 2, 3)
	warm.Phase = schemas.PhaseWarmup
	rows := []schemas.Request{turnRow("a", 0, 0, 0, 0, 0, 200, 600, 700), failed, stopped, shed, warm}
	o := Options{Window: WindowSpec{Kind: WindowAll}, Figures: scalarFigures, Percentiles: []float64{50}, Objectives: []Objective{{"ttft", 300}}}
	r := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o)
	c := r.Total.Counts
	if c.Planned != 4 || c.OK != 1 || c.Failed != 1 || c.Censored != 1 || c.Sent != 3 || c.ByStatus[schemas.StatusShed] != 1 ||
		!near(float64(c.ErrorRate), 1.0/3) || c.Conversations != 4 || c.ErrorKinds["cut"] != 1 || c.Retried != 1 {
		t.Errorf("counts %+v", c)
	}
	rows[2].Status = string(schemas.StatusAbandoned) // nobody knows what it would have taken either
	if c := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o).Total.Counts; c.Censored != 1 || c.Failed != 1 || c.Sent != 3 {
		t.Errorf("counts with one that its user left %+v", c)
	}
	th := r.Total.Throughput
	// The main phase lasts one second, in which a warm-up turn ended too. In flight: 0-3, 0-700, 100-500, 600-1000 ms.
	if math.Abs(float64(th.Requests)-2) > 1e-8 || th.PeakInFlight != 2 || math.Abs(float64(th.MeanInFlight)-1.503) > 1e-8 {
		t.Errorf("throughput %+v", th)
	}
	if g := r.Total.Goodput; g.Good != 1 || g.Of != 3 || !near(float64(g.Share), 1.0/3) || math.Abs(float64(g.Requests)-2) > 1e-8 {
		t.Errorf("goodput %+v", g)
	}
	if len(r.Phases) != 2 {
		t.Errorf("%d phases", len(r.Phases))
	}
	median := []Percentile{{P: 50, Effective: Missing, Needs: 5}}
	if aware := failureAware([]float64{10, 20}, 2, median); aware[0].Carried || aware[0].Value.Known() || !aware[0].Infinite {
		t.Errorf("four rows carry a median: %+v", aware)
	}
	if aware := failureAware([]float64{10, 20, 30}, 2, median); !aware[0].Carried || aware[0].Value != 30 {
		t.Errorf("the median of five: %+v", aware)
	}
	sorted := make([]float64, 90)
	for i := range sorted {
		sorted[i] = float64(i)
	}
	for _, c := range []struct {
		failed   int
		p        float64
		value    float64
		infinite bool
	}{{0, 90, 80.1, false}, {10, 50, 49.5, false}, {10, 90, 0, true}, {11, 90, 0, true}, {1, 90, 81, false}, {9, 90, 88.2, false}} {
		got := failureAware(sorted, c.failed, []Percentile{{P: c.p, Effective: Missing}})[0]
		if got.Infinite != c.infinite || !c.infinite && !near(float64(got.Value), c.value) {
			t.Errorf("%d failed, p%v: %+v, want %v infinite %v", c.failed, c.p, got, c.value, c.infinite)
		}
	}
}

func TestConversationTimeByHand(t *testing.T) {
	first, second := turnRow("a", 0, 100, 100, 100, 100, 150, 200, 250), turnRow("a", 1, 450, 450, 450, 460, 500, 600, 650)
	second.ThinkTimeMS = p(200.0)
	broken := turnRow("b", 0, 0, 0, 0, 0, 1, 2, 3)
	broken.Status = string(schemas.StatusTimeout)
	o := Options{Window: WindowSpec{Kind: WindowAll}, Figures: []string{figConvTime, figConvBusy}}
	r := analyzeOne(t, runOfRows(t, []schemas.Request{first, second, broken}, &schemas.RunMeta{}, o), o)
	if a, b := mean(t, &r.Total, figConvTime), mean(t, &r.Total, figConvBusy); !near(a, 550) || !near(b, 350) {
		t.Errorf("with think time %v, without %v", a, b)
	}
}

// A run over at once, or of a handful of turns, says nothing of steadiness, and neither does a stage.
func TestTooShortToSay(t *testing.T) {
	o := Options{Figures: scalarFigures, By: []GroupSpec{{Column: "turn"}}}
	run := func(turns int, every float64, stages int64) []schemas.Request {
		var rows []schemas.Request
		for c := range turns {
			at := float64(c) * every
			row := turnRow(fmt.Sprint("c", c), 0, at, at, at, at, at+0.1, at+0.2, at+0.3)
			if stages > 0 {
				row.Stage = p(int64(c) * stages / int64(turns))
			}
			rows = append(rows, row)
		}
		left := turnRow("c0", 1, 0, 0, 0, 0, 0, 0, 0)
		left = schemas.Request{ConversationID: "c0", Turn: 1, Phase: left.Phase, Status: string(schemas.StatusNotReached), Stage: rows[0].Stage}
		return append(rows, left)
	}
	for _, c := range []struct {
		name string
		rows []schemas.Request
		want string
	}{
		{"few turns", run(10, 1000, 0), "too short to say whether it was steady (10 completed turns in 9 s); the whole run is used"},
		{"at once", run(100, 1, 0), "too short to say whether it was steady (100 completed turns in 0.0993 s); the whole run is used"},
		{"two stages", run(16, 1000, 2), ""},
	} {
		r := analyzeOne(t, runOfRows(t, c.rows, &schemas.RunMeta{}, o), o)
		if r.Window.Steady || c.want != "" && r.Window.How != c.want || strings.Contains(r.Window.How, "trend") {
			t.Errorf("%s: window %+v", c.name, r.Window)
		}
		for _, w := range r.Warnings {
			if c.want == "" && !strings.Contains(w.Text, "too short to say whether it was steady (8 completed turns in 7 s); the whole stage is used") {
				t.Errorf("%s: %s", c.name, w.Text)
			}
		}
		// Turn 1 was left over by the end of the run: there is nothing to show of it.
		if len(r.Groups) != 1 || r.Groups[0].Keys[0].Value != "0" {
			t.Errorf("%s: groups %+v", c.name, r.Groups)
		}
	}
}

// A run that ramps up for 2 s, holds for 10 s and drains for 3 s.
func TestSteadyWindow(t *testing.T) {
	var rows []schemas.Request
	for c := range 20 {
		start := float64(c) * 100
		for turn, at := int64(0), start; at < 12_000+float64(c)*150; turn, at = turn+1, at+500 {
			rows = append(rows, turnRow(string(rune('a'+c)), turn, at, at, at, at, at+100, at+400, at+450))
		}
	}
	o := Options{Figures: scalarFigures}
	r := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o)
	w := r.Window
	if !w.Steady || w.From < 1.5 || w.From > 2 || w.To < 12 || w.To > 13 {
		t.Errorf("window %+v", w)
	}
	if !strings.Contains(w.How, "no longer kept up") || w.Before == 0 || w.After == 0 || w.Before+w.After+r.Total.Counts.Sent != int64(len(rows)) {
		t.Errorf("%+v", w)
	}
	// One conversation after the other never is at full load together: the level is one, and all of it is steady.
	rows = nil
	for c := range 15 {
		at := float64(c) * 1000
		rows = append(rows, turnRow(string(rune('a'+c)), 0, at, at, at, at, at+100, at+900, at+950))
	}
	if w := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o).Window; !w.Steady || w.From != 0 || w.Before != 0 {
		t.Errorf("window %+v", w)
	}
	// A smoke run, of which all turns start together: they are an opening burst, and all that there is.
	rows = nil
	for c := range 12 {
		end := 200 + 5*float64(c)
		rows = append(rows, turnRow(string(rune('a'+c)), 0, 0, 0, 0, 0, 20, end-1, end))
	}
	if w := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o); w.Window.Steady || w.Total.Counts.OK != 12 {
		t.Errorf("a smoke run: %d turns in the window %+v", w.Total.Counts.OK, w.Window)
	}
	// Nothing ran.
	none := []schemas.Request{{ConversationID: "a", Phase: schemas.PhaseMain, Status: string(schemas.StatusNotReached)}}
	res := analyzeOne(t, runOfRows(t, none, &schemas.RunMeta{}, o), o)
	if res.Window.Steady || res.Verdict.Grade != schemas.Suspect || len(res.Warnings) == 0 {
		t.Errorf("a run without a turn: %+v, %s", res.Window, res.Verdict.Grade)
	}
}

// stagedRows is a run of two stages of 4 s: two conversations at once, then four, of turns that take 100 ms each.
func stagedRows() []schemas.Request {
	var rows []schemas.Request
	for slot := range 4 {
		for i := range 80 {
			at := float64(i)*100 + float64(slot)*7
			if slot >= 2 && i < 40 {
				continue
			}
			r := turnRow(fmt.Sprintf("%d/%d", slot, i), 0, at, at, at, at, at+20, at+95, at+100)
			r.Stage = p(int64(i / 40))
			rows = append(rows, r)
		}
	}
	return rows
}

// A stage is a run of its own: the window has a stretch of each, and a group of one stage divides by its own.
func TestWindowsByStage(t *testing.T) {
	rows := stagedRows()
	parse := func(by string) GroupSpec {
		g, err := ParseGroup(by)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	meta := &schemas.RunMeta{StopNS: p(int64(8e9))}
	for _, kind := range []string{WindowSteady, WindowAll, WindowTime} {
		for _, by := range [][]GroupSpec{nil, {parse("stage")}, {parse("stage"), parse("turn")}, {parse("model"), parse("stage")}, {parse("stage"), parse("time:2s")}} {
			o := Options{Figures: scalarFigures, Window: WindowSpec{Kind: kind}, By: by}
			r := analyzeOne(t, runOfRows(t, rows, meta, o), o)
			if kind == WindowSteady {
				if w := r.Window; !w.Steady || w.From > 0.3 || w.To < 7.9 || w.Seconds < 7 || w.Seconds > 8 || w.Before > 12 ||
					!strings.Contains(w.How, "of each of 2 stages: stage 0 from 0.1 s to 4.0 s (left out: 4 turns before, 0 after), stage 1 from ") {
					t.Errorf("steady window %+v", w)
				}
			}
			groups := 0
			for _, g := range r.Groups {
				for _, k := range g.Keys {
					if k.Column != "stage" {
						continue
					}
					groups++
					want := map[string]float64{"0": 20, "1": 40}[k.Value]
					if rate := float64(g.Throughput.Requests); !within(rate, want, 0.06) {
						t.Errorf("window %s, by %v, %+v: %.1f requests per second, want about %.0f (over %v s)", kind, by, g.Keys, rate, want, g.Throughput.Seconds)
					}
					if rate := float64(g.Throughput.CompletionTokens); !within(rate, 11*want, 0.06) {
						t.Errorf("window %s, by %v, %+v: %.1f tokens per second, want about %.0f", kind, by, g.Keys, rate, 11*want)
					}
				}
			}
			if len(by) > 0 && groups < 2 {
				t.Errorf("window %s, by %v: %d groups of stages", kind, by, groups)
			}
		}
	}
}

// A run that is stopped while its conversations think lasts until its stop.
func TestRunLastsWhileConversationsThink(t *testing.T) {
	a, b := turnRow("a", 0, 0, 0, 0, 0, 10, 30, 31), turnRow("b", 0, 0, 0, 0, 1, 12, 36, 37)
	waits := func(id, kind string) schemas.Request {
		r := schemas.Request{ConversationID: id, Turn: 1, Phase: schemas.PhaseMain, Status: string(schemas.StatusNotReached)}
		if kind != "" {
			r.ErrorKind = &kind
		}
		return r
	}
	for _, c := range []struct {
		name    string
		rows    []schemas.Request
		seconds float64
	}{
		{"at work", []schemas.Request{a, b, waits("a", ""), waits("b", "")}, 6},
		{"one of them", []schemas.Request{a, b, waits("a", "")}, 6},
		{"ended", []schemas.Request{a, b}, 0.037},
		{"given up", []schemas.Request{a, b, waits("a", "conversation_failed")}, 0.037},
		{"never begun", []schemas.Request{a, b, waits("c", "")}, 0.037},
	} {
		for _, kind := range []string{WindowAll, WindowSteady} {
			o := Options{Figures: scalarFigures, Window: WindowSpec{Kind: kind}}
			r := analyzeOne(t, runOfRows(t, c.rows, &schemas.RunMeta{StopNS: p(int64(6e9))}, o), o)
			if math.Abs(float64(r.Window.Seconds)-c.seconds) > 1e-6 && (kind == WindowAll || c.seconds == 6) || math.Abs(float64(r.Duration)-c.seconds) > 1e-6 {
				t.Errorf("%s, %s: a window of %v s of a run of %v s (%s)", c.name, kind, r.Window.Seconds, r.Duration, r.Window.How)
			}
			if rate := float64(r.Total.Throughput.Requests); kind == WindowAll && math.Abs(rate-2/c.seconds) > 1e-3 {
				t.Errorf("%s: %v requests per second", c.name, rate)
			}
		}
	}
}

func TestTimeWindow(t *testing.T) {
	rows := []schemas.Request{
		turnRow("a", 0, 0, 0, 0, 0, 100, 900, 990),                // before
		turnRow("b", 0, 900, 900, 900, 900, 1100, 1900, 2000),     // sent before, ends within
		turnRow("c", 0, 1500, 1500, 1500, 1500, 1700, 1800, 1900), // within
		turnRow("d", 0, 2900, 2900, 2900, 2900, 3100, 3500, 3600), // sent within, runs on
		turnRow("e", 0, 3000, 3000, 3000, 3000, 3100, 3500, 3600), // after
	}
	w, err := ParseWindow("1s:3s")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Figures: scalarFigures, Window: w}
	r := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o)
	c := r.Total.Counts
	if c.OK != 2 || c.InFlightAtEnd != 1 || !near(float64(r.Total.Throughput.Requests), 1) {
		t.Errorf("counts %+v, %v requests per second", c, r.Total.Throughput.Requests)
	}
}

// A window that reaches beyond the run ends with it; one outside of it is an error.
func TestTimeWindowBeyondTheRun(t *testing.T) {
	rows := stagedRows()
	for i := range rows {
		rows[i].Stage = nil
	}
	at := func(window string) (*Result, error) {
		w, err := ParseWindow(window)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Figures: scalarFigures, Window: w}
		return Analyze(t.Context(), runOfRows(t, rows, &schemas.RunMeta{RunID: "r"}, o), o)
	}
	res, err := at("4s:20s")
	if err != nil {
		t.Fatal(err)
	}
	r := res.Runs[0]
	if tp := r.Total.Throughput; !within(float64(tp.Seconds), 4, 0.01) || !within(float64(tp.Requests), 40, 0.03) {
		t.Errorf("%v requests per second over %v s", tp.Requests, tp.Seconds)
	}
	if len(r.Warnings) != 1 || r.Warnings[0].Kind != "window_end" || !strings.Contains(r.Window.How, "4.0 s to 8.0 s, where the run ended; asked for until 20.0 s") {
		t.Errorf("window %q, warnings %+v", r.Window.How, r.Warnings)
	}
	for _, window := range []string{"10s:20s", "9s:"} {
		if _, err := at(window); err == nil || !strings.Contains(err.Error(), "lies outside of the run, which has turns from 0.0 s to 8.0 s") {
			t.Errorf("window %s: %v", window, err)
		}
	}
}

func TestGroupsOfTwoLevels(t *testing.T) {
	s := fullSpec()
	o := Options{Figures: scalarFigures, Window: WindowSpec{Kind: WindowAll}, By: []GroupSpec{{Column: "tag.source"}, {Column: "prompt_tokens", Width: 1000}}}
	r := analyzeOne(t, memoryRun(t, s, o), o)
	var planned int64
	for i, g := range r.Groups {
		planned += g.Counts.Planned
		if len(g.Keys) != 2 {
			t.Fatalf("keys %+v", g.Keys)
		}
		if i > 0 && r.Groups[i-1].Keys[0].Value > g.Keys[0].Value {
			t.Errorf("groups are not in order: %q before %q", r.Groups[i-1].Keys[0].Value, g.Keys[0].Value)
		}
	}
	if planned != r.Total.Counts.Planned || len(r.Groups) < 6 {
		t.Errorf("%d groups with %d turns, the total has %d", len(r.Groups), planned, r.Total.Counts.Planned)
	}
}

func TestTooManyGroups(t *testing.T) {
	s := synth.Spec{Conversations: maxGroups + 10, Turns: 1, Slots: 64, TTFT: 5, Gap: 1, Chunks: 2}
	o := Options{Figures: []string{"ttft"}, By: []GroupSpec{{Column: "conversation_id"}}}
	if _, err := Analyze(t.Context(), memoryRun(t, s, o), o); err == nil || !strings.Contains(err.Error(), "more than 20000 groups") {
		t.Errorf("error: %v", err)
	}
}
