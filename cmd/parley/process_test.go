//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

// binary is a program to start as a process of its own: the test's own executable under parley's name
// (see TestMain), or one that was built.
type binary struct{ path, name string }

func self(t testing.TB) binary {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary{path, "parley"}
}

func (b binary) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.path, args...)
	cmd.Args[0] = b.name
	return cmd
}

// simulator starts a simulated server in a process of its own.
func (b binary) simulator(t testing.TB, query string) *simserver.Process {
	t.Helper()
	s, err := simserver.Start(context.Background(), b.command(), query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// process is a started program, with what it prints.
type process struct {
	*exec.Cmd
	out, errs shared
	done      chan struct{}
	err       error
}

// shared is a buffer that can be read while it is written.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// launch starts a command. Its output is kept unless the command has streams already. It does not outlive
// the test.
func launch(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.errs
	}
	// A simulated server that a killed client leaves must not keep the pipes open.
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // ended already, mostly
		<-p.done
	})
	return p
}

// code waits for the end and gives the exit code, -1 after a signal. A process that does not end in time
// is made to dump its goroutines.
func (p *process) code(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
		}
		t.Fatalf("%s did not end within %v\n%s", strings.Join(p.Args, " "), limit, p.errs.String())
	}
	return p.ProcessState.ExitCode()
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition of the outside world; the limit only ends a test that would hang.
func until(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// dataset writes conversations of so many turns, each answer of so many tokens.
func dataset(t testing.TB, conversations, turns int, tokens int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conversations.parquet")
	w, err := schemas.Create[schemas.Conversation](path, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range conversations {
		c := schemas.Conversation{ConversationID: fmt.Sprintf("c%06d", i)}
		for turn := range turns {
			ask, answer := fmt.Sprintf("question %d of conversation %d", turn, i), "an answer"
			c.Messages = append(c.Messages, schemas.Message{Role: "user", Content: &ask}, schemas.Message{Role: "assistant", Content: &answer})
			c.Turns = append(c.Turns, schemas.Turn{MessageIndex: int64(2*turn + 1), OutputTokens: &tokens})
		}
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(schemas.DatasetMeta{Conversations: int64(conversations), Turns: int64(conversations * turns), ContentHash: "made for a test"}); err != nil {
		t.Fatal(err)
	}
	return path
}

// fileRows reads a results file.
func fileRows(t testing.TB, path string) (rows []schemas.Request, meta schemas.RunMeta) {
	t.Helper()
	f, err := schemas.Open[schemas.Request](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Meta(&meta); err != nil {
		t.Fatal(err)
	}
	for r, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows, meta
}

// journalRows reads a journal, which may be in use. A journal that is not there yet has no rows.
func journalRows(t testing.TB, dir string) []schemas.Request {
	t.Helper()
	var rows []schemas.Request
	if !schemas.IsJournal(dir) {
		return nil
	}
	state, err := schemas.ReadJournal(dir, func(batch []schemas.Request) error {
		rows = append(rows, batch...)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if len(state.Damage) > 0 {
		t.Fatalf("the journal is damaged: %v", state.Damage)
	}
	return rows
}

// tally counts rows by status and kind, and finds turns that have two.
func tally(t testing.TB, rows []schemas.Request) map[string]int {
	t.Helper()
	counts := map[string]int{}
	seen := map[string]bool{}
	for _, r := range rows {
		key := r.Status
		if r.ErrorKind != nil {
			key += " " + *r.ErrorKind
		}
		counts[key]++
		id := fmt.Sprint(r.ConversationID, "/", r.Instance, "/", r.Turn)
		if seen[id] {
			t.Errorf("turn %s has two rows", id)
		}
		seen[id] = true
	}
	return counts
}

// reconciled checks a results file: every planned turn is one row.
func reconciled(t testing.TB, path string) (map[string]int, schemas.RunMeta) {
	t.Helper()
	rows, meta := fileRows(t, path)
	counts := tally(t, rows)
	if int64(len(rows)) != meta.Planned || meta.Rows != meta.Planned {
		t.Errorf("%s: %d rows, %d planned, %d by the metadata", path, len(rows), meta.Planned, meta.Rows)
	}
	sum := int64(0)
	for _, n := range meta.Counts {
		sum += n
	}
	if sum != meta.Planned {
		t.Errorf("%s: the statuses sum to %d, %d turns were planned", path, sum, meta.Planned)
	}
	return counts, meta
}

// allowed complains about kinds of rows that are not in the list.
func allowed(t testing.TB, counts map[string]int, kinds ...string) {
	t.Helper()
	for key, n := range counts {
		found := false
		for _, k := range kinds {
			found = found || k == key
		}
		if !found {
			t.Errorf("unexpected: %d rows are %q", n, key)
		}
	}
}
