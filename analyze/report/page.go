package report

import (
	"fmt"
	"html/template"
	"strings"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/schemas"
)

// page is what the template prints.
type page struct {
	Policy     string
	Script     template.JS
	Style      template.CSS
	ResultJSON template.JS
	PlotsJSON  template.JS

	Title      string
	Subtitle   string
	Heading    []string  // above the title: what a reader must know first
	Answers    []verdict // what was asked with a baseline or gates: the headline
	Verdicts   []verdict
	Fold       bool // the reasons of many verdicts are folded away
	Gates      *table
	Warnings   []string
	Tiles      []tile
	Comparison []table
	Sweep      []table
	Summary    []table
	Groups     []table
	Runs       []runFacts
	Terms      []term
	Tool       string
}

type verdict struct {
	Label   string // of the run, if there are several
	Word    string
	Class   string
	Text    string
	Reasons []reason
}

type reason struct{ Word, Class, Text, Advice string }

type tile struct{ Name, Value, Unit, Small string }

type runFacts struct {
	Label  string
	Cards  []factCard
	Config []fact
}

type factCard struct {
	Title string
	Facts []fact
}

type fact struct{ Name, Value string }

type term struct{ Name, Text string }

func newPage(r *analyze.Result) *page {
	p := &page{
		Title:    title(r),
		Subtitle: subtitle(r),
		Heading:  together(r, r.Heading),
		Answers:  answers(r),
		Gates:    gates(r.Gates),
		Tiles:    tiles(r),
		Terms:    terms(r),
		Tool:     r.ToolVersion,
	}
	if len(p.Heading) == 0 && anySimulated(r) {
		p.Heading = []string{"Run against parley's own simulated server, not a real one"}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		p.Verdicts = append(p.Verdicts, newVerdict(r, run))
		p.Runs = append(p.Runs, facts(r, run))
	}
	for _, w := range r.Warnings {
		p.Warnings = append(p.Warnings, sentence(w.Text))
	}
	for i := range r.Runs {
		for _, w := range r.Runs[i].Warnings {
			p.Warnings = append(p.Warnings, prefixed(r, &r.Runs[i], sentence(w.Text)))
		}
	}
	p.Fold = len(r.Runs) > 3
	p.Warnings = together(r, p.Warnings)
	for i, c := range r.Comparisons {
		p.Comparison = append(p.Comparison, comparison(c, i)...)
	}
	p.Sweep = sweep(r.Sweep)
	p.Summary = summary(r)
	p.Groups = groups(r)
	return p
}

func anySimulated(r *analyze.Result) bool {
	for i := range r.Runs {
		if r.Runs[i].Simulated {
			return true
		}
	}
	return false
}

func prefixed(r *analyze.Result, run *analyze.RunResult, text string) string {
	if len(r.Runs) > 1 {
		return run.Label + ": " + text
	}
	return text
}

// together says once what is said of several runs: "a: text" and "b: text" become "a, b: text", or only the
// text if it holds for all runs.
func together(r *analyze.Result, texts []string) []string {
	if len(r.Runs) < 2 {
		return texts
	}
	var order []string
	labels := map[string][]string{}
	for _, text := range texts {
		label, rest := "", text
		for i := range r.Runs {
			if after, ok := strings.CutPrefix(text, r.Runs[i].Label+": "); ok {
				label, rest = r.Runs[i].Label, after
				break
			}
		}
		if _, seen := labels[rest]; !seen {
			order = append(order, rest)
			labels[rest] = nil
		}
		if label != "" && !contains(labels[rest], label) {
			labels[rest] = append(labels[rest], label)
		}
	}
	out := make([]string, len(order))
	for i, rest := range order {
		out[i] = rest
		if n := len(labels[rest]); n > 0 && n < len(r.Runs) {
			out[i] = strings.Join(labels[rest], ", ") + ": " + rest
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
		if t.Model != "" && !contains(names, t.Model) {
			names = append(names, t.Model)
		}
	}
	if len(names) == 0 {
		for _, t := range run.Targets {
			if !contains(names, t.URL) {
				names = append(names, t.URL)
			}
		}
	}
	return strings.Join(names, ", ")
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func title(r *analyze.Result) string {
	if len(r.Comparisons) > 0 {
		c := r.Comparisons[0]
		return c.Candidate + " against " + c.Baseline
	}
	if len(r.Runs) == 1 {
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
	return fmt.Sprintf("%d runs side by side", len(r.Runs))
}

func subtitle(r *analyze.Result) string {
	if len(r.Runs) != 1 {
		labels := make([]string, len(r.Runs))
		for i := range r.Runs {
			labels[i] = r.Runs[i].Label
		}
		return strings.Join(labels, " \u00b7 ")
	}
	run := &r.Runs[0]
	var parts []string
	if run.Label != "" && run.Label != run.Dataset.File {
		parts = append(parts, run.Label)
	}
	if !run.Origin.IsZero() {
		parts = append(parts, run.Origin.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	if run.Duration.Known() {
		parts = append(parts, seconds(run.Duration))
	}
	c := run.Total.Counts
	parts = append(parts, count(c.Planned)+" turns of "+count(c.Conversations)+" conversations in the window")
	return strings.Join(parts, " \u00b7 ")
}

func gradeClass(g schemas.Grade) string {
	switch g {
	case schemas.Valid:
		return "valid"
	case schemas.Suspect:
		return "suspect"
	}
	return "invalid"
}

func newVerdict(r *analyze.Result, run *analyze.RunResult) verdict {
	v := verdict{Word: string(run.Verdict.Grade), Class: gradeClass(run.Verdict.Grade)}
	if len(r.Runs) > 1 {
		v.Label = run.Label
	}
	switch run.Verdict.Grade {
	case schemas.Valid:
		v.Text = "Nothing speaks against these figures."
	case schemas.Suspect:
		v.Text = "Read these figures with what is said below in mind."
	default:
		v.Text = "Do not use these figures before what is said below is put right."
	}
	for _, reason := range run.Verdict.Reasons {
		v.Reasons = append(v.Reasons, newReason(reason))
	}
	return v
}

func newReason(x schemas.Reason) reason {
	return reason{Word: string(x.Grade), Class: gradeClass(x.Grade), Text: sentence(x.Text), Advice: sentence(x.Advice)}
}

// tiles are the few figures on top of a report of one run.
func tiles(r *analyze.Result) []tile {
	if len(r.Runs) != 1 {
		return nil
	}
	g := &r.Runs[0].Total
	var out []tile
	for _, name := range []string{"ttft", "tpot", "e2e"} {
		if f := g.Figure(name); f != nil && f.N > 0 {
			out = append(out, latencyTile(f))
		}
	}
	t := g.Throughput
	out = append(out, tile{"Output", number(float64(t.CompletionTokens)), "tokens/s", number(float64(t.Requests)) + " turns/s"})
	c := g.Counts
	out = append(out, tile{"Failed turns", percent(float64(c.ErrorRate)), "", count(c.Failed) + " of " + count(c.OK+c.Failed)})
	if good := g.Goodput; good != nil {
		out = append(out, tile{"Met every objective", percent(float64(good.Share)), "", number(float64(good.Requests)) + " turns/s"})
	} else if g.Tokens.CacheReuse.Known() {
		small := "of the prompt tokens"
		if g.Tokens.CacheCeiling.Known() {
			small = "ceiling " + percent(float64(g.Tokens.CacheCeiling))
		}
		out = append(out, tile{"Prefix cache reuse", percent(float64(g.Tokens.CacheReuse)), "", small})
	}
	return out
}

// latencyTile shows the median, and the highest percentile that the sample carries.
func latencyTile(f *analyze.Figure) tile {
	t := tile{Name: f.Title + ", mean", Value: number(float64(f.Mean)), Unit: f.Unit, Small: "of " + count(f.N)}
	if p := f.Percentile(50); p != nil && p.Value.Known() {
		t.Name, t.Value = f.Title+", p50", number(float64(p.Value))
	}
	for _, p := range f.Percentiles {
		if p.P > 50 && p.Value.Known() {
			t.Small = "p" + number(p.P) + " " + number(float64(p.Value)) + " " + f.Unit
		}
	}
	return t
}

// answers are the gates' and the comparisons' outcomes, which come before the verdicts: a failed gate must
// not stand below a green VALID.
func answers(r *analyze.Result) []verdict {
	var out []verdict
	if len(r.Gates) > 0 {
		counts := map[compare.Outcome]int{}
		v := verdict{}
		for _, g := range r.Gates {
			counts[g.Outcome]++
			if g.Outcome != compare.Held {
				v.Reasons = append(v.Reasons, reason{Word: strings.ToUpper(string(g.Outcome)), Class: outcomeClass(g.Outcome), Text: sentence(g.Expression + ": " + g.Text)})
			}
		}
		o := r.GatesOutcome()
		v.Word, v.Class = "Gates "+string(o), outcomeClass(o)
		v.Text = fmt.Sprintf("%d held, %d failed, %d undecided.", counts[compare.Held], counts[compare.Failed], counts[compare.Undecided])
		out = append(out, v)
	}
	for _, c := range r.Comparisons {
		v := verdict{Label: c.Level, Word: c.Headline(), Class: "suspect", Text: sentence(c.Why)}
		switch {
		case c.Bad() && !c.Faster:
			v.Class = "invalid"
		case c.Tested && !c.Bad():
			v.Class = "valid"
		}
		out = append(out, v)
	}
	return out
}

func outcomeClass(o compare.Outcome) string {
	return map[compare.Outcome]string{compare.Held: "valid", compare.Failed: "invalid", compare.Undecided: "suspect"}[o]
}

func gates(list []compare.Gate) *table {
	if len(list) == 0 {
		return nil
	}
	t := &table{ID: "gates", Title: "Gates", Note: "What had to hold. The bounds decide, not the value found: undecided is what they do not say.", Head: heads(4, "Gate", "Runs", "Outcome", "Why")}
	t.Head = append(t.Head, rangeHead("Value"))
	for _, g := range list {
		class := map[compare.Outcome]string{compare.Held: "text better", compare.Failed: "text worse", compare.Undecided: "text"}[g.Outcome]
		t.add([]cell{rowHead(g.Expression), wrapCell(g.Of), {Text: string(g.Outcome), Class: class}, wrapCell(g.Text), rangeCell(g.Value, g.Low, g.High, number)})
	}
	return t
}
