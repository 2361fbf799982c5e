//go:build soak && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/schemas"
)

// smallDisk mounts a file system in memory. Without one these checks prove nothing, so they fail.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("a file system of a few hundred KiB has to be mounted here (as root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	// Anybody may write here: some of the runs are not root's.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// passable lets everybody pass through the test's own folders to a path.
func passable(t *testing.T, path string) {
	t.Helper()
	for dir := filepath.Dir(path); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// disk takes the disk away from running loads, in several ways. Each ends by itself with exit code 1 and an
// error that says what happened, and what had been written can be read.
func (s *soak) disk(t *testing.T) {
	data := dataset(t, 400, 25, 40)
	passable(t, data)
	passable(t, s.parley.path)
	const steady = "sim:?base=1ms&prefill=0&itl=1ms&jitter=0&slots=0"
	replay := func(out string) *exec.Cmd {
		return s.parley.command("replay", data, "--url", steady, "-o", out, "--concurrency", "16", "--no-probe", "--save-text")
	}
	t.Run("full in mid-run", func(t *testing.T) {
		out := filepath.Join(smallDisk(t, "size=256k"), "run.parquet")
		p := launch(t, replay(out))
		s.checkStopped(t, p, out, "no space left on device", 20)
	})
	t.Run("full of files", func(t *testing.T) {
		// Two more files may be made than the journal needs before the load ends.
		dir := smallDisk(t, "size=64m,nr_inodes=7")
		out := filepath.Join(dir, "run.parquet")
		p := launch(t, s.parley.command("replay", data, "--url", steady, "-o", out, "--concurrency", "16", "--no-probe", "--requests", "500"))
		if code := p.code(t, patience); code != codeFailed || !strings.Contains(p.errs.String(), "no space left on device") {
			t.Errorf("exit code %d\n%s", code, p.errs.String())
		}
	})
	t.Run("full when the file is made", func(t *testing.T) {
		dir := smallDisk(t, "size=4m")
		out := filepath.Join(dir, "run.parquet")
		p := launch(t, s.parley.command("replay", data, "--url", steady, "-o", out, "--concurrency", "16", "--no-probe", "--requests", "500"))
		underWay(t, p, out, 100)
		fill(t, dir, 96<<10) // less than the file takes, at whatever moment it is filled
		s.checkStopped(t, p, out, "no space left on device", 100)
		// With room again, the run's file can be made.
		if err := os.Remove(filepath.Join(dir, "filling")); err != nil {
			t.Fatal(err)
		}
		if p := launch(t, s.parley.command("replay", data, "--url", steady, "-o", out, "--concurrency", "16", "--no-probe", "--requests", "500", "--resume")); true {
			code := p.code(t, patience)
			if code != codeOK && code != codeVerdict {
				t.Errorf("with room again: exit code %d\n%s", code, p.errs.String())
				return
			}
		}
		if counts, _ := reconciled(t, out); counts["ok"] != 500 {
			t.Errorf("with room again: %v", counts)
		}
	})
	t.Run("read-only before the start", func(t *testing.T) {
		dir := smallDisk(t, "size=1m")
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		p := launch(t, replay(filepath.Join(dir, "run.parquet")))
		if code := p.code(t, patience); code == codeOK || !strings.Contains(p.errs.String(), "read-only file system") {
			t.Errorf("exit code %d\n%s", code, p.errs.String())
		}
		if strings.Contains(p.errs.String(), "waiting for") {
			t.Error("the server was asked before the folder was looked at")
		}
	})
	t.Run("folder becomes read-only", func(t *testing.T) {
		// Root may write anywhere, so the run is somebody else's.
		dir := smallDisk(t, "size=64m")
		passable(t, dir)
		out := filepath.Join(dir, "run.parquet")
		cmd := s.parley.command("replay", data, "--url", steady, "-o", out, "--concurrency", "16", "--no-probe", "--requests", "500")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		p := launch(t, cmd)
		underWay(t, p, out, 100)
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		s.checkStopped(t, p, out, "permission denied", 500)
	})
	t.Run("journal removed", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "run.parquet")
		p := launch(t, replay(out))
		underWay(t, p, out, 100)
		if err := os.RemoveAll(schemas.JournalPath(out)); err != nil {
			t.Fatal(err)
		}
		if code := p.code(t, patience); code != codeFailed || !strings.Contains(p.errs.String(), "vanished") {
			t.Errorf("exit code %d\n%s", code, p.errs.String())
		}
	})
	t.Run("folder removed", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "results")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "run.parquet")
		p := launch(t, replay(out))
		underWay(t, p, out, 100)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if code := p.code(t, patience); code != codeFailed || !strings.Contains(p.errs.String(), "vanished") {
			t.Errorf("exit code %d\n%s", code, p.errs.String())
		}
	})
	t.Run("quota", func(t *testing.T) {
		// A limit of the size of files, as ulimit -f and batch systems set it.
		out := filepath.Join(t.TempDir(), "run.parquet")
		args := append([]string{"-c", `ulimit -f 100; exec "$0" "$@"`}, replay(out).Args...)
		args[2] = s.parley.path
		p := launch(t, exec.Command("bash", args...))
		s.checkStopped(t, p, out, "file too large", 20)
	})
}

// checkStopped checks the end of a run whose disk was taken away.
func (s *soak) checkStopped(t *testing.T, p *process, out, why string, atLeast int) {
	t.Helper()
	if code := p.code(t, patience); code != codeFailed {
		t.Errorf("exit code %d, want %d", code, codeFailed)
	}
	if text := p.errs.String(); !strings.Contains(text, why) || !strings.Contains(text, schemas.JournalPath(out)) || strings.Contains(text, "goroutine ") {
		t.Errorf("the error does not say %q and where the rows are:\n%s", why, text)
	}
	journal := schemas.JournalPath(out)
	rows := journalRows(t, journal)
	tally(t, rows)
	if len(rows) < atLeast {
		t.Errorf("%d rows can be read, want at least %d", len(rows), atLeast)
	}
	a := launch(t, s.parley.command("analyze", journal))
	if code := a.code(t, patience); code != codeOK || !strings.Contains(a.out.String(), "TTFT") {
		t.Errorf("analyze: exit code %d\n%s", code, a.errs.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is a results file all the same")
	}
	t.Logf("%d rows safe; %s", len(rows), lastLine(p.errs.String()))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// fill leaves so many bytes of a small file system free.
func fill(t *testing.T, dir string, leave int64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	n := int64(st.Bavail)*st.Bsize - leave
	if n <= 0 {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "filling"), make([]byte, n), 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
}
