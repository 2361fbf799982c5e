package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A chat stream of two tokens as servers send it, and the same with its framing.
const (
	sseBody = `data: {"id":"r1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"r1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"r1","choices":[{"index":0,"delta":{"content":" you"},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"r1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}` + "\n\n" +
		"data: [DONE]\n\n"
	sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
)

// chunked frames a body in chunks of n bytes.
func chunked(body string, n int) string {
	var b strings.Builder
	for len(body) > 0 {
		k := min(n, len(body))
		b.WriteString(hex(k) + "\r\n" + body[:k] + "\r\n")
		body = body[k:]
	}
	return b.String() + "0\r\n\r\n"
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0 || s == ""; n >>= 4 {
		s = digits[n&15:n&15+1] + s
	}
	return s
}

func response() string { return sseHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(sseBody, 150) }

// memory is an in-memory network of one address.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory {
	return &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case m.conns <- b:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.closed:
		return nil, errors.New("closed")
	}
}

func (m *memory) close() { m.once.Do(func() { close(m.closed) }) }

// serve answers each connection with f until the network is closed; f's connections are closed after it.
func (m *memory) serve(f func(nc net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case nc := <-m.conns:
			wg.Go(func() {
				defer nc.Close()
				f(nc)
			})
		case <-m.closed:
			return
		}
	}
}

// readRequest reads one request; ok is false at the connection's end.
func readRequest(nc net.Conn) (head, body string, ok bool) {
	var b []byte
	one := make([]byte, 1)
	for !strings.HasSuffix(string(b), "\r\n\r\n") {
		if _, err := nc.Read(one); err != nil {
			return "", "", false
		}
		b = append(b, one[0])
	}
	length := 0
	for _, line := range strings.Split(string(b), "\r\n") {
		if v, ok := strings.CutPrefix(strings.ToLower(line), "content-length: "); ok {
			for _, c := range v {
				length = length*10 + int(c-'0')
			}
		}
	}
	rest := make([]byte, length)
	if _, err := io.ReadFull(nc, rest); err != nil {
		return "", "", false
	}
	return string(b), string(rest), true
}

// options are those of most tests.
func options(url string) Options {
	a, err := api.New("chat")
	if err != nil {
		panic(err)
	}
	return Options{URL: url, API: a, Clock: clock.New(time.Now())}
}

func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// turn sends one turn of a new conversation.
func turn(t testing.TB, c *Client, ctx context.Context, tr TurnRequest) (*schemas.Request, api.Answer) {
	t.Helper()
	s, err := c.NewSession(api.HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := "Say hello."
	if err := s.Append(schemas.Message{Role: "user", Content: &text}); err != nil {
		t.Fatal(err)
	}
	return send(ctx, s, tr)
}

func send(ctx context.Context, s *Session, tr TurnRequest) (*schemas.Request, api.Answer) {
	if tr.Params == nil {
		tr.Params = &api.Params{Model: "m", Stream: true}
	}
	row := new(schemas.Request)
	a := s.Do(ctx, tr, row)
	return row, a
}

func kind(row *schemas.Request) string {
	if row.ErrorKind == nil {
		return ""
	}
	return *row.ErrorKind
}

func message(row *schemas.Request) string {
	if row.ErrorMessage == nil {
		return ""
	}
	return *row.ErrorMessage
}

func text(a api.Answer) string {
	if a.Message.Content == nil {
		return ""
	}
	return *a.Message.Content
}

// KernelStamps tells whether this machine's kernel was seen to stamp what it receives.
func (c *Client) KernelStamps() bool {
	c.ready()
	return c.warmth.Kernel()
}
