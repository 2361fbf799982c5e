//go:build !linux

package stampconn

import (
	"net"
	"syscall"
)

// Control has the form of net.Dialer.Control; there are no kernel stamps to ask for on this system.
func Control(network, address string, c syscall.RawConn) error { return nil }

// socket is for kernel stamps; this system has none.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) read([]byte) (int, int64, error) { return 0, 0, syscall.EOPNOTSUPP }

func (*socket) alive(bool) bool { return true }
