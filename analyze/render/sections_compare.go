package render

import (
	"fmt"

	"parley/analyze"
)

func comparisonSections(c *analyze.Comparison) []section {
	s := section{
		title: fmt.Sprintf("%s against %s", clean(c.Candidate), clean(c.Baseline)), left: 1,
		header: []string{"", "baseline", "candidate", "change", "95 % interval", ""},
	}
	switch {
	case c.Slower && c.Faster:
		s.before = append(s.before, "MIXED: some figures got worse beyond chance, others better")
	case c.Slower:
		s.before = append(s.before, "SLOWER beyond chance")
	case c.Faster:
		s.before = append(s.before, "FASTER beyond chance")
	default:
		s.before = append(s.before, "No difference beyond chance")
	}
	s.before = append(s.before, sentence(c.Why))
	if c.Paired {
		s.before = append(s.before, fmt.Sprintf("%s pairs of turns; %s turns only in the baseline, %s only in the candidate", count(c.Pairs), count(c.OnlyBase), count(c.OnlyCand)))
	}
	for _, d := range c.Rows {
		mark := ""
		switch {
		case d.Changed && d.Worse:
			mark = "worse"
		case d.Changed:
			mark = "better"
		}
		between := none
		if d.RatioLow.Known() {
			between = change(d.RatioLow) + " to " + change(d.RatioHigh)
		}
		base, cand, moved := number(d.Baseline), number(d.Candidate), change(d.Ratio)
		if d.Unit == "share" { // a change in percent of a percentage misleads
			base, cand, moved = percent(d.Baseline), percent(d.Candidate), fmt.Sprintf("%+.2f points", float64(d.Diff)*100)
		}
		s.rows = append(s.rows, []string{d.Title, base, cand, moved, between, mark})
	}
	s.after = append(s.after, "Worse and better: beyond chance (1 %, after Holm's correction over the table); rows without an interval are not tested")
	for _, w := range c.Warnings {
		s.after = append(s.after, clean(w.Text))
	}
	out := []section{s}
	if len(c.Config) > 0 {
		conf := section{title: "What changed in the configuration", left: 3, header: []string{"setting", "baseline", "candidate"}}
		for _, ch := range c.Config {
			conf.rows = append(conf.rows, []string{clean(ch.Setting), orNone(clean(ch.Baseline)), orNone(clean(ch.Candidate))})
		}
		out = append(out, conf)
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// change prints a ratio as a change in percent.
func change(ratio analyze.Num) string {
	if !ratio.Known() {
		return none
	}
	return fmt.Sprintf("%+.2f %%", (float64(ratio)-1)*100)
}

func gateSection(gates []analyze.Gate) section {
	s := section{title: "Gates", left: 3, header: []string{"gate", "", "what was found"}}
	for _, g := range gates {
		held := "held"
		if !g.Held {
			held = "NOT HELD"
		}
		s.rows = append(s.rows, []string{clean(g.Expression), held, clean(g.Text)})
	}
	return s
}

func sweepSections(w *analyze.Sweep) []section {
	s := section{title: "Runs side by side", left: 2, header: []string{"run", "verdict", "at once", "rate", "req/s", "out tok/s", "tok/s/user"}}
	if w.GPUs > 0 {
		s.title += fmt.Sprintf(", per GPU of %g", w.GPUs)
		s.header = append(s.header, "out tok/s/GPU", "tok/s/GPU")
	}
	s.header = append(s.header, "TTFT p50", "TTFT p99", "TPOT p50", "E2E p50", "error rate", "in SLO", "Pareto")
	for _, r := range w.Rows {
		row := []string{clean(r.Label), string(r.Grade), number(r.Concurrency), number(r.Rate), number(r.Requests), number(r.OutputTokens), number(r.PerUser)}
		if w.GPUs > 0 {
			row = append(row, number(r.OutputPerGPU), number(r.PerGPU))
		}
		pareto := ""
		if r.Pareto {
			pareto = "*"
		}
		s.rows = append(s.rows, append(row, number(r.TTFTP50), number(r.TTFTP99), number(r.TPOTP50), number(r.E2EP50), percent(r.ErrorRate), percent(r.GoodputShare), pareto))
	}
	s.after = append(s.after, "*: no other run has both more output tokens per second and more per user")
	out := []section{s}
	if len(w.Labels) > 0 {
		l := section{title: "Spread over runs of one label", left: 2, header: []string{"label", "figure", "runs", "mean", "95 % interval", "std", "CV", "min", "max"}}
		for _, sp := range w.Labels {
			l.rows = append(l.rows, []string{clean(sp.Label), sp.Name, count(sp.Runs), number(sp.Mean), interval(sp.Low, sp.High), number(sp.Std), percent(sp.CV), number(sp.Min), number(sp.Max)})
		}
		out = append(out, l)
	}
	return out
}
