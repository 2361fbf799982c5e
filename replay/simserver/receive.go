package simserver

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"parley/replay/internal/stampconn"
)

// rxTime gives the moment at which the data of the last read arrived: the kernel's, where the listener
// was made by stampconn.
func rxTime(c net.Conn) time.Time {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if sc, ok := c.(*stampconn.Conn); ok {
		ns, _ := sc.LastStamp()
		return time.Unix(0, ns)
	}
	return time.Now()
}

// isExhausted says whether accept failed for a reason that passes.
func isExhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// setLinger makes close send an RST where the connection is a TCP one.
func setLinger(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if sc, ok := c.(*stampconn.Conn); ok {
		c = sc.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}
