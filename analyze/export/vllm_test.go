package export

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/analyze"
	"parley/analyze/internal/synth"
	"parley/analyze/stat"
	"parley/schemas"
)

// made writes rows to a file, and gives what a layout makes of it, by the files' paths.
func made(t *testing.T, format string, s synth.Spec, change func(i int, r *schemas.Request), o analyze.Options, facts Facts) (map[string][]byte, *analyze.Result) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.parquet")
	w, err := schemas.Create[schemas.Request](path, true)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for r := range synth.Rows(s) {
		if change != nil {
			change(i, r)
		}
		if err := w.Write(*r); err != nil {
			t.Fatal(err)
		}
		i++
	}
	meta := synth.Meta(s)
	slots := int64(s.Slots)
	meta.Concurrency = &slots
	if err := w.Close(meta); err != nil {
		t.Fatal(err)
	}
	runs, err := analyze.Load(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close()
	if o, err = Prepare(format, o, facts); err != nil {
		t.Fatal(err)
	}
	res, err := analyze.Analyze(t.Context(), runs, o)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(t.Context(), format, runs, res, o, nil, facts)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		var b bytes.Buffer
		if err := f.Write(&b); err != nil {
			t.Fatal(err)
		}
		out[f.Path] = b.Bytes()
	}
	return out, res
}

// object reads one file of JSON back.
func object(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return out
}

var usual = synth.Spec{Seed: 4, Conversations: 60, Turns: 8, Slots: 8, TTFT: 60, Gap: 8, Spread: 0.3, Shared: 0.1, Chunks: 12, Failures: 0.05}

func vllmOf(t *testing.T, change func(i int, r *schemas.Request), o analyze.Options) map[string]any {
	t.Helper()
	files, _ := made(t, "vllm-json", usual, change, o, nil)
	return object(t, files["run.json"])
}

// point reads a result as InferenceX does to make its point of it: every key that ends in ms is a number, and
// is divided by if it is a TPOT.
func point(t *testing.T, v map[string]any) {
	t.Helper()
	for k, x := range v {
		if !strings.HasSuffix(k, "ms") {
			continue
		}
		if f, ok := x.(float64); !ok || strings.Contains(k, "tpot") && !(1000/f < math.Inf(1)) {
			t.Errorf("%s is %v", k, x)
		}
	}
}

var all = analyze.WindowSpec{Kind: analyze.WindowAll}

func TestVLLMAgreesWithItself(t *testing.T) {
	for _, window := range []analyze.WindowSpec{all, {Kind: analyze.WindowSteady}} {
		v := vllmOf(t, nil, analyze.Options{Window: window, Objectives: []analyze.Objective{{Figure: "ttft", Limit: 80}}})
		point(t, v)
		number := func(k string) float64 {
			f, ok := v[k].(float64)
			if !ok {
				t.Fatalf("%s: %s is %v", window.Kind, k, v[k])
			}
			return f
		}
		duration := number("duration")
		for count, rate := range map[string]string{"completed": "request_throughput", "total_output_tokens": "output_throughput"} {
			if got, want := number(rate)*duration, number(count); math.Abs(got-want) > 0.5 || want < 100 {
				t.Errorf("%s: %s * duration is %v, %s %v", window.Kind, rate, got, count, want)
			}
		}
		if in, out, all := number("total_input_tokens"), number("total_output_tokens"), number("total_token_throughput"); math.Abs(all*duration-in-out) > 1 {
			t.Errorf("%s: %v tokens in all, of %v and %v", window.Kind, all*duration, in, out)
		}
		// The statistics are those of the lists.
		var ttft, itl []float64
		ttfts, itls, errs := v["ttfts"].([]any), v["itls"].([]any), v["errors"].([]any)
		failed := 0
		for i := range ttfts {
			if errs[i] != "" {
				failed++
				continue
			}
			ttft = append(ttft, ttfts[i].(float64)*1e3)
			for _, x := range itls[i].([]any) {
				itl = append(itl, x.(float64)*1e3)
			}
		}
		if failed == 0 || float64(failed) != number("failed") {
			t.Errorf("%s: %d failed, %v told", window.Kind, failed, v["failed"])
		}
		for name, values := range map[string][]float64{"ttft": ttft, "itl": itl} {
			slices.Sort(values)
			mean, std := stat.MeanStd(values)
			n := float64(len(values))
			for k, want := range map[string]float64{
				"mean_": mean, "std_": std * math.Sqrt((n-1)/n), "median_": stat.Quantile(values, 0.5), "p99_": stat.Quantile(values, 0.99),
			} {
				if got := number(k + name + "_ms"); math.Abs(got-want) > 1e-9*want {
					t.Errorf("%s: %s%s_ms is %v, its list says %v", window.Kind, k, name, got, want)
				}
			}
		}
	}
}

// What is not known has no key: neither null nor 0.
func TestVLLMLeavesOutTheUnknown(t *testing.T) {
	v := vllmOf(t, func(_ int, r *schemas.Request) { // one document, no usage
		r.FirstTokenNS, r.ChunkNS, r.ChunkTokens, r.PromptTokens, r.CompletionTokens, r.TokenSource = nil, nil, nil, nil, nil, nil
		r.Derive()
	}, analyze.Options{Window: all})
	point(t, v)
	for k, x := range v {
		for _, unknown := range []string{"ttft", "tpot", "itl_ms", "goodput", "total_input", "total_output", "input_lens", "output_lens"} {
			if strings.Contains(k, unknown) {
				t.Errorf("%s is %v", k, x)
			}
		}
	}
	for _, k := range []string{"mean_e2el_ms", "p99_e2el_ms", "completed", "request_throughput"} {
		if f, ok := v[k].(float64); !ok || f <= 0 {
			t.Errorf("%s is %v", k, v[k])
		}
	}
	v = vllmOf(t, func(_ int, r *schemas.Request) { // all in one piece
		for i := range r.ChunkNS {
			r.ChunkNS[i] = r.ChunkNS[0]
		}
		if r.LastTokenNS != nil {
			*r.LastTokenNS = *r.FirstTokenNS
		}
		r.Derive()
	}, analyze.Options{Window: all})
	point(t, v)
	if v["mean_itl_ms"] != 0.0 || v["mean_tpot_ms"] != nil {
		t.Errorf("gaps of 0: %v, TPOT of 0: %v", v["mean_itl_ms"], v["mean_tpot_ms"])
	}
}

func TestVLLMResults(t *testing.T) {
	spec := synth.Spec{Seed: 3, Conversations: 160, Turns: 6, Slots: 16, TTFT: 60, Gap: 8, Spread: 0.4, Shared: 0.3, Chunks: 20,
		PerChunk: true, Cached: true, Failures: 0.05, Shed: 0.02, Looped: true, StopS: 12}
	files, res := made(t, "vllm-json", spec, nil, analyze.Options{Window: all, Objectives: []analyze.Objective{{Figure: "ttft", Limit: 100}}}, nil)
	got := object(t, files["run.json"])
	for _, want := range strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency
		duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput
		total_token_throughput max_output_tokens_per_s max_concurrent_requests
		mean_ttft_ms median_ttft_ms std_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms std_tpot_ms p99_tpot_ms
		mean_itl_ms median_itl_ms std_itl_ms p99_itl_ms mean_e2el_ms median_e2el_ms std_e2el_ms p99_e2el_ms
		input_lens output_lens ttfts itls start_times generated_texts errors`) {
		if _, ok := got[want]; !ok {
			t.Errorf("no field %s", want)
		}
	}
	total := &res.Runs[0].Total
	if got["completed"] != float64(total.Counts.OK) || got["request_goodput"] != float64(total.Goodput.Requests) || got["date"] != "20260102-030405" || got["request_rate"] != "inf" {
		t.Errorf("completed %v, date %v, rate %v", got["completed"], got["date"], got["request_rate"])
	}
	// TTFT is vLLM's: from the start of the request. ITL is the chunk gap.
	for key, figure := range map[string]string{"mean_ttft_ms": "ttft_start", "p99_ttft_ms": "ttft_start", "mean_tpot_ms": "tpot_request", "mean_itl_ms": "chunk_gap"} {
		f := total.Figure(figure)
		want := float64(f.Mean)
		if key[0] == 'p' {
			want = float64(f.Percentile(99).Value)
		}
		if v := got[key].(float64); math.Abs(v/want-1) > 1e-9 {
			t.Errorf("%s is %v, want %v", key, v, want)
		}
	}
	lens, errs, itls := got["output_lens"].([]any), got["errors"].([]any), got["itls"].([]any)
	for i, e := range errs {
		if e != "" && (lens[i] != 0.0 || len(itls[i].([]any)) != 0) {
			t.Errorf("request %d failed (%s) with %v tokens", i, e, lens[i])
		}
	}
	if n := int64(len(errs)); n != total.Counts.Sent {
		t.Errorf("%d requests, want %d", n, total.Counts.Sent)
	}
}
