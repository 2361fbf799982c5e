package analyze

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/analyze/internal/synth"
	"parley/schemas"
)

// cleanRows is a run that nothing is wrong with.
func cleanRows() ([]schemas.Request, *schemas.RunMeta) {
	s := synth.Spec{Seed: 4, Conversations: 200, Turns: 8, Slots: 16, TTFT: 60, Gap: 8, Spread: 0.3, Shared: 0.1, Chunks: 4}
	var rows []schemas.Request
	for r := range synth.Rows(s) {
		rows = append(rows, *r)
	}
	return rows, synth.Meta(s)
}

// A server that answers with documents streams nothing, and the run says so.
func TestDocumentsAreNoStream(t *testing.T) {
	rows, meta := cleanRows()
	for i := range rows {
		r := &rows[i]
		r.ChunkNS, r.ChunkTokens, r.FirstTokenNS, r.FirstAnswerNS, r.TPOTMS = nil, nil, nil, nil, nil
	}
	v := analyzeOne(t, runOfRows(t, rows, meta, Options{}), Options{}).Verdict
	i := slices.IndexFunc(v.Reasons, func(r schemas.Reason) bool { return r.Signal == "bursts" })
	if i < 0 || !strings.Contains(v.Reasons[i].Text, "answers came in one piece") {
		t.Errorf("%+v", v)
	}
}

func TestVerdictSignals(t *testing.T) {
	each := func(rows []schemas.Request, every int, change func(r *schemas.Request)) {
		for i := range rows {
			if i%every == 0 {
				change(&rows[i])
			}
		}
	}
	later := func(m *int64, ms int64) *int64 { return p(*m + ms*1e6) }
	for _, c := range []struct {
		name   string
		signal string // "" for a valid run
		grade  schemas.Grade
		change func(rows []schemas.Request, m *schemas.RunMeta)
	}{
		{"clean", "", schemas.Valid, nil},
		{"late client", "send_lag_p99", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 50, func(r *schemas.Request) { r.ScheduledNS, r.ReadyNS = later(r.StartNS, -10), later(r.StartNS, -10) })
		}},
		{"very late client", "send_lag_p99", schemas.Invalid, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) { r.ScheduledNS, r.ReadyNS = later(r.StartNS, -80), later(r.StartNS, -80) })
		}},
		{"late because of its slot is not the client's fault", "", schemas.Valid, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) { r.ScheduledNS = later(r.ReadyNS, -80) })
		}},
		{"slow connections", "connection_wait_p99", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 20, func(r *schemas.Request) {
				r.StartNS, r.ReadyNS, r.ScheduledNS = later(r.SentNS, -90), later(r.SentNS, -90), later(r.SentNS, -90)
			})
		}},
		{"some errors", "error_rate", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 40, func(r *schemas.Request) { r.Status = string(schemas.StatusTimeout) })
		}},
		{"one failure that took later turns along", "lost", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			for i := range rows {
				if r := &rows[i]; i < len(rows)/4 && r.Turn > 1 {
					*r = schemas.Request{ConversationID: r.ConversationID, Turn: r.Turn, Phase: r.Phase, Status: string(schemas.StatusNotReached), ErrorKind: p("conversation_failed")}
				}
			}
		}},
		{"mostly errors", "error_rate", schemas.Invalid, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) { r.Status = string(schemas.StatusHTTPError) })
		}},
		{"shed", "shed", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 10, func(r *schemas.Request) { r.Status = string(schemas.StatusShed) })
		}},
		{"sent again", "retried", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 20, func(r *schemas.Request) { r.Attempts = 2 })
		}},
		{"a connection that went stale is no refusal", "", schemas.Valid, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 20, func(r *schemas.Request) { r.Attempts, r.StaleReplays = 2, 1 })
		}},
		{"refusals are not waits for a connection", "retried", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 20, func(r *schemas.Request) {
				r.Attempts = 2
				r.StartNS, r.ReadyNS, r.ScheduledNS = later(r.SentNS, -900), later(r.SentNS, -900), later(r.SentNS, -900)
			})
		}},
		{"counts that contradict each other", "cached_above_prompt", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 100, func(r *schemas.Request) { r.CachedTokens = p(*r.PromptTokens + 1) })
		}},
		{"too few conversations", "concurrency", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) { m.Concurrency = p(int64(256)) }},
		{"enough conversations", "", schemas.Valid, func(_ []schemas.Request, m *schemas.RunMeta) { m.Concurrency = p(int64(200)) }},
		{"enough conversations that the run never came to", "", schemas.Valid, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Concurrency, m.NotAdmitted = p(int64(256)), 56
		}},
		{"very short answers", "output_length", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) { r.OutputTokensAsked = p(*r.CompletionTokens * 100) })
		}},
		{"short answers", "output_length", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) { r.OutputTokensAsked = p(*r.CompletionTokens + 2) })
		}},
		{"no usage", "usage_missing", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 10, func(r *schemas.Request) { r.TokenSource = p(schemas.TokensFromChunks) })
		}},
		{"warm cache", "warm_cache", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) { r.CachedTokens = p(*r.PromptTokens * 9 / 10) })
		}},
		{"drift", "steady", schemas.Suspect, func(rows []schemas.Request, _ *schemas.RunMeta) {
			each(rows, 1, func(r *schemas.Request) {
				r.FirstTokenNS = p(*r.FirstTokenNS + *r.SentNS/100) // 10 ms slower with every second
			})
		}},
		{"rows lost", "reconciled", schemas.Invalid, func(_ []schemas.Request, m *schemas.RunMeta) { m.Planned = -1 }},
		{"interrupted", "ended", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) { m.Ended = "interrupted" }},
		{"watchdog", "ended", schemas.Invalid, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Ended, m.EndedDetail = "watchdog", "watchdog: nothing has moved\nwhat was waiting:\nconversation 1\n"
		}},
		{"saturated", "client_cpu", schemas.Invalid, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Health = &schemas.Health{CPUShare: 0.97, MachineIdleMin: 0.5}
		}},
		{"no idle core", "machine_idle", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) { m.Health = &schemas.Health{MachineIdleMin: 0.01} }},
		{"idle unknown", "", schemas.Valid, func(_ []schemas.Request, m *schemas.RunMeta) { m.Health = &schemas.Health{MachineIdleMin: -1} }},
		{"scheduler", "sched_latency_p99", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Health = &schemas.Health{MachineIdleMin: 1, SchedLatencyP99: 8}
		}},
		{"collector", "gc_pause_p99", schemas.Invalid, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Health = &schemas.Health{MachineIdleMin: 1, GCPauseP99: 80}
		}},
		{"backlog", "backlog", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Health = &schemas.Health{MachineIdleMin: 1, BacklogStalls: 2}
		}},
		{"user clock", "clock_fallback", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) {
			m.Clock = schemas.ClockInfo{Source: "user", UserReads: 10, Fallback: "no SO_TIMESTAMPING"}
		}},
		{"clock set", "clock_step", schemas.Invalid, func(_ []schemas.Request, m *schemas.RunMeta) { m.Clock.LargestStepNS = -50e6 }},
		{"calibration", "calibration", schemas.Suspect, func(_ []schemas.Request, m *schemas.RunMeta) { m.Calibration = &schemas.Calibration{TTFTErrP99: 12} }},
		{"arrivals", "arrival_rate", schemas.Suspect, func(rows []schemas.Request, m *schemas.RunMeta) {
			m.OfferedRate = p(10.0)
			each(rows, 1, func(r *schemas.Request) { r.ScheduledNS = p(*r.ScheduledNS * 9 / 10) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, meta := cleanRows()
			if c.change != nil {
				c.change(rows, meta)
			}
			planned := meta.Planned
			o := Options{Figures: scalarFigures}
			runs := runOfRows(t, rows, meta, o)
			if planned < 0 {
				runs.list[0].meta.Planned = int64(len(rows) + 3)
			}
			v := analyzeOne(t, runs, o).Verdict
			if c.signal == "" {
				if v.Grade != schemas.Valid {
					t.Errorf("%s: %+v", v.Grade, v.Reasons)
				}
				return
			}
			i := slices.IndexFunc(v.Reasons, func(r schemas.Reason) bool { return r.Signal == c.signal })
			if i < 0 {
				t.Fatalf("no reason %s: %s %+v", c.signal, v.Grade, v.Reasons)
			}
			if r := v.Reasons[i]; r.Grade != c.grade || r.Text == "" || strings.Contains(r.Text, "\n") || r.Advice == "" {
				t.Errorf("%+v, want %s", r, c.grade)
			}
			if len(v.Reasons) > 1 && c.name == "refusals are not waits for a connection" {
				t.Errorf("more than one reason: %+v", v.Reasons)
			}
			if v.Grade == schemas.Valid || c.grade == schemas.Invalid && v.Grade != schemas.Invalid {
				t.Errorf("the verdict is %s with reasons %+v", v.Grade, v.Reasons)
			}
		})
	}
}

// In files of version 1.0 the start of a turn that was sent again is its last attempt's.
func TestOldFilesDoNotTellFirstAttempts(t *testing.T) {
	old := load(t, filepath.Join("..", "schemas", "testdata", "requests-1.0.parquet"))
	if old.list[0].tellsAttempts() {
		t.Error("a file of version 1.0 is taken to tell first attempts")
	}
	path := writeRun(t, filepath.Join(t.TempDir(), "run.parquet"), fullSpec())
	if !load(t, path).list[0].tellsAttempts() {
		t.Error("a file of today is taken not to tell first attempts")
	}
}

// A smoke run is short, which is a reason and not a fault of anyone.
func TestSmokeRunIsNotInvalid(t *testing.T) {
	rows, meta := cleanRows()
	o := Options{Figures: scalarFigures}
	v := analyzeOne(t, runOfRows(t, rows[:10], meta, o), o).Verdict
	if v.Grade != schemas.Suspect || !slices.ContainsFunc(v.Reasons, func(r schemas.Reason) bool { return r.Signal == "sample" }) {
		t.Errorf("%+v", v)
	}
}

func TestSimulatedServerStandsInTheHeading(t *testing.T) {
	rows, meta := cleanRows()
	meta.Simulated = true
	o := Options{Figures: scalarFigures}
	res, err := Analyze(t.Context(), runOfRows(t, rows, meta, o), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Heading) != 1 || !strings.Contains(res.Heading[0], "SIMULATED") {
		t.Errorf("heading %q", res.Heading)
	}
}

// TestNoFigureAcrossAGap has the second half of a run sent an hour after its first, as a resumed run does: no window
// contains the hour.
func TestNoFigureAcrossAGap(t *testing.T) {
	const gap = int64(3600e9)
	window := func(w WindowSpec) (Window, []schemas.Request, int64) {
		rows, meta := cleanRows()
		middle := *rows[len(rows)/2].SentNS
		for i := range rows {
			r := &rows[i]
			if *r.SentNS < middle {
				continue
			}
			for _, m := range []**int64{&r.ScheduledNS, &r.ReadyNS, &r.StartNS, &r.SentNS, &r.WroteNS, &r.FirstByteNS, &r.FirstEventNS, &r.FirstTokenNS, &r.FirstAnswerNS, &r.LastTokenNS, &r.DoneNS} {
				if *m != nil {
					*m = p(**m + gap)
				}
			}
			for k := range r.ChunkNS {
				r.ChunkNS[k] += gap
			}
		}
		meta.EndedNS += gap
		meta.Sessions = []schemas.Session{{StartNS: 0}, {StartNS: middle + gap, LoadNS: middle}}
		o := Options{Figures: scalarFigures, Window: w}
		return analyzeOne(t, runOfRows(t, rows, meta, o), o).Window, rows, middle
	}
	// Each stage keeps its own part.
	rows, meta := cleanRows()
	for i := range rows {
		rows[i].Stage = p(int64(2*i) / int64(len(rows)))
	}
	o := Options{Figures: scalarFigures}
	at := func(share float64) int64 { return *rows[int(share*float64(len(rows)-1))].SentNS }
	meta.Sessions = []schemas.Session{{StartNS: 0}, {StartNS: at(0.3), LoadNS: at(0.3)}}
	for i := range rows { // nothing of the first session just before the second
		if s := *rows[i].SentNS; s > at(0.25) && s < at(0.3) {
			rows[i] = schemas.Request{ConversationID: rows[i].ConversationID, Turn: rows[i].Turn, Phase: rows[i].Phase, Status: string(schemas.StatusNotReached), Stage: rows[i].Stage}
		}
	}
	w := analyzeOne(t, runOfRows(t, rows, meta, o), o).Window
	if w.To < Num(float64(at(0.9))/1e9) {
		t.Errorf("the window of two stages ends at %v (%s)", w.To, w.How)
	}
	for kind, spec := range map[string]WindowSpec{"all": {Kind: WindowAll}, "steady": {Kind: WindowSteady}, "time": {Kind: WindowTime}} {
		w, _, _ := window(spec)
		if w.Seconds > 600 {
			t.Errorf("%s: a window of %v s (%s)", kind, w.Seconds, w.How)
		}
		if kind == "steady" && float64(w.To-w.From) > 600 {
			t.Errorf("the steady window goes from %v to %v s", w.From, w.To)
		}
	}
}

// A run whose turns all failed before its main phase says so, and is of no use.
func TestAllFailedInTheWarmUp(t *testing.T) {
	rows, meta := cleanRows()
	rows = rows[:20]
	for i := range rows {
		rows[i].Phase, rows[i].Status, rows[i].ErrorKind = schemas.PhaseWarmup, string(schemas.StatusTransportError), p("connect_refused")
		if i < 3 {
			rows[i].ErrorKind = p("reset")
		}
	}
	o := Options{Figures: scalarFigures}
	v := analyzeOne(t, runOfRows(t, rows, meta, o), o).Verdict
	i := slices.IndexFunc(v.Reasons, func(r schemas.Reason) bool { return r.Signal == "error_rate" })
	if v.Grade != schemas.Invalid || i < 0 || !strings.HasPrefix(v.Reasons[i].Text, "all 20 turns that were sent failed (all in the warm-up), connect_refused: 17, reset: 3") {
		t.Errorf("%+v", v)
	}
	rows[5].Status = string(schemas.StatusOK)
	if v = analyzeOne(t, runOfRows(t, rows, meta, o), o).Verdict; v.Grade == schemas.Invalid {
		t.Errorf("one turn of the warm-up completed: %+v", v)
	}
}
