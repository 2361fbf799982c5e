package generate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"parley/schemas"
)

// WriteJSON writes the description as indented JSON.
func (d *Description) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// WriteText writes the description for people.
func (d *Description) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", printable(name), printable(fmt.Sprintf(format, args...)))
	}

	line("file", "%s (%s, %s)", d.File, d.Format, bytesText(d.FileBytes))
	if m := d.Meta; m != nil {
		made := fmt.Sprintf("%s %s, seed %d", cmp.Or(m.CreatedBy, "unknown"), m.ToolVersion, m.Seed)
		if m.Source != "" {
			made += ", from " + m.Source + " (" + m.Format + ")"
		}
		if m.Shard != "" {
			made += ", shard " + m.Shard
		}
		line("made by", "%s", made)
		line("content", "%s", m.ContentHash)
	}
	how := "counts of the file"
	if d.Counted {
		how = "counted now"
	}
	line("tokenizer", "%s (%s)", cmp.Or(d.Tokenizer, "unknown"), how)
	line("conversations", "%d", d.Conversations)
	line("requests", "%d", d.Turns)
	line("messages", "%d (%s)", d.Messages, countsText(d.Roles))
	line("text", "%s, %d tokens", bytesText(d.TextBytes), d.Tokens)
	for _, x := range []struct {
		name string
		n    int64
	}{{"with tools", d.WithTools}, {"with images or other parts", d.WithParts}, {"started by others", d.SubAgents}} {
		if x.n > 0 {
			line(x.name, "%d conversations", x.n)
		}
	}
	if d.Joins > 0 {
		line("wait for others", "%d requests", d.Joins)
	}
	if a := d.Arrivals; a != nil {
		line("arrivals", "%d conversations in %.1f s: %.3g per second, coefficient of variation of the gaps %.2f", a.Conversations, a.SpanS, a.PerSecond, a.GapCV)
	}
	line("prefix cache ceiling", "%.1f %% of %d prompt tokens (first turns %.1f %%, later turns %.1f %%)",
		100*d.Cache.Share, d.Cache.PromptTokens, 100*d.Cache.First, 100*d.Cache.Later)
	for _, name := range slices.Sorted(maps.Keys(d.Tags)) {
		line("tag "+name, "%s", countsText(d.Tags[name]))
	}
	for _, why := range slices.Sorted(maps.Keys(d.Skipped)) {
		line("skipped", "%d: %s", d.Skipped[why], why)
	}
	for _, n := range d.Notes {
		line("note", "%s", n)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := d.writeSummaries(w); err != nil {
		return err
	}
	return d.writePrefixes(w)
}

func (d *Description) writeSummaries(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\n\tcount\tmean\tmin\tp10\tp50\tp90\tp99\tmax\t\n")
	for _, r := range []struct {
		name string
		s    Summary
	}{
		{"requests per conversation", d.TurnsPer},
		{"tokens of first messages", d.FirstNew},
		{"tokens of later messages", d.LaterNew},
		{"tokens per prompt", d.Prompt},
		{"tokens per answer", d.Output},
		{"tokens per conversation", d.Conversation},
		{"think time, s", d.ThinkTime}, {"tool time, s", d.ToolTime},
	} {
		fmt.Fprintf(t, "%s\t%d\t", r.name, r.s.Count)
		for _, v := range []float64{r.s.Mean, r.s.Min, r.s.P10, r.s.P50, r.s.P90, r.s.P99, r.s.Max} {
			if r.s.Count == 0 {
				fmt.Fprint(t, "-\t")
				continue
			}
			fmt.Fprintf(t, "%s\t", numberText(v))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func (d *Description) writePrefixes(w io.Writer) error {
	if len(d.Prefixes) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "\nshared prefix\tconversations\ttokens\n")
	for _, g := range d.Prefixes {
		fmt.Fprintf(t, "%s\t%d\t%d\n", printable(g.Name), g.Conversations, g.Tokens)
	}
	if more := d.Groups - int64(len(d.Prefixes)); more > 0 {
		fmt.Fprintf(t, "and %d more\n", more)
	}
	return t.Flush()
}

// printable replaces control characters and those that turn the direction of text, so that nothing in a
// dataset moves a terminal's cursor or breaks the columns.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if schemas.Unprintable(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func numberText(v float64) string {
	if v >= 1000 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}

// countsText lists counts, the largest first.
func countsText(m map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		switch {
		case a == otherValues:
			return 1
		case b == otherValues:
			return -1
		case m[a] != m[b]:
			return cmp.Compare(m[b], m[a])
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = fmt.Sprintf("%s %d", n, m[n])
	}
	return strings.Join(parts, ", ")
}
