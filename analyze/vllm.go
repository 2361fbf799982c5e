package analyze

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"parley/analyze/stat"
	"parley/schemas"
)

// VLLM is the layout that vllm bench serve saves with --save-result --save-detailed, so that what people
// made for its files goes on working. Its formulas are its own, not parley's: TTFT counts from the
// request's start, before there is a connection; ITL is one per chunk; TPOT is (latency - TTFT) /
// (output tokens - 1); standard deviations divide by n.
type VLLM struct {
	fields []vllmField
}

type vllmField struct {
	name  string
	value any
}

func (v *VLLM) set(name string, value any) { v.fields = append(v.fields, vllmField{name, value}) }

// figure sets a figure that may not be known: then its key is left out, for readers take every value as a
// number.
func (v *VLLM) figure(name string, value Num) {
	if value.Known() {
		v.set(name, float64(value))
	}
}

// MarshalJSON keeps the order of the fields.
func (v *VLLM) MarshalJSON() ([]byte, error) {
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

// VLLMResults gives one result in vLLM's layout for each run of an analysis. Runs with more chunks than
// fit in memory come without the details per request.
func VLLMResults(ctx context.Context, runs *Runs, res *Result, o Options) ([]*VLLM, error) {
	o = o.withDefaults()
	var out []*VLLM
	for i, r := range runs.list {
		v, err := vllmResult(ctx, r, &res.Runs[i], &o)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// vllmRequest is one request's details; times in seconds. What the server did not tell is NaN, and -1 for
// counts.
type vllmRequest struct {
	input, output int64
	ttft, start   float64
	itls          []float64
	err           string
}

func vllmResult(ctx context.Context, r *run, res *RunResult, o *Options) (*VLLM, error) {
	f, err := r.read(ctx, append(neededColumns(o), "error_message"))
	if err != nil {
		return nil, err
	}
	w, _, err := findWindow(r, f, o.Window)
	if err != nil {
		return nil, err
	}
	rows := vllmRows(f, &w)
	v := &VLLM{}
	vllmSettings(v, r, res, o)
	vllmTotals(v, res)
	vllmStatistics(v, f, rows, r.chunks.burst, res, o)
	if n, err := r.chunkCount(f); err != nil || n > exactGaps {
		return v, err
	}
	requests := vllmRequests(f, rows)
	if err := vllmITLs(ctx, r, rows, requests); err != nil {
		return nil, err
	}
	vllmDetails(v, requests)
	return v, nil
}

// vllmRows gives the rows of the requests that were sent in the window.
func vllmRows(f *frame, w *window) []int {
	turn, start := f.ints("turn"), f.ints("start_ns")
	var rows []int
	for row := range f.rows {
		if f.main[row] && start[row] != schemas.NullInt && w.holds(f, turn, row) {
			rows = append(rows, row)
		}
	}
	return rows
}

func vllmRequests(f *frame, rows []int) []vllmRequest {
	start, prompt, completion := f.ints("start_ns"), f.ints("prompt_tokens"), f.ints("completion_tokens")
	kinds, messages := f.strs("error_kind"), f.strs("error_message")
	ttft := rowFigure("ttft_start").values(f, nil)
	requests := make([]vllmRequest, len(rows))
	for i, row := range rows {
		q := &requests[i]
		*q = vllmRequest{start: float64(start[row]) / 1e9, input: max(-1, prompt[row]), output: max(-1, completion[row]), ttft: ttft(row) / 1e3}
		if f.status[row] != statusOK {
			q.input, q.output, q.ttft = max(0, q.input), 0, 0 // as vLLM writes of a request that failed
			q.err = string(schemas.Statuses[f.status[row]])
			if c := kinds.Codes[row]; c >= 0 {
				q.err += ": " + kinds.Values[c]
			}
			if c := messages.Codes[row]; c >= 0 {
				q.err += ": " + messages.Values[c]
			}
		}
	}
	return requests
}

// vllmITLs adds the chunk gaps of the completed requests.
func vllmITLs(ctx context.Context, r *run, rows []int, requests []vllmRequest) error {
	return r.readLists(ctx, func(_, first int, _ int64, l *schemas.Lists) error {
		i, _ := slices.BinarySearch(rows, first)
		for ; i < len(rows) && rows[i] < first+l.Rows(); i++ { // every row is in one batch only
			q := &requests[i]
			if q.err != "" {
				continue
			}
			ns, _ := l.Row(rows[i] - first)
			for c := 1; c < len(ns); c++ {
				q.itls = append(q.itls, float64(ns[c]-ns[c-1])/1e9)
			}
		}
		return nil
	})
}

func vllmSettings(v *VLLM, r *run, res *RunResult, o *Options) {
	config := flatConfig(r)
	target := schemas.Target{}
	if len(r.meta.Targets) > 0 {
		target = r.meta.Targets[0]
	}
	backend := map[string]string{"chat": "openai-chat", "completions": "openai"}[target.API]
	if backend == "" {
		backend = target.API
	}
	v.set("date", r.meta.Origin.UTC().Format("20060102-150405"))
	v.set("endpoint_type", backend)
	v.set("backend", backend)
	v.set("label", orNull(r.meta.Label))
	v.set("model_id", target.Model)
	v.set("tokenizer_id", r.meta.Dataset.Tokenizer)
	v.set("num_prompts", res.Total.Counts.Planned)
	v.set("parley_run_id", r.meta.RunID)
	v.set("parley_verdict", res.Verdict.Grade)
	v.set("parley_window", res.Window.How)
	if rate := r.meta.OfferedRate; rate != nil {
		// Of conversations, where vLLM's is of requests.
		v.set("request_rate", *rate)
	} else {
		v.set("request_rate", "inf")
	}
	burstiness := 1.0
	if b, err := strconv.ParseFloat(config["config.burstiness"], 64); err == nil && b > 0 {
		burstiness = b
	}
	v.set("burstiness", burstiness)
	v.set("max_concurrency", r.meta.Concurrency)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// vllmTotals sets counts and rates. Both are the table's, over what happened in the window, so that they
// agree: completed / duration is request_throughput, and the same of tokens.
func vllmTotals(v *VLLM, res *RunResult) {
	t := &res.Total.Throughput
	total := func(name string, rate Num) {
		if n := rate * t.Seconds; n.Known() {
			v.set(name, int64(math.Round(float64(n))))
		}
	}
	v.figure("duration", t.Seconds)
	total("completed", t.Requests)
	v.set("failed", res.Total.Counts.Failed)
	total("total_input_tokens", t.PromptTokens)
	if res.Total.Tokens.Completion.Known() { // not only those that were counted by their chunks
		total("total_output_tokens", t.CompletionTokens)
	}
	v.figure("request_throughput", t.Requests)
	if g := res.Total.Goodput; g != nil {
		v.figure("request_goodput", g.Requests)
	}
	v.figure("output_throughput", t.CompletionTokens)
	v.figure("total_token_throughput", t.TotalTokens)
	v.figure("max_output_tokens_per_s", t.PeakTokenRate)
	v.set("max_concurrent_requests", t.PeakInFlight)
}

// vllmStatistics sets mean, median, deviation and percentiles of the four latencies, in milliseconds.
func vllmStatistics(v *VLLM, f *frame, rows []int, bursts []bool, res *RunResult, o *Options) {
	started := &Options{From: FromStart}
	qs := []float64{0.5}
	for _, p := range o.Percentiles {
		qs = append(qs, p/100)
	}
	var scratch stat.Scratch
	row := func(name, figure string) {
		fig := rowFigure(figure)
		value := fig.values(f, started)
		var in stat.Sample
		for _, row := range rows {
			if x := value(row); f.status[row] == statusOK && x == x && !(fig.perToken && bursts[row]) {
				in.Values = append(in.Values, x)
			}
		}
		s := scratch.Summarize(in, qs, stat.Window{}, true)
		percentiles := make([]Num, len(o.Percentiles))
		for i := range percentiles {
			percentiles[i] = Num(s.Quantiles[1+i].Value)
		}
		v.latency(name, int64(s.N), Num(s.Mean.Value), Num(s.Quantiles[0].Value), Num(s.Std), o.Percentiles, percentiles)
	}
	row("ttft", "ttft")
	row("tpot", "tpot_request")
	if gap := res.Total.Figure(figChunkGap); gap != nil { // one per chunk, as vLLM has it
		median, percentiles := Missing, make([]Num, len(gap.Percentiles))
		for i, p := range gap.Percentiles {
			percentiles[i] = p.Value
			if p.P == 50 {
				median = p.Value
			}
		}
		v.latency("itl", gap.N, gap.Mean, median, gap.Std, o.Percentiles, percentiles)
	}
	row("e2el", "e2e")
}

// latency sets the statistics of one latency. Deviations of vLLM divide by n. What is not known has no key;
// nor has a TPOT of 0, of answers that came in one piece: readers divide by it.
func (v *VLLM) latency(name string, n int64, mean, median, std Num, percentiles []float64, values []Num) {
	set := func(statistic string, value Num) {
		if name != "tpot" || value > 0 {
			v.figure(statistic+"_"+name+"_ms", value)
		}
	}
	set("mean", mean)
	set("median", median)
	switch {
	case n == 1:
		set("std", 0)
	case n > 1:
		set("std", std*Num(math.Sqrt(float64(n-1)/float64(n))))
	}
	for i, p := range percentiles {
		set("p"+strconv.FormatFloat(p, 'f', -1, 64), values[i])
	}
}

// vllmDetails sets the lists with a value per request. A list in which a completed request's value is not
// known is left out.
func vllmDetails(v *VLLM, requests []vllmRequest) {
	n := len(requests)
	inputs, outputs := make([]int64, n), make([]int64, n)
	ttfts, starts, itls := make([]float64, n), make([]float64, n), make([][]float64, n)
	texts, errs := make([]string, n), make([]string, n)
	for i := range requests {
		q := &requests[i]
		inputs[i], outputs[i], ttfts[i], starts[i], errs[i] = q.input, q.output, q.ttft, q.start, q.err
		if itls[i] = q.itls; itls[i] == nil {
			itls[i] = []float64{}
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
