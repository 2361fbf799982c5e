// Clientbench measures what parley's own client adds to what it measures: it drives the simulated server, which
// logs the true times of every request, with parley replay, both in processes of their own, matches the two
// by response id and prints a Markdown table. Beside each load it runs wrk over the same streams, as the
// measure of what a bare event loop costs.
//
//	go run ./cmd/internal/clientbench                      # 1 to 10,000 streams, starts spread over 2 s
//	go run ./cmd/internal/clientbench -all-at-once -streams 1000,2000
//	go run ./cmd/internal/clientbench -open-loop 500
//	go run ./cmd/internal/clientbench -streams 10000 -hold 2m
//	go run ./cmd/internal/clientbench -streams 1000 -over plain,tls,net-http,http2
//	go run ./cmd/internal/clientbench -check                  # exit code 1 when a limit does not hold
//
// It needs Linux (/proc) and, for the comparison, wrk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options is the command line.
type options struct {
	streams   []int
	allAtOnce bool
	openLoop  float64
	duration  time.Duration
	hold      time.Duration
	ttft, itl time.Duration
	tokens    int
	noWrk     bool
	over      []string
	check     bool
	keep      string
	parley    string
	llmsim    string
	extra     []string
	userClock bool
	nice      int
}

// command gives the command for a program, with the priority that is asked for. The shell sets the
// priority of the process's group too, where Linux schedules by session (autogroup, see sched(7)), since
// there a process's own priority counts inside of its session only.
func (o *options) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if o.nice == 0 {
		return exec.CommandContext(ctx, program, args...)
	}
	script := fmt.Sprintf("echo %d 2>/dev/null >/proc/self/autogroup; exec nice -n %d \"$@\"", o.nice, o.nice)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh", program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "clientbench:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("clientbench", flag.ContinueOnError)
	f.SetOutput(stderr)
	streams := f.String("streams", "1,10,100,500,1000,2000,5000,10000", "numbers of concurrent streams, one row each")
	f.BoolVar(&o.allAtOnce, "all-at-once", false, "start all streams together instead of over 2 s")
	f.Float64Var(&o.openLoop, "open-loop", 0, "conversations per second: an open loop instead of streams")
	f.DurationVar(&o.duration, "duration", 20*time.Second, "time over which an open loop starts conversations")
	f.DurationVar(&o.hold, "hold", 0, "hold the streams for at least this long (more tokens per stream)")
	f.DurationVar(&o.ttft, "ttft", 500*time.Millisecond, "true time to first token")
	f.DurationVar(&o.itl, "itl", 0, "true gap; 0 is 50ms up to 2,000 streams, 250ms up to 5,000, 1s above")
	f.IntVar(&o.tokens, "tokens", 0, "tokens per answer; 0 is 100 up to 2,000 streams, 60 up to 5,000, 20 above")
	f.BoolVar(&o.noWrk, "no-wrk", false, "leave the comparison with wrk out")
	over := f.String("over", "plain", "what the streams go over, one row each: plain, tls, net-http (net/http's client, as through a proxy), http2 (over TLS)")
	f.BoolVar(&o.check, "check", false, "fail when a limit of the client's design does not hold in three measurements: other work on the machine can only make one fail")
	f.StringVar(&o.keep, "keep", "", "folder for the files of the runs; otherwise they are removed")
	f.StringVar(&o.parley, "parley", "", "parley program; otherwise built from this module")
	f.StringVar(&o.llmsim, "llmsim", "", "llmsim program; otherwise built from this module")
	f.BoolVar(&o.userClock, "user-clock", false, "no kernel time stamps in the client, to compare")
	f.IntVar(&o.nice, "nice", 0, "priority of client, server and wrk (see nice(1)): -10 keeps other work on the machine out of the figures, as root")
	extra := f.String("args", "", "further arguments of parley replay, separated by blanks")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.extra = strings.Fields(*extra)
	if o.userClock {
		o.extra = append(o.extra, "--user-clock")
	}
	for s := range strings.SplitSeq(*over, ",") {
		if !slices.Contains([]string{plain, overTLS, netHTTP, http2}, s) {
			return nil, fmt.Errorf("-over: %q is none of plain, tls, net-http, http2", s)
		}
		o.over = append(o.over, s)
	}
	for s := range strings.SplitSeq(*streams, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-streams: %q is not a number of streams", s)
		}
		o.streams = append(o.streams, n)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "clientbench"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for program, path := range map[string]*string{"parley": &o.parley, "llmsim": &o.llmsim} {
		if *path != "" {
			continue
		}
		*path = filepath.Join(dir, program)
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", *path, "parley/cmd/"+program).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", program, err, out)
		}
	}
	if _, lookErr := exec.LookPath("wrk"); lookErr != nil && !o.noWrk {
		fmt.Fprintln(stderr, "clientbench: wrk is not installed (Debian: apt-get install wrk): no comparison with it")
		o.noWrk = true
	}
	for try := 1; ; try++ {
		results, err := o.measureAll(ctx, dir, stderr)
		if err != nil {
			return err
		}
		fmt.Fprint(stdout, describeMachine(), "\n", o.describe(), "\n")
		printTable(stdout, results)
		problems := checkLimits(results)
		for _, p := range problems {
			fmt.Fprintf(stdout, "- does not hold: %s\n", p)
		}
		switch {
		case len(problems) == 0:
			fmt.Fprintln(stdout, "All limits that these loads test hold.")
			return nil
		case !o.check:
			return nil
		case try == 3:
			return fmt.Errorf("%d limits do not hold", len(problems))
		}
	}
}

// measureAll measures each of the loads.
func (o *options) measureAll(ctx context.Context, dir string, stderr io.Writer) (results []*result, err error) {
	idle := int64(0) // the client's memory with one stream
	for _, l := range o.loads() {
		fmt.Fprintf(stderr, "clientbench: %s\n", l)
		r, err := o.measure(ctx, dir, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l, err)
		}
		if idle == 0 && l.streams > 1 {
			one := l
			one.over, one.streams, one.requests, one.rate, one.ttft, one.itl, one.tokens, one.noWrk = plain, 1, 1, 0, 10*time.Millisecond, 10*time.Millisecond, 10, true
			base, err := o.measure(ctx, dir, one)
			if err != nil {
				return nil, fmt.Errorf("memory of an idle client: %w", err)
			}
			idle = base.streamPeak
		} else if idle == 0 {
			idle = r.streamPeak
		}
		r.idleMemory = idle
		results = append(results, r)
	}
	return results, nil
}
