//go:build soak && linux

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/analyze"
	"parley/replay/simserver"
	"parley/schemas"
)

// killLoads are the loads that are killed: few and many streams, closed and open loop, with and without
// text, with and without failures.
var killLoads = []struct {
	sim  string
	args []string
}{
	{"ttft=15ms&itl=2ms&slots=0", []string{"--concurrency", "12"}},
	{"ttft=15ms&itl=2ms&slots=0", []string{"--concurrency", "12", "--save-text", "--history", "recorded"}},
	{"ttft=10ms&itl=3ms&slots=0&fail=0.1&cut=0.05&truncate=0.05", []string{"--concurrency", "12", "--keep-going"}},
	{"ttft=20ms&itl=2ms&slots=0", []string{"--rate", "60", "--arrivals", "constant", "--save-text"}},
	{"ttft=200ms&itl=4ms&slots=0&reset=0.03", []string{"--concurrency", "100", "--keep-going"}},
}

const killConversations, killTurns = 300, 5

// kill kills the client with SIGKILL at random moments. Every turn that had ended at the server more than a
// second before, by the server's own log, has to be in the journal; another run must not touch it; and a
// resumed one gives every planned turn exactly one row. On a machine that has no processor for the client, or
// stands still, a second is one in which the client could run: see witness.
func (s *soak) kill(t *testing.T) {
	data := dataset(t, killConversations, killTurns, 10)
	trials := pick(s, 100, 400)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var sum killSum
	next := make(chan int)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for i := range next {
				s.killTrial(t, data, i, rand.New(rand.NewPCG(seed, uint64(i))), &sum)
			}
		})
	}
	for i := range trials {
		next <- i
	}
	close(next)
	workers.Wait()
	t.Logf("%d trials: %d turns had ended more than 1 s before the kill, %d of them lost; %d rows in the journals; %d runs resumed, %d rows lost or doubled there",
		trials, sum.due.Load(), sum.lost.Load(), sum.rows.Load(), sum.resumed.Load(), sum.wrong.Load())
	t.Logf("the clients had no processor for %.1f of %.1f s; %d turns are not in the journal whose end was more than 1 s before by the clock, and less of time in which the client could run",
		float64(sum.starved.Load())/1e9, float64(sum.watched.Load())/1e9, sum.excused.Load())
	if sum.due.Load() < int64(trials)*20 {
		t.Errorf("only %d turns had ended a second before their kill: this proves little", sum.due.Load())
	}
}

type killSum struct {
	due, lost, rows, resumed, wrong atomic.Int64
	excused                         atomic.Int64 // turns
	starved, watched                atomic.Int64 // ns
}

func (s *soak) killTrial(t *testing.T, data string, i int, rnd *rand.Rand, sum *killSum) {
	load := killLoads[i/5%len(killLoads)]
	dir, err := os.MkdirTemp(t.TempDir(), "trial")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	truth, out := filepath.Join(dir, "truth.jsonl"), filepath.Join(dir, "run.parquet")
	server := s.parley.simulator(t, load.sim+"&log="+truth)
	args := append([]string{"replay", data, "--url", server.URL, "-o", out, "--no-probe", "--run-id", fmt.Sprintf("trial%d", i)}, load.args...)
	wait := 300*time.Millisecond + time.Duration(rnd.Float64()*float64(2200*time.Millisecond))
	w := &witness{last: time.Now()}
	p := launch(t, s.parley.command(args...))
	begin, ticks := time.Now(), time.NewTicker(witnessEvery)
	defer ticks.Stop()
	for time.Since(begin) < wait {
		select {
		case <-p.done:
			t.Errorf("trial %d: the run ended by itself: %v\n%s", i, p.err, p.errs.String())
			return
		case <-ticks.C:
			w.look(p.Process.Pid, time.Now())
		}
	}
	w.look(p.Process.Pid, time.Now())
	_ = p.Process.Kill()
	killed := w.last // whatever came between is not held against the client
	<-p.done
	sum.starved.Add(int64(w.lost(time.Time{})))
	sum.watched.Add(int64(killed.Sub(begin)))
	if err := server.Stop(); err != nil {
		t.Errorf("trial %d: %v", i, err)
	}
	journal := schemas.JournalPath(out)
	have := map[string]bool{}
	rows := journalRows(t, journal)
	tally(t, rows)
	sum.rows.Add(int64(len(rows)))
	for _, r := range rows {
		have[r.RequestID] = true
	}
	for _, tr := range truths(t, truth) {
		if tr.RequestID == "" || tr.EndNS == 0 || tr.EndNS > killed.Add(-time.Second).UnixNano() {
			continue
		}
		ended := time.Unix(0, tr.EndNS)
		if killed.Sub(ended)-w.lost(ended) < time.Second {
			if !have[tr.RequestID] {
				sum.excused.Add(1)
			}
			continue
		}
		sum.due.Add(1)
		if !have[tr.RequestID] {
			sum.lost.Add(1)
			t.Errorf("trial %d: %s ended %v before the kill and is not in the journal; of that it had no processor for %v", i, tr.RequestID, killed.Sub(ended), w.lost(ended))
		}
	}
	if !schemas.IsJournal(journal) {
		return // killed before there was anything
	}
	if len(rows) > 0 {
		a := launch(t, s.parley.command("analyze", journal, "--window", "all", "--format", "json"))
		if code := a.code(t, patience); code != codeOK || analyzedRows(t, a.out.String()) != int64(len(rows)) {
			t.Errorf("trial %d: analyze of %d rows: exit code %d\n%s", i, len(rows), code, a.errs.String())
		}
	}
	// Another run with this output is refused, with and without --force, and changes nothing.
	before := fingerprint(t, dir)
	for _, more := range [][]string{nil, {"--force"}} {
		again := launch(t, s.parley.command(append(append([]string{}, args...), more...)...))
		if code := again.code(t, patience); code == codeOK || !strings.Contains(again.errs.String(), "--resume") {
			t.Errorf("trial %d: a run over the journal: exit code %d\n%s", i, code, again.errs.String())
		}
	}
	if after := fingerprint(t, dir); after != before {
		t.Errorf("trial %d: a refused run changed files:\n%s\nwere\n%s", i, after, before)
	}
	if i%5 == 0 {
		s.resume(t, data, i, load.sim, out, load.args, have, sum)
	}
}

// A witness measures in what time a process could not run, whatever it wanted: one of its threads was ready to
// run, or waited for the disk, and used no processor between two looks; or the looks themselves came late,
// since the whole machine stood still. A process that keeps its rows to itself sleeps meanwhile, and is not
// excused.
type witness struct {
	last    time.Time
	ran     map[string]string // by thread that was ready at the last look: the processor time that it had used
	starved []span
}

type span struct{ from, to time.Time }

const witnessEvery = 25 * time.Millisecond

func (w *witness) look(pid int, now time.Time) {
	ready, starved := map[string]string{}, now.Sub(w.last) > 2*witnessEvery
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		stat, _ := os.ReadFile(filepath.Join(task, "stat"))
		sched, _ := os.ReadFile(filepath.Join(task, "schedstat")) // "ran waited slices"
		_, state, _ := strings.Cut(string(stat), ") ")
		if ran, _, ok := strings.Cut(string(sched), " "); ok && (strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D")) {
			ready[task] = ran
			starved = starved || w.ran[task] == ran
		}
	}
	if starved {
		w.starved = append(w.starved, span{w.last, now})
	}
	w.last, w.ran = now, ready
}

// lost gives how much of the time from a moment on the process could not run.
func (w *witness) lost(from time.Time) (sum time.Duration) {
	for _, s := range w.starved {
		if s.to.After(from) {
			sum += min(s.to.Sub(s.from), s.to.Sub(from))
		}
	}
	return sum
}

// analyzedRows adds up the rows by status in what analyze printed as JSON.
func analyzedRows(t testing.TB, text string) (n int64) {
	t.Helper()
	var result analyze.Result
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Error(err)
		return -1
	}
	for _, r := range result.Runs {
		n += r.Total.Counts.Planned
	}
	return n
}

// resume finishes a killed run, against a server that has started anew. Every other one is killed a second
// time first.
func (s *soak) resume(t *testing.T, data string, i int, sim, out string, more []string, before map[string]bool, sum *killSum) {
	server := s.parley.simulator(t, sim)
	defer server.Kill()
	args := append([]string{"replay", data, "--url", server.URL, "-o", out, "--no-probe", "--resume"}, more...)
	if i%10 == 0 {
		p := launch(t, s.parley.command(args...))
		select {
		case <-p.done:
		case <-time.After(700 * time.Millisecond):
		}
		_ = p.Process.Kill()
		<-p.done
		if schemas.IsJournal(schemas.JournalPath(out)) {
			tally(t, journalRows(t, schemas.JournalPath(out)))
		} else {
			return // it had finished already
		}
	}
	p := launch(t, s.parley.command(args...))
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("trial %d: resume: exit code %d\n%s", i, code, p.errs.String())
		return
	}
	sum.resumed.Add(1)
	rows, meta := fileRows(t, out)
	seen := map[string]int{}
	for _, r := range rows {
		seen[fmt.Sprint(r.ConversationID, "/", r.Turn)]++
		if r.Resumed == before[r.RequestID] {
			sum.wrong.Add(1)
			t.Errorf("trial %d: %s: resumed is %v, in the journal before: %v", i, r.RequestID, r.Resumed, before[r.RequestID])
		}
	}
	for c := range killConversations {
		for turn := range killTurns {
			if n := seen[fmt.Sprintf("c%06d/%d", c, turn)]; n != 1 {
				sum.wrong.Add(1)
				t.Errorf("trial %d: turn %d of c%06d has %d rows", i, turn, c, n)
			}
		}
	}
	if n := int64(killConversations * killTurns); meta.Planned != n || int64(len(rows)) != n || meta.ResumedFrom == "" {
		t.Errorf("trial %d: %d rows, %d planned, resumed from %q", i, len(rows), meta.Planned, meta.ResumedFrom)
	}
	if schemas.IsJournal(schemas.JournalPath(out)) {
		t.Errorf("trial %d: the journal is still there", i)
	}
}

// killWhileSealing kills the client around the end of its run, when the journal becomes the files: at any
// moment all rows stand in one of the two.
func (s *soak) killWhileSealing(t *testing.T) {
	const conversations, turns = 1500, 4
	data := dataset(t, conversations, turns, 3)
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	inJournal, inFile, partial := 0, 0, 0
	for i := range pick(s, 12, 60) {
		dir := t.TempDir()
		out := filepath.Join(dir, "run.parquet")
		p := launch(t, s.parley.command("replay", data, "--url", "sim:?base=0s&prefill=0&itl=0s&jitter=0&slots=0", "-o", out, "--concurrency", "32", "--no-probe"))
		journal := schemas.JournalPath(out)
		until(t, "the end of the load", patience, func() bool {
			_, err := os.Stat(filepath.Join(journal, "finished.json"))
			return err == nil || p.ended()
		})
		// Every other time soon, while the file is being made; else rather about the time when it stands.
		within := 500 * time.Millisecond
		if i%2 == 0 {
			within = 50 * time.Millisecond
		}
		time.Sleep(time.Duration(rnd.Float64() * float64(within)))
		_ = p.Process.Kill()
		<-p.done
		if _, err := os.Stat(out); err == nil {
			inFile++
			counts, _ := reconciled(t, out)
			if counts["ok"] != conversations*turns {
				t.Errorf("trial %d: the file has %v", i, counts)
			}
			continue
		}
		inJournal++
		if matches, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(matches) > 0 {
			partial++
		}
		rows := journalRows(t, journal)
		tally(t, rows)
		if len(rows) != conversations*turns {
			t.Errorf("trial %d: the journal has %d rows", i, len(rows))
		}
		a := ran(t, s.parley, patience, finished, "analyze", journal)
		if !strings.Contains(a.out.String(), "TTFT") {
			t.Errorf("trial %d: analyze printed no figures", i)
		}
		// The run is complete: going on with it means to write its file.
		r := ran(t, s.parley, patience, finished, "replay", data, "--url", "sim:?base=0s&prefill=0&itl=0s&slots=0", "-o", out, "--concurrency", "32", "--no-probe", "--resume")
		counts, _ := reconciled(t, out)
		if counts["ok"] != conversations*turns || schemas.IsJournal(journal) {
			t.Errorf("trial %d: after resuming: %v\n%s", i, counts, r.errs.String())
		}
	}
	t.Logf("seed %d: killed with the rows in the journal %d times (%d with a file begun), in the file %d times; none lost", seed, inJournal, partial, inFile)
	if inJournal == 0 {
		t.Error("no trial was killed before the file stood: this proves nothing")
	}
}

// truths reads a simulated server's log.
func truths(t testing.TB, path string) (all []simserver.Truth) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var tr simserver.Truth
		if err := json.Unmarshal(in.Bytes(), &tr); err != nil {
			t.Fatal(err)
		}
		all = append(all, tr)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// fingerprint tells the names and contents of all files below a folder.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "truth.jsonl") {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", strings.TrimPrefix(path, dir), sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
