package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"parley/analyze"
	"parley/analyze/render"
)

type fact struct{ Name, Value string }

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
func terms(r *analyze.Result) []fact {
	from := map[analyze.Moment]string{
		analyze.FromSent:      "the request's first byte was handed to the kernel",
		analyze.FromStart:     "the client began the attempt",
		analyze.FromScheduled: "the schedule asked for the turn",
	}[r.From]
	if from == "" {
		from = "the turn began"
	}
	list := []fact{
		{"TTFT", "Time to first token, from when " + from + " to the first event that proves a token."},
		{"TPOT", "Time per output token after the first chunk."},
		{"ITL", "Inter-token latency: the gap between two chunks, spread over the tokens that the later one carried. The chunk gap itself is what other tools call ITL."},
		{"E2E", "End-to-end latency, to the last token."},
		{"Send lag", "How much later than scheduled a turn went."},
		{"Percentiles", "Exact, by linear interpolation. ~ marks one of this run only: the sample is too small to say more."},
	}
	if r.Level > 0 {
		list = append(list, fact{"Intervals", "The small figures are " + render.Given(r.Level*100) + " % confidence intervals that allow for turns of one conversation being alike."})
	}
	list = append(list, fact{"Failed turns", "Are rows like all others. Latencies cover completed turns; the rows with failures as infinity count a failed turn as never ending."})
	return list
}
