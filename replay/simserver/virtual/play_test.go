package virtual

import (
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/replay/load"
	"parley/replay/simserver/batch"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var chat = Shape{Turns: 4, System: 160, First: 400, Later: 200, Output: 200, Sigma: 0.7, Think: 3 * time.Second}

func engine() batch.Config {
	return batch.Config{Step: 6 * time.Millisecond, PerSequence: 80 * time.Microsecond, PerToken: 30 * time.Microsecond, Sequences: 256, Budget: 8192, Blocks: 26000, BlockSize: 16, Mood: 0.05, Drift: 0.05, Jitter: 0.05}
}

func closed(n int, d time.Duration) load.Rules {
	return load.Rules{Concurrency: []load.Stage{{Level: float64(n)}}, Think: load.Scale{Factor: 1}, Tool: load.Scale{Factor: 1}, Duration: d, Grace: 10 * time.Second, Shards: 1, Loops: 0}
}

func open(rate float64, d time.Duration) load.Rules {
	r := closed(1, d)
	r.Concurrency, r.Rate, r.Arrivals = nil, []load.Stage{{Level: rate}}, "poisson"
	return r
}

func play(t testing.TB, c *Conversations, r load.Rules, e batch.Config) *Run {
	t.Helper()
	run, err := c.Play(r, e)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestPlay(t *testing.T) {
	c := chat.Make(1, 400)
	run := play(t, c, closed(50, 2*time.Minute), engine())
	m := &run.Meta
	if m.Planned != m.Rows || m.Rows != int64(len(run.Rows)) || m.Ended != load.EndDuration || m.Counts[schemas.StatusOK] < 1000 || *m.Concurrency != 50 {
		t.Errorf("meta %+v", m)
	}
	live := map[string]int64{} // by conversation and instance: the next turn
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Status != string(schemas.StatusOK) {
			continue
		}
		key := r.ConversationID + "/" + string(rune('a'+r.Instance))
		if r.Turn != live[key] {
			t.Fatalf("%s turn %d, want %d", key, r.Turn, live[key])
		}
		live[key]++
		if *r.ScheduledNS > *r.ReadyNS || *r.ReadyNS > *r.SentNS || *r.SentNS >= *r.FirstTokenNS || *r.FirstTokenNS > *r.LastTokenNS || *r.DoneNS != *r.LastTokenNS {
			t.Fatalf("moments of %+v", r)
		}
		if int64(len(r.ChunkNS)) != *r.CompletionTokens || *r.CompletionTokens != *r.OutputTokensAsked || *r.PromptTokens != *r.ExpectedPromptTokens {
			t.Fatalf("tokens of %+v", r)
		}
		// All but a later turn's new tokens, and the rest of a block, are in the cache.
		if fresh := *r.PromptTokens - *r.CachedTokens; r.Turn > 0 && fresh > *r.NewTokens+17 {
			t.Fatalf("turn %d: %d of %d tokens cached, %d are new", r.Turn, *r.CachedTokens, *r.PromptTokens, *r.NewTokens)
		}
	}
	if again := play(t, c, closed(50, 2*time.Minute), engine()); !reflect.DeepEqual(again.Rows, run.Rows) {
		t.Error("the same seeds give other rows")
	}
	other := engine()
	other.Seed = 1
	if again := play(t, c, closed(50, 2*time.Minute), other); reflect.DeepEqual(again.Rows, run.Rows) {
		t.Error("another mood gives the same rows")
	}
}

// An open loop's turns that are not over at the end are cut, and what it does not come to becomes rows too.
func TestPlayOpen(t *testing.T) {
	r := open(40, 30*time.Second)
	r.Grace, r.MaxConversations, r.Shed = 0, 100, true
	run := play(t, chat.Make(1, 400), r, engine())
	m := &run.Meta
	if m.Planned != m.Rows || m.Counts[schemas.StatusOK] == 0 || m.Counts[schemas.StatusCanceled] == 0 || m.Counts[schemas.StatusShed] == 0 || m.Counts[schemas.StatusNotReached] == 0 || *m.OfferedRate != 40 {
		t.Errorf("meta %+v", m)
	}
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Status == string(schemas.StatusCanceled) && (*r.ErrorKind != load.CutGrace || *r.DoneNS != int64(30*time.Second)) {
			t.Fatalf("%+v", r)
		}
	}
	small := engine()
	small.Blocks = 60 // no more than 960 tokens
	run = play(t, chat.Make(1, 50), open(1, 20*time.Second), small)
	if run.Meta.Counts[schemas.StatusHTTPError] == 0 || run.Meta.Counts[schemas.StatusOK] == 0 || run.Meta.Rows != run.Meta.Planned {
		t.Errorf("with a small cache: %+v", run.Meta)
	}
}

func BenchmarkPlay(b *testing.B) {
	c := chat.Make(1, 400)
	for b.Loop() {
		play(b, c, closed(50, 2*time.Minute), engine())
	}
}
