package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"parley/analyze"
	"parley/analyze/internal/synth"
	"parley/schemas"
)

// known-by-hand requests: a connection took 30 ms, the first chunk carried 3 tokens, the response went on for 25 ms
// after its last token.
func byHand(i int, r *schemas.Request) {
	at := func(ms float64) *int64 { v := int64(i)*1e9 + int64(ms*1e6); return &v }
	n := func(v int64) *int64 { return &v }
	r.Turn, r.Status, r.Phase = 0, string(schemas.StatusOK), schemas.PhaseMain
	r.ConversationID = fmt.Sprint("c", i)
	r.ErrorKind, r.ReasoningTokens = nil, n(2)
	slower := float64(i) // the last request's time to first token is 10 ms longer for each
	r.ScheduledNS, r.ReadyNS, r.StartNS, r.SentNS, r.WroteNS = at(0), at(0), at(1), at(31), at(32)
	r.FirstByteNS, r.FirstEventNS = at(40), at(40)
	r.FirstTokenNS, r.FirstAnswerNS = at(131+10*slower), at(151+10*slower)
	// Chunks of 3, 1 and 6 tokens, after 20 and 40 ms.
	r.ChunkNS = []int64{*at(131 + 10*slower), *at(151 + 10*slower), *at(191 + 10*slower)}
	r.ChunkTokens = []int64{3, 1, 6}
	r.LastTokenNS, r.DoneNS = at(191+10*slower), at(216+10*slower)
	r.PromptTokens, r.CompletionTokens, r.CachedTokens = n(100), n(10), nil
	r.Derive()
}

// TestCrosswalk reads one run by the formulas of each program: README.md's table, figure by figure.
func TestCrosswalk(t *testing.T) {
	spec := synth.Spec{Seed: 1, Conversations: 5, Turns: 1, Slots: 5, TTFT: 1, Gap: 1, Chunks: 4}
	o := analyze.Options{Window: all}
	near := func(what string, got any, want float64) {
		t.Helper()
		if v, ok := got.(float64); !ok || math.Abs(v-want) > 1e-9*math.Max(1, want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	in := func(v any, path ...string) any {
		for _, p := range path {
			m, _ := v.(map[string]any)
			v = m[p]
		}
		return v
	}

	// parley's own: from the sending, per token.
	files, res := made(t, "llm-d", spec, byHand, o, Facts{"hw": "H100", "tp": 2, "framework": "vllm", "framework_version": "1"})
	d := object(t, files["run.json"])
	latency := in(d, "results", "request_performance", "aggregate", "latency")
	near("TTFT", in(latency, "time_to_first_token", "mean"), 120)
	near("TTFT p50", in(latency, "time_to_first_token", "p50"), 120)
	near("E2E", in(latency, "request_latency", "mean"), 180)
	near("TPOT", in(latency, "time_per_output_token", "mean"), 60./7)
	near("ITL", in(latency, "inter_token_latency", "mean"), (20.+6*40./6)/7)
	near("NTPOT", in(latency, "normalized_time_per_output_token", "mean"), 18)
	near("std", in(latency, "time_to_first_token", "stddev"), math.Sqrt(250))
	near("prompt", in(d, "scenario", "load", "standardized", "input_seq_len", "value"), 100)
	near("GPUs", in(d["scenario"].(map[string]any)["stack"].([]any)[0], "standardized", "accelerator", "count"), 2)
	if in(d, "run", "eid") != res.Runs[0].RunID {
		t.Errorf("eid %v", in(d, "run", "eid"))
	}

	// vLLM: from the start; all tokens but one came later; one ITL a chunk.
	files, _ = made(t, "vllm-json", spec, byHand, o, nil)
	v := object(t, files["run.json"])
	near("vLLM TTFT", v["mean_ttft_ms"], 150)
	near("vLLM E2E", v["mean_e2el_ms"], 210)
	near("vLLM TPOT", v["mean_tpot_ms"], 60./9)
	near("vLLM ITL", v["mean_itl_ms"], 30)
	near("vLLM std", v["std_ttft_ms"], math.Sqrt(200))

	// InferenceX: seconds, and tokens per second and user of each statistic of TPOT.
	files, _ = made(t, "inferencex", spec, byHand, o, Facts{"tp": 4})
	x := object(t, files["run.json"])
	near("InferenceX TTFT", x["mean_ttft"], 0.150)
	near("InferenceX interactivity", x["median_intvty"], 1000/(60./9))
	near("InferenceX per GPU", x["output_tput_per_gpu"], v["output_throughput"].(float64)/4)
	if _, ok := x["hw"]; ok {
		t.Error("hw was not told and stands there")
	}

	// AIPerf: one ITL a request, without the first chunk's tokens.
	files, _ = made(t, "aiperf", spec, byHand, o, nil)
	a := object(t, files["run/profile_export_aiperf.json"])
	near("AIPerf TTFT", in(a, "time_to_first_token", "avg"), 150)
	near("AIPerf latency", in(a, "request_latency", "avg"), 210)
	near("AIPerf ITL", in(a, "inter_token_latency", "avg"), 60./7)
	near("AIPerf ITL count", in(a, "inter_token_latency", "count"), 5)
	near("AIPerf gaps", in(a, "inter_chunk_latency", "avg"), 30)
	near("AIPerf gap count", in(a, "inter_chunk_latency", "count"), 10)
	near("AIPerf per user", in(a, "output_token_throughput_per_user", "avg"), 7000./60)
	near("AIPerf OSL", in(a, "output_sequence_length", "avg"), 10)
	near("AIPerf output tokens", in(a, "output_token_count", "avg"), 8)
	near("AIPerf std", in(a, "time_to_first_token", "std"), math.Sqrt(200))
	lines := bufio.NewScanner(bytes.NewReader(files["run/profile_export.jsonl"]))
	n := 0
	for ; lines.Scan(); n++ {
		r := object(t, lines.Bytes())
		var meta struct {
			Start int64 `json:"request_start_ns"`
			End   int64 `json:"request_end_ns"`
		}
		text, _ := json.Marshal(r["metadata"])
		if err := json.Unmarshal(text, &meta); err != nil || n == 0 && meta.End-meta.Start < 100e6 {
			t.Errorf("line %d: %+v, %v", n, meta, err)
		}
		near("AIPerf record", in(r, "metrics", "inter_token_latency", "value"), 60./7)
	}
	if n != 5 {
		t.Errorf("%d records", n)
	}

	// MLPerf: to the end of the response, values that were seen, nanoseconds.
	files, _ = made(t, "mlperf-endpoints", spec, byHand, o, Facts{"system": "test"})
	m := object(t, files["results/test/sim/r5/result_summary.json"])
	near("MLPerf TTFT", in(m, "ttft", "avg"), 150e6)
	near("MLPerf TTFT p90", in(m, "ttft", "percentiles", "90.0"), 160e6) // interpolated it is 166
	near("MLPerf latency", in(m, "latency", "avg"), 235e6)
	near("MLPerf TPOT", in(m, "tpot", "avg"), 85e6/7)
	near("MLPerf std", in(m, "ttft", "std_dev"), math.Sqrt(250)*1e6)
	near("MLPerf qps", m["qps"], 5/(m["duration_ns"].(float64)/1e9))
}

// TestFormats holds what is asked of every layout: facts that nobody told have no key, facts that it has no place for
// are refused, and several runs of one name are not written over each other.
func TestFormats(t *testing.T) {
	for _, format := range Formats() {
		facts := Facts{}
		if format == "mlperf-endpoints" {
			facts["system"] = "x"
		}
		files, _ := made(t, format, usual, nil, analyze.Options{Window: all}, facts)
		if IsFolder(format) != (len(files) > 1) {
			t.Errorf("%s: %d files", format, len(files))
		}
		for path, text := range files {
			if filepath.Ext(path) == ".json" && bytes.Contains(text, []byte(": null")) {
				t.Errorf("%s: %s has a null", format, path)
			}
		}
		if _, err := Prepare(format, analyze.Options{}, Facts{"colour": "red"}); err == nil {
			t.Errorf("%s takes any fact", format)
		}
		if _, err := Prepare(format, analyze.Options{By: []analyze.GroupSpec{{Column: "turn"}}}, nil); err == nil {
			t.Errorf("%s takes groups", format)
		}
	}
	if !slices.Contains(Formats(), "vllm-json") {
		t.Error("no vllm-json")
	}
}

func TestFacts(t *testing.T) {
	f := Facts{}
	for _, text := range []string{"tp=8", "hw=h100", "disagg=false", "system_desc.division=RDI", "system_desc.node.cpus=2", "note=a: b: c"} {
		if err := f.Set(text); err != nil {
			t.Error(err)
		}
	}
	got, _ := json.Marshal(f)
	if want := `{"disagg":false,"hw":"h100","note":"a: b: c","system_desc":{"division":"RDI","node":{"cpus":2}},"tp":8}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range []Facts{{"tp": "eight"}, {"tp": 0}, {"tp": 1.5}} {
		if n, err := bad.number("tp"); err == nil {
			t.Errorf("%v is %d", bad, n)
		}
	}
	if f.Set("tp") == nil || f.Set("=1") == nil {
		t.Error("a fact without a value, or a name")
	}
}
