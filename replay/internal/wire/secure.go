package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"parley/replay/internal/api"
	"parley/replay/internal/stampconn"
)

// secure is TLS over a connection. Where the poller has the connection, its goroutine takes the records apart as
// they arrive, so that a stream over TLS costs no goroutine that has to be found and woken, and each token has the
// stamp of the packet that completed its record. crypto/tls pulls what it reads; it goes on where it stood after an
// error that calls itself temporary, so what it reads from ([secure.Read]) has one for "no more yet".
type secure struct {
	net.Conn // the connection below, until the poller has it
	tls      *tls.Conn

	polled *stampconn.Polled
	in     []byte // what has come and tls has not read
	left   bool   // the reading ended by its reader: there may be more records in in, or in tls
	at     int64  // its stamp
	kernel bool
	ended  bool  // no more will come
	over   bool  // the reading ended before it began: what was left of the records before told its end
	broken error // what ended the stream

	moved atomic.Pointer[func()] // of the request that is being written
}

// noMore is the error of a read that would have to wait.
type noMore struct{}

func (noMore) Error() string   { return "no more yet" }
func (noMore) Timeout() bool   { return false }
func (noMore) Temporary() bool { return true }

var errNoMore error = noMore{}

// Read gives tls what has come.
func (s *secure) Read(p []byte) (int, error) {
	switch {
	case s.polled == nil:
		return s.Conn.Read(p)
	case len(s.in) > 0:
		n := copy(p, s.in)
		s.in = s.in[n:]
		return n, nil
	case s.ended:
		return 0, io.EOF
	}
	return 0, errNoMore
}

// Write sends records. Those of tls's own (an answer to a change of keys) come on the poller's goroutine.
func (s *secure) Write(p []byte) (int, error) {
	if s.polled == nil {
		return s.Conn.Write(p)
	}
	var moved func()
	if f := s.moved.Load(); f != nil {
		moved = *f
	}
	n, err := s.polled.WriteBuffers([][]byte{p}, moved)
	return int(n), err
}

// upload says that a request is being written, nil that it no longer is.
func (s *secure) upload(moved func()) {
	if moved == nil {
		s.moved.Store(nil)
		return
	}
	s.moved.Store(&moved)
}

// start has the poller read records.
func (s *secure) start(c *conn) {
	s.polled = c.polled
	if s.left {
		s.left = false
		if s.over = !s.take(c, nil, s.at, s.kernel); s.over {
			return
		}
	}
	c.polled.Start(func(p []byte, unixNS int64, kernel bool) bool { return s.take(c, p, unixNS, kernel) })
}

// quiet tells whether nothing is left of the reading before, and the stream has not ended.
func (s *secure) quiet() bool {
	if s.left {
		s.left = false
		n, err := s.tls.Read(make([]byte, 1))
		return n == 0 && err == errNoMore
	}
	return s.broken == nil
}

// take decrypts what has come.
func (s *secure) take(c *conn, p []byte, unixNS int64, kernel bool) (more bool) {
	if len(s.in) > 0 {
		p = append(s.in, p...)
	}
	s.in, s.at, s.kernel = p, unixNS, kernel
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	for {
		n, err := s.tls.Read(*buf)
		if n > 0 && !c.f((*buf)[:n], unixNS, kernel) {
			s.in, s.left = bytes.Clone(s.in), true // p is the poller's
			return false
		}
		switch {
		case err == nil:
		case err == errNoMore:
			return true
		default:
			s.broken = err
			return false
		}
	}
}

// wait waits for the end of the reading.
func (s *secure) wait(c *conn) error {
	var err error
	if s.over {
		s.over = false
	} else {
		err = c.polled.Wait()
	}
	switch {
	case s.broken != nil:
		return s.broken
	case err == io.EOF: // perhaps in the middle of a record
		s.ended = true
		_, err = s.tls.Read(make([]byte, 1))
	}
	return err
}

// handshake puts TLS over a connection.
func (c *Client) handshake(ctx context.Context, cn *conn) error {
	s := &secure{Conn: cn.sc}
	s.tls = tls.Client(s, c.tlsConfig)
	cn.secure = s
	err := s.tls.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	// The alert's type is not exported for TCP, but its text is the exported one's.
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == noApplicationProtocol.Error() {
		return errOtherProtocol
	}
	return failure(err, handshaking)
}

// noApplicationProtocol is TLS's alert of a server that speaks none of the protocols offered (RFC 7301).
const noApplicationProtocol = tls.AlertError(120)

// errOtherProtocol says that the server does not speak HTTP/1.1 over TLS.
var errOtherProtocol = &api.Failure{Status: "transport_error", Kind: KindTLS, Message: "the server does not speak HTTP/1.1 over TLS"}
