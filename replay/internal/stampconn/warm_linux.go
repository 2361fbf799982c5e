package stampconn

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// stamped sends conn a datagram of its own and tells whether it came back with a stamp.
func stamped(conn *net.UDPConn) (bool, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false, err
	}
	if e := raw.Control(func(fd uintptr) { err = Enable(int(fd)) }); e != nil {
		return false, e
	}
	if err != nil {
		return false, err
	}
	var datagram [1]byte
	if _, err := conn.WriteTo(datagram[:], conn.LocalAddr()); err != nil {
		return false, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		return false, err
	}
	var r Receiver
	var stamp int64
	err = raw.Read(func(fd uintptr) bool {
		_, s, errno := r.Recv(int(fd), datagram[:])
		stamp = s
		return errno != unix.EAGAIN
	})
	return stamp != 0, err
}
