package render

import (
	"fmt"
	"slices"
	"strings"

	"parley/analyze"
	"parley/schemas"
)

// section is one table of a report, in words.
type section struct {
	title  string
	before []string // lines above the table
	header []string
	rows   [][]string
	left   int // columns that are text; the rest are numbers
	after  []string
}

// sections lays a result out as tables.
func sections(res *analyze.Result) []section {
	var out []section
	// What was asked comes first: a gate that failed must not stand below a green verdict.
	if len(res.Gates) > 0 {
		out = append(out, gateSection(res))
	}
	for i := range res.Plans {
		out = append(out, planSections(res, &res.Plans[i])...)
	}
	for _, c := range res.Comparisons {
		out = append(out, comparisonSections(c)...)
	}
	for i := range res.Runs {
		if len(res.Plans) > 0 { // what they say together is above; each file by itself has its own tables
			break
		}
		out = append(out, runSections(res, &res.Runs[i])...)
	}
	if res.Sweep != nil && len(res.Sweep.Rows) > 1 || res.Sweep != nil && res.Sweep.GPUs > 0 {
		out = append(out, sweepSections(res.Sweep)...)
	}
	if len(res.Warnings) > 0 {
		s := section{title: "Warnings"}
		for _, w := range res.Warnings {
			s.before = append(s.before, clean(w.Text))
		}
		out = append(out, s)
	}
	return out
}

func runSections(res *analyze.Result, r *analyze.RunResult) []section {
	out := []section{overview(r), requests(r), latencies(res, r), waits(res, r)}
	out = append(out, intervals(res, r), rates(r))
	if r.Jobs != nil {
		out = append(out, jobs(res, r))
	}
	if len(r.Phases) > 0 {
		s := groups(r, r.Phases, "Phases, over the whole run")
		out = append(out, s)
	}
	if len(r.Groups) > 0 {
		out = append(out, groups(r, r.Groups, "By "+strings.Join(res.By, " and ")))
	}
	if len(res.By) == 0 && len(r.CacheTurns) > 1 {
		out = append(out, cache(r))
	}
	if len(r.Warnings) > 0 {
		s := section{title: "Warnings"}
		for _, w := range r.Warnings {
			s.before = append(s.before, clean(w.Text))
		}
		out = append(out, s)
	}
	return slices.DeleteFunc(out, func(s section) bool { return len(s.rows) == 0 && len(s.before) == 0 })
}

// leftOut says how many turns the figures do not cover.
func leftOut(w *analyze.Window) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		text string
	}{{w.Before, "sent before the window"}, {w.After, "sent after it"}, {w.Other, "of other turn indexes or between its stretches"}} {
		if p.n > 0 {
			parts = append(parts, count(p.n)+" "+p.text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Left out: turns " + strings.Join(parts, ", ")
}

// overview says what was run and how far to trust it.
func overview(r *analyze.RunResult) section {
	s := section{title: clean(r.Label) + ": " + string(r.Verdict.Grade)}
	for _, why := range r.Verdict.Reasons {
		s.before = append(s.before, fmt.Sprintf("%s: %s. %s.", why.Grade, clean(why.Text), sentence(clean(why.Advice))))
	}
	when := "an unknown time" // rows that came back without their metadata
	if !r.Origin.IsZero() {
		when = r.Origin.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	line := fmt.Sprintf("Run of %s, %s long", when, seconds(r.Duration))
	if r.Ended != "" {
		line += ", ended: " + clean(r.Ended)
	}
	s.before = append(s.before, line)
	for _, t := range r.Targets {
		s.before = append(s.before, clean(fmt.Sprintf("Target %s, model %s (%s)", t.URL, t.Model, t.API)))
	}
	if d := r.Dataset; d.File != "" {
		s.before = append(s.before, clean(fmt.Sprintf("Dataset %s, %s", d.File, short(d.ContentHash))))
	}
	s.before = append(s.before, fmt.Sprintf("Window (%s): %s", r.Window.Kind, clean(r.Window.How)))
	if out := leftOut(&r.Window); out != "" {
		s.before = append(s.before, out)
	}
	clock := "arrival times by the kernel"
	if r.Clock.Source != "kernel" {
		clock = "arrival times by the process (no kernel stamps)"
	}
	if r.Clock.Source != "" {
		s.before = append(s.before, "Clock: "+clock)
	}
	if c := r.Calibrated; c != nil {
		path := ""
		if c.Path != "" {
			path = " over " + c.Path
		}
		s.before = append(s.before, fmt.Sprintf("This client added at this load%s: TTFT p50 %s ms, p99 %s ms; gaps p50 %s ms, p99 %s ms (%s requests, %s at once)", clean(path),
			number(analyze.Num(c.TTFTErrP50)), number(analyze.Num(c.TTFTErrP99)), number(analyze.Num(c.GapErrP50)), number(analyze.Num(c.GapErrP99)), count(c.Requests), count(c.Streams)))
	}
	return s
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func short(hash string) string {
	if len(hash) > 19 {
		return hash[:19] + "..."
	}
	return hash
}

func seconds(n analyze.Num) string { return number(n) + " s" }

// requests counts turns by status, for each phase and the window.
func requests(r *analyze.RunResult) section {
	s := section{title: "Turns", left: 1, header: []string{"", "planned", "ok"}}
	all := append(slices.Clone(r.Phases), r.Total)
	var statuses []schemas.Status
	for _, status := range schemas.Statuses[1:] {
		if slices.ContainsFunc(all, func(g analyze.Group) bool { return g.Counts.ByStatus[status] > 0 }) {
			statuses = append(statuses, status)
			s.header = append(s.header, string(status))
		}
	}
	again := slices.ContainsFunc(all, func(g analyze.Group) bool { return g.Counts.Retried > 0 })
	if again {
		s.header = append(s.header, "sent again")
	}
	s.header = append(s.header, "error rate", "in flight at end", "conversations")
	for i := range all {
		g := &all[i]
		name := "window"
		if len(g.Keys) > 0 {
			name = clean(g.Keys[0].Value)
		}
		row := []string{name, count(g.Counts.Planned), count(g.Counts.OK)}
		for _, status := range statuses {
			row = append(row, count(g.Counts.ByStatus[status]))
		}
		if again {
			row = append(row, count(g.Counts.Retried))
		}
		s.rows = append(s.rows, append(row, percent(g.Counts.ErrorRate), count(g.Counts.InFlightAtEnd), count(g.Counts.Conversations)))
	}
	byKind := func(title string, kinds map[string]int64) {
		var parts []string
		for _, k := range sortedKeys(kinds) {
			text := clean(k)
			if words, ok := notSentWords[k]; ok {
				text = words
			}
			parts = append(parts, fmt.Sprintf("%s %s", text, count(kinds[k])))
		}
		if len(parts) > 0 {
			s.after = append(s.after, title+": "+strings.Join(parts, ", "))
		}
	}
	byKind("Errors", r.Total.Counts.ErrorKinds)
	byKind("Not sent", r.Total.Counts.NotSent)
	if n := r.Total.Counts.ByStatus[schemas.StatusAbandoned]; n > 0 {
		s.after = append(s.after, "Given up by their users: "+count(n))
	}
	if n := r.Total.Counts.Censored; n > 0 {
		s.after = append(s.after, fmt.Sprintf("%s turns were in flight when the run stopped them: their latency is unknown, and at least as long as they had run", count(n)))
	}
	return s
}

// notSentWords says why turns were not sent, where the kind by itself does not.
var notSentWords = map[string]string{
	"budget":              "the run's requests or its time were used up",
	"conversation_failed": "an earlier turn of the conversation failed",
	"parent_not_reached":  "the turn that starts the conversation was not sent",
	"joined_failed":       "a conversation whose result they need failed",
	"max_errors":          "the run gave the server up",
}

func sortedKeys(m map[string]int64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// secondary are the figures of the second table.
func secondary(name string) bool {
	return strings.HasPrefix(name, "lag_") || strings.HasPrefix(name, "conversation_") || name == "send_lag" || name == "write_time"
}

func figureHeader(res *analyze.Result) []string {
	h := []string{"ms", "n", "mean"}
	for _, p := range res.Percentiles {
		h = append(h, percentName(p))
	}
	return append(h, "max")
}

func figureRow(f *analyze.Figure) []string {
	row := []string{f.Title, count(f.N), number(f.Mean)}
	for i := range f.Percentiles {
		row = append(row, percentile(&f.Percentiles[i]))
	}
	return append(row, number(f.Max))
}

func latencies(res *analyze.Result, r *analyze.RunResult) section {
	c := &r.Total.Counts
	s := section{
		title: fmt.Sprintf("Latency of completed turns, from %s (error rate %s: %s of %s failed)", res.From, percent(c.ErrorRate), count(c.Failed), count(c.Sent)),
		left:  1, header: figureHeader(res),
	}
	unsure := unsurePercentiles(&r.Total)
	for i := range r.Total.Figures {
		f := &r.Total.Figures[i]
		if secondary(f.Name) || f.N == 0 {
			continue
		}
		s.rows = append(s.rows, figureRow(f))
		if len(f.FailureAware) > 0 && (f.Name == "ttft" || f.Name == "e2e") {
			row := []string{f.Title + ", failed as infinite", count(f.N + c.Failed), none}
			for i := range f.FailureAware {
				row = append(row, percentile(&f.FailureAware[i]))
			}
			s.rows = append(s.rows, append(row, none))
		}
		if headline(f.Name) && strings.Contains(f.Population, ";") { // more than completed turns
			s.after = append(s.after, f.Title+": "+clean(f.Population))
		}
	}
	if unsure != "" {
		s.after = append(s.after, unsure)
	}
	for i := range r.Total.Figures {
		if e := r.Total.Figures[i].RelativeError; e > 0 {
			s.after = append(s.after, fmt.Sprintf("ITL and chunk gaps are counted, not kept: their percentiles are within %.2g of themselves", e))
			break
		}
	}
	return s
}

// unsurePercentiles explains the mark of percentiles that the sample does not carry, with what can be said
// of the headline ones.
func unsurePercentiles(g *analyze.Group) string {
	unsure, confidence := false, 1.0
	var bounds []string
	for i := range g.Figures {
		f := &g.Figures[i]
		if f.N == 0 {
			continue
		}
		for _, p := range f.Percentiles {
			if p.Carried {
				continue
			}
			unsure = true
			if headline(f.Name) && p.Lower.Known() {
				confidence = min(confidence, p.Confidence)
				bounds = append(bounds, fmt.Sprintf("%s %s >= %s", f.Title, percentName(p.P), number(p.Lower)))
			}
		}
	}
	if !unsure {
		return ""
	}
	text := "~: of this run only; too few independent turns to be sure of the server's"
	if len(bounds) > 0 {
		text += fmt.Sprintf(" (%g %%: %s)", 100*confidence, strings.Join(bounds, ", "))
	}
	return text
}

func headline(figure string) bool {
	switch figure {
	case "ttft", "tpot", "itl", "e2e":
		return true
	}
	return false
}

func waits(res *analyze.Result, r *analyze.RunResult) section {
	s := section{title: "Waits of the client, and conversations", left: 1, header: figureHeader(res)}
	for i := range r.Total.Figures {
		if f := &r.Total.Figures[i]; secondary(f.Name) && f.N > 0 {
			s.rows = append(s.rows, figureRow(f))
		}
	}
	return s
}

// intervals shows what the run says of the server in the long run.
func intervals(res *analyze.Result, r *analyze.RunResult) section {
	s := section{
		title: fmt.Sprintf("What the run says of the server in the long run (%g %% intervals)", res.Level*100), left: 1,
		header: []string{"ms", "conversations", "mean"},
	}
	for _, p := range res.Percentiles {
		s.header = append(s.header, percentName(p))
	}
	known := false
	for i := range r.Total.Figures {
		f := &r.Total.Figures[i]
		if !headline(f.Name) || f.Clusters < 2 {
			continue
		}
		row := []string{f.Title, count(f.Clusters), longRun(f.MeanLow, f.MeanHigh)}
		known = known || f.MeanLow.Known()
		for _, p := range f.Percentiles {
			row = append(row, longRun(p.Low, p.High))
			known = known || p.Low.Known() || p.High.Known()
		}
		s.rows = append(s.rows, row)
	}
	if !known { // one line says it
		s.rows = nil
	}
	w := &r.Window
	switch {
	case len(r.Total.Figures) == 0 || r.Total.Counts.OK == 0:
	case !w.LongFrom.Known():
		s.before = append(s.before, "?: the run is too short to say")
	case w.LongFromOuter > w.Seconds:
		s.before = append(s.before, fmt.Sprintf("?: the window of %s is too short, or the sample too small, to say: the server remembers %s, so it takes %s (percentiles beyond p95: %s)",
			seconds(w.Seconds), seconds(w.Relaxation), seconds(w.LongFrom), seconds(w.LongFromOuter)))
	}
	return s
}

// longRun prints an interval of the long run, or that the run cannot say.
func longRun(low, high analyze.Num) string {
	if text := interval(low, high); text != none {
		return text
	}
	return "?"
}

func rates(r *analyze.RunResult) section {
	t, k := &r.Total.Throughput, &r.Total.Tokens
	s := section{title: "Throughput over " + seconds(t.Seconds), left: 1, header: []string{"", "value"}}
	long := t.RequestsLow.Known() || t.CompletionLow.Known() // otherwise the table of intervals says why not
	if long {
		s.header = append(s.header, "in the long run")
	}
	rate := func(name, value, interval string) {
		switch {
		case value == none:
		case long:
			s.rows = append(s.rows, []string{name, value, interval})
		default:
			s.rows = append(s.rows, []string{name, value})
		}
	}
	add := func(name, value string) { rate(name, value, "") }
	rate("Requests per second", number(t.Requests), longRun(t.RequestsLow, t.RequestsHigh))
	add("Conversations started per second", number(t.Conversations))
	add("Prompt tokens per second", number(t.PromptTokens))
	add("  of them cached", number(t.CachedTokens))
	rate("Output tokens per second", number(t.CompletionTokens), longRun(t.CompletionLow, t.CompletionHigh))
	add("  in the best second", number(t.PeakTokenRate))
	rate("All tokens per second", number(t.TotalTokens), longRun(t.TotalLow, t.TotalHigh))
	add("Output tokens per second and user (1/TPOT)", number(t.TokensPerUser))
	add("Requests in flight, mean", number(t.MeanInFlight))
	add("Requests in flight, peak", count(t.PeakInFlight))
	add("Conversations at once, peak", count(t.PeakActive))
	add("Prompt tokens, mean", number(k.MeanPrompt))
	add("Output tokens, mean", number(k.MeanOutput))
	add("Cache reuse (cached / prompt)", percent(k.CacheReuse))
	add("  ceiling of an infinite cache", percent(k.CacheCeiling))
	if g := r.Total.Goodput; g != nil {
		add("Goodput, requests per second", number(g.Requests))
		add("Goodput, output tokens per second", number(g.Tokens))
		add("Turns within every objective", fmt.Sprintf("%s (%s of %s)", percent(g.Share), count(g.Good), count(g.Of)))
	}
	if f := r.Total.Fluidity; f != nil {
		add("Fluidity (tokens in time, slack kept)", percent(f.Share))
		add("Turns with 90 % of tokens in time", percent(f.Good))
	}
	return s
}

// jobs shows what a run of agents got done.
func jobs(res *analyze.Result, r *analyze.RunResult) section {
	j := r.Jobs
	s := section{title: fmt.Sprintf("Jobs: trees of conversations that ended in the window (%s of %s; %s more ended without some of their turns)",
		count(j.Ended), count(j.Planned), count(j.Broken)), left: 1, header: []string{"", "value"}}
	add := func(name, value string) {
		if value != none {
			s.rows = append(s.rows, []string{name, value})
		}
	}
	add("Jobs per hour", number(j.PerHour))
	add("  per GPU", number(j.PerGPUHour))
	add("  per job under way", number(j.PerUser))
	add("Jobs under way, mean", number(j.UnderWay))
	add("Job time, mean (s)", number(j.Time.Mean/1000))
	for _, p := range j.Time.Percentiles {
		p.Value, p.Low, p.High = p.Value/1000, p.Low/1000, p.High/1000
		add("  "+percentName(p.P), percentile(&p))
	}
	add("  critical path: server (s)", number(j.Server))
	add("  critical path: tools (s)", number(j.Tool))
	add("  critical path: persons (s)", number(j.Person))
	add("  critical path: client (s)", number(j.Client))
	add("Turns of a job, mean", number(j.Turns))
	add("  on its critical path", number(j.Steps))
	add("  per minute of the job", number(j.Pace))
	add("Conversations of a job, mean", number(j.Members))
	add("Uncached prompt tokens per second", number(j.Uncached))
	add("Cached prompt tokens per second", number(j.Cached))
	add("Output tokens per second", number(j.Output))
	return s
}

// groups is one line per group.
func groups(r *analyze.RunResult, list []analyze.Group, title string) section {
	s := section{title: fmt.Sprintf("%s (latencies in ms)", title), left: len(list[0].Keys)}
	for _, k := range list[0].Keys {
		s.header = append(s.header, clean(k.Column))
	}
	type column struct {
		name string
		get  func(g *analyze.Group) string
	}
	at := func(figure string, p float64) func(g *analyze.Group) string {
		return func(g *analyze.Group) string {
			f := g.Figure(figure)
			if f == nil || f.N == 0 {
				return none
			}
			return percentile(f.Percentile(p))
		}
	}
	columns := []column{
		{"ok", func(g *analyze.Group) string { return count(g.Counts.OK) }},
		{"error rate", func(g *analyze.Group) string { return percent(g.Counts.ErrorRate) }},
	}
	for _, f := range []struct{ name, title string }{{"ttft", "TTFT"}, {"tpot", "TPOT"}, {"itl", "ITL"}, {"e2e", "E2E"}} {
		total := r.Total.Figure(f.name)
		if total == nil || total.N == 0 {
			continue
		}
		first, last := total.Percentiles[0].P, total.Percentiles[len(total.Percentiles)-1].P
		columns = append(columns, column{f.title + " " + percentName(first), at(f.name, first)})
		if f.name != "tpot" && last != first {
			columns = append(columns, column{f.title + " " + percentName(last), at(f.name, last)})
		}
	}
	columns = append(columns,
		column{"req/s", func(g *analyze.Group) string { return number(g.Throughput.Requests) }},
		column{"out tok/s", func(g *analyze.Group) string { return number(g.Throughput.CompletionTokens) }},
		column{"prompt", func(g *analyze.Group) string { return number(g.Tokens.MeanPrompt) }},
		column{"cache reuse", func(g *analyze.Group) string { return percent(g.Tokens.CacheReuse) }},
		column{"ceiling", func(g *analyze.Group) string { return percent(g.Tokens.CacheCeiling) }},
	)
	if r.Total.Goodput != nil {
		columns = append(columns, column{"in SLO", func(g *analyze.Group) string {
			if g.Goodput == nil {
				return none
			}
			return percent(g.Goodput.Share)
		}})
	}
	for _, c := range columns {
		s.header = append(s.header, c.name)
	}
	for i := range list {
		g := &list[i]
		var row []string
		for _, k := range g.Keys {
			row = append(row, clean(k.Value))
		}
		for _, c := range columns {
			row = append(row, c.get(g))
		}
		s.rows = append(s.rows, row)
	}
	return s
}

func cache(r *analyze.RunResult) section {
	s := section{title: "Cache reuse by turn", left: 1, header: []string{"turn", "rows", "reuse", "ceiling"}}
	for i, c := range r.CacheTurns {
		if i >= 20 {
			s.after = append(s.after, fmt.Sprintf("and %d more turns: use --by turn", len(r.CacheTurns)-i))
			break
		}
		s.rows = append(s.rows, []string{count(c.Turn), count(c.Rows), percent(c.Reuse), percent(c.Ceiling)})
	}
	return s
}
