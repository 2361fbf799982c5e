package wire

import (
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"parley/replay/internal/stampconn"
)

// reader takes bytes that arrived, with their stamp (nanoseconds since 1970, and whether it is the kernel's), and tells
// whether more are wanted. It does not keep the bytes.
type reader = func(p []byte, unixNS int64, kernel bool) (more bool)

// conn is one connection to the server. One exchange at a time uses it.
type conn struct {
	buffers *sync.Pool
	sc      *stampconn.Conn   // knows the stamps, where the poller has not got the connection
	polled  *stampconn.Polled // in place of sc
	secure  *secure           // TLS over either; nil for a plain connection
	uses    int               // requests that it has carried
	pooled  bool              // it has lain in the pool
	since   int64             // run time at which it was put there

	f     reader     // of the reading under way
	ahead chan error // without a poller: how the reading beside a long writing ended

	// How long the steps of its making took, in nanoseconds; 0 for one that was not needed.
	dnsNS, connectNS, tlsNS int64

	mu          sync.Mutex
	writing     bool // beside a reading without a poller
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
	c.setDeadline(past)
}

// usable tells whether the connection has not been interrupted.
func (c *conn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.interrupted
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

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
	switch {
	case c.secure != nil && !c.secure.quiet():
		return false
	case c.polled != nil:
		return c.polled.Alive(c.secure == nil)
	}
	return c.sc.Alive(c.secure == nil)
}

// close closes without TLS's farewell, which could block.
func (c *conn) close() {
	if c.polled != nil {
		_ = c.polled.Close()
		return
	}
	_ = c.sc.Close()
	if c.ahead != nil {
		<-c.ahead
		c.ahead = nil
	}
}

// piece is how many bytes are surely taken at once: what is longer may have to wait for the other side to read.
const piece = 16 << 10

// start begins to read: f gets what arrives from now on, on another goroutine while the caller writes a request of
// that length. wait tells how it ended. Without a poller a short request is written first.
func (c *conn) start(f reader, length int) {
	c.f = f
	switch {
	case c.polled != nil && c.secure != nil:
		c.secure.start(c)
	case c.polled != nil:
		c.polled.Start(f)
	case length > piece:
		ahead := make(chan error, 1)
		c.ahead, c.writing = ahead, true
		go func() {
			ahead <- c.read()
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.writing { // in vain
				c.interrupted = true
				c.setDeadline(past)
			}
		}()
	}
}

// wait waits for the end of the reading: see stampconn.Polled.Wait.
func (c *conn) wait() error {
	switch {
	case c.polled != nil && c.secure != nil:
		return c.secure.wait(c)
	case c.polled != nil:
		return c.polled.Wait()
	case c.ahead != nil:
		err := <-c.ahead
		c.ahead = nil
		return err
	}
	return c.read()
}

// loop is start and wait.
func (c *conn) loop(f reader) error {
	c.start(f, 0)
	return c.wait()
}

// stop ends the reading.
func (c *conn) stop() {
	switch {
	case c.polled != nil:
		c.polled.Stop()
	case c.ahead != nil:
		c.interrupt()
		<-c.ahead
		c.ahead = nil
	}
}

// read reads on the caller's goroutine.
func (c *conn) read() error {
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	r := io.Reader(c.sc)
	if c.secure != nil {
		r = c.secure.tls
	}
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			if stamp, kernel := c.sc.LastStamp(); !c.f((*buf)[:n], stamp, kernel) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// write writes all of bufs. moved is called when a part of it has gone out: the time limit of a silence begins anew.
// The error is stampconn.ErrEnded if the reading ended first.
func (c *conn) write(bufs net.Buffers, scratch []byte, moved func()) (total int64, _ []byte, err error) {
	w := io.Writer(c.sc)
	switch {
	case c.secure != nil:
		// One record is better than one for each segment.
		if scratch = scratch[:0]; size(bufs) <= 4*piece {
			for _, b := range bufs {
				scratch = append(scratch, b...)
			}
			bufs = net.Buffers{scratch}
		}
		if w = c.secure.tls; c.polled != nil {
			c.secure.upload(moved)
			defer c.secure.upload(nil)
		}
	case c.polled != nil:
		total, err = c.polled.WriteBuffers(bufs, moved)
		return total, scratch, err
	case c.ahead == nil:
		total, err = c.sc.WriteBuffers(&bufs)
		return total, scratch, err
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.writing = false
	}()
	for _, b := range bufs {
		for len(b) > 0 {
			if total > 0 {
				moved()
			}
			n, err := w.Write(b[:min(len(b), piece)])
			total += int64(n)
			if err != nil {
				if len(c.ahead) > 0 {
					err = stampconn.ErrEnded
				}
				return total, scratch, err
			}
			b = b[n:]
		}
	}
	return total, scratch, nil
}

func size(bufs net.Buffers) (n int) {
	for _, b := range bufs {
		n += len(b)
	}
	return n
}

// dial makes a connection: name look-up, connect, TLS handshake, all within ctx.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	c.ready()
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
	cn := &conn{buffers: &c.buffers, sc: sc, connectNS: connected - began}
	if resolved != 0 {
		cn.dnsNS, cn.connectNS = dnsNS, connected-resolved
	}
	c.opened.Add(1)
	if c.tlsConfig != nil {
		if err := c.handshake(ctx, cn); err != nil {
			cn.close()
			return nil, err
		}
		cn.tlsNS = c.clk.Now() - connected
	}
	if n := len(c.pollers); n > 0 {
		// If it cannot be had, the connection reads by itself.
		cn.polled, _ = c.pollers[uint64(c.opened.Load())%uint64(n)].Take(sc)
	}
	return cn, nil
}

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
