package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/stampconn"
)

// conn is one connection to the server. One exchange at a time uses it.
type conn struct {
	sc     *stampconn.Conn   // knows the stamps
	tls    *tls.Conn         // over sc; nil for a plain connection
	polled *stampconn.Polled // in place of sc, where the poller has it
	uses   int               // requests that it has carried
	pooled bool              // it has lain in the pool
	since  int64             // run time at which it was put there

	// How long the steps of its making took, in nanoseconds; 0 for one that was not needed.
	dnsNS, connectNS, tlsNS int64

	mu          sync.Mutex
	interrupted bool
}

// arm sets the time, on the run's clock, at which reads and writes are to give up, unless the connection has been interrupted.
func (c *conn) arm(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.interrupted {
		c.setDeadline(t)
	}
}

// interrupt makes the read or write under way, and all later ones, give up at once.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	c.setDeadline(time.Unix(1, 0))
}

// setDeadline fails only on a closed connection, whose reads and writes fail anyway.
func (c *conn) setDeadline(t time.Time) {
	if c.polled != nil {
		_ = c.polled.SetDeadline(t)
		return
	}
	_ = c.sc.SetDeadline(t)
}

// alive tells whether an idle connection looks usable. Over TLS there may be a session ticket to read.
func (c *conn) alive() bool {
	if c.polled != nil {
		return c.polled.Alive(true)
	}
	return c.sc.Alive(c.tls == nil)
}

// close closes without TLS's farewell, which could block.
func (c *conn) close() {
	if c.polled != nil {
		_ = c.polled.Close()
		return
	}
	_ = c.sc.Close()
}

// write writes all of bufs.
func (c *conn) write(bufs net.Buffers, scratch []byte) (int64, []byte, error) {
	if c.polled != nil {
		n, err := c.polled.WriteBuffers(bufs)
		return n, scratch, err
	}
	if c.tls == nil {
		n, err := c.sc.WriteBuffers(&bufs)
		return n, scratch, err
	}
	// One record is better than one for each segment.
	scratch = scratch[:0]
	for _, b := range bufs {
		scratch = append(scratch, b...)
	}
	n, err := c.tls.Write(scratch)
	return int64(n), scratch, err
}

// loop reads until f returns false; see stampconn.Conn.Loop.
func (c *conn) loop(buffers *sync.Pool, f func(p []byte, unixNS int64, kernel bool) bool) error {
	if c.polled != nil {
		return c.polled.Loop(f)
	}
	if c.tls == nil {
		return c.sc.Loop(buffers, f)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := c.tls.Read(*buf)
		if n > 0 {
			stamp, kernel := c.sc.LastStamp()
			if !f((*buf)[:n], stamp, kernel) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// dial makes a connection: name look-up, connect, TLS handshake, all within ctx.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	began := c.clk.Now()
	var dnsNS, resolved int64
	var nc net.Conn
	var sc *stampconn.Conn
	var err error
	switch {
	case c.o.Dial != nil:
		if nc, err = c.o.Dial(ctx, c.target.network, c.target.address); err == nil {
			sc = stampconn.Plain(nc)
		}
	default:
		var mu sync.Mutex // the look-up runs on goroutines of its own, which may outlast a canceled dial
		var dnsStart, dnsEnd int64
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			DNSStart: func(httptrace.DNSStartInfo) { mu.Lock(); dnsStart = c.clk.Now(); mu.Unlock() },
			DNSDone:  func(httptrace.DNSDoneInfo) { mu.Lock(); dnsEnd = c.clk.Now(); mu.Unlock() },
		})
		d := net.Dialer{KeepAlive: 30 * time.Second}
		if c.o.UserClock {
			if nc, err = d.DialContext(traced, c.target.network, c.target.address); err == nil {
				sc = stampconn.Plain(nc)
			}
		} else {
			sc, err = stampconn.Dial(traced, d, c.target.network, c.target.address)
		}
		mu.Lock()
		dnsNS, resolved = dnsEnd-dnsStart, dnsEnd
		mu.Unlock()
	}
	if err != nil {
		return nil, failure(err, dialing)
	}
	connected := c.clk.Now()
	cn := &conn{sc: sc, connectNS: connected - began}
	if resolved != 0 {
		cn.dnsNS, cn.connectNS = dnsNS, connected-resolved
	}
	c.opened.Add(1)
	if c.tlsConfig == nil {
		if n := len(c.pollers); n > 0 && c.o.Dial == nil {
			// If it cannot be had, the connection reads by itself.
			cn.polled, _ = c.pollers[uint64(c.opened.Load())%uint64(n)].Take(sc)
		}
		return cn, nil
	}
	cn.tls = tls.Client(sc, c.tlsConfig)
	if err := cn.tls.HandshakeContext(ctx); err != nil {
		cn.close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		// The alert's type is not exported for TCP, but its text is the exported one's.
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == noApplicationProtocol.Error() {
			return nil, errOtherProtocol
		}
		return nil, failure(err, handshaking)
	}
	cn.tlsNS = c.clk.Now() - connected
	return cn, nil
}

// noApplicationProtocol is TLS's alert of a server that speaks none of the protocols offered (RFC 7301).
const noApplicationProtocol = tls.AlertError(120)

// errOtherProtocol says that the server does not speak HTTP/1.1 over TLS.
var errOtherProtocol = &api.Failure{Status: "transport_error", Kind: KindTLS, Message: "the server does not speak HTTP/1.1 over TLS"}

// pool holds idle connections; the one that was used last is used first, so that a smaller load lets the
// others grow old.
type pool struct {
	mu     sync.Mutex
	idle   []*conn // oldest first
	closed bool
}

// unusedIdle is how long a connection that was made beforehand and has carried nothing is kept: servers
// count their keep-alive time from the first response on.
const unusedIdle = int64(time.Minute)

// get gives an idle connection that looks usable, nil if there is none.
func (p *pool) get(now int64, keep time.Duration) *conn {
	for {
		p.mu.Lock()
		stale := p.expired(now, keep)
		var c *conn
		if n := len(p.idle); n > 0 {
			c = p.idle[n-1]
			p.idle[n-1] = nil
			p.idle = p.idle[:n-1]
		}
		p.mu.Unlock()
		for _, s := range stale {
			s.close()
		}
		if c == nil {
			return nil
		}
		if (c.uses == 0 || now-c.since < int64(keep)) && c.alive() {
			return c
		}
		c.close()
	}
}

// expired takes out the connections that are too old, which lie at the front. The caller holds mu.
func (p *pool) expired(now int64, keep time.Duration) []*conn {
	n := 0
	for n < len(p.idle) && (p.idle[n].uses > 0 && now-p.idle[n].since >= int64(keep) || now-p.idle[n].since >= unusedIdle) {
		n++
	}
	if n == 0 {
		return nil
	}
	stale := append([]*conn(nil), p.idle[:n]...)
	k := copy(p.idle, p.idle[n:])
	clear(p.idle[k:])
	p.idle = p.idle[:k]
	return stale
}

// put keeps a connection for later.
func (p *pool) put(c *conn, now int64) {
	c.arm(time.Time{})
	c.pooled, c.since = true, now
	p.mu.Lock()
	if !p.closed {
		p.idle = append(p.idle, c)
		c = nil
	}
	p.mu.Unlock()
	if c != nil {
		c.close()
	}
}

func (p *pool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// close closes the idle connections, and those that will be put back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}
