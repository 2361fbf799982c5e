package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// listen serves f on loopback TCP until the test's end.
func listen(t testing.TB, f func(nc *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				f(nc.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// proxy stands between a client and a server and ends the connection at a byte of the exchange.
type proxy struct {
	server string
	mu     sync.Mutex
	up     int // bytes of the request that it lets pass; -1 is all
	down   int // and of the response
	reset  bool
}

func (p *proxy) set(up, down int, reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down, p.reset = up, down, reset
}

func (p *proxy) serve(nc *net.TCPConn) {
	p.mu.Lock()
	up, down, reset := p.up, p.down, p.reset
	p.mu.Unlock()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if up >= 0 {
			io.CopyN(server, nc, int64(up))
			if reset {
				nc.SetLinger(0)
			}
			nc.Close()
			server.Close()
			return
		}
		io.Copy(server, nc)
		server.Close()
	})
	answer := bufio.NewReader(server)
	if up < 0 {
		answer.Peek(1) // the request has been read: closing does not reset
	}
	if down < 0 {
		io.Copy(nc, answer)
	} else {
		io.CopyN(nc, answer, int64(down))
	}
	if reset {
		nc.SetLinger(0)
	}
	nc.Close()
	wg.Wait()
}

// The exchange breaks at every byte, by an end or a reset: each turn gets a status and the right kind, at
// once.
func TestBrokenAtEveryByte(t *testing.T) {
	answer := response()
	var requestBytes int64
	server := listen(t, func(nc *net.TCPConn) {
		for {
			if _, _, ok := readRequest(nc); !ok {
				return
			}
			io.WriteString(nc, answer)
		}
	})
	p := &proxy{server: server}
	o := options("http://" + listen(t, p.serve))
	o.KeepIdle = None
	o.Timeout = 20 * time.Second
	c := newClient(t, o)

	p.set(-1, -1, false)
	row, _ := turn(t, c, context.Background(), TurnRequest{})
	expect(t, row, schemas.StatusOK, "")
	requestBytes = row.BytesSent

	head := strings.Index(answer, "\r\n\r\n") + 4
	finish := strings.Index(answer, `"finish_reason":"stop"`)
	// The event with the finish reason is whole with the blank line after it, which may stand in the next
	// chunk; from there on to its end either is right.
	settled := finish + strings.Index(answer[finish:], "data:")
	for _, reset := range []bool{false, true} {
		for down := range len(answer) {
			p.set(-1, down, reset)
			row, _ := turn(t, c, context.Background(), TurnRequest{})
			ok := row.Status == string(schemas.StatusOK)
			switch {
			case down >= settled:
				expect(t, row, schemas.StatusOK, "")
			case ok && down > finish:
			case reset:
				expect(t, row, schemas.StatusTransportError, KindReset)
			case down < head:
				expect(t, row, schemas.StatusTransportError, KindEOF)
			default:
				expect(t, row, schemas.StatusIncomplete, KindCutBody)
			}
			if row.BytesReceived != int64(down) {
				t.Fatalf("%d bytes received of %d", row.BytesReceived, down)
			}
		}
		for up := range int(requestBytes) {
			if up%7 != 0 && up < int(requestBytes)-20 {
				continue // the server sees a cut request: all alike
			}
			p.set(up, -1, reset)
			row, _ := turn(t, c, context.Background(), TurnRequest{})
			if row.Status != string(schemas.StatusTransportError) || kind(row) != KindReset && kind(row) != KindEOF {
				t.Fatalf("request cut at %d: %s %s %s", up, row.Status, kind(row), message(row))
			}
		}
	}
	if s := c.Stats(); s.ConnsIdle != 0 {
		t.Fatalf("%+v", s)
	}
}

// large opens a conversation whose request has about 20 MB, more than any socket's buffers take.
func large(t *testing.T, c *Client) *Session {
	t.Helper()
	s, err := c.NewSession(api.HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("much ", 4<<20)
	if err := s.Append(schemas.Message{Role: "user", Content: &long}); err != nil {
		t.Fatal(err)
	}
	return s
}

// overEach runs a test over each kind of connection: f serves the connection of a client, over TLS where the client
// speaks it.
func overEach(t *testing.T, f func(nc net.Conn), test func(t *testing.T, o Options)) {
	t.Run("plain", func(t *testing.T) {
		test(t, options("http://"+listen(t, func(nc *net.TCPConn) { f(nc) })))
	})
	t.Run("TLS", func(t *testing.T) {
		ts := quietServer(t, nil)
		ts.StartTLS() // for its certificate
		o := options("https://" + listen(t, func(nc *net.TCPConn) { f(tls.Server(nc, ts.TLS)) }))
		o.Insecure = true
		test(t, o)
	})
	t.Run("own dialer", func(t *testing.T) {
		address := listen(t, func(nc *net.TCPConn) { f(nc) })
		o := options("http://" + address)
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		test(t, o)
	})
}

// A server that refuses a request before it has read it all: its answer counts, at once, whether it then closes the
// connection or keeps it without reading on.
func TestRefusedWhileWriting(t *testing.T) {
	const answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 30\r\n\r\n{\"error\":{\"message\":\"no more\"}}"
	for _, closes := range []bool{true, false} {
		released := make(chan struct{})
		overEach(t, func(nc net.Conn) {
			nc.Read(make([]byte, 1000))
			if io.WriteString(nc, answer); closes {
				time.Sleep(50 * time.Millisecond)
				return
			}
			<-released
		}, func(t *testing.T, o Options) {
			o.IdleTimeout = 20 * time.Second
			c := newClient(t, o)
			row, _ := send(context.Background(), large(t, c), TurnRequest{})
			if row.Status != string(schemas.StatusHTTPError) || row.HTTPStatus == nil || *row.HTTPStatus != 413 || !strings.Contains(message(row), "no more") {
				t.Errorf("%s %s: %s", row.Status, kind(row), message(row))
			}
			if took := *row.DoneNS - *row.SentNS; took > int64(5*time.Second) || row.WroteNS != nil || c.Stats().ConnsIdle != 0 {
				t.Errorf("took %d ns, wrote_ns %v, idle connections %d", took, row.WroteNS, c.Stats().ConnsIdle)
			}
			if !closes {
				released <- struct{}{}
			}
		})
	}
}

// A connection that has carried a large request carries another.
func TestLargeRequests(t *testing.T) {
	overEach(t, func(nc net.Conn) {
		buf := make([]byte, 1<<20)
		for {
			for n := 0; n < 20<<20; {
				k, err := nc.Read(buf)
				if n += k; err != nil {
					return
				}
			}
			nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			io.Copy(io.Discard, nc) // the rest
			nc.SetReadDeadline(time.Time{})
			io.WriteString(nc, response())
		}
	}, func(t *testing.T, o Options) {
		c := newClient(t, o)
		for i := range 3 {
			row, _ := send(context.Background(), large(t, c), TurnRequest{})
			expect(t, row, schemas.StatusOK, "")
			if *row.ConnReused != (i > 0) || row.Attempts != 1 {
				t.Errorf("request %d: reused %t, attempts %d", i, *row.ConnReused, row.Attempts)
			}
		}
	})
}

// A server that never reads cannot hold a turn, either.
func TestServerThatDoesNotRead(t *testing.T) {
	release := make(chan struct{})
	overEach(t, func(nc net.Conn) {
		if s, ok := nc.(*tls.Conn); ok {
			s.Handshake()
		}
		<-release
	}, func(t *testing.T, o Options) {
		defer func() { release <- struct{}{} }()
		o.IdleTimeout = 300 * time.Millisecond
		row, _ := send(context.Background(), large(t, newClient(t, o)), TurnRequest{})
		expect(t, row, schemas.StatusTimeout, KindTimeoutIdle)
		if row.WroteNS != nil || row.SentNS == nil {
			t.Error("wrote_ns is there, or sent_ns is not")
		}
	})
}

// An upload that goes on for longer than a silence may last is no silence.
func TestSlowUpload(t *testing.T) {
	overEach(t, func(nc net.Conn) {
		socket := nc
		if s, ok := nc.(*tls.Conn); ok {
			socket = s.NetConn()
		}
		socket.(*net.TCPConn).SetReadBuffer(64 << 10) // so that the kernel does not take it all at once
		buf := make([]byte, 2<<20)
		for n := 0; n < 20<<20; {
			k, err := io.ReadFull(nc, buf[:min(len(buf), 20<<20-n)])
			if n += k; err != nil {
				return
			}
			time.Sleep(250 * time.Millisecond)
		}
		nc.Read(buf) // the rest
		io.WriteString(nc, response())
		nc.Read(buf)
	}, func(t *testing.T, o Options) {
		t.Parallel()
		o.IdleTimeout = 1800 * time.Millisecond // what the sockets hold is read for less than that
		row, _ := send(context.Background(), large(t, newClient(t, o)), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if *row.DoneNS-*row.SentNS < int64(o.IdleTimeout) {
			t.Fatalf("the upload took %d ns only", *row.DoneNS-*row.SentNS)
		}
	})
}

func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := options("http://" + l.Addr().String())
	l.Close()
	c := newClient(t, o)
	row, _ := turn(t, c, context.Background(), TurnRequest{})
	expect(t, row, schemas.StatusTransportError, KindConnectRefused)
	if row.SentNS != nil || row.ConnReused != nil || row.FirstByteNS != nil {
		t.Fatalf("moments of a request that was never sent: %+v", row)
	}
	if err := c.Preconnect(context.Background(), 3); err == nil || failure(err, reading).Kind != KindConnectRefused {
		t.Fatalf("Preconnect: %v", err)
	}
}

// A kept connection that the server closes while it is idle is noticed before it is used.
func TestClosedWhileIdle(t *testing.T) {
	addr := listen(t, func(nc *net.TCPConn) {
		if _, _, ok := readRequest(nc); ok {
			io.WriteString(nc, response())
			time.Sleep(10 * time.Millisecond)
		}
	})
	c := newClient(t, options("http://"+addr))
	for range 3 {
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if *row.ConnReused || row.StaleReplays != 0 || row.Attempts != 1 {
			t.Fatalf("reused %t, replays %d", *row.ConnReused, row.StaleReplays)
		}
		time.Sleep(40 * time.Millisecond)
	}
}

// On a connection with kernel stamps, every read of a response has one, and the order of moments holds.
func TestKernelStamps(t *testing.T) {
	addr := listen(t, func(nc *net.TCPConn) {
		for {
			if _, _, ok := readRequest(nc); !ok {
				return
			}
			for _, piece := range bytes.SplitAfter([]byte(response()), []byte("\n\n")) {
				nc.Write(piece)
				time.Sleep(2 * time.Millisecond)
			}
		}
	})
	c := newClient(t, options("http://"+addr))
	if !c.KernelStamps() {
		t.Skip("this system gives no kernel stamps")
	}
	for range 5 {
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if row.TimingNote != nil {
			t.Fatalf("timing note %s", *row.TimingNote)
		}
		moments := []*int64{row.StartNS, row.SentNS, row.FirstByteNS, row.FirstEventNS, row.FirstTokenNS, row.LastTokenNS, row.DoneNS}
		for i := 1; i < len(moments); i++ {
			if *moments[i] < *moments[i-1] {
				t.Fatalf("moments out of order at %d: %d after %d", i, *moments[i], *moments[i-1])
			}
		}
		if *row.DoneNS > c.clk.Now() {
			t.Fatal("the end lies in the future")
		}
	}
	if s := c.Stats(); s.UserReads != 0 || s.KernelReads == 0 {
		t.Fatalf("%+v", s)
	}
	o := options("http://" + addr)
	o.UserClock = true
	row, _ := turn(t, newClient(t, o), context.Background(), TurnRequest{})
	if row.TimingNote == nil || *row.TimingNote != "user_clock" {
		t.Fatal("kernel stamps although they were forgone")
	}
}

// The wall clock may be stepped in a run: stamps that cannot be, in the past or in the future, are not believed.
func TestSteppedClock(t *testing.T) {
	c := newClient(t, options("http://127.0.0.1:1"))
	for _, step := range []time.Duration{-time.Hour, -time.Millisecond, 20 * time.Microsecond, 3 * time.Second} {
		x := newExchange(c)
		x.begin()
		x.sent = c.clk.Now()
		x.arrived([]byte("HTTP/1.1 200 OK\r\n"), time.Now().Add(step).UnixNano(), true)
		if x.at < x.sent || x.at > c.clk.Now() || x.kernelReads != 0 || x.reads != 1 {
			t.Errorf("step %v: at %d, sent %d, now %d, kernel reads %d", step, x.at, x.sent, c.clk.Now(), x.kernelReads)
		}
		// What comes after is right again.
		x.arrived([]byte("X: y\r\n"), time.Now().UnixNano(), true)
		if x.at > c.clk.Now() || x.kernelReads != 1 {
			t.Errorf("step %v: the next stamp is at %d of %d, kernel reads %d", step, x.at, c.clk.Now(), x.kernelReads)
		}
	}
}

func TestArrivedAllocatesNothing(t *testing.T) {
	c := newClient(t, options("http://127.0.0.1:1"))
	x := newExchange(c)
	x.stream.DiscardText = true
	x.begin()
	x.sent, x.wrote = 0, 0
	if !x.arrived([]byte(sseHead+"Transfer-Encoding: chunked\r\n\r\n"), time.Now().UnixNano(), true) {
		t.Fatal(x.err)
	}
	event := []byte(chunk(`data: {"id":"r1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"))
	stamp := time.Now().UnixNano()
	if n := testing.AllocsPerRun(5000, func() {
		stamp++ // a nanosecond later and never in the future
		if !x.arrived(event, stamp, true) {
			t.Fatal(x.err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per chunk", n)
	}
}

func chunk(s string) string { return hex(len(s)) + "\r\n" + s + "\r\n" }

func BenchmarkArrived(b *testing.B) {
	c := newClient(b, options("http://127.0.0.1:1"))
	x := newExchange(c)
	x.stream.DiscardText = true
	event := []byte(chunk(`data: {"id":"r1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"))
	head := []byte(sseHead + "Transfer-Encoding: chunked\r\n\r\n")
	stamp := time.Now().UnixNano()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			x.begin()
			x.sent, x.wrote = 0, 0
			x.arrived(head, stamp, true)
		}
		stamp++
		x.arrived(event, stamp, true)
	}
}
