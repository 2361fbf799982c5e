package report

import (
	"fmt"
	"sort"
	"strings"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/schemas"
)

// summary makes the tables of the whole window: latencies, throughput, turns by status, tokens, objectives.
func summary(r *analyze.Result) []table {
	var out []table
	for _, t := range []*table{latencies(r, true), throughputs(r), objectives(r), statuses(r), failures(r), tokens(r), latencies(r, false)} {
		if t != nil && !t.empty() {
			out = append(out, *t)
		}
	}
	return out
}

// headline are the figures of the first table; the others stand in one of their own, folded.
var headline = map[string]bool{"ttft": true, "tpot": true, "itl": true, "chunk_gap": true, "e2e": true, "send_lag": true}

func latencies(r *analyze.Result, main bool) *table {
	t := &table{ID: "latency", Title: "Latency"}
	if !main {
		t = &table{ID: "further", Title: "Further figures", Fold: true}
	}
	t.Head = append(heads(1, "Figure"), cell{Text: "n"}, rangeHead("mean"))
	for _, p := range r.Percentiles {
		t.Head = append(t.Head, rangeHead("p"+number(p)))
	}
	t.Head = append(t.Head, cell{Text: "max"})
	populations := map[string][]string{}
	var order []string
	for i := range r.Runs {
		run := &r.Runs[i]
		b := body{}
		if len(r.Runs) > 1 {
			b.Title = run.Label
		}
		for j := range run.Total.Figures {
			f := &run.Total.Figures[j]
			if f.N == 0 || headline[f.Name] != main {
				continue
			}
			b.Rows = append(b.Rows, figureRow(r.Percentiles, f))
			if len(f.FailureAware) > 0 {
				b.Rows = append(b.Rows, failureRow(r.Percentiles, f))
			}
			if i == 0 {
				if _, seen := populations[f.Population]; !seen {
					order = append(order, f.Population)
				}
				populations[f.Population] = append(populations[f.Population], f.Title)
			}
		}
		t.Bodies = append(t.Bodies, b)
	}
	if main && len(r.Runs) == 1 {
		t.Note = windowNote(&r.Runs[0])
	}
	for _, p := range order {
		if p != "" {
			t.Notes = append(t.Notes, strings.Join(populations[p], "; ")+": "+p+".")
		}
	}
	return t
}

func windowNote(run *analyze.RunResult) string {
	text := run.Window.How
	if text == "" && known(run.Window.From, run.Window.To) {
		text = fmt.Sprintf("Turns sent from %s s to %s s.", number(float64(run.Window.From)), number(float64(run.Window.To)))
	}
	return sentence(text)
}

func figureName(f *analyze.Figure) string { return f.Title + " (" + f.Unit + ")" }

func figureRow(percentiles []float64, f *analyze.Figure) []cell {
	row := []cell{rowHead(figureName(f)), countCell(f.N), rangeCell(f.Mean, f.MeanLow, f.MeanHigh, number)}
	for _, p := range percentiles {
		row = append(row, percentileCell(f.Percentile(p)))
	}
	return append(row, numCell(f.Max))
}

func failureRow(percentiles []float64, f *analyze.Figure) []cell {
	row := []cell{rowHead(f.Title + ", failures as " + infinity + " (" + f.Unit + ")"), blank(1), blank(3)}
	for _, p := range percentiles {
		row = append(row, percentileCell(percentileOf(f.FailureAware, p)))
	}
	return append(row, blank(1))
}

func percentileOf(list []analyze.Percentile, p float64) *analyze.Percentile {
	for i := range list {
		if list[i].P == p {
			return &list[i]
		}
	}
	return nil
}

// population is one row of the tables that show runs and phases.
type population struct {
	name  string
	group *analyze.Group
}

// populations lists each run's window, and its phases where there are several.
func populations(r *analyze.Result, phases bool) []population {
	var out []population
	for i := range r.Runs {
		run := &r.Runs[i]
		name := "In the window"
		if len(r.Runs) > 1 {
			name = run.Label
		}
		out = append(out, population{name, &run.Total})
		if !phases {
			continue
		}
		for j := range run.Phases {
			g := &run.Phases[j]
			out = append(out, population{prefixed(r, run, "phase "+groupName(g)), g})
		}
	}
	return out
}

func groupName(g *analyze.Group) string {
	parts := make([]string, len(g.Keys))
	for i, k := range g.Keys {
		parts[i] = k.Value
	}
	return strings.Join(parts, ", ")
}

func throughputs(r *analyze.Result) *table {
	t := &table{ID: "throughput", Title: "Throughput", Note: "Of completed turns, per second of the window."}
	t.Head = heads(1, "Population", "Seconds", "Turns/s", "Output tokens/s", "Prompt tokens/s", "Cached tokens/s", "All tokens/s",
		"Tokens/s per user", "Best second, tokens", "In flight, mean", "In flight, peak", "Conversations, peak")
	for _, p := range populations(r, false) {
		x := p.group.Throughput
		t.add([]cell{
			rowHead(p.name), secondsCell(x.Seconds), numCell(x.Requests), numCell(x.CompletionTokens), numCell(x.PromptTokens),
			numCell(x.CachedTokens), numCell(x.TotalTokens), numCell(x.TokensPerUser), numCell(x.PeakTokenRate),
			numCell(x.MeanInFlight), countCell(x.PeakInFlight), countCell(x.PeakActive),
		})
	}
	return t
}

func statuses(r *analyze.Result) *table {
	all := populations(r, true)
	var shown []schemas.Status
	for _, s := range schemas.Statuses {
		for _, p := range all {
			if s == schemas.StatusOK || p.group.Counts.ByStatus[s] > 0 {
				shown = append(shown, s)
				break
			}
		}
	}
	t := &table{ID: "statuses", Title: "Turns by status", Note: "Every planned turn is a row, whatever happened to it."}
	names := []string{"Population", "Planned", "Sent"}
	for _, s := range shown {
		names = append(names, string(s))
	}
	t.Head = heads(1, append(names, "Error rate", "Retried", "In flight at the end", "Conversations")...)
	for _, p := range all {
		c := p.group.Counts
		row := []cell{rowHead(p.name), countCell(c.Planned), countCell(c.Sent)}
		for _, s := range shown {
			row = append(row, countCell(c.ByStatus[s]))
		}
		t.add(append(row, shareCell(c.ErrorRate), countCell(c.Retried), countCell(c.InFlightAtEnd), countCell(c.Conversations)))
	}
	return t
}

func failures(r *analyze.Result) *table {
	t := &table{ID: "failures", Title: "Failures by kind"}
	several := len(r.Runs) > 1
	if several {
		t.Head = heads(1, "Run")
	}
	t.Head = append(t.Head, heads(1, "Kind", "Turns")...)
	for _, p := range populations(r, false) {
		kinds := p.group.Counts.ErrorKinds
		names := make([]string, 0, len(kinds))
		for k := range kinds {
			names = append(names, k)
		}
		sort.Slice(names, func(i, j int) bool {
			if kinds[names[i]] != kinds[names[j]] {
				return kinds[names[i]] > kinds[names[j]]
			}
			return names[i] < names[j]
		})
		for _, k := range names {
			var row []cell
			if several {
				row = append(row, rowHead(p.name))
			}
			t.add(append(row, wrapCell(k), countCell(kinds[k])))
		}
	}
	return t
}

func tokens(r *analyze.Result) *table {
	t := &table{ID: "tokens", Title: "Tokens", Note: "Of completed turns. Reuse is the share of prompt tokens from the server's prefix cache; the ceiling is that of an infinite one."}
	t.Head = heads(1, "Population", "Prompt", "Prompt, mean", "Cached", "Reuse", "Ceiling", "Output", "Output, mean", "Reasoning", "Asked for", "Of these, got")
	for _, p := range populations(r, false) {
		x := p.group.Tokens
		asked, got := blank(1), blank(1)
		if x.Asked > 0 {
			asked, got = countCell(x.Asked), countCell(x.AskedGot)
		}
		t.add([]cell{
			rowHead(p.name), numCell(x.Prompt), numCell(x.MeanPrompt), numCell(x.Cached), shareCell(x.CacheReuse),
			shareCell(x.CacheCeiling), numCell(x.Completion), numCell(x.MeanOutput), numCell(x.Reasoning), asked, got,
		})
	}
	return t
}

func objectives(r *analyze.Result) *table {
	t := &table{ID: "objectives", Title: "Objectives"}
	var list []string
	for _, o := range r.Objectives {
		list = append(list, fmt.Sprintf("%s up to %s ms", strings.ToUpper(o.Figure), number(o.Limit)))
	}
	t.Note = "Goodput counts turns that met every objective: " + strings.Join(list, ", ") + "."
	t.Head = heads(1, "Population", "Good turns", "Of", "Share", "Good turns/s", "Good tokens/s", "Tokens in time", "Turns with 9 in 10 in time")
	for _, p := range populations(r, false) {
		g, f := p.group.Goodput, p.group.Fluidity
		if g == nil {
			continue
		}
		row := []cell{rowHead(p.name), countCell(g.Good), countCell(g.Of), shareCell(g.Share), numCell(g.Requests), numCell(g.Tokens)}
		if f != nil {
			row = append(row, shareCell(f.Share), shareCell(f.Good))
		} else {
			row = append(row, blank(1), blank(1))
		}
		t.add(row)
	}
	return t
}

// groups makes one table per run of the groups that were asked for.
func groups(r *analyze.Result) []table {
	var out []table
	for i := range r.Runs {
		run := &r.Runs[i]
		if len(run.Groups) == 0 {
			continue
		}
		t := table{ID: fmt.Sprintf("groups-%d", i), Title: prefixed(r, run, "By "+strings.Join(r.By, ", ")), Note: "Small figures are intervals."}
		t.Head = heads(len(r.By), r.By...)
		t.Head = append(t.Head, heads(0, "Turns", "Completed", "Error rate")...)
		columns := groupColumns(r, run)
		for _, c := range columns {
			t.Head = append(t.Head, rangeHead(c.title))
		}
		t.Head = append(t.Head, heads(0, "Prompt, mean", "Output, mean", "Reuse", "Output tokens/s")...)
		for j := range run.Groups {
			g := &run.Groups[j]
			var row []cell
			for k := range r.By {
				text := ""
				if k < len(g.Keys) {
					text = g.Keys[k].Value
				}
				row = append(row, rowHead(text))
			}
			row = append(row, countCell(g.Counts.Planned), countCell(g.Counts.OK), shareCell(g.Counts.ErrorRate))
			for _, c := range columns {
				if f := g.Figure(c.figure); f != nil {
					row = append(row, percentileCell(f.Percentile(c.p)))
				} else {
					row = append(row, blank(3))
				}
			}
			row = append(row, numCell(g.Tokens.MeanPrompt), numCell(g.Tokens.MeanOutput), shareCell(g.Tokens.CacheReuse), numCell(g.Throughput.CompletionTokens))
			t.add(row)
		}
		out = append(out, t)
	}
	return out
}

type groupColumn struct {
	figure string
	p      float64
	title  string
}

// groupColumns picks the percentiles that a table of groups has room for: the lowest asked for, and the
// highest that any group carries.
func groupColumns(r *analyze.Result, run *analyze.RunResult) []groupColumn {
	var out []groupColumn
	for _, name := range []string{"ttft", "tpot", "itl", "e2e"} {
		title, unit := "", ""
		var carried []float64
		for _, p := range r.Percentiles {
			for j := range run.Groups {
				f := run.Groups[j].Figure(name)
				if f == nil {
					continue
				}
				title, unit = f.Title, f.Unit
				if x := f.Percentile(p); x != nil && x.Value.Known() {
					carried = append(carried, p)
					break
				}
			}
		}
		for k, p := range carried {
			if k == 0 || k == len(carried)-1 {
				out = append(out, groupColumn{name, p, fmt.Sprintf("%s p%s (%s)", title, number(p), unit)})
			}
		}
	}
	return out
}

func comparison(c *compare.Comparison, place int) []table {
	t := table{ID: "comparison", Title: c.Candidate + " against " + c.Baseline}
	t.Note = sentence(c.Why)
	if c.Tested && c.Common > 0 {
		of := "all runs"
		if c.Paired {
			of = "both runs of a pair"
		}
		t.Note += fmt.Sprintf(" Latencies are over the turns that %s completed: at least %s, of up to %s.", of, count(c.Common), count(c.Most))
	}
	t.Head = append(heads(1, "Figure"), cell{Text: "Baseline"}, cell{Text: "Candidate"}, rangeHead("Difference"), rangeHead("Relative"),
		cell{Text: "p"}, cell{Text: "Change", Class: "text"})
	for i := range c.Rows {
		d := &c.Rows[i]
		relative := func(ratio float64) string {
			return signed(percent(ratio), ratio)
		}
		difference := func(v float64) string { return signed(number(v), v) }
		name := d.Title
		if d.Unit != "" {
			name += " (" + d.Unit + ")"
		}
		t.add([]cell{
			rowHead(name), numCell(d.Baseline), numCell(d.Candidate), rangeCell(d.Diff, d.DiffLow, d.DiffHigh, difference),
			rangeCell(d.Ratio-1, d.RatioLow-1, d.RatioHigh-1, relative), valueCell(float64(d.P), chance), changeCell(d),
		})
	}
	if c.Tested {
		t.Notes = append(t.Notes, fmt.Sprintf("A change is beyond chance if it is so of all %d figures together (5 %%, Holm's correction); alone: if it were the only figure.", c.TestedRows()))
	} else {
		t.Notes = append(t.Notes, "Intervals come from within the two runs: how runs vary is not in them, and nothing is tested.")
	}
	for _, n := range c.Notes {
		t.Notes = append(t.Notes, sentence(n))
	}
	if c.Level != "" {
		t.ID, t.Title = fmt.Sprintf("comparison-%d", place), c.Level+": "+t.Title
	}
	out := []table{t}
	if len(c.Config) > 0 {
		k := table{ID: strings.Replace(t.ID, "comparison", "changes", 1), Title: "What changed in the configuration", Head: heads(3, "Setting", "Baseline", "Candidate")}
		for _, x := range c.Config {
			k.add([]cell{rowHead(x.Setting), wrapCell(x.Baseline), wrapCell(x.Candidate)})
		}
		out = append(out, k)
	}
	return out
}

// changeCell says what the test of a figure found.
func changeCell(d *compare.Difference) cell {
	word := "better"
	if d.Worse {
		word = "worse"
	}
	switch {
	case !d.Tested:
		return cell{Text: "not tested", Class: "text none", CSV: "not tested"}
	case d.Changed:
		return cell{Text: word, Class: "text " + word}
	case d.Alone:
		return cell{Text: word + ", alone", Class: "text"}
	}
	return cell{Text: "within chance", Class: "text none", CSV: "within chance"}
}

// chance prints a probability.
func chance(p float64) string {
	if p >= 0 && p < 0.001 {
		return "< 0.001"
	}
	return number(p)
}

func sweep(s *analyze.Sweep) []table {
	if s == nil || len(s.Rows) == 0 {
		return nil
	}
	t := table{ID: "sweep-table", Title: "Runs side by side", Head: heads(2, "Run", "Verdict", "Concurrency", "Offered/s", "Turns/s", "Output tokens/s",
		"All tokens/s", "Tokens/s per user", "TTFT p50 (ms)", "TTFT p99 (ms)", "TPOT p50 (ms)", "E2E p50 (ms)", "Error rate", "Objectives met")}
	if s.GPUs > 0 {
		t.Head = append(t.Head, heads(0, "Output tokens/s per GPU", "All tokens/s per GPU")...)
		t.Note = "Per GPU: divided by " + number(s.GPUs) + "."
	}
	for _, x := range s.Rows {
		name := rowHead(x.Label)
		if x.Pareto {
			name.Hint = "No other run has both more tokens per second and more per user."
		}
		row := []cell{
			name, {Text: string(x.Grade), Class: "text"}, numCell(x.Concurrency), numCell(x.Rate), numCell(x.Requests), numCell(x.OutputTokens),
			numCell(x.TotalTokens), numCell(x.PerUser), numCell(x.TTFTP50), numCell(x.TTFTP99), numCell(x.TPOTP50), numCell(x.E2EP50),
			shareCell(x.ErrorRate), shareCell(x.GoodputShare),
		}
		if s.GPUs > 0 {
			row = append(row, numCell(x.OutputPerGPU), numCell(x.PerGPU))
		}
		t.add(row)
	}
	out := []table{t}
	if len(s.Labels) > 0 {
		k := table{ID: "spread", Title: "Spread across runs of one label", Note: "Intervals of the mean by Student's t over runs."}
		k.Head = append(heads(2, "Label", "Figure", "Runs"), rangeHead("Mean"), cell{Text: "Std"}, cell{Text: "Std/mean"}, cell{Text: "Min"}, cell{Text: "Max"})
		for _, x := range s.Labels {
			k.add([]cell{
				rowHead(x.Label), textCell(x.Name + " (" + x.Unit + ")"), countCell(x.Runs), rangeCell(x.Mean, x.Low, x.High, number),
				numCell(x.Std), shareCell(x.CV), numCell(x.Min), numCell(x.Max),
			})
		}
		out = append(out, k)
	}
	return out
}
