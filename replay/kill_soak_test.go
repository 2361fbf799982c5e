//go:build soak

package replay

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"parley/schemas"
)

// TestKill kills parley replay at random moments: every turn that had ended more than a second before the
// kill, by the simulated server's own log, is in the journal; a further run does not overwrite it; and
// --resume goes on with the turns that have no row, each exactly once. PARLEY_KILLS is the number of
// trials, 100 if it is not set.
//
//	go test -tags soak -run TestKill -timeout 1h ./replay
func TestKill(t *testing.T) {
	trials := 100
	if n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS")); err == nil {
		trials = n
	}
	bin := filepath.Join(t.TempDir(), "parley")
	if out, err := exec.Command("go", "build", "-o", bin, "parley/cmd/parley").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	dataset := writeDataset(t, talks(150, 8, 0))
	r := rand.New(rand.NewPCG(1, 2))
	saved, resumed := 0, 0
	for trial := range trials {
		dir := t.TempDir()
		output := filepath.Join(dir, "run.parquet")
		args := func(log string) []string {
			return []string{"replay", dataset, "-o", output, "--concurrency", "10",
				"--url", "sim:?ttft=30ms&itl=4ms&slots=0&log=" + filepath.Join(dir, log)}
		}
		cmd := exec.Command(bin, args("first.jsonl")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.Int64N(int64(6 * time.Second))))
		killed := time.Now().UnixNano()
		cmd.Process.Kill()
		cmd.Wait()
		time.Sleep(300 * time.Millisecond) // the simulated server writes the rest of its log
		have := journalIDs(t, output)
		truths, err := readTruths(filepath.Join(dir, "first.jsonl"))
		if err != nil && have != nil {
			t.Logf("trial %d: the log is cut: %v", trial, err)
		}
		for id, truth := range truths {
			// The probe's requests before the load are in the log and in no row.
			if have != nil && truth.RequestID != "" && truth.EndNS > 0 && truth.EndNS < killed-1e9 && !have[id] {
				t.Errorf("trial %d: %s ended %v before the kill and is lost", trial, id, time.Duration(killed-truth.EndNS))
			}
		}
		saved += len(have)
		if have == nil {
			continue // killed before there was a journal
		}
		if out, err := exec.Command(bin, args("second.jsonl")...).CombinedOutput(); err == nil {
			t.Errorf("trial %d: a further run went over the journal:\n%s", trial, out)
		}
		if after := journalIDs(t, output); len(after) != len(have) {
			t.Errorf("trial %d: %d rows in the journal, %d after a further run", trial, len(have), len(after))
		}
		// A verdict that is not VALID has an exit code of its own.
		cmd = exec.Command(bin, append(args("third.jsonl"), "--resume")...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); err != nil && code != 3 {
			t.Errorf("trial %d: resuming: %v\n%s", trial, err, out)
		}
		turns := map[string]int{}
		f, err := schemas.Open[schemas.Request](output)
		if err != nil {
			t.Fatalf("trial %d: %v\n%s", trial, err, out)
		}
		for row, err := range f.Rows(0) {
			if err != nil {
				t.Fatal(err)
			}
			turns[row.ConversationID+" "+strconv.FormatInt(row.Turn, 10)]++
			if row.Resumed {
				resumed++
			}
		}
		f.Close()
		for turn, n := range turns {
			if n != 1 {
				t.Errorf("trial %d: %s has %d rows", trial, turn, n)
			}
		}
		if len(turns) != 1200 {
			t.Errorf("trial %d: %d turns have rows, want 1200", trial, len(turns))
		}
	}
	t.Logf("%d trials: %d rows were safe at the kill, %d were sent after it", trials, saved, resumed)
}

// journalIDs gives the response ids in a journal, nil if there is none yet.
func journalIDs(t *testing.T, output string) map[string]bool {
	t.Helper()
	dir := schemas.JournalPath(output)
	if !schemas.IsJournal(dir) {
		return nil
	}
	ids := map[string]bool{}
	state, err := schemas.ReadJournal(dir, func(rows []schemas.Request) error {
		for _, row := range rows {
			if row.ResponseID != nil {
				ids[*row.ResponseID] = true
			}
		}
		return nil
	})
	if err != nil || len(state.Damage) > 0 {
		t.Errorf("the journal: %v %v", err, state.Damage)
	}
	return ids
}
