package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJournalWithoutSums: a kill between the making of a segment's two files leaves an empty segment, which
// is no damage; a segment with rows whose sums were taken away is.
func TestJournalWithoutSums(t *testing.T) {
	output := filepath.Join(t.TempDir(), "run.parquet")
	j, err := CreateJournal(output, &RunMeta{RunID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.AppendRequests([]Request{{RequestID: "a", Status: string(StatusOK)}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Abandon(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(j.Dir(), "requests-000002.arrows"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	read := func() JournalState {
		t.Helper()
		state, err := ReadJournal(j.Dir(), func([]Request) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if state := read(); state.Rows != 1 || len(state.Damage) != 0 {
		t.Errorf("with an empty second segment: %+v", state)
	}
	if err := os.Remove(filepath.Join(j.Dir(), "requests-000001.sums")); err != nil {
		t.Fatal(err)
	}
	if state := read(); state.Rows != 0 || len(state.Damage) != 1 || !strings.Contains(state.Damage[0], "requests-000001.sums is missing") {
		t.Errorf("without the sums: %+v", state)
	}
}
