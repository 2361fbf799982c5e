package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/replay/load"
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

// TestRun goes the whole way over real sockets: probe, load, scrape, journal, the files.
func TestRun(t *testing.T) {
	url, log := simulate(t, "ttft=20ms&itl=2ms&slots=0&log_chunks=true")
	cfg := Config{
		Dataset: writeDataset(t, talks(40, 5, 0)), URLs: []string{url}, Concurrency: 8, Label: "trial",
		ScrapeInterval: 50 * time.Millisecond, Output: filepath.Join(t.TempDir(), "run.parquet"),
	}
	var progress atomic.Pointer[func() Progress]
	out, rows, err := replayed(t, cfg, Hooks{Started: func(f func() Progress) {
		progress.Store(&f)
		f() // at once, while the load begins
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := &out.Meta
	if len(rows) != 200 || m.Planned != 200 || m.Rows != 200 || m.Counts[schemas.StatusOK] != 200 || !out.Sealable || m.Ended != load.EndComplete {
		t.Fatalf("%d rows, outcome %+v", len(rows), m)
	}
	if m.Targets[0].Model != "sim" || !strings.HasPrefix(m.Targets[0].Server, "simserver") || m.Probe == nil || !*m.Probe.Usage || !*m.Probe.ContinuousUsage {
		t.Errorf("target %+v, probe %+v", m.Targets[0], m.Probe)
	}
	if m.Health == nil || m.Health.PeakInFlight != 8 || m.Health.PeakActive != 8 || m.Health.CPUSeconds <= 0 || m.Health.Scrapes == 0 {
		t.Errorf("health %+v", m.Health)
	}
	if m.Clock.KernelReads+m.Clock.UserReads == 0 || m.Origin.IsZero() || time.Since(m.Origin) > time.Minute {
		t.Errorf("clock %+v, origin %v", m.Clock, m.Origin)
	}
	if f := progress.Load(); f == nil {
		t.Error("Started was not called")
	} else if p := (*f)(); p.Done != 200 || p.Planned != 200 || p.InFlight != 0 || p.TTFTP50 < 20*time.Millisecond || p.RequestsPerS <= 0 {
		t.Errorf("progress %+v", p)
	}
	truths, err := readTruths(log)
	missing := func(r schemas.Request) bool { _, ok := truths[*r.ResponseID]; return !ok }
	for tries := 0; (err != nil || slices.ContainsFunc(rows, missing)) && tries < 200; tries++ {
		time.Sleep(50 * time.Millisecond) // the server writes its log ten times a second
		truths, err = readTruths(log)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		truth, ok := truths[*row.ResponseID]
		if !ok || len(truth.ChunkNS) != len(row.ChunkNS) || *row.TTFTMS < float64(truth.FirstNS-truth.ReceivedNS)/1e6 {
			t.Errorf("%s: TTFT %v ms, truth %v, %d chunks", row.RequestID, *row.TTFTMS, truth, len(row.ChunkNS))
		}
		if row.Model != "sim" || row.URL != url || row.RunID != m.RunID || *row.CompletionTokens != 10 || *row.OutputTokensAsked != 10 {
			t.Fatalf("row %+v", row)
		}
	}
	samples := map[string]int{}
	if _, err := schemas.ReadJournalSamples(out.Journal, func(batch []schemas.Sample) error {
		for _, s := range batch {
			samples[s.Source+" "+s.Name]++
		}
		return nil
	}); err != nil || samples["client in_flight"] == 0 || samples[url+"/metrics running"] == 0 {
		t.Errorf("samples %v, %v", samples, err)
	}
	if n, err := schemas.SealRun(cfg.Output, m, false); n != 200 || err != nil {
		t.Errorf("sealed %d rows, %v", n, err)
	}
}

// TestCalibrate calibrates after a run, in this process: what it finds is small and not negative.
func TestCalibrate(t *testing.T) {
	cfg := Config{Dataset: writeDataset(t, talks(30, 2, 0)), Concurrency: 5, Output: "unused", Duration: time.Second, APIKey: "sk-secret"}
	var asked string
	c, err := Calibrate(context.Background(), cfg, &Outcome{Pace: Pace{TTFTMS: 12.5, TPOTMS: 3}}, func(ctx context.Context, query string) (*Simulator, error) {
		asked = query
		url, log := simulate(t, query)
		return &Simulator{URL: url, Log: log, Stop: func() error { time.Sleep(time.Second); return nil }}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asked, "ttft=12.5ms") || !strings.Contains(asked, "itl=3ms") {
		t.Errorf("the simulated server was asked for as %s", asked)
	}
	if c.Requests < 20 || c.Streams != 5 || c.TTFTErrP50 <= 0 || c.TTFTErrP50 > 20 || c.GapErrP99 < c.GapErrP50 || c.When != "after" {
		t.Errorf("%+v", c)
	}
}

// TestSecrets looks for a key, a header's value and passwords in everything that a run leaves.
func TestSecrets(t *testing.T) {
	url, _ := simulate(t, "ttft=1ms&itl=1ms&slots=0&fail=0.3")
	dir := t.TempDir()
	secrets := []string{"sk-key-4711", "header-value-4712", "password-4713"}
	var notes []string
	cfg := Config{
		Dataset: writeDataset(t, talks(10, 3, 0)), Output: filepath.Join(dir, "run.parquet"),
		URLs:        []string{strings.Replace(url, "http://", "http://user:"+secrets[2]+"@", 1)},
		Concurrency: 2, APIKey: secrets[0], APIKeyEnv: "NAME", Headers: []string{"X-Token: " + secrets[1]}, NoProbe: true,
	}
	out, _, err := replayed(t, cfg, Hooks{Note: func(s string) { notes = append(notes, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schemas.SealRun(cfg.Output, &out.Meta, false); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out.Meta)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text) + strings.Join(notes, "\n")
	f, err := schemas.Open[schemas.Request](cfg.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for row, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(row)
		all += string(text)
	}
	for _, s := range secrets {
		if strings.Contains(all, s) {
			t.Errorf("%s is in what the run left", s)
		}
	}
	if !strings.Contains(string(out.Meta.Config), "X-Token") {
		t.Error("the header's name is not in the configuration")
	}
	cfg.URLs[0] = "http://user:" + secrets[2] + "@ /"
	cfg.Headers = append(cfg.Headers, secrets[1])
	if err := cfg.Validate(); err == nil || strings.Contains(err.Error(), "471") {
		t.Errorf("error: %v", err)
	}
}

// TestInterruptedBeforeTheLoad stops a run that waits for a server that is not there.
func TestInterruptedBeforeTheLoad(t *testing.T) {
	drain := make(chan struct{})
	cfg := Config{Dataset: writeDataset(t, talks(3, 1, 0)), URLs: []string{"http://127.0.0.1:1"}, Concurrency: 1}
	out, _, err := replayed(t, cfg, Hooks{Drain: drain, Note: func(text string) {
		if strings.HasPrefix(text, "waiting") {
			close(drain)
		}
	}})
	if out != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("outcome %v, error %v", out, err)
	}
}

// TestJournalIsKept runs where an interrupted run has left its rows.
func TestJournalIsKept(t *testing.T) {
	url, _ := simulate(t, "ttft=1ms&itl=1ms&slots=0")
	cfg := Config{Dataset: writeDataset(t, talks(3, 1, 0)), URLs: []string{url}, Concurrency: 1, Output: filepath.Join(t.TempDir(), "run.parquet")}
	j, err := schemas.CreateJournal(cfg.Output, &schemas.RunMeta{})
	if err != nil {
		t.Fatal(err)
	}
	left := make([]schemas.Request, 7)
	for i := range left {
		left[i].RequestID = fmt.Sprintf("run-%d.0-0", i)
	}
	if err := j.AppendRequests(left); err != nil {
		t.Fatal(err)
	}
	if err := j.Abandon(); err != nil {
		t.Fatal(err)
	}
	if out, _, err := replayed(t, cfg, Hooks{}); out != nil || err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("outcome %v, error %v", out, err)
	}
	cfg.Resume, cfg.Seed = true, 5
	if out, _, err := replayed(t, cfg, Hooks{}); out != nil || err == nil || !strings.Contains(err.Error(), "--resume: the interrupted run") {
		t.Errorf("another run's journal was taken: outcome %v, error %v", out, err)
	}
	n := 0
	state, err := schemas.ReadJournal(schemas.JournalPath(cfg.Output), func(rows []schemas.Request) error { n += len(rows); return nil })
	if err != nil || n != 7 || state.Finished {
		t.Errorf("%d rows are left, %+v, %v", n, state, err)
	}
}

// TestShardsServers checks which servers a shard makes connections to: those that its conversations come to.
func TestShardsServers(t *testing.T) {
	for _, tt := range []struct{ servers, shard, shards, want int }{{2, 0, 2, 1}, {2, 1, 2, 1}, {2, 0, 3, 2}, {4, 1, 2, 2}, {3, 0, 1, 3}, {1, 4, 8, 1}} {
		r := &run{cfg: &settled{}}
		r.cfg.rules.Shard, r.cfg.rules.Shards = tt.shard, tt.shards
		for range tt.servers {
			r.servers = append(r.servers, &server{})
		}
		if got := len(r.used()); got != tt.want {
			t.Errorf("shard %d of %d comes to %d of %d servers, want %d", tt.shard, tt.shards, got, tt.servers, tt.want)
		}
	}
}
