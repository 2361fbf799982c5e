package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"parley/analyze"
	"parley/replay/simserver"
)

// lockedBuffer is the server's log, which it writes while the test runs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Tokens per second over a window are what the server itself counted over the same span, within 1 %: by the moments
// at which it handed its chunks to the kernel, over real HTTP.
func TestThroughputIsTheServersOwn(t *testing.T) {
	cfg, err := simserver.ParseQuery("ttft=50ms&itl=10ms&slots=0&jitter=0&log_chunks=true")
	if err != nil {
		t.Fatal(err)
	}
	truth := &lockedBuffer{}
	sim, err := simserver.NewWithLog(cfg, truth)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(sim)
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.Start()
	run := filepath.Join(t.TempDir(), "run.parquet")
	if code, out := within(t, "replay", dataset(t, 64, 2, 60), "--url", ts.URL, "-o", run, "--concurrency", "8", "--ignore-eos", "--think", "50ms"); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	ts.Close()
	sim.Close()
	for _, window := range []string{"all", "1s:3s", "steady"} {
		result := filepath.Join(t.TempDir(), "result.json")
		if code, out := within(t, "analyze", run, "--window", window, "--format", "json", "-o", result); code != 0 {
			t.Fatalf("code %d: %s", code, out)
		}
		text, err := os.ReadFile(result)
		if err != nil {
			t.Fatal(err)
		}
		var res analyze.Result
		if err := json.Unmarshal(text, &res); err != nil {
			t.Fatal(err)
		}
		r := &res.Runs[0]
		origin := r.Origin.UnixNano()
		from, to := origin+int64(r.Window.From*1e9), origin+int64(r.Window.To*1e9)
		tokens := 0
		for line := range bytes.Lines(truth.b.Bytes()) {
			var tr simserver.Truth
			if err := json.Unmarshal(line, &tr); err != nil {
				t.Fatal(err)
			}
			if len(tr.ChunkNS) != tr.Completion {
				t.Fatalf("%d chunks of %d tokens", len(tr.ChunkNS), tr.Completion)
			}
			for _, at := range tr.ChunkNS {
				if at >= from && at < to {
					tokens++
				}
			}
		}
		want := float64(tokens) / float64(r.Window.Seconds)
		got := float64(r.Total.Throughput.CompletionTokens)
		t.Logf("%s: %.1f tokens/s over %.2f s, the server sent %.1f", window, got, float64(r.Window.Seconds), want)
		if tokens < 500 || math.Abs(got/want-1) > 0.01 {
			t.Errorf("%s: %.1f tokens/s, the server sent %.1f", window, got, want)
		}
	}
}
