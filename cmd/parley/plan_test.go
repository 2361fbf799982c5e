//go:build linux

package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/schemas"
)

// planArgs is a plan of six runs of under a second each.
func planArgs(data, url, dir string) []string {
	return []string{"replay", data, "--url", url, "-o", dir, "--concurrency", "2,8,4", "--repeat", "2", "--duration", "400ms", "--no-probe", "--seed", "11"}
}

var planFiles = []string{"c0002.r1", "c0002.r2", "c0004.r1", "c0004.r2", "c0008.r1", "c0008.r2"}

// sums gives the requests files of a folder with their content's sums.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	found, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if strings.HasSuffix(path, ".telemetry.parquet") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".parquet")] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return out
}

// wholePlan checks a finished plan: each run has its file, its place, and a row for each of its planned turns.
func wholePlan(t *testing.T, dir string) {
	t.Helper()
	plan, err := schemas.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := sums(t, dir); len(got) != len(planFiles) || len(plan.Runs) != len(planFiles) {
		t.Errorf("%d files of %d runs, want %d", len(got), len(plan.Runs), len(planFiles))
	}
	ids, schedules := map[string]bool{}, map[uint64]string{}
	for i := range plan.Runs {
		r := &plan.Runs[i]
		path := filepath.Join(dir, r.File)
		_, meta := reconciled(t, path)
		ids[meta.RunID] = true
		if meta.Place != plan.Place(r) || meta.Seed != r.Seed || meta.Ended != "duration" || meta.ResumedFrom != "" {
			t.Errorf("%s: place %+v, seed %d, ended %s, resumed from %q", r.File, meta.Place, meta.Seed, meta.Ended, meta.ResumedFrom)
		}
		if schemas.IsJournal(schemas.JournalPath(path)) {
			t.Errorf("%s has a journal yet", r.File)
		}
		schedules[r.Seed] += r.File + " "
	}
	if len(ids) != len(planFiles) || len(schedules) != 2 {
		t.Errorf("%d different runs, seeds %v", len(ids), schedules)
	}
}

// TestPlanKilled kills plans at 20 random moments. Whatever the moment, --resume goes on: a run that had its file keeps
// it to the byte, one that was cut short is made anew with its rows put aside, and in the end each has one.
func TestPlanKilled(t *testing.T) {
	data := dataset(t, 200, 3, 5)
	server := self(t).simulator(t, "ttft=15ms&itl=2ms&slots=0")
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	kills, finished, cut := 0, 0, 0
	for kills < 20 || finished == 0 {
		dir := filepath.Join(t.TempDir(), "runs")
		begun := false
		for {
			args := planArgs(data, server.URL, dir)
			if begun {
				args = append(args, "--resume")
			}
			had := sums(t, dir)
			p := launch(t, self(t).command(args...))
			wait := time.Duration(rnd.Float64() * float64(2*time.Second))
			if kills >= 20 {
				wait = patience
			}
			ended := false
			select {
			case <-p.done:
				ended = true
			case <-time.After(wait):
				_ = p.Process.Kill()
				<-p.done
				kills++
			}
			_, err := os.Stat(filepath.Join(dir, schemas.PlanFile))
			begun = err == nil
			for name, sum := range had {
				if now := sums(t, dir)[name]; now != sum {
					t.Errorf("%s was done, and is another file after --resume", name)
				}
			}
			if !ended {
				continue
			}
			if code := p.ProcessState.ExitCode(); code != codeOK && code != codeVerdict {
				t.Fatalf("exit code %d\n%s", code, p.errs.String())
			}
			break
		}
		finished++
		wholePlan(t, dir)
		aside, _ := os.ReadDir(filepath.Join(dir, cutFolder))
		cut += len(aside)
	}
	t.Logf("%d kills, %d plans finished, %d files of runs that were cut short", kills, finished, cut)
	if cut == 0 {
		t.Error("no run was cut short: this proves little")
	}
}

// TestPlanInterrupted: an interrupt ends the run under way, with its rows, and the plan, which goes on later.
func TestPlanInterrupted(t *testing.T) {
	data := dataset(t, 200, 3, 5)
	server := self(t).simulator(t, "ttft=15ms&itl=2ms&slots=0")
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Join(t.TempDir(), "runs")
	p := launch(t, self(t).command(planArgs(data, server.URL, dir)...))
	until(t, "a second run", patience, func() bool {
		return p.ended() || len(journalRows(t, schemas.JournalPath(filepath.Join(dir, "c0004.r1.parquet")))) > 0
	})
	p.signal(t, syscall.SIGINT)
	if code := p.code(t, patience); code != codeInterrupted {
		t.Fatalf("exit code %d\n%s", code, p.errs.String())
	}
	if !strings.Contains(p.errs.String(), "with --resume goes on") {
		t.Errorf("it does not say how to go on:\n%s", p.errs.String())
	}
	first := sums(t, dir)
	if first["c0002.r1"] == "" || first["c0008.r1"] != "" {
		t.Fatalf("the interrupted plan has %v", first)
	}
	// Another plan in this folder is refused, with what is different.
	other := append(slices.Clone(planArgs(data, server.URL, dir)), "--resume", "--duration", "500ms")
	p = launch(t, self(t).command(other...))
	if code := p.code(t, patience); code != codeUsage || !strings.Contains(p.errs.String(), "--duration 400000000") {
		t.Errorf("another plan: exit code %d\n%s", code, p.errs.String())
	}
	p = launch(t, self(t).command(append(planArgs(data, server.URL, dir), "--resume")...))
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Fatalf("resumed: exit code %d\n%s", code, p.errs.String())
	}
	wholePlan(t, dir)
	if now := sums(t, dir); now["c0002.r1"] != first["c0002.r1"] {
		t.Error("the run that was done was made again")
	}
	// A plan that is done needs no server.
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	p = launch(t, self(t).command(append(planArgs(data, server.URL, dir), "--resume")...))
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("a plan that is done: exit code %d\n%s", code, p.errs.String())
	}
}
