package stampconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// warm skips where there are no kernel stamps.
func warm(t testing.TB) {
	t.Helper()
	w, err := Warm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if !w.Kernel() {
		if runtime.GOOS == "linux" && os.Getenv("CI") != "" {
			t.Fatal("no kernel stamps on Linux")
		}
		t.Skip("this system gives no kernel stamps")
	}
}

// pair gives both ends of a connection over loopback.
func pair(t testing.TB) (client, server *Conn) {
	t.Helper()
	l, err := Listen(context.Background(), net.ListenConfig{}, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = Dial(context.Background(), net.Dialer{Timeout: 5 * time.Second}, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = accepted.(*Conn)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func median(x []time.Duration) time.Duration {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}

// A client that is busy reads late: 30 ms after each chunk came here. What it believes about the arrival must
// not move. The judgement is by medians, so that a writer that is preempted between its stamp and its
// write a few times does not matter.
func TestBusyReader(t *testing.T) {
	warm(t)
	for _, test := range []struct {
		name  string
		layer func(t *testing.T, client, server *Conn) (net.Conn, net.Conn)
	}{
		{"plain", func(_ *testing.T, client, server *Conn) (net.Conn, net.Conn) { return client, server }},
		{"tls", func(t *testing.T, client, server *Conn) (net.Conn, net.Conn) {
			ts := httptest.NewUnstartedServer(nil)
			ts.StartTLS() // for its certificate
			defer ts.Close()
			pool := ts.Client().Transport.(interface{ CloseIdleConnections() })
			pool.CloseIdleConnections()
			return tls.Client(client, &tls.Config{InsecureSkipVerify: true}), tls.Server(server, ts.TLS)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, server := pair(t)
			reader, writer := test.layer(t, client, server)
			const chunks, gap, busy = 30, 2 * time.Millisecond, 30 * time.Millisecond
			written := make(chan time.Time, chunks)
			read := make(chan struct{}, 1) // a chunk is written only when the one before has been read
			failed := make(chan error, 1)
			go func() {
				defer close(written)
				if hs, ok := writer.(*tls.Conn); ok {
					if err := hs.Handshake(); err != nil {
						failed <- err
						return
					}
				}
				for range chunks {
					time.Sleep(gap)
					at := time.Now()
					if _, err := writer.Write([]byte("data: {}\n\n")); err != nil {
						failed <- err
						return
					}
					written <- at
					<-read
				}
			}()
			client.SetDeadline(time.Now().Add(time.Minute))
			server.SetDeadline(time.Now().Add(time.Minute))
			defer close(read)
			if hs, ok := reader.(*tls.Conn); ok {
				if err := hs.Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			var kernelErr, userErr []time.Duration
			buf := make([]byte, 4096)
			for at := range written {
				time.Sleep(busy) // the busy client
				if n, err := reader.Read(buf); err != nil || n == 0 {
					t.Fatalf("Read = %d, %v", n, err)
				}
				user := time.Now()
				stamp, kernel := client.LastStamp()
				if !kernel {
					t.Fatal("a read without a kernel stamp")
				}
				kernelErr = append(kernelErr, time.Unix(0, stamp).Sub(at))
				userErr = append(userErr, user.Sub(at))
				read <- struct{}{}
			}
			select {
			case err := <-failed:
				t.Fatal(err)
			default:
			}
			if len(kernelErr) != chunks {
				t.Fatalf("%d chunks of %d", len(kernelErr), chunks)
			}
			t.Logf("median error: kernel stamps %v, user-space stamps %v", median(kernelErr), median(userErr))
			if m := median(kernelErr); m < -500*time.Microsecond || m > 500*time.Microsecond {
				t.Errorf("kernel stamps are off by %v in the median, more than 0.5 ms", m)
			}
			if m := median(userErr); m < busy {
				t.Errorf("the reader was not busy: user-space stamps are off by %v in the median", m)
			}
		})
	}
}

// The first segment of an accepted connection is stamped too.
func TestAcceptedConnection(t *testing.T) {
	warm(t)
	client, server := pair(t)
	before := time.Now().UnixNano()
	if _, err := client.WriteBuffers(&net.Buffers{[]byte("GET / "), []byte("HTTP/1.1\r\n\r\n")}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	for _, want := range []string{"GET /", " HTTP", "/1.1\r", "\n\r\n"} {
		n, err := server.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("Read = %q, %v; want %q", buf[:n], err, want)
		}
		if stamp, kernel := server.LastStamp(); !kernel || stamp < before || stamp > time.Now().UnixNano() {
			t.Fatalf("stamp %d (kernel %t) is not between %d and now", stamp, kernel, before)
		}
	}
}

func TestReadEnds(t *testing.T) {
	client, server := pair(t)
	buf := make([]byte, 10)
	if n, err := client.Read(nil); n != 0 || err != nil {
		t.Fatalf("empty Read = %d, %v", n, err)
	}
	client.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := client.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after the deadline: %v", err)
	}
	client.SetReadDeadline(time.Time{})
	server.Write([]byte("last"))
	server.NetConn().(*net.TCPConn).CloseWrite()
	if n, err := io.ReadFull(client, buf[:4]); n != 4 || err != nil {
		t.Fatalf("Read = %d, %v", n, err)
	}
	if n, err := client.Read(buf); n != 0 || err != io.EOF {
		t.Fatalf("at the end: %d, %v; want io.EOF itself", n, err)
	}
	client.Close()
	if _, err := client.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
	if server.NetConn().(*net.TCPConn).SetLinger(0); server.Close() != nil {
		t.Fatal("close")
	}
}

func TestReset(t *testing.T) {
	client, server := pair(t)
	server.NetConn().(*net.TCPConn).SetLinger(0)
	server.Close()
	var op *net.OpError
	if _, err := client.Read(make([]byte, 10)); !errors.As(err, &op) || op.Op != "read" {
		t.Fatalf("after a reset: %v", err)
	}
}

// Where the kernel has no stamps the reader's own are told apart, and the bytes are the same.
func TestFallback(t *testing.T) {
	l, err := Listen(context.Background(), net.ListenConfig{}, "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := Dial(context.Background(), net.Dialer{}, "unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789"), 1000)
	go func() {
		server.Write(text)
		server.Close()
	}()
	before := time.Now().UnixNano()
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, text) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	stamp, kernel := client.LastStamp()
	if kernel || stamp < before || stamp > time.Now().UnixNano() {
		t.Fatalf("stamp %d, kernel %t", stamp, kernel)
	}
}

func TestInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		client := Wrap(a)
		go func() {
			time.Sleep(time.Hour)
			b.Write([]byte("x"))
			b.Close()
		}()
		start := time.Now()
		if n, err := client.Read(make([]byte, 10)); n != 1 || err != nil {
			t.Fatalf("Read = %d, %v", n, err)
		}
		if stamp, kernel := client.LastStamp(); kernel || stamp != start.Add(time.Hour).UnixNano() {
			t.Fatalf("stamp %d, kernel %t", stamp, kernel)
		}
		client.Close()
	})
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

func TestReadAllocatesNothing(t *testing.T) {
	client, server := pair(t)
	buf, out := make([]byte, 100), []byte("data: {}\n\n")
	if n := testing.AllocsPerRun(100, func() {
		server.Write(out)
		if _, err := client.Read(buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per read", n)
	}
}

func BenchmarkRead(b *testing.B) {
	client, server := pair(b)
	buf, out := make([]byte, 4096), bytes.Repeat([]byte("x"), 200)
	b.ReportAllocs()
	for b.Loop() {
		server.Write(out)
		if _, err := client.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
