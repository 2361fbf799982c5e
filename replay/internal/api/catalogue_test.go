package api

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"parley/schemas"
)

var update = flag.Bool("update", false, "write the outcomes of the catalogue's streams into their files")

// secret stands in some fixtures in the place of an API key; it must never come out.
const secret = "SECRET-123"

// fixture is one response of the catalogue (testdata/streams): what a server sent, and what is to be
// made of it.
type fixture struct {
	path    string
	archive *txtar.Archive
	api     *API
	status  int
	header  map[string]string
	body    []byte
	want    string
}

func fixtures(t testing.TB) []*fixture {
	paths, err := filepath.Glob("testdata/streams/*.txtar")
	if err != nil || len(paths) < 100 {
		t.Fatalf("the catalogue has only %d streams (%v)", len(paths), err)
	}
	var all []*fixture
	for _, path := range paths {
		f := &fixture{path: path, header: map[string]string{}}
		if f.archive, err = txtar.ParseFile(path); err != nil {
			t.Fatal(err)
		}
		cut := false
		for _, file := range f.archive.Files {
			switch file.Name {
			case "head":
				for _, line := range strings.Split(strings.TrimSpace(string(file.Data)), "\n") {
					name, value, _ := strings.Cut(line, ": ")
					switch name {
					case "api":
						f.api, err = New(value)
					case "status":
						f.status, err = strconv.Atoi(value)
					case "cut":
						cut = true
					default:
						f.header[textproto.CanonicalMIMEHeaderKey(name)] = value
					}
					if err != nil {
						t.Fatal(path, err)
					}
				}
			case "body":
				f.body = file.Data
			case "want":
				f.want = string(file.Data)
			}
		}
		if cut {
			f.body = bytes.TrimRight(f.body, "\n")
		}
		all = append(all, f)
	}
	return all
}

// play feeds a body in pieces that end at the given offsets, each stamped with its end, and ends the
// response with cause.
func (f *fixture) play(s *Stream, body []byte, ends []int, cause error) {
	s.Secrets = []string{secret}
	s.Reset(f.api)
	s.Head(f.status, func(name string) string { return f.header[name] })
	from := 0
	for _, end := range ends {
		piece := bytes.Clone(body[from:end])
		more := s.Feed(piece, int64(end))
		for i := range piece {
			piece[i] = '#' // a stream that keeps the caller's bytes is found out
		}
		from = end
		if !more {
			break
		}
	}
	s.Finish(int64(len(body)), cause)
}

func byBytes(body []byte) []int {
	ends := make([]int, len(body))
	for i := range ends {
		ends[i] = i + 1
	}
	return ends
}

// outcome writes down what a stream made of a response. Moments are given as the number of the event at
// which they came, by way of the event ends that byte by byte feeding found; with nil they are left out.
func outcome(s *Stream, eventEnds []int64) string {
	var b strings.Builder
	var r schemas.Request
	s.Fill(&r)
	put := func(name string, value any) {
		switch v := value.(type) {
		case *string:
			if v != nil {
				fmt.Fprintf(&b, "%s: %s\n", name, *v)
			}
		case *int64:
			if v != nil {
				fmt.Fprintf(&b, "%s: %d\n", name, *v)
			}
		case *bool:
			if v != nil {
				fmt.Fprintf(&b, "%s: %v\n", name, *v)
			}
		default:
			fmt.Fprintf(&b, "%s: %v\n", name, v)
		}
	}
	put("status", r.Status)
	put("error_kind", r.ErrorKind)
	put("error_message", r.ErrorMessage)
	put("finish_reason", r.FinishReason)
	put("saw_done", r.SawDone)
	put("streamed", r.Streamed)
	put("response_id", r.ResponseID)
	put("events", r.Events)
	put("comments", r.Comments)
	at := func(name string, ns *int64) {
		if ns == nil || eventEnds == nil {
			return
		}
		for i, end := range eventEnds {
			if end == *ns {
				put(name, fmt.Sprintf("event %d", i+1))
				return
			}
		}
		put(name, fmt.Sprintf("byte %d", *ns))
	}
	at("first_event", r.FirstEventNS)
	at("first_token", r.FirstTokenNS)
	at("first_answer", r.FirstAnswerNS)
	at("last_token", r.LastTokenNS)
	put("chunks", len(r.ChunkNS))
	if r.ChunkTokens != nil {
		put("chunk_tokens", r.ChunkTokens)
	}
	put("prompt_tokens", r.PromptTokens)
	put("cached_tokens", r.CachedTokens)
	put("completion_tokens", r.CompletionTokens)
	put("reasoning_tokens", r.ReasoningTokens)
	put("token_source", r.TokenSource)
	a := s.Answer()
	if a.Message.Content != nil && *a.Message.Content != "" {
		put("content", strconv.Quote(*a.Message.Content))
	}
	if a.Reasoning != "" {
		put("reasoning", strconv.Quote(a.Reasoning))
	}
	put("tool_calls", a.Message.ToolCalls)
	if a.Signature != "" {
		put("signature", a.Signature)
	}
	if wait, ok := s.RetryAfter(time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
		put("retry_after", wait)
	}
	return b.String()
}

// TestCatalogue plays every stream of the catalogue in one piece, byte by byte, and in random pieces: the
// outcome is the same, and every moment is the end of the piece that completed its event.
func TestCatalogue(t *testing.T) {
	var s Stream // used again and again, as the transport does
	for _, f := range fixtures(t) {
		t.Run(strings.TrimSuffix(filepath.Base(f.path), ".txtar"), func(t *testing.T) {
			// Byte by byte, noting where each event ends.
			s.Secrets = []string{secret}
			s.Reset(f.api)
			s.Head(f.status, func(name string) string { return f.header[name] })
			ends := []int64{}
			for i := range f.body {
				more := s.Feed(f.body[i:i+1], int64(i+1))
				for int64(len(ends)) < s.count {
					ends = append(ends, int64(i+1))
				}
				if !more {
					break
				}
			}
			s.Finish(int64(len(f.body)), nil)
			got := outcome(&s, ends)
			if *update {
				f.write(t, got)
				return
			}
			if got != f.want {
				t.Errorf("%s\ngot\n%s\nwant\n%s", f.archive.Comment, got, f.want)
			}
			if strings.Contains(got, secret) {
				t.Errorf("the secret came out:\n%s", got)
			}
			var exact schemas.Request
			s.Fill(&exact)
			same := outcome(&s, nil)

			rng := rand.New(rand.NewPCG(1, uint64(len(f.body))))
			for trial := range 40 {
				var cuts []int
				if trial > 0 {
					for at := 0; at < len(f.body); {
						at = min(at+1+rng.IntN(1<<(trial%10)), len(f.body))
						cuts = append(cuts, at)
					}
				} else if len(f.body) > 0 {
					cuts = []int{len(f.body)}
				}
				f.play(&s, f.body, cuts, nil)
				if got := outcome(&s, nil); got != same {
					t.Fatalf("pieces %v: got\n%s\nbyte by byte\n%s", cuts, got, same)
				}
				var r schemas.Request
				s.Fill(&r)
				compareMoments(t, &exact, &r, cuts)
			}
		})
	}
}

// compareMoments checks that a moment fed in pieces is the end of the piece in which it came byte by
// byte.
func compareMoments(t *testing.T, exact, r *schemas.Request, cuts []int) {
	t.Helper()
	ceil := func(at int64) int64 {
		for _, c := range cuts {
			if int64(c) >= at {
				return int64(c)
			}
		}
		return at
	}
	for _, m := range []struct {
		name     string
		was, got *int64
	}{
		{"first_event", exact.FirstEventNS, r.FirstEventNS}, {"first_token", exact.FirstTokenNS, r.FirstTokenNS},
		{"first_answer", exact.FirstAnswerNS, r.FirstAnswerNS}, {"last_token", exact.LastTokenNS, r.LastTokenNS},
		{"done", exact.DoneNS, r.DoneNS},
	} {
		switch {
		case (m.was == nil) != (m.got == nil):
			t.Fatalf("%s: %v in pieces, %v byte by byte", m.name, m.got, m.was)
		case m.was != nil && *m.got != ceil(*m.was):
			t.Fatalf("%s at %d, want %d: pieces %v", m.name, *m.got, ceil(*m.was), cuts)
		}
	}
	for i, at := range exact.ChunkNS {
		if r.ChunkNS[i] != ceil(at) {
			t.Fatalf("chunk %d at %d, want %d: pieces %v", i, r.ChunkNS[i], ceil(at), cuts)
		}
	}
}

func (f *fixture) write(t *testing.T, want string) {
	files := f.archive.Files[:0]
	for _, file := range f.archive.Files {
		if file.Name != "want" {
			files = append(files, file)
		}
	}
	f.archive.Files = append(files, txtar.File{Name: "want", Data: []byte(want)})
	if err := os.WriteFile(f.path, txtar.Format(f.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLineEnds plays the event streams of the catalogue with the other line ends that the standard
// allows.
func TestLineEnds(t *testing.T) {
	var s Stream
	for _, f := range fixtures(t) {
		if !strings.HasPrefix(f.header["Content-Type"], "text/event-stream") || len(f.body) == 0 || f.body[0] == '{' || f.status != 200 {
			continue
		}
		f.play(&s, f.body, byBytes(f.body), nil)
		want := outcome(&s, nil)
		for name, end := range map[string]string{"CRLF": "\r\n", "CR": "\r"} {
			body := bytes.ReplaceAll(f.body, []byte("\n"), []byte(end))
			for _, ends := range [][]int{byBytes(body), {len(body)}} {
				f.play(&s, body, ends, nil)
				if got := outcome(&s, nil); got != want {
					t.Errorf("%s with %s: got\n%s\nwant\n%s", f.path, name, got, want)
				}
			}
		}
	}
}

// TestDiscardText checks that a stream without its text measures the same.
func TestDiscardText(t *testing.T) {
	full, bare := Stream{}, Stream{DiscardText: true}
	for _, f := range fixtures(t) {
		f.play(&full, f.body, byBytes(f.body), nil)
		f.play(&bare, f.body, byBytes(f.body), nil)
		var a, b schemas.Request
		full.Fill(&a)
		bare.Fill(&b)
		if x, y := fmt.Sprint(deref(a)), fmt.Sprint(deref(b)); x != y {
			t.Errorf("%s:\n%s\nwithout text\n%s", f.path, x, y)
		}
		if got := bare.Answer(); got.Message.Content != nil && *got.Message.Content != "" || got.Reasoning != "" {
			t.Errorf("%s: text was kept: %+v", f.path, got)
		}
	}
}

// deref gives a row without its pointers, to be compared.
func deref(r schemas.Request) []any {
	p := func(n *int64) any {
		if n == nil {
			return nil
		}
		return *n
	}
	s := func(s *string) any {
		if s == nil {
			return nil
		}
		return *s
	}
	return []any{r.Status, s(r.ErrorKind), s(r.ErrorMessage), s(r.FinishReason), s(r.ResponseID), r.SawDone, r.Events, r.Comments,
		p(r.FirstEventNS), p(r.FirstTokenNS), p(r.FirstAnswerNS), p(r.LastTokenNS), p(r.DoneNS), r.ChunkNS, r.ChunkTokens,
		p(r.PromptTokens), p(r.CachedTokens), p(r.CompletionTokens), p(r.ReasoningTokens), s(r.TokenSource)}
}
