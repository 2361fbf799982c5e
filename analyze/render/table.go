package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"parley/analyze"
)

// textWidth is how many columns a cell of text takes before it goes on in the next line.
const textWidth = 72

// pretty makes a go-pretty table, which knows how wide characters of every script are.
func pretty(s *section) table.Writer {
	t := table.NewWriter()
	row := func(cells []string) table.Row {
		out := make(table.Row, len(cells))
		for i, c := range cells {
			out[i] = c
		}
		return out
	}
	t.AppendHeader(row(s.header))
	for _, r := range s.rows {
		t.AppendRow(row(r))
	}
	configs := make([]table.ColumnConfig, len(s.header))
	for i := range configs {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight}
		if i < s.left {
			configs[i].Align, configs[i].AlignHeader = text.AlignLeft, text.AlignLeft
			configs[i].WidthMax, configs[i].WidthMaxEnforcer = textWidth, text.WrapSoft
		}
	}
	t.SetColumnConfigs(configs)
	style := table.StyleLight
	style.Format.Header = text.FormatDefault // figures keep their own spelling
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

func writeTable(w io.Writer, res *analyze.Result, o Options) error {
	out := bufio.NewWriter(w)
	for _, h := range res.Heading {
		fmt.Fprintf(out, "*** %s ***\n", clean(h))
	}
	for i, s := range sections(res) {
		if i > 0 || len(res.Heading) > 0 {
			fmt.Fprintln(out)
		}
		title := s.title
		if o.Color {
			title = colored(title)
		}
		fmt.Fprintln(out, title)
		for _, line := range s.before {
			fmt.Fprintln(out, "  "+line)
		}
		if len(s.rows) > 0 {
			fmt.Fprintln(out, pretty(&s).Render())
		}
		for _, line := range s.after {
			fmt.Fprintln(out, "  "+line)
		}
	}
	return out.Flush()
}

// colored marks the last part of a title, behind its colon.
func colored(title string) string {
	i := strings.LastIndex(title, ": ")
	if i < 0 {
		return text.Bold.Sprint(title)
	}
	name, said := title[:i+2], title[i+2:]
	color := text.Colors{text.Bold}
	switch word, _, _ := strings.Cut(said, " "); word {
	case "VALID", "HELD", "BETTER":
		color = append(color, text.FgGreen)
	case "SUSPECT", "UNDECIDED", "MIXED":
		color = append(color, text.FgYellow)
	case "INVALID", "FAILED", "WORSE":
		color = append(color, text.FgRed)
	}
	return text.Bold.Sprint(name) + color.Sprint(said)
}

func writeMarkdown(w io.Writer, res *analyze.Result) error {
	out := bufio.NewWriter(w)
	for _, h := range res.Heading {
		fmt.Fprintf(out, "> **%s**\n\n", escapeMarkdown(h))
	}
	for _, s := range sections(res) {
		fmt.Fprintf(out, "### %s\n\n", escapeMarkdown(s.title))
		list(out, s.before)
		if len(s.rows) > 0 {
			markdownTable(out, &s)
		}
		list(out, s.after)
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

// markdownTable is written here and not by go-pretty, whose Markdown escapes only the bar: a label must
// not become a link, a heading or HTML.
func markdownTable(out io.Writer, s *section) {
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(out, "| %s ", escapeMarkdown(c))
		}
		fmt.Fprintln(out, "|")
	}
	line(s.header)
	for i := range s.header {
		if i < s.left {
			fmt.Fprint(out, "| :--- ")
		} else {
			fmt.Fprint(out, "| ---: ")
		}
	}
	fmt.Fprintln(out, "|")
	for _, r := range s.rows {
		line(r)
	}
	fmt.Fprintln(out)
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "#", `\#`, "!", `\!`, "@", "&#64;",
)

// escapeMarkdown makes text literal. An @ would notify somebody in a pull request.
func escapeMarkdown(s string) string { return markdownEscapes.Replace(clean(s)) }
