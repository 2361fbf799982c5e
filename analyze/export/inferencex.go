package export

import (
	"fmt"
	"math"
	"strings"
)

// inferenceXFacts are the names that InferenceX's processor takes from the environment of its runner.
var inferenceXFacts = []string{
	"hw", "image", "infmax_model_prefix", "framework", "precision", "spec_decoding", "disagg", "isl", "osl", "is_multinode",
	"tp", "pp", "dcp_size", "pcp_size", "ep", "dp_attention",
}

// inferenceXFiles makes the point that InferenceX's processor makes of a file of vllm bench serve: every X_ms as X in
// seconds, and for every statistic S of TPOT an interactivity S_intvty, which is 1000 / TPOT in ms: tokens per second
// and user. Throughputs are per GPU.
func inferenceXFiles(l *level, facts Facts) ([]File, error) {
	v := vllmResult(l)
	point := map[string]any{"model": v.get("model_id")}
	for name, value := range facts {
		point[name] = value
	}
	switch {
	case l.concurrency != nil:
		point["conc"] = *l.concurrency
	default:
		return nil, fmt.Errorf("a point is a number of conversations at once, and this run was not asked for one: replay with --concurrency")
	}
	gpus, err := l.gpuCount(facts)
	if err != nil {
		return nil, err
	}
	if t := &l.group.Throughput; gpus > 0 {
		perGPU := func(name string, rate float64) {
			if x := known(rate / gpus); x != nil {
				point[name] = *x
			}
		}
		perGPU("tput_per_gpu", float64(t.TotalTokens))
		perGPU("output_tput_per_gpu", float64(t.CompletionTokens))
		perGPU("input_tput_per_gpu", float64(t.PromptTokens))
	}
	for _, f := range v.fields {
		value, ok := f.value.(float64)
		name, inMS := strings.CutSuffix(f.name, "_ms")
		if !ok || !inMS {
			continue
		}
		point[name] = value / 1e3
		if strings.Contains(name, "tpot") {
			point[strings.Replace(name, "tpot", "intvty", 1)] = 1e3 / value
		}
	}
	return []File{jsonFile(l.name()+".json", true, point)}, nil
}

// gpuCount gives the GPUs of the server: --gpus, else what its parallelism takes; 0 if nobody told.
func (l *level) gpuCount(facts Facts) (float64, error) {
	if l.gpus > 0 {
		return l.gpus, nil
	}
	gpus := 0.0
	for _, name := range []string{"tp", "pp", "dp", "pcp_size"} {
		n, err := facts.number(name)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			gpus = math.Max(gpus, 1) * float64(n)
		}
	}
	return gpus, nil
}
