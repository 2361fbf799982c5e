package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/replay/load"
	"parley/schemas"
)

func rate(r float64) *float64 { return &r }

func TestClosedLoop(t *testing.T) {
	tests := []struct {
		name  string
		cfg   Config
		convs []schemas.Conversation
		want  map[string]int
		most  int
		took  time.Duration
	}{
		{"one at a time", Config{Concurrency: 1}, talks(4, 3, 0), map[string]int{"ok": 12}, 1, 12 * time.Second},
		{"three at once", Config{Concurrency: 3}, talks(9, 4, 0), map[string]int{"ok": 36}, 3, 12 * time.Second},
		{"more places than conversations", Config{Concurrency: 100}, talks(5, 2, 0), map[string]int{"ok": 10}, 5, 2 * time.Second},
		{"a place is kept through think time", Config{Concurrency: 2}, talks(4, 2, 3*time.Second), map[string]int{"ok": 8}, 2, 10 * time.Second},
		{"no think time", Config{Concurrency: 2, Think: "none"}, talks(4, 2, 3*time.Second), map[string]int{"ok": 8}, 2, 4 * time.Second},
		{"half the think time", Config{Concurrency: 2, Think: "0.5x"}, talks(4, 2, 3*time.Second), map[string]int{"ok": 8}, 2, 7 * time.Second},
		{"a fixed think time", Config{Concurrency: 2, Think: "10s"}, talks(4, 2, 3*time.Second), map[string]int{"ok": 8}, 2, 24 * time.Second},
		{"a capped think time", Config{Concurrency: 2, ThinkCap: time.Second}, talks(4, 2, 3*time.Second), map[string]int{"ok": 8}, 2, 6 * time.Second},
		{"requests limited too", Config{Concurrency: 4, MaxInFlight: 2}, talks(4, 4, 0), map[string]int{"ok": 16}, 2, 8 * time.Second},
		{"ramp", Config{Concurrency: 4, Ramp: 8 * time.Second}, talks(4, 10, 0), map[string]int{"ok": 40}, 4, 16 * time.Second},
		{"loops", Config{Concurrency: 2, Loops: 3}, talks(4, 2, 0), map[string]int{"ok": 24}, 2, 12 * time.Second},
		{"requests", Config{Concurrency: 3, Requests: 10}, talks(9, 4, 0), map[string]int{"ok": 10, "not_reached budget": 2}, 3, 4 * time.Second},
		{"requests over several passes", Config{Concurrency: 3, Requests: 100}, talks(3, 1, 0), map[string]int{"ok": 100}, 3, 34 * time.Second},
		{"warm-up comes on top", Config{Concurrency: 2, Requests: 10, Warmup: 4}, talks(9, 2, 0), map[string]int{"ok": 14, "not_reached budget": 2}, 2, 7 * time.Second},
		{"duration", Config{Concurrency: 2, Duration: 4500 * time.Millisecond}, talks(3, 2, 0), map[string]int{"ok": 10, "not_reached budget": 2}, 2, 5 * time.Second},
		{"duration, loops stop first", Config{Concurrency: 2, Duration: time.Hour, Loops: 1}, talks(4, 2, 0), map[string]int{"ok": 8}, 2, 4 * time.Second},
		{"grace", Config{Concurrency: 2, Duration: 4500 * time.Millisecond, Grace: 100 * time.Millisecond}, talks(3, 2, 0), map[string]int{"ok": 8, "canceled grace": 2, "not_reached budget": 2}, 2, 4600 * time.Millisecond},
		{"deadline", Config{Concurrency: 2, Deadline: 3500 * time.Millisecond}, talks(10, 3, 0), map[string]int{"ok": 6, "canceled deadline": 2, "not_reached deadline": 22}, 2, 3500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := trial{cfg: tt.cfg, convs: tt.convs}
			r.run(t)
			r.check(t, tt.want, tt.most, tt.took)
			for _, row := range r.rows {
				if !schemas.Status(row.Status).Sent() {
					continue
				}
				if *row.StartNS != *row.ReadyNS {
					t.Errorf("%s turn %d: ready at %d, started at %d", row.ConversationID, row.Turn, *row.ReadyNS, *row.StartNS)
				}
				if row.Turn > 0 && tt.cfg.MaxInFlight == 0 && *row.ScheduledNS != *row.StartNS {
					t.Errorf("%s turn %d: scheduled at %d, started at %d", row.ConversationID, row.Turn, *row.ScheduledNS, *row.StartNS)
				}
			}
		})
	}
}

func TestWarmupHandsOver(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 2, Warmup: 5}, convs: talks(4, 3, 0)}
	r.run(t)
	r.check(t, map[string]int{"ok": 12}, 2, 6*time.Second)
	phases := map[string]int{}
	for _, row := range r.rows {
		phases[row.Phase]++
	}
	if phases[schemas.PhaseWarmup] != 5 || phases[schemas.PhaseMain] != 7 {
		t.Errorf("phases: %v", phases)
	}
}

// TestOpenLoopSchedule checks that turns go at their scheduled times exactly, think-time turns included,
// and that a shard sends exactly its part of the same schedule.
func TestOpenLoopSchedule(t *testing.T) {
	schedule := func(shard string) map[string]int64 {
		r := trial{cfg: Config{Rate: rate(2), Shard: shard, Seed: 3}, convs: talks(60, 3, 1500*time.Millisecond)}
		r.run(t)
		if r.err != nil {
			t.Fatal(r.err)
		}
		out := map[string]int64{}
		for _, row := range r.rows {
			if *row.StartNS != *row.ScheduledNS || *row.ReadyNS != *row.ScheduledNS {
				t.Fatalf("%s turn %d: scheduled %d, ready %d, started %d", row.ConversationID, row.Turn, *row.ScheduledNS, *row.ReadyNS, *row.StartNS)
			}
			out[fmt.Sprint(row.ConversationID, " ", row.Turn)] = *row.ScheduledNS
		}
		if int64(len(r.rows)) != r.e.Totals().Planned {
			t.Errorf("%d rows, %d planned", len(r.rows), r.e.Totals().Planned)
		}
		return out
	}
	whole := schedule("")
	if len(whole) != 180 {
		t.Fatalf("%d turns", len(whole))
	}
	i := 0
	for offset := range load.Poisson(2, 3) {
		if i == 60 {
			break
		}
		for turn := range 3 {
			want := int64(offset) + int64(turn)*2.5e9
			if got := whole[fmt.Sprintf("c%d %d", i, turn)]; got != want {
				t.Errorf("c%d turn %d at %d, want %d", i, turn, got, want)
			}
		}
		i++
	}
	parts := map[string]int64{}
	for shard := range 3 {
		maps.Copy(parts, schedule(fmt.Sprintf("%d/3", shard)))
	}
	if !maps.Equal(parts, whole) {
		t.Errorf("the shards together are not the whole: %d and %d turns", len(parts), len(whole))
	}
}

func TestOpenLoopLimits(t *testing.T) {
	// Ten conversations, one a second, each takes 4 s; two may run at once.
	convs := talks(10, 4, 0)
	t.Run("wait", func(t *testing.T) {
		r := trial{cfg: Config{Rate: rate(1), Arrivals: "constant", MaxConversations: 2}, convs: convs}
		r.run(t)
		r.check(t, map[string]int{"ok": 40}, 2, 20*time.Second+time.Second)
		for _, row := range r.rows {
			var i int64
			fmt.Sscanf(row.ConversationID, "c%d", &i)
			// Places come free at 4, 5, 8, 9, ...: conversation i starts at 4·(i/2) + i%2.
			if want := (4*(i/2) + i%2) * 1e9; row.Turn == 0 && (*row.ScheduledNS != i*1e9 || *row.ReadyNS != want || *row.StartNS != want) {
				t.Errorf("c%d: scheduled %d, ready %d, started %d", i, *row.ScheduledNS, *row.ReadyNS, *row.StartNS)
			}
		}
	})
	t.Run("shed", func(t *testing.T) {
		r := trial{cfg: Config{Rate: rate(1), Arrivals: "constant", MaxConversations: 2, WhenFull: "shed"}, convs: convs}
		r.server.answer = func(string, int64, *schemas.Request) time.Duration { return 990 * time.Millisecond }
		r.run(t)
		// Those of 0 and 1 s run until 3.96 and 4.96 s, those of 2 and 3 s are shed, and so on.
		r.checkRows(t, map[string]int{"ok": 24, "shed shed": 16})
	})
	t.Run("requests in flight", func(t *testing.T) {
		r := trial{cfg: Config{Rate: rate(1), Arrivals: "constant", MaxInFlight: 1}, convs: talks(3, 1, 0)}
		r.server.answer = func(string, int64, *schemas.Request) time.Duration { return 3 * time.Second }
		r.run(t)
		r.check(t, map[string]int{"ok": 3}, 1, 9*time.Second)
		for i, row := range r.rows {
			if want := int64(2*i) * 1e9; *row.InFlightNS != want || *row.ReadyNS-*row.ScheduledNS != want {
				t.Errorf("%s waited %d for its request's place, want %d", row.ConversationID, *row.InFlightNS, want)
			}
		}
	})
	t.Run("duration counts what was offered", func(t *testing.T) {
		r := trial{cfg: Config{Rate: rate(1), Arrivals: "constant", MaxConversations: 1, Duration: 5500 * time.Millisecond, Loops: 1}, convs: convs}
		r.run(t)
		// Six were offered by 5.5 s; one is through, one is in its second turn.
		r.checkRows(t, map[string]int{"ok": 6, "not_reached budget": 18})
		if n := r.e.Totals().NotAdmitted; n != 4 {
			t.Errorf("%d conversations not admitted, want 4", n)
		}
	})
	t.Run("no pacing", func(t *testing.T) {
		r := trial{cfg: Config{Rate: rate(math.Inf(1))}, convs: talks(50, 2, 0)}
		r.run(t)
		r.check(t, map[string]int{"ok": 100}, 50, 2*time.Second)
	})
}

func TestRecordedArrivals(t *testing.T) {
	convs := talks(4, 1, 0)
	for i, s := range []float64{9000, 5000, 5500, 7000} {
		convs[i].StartOffsetMS = &s
	}
	r := trial{cfg: Config{Arrivals: "recorded", Speed: 2}, convs: convs}
	r.server.answer = func(string, int64, *schemas.Request) time.Duration { return 900 * time.Millisecond }
	r.run(t)
	r.check(t, map[string]int{"ok": 4}, 2, 2900*time.Millisecond)
	for i, want := range []int64{2e9, 0, 0.25e9, 1e9} {
		if got := *r.rows[i].StartNS; got != want {
			t.Errorf("c%d started at %d, want %d", i, got, want)
		}
	}
}

func TestFailedTurnEndsItsConversation(t *testing.T) {
	fail := func(id string, turn int64, row *schemas.Request) time.Duration {
		if id == "c1" && turn == 1 {
			row.Status = string(schemas.StatusHTTPError)
		}
		return time.Second
	}
	r := trial{cfg: Config{Concurrency: 2}, convs: talks(4, 4, 0), server: fakeServer{answer: fail}}
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 13, "http_error": 1, "not_reached conversation_failed": 2})
	r = trial{cfg: Config{Concurrency: 2, KeepGoing: true}, convs: talks(4, 4, 0), server: fakeServer{answer: fail}}
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 15, "http_error": 1})
	want := []string{"user:ask c1.0", "assistant:live c1.0", "user:ask c1.1", "assistant:recorded c1.1", "user:ask c1.2", "assistant:live c1.2", "user:ask c1.3"}
	if got := r.server.history["c1/0"]; !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
}

func TestHistory(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 1, History: "recorded"}, convs: talks(1, 3, 0)}
	r.run(t)
	want := []string{"user:ask c0.0", "assistant:recorded c0.0", "user:ask c0.1", "assistant:recorded c0.1", "user:ask c0.2"}
	if got := r.server.history["c0/0"]; !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
}

func TestInterrupts(t *testing.T) {
	t.Run("drain", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 2}, convs: talks(10, 3, 0), drain: 1500 * time.Millisecond}
		r.run(t)
		r.check(t, map[string]int{"ok": 4, "not_reached interrupted": 26}, 2, 2*time.Second)
	})
	t.Run("drain in think time", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 2}, convs: talks(10, 3, time.Hour), drain: 1500 * time.Millisecond}
		r.run(t)
		r.check(t, map[string]int{"ok": 2, "not_reached interrupted": 28}, 2, 1500*time.Millisecond)
	})
	t.Run("hard", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 2}, convs: talks(10, 3, 0), cancel: 1500 * time.Millisecond}
		r.run(t)
		r.check(t, map[string]int{"ok": 2, "canceled interrupted": 2, "not_reached interrupted": 26}, 2, 1500*time.Millisecond)
	})
	t.Run("drain, then hard", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 2}, convs: talks(10, 3, 0), drain: 1200 * time.Millisecond, cancel: 1500 * time.Millisecond}
		r.run(t)
		r.check(t, map[string]int{"ok": 2, "canceled interrupted": 2, "not_reached interrupted": 26}, 2, 1500*time.Millisecond)
	})
	t.Run("open loop", func(t *testing.T) {
		r := trial{cfg: Config{Rate: rate(1), Arrivals: "constant"}, convs: talks(10, 3, 0), cancel: 4500 * time.Millisecond}
		r.server.answer = func(string, int64, *schemas.Request) time.Duration { return 900 * time.Millisecond }
		r.run(t)
		// Started at 0..4 s; by 4.5 s: 3+3+2+1+0 turns are through, three are under way.
		r.check(t, map[string]int{"ok": 9, "canceled interrupted": 3, "not_reached interrupted": 18}, 3, 4500*time.Millisecond)
	})
}

// TestAbandoned has requests that do not end when they are canceled: the run ends all the same, says so,
// and every turn has its row.
func TestAbandoned(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 2}, convs: talks(4, 3, 0), cancel: 1500 * time.Millisecond}
	r.server.deaf = true
	r.server.answer = func(id string, turn int64, _ *schemas.Request) time.Duration {
		if turn == 1 {
			return 100 * time.Second // the bubble ends when it has
		}
		return time.Second
	}
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 2, "canceled interrupted": 2, "not_reached interrupted": 8})
	if r.err == nil || !strings.Contains(r.err.Error(), "did not end") || !strings.Contains(r.err.Error(), "has a request under way") {
		t.Errorf("error: %v", r.err)
	}
	if r.took > time.Minute {
		t.Errorf("the run took %v", r.took)
	}
}

// TestWatchdog has a transport that keeps none of its limits.
func TestWatchdog(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 2, Timeout: 30 * time.Second}, convs: talks(4, 3, 0)}
	r.server.answer = func(id string, turn int64, _ *schemas.Request) time.Duration {
		if turn == 1 {
			return time.Hour
		}
		return time.Second
	}
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 2, "canceled watchdog": 2, "not_reached watchdog": 8})
	if r.err == nil || !strings.Contains(r.err.Error(), "watchdog") || !strings.Contains(r.err.Error(), `"c0"`) {
		t.Errorf("error: %v", r.err)
	}
	if r.took > 2*time.Minute {
		t.Errorf("the run took %v", r.took)
	}
}

// TestSparseRunsAreHealthy has nothing happen for a long time, in runs that wait for something: the watchdog lets
// them be.
func TestSparseRunsAreHealthy(t *testing.T) {
	recorded := talks(3, 1, 0)
	for i, s := range []float64{0, 300e3, 900e3} {
		recorded[i].StartOffsetMS = &s
	}
	for name, r := range map[string]*trial{
		"a low rate":            {cfg: Config{Rate: rate(0.05), IdleTimeout: 5 * time.Second, Arrivals: "constant"}, convs: talks(20, 1, 0)},
		"a trace with gaps":     {cfg: Config{Arrivals: "recorded", IdleTimeout: 5 * time.Second}, convs: recorded},
		"long think times":      {cfg: Config{Concurrency: 2, IdleTimeout: 5 * time.Second}, convs: talks(3, 3, time.Hour)},
		"one in eight minutes":  {cfg: Config{Rate: rate(0.002), Arrivals: "constant"}, convs: talks(4, 1, 0)},
		"a ramp without haste":  {cfg: Config{Concurrency: 3, Ramp: time.Hour, IdleTimeout: time.Second}, convs: talks(3, 1, 0)},
		"no limits and a pause": {cfg: Config{Concurrency: 1, Timeout: None, IdleTimeout: None}, convs: talks(1, 2, 10*time.Hour)},
	} {
		r.run(t)
		if r.err != nil || r.counts()["ok"] != len(r.rows) {
			t.Errorf("%s: %v, %v", name, r.err, r.counts())
		}
	}
}

// TestSuspended has the client suspended for longer than the watchdog's patience, which wakes before the pacer does:
// what is overdue is sent, and the run says how long it was away.
func TestSuspended(t *testing.T) {
	r := trial{cfg: Config{Rate: rate(2), Arrivals: "constant", IdleTimeout: 3 * time.Second}, convs: talks(60, 1, 0), suspend: [2]time.Duration{5200 * time.Millisecond, 12 * time.Second}}
	r.server.answer = func(string, int64, *schemas.Request) time.Duration { return 10 * time.Millisecond }
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 60})
	if away := r.e.Totals().Suspended; r.err != nil || away < 11*time.Second || away > 12*time.Second {
		t.Errorf("suspended for %v: %v", away, r.err)
	}
	late := 0
	for _, row := range r.rows {
		if row.StartNS != nil && *row.StartNS-*row.ScheduledNS > 1e9 {
			late++
		}
	}
	if late < 20 || late > 24 {
		t.Errorf("%d turns were late, those of 12 s at 2 per second should be", late)
	}
}

// TestBrokenWhileSuspended has requests break while the client, or the whole machine, was away: that is not the server's
// fault, and said so. One that breaks at another time is.
func TestBrokenWhileSuspended(t *testing.T) {
	const long = 12 * time.Second
	for name, r := range map[string]*trial{
		"the client":  {suspend: [2]time.Duration{5200 * time.Millisecond, long}},
		"the machine": {sleep: [2]time.Duration{5200 * time.Millisecond, long}},
	} {
		r.cfg, r.convs = Config{Rate: rate(2), Arrivals: "constant"}, talks(20, 1, 0)
		r.server.answer = func(id string, _ int64, row *schemas.Request) time.Duration {
			switch id {
			case "c5", "c10": // at 2.5 s, and at 5 s
				row.Status = string(schemas.StatusTimeout)
			case "c19": // long after
				row.Status = string(schemas.StatusTransportError)
			}
			return 400 * time.Millisecond
		}
		r.run(t)
		r.checkRows(t, map[string]int{"ok": 17, "timeout": 1, "canceled suspended": 1, "transport_error": 1})
		total := r.e.Totals()
		if total.Suspended+total.Slept < long-time.Second || total.Suspended+total.Slept > long || (total.Slept > 0) != (name == "the machine") {
			t.Errorf("%s: suspended for %v, asleep for %v", name, total.Suspended, total.Slept)
		}
		for _, row := range r.rows {
			if row.Status == "canceled" && (row.ConversationID != "c10" || !strings.Contains(*row.ErrorMessage, "suspended for 1")) {
				t.Errorf("%s: %s", row.ConversationID, *row.ErrorMessage)
			}
		}
	}
}

// TestDeadServer has a server refuse everything: the run gives up within seconds, and each turn has its row.
func TestDeadServer(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 16}, convs: talks(5000, 3, 0)}
	r.server.answer = func(_ string, _ int64, row *schemas.Request) time.Duration {
		row.Status = string(schemas.StatusTransportError)
		return time.Millisecond
	}
	r.run(t)
	n := r.counts()
	if reason, _ := r.e.Stopped(); r.err != nil || reason != load.EndErrors || len(r.rows) != 15_000 || n["transport_error"] > 500 || n["not_reached max_errors"] == 0 {
		t.Errorf("%s, %v, %v", reason, r.err, n)
	}
	if r.took < 10*time.Second || r.took > 20*time.Second {
		t.Errorf("the run took %v", r.took)
	}
}

// TestCountsGrace checks that the last turns of a count have the time that every turn has, unless a grace was given.
func TestCountsGrace(t *testing.T) {
	slow := func(id string, turn int64, _ *schemas.Request) time.Duration { return 5 * time.Minute }
	r := trial{cfg: Config{Concurrency: 4, Requests: 4}, convs: talks(4, 1, 0)}
	r.server.answer = slow
	r.run(t)
	r.check(t, map[string]int{"ok": 4}, 4, 5*time.Minute)
	r = trial{cfg: Config{Concurrency: 4, Requests: 4, Grace: time.Minute}, convs: talks(4, 1, 0)}
	r.server.answer = slow
	r.run(t)
	r.check(t, map[string]int{"canceled grace": 4}, 4, time.Minute)
}

// TestCountsLastTurnsTimeOut has a server that never answers: a turn that the run's last ones are among hits its own
// limit like any other, and is not canceled by the run.
func TestCountsLastTurnsTimeOut(t *testing.T) {
	for name, tt := range map[string]struct {
		minimum time.Duration
		rows    int
		took    time.Duration
	}{
		"requests":     {0, 4, 30 * time.Second},
		"min-duration": {45 * time.Second, 8, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := trial{sim: "never=1", cfg: Config{Concurrency: 4, Requests: 4, MinDuration: tt.minimum, Timeout: 30 * time.Second, MaxErrors: "none"}, convs: talks(20, 1, 0)}
			r.run(t)
			if r.checkRows(t, map[string]int{"timeout timeout_total": tt.rows}); r.err != nil || (r.took-tt.took).Abs() > time.Second {
				t.Errorf("the run took %v: %v", r.took, r.err)
			}
		})
	}
}

// TestStageRows checks what a run with stages says in its rows.
func TestStageRows(t *testing.T) {
	r := trial{cfg: Config{ConcurrencyStages: []load.Stage{{Level: 1, For: 10 * time.Second}, {Level: 3, For: 10 * time.Second}}}, convs: talks(5, 1, 0)}
	r.run(t)
	r.check(t, map[string]int{"ok": 40}, 3, 20*time.Second)
	for _, row := range r.rows {
		if want := *row.StartNS / 10e9; row.Stage == nil || *row.Stage != want {
			t.Errorf("a turn that started at %v is of stage %v", time.Duration(*row.StartNS), row.Stage)
		}
	}
}
