package simserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	maxHeaderBytes    = 256 << 10        // request line and header
	headerTimeout     = 10 * time.Second // from a request's first byte to its last header line
	bodyTimeout       = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 2 * time.Second // for running responses once the context has ended
	acceptRetryPause  = 20 * time.Millisecond
	maxDrainedBody    = 1 << 20
	connReadBufferLen = 4 << 10
)

// errDied is what Serve returns after die_after.
var errDied = errors.New("simserver: died as die_after asked")

// Serve answers on ln until ctx ends, and closes ln. Running responses then have two seconds; after that
// their connections are closed. It returns nil when ctx ended it.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	set := connSet{conns: make(map[*conn]bool)}
	var died bool

	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.died:
			died = true
		}
		_ = ln.Close()
		if died {
			set.closeAll(true)
			cancel()
			return
		}
		set.closeIdle()
		giveUp := make(chan struct{})
		timer := time.AfterFunc(shutdownTimeout, func() { close(giveUp) })
		set.wait(giveUp)
		timer.Stop()
		set.closeAll(false)
	})

	flushed := make(chan struct{})
	go func() { defer close(flushed); s.truth.flushUntil(ctx.Done()) }()

	err := s.accept(ctx, ln, &set)
	cancel()
	wg.Wait()
	set.wg.Wait()
	<-flushed
	if ferr := s.truth.flush(); err == nil {
		err = ferr
	}
	if died {
		return errDied
	}
	return err
}

func (s *Server) accept(ctx context.Context, ln net.Listener, set *connSet) error {
	if s.cfg.SlowStart > 0 {
		select {
		case <-time.After(s.cfg.SlowStart):
		case <-ctx.Done():
			return nil
		}
	}
	for {
		nc, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || s.dead() {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() || isExhausted(err) {
				time.Sleep(acceptRetryPause)
				continue
			}
			return fmt.Errorf("simserver: accept: %w", err)
		}
		c := &conn{rwc: nc, srv: s, closed: make(chan struct{})}
		c.br = bufio.NewReaderSize(c, connReadBufferLen)
		if !set.add(c) {
			c.close(false)
			continue
		}
		set.wg.Go(func() {
			defer set.remove(c)
			defer c.close(false)
			c.serve()
		})
	}
}

// connSet is the open connections of one Serve.
type connSet struct {
	mu     sync.Mutex
	conns  map[*conn]bool
	closed bool // no more idle connections
	empty  chan struct{}
	wg     sync.WaitGroup
}

func (t *connSet) add(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	c.set = t
	t.conns[c] = true
	return true
}

func (t *connSet) remove(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
	if len(t.conns) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// setIdle marks a connection as waiting for a request, and says whether it may.
func (t *connSet) setIdle(c *conn, idle bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.idle = idle
	return !t.closed
}

func (t *connSet) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for c := range t.conns {
		if c.idle {
			c.close(false)
		}
	}
}

func (t *connSet) closeAll(reset bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for c := range t.conns {
		c.close(reset)
	}
}

// wait returns when no connection is left, or when giveUp is closed.
func (t *connSet) wait(giveUp <-chan struct{}) {
	t.mu.Lock()
	if len(t.conns) == 0 {
		t.mu.Unlock()
		return
	}
	empty := make(chan struct{})
	t.empty = empty
	t.mu.Unlock()
	select {
	case <-empty:
	case <-giveUp:
	}
}

// conn is one connection and its loop.
type conn struct {
	rwc     net.Conn
	srv     *Server
	set     *connSet
	br      *bufio.Reader
	budget  int64 // bytes that Read may still give while a header is read
	idle    bool  // guarded by set.mu
	lastRx  time.Time
	headBuf []byte
	served  int // requests so far
	once    sync.Once
	closed  chan struct{}
}

var errHeaderTooLarge = errors.New("simserver: request header too large")

// Read is the source of br: it counts against the header's budget and keeps the moment of the last read.
func (c *conn) Read(p []byte) (int, error) {
	if c.budget <= 0 {
		return 0, errHeaderTooLarge
	}
	if int64(len(p)) > c.budget {
		p = p[:c.budget]
	}
	n, err := c.rwc.Read(p)
	c.budget -= int64(n)
	if n > 0 {
		c.lastRx = rxTime(c.rwc)
	}
	return n, err
}

func (c *conn) close(reset bool) {
	c.once.Do(func() {
		close(c.closed)
		if reset {
			setLinger(c.rwc)
		}
		_ = c.rwc.Close()
	})
}

// arm sets the end of the next look.
func (c *conn) arm(t time.Time) {
	c.budget = maxHeaderBytes
	_ = c.rwc.SetReadDeadline(t) // fails on a closed connection, which look will notice
}

// look returns nil at the moment that arm was given, or at once when bytes of a next request are there,
// and an error when the connection ends first.
func (c *conn) look() error {
	if c.br.Buffered() > 0 {
		return nil
	}
	_, err := c.br.Peek(1)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return errPeerGone
}

// past is a deadline that makes a running look return.
var past = time.Unix(1, 0)

func (c *conn) serve() {
	idle := c.srv.cfg.CloseIdle
	if idle <= 0 {
		idle = idleTimeout
	}
	for {
		if !c.set.setIdle(c, true) {
			return
		}
		c.budget = maxHeaderBytes
		_ = c.rwc.SetReadDeadline(time.Now().Add(idle))
		if _, err := c.br.Peek(1); err != nil {
			return
		}
		c.set.setIdle(c, false)
		_ = c.rwc.SetReadDeadline(time.Now().Add(headerTimeout))
		req, err := http.ReadRequest(c.br)
		if err != nil {
			if c.budget <= 0 {
				c.refuse(http.StatusRequestHeaderFieldsTooLarge)
			} else if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				c.refuse(http.StatusBadRequest)
			}
			return
		}
		if !c.answer(req) {
			return
		}
	}
}

// refuse answers what is not an HTTP request, or too much of one.
func (c *conn) refuse(status int) {
	_ = c.rwc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(c.rwc, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status))
}

// answer serves one request and says whether the connection can take another.
func (c *conn) answer(req *http.Request) (again bool) {
	c.budget = c.srv.maxBody() + maxHeaderBytes
	_ = c.rwc.SetReadDeadline(time.Now().Add(bodyTimeout))
	if req.Header.Get("Expect") == "100-continue" {
		if _, err := io.WriteString(c.rwc, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	sink := &connSink{c: c, chunked: req.ProtoAtLeast(1, 1), keep: req.ProtoAtLeast(1, 1) && !req.Close}
	body, status := readBody(req.Body, req.ContentLength, c.srv.maxBody())
	if status != 0 {
		sink.keep = false
	}
	_ = c.rwc.SetReadDeadline(time.Time{})
	c.srv.route(sink, &request{r: req, body: body, status: status, received: c.lastRx, age: c.served})
	c.served++
	if status == http.StatusRequestEntityTooLarge {
		// Closing on unread data resets the connection, and the client would not see why.
		_ = c.rwc.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, c.rwc, maxDrainedBody)
	}
	return sink.keep && !sink.aborted
}
