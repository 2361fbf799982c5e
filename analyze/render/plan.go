package render

import (
	"fmt"
	"slices"
	"strings"

	"parley/analyze"
	"parley/schemas"
)

// planNames are the columns of a plan's table.
var planNames = map[string]string{
	"output_throughput": "output tokens/s", "output_per_gpu": "output tokens/s per GPU", "tokens_per_user": "tokens/s per user",
	"jobs_per_hour": "jobs/h", "error_rate": "errors", "goodput_share": "goodput",
}

// plan lays a plan out: its answer, and a row for each level.
func plan(res *analyze.Result, p *analyze.Plan, place int) []Table {
	answer := Table{ID: fmt.Sprintf("plan-%d", place), Section: Answers, Title: fmt.Sprintf("Plan %s: levels of %s", p.ID, p.Load)}
	if p.Search != nil {
		answer.Title = fmt.Sprintf("Search for the largest %s with %s, from %s", p.Load, strings.Join(p.Search.Objectives, " and "), p.Search.From)
	}
	answer.Notes = p.Say(res)
	t := Table{ID: fmt.Sprintf("levels-%d", place), Section: Runs, Title: "Levels"}
	t.keys(p.Load)
	if slices.ContainsFunc(p.Levels, func(l analyze.Level) bool { return l.Side != "" }) {
		t.keys("side")
	}
	t.Keys = len(t.Columns)
	t.Columns[0].Text = false
	t.numbers("runs")
	t.Columns = append(t.Columns, Column{Name: "verdict", Text: true})
	var shown []string
	for _, name := range p.Shown {
		if slices.ContainsFunc(p.Levels, func(l analyze.Level) bool { return l.Figure(name) != nil }) {
			title := planNames[name]
			if title == "" {
				figure, stat, _ := strings.Cut(name, ".")
				title = strings.ToUpper(figure) + " " + stat
			}
			shown = append(shown, name)
			column := Column{Name: title}
			if name == "output_throughput" || name == "ttft.p99" { // the short form has room for two
				column.Bound = "95 %"
			}
			t.Columns = append(t.Columns, column)
		}
	}
	t.Columns = append(t.Columns, Column{Name: "front", Text: true})
	repeated := false
	for i := range p.Levels {
		l := &p.Levels[i]
		repeated = repeated || len(l.Runs) > 1
		row := []Cell{numberCell(analyze.Num(l.Load), func(n analyze.Num) string { return Given(float64(n)) })}
		if t.Keys > 1 {
			row = append(row, words(strings.ToUpper(l.Side)))
		}
		row = append(row, count(int64(len(l.Runs))), Cell{Text: string(l.Grade), Value: analyze.Missing, Mark: gradeMark(l.Grade)})
		for _, name := range shown {
			cell := words("")
			if f := l.Figure(name); f != nil {
				show := Number
				if f.Unit == "share" {
					show = Share
				}
				if cell = numberCell(f.Mean, show); f.Runs > 1 && f.Unit != "share" {
					cell = bounded(cell, f.Low, f.High, show)
				}
			}
			row = append(row, cell)
		}
		t.add(append(row, words(map[analyze.Front]string{analyze.OnFront: "*", analyze.MaybeOn: "?"}[l.Front]))...)
	}
	t.Notes = []string{"Latencies in ms; one run of each level: --repeat would say how sure the figures are"}
	if repeated {
		t.Notes[0] = "Latencies in ms; ranges: 95 % intervals over the runs of a level, of what such runs give"
	}
	t.Notes = append(t.Notes, "*: no other level has both as many output tokens per second and as many per user, beyond chance; ?: the runs do not decide it")
	bad := Table{ID: fmt.Sprintf("invalid-%d", place), Section: Answers, Title: "Runs that are INVALID"}
	for _, l := range p.Levels {
		for _, i := range l.Runs {
			r := &res.Runs[i]
			for _, why := range r.Verdict.Reasons {
				if why.Grade == schemas.Invalid {
					bad.Points = append(bad.Points, Point{r.Label, Bad, sentence(why.Text), sentence(why.Advice)})
				}
			}
		}
	}
	return []Table{answer, t, bad}
}
