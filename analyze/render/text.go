package render

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// shown gives the tables of the long form, or those of the short one without their details.
func (d *Document) shown(detail bool) []Table {
	var out []Table
	for _, t := range d.Tables {
		if t.Detail && !detail {
			continue
		}
		silent := func(i int) bool {
			return i >= t.Keys && !slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Cells[i].Text != "" && r.Cells[i].Mark != Absent })
		}
		var keep []int
		for i, c := range t.Columns {
			if (detail || !c.Detail) && !silent(i) {
				keep = append(keep, i)
			}
		}
		short := t
		short.Columns, short.Rows = pick(t.Columns, keep), nil
		for _, r := range t.Rows {
			if r.Detail && !detail {
				continue
			}
			r.Cells = pick(r.Cells, keep)
			for j := range r.Cells {
				if !detail && short.Columns[j].Bound == "" {
					r.Cells[j].Bound = ""
				}
			}
			short.Rows = append(short.Rows, r)
		}
		out = append(out, short)
	}
	return out
}

func pick[T any](list []T, at []int) []T {
	out := make([]T, len(at))
	for i, from := range at {
		out[i] = list[from]
	}
	return out
}

// column is a column as text: bounds have become columns, or stand in their cells.
type column struct {
	head  string
	cells []string
	marks []Mark
	left  bool
}

// columns makes the columns of a table; below writes a number and its bounds into one cell.
func (t *Table) columns(below func(number, bound string) string) []column {
	var out []column
	for i, c := range t.Columns {
		col, bounds := column{head: c.Name, left: c.Text}, column{head: c.Bound}
		for _, r := range t.Rows {
			cell := &r.Cells[i]
			shown := cell.Text
			if cell.Bound != "" && c.Bound == "" {
				shown = below(shown, cell.Bound)
			}
			col.cells, col.marks = append(col.cells, shown), append(col.marks, cell.Mark)
			bounds.cells = append(bounds.cells, cell.Bound)
		}
		out = append(out, col)
		if c.Bound != "" && t.Bounded(i) {
			bounds.marks = make([]Mark, len(bounds.cells))
			out = append(out, bounds)
		}
	}
	return out
}

// textPrinter prints for terminals, within a width.
type textPrinter struct {
	out *bufio.Writer
	o   Options
}

func (d *Document) writeText(w io.Writer, o Options) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	p := textPrinter{bufio.NewWriter(w), o}
	for _, n := range d.Notices {
		p.wrapped("", "*** "+n+" ***")
	}
	for i, t := range d.shown(o.Detail) {
		if i > 0 || len(d.Notices) > 0 {
			fmt.Fprintln(p.out)
		}
		p.table(&t)
	}
	if o.More != "" && !o.Detail {
		p.wrapped("", "more: "+o.More)
	}
	return p.out.Flush()
}

// wrapped prints a text whose further lines are indented.
func (p *textPrinter) wrapped(indent, s string) {
	for i, line := range wrap(s, p.o.Width-len(indent)-2) {
		if i > 0 {
			line = "  " + line
		}
		fmt.Fprintln(p.out, indent+line)
	}
}

// wrap breaks a text into lines of a width: at spaces, but not before a unit, and within words that are wider.
func wrap(s string, most int) []string {
	var lines []string
	for _, given := range strings.Split(s, "\n") {
		line := ""
		for _, word := range unbroken(given) {
			if line != "" && width(line)+1+width(word) <= most {
				line += " " + word
				continue
			}
			if line != "" {
				lines = append(lines, line)
			}
			parts := strings.Split(text.WrapHard(word, most), "\n")
			lines, line = append(lines, parts[:len(parts)-1]...), parts[len(parts)-1]
		}
		lines = append(lines, line)
	}
	return lines
}

// unbroken splits a text into words; a unit belongs to its number.
func unbroken(s string) []string {
	var out []string
	for _, word := range strings.Split(s, " ") {
		switch strings.TrimRight(word, ",;:.)") {
		case "%", "ms", "s", "min", "h", "points":
			if n := len(out) - 1; n >= 0 {
				out[n] += " " + word
				continue
			}
		}
		out = append(out, word)
	}
	return out
}

func (p *textPrinter) table(t *Table) {
	p.title(t)
	for _, r := range t.Points {
		p.wrapped("  ", strings.TrimSpace(r.Word+": "+r.Text+" "+r.Advice))
	}
	p.grid(t)
	for _, line := range t.Facts {
		width, sep := 0, ""
		for _, f := range line {
			s := f.String()
			if n := text.StringWidthWithoutEscSequences(s); width+len(sep)+n > p.o.Width && width > 0 {
				fmt.Fprintln(p.out)
				width, sep = n, ""
			} else {
				width += len(sep) + n
			}
			fmt.Fprint(p.out, sep, s)
			sep = "   "
		}
		fmt.Fprintln(p.out)
	}
	for _, n := range t.Notes {
		p.wrapped("", n)
	}
}

// title prints a title with its answer and what is said of it.
func (p *textPrinter) title(t *Table) {
	head := t.Title
	if t.Answer != "" {
		head += ": " + t.Answer
	}
	shown := p.colored(text.Bold, t.Title)
	if t.Answer != "" {
		shown += p.colored(text.Bold, ": ") + p.colored(text.Bold, p.marked(t.Answer, t.Mark))
	}
	width := text.StringWidthWithoutEscSequences(head)
	switch {
	case width > p.o.Width:
		p.wrapped("", head)
	case t.Say != "" && width+3+text.StringWidthWithoutEscSequences(t.Say) <= p.o.Width:
		fmt.Fprintln(p.out, shown+"   "+t.Say)
		return
	default:
		fmt.Fprintln(p.out, shown)
	}
	if t.Say != "" {
		p.wrapped("  ", t.Say)
	}
}

func (p *textPrinter) colored(c text.Color, s string) string {
	if !p.o.Color {
		return s
	}
	return c.Sprint(s)
}

// marked colours a word by its mark.
func (p *textPrinter) marked(s string, m Mark) string {
	if c, ok := map[Mark]text.Color{Good: text.FgGreen, Warn: text.FgYellow, Bad: text.FgRed}[m]; ok {
		return p.colored(c, s)
	}
	return s
}

// grid prints rows within the width: heads and texts are wrapped, and columns that still have no room follow below,
// behind the same keys.
func (p *textPrinter) grid(t *Table) {
	if len(t.Rows) == 0 {
		return
	}
	columns := t.columns(func(number, bound string) string { return number + "\n" + bound })
	keys := columns[:t.Keys]
	for more := true; more; more = len(columns) > len(keys) {
		n, widths := p.fit(columns, t.Keys)
		p.block(t, columns[:n], widths)
		columns = append(slices.Clone(keys), columns[n:]...)
	}
}

func width(s string) int { return text.LongestLineLen(s) }

// fit gives how many columns the width has room for, and how wide each is.
func (p *textPrinter) fit(columns []column, keys int) (int, []int) {
	const gap = 2
	wanted, widths := make([]int, len(columns)), make([]int, len(columns))
	total, n := 0, 0
	for i, c := range columns {
		wanted[i] = width(c.head)
		for _, word := range strings.Fields(c.head) {
			widths[i] = max(widths[i], width(word))
		}
		for _, cell := range c.cells {
			wanted[i] = max(wanted[i], width(cell))
			if c.left {
				narrow := 14
				if i == 0 {
					narrow = 24
				}
				widths[i] = max(widths[i], min(width(cell), narrow))
			} else {
				widths[i] = max(widths[i], width(cell))
			}
		}
		if total+widths[i]+gap > p.o.Width+gap && i > keys {
			break
		}
		total += widths[i] + gap
		n++
	}
	// What room is left goes to whatever wants most, texts first.
	for room := p.o.Width + gap - total; room > 0; room-- {
		most, at := 0, -1
		for i := range n {
			want := wanted[i] - widths[i]
			if columns[i].left {
				want *= 100
			}
			if want > most {
				most, at = want, i
			}
		}
		if at < 0 {
			break
		}
		widths[at]++
	}
	return n, widths[:n]
}

func (p *textPrinter) block(t *Table, columns []column, widths []int) {
	line := func(get func(c *column) (string, Mark)) {
		var parts [][]string
		height := 0
		for i := range columns {
			s, _ := get(&columns[i])
			lines := wrap(s, widths[i])
			parts = append(parts, lines)
			height = max(height, len(lines))
		}
		for h := range height {
			var b strings.Builder
			for i, lines := range parts {
				s := ""
				if h < len(lines) {
					s = lines[h]
				}
				pad := strings.Repeat(" ", max(widths[i]-width(s), 0))
				_, mark := get(&columns[i])
				if columns[i].left {
					s = p.marked(s, mark) + pad
				} else {
					s = pad + p.marked(s, mark)
				}
				if i > 0 {
					b.WriteString("  ")
				}
				b.WriteString(s)
			}
			fmt.Fprintln(p.out, strings.TrimRight(b.String(), " "))
		}
	}
	if slices.ContainsFunc(columns, func(c column) bool { return c.head != "" }) {
		line(func(c *column) (string, Mark) { return c.head, "" })
	}
	for i := range t.Rows {
		if t.Rows[i].Of != "" {
			p.wrapped("", p.colored(text.Bold, t.Rows[i].Of))
		}
		line(func(c *column) (string, Mark) { return c.cells[i], c.marks[i] })
	}
}
