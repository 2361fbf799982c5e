package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"parley/analyze"
	"parley/schemas"
)

// vllm is the layout that vllm bench serve saves with --save-result --save-detailed. Its formulas are: TTFT counts
// from the request's start, before there is a connection; ITL is one per chunk; TPOT is (latency - TTFT) /
// (output tokens - 1); standard deviations divide by n.
type vllm struct {
	fields []vllmField
}

type vllmField struct {
	name  string
	value any
}

func (v *vllm) set(name string, value any) { v.fields = append(v.fields, vllmField{name, value}) }

// figure sets a figure that may not be known: then its key is left out, for readers take every value as a
// number.
func (v *vllm) figure(name string, value analyze.Num) {
	if value.Known() {
		v.set(name, float64(value))
	}
}

// get gives the value of a field; nil if there is none.
func (v *vllm) get(name string) any {
	for _, f := range v.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// MarshalJSON keeps the order of the fields.
func (v *vllm) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range v.fields {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		fmt.Fprintf(&b, "%q:%s", f.name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func vllmFiles(l *level, _ Facts) ([]File, error) {
	v := vllmResult(l)
	if l.listed {
		v.details(l)
	}
	return []File{jsonFile(l.name()+".json", false, v)}, nil
}

// vllmResult gives the layout without the lists that have a value per request.
func vllmResult(l *level) *vllm {
	v := &vllm{}
	v.settings(l)
	v.totals(l)
	v.latency("ttft", l.percentiles, l.collect(func(t *analyze.Turn) float64 { return ms(span(t.Start, t.FirstToken)) }))
	v.latency("tpot", l.percentiles, l.collect(otherTPOT))
	v.gaps(l)
	v.latency("e2el", l.percentiles, l.collect(func(t *analyze.Turn) float64 { return ms(span(t.Start, t.LastToken)) }))
	return v
}

// otherTPOT is the time per output token the way most clients work it out, in milliseconds: all tokens but one
// came after the first chunk.
func otherTPOT(t *analyze.Turn) float64 {
	if t.Burst {
		return math.NaN()
	}
	return per(ms(span(t.FirstToken, t.LastToken)), count(t.Completion)-float64(t.Hidden)-1)
}

func (v *vllm) settings(l *level) {
	target, run := l.target(), l.run
	backend := map[string]string{"chat": "openai-chat", "completions": "openai"}[target.API]
	if backend == "" {
		backend = target.API
	}
	v.set("date", run.Origin.UTC().Format("20060102-150405"))
	v.set("endpoint_type", backend)
	v.set("backend", backend)
	v.set("label", run.Label)
	v.set("model_id", target.Model)
	v.set("tokenizer_id", run.Dataset.Tokenizer)
	v.set("num_prompts", l.group.Counts.Planned)
	v.set("parley_run_id", run.RunID)
	v.set("parley_verdict", run.Verdict.Grade)
	v.set("parley_window", run.Window.How)
	if l.offered != nil {
		// Of conversations, where vLLM's is of requests.
		v.set("request_rate", *l.offered)
	} else {
		v.set("request_rate", "inf")
	}
	config := struct{ Burstiness float64 }{}
	_ = json.Unmarshal(run.Config, &config) // 0 without a configuration
	if config.Burstiness <= 0 {
		config.Burstiness = 1
	}
	v.set("burstiness", config.Burstiness)
	v.set("max_concurrency", l.concurrency)
}

// totals sets counts and rates. Both are the table's, over what happened in the window, so that they
// agree: completed / duration is request_throughput, and the same of tokens.
func (v *vllm) totals(l *level) {
	t := &l.group.Throughput
	total := func(name string, rate analyze.Num) {
		if n := rate * t.Seconds; n.Known() {
			v.set(name, int64(math.Round(float64(n))))
		}
	}
	v.figure("duration", t.Seconds)
	total("completed", t.Requests)
	v.set("failed", l.group.Counts.Failed)
	total("total_input_tokens", t.PromptTokens)
	if l.group.Tokens.Completion.Known() { // not only those that were counted by their chunks
		total("total_output_tokens", t.CompletionTokens)
	}
	v.figure("request_throughput", t.Requests)
	if g := l.group.Goodput; g != nil {
		v.figure("request_goodput", g.Requests)
	}
	v.figure("output_throughput", t.CompletionTokens)
	v.figure("total_token_throughput", t.TotalTokens)
	v.figure("max_output_tokens_per_s", t.PeakTokenRate)
	v.set("max_concurrent_requests", t.PeakInFlight)
}

// latency sets mean, median, deviation and percentiles of a latency, in milliseconds. What is not known has no key;
// nor has a TPOT of 0, of answers that came in one piece: readers divide by it.
func (v *vllm) latency(name string, percentiles []float64, s sample) {
	if len(s) == 0 {
		return
	}
	v.statistic(name, "mean", s.mean())
	v.statistic(name, "median", s.percentile(50))
	v.statistic(name, "std", s.std(0))
	for _, p := range percentiles {
		v.statistic(name, "p"+strconv.FormatFloat(p, 'f', -1, 64), s.percentile(p))
	}
}

func (v *vllm) statistic(name, statistic string, value float64) {
	if name != "tpot" || value > 0 {
		v.figure(statistic+"_"+name+"_ms", analyze.Num(value))
	}
}

// gaps sets the ITL, which is the chunk gap: that of the result, which is there for any number of chunks.
func (v *vllm) gaps(l *level) {
	gap := l.group.Figure("chunk_gap")
	if gap == nil || gap.N == 0 {
		return
	}
	at := func(p float64) float64 {
		if x := gap.Percentile(p); x != nil {
			return float64(x.Value)
		}
		return math.NaN()
	}
	v.statistic("itl", "mean", float64(gap.Mean))
	v.statistic("itl", "median", at(50))
	std := 0.0
	if n := float64(gap.N); n > 1 {
		std = float64(gap.Std) * math.Sqrt((n-1)/n)
	}
	v.statistic("itl", "std", std)
	for _, p := range l.percentiles {
		v.statistic("itl", "p"+strconv.FormatFloat(p, 'f', -1, 64), at(p))
	}
}

// details sets the lists with a value per request, times in seconds. A list in which a completed request's value is
// not known is left out.
func (v *vllm) details(l *level) {
	n := len(l.turns)
	inputs, outputs := make([]int64, n), make([]int64, n)
	ttfts, starts, itls := make([]float64, n), make([]float64, n), make([][]float64, n)
	texts, errs := make([]string, n), make([]string, n)
	for i := range l.turns {
		t := &l.turns[i]
		inputs[i], outputs[i], ttfts[i], starts[i] = max(-1, t.Prompt), max(-1, t.Completion), span(t.Start, t.FirstToken)/1e9, float64(t.Start)/1e9
		itls[i] = []float64{}
		if t.Status != schemas.StatusOK {
			inputs[i], outputs[i], ttfts[i] = max(0, t.Prompt), 0, 0 // as vLLM writes of a request that failed
			errs[i] = failure(t)
			continue
		}
		for c := 1; c < len(t.ChunkNS); c++ {
			itls[i] = append(itls[i], float64(t.ChunkNS[c]-t.ChunkNS[c-1])/1e9)
		}
	}
	if !slices.Contains(inputs, -1) {
		v.set("input_lens", inputs)
	}
	if !slices.Contains(outputs, -1) {
		v.set("output_lens", outputs)
	}
	if !slices.ContainsFunc(ttfts, math.IsNaN) {
		v.set("ttfts", ttfts)
	}
	v.set("itls", itls)
	v.set("start_times", starts)
	v.set("generated_texts", texts)
	v.set("errors", errs)
}

// failure says in words how a turn failed.
func failure(t *analyze.Turn) string {
	text := string(t.Status)
	for _, more := range []string{t.Error, t.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}
