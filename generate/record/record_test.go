package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/generate/tokenizer"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tok = sync.OnceValue(func() *tokenizer.Tokenizer {
	t, err := tokenizer.Load(tokenizer.Default)
	if err != nil {
		panic(err)
	}
	return t
})

// bench is a recorder between a client and a server of the test's own.
type bench struct {
	*Recorder
	t      testing.TB
	url    string
	output string
	client *http.Client
	close  func()
	posted int64
}

func start(t testing.TB, keep bool, upstream http.Handler) *bench {
	t.Helper()
	server := httptest.NewServer(upstream)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, output: filepath.Join(t.TempDir(), "rec.parquet")}
	transport := &http.Transport{DisableCompression: true}
	if b.Recorder, err = New(Options{Upstream: u, Output: b.output, KeepText: keep, Tokenizer: tok(), Transport: transport}); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(b.Recorder)
	b.url, b.client = front.URL, &http.Client{Transport: &http.Transport{}}
	b.close = func() {
		b.client.CloseIdleConnections()
		front.Close()
		transport.CloseIdleConnections()
		server.Close()
	}
	return b
}

// post sends a request and gives the whole answer.
func (b *bench) post(path, body string) string {
	b.t.Helper()
	p, err := b.client.Post(b.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer p.Body.Close()
	out, err := io.ReadAll(p.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	// Exchanges are looked at in the order in which they end; so the test's do not overtake each other.
	for b.posted++; b.looked() < b.posted; time.Sleep(time.Millisecond) {
	}
	return string(out)
}

// looked counts the exchanges that are kept or left out.
func (b *bench) looked() int64 {
	c := b.Counts()
	n := c.Turns
	for _, k := range c.Left {
		n += k
	}
	return n
}

// seal ends the recording and reads its dataset.
func (b *bench) seal() (map[string]schemas.Conversation, Counts) {
	b.t.Helper()
	b.close()
	counts, hash, err := b.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	return dataset(b.t, b.output, hash), counts
}

func dataset(t testing.TB, name, hash string) map[string]schemas.Conversation {
	t.Helper()
	d, err := schemas.OpenDataset(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Meta().ContentHash != hash {
		t.Errorf("the file has the content hash %s, Close gave %s", d.Meta().ContentHash, hash)
	}
	out := map[string]schemas.Conversation{}
	for c, err := range d.Conversations(0) {
		if err != nil {
			t.Fatal(err)
		}
		out[c.ConversationID] = c
	}
	return out
}

// sse writes a stream of events.
func sse(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "data: %s\n\n", e)
		w.(http.Flusher).Flush()
	}
}

func quote(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// chatServer answers the nth request with the nth text, word by word.
func chatServer(answers ...string) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		text := answers[n]
		n++
		events := []string{`{"id":"x","choices":[{"delta":{"role":"assistant","content":""}}]}`}
		for _, word := range strings.SplitAfter(text, " ") {
			events = append(events, `{"id":"x","choices":[{"delta":{"content":`+quote(word)+`}}]}`)
		}
		sse(w, append(events, `{"id":"x","choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":77}}`, "[DONE]")...)
	}
}

func chatBody(messages ...string) string {
	var list []string
	for i, m := range messages {
		role := []string{"user", "assistant"}[i%2]
		if text, ok := strings.CutPrefix(m, "system: "); ok {
			list, messages = append(list, `{"role":"system","content":`+quote(text)+`}`), messages[1:]
			return strings.Replace(chatBody(messages...), `"messages":[`, `"messages":[`+list[0]+",", 1)
		}
		list = append(list, `{"role":"`+role+`","content":`+quote(m)+`}`)
	}
	return `{"model":"m","temperature":0.5,"user":"alice","stop":["Halt"],"stream":true,"messages":[` + strings.Join(list, ",") + `]}`
}

const (
	rules = "system: You are Grimble, the keeper of the copper lighthouse. Speak plainly, and never of the treasure that lies below it."
	ask1  = "How tall is the lighthouse, and who built its spiral staircase?"
	ask2  = "And the lamp?"
	say1  = "Forty metres; a mason from Brixham cut the stairs."
	say2  = "The lamp burns colza oil."
)

// TestConversations plays two conversations with the same rules, one of which is asked again from its first
// answer on, and one whose application trims the answers that it repeats.
func TestConversations(t *testing.T) {
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("keep=%v", keep), func(t *testing.T) {
			b := start(t, keep, chatServer(say1+"\n", say2, say2+" Always.", "Hello."))
			b.post("/v1/chat/completions", chatBody(rules, ask1))
			time.Sleep(30 * time.Millisecond)
			b.post("/v1/chat/completions", chatBody(rules, ask1, say1, ask2))         // trimmed
			b.post("/v1/chat/completions", chatBody(rules, ask1, say1, ask2))         // asked again
			b.post("/v1/chat/completions", chatBody(rules, "Good morning, Grimble.")) // another
			rows, counts := b.seal()
			if len(rows) != 3 || counts.Turns != 4 || counts.Conversations != 3 || len(counts.Left) > 0 {
				t.Fatalf("%d conversations, %+v", len(rows), counts)
			}
			one, again, other := rows["rec-000001"], rows["rec-000002"], rows["rec-000003"]
			if len(one.Turns) != 2 || len(one.Messages) != 5 || len(again.Turns) != 1 || len(again.Messages) != 5 || len(other.Messages) != 3 {
				t.Fatalf("messages and turns: %d %d, %d %d, %d", len(one.Messages), len(one.Turns), len(again.Messages), len(again.Turns), len(other.Messages))
			}
			plain := []string{rules[len("system: "):], ask1, say1, ask2, say2}
			total := int64(0)
			for i, want := range plain {
				got := *one.Messages[i].Content
				n := tok().Count(want)
				if i < 4 {
					total += int64(n)
				}
				if tok().Count(got) != n {
					t.Errorf("message %d has %d tokens, want %d: %q", i, tok().Count(got), n, got)
				}
				if strings.TrimSpace(got) == want != keep {
					t.Errorf("message %d is %q", i, got)
				}
				if again := *again.Messages[i].Content; i < 4 && again != got {
					t.Errorf("message %d of the conversation that was asked again is %q, not %q", i, again, got)
				}
			}
			if *other.Messages[0].Content != *one.Messages[0].Content {
				t.Error("the same rules became different texts")
			}
			if q := one.Turns[1]; *q.PromptTokens != total || *q.OutputTokens != 77 || q.MessageIndex != 4 || *q.ThinkTimeMS < 30 || *q.ThinkTimeMS > 5000 || q.ToolTimeMS != nil {
				t.Errorf("second turn %+v of %d tokens, think time %v", q, total, *q.ThinkTimeMS)
			}
			if *one.Turns[0].NewTokens != int64(tok().Count(plain[0])+tok().Count(plain[1])) || *one.Turns[1].NewTokens != int64(tok().Count(ask2)) {
				t.Errorf("new tokens %d and %d", *one.Turns[0].NewTokens, *one.Turns[1].NewTokens)
			}
			// What an infinite cache would hold: what was in an earlier prompt or answer.
			if c := *again.Turns[0].ExpectedCachedTokens; c != total {
				t.Errorf("asked again, %d tokens are expected in the cache, want %d", c, total)
			}
			if c, n := *other.Turns[0].ExpectedCachedTokens, tok().Count(plain[0]); c != int64(n) {
				t.Errorf("another conversation expects %d cached tokens, want %d", c, n)
			}
			body := map[string]any{}
			if err := json.Unmarshal([]byte(*one.Body), &body); err != nil || body["temperature"] != 0.5 {
				t.Errorf("parameters %s: %v", *one.Body, err)
			}
			if _, ok := body["stop"]; ok != keep {
				t.Errorf("parameters %s", *one.Body)
			}
		})
	}
}

// TestNothingPlain searches all that is written, while it is recorded and afterwards, for words of the
// conversation: texts, names, tools and identifiers.
func TestNothingPlain(t *testing.T) {
	const secret = "xylophone"
	answer := `{"id":"r1","choices":[{"message":{"role":"assistant","content":"The xylophone answer","reasoning_content":"xylophone thoughts","tool_calls":[{"id":"call_xylophone","type":"function","function":{"name":"xylophone_tool","arguments":"{\"of\":\"xylophone\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"completion_tokens":12}}`
	b := start(t, false, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, answer) }))
	tools := `"tools":[{"type":"function","function":{"name":"xylophone_tool","description":"plays the xylophone","parameters":{"type":"object","properties":{"of":{"type":"string"}}}}}]`
	b.post("/v1/chat/completions", `{"model":"m","user":"xylophone","metadata":{"k":"xylophone"},"stop":"xylophone","seed":7,`+tools+`,"messages":[{"role":"user","name":"xylophone","content":[{"type":"text","text":"a xylophone please"},{"type":"image_url","image_url":{"url":"http://xylophone/x.png"}}]}]}`)
	b.post("/v1/chat/completions", `{"model":"m","seed":7,`+tools+`,"messages":[{"role":"user","name":"xylophone","content":[{"type":"text","text":"a xylophone please"},{"type":"image_url","image_url":{"url":"http://xylophone/x.png"}}]},
	 {"role":"assistant","content":"The xylophone answer","tool_calls":[{"id":"call_xylophone","type":"function","function":{"name":"xylophone_tool","arguments":"{ \"of\": \"xylophone\" }"}}]},
	 {"role":"tool","tool_call_id":"call_xylophone","content":"xylophone result"}]}`)
	spool, err := os.ReadFile(SpoolName(b.output))
	if err != nil || bytes.Contains(spool, []byte(secret)) {
		t.Errorf("the spool holds plain text (%v): %s", err, spool)
	}
	if st, err := os.Stat(SpoolName(b.output)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the spool's mode is %v (%v)", st.Mode(), err)
	}
	rows, counts := b.seal()
	c := rows["rec-000001"]
	if len(rows) != 1 || len(c.Turns) != 2 || counts.Notes["messages of several parts (images), of which the words stand for the text"] == 0 {
		t.Fatalf("%d conversations, %+v", len(rows), counts)
	}
	all, err := json.Marshal(rows)
	if err != nil || bytes.Contains(all, []byte(secret)) {
		t.Errorf("the dataset holds plain text (%v): %s", err, all)
	}
	if c.Turns[1].ToolTimeMS == nil || c.Turns[1].ThinkTimeMS != nil || c.Messages[2].Role != "tool" {
		t.Errorf("a tool's result takes tool time: %+v", c.Turns[1])
	}
	var calls []struct {
		ID       string
		Function struct{ Name, Arguments string }
	}
	if err := json.Unmarshal([]byte(*c.Messages[1].ToolCalls), &calls); err != nil || len(calls) != 1 || calls[0].ID != *c.Messages[2].ToolCallID {
		t.Errorf("calls %v (%v), answered by %s", calls, err, *c.Messages[2].ToolCallID)
	} else if !strings.Contains(*c.Tools, calls[0].Function.Name) || !json.Valid([]byte(calls[0].Function.Arguments)) {
		t.Errorf("the call %v is of none of the tools %s", calls, *c.Tools)
	}
}

// TestEveryAPI records two turns by each, and asks that they become one conversation with the answer's text.
func TestEveryAPI(t *testing.T) {
	for _, c := range []struct {
		name, path    string
		first, second string
		events        []string
	}{
		{"completions", "/v1/completions", `{"prompt":"one two"}`, "", []string{`{"choices":[{"text":"an "}]}`, `{"choices":[{"text":"answer"}]}`}},
		{"anthropic", "/v1/messages",
			`{"system":"be kind","max_tokens":9,"messages":[{"role":"user","content":"one"}]}`,
			`{"system":"be kind","max_tokens":9,"messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"text","text":"an answer"}]},{"role":"user","content":"two"}]}`,
			[]string{`{"type":"message_start","message":{"id":"msg_1","usage":{"output_tokens":1}}}`, `{"type":"content_block_start","content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","delta":{"type":"text_delta","text":"an "}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"answer"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`}},
		{"responses", "/v1/responses", `{"input":"one"}`, `{"previous_response_id":"resp_1","input":"two"}`,
			[]string{`{"type":"response.created","response":{"id":"resp_1"}}`, `{"type":"response.output_text.delta","delta":"an "}`, `{"type":"response.output_text.delta","delta":"answer"}`,
				`{"type":"response.completed","response":{"id":"resp_1","usage":{"output_tokens":5}}}`}},
		{"ollama", "/api/chat", `{"messages":[{"role":"user","content":"one"}]}`,
			`{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"an answer"},{"role":"user","content":"two"}]}`,
			[]string{`{"message":{"role":"assistant","content":"an "}}`, `{"message":{"role":"assistant","content":"answer"},"done":true,"eval_count":5}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, true, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if c.name == "ollama" {
					fmt.Fprintln(w, strings.Join(c.events, "\n"))
				} else {
					sse(w, c.events...)
				}
			}))
			b.post(c.path, c.first)
			turns := 1
			if c.second != "" {
				b.post(c.path, c.second)
				turns = 2
			}
			rows, counts := b.seal()
			row := rows["rec-000001"]
			if len(rows) != 1 || len(row.Turns) != turns {
				t.Fatalf("%d conversations, %+v", len(rows), counts)
			}
			var texts []string
			for _, m := range row.Messages {
				texts = append(texts, *m.Content)
			}
			if !slices.Contains(texts, "an answer") || texts[len(texts)-1] != "an answer" {
				t.Errorf("messages %q", texts)
			}
			if turns == 2 && (*row.Turns[1].OutputTokens != 5 || row.Turns[1].MessageIndex != int64(len(texts)-1)) {
				t.Errorf("second turn %+v of %q", row.Turns[1], texts)
			}
		})
	}
}

// TestUntouched asks that all goes through as it is: other paths, status codes, headers, errors; and that an
// answer's first event is there before the server goes on.
func TestUntouched(t *testing.T) {
	next := make(chan struct{})
	b := start(t, false, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/v1/models":
			w.Header().Set("X-Server", "s")
			fmt.Fprintf(w, "%s %s", q.Header.Get("X-Mine"), q.URL.RawQuery)
		case "/v1/completions":
			http.Error(w, `{"error":"busy"}`, http.StatusTooManyRequests)
		case "/v1/chat/completions":
			if q.Header.Get("Authorization") != "Bearer k" {
				t.Errorf("headers %v", q.Header)
			}
			sse(w, `{"choices":[{"delta":{"content":"first"}}]}`)
			<-next
			panic(http.ErrAbortHandler) // the server dies
		}
	}))
	q, err := http.NewRequest("GET", b.url+"/v1/models?a=b", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Mine", "mine")
	p, err := b.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(p.Body)
	p.Body.Close()
	if err != nil || string(text) != "mine a=b" || p.Header.Get("X-Server") != "s" {
		t.Errorf("%q, %v, %v", text, p.Header, err)
	}
	if got := b.post("/v1/completions", `{"prompt":"x"}`); got != "{\"error\":\"busy\"}\n" {
		t.Errorf("an error's text is %q", got)
	}
	q, err = http.NewRequest("POST", b.url+"/v1/chat/completions", strings.NewReader(chatBody(ask1)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer k")
	p, err = b.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	in := bufio.NewReader(p.Body)
	line, err := in.ReadString('\n')
	if err != nil || !strings.Contains(line, "first") {
		t.Errorf("the first event is %q (%v)", line, err)
	}
	close(next)
	if _, err := io.ReadAll(in); err == nil {
		t.Error("the server died in the middle, and the application sees a whole answer")
	}
	rows, counts := b.seal()
	if len(rows) != 1 || counts.Requests != 2 || counts.Left["answered with HTTP 429"] != 1 || counts.Notes["answers that were cut off"] != 1 {
		t.Errorf("%d conversations, %+v", len(rows), counts)
	}
}

// TestKilled makes the dataset of a spool whose last line was cut off.
func TestKilled(t *testing.T) {
	b := start(t, true, chatServer(say1, say2))
	b.post("/v1/chat/completions", chatBody(ask1))
	b.post("/v1/chat/completions", chatBody(ask1, say1, ask2))
	spool, err := os.ReadFile(SpoolName(b.output))
	if err != nil {
		t.Fatal(err)
	}
	b.seal()
	dir := t.TempDir()
	name, out := filepath.Join(dir, "x.spool"), filepath.Join(dir, "x.parquet")
	if err := os.WriteFile(name, spool[:len(spool)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	if !IsSpool(name) || IsSpool(b.output) {
		t.Error("IsSpool")
	}
	hash, err := Seal(name, out, false)
	if err != nil {
		t.Fatal(err)
	}
	if rows := dataset(t, out, hash); len(rows) != 1 || len(rows["rec-000001"].Turns) != 1 {
		t.Errorf("%+v", rows)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spool stays: %v", err)
	}
}

// TestNothingRecorded leaves no file, and a spool that is there is not written over.
func TestNothingRecorded(t *testing.T) {
	b := start(t, true, chatServer())
	if _, err := New(Options{Upstream: &url.URL{Scheme: "http", Host: "h"}, Output: b.output, Tokenizer: tok()}); err == nil || !strings.Contains(err.Error(), "generate --from") {
		t.Errorf("a second recorder for the same output: %v", err)
	}
	b.close()
	if _, _, err := b.Close(); err == nil {
		t.Error("nothing was recorded, and no error says so")
	}
	files, err := os.ReadDir(filepath.Dir(b.output))
	if err != nil || len(files) > 0 {
		t.Errorf("left behind: %v (%v)", files, err)
	}
}
