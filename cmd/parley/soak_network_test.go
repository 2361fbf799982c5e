//go:build soak && linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/schemas"
)

// Kinds of rows that come of a server that goes away.
var goneKinds = []string{
	"ok", "incomplete cut_body", "incomplete reset", "transport_error reset", "transport_error eof_before_response",
	"transport_error connect_refused", "transport_error write", "not_reached budget", "not_reached conversation_failed",
}

// network takes the server away from running loads and gives it back: the load goes on, and every planned
// turn is a row of the right kind.
func (s *soak) network(t *testing.T) {
	t.Run("server restarts", s.serverRestarts)
	t.Run("server killed", s.serverKilled)
	t.Run("server stops and goes on", s.serverStops)
	t.Run("never answers", s.neverAnswers)
	t.Run("resets", s.resets)
	t.Run("link down", s.linkDown)
	t.Run("name no longer resolved", s.nameGone)
}

// freeAddress gives an address that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// serve starts llmsim at an address, and waits until it listens.
func (s *soak) serve(t *testing.T, address, query string, wrap ...string) *process {
	t.Helper()
	args := append(slices.Clone(wrap), s.llmsim.path, "--listen", address, "sim:?"+query)
	p := launch(t, exec.Command(args[0], args[1:]...))
	until(t, "the server's address", patience, func() bool {
		if p.ended() {
			t.Fatalf("llmsim ended: %s", p.errs.String())
		}
		return strings.Contains(p.out.String(), "listening on")
	})
	return p
}

// between counts rows by kind whose start lies in a span of wall-clock time.
func between(rows []schemas.Request, meta schemas.RunMeta, from, to time.Time) map[string]int {
	counts := map[string]int{}
	for _, r := range rows {
		if r.StartNS == nil {
			continue
		}
		if at := meta.Origin.Add(time.Duration(*r.StartNS)); !at.Before(from) && at.Before(to) {
			counts[r.Status]++
		}
	}
	return counts
}

const steadySim = "ttft=20ms&itl=3ms&slots=0"

func (s *soak) serverRestarts(t *testing.T) {
	address := freeAddress(t)
	server := s.serve(t, address, steadySim)
	out := filepath.Join(t.TempDir(), "run.parquet")
	p := launch(t, s.parley.command("replay", dataset(t, 200, 5, 10), "--url", "http://"+address, "-o", out, "--rate", "40", "--keep-going", "--no-probe", "--duration", "12s", "--scrape", "none"))
	underWay(t, p, out, 50)
	const restarts = 3
	var down, up []time.Time
	for range restarts {
		down = append(down, time.Now())
		_ = server.Process.Kill()
		<-server.done
		time.Sleep(500 * time.Millisecond)
		server = s.serve(t, address, steadySim)
		up = append(up, time.Now())
		time.Sleep(1500 * time.Millisecond)
	}
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("exit code %d\n%s", code, p.errs.String())
	}
	counts, meta := reconciled(t, out)
	allowed(t, counts, goneKinds...)
	rows, _ := fileRows(t, out)
	for i := range restarts {
		if gone := between(rows, meta, down[i], up[i]); gone["transport_error"]+gone["incomplete"] == 0 {
			t.Errorf("nothing failed while the server was away: %v", gone)
		}
		// A moment after the restart everything is as it was.
		back := between(rows, meta, up[i].Add(300*time.Millisecond), up[i].Add(1400*time.Millisecond))
		if back["ok"] < 20 || len(back) > 1 {
			t.Errorf("after restart %d: %v", i+1, back)
		}
	}
	t.Logf("%d restarts, %d turns planned, %d rows: %v", restarts, meta.Planned, meta.Rows, counts)
}

// serverKilled has the server gone for good. Conversations that fail end the run soon; one that keeps going
// gives the server up, with an exit code of its own, unless it is told not to.
func (s *soak) serverKilled(t *testing.T) {
	for _, c := range []struct {
		more []string
		code int
		left string // the kind of the rows of turns that are not sent
	}{
		{nil, codeVerdict, "not_reached conversation_failed"},
		{[]string{"--keep-going"}, codeFailed, "not_reached max_errors"},
		{[]string{"--keep-going", "--max-errors", "none", "--deadline", "16s"}, codeVerdict, "not_reached deadline"}, // after it would have been given up
	} {
		address := freeAddress(t)
		server := s.serve(t, address, steadySim)
		out := filepath.Join(t.TempDir(), "run.parquet")
		args := []string{"replay", dataset(t, 100, 10, 10), "--url", "http://" + address, "-o", out, "--concurrency", "20", "--no-probe"}
		p := launch(t, s.parley.command(append(args, c.more...)...))
		underWay(t, p, out, 50)
		_ = server.Process.Kill()
		if code := p.code(t, patience); code != c.code {
			t.Errorf("%v: exit code %d, want %d\n%s", c.more, code, c.code, p.errs.String())
		}
		counts, meta := reconciled(t, out)
		allowed(t, counts, append([]string{c.left}, goneKinds[:7]...)...)
		if meta.Planned != 1000 || counts["ok"] < 50 || counts["transport_error connect_refused"] == 0 || counts[c.left] == 0 {
			t.Errorf("%v: %d planned: %v", c.more, meta.Planned, counts)
		}
		t.Logf("%v: %d planned, %d rows: %v", c.more, meta.Planned, meta.Rows, counts)
	}
}

// serverStops has the server's process stand still, as under a debugger or in a machine that swaps: half-open
// connections as the client sees them.
func (s *soak) serverStops(t *testing.T) {
	address := freeAddress(t)
	server := s.serve(t, address, steadySim)
	out := filepath.Join(t.TempDir(), "run.parquet")
	p := launch(t, s.parley.command("replay", dataset(t, 200, 5, 10), "--url", "http://"+address, "-o", out, "--concurrency", "10",
		"--keep-going", "--no-probe", "--duration", "8s", "--idle-timeout", "1s", "--scrape", "none"))
	underWay(t, p, out, 50)
	server.signal(t, syscall.SIGSTOP)
	time.Sleep(2500 * time.Millisecond)
	server.signal(t, syscall.SIGCONT)
	resumed := time.Now()
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("exit code %d\n%s", code, p.errs.String())
	}
	counts, meta := reconciled(t, out)
	allowed(t, counts, "ok", "timeout timeout_idle", "not_reached budget")
	rows, _ := fileRows(t, out)
	if back := between(rows, meta, resumed.Add(500*time.Millisecond), resumed.Add(time.Hour)); counts["timeout timeout_idle"] < 10 || back["ok"] < 50 {
		t.Errorf("%v; afterwards %v", counts, back)
	}
	t.Logf("%d planned, %d rows: %v", meta.Planned, meta.Rows, counts)
}

func (s *soak) neverAnswers(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	begin := time.Now()
	p := launch(t, s.parley.command("replay", dataset(t, 50, 4, 10), "--url", "sim:?never=1", "-o", out, "--concurrency", "10", "--no-probe", "--deadline", "3s"))
	code := p.code(t, patience)
	counts, meta := reconciled(t, out)
	allowed(t, counts, "canceled deadline", "not_reached deadline")
	if meta.Planned != 200 || counts["canceled deadline"] != 10 || meta.Ended != "deadline" {
		t.Errorf("exit code %d, ended %q, %d planned: %v", code, meta.Ended, meta.Planned, counts)
	}
	t.Logf("exit code %d after %v: %v", code, time.Since(begin).Round(100*time.Millisecond), counts)
}

func (s *soak) resets(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	ran(t, s.parley, patience, finished, "replay", dataset(t, 200, 5, 10), "--url", "sim:?"+steadySim+"&reset=0.3&cut=0.2&close_idle=5ms", "-o", out,
		"--concurrency", "20", "--no-probe", "--keep-going", "--think", "10ms")
	counts, meta := reconciled(t, out)
	allowed(t, counts, "ok", "incomplete reset", "transport_error reset", "incomplete cut_body")
	if meta.Planned != 1000 || counts["ok"] < 400 || counts["incomplete cut_body"] < 100 || counts["incomplete reset"]+counts["transport_error reset"] < 200 {
		t.Errorf("%d planned: %v", meta.Planned, counts)
	}
	t.Logf("%d planned, %d rows: %v", meta.Planned, meta.Rows, counts)
}

// namespace starts a process that holds namespaces of its own, and gives the command that enters them.
func namespace(t *testing.T, flags, setUp string) (enter []string) {
	t.Helper()
	holder := launch(t, exec.Command("unshare", flags, "sh", "-c", setUp+"; echo ready; exec sleep 600"))
	until(t, "the namespace", patience, func() bool {
		if holder.ended() {
			t.Fatalf("namespaces are needed here (as root, with util-linux and iproute2): %s", holder.errs.String())
		}
		return strings.Contains(holder.out.String(), "ready")
	})
	if text := holder.errs.String(); text != "" {
		t.Fatalf("the namespace: %s", text)
	}
	return []string{"nsenter", "-t", fmt.Sprint(holder.Process.Pid), flags, "--"}
}

func enterAndRun(t *testing.T, enter []string, args ...string) {
	t.Helper()
	args = append(slices.Clone(enter), args...)
	if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, text)
	}
}

// linkDown cuts the network itself for a while, in a network namespace.
func (s *soak) linkDown(t *testing.T) {
	enter := namespace(t, "-n", "ip link set lo up")
	const address = "127.0.0.1:8000"
	s.serve(t, address, steadySim, enter...)
	out := filepath.Join(t.TempDir(), "run.parquet")
	args := append(slices.Clone(enter), s.parley.path, "replay", dataset(t, 200, 5, 10), "--url", "http://"+address, "-o", out, "--concurrency", "10",
		"--keep-going", "--no-probe", "--duration", "10s", "--idle-timeout", "1s", "--think", "20ms", "--scrape", "none")
	p := launch(t, exec.Command(args[0], args[1:]...))
	underWay(t, p, out, 50)
	enterAndRun(t, enter, "ip", "link", "set", "lo", "down")
	time.Sleep(2500 * time.Millisecond)
	enterAndRun(t, enter, "ip", "link", "set", "lo", "up")
	up := time.Now()
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("exit code %d\n%s", code, p.errs.String())
	}
	counts, meta := reconciled(t, out)
	allowed(t, counts, "ok", "timeout timeout_idle", "transport_error unreachable", "transport_error connect_timeout", "transport_error write",
		"transport_error reset", "incomplete reset", "not_reached budget")
	rows, _ := fileRows(t, out)
	back := between(rows, meta, up.Add(1500*time.Millisecond), up.Add(time.Hour))
	if counts["timeout timeout_idle"] == 0 || back["ok"] < 50 {
		t.Errorf("%v; afterwards %v", counts, back)
	}
	t.Logf("%d planned, %d rows: %v", meta.Planned, meta.Rows, counts)
}

// nameGone has the server's name no longer resolved in mid-run, and then again. The server closes each
// connection after its answer, so that every turn looks the name up.
func (s *soak) nameGone(t *testing.T) {
	dir := t.TempDir()
	hosts, resolv := filepath.Join(dir, "hosts"), filepath.Join(dir, "resolv.conf")
	const name = "inference.test"
	known := "127.0.0.1 localhost " + name + "\n"
	write := func(path, text string) {
		// In place: the file is mounted.
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(hosts, known)
	write(resolv, "nameserver 127.0.0.99\noptions timeout:1 attempts:1\n")
	enter := namespace(t, "-m", fmt.Sprintf("mount --bind %s /etc/hosts && mount --bind %s /etc/resolv.conf", hosts, resolv))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				body := roleEvent + textEvent + lastEvent + doneEvent
				fmt.Fprintf(c, streamHead+"Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	out := filepath.Join(dir, "run.parquet")
	args := append(slices.Clone(enter), s.parley.path, "replay", dataset(t, 200, 5, 1), "--url", "http://"+name+":"+port, "-o", out, "--concurrency", "2",
		"--keep-going", "--no-probe", "--model", "m", "--duration", "20s", "--think", "50ms", "--scrape", "none", "--preconnect=-1")
	p := launch(t, exec.Command(args[0], args[1:]...))
	underWay(t, p, out, 20)
	write(hosts, "127.0.0.1 localhost\n")
	gone := time.Now()
	time.Sleep(8 * time.Second) // the resolver keeps the file's content for five
	write(hosts, known)
	back := time.Now()
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Errorf("exit code %d\n%s", code, p.errs.String())
	}
	counts, meta := reconciled(t, out)
	allowed(t, counts, "ok", "transport_error dns", "not_reached budget")
	rows, _ := fileRows(t, out)
	while := between(rows, meta, gone.Add(6*time.Second), back)
	after := between(rows, meta, back.Add(6*time.Second), back.Add(time.Hour))
	if counts["transport_error dns"] == 0 || while["ok"] > 0 || after["ok"] < 10 || !slices.Equal(slices.Collect(maps.Keys(after)), []string{"ok"}) {
		t.Errorf("%v; while the name was gone %v; afterwards %v", counts, while, after)
	}
	t.Logf("%d planned, %d rows: %v", meta.Planned, meta.Rows, counts)
}
