package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/stampconn"
)

// unset stands for a moment that has not come.
const unset = int64(-1) << 63

const (
	// drainTime is how long the end of a response may stay away after its content has ended before the
	// connection is given up: it usually comes with the same packet or the next.
	drainTime = 5 * time.Millisecond
	drainMost = 64 << 10
	// lateAnswer is how long a response is waited for after the request could not be written: a server that
	// refuses a request closes the connection without having read it all.
	lateAnswer = 500 * time.Millisecond
	// staleTime is how soon after a request a connection that had been closed while it was idle shows it: the
	// reset is the answer to the request's first packet. What breaks later broke under the request.
	staleTime = int64(time.Second)
	// suspendedAfter is how much later than it came a deadline has to be noticed for the client to have been suspended:
	// the process or its machine was stopped, or had no processor. What the server sent meanwhile is still to be read.
	suspendedAfter = int64(time.Second)
	// stampNoise is by how much a stamp may lie after its reading without the clocks having been stepped: the
	// offset between them is measured to some tens of nanoseconds.
	stampNoise = int64(10 * time.Microsecond)
)

// exchange is one turn's requests and responses, however many attempts it takes. It is used again for other
// turns and belongs to one goroutine.
type exchange struct {
	c      *Client
	stream api.Stream
	p      parser
	s      *Session
	onData reader                   // arrived, made once
	header func(name string) string // p.header, made once
	dec    *decoder
	common *common // of the attempt at hand

	request []byte      // the request's header
	bufs    net.Buffers // the request
	scratch []byte

	// Of the attempt at hand, on the run's clock.
	sent, wrote int64
	first       int64 // the first byte of the response
	at          int64 // the last bytes of the response
	armed       int64 // when the reading and writing is to give up
	bytesOut    int64

	// Of all attempts.
	bytesIn, reads       int64
	kernelReads          int64
	contentOver          bool // the stream needs no more
	decoded              bool
	discarded            int64
	err                  error
	dnsNS, connNS, tlsNS int64
	reused               bool
	connected            bool
	note                 string
	replays              []int64 // when net/http began to send the request again by itself
}

func newExchange(c *Client) *exchange {
	x := &exchange{c: c}
	x.onData = x.arrived
	x.header = x.p.header
	x.stream.MaxText, x.stream.MaxEvent = c.o.MaxText, c.o.MaxEvent
	return x
}

// begin readies the exchange for an attempt.
func (x *exchange) begin() {
	x.dec.close()
	x.dec = nil
	x.common = x.c.common.Load()
	x.stream.Secrets = x.common.secrets
	x.stream.Reset(x.c.o.API)
	x.p.reset(orDefault(x.c.o.MaxHeader, DefaultMaxHeader), orDefault(x.c.o.MaxBody, DefaultMaxBody))
	x.sent, x.wrote, x.first, x.at = unset, unset, unset, unset
	x.bytesOut, x.bytesIn, x.reads, x.kernelReads, x.discarded = 0, 0, 0, 0, 0
	x.contentOver, x.decoded, x.err, x.note = false, false, nil, ""
	x.dnsNS, x.connNS, x.tlsNS, x.reused, x.connected, x.replays = 0, 0, 0, false, false, nil
}

// arrived takes bytes of the response and tells whether more are wanted.
func (x *exchange) arrived(p []byte, unixNS int64, kernel bool) bool {
	at := x.c.clk.Now()
	if kernel {
		now, since := at, max(x.sent, x.at)
		if at = x.c.clk.FromRealtime(unixNS); at < since || at > now+stampNoise {
			// The wall clock has been stepped since the clock's last sample.
			x.c.clk.Resample()
			at = x.c.clk.FromRealtime(unixNS)
		}
		if kernel = at >= since && at <= now+stampNoise; !kernel || at > now {
			at = now
		}
	}
	x.at = at
	if x.first == unset {
		x.first = at
	}
	x.reads++
	if kernel {
		x.kernelReads++
	}
	x.bytesIn += int64(len(p))
	used, err := x.p.feed(p, x)
	switch {
	case err != nil:
		x.err = err
		return false
	case x.p.complete():
		if used < len(p) {
			x.p.keep = false // more than was asked for
		}
		if x.dec != nil && !x.contentOver {
			x.err = x.dec.finish()
		}
		return false
	}
	return !x.contentOver
}

// head is called by the parser.
func (x *exchange) head(p *parser) error {
	x.stream.Head(p.status, x.header)
	if x.s != nil {
		x.s.takeHeaders(p.each)
	}
	if encoding := p.header("Content-Encoding"); encoding != "" {
		return x.decode(encoding)
	}
	return nil
}

// decode sets up the decoding of the body.
func (x *exchange) decode(encoding string) (err error) {
	if x.dec, err = newDecoder(encoding, x.p.maxBody, x.content); x.dec != nil {
		x.decoded = true
	}
	return err
}

// data is called by the parser.
func (x *exchange) data(b []byte) error {
	if x.contentOver {
		if x.discarded += int64(len(b)); x.discarded > drainMost {
			x.p.keep = false
		}
		return nil
	}
	if x.dec != nil {
		return x.dec.feed(b)
	}
	return x.content(b)
}

// content takes bytes of the decoded body.
func (x *exchange) content(b []byte) error {
	if !x.contentOver && !x.stream.Feed(b, x.at) {
		x.contentOver = true
	}
	return nil
}

// limits are the ends of an attempt's patience.
type limits struct {
	total int64 // run time at which the turn's limit has passed
	idle  int64 // nanoseconds of silence
}

// attempt sends the request, whose body is given, and receives the response. fresh forgoes idle
// connections. It returns the failure, nil if the response ended regularly; the exchange has the rest.
// stale says that the connection had been idle and broke before a byte of the response: the request may be
// sent again.
func (x *exchange) attempt(ctx context.Context, t *TurnRequest, body [][]byte, lim limits, fresh bool) (stale bool, err error) {
	c := x.c
	var cn *conn
	if !fresh {
		cn = c.pool.get(c.clk.Now(), c.keepIdle)
	}
	if cn == nil {
		if cn, err = x.connect(ctx, lim); err != nil {
			return false, err
		}
	} else {
		x.reused = cn.uses > 0
	}
	x.connected = true
	stop := context.AfterFunc(ctx, cn.interrupt)
	keep := false
	defer func() {
		if stop() && keep && cn.usable() {
			cn.uses++
			c.pool.put(cn, c.clk.Now())
		} else {
			cn.close()
		}
	}()

	length := x.writeHead(t, body)
	moved := func() { x.arm(cn, min(lim.total, c.clk.Now()+lim.idle)) }
	moved()
	x.sent = c.clk.Now()
	cn.start(x.onData, length) // the answer may come while the request is being written
	x.bytesOut, x.scratch, err = cn.write(x.bufs, x.scratch, moved)
	clear(x.bufs)
	switch {
	case err == nil:
		x.wrote = c.clk.Now()
		err = x.receive(ctx, cn, lim)
	case errors.Is(err, stampconn.ErrEnded):
		err = x.receive(ctx, cn, lim)
	default:
		err = x.unwritten(ctx, cn, lim, err)
	}
	if err != nil {
		return cn.pooled && !x.p.some && ctx.Err() == nil && x.stale(err), err
	}
	if !x.p.complete() && x.stream.Failure() == nil {
		x.drain(cn)
	}
	keep = x.p.complete() && x.p.keep && x.wrote != unset && c.keepIdle > 0
	return false, nil
}

// stale tells whether the failure of a request before a byte of its response is that of a connection which
// had been closed before.
func (x *exchange) stale(err error) bool {
	switch failure(err, reading).Kind {
	case KindReset, KindEOF, KindWrite:
		return x.sent != unset && x.c.clk.Now()-x.sent < staleTime
	}
	return false
}

// connect makes a connection, within the limits.
func (x *exchange) connect(ctx context.Context, lim limits) (*conn, error) {
	c := x.c
	left := time.Duration(lim.total - c.clk.Now())
	dialCtx, cancel := context.WithTimeout(ctx, min(c.connect, left))
	defer cancel()
	cn, err := c.dial(dialCtx)
	switch {
	case err == nil:
		x.dnsNS, x.connNS, x.tlsNS = cn.dnsNS, cn.connectNS, cn.tlsNS
		return cn, nil
	case ctx.Err() != nil:
		return nil, fail(KindCanceled, "canceled while connecting")
	case c.clk.Now() >= lim.total:
		return nil, x.overdue()
	}
	return nil, err
}

func (x *exchange) overdue() error {
	return fail(KindTimeoutTotal, "the turn took longer than its limit of "+x.c.timeout.String())
}

// arm sets the run time at which reading and writing give up.
func (x *exchange) arm(cn *conn, at int64) {
	x.armed = at
	cn.arm(x.c.clk.Time(at))
}

// receive reads the response until its content or it itself ends. The reading has been started.
func (x *exchange) receive(ctx context.Context, cn *conn, lim limits) error {
	c := x.c
	resumed := unset
	for ; ; cn.start(x.onData, 0) {
		err := cn.wait()
		switch {
		case err == nil:
			return x.err
		case ctx.Err() != nil:
			return fail(KindCanceled, "canceled while the request was under way")
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline is not moved with every chunk; it is looked at here whether it still holds.
			now := c.clk.Now()
			if late := now - x.armed; late >= suspendedAfter {
				resumed, lim.total = now, lim.total+late
			}
			until := max(x.wrote, x.at, resumed) + lim.idle
			if now >= lim.total {
				return x.overdue()
			}
			if now >= until {
				return x.silent()
			}
			x.arm(cn, min(until, lim.total))
		case err == io.EOF:
			if err = x.p.eof(); err == nil && x.dec != nil && !x.contentOver {
				err = x.dec.finish()
			}
			return err
		default:
			if isCut(err) {
				return x.p.eof() // TLS without its farewell
			}
			return failure(err, reading)
		}
	}
}

// isCut tells whether a TLS connection ended without saying so.
func isCut(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

func (x *exchange) silent() error {
	if x.first == unset {
		return fail(KindTimeoutIdle, "no response for "+x.c.idle.String())
	}
	return fail(KindTimeoutIdle, "the response was silent for "+x.c.idle.String())
}

// unwritten is what to do when the request could not be written: perhaps the server has refused it, and its
// answer is there to read.
func (x *exchange) unwritten(ctx context.Context, cn *conn, lim limits, cause error) error {
	c := x.c
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		cn.stop()
	}
	now := c.clk.Now()
	switch {
	case ctx.Err() != nil:
		return fail(KindCanceled, "canceled while the request was written")
	case now >= lim.total:
		return x.overdue()
	case errors.Is(cause, os.ErrDeadlineExceeded):
		return fail(KindTimeoutIdle, "the server did not take the request for "+c.idle.String())
	}
	x.arm(cn, min(lim.total, now+int64(lateAnswer)))
	switch err := cn.wait(); {
	case x.p.some:
		if err == io.EOF {
			err = x.p.eof()
		}
		if err == nil {
			return x.err
		}
	case err != nil && failure(err, reading).Kind == KindTLS:
		return failure(err, reading) // an alert: the server says why it has closed the connection
	}
	return failure(cause, writing)
}

// drain reads what little may follow the content, so that the connection can be used again.
func (x *exchange) drain(cn *conn) {
	x.arm(cn, x.c.clk.Now()+int64(drainTime))
	for x.p.keep && !x.p.complete() {
		at, reads := x.at, x.reads
		err := cn.loop(x.onData)
		x.at, x.reads = at, max(reads, x.reads)
		if err != nil || x.err != nil {
			return
		}
	}
}

// writeHead puts the request together: the header in one piece, the body's segments as they are.
func (x *exchange) writeHead(t *TurnRequest, body [][]byte) (length int) {
	c := x.c
	length = size(body)
	b := append(x.request[:0], "POST "...)
	b = append(b, c.path...)
	b = append(b, " HTTP/1.1\r\n"...)
	x.eachHeader(t, func(name, value string) {
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	})
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	b = append(b, "\r\n\r\n"...)
	x.request = b
	x.bufs = append(append(x.bufs[:0], b), body...)
	return len(b) + length
}

// eachHeader gives the headers of a request in order: the client's, those of the turn and of the session. A
// turn's header wins over the client's of the same name.
func (x *exchange) eachHeader(t *TurnRequest, f func(name, value string)) {
	accept := "application/json"
	if t.Params != nil && t.Params.Stream {
		accept = x.c.o.API.Accept
	}
	given := func(name string) bool {
		for i := range t.Headers {
			if equalFold([]byte(t.Headers[i].Name), name) {
				return true
			}
		}
		return false
	}
	hasAccept := given("Accept")
	for _, h := range x.common.headers {
		if !given(h.Name) {
			f(h.Name, h.Value)
			hasAccept = hasAccept || equalFold([]byte(h.Name), "Accept")
		}
	}
	if !hasAccept {
		f("Accept", accept)
	}
	if t.RequestID != "" && !given("X-Request-Id") {
		f("X-Request-Id", headerValue(t.RequestID))
	}
	for _, h := range t.Headers {
		f(h.Name, headerValue(h.Value))
	}
	if x.s != nil {
		x.s.eachHeader(f)
	}
}

// headerValue makes a value fit for a header: what a header cannot carry, which may come from a dataset, is
// percent-encoded.
func headerValue(s string) string {
	ok := true
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b []byte
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
