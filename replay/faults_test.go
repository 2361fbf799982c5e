package replay

import (
	"strings"
	"testing"
	"time"

	"parley/schemas"
)

// TestSimulatedTimes replays against the simulated server over connections in memory, in virtual time:
// what is measured is what the server did, to the nanosecond, and no limit is ever exceeded as the server
// sees it.
func TestSimulatedTimes(t *testing.T) {
	r := trial{
		cfg: Config{Concurrency: 7}, convs: talks(40, 5, 300*time.Millisecond),
		sim: "ttft=250ms&itl=20ms&jitter=0&slots=0&log_chunks=true",
	}
	r.run(t)
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.checkRows(t, map[string]int{"ok": 200})
	truths := r.truths(t)
	most, origin := int64(0), int64(0)
	for _, row := range r.rows {
		truth, ok := truths[*row.ResponseID]
		if !ok {
			t.Fatalf("no truth for %s", *row.ResponseID)
		}
		most = max(most, truth.InFlight)
		if *row.TTFTMS != 250 || *row.E2EMS != 250+9*20 || len(row.ChunkNS) != 10 {
			t.Errorf("%s: TTFT %v ms, E2E %v ms, %d chunks", row.RequestID, *row.TTFTMS, *row.E2EMS, len(row.ChunkNS))
		}
		if origin == 0 {
			origin = truth.FirstNS - *row.FirstTokenNS
		}
		for i, at := range row.ChunkNS {
			if truth.ChunkNS[i]-origin != at {
				t.Errorf("%s chunk %d: arrived at %d, written at %d", row.RequestID, i, at, truth.ChunkNS[i]-origin)
			}
		}
		if *row.CompletionTokens != 10 || *row.TokenSource != schemas.TokensFromUsage {
			t.Errorf("%s: %d tokens by %s", row.RequestID, *row.CompletionTokens, *row.TokenSource)
		}
	}
	if most != 7 {
		t.Errorf("the server saw %d requests at once, want 7", most)
	}
}

// TestFaults has the simulated server misbehave: whatever it does, the run ends by itself, and each
// planned turn is a row with the right status and kind.
func TestFaults(t *testing.T) {
	only := func(keys ...string) map[string]bool {
		m := map[string]bool{"ok": true}
		for _, k := range keys {
			m[k] = true
		}
		return m
	}
	const base = "ttft=100ms&itl=10ms&"
	tests := []struct {
		name   string
		sim    string
		cfg    Config
		drain  time.Duration
		cancel time.Duration
		want   map[string]bool // kinds of rows that may be there; each has to be, but for ok
		took   time.Duration   // at most
	}{
		{"half of the requests fail with 500", "fail=0.5", Config{Concurrency: 10}, 0, 0, only("http_error server_error", "not_reached conversation_failed"), 30 * time.Second},
		{"the same, keeping on", "fail=0.5", Config{Concurrency: 10, KeepGoing: true}, 0, 0, only("http_error server_error"), 30 * time.Second},
		{"the server dies in the middle", "die_after=534", Config{Concurrency: 10}, 0, 0, only("incomplete cut_body", "transport_error connect", "not_reached conversation_failed"), 30 * time.Second},
		{"a server that never answers", "never=1", Config{Concurrency: 10, Timeout: 20 * time.Second}, 0, 0, only("timeout timeout_total", "not_reached conversation_failed"), 10 * time.Minute},
		{"a server that never answers, silence limited", "never=1", Config{Concurrency: 10, IdleTimeout: 5 * time.Second}, 0, 0, only("timeout timeout_idle", "not_reached conversation_failed"), time.Minute},
		{"a server that never answers, deadline", "never=1", Config{Concurrency: 10, Deadline: 30 * time.Second}, 0, 0, only("canceled deadline", "not_reached deadline"), 31 * time.Second},
		{"first Ctrl-C", "", Config{Concurrency: 10}, 1050 * time.Millisecond, 0, only("not_reached interrupted"), 2 * time.Second},
		{"second Ctrl-C", "", Config{Concurrency: 10}, 0, 1050 * time.Millisecond, only("canceled interrupted", "not_reached interrupted"), 1100 * time.Millisecond},
		{"a stalled stream does not outlast the grace", "stall=0.2", Config{Concurrency: 10, Grace: 3 * time.Second}, 1050 * time.Millisecond, 0, only("canceled grace", "not_reached interrupted"), 5 * time.Second},
		{"streams that stall", "stall=0.3", Config{Concurrency: 10, IdleTimeout: 4 * time.Second}, 0, 0, only("timeout timeout_idle", "not_reached conversation_failed"), 2 * time.Minute},
		{"connections cut half-way", "cut=0.3", Config{Concurrency: 10}, 0, 0, only("incomplete cut_body", "not_reached conversation_failed"), 30 * time.Second},
		{"streams ended without a finish reason", "truncate=0.3", Config{Concurrency: 10}, 0, 0, only("incomplete no_finish", "not_reached conversation_failed"), 30 * time.Second},
		{"errors inside a 200", "error_in_stream=0.3", Config{Concurrency: 10}, 0, 0, only("stream_error server_error", "not_reached conversation_failed"), 30 * time.Second},
		{"finished with no token", "empty=0.3", Config{Concurrency: 10}, 0, 0, only("empty no_tokens", "not_reached conversation_failed"), 30 * time.Second},
		{"overload", "429=0.3", Config{Concurrency: 10}, 0, 0, only("http_error rate_limited", "not_reached conversation_failed"), 30 * time.Second},
		{"overload, retried", "429=0.3", Config{Concurrency: 10, Retries: 20}, 0, 0, only(), 2 * time.Minute},
		{"no end marker", "no_done=0.3", Config{Concurrency: 10}, 0, 0, only(), 30 * time.Second},
		{"connections kept open after the end marker", "hang_after_done=0.3", Config{Concurrency: 10}, 0, 0, only(), 30 * time.Second},
		{"a deadline in think time", "", Config{Concurrency: 10, Think: "1h", Deadline: 10 * time.Minute}, 0, 0, only("not_reached deadline"), 10 * time.Minute},
		{"a slot queue in front of few slots", "slots=2", Config{Concurrency: 10}, 0, 0, only(), 5 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(tt.sim, "slots") {
				tt.sim += "&slots=0"
			}
			r := trial{cfg: tt.cfg, convs: talks(60, 5, 0), sim: base + strings.TrimPrefix(tt.sim, "&"), drain: tt.drain, cancel: tt.cancel}
			r.run(t)
			if r.err != nil {
				t.Errorf("the run failed: %v", r.err)
			}
			if len(r.rows) != 300 || r.e.Totals().Planned != 300 {
				t.Errorf("%d rows, %d planned, want 300", len(r.rows), r.e.Totals().Planned)
			}
			got := r.counts()
			for key := range got {
				if !tt.want[key] {
					t.Errorf("unexpected: %s (%d times)", key, got[key])
				}
			}
			for key := range tt.want {
				if got[key] == 0 && key != "ok" {
					t.Errorf("no row is %s: %v", key, got)
				}
			}
			if r.took > tt.took {
				t.Errorf("the run took %v, should be at most %v", r.took, tt.took)
			}
			for _, truth := range r.truths(t) {
				// A request that the client gave up goes on at the server until that notices.
				if truth.InFlight > 10 && got["timeout timeout_total"]+got["timeout timeout_idle"] == 0 {
					t.Fatalf("the server saw %d requests at once, the limit is 10", truth.InFlight)
				}
			}
		})
	}
}

// TestDeadlockShapes is the three cases in which multiprocessing clients hang, at a smaller size: many long
// conversations at little concurrency with a budget of requests, many at great concurrency, and a sustained
// load over several passes.
func TestDeadlockShapes(t *testing.T) {
	const sim = "ttft=20ms&itl=1ms&slots=0"
	for _, concurrency := range []int{2, 4, 8, 10, 100} {
		r := trial{cfg: Config{Concurrency: concurrency, Requests: 200}, convs: talks(200, 35, 0), sim: sim}
		r.run(t)
		if n := r.counts()["ok"]; r.err != nil || n != 200 || int64(len(r.rows)) != r.e.Totals().Planned {
			t.Errorf("concurrency %d: %d ok, %d rows, %d planned, %v", concurrency, n, len(r.rows), r.e.Totals().Planned, r.err)
		}
	}
	for _, concurrency := range []int{20, 50, 100, 200} {
		r := trial{cfg: Config{Concurrency: concurrency}, convs: talks(200, 6, 0), sim: sim}
		r.run(t)
		if r.err != nil {
			t.Error(r.err)
		}
		r.checkRows(t, map[string]int{"ok": 1200})
	}
	r := trial{cfg: Config{Concurrency: 10, Requests: 1000}, convs: talks(15, 4, 0), sim: sim}
	r.run(t)
	if n := r.counts()["ok"]; r.err != nil || n != 1000 || int64(len(r.rows)) != r.e.Totals().Planned {
		t.Errorf("sustained: %d ok, %d rows, %d planned, %v", n, len(r.rows), r.e.Totals().Planned, r.err)
	}
}
