package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"parley/analyze"
)

// facts are a run's identity, circumstances and settings.
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
		facts := []fact{{"Against", c.Description}}
		add(&facts, "Over", c.Path)
		out.Cards = append(out.Cards, factCard{"Calibration", append(facts, []fact{
			{"When", c.When},
			{"Requests", count(c.Requests) + ", " + count(c.Streams) + " at once"},
			{"Added to TTFT", fmt.Sprintf("p50 %s ms, p99 %s ms", number(c.TTFTErrP50), number(c.TTFTErrP99))},
			{"Added to gaps", fmt.Sprintf("p50 %s ms, p99 %s ms", number(c.GapErrP50), number(c.GapErrP99))},
			{"Send lag", fmt.Sprintf("p99 %s ms", number(c.SendLagP99))},
		}...)})
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
	if run.Clock.Fallback != "" {
		clock += " (" + run.Clock.Fallback + ")"
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
