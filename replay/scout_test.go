package replay

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/schemas"
)

// answerer serves small answers by path, notes what is asked, and says OK to chats. An answer beginning with "HTTP " has
// that status.
func answerer(t *testing.T, answers map[string]string) (url string, chats func() []string) {
	t.Helper()
	var mu sync.Mutex
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			mu.Lock()
			bodies = append(bodies, string(body))
			mu.Unlock()
		}
		text, there := answers[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		if status := 0; strings.HasPrefix(text, "HTTP ") {
			fmt.Sscanf(text, "HTTP %d", &status)
			w.WriteHeader(status)
			text = text[len("HTTP 400 "):]
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "KEY", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
}

const (
	oneModel = `{"data":[{"id":"m"},{"id":"n"}]}`
	chatOK   = "data: {\"choices\":[{\"delta\":{\"content\":\"OK\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
)

// TestScoutRefusals has servers that refuse before the load: each error says who was asked for what, with the server's
// words, and the next step; and never repeats the key.
func TestScoutRefusals(t *testing.T) {
	const key = "sk-key-4711"
	for _, c := range []struct {
		name    string
		answers map[string]string
		key     string
		model   string
		words   []string
		never   string
	}{
		{"no key, list", map[string]string{"/v1/models": `HTTP 401 {"error":{"message":"You didn't provide an API key."}}`}, "", "",
			[]string{"wants an API key ($OPENAI_API_KEY is not set)", "GET /v1/models: HTTP 401", "You didn't provide an API key.", "--api-key-env"}, "--model"},
		{"wrong key, list", map[string]string{"/v1/models": `HTTP 401 {"error":{"message":"Incorrect API key provided: KEY."}}`}, key, "",
			[]string{"does not accept the API key ($OPENAI_API_KEY)", "Incorrect API key provided: [secret]."}, "4711"},
		{"forbidden, chat", map[string]string{"/v1/models": oneModel, "/v1/chat/completions": `HTTP 403 {"error":"not for KEY"}`}, key, "m",
			[]string{"does not accept the API key", "/v1/chat/completions", "HTTP 403 Forbidden: not for [secret]"}, "4711"},
		{"LiteLLM without its database", map[string]string{"/v1/models": `HTTP 400 {"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}`}, key, "",
			[]string{"does not accept the API key", "HTTP 400: No connected db."}, ""},
		{"LiteLLM without a key", map[string]string{"/v1/models": `HTTP 500 Internal Server Error`}, "", "",
			[]string{`GET /v1/models: HTTP 500: "Internal Server Error"`, "no API key was sent ($OPENAI_API_KEY is not set)", "--model"}, ""},
		{"no model of the name", map[string]string{"/v1/models": oneModel, "/v1/chat/completions": `HTTP 404 {"error":{"message":"The model 'x' does not exist."}}`}, "", "x",
			[]string{"/v1/chat/completions", "The model 'x' does not exist.", "check --url, --api and --model"}, ""},
		{"no list", map[string]string{"/v1/chat/completions": chatOK}, "", "", []string{"does not say which models it has", "HTTP 404"}, ""},
		{"tools refused", map[string]string{"/v1/models": oneModel, "/v1/chat/completions": `HTTP 400 {"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice"}}`}, "", "",
			[]string{"refuses the request in every form", "--enable-auto-tool-choice", "with tools, a system message, two turns", "--no-probe"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, _ := answerer(t, c.answers)
			cfg := Config{Dataset: writeDataset(t, []schemas.Conversation{talk("a", 2, 0), withTools()}), URLs: []string{url}, Concurrency: 1,
				APIKey: c.key, APIKeyEnv: "OPENAI_API_KEY", Model: c.model, ReadyLimit: None}
			out, _, err := replayed(t, cfg, Hooks{})
			if out != nil || err == nil {
				t.Fatalf("outcome %v, error %v", out, err)
			}
			for _, w := range append(c.words, url) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in: %v", w, err)
				}
			}
			if c.never != "" && strings.Contains(err.Error(), c.never) {
				t.Errorf("%q is in: %v", c.never, err)
			}
		})
	}
}

// withTools is a conversation of two turns with a system message, tools and parameters.
func withTools() schemas.Conversation {
	text := func(s string) *string { return &s }
	c := schemas.Conversation{ConversationID: "tools", Tools: text(`[{"type":"function","function":{"name":"weather","parameters":{}}}]`)}
	c.Messages = []schemas.Message{
		{Role: "system", Content: text("Be brief.")}, {Role: "user", Content: text("first " + strings.Repeat("long ", 500))},
		{Role: "assistant", Content: text("answer")}, {Role: "user", Content: text("second")},
	}
	c.Turns = []schemas.Turn{{MessageIndex: 2}, {MessageIndex: 4}}
	return c
}

// TestProbeIsLikeTheRun looks at what the probe sends: the shape of the conversations, with short texts, and what the
// flags add. An address without a scheme is one of HTTP.
func TestProbeIsLikeTheRun(t *testing.T) {
	url, chats := answerer(t, map[string]string{"/v1/models": oneModel, "/v1/chat/completions": chatOK})
	plain, image := talk("a", 1, 0), withTools()
	parts := `[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`
	image.Messages[3].Parts = &parts
	body := `{"top_p":0.5}`
	image.Body = &body
	var notes []string
	cfg := Config{Dataset: writeDataset(t, []schemas.Conversation{plain, image}), URLs: []string{strings.TrimPrefix(url, "http://")}, Concurrency: 1,
		Model: "gone", BodyFields: []string{"session_id={conversation}"}}
	out, rows, err := replayed(t, cfg, Hooks{Note: func(s string) { notes = append(notes, s) }})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if out.Meta.Targets[0].URL != url {
		t.Errorf("the target is %s", out.Meta.Targets[0].URL)
	}
	first := chats()[0]
	for _, want := range []string{`"role":"system"`, `"tools":[{"type":"function"`, `"role":"assistant","content":"answer"`, `"image_url"`, `"top_p":0.5`,
		`"session_id":"probe"`, "single word OK"} {
		if !strings.Contains(first, want) {
			t.Errorf("%s is not in the probe's request: %s", want, first)
		}
	}
	if len(first) > 6000 {
		t.Errorf("the probe sends %d bytes", len(first))
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "does not list gone; it has m, n") {
		t.Errorf("no word of a model that is not there: %s", all)
	}
}
