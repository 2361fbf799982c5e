// Package stampconn is a net.Conn that knows when its data arrived. On Linux the kernel stamps each
// segment that a TCP socket receives (SO_TIMESTAMPING with RX_SOFTWARE and SOFTWARE, see
// Documentation/networking/timestamping.rst), and [Conn.Read] fetches the stamp with the data by recvmsg:
// however long the reader was held up, it learns the time of arrival. TLS and HTTP sit on top unchanged.
//
// What the kernel does and does not give:
//
//   - The stamp is of CLOCK_REALTIME, taken when the network stack took the packet in.
//   - A read that takes several segments gets the last one's stamp. Segments that wait in the receive
//     queue together are merged by the kernel (tcp_try_coalesce) and then have one stamp, the last one's:
//     a reader that is late by more than the gap between two chunks loses the earlier one's time.
//   - The first socket of a machine that asks for stamps switches them on by deferred work; packets of the
//     first milliseconds have none. A [Warmth] keeps them on.
//   - Unix sockets have no stamps.
//
// Where there is no kernel stamp (other systems, Unix sockets, in-memory connections) the same type gives
// the time after the read, and says that it did.
package stampconn

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// Conn is a connection whose reads are stamped. Make it with [Wrap], [Dial] or a listener of [Listen].
// As with any net.Conn, all methods may be called from several goroutines, but LastStamp belongs to the
// reader: its answer is the stamp of the last Read that returned.
type Conn struct {
	net.Conn
	sock *socket // nil where there are no kernel stamps to be had

	stamp  int64
	kernel bool
}

// Wrap makes a stamped connection of nc. A TCP connection of Linux gets the kernel's stamps from now on
// (data that came before has none); for each other connection the stamps are those of the reader.
func Wrap(nc net.Conn) *Conn {
	return &Conn{Conn: nc, sock: newSocket(nc)}
}

// Plain makes a connection of nc that has no kernel stamps, only those of its reader.
func Plain(nc net.Conn) *Conn { return &Conn{Conn: nc} }

// Dial connects with d and wraps the connection; the socket is told to stamp before it connects, so that
// no segment is missed. d's own Control functions are called too; d itself is not changed.
func Dial(ctx context.Context, d net.Dialer, network, address string) (*Conn, error) {
	control, controlContext := d.Control, d.ControlContext
	d.Control = nil
	d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if controlContext != nil {
			if err := controlContext(ctx, network, address, c); err != nil {
				return err
			}
		} else if control != nil {
			if err := control(network, address, c); err != nil {
				return err
			}
		}
		return Control(network, address, c)
	}
	nc, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Wrap(nc), nil
}

// Listen listens with lc; the accepted connections are of type *Conn. Their sockets inherit the option of
// the listening one, so that the very first segment is stamped.
func Listen(ctx context.Context, lc net.ListenConfig, network, address string) (net.Listener, error) {
	control := lc.Control
	lc.Control = func(network, address string, c syscall.RawConn) error {
		if control != nil {
			if err := control(network, address, c); err != nil {
				return err
			}
		}
		return Control(network, address, c)
	}
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Wrap(nc), nil
}

// Read reads like net.Conn's Read and keeps the stamp of what it read. It allocates nothing.
func (c *Conn) Read(p []byte) (int, error) {
	if c.sock == nil || len(p) == 0 {
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.note(0, false)
		}
		return n, err
	}
	n, stamp, err := c.sock.read(p)
	if n > 0 {
		c.note(stamp, stamp != 0)
	}
	return n, c.opError(err)
}

func (c *Conn) opError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if inner, ok := err.(*net.OpError); ok {
		err = inner.Err // net's own "raw-read"
	}
	return &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Alive tells whether an idle connection looks usable: not closed by the other side and, if quiet, with
// nothing to read. Where it cannot be told the answer is true.
func (c *Conn) Alive(quiet bool) bool { return c.sock == nil || c.sock.alive(quiet) }

func (c *Conn) note(stamp int64, kernel bool) {
	if !kernel {
		stamp = time.Now().UnixNano()
	}
	c.stamp, c.kernel = stamp, kernel
}

// LastStamp gives the time at which the data of the last Read arrived, in nanoseconds since 1970 by
// CLOCK_REALTIME, and whether it is the kernel's; if not, it is the time right after the read.
func (c *Conn) LastStamp() (unixNS int64, kernel bool) { return c.stamp, c.kernel }

// WriteBuffers writes all of bufs, in one writev where the system has it, and consumes them like
// net.Buffers.WriteTo, which cannot see that a wrapped connection is a socket.
func (c *Conn) WriteBuffers(bufs *net.Buffers) (int64, error) { return bufs.WriteTo(c.Conn) }

// NetConn gives the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// ErrEnded is the error of a write that was given up because what [Polled.Start] began had ended: the other side has
// answered, or has gone, before it had been told everything.
var ErrEnded = errors.New("the reading ended before the writing")
