//go:build soak && linux

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/schemas"
)

// hostileServer answers each request on a raw connection; answer writes what it likes, and the connection is
// closed after it. GET requests get a list of models, or nothing.
func hostileServer(t *testing.T, answer func(w io.Writer)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				if req.Method == http.MethodGet {
					io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				answer(c)
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	roleEvent  = `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	textEvent  = `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	lastEvent  = `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}` + "\n\n"
	doneEvent  = "data: [DONE]\n\n"
)

// repeat writes a text again and again, up to so many bytes, or until the client has enough of it.
func repeat(w io.Writer, text string, bytesInAll int64) {
	block := []byte(strings.Repeat(text, max(1, 1<<20/len(text))))
	for sent := int64(0); sent < bytesInAll; sent += int64(len(block)) {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// bomb is zeros of n bytes, compressed a thousandfold.
func bomb(n int64) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	io.WriteString(z, "data: ")
	for ; n > 0; n -= int64(len(zeros)) {
		z.Write(zeros)
	}
	z.Close()
	return b.Bytes()
}

// watched runs a load to its end and gives the most memory that the client had.
func (s *soak) watched(t *testing.T, args ...string) (peak float64) {
	t.Helper()
	p := launch(t, s.parley.command(args...))
	peaks := watchPeak(p)
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Fatalf("exit code %d\n%s", code, p.errs.String())
	}
	return <-peaks
}

// hostile has servers send what no client expects. Each request ends with a named error (or as a success,
// where only the form is odd), the run ends by itself, and the client's memory stays bounded.
func (s *soak) hostile(t *testing.T) {
	data := dataset(t, 2, 1, 5)
	const gigabyte = 1 << 30
	big := bomb(8 * gigabyte)
	small := bomb(64 << 20)
	tests := []struct {
		name   string
		want   string // kind of the rows
		answer func(w io.Writer)
	}{
		{"a gigabyte in one event", "event_too_long", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n"+roleEvent+`data: {"choices":[{"index":0,"delta":{"content":"`)
			repeat(w, "aaaaaaaaaaaaaaaa", gigabyte)
		}},
		{"a gigabyte in one line that is no event", "event_too_long", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n"+roleEvent)
			repeat(w, "aaaaaaaaaaaaaaaa", gigabyte)
		}},
		{"a gigabyte of one JSON body", "event_too_long", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"+`{"choices":[{"message":{"content":"`)
			repeat(w, "aaaaaaaaaaaaaaaa", gigabyte)
		}},
		{"a gigabyte of error", "server_error", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 500 Internal Server Error\r\n\r\n")
			repeat(w, "too bad ", gigabyte)
		}},
		{"events without tokens and without end", "timeout_total|body_too_large", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n")
			repeat(w, roleEvent, 1<<62)
		}},
		{"comments without end", "timeout_total|body_too_large", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n")
			repeat(w, ": ping\n\n", 1<<62)
		}},
		{"tokens without end", "timeout_total|body_too_large|text_too_long", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n")
			repeat(w, textEvent, 1<<62)
		}},
		{"a trickle", "timeout_total", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n")
			for range 10_000 {
				for _, b := range []byte(roleEvent) {
					if _, err := w.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			}
		}},
		{"a header without end", "header_too_large", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 200 OK\r\n")
			repeat(w, "X-More: and more\r\n", 1<<62)
		}},
		{"one header line without end", "header_too_large", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 200 OK\r\nX-More: ")
			repeat(w, "and more ", 1<<62)
		}},
		{"interim answers without end", "header_too_large|bad_response", func(w io.Writer) {
			repeat(w, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 1<<62)
		}},
		{"chunk lines without end", "line_too_long", func(w io.Writer) {
			io.WriteString(w, streamHead+"Transfer-Encoding: chunked\r\n\r\n5;x=")
			repeat(w, "extension", 1<<62)
		}},
		{"trailers without end", "header_too_large|line_too_long", func(w io.Writer) {
			io.WriteString(w, streamHead+"Transfer-Encoding: chunked\r\n\r\n0\r\n")
			repeat(w, "X-More: and more\r\n", 1<<62)
		}},
		{"a decompression bomb in one event", "event_too_long", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Encoding: gzip\r\n\r\n")
			w.Write(big)
		}},
		{"a decompression bomb of an error", "server_error", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 500 Internal Server Error\r\nContent-Encoding: gzip\r\n\r\n")
			w.Write(big)
		}},
		{"a compression that is none", "bad_response", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Encoding: gzip\r\n\r\n"+roleEvent)
		}},
		{"compressed zeros", "event_too_long|not_json", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Encoding: gzip\r\n\r\n")
			w.Write(small)
		}},
		{"a redirect to itself", "redirect", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/chat/completions\r\nContent-Length: 0\r\n\r\n")
		}},
		{"no HTTP", "bad_response", func(w io.Writer) { io.WriteString(w, "220 mail.example.com ESMTP\r\n") }},
		{"random bytes", "bad_response", func(w io.Writer) { w.Write([]byte{0x16, 3, 1, 0, 0xff, 0xfe, 0, 0, '\n', '\n'}) }},
		{"nothing", "eof_before_response", func(w io.Writer) {}},
		{"not JSON", "not_json", func(w io.Writer) { io.WriteString(w, streamHead+"\r\ndata: {\"choices\n\n"+doneEvent) }},
		{"JSON a million levels deep", "not_json", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\ndata: {\"x\":"+strings.Repeat("[", 1_000_000)+"\n\n")
		}},
		{"ends that come twice", "ok", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n"+roleEvent+textEvent+lastEvent+lastEvent+doneEvent+doneEvent+lastEvent)
		}},
		{"the end before the tokens", "empty no_tokens|incomplete no_finish", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n"+doneEvent+roleEvent+textEvent+lastEvent)
		}},
		{"the finish before a token", "ok", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n"+roleEvent+lastEvent+textEvent+doneEvent)
		}},
		{"invalid UTF-8", "ok", func(w io.Writer) {
			io.WriteString(w, streamHead+"\r\n"+roleEvent+strings.ReplaceAll(textEvent, "word", "w\xff\xc3rd\xed\xa0\x80")+lastEvent+doneEvent)
		}},
		{"an unknown compression", "content_encoding", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Encoding: magic\r\n\r\n"+roleEvent)
		}},
		{"a length that is a lie", "cut_body", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Length: 99999\r\n\r\n"+roleEvent)
		}},
		{"a length above the limit", "body_too_large", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Length: 999999999999\r\n\r\n"+roleEvent)
		}},
		{"a length beyond all numbers", "bad_response", func(w io.Writer) {
			io.WriteString(w, streamHead+"Content-Length: 99999999999999999999999\r\n\r\n"+roleEvent)
		}},
		{"a million error lines", "not_found", func(w io.Writer) {
			io.WriteString(w, "HTTP/1.1 404 Not Found\r\n\r\n"+strings.Repeat("line\n", 1_000_000))
		}},
	}
	most := 0.0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := hostileServer(t, tt.answer)
			out := filepath.Join(t.TempDir(), "run.parquet")
			begin := time.Now()
			peak := s.watched(t, "replay", data, "--url", url, "-o", out, "--concurrency", "2", "--model", "m",
				"--no-probe", "--scrape", "none", "--keep-going", "--timeout", "4s", "--idle-timeout", "3s", "--save-text")
			counts, _ := reconciled(t, out)
			total := 0
			for key, n := range counts {
				total += n
				found := false
				for _, want := range strings.Split(tt.want, "|") {
					found = found || key == want || strings.HasSuffix(key, " "+want)
				}
				if !found {
					t.Errorf("%d rows are %q, want %s", n, key, tt.want)
				}
			}
			if total != 2 {
				t.Errorf("%d rows", total)
			}
			// Two answers of the largest size that is taken (64 MiB), each in a buffer that has doubled. Of
			// streams of tokens each token's time is kept: in four seconds some millions of them.
			limit := 900e6
			if tt.name == "tokens without end" {
				limit = 2500e6
			}
			if peak > limit {
				t.Errorf("peak memory %.0f MB, limit %.0f MB", peak/1e6, limit/1e6)
			}
			most = max(most, peak)
			t.Logf("%v in %v, peak memory %.0f MB", counts, time.Since(begin).Round(10*time.Millisecond), peak/1e6)
		})
	}
	t.Logf("%d hostile answers, two requests each; most memory %.0f MB", len(tests), most/1e6)
}

// hostileTerminal has a server put terminal escapes and markup wherever a text of its own can come out, on
// a terminal and in every form of output.
func (s *soak) hostileTerminal(t *testing.T) {
	const evil = "\x1b]0;owned\x07\x1b[2J\x1b[35m<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u009b2J\x07|a|`b`,=1+1\r\n"
	quoted := strconv.QuoteToASCII(evil) // JSON takes all of Go's escapes but \x
	quoted = strings.NewReplacer(`\x1b`, `\u001b`, `\x07`, `\u0007`, `\a`, `\u0007`, `\u009b`, `\u009b`).Replace(quoted)
	var n atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%s,"object":"model","owned_by":%s}]}`, quoted, quoted)
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"version":%s}`, quoted) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=%q} 1\n%s 1\n", "\x1b[2J", "\x1b[2J")
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(60 * time.Millisecond) // the progress line is drawn meanwhile
		switch n.Add(1) % 4 {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"error":{"message":%s,"type":%s,"code":%s}}`, quoted, quoted, quoted)
		case 1:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "%sdata: {\"error\":{\"message\":%s}}\n\n", roleEvent, quoted)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"id":%s,"object":"chat.completion.chunk","model":%s,"choices":[{"index":0,"delta":{"role":"assistant","content":%s},"finish_reason":null}]}`+"\n\n", quoted, quoted, quoted)
			fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":%s}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`+"\n\n%s", quoted, doneEvent)
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	url := "http://" + ln.Addr().String()

	dir := t.TempDir()
	out := filepath.Join(dir, "run.parquet")
	data := dataset(t, 40, 2, 5)
	tty := openTerminal(t)
	before := tty.settings(t)
	p := tty.start(t, s.parley, "replay", data, "--url", url, "-o", out, "--concurrency", "2", "--no-probe", "--keep-going",
		"--save-text", "--history", "recorded", "--label", "a\x1b[2Jlabel")
	if code := p.code(t, patience); code != codeOK && code != codeVerdict {
		t.Fatalf("exit code %d\n%q", code, tty.screen.String())
	}
	until(t, "the summary", patience, func() bool { return strings.Contains(tty.screen.String(), "TTFT") })
	if tty.settings(t) != before {
		t.Error("the terminal's settings have changed")
	}
	rows, meta := fileRows(t, out)
	if len(rows) != 80 || !strings.Contains(meta.Targets[0].Model, "script") {
		t.Errorf("%d rows, model %q: the server's texts did not arrive", len(rows), meta.Targets[0].Model)
	}
	texts := 0
	for _, r := range rows {
		if r.Text != nil && strings.Contains(*r.Text, "\x1b[2J") {
			texts++
		}
	}
	if texts == 0 {
		t.Error("no answer was saved as it came")
	}
	// The same through analyze, on the terminal and off it.
	harmless := func(where, text string) {
		t.Helper()
		for _, bad := range []string{"]0;owned", "\x1b[2J", "\x1b[35m", "\x07", "\u202e", "\u009b"} {
			if strings.Contains(text, bad) && (bad != "]0;owned" || strings.Contains(text, "\x1b]0;owned")) {
				t.Errorf("%s holds %q", where, bad)
			}
		}
	}
	harmless("the terminal", tty.screen.String())
	screen := tty.screen.String()
	if !strings.Contains(screen, " req/s, ") {
		t.Error("no progress line was drawn")
	}
	onlyOurEscapes(t, screen)
	for _, by := range []string{"model", "phase"} {
		tty := openTerminal(t)
		a := tty.start(t, s.parley, "analyze", out, "--by", by)
		if code := a.code(t, patience); code != codeOK {
			t.Errorf("analyze: exit code %d\n%q", code, tty.screen.String())
		}
		until(t, "the table", patience, func() bool { return strings.Contains(tty.screen.String(), "TTFT") })
		harmless("the table by "+by, tty.screen.String())
		onlyOurEscapes(t, tty.screen.String())
	}
	for _, format := range []string{"table", "csv", "markdown", "json"} {
		a := ran(t, s.parley, patience, finished, "analyze", out, "--by", "model", "--format", format)
		text := a.out.String() + a.errs.String()
		harmless(format, text)
		if format == "markdown" && strings.Contains(text, "<script") {
			t.Error("markdown holds a script")
		}
	}
	html := filepath.Join(dir, "report.html")
	ran(t, s.parley, patience, finished, "analyze", out, "--by", "model", "--html", html)
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>alert", "<img src=x"} {
		if strings.Contains(string(page), bad) {
			t.Errorf("the report holds %q", bad)
		}
	}
	// An error before the load repeats a server's text, too.
	e := launch(t, s.parley.command("replay", data, "--url", url, "-o", filepath.Join(dir, "other.parquet"), "--concurrency", "2", "--api", "responses"))
	e.code(t, patience)
	harmless("standard error", e.errs.String())
	// A file's own strings are no safer: a dataset with such identifiers.
	path := filepath.Join(dir, "evil.parquet")
	w, err := schemas.Create[schemas.Conversation](path, false)
	if err != nil {
		t.Fatal(err)
	}
	ask, group := evil, evil
	err = w.Write(schemas.Conversation{ConversationID: evil, PrefixGroup: &group, Tags: map[string]string{evil: evil},
		Messages: []schemas.Message{{Role: "user", Content: &ask}}, Turns: []schemas.Turn{{MessageIndex: 1}}})
	if err == nil {
		err = w.Close(schemas.DatasetMeta{Conversations: 1, Turns: 1, Source: evil, Notes: []string{evil}})
	}
	if err != nil {
		t.Fatal(err)
	}
	d := ran(t, s.parley, patience, finished, "generate", "--describe", path)
	harmless("the description", d.out.String()+d.errs.String())
	r := ran(t, s.parley, patience, finished, "replay", path, "--url", "sim:?base=1ms&itl=1ms", "-o", filepath.Join(dir, "third.parquet"), "--concurrency", "1", "--no-probe")
	harmless("the summary of a hostile dataset", r.out.String()+r.errs.String())
	a := ran(t, s.parley, patience, finished, "analyze", filepath.Join(dir, "third.parquet"), "--by", "conversation", "--by", "prefix_group")
	harmless("the table of a hostile dataset", a.out.String()+a.errs.String())
}
