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

// vllmRequest is one request's details, in seconds.
type vllmRequest struct {
	input, output int64
	ttft, latency float64
	start         float64
	itls          []float64
	err           string
}

func vllmResult(ctx context.Context, r *run, res *RunResult, o *Options) (*VLLM, error) {
	f, err := r.read(ctx, append(neededColumns(o), "error_message"))
	if err != nil {
		return nil, err
	}
	w, _ := findWindow(r, f, o.Window)
	requests, at := vllmRequests(f, &w)
	detailed := false
	if n, err := r.chunkCount(f); err != nil {
		return nil, err
	} else if detailed = n <= rawGaps; detailed {
		if err := vllmITLs(ctx, r, requests, at); err != nil {
			return nil, err
		}
	}
	v := &VLLM{}
	vllmSettings(v, r, res, o)
	vllmTotals(v, res, requests)
	vllmStatistics(v, requests, detailed, o)
	if detailed {
		vllmDetails(v, requests)
	}
	return v, nil
}

// vllmRequests gives the requests that were sent in the window, and which of them each row is (-1: none).
func vllmRequests(f *frame, w *window) (requests []vllmRequest, at []int32) {
	turn, start := f.ints("turn"), f.ints("start_ns")
	first, last := f.ints("first_token_ns"), f.ints("last_token_ns")
	prompt, completion := f.ints("prompt_tokens"), f.ints("completion_tokens")
	kinds, messages := f.strs("error_kind"), f.strs("error_message")
	at = make([]int32, f.rows)
	for row := range f.rows {
		at[row] = -1
		if !f.main[row] || start[row] == schemas.NullInt || !w.holds(f, turn, row) {
			continue
		}
		q := vllmRequest{start: float64(start[row]) / 1e9, input: max(0, prompt[row])}
		if f.status[row] == statusOK {
			q.output = max(0, completion[row])
			if first[row] != schemas.NullInt && last[row] != schemas.NullInt {
				q.ttft, q.latency = float64(first[row]-start[row])/1e9, float64(last[row]-start[row])/1e9
			}
		} else {
			q.err = string(schemas.Statuses[f.status[row]])
			if c := kinds.Codes[row]; c >= 0 {
				q.err += ": " + kinds.Values[c]
			}
			if c := messages.Codes[row]; c >= 0 {
				q.err += ": " + messages.Values[c]
			}
		}
		at[row] = int32(len(requests))
		requests = append(requests, q)
	}
	return requests, at
}

// vllmITLs adds the chunk gaps of the completed requests.
func vllmITLs(ctx context.Context, r *run, requests []vllmRequest, at []int32) error {
	return r.readLists(ctx, func(_, first int, _ int64, l *schemas.Lists) error {
		for i := range l.Rows() {
			ns, _ := l.Row(i)
			if at[first+i] < 0 {
				continue
			}
			q := &requests[at[first+i]] // every row is in one batch only
			if q.err != "" {
				continue
			}
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

func vllmTotals(v *VLLM, res *RunResult, requests []vllmRequest) {
	var completed, failed, input, output int64
	for i := range requests {
		if requests[i].err != "" {
			failed++
			continue
		}
		completed++
		input += requests[i].input
		output += requests[i].output
	}
	t := &res.Total.Throughput
	v.set("duration", t.Seconds)
	v.set("completed", completed)
	v.set("failed", failed)
	v.set("total_input_tokens", input)
	v.set("total_output_tokens", output)
	// The rates are the table's: they count what was completed in the window, not what was sent in it.
	v.set("request_throughput", t.Requests)
	var good any
	if g := res.Total.Goodput; g != nil {
		good = g.Requests
	}
	v.set("request_goodput", good)
	v.set("output_throughput", t.CompletionTokens)
	v.set("total_token_throughput", t.TotalTokens)
	v.set("max_output_tokens_per_s", t.PeakTokenRate)
	v.set("max_concurrent_requests", t.PeakInFlight)
}

// vllmStatistics sets mean, median, deviation and percentiles of the four latencies, in milliseconds.
func vllmStatistics(v *VLLM, requests []vllmRequest, detailed bool, o *Options) {
	var ttft, tpot, itl, e2e []float64
	for i := range requests {
		q := &requests[i]
		if q.err != "" || q.latency == 0 {
			continue
		}
		ttft = append(ttft, q.ttft*1e3)
		e2e = append(e2e, q.latency*1e3)
		if q.output > 1 {
			tpot = append(tpot, (q.latency-q.ttft)*1e3/float64(q.output-1))
		}
		for _, g := range q.itls {
			itl = append(itl, g*1e3)
		}
	}
	for _, m := range []struct {
		name   string
		values []float64
	}{{"ttft", ttft}, {"tpot", tpot}, {"itl", itl}, {"e2el", e2e}} {
		if m.name == "itl" && !detailed {
			continue
		}
		name := m.name + "_ms"
		var mean, squares float64
		for _, x := range m.values {
			mean += x / float64(len(m.values))
		}
		for _, x := range m.values {
			squares += (x - mean) * (x - mean) / float64(len(m.values))
		}
		slices.Sort(m.values)
		at := func(q float64) float64 {
			if len(m.values) == 0 {
				return 0 // what vLLM writes for nothing
			}
			return stat.Quantile(m.values, q)
		}
		v.set("mean_"+name, mean)
		v.set("median_"+name, at(0.5))
		v.set("std_"+name, math.Sqrt(squares))
		for _, p := range o.Percentiles {
			v.set("p"+strconv.FormatFloat(p, 'f', -1, 64)+"_"+name, at(p/100))
		}
	}
}

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
	v.set("input_lens", inputs)
	v.set("output_lens", outputs)
	v.set("ttfts", ttfts)
	v.set("itls", itls)
	v.set("start_times", starts)
	v.set("generated_texts", texts)
	v.set("errors", errs)
}
