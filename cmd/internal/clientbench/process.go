package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"parley/replay/simserver"
)

// clockTick is the unit of CPU times in /proc, the same on every Linux (USER_HZ, see proc(5)).
const clockTick = 10 * time.Millisecond

const sampleInterval = 50 * time.Millisecond

// sample is the CPU time that a process had used, and its memory, at a moment.
type sample struct {
	at  int64 // Unix ns
	cpu time.Duration
	rss int64
}

// watched is what was seen of a client and its server.
type watched struct {
	client, server []sample
	rusage         *syscall.Rusage
	output         string
}

// runWatched runs the client to its end and samples both processes.
func runWatched(client *exec.Cmd, serverPID int) (*watched, error) {
	var out bytes.Buffer
	client.Stdout, client.Stderr = &out, &out
	w := &watched{}
	if err := client.Start(); err != nil {
		return w, err
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(sampleInterval)
		defer tick.Stop()
		for {
			if s, err := readSample(client.Process.Pid); err == nil { // it may have ended
				w.client = append(w.client, s)
			}
			if s, err := readSample(serverPID); err == nil {
				w.server = append(w.server, s)
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	err := client.Wait()
	close(stop)
	wg.Wait()
	w.output = strings.TrimSpace(out.String())
	w.rusage, _ = client.ProcessState.SysUsage().(*syscall.Rusage)
	return w, err
}

// readSample reads /proc/PID/stat (see proc(5)).
func readSample(pid int) (sample, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return sample{}, err
	}
	at := time.Now().UnixNano()
	_, rest, ok := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 22 {
		return sample{}, fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	pages, err3 := strconv.ParseInt(f[21], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return sample{}, err
	}
	return sample{at: at, cpu: time.Duration(user+system) * clockTick, rss: pages * int64(os.Getpagesize())}, nil
}

// cpuBetween gives the CPU time used between two moments, interpolated.
func cpuBetween(s []sample, from, to int64) time.Duration {
	at := func(t int64) float64 {
		for i := 1; i < len(s); i++ {
			if s[i].at >= t {
				span := float64(s[i].at - s[i-1].at)
				share := max(0, float64(t-s[i-1].at)/span)
				return float64(s[i-1].cpu) + share*float64(s[i].cpu-s[i-1].cpu)
			}
		}
		if len(s) == 0 {
			return 0
		}
		return float64(s[len(s)-1].cpu)
	}
	return time.Duration(at(to) - at(from))
}

// account turns what was seen into figures per chunk.
func (r *result) account(w *watched) {
	n := float64(max(r.chunks, 1))
	r.clientCPU = float64(cpuBetween(w.client, r.from, r.to)) / 1e3 / n
	r.serverCPU = float64(cpuBetween(w.server, r.from, r.to)) / 1e3 / n
	for _, s := range w.client {
		if s.at >= r.from && s.at <= r.to {
			r.streamPeak = max(r.streamPeak, s.rss)
		}
	}
	if u := w.rusage; u != nil {
		r.clientAll = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3 / n
		r.clientPeak = u.Maxrss << 10
	}
}

// wrk runs wrk over as many streams of the same shape, against a server of its own.
func (o *options) wrk(ctx context.Context, dir string, l load, r *result) error {
	log := filepath.Join(dir, "wrk.jsonl")
	server, err := simserver.Start(ctx, o.command(context.Background(), o.llmsim), l.query(log, ""))
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }()
	script := filepath.Join(dir, "post.lua")
	body := fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"%s"}],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":%d,"ignore_eos":true}`,
		strings.Repeat("please explain ", 25), l.tokens)
	lua := "wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.body = [==[" + body + "]==]\n"
	if err := os.WriteFile(script, []byte(lua), 0o644); err != nil {
		return err
	}
	one := l.ttft + time.Duration(l.tokens)*l.itl
	rounds := max(1, l.requests/l.streams)
	threads := min(2, l.streams, runtime.NumCPU())
	// Whole rounds and a little: wrk ends at a time, not after a count.
	took := one*time.Duration(rounds) + one/20 + time.Second
	cmd := o.command(ctx, "wrk", "-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.streams),
		"-d", strconv.Itoa(int(took.Seconds()+0.5))+"s", "--timeout", "600s", "-s", script, server.URL+"/v1/chat/completions")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("wrk: %w: %s", err, out)
	}
	if err := server.Stop(); err != nil {
		return err
	}
	truth, err := readTruth(log)
	if err != nil {
		return err
	}
	for _, t := range truth {
		r.wrkChunks += int64(t.Chunks)
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && r.wrkChunks > 0 {
		r.wrkCPU = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3 / float64(r.wrkChunks)
	}
	return nil
}
