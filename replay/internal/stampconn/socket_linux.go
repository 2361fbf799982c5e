package stampconn

import (
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Control asks the kernel to stamp what a TCP socket receives; it has the form of net.Dialer.Control and
// net.ListenConfig.Control. It never fails: a kernel that refuses leaves the connection with the stamps of
// its reader.
func Control(network, _ string, c syscall.RawConn) error {
	switch network {
	case "tcp", "tcp4", "tcp6":
		_ = c.Control(func(fd uintptr) { _ = Enable(int(fd)) })
	}
	return nil
}

// Enable asks the kernel to stamp what the socket fd receives.
func Enable(fd int) error {
	// The _NEW option has 64-bit times on every architecture (Linux 5.1).
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW,
		unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
}

// Receiver calls recvmsg and finds the stamp. It is not for two goroutines at once; it holds the kernel's
// structures so that a call allocates nothing.
type Receiver struct {
	msg unix.Msghdr
	iov unix.Iovec
	oob [128]byte // struct scm_timestamping64 with its header takes 64
}

// Recv reads from the non-blocking socket fd what is there, up to len(p) > 0 bytes, and gives the kernel's
// stamp of the last segment among it (nanoseconds since 1970), or 0 if there is none. errno is EAGAIN when
// there is nothing; n == 0 with errno == 0 is the end of the stream.
func (r *Receiver) Recv(fd int, p []byte) (n int, stamp int64, errno syscall.Errno) {
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
	r.msg.Control = &r.oob[0]
	for {
		r.msg.SetControllen(len(r.oob))
		// A non-blocking call of about a microsecond: RawSyscall spares telling the scheduler.
		got, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		if e == syscall.EINTR {
			continue
		}
		r.iov.Base = nil
		if e != 0 {
			return 0, 0, e
		}
		return int(got), r.stamp(), 0
	}
}

// stamp looks for the time stamp among the control messages of the last recvmsg.
func (r *Receiver) stamp() int64 {
	oob := r.oob[:min(int(r.msg.Controllen), len(r.oob))]
	for len(oob) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(oob) {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING_NEW && size >= unix.CmsgLen(16) {
			// Three pairs of 64-bit seconds and nanoseconds; the first is the software stamp.
			t := oob[unix.CmsgLen(0):]
			sec, nsec := binary.NativeEndian.Uint64(t), binary.NativeEndian.Uint64(t[8:])
			if sec == 0 {
				return 0
			}
			return int64(sec)*1e9 + int64(nsec)
		}
		oob = oob[min(unix.CmsgSpace(size-unix.SizeofCmsghdr), len(oob)):]
	}
	return 0
}

// socket reads a TCP connection of package net by recvmsg, waiting in the runtime's poller.
type socket struct {
	raw  syscall.RawConn
	recv Receiver

	try func(fd uintptr) bool // called once per readiness; made once, so that a read allocates nothing

	// The arguments and results of the read under way.
	p     []byte
	n     int
	stamp int64
	err   error
}

func newSocket(nc net.Conn) *socket {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	enabled := false
	if raw.Control(func(fd uintptr) { enabled = Enable(int(fd)) == nil }) != nil || !enabled {
		return nil
	}
	s := &socket{raw: raw}
	s.try = func(fd uintptr) bool {
		n, stamp, errno := s.recv.Recv(int(fd), s.p)
		switch {
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.err = errno
		case n == 0:
			s.err = io.EOF
		}
		s.n, s.stamp = n, stamp
		return true
	}
	return s
}

// alive peeks at the socket.
func (s *socket) alive(quiet bool) (alive bool) {
	err := s.raw.Control(func(fd uintptr) { alive = peek(int(fd), quiet) })
	return err == nil && alive
}

// peek tells whether a socket is open and, if quiet, has nothing to read.
func peek(fd int, quiet bool) bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil {
		return err == unix.EAGAIN
	}
	return n > 0 && !quiet
}

func (s *socket) read(p []byte) (int, int64, error) {
	s.p, s.n, s.stamp, s.err = p, 0, 0, nil
	err := s.raw.Read(s.try)
	s.p = nil
	if err != nil {
		return 0, 0, err
	}
	return s.n, s.stamp, s.err
}
