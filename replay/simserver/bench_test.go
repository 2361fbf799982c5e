package simserver

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkChunk is the cost of a chunk without the connection: schedule, text, encoding, truth.
func BenchmarkChunk(b *testing.B) {
	for _, x := range []api{chat, completions, messages, responses} {
		b.Run(strings.TrimPrefix(x.path(), "/v1/"), func(b *testing.B) {
			cfg := Default()
			a := &answer{cfg: &cfg, d: dialects["vllm"], id: "chatcmpl-x", tag: "abcdef", model: "m", created: time.Now(), tokens: 1 << 40, includeUsage: true}
			enc := newEncoder(x, a)
			buf := make([]byte, room, 4096)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				a.done = i
				if e, ok := enc.(*responsesEncoder); ok {
					e.text = e.text[:0] // the whole text is kept until the end; here the end never comes
				}
				enc.delta(buf, a, partText, a.textAt(i+1, false), false)
			}
		})
	}
}

// BenchmarkStream is the whole cost of a chunk over loopback TCP, the reading client's included.
func BenchmarkStream(b *testing.B) {
	s, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	body := chatBody("Hi", 1<<20)
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 32<<10)
	for s.chunks.Load() < int64(b.N) {
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	c.Close()
	cancel()
	if err := <-served; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRequest is the cost of reading a request with a long history: parsing and cutting into tokens.
func BenchmarkRequest(b *testing.B) {
	text := strings.Repeat("The reply explains, step by step, how each part of the system works and why. ", 26) // 2 KB
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}` + strings.Repeat(`,{"role":"assistant","content":"`+text+`"}`, 30) + `]}`
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		ask, err := parseAsk(chat, []byte(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := ask.prompt(chat, 16); err != nil {
			b.Fatal(err)
		}
	}
}
