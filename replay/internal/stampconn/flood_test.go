package stampconn

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// flood has a server send as fast as it can until the returned function is called.
func flood(server net.Conn) (stop func()) {
	block := make([]byte, 1<<20)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, err := server.Write(block); err != nil {
				return
			}
		}
	})
	return func() {
		server.Close()
		wg.Wait()
	}
}

// TestFlood: streams that come faster than they can be read hold up neither the other streams of their
// poller, nor their own deadline, nor the poller's end.
func TestFlood(t *testing.T) {
	p := newPoller(t)
	var floods sync.WaitGroup
	ended := make(chan error, 3)
	for range 3 {
		s, server := polledPair(t, p)
		stop := flood(server)
		defer stop()
		s.SetDeadline(time.Now().Add(2 * time.Second))
		floods.Go(func() {
			first := true
			ended <- s.Loop(func(b []byte, _ int64, _ bool) bool {
				if first {
					// So that more is there than can be read at once, whoever runs when.
					first = false
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(100 * time.Microsecond) // slower than the server
				return true
			})
		})
	}
	quiet, server := polledPair(t, p)
	for i := range 20 {
		if _, err := server.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := quiet.Loop(func(b []byte, _ int64, _ bool) bool { n += len(b); return n < 4 }); err != nil {
			t.Fatalf("message %d beside the floods: %v", i, err)
		}
	}
	floods.Wait()
	for range 3 {
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a flood's loop ended with %v, want its deadline", err)
		}
	}
	// The poller can be closed while a flood goes on.
	s, far := polledPair(t, p)
	stop := flood(far)
	defer stop()
	begun := make(chan struct{})
	var once sync.Once
	over := make(chan error, 1)
	go func() {
		over <- s.Loop(func([]byte, int64, bool) bool { once.Do(func() { close(begun) }); return true })
	}()
	<-begun
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err == nil {
		t.Error("the loop ended without an error")
	}
}
