package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"parley/schemas"
)

func api(t testing.TB, kind Kind) *API {
	a, err := New(string(kind))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func noHeader(string) string { return "" }

func sseHeader(name string) string {
	if name == "Content-Type" {
		return "text/event-stream"
	}
	return ""
}

const (
	roleChunk   = `data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	textChunk   = `data: {"id":"c1","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	finishChunk = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	doneChunk   = "data: [DONE]\n\n"
)

// play runs a chat stream given in feeds, the nth stamped n.
func play(t testing.TB, s *Stream, cause error, feeds ...string) *schemas.Request {
	s.Reset(api(t, Chat))
	s.Head(200, sseHeader)
	for i, f := range feeds {
		if !s.Feed([]byte(f), int64(i+1)) {
			break
		}
	}
	s.Finish(int64(len(feeds)+1), cause)
	var r schemas.Request
	s.Fill(&r)
	return &r
}

func kindOf(r *schemas.Request) string {
	if r.ErrorKind == nil {
		return ""
	}
	return *r.ErrorKind
}

// TestCauses checks what a break from outside makes of a response, by how far it had come.
func TestCauses(t *testing.T) {
	reset := &Failure{Status: schemas.StatusTransportError, Kind: "reset", Message: "connection reset"}
	idle := &Failure{Status: schemas.StatusTimeout, Kind: "idle_timeout", Message: "silent for 2m"}
	var s Stream
	for _, c := range []struct {
		name   string
		feeds  []string
		cause  error
		status schemas.Status
		kind   string
	}{
		{"before anything", nil, reset, schemas.StatusTransportError, "reset"},
		{"after tokens", []string{roleChunk, textChunk}, reset, schemas.StatusTransportError, "reset"},
		{"inside an event", []string{roleChunk, textChunk[:30]}, idle, schemas.StatusTimeout, "idle_timeout"},
		{"after the finish reason", []string{roleChunk, textChunk, finishChunk}, idle, schemas.StatusOK, ""},
		{"after the end marker", []string{roleChunk, textChunk, finishChunk, doneChunk}, reset, schemas.StatusOK, ""},
		{"after an error event", []string{roleChunk, `data: {"error":"boom"}` + "\n\n"}, reset, schemas.StatusStreamError, KindErrorEvent},
		{"deadline", []string{roleChunk}, fmt.Errorf("turn: %w", context.DeadlineExceeded), schemas.StatusTimeout, "timeout"},
		{"canceled", []string{roleChunk}, context.Canceled, schemas.StatusCanceled, "canceled"},
		{"unknown", []string{roleChunk}, errors.New("odd"), schemas.StatusTransportError, "read"},
		{"wrapped", []string{roleChunk}, fmt.Errorf("x: %w", idle), schemas.StatusTimeout, "idle_timeout"},
	} {
		r := play(t, &s, c.cause, c.feeds...)
		if r.Status != string(c.status) || kindOf(r) != c.kind {
			t.Errorf("%s: %s %s, want %s %s", c.name, r.Status, kindOf(r), c.status, c.kind)
		}
		if r.DoneNS == nil {
			t.Errorf("%s: no done_ns", c.name)
		}
		if failed := s.Failure() != nil; failed != (c.status != schemas.StatusOK) {
			t.Errorf("%s: Failure says %v", c.name, s.Failure())
		}
	}
	// An error response that breaks off is still an error response.
	s.Reset(api(t, Chat))
	s.Head(500, noHeader)
	s.Feed([]byte(`{"error":{"mess`), 1)
	s.Finish(2, reset)
	var r schemas.Request
	s.Fill(&r)
	if r.Status != string(schemas.StatusHTTPError) || *r.HTTPStatus != 500 {
		t.Errorf("broken error body: %+v", r.Status)
	}
	// No head at all.
	s.Reset(api(t, Chat))
	s.Finish(2, nil)
	r = schemas.Request{}
	if s.Fill(&r); r.Status != string(schemas.StatusTransportError) || r.HTTPStatus != nil || r.Streamed != nil {
		t.Errorf("no head: %s", r.Status)
	}
}

// TestMoments checks the moments against the feeds that brought them, a zero stamp included.
func TestMoments(t *testing.T) {
	var s Stream
	s.Reset(api(t, Chat))
	s.Head(200, sseHeader)
	s.Feed([]byte(roleChunk), 0) // the run's origin is a moment like any other
	s.Feed([]byte(": ping\n\n"), 5)
	s.Feed([]byte(textChunk[:20]), 10)
	s.Feed([]byte(textChunk[20:]+textChunk), 20)
	s.Feed([]byte(textChunk), 30)
	s.Feed([]byte(finishChunk), 40)
	if s.Feed([]byte(doneChunk), 50) {
		t.Error("more is wanted after [DONE]")
	}
	if s.Feed([]byte(textChunk), 60) {
		t.Error("more is wanted after the end")
	}
	s.Finish(70, nil)
	var r schemas.Request
	s.Fill(&r)
	for name, m := range map[string]struct {
		got  *int64
		want int64
	}{
		"first_event": {r.FirstEventNS, 0}, "first_token": {r.FirstTokenNS, 20}, "first_answer": {r.FirstAnswerNS, 20},
		"last_token": {r.LastTokenNS, 30}, "done": {r.DoneNS, 50},
	} {
		if m.got == nil || *m.got != m.want {
			t.Errorf("%s: %v, want %d", name, m.got, m.want)
		}
	}
	if got := fmt.Sprint(r.ChunkNS); got != "[20 20 30]" {
		t.Errorf("chunks %s", got)
	}
	if r.Comments != 1 || r.Events != 5 {
		t.Errorf("%d comments, %d events", r.Comments, r.Events)
	}
}

// TestHugeLine sends a line of 2 MiB, which real servers do.
func TestHugeLine(t *testing.T) {
	word := strings.Repeat("x", 2<<20)
	line := strings.Replace(textChunk, " word", word, 1)
	var s Stream
	for _, size := range []int{len(line), 4096, 777} {
		feeds := []string{roleChunk}
		for rest := line; rest != ""; {
			n := min(size, len(rest))
			feeds = append(feeds, rest[:n])
			rest = rest[n:]
		}
		last := int64(len(feeds))
		feeds = append(feeds, finishChunk, doneChunk)
		r := play(t, &s, nil, feeds...)
		if r.Status != "ok" || *r.FirstTokenNS != last {
			t.Fatalf("size %d: %s, first token %d, want %d", size, r.Status, *r.FirstTokenNS, last)
		}
		if got := *s.Answer().Message.Content; got != word {
			t.Fatalf("size %d: %d bytes of text", size, len(got))
		}
	}
}

// TestLimits checks that every limit ends a response with its own kind.
func TestLimits(t *testing.T) {
	endless := strings.Repeat("data: aaaaaaaaaa", 100)
	for _, c := range []struct {
		name  string
		s     Stream
		feeds []string
		kind  string
	}{
		{"event", Stream{MaxEvent: 1000}, []string{roleChunk, endless}, KindEventTooLong},
		{"text", Stream{MaxText: 12}, []string{roleChunk, textChunk, textChunk, textChunk}, KindTextTooLong},
		{"document", Stream{MaxEvent: 1000}, []string{"{" + strings.Repeat(" ", 2000)}, KindEventTooLong},
		{"line", Stream{MaxEvent: 100}, []string{"{}\n{}\n", "{" + strings.Repeat(" ", 2000)}, KindEventTooLong},
	} {
		r := play(t, &c.s, nil, c.feeds...)
		if r.Status != string(schemas.StatusStreamError) || kindOf(r) != c.kind {
			t.Errorf("%s: %s %s, want %s", c.name, r.Status, kindOf(r), c.kind)
		}
		if c.s.Feed([]byte("x"), 99) {
			t.Errorf("%s: more is wanted after the limit", c.name)
		}
	}
	// An error body is read up to a bound only.
	var s Stream
	s.Reset(api(t, Chat))
	s.Head(500, noHeader)
	fed := 0
	for s.Feed(make([]byte, 10000), 1) {
		if fed += 10000; fed > 1<<20 {
			t.Fatal("an error body without end is read without end")
		}
	}
}

// TestSecrets has a server that repeats the key everywhere.
func TestSecrets(t *testing.T) {
	s := Stream{Secrets: []string{secret}}
	for _, feed := range []string{
		strings.ReplaceAll(roleChunk+textChunk+finishChunk+doneChunk, "c1", "id-"+secret),
		strings.ReplaceAll(roleChunk+textChunk+finishChunk+doneChunk, "word", "the key is "+secret),
		strings.ReplaceAll(roleChunk+textChunk+finishChunk+doneChunk, `"stop"`, `"stop`+secret+`"`),
		roleChunk + `data: {"choices":[{"delta":{"reasoning":"` + secret + `","tool_calls":[{"id":"` + secret + `","function":{"name":"` + secret + `","arguments":"` + secret + `"}}]}}]}` + "\n\n",
		`data: {"error":"your key ` + secret + ` is bad"}` + "\n\n",
		"event: error\ndata: " + secret + "\n\n",
		"data: not JSON, " + secret + "\n\n",
		"<html>" + secret,
		"{" + secret,
	} {
		r := play(t, &s, nil, feed)
		if out := outcome(&s, nil) + fmt.Sprint(deref(*r), s.Failure()); strings.Contains(out, secret) {
			t.Errorf("%q: the secret came out:\n%s", feed, out)
		}
	}
	// A name of a megabyte is cut.
	r := play(t, &s, nil, strings.ReplaceAll(roleChunk+textChunk+finishChunk, "c1", strings.Repeat("i", 1<<20)))
	if len(*r.ResponseID) > maxMessage {
		t.Errorf("a response id of %d bytes", len(*r.ResponseID))
	}
}

// TestReuse checks that nothing of one response shows in the next.
func TestReuse(t *testing.T) {
	var used Stream
	all := fixtures(t)
	for i, f := range all {
		f.play(&used, f.body, byBytes(f.body), nil)
		g := all[(i*31+7)%len(all)]
		g.play(&used, g.body, []int{len(g.body)}[:min(1, len(g.body))], nil)
		var fresh Stream
		g.play(&fresh, g.body, []int{len(g.body)}[:min(1, len(g.body))], nil)
		if a, b := outcome(&used, nil), outcome(&fresh, nil); a != b {
			t.Fatalf("%s after %s:\n%s\nfresh\n%s", g.path, f.path, a, b)
		}
	}
}

// dialectChunks are one token-bearing piece of a stream per API, as it comes thousands of times.
var dialectChunks = map[Kind]string{
	Chat:        textChunk,
	Completions: `data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" w\u00f6rd","logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n",
	Responses:   "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" word","logprobs":[]}` + "\n\n",
	Anthropic:   "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}` + "\n\n",
	Ollama:      `{"model":"m","created_at":"2026-09-01T10:00:00.1Z","message":{"role":"assistant","content":" word"},"done":false}` + "\n",
}

func chunkHeader(kind Kind) func(string) string {
	return func(name string) string {
		switch {
		case name != "Content-Type":
			return ""
		case kind == Ollama:
			return "application/x-ndjson"
		}
		return "text/event-stream"
	}
}

// TestNoAllocations checks that following a stream allocates nothing once its buffers have grown.
func TestNoAllocations(t *testing.T) {
	for kind, chunk := range dialectChunks {
		var s Stream
		b := []byte(chunk)
		a := api(t, kind)
		header := chunkHeader(kind)
		run := func() {
			s.Reset(a)
			s.Head(200, header)
			for i := range 300 {
				if i%3 == 0 { // in two reads
					s.Feed(b[:50], int64(i))
					s.Feed(b[50:], int64(i))
				} else {
					s.Feed(b, int64(i))
				}
			}
			s.Finish(300, nil)
		}
		run()
		var r schemas.Request
		if s.Fill(&r); len(r.ChunkNS) != 300 {
			t.Fatalf("%s: %d chunks", kind, len(r.ChunkNS))
		}
		// One Failure at the end (no finish reason), none for the 300 chunks.
		if n := testing.AllocsPerRun(20, run); n > 1 {
			t.Errorf("%s: %v allocations for 300 chunks", kind, n)
		}
	}
}

// BenchmarkFeed is the cost of one token-bearing chunk, framing and JSON together.
func BenchmarkFeed(b *testing.B) {
	for _, kind := range Kinds {
		b.Run(string(kind), func(b *testing.B) {
			var s Stream
			chunk := []byte(dialectChunks[kind])
			a := api(b, kind)
			header := chunkHeader(kind)
			b.ReportAllocs()
			b.SetBytes(int64(len(chunk)))
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 {
					s.Reset(a)
					s.Head(200, header)
				}
				s.Feed(chunk, int64(i))
			}
		})
	}
}

// FuzzStream feeds arbitrary bodies to every API: nothing panics, pieces make no difference, and every
// response gets a status with moments in order.
func FuzzStream(f *testing.F) {
	for _, x := range fixtures(f) {
		f.Add(x.body, string(x.api.Kind), x.status, x.header["Content-Type"], uint16(7))
	}
	var whole, pieces Stream
	whole.MaxText, pieces.MaxText = 1<<20, 1<<20
	f.Fuzz(func(t *testing.T, body []byte, kind string, status int, ctype string, step uint16) {
		a, err := New(kind)
		if err != nil || len(body) > 1<<20 {
			return
		}
		x := fixture{api: a, status: status, header: map[string]string{"Content-Type": ctype}}
		x.play(&whole, body, []int{len(body)}[:min(1, len(body))], nil)
		var r schemas.Request
		whole.Fill(&r)
		checkRow(t, &r, body)
		var ends []int
		for at, n := 0, int(step%97)+1; at < len(body); {
			at = min(at+n, len(body))
			n = n*5%89 + 1
			ends = append(ends, at)
		}
		x.play(&pieces, body, ends, nil)
		if a, b := outcome(&whole, nil), outcome(&pieces, nil); a != b {
			t.Fatalf("in one piece\n%s\nin pieces %v\n%s", a, ends, b)
		}
	})
}

// checkRow checks what holds for every row, whatever came.
func checkRow(t *testing.T, r *schemas.Request, body []byte) {
	t.Helper()
	known := false
	for _, s := range schemas.Statuses {
		known = known || string(s) == r.Status
	}
	if !known {
		t.Fatalf("status %q", r.Status)
	}
	if (r.Status == "ok") != (r.ErrorKind == nil) {
		t.Fatalf("status %s with the error kind %v", r.Status, r.ErrorKind)
	}
	if r.Status == "ok" && r.FinishReason == nil && !r.SawDone && (r.Streamed == nil || *r.Streamed) {
		t.Fatalf("success without a finish reason: %q", body)
	}
	last := int64(-1)
	for _, at := range r.ChunkNS {
		if at < last {
			t.Fatalf("chunks out of order: %v", r.ChunkNS)
		}
		last = at
	}
	if len(r.ChunkNS) > 0 && (r.FirstTokenNS == nil || *r.FirstTokenNS != r.ChunkNS[0] || *r.LastTokenNS != last) {
		t.Fatal("first and last token are not those of the chunks")
	}
	if len(r.ChunkTokens) > 0 && len(r.ChunkTokens) != len(r.ChunkNS) {
		t.Fatal("chunk lists of different lengths")
	}
	for _, n := range []*int64{r.PromptTokens, r.CachedTokens, r.CompletionTokens, r.ReasoningTokens} {
		if n != nil && *n < 0 {
			t.Fatal("a negative count")
		}
	}
	if (r.CompletionTokens == nil) != (r.TokenSource == nil) {
		t.Fatal("a count without its source")
	}
	if r.ErrorMessage != nil && len(*r.ErrorMessage) > maxMessage+10 {
		t.Fatal("a message without bound")
	}
	if r.DoneNS == nil {
		t.Fatal("no done_ns")
	}
}
