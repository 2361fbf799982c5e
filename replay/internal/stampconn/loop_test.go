package stampconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

func newBuffers(n int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, n); return &b }}
}

// The loop gives each byte once, with buffers of any size, stops when it is told to, goes on where it
// stopped, and ends as Read does.
func TestLoop(t *testing.T) {
	for name, wrap := range map[string]func(c *Conn) *Conn{
		"kernel": func(c *Conn) *Conn { return c },
		"plain":  func(c *Conn) *Conn { return Plain(c.NetConn()) },
	} {
		for _, size := range []int{1, 7, 4096} {
			t.Run(name, func(t *testing.T) {
				client, server := pair(t)
				client = wrap(client)
				buffers := newBuffers(size)
				text := bytes.Repeat([]byte("0123456789"), 300)
				go func() {
					for i := 0; i < len(text); i += 100 {
						server.Write(text[i : i+100])
					}
					server.CloseWrite()
				}()
				var got []byte
				last := int64(0)
				take := func(more bool) func(p []byte, at int64, kernel bool) bool {
					return func(p []byte, at int64, kernel bool) bool {
						got = append(got, p...)
						if at < last {
							t.Errorf("stamp %d after %d", at, last)
						}
						last = at
						clear(p)
						return more
					}
				}
				for range max(1, 5/size) { // fewer reads than there are bytes
					if err := client.Loop(buffers, take(false)); err != nil {
						t.Fatal(err)
					}
				}
				if err := client.Loop(buffers, take(true)); err != io.EOF {
					t.Fatalf("at the end: %v", err)
				}
				if !bytes.Equal(got, text) {
					t.Fatalf("%d bytes, want %d", len(got), len(text))
				}
			})
		}
	}
}

// The last data and the end, or a reset, may come as one event of the poller.
func TestLoopEndsWithItsData(t *testing.T) {
	for range 50 {
		client, server := pair(t)
		server.Write([]byte("last"))
		server.Close()
		time.Sleep(time.Millisecond) // both are there
		got := ""
		if err := client.Loop(newBuffers(100), func(p []byte, _ int64, _ bool) bool { got += string(p); return true }); err != io.EOF || got != "last" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	for range 50 {
		client, server := pair(t)
		done := make(chan error, 1)
		go func() {
			done <- client.Loop(newBuffers(100), func([]byte, int64, bool) bool {
				time.Sleep(2 * time.Millisecond) // the reset comes in between
				return true
			})
		}()
		server.Write([]byte("last"))
		server.NetConn().(*net.TCPConn).SetLinger(0)
		server.Close()
		select {
		case err := <-done:
			if err == nil || !errors.Is(err, syscall.ECONNRESET) && err != io.EOF {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the reset was missed")
		}
	}
}

func TestLoopDeadline(t *testing.T) {
	client, server := pair(t)
	server.Write([]byte("x"))
	client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	n := 0
	err := client.Loop(newBuffers(100), func(p []byte, _ int64, _ bool) bool { n += len(p); return true })
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != 1 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	client.SetReadDeadline(time.Time{})
	server.Write([]byte("y"))
	if err := client.Loop(newBuffers(100), func(p []byte, _ int64, _ bool) bool { return string(p) != "y" }); err != nil {
		t.Fatal(err)
	}
}

func TestAlive(t *testing.T) {
	client, server := pair(t)
	if !client.Alive(true) {
		t.Fatal("a fresh connection is dead")
	}
	server.Write([]byte("unasked"))
	for client.Alive(true) && client.sock != nil {
		time.Sleep(time.Millisecond)
	}
	if !client.Alive(false) {
		t.Fatal("data counts as an end")
	}
	io.ReadFull(client, make([]byte, 7))
	server.Close()
	for client.Alive(false) && client.sock != nil {
		time.Sleep(time.Millisecond)
	}
}

func TestLoopAllocatesNothing(t *testing.T) {
	client, server := pair(t)
	buffers, out := newBuffers(1000), []byte("data: {}\n\n")
	f := func(p []byte, _ int64, _ bool) bool { return false }
	if n := testing.AllocsPerRun(100, func() {
		server.Write(out)
		if err := client.Loop(buffers, f); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per chunk", n)
	}
}
