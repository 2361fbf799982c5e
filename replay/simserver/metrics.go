package simserver

import (
	"net/http"
	"strconv"
)

// metrics answers in the dialect's names: vLLM's unless another server's are known.
func (s *Server) metrics(k sink) {
	l := s.accelerator.load()
	t := &s.stats
	rate := 0.0
	if l.queries > 0 {
		rate = float64(l.hits) / float64(l.queries)
	}
	switch s.cfg.Dialect {
	case "trtllm":
		s.reply(k, http.StatusOK, append(buffer(), list(inner("numActiveRequests", l.running+l.waiting, "numQueuedRequests", l.waiting,
			"kvCacheStats", inner("cacheHitRate", rate, "maxNumBlocks", s.cfg.CacheBlocks, "usedNumBlocks", int(l.usage*float64(s.cfg.CacheBlocks)))))...))
		return
	case "anthropic", "openai", "azure", "mistral", "responses", "ollama", "lmstudio":
		s.deny(k, http.StatusNotFound, "Not Found")
		return
	}
	b := buffer()
	figure := func(name, kind, labels string, v float64) {
		base := name
		b = append(b, "# TYPE "+base+" "+kind+"\n"+name+labels+" "...)
		b = append(strconv.AppendFloat(b, v, 'g', -1, 64), '\n')
	}
	switch s.cfg.Dialect {
	case "sglang":
		labels := `{model_name="` + s.cfg.Model + `"}`
		figure("sglang:num_running_reqs", "gauge", labels, float64(l.running))
		figure("sglang:num_queue_reqs", "gauge", labels, float64(l.waiting))
		figure("sglang:token_usage", "gauge", labels, l.usage)
		figure("sglang:cache_hit_rate", "gauge", labels, rate)
		figure("sglang:cached_tokens_total", "counter", labels, float64(l.hits))
		figure("sglang:prompt_tokens_total", "counter", labels, float64(t.promptTokens.Load()))
		figure("sglang:generation_tokens_total", "counter", labels, float64(t.generationTokens.Load()))
	case "llamacpp":
		figure("llamacpp:requests_processing", "gauge", "", float64(l.running))
		figure("llamacpp:requests_deferred", "gauge", "", float64(l.waiting))
		figure("llamacpp:prompt_tokens_total", "counter", "", float64(t.promptTokens.Load()-l.hits))
		figure("llamacpp:tokens_predicted_total", "counter", "", float64(t.generationTokens.Load()))
	case "tgi":
		figure("tgi_queue_size", "gauge", "", float64(l.waiting))
		figure("tgi_batch_current_size", "gauge", "", float64(l.running))
		figure("tgi_request_count", "counter", "", float64(t.requests.Load()))
	default:
		labels := `{engine="0",model_name="` + s.cfg.Model + `"}`
		figure("vllm:num_requests_running", "gauge", labels, float64(l.running))
		figure("vllm:num_requests_waiting", "gauge", labels, float64(l.waiting))
		figure("vllm:kv_cache_usage_perc", "gauge", labels, l.usage)
		figure("vllm:prefix_cache_queries_total", "counter", labels, float64(l.queries))
		figure("vllm:prefix_cache_hits_total", "counter", labels, float64(l.hits))
		figure("vllm:prompt_tokens_total", "counter", labels, float64(t.promptTokens.Load()))
		figure("vllm:generation_tokens_total", "counter", labels, float64(t.generationTokens.Load()))
		figure("vllm:num_preemptions_total", "counter", labels, float64(l.preemptions))
		figure("vllm:request_success_total", "counter", `{engine="0",finished_reason="stop",model_name="`+s.cfg.Model+`"}`, float64(t.success.Load()))
	}
	figure("sim_max_requests_in_flight", "gauge", "", float64(t.maxInFlight.Load()))
	h := http.Header{"Content-Type": {"text/plain; version=0.0.4; charset=utf-8"}}
	s.replyHeader(k, http.StatusOK, h, b)
}
