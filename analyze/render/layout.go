package render

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/schemas"
)

// Sections of a document, in the order of the report.
const (
	Answers       = "answers"
	Compared      = "compared"
	Runs          = "runs"
	Figures       = "figures"
	Groups        = "groups"
	Configuration = "configuration"
)

// New lays a result out. What was asked comes first: a gate that failed must not stand below a green verdict.
func New(res *analyze.Result) *Document {
	res = Named(res)
	d := &Document{Notices: res.Heading}
	if len(d.Notices) == 0 && slices.ContainsFunc(res.Runs, func(r analyze.RunResult) bool { return r.Simulated }) {
		d.Notices = []string{"Run against parley's own simulated server, not a real one"}
	}
	add := func(tables ...Table) {
		for _, t := range tables {
			if !t.empty() {
				d.Tables = append(d.Tables, t)
			}
		}
	}
	if len(res.Gates) > 0 {
		add(gates(res))
	}
	for i := range res.Plans {
		add(plan(res, &res.Plans[i], i)...)
	}
	for i, c := range res.Comparisons {
		add(comparison(c, i)...)
	}
	each := len(d.Tables)
	if len(res.Runs) == 1 {
		add(overview(res, &res.Runs[0]))
	} else {
		add(verdicts(res.Runs))
	}
	if s := res.Sweep; s != nil && len(s.Rows) > 1 {
		add(sweep(res)...)
	}
	window := windows(res.Runs)
	add(latencies(res, false), latencies(res, true))
	add(metricTables("rates", "In the window", rateMetrics(res), window)...)
	all := window
	if slices.ContainsFunc(res.Runs, func(r analyze.RunResult) bool { return len(r.Phases) > 0 }) {
		all = phases(res.Runs)
	}
	add(metricTables("turns", "Turns", turnMetrics(all), all)...)
	add(failures(window))
	for i := range res.Runs {
		r := &res.Runs[i]
		if len(r.Phases) > 0 {
			t := groups(r, r.Phases, of(res, r, "Phases, over the whole run"))
			t.Detail = true
			add(t)
		}
		if len(r.Groups) > 0 {
			t := groups(r, r.Groups, of(res, r, "By "+strings.Join(res.By, " and ")))
			t.ID = fmt.Sprintf("groups-%d", i)
			add(t)
		} else if len(r.CacheTurns) > 1 {
			add(cache(res, r))
		}
	}
	for i := range res.Runs {
		add(facts(res, &res.Runs[i]))
	}
	if len(res.Plans) > 0 { // what the runs say together is above; each by itself is detail
		for i := each; i < len(d.Tables); i++ {
			d.Tables[i].Detail = true
		}
	}
	add(warnings(res))
	d.clean()
	return d
}

// Named gives runs of one label names that tell them apart: those of their files, or else numbers.
func Named(res *analyze.Result) *analyze.Result {
	byLabel := map[string]int{}
	for i := range res.Runs {
		byLabel[res.Runs[i].Label]++
	}
	if len(byLabel) == len(res.Runs) {
		return res
	}
	out := *res
	out.Runs = slices.Clone(res.Runs)
	seen := map[string]bool{}
	for i := range out.Runs {
		r := &out.Runs[i]
		if byLabel[r.Label] > 1 && len(r.Files) > 0 {
			r.Label = strings.TrimSuffix(filepath.Base(r.Files[0]), ".parquet")
		}
		for base, n := r.Label, 2; seen[r.Label]; n++ {
			r.Label = fmt.Sprintf("%s (%d)", base, n)
		}
		seen[r.Label] = true
	}
	return &out
}

// of is a title, with the run's name where there are several.
func of(res *analyze.Result, r *analyze.RunResult, title string) string {
	if len(res.Runs) == 1 {
		return title
	}
	return r.Label + ": " + title
}

func gradeMark(g schemas.Grade) Mark {
	switch g {
	case schemas.Valid:
		return Good
	case schemas.Suspect:
		return Warn
	}
	return Bad
}

// overview is the answer of one run: how far to trust it, and its main figures.
func overview(res *analyze.Result, r *analyze.RunResult) Table {
	c := &r.Total.Counts
	t := Table{
		ID: "overview", Section: Answers, Title: r.Label, Answer: string(r.Verdict.Grade), Mark: gradeMark(r.Verdict.Grade),
		Say: fmt.Sprintf("%s of %s, %s", Counted(c.Sent, "turn"), Counted(c.Conversations, "conversation"), windowText(r)),
	}
	for _, why := range r.Verdict.Reasons {
		t.Points = append(t.Points, Point{string(why.Grade), gradeMark(why.Grade), sentence(why.Text), sentence(why.Advice)})
	}
	t.keys("")
	t.numbers("mean")
	for _, p := range res.Percentiles {
		t.numbers(percentName(p))
	}
	t.Columns = append(t.Columns, Column{Text: true})
	for i := range r.Total.Figures {
		if f := &r.Total.Figures[i]; headline(f.Name) && f.N > 0 {
			row := []Cell{words(f.Title), number(f.Mean)}
			for j := range f.Percentiles {
				row = append(row, percentile(&f.Percentiles[j]))
			}
			t.add(append(row, words(f.Unit))...)
		}
	}
	t.Facts = mainFacts(res, r)
	add := func(notes ...string) {
		if text := strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "   "); text != "" {
			t.Notes = append(t.Notes, text)
		}
	}
	if r.Ended != "complete" && r.Ended != "" {
		add("ended: " + r.Ended)
	}
	for _, f := range kindsOf(&r.Total) {
		add(f.name + ": " + f.list())
	}
	if n := c.Censored; n > 0 {
		add(Counted(n, "turn") + " still in flight when the run stopped: no latency of theirs is known")
	}
	add(leftOut(&r.Window), unsure(&r.Total))
	return t
}

// mainFacts are the figures of a run in two or three lines.
func mainFacts(res *analyze.Result, r *analyze.RunResult) [][]Fact {
	with := func(v analyze.Num, show func(analyze.Num) string, unit string) Cell {
		c := numberCell(v, show)
		c.Unit = unit
		return c
	}
	x, g := &r.Total.Throughput, &r.Total
	lines := [][]Fact{{
		{Name: "Output", Cell: bounded(with(x.CompletionTokens, Number, "tokens/s"), x.CompletionLow, x.CompletionHigh, Number)},
		{Name: "Turns", Cell: bounded(with(x.Requests, Number, "turns/s"), x.RequestsLow, x.RequestsHigh, Number)},
		{Name: "In flight", Cell: with(x.MeanInFlight, Number, "in flight")},
		{Name: "Speed", Cell: with(x.TokensPerUser, Number, "tokens/s per user")},
		{Name: "Output per GPU", Cell: with(perGPU(res, x.CompletionTokens), Number, "tokens/s per GPU")},
	}, {
		{Name: "errors", Cell: share(g.Counts.ErrorRate)},
	}}
	add := func(f Fact) { lines[1] = append(lines[1], f) }
	if g.Goodput != nil {
		add(Fact{Name: "goodput", Cell: share(g.Goodput.Share)})
	}
	reuse := Fact{Name: "cache reuse", Cell: reuse(&g.Tokens)}
	if g.Tokens.CacheCeiling.Known() {
		reuse.After = "of " + Share(g.Tokens.CacheCeiling) + " possible"
	}
	add(reuse)
	if j := r.Jobs; j != nil {
		lines = append(lines, []Fact{
			{Name: "jobs", Cell: with(j.PerHour, Number, "jobs/h")},
			{Name: "a job", Cell: numberCell(j.Time.Mean/1000, Duration), After: "on average"},
		})
	}
	for i := range lines {
		lines[i] = slices.DeleteFunc(lines[i], func(f Fact) bool { return f.Cell.Mark == Absent })
	}
	return lines
}

// perGPU divides by the GPUs of the server, if they are known.
func perGPU(res *analyze.Result, v analyze.Num) analyze.Num {
	if res.Sweep == nil || res.Sweep.GPUs == 0 {
		return analyze.Missing
	}
	return v / analyze.Num(res.Sweep.GPUs)
}

// windowText says what part of a run its figures cover.
func windowText(r *analyze.RunResult) string {
	w := &r.Window
	if !w.From.Known() || !w.To.Known() || !r.Duration.Known() {
		return w.How
	}
	at := func(n analyze.Num) string {
		if n < 120 {
			return fmt.Sprintf("%.1f s", n)
		}
		return Duration(n)
	}
	return fmt.Sprintf("%s to %s of %s", at(w.From), at(w.To), at(max(r.Duration, w.To)))
}

// leftOut says how many turns the figures do not cover.
func leftOut(w *analyze.Window) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		text string
	}{{w.Before, "before the window"}, {w.After, "after it"}, {w.Other, "of other turn indexes or between its stretches"}} {
		if p.n > 0 {
			parts = append(parts, Counted(p.n, "turn")+" "+p.text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + " left out"
}

// unsure explains the mark of percentiles that the sample does not carry.
func unsure(g *analyze.Group) string {
	for i := range g.Figures {
		for _, p := range g.Figures[i].Percentiles {
			if g.Figures[i].N > 0 && !p.Carried {
				return "~: too short to be sure"
			}
		}
	}
	return ""
}

// verdicts is the answer of several runs: each reason once, with the runs that it holds for.
func verdicts(runs []analyze.RunResult) Table {
	t := Table{ID: "overview", Section: Answers, Title: Counted(int64(len(runs)), "run")}
	counts := map[schemas.Grade]int64{}
	type reason struct {
		point  *Point
		labels []string
		texts  []string
	}
	bySignal := map[string]*reason{}
	var reasons []*reason
	for i := range runs {
		r := &runs[i]
		counts[r.Verdict.Grade]++
		for _, why := range r.Verdict.Reasons {
			key := string(why.Grade) + why.Signal + why.Advice
			x := bySignal[key]
			if x == nil {
				x = &reason{point: &Point{Word: string(why.Grade), Mark: gradeMark(why.Grade), Advice: sentence(why.Advice)}}
				bySignal[key], reasons = x, append(reasons, x)
			}
			x.labels, x.texts = append(x.labels, r.Label), append(x.texts, why.Text)
		}
	}
	for _, x := range reasons {
		x.point.Text = strings.Join(x.labels, ", ") + ": " + x.texts[0] + "."
		if len(slices.Compact(slices.Clone(x.texts))) > 1 {
			x.point.Text = strings.Join(x.labels, ", ") + ", such as " + x.labels[0] + ": " + x.texts[0] + "."
		}
		t.Points = append(t.Points, *x.point)
	}
	slices.SortStableFunc(t.Points, func(a, b Point) int { return cmp.Compare(a.Word, b.Word) }) // INVALID, SUSPECT
	var say []string
	for _, g := range []schemas.Grade{schemas.Invalid, schemas.Suspect, schemas.Valid} {
		if counts[g] == 0 {
			continue
		}
		if t.Mark == "" {
			t.Mark = gradeMark(g)
		}
		say = append(say, fmt.Sprintf("%d %s", counts[g], g))
	}
	t.Answer = strings.Join(say, ", ")
	return t
}

func gates(res *analyze.Result) Table {
	outcome := res.GatesOutcome()
	t := Table{ID: "gates", Section: Answers, Title: "Gates", Answer: strings.ToUpper(string(outcome)), Mark: outcomeMark(outcome)}
	t.keys("gate")
	several := slices.ContainsFunc(res.Gates, func(g compare.Gate) bool { return g.Of != res.Gates[0].Of })
	if several {
		t.keys("runs")
	}
	t.keys("outcome", "what was found")
	t.Keys = 1
	counts := map[compare.Outcome]int{}
	for _, g := range res.Gates {
		counts[g.Outcome]++
		row := []Cell{words(g.Expression)}
		if several {
			row = append(row, words(g.Of))
		}
		word := string(g.Outcome)
		if g.Outcome != compare.Held {
			word = strings.ToUpper(word)
		}
		found := words(g.Text)
		found.Value, found.Low, found.High = analyze.Missing, g.Low, g.High
		t.add(append(row, Cell{Text: word, Value: analyze.Missing, Mark: outcomeMark(g.Outcome)}, found)...)
	}
	t.Say = fmt.Sprintf("%d held, %d failed, %d undecided", counts[compare.Held], counts[compare.Failed], counts[compare.Undecided])
	return t
}

func outcomeMark(o compare.Outcome) Mark {
	return map[compare.Outcome]Mark{compare.Held: Good, compare.Failed: Bad, compare.Undecided: Warn}[o]
}

// comparison is the answer of a comparison with its figures, and what changed in the configuration.
func comparison(c *compare.Comparison, place int) []Table {
	t := Table{ID: fmt.Sprintf("comparison-%d", place), Section: Compared, Title: c.Candidate + " against " + c.Baseline, Answer: c.Headline(), Mark: Warn, Say: sentence(c.Why)}
	switch {
	case c.Bad() && !c.Faster:
		t.Mark = Bad
	case c.Tested && !c.Bad():
		t.Mark = Good
	}
	if c.Level != "" {
		t.Title = c.Level + ": " + t.Title
	}
	t.keys("")
	t.Columns = append(t.Columns, Column{Name: "baseline"}, Column{Name: "candidate"}, Column{Name: "change", Bound: "95 % interval"}, Column{Name: "p", Detail: true}, Column{Text: true})
	for i := range c.Rows {
		d := &c.Rows[i]
		_, statistic, _ := strings.Cut(d.Name, ".")
		detail := (statistic == "mean" || statistic == "p90") && !d.Changed && !d.Alone && d.Name != c.Primary
		name := d.Title
		base, cand := number(d.Baseline), number(d.Candidate)
		change := bounded(numberCell(d.Ratio, Change), d.RatioLow, d.RatioHigh, Change)
		switch d.Unit {
		case "share": // a change in percent of a percentage misleads
			base, cand = share(d.Baseline), share(d.Candidate)
			change = bounded(numberCell(d.Diff, Points), d.DiffLow, d.DiffHigh, Points)
			change.Bound = strings.TrimSuffix(change.Bound, " points") // the change says it
		case "ratio":
			base, cand = words(""), words("")
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{words(name), base, cand, change, numberCell(d.P, chance), found(c, d)}, Detail: detail})
	}
	t.Notes = append(t.Notes, "Latencies in ms")
	if c.Tested && c.Common > 0 {
		who := "all runs"
		if c.Paired {
			who = "both runs of a pair"
		}
		t.Notes[0] = fmt.Sprintf("Latencies in ms, over the turns that %s completed (at least %s, of up to %s)", who, Count(c.Common), Count(c.Most))
	}
	if c.Tested {
		t.Notes = append(t.Notes, fmt.Sprintf("WORSE and BETTER: beyond chance, of all %s together (5 %%, Holm); worse and better: taken alone", Counted(int64(c.TestedRows()), "figure")))
	} else {
		t.Notes = append(t.Notes, "Intervals come from within the two runs: how runs vary is not in them, and nothing is tested")
	}
	for _, n := range c.Notes {
		t.Notes = append(t.Notes, sentence(n))
	}
	changes := Table{ID: fmt.Sprintf("changes-%d", place), Section: Compared, Title: "What changed in the configuration"}
	changes.keys("setting", "baseline", "candidate")
	changes.Keys = 1
	for _, x := range c.Config {
		changes.add(words(x.Setting), words(x.Baseline), words(x.Candidate))
	}
	return []Table{t, changes}
}

// found says what the test of a figure found.
func found(c *compare.Comparison, d *compare.Difference) Cell {
	word, mark := "better", Good
	if d.Worse {
		word, mark = "worse", Bad
	}
	switch {
	case !d.Tested && c.Tested:
		return Cell{Text: "not tested", Value: analyze.Missing, Mark: Absent}
	case d.Changed:
		return Cell{Text: strings.ToUpper(word), Value: analyze.Missing, Mark: mark}
	case d.Alone:
		return Cell{Text: word, Value: analyze.Missing}
	}
	return Cell{Value: analyze.Missing}
}

// chance prints a probability.
func chance(p analyze.Num) string {
	if p < 0.001 {
		return "<0.001"
	}
	return rounded(float64(p), 3)
}

func sweep(res *analyze.Result) []Table {
	w := res.Sweep
	t := Table{ID: "sweep", Section: Runs, Title: "Runs side by side"}
	t.keys("run", "verdict")
	t.Keys = 1
	var cells []func(*analyze.SweepRow) Cell
	column := func(name string, detail bool, get func(*analyze.SweepRow) Cell) {
		if slices.ContainsFunc(w.Rows, func(r analyze.SweepRow) bool { return get(&r).Mark != Absent }) {
			t.Columns, cells = append(t.Columns, Column{Name: name, Detail: detail}), append(cells, get)
		}
	}
	at := func(figure string, p float64) {
		column(strings.ToUpper(figure)+" "+percentName(p), figure == "e2e", func(r *analyze.SweepRow) Cell {
			if f := res.Runs[r.Run].Total.Figure(figure); f != nil && f.N > 0 {
				return percentile(f.Percentile(p))
			}
			return words("")
		})
	}
	given := func(n analyze.Num) string { return Given(float64(n)) }
	column("at once", false, func(r *analyze.SweepRow) Cell { return numberCell(r.Concurrency, given) })
	column("started/s", false, func(r *analyze.SweepRow) Cell { return numberCell(r.Rate, given) })
	column("turns/s", true, func(r *analyze.SweepRow) Cell { return number(r.Requests) })
	column("output tokens/s", false, func(r *analyze.SweepRow) Cell { return number(r.OutputTokens) })
	column("all tokens/s", true, func(r *analyze.SweepRow) Cell { return number(r.TotalTokens) })
	column("tokens/s per user", false, func(r *analyze.SweepRow) Cell { return number(r.PerUser) })
	column("output tokens/s per GPU", false, func(r *analyze.SweepRow) Cell { return number(r.OutputPerGPU) })
	column("all tokens/s per GPU", true, func(r *analyze.SweepRow) Cell { return number(r.PerGPU) })
	at("ttft", 50)
	at("ttft", 99)
	at("tpot", 50)
	at("e2e", 50)
	column("errors", false, func(r *analyze.SweepRow) Cell { return share(r.ErrorRate) })
	column("goodput", false, func(r *analyze.SweepRow) Cell { return share(r.GoodputShare) })
	for i := range w.Rows {
		r := &w.Rows[i]
		name := words(res.Runs[r.Run].Label)
		if r.Pareto && len(w.Rows) > 1 {
			name.Text += " *"
		}
		row := []Cell{name, {Text: string(r.Grade), Value: analyze.Missing, Mark: gradeMark(r.Grade)}}
		for _, c := range cells {
			row = append(row, c(r))
		}
		t.add(row...)
	}
	t.Notes = append(t.Notes, "Latencies in ms; *: no other run has both more output tokens/s and more per user")
	if w.GPUs > 0 {
		t.Notes = append(t.Notes, "Per GPU: divided by "+Given(w.GPUs))
	}
	spread := Table{ID: "spread", Section: Runs, Title: "Spread over runs of one label", Detail: true}
	spread.keys("label", "figure")
	spread.numbers("runs", "mean", "std", "std/mean", "min", "max")
	spread.Columns[3].Bound = "95 % interval"
	for _, x := range w.Labels {
		show := Number
		if x.Unit == "share" {
			show = Share
		}
		spread.add(words(x.Label), words(x.Name), count(x.Runs), bounded(numberCell(x.Mean, show), x.Low, x.High, show),
			numberCell(x.Std, show), share(x.CV), numberCell(x.Min, show), numberCell(x.Max, show))
	}
	return []Table{t, spread}
}

func warnings(res *analyze.Result) Table {
	t := Table{ID: "warnings", Section: Answers, Title: "What the analysis noticed"}
	for _, w := range res.Warnings {
		t.Notes = append(t.Notes, sentence(w.Text))
	}
	said := map[string]int{} // of what several runs say, once
	for i := range res.Runs {
		for _, w := range res.Runs[i].Warnings {
			text := sentence(w.Text)
			at, ok := said[text]
			switch label := res.Runs[i].Label; {
			case len(res.Runs) == 1:
				t.Notes = append(t.Notes, text)
			case !ok:
				said[text] = len(t.Notes)
				t.Notes = append(t.Notes, label+": "+text)
			default:
				t.Notes[at] = label + ", " + t.Notes[at]
			}
		}
	}
	return t
}
