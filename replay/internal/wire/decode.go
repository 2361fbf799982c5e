package wire

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// decoder undoes a content encoding that was not asked for. The decompressors of the standard library pull
// their input; this one is pushed to, so it runs them as a coroutine (iter.Pull), which goes on reading
// when there is input and gives way when it needs more. All happens on the caller's goroutine, one side at
// a time.
type decoder struct {
	in    []byte
	ended bool
	out   func(b []byte) error
	max   int64
	err   error
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// newDecoder gives a decoder for a Content-Encoding header, nil for one that changes nothing. What it
// decodes goes to out, up to max bytes.
func newDecoder(encoding string, max int64, out func(b []byte) error) (*decoder, error) {
	var open func(r *bufio.Reader) (io.Reader, error)
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return nil, nil
	case "gzip", "x-gzip":
		open = func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = openDeflate
	default:
		return nil, fail(KindContentEncoding, "the response has the content encoding "+quote([]byte(encoding))+", although identity was asked for")
	}
	d := &decoder{out: out, max: max}
	d.next, d.stop = iter.Pull(func(yield func(struct{}) bool) {
		d.yield = yield
		d.err = d.run(open)
	})
	return d, nil
}

// openDeflate opens "deflate", which is zlib by the standard (RFC 9110, 8.4.1.2) and bare deflate with
// some servers.
func openDeflate(r *bufio.Reader) (io.Reader, error) {
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

var errStopped = errors.New("stopped")

// Read gives the decompressor what has come, and gives way while there is nothing.
func (d *decoder) Read(b []byte) (int, error) {
	for len(d.in) == 0 {
		if d.ended {
			return 0, io.EOF
		}
		if !d.yield(struct{}{}) {
			return 0, errStopped
		}
	}
	n := copy(b, d.in)
	d.in = d.in[n:]
	return n, nil
}

func (d *decoder) run(open func(*bufio.Reader) (io.Reader, error)) error {
	in := bufio.NewReader(d)
	r, err := open(in)
	buf := make([]byte, 8<<10)
	for total := int64(0); err == nil; {
		var n int
		n, err = r.Read(buf)
		if total += int64(n); total > d.max {
			return fail(KindBodyTooLarge, fmt.Sprintf("the response's decompressed body is larger than the limit of %d bytes", d.max))
		}
		if n > 0 {
			if e := d.out(buf[:n]); e != nil {
				return e
			}
		}
	}
	if err == io.EOF {
		// What follows the compressed data is dropped.
		for err == io.EOF && !d.ended {
			d.in = nil
			if !d.yield(struct{}{}) {
				return nil
			}
		}
		return nil
	}
	return err
}

// feed decodes what has come so far.
func (d *decoder) feed(b []byte) error {
	if d.err != nil {
		return d.err
	}
	d.in = b
	if _, more := d.next(); !more && d.err != nil {
		return d.failure()
	}
	return nil
}

// finish takes the end of the body.
func (d *decoder) finish() error {
	d.ended = true
	for {
		if _, more := d.next(); !more {
			break
		}
	}
	if d.err != nil {
		return d.failure()
	}
	return nil
}

func (d *decoder) failure() error {
	if errors.Is(d.err, io.ErrUnexpectedEOF) || errors.Is(d.err, io.EOF) {
		return fail(KindCutBody, "the compressed body of the response is cut off")
	}
	var corrupt flate.CorruptInputError
	if errors.As(d.err, &corrupt) || errors.Is(d.err, gzip.ErrHeader) || errors.Is(d.err, gzip.ErrChecksum) || errors.Is(d.err, zlib.ErrHeader) || errors.Is(d.err, zlib.ErrChecksum) {
		return fail(KindBadResponse, "the compressed body of the response is broken: "+d.err.Error())
	}
	return d.err
}

// close lets go of the coroutine.
func (d *decoder) close() {
	if d != nil {
		d.stop()
	}
}
