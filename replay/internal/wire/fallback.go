package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fallback is net/http's client, for HTTP/2 and for proxies. Its responses go the same way as the lean
// client's, with the stamps of the reader, which stand behind net/http's own goroutines: rows say so in
// timing_note.
type fallback struct {
	c         *Client
	transport *http.Transport
	proxied   bool
	scheme    string
}

func newFallback(c *Client) (*fallback, error) {
	o := &c.o
	f := &fallback{c: c, scheme: "http"}
	tlsConfig, err := o.tlsConfig(c.target.name)
	if err != nil {
		return nil, err
	}
	f.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if c.o.Dial != nil {
				return c.o.Dial(ctx, c.target.network, c.target.address)
			}
			if c.target.network == "unix" {
				network, address = "unix", c.target.address
			}
			d := net.Dialer{Timeout: c.connect}
			return d.DialContext(ctx, network, address)
		},
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    c.connect,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    1 << 20,
		IdleConnTimeout:        c.keepIdle,
		MaxResponseHeaderBytes: orDefault(o.MaxHeader, DefaultMaxHeader),
		Protocols:              new(http.Protocols),
	}
	if c.keepIdle == 0 {
		f.transport.DisableKeepAlives = true
	}
	if c.target.tls {
		f.scheme = "https"
		f.transport.Protocols.SetHTTP2(true)
		f.transport.Protocols.SetHTTP1(true)
	} else {
		f.transport.Protocols.SetUnencryptedHTTP2(o.HTTP2)
		f.transport.Protocols.SetHTTP1(!o.HTTP2)
	}
	switch {
	case o.Proxy == "environment" && c.target.network == "tcp" && o.Dial == nil:
		f.transport.Proxy = http.ProxyFromEnvironment
		u, err := http.ProxyFromEnvironment(&http.Request{URL: f.url("/")})
		if err != nil {
			return nil, errors.New("the environment's proxy (HTTP_PROXY, HTTPS_PROXY) is no URL like http://host:port")
		}
		if f.proxied = u != nil; f.proxied {
			password, _ := u.User.Password()
			c.makeCommon(c.common.Load().key, []string{password, url.PathEscape(password)})
		}
	case o.Proxy != "" && o.Proxy != "environment":
		u, err := url.Parse(o.Proxy)
		if err != nil {
			return nil, errors.New("the proxy is no URL like http://host:port")
		}
		f.transport.Proxy = http.ProxyURL(u)
		f.proxied = true
	}
	return f, nil
}

func (f *fallback) close() { f.transport.CloseIdleConnections() }

// url gives the URL of a path on the server.
func (f *fallback) url(path string) *url.URL {
	host := f.c.target.host
	u, err := url.Parse(f.scheme + "://" + host + path)
	if err != nil {
		return &url.URL{Scheme: f.scheme, Host: host, Path: path}
	}
	return u
}

// segments is a request's body for net/http.
type segments struct {
	left [][]byte
	pos  int
	done func()
}

func (s *segments) Read(p []byte) (int, error) {
	for len(s.left) > 0 && s.pos == len(s.left[0]) {
		s.left, s.pos = s.left[1:], 0
	}
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.left[0][s.pos:])
	s.pos += n
	return n, nil
}

func (s *segments) Close() error {
	s.done()
	return nil
}

// attempt is the exchange's attempt by net/http. net/http itself sends a request again that the server
// certainly has not seen (not a byte of it was written, or HTTP/2's server refused the stream): these are
// counted as replays. It is not told that the request may be sent twice, so what else breaks is judged here.
func (f *fallback) attempt(ctx context.Context, x *exchange, t *TurnRequest, body [][]byte, lim limits) (stale bool, err error) {
	if err = f.send(ctx, x, t, body, lim); err == nil || !x.reused || x.first != unset || ctx.Err() != nil || !x.stale(err) {
		return false, err
	}
	f.transport.CloseIdleConnections()
	return true, err
}

func (f *fallback) send(ctx context.Context, x *exchange, t *TurnRequest, body [][]byte, lim limits) error {
	c := f.c
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total := time.AfterFunc(time.Duration(lim.total-c.clk.Now()), func() { cancel(x.overdue()) })
	defer total.Stop()
	length := int64(size(body))
	// net/http may still read the body when it has returned an error: the history's bytes must stay until it
	// has closed the body.
	var bodies sync.WaitGroup
	newBody := func() (io.ReadCloser, error) {
		bodies.Add(1)
		var once sync.Once
		return &segments{left: body, done: func() { once.Do(bodies.Done) }}, nil
	}
	defer bodies.Wait()
	first, _ := newBody()
	r := (&http.Request{
		Method: http.MethodPost, URL: f.url(c.path), Body: first, GetBody: newBody, ContentLength: length,
		Header: http.Header{},
	})
	x.eachHeader(t, func(name, value string) {
		if http.CanonicalHeaderKey(name) == "Host" {
			r.Host = value
			return
		}
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
	})

	var mu sync.Mutex // the trace's calls come from net/http's goroutines
	var m struct {
		dns, dnsDone, connect, connectDone, tls, tlsDone, sent, wrote, first int64
		reused, connected                                                    bool
		sendings                                                             []int64
	}
	note := func(at *int64) { mu.Lock(); *at = c.clk.Now(); mu.Unlock() }
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { note(&m.dns) },
		DNSDone:           func(httptrace.DNSDoneInfo) { note(&m.dnsDone) },
		ConnectStart:      func(string, string) { note(&m.connect) },
		ConnectDone:       func(string, string, error) { note(&m.connectDone) },
		TLSHandshakeStart: func() { note(&m.tls) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { note(&m.tlsDone) },
		GotConn: func(i httptrace.GotConnInfo) {
			mu.Lock()
			m.sent = c.clk.Now()
			m.sendings = append(m.sendings, m.sent)
			m.reused, m.connected = i.Reused, true
			mu.Unlock()
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { note(&m.wrote) },
		GotFirstResponseByte: func() { note(&m.first) },
	}))
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		moment := func(to *int64, from int64) {
			if from != 0 {
				*to = from
			}
		}
		moment(&x.sent, m.sent)
		moment(&x.wrote, m.wrote)
		moment(&x.first, m.first)
		x.reused, x.connected = m.reused, m.connected
		if len(m.sendings) > 1 {
			x.replays = m.sendings[1:]
		}
		if !m.reused {
			x.dnsNS, x.connNS, x.tlsNS = max(m.dnsDone-m.dns, 0), max(m.connectDone-m.connect, 0), max(m.tlsDone-m.tls, 0)
		}
		if m.wrote != 0 {
			x.bytesOut = length
		}
	}
	defer take()

	// The silence's limit: a timer that is looked at when it fires and not moved with every chunk.
	watch := newWatchdog(c, lim.idle, func() {
		cancel(fail(KindTimeoutIdle, "nothing came for "+c.idle.String()))
	})
	defer watch.stop()

	resp, err := f.transport.RoundTrip(r)
	take()
	x.note = "proxy"
	if !f.proxied {
		x.note = "http2"
	}
	if err != nil {
		return f.failure(ctx, err, x)
	}
	defer resp.Body.Close()
	if !f.proxied && resp.ProtoMajor < 2 {
		x.note = "net_http"
	}
	watch.touch(c.clk.Now())
	x.p.maxBody = orDefault(c.o.MaxBody, DefaultMaxBody)
	x.at = max(c.clk.Now(), x.sent)
	x.stream.Head(resp.StatusCode, resp.Header.Get)
	if x.s != nil {
		x.s.takeHeaders(func(name string, g func(string)) {
			for _, v := range resp.Header.Values(name) {
				g(v)
			}
		})
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" {
		if err := x.decode(encoding); err != nil {
			return err
		}
	}
	return f.read(ctx, resp.Body, x, watch)
}

// read reads the response's body.
func (f *fallback) read(ctx context.Context, body io.Reader, x *exchange, watch *watchdog) error {
	c := f.c
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	for {
		n, err := body.Read(*buf)
		if n > 0 {
			x.at = c.clk.Now()
			watch.touch(x.at)
			x.reads++
			x.bytesIn += int64(n)
			if e := x.p.body((*buf)[:n], x); e != nil {
				return e
			}
			if x.contentOver {
				f.drain(body, *buf)
				return nil
			}
		}
		switch {
		case err == io.EOF && x.dec != nil:
			return x.dec.finish()
		case err == io.EOF:
			return nil
		case err != nil:
			return f.failure(ctx, err, x)
		}
	}
}

// drain reads the end of the response, which usually is there already, so that net/http keeps the
// connection; after a moment it gives up.
func (f *fallback) drain(body io.Reader, buf []byte) {
	closer, ok := body.(io.Closer)
	if !ok {
		return
	}
	timer := time.AfterFunc(drainTime, func() { closer.Close() })
	defer timer.Stop()
	for total := 0; total < drainMost; {
		n, err := body.Read(buf)
		if total += n; err != nil {
			return
		}
	}
}

// failure makes a failure of net/http's error.
func (f *fallback) failure(ctx context.Context, err error, x *exchange) error {
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && cause != errLeft {
			return failure(cause, reading)
		}
		return fail(KindCanceled, "canceled while the request was under way")
	}
	var op *net.OpError
	during := reading
	if errors.As(err, &op) {
		switch op.Op {
		case "dial":
			during = dialing
		case "proxyconnect", "socks connect":
			return fail(KindProxy, "the proxy could not be used: "+op.Err.Error())
		case "write":
			during = writing
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		during = dialing
	}
	if x.first == unset && x.reused && closedIdle(err) {
		return fail(KindEOF, "the server closed the connection without a response")
	}
	if x.first == unset || during != reading {
		return failure(err, during)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(KindCutBody, "the connection was closed in the middle of the response's body")
	}
	return failure(err, reading)
}

// closedIdle tells whether net/http found a connection that it kept closed. Most of these errors have no type that can
// be had.
func closedIdle(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	for _, text := range []string{"server closed idle connection", "GOAWAY", "client conn not usable", "client connection lost"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// watchdog calls a function when it has not been touched for a time. Touching it is cheap: the timer is not moved but
// looked at when it fires.
type watchdog struct {
	last  atomic.Int64
	timer *time.Timer
}

func newWatchdog(c *Client, idle int64, bark func()) *watchdog {
	w := &watchdog{}
	w.last.Store(c.clk.Now())
	made, due := make(chan struct{}), w.last.Load()+idle
	w.timer = time.AfterFunc(time.Duration(idle), func() {
		<-made
		now := c.clk.Now()
		if now-due >= suspendedAfter { // the silence is the client's
			w.last.Store(now)
		}
		left := w.last.Load() + idle - now
		if left <= 0 {
			bark()
			return
		}
		due = now + left
		w.timer.Reset(time.Duration(left))
	})
	close(made)
	return w
}

func (w *watchdog) touch(at int64) { w.last.Store(at) }

// stop may come while the function is about to be called.
func (w *watchdog) stop() { w.timer.Stop() }
