//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/schemas"
)

// patience ends tests that would hang; nothing here takes nearly as long.
const patience = 2 * time.Minute

// Servers for a run that is to be interrupted: one whose turns take a third of a second, one whose turns
// never end.
const (
	simSteady  = "sim:?ttft=100ms&itl=10ms&jitter=0&slots=0"
	simEndless = "sim:?ttft=20ms&itl=10m&jitter=0&slots=0"
)

// interruptible starts a run and waits until it is under way.
func interruptible(t *testing.T, data, url string, more ...string) (*process, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run.parquet")
	args := append([]string{"replay", data, "--url", url, "-o", out, "--concurrency", "4", "--no-probe"}, more...)
	p := launch(t, self(t).command(args...))
	return p, out
}

func underWay(t *testing.T, p *process, out string, rows int) {
	t.Helper()
	until(t, "rows in the journal", patience, func() bool {
		if p.ended() {
			t.Fatalf("the run ended before it was interrupted:\n%s", p.errs.String())
		}
		return len(journalRows(t, schemas.JournalPath(out))) >= rows
	})
}

// TestSignalOnceDrains: the turns that run may finish, the others are rows that say so.
func TestSignalOnceDrains(t *testing.T) {
	data := dataset(t, 30, 30, 20)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			p, out := interruptible(t, data, simSteady)
			underWay(t, p, out, 1)
			p.signal(t, s)
			if code := p.code(t, patience); code != codeInterrupted {
				t.Errorf("exit code %d, want %d\n%s", code, codeInterrupted, p.errs.String())
			}
			counts, meta := reconciled(t, out)
			allowed(t, counts, "ok", "not_reached interrupted")
			if meta.Planned != 900 || meta.Ended != "interrupted" || counts["ok"] < 4 || counts["not_reached interrupted"] == 0 {
				t.Errorf("ended %q, %d planned: %v", meta.Ended, meta.Planned, counts)
			}
			if schemas.IsJournal(schemas.JournalPath(out)) {
				t.Error("the journal is still there")
			}
			if !strings.Contains(p.out.String(), "TTFT") {
				t.Error("no summary was printed")
			}
		})
	}
}

// TestSignalTwiceStops: the turns that run are cut off.
func TestSignalTwiceStops(t *testing.T) {
	p, out := interruptible(t, dataset(t, 30, 3, 20), simEndless)
	until(t, "the load", patience, func() bool { return schemas.IsJournal(schemas.JournalPath(out)) })
	time.Sleep(300 * time.Millisecond) // requests are under way; if not, they are not reached
	p.signal(t, syscall.SIGINT)
	until(t, "the first note", patience, func() bool { return strings.Contains(p.errs.String(), "interrupted:") })
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t, patience); code != codeInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, codeInterrupted, p.errs.String())
	}
	counts, _ := reconciled(t, out)
	allowed(t, counts, "canceled interrupted", "not_reached interrupted")
	if counts["canceled interrupted"] > 4 {
		t.Errorf("%v", counts)
	}
}

// TestSignalThriceExits: at once, with the journal left as a crash leaves it. The dataset is so large that
// the rows of the turns not reached are still being written when the third signal comes.
func TestSignalThriceExits(t *testing.T) {
	p, out := interruptible(t, dataset(t, 400, 400, 20), simEndless)
	until(t, "the load", patience, func() bool { return schemas.IsJournal(schemas.JournalPath(out)) })
	for _, note := range []string{"interrupted:", "interrupted again"} {
		p.signal(t, syscall.SIGINT)
		until(t, note, patience, func() bool { return p.ended() || strings.Contains(p.errs.String(), note) })
	}
	until(t, "first rows", patience, func() bool { return p.ended() || len(journalRows(t, schemas.JournalPath(out))) > 0 })
	if p.ended() {
		t.Fatalf("the run had ended before the third signal:\n%s", p.errs.String())
	}
	p.signal(t, syscall.SIGINT)
	if code := p.code(t, 30*time.Second); code != codeInterrupted {
		t.Errorf("exit code %d, want %d", code, codeInterrupted)
	}
	dir := schemas.JournalPath(out)
	rows := journalRows(t, dir)
	tally(t, rows)
	if len(rows) == 0 || len(rows) >= 160_000 {
		t.Errorf("%d of 160,000 rows are in the journal: the third signal came too early or too late to tell anything", len(rows))
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is a results file")
	}
	a := launch(t, self(t).command("analyze", dir))
	if code := a.code(t, patience); code != codeOK || !strings.Contains(a.out.String(), "Not sent: interrupted") {
		t.Errorf("analyze: exit code %d\n%s%s", code, a.out.String(), a.errs.String())
	}
}

// TestHangupIsIgnored: a run outlives the terminal that it was started from.
func TestHangupIsIgnored(t *testing.T) {
	p, out := interruptible(t, dataset(t, 8, 4, 20), simSteady)
	underWay(t, p, out, 1)
	for range 5 {
		p.signal(t, syscall.SIGHUP)
	}
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("exit code %d\n%s", code, p.errs.String())
	}
	counts, _ := reconciled(t, out)
	if counts["ok"] != 32 {
		t.Errorf("%v", counts)
	}
}

// TestClosedStreams closes the readers of standard output and error in mid-run: the rows are written.
func TestClosedStreams(t *testing.T) {
	data := dataset(t, 8, 4, 20)
	out := filepath.Join(t.TempDir(), "run.parquet")
	cmd := self(t).command("replay", data, "--url", simSteady, "-o", out, "--concurrency", "4", "--no-probe")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	p := launch(t, cmd)
	w.Close()
	underWay(t, p, out, 1)
	r.Close()
	p.code(t, patience) // whatever it says of the summary that nobody could read
	counts, _ := reconciled(t, out)
	if counts["ok"] != 32 {
		t.Errorf("%v", counts)
	}
}

// terminal is a pseudo-terminal whose other side is a process's controlling terminal.
type terminal struct {
	master, slave *os.File
	screen        shared
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		t.Fatal(err)
	}
	tty := &terminal{master: os.NewFile(uintptr(fd), "/dev/ptmx"), slave: slave}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&tty.screen, tty.master) // EIO when the last process has gone
	}()
	t.Cleanup(func() {
		tty.slave.Close()
		tty.master.Close()
		<-done
	})
	return tty
}

// start starts a program with the terminal as its own, as a shell does.
func (tty *terminal) start(t *testing.T, b binary, args ...string) *process {
	t.Helper()
	cmd := b.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty.slave, tty.slave, tty.slave
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return launch(t, cmd)
}

func (tty *terminal) settings(t *testing.T) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(tty.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// TestTerminalIsLeftAsItWas presses Ctrl-C on a real terminal while the progress line stands there.
func TestTerminalIsLeftAsItWas(t *testing.T) {
	tty := openTerminal(t)
	before := tty.settings(t)
	out := filepath.Join(t.TempDir(), "run.parquet")
	p := tty.start(t, self(t), "replay", dataset(t, 100, 30, 20), "--url", simSteady, "-o", out, "--concurrency", "4", "--no-probe")
	until(t, "the progress line", patience, func() bool { return strings.Contains(tty.screen.String(), " req/s, ") })
	if _, err := tty.master.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := p.code(t, patience); code != codeInterrupted {
		t.Errorf("exit code %d\n%s", code, tty.screen.String())
	}
	if after := tty.settings(t); after != before {
		t.Errorf("the terminal's settings: %+v, were %+v", after, before)
	}
	until(t, "the summary", patience, func() bool { return strings.Contains(tty.screen.String(), "TTFT") })
	reconciled(t, out)
	screen := tty.screen.String()
	onlyOurEscapes(t, screen)
	// The progress line is gone: its last drawing is followed by its removal.
	last := strings.LastIndex(screen, " req/s, ")
	if !strings.Contains(screen[last:], "\r\x1b[K") {
		t.Errorf("the progress line was left on the screen: %q", screen[last:])
	}
	if !strings.HasSuffix(screen, "\n") {
		t.Errorf("the cursor is left in mid-line: %q", screen[max(0, len(screen)-80):])
	}
}

// onlyOurEscapes finds control sequences other than those that parley itself writes (remove the line, and
// colours, the last of which has to be none).
func onlyOurEscapes(t *testing.T, screen string) {
	t.Helper()
	colour := ""
	for _, part := range strings.Split(screen, "\x1b")[1:] {
		end := strings.IndexFunc(part, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
		if end < 0 {
			end = len(part) - 1
		}
		switch seq := part[:end+1]; {
		case seq == "[K":
		case strings.HasPrefix(seq, "[") && strings.HasSuffix(seq, "m") && strings.Trim(seq[1:len(seq)-1], "0123456789;") == "":
			colour = seq
		default:
			t.Errorf("escape sequence ESC %q on the terminal", seq)
		}
	}
	if colour != "" && colour != "[0m" && colour != "[m" {
		t.Errorf("the terminal is left in the colour %q", colour)
	}
}

// TestClosedTerminal closes the terminal's window in mid-run: no signal and no failing write loses the run.
func TestClosedTerminal(t *testing.T) {
	tty := openTerminal(t)
	out := filepath.Join(t.TempDir(), "run.parquet")
	p := tty.start(t, self(t), "replay", dataset(t, 8, 4, 20), "--url", simSteady, "-o", out, "--concurrency", "8", "--no-probe")
	underWay(t, p, out, 1)
	tty.slave.Close()
	tty.master.Close() // the kernel hangs up
	p.code(t, patience)
	counts, _ := reconciled(t, out)
	if counts["ok"] != 32 {
		t.Errorf("%v", counts)
	}
}

// TestSuspendedProcess: a client that is stopped for longer than the silence that it bears goes on where it was. What the
// server sent meanwhile is read, and no turn fails for it; the run says so.
func TestSuspendedProcess(t *testing.T) {
	p, out := interruptible(t, dataset(t, 8, 3, 20), "sim:?ttft=100ms&itl=50ms&jitter=0&slots=0", "--idle-timeout", "1s", "--timeout", "4s")
	underWay(t, p, out, 1)
	p.signal(t, syscall.SIGSTOP)
	time.Sleep(3500 * time.Millisecond)
	p.signal(t, syscall.SIGCONT)
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("exit code %d\n%s", code, p.errs.String())
	}
	counts, _ := reconciled(t, out)
	if counts["ok"] != 24 || !strings.Contains(p.errs.String(), "the client was suspended for 3.") {
		t.Errorf("%v\n%s", counts, p.errs.String())
	}
}
