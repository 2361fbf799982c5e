package likeness

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/analyze/twin"
	"parley/replay/load"
	"parley/replay/simserver"
	"parley/replay/simserver/batch"
	"parley/replay/simserver/virtual"
	"parley/schemas"
)

var chats = virtual.Shape{Turns: 4, System: 160, First: 600, Later: 250, Output: 150, Sigma: 0.7, Think: 2 * time.Second}

var dataset = sync.OnceValue(func() *virtual.Conversations { return chats.Make(1, 2000) })

func play(t testing.TB, places int, e batch.Config) *virtual.Run {
	t.Helper()
	r := load.Rules{Concurrency: []load.Stage{{Level: float64(places)}}, Think: load.Scale{Factor: 1}, Duration: 2 * time.Minute, Grace: -1, Shards: 1}
	run, err := dataset().Play(r, e)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// figures gives the 95th percentile of TTFT in ms, and output tokens per second.
func figures(run *virtual.Run) (ttft, tokens float64) {
	var list []float64
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.TTFTMS == nil || *r.SentNS < int64(20*time.Second) || *r.SentNS > int64(2*time.Minute) {
			continue
		}
		list = append(list, *r.TTFTMS)
		tokens += float64(*r.CompletionTokens) / 100
	}
	slices.Sort(list)
	return list[len(list)*95/100], tokens
}

// engines are servers to be found out.
func engines() map[string]batch.Config {
	base := batch.Config{Step: 8 * time.Millisecond, PerSequence: 200 * time.Microsecond, PerToken: 60 * time.Microsecond, Delay: 4 * time.Millisecond, Sequences: 256, Budget: 2048, Blocks: 8000, BlockSize: 16, Jitter: 0.1, Seed: 3}
	small, slow, many := base, base, base
	small.Sequences, small.Budget = 12, 512
	slow.PerToken, slow.Step, slow.Drift, slow.DriftTime = 300*time.Microsecond, 20*time.Millisecond, 0.05, 10*time.Second
	many.PerSequence, many.Delay, many.Budget, many.Jitter = 20*time.Microsecond, 0, 8192, 0.02
	return map[string]batch.Config{"base": base, "small": small, "slow": slow, "many": many}
}

// within says whether an interval, and an estimate to a share, are right. Where the speed drifts, a little of a's time
// may go to b.
func within(v twin.Value, want time.Duration, share float64) bool {
	ms := float64(want) / 1e6
	return v.Low <= ms*1.02 && ms*0.98 <= v.High && math.Abs(v.Estimate/ms-1) < share
}

// The engine that is found is the one that made the run, and meets loads that the fit has not seen, above and below.
func TestTwin(t *testing.T) {
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			seen := play(t, 24, e)
			f, err := twin.Of(seen.Rows, seen.Telemetry)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", f)
			if !within(f.Step, e.Step, 0.05) || !within(f.PerToken, e.PerToken, 0.05) || !within(f.PerSequence, e.PerSequence, 0.2) {
				t.Error("a, b or c is another")
			}
			if math.Abs(f.Delay-float64(e.Delay)/1e6) > 2 {
				t.Errorf("delay %.2f ms, want %v", f.Delay, e.Delay)
			}
			if math.Abs(f.Drift-e.Drift) > 0.02 || math.Abs(f.Jitter-e.Jitter) > 0.03 {
				t.Errorf("drift %.3f, want %.3f; jitter %.3f, want %.3f", f.Drift, e.Drift, f.Jitter, e.Jitter)
			}
			if name == "small" && (f.Sequences != 12 || f.Budget != 512) || name != "small" && f.Sequences != 0 {
				t.Errorf("%d sequences, budget %d", f.Sequences, f.Budget)
			}
			if f.Blocks == nil || math.Abs(f.Blocks.Estimate/float64(e.Blocks)-1) > 0.05 {
				t.Errorf("blocks %v, want %d", f.Blocks, e.Blocks)
			}
			c, err := simserver.ParseQuery(f.Query().Encode())
			if err != nil {
				t.Fatal(err)
			}
			likeness := c.Batch()
			for _, places := range []int{8, 16, 32} {
				// Figures of several days: that of one hangs on its mood, in truth too.
				const days = 4
				var wantTTFT, wantTokens, ttft, tokens float64
				var like *virtual.Run
				for day := range uint64(days) {
					e.Seed, likeness.Seed = 100+day, 200+day
					add := func(run *virtual.Run, ttft, tokens *float64) {
						a, b := figures(run)
						*ttft += a / days
						*tokens += b / days
					}
					like = play(t, places, likeness)
					add(play(t, places, e), &wantTTFT, &wantTokens)
					add(like, &ttft, &tokens)
				}
				beyond := f.Beyond(like.Rows, like.Telemetry)
				t.Logf("%d places: TTFT p95 %.1f ms, in truth %.1f; %.0f tokens/s, in truth %.0f %v", places, ttft, wantTTFT, tokens, wantTokens, beyond)
				if len(beyond) == 0 && (math.Abs(ttft/wantTTFT-1) > 0.15 || math.Abs(tokens/wantTokens-1) > 0.15) {
					t.Errorf("%d places: not met within 15 %%", places)
				}
				if places <= 24 && len(beyond) > 0 {
					t.Errorf("%d places: %v", places, beyond)
				}
			}
		})
	}
}

// Past the loads that the run saw, and where the cache starts to evict, the twin says that it does not know.
func TestTwinDoesNotKnow(t *testing.T) {
	e := engines()["base"]
	e.Blocks = 3000
	seen := play(t, 8, e)
	f, err := twin.Of(seen.Rows, seen.Telemetry)
	if err != nil {
		t.Fatal(err)
	}
	much := play(t, 80, e)
	far := strings.Join(f.Beyond(much.Rows, much.Telemetry), "\n")
	for _, want := range []string{"requests at once", "hold", "evicts otherwise", "preemptions"} {
		if !strings.Contains(far, want) {
			t.Errorf("%q lacks %q", far, want)
		}
	}
	e.Drift, e.DriftTime = 0.4, 5*time.Second
	if f, err := twin.Of(play(t, 8, e).Rows, nil); err != nil || !strings.Contains(f.String(), "speed wandered") || len(f.Beyond(seen.Rows, nil)) == 0 {
		t.Errorf("a server whose speed wanders: %v\n%s", err, f)
	}
	e.Drift = 0
	var rows []schemas.Request
	for i := range 10 {
		rows = append(rows, seen.Rows[i])
	}
	if _, err := twin.Of(rows, nil); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("ten rows: %v", err)
	}
	e.Draft, e.Accept = 3, 0.8
	if _, err := twin.Of(play(t, 8, e).Rows, nil); err == nil || !strings.Contains(err.Error(), "several tokens in a chunk") {
		t.Errorf("speculative decoding: %v", err)
	}
}
