package simserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// room is left free at the start of every buffer for the size line of an HTTP chunk.
const room = 12

// errPeerGone means that the client closed the connection while it was being kept waiting.
var errPeerGone = errors.New("simserver: the client closed the connection")

// sink is where one response goes. Nothing reaches the client before the first write.
type sink interface {
	// writeHead sets the status and header; they travel with the first write.
	writeHead(status int, header http.Header)
	// writeBody sends b[room:] as one piece; b's first room bytes are scratch space. last ends the response
	// in the same piece.
	writeBody(b []byte, last bool) error
	// wait returns at t, or earlier with an error when the client or the server goes away. The zero time
	// is never.
	wait(t time.Time) error
	// watch gives a channel that is closed when the client or the server goes away, until stop is called.
	watch() (gone <-chan struct{}, stop func())
	// abort ends the response where it stands and closes the connection, with an RST if reset.
	abort(reset bool)
}

// form is what a fault does to the bytes of a response, whatever is in them.
type form struct {
	crlf      bool
	splitUTF8 bool
	gz        *gzip.Writer
	gzOut     bytes.Buffer
	scratch   []byte
}

func newForm(crlf, split, gz bool) *form {
	if !crlf && !split && !gz {
		return nil
	}
	f := &form{crlf: crlf, splitUTF8: split}
	if gz {
		f.gz = gzip.NewWriter(&f.gzOut)
	}
	return f
}

// send sends b[room:] in the pieces that it is to have.
func (f *form) send(b []byte, last bool, write func(b []byte, last bool) error) error {
	pieces, err := f.apply(b, last)
	for i, p := range pieces {
		if err != nil {
			return err
		}
		if i > 0 {
			time.Sleep(splitPause)
		}
		err = write(p, last && i == len(pieces)-1)
	}
	return err
}

// apply gives the pieces in which b[room:] is to be sent, each with its own room.
func (f *form) apply(b []byte, last bool) ([][]byte, error) {
	if f == nil {
		return [][]byte{b}, nil
	}
	if f.crlf {
		f.scratch = append(f.scratch[:0], b[:room]...)
		for _, c := range b[room:] {
			if c == '\n' {
				f.scratch = append(f.scratch, '\r')
			}
			f.scratch = append(f.scratch, c)
		}
		b = f.scratch
	}
	if f.gz != nil {
		f.gzOut.Reset()
		f.gzOut.Write(b[:room])
		_, err := f.gz.Write(b[room:])
		if err == nil && last {
			err = f.gz.Close()
		} else if err == nil {
			err = f.gz.Flush()
		}
		return [][]byte{f.gzOut.Bytes()}, err
	}
	if f.splitUTF8 {
		for i := room; i < len(b); i++ {
			if b[i] < utf8.RuneSelf {
				continue
			}
			second := append(make([]byte, room, room+len(b)-i), b[i+1:]...)
			return [][]byte{b[:i+1], second}, nil
		}
	}
	return [][]byte{b}, nil
}

// splitPause lies between the two pieces of a split character, so that they arrive in two reads.
const splitPause = 2 * time.Millisecond

// httpSink writes to a net/http response.
type httpSink struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	ctx  context.Context
	form *form
}

func newHTTPSink(w http.ResponseWriter, r *http.Request) *httpSink {
	return &httpSink{w: w, rc: http.NewResponseController(w), ctx: r.Context()}
}

func (s *httpSink) setForm(f *form) { s.form = f }

func (s *httpSink) writeHead(status int, header http.Header) {
	h := s.w.Header()
	for k, v := range header {
		h[k] = v
	}
	s.w.WriteHeader(status)
}

func (s *httpSink) writeBody(b []byte, last bool) error {
	return s.form.send(b, last, func(p []byte, _ bool) error {
		if _, err := s.w.Write(p[room:]); err != nil {
			return err
		}
		return s.rc.Flush()
	})
}

func (s *httpSink) wait(t time.Time) error {
	var c <-chan time.Time
	if !t.IsZero() {
		timer := time.NewTimer(time.Until(t))
		defer timer.Stop()
		c = timer.C
	}
	select {
	case <-c:
		return nil
	case <-s.ctx.Done():
		return errPeerGone
	}
}

func (s *httpSink) watch() (<-chan struct{}, func()) { return s.ctx.Done(), func() {} }

// abort ends the response in net/http's own way; an RST cannot be asked for there.
func (s *httpSink) abort(bool) {
	_ = s.rc.Flush()
	panic(http.ErrAbortHandler)
}

// connSink writes to a connection of Serve's own loop.
type connSink struct {
	c       *conn
	head    []byte // waits for the first write
	chunked bool
	sized   bool // Content-Length was given
	keep    bool // connection can be used again
	form    *form
	aborted bool
}

func (s *connSink) setForm(f *form) { s.form = f }

func (s *connSink) writeHead(status int, header http.Header) {
	b := append(s.c.headBuf[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	for k, vs := range header {
		for _, v := range vs {
			b = append(b, k...)
			b = append(b, ": "...)
			b = append(b, v...)
			b = append(b, "\r\n"...)
		}
	}
	b = append(b, "Date: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\n"...)
	if header.Get("Content-Length") != "" {
		s.chunked, s.sized = false, true
	}
	if s.chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	} else if !s.sized {
		s.keep = false
	}
	if !s.keep {
		b = append(b, "Connection: close\r\n"...)
	}
	s.c.headBuf = b
	s.head = append(b, "\r\n"...)
}

func (s *connSink) writeBody(b []byte, last bool) error {
	if s.form == nil {
		return s.writePiece(b, last)
	}
	return s.form.send(b, last, s.writePiece)
}

func (s *connSink) writePiece(b []byte, last bool) error {
	out := b[room:]
	if s.chunked {
		if n := len(out); n > 0 {
			i := room
			i -= 2
			b[i], b[i+1] = '\r', '\n'
			for ; n > 0; n >>= 4 {
				i--
				b[i] = "0123456789abcdef"[n&15]
			}
			out = append(b[i:], "\r\n"...)
		}
		if last {
			out = append(out, "0\r\n\r\n"...)
		}
	}
	if s.head != nil {
		out = append(s.head, out...)
		s.head = nil
	}
	if len(out) == 0 {
		return nil
	}
	_, err := s.c.rwc.Write(out)
	return err
}

// wait watches the connection while it waits, by reading ahead with a deadline: no goroutine is spent.
func (s *connSink) wait(t time.Time) error {
	s.c.arm(t)
	if err := s.c.look(); err != nil {
		return err
	}
	if t.IsZero() {
		<-s.c.closed // bytes of a next request are there already: only the end of the connection is left
		return errPeerGone
	}
	time.Sleep(time.Until(t))
	return nil
}

func (s *connSink) watch() (<-chan struct{}, func()) {
	gone, stopped := make(chan struct{}), make(chan struct{})
	s.c.arm(time.Time{})
	go func() {
		defer close(stopped)
		if s.c.look() != nil {
			close(gone)
		}
	}()
	return gone, func() {
		_ = s.c.rwc.SetReadDeadline(past)
		<-stopped
	}
}

func (s *connSink) abort(reset bool) {
	s.aborted, s.keep = true, false
	if s.head != nil { // the status line promised a response: let the client see that it began
		_, _ = s.c.rwc.Write(s.head)
		s.head = nil
	}
	s.c.close(reset)
}
