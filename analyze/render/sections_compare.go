package render

import (
	"fmt"
	"strings"

	"parley/analyze"
	"parley/analyze/compare"
)

func comparisonSections(c *compare.Comparison) []section {
	s := section{
		title: fmt.Sprintf("%s against %s", clean(c.Candidate), clean(c.Baseline)), left: 1,
		header: []string{"", "baseline", "candidate", "change", "95 % interval", ""},
	}
	if c.Level != "" {
		s.title = clean(c.Level) + ": " + s.title
	}
	s.title += ": " + clean(c.Headline())
	s.before = append(s.before, sentence(clean(c.Why)))
	if c.Tested && c.Common > 0 {
		of := "all runs"
		if c.Paired {
			of = "both runs of a pair"
		}
		s.before = append(s.before, fmt.Sprintf("Latencies over the turns that %s completed (at least %s, of up to %s)", of, count(c.Common), count(c.Most)))
	}
	for i := range c.Rows {
		d := &c.Rows[i]
		base, cand, moved, between := differenceCells(d)
		s.rows = append(s.rows, []string{clean(d.Title), base, cand, moved, between, mark(c, d)})
	}
	if c.Tested {
		s.after = append(s.after, fmt.Sprintf("WORSE and BETTER: beyond chance, of all %d figures together (5 %%, Holm); worse and better: taken alone", c.TestedRows()))
	} else {
		s.after = append(s.after, "Intervals come from within the two runs: how runs vary is not in them, and nothing is tested")
	}
	for _, n := range c.Notes {
		s.after = append(s.after, sentence(clean(n)))
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

// differenceCells prints a difference: of shares in percentage points, for a change in percent of a percentage
// misleads.
func differenceCells(d *compare.Difference) (base, cand, moved, between string) {
	between = none
	switch {
	case d.Unit == "share":
		base, cand, moved = percent(d.Baseline), percent(d.Candidate), points(d.Diff)
	case d.Unit == "ratio":
		base, cand, moved = none, none, change(d.Ratio)
	default:
		base, cand, moved = number(d.Baseline), number(d.Candidate), change(d.Ratio)
	}
	switch {
	case d.RatioLow.Known() && d.RatioHigh.Known():
		between = change(d.RatioLow) + " to " + change(d.RatioHigh)
	case d.DiffLow.Known() && d.DiffHigh.Known() && d.Unit == "share":
		between = points(d.DiffLow) + " to " + points(d.DiffHigh)
	}
	return base, cand, moved, between
}

// mark says what a test found.
func mark(c *compare.Comparison, d *compare.Difference) string {
	word := "better"
	if d.Worse {
		word = "worse"
	}
	switch {
	case !d.Tested && c.Tested:
		return "not tested"
	case d.Changed:
		return strings.ToUpper(word)
	case d.Alone:
		return word
	}
	return ""
}

func points(v analyze.Num) string {
	if !v.Known() {
		return none
	}
	return fmt.Sprintf("%+.2f points", float64(v)*100)
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

func gateSection(res *analyze.Result) section {
	s := section{title: "Gates: " + strings.ToUpper(string(res.GatesOutcome())), left: 3, header: []string{"gate", "", "what was found"}}
	of := map[string]bool{}
	for _, g := range res.Gates {
		of[g.Of] = true
	}
	for _, g := range res.Gates {
		text := clean(g.Text)
		if len(of) > 1 {
			text = clean(g.Of) + ": " + text
		}
		outcome := string(g.Outcome)
		if g.Outcome != compare.Held {
			outcome = strings.ToUpper(outcome)
		}
		s.rows = append(s.rows, []string{clean(g.Expression), outcome, text})
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
