package simserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// answers of every dialect and API, held against golden files: virtual time makes them the same each time.
func TestDialectsGolden(t *testing.T) {
	anyBody := map[api]string{
		chat:        `{"model":"m","stream":true,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Hello there, friend"}]}],%s}`,
		completions: `{"model":"m","stream":true,"prompt":"Hello there, friend",%s}`,
		responses:   `{"model":"m","stream":true,"instructions":"Be brief.","input":[{"role":"user","content":"Hello there, friend"}],"max_output_tokens":4}`,
		messages:    `{"model":"m","stream":true,"max_tokens":4,"system":"Be brief.","messages":[{"role":"user","content":"Hello there, friend"}]}`,
		ollamaChat:  `{"model":"m","messages":[{"role":"user","content":"Hello there, friend"}],"options":{"num_predict":4}}`,
	}
	for _, name := range Dialects() {
		d := dialects[name]
		for _, x := range d.paths {
			for _, variant := range []string{"plain", "reasoning", "tools", "late_error", "whole"} {
				if x == completions && variant != "plain" && variant != "late_error" && variant != "whole" {
					continue
				}
				query := "dialect=" + name + "&output=8&ttft=250ms&itl=10ms&jitter=0&chunk_tokens=1"
				limit := `"max_tokens":4`
				switch variant {
				case "reasoning":
					query += "&reasoning=2"
					if slices.ContainsFunc(d.refuse, func(r refusal) bool { return r.member == "max_tokens" }) {
						limit = `"max_completion_tokens":4`
					}
				case "tools":
					query += "&tools=1"
				case "late_error":
					query += "&error_in_stream=1"
				}
				more := limit
				if !slices.ContainsFunc(d.refuse, func(r refusal) bool { return r.member == "stream_options" }) {
					more += `,"stream_options":{"include_usage":true}`
				}
				body := anyBody[x]
				if strings.Contains(body, "%s") {
					body = fmt.Sprintf(body, more)
				}
				if variant == "whole" {
					body = strings.Replace(body, `"stream":true`, `"stream":false`, 1)
					if x == ollamaChat {
						body = strings.Replace(body, `{"model"`, `{"stream":false,"model"`, 1)
					}
				}
				file := name + "." + strings.Trim(strings.ReplaceAll(x.path(), "/", "_"), "_") + "." + variant
				t.Run(file, func(t *testing.T) {
					bubble(t, query, func(b *bench) {
						g := b.post(x.path(), body)
						out := fmt.Sprintf("%d %s\n\n%s", g.status, g.header.Get("Content-Type"), g.body)
						if g.err != nil {
							out += fmt.Sprintf("\n(%v)\n", g.err)
						}
						golden(t, file, out)
					})
				})
			}
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "dialects", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (renew with go test -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (renew with go test -update, and look):\n%s\nwant:\n%s", path, got, want)
	}
}

// What the catalogue of servers says about each, looked up in what is sent.
func TestDialectHabits(t *testing.T) {
	const first, last = 0, -1
	for _, c := range []struct {
		dialect string
		event   int // which event the text must be in, or 99 for anywhere, 98 for nowhere
		text    string
	}{
		{"vllm", first, `"delta":{"role":"assistant","content":""}`},
		{"vllm", last, "data: [DONE]"},
		{"vllm", 99, `"finish_reason":"length"`},
		{"vllm", 99, `"choices":[],"usage":{"prompt_tokens":`},
		{"sglang", first, `"delta":{"role":"assistant","content":""}`},
		{"sglang", 99, `"sglext":`},
		{"sglang", 98, `cached_tokens`}, // none cached: left out
		{"trtllm", first, `data:{"id"`},
		{"trtllm", first, `"delta":{"role":"assistant"}`},
		{"trtllm", 99, `"cached_tokens":0`},
		{"llamacpp", first, `"delta":{"role":"assistant","content":null}`},
		{"llamacpp", 99, `"timings":{"cache_n":0,"prompt_n":`},
		{"ollama", first, `"delta":{"role":"assistant","content":"aaaaaa"}`},
		{"ollama", 98, `cached_tokens`},
		{"tgi", first, `data:{"id"`},
		{"tgi", 2, `"role":"assistant"`},
		{"openai", first, `"role":"assistant","content":""`},
		{"openai", first, `"usage":null`},
		{"openai", 1, `"obfuscation":"`},
		{"azure", first, `"choices":[],"prompt_filter_results":`},
		{"mistral", first, `"role":"assistant"`},
		{"mistral", 98, `"choices":[]`},
		{"mistral", 99, `"finish_reason":"length"}],"usage":{`},
		{"dynamo", first, `"role":"assistant"`},
		{"lmstudio", last, "[DONE]"},
	} {
		t.Run(c.dialect+"/"+c.text, func(t *testing.T) {
			bubble(t, "dialect="+c.dialect+"&ttft=50ms&itl=1ms", func(b *bench) {
				more := `,"stream_options":{"include_usage":true}`
				if c.dialect == "mistral" {
					more = ""
				}
				g := b.post("/v1/chat/completions", `{"stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello"}]`+more+`}`)
				events := strings.Split(strings.TrimSuffix(g.body, "\n\n"), "\n\n")
				where := g.body
				switch c.event {
				case 99, 98:
				case last:
					where = events[len(events)-1]
				default:
					where = events[c.event]
				}
				if strings.Contains(where, c.text) == (c.event == 98) {
					t.Errorf("%q in %s", c.text, where)
				}
			})
		})
	}
}

func TestChunkHabits(t *testing.T) {
	for dialect, per := range map[string]int{"dynamo": 4, "azure": 16, "vllm": 1} { // tokens per chunk
		bubble(t, "dialect="+dialect+"&ttft=50ms&itl=1ms&output=100", func(b *bench) {
			g := b.post("/v1/chat/completions", `{"stream":true,"max_tokens":32,"messages":[{"role":"user","content":"Hello"}],`+withUsage+`}`)
			r := readChat(t, g.body)
			n := 0
			for _, ch := range r.chunks {
				if len(ch.Choices) > 0 && len(ch.Choices[0].Delta.Content) > 2 {
					n++
				}
			}
			if r.usage[1] != 32 || n != 32/per {
				t.Errorf("%s: %d chunks of %d tokens, want %d of 32", dialect, n, r.usage[1], 32/per)
			}
			if countTokens(r.text) != r.usage[1] {
				t.Errorf("%s: text of %d tokens, usage %d", dialect, countTokens(r.text), r.usage[1])
			}
		})
	}
	// TensorRT-LLM: empty chunks that carry a token, and no text lost.
	bubble(t, "dialect=trtllm&ttft=50ms&itl=1ms", func(b *bench) {
		r := readChat(t, b.post("/v1/chat/completions", chatBody("Hello", 200, withUsage)).body)
		empty := 0
		for _, ch := range r.chunks {
			if len(ch.Choices) > 0 && string(ch.Choices[0].Delta.Content) == `""` {
				empty++
			}
		}
		if empty < 10 || empty > 45 || countTokens(r.text) != 200 || r.usage[1] != 200 {
			t.Errorf("%d empty chunks of 200, text of %d tokens, usage %v", empty, countTokens(r.text), r.usage)
		}
	})
	// vLLM with a parser that holds chunks back: cumulative usage jumps.
	bubble(t, "hold=0.5&ttft=50ms&itl=1ms", func(b *bench) {
		r := readChat(t, b.post("/v1/chat/completions", chatBody("Hello", 200, `"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)).body)
		jump, before := 0, 0
		for _, ch := range r.chunks {
			if ch.Usage.Completion > before+1 {
				jump++
			}
			before = ch.Usage.Completion
		}
		if jump < 30 || countTokens(r.text) != 200 || before != 200 {
			t.Errorf("%d jumps, text of %d tokens, last usage %d", jump, countTokens(r.text), before)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		query, member string
		status        int
		text          string
	}{
		{"dialect=mistral", withUsage, 422, `"loc":["body","stream_options"]`},
		{"dialect=mistral", `"ignore_eos":true`, 422, `"detail":[`},
		{"dialect=openai", `"ignore_eos":true`, 400, `"param":"ignore_eos"`},
		{"dialect=openai", `"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, 400, "continuous_usage_stats"},
		{"dialect=openai&reasoning=5", `"max_tokens":5`, 400, "max_completion_tokens"},
		{"dialect=openai", `"max_tokens":5`, 200, "chat.completion"},
		{"dialect=azure", `"min_tokens":5`, 400, `"code":"400"`},
		{"dialect=vllm", `"max_tokens":0`, 400, "at least 1"},
		{"dialect=tgi", `"ignore_eos":true`, 200, "chat.completion"},
	} {
		bubble(t, c.query, func(b *bench) {
			g := b.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hello"}],`+c.member+`}`)
			if g.status != c.status || !strings.Contains(g.body, c.text) {
				t.Errorf("%s, %s: %d %s", c.query, c.member, g.status, g.body)
			}
		})
	}
	// Ollama knows only max_tokens and runs on with the other.
	bubble(t, "dialect=ollama&output=50", func(b *bench) {
		r := readChat(t, b.post("/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"Hello"}],"max_completion_tokens":3,`+withUsage+`}`).body)
		if r.usage[1] < 25 {
			t.Errorf("ollama obeyed max_completion_tokens: %d tokens", r.usage[1])
		}
	})
	for _, c := range []struct{ dialect, path string }{
		{"anthropic", "/v1/chat/completions"}, {"vllm", "/api/chat"}, {"mistral", "/v1/responses"}, {"openai", "/v1/messages"},
	} {
		bubble(t, "dialect="+c.dialect, func(b *bench) {
			if g := b.post(c.path, chatBody("Hi", 1)); g.status != 404 {
				t.Errorf("%s serves %s: %d", c.dialect, c.path, g.status)
			}
		})
	}
}
