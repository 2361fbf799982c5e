package stampconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller reads many sockets on one goroutine by an epoll instance of its own. That takes less CPU per chunk
// than a goroutine for each stream, which the runtime has to find, wake and park, and which has to ask each
// socket a second time whether that was all; the figures stand in package wire. A socket is given to it by
// [Poller.Take].
type Poller struct {
	epoll   int
	file    *os.File  // of epoll
	base    time.Time // that deadlines are counted from, by the monotonic clock
	buffers sync.Pool
	done    chan struct{}

	mu     sync.Mutex
	slots  []*Polled
	free   []int32
	gen    int32
	closed bool
}

// NewPoller starts a poller. Close it in the end.
func NewPoller() (*Poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// The runtime's poller waits for the epoll instance itself: an epoll instance is readable while it has
	// events. Blocking in epoll_wait would have the runtime's monitor look after the thread every 20 us.
	if err := unix.SetNonblock(epoll, true); err != nil {
		unix.Close(epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &Poller{epoll: epoll, file: os.NewFile(uintptr(epoll), "epoll"), base: time.Now(), done: make(chan struct{})}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return nil, err
	}
	p.buffers.New = func() any { b := make([]byte, 16<<10); return &b }
	go p.run(raw)
	return p, nil
}

// Close ends the poller. Loops under way on its sockets end with net.ErrClosed.
func (p *Poller) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		return nil
	}
	err := p.file.Close()
	<-p.done
	p.mu.Lock()
	left := append([]*Polled(nil), p.slots...)
	p.mu.Unlock()
	for _, s := range left {
		if s != nil {
			s.mu.Lock()
			s.orphan = true
			if s.f != nil {
				s.end(net.ErrClosed)
			}
			s.mu.Unlock()
		}
	}
	return err
}

// run waits for events until Close.
func (p *Poller) run(raw syscall.RawConn) {
	defer close(p.done)
	events := make([]unix.EpollEvent, 512)
	buf := make([]byte, 64<<10)
	var busy []*Polled // had more to read than one turn allows
	// The error is Close's.
	_ = raw.Read(func(fd uintptr) bool {
		for {
			n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
			if errno != 0 {
				if errno == syscall.EINTR {
					continue
				}
				return true
			}
			for i := range int(n) {
				ev := &events[i]
				p.mu.Lock()
				s := p.slots[ev.Fd]
				p.mu.Unlock()
				if s != nil && s.gen == ev.Pad && s.ready(ev.Events, buf) {
					busy = append(busy, s)
				}
			}
			left := busy[:0]
			for _, s := range busy {
				if s.again(buf) {
					left = append(left, s)
				}
			}
			clear(busy[len(left):])
			busy = left
			switch {
			case len(busy) > 0:
				p.mu.Lock()
				closed := p.closed
				p.mu.Unlock()
				if closed {
					return true
				}
			case int(n) < len(events):
				return false // what comes now is told by an event of its own
			}
		}
	})
}

// Polled is a socket in the care of a [Poller]. One goroutine at a time uses it; SetDeadline may be called
// by any.
type Polled struct {
	p             *Poller
	fd            int
	slot, gen     int32
	local, remote net.Addr
	deadline      atomic.Int64  // nanoseconds since p.base; 0 is none
	kick          chan struct{} // the deadline has been changed
	result        chan error    // how the loop ended
	writable      chan struct{}
	timer         *time.Timer
	waitWrite     atomic.Bool
	busy          bool // it is in the poller's list of those that have more to read; the poller's own

	mu      sync.Mutex
	recv    Receiver
	f       func(p []byte, unixNS int64, kernel bool) bool // of the loop under way
	pending bool                                           // there may be something to read that no event will tell
	closed  bool
	orphan  bool // the poller is closed
}

// Take takes over the socket of c, which must be a TCP connection or a Unix socket; c is closed by it, the
// connection stays. After an error c is as it was.
func (p *Poller) Take(c *Conn) (*Polled, error) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T is no socket", c.Conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	// The runtime's poller lets go of the socket when its descriptor is closed; the copy is ours alone.
	fd := -1
	if e := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	s := &Polled{
		p: p, fd: fd, local: c.LocalAddr(), remote: c.RemoteAddr(), pending: true,
		kick: make(chan struct{}, 1), result: make(chan error, 1), writable: make(chan struct{}, 1),
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		unix.Close(fd)
		return nil, net.ErrClosed
	}
	if n := len(p.free); n > 0 {
		s.slot = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		s.slot = int32(len(p.slots))
		p.slots = append(p.slots, nil)
	}
	p.gen++
	s.gen = p.gen
	p.slots[s.slot] = s
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: s.slot, Pad: s.gen}
	err = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &ev)
	p.mu.Unlock()
	if err != nil {
		p.release(s.slot)
		unix.Close(fd)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	c.Conn.Close()
	return s, nil
}

func (p *Poller) release(slot int32) {
	p.mu.Lock()
	p.slots[slot] = nil
	p.free = append(p.free, slot)
	p.mu.Unlock()
}

// ready takes an event, and says whether there is more to read than one turn allows. It is called by the
// poller's goroutine.
func (s *Polled) ready(ev uint32, buf []byte) (more bool) {
	const ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev&(unix.EPOLLOUT|ended) != 0 && s.waitWrite.CompareAndSwap(true, false) {
		select {
		case s.writable <- struct{}{}:
		default:
		}
	}
	if ev&(unix.EPOLLIN|ended) == 0 || s.closed {
		return false
	}
	if s.f == nil {
		s.pending = true
		return false
	}
	if s.busy {
		return false // its turn comes
	}
	s.busy = s.read(buf, ev&ended != 0)
	return s.busy
}

// again goes on with a socket that had more to read, and says whether it still has.
func (s *Polled) again(buf []byte) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		s.busy = false
	case s.f == nil:
		s.busy, s.pending = false, true
	default:
		s.busy = s.read(buf, true)
	}
	return s.busy
}

// maxReads bounds what one socket may have read in one turn: a server that sends faster than it can be read
// must not hold up the other streams, nor its own deadline.
const maxReads = 16

// read reads what there is, and says whether it left off because that is too much for one turn. A short read
// was all there is unless the event tells of an end, too: what comes later is told by an event of its own.
// The caller holds mu, and there is a loop.
func (s *Polled) read(buf []byte, toEnd bool) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			s.end(&panicked{v, debug.Stack()})
		}
	}()
	for range maxReads {
		n, stamp, errno := s.recv.Recv(s.fd, buf)
		switch {
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.end(s.opError("read", errno))
			return false
		case n == 0:
			s.end(io.EOF)
			return false
		}
		kernel := stamp != 0
		if !kernel {
			stamp = time.Now().UnixNano()
		}
		if !s.f(buf[:n], stamp, kernel) {
			s.end(nil)
			return false
		}
		if n < len(buf) && !toEnd {
			return false
		}
	}
	return true
}

// end ends the loop. The caller holds mu.
func (s *Polled) end(err error) {
	s.f = nil
	s.pending = true // whatever made it end may be asked for again
	s.result <- err  // there is room: a loop ends once
}

// panicked carries a panic of a loop's function to the loop's goroutine.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

func (s *Polled) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: s.local.Network(), Source: s.local, Addr: s.remote, Err: os.NewSyscallError(op, err)}
}

// Start has the poller's goroutine call f with each piece that arrives (valid until f returns) and its stamp, as
// Conn.LastStamp gives it, until f returns false. f should not take long. [Polled.Wait] tells how it ended. What is
// there already is given to f before Start returns.
func (s *Polled) Start(f func(p []byte, unixNS int64, kernel bool) (more bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
	if s.closed || s.orphan {
		s.end(net.ErrClosed)
	}
	if !s.pending || s.f == nil {
		return
	}
	buf := s.p.buffers.Get().(*[]byte)
	for s.pending && s.f != nil && !s.late() {
		s.pending = false
		if s.read(*buf, true) {
			s.pending = true
			s.mu.Unlock() // Close may want it
			s.mu.Lock()
		}
	}
	s.p.buffers.Put(buf)
}

// Wait waits for the end of what Start began: nil when f has returned false, io.EOF at the stream's end,
// os.ErrDeadlineExceeded (wrapped) at the deadline, after which Start may be called again. A panic of f goes on in
// the caller.
func (s *Polled) Wait() error {
	err := s.wait(s.result)
	if err == os.ErrDeadlineExceeded {
		if err = s.stop(); err == nil {
			return s.opError("read", os.ErrDeadlineExceeded)
		}
		if err == errRegular { // it ended at the same time
			err = nil
		}
	}
	if p, ok := err.(*panicked); ok {
		panic(p)
	}
	return err
}

// errRegular stands for the end by f in stop's answer.
var errRegular = errors.New("ended by its function")

// Stop ends what Start began: f is not called any more.
func (s *Polled) Stop() { _ = s.stop() }

// stop ends what Start began: nil if it was under way, else how it had ended.
func (s *Polled) stop() error {
	s.mu.Lock()
	s.f = nil
	s.pending = true
	s.mu.Unlock()
	select {
	case err := <-s.result:
		if err == nil {
			err = errRegular
		}
		return err
	default:
		return nil
	}
}

// Loop is Start and Wait.
func (s *Polled) Loop(f func(p []byte, unixNS int64, kernel bool) (more bool)) error {
	s.Start(f)
	return s.Wait()
}

// late says whether the deadline has passed.
func (s *Polled) late() bool {
	until := s.deadline.Load()
	return until != 0 && time.Duration(until) <= time.Since(s.p.base)
}

// wait waits for an answer, until the deadline: then the error is os.ErrDeadlineExceeded itself.
func (s *Polled) wait(answer <-chan error) error {
	for {
		select {
		case err := <-answer:
			return err
		default:
		}
		var over <-chan time.Time
		if until := s.deadline.Load(); until != 0 {
			left := time.Duration(until) - time.Since(s.p.base)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			if s.timer == nil {
				s.timer = time.NewTimer(left)
			} else {
				s.timer.Reset(left)
			}
			over = s.timer.C
		}
		select {
		case err := <-answer:
			if over != nil {
				s.timer.Stop()
			}
			return err
		case <-s.kick:
		case <-over:
		}
	}
}

// WriteBuffers writes all of bufs, and consumes them. Where that takes more than one write, moved (if not nil) is
// called after each: it may move the deadline. Its error is ErrEnded when what Start began ends first.
func (s *Polled) WriteBuffers(bufs [][]byte, moved func()) (total int64, err error) {
	const most = 1024 // IOV_MAX
	waited := false
	for len(bufs) > 0 {
		n, err := unix.Writev(s.fd, bufs[:min(len(bufs), most)])
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			// Say that somebody waits, and try again: the event may have come before.
			if !waited {
				waited = true
				s.waitWrite.Store(true)
				continue
			}
			if err := s.waitWritable(); err != nil {
				return total, err
			}
			waited = false
			continue
		default:
			return total, s.opError("write", err)
		}
		total += int64(n)
		for len(bufs) > 0 && n >= len(bufs[0]) {
			n -= len(bufs[0])
			bufs[0] = nil
			bufs = bufs[1:]
		}
		if n > 0 {
			bufs[0] = bufs[0][n:]
		}
		if len(bufs) > 0 && moved != nil {
			moved()
		}
	}
	return total, nil
}

// waitWritable waits until the socket may take more, or what Start began has ended.
func (s *Polled) waitWritable() error {
	for {
		var over <-chan time.Time
		if until := s.deadline.Load(); until != 0 {
			left := time.Duration(until) - time.Since(s.p.base)
			if left <= 0 {
				return s.opError("write", os.ErrDeadlineExceeded)
			}
			t := time.NewTimer(left)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-s.writable:
			return nil
		case err := <-s.result:
			s.result <- err // Wait's
			return ErrEnded
		case <-s.kick:
		case <-over:
		case <-s.p.done:
			return net.ErrClosed
		}
	}
}

// SetDeadline sets the time at which Loop and WriteBuffers give up; the zero time is none.
func (s *Polled) SetDeadline(t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = max(int64(t.Sub(s.p.base)), 1)
	}
	s.deadline.Store(ns)
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return nil
}

// Alive tells whether the connection looks usable; see Conn.Alive.
func (s *Polled) Alive(quiet bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.orphan {
		return false
	}
	return !s.pending || peek(s.fd, quiet)
}

// Close closes the connection.
func (s *Polled) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	if s.f != nil {
		s.end(net.ErrClosed)
	}
	err := unix.Close(s.fd) // the only descriptor of the socket: the epoll instance lets go of it
	s.p.release(s.slot)
	return err
}
