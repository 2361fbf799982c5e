// Command synthrun writes the requests file of a run that never happened, for the check against DuckDB and
// for the benchmark:
//
//	synthrun -o run.parquet -conversations 1000 -turns 12 -chunks 64
//	synthrun -o big.parquet -rows 10000000 -chunks 128
//	synthrun -o run.parquet -json run.json -slo ttft=80ms
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strings"

	"parley/analyze"
	"parley/analyze/internal/synth"
	"parley/analyze/render"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "synthrun:", err)
		os.Exit(1)
	}
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func run(args []string) error {
	var slos, by list
	flags := flag.NewFlagSet("synthrun", flag.ContinueOnError)
	out := flags.String("o", "", "the requests file to write (or to read, with -conversations 0)")
	rows := flags.Int("rows", 0, "about how many rows, instead of -conversations")
	conversations := flags.Int("conversations", 1000, "how many conversations")
	turns := flags.Int("turns", 12, "turns of a conversation, at most")
	chunks := flags.Int("chunks", 64, "chunks of an answer, on average")
	seed := flags.Uint64("seed", 1, "seed")
	clean := flags.Bool("clean", false, "without failures, warm-up and an early stop")
	result := flags.String("json", "", "also analyze the file, and write the result here")
	window := flags.String("window", "steady", "window of the analysis")
	from := flags.String("from", "sent", "what latencies count from")
	figures := flags.String("figures", "", "only these figures, separated by commas")
	plain := flags.Bool("no-intervals", false, "leave the confidence intervals out")
	profile := flags.String("cpuprofile", "", "write a profile of the analysis here")
	flags.Var(&slos, "slo", "objective of the analysis")
	flags.Var(&by, "by", "groups of the analysis")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rows > 0 {
		*conversations = *rows * 2 / (*turns + 1)
	}
	s := synth.Spec{
		Seed: *seed, Conversations: *conversations, Turns: *turns, Slots: 64, TTFT: 60, Gap: 8, Spread: 0.4, Shared: 0.3,
		Chunks: *chunks, PerChunk: true, Cached: true,
	}
	if !*clean {
		s.Failures, s.Warmup, s.Shed, s.Looped, s.Untrue = 0.02, 600, 0.01, true, true
		// Stopped near its end, whatever its size: most turns have been sent by then. A turn takes its TTFT, its
		// gaps and the think time before it.
		turn := (1.3*s.TTFT+s.Gap*float64(s.Chunks))/1e3 + 0.2
		s.StopS = 0.8 * float64(s.Conversations) / float64(s.Slots) * float64(s.Turns+1) / 2 * turn
	}
	if *conversations > 0 {
		n, err := synth.Write(*out, s)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d rows\n", *out, n)
	}
	if *result == "" {
		return nil
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	o := analyze.Options{From: analyze.Moment(*from), NoIntervals: *plain}
	if *figures != "" {
		o.Figures = strings.Split(*figures, ",")
	}
	return analyzeTo(*result, *out, *window, o, slos, by)
}

func analyzeTo(path, input, window string, o analyze.Options, slos, by []string) error {
	var err error
	if o.Window, err = analyze.ParseWindow(window); err != nil {
		return err
	}
	for _, s := range slos {
		obj, err := analyze.ParseObjective(s)
		if err != nil {
			return err
		}
		o.Objectives = append(o.Objectives, obj)
	}
	for _, s := range by {
		g, err := analyze.ParseGroup(s)
		if err != nil {
			return err
		}
		o.By = append(o.By, g)
	}
	debug.SetGCPercent(25) // as parley analyze does
	ctx := context.Background()
	runs, err := analyze.Load(ctx, []string{input})
	if err != nil {
		return err
	}
	defer runs.Close()
	res, err := analyze.Analyze(ctx, runs, o)
	if err != nil {
		return err
	}
	if path == "-" {
		return render.Write(os.Stdout, render.Text, res, render.Options{})
	}
	text, err := json.MarshalIndent(res, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
