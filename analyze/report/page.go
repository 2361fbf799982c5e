package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/analyze"
	"parley/analyze/render"
)

// page is what the template prints: the document of the result, sorted into sections.
type page struct {
	Policy     string
	Script     template.JS
	Style      template.CSS
	ResultJSON template.JS
	PlotsJSON  template.JS

	Title    string
	Subtitle string
	Notices  []string
	Cards    []render.Table // what was asked, and how far to trust it: the headline
	Tiles    []tile
	Warnings []string
	Gates    *table
	Compared []table
	Sweep    []table
	Summary  []table
	Groups   []table
	Facts    []table
	Settings []settings
	Terms    []fact
	Tool     string
}

// tile is one figure on top of the page.
type tile struct{ Name, Value, Unit, Small, Change, Class string }

// settings are what a run was asked to do.
type settings struct {
	Label string
	List  []fact
}

func newPage(r *analyze.Result) *page {
	r = render.Named(r)
	doc := render.New(r)
	p := &page{Title: title(r), Subtitle: subtitle(r), Notices: doc.Notices, Terms: terms(r), Tool: r.ToolVersion}
	for i := range doc.Tables {
		t := &doc.Tables[i]
		if t.ID == "warnings" {
			p.Warnings = t.Notes
			continue
		}
		if t.Section == render.Answers || t.Answer != "" {
			p.Cards = append(p.Cards, *t)
		}
		switch {
		case t.ID == "overview":
			p.Tiles = tiles(r, t)
		case t.ID == "gates":
			v := newTable(t)
			p.Gates = &v
		case len(t.Rows) > 0:
			list := map[string]*[]table{
				render.Compared: &p.Compared, render.Runs: &p.Sweep, render.Figures: &p.Summary, render.Groups: &p.Groups, render.Configuration: &p.Facts,
			}[t.Section]
			*list = append(*list, newTable(t))
		}
	}
	for i := range r.Runs {
		s := settings{List: flatten(r.Runs[i].Config)}
		if len(r.Runs) > 1 {
			s.Label = r.Runs[i].Label
		}
		if len(s.List) > 0 {
			p.Settings = append(p.Settings, s)
		}
	}
	return p
}

// table is a table of the document as HTML prints it.
type table struct {
	ID, Title string
	Fold      bool // the rows show when asked for
	Card      bool // names and values: narrow
	Head      []cell
	Bodies    []body
	Notes     []string
}

// body is a group of rows with a heading of its own, if it has one.
type body struct {
	Title string
	Rows  [][]cell
}

// cell is one cell. CSV is what copying gives where it differs from the text: full precision, and the bounds of an
// interval, with bars between them.
type cell struct {
	Text, Range, Class, Hint string
	CSV                      *string
	Head                     bool // names its row
}

// Wide says that the table needs small print on paper.
func (t *table) Wide() bool { return len(t.Head) > 11 }

// Short says that the table should stay on one page of paper.
func (t *table) Short() bool { return len(t.Bodies) == 1 && len(t.Bodies[0].Rows) <= 16 }

func newTable(t *render.Table) table {
	out := table{ID: t.ID, Title: t.Title, Notes: t.Notes, Fold: t.ID == "waits", Card: len(t.Columns) == 2}
	for i, c := range t.Columns {
		head := cell{Text: c.Name}
		if c.Text {
			head.Class = "text"
		}
		bounds := t.Bounded(i)
		if bounds && c.Bound == "" {
			head.CSV = given(c.Name + "|" + c.Name + " low|" + c.Name + " high")
		}
		out.Head = append(out.Head, head)
		if bounds && c.Bound != "" {
			out.Head = append(out.Head, cell{Text: c.Bound, CSV: given(c.Bound + " low|" + c.Bound + " high")})
		}
	}
	for n, r := range t.Rows {
		if n == 0 || r.Of != "" {
			out.Bodies = append(out.Bodies, body{Title: r.Of})
		}
		var row []cell
		for i, c := range r.Cells {
			column := &t.Columns[i]
			v := cell{Text: c.Text, Hint: c.Hint, Class: class(c.Mark), Head: i < t.Keys}
			if column.Text {
				v.Class = strings.TrimSpace("text " + v.Class)
				if utf8.RuneCountInString(c.Text) > 40 {
					v.Class += " wrap"
				}
			} else {
				v.CSV = given(c.Exact())
			}
			bounds := ""
			if t.Bounded(i) {
				exact := func(n analyze.Num) string { return (&render.Cell{Value: n, Mark: render.Absent}).Exact() }
				bounds = exact(c.Low) + "|" + exact(c.High)
			}
			if bounds != "" && column.Bound == "" {
				v.Range, v.CSV = c.Bound, given(c.Exact()+"|"+bounds)
			}
			row = append(row, v)
			if bounds != "" && column.Bound != "" {
				row = append(row, cell{Text: c.Bound, CSV: given(bounds), Class: "none"})
			}
		}
		last := &out.Bodies[len(out.Bodies)-1]
		last.Rows = append(last.Rows, row)
	}
	return out
}

func given(s string) *string { return &s }

// class is the style of a mark.
func class(m render.Mark) string {
	return map[render.Mark]string{render.Unsure: "none", render.Absent: "none", render.Good: "better", render.Bad: "worse", render.Warn: "warn"}[m]
}

// grade is the style of an answer.
func grade(m render.Mark) string {
	return map[render.Mark]string{render.Good: "valid", render.Warn: "suspect", render.Bad: "invalid"}[m]
}

// tiles are the few figures on top: those of a comparison with their change, or else those of the run.
func tiles(r *analyze.Result, overview *render.Table) []tile {
	var out []tile
	if len(r.Comparisons) == 1 {
		c := r.Comparisons[0]
		for _, d := range c.Rows {
			if !slices.Contains([]string{"ttft.p50", "ttft.p99", "tpot.p50", "e2e.p50", "output_throughput", "error_rate"}, d.Name) {
				continue
			}
			show, change, unit := render.Number, render.Change(d.Ratio), d.Unit
			switch d.Unit {
			case "share":
				show, change, unit = render.Share, render.Points(d.Diff), ""
			case "1/s":
				unit = ""
			}
			x := tile{Name: d.Title, Value: show(d.Candidate), Unit: unit, Small: "was " + show(d.Baseline), Change: change}
			if d.Changed {
				x.Class = "better"
				if d.Worse {
					x.Class = "worse"
				}
			}
			out = append(out, x)
		}
		return out
	}
	for _, row := range overview.Rows {
		x := tile{Name: row.Cells[0].Text + ", mean", Value: row.Cells[1].Text, Unit: row.Cells[len(row.Cells)-1].Text}
		if n := len(row.Cells) - 2; n >= 2 { // the lowest percentile, and the highest
			x.Name, x.Value = row.Cells[0].Text+", "+overview.Columns[2].Name, row.Cells[2].Text
			x.Small = overview.Columns[n].Name + " " + row.Cells[n].Text + " " + x.Unit
		}
		if row.Cells[0].Text != "ITL" {
			out = append(out, x)
		}
	}
	for i, line := range overview.Facts {
		for j, f := range line {
			if i > 0 || j == 0 {
				out = append(out, tile{Name: strings.ToUpper(f.Name[:1]) + f.Name[1:], Value: f.Cell.Text, Unit: f.Cell.Unit, Small: f.After})
			}
			if i == 0 && j == 1 {
				out[len(out)-1].Small = f.String()
			}
		}
	}
	return out
}

// server names what a run was against.
func server(run *analyze.RunResult) string {
	if run.Simulated {
		return "the simulated server"
	}
	var names []string
	for _, t := range run.Targets {
		if name := t.Model; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func title(r *analyze.Result) string {
	switch {
	case len(r.Comparisons) > 0:
		return r.Comparisons[0].Candidate + " against " + r.Comparisons[0].Baseline
	case len(r.Runs) > 1:
		return fmt.Sprintf("%d runs side by side", len(r.Runs))
	}
	run := &r.Runs[0]
	what := run.Dataset.File
	if what == "" {
		what = run.Label
	}
	if s := server(run); s != "" {
		return what + " on " + s
	}
	return what
}

func subtitle(r *analyze.Result) string {
	var parts []string
	if len(r.Runs) != 1 {
		for i := range r.Runs {
			parts = append(parts, r.Runs[i].Label)
		}
		return strings.Join(parts, " \u00b7 ")
	}
	run := &r.Runs[0]
	if run.Label != run.Dataset.File {
		parts = append(parts, run.Label)
	}
	if !run.Origin.IsZero() {
		parts = append(parts, run.Origin.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	return strings.Join(append(parts, render.Duration(run.Duration)), " \u00b7 ")
}
