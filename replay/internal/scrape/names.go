package scrape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Normalised names. Counters count since the server's start: differences are what happened in a run.
const (
	Running         = "running"                 // requests being worked on
	Waiting         = "waiting"                 // requests in the server's queue
	KVUsage         = "kv_usage"                // share of the KV cache in use, 0 to 1, of the fullest engine
	KVUsageMean     = "kv_usage_mean"           // the mean over engines, where there are several
	CacheHits       = "prefix_cache_hits"       // counter: prompt tokens found in the prefix cache
	CacheQueries    = "prefix_cache_queries"    // counter: prompt tokens looked up there
	CacheHitRate    = "prefix_cache_hit_rate"   // 0 to 1, where the server gives a rate, of its own window
	Preemptions     = "preemptions"             // counter: requests thrown out of the batch for want of memory
	GenerationToken = "generation_tokens"       // counter
	PromptTokens    = "prompt_tokens"           // counter, cached ones included
	PromptEvaluated = "prompt_tokens_evaluated" // counter of a server that leaves the cached ones out
)

// how the samples of one family become one figure.
type fold uint8

const (
	sum fold = iota // over engines, models, ranks
	top             // the largest, and the mean beside it
)

// names lists for each normalised name the servers' own, newest first; the first that a server sends is
// taken. They are without _total, which counters have or have not; those without a prefix are of TensorRT-LLM's JSON. A histogram or summary gives its sum.
//
// Sources: the metrics pages of vLLM (docs, "Production Metrics"), SGLang ("Production Metrics"),
// TensorRT-LLM (trtllm-serve; Prometheus names as in the gateway API inference extension's model server
// protocol), llama.cpp (server README), text-generation-inference ("Metrics"), Dynamo ("Metrics
// Catalog") and LiteLLM's proxy ("Prometheus metrics", counted when a request ends); testdata has pages as servers sent them.
var names = []struct {
	name string
	fold fold
	raw  []string
}{
	{Running, sum, []string{
		"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running",
		"llamacpp:requests_processing", "tgi_batch_current_size", "dynamo_frontend_inflight_requests", "numActiveRequests",
	}},
	{Waiting, sum, []string{
		"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting", "trtllm_num_queued_requests",
		"llamacpp:requests_deferred", "tgi_queue_size", "dynamo_frontend_queued_requests", "numQueuedRequests",
	}},
	{KVUsage, top, []string{
		"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization",
		"llamacpp:kv_cache_usage_ratio", "dynamo_component_gpu_cache_usage_percent", "dynamo_component_kvstats_gpu_cache_usage_percent", "kvCacheStats.usedNumBlocks",
	}},
	{CacheHits, sum, []string{
		"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens", "dynamo_frontend_cached_tokens",
		"litellm_input_cached_tokens_metric", "kvCacheStats.reusedBlocks",
	}},
	{CacheQueries, sum, []string{
		"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "dynamo_frontend_input_sequence_tokens",
		"litellm_input_tokens_metric", "kvCacheStats.missedBlocks",
	}},
	{CacheHitRate, top, []string{
		"sglang:cache_hit_rate", "trtllm_kv_cache_hit_rate", "vllm:gpu_prefix_cache_hit_rate",
		"dynamo_component_kvstats_gpu_prefix_cache_hit_rate", "kvCacheStats.cacheHitRate",
	}},
	{Preemptions, sum, []string{
		"vllm:num_preemptions", "sglang:num_retracted_requests",
	}},
	{GenerationToken, sum, []string{
		"vllm:generation_tokens", "sglang:generation_tokens", "llamacpp:tokens_predicted", "tgi_request_generated_tokens",
		"dynamo_frontend_output_tokens", "dynamo_frontend_output_sequence_tokens", "litellm_output_tokens_metric",
	}},
	{PromptTokens, sum, []string{
		"vllm:prompt_tokens", "sglang:prompt_tokens", "tgi_request_input_length", "dynamo_frontend_input_sequence_tokens",
		"litellm_input_tokens_metric",
	}},
	{PromptEvaluated, sum, []string{"llamacpp:prompt_tokens"}},
}

// figure is one normalised value.
type figure struct {
	name, raw string
	value     float64
}

var errNoFigures = errors.New("no figures of a known name")

// parse reads a response of /metrics: Prometheus text, or TensorRT-LLM's JSON.
func parse(body []byte) (figures []figure, err error) {
	// The parser has been known to panic on hostile input; telemetry must not end a run.
	defer func() {
		if p := recover(); p != nil {
			figures, err = nil, fmt.Errorf("the figures cannot be read: %v", p)
		}
	}()
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '[' || trimmed[0] == '{') {
		return parseJSON(trimmed)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil && len(families) == 0 {
		return nil, fmt.Errorf("neither Prometheus text nor JSON: %.200q", err.Error())
	}
	found := map[string]samples{}
	for name, family := range families {
		// Of a counter that stands there both ways, the one with _total is the counter.
		short := strings.TrimSuffix(name, "_total")
		if _, there := found[short]; there && short == name {
			continue
		}
		all := samples{raw: name}
		for _, m := range family.GetMetric() {
			if v, ok := value(m); ok {
				all.values = append(all.values, v)
			}
		}
		found[short] = all
	}
	figures, err = normalise(found)
	if errors.Is(err, errNoFigures) && slices.ContainsFunc(slices.Collect(maps.Keys(families)), isServers) {
		return nil, nil // they come with the first request (Dynamo, LiteLLM)
	}
	return figures, err
}

// isServers says whether a figure is one of a known kind of server, by how its name begins.
func isServers(family string) bool {
	for _, n := range names {
		for _, raw := range n.raw {
			if i := strings.IndexAny(raw, ":_"); i >= 0 && strings.HasPrefix(family, raw[:i+1]) {
				return true
			}
		}
	}
	return false
}

// samples are the values of one of a server's own figures: one for each engine, model or rank.
type samples struct {
	raw    string
	values []float64
}

// normalise gives the figures of known names.
func normalise(found map[string]samples) (figures []figure, err error) {
	for _, n := range names {
		for _, raw := range n.raw {
			all := found[raw]
			if len(all.values) == 0 {
				continue
			}
			total := 0.0
			for _, v := range all.values {
				total += v
			}
			if n.fold == sum {
				figures = append(figures, figure{n.name, all.raw, total})
				break
			}
			figures = append(figures, figure{n.name, all.raw, slices.Max(all.values)})
			if count := len(all.values); n.name == KVUsage && count > 1 {
				figures = append(figures, figure{KVUsageMean, all.raw, total / float64(count)})
			}
			break
		}
	}
	figures = slices.DeleteFunc(figures, func(f figure) bool { return math.IsNaN(f.value) || math.IsInf(f.value, 0) })
	if len(figures) == 0 {
		return nil, errNoFigures
	}
	return figures, nil
}

// value gives a sample's value, or the sum of a histogram or summary; not what is not finite.
func value(m *dto.Metric) (float64, bool) {
	var v float64
	switch {
	case m.Counter != nil:
		v = m.Counter.GetValue()
	case m.Gauge != nil:
		v = m.Gauge.GetValue()
	case m.Untyped != nil:
		v = m.Untyped.GetValue()
	case m.Histogram != nil:
		v = m.Histogram.GetSampleSum()
	case m.Summary != nil:
		v = m.Summary.GetSampleSum()
	default:
		return 0, false
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

// iteration is TensorRT-LLM's statistics of one iteration of an engine. The server takes a statistic out
// of its queue when it is read, so an empty list only means that no iteration came since.
type iteration struct {
	Rank    *int64   `json:"attentionDpRank"`
	Active  *float64 `json:"numActiveRequests"`
	Queued  *float64 `json:"numQueuedRequests"`
	KVCache *struct {
		Max            *float64 `json:"maxNumBlocks"`
		Used           *float64 `json:"usedNumBlocks"`
		Free           *float64 `json:"freeNumBlocks"`
		Reused         *float64 `json:"reusedBlocks"`
		Missed         *float64 `json:"missedBlocks"`
		TokensPerBlock *float64 `json:"tokensPerBlock"`
		HitRate        *float64 `json:"cacheHitRate"`
	} `json:"kvCacheStats"`
}

// parseJSON reads TensorRT-LLM's list of iterations (or one of them): the last of each rank is the state
// now. Blocks of the prefix cache are given as tokens.
func parseJSON(body []byte) ([]figure, error) {
	var list []iteration
	if body[0] == '{' {
		list = make([]iteration, 1)
		if err := json.Unmarshal(body, &list[0]); err != nil {
			return nil, fmt.Errorf("JSON: %.200q", err.Error())
		}
	} else if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("JSON: %.200q", err.Error())
	} else if len(list) == 0 {
		return nil, nil
	}
	latest := map[int64]*iteration{}
	for i := range list {
		rank := int64(0)
		if r := list[i].Rank; r != nil {
			rank = *r
		}
		latest[rank] = &list[i]
	}
	found := map[string]samples{}
	add := func(raw string, v *float64, factor float64) {
		if v != nil {
			found[raw] = samples{raw, append(found[raw].values, *v*factor)}
		}
	}
	for _, it := range latest {
		add("numActiveRequests", it.Active, 1)
		add("numQueuedRequests", it.Queued, 1)
		kv := it.KVCache
		if kv == nil {
			continue
		}
		blocks := kv.Max
		if blocks == nil && kv.Used != nil && kv.Free != nil {
			both := *kv.Used + *kv.Free
			blocks = &both
		}
		if blocks != nil && *blocks > 0 {
			add("kvCacheStats.usedNumBlocks", kv.Used, 1 / *blocks)
		}
		add("kvCacheStats.cacheHitRate", kv.HitRate, 1)
		if kv.TokensPerBlock != nil && kv.Reused != nil && kv.Missed != nil {
			add("kvCacheStats.reusedBlocks", kv.Reused, *kv.TokensPerBlock)
			both := *kv.Reused + *kv.Missed
			add("kvCacheStats.missedBlocks", &both, *kv.TokensPerBlock)
		}
	}
	return normalise(found)
}
