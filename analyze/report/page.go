package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"sort"
	"strings"
	"time"

	"parley/analyze"
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
	Heading    []string // above the title: what a reader must know first
	Verdicts   []verdict
	Fold       bool // the reasons of many verdicts are folded away
	Gates      *table
	Warnings   []string
	Tiles      []tile
	Comparison []table
	Changes    string // the comparison in a sentence
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
	if r.Comparison != nil {
		p.Changes = changes(r.Comparison)
		p.Comparison = comparison(r.Comparison)
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
	if c := r.Comparison; c != nil {
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

func gates(list []analyze.Gate) *table {
	if len(list) == 0 {
		return nil
	}
	t := &table{ID: "gates", Title: "Gates", Note: "What had to hold.", Head: heads(3, "Gate", "Held", "Why", "Value")}
	for _, g := range list {
		held := cell{Text: "yes", Class: "text better"}
		if !g.Held {
			held = cell{Text: "no", Class: "text worse"}
		}
		t.add([]cell{rowHead(g.Expression), held, wrapCell(g.Text), numCell(g.Value)})
	}
	return t
}

func changes(c *analyze.Comparison) string {
	var text string
	switch {
	case c.Slower && c.Faster:
		text = "Some figures got worse beyond chance, others better."
	case c.Slower:
		text = "Worse beyond chance."
	case c.Faster:
		text = "Better beyond chance."
	default:
		text = "No difference beyond chance."
	}
	return text + " " + sentence(c.Why)
}

func facts(r *analyze.Result, run *analyze.RunResult) runFacts {
	out := runFacts{Config: flatten(run.Config)}
	if len(r.Runs) > 1 {
		out.Label = run.Label
	}
	var identity []fact
	add := func(list *[]fact, name, value string) {
		if value != "" {
			*list = append(*list, fact{name, value})
		}
	}
	add(&identity, "Run", run.RunID)
	add(&identity, "Label", run.Label)
	add(&identity, "Files", strings.Join(run.Files, ", "))
	if !run.Origin.IsZero() {
		add(&identity, "Began", run.Origin.UTC().Format(time.RFC3339))
	}
	add(&identity, "Lasted", seconds(run.Duration))
	add(&identity, "Ended", run.Ended)
	if run.Unfinished {
		add(&identity, "Unfinished", "yes: the rows so far")
	}
	for _, t := range run.Targets {
		parts := []string{t.URL, t.API, t.Model, t.Server}
		add(&identity, "Target", strings.Join(nonEmpty(parts), ", "))
	}
	add(&identity, "Made by", "parley "+run.ToolVer)
	add(&identity, "Seed", fmt.Sprint(run.Seed))

	var dataset []fact
	add(&dataset, "File", run.Dataset.File)
	add(&dataset, "Conversations", count(run.Dataset.Conversations))
	add(&dataset, "Turns", count(run.Dataset.Turns))
	add(&dataset, "Tokenizer", run.Dataset.Tokenizer)
	add(&dataset, "Content", run.Dataset.ContentHash)

	var window []fact
	add(&window, "Window", run.Window.Kind)
	if known(run.Window.From, run.Window.To) {
		add(&window, "From, to", number(float64(run.Window.From))+" s, "+number(float64(run.Window.To))+" s")
	}
	add(&window, "How", sentence(run.Window.How))
	add(&window, "Latencies from", string(r.From))

	out.Cards = append(out.Cards, factCard{"Run", identity}, factCard{"Dataset", dataset}, factCard{"Window", window},
		factCard{"Client", client(run)})
	if c := run.Calibrated; c != nil {
		out.Cards = append(out.Cards, factCard{"Calibration", []fact{
			{"Against", c.Description},
			{"When", c.When},
			{"Requests", count(c.Requests) + ", " + count(c.Streams) + " at once"},
			{"Added to TTFT", fmt.Sprintf("p50 %s ms, p99 %s ms", number(c.TTFTErrP50), number(c.TTFTErrP99))},
			{"Added to gaps", fmt.Sprintf("p50 %s ms, p99 %s ms", number(c.GapErrP50), number(c.GapErrP99))},
			{"Send lag", fmt.Sprintf("p99 %s ms", number(c.SendLagP99))},
		}})
	}
	return out
}

func client(run *analyze.RunResult) []fact {
	h := run.Host
	list := []fact{
		{"Machine", strings.Join(nonEmpty([]string{h.OS + "/" + h.Arch, h.Kernel, h.CPU}), ", ")},
		{"Cores", fmt.Sprintf("%d, of which Go uses %d", h.CPUs, h.GOMAXPROCS)},
	}
	clock := run.Clock.Source
	switch clock {
	case "kernel":
		clock = "the kernel's receive time stamps"
	case "user":
		clock = "stamps by the process"
	}
	if run.Clock.ResponseFallback != "" {
		clock += " (" + run.Clock.ResponseFallback + ")"
	}
	list = append(list, fact{"Arrival times", clock})
	if c := run.Health; c != nil {
		list = append(list,
			fact{"CPU", fmt.Sprintf("%s of all cores, %s in the busiest second", percent(c.CPUShare), percent(c.CPUSharePeak))},
			fact{"Scheduler latency", fmt.Sprintf("p50 %s ms, p99 %s ms", number(c.SchedLatencyP50), number(c.SchedLatencyP99))},
			fact{"GC pauses", fmt.Sprintf("p99 %s ms, %s ms in all", number(c.GCPauseP99), number(c.GCPauseTotal))},
			fact{"Pacer lateness", fmt.Sprintf("p50 %s ms, p99 %s ms", number(c.WakeLatenessP50), number(c.WakeLatenessP99))},
			fact{"At once", fmt.Sprintf("%s requests, %s conversations at most", count(c.PeakInFlight), count(c.PeakActive))},
			fact{"Memory", number(float64(c.PeakRSSBytes)/1e6) + " MB at most"},
		)
	}
	return list
}

func nonEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s != "" && s != "/" {
			out = append(out, s)
		}
	}
	return out
}

// flatten lists a JSON object's leaves by dotted path, in the order of the paths. What is empty, zero or off
// is left out: a configuration has many settings that say nothing.
func flatten(raw json.RawMessage) []fact {
	if len(raw) == 0 {
		return nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return []fact{{"configuration", string(raw)}}
	}
	var out []fact
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if path != "" {
					key = path + "." + key
				}
				walk(key, value)
			}
		case []any:
			if len(v) == 0 {
				return
			}
			var text bytes.Buffer
			e := json.NewEncoder(&text)
			e.SetEscapeHTML(false) // the template does that
			if e.Encode(v) == nil {
				out = append(out, fact{path, strings.TrimSpace(text.String())})
			}
		case nil:
		case string:
			if v != "" {
				out = append(out, fact{path, v})
			}
		case bool:
			if v {
				out = append(out, fact{path, "true"})
			}
		default:
			if text := fmt.Sprint(v); text != "0" {
				out = append(out, fact{path, text})
			}
		}
	}
	walk("", v)
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// terms says what the figures of the page mean.
func terms(r *analyze.Result) []term {
	from := map[analyze.Moment]string{
		analyze.FromSent:      "the request's first byte was handed to the kernel",
		analyze.FromStart:     "the client began the attempt",
		analyze.FromScheduled: "the schedule asked for the turn",
	}[r.From]
	if from == "" {
		from = "the turn began"
	}
	list := []term{
		{"TTFT", "Time to first token, from when " + from + " to the first event that proves a token."},
		{"TPOT", "Time per output token after the first chunk."},
		{"ITL", "Inter-token latency: the gap between two chunks, spread over the tokens that the later one carried. The chunk gap itself is what other tools call ITL."},
		{"E2E", "End-to-end latency, to the last token."},
		{"Send lag", "How much later than scheduled a turn went."},
		{"Percentiles", "Exact, by linear interpolation. A dash stands where the sample has too few rows to carry one."},
	}
	if r.Level > 0 {
		list = append(list, term{"Intervals", "The small figures are " + number(r.Level*100) + thin + "% confidence intervals that allow for turns of one conversation being alike."})
	}
	list = append(list, term{"Failed turns", "Are rows like all others. Latencies cover completed turns; the rows with failures as infinity count a failed turn as never ending."})
	return list
}
