package simserver

import (
	"context"
	"net"
	"sync"
)

// MemoryListener is a listener without sockets: connections are pairs of [net.Pipe], whose deadlines
// follow the virtual time of testing/synctest.
type MemoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen gives a listener in memory.
func Listen() *MemoryListener {
	return &MemoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to the listener; it has the form of http.Transport.DialContext.
func (l *MemoryListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: ctx.Err()}
	}
}

// Accept implements net.Listener.
func (l *MemoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "memory", Err: net.ErrClosed}
	}
}

// Close implements net.Listener.
func (l *MemoryListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *MemoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }
