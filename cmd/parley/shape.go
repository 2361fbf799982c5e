package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"parley/replay"
	"parley/replay/load"
)

// printShape prints what a dry run found.
func printShape(w io.Writer, s *replay.Shape) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	loop := "closed loop"
	if s.Open {
		loop = "open loop"
	}
	line("dataset", "%s: %s conversations, %s turns", clean(s.Dataset.File), thousands(s.Dataset.Conversations), thousands(s.Dataset.Turns))
	line("load", "%s", loop)
	if s.Planned > 0 {
		line("planned turns", "%s", thousands(s.Planned))
	}
	line("conversations that start", "%s", thousands(s.Conversations))
	line("turns that are sent", "%s", thousands(s.Turns))
	if s.Shed > 0 {
		line("conversations shed", "%s", thousands(s.Shed))
	}
	line("output tokens asked for", "%s", thousands(s.OutputTokens))
	if s.Unlimited > 0 {
		line("turns without a limit", "%s", thousands(s.Unlimited))
	}
	if s.PromptTokens > 0 {
		line("prompt tokens", "%s", thousands(s.PromptTokens))
	}
	line("think time in all", "%s", s.ThinkTime.Round(time.Millisecond))
	if s.ToolTime > 0 {
		line("tool time in all", "%s", s.ToolTime.Round(time.Millisecond))
	}
	if s.Open {
		line("arrivals", "%.3f per second, index of dispersion %.2f, at most %d in a second", s.ArrivalRate, s.Dispersion, s.BusiestSecond)
	}
	if len(s.FirstArrivals) > 0 {
		line("first arrivals", "%.3f s", s.FirstArrivals)
	}
	fmt.Fprintf(t, "\nIf the server took %v to the first token and %v for each further one, whatever its load:\n", s.Assumed.TTFT, s.Assumed.ITL)
	more := ""
	if s.Cut {
		more = " (played through so far; there is more)"
	}
	if s.Ended != "" && s.Ended != load.EndComplete {
		more = fmt.Sprintf(" (%s ends it)", s.Ended)
	}
	line("length", "%s%s", s.Length.Round(time.Millisecond), more)
	line("conversations at once", "%d at most", s.MostActive)
	line("requests at once", "%d at most, %.1f on average", s.MostRequests, s.MeanRequests)
	if s.LongestWait > 0 {
		line("longest wait for a limit", "%s", s.LongestWait.Round(time.Millisecond))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", replay.Expectation(s))
	return err
}
