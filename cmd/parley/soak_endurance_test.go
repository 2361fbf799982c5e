//go:build soak && linux

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// million sends very many requests to a server without pauses: the client's memory does not grow with them,
// and every one has its row.
func (s *soak) million(t *testing.T) {
	n := pick(s, 200_000, 1_000_000)
	data := dataset(t, 2000, 5, 3)
	out := filepath.Join(t.TempDir(), "run.parquet")
	begin := time.Now()
	p := launch(t, s.parley.command("replay", data, "--url", "sim:?base=0s&prefill=0&itl=0s&jitter=0&slots=0&cache_blocks=0",
		"-o", out, "--concurrency", "64", "--requests", fmt.Sprint(n), "--no-probe"))
	peaks := watchPeak(p)
	if code := p.code(t, time.Hour); code != codeOK && code != codeVerdict {
		t.Fatalf("exit code %d\n%s", code, p.errs.String())
	}
	took, peak := time.Since(begin), <-peaks
	_, meta := reconciled(t, out)
	if ok := meta.Counts["ok"]; ok != int64(n) {
		t.Errorf("%d turns are ok: %v", ok, meta.Counts)
	}
	flat(t, "resident memory, MB", scaled(series(t, out, "rss_bytes"), 1e-6), 24)
	flat(t, "goroutines", series(t, out, "goroutines"), 20)
	t.Logf("%d requests in %v (%.0f/s), %d rows; peak memory %.0f MB with the summary and the file's making",
		n, took.Round(time.Second), float64(n)/(float64(meta.EndedNS)/1e9), meta.Rows, peak/1e6)
	// After the load the summary holds columns of all rows: some 700 bytes for each of a million.
	if limit := 300e6 + 1000*float64(n); peak > limit {
		t.Errorf("peak memory %.0f MB, limit %.0f MB", peak/1e6, limit/1e6)
	}
}

func scaled(values []float64, by float64) []float64 {
	for i := range values {
		values[i] *= by
	}
	return values
}

// faulty is a server on which everything goes wrong that can, some of the time.
const faulty = "ttft=20ms&itl=3ms&slots=0&close_idle=50ms&fail=0.03&429=0.03&cut=0.03&reset=0.03&truncate=0.02&stall=0.01&never=0.005" +
	"&error_in_stream=0.02&empty=0.02&huge_line=0.01&split_utf8=0.05&crlf=0.05&gzip=0.02&no_done=0.02&hang_after_done=0.01&plain_json=0.02&slow_headers=0.01&slow_headers_for=1s"

// faultyKinds is what may come of it.
var faultyKinds = []string{
	"ok", "http_error server_error", "http_error rate_limited", "incomplete cut_body", "incomplete reset", "transport_error reset",
	"transport_error eof_before_response", "incomplete no_finish", "timeout timeout_idle", "stream_error server_error", "empty no_tokens", "not_reached budget", "canceled grace",
}

// endurance keeps a load going on a faulty server, in closed loop and in open loop at the same time: memory,
// goroutines and files do not grow, and every planned turn is a row of a known kind.
func (s *soak) endurance(t *testing.T) {
	duration := pick(s, time.Minute, 30*time.Minute)
	data := dataset(t, 500, 6, 20)
	server := s.parley.simulator(t, faulty)
	dir := t.TempDir()
	common := []string{"--url", server.URL, "--duration", duration.String(), "--grace", "5s", "--idle-timeout", "2s", "--keep-going", "--no-probe", "--think", "30ms"}
	loads := map[string][]string{
		"closed loop": {"--concurrency", "40", "--retries", "1", "--save-text", "--cookies"},
		"open loop":   {"--rate", "25", "--max-conversations", "60"},
	}
	type load struct {
		p     *process
		out   string
		files []float64
	}
	running := map[string]*load{}
	for name, more := range loads {
		out := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".parquet")
		args := append(append([]string{"replay", data, "-o", out}, common...), more...)
		running[name] = &load{p: launch(t, s.parley.command(args...)), out: out}
	}
	for end := time.Now().Add(duration - time.Second); time.Now().Before(end); time.Sleep(duration / 60) {
		for _, l := range running {
			if n := openFiles(l.p.Process.Pid); n > 0 {
				l.files = append(l.files, n)
			}
		}
	}
	for name, l := range running {
		t.Run(name, func(t *testing.T) {
			if code := l.p.code(t, 3*time.Minute); code != codeOK && code != codeVerdict {
				t.Errorf("exit code %d\n%s", code, l.p.errs.String())
			}
			counts, meta := reconciled(t, l.out)
			allowed(t, counts, faultyKinds...)
			// A new connection that is idle for 50 ms, because the machine is busy, is closed, too. That is rare.
			if n := counts["transport_error eof_before_response"]; int64(n) > meta.Planned/200 {
				t.Errorf("%d requests found their connection closed", n)
			}
			for _, kind := range []string{"ok", "http_error server_error", "incomplete no_finish", "timeout timeout_idle", "empty no_tokens"} {
				if counts[kind] == 0 {
					t.Errorf("no row is %q: %v", kind, counts)
				}
			}
			flat(t, "resident memory, MB", scaled(series(t, l.out, "rss_bytes"), 1e-6), 24)
			flat(t, "goroutines", series(t, l.out, "goroutines"), 40)
			flat(t, "open files", l.files, 30)
			t.Logf("%d turns planned, %d rows: %v", meta.Planned, meta.Rows, counts)
		})
	}
}

// shapes are the loads on which the clients that parley replaces deadlock or lose requests: many long conversations
// (more than a pipe's buffer holds), few at once, with a budget of requests that ends far before
// they do; and as many conversations at once as there are.
func (s *soak) shapes(t *testing.T) {
	dir := t.TempDir()
	long, chat := filepath.Join(dir, "long.parquet"), filepath.Join(dir, "chat.parquet")
	ran(t, s.parley, patience, finished, "generate", "-o", long, "--preset", "longchat", "-n", pick(s, "300", "2000"))
	ran(t, s.parley, patience, finished, "generate", "-o", chat, "--preset", "chat", "-n", pick(s, "300", "2000"))
	type shape struct {
		data, sim string
		args      []string
		sent      int64 // turns that have to be sent; 0: all
	}
	var list []shape
	for _, n := range []string{"2", "4", "8", "10", "100"} {
		list = append(list, shape{long, "sim:?itl=1ms&base=2ms&prefill=1000000&slots=0&max_model_len=1000000", []string{"--concurrency", n, "--requests", "200"}, 200})
	}
	for _, n := range pick(s, []string{"300"}, []string{"200", "500", "1000", "2000"}) {
		list = append(list, shape{chat, "sim:?itl=20ms&base=20ms&prefill=1000000&slots=0&chunk_tokens=8", []string{"--concurrency", n}, 0})
	}
	for i, l := range list {
		out := filepath.Join(dir, fmt.Sprintf("run%d.parquet", i))
		p := launch(t, s.parley.command(append([]string{"replay", l.data, "--url", l.sim, "-o", out, "--think", "none"}, l.args...)...))
		if code := p.code(t, 5*time.Minute); code != codeOK && code != codeVerdict {
			t.Errorf("%v: exit code %d\n%s", l.args, code, p.errs.String())
			continue
		}
		_, meta := reconciled(t, out)
		if ok := meta.Counts["ok"]; l.sent > 0 && ok != l.sent || l.sent == 0 && ok != meta.Planned {
			t.Errorf("%v: %d turns are ok of %d planned: %v", l.args, ok, meta.Planned, meta.Counts)
		}
	}
}

// race runs the program with the race detector, under faults in closed and open loop, and with calibration.
func (s *soak) race(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		if _, err := exec.LookPath("gcc"); err != nil {
			t.Skip("the race detector needs a C compiler, and there is none")
		}
	}
	dir := t.TempDir()
	build(t, []string{"CGO_ENABLED=1"}, "-race", "-o", filepath.Join(dir, "parley"), "parley/cmd/parley")
	b := binary{filepath.Join(dir, "parley"), "parley"}
	data := dataset(t, 60, 4, 10)
	for i, more := range [][]string{
		{"--concurrency", "20", "--save-text", "--retries", "1", "--cookies", "--echo-header", "x-session-token", "--duration", pick(s, "8s", "2m")},
		{"--rate", "30", "--max-conversations", "30", "--when-full", "shed", "--max-in-flight", "20", "--duration", pick(s, "8s", "2m")},
		{"--concurrency", "20", "--loops", "2", "--calibrate", "--stagger", "--ramp", "100ms"},
	} {
		out := filepath.Join(dir, fmt.Sprintf("run%d.parquet", i))
		args := append([]string{"replay", data, "--url", "sim:?" + faulty, "-o", out, "--idle-timeout", "2s", "--grace", "3s", "--keep-going", "--no-probe", "--ready-timeout", "1m"}, more...)
		if i == 2 {
			args[3] = "sim:?ttft=5ms&itl=1ms&slots=0"
		}
		p := launch(t, b.command(args...))
		code := p.code(t, 10*time.Minute)
		if strings.Contains(p.errs.String(), "DATA RACE") || code == 66 {
			t.Fatalf("%v: a race:\n%s", more, p.errs.String())
		}
		if code != codeOK && code != codeVerdict {
			t.Errorf("%v: exit code %d\n%s", more, code, p.errs.String())
			continue
		}
		counts, _ := reconciled(t, out)
		t.Logf("%v: no race; %v", more, counts)
		a := ran(t, b, patience, finished, "analyze", out, "--by", "turn", "--html", out+".html")
		if strings.Contains(a.errs.String(), "DATA RACE") {
			t.Errorf("analyze: a race:\n%s", a.errs.String())
		}
	}
}
