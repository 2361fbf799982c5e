package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/replay/engine"
	"parley/replay/load"
	"parley/schemas"
)

// TestDiskFull has the journal fail in mid-run: the load ends at once, the error says why, and no turn is
// sent afterwards.
func TestDiskFull(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 4}, convs: talks(50, 10, 0)}
	full := fmt.Errorf("append: %w", syscall.ENOSPC)
	r.store.append = func([]schemas.Request) error {
		if r.e.Clock.Now() > 5e9 {
			return full
		}
		return nil
	}
	r.run(t)
	if !errors.Is(r.err, syscall.ENOSPC) || !strings.Contains(r.err.Error(), "can no longer be written") {
		t.Errorf("error: %v", r.err)
	}
	if reason, _ := r.e.Stopped(); reason != load.EndError {
		t.Errorf("ended: %s", reason)
	}
	if r.took > 7*time.Second {
		t.Errorf("the run went on for %v", r.took)
	}
	if len(r.rows) < 16 {
		t.Errorf("%d rows were written before", len(r.rows))
	}
}

// TestStuckDisk has the journal not come back from a write for a while. The streams go on; new turns wait
// once too much is held; when the disk comes back nothing is lost.
func TestStuckDisk(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 4}, convs: talks(50, 10, 0), backlog: 20_000}
	var once sync.Once
	r.store.append = func([]schemas.Request) error {
		once.Do(func() { time.Sleep(time.Minute) })
		return nil
	}
	r.run(t)
	r.check(t, map[string]int{"ok": 500}, 4, r.took)
	// 20,000 bytes are about 16 rows: four seconds of turns.
	if r.took < 170*time.Second || r.took > 190*time.Second {
		t.Errorf("the run took %v, want 125 s and a minute less a few seconds", r.took)
	}
	if r.e.Totals().Stalls == 0 {
		t.Error("no stall was counted")
	}
}

// TestDeadDisk has the journal never come back: the watchdog ends the run and says what it waits for.
func TestDeadDisk(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 4, IdleTimeout: 30 * time.Second}, convs: talks(50, 10, 0), backlog: 20_000}
	r.store.append = func([]schemas.Request) error {
		time.Sleep(time.Hour)
		return nil
	}
	r.lateClose = true
	r.run(t)
	if r.err == nil || !strings.Contains(r.err.Error(), "is the disk stuck") || !strings.Contains(r.err.Error(), "waits for the journal") {
		t.Errorf("error: %v", r.err)
	}
	if !errors.Is(r.closeErr, engine.ErrStuck) {
		t.Errorf("closing: %v", r.closeErr)
	}
	if r.took > 3*time.Minute {
		t.Errorf("the run took %v", r.took)
	}
}

// TestVanishedJournal takes the journal's folder away in mid-run.
func TestVanishedJournal(t *testing.T) {
	r := trial{cfg: Config{Concurrency: 4}, convs: talks(50, 10, 0)}
	r.store.append = func([]schemas.Request) error {
		if r.e.Clock.Now() > 5e9 {
			os.RemoveAll(r.store.dir)
		}
		return nil
	}
	r.run(t)
	if !errors.Is(r.err, os.ErrNotExist) || !strings.Contains(r.err.Error(), "vanished") {
		t.Errorf("error: %v", r.err)
	}
	if r.took > 9*time.Second {
		t.Errorf("the run went on for %v", r.took)
	}
}

// TestRealDiskFull writes to a file system of 160 KiB.
func TestRealDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=160k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	// Paced, so that several batches find room before one does not.
	url, _ := simulate(t, "ttft=20ms&prefill=0&itl=1us&slots=0&jitter=0")
	convs := talks(300, 20, 0)
	for i := range convs {
		n := int64(100)
		for j := range convs[i].Turns {
			convs[i].Turns[j].OutputTokens = &n
		}
	}
	out, rows, err := replayed(t, Config{
		Dataset: writeDataset(t, convs), URLs: []string{url}, Concurrency: 8, NoProbe: true, SaveText: true,
		Scrape: []string{"none"}, Output: filepath.Join(dir, "run.parquet"),
	}, Hooks{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error: %v", err)
	}
	if out == nil || out.Sealable || len(rows) == 0 || int64(len(rows)) > out.Meta.Rows {
		t.Errorf("%d rows can be read, outcome %+v", len(rows), out)
	}
	t.Logf("%d rows were safe when the disk was full", len(rows))
}
