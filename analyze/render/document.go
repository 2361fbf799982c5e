package render

import (
	"fmt"
	"math"
	"strconv"

	"parley/analyze"
)

// Document is a result laid out to be read. Terminal, Markdown and HTML print the same document, and so the same
// words and digits. The short form leaves out what is marked as detail.
type Document struct {
	Notices []string // what a reader must know before any figure
	Tables  []Table
}

// Mark says how a word or a number is to be taken.
type Mark string

// The marks.
const (
	Unsure Mark = "unsure" // of this run only: too small a sample to say more
	Absent Mark = "none"   // no value, or nothing to say
	Good   Mark = "good"
	Warn   Mark = "warn"
	Bad    Mark = "bad"
)

// Table is one block of a document. All parts but the title may be missing: a verdict has no rows, a list of warnings
// nothing but notes.
type Table struct {
	ID      string // of its place on a page, the same for every result
	Section string // of the report
	Title   string
	Answer  string // the answer that the block is about: a verdict, what became of gates
	Mark    Mark   // of the answer
	Say     string // the answer in a sentence
	Points  []Point
	Columns []Column
	Keys    int // the first columns, which name a row and are texts
	Rows    []Row
	Facts   [][]Fact // figures in lines
	Notes   []string
	Detail  bool
}

// Point is one reason for an answer.
type Point struct {
	Word   string
	Mark   Mark
	Text   string
	Advice string
}

// Column is the head of a column.
type Column struct {
	Name   string
	Bound  string // the bounds of its cells have a column of their own with this name; "": they stand in the cells
	Text   bool   // words and not numbers
	Detail bool
}

// Row is a line of a table.
type Row struct {
	Of     string // the heading above it, if it is the first below one
	Cells  []Cell
	Detail bool
}

// Cell is a number with its unit, its bounds and its mark, or a text.
type Cell struct {
	Text      string      // as it is printed
	Value     analyze.Num // the number behind it, for copies; missing for a text
	Low, High analyze.Num
	Bound     string // as printed; "": it has no bounds
	Unit      string // where no column says it
	Mark      Mark
	Hint      string // more, for those who point at it
}

// Fact is a figure in a line of figures.
type Fact struct {
	Name  string
	Cell  Cell
	After string // what follows the number
}

func (f *Fact) String() string {
	text := f.Cell.Text
	if f.Cell.Unit != "" {
		text += " " + f.Cell.Unit
	} else {
		text = f.Name + " " + text
	}
	if f.After != "" {
		text += " " + f.After
	}
	return text
}

// numberCell is a number that show prints.
func numberCell(v analyze.Num, show func(analyze.Num) string) Cell {
	c := Cell{Text: show(v), Value: v, Low: analyze.Missing, High: analyze.Missing}
	if !v.Known() {
		c.Text, c.Mark = none, Absent
	}
	return c
}

func number(v analyze.Num) Cell { return numberCell(v, Number) }
func share(v analyze.Num) Cell  { return numberCell(v, Share) }

// reuse is a population's cache reuse, or why there is none.
func reuse(t *analyze.Tokens) Cell {
	if t.CacheZeros > 0 && !t.CacheReuse.Known() {
		return words("tells 0 always")
	}
	return share(t.CacheReuse)
}

func duration(v analyze.Num) Cell { return numberCell(v, Duration) }
func count(n int64) Cell {
	return numberCell(analyze.Num(n), func(analyze.Num) string { return Count(n) })
}

// words is a text; none where there is nothing to say.
func words(s string) Cell {
	c := Cell{Text: s, Value: analyze.Missing}
	if s == "" {
		c.Text, c.Mark = none, Absent
	}
	return c
}

// bounded is a number with its interval.
func bounded(c Cell, low, high analyze.Num, show func(analyze.Num) string) Cell {
	c.Low, c.High = low, high
	if c.Value.Known() && (low.Known() || high.Known()) {
		c.Bound = between(low, high, show)
	}
	return c
}

// percentile is a percentile with its interval, marked where the sample is too small to be sure of it.
func percentile(p *analyze.Percentile) Cell {
	switch {
	case p == nil:
		return number(analyze.Missing)
	case p.Infinite:
		return Cell{Text: "\u221e", Value: analyze.Num(math.Inf(1)), Low: analyze.Missing, High: analyze.Missing, Hint: "A failed turn: it never ended."}
	}
	c := bounded(number(p.Value), p.Low, p.High, Number)
	if p.Value.Known() && !p.Carried {
		c.Text, c.Mark = "~"+c.Text, Unsure
		c.Hint = fmt.Sprintf("Too small a sample to be sure: %s takes %s.", percentName(p.P), Counted(p.Needs, "independent turn"))
		if p.Lower.Known() {
			c.Hint += fmt.Sprintf(" With %g %% confidence it is at least %s.", 100*p.Confidence, Number(p.Lower))
		}
	}
	return c
}

// Exact is the number behind a cell so that it reads back the same, or its text.
func (c *Cell) Exact() string {
	switch {
	case math.IsInf(float64(c.Value), 0):
		return "inf"
	case c.Value.Known():
		return exact(c.Value)
	case c.Mark == Absent:
		return ""
	}
	return c.Text
}

// exact prints a number so that it reads back the same; nothing for no value.
func exact(n analyze.Num) string {
	if !n.Known() {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', -1, 64)
}

// Bounded says whether a column has bounds.
func (t *Table) Bounded(column int) bool {
	for _, r := range t.Rows {
		if r.Cells[column].Bound != "" {
			return true
		}
	}
	return false
}

// empty says whether there is nothing to print.
func (t *Table) empty() bool {
	return len(t.Rows) == 0 && len(t.Points) == 0 && len(t.Facts) == 0 && len(t.Notes) == 0 && t.Say == ""
}

func (t *Table) add(cells ...Cell) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// keys begins a table with columns of texts; the others are numbers.
func (t *Table) keys(names ...string) {
	for _, n := range names {
		t.Columns = append(t.Columns, Column{Name: n, Text: true})
	}
	t.Keys = len(t.Columns)
}

func (t *Table) numbers(names ...string) {
	for _, n := range names {
		t.Columns = append(t.Columns, Column{Name: n})
	}
}
