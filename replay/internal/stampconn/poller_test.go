package stampconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func newPoller(t testing.TB) *Poller {
	t.Helper()
	p, err := NewPoller()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no poller on this system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// polledPair gives a connection with its near end in the poller's care.
func polledPair(t testing.TB, p *Poller) (*Polled, *Conn) {
	t.Helper()
	client, server := pair(t)
	s, err := p.Take(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.SetDeadline(time.Now().Add(time.Minute))
	return s, server
}

// Many streams at once, each byte once and in order, then the end, for several exchanges on each connection.
func TestPolledStreams(t *testing.T) {
	p := newPoller(t)
	text := bytes.Repeat([]byte("0123456789"), 100)
	var wg sync.WaitGroup
	for range 50 {
		s, server := polledPair(t, p)
		wg.Go(func() {
			b := make([]byte, 3)
			for {
				if _, err := io.ReadFull(server, b); err != nil {
					return
				}
				if string(b) == "end" {
					server.Write([]byte("last"))
					server.Close()
					return
				}
				for i := 0; i < len(text); i += 10 {
					server.Write(text[i : i+10])
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				if n, err := s.WriteBuffers([][]byte{[]byte("a"), nil, []byte("sk")}, nil); n != 3 || err != nil {
					t.Errorf("WriteBuffers = %d, %v", n, err)
					return
				}
				var got []byte
				last := int64(0)
				if err := s.Loop(func(b []byte, at int64, _ bool) bool {
					got = append(got, b...)
					if at < last {
						t.Errorf("stamp %d after %d", at, last)
					}
					last = at
					return len(got) < len(text)
				}); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%d bytes, %v", len(got), err)
					return
				}
				if !s.Alive(true) {
					t.Error("an idle connection counts as dead")
				}
			}
			s.WriteBuffers([][]byte{[]byte("end")}, nil)
			got := ""
			if err := s.Loop(func(b []byte, _ int64, _ bool) bool { got += string(b); return true }); err != io.EOF || got != "last" {
				t.Errorf("at the end: %q, %v", got, err)
			}
			if s.Alive(true) {
				t.Error("a closed connection counts as alive")
			}
		})
	}
	wg.Wait()
}

// Data, and an end or a reset, that come together or before the loop.
func TestPolledEnds(t *testing.T) {
	p := newPoller(t)
	for i := range 100 {
		s, server := polledPair(t, p)
		server.Write([]byte("last"))
		reset := i%2 == 1
		slow := i%4 >= 2
		finish := func() {
			if reset {
				server.NetConn().(*net.TCPConn).SetLinger(0)
			}
			server.Close()
		}
		if !slow {
			finish()
			time.Sleep(time.Millisecond)
		}
		got := 0
		err := s.Loop(func(b []byte, _ int64, _ bool) bool {
			if got += len(b); slow {
				slow = false
				finish() // while the data is being looked at
			}
			return true
		})
		if reset && err != io.EOF && !errors.Is(err, syscall.ECONNRESET) || !reset && (err != io.EOF || got != 4) {
			t.Fatalf("%d (reset %t): %d bytes, %v", i, reset, got, err)
		}
		if err2 := s.Loop(func([]byte, int64, bool) bool { return true }); err2 == nil {
			t.Fatal("the end does not last")
		}
	}
}

func TestPolledDeadline(t *testing.T) {
	p := newPoller(t)
	s, server := polledPair(t, p)
	none := func([]byte, int64, bool) bool { return true }
	s.SetDeadline(time.Now().Add(20 * time.Millisecond))
	if err := s.Loop(none); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	s.SetDeadline(time.Time{})
	time.AfterFunc(20*time.Millisecond, func() { s.SetDeadline(time.Unix(1, 0)) }) // while it waits
	if err := s.Loop(none); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(time.Minute))
	server.Write([]byte("x"))
	if err := s.Loop(func(b []byte, _ int64, _ bool) bool { return string(b) != "x" }); err != nil {
		t.Fatal(err)
	}
}

// A peer that does not read makes writes wait, until it reads or the deadline comes.
func TestPolledWrite(t *testing.T) {
	p := newPoller(t)
	s, server := polledPair(t, p)
	text := []byte(strings.Repeat("0123456789", 2<<20))
	go func() {
		time.Sleep(50 * time.Millisecond)
		n, _ := io.CopyN(io.Discard, server, int64(len(text)))
		server.Write([]byte{byte(n >> 10)})
	}()
	segments := [][]byte{}
	for i := 0; i < len(text); i += 10000 {
		segments = append(segments, text[i:min(i+10000, len(text))])
	}
	again := slices.Clone(segments)
	moves := 0
	if n, err := s.WriteBuffers(segments, func() { moves++ }); moves == 0 || n != int64(len(text)) || err != nil {
		t.Fatalf("WriteBuffers = %d of %d, %v", n, len(text), err)
	}
	if err := s.Loop(func(b []byte, _ int64, _ bool) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := s.WriteBuffers(again, nil); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
		t.Fatalf("WriteBuffers = %d, %v", n, err)
	}
}

// An answer that ends before the request is written ends the writing.
func TestPolledAnsweredWhileWriting(t *testing.T) {
	p := newPoller(t)
	for _, broken := range []bool{false, true} {
		s, server := polledPair(t, p)
		got := ""
		s.Start(func(b []byte, _ int64, _ bool) bool { got += string(b); return got != "no more" })
		time.AfterFunc(20*time.Millisecond, func() {
			if server.Write([]byte("no more")); broken {
				server.Close()
			}
		})
		n, err := s.WriteBuffers([][]byte{make([]byte, 64<<20)}, nil)
		if n == 64<<20 || err != ErrEnded && (!broken || err == nil) { // or the reset is seen first
			t.Fatalf("WriteBuffers = %d, %v", n, err)
		}
		if err := s.Wait(); err != nil || got != "no more" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// A panic of the function is its caller's, not the poller's.
func TestPolledPanic(t *testing.T) {
	p := newPoller(t)
	s, server := polledPair(t, p)
	other, otherServer := polledPair(t, p)
	func() {
		defer func() {
			if v := recover(); v == nil || !strings.Contains(v.(error).Error(), "oh no") {
				t.Errorf("recovered %v", v)
			}
		}()
		time.AfterFunc(5*time.Millisecond, func() { server.Write([]byte("x")) })
		s.Loop(func([]byte, int64, bool) bool { panic("oh no") })
	}()
	time.AfterFunc(5*time.Millisecond, func() { otherServer.Write([]byte("x")) })
	if err := other.Loop(func([]byte, int64, bool) bool { return false }); err != nil {
		t.Fatal(err)
	}
}

func TestPollerClose(t *testing.T) {
	p := newPoller(t)
	s, _ := polledPair(t, p)
	time.AfterFunc(10*time.Millisecond, func() { p.Close() })
	if err := s.Loop(func([]byte, int64, bool) bool { return true }); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if err := s.Loop(func([]byte, int64, bool) bool { return true }); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if s.Alive(true) {
		t.Fatal("alive without its poller")
	}
	client, _ := pair(t)
	if _, err := p.Take(client); err == nil {
		t.Fatal("a closed poller takes a connection")
	}
	client2, _ := net.Pipe()
	if _, err := newPoller(t).Take(Plain(client2)); err == nil {
		t.Fatal("a pipe is taken for a socket")
	}
}

func TestPolledKernelStamps(t *testing.T) {
	warm(t)
	s, server := polledPair(t, newPoller(t))
	for range 20 {
		before := time.Now().UnixNano()
		server.Write([]byte("x"))
		time.Sleep(time.Millisecond)
		if err := s.Loop(func(_ []byte, at int64, kernel bool) bool {
			if !kernel || at < before || at > time.Now().UnixNano() {
				t.Errorf("stamp %d (kernel %t), written at %d", at, kernel, before)
			}
			return false
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// The poller's side of a chunk allocates nothing.
func TestPolledReadAllocatesNothing(t *testing.T) {
	s, server := polledPair(t, newPoller(t))
	out := []byte("data: {}\n\n")
	read := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- s.Loop(func(b []byte, _ int64, _ bool) bool { read <- struct{}{}; return b[0] == 'd' })
	}()
	if n := testing.AllocsPerRun(200, func() {
		server.Write(out)
		<-read
	}); n != 0 {
		t.Errorf("%v allocations per chunk", n)
	}
	server.Write([]byte("end"))
	<-read
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
