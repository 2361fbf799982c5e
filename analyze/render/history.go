package render

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"parley/analyze"
)

// WriteHistory prints a history as a table or as JSON.
func WriteHistory(w io.Writer, format Format, h *analyze.History) error {
	switch format {
	case JSON:
		text, err := json.MarshalIndent(h, "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(escaped(text), '\n'))
		return err
	case Text:
	default:
		return fmt.Errorf("a history is printed as table or json, not as %s", format)
	}
	out := bufio.NewWriter(w)
	changes, figures := 0, 0
	for _, g := range h.Groups {
		for _, s := range g.Series {
			figures++
			for _, c := range s.Changes {
				if changes++; changes == 1 {
					fmt.Fprintln(out, "Changes")
				}
				fmt.Fprintf(out, "  %s  %s, %s: %s\n", c.When.Format("2006-01-02 15:04"), clean(g.Title), s.Figure, HistoryChange(&s, &c))
			}
		}
	}
	if changes == 0 {
		fmt.Fprintln(out, "No figure changed beyond chance")
	}
	fmt.Fprintf(out, "  %d figures of %d configurations were looked at; of those said to have changed, %g %% at most have not, on average\n", figures, len(h.Groups), h.Rate*100)
	for _, g := range h.Groups {
		fmt.Fprintf(out, "\n%s (configuration %s)\n", clean(g.Title), g.Hash)
		for _, s := range g.Series {
			last := s.Points[len(s.Points)-1]
			show := Number
			if s.Unit == "share" {
				show = Share
			}
			line := fmt.Sprintf("  %-18s %s  %d points, last %s", s.Figure, spark(s.Points), len(s.Points), show(last.Value))
			if last.Low.Known() && last.High.Known() {
				line += " (" + show(last.Low) + " to " + show(last.High) + ")"
			}
			fmt.Fprintln(out, line)
		}
	}
	for _, text := range h.Warnings {
		fmt.Fprintln(out, "\nwarning:", clean(text))
	}
	return out.Flush()
}

// HistoryChange puts a change into words.
func HistoryChange(s *analyze.HistorySeries, c *analyze.HistoryChange) string {
	word := "BETTER"
	if c.Worse {
		word = "WORSE"
	}
	if !c.Ratio.Known() {
		show := Number
		if s.Unit == "share" {
			show = Share
		}
		return fmt.Sprintf("%s, from %s to %s", word, show(c.Before), show(c.After))
	}
	change := func(v analyze.Num) string { return fmt.Sprintf("%+.1f %%", (float64(v)-1)*100) }
	return fmt.Sprintf("%s by %s (95 %%: %s to %s), from %s to %s", word, change(c.Ratio), change(c.Low), change(c.High), Number(c.Before), Number(c.After))
}

// spark draws a series in a line of blocks, the newest forty points of it.
func spark(points []analyze.HistoryPoint) string {
	const most = 40
	points = points[max(0, len(points)-most):]
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		low, high = min(low, float64(p.Value)), max(high, float64(p.Value))
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	line := make([]rune, len(points))
	for i, p := range points {
		at := 3.0
		if high > low {
			at = (float64(p.Value) - low) / (high - low) * 7
		}
		line[i] = blocks[int(at+0.5)]
	}
	return string(line)
}
