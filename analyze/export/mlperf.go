package export

import (
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"parley/analyze"
	"parley/schemas"
)

// mlperfFacts: system is the name of the folder, system_desc and point hold what the submitter discloses, by the names
// of the rules.
var mlperfFacts = []string{"system", "model", "region", "system_desc", "point"}

// mlperfPercentiles are those of mlcommons/endpoints.
var mlperfPercentiles = []float64{99.9, 99, 97, 95, 90, 80, 75, 50, 25, 10, 5, 1}

// mlperfFiles makes the folder of a measurement point as MLPerf Endpoints has it, results/SYSTEM/MODEL/rN: what was
// measured (result_summary.json), how (point.yaml, config.yaml), and on what (system_desc.json).
//
// Formulas of mlcommons/endpoints (metrics_aggregator): all times are nanoseconds from the issue of a request, before
// its connection; the latency ends with the response and not with its last token; TPOT is (end - first chunk) / tokens
// after the first chunk; a percentile is a value that was seen (the lower one); deviations divide by n - 1.
func mlperfFiles(l *level, facts Facts) ([]File, error) {
	if len(l.turns) == 0 {
		return nil, errNoTurns
	}
	if l.concurrency == nil || *l.concurrency < 1 {
		return nil, fmt.Errorf("a measurement point is a number of requests at once, and this run was not asked for one: replay with --concurrency")
	}
	system := facts.text("system")
	if system == "" {
		return nil, fmt.Errorf("the folder is named for the system: give --fact system=NAME")
	}
	desc, err := facts.inner("system_desc")
	if err != nil {
		return nil, err
	}
	point, err := facts.inner("point")
	if err != nil {
		return nil, err
	}
	model := facts.text("model")
	if model == "" {
		model = mlperfName(l.target().Model)
	}
	var config map[string]any
	if err := yaml.Unmarshal(l.run.Config, &config); err != nil { // JSON is YAML
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	return below(fmt.Sprintf("results/%s/%s/r%d", fileName(system), model, *l.concurrency),
		jsonFile("result_summary.json", true, l.mlperfSummary()),
		yamlFile("point.yaml", l.mlperfPoint(model, facts.text("region"), point)),
		yamlFile("config.yaml", config),
		jsonFile("system_desc.json", true, l.mlperfSystem(system, desc)),
	), nil
}

func yamlFile(name string, v any) File {
	return File{Path: name, Write: func(w io.Writer) error {
		e := yaml.NewEncoder(w)
		e.SetIndent(2)
		if err := e.Encode(v); err != nil {
			return err
		}
		return e.Close()
	}}
}

var mlperfOdd = regexp.MustCompile(`[^\w-]+`)

// mlperfName gives a model's name as the rules spell it: without its organisation, and _ for what is no letter,
// digit, _ or -.
func mlperfName(model string) string {
	_, after, ok := strings.Cut(model, "/")
	for ok {
		model = after
		_, after, ok = strings.Cut(model, "/")
	}
	model = strings.Trim(mlperfOdd.ReplaceAllString(model, "_"), "_")
	return model[:min(len(model), 64)]
}

// mlperfSummary gives the measured figures.
func (l *level) mlperfSummary() map[string]any {
	seconds := float64(l.group.Throughput.Seconds)
	out := map[string]any{
		"version": l.run.ToolVer, "test_started_at": l.run.Origin.UnixNano() + int64(float64(l.run.Window.From)*1e9),
		"n_samples_issued": len(l.turns), "n_samples_failed": l.group.Counts.Failed, "duration_ns": int64(seconds * 1e9),
		"ttft":                    mlperfStats(l.collect(func(t *analyze.Turn) float64 { return span(t.Start, t.FirstToken) })),
		"tpot":                    mlperfStats(l.collect(mlperfTPOT)),
		"latency":                 mlperfStats(l.collect(func(t *analyze.Turn) float64 { return span(t.Start, t.Done) })),
		"input_sequence_lengths":  mlperfStats(l.collect(func(t *analyze.Turn) float64 { return count(t.Prompt) })),
		"output_sequence_lengths": mlperfStats(l.collect(func(t *analyze.Turn) float64 { return count(t.Completion) })),
	}
	out["n_samples_completed"] = l.group.Counts.OK
	out["qps"] = float64(l.group.Counts.OK) / seconds
	if s := l.collect(func(t *analyze.Turn) float64 { return count(t.Completion) }); int64(len(s)) == l.group.Counts.OK && len(s) > 0 {
		out["tps"] = s.sum() / seconds
	}
	out["state"], out["complete"] = "complete", true
	switch l.run.Ended {
	case "complete", "requests", "duration":
	default:
		out["state"], out["complete"] = "interrupted", false
	}
	out["run_config"] = map[string]any{
		"load_pattern": map[string]any{"type": l.mlperfPattern(), "target_concurrency": *l.concurrency},
		"runtime":      map[string]any{"scheduler_random_seed": l.run.Seed},
		"parley":       map[string]any{"run_id": l.run.RunID, "verdict": l.run.Verdict.Grade, "window": l.run.Window.How},
	}
	return out
}

// mlperfTPOT is the time per token after the first chunk, in nanoseconds, to the end of the response.
func mlperfTPOT(t *analyze.Turn) float64 {
	if t.Burst {
		return math.NaN()
	}
	return per(span(t.FirstToken, t.Done), count(t.Completion)-float64(t.Hidden+t.FirstChunkTokens()))
}

// mlperfBuckets is the number of buckets of a histogram; their edges are even in the logarithm.
const mlperfBuckets = 30

func mlperfStats(s sample) map[string]any {
	if len(s) == 0 {
		return map[string]any{}
	}
	percentiles := map[string]float64{}
	for _, p := range mlperfPercentiles {
		percentiles[strconv.FormatFloat(p, 'f', 1, 64)] = s.lower(p)
	}
	low := math.Max(s[0], 1)
	high := math.Max(s[len(s)-1], 10*low)
	buckets, counts := make([][2]float64, mlperfBuckets), make([]int, mlperfBuckets)
	step := math.Log(high/low) / mlperfBuckets
	for i := range buckets {
		buckets[i] = [2]float64{low * math.Exp(float64(i)*step), low * math.Exp(float64(i+1)*step)}
	}
	for _, v := range s {
		i := 0
		if v > low {
			i = min(int(math.Log(v/low)/step), mlperfBuckets-1)
		}
		counts[i]++
	}
	return map[string]any{
		"total": s.sum(), "min": s[0], "max": s[len(s)-1], "median": s.lower(50), "avg": s.mean(), "std_dev": s.std(1),
		"percentiles": percentiles, "histogram": map[string]any{"buckets": buckets, "counts": counts},
	}
}

// mlperfPattern names the load: conversations of several turns are the rules' agentic pattern.
func (l *level) mlperfPattern() string {
	for i := range l.turns {
		if l.turns[i].Turn > 0 {
			return "agentic_inference"
		}
	}
	return "concurrency"
}

// mlperfPoint gives the disclosure of the measurement point, with what the submitter adds.
func (l *level) mlperfPoint(model, region string, more map[string]any) map[string]any {
	p := map[string]any{
		"concurrency": *l.concurrency, "dataset": l.run.Dataset.File, "dataset_name": l.run.Dataset.File, "model_name": model,
		"runtime_settings": map[string]any{
			"load_pattern": l.mlperfPattern(), "stream_all_chunks": true,
			"runtime": map[string]any{"scheduler_rng_seed": l.run.Seed, "sample_index_rng_seed": l.run.Seed},
		},
		"warmup": l.mlperfWarmup(),
	}
	if region != "" {
		p["region"] = region
	}
	maps.Copy(p, more)
	return p
}

// mlperfWarmup tells the warm-up phase's turns; zeros if the run had none.
func (l *level) mlperfWarmup() map[string]any {
	w := map[string]any{"duration_s": 0.0, "requests_issued": 0, "requests_completed": 0, "concurrency": 0, "data_source": l.run.Dataset.File}
	for i := range l.run.Phases {
		g := &l.run.Phases[i]
		if len(g.Keys) == 1 && g.Keys[0].Value == schemas.PhaseWarmup && g.Counts.Sent > 0 {
			w["duration_s"], w["requests_issued"], w["requests_completed"] = float64(g.Throughput.Seconds), g.Counts.Sent, g.Counts.OK
			w["concurrency"] = *l.concurrency
		}
	}
	return w
}

// mlperfSystem gives the system's description: what the submitter discloses, and what the run knows.
func (l *level) mlperfSystem(system string, desc map[string]any) map[string]any {
	out := map[string]any{"system_name": system, "shortened_system_name": system[:min(len(system), 20)]}
	if t := l.target(); t.Server != "" {
		out["serving_framework"] = t.Server
	}
	for name, s := range map[string]sample{
		"input_token_average":  l.collect(func(t *analyze.Turn) float64 { return count(t.Prompt) }),
		"output_token_average": l.collect(func(t *analyze.Turn) float64 { return count(t.Completion) }),
	} {
		if v := known(s.mean()); v != nil {
			out[name] = *v
		}
	}
	maps.Copy(out, desc)
	return out
}
