package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"parley/schemas"
)

// describeMachine says what the figures were measured on.
func describeMachine() string {
	field := func(path, name string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			return "unknown"
		}
		for line := range strings.Lines(string(data)) {
			if key, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(v)
			}
		}
		return "unknown"
	}
	word := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(data))
	}
	return fmt.Sprintf("Machine: %d cores (%s), %s memory, Linux %s, %s, TCP %s. Client, server and wrk share it. Load average before: %s. %s.\n",
		runtime.NumCPU(), field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"), word("/proc/sys/kernel/osrelease"),
		runtime.Version(), word("/proc/sys/net/ipv4/tcp_congestion_control"), word("/proc/loadavg"), time.Now().UTC().Format("2006-01-02"))
}

func (o *options) describe() string {
	s := "Simulated server in a process of its own"
	if o.nice != 0 {
		s += fmt.Sprintf(" (all at nice %d)", o.nice)
	}
	if o.openLoop > 0 {
		return s + ": time to first token 20 ms, 8 tokens at 10 ms; one turn per conversation.\n"
	}
	if o.allAtOnce {
		s += ", all streams started at once"
	} else {
		s += ", starts spread over 2 s"
	}
	return s + fmt.Sprintf("; time to first token %v, gaps varied by 10 %%, one token per chunk.\n", o.ttft)
}

func printTable(w io.Writer, results []*result) {
	open := len(results) > 0 && results[0].rate > 0 && results[0].arrivals != ""
	head := []string{"streams", "over", "requests", "gap", "TTFT true p50 ms", "TTFT error p50 ms", "TTFT error p99 ms", "gap error p99 ms", "send lag p99 ms",
		"of it connection p99 ms", "client us/chunk", "whole process us/chunk", "wrk us/chunk", "client/wrk", "server us/chunk", "client KB/stream", "client peak MB", "most in flight", "rows ok"}
	if open {
		head = []string{"arrivals", "conversations/s asked", "scheduled/s", "sent/s", "error of rate %", "send lag p50 ms", "send lag p99 ms", "send lag max ms",
			"of it start p99 ms", "TTFT error p50 ms", "TTFT error p99 ms", "client us/chunk", "rows ok"}
	}
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	line(slices.Repeat([]string{"---:"}, len(head)))
	for _, r := range results {
		rows := fmt.Sprintf("%d of %d", r.ok, r.requests)
		if open {
			line([]string{r.arrivals, num(r.rate), num(r.rateWanted), num(r.sentRate), fmt.Sprintf("%+.3f", 100*(r.sentRate/r.rateWanted-1)),
				num(quantile(r.sendLag, .5)), num(quantile(r.sendLag, .99)), num(quantile(r.sendLag, 1)), num(quantile(r.lateStart, .99)),
				num(quantile(r.ttftError, .5)), num(quantile(r.ttftError, .99)), num(r.clientCPU), rows})
			continue
		}
		wrk, ratio := "", ""
		if r.wrkCPU > 0 {
			wrk, ratio = num(r.wrkCPU), fmt.Sprintf("%.2f", r.clientCPU/r.wrkCPU)
		}
		line([]string{fmt.Sprint(r.streams), r.over, fmt.Sprint(r.requests), fmt.Sprintf("%v x %d", r.itl, r.tokens), num(quantile(r.trueTTFT, .5)),
			num(quantile(r.ttftError, .5)), num(quantile(r.ttftError, .99)), num(quantile(r.gapError, .99)), num(quantile(r.sendLag, .99)), num(quantile(r.connWait, .99)),
			num(r.clientCPU), num(r.clientAll), wrk, ratio, num(r.serverCPU), num(r.perStream()), num(float64(r.clientPeak) / (1 << 20)), fmt.Sprint(r.serverStats.MaxInFlight), rows})
	}
	fmt.Fprintln(w)
}

// perStream gives the client's memory per stream in KB: what it has at the most while streams run, above
// what it has with one.
func (r *result) perStream() float64 {
	return float64(max(r.streamPeak-r.idleMemory, 0)) / 1024 / float64(r.streams)
}

// num prints three significant figures, and no more than three decimals.
func num(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// checkLimits holds the results against the limits that the client is built for, on a machine of two
// cores with the server beside it, and gives those that do not hold.
func checkLimits(results []*result) []string {
	var out []string
	for _, r := range results {
		limit := func(what string, got, most float64) {
			if got > most {
				out = append(out, fmt.Sprintf("%s: %s is %s, limit %s", r.load, what, num(got), num(most)))
			}
		}
		if r.rows != r.requests {
			out = append(out, fmt.Sprintf("%s: %d rows of %d planned turns", r.load, r.rows, r.requests))
		}
		if r.ok != r.requests {
			out = append(out, fmt.Sprintf("%s: rows by status: %v", r.load, describeStatuses(r.statuses)))
		}
		if r.rate > 0 {
			limit("p99 send lag (ms)", quantile(r.sendLag, .99), 1)
			limit("error of the rate (%)", 100*math.Abs(r.sentRate/r.rateWanted-1), 0.5)
			if r.arrivals == "constant" {
				limit("error of the rate against what was asked (%)", 100*math.Abs(r.sentRate/r.rate-1), 0.5)
			}
			continue
		}
		if most := r.serverStats.MaxInFlight; most > int64(r.streams) {
			out = append(out, fmt.Sprintf("%s: the server saw %d in flight", r.load, most))
		}
		p50 := math.Abs(quantile(r.ttftError, .5))
		scale := map[int]float64{1000: 1, 2000: 2}[r.streams]
		switch {
		case r.over == netHTTP || r.over == http2: // measured to compare
		case r.over == overTLS && r.streams == 1000 && r.ramp > 0:
			limit("median TTFT error over TLS (ms)", p50, 0.1)
		case r.ramp == 0 && scale > 0:
			limit("median TTFT error (ms)", p50, 5)
		case scale > 0 && r.itl == 50*time.Millisecond:
			limit("median TTFT error (ms)", p50, scale)
			limit("p99 TTFT error (ms)", quantile(r.ttftError, .99), 5*scale)
			limit("p99 gap error (ms)", quantile(r.gapError, .99), 2*scale)
		}
		if r.streams >= 10000 && r.over == plain {
			limit("memory per stream (KB)", r.perStream(), 40)
		}
		for _, p := range results {
			if r.over == overTLS && p.over == plain && p.streams == r.streams && r.streams >= 1000 && p.clientCPU > 0 {
				limit("client CPU per chunk over that without TLS", r.clientCPU/p.clientCPU, 1.3)
			}
		}
		if r.wrkCPU > 0 && r.streams >= 1000 {
			limit("client CPU per chunk over wrk's", r.clientCPU/r.wrkCPU, 1.5)
		}
	}
	return out
}

func describeStatuses(m map[schemas.Status]int) string {
	var parts []string
	for _, s := range schemas.Statuses {
		if m[s] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, m[s]))
		}
	}
	return strings.Join(parts, ", ")
}
