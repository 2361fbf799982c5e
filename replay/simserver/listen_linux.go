package simserver

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// writeNow is for net.ListenConfig.Control: it chooses Reno congestion control for the connections. Under
// BBR, which some machines have as their default, the kernel paces what it sends, and the moment of a
// write would not be the moment at which the bytes leave. A kernel that refuses is as it was.
func writeNow(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
