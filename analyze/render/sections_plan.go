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
	"output_throughput": "out tok/s", "output_per_gpu": "out tok/s/GPU", "tokens_per_user": "tok/s/user", "jobs_per_hour": "jobs/h",
	"error_rate": "error rate", "goodput_share": "in SLO",
}

// planSections lays a plan out: its answer, and a row for each level.
func planSections(res *analyze.Result, p *analyze.Plan) []section {
	title := fmt.Sprintf("Plan %s: levels of %s", clean(p.ID), clean(p.Load))
	if p.Search != nil {
		title = fmt.Sprintf("Search for the largest %s with %s, from %s", clean(p.Load), clean(strings.Join(p.Search.Objectives, " and ")), clean(p.Search.From))
	}
	answer := section{title: title}
	for _, line := range p.Say(res) {
		answer.before = append(answer.before, clean(line))
	}
	table := section{title: "Levels", left: 0, header: []string{clean(p.Load)}}
	sides, repeated := false, false
	for _, l := range p.Levels {
		sides = sides || l.Side != ""
		repeated = repeated || len(l.Runs) > 1
	}
	if sides {
		table.header = append(table.header, "side")
	}
	table.header = append(table.header, "runs", "verdict")
	var shown []string
	for _, name := range p.Shown {
		if slices.ContainsFunc(p.Levels, func(l analyze.Level) bool { return l.Figure(name) != nil }) {
			title := planNames[name]
			if title == "" {
				figure, stat, _ := strings.Cut(name, ".")
				title = strings.ToUpper(figure) + " " + stat
			}
			shown, table.header = append(shown, name), append(table.header, title)
		}
	}
	table.header = append(table.header, "front")
	for i := range p.Levels {
		l := &p.Levels[i]
		row := []string{fmt.Sprintf("%.4g", l.Load)}
		if sides {
			row = append(row, strings.ToUpper(clean(l.Side)))
		}
		row = append(row, count(int64(len(l.Runs))), string(l.Grade))
		for _, name := range shown {
			text := ""
			if f := l.Figure(name); f != nil {
				show := number
				if f.Unit == "share" {
					show = percent
				}
				if text = show(f.Mean); f.Low.Known() && f.Runs > 1 && f.Unit != "share" {
					text += " (" + number(f.Low) + " to " + number(f.High) + ")"
				}
			}
			row = append(row, text)
		}
		table.rows = append(table.rows, append(row, map[analyze.Front]string{analyze.OnFront: "*", analyze.MaybeOn: "?"}[l.Front]))
	}
	if repeated {
		table.after = append(table.after, "in parentheses: 95 % interval over the runs of a level, of what such runs give; latencies in ms")
	} else {
		table.after = append(table.after, "one run of each level: --repeat would say how sure the figures are; latencies in ms")
	}
	table.after = append(table.after, "*: no other level has both as many output tokens per second and as many per user, beyond chance; ?: the runs do not decide it")
	out := []section{answer, table}
	bad := section{title: "Runs that are INVALID"}
	for _, l := range p.Levels {
		for _, i := range l.Runs {
			r := &res.Runs[i]
			for _, reason := range r.Verdict.Reasons {
				if reason.Grade == schemas.Invalid {
					bad.before = append(bad.before, clean(r.Label+": "+reason.Text+". "+reason.Advice))
				}
			}
		}
	}
	if len(bad.before) > 0 {
		out = append(out, bad)
	}
	return out
}
