package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/replay/load"
	"parley/schemas"
)

// killed runs a configuration, copies its journal after a while and so many turns' begins, as the disk has it when the process is killed
// then, lets the run end, and gives the output's name beside the copy.
func killed(t *testing.T, cfg Config, after time.Duration, turns int64) (output string) {
	t.Helper()
	if cfg.Output == "" {
		cfg.Output = filepath.Join(t.TempDir(), "run.parquet")
	}
	output = filepath.Join(t.TempDir(), "resumed.parquet")
	drain := make(chan struct{})
	var copyErr error
	_, err := Run(context.Background(), cfg, Hooks{Drain: drain, Started: func(progress func() Progress) {
		begun := progress().Started
		time.Sleep(after)
		for tries := 0; progress().Started < begun+turns && tries < 1000; tries++ { // a machine under load takes longer
			time.Sleep(20 * time.Millisecond)
		}
		copyErr = os.CopyFS(schemas.JournalPath(output), os.DirFS(schemas.JournalPath(cfg.Output)))
		close(drain)
	}})
	if err != nil || copyErr != nil {
		t.Fatal(err, copyErr)
	}
	// The copy may have caught a batch half-way, as a kill does: its sums tell.
	return output
}

func journalRows(t *testing.T, output string) (rows []schemas.Request) {
	t.Helper()
	if _, err := schemas.ReadJournal(schemas.JournalPath(output), func(batch []schemas.Request) error {
		rows = append(rows, batch...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestResumeRun kills a run and resumes it against another address of the same server, twice: each turn has one row,
// also those of conversations whose identifiers are not their own, and the time under load goes on.
func TestResumeRun(t *testing.T) {
	const sim = "ttft=40ms&itl=1ms&slots=0"
	url, _ := simulate(t, sim)
	other, _ := simulate(t, sim)
	convs := talks(200, 4, 0)
	for i := range convs {
		convs[i].ConversationID = fmt.Sprintf("c%d", i/2) // each twice
	}
	cfg := Config{
		Dataset: writeDataset(t, convs), URLs: []string{url}, Concurrency: 8, Scrape: []string{"none"},
		Duration: time.Minute,
	}
	cfg.Output = killed(t, cfg, 900*time.Millisecond, 100)
	first := journalRows(t, cfg.Output)
	cfg.URLs, cfg.Resume = []string{other}, true
	time.Sleep(600 * time.Millisecond) // the gap is no time under load
	cfg.Output = killed(t, cfg, 700*time.Millisecond, 100)
	second := journalRows(t, cfg.Output)
	if len(first) < 20 || len(second) < len(first)+20 {
		t.Fatalf("%d rows were there when the run was killed first, %d the second time", len(first), len(second))
	}
	left, err := readLeft(schemas.JournalPath(cfg.Output))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Duration = time.Duration(left.Time) + 800*time.Millisecond // limits may differ
	out, rows, err := replayed(t, cfg, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	// What is compared are moments of the run, however slow the machine is.
	m := &out.Meta
	if len(m.Sessions) != 3 || m.StopNS == nil {
		t.Fatalf("sessions: %+v, stopped at %v", m.Sessions, m.StopNS)
	}
	before, last := m.Sessions[1], m.Sessions[2]
	if last.LoadNS < before.LoadNS+2e8 || before.StartNS < before.LoadNS+6e8 || last.StartNS < before.StartNS+last.LoadNS-before.LoadNS {
		t.Errorf("sessions: %+v", m.Sessions)
	}
	if load := last.LoadNS + *m.StopNS - last.StartNS; (load-int64(cfg.Duration)) > 5e8 || load < int64(cfg.Duration) {
		t.Errorf("the run stopped after %v under load, of which %v were before its last part, with --duration %v", time.Duration(load), time.Duration(last.LoadNS), cfg.Duration)
	}
	ended := func(rows []schemas.Request) (at int64) {
		for i := range rows {
			if d := rows[i].DoneNS; d != nil {
				at = max(at, *d)
			}
		}
		return at
	}
	if before.LoadNS < ended(first) || last.LoadNS-before.LoadNS < ended(second)-before.StartNS {
		t.Errorf("sessions %+v, and the rows end at %d and %d", m.Sessions, ended(first), ended(second))
	}
	if m.ResumedFrom == "" || m.Ended != "duration" || m.Planned != int64(len(rows)) {
		t.Errorf("ended %s, %d planned, %d rows", m.Ended, m.Planned, len(rows))
	}
	seen := map[string]bool{}
	resumed := 0
	for i := range rows {
		key, err := keyOf(&rows[i])
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint(key, rows[i].Turn)
		if seen[name] {
			t.Errorf("two rows for %s", name)
		}
		seen[name] = true
		if rows[i].Resumed {
			resumed++
		}
	}
	if resumed != len(rows)-len(first) {
		t.Errorf("%d rows are marked as resumed, %d of %d came later", resumed, len(rows)-len(first), len(rows))
	}
}

// TestResumeRefuses resumes with something else than was interrupted.
func TestResumeRefuses(t *testing.T) {
	url, _ := simulate(t, "ttft=20ms&itl=1ms&slots=0")
	cfg := Config{Dataset: writeDataset(t, talks(100, 4, 0)), URLs: []string{url}, Concurrency: 4, Scrape: []string{"none"}, Retries: 1}
	left := killed(t, cfg, 300*time.Millisecond, 0)
	for _, tt := range []struct {
		want   string
		change func(c *Config)
	}{
		{`--concurrency 4, this one has --concurrency 5`, func(c *Config) { c.Concurrency = 5 }},
		{`--think`, func(c *Config) { c.Think = "2s" }},
		{`--history live, this one has --history recorded`, func(c *Config) { c.History = "recorded" }},
		{`--model "sim", this one has "adapter"`, func(c *Config) { c.Model = "adapter"; c.NoProbe = false }},
		{`--output-tokens`, func(c *Config) { c.OutputTokens = "7" }},
		{`no --keep-going, this one has --keep-going;`, func(c *Config) { c.KeepGoing = true }},
		{`--retries 1, this one has --retries 2`, func(c *Config) { c.Retries = 2 }},
		{`no --think-cap, this one has --think-cap 1m30s`, func(c *Config) { c.ThinkCap = 90 * time.Second }},
		{`--scrape none, this one has --scrape none --scrape http://h/metrics`, func(c *Config) { c.Scrape = append(c.Scrape, "http://h/metrics") }},
		{`this one has --concurrency 4:1m0s,8`, func(c *Config) {
			c.Concurrency, c.ConcurrencyStages = 0, []load.Stage{{Level: 4, For: time.Minute}, {Level: 8}}
		}},
		{`no --tool-time`, func(c *Config) { c.ToolTime = "2x" }},
		{`no --stagger`, func(c *Config) { c.Stagger = true }},
		{`no --url, this one has --url sim:?itl=1s`, func(c *Config) { c.SimURLs = []string{"sim:?itl=1s"} }},
		{`--url with the paths`, func(c *Config) { c.URLs = []string{url + "/other"} }},
		{`another dataset`, func(c *Config) {
			c.Dataset = filepath.Join(t.TempDir(), "d.parquet")
			w, err := schemas.Create[schemas.Conversation](c.Dataset, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(talks(3, 1, 0)...); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(schemas.DatasetMeta{ContentHash: "another"}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c := cfg
		c.Output, c.Resume = left, true
		tt.change(&c)
		if tt.want[:7] == "--model" {
			c.Model = "adapter" // which the configuration has, too
			tt.want = `no --model, this one has --model adapter`
		}
		out, _, err := replayed(t, c, Hooks{})
		if out != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--resume") {
			t.Errorf("%s: %v", tt.want, err)
		}
	}
	// What may differ does.
	c := cfg
	c.Output, c.Resume, c.Timeout, c.Grace, c.MaxErrors, c.Label = left, true, time.Minute, time.Second, "50%", "again"
	out, rows, err := replayed(t, c, Hooks{})
	if err != nil || len(rows) != 400 || out.Meta.Counts[schemas.StatusOK] != 400 {
		t.Errorf("%v, %d rows", err, len(rows))
	}
}
