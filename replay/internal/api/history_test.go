package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/schemas"
)

func msg(role, content string) schemas.Message {
	return schemas.Message{Role: role, Content: &content}
}

func ptr[T any](v T) *T { return &v }

func body(t testing.TB, h *History, p *Params) string {
	t.Helper()
	segs, err := h.Body(p)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Join(segs, nil)
	if !json.Valid(b) {
		t.Fatalf("the body is not JSON: %s", b)
	}
	return string(b)
}

func history(t testing.TB, kind Kind, o HistoryOptions, messages ...schemas.Message) *History {
	t.Helper()
	h, err := api(t, kind).NewHistory(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := h.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

const weatherTool = `[{"type":"function","function":{"name":"get","description":"d","parameters":{"type":"object"},"strict":true}}]`

// conversation has every kind of message.
func conversation() []schemas.Message {
	calls := `[{"id":"call_1","type":"function","function":{"name":"get","arguments":"{\"city\":\"Zürich\"}"}},{"id":"call_2","type":"function","function":{"name":"now","arguments":""}}]`
	return []schemas.Message{
		msg("system", "Be brief.\n"),
		{Role: "user", Content: ptr("look"), Parts: ptr(`[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}]`)},
		{Role: "assistant", ToolCalls: &calls},
		{Role: "tool", Content: ptr("4°"), ToolCallID: ptr("call_1"), Name: ptr("get")},
		{Role: "tool", Content: ptr("noon"), ToolCallID: ptr("call_2"), Name: ptr("now")},
		msg("assistant", "It is \"cold\"."),
		msg("user", "thanks"),
	}
}

// TestBodies holds the whole body of each API against what its reference asks for.
func TestBodies(t *testing.T) {
	p := Params{Model: "m", Stream: true, IncludeUsage: true, OutputTokens: 7, Temperature: ptr(0.5), Seed: ptr(int64(3))}
	for kind, want := range map[Kind]string{
		Chat: `{"messages":[{"role":"system","content":"S:Be brief.\n"},` +
			`{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}]},` +
			`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get","arguments":"{\"city\":\"Zürich\"}"}},{"id":"call_2","type":"function","function":{"name":"now","arguments":""}}]},` +
			`{"role":"tool","content":"4°","name":"get","tool_call_id":"call_1"},{"role":"tool","content":"noon","name":"now","tool_call_id":"call_2"},` +
			`{"role":"assistant","content":"It is \"cold\"."},{"role":"user","content":"thanks"}],` +
			`"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"seed":3,"temperature":0.5,"tools":` + weatherTool + `}`,
		Completions: `{"prompt":"S:Be brief.\n\n\nlook\n\n\n\n4°\n\nnoon\n\nIt is \"cold\".\n\nthanks","model":"m","stream":true,` +
			`"stream_options":{"include_usage":true},"max_tokens":7,"seed":3,"temperature":0.5}`,
		Responses: `{"input":[{"role":"system","content":"S:Be brief.\n"},` +
			`{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw=="}]},` +
			`{"type":"function_call","call_id":"call_1","name":"get","arguments":"{\"city\":\"Zürich\"}"},{"type":"function_call","call_id":"call_2","name":"now","arguments":""},` +
			`{"type":"function_call_output","call_id":"call_1","output":"4°"},{"type":"function_call_output","call_id":"call_2","output":"noon"},` +
			`{"role":"assistant","content":"It is \"cold\"."},{"role":"user","content":"thanks"}],` +
			`"model":"m","stream":true,"max_output_tokens":7,"seed":3,"temperature":0.5,"tools":[{"type":"function","name":"get","description":"d","parameters":{"type":"object"},"strict":true}]}`,
		Anthropic: `{"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"get","input":{"city":"Zürich"}},{"type":"tool_use","id":"call_2","name":"now","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"4°"},{"type":"tool_result","tool_use_id":"call_2","content":"noon"}]},` +
			`{"role":"assistant","content":"It is \"cold\"."},{"role":"user","content":"thanks"}],` +
			`"model":"m","stream":true,"max_tokens":7,"seed":3,"temperature":0.5,"tools":[{"name":"get","description":"d","input_schema":{"type":"object"}}],` +
			`"system":"S:Be brief.\n"}`,
		Ollama: `{"messages":[{"role":"system","content":"S:Be brief.\n"},{"role":"user","content":"look","images":["iVBORw=="]},` +
			`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get","arguments":{"city":"Zürich"}}},{"function":{"name":"now","arguments":{}}}]},` +
			`{"role":"tool","content":"4°","tool_name":"get","tool_call_id":"call_1"},{"role":"tool","content":"noon","tool_name":"now","tool_call_id":"call_2"},` +
			`{"role":"assistant","content":"It is \"cold\"."},{"role":"user","content":"thanks"}],` +
			`"model":"m","stream":true,"tools":` + weatherTool + `,"options":{"num_predict":7,"seed":3,"temperature":0.5}}`,
	} {
		h := history(t, kind, HistoryOptions{Salt: "S:", Tools: weatherTool}, conversation()...)
		if got := body(t, h, &p); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", kind, got, want)
		}
		if h.Messages() != 7 {
			t.Errorf("%s: %d messages", kind, h.Messages())
		}
	}
}

// TestAnthropicSystem sends what is one text as one text, which is the form that every server of the API takes, and
// anything else as a list of blocks.
func TestAnthropicSystem(t *testing.T) {
	parts := func(raw string) schemas.Message { return schemas.Message{Role: "system", Parts: &raw} }
	for want, system := range map[string][]schemas.Message{
		`"S:a"`: {msg("system", "a")},
		`"S:b"`: {parts(`[{"type":"text","text":"b"}]`)},
		`[{"type":"text","text":"S:a"},{"type":"text","text":"b"}]`: {msg("system", "a"), msg("developer", "b")},
		`[{"type":"text","text":"S:"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]`: {
			parts(`[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]`)},
		`"a"`: {msg("system", ""), msg("system", "a")},
	} {
		a, err := New("anthropic")
		if err != nil {
			t.Fatal(err)
		}
		salt := "S:"
		if want == `"a"` {
			salt = ""
		}
		h, err := a.NewHistory(HistoryOptions{Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append(system, msg("user", "u")) {
			if err := h.Append(m); err != nil {
				t.Fatal(err)
			}
		}
		got := members(t, body(t, h, &Params{}))["system"]
		if wanted := members(t, `{"system":`+want+`}`)["system"]; !reflect.DeepEqual(got, wanted) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// members decodes a body without its messages.
func members(t testing.TB, b string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(b), &m); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"messages", "input", "prompt"} {
		delete(m, name)
	}
	return m
}

// TestParams checks which member wins, and under which name limits go.
func TestParams(t *testing.T) {
	source := `{"model":"theirs","temperature":1,"max_tokens":900,"messages":[1],"stream":false,"stream_options":{},"n":4,"top_p":0.9,"options":{"num_predict":5,"top_k":3}}`
	for _, c := range []struct {
		name string
		kind Kind
		body string
		p    Params
		want string
	}{
		{"nothing", Chat, "", Params{}, `{"stream":false}`},
		{"source alone", Chat, source, Params{Stream: true},
			`{"model":"theirs","temperature":1,"max_tokens":900,"stream":true,"top_p":0.9,"options":{"num_predict":5,"top_k":3}}`},
		{"ours over the source's", Chat, source, Params{Model: "ours", OutputTokens: 5, TokenLimit: "max_completion_tokens", Temperature: ptr(0.0)},
			`{"model":"ours","temperature":0,"max_completion_tokens":5,"stream":false,"top_p":0.9,"options":{"num_predict":5,"top_k":3}}`},
		{"extra over ours", Chat, "", Params{Model: "ours", Temperature: ptr(0.5), Extra: []json.RawMessage{[]byte(`{"temperature":0.1,"a":{"b":1}}`), []byte(`{"a":2}`)},
			Fields: []Field{{"session_id", "s\"1"}}}, `{"model":"ours","temperature":0.1,"a":2,"session_id":"s\"1","stream":false}`},
		{"the turn's own over the conversation's", Chat, `{"top_p":0.9,"seed":1}`, Params{OutputTokens: 5, Body: `{"top_p":0.1,"messages":[],"max_tokens":7}`},
			`{"top_p":0.1,"seed":1,"max_tokens":5,"stream":false}`},
		{"continuous", Completions, "", Params{Stream: true, ContinuousUsage: true},
			`{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		{"no usage without a stream", Chat, "", Params{IncludeUsage: true}, `{"stream":false}`},
		{"none for the others", Anthropic, "", Params{Stream: true, IncludeUsage: true, OutputTokens: 3}, `{"stream":true,"max_tokens":3}`},
		{"anthropic wants a limit", Anthropic, "", Params{}, `{"stream":false,"max_tokens":4096}`},
		{"anthropic with the source's limit", Anthropic, `{"max_tokens":9}`, Params{}, `{"stream":false,"max_tokens":9}`},
		{"exact length", Chat, "", Params{OutputTokens: 64, IgnoreEOS: true, MinTokens: 64}, `{"stream":false,"max_tokens":64,"ignore_eos":true,"min_tokens":64}`},
		{"least above most", Chat, "", Params{OutputTokens: 8, MinTokens: 64}, `{"stream":false,"max_tokens":8,"min_tokens":8}`},
		{"no end and no limit", Chat, "", Params{IgnoreEOS: true}, `{"stream":false}`},
		{"ollama options", Ollama, source, Params{OutputTokens: 8, Seed: ptr(int64(-1)), Extra: []json.RawMessage{[]byte(`{"options":{"top_k":9},"think":false}`)}},
			`{"model":"theirs","temperature":1,"stream":false,"top_p":0.9,"think":false,"options":{"top_k":9,"num_predict":8,"seed":-1}}`},
		{"responses", Responses, "", Params{OutputTokens: 8}, `{"stream":false,"max_output_tokens":8}`},
	} {
		h := history(t, c.kind, HistoryOptions{Body: c.body}, msg("user", "x"))
		if got, want := members(t, body(t, h, &c.p)), members(t, c.want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

func TestParamsRefused(t *testing.T) {
	h := history(t, Chat, HistoryOptions{}, msg("user", "x"))
	for _, p := range []Params{
		{Extra: []json.RawMessage{[]byte(`{"messages":[]}`)}},
		{Extra: []json.RawMessage{[]byte(`{"stream":true}`)}},
		{Extra: []json.RawMessage{[]byte(`[1]`)}},
		{Extra: []json.RawMessage{[]byte(`{"a":`)}},
		{Fields: []Field{{"messages", "x"}}},
		{Temperature: ptr(math.NaN())},
	} {
		if _, err := h.Body(&p); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	for _, o := range []HistoryOptions{{Tools: "{}"}, {Tools: "["}, {Body: "[]"}, {Body: "x"}} {
		if _, err := api(t, Chat).NewHistory(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestAppendRefused checks that a message that cannot be sent is named, and leaves the history whole.
func TestAppendRefused(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		m    schemas.Message
		word string
	}{
		{Chat, schemas.Message{Role: "user", Parts: ptr(`{"type":"text"}`)}, "content_parts"},
		{Chat, schemas.Message{Role: "assistant", ToolCalls: ptr(`[`)}, "tool_calls"},
		{Chat, schemas.Message{Content: ptr("x")}, "role"},
		{Ollama, schemas.Message{Role: "user", Parts: ptr(`[{"type":"image_url","image_url":{"url":"https://a/b.png"}}]`)}, "base64"},
		{Anthropic, schemas.Message{Role: "user", Parts: ptr(`[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]`)}, "input_audio"},
		{Anthropic, schemas.Message{Role: "critic", Content: ptr("x")}, "critic"},
	} {
		h := history(t, c.kind, HistoryOptions{}, conversation()[:5]...)
		before := body(t, h, &Params{})
		err := h.Append(c.m)
		if err == nil || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), "message 5") {
			t.Errorf("%s %v: %v", c.kind, c.word, err)
		}
		if after := body(t, h, &Params{}); after != before || h.Messages() != 5 {
			t.Errorf("%s %v: the history changed:\n%s", c.kind, c.word, after)
		}
		if err := h.Append(msg("user", "next")); err != nil {
			t.Error(err)
		}
		body(t, h, &Params{})
	}
}

// TestAppendAnswer checks how a live answer is made to fit into the recorded conversation.
func TestAppendAnswer(t *testing.T) {
	calls := func(ids ...string) *string {
		var list []toolCall
		for _, id := range ids {
			list = append(list, toolCall{id: id, name: "get", args: "{}"})
		}
		return ptr(writeCalls(list))
	}
	live := func(content string, toolCalls *string) Answer {
		m := msg("assistant", content)
		m.ToolCalls = toolCalls
		return Answer{Message: m}
	}
	recordedText := msg("assistant", "recorded")
	recordedCalls := schemas.Message{Role: "assistant", ToolCalls: calls("r1", "r2")}
	for _, c := range []struct {
		name     string
		answer   Answer
		recorded *schemas.Message
		live     bool
		has, not string
	}{
		{"text for text", live("mine", nil), &recordedText, true, `"mine"`, "recorded"},
		{"nothing recorded", live("mine", nil), nil, true, `"mine"`, ""},
		{"nothing recorded, nothing said", live("", nil), nil, true, `"content":""`, ""},
		{"empty", live("", nil), &recordedText, false, "recorded", ""},
		{"calls for text", live("mine", calls("x")), &recordedText, true, `"mine"`, "tool_calls"},
		{"calls alone for text", live("", calls("x")), &recordedText, false, "recorded", "tool_calls"},
		{"text for calls", live("mine", nil), &recordedCalls, false, `"r1"`, "mine"},
		{"fewer calls", live("", calls("x")), &recordedCalls, false, `"r1"`, `"x"`},
		{"as many calls", live("", calls("l1", "l2")), &recordedCalls, true, `"tool_call_id":"l2"`, `"r2"`},
		{"calls without ids", live("", calls("", "")), &recordedCalls, true, `"tool_call_id":"r2"`, `"id":""`},
	} {
		h := history(t, Chat, HistoryOptions{}, msg("user", "q"))
		got, err := h.AppendAnswer(c.answer, c.recorded)
		if err != nil || got != c.live {
			t.Errorf("%s: live %v, %v", c.name, got, err)
		}
		for _, id := range []string{"r1", "r2"} {
			if err := h.Append(schemas.Message{Role: "tool", Content: ptr("result"), ToolCallID: ptr(id)}); err != nil {
				t.Fatal(err)
			}
		}
		b := body(t, h, &Params{})
		if !strings.Contains(b, c.has) || c.not != "" && strings.Contains(strings.Replace(b, `"tool_call_id":"r`, "", 2), c.not) {
			t.Errorf("%s: %s", c.name, b)
		}
		if h.Messages() != 4 {
			t.Errorf("%s: %d messages", c.name, h.Messages())
		}
	}
}

func TestKeepReasoning(t *testing.T) {
	a := Answer{Message: msg("assistant", "42"), Reasoning: "hm", Signature: "sig"}
	for kind, want := range map[Kind]string{
		Chat:      `{"role":"assistant","content":"42","reasoning_content":"hm"}`,
		Anthropic: `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"42"}]}`,
		Responses: `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"role":"assistant","content":"42"}`,
		Ollama:    `{"role":"assistant","content":"42","thinking":"hm"}`,
	} {
		for _, keep := range []bool{true, false} {
			h := history(t, kind, HistoryOptions{KeepReasoning: keep}, msg("user", "q"))
			if _, err := h.AppendAnswer(a, nil); err != nil {
				t.Fatal(err)
			}
			if b := body(t, h, &Params{}); strings.Contains(b, want) != keep || strings.Contains(b, "hm") != keep {
				t.Errorf("%s, keep %v: %s", kind, keep, b)
			}
			recorded := msg("assistant", "42")
			recorded.Reasoning = ptr("hm")
			h = history(t, kind, HistoryOptions{KeepReasoning: keep}, msg("user", "q"), recorded)
			if b := body(t, h, &Params{}); strings.Contains(b, `"hm"`) != keep {
				t.Errorf("%s, recorded, keep %v: %s", kind, keep, b)
			}
		}
	}
}

// TestRoundTrip sends random conversations through the chat API's encoding and reads them back.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		salt := rapid.String().Draw(t, "salt")
		h, err := New(string(Chat))
		if err != nil {
			t.Fatal(err)
		}
		hist, err := h.NewHistory(HistoryOptions{Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range rapid.IntRange(1, 6).Draw(t, "n") {
			role := rapid.SampledFrom([]string{"system", "user", "assistant", "tool"}).Draw(t, "role")
			text := rapid.String().Draw(t, "text")
			if err := hist.Append(msg(role, text)); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				text = salt + text
			}
			want = append(want, role+":"+text)
			segs, err := hist.Body(&Params{Model: text})
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Model    string
				Messages []struct{ Role, Content string }
			}
			if err := json.Unmarshal(bytes.Join(segs, nil), &got); err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, m := range got.Messages {
				have = append(have, m.Role+":"+m.Content)
			}
			if a, b := fmt.Sprintf("%q", have), fmt.Sprintf("%q", want); a != b || got.Model != text {
				t.Fatalf("%s, want %s (%q)", a, b, got.Model)
			}
		}
	})
}

// TestPrefixIsKept checks that a longer history begins with the bytes of the shorter one, so that a
// server's cache knows it, and that nothing is encoded again.
func TestPrefixIsKept(t *testing.T) {
	for _, kind := range Kinds {
		h := history(t, kind, HistoryOptions{Tools: weatherTool})
		var last string
		for _, m := range conversation() {
			if err := h.Append(m); err != nil {
				t.Fatal(err)
			}
			segs, err := h.Body(&Params{Model: "m", OutputTokens: 9})
			if err != nil {
				t.Fatal(err)
			}
			now := string(segs[0])
			if kind == Anthropic { // tool results of one message grow inside it
				last = strings.TrimSuffix(last, "]}")
			}
			if !strings.HasPrefix(now, last) {
				t.Errorf("%s:\n%s\ndoes not go on from\n%s", kind, now, last)
			}
			last = now
		}
	}
}

// BenchmarkBody is the cost of a request in a conversation of 200 messages of 2 KB: appending one and
// making the body.
func BenchmarkBody(b *testing.B) {
	h := history(b, Chat, HistoryOptions{})
	for range 200 {
		if err := h.Append(msg("user", strings.Repeat("word ", 400))); err != nil {
			b.Fatal(err)
		}
	}
	p := Params{Model: "m", Stream: true, IncludeUsage: true, OutputTokens: 100}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Body(&p); err != nil {
			b.Fatal(err)
		}
	}
}

func TestJoinPath(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		base, want string
	}{
		{Chat, "", "/v1/chat/completions"}, {Chat, "/", "/v1/chat/completions"}, {Chat, "/v1", "/v1/chat/completions"},
		{Chat, "/v1/", "/v1/chat/completions"}, {Chat, "/x/v1/chat/completions", "/x/v1/chat/completions"},
		{Anthropic, "/proxy", "/proxy/v1/messages"}, {Ollama, "", "/api/chat"}, {Ollama, "/api", "/api/chat"}, {Ollama, "/x/api/chat", "/x/api/chat"},
		{Chat, "/v1beta/openai", "/v1beta/openai/chat/completions"}, {Chat, "/v1beta/openai/chat/completions", "/v1beta/openai/chat/completions"},
		{Chat, "/api/paas/v4", "/api/paas/v4/chat/completions"}, {Chat, "/api/v3/chat/completions/", "/api/v3/chat/completions"},
		{Chat, "/openai/deployments/d", "/openai/deployments/d/chat/completions"}, {Chat, "/vllm", "/vllm/v1/chat/completions"},
		{Anthropic, "/v1/messages", "/v1/messages"}, {Responses, "/openai/v1", "/openai/v1/responses"},
	} {
		if got := api(t, c.kind).JoinPath(c.base); got != c.want {
			t.Errorf("%s under %q: %s, want %s", c.kind, c.base, got, c.want)
		}
	}
	for base, want := range map[string]string{"": "/v1/models", "/p": "/p/v1/models", "/v1beta/openai": "/v1beta/openai/models", "/api/v3/chat/completions": "/api/v3/models"} {
		if got := api(t, Chat).ModelsPath(base); got != want {
			t.Errorf("models under %q: %s, want %s", base, got, want)
		}
	}
	if _, err := New("grpc"); err == nil || !strings.Contains(err.Error(), "responses") {
		t.Errorf("unknown API: %v", err)
	}
}

// TestCallIDsUsedAgain has a source that gives every call the same id: a renaming lasts for one turn.
func TestCallIDsUsedAgain(t *testing.T) {
	recorded := schemas.Message{Role: "assistant", ToolCalls: ptr(writeCalls([]toolCall{{id: "r1", name: "get", args: "{}"}}))}
	result := schemas.Message{Role: "tool", Content: ptr("result"), ToolCallID: ptr("r1")}
	h := history(t, Chat, HistoryOptions{}, msg("user", "q"))
	calls := writeCalls([]toolCall{{id: "live", name: "get", args: "{}"}})
	for i, a := range []Answer{{Message: schemas.Message{ToolCalls: &calls}}, {Message: msg("assistant", "no call")}} {
		if live, err := h.AppendAnswer(a, &recorded); err != nil || live != (i == 0) {
			t.Fatal(live, err)
		}
		if err := h.Append(result); err != nil {
			t.Fatal(err)
		}
	}
	b := body(t, h, &Params{})
	if strings.Count(b, `"tool_call_id":"live"`) != 1 || strings.Count(b, `"tool_call_id":"r1"`) != 1 {
		t.Error(b)
	}
}
