package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const vllmText = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 500.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.76e+09
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 800.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 100.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1.2e+03
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 345.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 1.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.05
`

// TestNames reads what each kind of server sends.
func TestNames(t *testing.T) {
	for _, c := range []struct{ server, body, want string }{
		{"vllm", vllmText, "running=5 waiting=1 kv_usage=0.75 kv_usage_mean=0.5 prefix_cache_hits=900 prefix_cache_queries=1500 preemptions=2 generation_tokens=345 prompt_tokens=1200"},
		{"older vllm", "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 3\nvllm:gpu_prefix_cache_queries_total 9\nvllm:num_requests_running 1\n",
			"running=1 kv_usage=0.5 prefix_cache_hits=3 prefix_cache_queries=9"},
		{"vllm between the names", "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.6\nvllm:prompt_tokens 7\nvllm:prompt_tokens_total 9\n", "kv_usage=0.6 prompt_tokens=9"},
		{"counters without _total", "vllm:prompt_tokens 7\nvllm:generation_tokens 8\n", "generation_tokens=8 prompt_tokens=7"},
		{"sglang", `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="m"} 6.0
sglang:token_usage{model_name="m"} 0.28
sglang:cache_hit_rate{model_name="m"} 0.007
sglang:cached_tokens_total{cache_source="device",model_name="m"} 100.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 20.0
sglang:prompt_tokens_total{model_name="m"} 8128902.0
sglang:generation_tokens_total{model_name="m"} 7557572.0
sglang:num_retracted_requests_total{model_name="m"} 1.0
sglang:num_retracted_reqs{model_name="m"} 9.0
`, "running=4 waiting=6 kv_usage=0.28 prefix_cache_hits=120 prefix_cache_hit_rate=0.007 preemptions=1 generation_tokens=7.557572e+06 prompt_tokens=8.128902e+06"},
		{"tensorrt-llm json", `[{"iter":1,"numActiveRequests":9},{"gpuMemUsage":76665782272,"iter":154,"iterLatencyMS":7.0,"kvCacheStats":{"allocNewBlocks":3126,"cacheHitRate":0.125,"freeNumBlocks":75,"maxNumBlocks":100,"missedBlocks":7,"reusedBlocks":1,"tokensPerBlock":32,"usedNumBlocks":25},"numActiveRequests":1,"numQueuedRequests":2}]`,
			"running=1 waiting=2 kv_usage=0.25 prefix_cache_hits=32 prefix_cache_queries=256 prefix_cache_hit_rate=0.125"},
		{"tensorrt-llm ranks", `[{"attentionDpRank":0,"numActiveRequests":9},{"attentionDpRank":1,"numActiveRequests":2,"kvCacheStats":{"usedNumBlocks":10,"freeNumBlocks":30}},{"attentionDpRank":0,"numActiveRequests":3,"kvCacheStats":{"usedNumBlocks":50,"maxNumBlocks":100}}]`,
			"running=5 kv_usage=0.5 kv_usage_mean=0.375"},
		{"tensorrt-llm text", "trtllm_kv_cache_hit_rate 0.5\ntrtllm_kv_cache_utilization 0.1\ntrtllm_num_requests_running 3\ntrtllm_num_requests_waiting 1\n", "running=3 waiting=1 kv_usage=0.1 prefix_cache_hit_rate=0.5"},
		{"tensorrt-llm without news", `[]`, ""},
		{"llama.cpp", "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 68\nllamacpp:tokens_predicted_total 24\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n",
			"running=1 waiting=2 generation_tokens=24 prompt_tokens_evaluated=68"},
		{"tgi", `# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{le="10"} 1
tgi_request_generated_tokens_bucket{le="+Inf"} 2
tgi_request_generated_tokens_sum 30
tgi_request_generated_tokens_count 2
# TYPE tgi_request_input_length histogram
tgi_request_input_length_bucket{le="+Inf"} 2
tgi_request_input_length_sum 40
tgi_request_input_length_count 2
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 2
`, "running=2 waiting=3 generation_tokens=30 prompt_tokens=40"},
		{"dynamo", `# TYPE dynamo_frontend_inflight_requests gauge
dynamo_frontend_inflight_requests{model="a"} 2
dynamo_frontend_inflight_requests{model="b"} 1
# TYPE dynamo_frontend_queued_requests gauge
dynamo_frontend_queued_requests{model="a"} 4
# TYPE dynamo_frontend_output_tokens_total counter
dynamo_frontend_output_tokens_total{model="a"} 100
# TYPE dynamo_frontend_cached_tokens histogram
dynamo_frontend_cached_tokens_bucket{model="a",le="+Inf"} 2
dynamo_frontend_cached_tokens_sum{model="a"} 60
dynamo_frontend_cached_tokens_count{model="a"} 2
# TYPE dynamo_frontend_input_sequence_tokens histogram
dynamo_frontend_input_sequence_tokens_bucket{model="a",le="+Inf"} 2
dynamo_frontend_input_sequence_tokens_sum{model="a"} 90
dynamo_frontend_input_sequence_tokens_count{model="a"} 2
`, "running=3 waiting=4 prefix_cache_hits=60 prefix_cache_queries=90 generation_tokens=100 prompt_tokens=90"},
		{"not finite", "vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:prompt_tokens_total 1\n", "prompt_tokens=1"},
	} {
		figures, err := parse([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.server, err)
		}
		if s := show(figures); s != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.server, s, c.want)
		}
	}
	for _, bad := range []string{"", "<html>", "go_goroutines 7\n", "{", `{"a":1}`, `[1]`} {
		if figures, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, figures)
		}
	}
}

// TestRealPages reads pages as servers of these versions sent them under load (labels shortened, histograms' buckets
// left out), against counts taken from the pages by hand.
func TestRealPages(t *testing.T) {
	for file, want := range map[string]string{
		"vllm-0.32.0.txt":     "running=0 waiting=0 kv_usage=0 prefix_cache_hits=161024 prefix_cache_queries=239315 preemptions=0 generation_tokens=7596 prompt_tokens=239315",
		"dynamo-1.6.1.txt":    "running=20 waiting=0 prefix_cache_hits=188464 prefix_cache_queries=271269 generation_tokens=12194 prompt_tokens=271269",
		"litellm-1.108.7.txt": "prefix_cache_hits=180080 prefix_cache_queries=239960 generation_tokens=7961 prompt_tokens=239960",
	} {
		body, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		figures, err := parse(body)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(figures); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
	// Before the first request, Dynamo and LiteLLM show nothing of a known name, but who they are.
	for _, body := range []string{"dynamo_frontend_model_ready{model=\"m\"} 1\n", "litellm_in_flight_requests 1\n", "vllm:num_requests_running NaN\n"} {
		if figures, err := parse([]byte(body)); err != nil || len(figures) > 0 {
			t.Errorf("%s: %v, %v", body, figures, err)
		}
	}
}

func show(figures []figure) string {
	var got []string
	for _, f := range figures {
		got = append(got, fmt.Sprintf("%s=%v", f.name, f.value))
	}
	return strings.Join(got, " ")
}

// round answers requests in memory.
type round func(*http.Request) (*http.Response, error)

// fetch has the form of Options.Fetch.
func (r round) fetch(ctx context.Context, method, path string, _ []byte) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://h"+path, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	resp, err := r(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, body, err
}

func response(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}
}

// TestRun scrapes in virtual time: on the interval, through failures and stalls, with a last scrape at
// the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		now := func() int64 { return int64(time.Since(begin)) }
		var asked []string
		n := 0
		transport := round(func(req *http.Request) (*http.Response, error) {
			n++
			asked = append(asked, time.Since(begin).String())
			switch n {
			case 2:
				return nil, errors.New("connection refused")
			case 3: // hangs until the scrape's limit
				<-req.Context().Done()
				return nil, req.Context().Err()
			case 4:
				return response(500, strings.NewReader("")), nil
			}
			time.Sleep(20 * time.Millisecond)
			return response(200, strings.NewReader(fmt.Sprintf("vllm:num_requests_running %d\n", n))), nil
		})
		var got []string
		s := New(Options{Source: "http://h:1", Path: "/metrics?key=hidden", Interval: time.Second, Timeout: 1500 * time.Millisecond,
			Fetch: round(transport).fetch, Now: now, Emit: func(samples []schemas.Sample) {
				for _, x := range samples {
					got = append(got, fmt.Sprintf("%v %s %s %s %v", time.Duration(x.TimeNS), x.Source, x.Name, *x.Raw, x.Value))
				}
			}})
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		s.Run(ctx)
		if want := "[0s 1s 2s 3.5s 4s 5s 5.5s]"; fmt.Sprint(asked) != want {
			t.Errorf("scraped at %v, want %s", asked, want)
		}
		want := "10ms http://h:1/metrics running vllm:num_requests_running 1|4.01s http://h:1/metrics running vllm:num_requests_running 5|" +
			"5.01s http://h:1/metrics running vllm:num_requests_running 6|5.51s http://h:1/metrics running vllm:num_requests_running 7"
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
		stats := s.Stats()
		if stats.Scrapes != 4 || stats.Failures != 3 || !strings.Contains(stats.LastErr, "HTTP 500") || strings.Contains(stats.LastErr, "hidden") {
			t.Errorf("%+v", stats)
		}
	})
}

// TestEndDuringScrape ends the run while a scrape hangs: that is no failure, and Run returns within the
// last scrape's limit.
func TestEndDuringScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := New(Options{Source: "http://h", Path: "/metrics", Timeout: 2 * time.Second, Now: func() int64 { return 0 }, Emit: func([]schemas.Sample) {},
			Fetch: round(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}).fetch})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Run(ctx)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		if stats := s.Stats(); stats.Failures != 1 || stats.Scrapes != 0 {
			t.Errorf("%+v", stats)
		}
	})
}

// TestHostile has answers without figures, of other statuses, and errors; and finds the path that has some.
func TestHostile(t *testing.T) {
	server := round(func(req *http.Request) (*http.Response, error) {
		switch req.URL.Path {
		case "/good":
			return response(200, strings.NewReader(vllmText)), nil
		case "/redirect":
			return response(302, strings.NewReader("")), nil
		case "/moved", "/moved/further":
			r := response(307, strings.NewReader(""))
			r.Header.Set("Location", map[string]string{"/moved": "/moved/further", "/moved/further": "http://h/good?all=1"}[req.URL.Path])
			return r, nil
		case "/elsewhere":
			r := response(307, strings.NewReader(""))
			r.Header.Set("Location", "https://user:word@login.example/good?secret=1")
			return r, nil
		case "/ring":
			r := response(307, strings.NewReader(""))
			r.Header.Set("Location", "/ring")
			return r, nil
		case "/cut":
			return nil, errors.New("reading: cut off")
		case "/text":
			return response(200, strings.NewReader("no figures here")), nil
		case "/prometheus/metrics":
			return response(200, strings.NewReader("trtllm_num_requests_running 1\n")), nil
		}
		return response(404, strings.NewReader("")), nil
	})
	o := Options{Source: "http://h", Fetch: server.fetch, Now: func() int64 { return 0 }, Emit: func([]schemas.Sample) {}}
	for path, word := range map[string]string{"/redirect": "302", "/cut": "reading", "/text": "no figures", "/none": "404"} {
		o.Path = path
		if _, err := New(o).scrape(t.Context()); err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "http://h"+path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for want, paths := range map[string][]string{"/prometheus/metrics": Candidates("/v1"), "/good": {"/none", "/good"}, "/good?all=1": {"/moved"}} {
		if found, err := Find(t.Context(), o, paths); err != nil || found != want {
			t.Errorf("found %q, %v", found, err)
		}
	}
	for path, words := range map[string]string{"/none": "HTTP 404", "/ring": "HTTP 307 to /ring", "/elsewhere": "HTTP 307 to https://login.example/good"} {
		if _, err := Find(t.Context(), o, []string{path}); err == nil || !strings.HasSuffix(err.Error(), words) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestCandidates(t *testing.T) {
	for base, want := range map[string]string{
		"":          "[/metrics /prometheus/metrics]",
		"/v1/":      "[/metrics /prometheus/metrics]",
		"/proxy/v1": "[/metrics /proxy/metrics /prometheus/metrics]",
	} {
		if got := fmt.Sprint(Candidates(base)); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

// TestStatsWhileRunning reads the statistics from another goroutine; -race watches.
func TestStatsWhileRunning(t *testing.T) {
	s := New(Options{Source: "http://h", Path: "/metrics", Interval: time.Microsecond, Now: func() int64 { return 0 }, Emit: func([]schemas.Sample) {},
		Fetch: round(func(*http.Request) (*http.Response, error) {
			return response(200, strings.NewReader("tgi_queue_size 1\n")), nil
		}).fetch})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	for s.Stats().Scrapes < 20 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()
}

// FuzzParse checks that whatever a server sends ends in figures of known names with finite values, or in
// an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{vllmText, "a 1\n", "# TYPE a histogram\na_bucket{le=\"1\"} 1\n", `[{"numActiveRequests":1}]`, `{"kvCacheStats":{"maxNumBlocks":0,"usedNumBlocks":1e308}}`, "tgi_queue_size 1e400\n", "\xff\xfe{"} {
		f.Add([]byte(s))
	}
	known := map[string]bool{KVUsageMean: true}
	for _, n := range names {
		known[n.name] = true
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		figures, err := parse(body)
		if err != nil && len(figures) > 0 {
			t.Fatal("figures and an error")
		}
		for _, x := range figures {
			if !known[x.name] || x.value != x.value || x.value-x.value != 0 {
				t.Fatalf("%+v", x)
			}
		}
	})
}
