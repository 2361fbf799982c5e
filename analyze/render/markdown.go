package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

func (d *Document) writeMarkdown(w io.Writer, o Options) error {
	out := bufio.NewWriter(w)
	for _, n := range d.Notices {
		fmt.Fprintf(out, "> **%s**\n\n", escapeMarkdown(n))
	}
	for _, t := range d.shown(o.Detail) {
		title := t.Title
		if t.Answer != "" {
			title += ": " + t.Answer
		}
		fmt.Fprintf(out, "### %s\n\n", escapeMarkdown(title))
		if t.Say != "" {
			fmt.Fprintf(out, "%s\n\n", escapeMarkdown(t.Say))
		}
		var reasons []string
		for _, r := range t.Points {
			reasons = append(reasons, r.Word+": "+r.Text+" "+r.Advice)
		}
		list(out, reasons)
		t.markdown(out)
		var facts []string
		for _, line := range t.Facts {
			var parts []string
			for _, f := range line {
				parts = append(parts, f.String())
			}
			facts = append(facts, strings.Join(parts, ", "))
		}
		list(out, append(facts, t.Notes...))
	}
	return out.Flush()
}

func list(out io.Writer, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(out, "- %s\n", escapeMarkdown(line))
	}
	if len(lines) > 0 {
		fmt.Fprintln(out)
	}
}

func (t *Table) markdown(out io.Writer) {
	if len(t.Rows) == 0 {
		return
	}
	columns := t.columns(func(number, bound string) string { return number + " (" + bound + ")" })
	line := func(get func(c *column) string) {
		for i := range columns {
			fmt.Fprintf(out, "| %s ", get(&columns[i]))
		}
		fmt.Fprintln(out, "|")
	}
	line(func(c *column) string { return escapeMarkdown(c.head) })
	line(func(c *column) string {
		if c.left {
			return ":---"
		}
		return "---:"
	})
	for i, r := range t.Rows {
		if r.Of != "" {
			fmt.Fprintf(out, "| **%s** %s|\n", escapeMarkdown(r.Of), strings.Repeat("| ", len(columns)-1))
		}
		line(func(c *column) string { return escapeMarkdown(c.cells[i]) })
	}
	fmt.Fprintln(out)
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "#", `\#`, "!", `\!`, "@", "&#64;",
)

// escapeMarkdown makes text literal: a label must not become a link, a heading or HTML, and an @ would notify somebody
// in a pull request.
func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }
