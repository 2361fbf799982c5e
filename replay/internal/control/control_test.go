package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/replay/internal/api"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server in memory: it answers control requests from a table, and chat requests by its habits.
type fake struct {
	paths map[string]string // "GET /path": body of a 200
	posts []string          // POST requests that came

	refuses   map[string]string // member: what the 400 says
	ignores   map[string]bool   // members that are taken and have no effect
	noUsage   bool
	omitZero  bool // cached_tokens is left out when it is 0
	noCached  bool
	cache     map[string]bool
	deafFlush bool     // flushing does nothing
	busy      int      // first answers are 503
	bodies    []string // of the chat requests
	whole     bool     // answers come whole
	endless   bool     // no answer ends before its limit
	zeros     bool     // cached tokens are told as 0 always
}

func (f *fake) do(ctx context.Context, method, path string, body []byte) (int, http.Header, []byte, error) {
	if method == http.MethodPost {
		f.posts = append(f.posts, path)
		if !f.deafFlush {
			f.cache = nil
		}
	}
	if b, ok := f.paths[method+" "+path]; ok {
		if status, err := fmt.Sscanf(b, "HTTP %d", new(int)); status == 1 && err == nil {
			var n int
			fmt.Sscanf(b, "HTTP %d", &n)
			return n, nil, nil, nil
		}
		return 200, nil, []byte(b), nil
	}
	return 404, nil, nil, nil
}

// send answers through the real request encoding and the real stream decoding.
func (f *fake) send(ctx context.Context, salt, text string, p *api.Params) *schemas.Request {
	prompt := salt + text
	a, err := api.New("chat")
	if err != nil {
		panic(err)
	}
	h, err := a.NewHistory(api.HistoryOptions{})
	if err != nil {
		panic(err)
	}
	if err := h.Append(schemas.Message{Role: "user", Content: &prompt}); err != nil {
		panic(err)
	}
	segs, err := h.Body(p)
	if err != nil {
		panic(err)
	}
	body := bytes.Join(segs, nil)
	f.bodies = append(f.bodies, string(body))
	status, reply := f.answer(prompt, body)
	var s api.Stream
	s.Reset(a)
	s.Head(status, func(string) string { return "" })
	s.Feed([]byte(reply), 1)
	s.Finish(2, nil)
	var row schemas.Request
	s.Fill(&row)
	return &row
}

func (f *fake) answer(prompt string, body []byte) (int, string) {
	if f.busy > 0 {
		f.busy--
		return 503, `{"error":{"message":"Loading model"}}`
	}
	for _, member := range []string{"continuous_usage_stats", "stream_options", "max_tokens", "max_completion_tokens", "ignore_eos", "min_tokens", "model"} {
		if text, ok := f.refuses[member]; ok && bytes.Contains(body, []byte(`"`+member+`":`)) {
			b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": text}})
			return 400, string(b)
		}
	}
	var in struct {
		Max        int  `json:"max_tokens"`
		MaxNew     int  `json:"max_completion_tokens"`
		IgnoreEOS  bool `json:"ignore_eos"`
		Min        int  `json:"min_tokens"`
		StreamOpts struct {
			Usage      bool `json:"include_usage"`
			Continuous bool `json:"continuous_usage_stats"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 400, `{"error":"not JSON"}`
	}
	limit := 1000
	if in.Max > 0 && !f.ignores["max_tokens"] {
		limit = in.Max
	}
	if in.MaxNew > 0 && !f.ignores["max_completion_tokens"] {
		limit = in.MaxNew
	}
	n := 2
	if f.endless || in.IgnoreEOS && !f.ignores["ignore_eos"] {
		n = limit
	}
	if !f.ignores["min_tokens"] {
		n = max(n, in.Min)
	}
	if limit == 1000 && f.ignores["max_tokens"] {
		n = 500 // a chatty model without a limit
	}
	n = min(n, limit)
	cached := 0
	if f.cache[prompt] && !f.zeros {
		cached = 96
	}
	if f.cache == nil {
		f.cache = map[string]bool{}
	}
	f.cache[prompt] = true
	usage := func(k int) string {
		details := fmt.Sprintf(`{"cached_tokens":%d}`, cached)
		if f.noCached || f.omitZero && cached == 0 {
			details = "null"
		}
		return fmt.Sprintf(`"usage":{"prompt_tokens":100,"completion_tokens":%d,"prompt_tokens_details":%s}`, k, details)
	}
	if f.whole {
		return 200, `{"choices":[{"message":{"content":"OK"},"finish_reason":"stop"}],` + usage(n) + `}`
	}
	var b strings.Builder
	for k := range n {
		more := ""
		if in.StreamOpts.Continuous && !f.ignores["continuous_usage_stats"] {
			more = "," + usage(k+1)
		}
		fmt.Fprintf(&b, "data: {\"choices\":[{\"delta\":{\"content\":\"w \"},\"finish_reason\":null}]%s}\n\n", more)
	}
	b.WriteString("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	if in.StreamOpts.Usage && !f.noUsage {
		fmt.Fprintf(&b, "data: {\"choices\":[],%s}\n\n", usage(n))
	}
	b.WriteString("data: [DONE]\n\n")
	return 200, b.String()
}

func yes(b *bool) string {
	if b == nil {
		return "?"
	}
	return fmt.Sprint(*b)
}

// TestProbe goes through servers that take everything, little, and nothing.
func TestProbe(t *testing.T) {
	full := api.Params{Stream: true, IncludeUsage: true, ContinuousUsage: true, IgnoreEOS: true, MinTokens: 700, OutputTokens: 700}
	for _, c := range []struct {
		name     string
		kind     Server
		f        fake
		want     api.Params
		found    string // usage continuous ignore_eos min_tokens cached limit
		use      string // include continuous ignore_eos min_tokens limit
		requests int
		err      string
	}{
		{"all", VLLM, fake{}, full, "true true true true true max_tokens", "true true true 700 max_tokens", 2, ""},
		{"plain wishes", VLLM, fake{}, api.Params{Stream: true, IncludeUsage: true, OutputTokens: 9}, "true ? ? ? true max_tokens", "true false false 0 max_tokens", 2, ""},
		{"cached left out at 0", VLLM, fake{omitZero: true}, full, "true true true true true max_tokens", "true true true 700 max_tokens", 2, ""},
		{"cached never", VLLM, fake{noCached: true}, full, "true true true true false max_tokens", "true true true 700 max_tokens", 2, ""},
		{"openai", VLLM, fake{refuses: map[string]string{
			"ignore_eos": "Unrecognized request argument supplied: ignore_eos", "min_tokens": "Unrecognized request argument supplied: min_tokens",
			"continuous_usage_stats": "Unknown parameter: 'stream_options.continuous_usage_stats'.",
			"max_tokens":             "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
		}}, full, "true false false false true max_completion_tokens", "true false false 0 max_completion_tokens", 6, ""},
		{"mistral names nothing", VLLM, fake{refuses: map[string]string{
			"continuous_usage_stats": "Extra inputs are not permitted", "stream_options": "Extra inputs are not permitted",
			"max_completion_tokens": "Extra inputs are not permitted",
		}}, api.Params{Stream: true, IncludeUsage: true, ContinuousUsage: true}, "false false ? ? ? max_tokens", "false false false 0 max_tokens", 3, ""},
		{"no effect", VLLM, fake{ignores: map[string]bool{"ignore_eos": true, "min_tokens": true, "continuous_usage_stats": true}}, full,
			"true false false false true max_tokens", "true false false 0 max_tokens", 2, ""},
		{"limit of another name", VLLM, fake{ignores: map[string]bool{"max_tokens": true}}, api.Params{Stream: true, IncludeUsage: true},
			"true ? ? ? true max_completion_tokens", "true false false 0 max_completion_tokens", 2, ""},
		{"limit by no name", VLLM, fake{ignores: map[string]bool{"max_tokens": true, "max_completion_tokens": true}}, api.Params{Stream: true, IncludeUsage: true},
			"true ? ? ? true max_completion_tokens", "true false false 0 max_completion_tokens", 2, ""},
		{"no usage", VLLM, fake{noUsage: true}, api.Params{Stream: true, IncludeUsage: true}, "false ? ? ? ? max_tokens", "true false false 0 max_tokens", 1, ""},
		{"loading at first", VLLM, fake{busy: 3}, full, "true true true true true max_tokens", "true true true 700 max_tokens", 5, ""},
		{"refuses all", VLLM, fake{refuses: map[string]string{"model": "no such thing"}}, api.Params{Model: "m", Stream: true, IncludeUsage: true}, "? ? ? ? ? ", "false false false 0 max_completion_tokens", 3, "no such thing"},
		{"overloaded for good", VLLM, fake{busy: 99}, full, "? ? ? ? ? ", "true true true 700 max_tokens", 6, "loading"},
		{"whole", VLLM, fake{whole: true}, api.Params{Stream: true, IncludeUsage: true}, "true ? ? ? true max_tokens", "true false false 0 max_tokens", 2, ""},
		// A model that ends no answer proves nothing of what keeps answers from ending: the server's name has to.
		{"proven by an answer", Unknown, fake{}, full, "true true true true true max_tokens", "true true true 700 max_tokens", 2, ""},
		{"not proven", LiteLLM, fake{endless: true}, full, "true true ? ? true max_tokens", "true true true 700 max_tokens", 2, ""},
		{"ollama", Ollama, fake{endless: true}, full, "true true false false true max_tokens", "true true false 0 max_tokens", 2, ""},
		{"llama.cpp", LlamaCpp, fake{endless: true}, full, "true true true false true max_tokens", "true true true 0 max_tokens", 2, ""},
		{"zeros always", VLLM, fake{zeros: true}, full, "true true true true true max_tokens", "true true true 700 max_tokens", 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := api.New("chat")
				if err != nil {
					t.Fatal(err)
				}
				waits := 0
				b := Probe{API: a, Kind: c.kind, Send: c.f.send, Salt: "salt", Patience: 5 * time.Second, Note: func(why string) {
					if waits++; !strings.Contains(why, "Loading model") {
						t.Errorf("waits for %q", why)
					}
				}}
				found, use, err := b.Run(t.Context(), c.want)
				if want := len(c.f.bodies) > 3 && strings.Contains(c.name, "load"); waits > 1 || (waits == 1) != want {
					t.Errorf("told %d times why it waits", waits)
				}
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				if got := strings.Join([]string{yes(found.Usage), yes(found.ContinuousUsage), yes(found.IgnoreEOS), yes(found.MinTokens),
					yes(found.CachedTokens), found.TokenLimitName}, " "); got != c.found {
					t.Errorf("found %s, want %s\n%s", got, c.found, strings.Join(found.Steps, "\n"))
				}
				if got := fmt.Sprintf("%v %v %v %v %v", use.IncludeUsage, use.ContinuousUsage, use.IgnoreEOS, use.MinTokens, use.TokenLimit); got != c.use {
					t.Errorf("use %s, want %s\n%s", got, c.use, strings.Join(found.Steps, "\n"))
				}
				if use.OutputTokens != c.want.OutputTokens || use.Model != c.want.Model {
					t.Errorf("the probe changed what is not its business: %+v", use)
				}
				if len(c.f.bodies) != c.requests {
					t.Errorf("%d requests, want %d\n%s", len(c.f.bodies), c.requests, strings.Join(found.Steps, "\n"))
				}
				if most := b.CachedMost; (most == 96) != (c.requests > 1 && c.err == "" && !c.f.zeros && !c.f.noCached && yes(found.Usage) == "true") {
					t.Errorf("at most %d cached tokens\n%s", most, strings.Join(found.Steps, "\n"))
				}
				if len(found.Steps) < c.requests && c.f.busy == 0 && waits == 0 {
					t.Errorf("steps are missing: %q", found.Steps)
				}
			})
		})
	}
}

func TestProbeEnds(t *testing.T) {
	a, err := api.New("chat")
	if err != nil {
		t.Fatal(err)
	}
	// A failure that no parameter causes ends it at once.
	n := 0
	b := Probe{API: a, Send: func(context.Context, string, string, *api.Params) *schemas.Request {
		n++
		var row schemas.Request
		(&api.Failure{Status: schemas.StatusHTTPError, Kind: api.KindUnauthorized, Message: "HTTP 401"}).Fill(&row)
		return &row
	}}
	_, _, err = b.Run(t.Context(), api.Params{})
	var failed *ProbeError
	if !errors.As(err, &failed) || failed.Kind != api.KindUnauthorized || n != 1 || !strings.Contains(err.Error(), "401") {
		t.Errorf("%d requests, %v", n, err)
	}
	// So does the run's end.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	f := fake{}
	if _, _, err = (&Probe{API: a, Send: f.send}).Run(ctx, api.Params{}); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v", err)
	}
}

func TestWaitReady(t *testing.T) {
	refused := errors.New("connection refused")
	for _, c := range []struct {
		name   string
		limit  time.Duration
		answer func(n int, path string) (int, error)
		path   string
		tries  int
		waited time.Duration
		err    string
		notes  string
	}{
		{"at once", 0, func(int, string) (int, error) { return 200, nil }, liteLLMPath, 1, 0, "", "[]"},
		{"no health path", 0, func(_ int, p string) (int, error) {
			if p == "/v1/models" {
				return 200, nil
			}
			return 404, nil
		}, "/v1/models", 1, 0, "", "[]"},
		{"wants a key", 0, func(_ int, p string) (int, error) { return 401, nil }, liteLLMPath, 1, 0, "", "[]"},
		{"knows no path", 0, func(int, string) (int, error) { return 404, nil }, "/", 1, 0, "", "[]"},
		{"starts, then loads", time.Minute, func(n int, _ string) (int, error) {
			switch {
			case n < 4:
				return 0, refused
			case n < 8:
				return 503, nil
			}
			return 200, nil
		}, liteLLMPath, 8, 3500 * time.Millisecond, "", "[GET /health/liveliness: HTTP 503]"},
		{"never", 2 * time.Second, func(int, string) (int, error) { return 503, nil }, "", 5, 2 * time.Second, "HTTP 503", "[]"},
		{"nobody", 0, func(int, string) (int, error) { return 0, refused }, "", 1, 0, "refused", "[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, last := 0, ""
			notes := []string{}
			ready, err := WaitReady(t.Context(), func(_ context.Context, _, path string, _ []byte) (int, http.Header, []byte, error) {
				if path == readyPaths[0] {
					n++
				}
				last = path
				status, err := c.answer(n, path)
				return status, nil, nil, err
			}, c.limit, func(why string) { notes = append(notes, why) })
			if fmt.Sprint(notes) != c.notes {
				t.Errorf("%s: told %v, want %s", c.name, notes, c.notes)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			if ready.Path != c.path || ready.Tries != c.tries || ready.Waited != c.waited {
				t.Errorf("%s: %+v (asked %s last)", c.name, ready, last)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		_, err := WaitReady(ctx, func(context.Context, string, string, []byte) (int, http.Header, []byte, error) {
			return 503, nil, nil, nil
		}, time.Hour, func(string) {})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the run's end: %v", err)
		}
	})
}

// The servers' own answers, shortened.
const (
	vllmModels   = `{"object":"list","data":[{"id":"meta/llama","object":"model","created":1,"owned_by":"vllm","root":"meta/llama","max_model_len":8192}]}`
	llamaModels  = `{"models":[{"name":"m.gguf","model":"m.gguf"}],"object":"list","data":[{"id":"m.gguf","object":"model","owned_by":"llamacpp"}]}`
	ollamaModels = `{"object":"list","data":[{"id":"llama3:8b","object":"model","owned_by":"library"}]}`
)

func TestModelsAndDetect(t *testing.T) {
	for _, c := range []struct {
		name    string
		paths   map[string]string
		models  string
		kind    Server
		version string
	}{
		{"vllm", map[string]string{"GET /v1/models": vllmModels, "GET /version": `{"version":"0.11.0"}`}, "[meta/llama]", VLLM, "0.11.0"},
		{"sglang", map[string]string{"GET /v1/models": `{"data":[{"id":"a","owned_by":"sglang"},{"id":"b","owned_by":"sglang"}]}`}, "[a b]", SGLang, ""},
		{"sglang, older", map[string]string{"GET /get_model_info": `{"model_path":"a","is_generation":true}`, "GET /get_server_info": `{"version":"0.5"}`}, "", SGLang, "0.5"},
		{"tensorrt-llm", map[string]string{"GET /v1/models": `{"data":[{"id":"a","owned_by":"tensorrt_llm"}]}`, "GET /version": `{"version":"1.1"}`}, "[a]", TensorRTLLM, "1.1"},
		{"llama.cpp", map[string]string{"GET /v1/models": llamaModels, "GET /props": `{"default_generation_settings":{},"total_slots":4,"build_info":"b6500-abc"}`}, "[m.gguf]", LlamaCpp, "b6500-abc"},
		{"ollama", map[string]string{"GET /v1/models": ollamaModels, "GET /api/version": `{"version":"0.12"}`}, "[llama3:8b]", Ollama, "0.12"},
		{"ollama native only", map[string]string{"GET /api/tags": `{"models":[{"name":"llama3:8b","model":"llama3:8b"}]}`, "GET /api/version": `{"version":"0.12"}`}, "[llama3:8b]", Ollama, "0.12"},
		{"tgi", map[string]string{"GET /info": `{"model_id":"tiiuae/falcon","version":"3.3","max_concurrent_requests":128}`}, "[tiiuae/falcon]", TGI, "3.3"},
		{"dynamo", map[string]string{"GET /v1/models": `{"data":[{"id":"a","owned_by":"nvidia"}]}`}, "[a]", Dynamo, ""},
		{"by its metrics", map[string]string{"GET /v1/models": `{"data":[{"id":"a","owned_by":"me"}]}`, "GET /metrics": "# TYPE vllm:num_requests_running gauge\n"}, "[a]", VLLM, ""},
		{"litellm", map[string]string{"GET /v1/models": `{"data":[{"id":"a","owned_by":"openai"}]}`, "GET /health/liveliness": `"I'm alive!"`}, "[a]", LiteLLM, ""},
		{"nothing", map[string]string{"GET /v1/models": `<html>`}, "", Unknown, ""},
	} {
		f := fake{paths: c.paths}
		models, err := Models(t.Context(), f.do)
		if got := fmt.Sprint(models); err == nil && got != c.models || err != nil && (c.models != "" || !strings.Contains(err.Error(), "does not say")) {
			t.Errorf("%s: models %s, %v", c.name, got, err)
		}
		if kind, version := Detect(t.Context(), f.do); kind != c.kind || version != c.version {
			t.Errorf("%s: %s %q", c.name, kind, version)
		}
	}
}

func TestFlush(t *testing.T) {
	flush := map[string]string{"POST /reset_prefix_cache": "", "POST /flush_cache": "ok", "GET /slots": `[{"id":0},{"id":3}]`,
		"POST /slots/0?action=erase": "{}", "POST /slots/3?action=erase": "{}"}
	for _, c := range []struct {
		name     string
		kind     Server
		f        fake
		verified string
		posts    string
		note     string
		err      string
	}{
		{"vllm", VLLM, fake{paths: flush}, "true", "[/reset_prefix_cache /reset_prefix_cache]", "96 tokens", ""},
		{"sglang", SGLang, fake{paths: flush, omitZero: true}, "true", "[/flush_cache /flush_cache]", "96", ""},
		{"llama.cpp", LlamaCpp, fake{paths: flush}, "true", "[/slots/0?action=erase /slots/3?action=erase /slots/0?action=erase /slots/3?action=erase]", "96", ""},
		{"a 200 proves nothing", VLLM, fake{paths: flush, deafFlush: true}, "false", "[/reset_prefix_cache]", "still came from it", ""},
		{"no counts", VLLM, fake{paths: flush, noCached: true}, "?", "[/reset_prefix_cache]", "reports no cached tokens", ""},
		{"the prompt fails", VLLM, fake{paths: flush, refuses: map[string]string{"max_tokens": "no"}}, "?", "[/reset_prefix_cache]", "could not be told", ""},
		{"vllm without dev mode", VLLM, fake{}, "?", "[/reset_prefix_cache]", "", "VLLM_SERVER_DEV_MODE"},
		{"llama.cpp without slots", LlamaCpp, fake{}, "?", "[]", "", "--slots"},
		{"sglang busy", SGLang, fake{paths: map[string]string{"POST /flush_cache": "HTTP 400"}}, "?", "[/flush_cache]", "", "refuses while"},
		{"tensorrt-llm", TensorRTLLM, fake{}, "?", "[]", "", "--salt"},
		{"unknown, of sglang's kind", Unknown, fake{paths: map[string]string{"POST /flush_cache": ""}}, "true", "[/reset_prefix_cache /flush_cache /reset_prefix_cache /flush_cache]", "96", ""},
		{"unknown", Unknown, fake{}, "?", "[/reset_prefix_cache /flush_cache]", "", "--salt"},
	} {
		got, err := Flush(t.Context(), c.f.do, c.kind, "salt", api.Params{Stream: true, IncludeUsage: true}, c.f.send)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if yes(got.Verified) != c.verified || fmt.Sprint(c.f.posts) != c.posts || !strings.Contains(got.Note, c.note) {
			t.Errorf("%s: %s %v %q", c.name, yes(got.Verified), c.f.posts, got.Note)
		}
	}
}

// TestProbeTextIsLong checks that the text fills several blocks of a prefix cache.
func TestProbeTextIsLong(t *testing.T) {
	if words := len(strings.Fields(probeText)); words < 150 {
		t.Errorf("%d words: %s", words, probeText)
	}
}
