package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/internal/control"
	"parley/replay/internal/wire"
	"parley/replay/simserver"
	"parley/schemas"
)

// dialectAPIs are the APIs that each dialect of the simulated server serves.
var dialectAPIs = map[string][]api.Kind{
	"vllm": {api.Chat, api.Completions, api.Responses, api.Anthropic}, "sglang": {api.Chat, api.Completions},
	"trtllm": {api.Chat, api.Completions}, "llamacpp": {api.Chat, api.Completions, api.Anthropic},
	"ollama": {api.Chat, api.Completions, api.Ollama}, "tgi": {api.Chat, api.Completions},
	"openai": {api.Chat, api.Completions, api.Responses}, "azure": {api.Chat, api.Completions, api.Responses},
	"mistral": {api.Chat}, "anthropic": {api.Anthropic}, "responses": {api.Responses},
	"dynamo": {api.Chat, api.Completions, api.Responses}, "lmstudio": {api.Chat, api.Completions},
}

// rig is a simulated server and a client of it, in memory and in virtual time.
type rig struct {
	t      *testing.T
	api    *api.API
	client *wire.Client
	log    *logBuffer
	server *simserver.Server
	origin time.Time
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// withRig runs f against a server of the given query.
func withRig(t *testing.T, query string, kind api.Kind, f func(r *rig)) {
	t.Helper()
	cfg, err := simserver.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, log: new(logBuffer), origin: time.Now()}
		if r.server, err = simserver.NewWithLog(cfg, r.log); err != nil {
			t.Fatal(err)
		}
		ln := simserver.Listen()
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- r.server.Serve(ctx, ln) }()
		if r.api, err = api.New(string(kind)); err != nil {
			t.Fatal(err)
		}
		r.client, err = wire.New(wire.Options{URL: "http://sim", API: r.api, Clock: clock.New(r.origin), Dial: ln.Dial, UserClock: true, IdleTimeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			r.client.Close()
			cancel()
			<-served
		}()
		f(r)
	})
}

// truths gives what really happened, by request id.
func (r *rig) truths() map[string]simserver.Truth {
	r.t.Helper()
	synctest.Wait()
	if err := r.server.Close(); err != nil { // flushes
		r.t.Fatal(err)
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	all := map[string]simserver.Truth{}
	for dec := json.NewDecoder(&r.log.b); dec.More(); {
		var tr simserver.Truth
		if err := dec.Decode(&tr); err != nil {
			r.t.Fatal(err)
		}
		all[tr.RequestID] = tr
	}
	return all
}

// send is the probe's and the flush's way to make a request.
func (r *rig) send(ctx context.Context, salt, text string, p *api.Params) *schemas.Request {
	prompt := salt + text
	s, err := r.client.NewSession(api.HistoryOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := s.Append(schemas.Message{Role: "user", Content: &prompt}); err != nil {
		r.t.Fatal(err)
	}
	var row schemas.Request
	s.Do(ctx, wire.TurnRequest{Params: p, RequestID: "probe"}, &row)
	return &row
}

// converse makes a conversation of some turns with live answers and gives its rows.
func (r *rig) converse(p *api.Params, turns int) (rows []*schemas.Request, answers []api.Answer) {
	s, err := r.client.NewSession(api.HistoryOptions{Salt: "first "})
	if err != nil {
		r.t.Fatal(err)
	}
	recorded := "recorded answer"
	for i := range turns {
		words := strings.Repeat(fmt.Sprintf("question %d about a matter. ", i), 8)
		if err := s.Append(schemas.Message{Role: "user", Content: &words}); err != nil {
			r.t.Fatal(err)
		}
		row := &schemas.Request{}
		a := s.Do(context.Background(), wire.TurnRequest{Params: p, RequestID: fmt.Sprintf("turn-%d", i)}, row)
		rows, answers = append(rows, row), append(answers, a)
		if _, err := s.AppendAnswer(a, &schemas.Message{Role: "assistant", Content: &recorded}); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	return rows, answers
}

func got(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func words(row *schemas.Request) string {
	s := row.Status
	for _, p := range []*string{row.ErrorKind, row.ErrorMessage, row.FinishReason, row.TokenSource} {
		if p != nil {
			s += " | " + *p
		}
	}
	return s
}

// TestDialects probes each dialect of the simulated server over each of its APIs, and then holds
// conversations with what the probe found: every row agrees with the server's own log, moments included.
func TestDialects(t *testing.T) {
	for dialect, kinds := range dialectAPIs {
		for _, kind := range kinds {
			for name, query := range map[string]string{
				"plain":     "jitter=0&output=24",
				"reasoning": "reasoning=6&output=24&chunk_tokens=3",
				"tools":     "tools=0.5&output=24&hold=0.2&keepalive=5ms",
				"whole":     "plain_json=1&output=24",
				"wire":      "crlf=0.5&split_utf8=0.5&huge_line=0.3&no_done=0.3&hang_after_done=0&output=24",
			} {
				if name == "reasoning" && kind == api.Completions && (dialect == "openai" || dialect == "azure") {
					continue // refused: their reasoning models have no completions
				}
				if name == "wire" && (kind == api.Responses || kind == api.Ollama) {
					query = strings.Replace(query, "no_done=0.3&", "", 1) // their only sign of success
				}
				t.Run(dialect+"/"+string(kind)+"/"+name, func(t *testing.T) {
					withRig(t, "dialect="+dialect+"&"+query, kind, func(r *rig) { checkDialect(r, dialect, name) })
				})
			}
		}
	}
}

func checkDialect(r *rig, dialect, name string) {
	t := r.t
	want := api.Params{Model: "sim", Stream: true, IncludeUsage: true, ContinuousUsage: true, OutputTokens: 20}
	found, use, err := (&control.Probe{API: r.api, Kind: control.Simulated, Send: r.send, Salt: "probe "}).Run(t.Context(), want)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(found.Steps, "\n"))
	}
	rows, answers := r.converse(&use, 4)
	truths := r.truths()
	usage := found.Usage != nil && *found.Usage
	for i, row := range rows {
		tr, ok := truths[fmt.Sprintf("turn-%d", i)]
		if !ok {
			t.Fatalf("turn %d is not in the server's log", i)
		}
		bad := func(what string, got, want any) {
			t.Errorf("turn %d: %s %v, the server says %v (%s)", i, what, got, want, words(row))
		}
		if row.Status != string(schemas.StatusOK) {
			bad("status", words(row), tr.Finish)
			continue
		}
		if row.FinishReason == nil {
			bad("finish reason", nil, tr.Finish)
		}
		if usage {
			if got(row.PromptTokens) != int64(tr.Prompt) {
				bad("prompt tokens", got(row.PromptTokens), tr.Prompt)
			}
			if got(row.CompletionTokens) != int64(tr.Completion) {
				bad("completion tokens", got(row.CompletionTokens), tr.Completion)
			}
			if row.CachedTokens != nil && *row.CachedTokens != int64(tr.Cached) || row.CachedTokens == nil && found.CachedTokens != nil && *found.CachedTokens && tr.Cached > 0 {
				bad("cached tokens", got(row.CachedTokens), tr.Cached)
			}
			if row.ReasoningTokens != nil && *row.ReasoningTokens != int64(tr.Reasoning) {
				bad("reasoning tokens", *row.ReasoningTokens, tr.Reasoning)
			}
		}
		a := answers[i]
		text := ""
		if a.Message.Content != nil {
			text = *a.Message.Content
		}
		if text == "" && a.Message.ToolCalls == nil && a.Reasoning == "" {
			bad("answer", "nothing", tr.Completion)
		}
		if tr.Reasoning > 0 && a.Reasoning == "" && r.api.Kind != api.Completions {
			bad("reasoning", "none", tr.Reasoning)
		}
		if name == "whole" {
			if *row.Streamed || row.FirstTokenNS != nil || row.ChunkNS != nil || row.LastTokenNS == nil {
				bad("moments", "of a stream", "one body")
			}
			continue
		}
		if !*row.Streamed {
			bad("streamed", false, true)
			continue
		}
		// Moments: in virtual time they are the server's own. A chunk whose text is held back proves a token
		// only where the server counts along.
		seen := func(what string, at *int64, unixNS int64) {
			if at == nil || r.origin.UnixNano()+*at != unixNS {
				bad(what, got(at), unixNS-r.origin.UnixNano())
			}
		}
		switch {
		case dialect == "trtllm" && tr.Chunks >= len(row.ChunkNS):
			// Chunks of empty text hold a token, but nothing in them proves it.
		case (r.api.Kind == api.Anthropic || r.api.Kind == api.Responses) && a.Message.ToolCalls != nil && tr.Chunks == len(row.ChunkNS)+1:
			// The server's log counts the delta that opens a call, which is empty where chunks are small.
			seen("last token", row.LastTokenNS, tr.LastNS)
		case tr.Chunks != len(row.ChunkNS):
			bad("chunks", len(row.ChunkNS), tr.Chunks)
		case name == "wire": // a chunk in two pieces is there with the second one, which comes a little later
			if late := r.origin.UnixNano() + *row.LastTokenNS - tr.LastNS; late < 0 || late > 10e6 {
				bad("last token", *row.LastTokenNS, tr.LastNS)
			}
		default:
			seen("first token", row.FirstTokenNS, tr.FirstNS)
			seen("last token", row.LastTokenNS, tr.LastNS)
		}
		if use.ContinuousUsage && usage {
			sum := int64(0)
			for _, n := range row.ChunkTokens {
				sum += n
			}
			if sum != int64(tr.Completion) {
				bad("tokens by chunk", row.ChunkTokens, tr.Completion)
			}
		}
	}
	if dialect == "vllm" && r.api.Kind == api.Chat && name == "plain" && !use.ContinuousUsage {
		t.Errorf("continuous usage was not found: %s", strings.Join(found.Steps, "\n"))
	}
}

// TestDialectFaults provokes each fault of the simulated server in each dialect, over each of its APIs.
func TestDialectFaults(t *testing.T) {
	type outcome struct{ status, kinds string } // kinds: those that fit, by blanks; "" is none
	late := func(dialect string, kind api.Kind) outcome {
		switch {
		case kind == api.Ollama:
			return outcome{"stream_error", ""}
		case dialect == "sglang":
			return outcome{"stream_error", "aborted"}
		case dialect == "trtllm":
			return outcome{"incomplete", "cut_body"}
		case dialect == "ollama":
			return outcome{"incomplete", "no_finish"}
		}
		return outcome{"stream_error", ""}
	}
	for dialect, kinds := range dialectAPIs {
		for _, kind := range kinds {
			for query, want := range map[string]outcome{
				"fail=1":                      {"http_error", "server_error"},
				"fail=1&fail_status=401":      {"http_error", "unauthorized"},
				"429=1":                       {"http_error", "rate_limited overloaded"},
				"truncate=1":                  {"incomplete", "no_finish"},
				"cut=1":                       {"incomplete", "cut_body"},
				"stall=1":                     {"timeout", wire.KindTimeoutIdle},
				"never=1":                     {"timeout", wire.KindTimeoutIdle},
				"error_in_stream=1":           late(dialect, kind),
				"empty=1":                     {"empty", "no_tokens"},
				"hang_after_done=1":           {"ok", ""},
				"gzip=1":                      {"ok", ""},
				"huge_line=1":                 {"ok", ""},
				"split_utf8=1&crlf=1":         {"ok", ""},
				"slow_headers=1":              {"ok", ""},
				"loading=5s":                  {"http_error", "loading"},
				"keepalive=1s&ttft=5s&base=0": {"ok", ""},
			} {
				if dialect == "lmstudio" && query == "fail=1" {
					want = outcome{"stream_error", ""} // its failures are a 200
				}
				if dialect == "lmstudio" && query == "fail=1&fail_status=401" {
					continue
				}
				t.Run(dialect+"/"+string(kind)+"/"+query, func(t *testing.T) {
					withRig(t, "dialect="+dialect+"&output=12&chunk_tokens=1&"+query, kind, func(r *rig) {
						t := r.t
						begin := time.Now()
						row := r.send(t.Context(), "", "tell me something", &api.Params{Model: "sim", Stream: true, OutputTokens: 12})
						if row.Status != want.status {
							t.Fatalf("%s, want %s", words(row), want.status)
						}
						if want.kinds != "" && (row.ErrorKind == nil || !strings.Contains(" "+want.kinds+" ", " "+*row.ErrorKind+" ")) {
							t.Errorf("%s, want the kind %s", words(row), want.kinds)
						}
						if want.status == "ok" && (row.FirstTokenNS == nil || row.ErrorKind != nil || row.ErrorMessage != nil) {
							t.Errorf("%s, first token %d", words(row), got(row.FirstTokenNS))
						}
						if want.status != "ok" && row.ErrorMessage == nil {
							t.Errorf("%s: no message", words(row))
						}
						if strings.HasPrefix(query, "keepalive") && kind != api.Ollama && row.Comments < 3 {
							t.Errorf("%d comments", row.Comments)
						}
						if took := time.Since(begin); want.status != "timeout" && took > 12*time.Second {
							t.Errorf("took %v", took)
						}
					})
				})
			}
		}
	}
}

// TestSimulatedControl asks the simulated server about itself through the transport: readiness while it
// loads, its models, its kind, and a flush that is looked at.
func TestSimulatedControl(t *testing.T) {
	withRig(t, "loading=7s&model=some/model&output=4", api.Chat, func(r *rig) {
		t := r.t
		ready, err := control.WaitReady(t.Context(), r.client.Fetch, time.Minute, func(string) {})
		if err != nil || ready.Waited < 6*time.Second || ready.Waited > 8*time.Second {
			t.Fatalf("%+v, %v", ready, err)
		}
		models, err := control.Models(t.Context(), r.client.Fetch)
		if err != nil || len(models) != 1 || models[0] != "some/model" {
			t.Errorf("%v, %v", models, err)
		}
		kind, _ := control.Detect(t.Context(), r.client.Fetch)
		if kind != control.Simulated {
			t.Errorf("detected %s", kind)
		}
		flushed, err := control.Flush(t.Context(), r.client.Fetch, kind, "salt", api.Params{Model: "m", Stream: true, IncludeUsage: true}, r.send)
		if err != nil || flushed.Verified == nil || !*flushed.Verified {
			t.Errorf("%+v, %v", flushed, err)
		}
	})
}
