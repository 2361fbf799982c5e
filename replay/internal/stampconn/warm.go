package stampconn

import (
	"errors"
	"net"
	"time"
)

// Warmth keeps the machine's receive stamps switched on; see [Warm].
type Warmth struct {
	conn   *net.UDPConn
	kernel bool
}

// Warm switches the kernel's receive stamps on and keeps them on until Close: the kernel does so by
// deferred work after the first socket has asked, and packets until then have none. It sends itself a few
// datagrams over loopback to see that stamps come, for 100 ms at most.
func Warm() (*Warmth, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		// A machine without IPv4 loopback.
		var err6 error
		if conn, err6 = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback}); err6 != nil {
			return nil, errors.Join(err, err6)
		}
	}
	w := &Warmth{conn: conn}
	for start := time.Now(); !w.kernel && time.Since(start) < 100*time.Millisecond; {
		if w.kernel, err = stamped(conn); err != nil {
			break // no stamps here
		}
		if !w.kernel {
			time.Sleep(time.Millisecond)
		}
	}
	return w, nil
}

// Kernel tells whether the kernel's stamps were seen to come.
func (w *Warmth) Kernel() bool { return w != nil && w.kernel }

// Close lets go of the stamps.
func (w *Warmth) Close() error {
	if w == nil {
		return nil
	}
	return w.conn.Close()
}
