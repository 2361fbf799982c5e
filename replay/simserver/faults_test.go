package simserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

const fast = "&ttft=100ms&itl=10ms&jitter=0"

// fault posts one chat request of 20 tokens to a server that is to fail in the given way.
func fault(t *testing.T, query string, f func(b *bench, g *got, r read)) {
	t.Helper()
	t.Run(query, func(t *testing.T) {
		bubble(t, query+fast, func(b *bench) {
			g := b.post("/v1/chat/completions", chatBody("Hello", 20, withUsage))
			var r read
			if g.status == 200 && g.header.Get("Content-Encoding") == "" {
				r = readChat(t, g.body)
			}
			f(b, g, r)
			name, _, _ := strings.Cut(query, "=")
			if trs := b.truths(); len(trs) != 1 || trs[0].Fault != name {
				t.Errorf("truth log: %+v", trs)
			}
			if st := b.s.Stats(); st.InFlight != 0 || st.Running != 0 || st.Faults != 1 {
				t.Errorf("stats afterwards: %+v", st)
			}
		})
	})
}

func TestFaults(t *testing.T) {
	cutShort := func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) }
	fault(t, "fail=1&fail_status=502", func(_ *bench, g *got, _ read) {
		if g.status != 502 || !strings.Contains(g.body, `"error":{"message":`) || g.end != 0 {
			t.Errorf("%d %s at %v", g.status, g.body, g.end)
		}
	})
	fault(t, "429=1&retry_after=7s", func(_ *bench, g *got, _ read) {
		if g.status != 429 || g.header.Get("Retry-After") != "7" {
			t.Errorf("%d, Retry-After %q", g.status, g.header.Get("Retry-After"))
		}
	})
	fault(t, "429=1&retry_after=7s&retry_date=1", func(_ *bench, g *got, _ read) {
		at, err := http.ParseTime(g.header.Get("Retry-After"))
		if err != nil || time.Until(at) != 7*time.Second {
			t.Errorf("Retry-After %q: %v", g.header.Get("Retry-After"), err)
		}
	})
	fault(t, "never=1", func(_ *bench, g *got, _ read) {
		if g.err == nil || g.status != 0 || g.end != time.Hour {
			t.Errorf("%d, %v at %v", g.status, g.err, g.end)
		}
		time.Sleep(time.Second) // let the server notice that the client has gone
	})
	fault(t, "slow_headers=1&slow_headers_for=3s", func(_ *bench, g *got, r read) {
		if g.at[0] != ms(3100) || r.usage[1] != 20 || !r.done {
			t.Errorf("first byte at %v, usage %v", g.at[0], r.usage)
		}
	})
	fault(t, "cut=1", func(_ *bench, g *got, r read) {
		if !cutShort(g.err) || r.finish != "" || r.done || countTokens(r.text) != 10 || g.end != ms(200) {
			t.Errorf("%v, %+v at %v", g.err, r, g.end)
		}
	})
	fault(t, "reset=1", func(_ *bench, g *got, r read) {
		if !cutShort(g.err) || r.finish != "" || countTokens(r.text) != 10 {
			t.Errorf("%v, %+v", g.err, r)
		}
	})
	fault(t, "truncate=1", func(_ *bench, g *got, r read) {
		if g.err != nil || r.finish != "" || r.done || countTokens(r.text) != 10 {
			t.Errorf("%v, %+v", g.err, r)
		}
	})
	fault(t, "stall=1&stall_for=30s", func(_ *bench, g *got, r read) {
		if g.err != nil || !r.done || countTokens(r.text) != 20 || g.end != ms(200+30000) {
			t.Errorf("%v, %d tokens at %v", g.err, countTokens(r.text), g.end)
		}
	})
	fault(t, "stall=1", func(_ *bench, g *got, r read) {
		if g.err == nil || countTokens(r.text) != 10 || g.end != time.Hour {
			t.Errorf("%v, %d tokens at %v", g.err, countTokens(r.text), g.end)
		}
		time.Sleep(time.Second)
	})
	fault(t, "error_in_stream=1", func(_ *bench, g *got, r read) {
		if g.err != nil || !r.errored || r.finish != "" || !r.done || countTokens(r.text) != 10 {
			t.Errorf("%v, %+v", g.err, r)
		}
	})
	fault(t, "empty=1", func(_ *bench, g *got, r read) {
		if g.err != nil || r.text != "" || r.usage[1] != 0 || r.finish != "stop" || !r.done {
			t.Errorf("%v, %+v", g.err, r)
		}
	})
	fault(t, "huge_line=1&huge_line_bytes=3000000", func(_ *bench, g *got, r read) {
		longest := 0
		for line := range strings.Lines(g.body) {
			longest = max(longest, len(line))
		}
		if g.err != nil || longest < 2_999_000 || longest > 3_001_000 || countTokens(r.text) != 20 {
			t.Errorf("%v, longest line %d, %d tokens", g.err, longest, countTokens(r.text))
		}
	})
	fault(t, "split_utf8=1", func(_ *bench, g *got, r read) {
		broken := 0
		for _, p := range g.pieces {
			if !utf8.ValidString(p) {
				broken++
			}
		}
		if g.err != nil || !utf8.ValidString(r.text) || broken < 19 || countTokens(r.text) != 20 {
			t.Errorf("%v, %d broken pieces, %d tokens in %q", g.err, broken, countTokens(r.text), r.text)
		}
	})
	fault(t, "crlf=1", func(_ *bench, g *got, r read) {
		if g.err != nil || strings.Count(g.body, "\n") != strings.Count(g.body, "\r\n") || countTokens(r.text) != 20 || !r.done {
			t.Errorf("%v, %q", g.err, g.body[:200])
		}
	})
	fault(t, "gzip=1", func(_ *bench, g *got, _ read) {
		z, err := gzip.NewReader(strings.NewReader(g.body))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if r := readChat(t, string(plain)); err != nil || !r.done || countTokens(r.text) != 20 || len(g.at) < 20 {
			t.Errorf("%v, %d tokens in %d reads", err, countTokens(r.text), len(g.at))
		}
	})
	fault(t, "no_done=1", func(_ *bench, g *got, r read) {
		if g.err != nil || r.done || r.finish != "length" || r.usage[1] != 20 {
			t.Errorf("%v, %+v", g.err, r)
		}
	})
	fault(t, "hang_after_done=1", func(_ *bench, g *got, r read) {
		if g.err == nil || !r.done || g.end != time.Hour {
			t.Errorf("%v, done %v, end at %v", g.err, r.done, g.end)
		}
		time.Sleep(time.Second)
	})
	fault(t, "plain_json=1", func(_ *bench, g *got, _ read) {
		if g.header.Get("Content-Type") != "application/json" || !strings.Contains(g.body, `"object":"chat.completion"`) || g.end != ms(100+190) {
			t.Errorf("%s %s at %v", g.header.Get("Content-Type"), g.body, g.end)
		}
	})
}

// LM Studio reports failure with a 200.
func TestFailureAsEvent(t *testing.T) {
	bubble(t, "dialect=lmstudio&fail=1", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody("Hi", 5))
		if g.status != 200 || !strings.Contains(g.body, "event: error\ndata: {\"error\":") {
			t.Errorf("%d %s", g.status, g.body)
		}
	})
	bubble(t, "dialect=lmstudio&max_model_len=10", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody(words60, 5))
		if r := readChat(t, g.body); g.status != 200 || r.text != "" || r.finish != "stop" {
			t.Errorf("overflow: %d %+v", g.status, r)
		}
	})
}

func TestFaultsAreSharesAndRepeat(t *testing.T) {
	hits := func(seed int64) (list string, n int) {
		c := Config{Seed: seed, Fail: 0.3, Cut: 0.5}
		for i := range uint64(1000) {
			p := c.plan(i)
			list += p.name + ";"
			if p.fail {
				n++
			}
		}
		return list, n
	}
	a, n := hits(1)
	if b, _ := hits(1); a != b {
		t.Error("the same seed gave other faults")
	}
	if b, _ := hits(2); a == b {
		t.Error("another seed gave the same faults")
	}
	if n < 250 || n > 350 { // 300 expected, a standard deviation is 14
		t.Errorf("fail=0.3 hit %d of 1000", n)
	}
}

func TestLoading(t *testing.T) {
	bubble(t, "loading=30s&dialect=llamacpp", func(b *bench) {
		if g := b.get("/health"); g.status != 503 {
			t.Errorf("health while loading: %d", g.status)
		}
		if g := b.post("/v1/chat/completions", chatBody("Hi", 1)); g.status != 503 || !strings.Contains(g.body, "Loading model") {
			t.Errorf("chat while loading: %d %s", g.status, g.body)
		}
		time.Sleep(31 * time.Second)
		if g := b.get("/health"); g.status != 200 {
			t.Errorf("health afterwards: %d", g.status)
		}
	})
}

func TestSlowStart(t *testing.T) {
	bubble(t, "slow_start=5s", func(b *bench) {
		if g := b.get("/health"); g.status != 200 || g.end != 5*time.Second {
			t.Errorf("%d at %v", g.status, g.end)
		}
	})
}

func TestDieAfter(t *testing.T) {
	bubble(t, "die_after=30"+fast, func(b *bench) {
		if g := b.post("/v1/chat/completions", chatBody("Hi", 20)); g.err != nil {
			t.Fatal(g.err)
		}
		g := b.post("/v1/chat/completions", chatBody("Hi", 20))
		if g.err == nil || countTokens(readChat(t, g.body).text) > 11 {
			t.Errorf("the second answer: %v, %q", g.err, g.body)
		}
		if err := <-b.served; !errors.Is(err, errDied) {
			t.Errorf("Serve returned %v", err)
		}
		if _, err := b.ln.Dial(context.Background(), "", ""); err == nil {
			t.Error("it still accepts connections")
		}
		b.served <- nil
	})
}

func TestCloseIdle(t *testing.T) {
	bubble(t, "close_idle=5s"+fast, func(b *bench) {
		c := b.dial()
		defer c.Close()
		if g := b.send(c, "GET", "/health", ""); g.status != 200 {
			t.Fatal(g.status)
		}
		time.Sleep(4 * time.Second)
		if g := b.send(c, "GET", "/health", ""); g.status != 200 {
			t.Fatalf("after 4s: %v", g.err)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		if g := b.send(c, "GET", "/health", ""); g.err == nil {
			t.Error("the connection outlived close_idle")
		}
	})
}

func TestKeepAliveComments(t *testing.T) {
	bubble(t, "keepalive=1s&ttft=3500ms&itl=10ms&jitter=0", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody("Hi", 3))
		if n := strings.Count(g.body, ": keep-alive\n\n"); n != 3 || g.at[0] != time.Second || g.at[3] != ms(3500) {
			t.Errorf("%d comments, reads at %v", n, g.at)
		}
	})
}

func TestRoleEarly(t *testing.T) {
	bubble(t, "role_early=1&ttft=1s&itl=10ms&jitter=0", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody("Hi", 3))
		if g.at[0] != 0 || !strings.Contains(g.pieces[0], `"role":"assistant"`) || g.at[1] != time.Second {
			t.Errorf("reads at %v", g.at)
		}
	})
}

func TestSessions(t *testing.T) {
	bubble(t, "issue_header=x-session-token&cookie=1"+fast, func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody("Hi", 1))
		token, cookie := g.header.Get("X-Session-Token"), g.header.Get("Set-Cookie")
		if token == "" || !strings.HasPrefix(cookie, "sim_session=") {
			t.Fatalf("header %q, cookie %q", token, cookie)
		}
		pair, _, _ := strings.Cut(cookie, ";")
		g = b.post("/v1/chat/completions", chatBody("Hi", 1), "X-Session-Token: "+token, "Cookie: "+pair)
		if g.header.Get("X-Session-Token") != "" || g.header.Get("Set-Cookie") != "" {
			t.Error("a session that came back was issued again")
		}
		if st := b.s.Stats(); st.SessionsIssued != 2 || st.SessionsEchoed != 2 {
			t.Errorf("stats: %+v", st)
		}
		if tr := b.truths(); tr[0].Session == "" || tr[0].Session != tr[1].Session {
			t.Errorf("truth log: %q and %q", tr[0].Session, tr[1].Session)
		}
	})
}

func TestIdentify(t *testing.T) {
	bubble(t, "dialect=llamacpp", func(b *bench) {
		if g := b.get("/v1/models"); !strings.Contains(g.body, `"owned_by":"simserver"`) {
			t.Error(g.body)
		}
		if g := b.get("/props"); g.status != 404 {
			t.Errorf("/props: %d", g.status)
		}
	})
	bubble(t, "dialect=llamacpp&identify"+fast, func(b *bench) {
		b.post("/v1/chat/completions", chatBody(words60, 1))
		for path, want := range map[string]string{"/v1/models": `"owned_by":"llamacpp"`, "/props": `"build_info"`, "/slots": `[{"id":0,"is_processing":false}]`} {
			if g := b.get(path); g.status != 200 || !strings.Contains(g.body, want) {
				t.Errorf("%s: %d %s", path, g.status, g.body)
			}
		}
		if g := b.post("/flush_cache", ""); g.status != 404 {
			t.Errorf("/flush_cache: %d", g.status)
		}
		if g := b.post("/slots/0?action=erase", ""); g.status != 200 || g.body != `{"id_slot":0,"n_erased":64}` {
			t.Errorf("erase: %d %s", g.status, g.body)
		}
		if st := b.s.Stats(); st.CachedBlocks != 0 {
			t.Errorf("%d blocks after the erase", st.CachedBlocks)
		}
	})
	bubble(t, "dialect=vllm&identify", func(b *bench) {
		if g := b.get("/version"); !strings.Contains(g.body, `"version"`) {
			t.Error(g.body)
		}
		if g := b.post("/reset_prefix_cache", ""); g.status != 200 {
			t.Errorf("reset: %d", g.status)
		}
	})
}

// FuzzRequest sends any body to any API of any dialect: an answer, and nothing left in flight.
func FuzzRequest(f *testing.F) {
	for i, body := range []string{
		chatBody("Hi", 2), `{"prompt":"x","max_tokens":1}`, `{"input":[{"type":"function_call","arguments":"{}","name":"f"},{"type":"function_call_output","output":"x"}],"stream":true}`,
		`{"max_tokens":2,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"image","source":{}},{"type":"tool_result","content":[{"type":"text","text":"r"}]}]}]}`,
		`{"messages":[{"role":"user","content":"\ud800"}],"tools":[{"name":"a\"b"}]}`, `{"messages":null}`, `[]`, `{"prompt":["a","b"]}`, `{"input":""}`, `{"model":"\u0000\n","messages":[{"role":"\"","content":null,"tool_calls":[]}]}`,
	} {
		f.Add(uint8(i), uint8(i), body)
	}
	names := Dialects()
	f.Fuzz(func(t *testing.T, dialect, path uint8, body string) {
		name := names[int(dialect)%len(names)]
		d := dialects[name]
		s, err := New(Config{Dialect: name, Output: 4, MaxModelLen: 200, Reasoning: 1, Tools: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		x := d.paths[int(path)%len(d.paths)]
		r := httptest.NewRequest("POST", x.path(), strings.NewReader(body))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 200 && w.Code != 400 && w.Code != 422 {
			t.Errorf("%s %s: %d %s", name, x.path(), w.Code, w.Body)
		}
		if ct := w.Header().Get("Content-Type"); ct == jsonType && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: not JSON: %s", name, x.path(), w.Body)
		} else if ct != jsonType {
			for line := range strings.Lines(w.Body.String()) {
				data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
				if data = strings.TrimSpace(data); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("%s %s: an event is not JSON: %q", name, x.path(), data)
				}
			}
		}
		if st := s.Stats(); st.InFlight != 0 || st.Running != 0 || st.Requests != 1 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestHostileRequests(t *testing.T) {
	bubble(t, "max_body=1000", func(b *bench) {
		raw := func(request string) (string, time.Duration) {
			from := time.Now()
			c := b.dial()
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Hour))
			go func() { _, _ = io.WriteString(c, request) }()
			var out bytes.Buffer
			_, _ = io.Copy(&out, c)
			line, _, _ := strings.Cut(out.String(), "\r\n")
			return line, time.Since(from)
		}
		for _, c := range []struct{ name, request, answer string }{
			{"no HTTP", "nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request"},
			{"endless header", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", maxHeaderBytes), "HTTP/1.1 431 Request Header Fields Too Large"},
			{"large body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", "HTTP/1.1 413 Request Entity Too Large"},
			{"large chunked body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + strings.Repeat("x", 2000) + "\r\n0\r\n\r\n", "HTTP/1.1 413 Request Entity Too Large"},
		} {
			if line, _ := raw(c.request); line != c.answer {
				t.Errorf("%s: %q, want %q", c.name, line, c.answer)
			}
		}
		if line, took := raw("GET /health HTTP/1.1\r\nHost:"); line != "" || took != headerTimeout {
			t.Errorf("slow header: %q after %v", line, took)
		}
		if line, took := raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"); line != "HTTP/1.1 400 Bad Request" || took != bodyTimeout {
			t.Errorf("slow body: %q after %v", line, took)
		}
		for _, body := range []string{``, `{`, `[]`, `{"messages":[]}`, `{"messages":[{"role":"user","content":5}]}`, `{"messages":[{"content":"x"}]}`, `{"messages":"x"}`} {
			if g := b.post("/v1/chat/completions", body); g.status != 400 {
				t.Errorf("body %q: %d", body, g.status)
			}
		}
		if g := b.get("/v1/chat/completions"); g.status != 405 {
			t.Errorf("GET of an API: %d", g.status)
		}
		if g := b.get("/nothing"); g.status != 404 {
			t.Errorf("unknown path: %d", g.status)
		}
		if st := b.s.Stats(); st.InFlight != 0 {
			t.Errorf("in flight: %d", st.InFlight)
		}
	})
}

func TestShutdownIsBounded(t *testing.T) {
	bubble(t, "ttft=1s&itl=1s", func(b *bench) {
		idle := b.dial()
		defer idle.Close()
		short, long := make(chan *got, 1), make(chan *got, 1)
		go func() { short <- b.post("/v1/chat/completions", chatBody("Hi", 1)) }()
		go func() { long <- b.post("/v1/chat/completions", chatBody("Hi", 1000)) }()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		from := time.Now()
		b.cancel()
		if err := <-b.served; err != nil {
			t.Error(err)
		}
		if took := time.Since(from); took != shutdownTimeout {
			t.Errorf("shutdown took %v", took)
		}
		if g := <-short; g.err != nil || !readChat(t, g.body).done {
			t.Errorf("an answer that was nearly done: %v", g.err)
		}
		if g := <-long; g.err == nil {
			t.Error("a long answer went on")
		}
		b.served <- nil
	})
}

func TestPipelinedAndKeptConnections(t *testing.T) {
	bubble(t, "ttft=100ms&itl=10ms", func(b *bench) {
		c := b.dial()
		defer c.Close()
		for i := range 3 {
			if g := b.send(c, "POST", "/v1/chat/completions", chatBody(fmt.Sprint(i), 3)); g.err != nil || !readChat(t, g.body).done {
				t.Fatalf("request %d: %v", i, g.err)
			}
		}
		if tr := b.truths(); tr[2].ConnAge != 2 {
			t.Errorf("the third request's connection had carried %d", tr[2].ConnAge)
		}
		one := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
		body := chatBody("Hi", 2)
		last := strings.Replace(fmt.Sprintf(one, len(body), body), "Host: x", "Host: x\r\nConnection: close", 1)
		go func() { _, _ = io.WriteString(c, fmt.Sprintf(one, len(body), body)+last) }()
		var out bytes.Buffer
		if _, err := io.Copy(&out, c); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "[DONE]"); n != 2 {
			t.Errorf("%d answers to two pipelined requests", n)
		}
	})
}
