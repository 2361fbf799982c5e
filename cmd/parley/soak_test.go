//go:build soak && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/schemas"
)

// soak is what the slow checks share. SOAK=short is what CI runs; otherwise they take about an hour.
type soak struct {
	parley, llmsim binary // as make build builds them
	short          bool
}

// TestSoak is the slow checks, one after the other, on the programs themselves. replay/RELIABILITY.md says
// what each is the proof of.
func TestSoak(t *testing.T) {
	dir := t.TempDir()
	build(t, []string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "parley/cmd/parley", "parley/cmd/llmsim")
	s := &soak{
		parley: binary{filepath.Join(dir, "parley"), "parley"},
		llmsim: binary{filepath.Join(dir, "llmsim"), "llmsim"},
		short:  os.Getenv("SOAK") == "short",
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Kill", s.kill},
		{"KillWhileSealing", s.killWhileSealing},
		{"Disk", s.disk},
		{"Hostile", s.hostile},
		{"Terminal", s.hostileTerminal},
		{"Network", s.network},
		{"Shapes", s.shapes},
		{"Million", s.million},
		{"Endurance", s.endurance},
		{"Race", s.race},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			c.run(t)
			t.Logf("%s took %v", c.name, time.Since(begin).Round(time.Second))
		})
	}
}

// pick gives the figure for the short form or that for the long one.
func pick[T any](s *soak, short, long T) T {
	if s.short {
		return short
	}
	return long
}

func build(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// ran runs a program to its end and gives the process; its exit code has to be one of those given.
func ran(t testing.TB, b binary, limit time.Duration, codes []int, args ...string) *process {
	t.Helper()
	p := launch(t, b.command(args...))
	if code := p.code(t, limit); !slices.Contains(codes, code) {
		t.Fatalf("%s: exit code %d, want one of %v\n%s%s", strings.Join(args, " "), code, codes, p.out.String(), p.errs.String())
	}
	return p
}

// finished are the exit codes of a run that ended by itself: a verdict on figures from a busy machine does
// not matter here.
var finished = []int{codeOK, codeVerdict}

// series gives the values of one of the client's own figures over a run.
func series(t testing.TB, output, name string) (values []float64) {
	t.Helper()
	f, err := schemas.Open[schemas.Sample](schemas.TelemetryPath(output))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Source == "client" && s.Name == name {
			values = append(values, s.Value)
		}
	}
	return values
}

// flat checks that a series does not grow: its median over the last quarter is at most a quarter and the
// slack above that of the second quarter (the first is the warm-up).
func flat(t testing.TB, what string, values []float64, slack float64) {
	t.Helper()
	if len(values) < 8 {
		t.Errorf("%s: only %d samples", what, len(values))
		return
	}
	n := len(values)
	early, late := median(values[n/4:n/2]), median(values[n-n/4:])
	t.Logf("%s: %.0f in the second quarter, %.0f in the last, peak %.0f (%d samples)", what, early, late, slices.Max(values), n)
	if late > 1.25*early+slack {
		t.Errorf("%s grew from %.0f to %.0f", what, early, late)
	}
}

// openFiles counts a process's file descriptors, -1 when it has gone.
func openFiles(pid int) float64 {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return -1
	}
	return float64(len(entries))
}

// watchPeak gives, once the process has ended, the most memory that it had, in bytes. The kernel's figure at
// the end would do, did it not count the memory that the parent had when it forked.
func watchPeak(p *process) <-chan float64 {
	result := make(chan float64, 1)
	go func() {
		peak := 0.0
		for !p.ended() {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
			if _, after, ok := strings.Cut(string(text), "VmHWM:"); ok && err == nil {
				if f := strings.Fields(after); len(f) > 0 {
					kib, _ := strconv.ParseFloat(f[0], 64)
					peak = max(peak, kib*1024)
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		result <- peak
	}()
	return result
}
