package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/analyze"
	"parley/schemas"
)

// sentence makes a sentence of a phrase.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	r, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(r)) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// headline are the figures that a user of the server feels.
func headline(figure string) bool {
	return slices.Contains([]string{"ttft", "tpot", "itl", "e2e"}, figure)
}

// waits are the figures of the client, and of whole conversations.
func waits(figure string) bool {
	return strings.HasPrefix(figure, "lag_") || strings.HasPrefix(figure, "conversation_") || figure == "send_lag" || figure == "write_time"
}

// latencies has every figure of every run: those of waits, or the others.
func latencies(res *analyze.Result, ofWaits bool) Table {
	t := Table{ID: "latency", Section: Figures, Title: "Latency of completed turns, from " + string(res.From), Detail: true}
	if ofWaits {
		t.ID, t.Title = "waits", "Waits of the client, and conversations"
	}
	t.keys("ms")
	t.numbers("n", "mean")
	for _, p := range res.Percentiles {
		t.numbers(percentName(p))
	}
	t.numbers("max")
	for i := range res.Runs {
		r := &res.Runs[i]
		begin := len(t.Rows)
		populations := map[string][]string{}
		for j := range r.Total.Figures {
			f := &r.Total.Figures[j]
			if f.N == 0 || waits(f.Name) != ofWaits {
				continue
			}
			t.add(figureRow(f, f.Title, f.N, f.Percentiles, bounded(number(f.Mean), f.MeanLow, f.MeanHigh, Number), number(f.Max))...)
			if len(f.FailureAware) > 0 {
				unknown := number(analyze.Missing)
				t.add(figureRow(f, f.Title+", failed as \u221e", f.N+r.Total.Counts.Failed, f.FailureAware, unknown, unknown)...)
			}
			if strings.Contains(f.Population, ";") { // more than completed turns
				populations[f.Population] = append(populations[f.Population], f.Title)
			}
		}
		if len(t.Rows) > begin && len(res.Runs) > 1 {
			t.Rows[begin].Of = r.Label
		}
		for _, p := range slices.Sorted(maps.Keys(populations)) {
			t.Notes = append(t.Notes, of(res, r, strings.Join(populations[p], " and ")+": "+p))
		}
		if !ofWaits {
			t.Notes = append(t.Notes, longRun(res, r)...)
		}
	}
	return t
}

func figureRow(f *analyze.Figure, title string, n int64, percentiles []analyze.Percentile, mean, high Cell) []Cell {
	if f.Unit != "ms" {
		title += " (" + f.Unit + ")"
	}
	row := []Cell{words(title), count(n), mean}
	for i := range percentiles {
		row = append(row, percentile(&percentiles[i]))
	}
	return append(row, high)
}

// longRun says what the small figures are, or why there are none, and how exact the others are.
func longRun(res *analyze.Result, r *analyze.RunResult) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, of(res, r, fmt.Sprintf(format, args...))) }
	w := &r.Window
	known := slices.ContainsFunc(r.Total.Figures, func(f analyze.Figure) bool { return f.MeanLow.Known() })
	if known {
		add("Ranges: what the run says of the server in the long run, %g %% intervals", res.Level*100)
	}
	switch {
	case r.Total.Counts.OK == 0:
	case !w.LongFrom.Known():
		add("The run is too short to say what the server does in the long run")
	case w.LongFromOuter > w.Seconds:
		add("The window of %s is too short, or the sample too small, to say everything of the server in the long run: it remembers %s, so that takes %s (percentiles beyond p95: %s)",
			Duration(w.Seconds), Duration(w.Relaxation), Duration(w.LongFrom), Duration(w.LongFromOuter))
	}
	var bounds []string
	confidence := 1.0
	for i := range r.Total.Figures {
		f := &r.Total.Figures[i]
		for _, p := range f.Percentiles {
			if headline(f.Name) && f.N > 0 && !p.Carried && p.Lower.Known() {
				confidence = min(confidence, p.Confidence)
				bounds = append(bounds, fmt.Sprintf("%s %s >= %s", f.Title, percentName(p.P), Number(p.Lower)))
			}
		}
	}
	if len(bounds) > 0 {
		add("~: of this run only; too few independent turns to be sure of the server's (%g %%: %s)", 100*confidence, strings.Join(bounds, ", "))
	} else if text := unsure(&r.Total); text != "" {
		out = append(out, of(res, r, text))
	}
	for i := range r.Total.Figures {
		if e := r.Total.Figures[i].RelativeError; e > 0 {
			add("ITL and chunk gaps are counted, not kept: their percentiles are within %.2g of themselves", e)
			break
		}
	}
	return out
}

// population is turns of a run with a name.
type population struct {
	name  string
	run   *analyze.RunResult
	group *analyze.Group
}

// windows are the runs' windows.
func windows(runs []analyze.RunResult) []population {
	var out []population
	for i := range runs {
		name := ""
		if len(runs) > 1 {
			name = runs[i].Label
		}
		out = append(out, population{name, &runs[i], &runs[i].Total})
	}
	return out
}

// phases are the runs' phases, and their windows.
func phases(runs []analyze.RunResult) []population {
	var out []population
	for i, w := range windows(runs) {
		if w.name == "" {
			w.name = "window"
		}
		for j := range runs[i].Phases {
			name := runs[i].Phases[j].Keys[0].Value
			if len(runs) > 1 {
				name = w.name + ", " + name
			}
			out = append(out, population{name, w.run, &runs[i].Phases[j]})
		}
		out = append(out, w)
	}
	return out
}

// metric is one figure of a population.
type metric struct {
	of, name string
	get      func(p population) Cell
}

// metricTables sets metrics of several populations out: a card with a line for each where they are few, else tables with a
// line for each population. What no population has is left out.
func metricTables(id, title string, metrics []metric, pops []population) []Table {
	const most = 3
	metrics = slices.DeleteFunc(slices.Clone(metrics), func(m metric) bool {
		return !slices.ContainsFunc(pops, func(p population) bool { return m.get(p).Mark != Absent })
	})
	if len(pops) <= most {
		t := Table{ID: id, Section: Figures, Title: title, Detail: true}
		t.keys("")
		for _, p := range pops {
			t.Columns = append(t.Columns, Column{Name: p.name, Bound: "long run"})
		}
		last := ""
		for _, m := range metrics {
			row := Row{Cells: []Cell{words(m.name)}}
			if m.of != last {
				row.Of, last = m.of, m.of
			}
			for _, p := range pops {
				row.Cells = append(row.Cells, m.get(p))
			}
			t.Rows = append(t.Rows, row)
		}
		return []Table{t}
	}
	var out []Table
	for len(metrics) > 0 {
		n := slices.IndexFunc(metrics, func(m metric) bool { return m.of != metrics[0].of })
		if n < 0 {
			n = len(metrics)
		}
		t := Table{ID: fmt.Sprintf("%s-%d", id, len(out)), Section: Figures, Title: cmp.Or(metrics[0].of, title), Detail: true}
		t.keys("")
		for _, m := range metrics[:n] {
			t.numbers(m.name)
		}
		for _, p := range pops {
			row := []Cell{words(p.name)}
			for _, m := range metrics[:n] {
				row = append(row, m.get(p))
			}
			t.add(row...)
		}
		out, metrics = append(out, t), metrics[n:]
	}
	return out
}

// rateMetrics are what a window got done.
func rateMetrics(res *analyze.Result) []metric {
	var out []metric
	of := "Throughput"
	add := func(name string, get func(p population) Cell) { out = append(out, metric{of, name, get}) }
	rate := func(name string, get func(x *analyze.Throughput) (v, low, high analyze.Num)) {
		add(name, func(p population) Cell {
			v, low, high := get(&p.group.Throughput)
			return bounded(number(v), low, high, Number)
		})
	}
	plain := func(name string, get func(g *analyze.Group) analyze.Num) {
		add(name, func(p population) Cell { return number(get(p.group)) })
	}
	add("over", func(p population) Cell { return duration(p.group.Throughput.Seconds) })
	rate("turns/s", func(x *analyze.Throughput) (v, low, high analyze.Num) {
		return x.Requests, x.RequestsLow, x.RequestsHigh
	})
	plain("conversations started/s", func(g *analyze.Group) analyze.Num { return g.Throughput.Conversations })
	rate("output tokens/s", func(x *analyze.Throughput) (v, low, high analyze.Num) {
		return x.CompletionTokens, x.CompletionLow, x.CompletionHigh
	})
	plain("output tokens/s, best second", func(g *analyze.Group) analyze.Num { return g.Throughput.PeakTokenRate })
	plain("output tokens/s per GPU", func(g *analyze.Group) analyze.Num { return perGPU(res, g.Throughput.CompletionTokens) })
	plain("all tokens/s per GPU", func(g *analyze.Group) analyze.Num { return perGPU(res, g.Throughput.TotalTokens) })
	plain("output tokens/s per user (1/TPOT)", func(g *analyze.Group) analyze.Num { return g.Throughput.TokensPerUser })
	plain("prompt tokens/s", func(g *analyze.Group) analyze.Num { return g.Throughput.PromptTokens })
	plain("prompt tokens/s, cached", func(g *analyze.Group) analyze.Num { return g.Throughput.CachedTokens })
	rate("all tokens/s", func(x *analyze.Throughput) (v, low, high analyze.Num) { return x.TotalTokens, x.TotalLow, x.TotalHigh })
	plain("in flight, mean", func(g *analyze.Group) analyze.Num { return g.Throughput.MeanInFlight })
	add("in flight, peak", func(p population) Cell { return count(p.group.Throughput.PeakInFlight) })
	add("conversations at once, peak", func(p population) Cell { return count(p.group.Throughput.PeakActive) })

	of = "Tokens of completed turns"
	whole := func(name string, get func(g *analyze.Group) analyze.Num) {
		add(name, func(p population) Cell {
			return numberCell(get(p.group), func(n analyze.Num) string { return Count(int64(n)) })
		})
	}
	plain("prompt, mean", func(g *analyze.Group) analyze.Num { return g.Tokens.MeanPrompt })
	plain("output, mean", func(g *analyze.Group) analyze.Num { return g.Tokens.MeanOutput })
	whole("prompt", func(g *analyze.Group) analyze.Num { return g.Tokens.Prompt })
	whole("cached", func(g *analyze.Group) analyze.Num { return g.Tokens.Cached })
	add("cache reuse (cached / prompt)", func(p population) Cell { return reuse(&p.group.Tokens) })
	add("possible with an infinite cache", func(p population) Cell { return share(p.group.Tokens.CacheCeiling) })
	whole("output", func(g *analyze.Group) analyze.Num { return g.Tokens.Completion })
	whole("reasoning", func(g *analyze.Group) analyze.Num { return g.Tokens.Reasoning })
	asked := func(get func(t *analyze.Tokens) int64) func(p population) Cell {
		return func(p population) Cell {
			if p.group.Tokens.Asked == 0 {
				return words("")
			}
			return count(get(&p.group.Tokens))
		}
	}
	add("asked for", asked(func(t *analyze.Tokens) int64 { return t.Asked }))
	add("got, of the same turns", asked(func(t *analyze.Tokens) int64 { return t.AskedGot }))

	var limits []string
	for _, o := range res.Objectives {
		limits = append(limits, fmt.Sprintf("%s up to %s ms", strings.ToUpper(o.Figure), Given(o.Limit)))
	}
	of = "Objectives: " + strings.Join(limits, ", ")
	good := func(name string, get func(g *analyze.Goodput) Cell) {
		add(name, func(p population) Cell {
			if p.group.Goodput == nil {
				return words("")
			}
			return get(p.group.Goodput)
		})
	}
	good("turns that met all", func(g *analyze.Goodput) Cell { return count(g.Good) })
	good("of turns sent", func(g *analyze.Goodput) Cell { return count(g.Of) })
	good("share (goodput)", func(g *analyze.Goodput) Cell { return share(g.Share) })
	good("good turns/s", func(g *analyze.Goodput) Cell { return number(g.Requests) })
	good("output tokens/s of good turns", func(g *analyze.Goodput) Cell { return number(g.Tokens) })
	fluid := func(name string, get func(f *analyze.Fluidity) analyze.Num) {
		add(name, func(p population) Cell {
			if p.group.Fluidity == nil {
				return words("")
			}
			return share(get(p.group.Fluidity))
		})
	}
	fluid("tokens in time, slack kept (fluidity)", func(f *analyze.Fluidity) analyze.Num { return f.Share })
	fluid("turns with 90 % of tokens in time", func(f *analyze.Fluidity) analyze.Num { return f.Good })
	return append(out, jobMetrics()...)
}

// jobMetrics are what a run of agents got done.
func jobMetrics() []metric {
	var out []metric
	add := func(name string, get func(j *analyze.Jobs) Cell) {
		out = append(out, metric{"Jobs: trees of conversations", name, func(p population) Cell {
			if p.run.Jobs == nil {
				return words("")
			}
			return get(p.run.Jobs)
		}})
	}
	plain := func(name string, get func(j *analyze.Jobs) analyze.Num) {
		add(name, func(j *analyze.Jobs) Cell { return number(get(j)) })
	}
	time := func(name string, get func(j *analyze.Jobs) analyze.Num) {
		add(name, func(j *analyze.Jobs) Cell { return duration(get(j)) })
	}
	add("jobs that ended in the window", func(j *analyze.Jobs) Cell { return count(j.Ended) })
	add("of jobs planned", func(j *analyze.Jobs) Cell { return count(j.Planned) })
	add("ended without some of their turns", func(j *analyze.Jobs) Cell { return count(j.Broken) })
	plain("jobs/h", func(j *analyze.Jobs) analyze.Num { return j.PerHour })
	plain("jobs/h per GPU", func(j *analyze.Jobs) analyze.Num { return j.PerGPUHour })
	plain("jobs/h per job under way", func(j *analyze.Jobs) analyze.Num { return j.PerUser })
	plain("jobs under way, mean", func(j *analyze.Jobs) analyze.Num { return j.UnderWay })
	time("job time, mean", func(j *analyze.Jobs) analyze.Num { return j.Time.Mean / 1000 })
	for _, p := range []float64{50, 90, 95, 99} {
		add("job time, "+percentName(p), func(j *analyze.Jobs) Cell {
			at := j.Time.Percentile(p)
			if at == nil {
				return words("")
			}
			c := duration(at.Value / 1000)
			if at.Value.Known() && !at.Carried {
				c.Text, c.Mark = "~"+c.Text, Unsure
			}
			return c
		})
	}
	time("critical path: server", func(j *analyze.Jobs) analyze.Num { return j.Server })
	time("critical path: tools", func(j *analyze.Jobs) analyze.Num { return j.Tool })
	time("critical path: persons", func(j *analyze.Jobs) analyze.Num { return j.Person })
	time("critical path: client", func(j *analyze.Jobs) analyze.Num { return j.Client })
	plain("turns of a job, mean", func(j *analyze.Jobs) analyze.Num { return j.Turns })
	plain("turns on its critical path, mean", func(j *analyze.Jobs) analyze.Num { return j.Steps })
	plain("turns per minute of a job", func(j *analyze.Jobs) analyze.Num { return j.Pace })
	plain("conversations of a job, mean", func(j *analyze.Jobs) analyze.Num { return j.Members })
	plain("uncached prompt tokens/s of jobs", func(j *analyze.Jobs) analyze.Num { return j.Uncached })
	plain("cached prompt tokens/s of jobs", func(j *analyze.Jobs) analyze.Num { return j.Cached })
	plain("output tokens/s of jobs", func(j *analyze.Jobs) analyze.Num { return j.Output })
	return out
}

// turnMetrics count turns by what became of them.
func turnMetrics(pops []population) []metric {
	var out []metric
	add := func(name string, get func(c *analyze.Counts) Cell) {
		out = append(out, metric{"", name, func(p population) Cell { return get(&p.group.Counts) }})
	}
	add("planned", func(c *analyze.Counts) Cell { return count(c.Planned) })
	add("sent", func(c *analyze.Counts) Cell { return count(c.Sent) })
	for _, s := range schemas.Statuses {
		if s == schemas.StatusOK || slices.ContainsFunc(pops, func(p population) bool { return p.group.Counts.ByStatus[s] > 0 }) {
			add(string(s), func(c *analyze.Counts) Cell { return count(c.ByStatus[s]) })
		}
	}
	add("error rate (failed / sent)", func(c *analyze.Counts) Cell { return share(c.ErrorRate) })
	add("sent again", func(c *analyze.Counts) Cell { return count(c.Retried) })
	add("in flight at the end", func(c *analyze.Counts) Cell { return count(c.InFlightAtEnd) })
	add("conversations", func(c *analyze.Counts) Cell { return count(c.Conversations) })
	return out
}

// kinds are turns that did not complete, by kind.
type kinds struct {
	name string
	n    map[string]int64
}

// sorted gives the kinds, most frequent first.
func (k *kinds) sorted() []string {
	return slices.SortedFunc(maps.Keys(k.n), func(a, b string) int { return cmp.Or(cmp.Compare(k.n[b], k.n[a]), cmp.Compare(a, b)) })
}

func (k *kinds) list() string {
	var parts []string
	for _, kind := range k.sorted() {
		if kind == "" {
			parts = append(parts, Count(k.n[kind]))
		} else {
			parts = append(parts, kind+" "+Count(k.n[kind]))
		}
	}
	return strings.Join(parts, ", ")
}

// kindsOf tells apart what failed, what was not sent and what users gave up.
func kindsOf(g *analyze.Group) []kinds {
	c := &g.Counts
	notSent := map[string]int64{}
	for k, n := range c.NotSent {
		if text, ok := notSentWords[k]; ok {
			k = text
		}
		notSent[k] += n
	}
	out := []kinds{{"Failed", c.ErrorKinds}, {"Not sent", notSent}}
	if n := c.ByStatus[schemas.StatusAbandoned]; n > 0 {
		out = append(out, kinds{"Given up by their users", map[string]int64{"": n}})
	}
	return slices.DeleteFunc(out, func(k kinds) bool { return len(k.n) == 0 })
}

// notSentWords says why turns were not sent, where the kind by itself does not.
var notSentWords = map[string]string{
	"budget":              "the run's requests or its time were used up",
	"conversation_failed": "an earlier turn of the conversation failed",
	"parent_not_reached":  "the turn that starts the conversation was not sent",
	"joined_failed":       "a conversation whose result they need failed",
	"max_errors":          "the run gave the server up",
}

// failures has the kinds of turns that did not complete; of one run, the overview has them already, on the terminal.
func failures(pops []population) Table {
	t := Table{ID: "failures", Section: Figures, Title: "Turns that did not complete, by kind", Detail: true}
	t.keys("kind")
	for range pops {
		t.numbers("")
	}
	at := map[[2]string]int{}
	for i, p := range pops {
		t.Columns[1+i].Name = "turns"
		if len(pops) > 1 {
			t.Columns[1+i].Name = p.name
		}
		for _, k := range kindsOf(p.group) {
			for _, kind := range k.sorted() {
				key := [2]string{k.name, kind}
				if _, ok := at[key]; !ok {
					at[key] = len(t.Rows)
					t.add(append([]Cell{words(strings.TrimSuffix(k.name+": "+kind, ": "))}, slices.Repeat([]Cell{count(0)}, len(pops))...)...)
				}
				t.Rows[at[key]].Cells[1+i] = count(k.n[kind])
			}
		}
	}
	return t
}

// groups is one line per group.
func groups(r *analyze.RunResult, list []analyze.Group, title string) Table {
	t := Table{ID: "phases", Section: Groups, Title: title}
	for _, k := range list[0].Keys {
		t.keys(k.Column)
	}
	var cells []func(g *analyze.Group) Cell
	column := func(name string, detail bool, get func(g *analyze.Group) Cell) {
		if slices.ContainsFunc(list, func(g analyze.Group) bool { return get(&g).Mark != Absent }) {
			t.Columns = append(t.Columns, Column{Name: name, Detail: detail})
			cells = append(cells, get)
		}
	}
	column("turns sent", false, func(g *analyze.Group) Cell { return count(g.Counts.Sent) })
	column("ok", true, func(g *analyze.Group) Cell { return count(g.Counts.OK) })
	column("errors", false, func(g *analyze.Group) Cell { return share(g.Counts.ErrorRate) })
	for _, f := range []struct{ name, title string }{{"ttft", "TTFT"}, {"tpot", "TPOT"}, {"itl", "ITL"}, {"e2e", "E2E"}} {
		total := r.Total.Figure(f.name)
		if total == nil || len(total.Percentiles) == 0 {
			continue
		}
		for i, p := range total.Percentiles {
			if i > 0 && i < len(total.Percentiles)-1 { // the lowest and the highest asked for
				continue
			}
			detail := f.name == "itl" || i > 0 && f.name != "ttft"
			column(f.title+" "+percentName(p.P), detail, func(g *analyze.Group) Cell {
				at := g.Figure(f.name)
				if at == nil || at.N == 0 {
					return words("")
				}
				return percentile(at.Percentile(p.P))
			})
		}
	}
	column("turns/s", true, func(g *analyze.Group) Cell { return number(g.Throughput.Requests) })
	column("output tokens/s", false, func(g *analyze.Group) Cell { return number(g.Throughput.CompletionTokens) })
	column("prompt tokens", true, func(g *analyze.Group) Cell { return number(g.Tokens.MeanPrompt) })
	column("output tokens", true, func(g *analyze.Group) Cell { return number(g.Tokens.MeanOutput) })
	column("cache reuse", false, func(g *analyze.Group) Cell { return share(g.Tokens.CacheReuse) })
	column("reuse possible", true, func(g *analyze.Group) Cell { return share(g.Tokens.CacheCeiling) })
	column("goodput", false, func(g *analyze.Group) Cell {
		if g.Goodput == nil {
			return words("")
		}
		return share(g.Goodput.Share)
	})
	for i := range list {
		g := &list[i]
		var row []Cell
		for _, k := range g.Keys {
			row = append(row, words(k.Value))
		}
		for _, get := range cells {
			row = append(row, get(g))
		}
		t.add(row...)
	}
	t.Notes = []string{"Latencies in ms"}
	return t
}

func cache(res *analyze.Result, r *analyze.RunResult) Table {
	t := Table{ID: "cache", Section: Groups, Title: of(res, r, "Cache reuse by turn"), Detail: true}
	t.keys("turn")
	t.numbers("turns", "reuse", "possible")
	for _, c := range r.CacheTurns[:min(20, len(r.CacheTurns))] {
		t.add(words(Count(c.Turn)), count(c.Rows), share(c.Reuse), share(c.Ceiling))
	}
	if n := len(r.CacheTurns) - len(t.Rows); n > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("and %s: use --by turn", Counted(int64(n), "more turn")))
	}
	return t
}

// facts are a run's identity, circumstances and client.
func facts(res *analyze.Result, r *analyze.RunResult) Table {
	t := Table{ID: "run-" + r.RunID, Section: Configuration, Title: of(res, r, "The run"), Detail: true}
	t.keys("", "")
	t.Keys = 1
	group := ""
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, Row{Of: group, Cells: []Cell{words(name), words(value)}})
			group = ""
		}
	}
	list := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" || s == "/" }), ", ")
	}
	ms := func(p50, p99 float64) string {
		return fmt.Sprintf("p50 %s ms, p99 %s ms", Number(analyze.Num(p50)), Number(analyze.Num(p99)))
	}
	group = "Run"
	add("run", r.RunID)
	add("label", r.Label)
	add("files", strings.Join(r.Files, ", "))
	if !r.Origin.IsZero() {
		add("began", r.Origin.UTC().Format(time.DateTime)+" UTC")
	}
	add("lasted", Duration(r.Duration))
	add("ended", r.Ended)
	if r.Unfinished {
		add("unfinished", "yes: the rows so far")
	}
	for _, x := range r.Targets {
		add("target", list(x.URL, x.API, x.Model, x.Server))
	}
	if r.ToolVer != "" {
		add("made by", fmt.Sprintf("parley %s, seed %d", r.ToolVer, r.Seed))
	}
	if d := &r.Dataset; d.File != "" {
		group = "Dataset"
		add("file", d.File)
		if d.Turns > 0 {
			add("size", Counted(d.Conversations, "conversation")+", "+Counted(d.Turns, "turn"))
		}
		add("tokenizer", d.Tokenizer)
		add("content", d.ContentHash)
	}
	group = "Window"
	add("kind", r.Window.Kind)
	add("how", sentence(r.Window.How))
	add("left out", strings.TrimSuffix(leftOut(&r.Window), " left out"))
	group = "Client"
	add("machine", list(r.Host.OS+"/"+r.Host.Arch, r.Host.Kernel, r.Host.CPU))
	if r.Host.CPUs > 0 {
		add("cores", fmt.Sprintf("%d, of which Go uses %d", r.Host.CPUs, r.Host.GOMAXPROCS))
	}
	clock := map[string]string{"kernel": "the kernel's receive time stamps", "user": "stamps by the process (no kernel stamps)"}[r.Clock.Source]
	clock = cmp.Or(clock, r.Clock.Source)
	if r.Clock.Fallback != "" {
		clock += " (" + r.Clock.Fallback + ")"
	}
	add("arrival times", clock)
	if h := r.Health; h != nil {
		add("processor", fmt.Sprintf("%s of all cores, %s in the busiest second", Share(analyze.Num(h.CPUShare)), Share(analyze.Num(h.CPUSharePeak))))
		add("scheduler latency", ms(h.SchedLatencyP50, h.SchedLatencyP99))
		add("GC pauses", fmt.Sprintf("p99 %s ms, %s ms in all", Number(analyze.Num(h.GCPauseP99)), Number(analyze.Num(h.GCPauseTotal))))
		add("pacer lateness", ms(h.WakeLatenessP50, h.WakeLatenessP99))
		add("at once", fmt.Sprintf("%s, %s at most", Counted(h.PeakInFlight, "request"), Counted(h.PeakActive, "conversation")))
		add("memory", Number(analyze.Num(float64(h.PeakRSSBytes)/1e6))+" MB at most")
	}
	if c := r.Calibrated; c != nil {
		group = "Calibration: what this client added at this load"
		add("against", list(c.Description, c.Path, c.When))
		add("requests", fmt.Sprintf("%s, %s at once", Count(c.Requests), Count(c.Streams)))
		add("added to TTFT", ms(c.TTFTErrP50, c.TTFTErrP99))
		add("added to gaps", ms(c.GapErrP50, c.GapErrP99))
		add("send lag", fmt.Sprintf("p99 %s ms", Number(analyze.Num(c.SendLagP99))))
	}
	return t
}
