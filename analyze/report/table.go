package report

import (
	"fmt"
	"html/template"
	"strings"

	"parley/analyze"
)

// table is one table of the page.
type table struct {
	ID     string
	Title  string
	Note   string // under the title
	Head   []cell
	Bodies []body
	Notes  []string // under the table
	Fold   bool     // the rows show when asked for
}

// body is a group of rows with a heading of its own, if it has one.
type body struct {
	Title string
	Rows  [][]cell
}

// cell is one cell. CSV is what copying gives where it differs from the text: full precision, and the
// bounds of an interval, with bars between them.
type cell struct {
	Text  string
	CSV   string
	Range string // an interval, printed small below
	Class string
	Head  bool   // names its row
	Hint  string // the title attribute
}

// Attr gives the attribute for the script, if the cell needs one.
func (c cell) Attr() template.HTMLAttr {
	if c.CSV == "" && c.Class != "none" {
		return ""
	}
	return template.HTMLAttr(`data-csv="` + template.HTMLEscapeString(c.CSV) + `"`)
}

// Columns is the number of columns.
func (t *table) Columns() int { return len(t.Head) }

// Wide says that the table needs small print on paper.
func (t *table) Wide() bool { return len(t.Head) > 11 }

// Short says that the table should stay on one page of paper.
func (t *table) Short() bool {
	n := 0
	for _, b := range t.Bodies {
		n += len(b.Rows)
	}
	return n <= 16
}

func (t *table) add(rows ...[]cell) {
	if len(t.Bodies) == 0 {
		t.Bodies = append(t.Bodies, body{})
	}
	last := &t.Bodies[len(t.Bodies)-1]
	last.Rows = append(last.Rows, rows...)
}

func (t *table) empty() bool {
	for _, b := range t.Bodies {
		if len(b.Rows) > 0 {
			return false
		}
	}
	return true
}

// heads makes a row of column headings; the first are left-aligned text.
func heads(texts int, names ...string) []cell {
	out := make([]cell, len(names))
	for i, n := range names {
		out[i] = cell{Text: n}
		if i < texts {
			out[i].Class = "text"
		}
	}
	return out
}

// rangeHead is the heading of a column whose cells have intervals.
func rangeHead(name string) cell {
	return cell{Text: name, CSV: name + "|" + name + " low|" + name + " high"}
}

func rowHead(text string) cell     { return cell{Text: text, Class: "text", Head: true} }
func textCell(text string) cell    { return cell{Text: text, Class: "text"} }
func wrapCell(text string) cell    { return cell{Text: text, Class: "text wrap"} }
func countCell(n int64) cell       { return cell{Text: count(n), CSV: fmt.Sprint(n)} }
func numCell(v analyze.Num) cell   { return valueCell(float64(v), number) }
func shareCell(v analyze.Num) cell { return valueCell(float64(v), percent) }
func blank(columns int) cell {
	return cell{Text: dash, Class: "none", CSV: strings.Repeat("|", columns-1)}
}
func secondsCell(v analyze.Num) cell { return valueCell(float64(v), number) }
func known(v ...analyze.Num) bool    { return allOf(v, analyze.Num.Known) }
func anyKnown(v ...analyze.Num) bool {
	return !allOf(v, func(n analyze.Num) bool { return !n.Known() })
}
func valueCell(v float64, print func(float64) string) cell {
	c := cell{Text: print(v), CSV: exact(v)}
	if c.Text == dash {
		c.Class = "none"
	}
	return c
}

func allOf(values []analyze.Num, ok func(analyze.Num) bool) bool {
	for _, v := range values {
		if !ok(v) {
			return false
		}
	}
	return true
}

// rangeCell is a value with its interval below.
func rangeCell(v, low, high analyze.Num, print func(float64) string) cell {
	c := valueCell(float64(v), print)
	c.CSV = exact(float64(v)) + "|" + exact(float64(low)) + "|" + exact(float64(high))
	if v.Known() && anyKnown(low, high) {
		c.Range = interval(low, high, print)
	}
	return c
}

func interval(low, high analyze.Num, print func(float64) string) string {
	a, b := print(float64(low)), print(float64(high))
	if !low.Known() {
		a = "?"
	}
	if !high.Known() {
		b = "?"
	}
	if strings.HasPrefix(b, "\u2212") || strings.HasPrefix(b, "+") {
		return a + " to " + b // a dash before a sign is hard to read
	}
	return a + thin + dash + thin + b
}

// percentileCell prints a percentile; grey and with a ~, with the bound that can be given, where the sample
// is too small to be sure of it.
func percentileCell(p *analyze.Percentile) cell {
	switch {
	case p == nil:
		return blank(3)
	case p.Infinite:
		return cell{Text: infinity, CSV: "inf||", Hint: "A failed turn: it never ended."}
	case !p.Value.Known():
		return blank(3)
	}
	c := rangeCell(p.Value, p.Low, p.High, number)
	if !p.Carried {
		c.Text, c.Class = "~"+c.Text, "none"
		c.Hint = fmt.Sprintf("Too small a sample to be sure: p%s takes %s independent turns.", number(float64(p.P)), count(p.Needs))
		if p.Lower.Known() {
			c.Hint += fmt.Sprintf(" With %g %% confidence it is at least %s.", 100*p.Confidence, number(float64(p.Lower)))
		}
	}
	return c
}
