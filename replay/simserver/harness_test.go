package simserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "renew the golden files")

func TestMain(m *testing.M) {
	if query, ok := os.LookupEnv(EnvQuery); ok { // this is the child of TestProcess
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Main(ctx, query, os.Stdin, os.Stdout)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// bench is a server on a listener in memory, inside a synctest bubble.
type bench struct {
	t      *testing.T
	s      *Server
	ln     *MemoryListener
	log    *lockedBuffer
	start  time.Time
	cancel context.CancelFunc
	served chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// bubble runs f with a server of the given query in virtual time.
func bubble(t *testing.T, query string, f func(b *bench)) {
	t.Helper()
	cfg, err := ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, ln: Listen(), log: new(lockedBuffer), start: time.Now(), served: make(chan error, 1)}
		if b.s, err = NewWithLog(cfg, b.log); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		b.cancel = cancel
		go func() { b.served <- b.s.Serve(ctx, b.ln) }()
		f(b)
		cancel()
		if err := <-b.served; err != nil && err != errDied {
			t.Errorf("Serve: %v", err)
		}
	})
}

// truths gives the truth log so far.
func (b *bench) truths() []Truth {
	b.t.Helper()
	synctest.Wait() // a line is written after the end of its response
	if err := b.s.truth.flush(); err != nil {
		b.t.Fatal(err)
	}
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	var out []Truth
	dec := json.NewDecoder(bytes.NewReader(b.log.b.Bytes()))
	dec.DisallowUnknownFields()
	for dec.More() {
		var tr Truth
		if err := dec.Decode(&tr); err != nil {
			b.t.Fatalf("truth log: %v", err)
		}
		out = append(out, tr)
	}
	return out
}

// got is a response as it came.
type got struct {
	status int
	header http.Header
	body   string
	err    error           // of reading the response or its body
	at     []time.Duration // of the reads, from the bench's start
	pieces []string        // what each read brought, framing included
	end    time.Duration
}

// recorder keeps when each read brought what.
type recorder struct {
	net.Conn
	b *bench
	g *got
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if n > 0 {
		r.g.at = append(r.g.at, time.Since(r.b.start))
		r.g.pieces = append(r.g.pieces, string(p[:n]))
	}
	return n, err
}

func (b *bench) dial() net.Conn {
	b.t.Helper()
	c, err := b.ln.Dial(context.Background(), "", "")
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// post sends a request on a connection of its own and reads the whole answer, for at most an hour.
func (b *bench) post(path, body string, headers ...string) *got {
	c := b.dial()
	defer c.Close()
	return b.send(c, "POST", path, body, headers...)
}

func (b *bench) get(path string) *got {
	c := b.dial()
	defer c.Close()
	return b.send(c, "GET", path, "")
}

func (b *bench) send(c net.Conn, method, path, body string, headers ...string) *got {
	var req strings.Builder
	fmt.Fprintf(&req, "%s %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n", method, path, len(body))
	for _, h := range headers {
		req.WriteString(h + "\r\n")
	}
	req.WriteString("\r\n" + body)
	g := &got{}
	_ = c.SetDeadline(time.Now().Add(time.Hour))
	if _, err := io.WriteString(c, req.String()); err != nil {
		g.err = err
		return g
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(&recorder{c, b, g}, 64<<10), nil)
	if err != nil {
		g.err, g.end = err, time.Since(b.start)
		return g
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	g.status, g.header, g.body, g.err, g.end = resp.StatusCode, resp.Header, string(data), err, time.Since(b.start)
	return g
}

// chatBody is a streaming chat request of a fixed length.
func chatBody(user string, tokens int, more ...string) string {
	content, _ := json.Marshal(user)
	extra := ""
	for _, m := range more {
		extra += "," + m
	}
	return fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":%s}]%s}`, tokens, content, extra)
}

const withUsage = `"stream_options":{"include_usage":true}`

// chunk is a chat chunk of any dialect.
type chunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Delta struct {
			Role      *string         `json:"role"`
			Content   json.RawMessage `json:"content"`
			Reasoning string          `json:"reasoning"`
			RC        string          `json:"reasoning_content"`
			Refusal   *string         `json:"refusal"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// read is what a simple client makes of a chat stream.
type read struct {
	chunks        []chunk
	text          string
	reasoning     string
	arguments     string
	finish        string
	done, errored bool
	usage         [3]int // prompt, completion, cached; -1 where there is none
}

func readChat(t *testing.T, body string) read {
	t.Helper()
	r := read{usage: [3]int{-1, -1, -1}}
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:")
		if !ok {
			continue
		}
		data = strings.TrimPrefix(data, " ")
		if data == "[DONE]" {
			r.done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		r.chunks = append(r.chunks, c)
		r.errored = r.errored || len(c.Error) > 0
		for _, ch := range c.Choices {
			var s string
			if json.Unmarshal(ch.Delta.Content, &s) == nil {
				r.text += s
			}
			r.reasoning += ch.Delta.Reasoning + ch.Delta.RC
			for _, tc := range ch.Delta.ToolCalls {
				r.arguments += tc.Function.Arguments
			}
			if ch.Finish != nil {
				r.finish = *ch.Finish
			}
		}
		if c.Usage != nil {
			r.usage[0], r.usage[1], r.usage[2] = c.Usage.Prompt, c.Usage.Completion, -1
			if c.Usage.Details != nil {
				r.usage[2] = c.Usage.Details.Cached
			}
		}
	}
	return r
}

// countTokens gives the number of tokens of s.
func countTokens(s string) int {
	n := 0
	for i := 0; i < len(s); n++ {
		i = nextToken(s, i)
	}
	return n
}
