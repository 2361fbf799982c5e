package replay

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

func writeDataset(t testing.TB, convs []schemas.Conversation) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conversations.parquet")
	w, err := schemas.Create[schemas.Conversation](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(convs...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(schemas.DatasetMeta{Conversations: int64(len(convs))}); err != nil {
		t.Fatal(err)
	}
	return path
}

// simulate serves a simulated server on loopback in this process, and gives its URL and the path of its truth log.
func simulate(t testing.TB, query string) (url, truth string) {
	t.Helper()
	truth = filepath.Join(t.TempDir(), "truth.jsonl")
	cfg, err := simserver.ParseQuery(query + "&log=" + truth)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simserver: %v", err)
		}
		s.Close()
	})
	return "http://" + ln.Addr().String(), truth
}

// replayed runs a configuration and gives the outcome and the journal's rows.
func replayed(t testing.TB, cfg Config, hooks Hooks) (*Outcome, []schemas.Request, error) {
	t.Helper()
	if cfg.Output == "" {
		cfg.Output = filepath.Join(t.TempDir(), "run.parquet")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := Run(ctx, cfg, hooks)
	if out == nil {
		return nil, nil, err
	}
	var rows []schemas.Request
	state, rerr := schemas.ReadJournal(out.Journal, func(batch []schemas.Request) error {
		rows = append(rows, batch...)
		return nil
	})
	if rerr != nil || len(state.Damage) > 0 {
		t.Errorf("the journal: %v %v", rerr, state.Damage)
	}
	return out, rows, err
}

func TestRunAgainstSimulatedServer(t *testing.T) {
	url, truth := simulate(t, "ttft=20ms&itl=2ms&slots=0")
	out, rows, err := replayed(t, Config{
		Dataset: writeDataset(t, talks(40, 5, 0)), URLs: []string{url}, Concurrency: 8,
	}, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 200 || out.Meta.Planned != 200 || out.Meta.Counts[schemas.StatusOK] != 200 || !out.Sealable {
		t.Fatalf("%d rows, outcome %+v", len(rows), out.Meta)
	}
	for _, r := range rows[:3] {
		fmt.Printf("%s %v ttft %v e2e %v lag %v tokens %v chunks %d\n", r.RequestID, r.Status, *r.TTFTMS, *r.E2EMS, *r.SendLagMS, *r.CompletionTokens, len(r.ChunkNS))
	}
	text, _ := os.ReadFile(truth)
	fmt.Println(len(text), out.Meta.Health, out.Meta.Clock)
}
