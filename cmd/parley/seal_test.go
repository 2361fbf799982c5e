//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/schemas"
)

// TestResumeMakesTheFile: a run had ended, but the program was killed, or the disk was full, before its file
// stood. --resume makes the file from the journal, and asks no server.
func TestResumeMakesTheFile(t *testing.T) {
	data := dataset(t, 1, 3, 5)
	journal := func(t *testing.T, says int64) string {
		out := filepath.Join(t.TempDir(), "run.parquet")
		meta := &schemas.RunMeta{RunID: "r", Planned: says, Rows: says, Ended: "complete", Config: []byte("{}"), Counts: map[schemas.Status]int64{schemas.StatusOK: says}}
		j, err := schemas.CreateJournal(out, meta)
		if err != nil {
			t.Fatal(err)
		}
		var rows []schemas.Request
		for i := range 3 {
			start := int64(i) * 1e9
			first, last := start+1e8, start+2e8
			r := schemas.Request{RunID: "r", RequestID: fmt.Sprint(i), ConversationID: "c", Turn: int64(i), Phase: schemas.PhaseMain, Status: "ok",
				StartNS: &start, SentNS: &start, FirstTokenNS: &first, LastTokenNS: &last, DoneNS: &last}
			r.Derive()
			rows = append(rows, r)
		}
		if err := j.AppendRequests(rows); err != nil {
			t.Fatal(err)
		}
		if err := j.AppendSamples([]schemas.Sample{{Source: "client", Name: "x"}}); err != nil {
			t.Fatal(err)
		}
		if err := j.Finish(meta); err != nil {
			t.Fatal(err)
		}
		return out
	}
	resume := func(out string, more ...string) *process {
		return launch(t, self(t).command(append([]string{"replay", data, "--url", "http://127.0.0.1:1", "-o", out, "--concurrency", "1", "--resume"}, more...)...))
	}
	t.Run("whole", func(t *testing.T) {
		out := journal(t, 3)
		// What a first try may have left.
		if err := os.WriteFile(schemas.TelemetryPath(out), []byte("an earlier try's"), 0o644); err != nil {
			t.Fatal(err)
		}
		p := resume(out)
		if code := p.code(t, patience); code != codeOK && code != codeVerdict {
			t.Fatalf("exit code %d\n%s", code, p.errs.String())
		}
		counts, _ := reconciled(t, out)
		if counts["ok"] != 3 || schemas.IsJournal(schemas.JournalPath(out)) || !strings.Contains(p.out.String(), "TTFT") {
			t.Errorf("%v\n%s", counts, p.out.String())
		}
	})
	t.Run("the file is there", func(t *testing.T) {
		out := journal(t, 3)
		if err := os.WriteFile(out, []byte("another run's"), 0o644); err != nil {
			t.Fatal(err)
		}
		if p := resume(out); p.code(t, patience) != codeUsage || !strings.Contains(p.errs.String(), "exists already") {
			t.Errorf("%s", p.errs.String())
		}
		if p := resume(out, "--force"); p.code(t, patience) == codeUsage {
			t.Errorf("%s", p.errs.String())
		}
		reconciled(t, out)
	})
	t.Run("rows are missing", func(t *testing.T) {
		out := journal(t, 4)
		if p := resume(out, "--force"); p.code(t, patience) != codeFailed || !strings.Contains(p.errs.String(), "holds 3 of the 4 rows") {
			t.Errorf("%s", p.errs.String())
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("there is a file all the same")
		}
	})
}
