package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/replay/load"
	"parley/schemas"
)

// family is a parent of four turns with a child that its turn 1 starts after 300 ms, which has a child of
// its own, and another child that turn 3 starts at once.
func family() []schemas.Conversation {
	convs := talks(4, 4, 0)
	adopt := func(i int, parent string, turn int64, delay float64) {
		convs[i].ParentID, convs[i].ParentTurn, convs[i].ParentDelayMS = &parent, &turn, &delay
	}
	adopt(1, "c0", 1, 300)
	adopt(2, "c1", 2, 100)
	adopt(3, "c0", 3, 0)
	return convs
}

func starts(r *trial) map[string]int64 {
	out := map[string]int64{}
	for _, row := range r.rows {
		if row.StartNS != nil {
			out[fmt.Sprintf("%s.%d", row.ConversationID, row.Turn)] = *row.StartNS / 1e6
		}
	}
	return out
}

func TestChildren(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 10}, convs: family()}
	r.run(t)
	r.check(t, map[string]int{"ok": 16}, 4, 7400*time.Millisecond)
	got := starts(&r)
	for turn, want := range map[string]int64{"c0.0": 0, "c0.1": 1000, "c1.0": 1300, "c1.2": 3300, "c2.0": 3400, "c3.0": 3000} {
		if got[turn] != want {
			t.Errorf("%s started at %d ms, want %d", turn, got[turn], want)
		}
	}
}

// TestChildrenCount checks that a tree of conversations has one place, and that conversations are rows when the
// turn that starts them never comes.
func TestChildrenCount(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 1}, convs: append(family(), talk("c9", 1, 0))}
		r.run(t)
		r.check(t, map[string]int{"ok": 17}, 4, 8400*time.Millisecond)
		if got := starts(&r); got["c9.0"] != 7400 {
			t.Errorf("the other conversation started at %d ms: a tree has one place, to the end of its last conversation", got["c9.0"])
		}
	})
	t.Run("failed parent", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 10}, convs: family()}
		r.server.answer = func(id string, turn int64, row *schemas.Request) time.Duration {
			if id == "c0" && turn == 1 {
				row.Status = string(schemas.StatusHTTPError)
			}
			return time.Second
		}
		r.run(t)
		r.checkRows(t, map[string]int{"ok": 9, "http_error": 1, "not_reached conversation_failed": 2, "not_reached parent_not_reached": 4})
	})
	t.Run("deadline", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 10, Deadline: 1200 * time.Millisecond}, convs: family()}
		r.run(t)
		if n := int64(len(r.rows)); n != 16 || r.e.Totals().Planned != 16 {
			t.Errorf("%d rows, %d planned", n, r.e.Totals().Planned)
		}
	})
	t.Run("budget", func(t *testing.T) {
		r := trial{cfg: Config{Concurrency: 10, Requests: 2, Loops: 1}, convs: family()}
		r.run(t)
		r.checkRows(t, map[string]int{"ok": 2, "not_reached budget": 2})
		// Turn 1 of c0 had started when the budget was used up; c1 was not due yet.
		if n := r.e.Totals().NotAdmitted; n != 3 {
			t.Errorf("%d conversations not admitted, want 3", n)
		}
	})
}

// TestStagger checks that the first conversations begin at mixed ages, with the recorded history up to
// there, and that the turns before are not planned.
func TestStagger(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 30, Stagger: true, Seed: 5}, convs: talks(60, 10, 0)}
	r.run(t)
	if r.err != nil || int64(len(r.rows)) != r.e.Totals().Planned || r.counts()["ok"] != len(r.rows) {
		t.Fatalf("%v, %d rows, %d planned, %v", r.err, len(r.rows), r.e.Totals().Planned, r.counts())
	}
	first := map[string]int64{}
	for _, row := range r.rows {
		if f, ok := first[row.ConversationID]; !ok || row.Turn < f {
			first[row.ConversationID] = row.Turn
		}
	}
	ages := map[int64]int{}
	for i := range 60 {
		f := first[fmt.Sprintf("c%d", i)]
		if i >= 30 && f != 0 {
			t.Errorf("c%d is not among the first and begins at turn %d", i, f)
		}
		if i < 30 {
			ages[f]++
		}
	}
	if len(ages) < 7 {
		t.Errorf("the first thirty begin at only these turns: %v", ages)
	}
	for id, f := range first {
		if f < 2 {
			continue
		}
		sent := r.server.history[id+"/0"]
		if sent[1] != "assistant:recorded "+id+".0" || !strings.HasPrefix(sent[len(sent)-2], "assistant:") || len(sent) != 19 {
			t.Errorf("%s began at turn %d with %q", id, f, sent)
		}
	}
}

// TestPromptsDiffer sends a looped dataset with a salt and without: with it no two instances share the
// beginning of a prompt, so that the simulated server's cache helps within a conversation only.
func TestPromptsDiffer(t *testing.T) {
	cached := func(salt bool) (first, later int64) {
		convs := talks(3, 3, 0)
		for i := range convs {
			long := strings.Repeat(fmt.Sprintf("word%d ", i), 200)
			convs[i].Messages[0].Content = &long
		}
		r := trial{cfg: Config{Concurrency: 2, Loops: 3, Salt: salt}, convs: convs, sim: "ttft=10ms&itl=1ms&slots=0"}
		r.run(t)
		r.checkRows(t, map[string]int{"ok": 27})
		for _, row := range r.rows {
			switch {
			case row.Turn > 0:
				later += *row.CachedTokens
			default:
				first += *row.CachedTokens
			}
		}
		return first, later
	}
	if first, later := cached(true); first != 0 || later == 0 {
		t.Errorf("with a salt: %d tokens cached in first turns, %d in later ones", first, later)
	}
	if first, _ := cached(false); first == 0 {
		t.Error("without a salt the second pass found nothing in the cache")
	}
}

// TestTemplates checks that headers and body fields reach the server filled in.
func TestTemplates(t *testing.T) {
	r := trial{
		cfg:   Config{Concurrency: 1, EchoHeaders: []string{"x-session-token"}},
		convs: talks(3, 3, 0), sim: "ttft=10ms&itl=1ms&slots=0&issue_header=x-session-token",
	}
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 9})
	sessions := map[string]map[string]bool{}
	for _, row := range r.rows {
		truth := r.truths(t)[*row.ResponseID]
		if truth.RequestID != row.RequestID {
			t.Errorf("the server knows %s as %s", row.RequestID, truth.RequestID)
		}
		if sessions[row.ConversationID] == nil {
			sessions[row.ConversationID] = map[string]bool{}
		}
		sessions[row.ConversationID][truth.Session] = true
	}
	for id, seen := range sessions {
		if len(seen) != 1 {
			t.Errorf("%s had the session tokens %v", id, slices.Collect(maps.Keys(seen)))
		}
	}
}

// TestResume interrupts a run at a moment, as a crash would, and goes on with what its journal has: each
// turn has one row in the end, no turn is sent twice, and the rows of the second run say so.
func TestResume(t *testing.T) {
	for _, cfg := range []Config{
		{Concurrency: 3}, {Concurrency: 3, KeepGoing: true}, {Concurrency: 3, Loops: 2},
		{Rate: rate(1.5), Seed: 4}, {Concurrency: 3, Requests: 60},
	} {
		for _, at := range []time.Duration{100, 1500, 4300, 8700} {
			first := trial{cfg: cfg, convs: append(family(), talks(12, 4, 700*time.Millisecond)[4:]...), cancel: at * time.Millisecond}
			fail := func(id string, turn int64, row *schemas.Request) time.Duration {
				if id == "c5" && turn == 2 {
					row.Status = string(schemas.StatusHTTPError)
				}
				return time.Second
			}
			first.server.answer = fail
			first.run(t)
			// What a killed process leaves: the rows of turns that had ended.
			var left []schemas.Request
			for _, row := range first.rows {
				if s := schemas.Status(row.Status); s == schemas.StatusOK || s.Failed() {
					text := fmt.Sprintf("saved %s.%d", row.ConversationID, row.Turn)
					row.Text = &text
					left = append(left, row)
				}
			}
			second := trial{cfg: cfg, convs: first.convs, left: gather(left)}
			second.server.answer = fail
			second.run(t)
			name := fmt.Sprintf("%+v at %v ms", cfg, int64(at))
			if second.err != nil {
				t.Fatalf("%s: %v", name, second.err)
			}
			turns := map[string]int{}
			for _, row := range append(left, second.rows...) {
				turns[fmt.Sprintf("%s/%d.%d", row.ConversationID, row.Instance, row.Turn)]++
			}
			for turn, n := range turns {
				if n != 1 {
					t.Errorf("%s: %s has %d rows", name, turn, n)
				}
			}
			if n := int64(len(turns)); n != second.e.Totals().Planned || !second.rules.Bounded() && n != int64(48*max(1, cfg.Loops)) {
				t.Errorf("%s: %d turns have rows, %d were planned", name, n, second.e.Totals().Planned)
			}
			for _, row := range second.rows {
				if !row.Resumed {
					t.Errorf("%s: %s is not marked as resumed", name, row.RequestID)
				}
			}
			for id, sent := range second.server.history {
				if i := slices.IndexFunc(sent, func(s string) bool { return strings.HasPrefix(s, "assistant:recorded") }); i >= 0 && !cfg.KeepGoing {
					t.Errorf("%s: %s went on with %q although the answer was saved", name, id, sent[i])
				}
			}
			if cfg.Requests > 0 && len(left)+second.counts()["ok"] != 60 && len(left)+second.counts()["ok"]+second.counts()["http_error"] != 60 {
				t.Errorf("%s: %d rows were left, then %v", name, len(left), second.counts())
			}
		}
	}
}

// gather makes rows into what a resumed run goes by.
func gather(rows []schemas.Request) *left {
	l := &left{meta: &schemas.RunMeta{}, answers: map[load.Key][]*string{}}
	l.Done = load.Done{}
	if err := l.add(rows); err != nil {
		panic(err)
	}
	l.settleTime()
	return l
}

// TestBadConversations checks that a row of the dataset that cannot be sent is rows, not the run's end.
func TestBadConversations(t *testing.T) {
	convs := talks(4, 2, 0)
	convs[1].Turns[1].MessageIndex = 99
	nan := -5.0
	convs[2].Turns[1].ThinkTimeMS = &nan
	for _, cfg := range []Config{{Concurrency: 1}, {Rate: rate(5)}, {Concurrency: 1, Requests: 100, Loops: 1}} {
		r := trial{cfg: cfg, convs: convs}
		r.run(t)
		if r.err != nil {
			t.Error(r.err)
		}
		r.checkRows(t, map[string]int{"ok": 4, "not_reached bad_conversation": 4})
		for _, row := range r.rows {
			if row.ConversationID == "c1" && !strings.Contains(*row.ErrorMessage, "message_index 99") {
				t.Errorf("message: %s", *row.ErrorMessage)
			}
		}
	}
}

func TestRowsAreJSON(t *testing.T) {
	// Every row's text columns are valid UTF-8 and every figure finite, whatever happened.
	r := trial{cfg: Config{Concurrency: 4}, convs: talks(20, 3, 0), sim: "ttft=10ms&itl=1ms&slots=0&fail=0.2&cut=0.2&split_utf8=0.5"}
	r.run(t)
	for _, row := range r.rows {
		text, err := json.Marshal(row)
		if err != nil || bytes.Contains(text, []byte("\\ufffd")) {
			t.Errorf("%s: %v %s", row.RequestID, err, text)
		}
	}
}

// TestJoins runs a tree whose turns wait for others, and looks at what its rows say.
func TestJoins(t *testing.T) {
	ms := func(v float64) *float64 { return &v }
	text := func(s string) *string { return &s }
	convs := talks(4, 3, 0)
	for i, turn := range []int64{0, 0} { // c1 and c2 are called by the answer of turn 0
		c := &convs[1+i]
		c.ParentID, c.ParentTurn, c.ParentDelayMS, c.ParentFrom = text("c0"), &turn, ms(100), text("end")
	}
	convs[0].Turns[1].Joins = []string{"c1", "c2"}
	convs[0].Turns[1].ToolTimeMS = ms(250)
	convs[2].Turns = convs[2].Turns[:2]
	r := trial{cfg: Config{Concurrency: 1}, convs: convs}
	r.run(t)
	// c0.0 0-1 s; c1 1.1-4.1 s, c2 1.1-3.1 s; c0.1 at 4.1 + 0.25 s; then c3, when the whole tree is over.
	r.check(t, map[string]int{"ok": 11}, 2, 9350*time.Millisecond)
	got := starts(&r)
	for turn, want := range map[string]int64{"c0.0": 0, "c1.0": 1100, "c2.0": 1100, "c0.1": 4350, "c0.2": 5350, "c3.0": 6350} {
		if got[turn] != want {
			t.Errorf("%s started at %d ms, want %d", turn, got[turn], want)
		}
	}
	for _, row := range r.rows {
		if row.ConversationID == "c0" && row.Turn == 1 {
			if row.WaitJoinMS == nil || *row.WaitJoinMS != 3100 || *row.ToolTimeMS != 250 || row.JoinedID == nil || *row.JoinedID != "c1" || row.ParentID != nil || *row.RootID != "c0" {
				t.Errorf("the joining turn: %+v", row)
			}
		} else if row.WaitJoinMS != nil || row.JoinedID != nil {
			t.Errorf("%s joins something", row.RequestID)
		}
		if row.ConversationID == "c1" && (*row.RootID != "c0" || *row.ParentID != "c0" || *row.ParentTurn != 0) {
			t.Errorf("the child: %+v", row)
		}
		if row.ConversationID == "c3" && *row.RootID != "c3" {
			t.Errorf("the root of c3 is %s", *row.RootID)
		}
	}
	// A child that fails takes the turns that need it with it, unless the run keeps going.
	fail := func(id string, turn int64, row *schemas.Request) time.Duration {
		if id == "c1" && turn == 0 {
			row.Status = string(schemas.StatusHTTPError)
		}
		return time.Second
	}
	r = trial{cfg: Config{Concurrency: 1}, convs: convs}
	r.server.answer = fail
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 6, "http_error": 1, "not_reached conversation_failed": 2, "not_reached joined_failed": 2})
	r = trial{cfg: Config{Concurrency: 1, KeepGoing: true}, convs: convs}
	r.server.answer = fail
	r.run(t)
	r.checkRows(t, map[string]int{"ok": 10, "http_error": 1})
}
