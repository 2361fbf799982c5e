package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// Session is one conversation's line to the server: its history as it is sent, the headers that the server
// wants back, its cookies. It belongs to one goroutine and holds nothing that has to be closed.
type Session struct {
	c       *Client
	history *api.History
	echo    []string // values for Options.EchoHeaders, "" for one that has not come
	jar     *cookiejar.Jar
	url     *url.URL
}

// NewSession begins a conversation.
func (c *Client) NewSession(o api.HistoryOptions) (*Session, error) {
	h, err := c.o.API.NewHistory(o)
	if err != nil {
		return nil, err
	}
	s := &Session{c: c, history: h}
	if n := len(c.o.EchoHeaders); n > 0 {
		s.echo = make([]string, n)
	}
	if c.o.Cookies {
		scheme := "http"
		if c.target.tls {
			scheme = "https"
		}
		s.url = &url.URL{Scheme: scheme, Host: c.target.host, Path: strings.SplitN(c.path, "?", 2)[0]}
		if s.jar, err = cookiejar.New(nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Append adds a message of the dataset to the history.
func (s *Session) Append(m schemas.Message) error { return s.history.Append(m) }

// AppendAnswer adds the server's answer to the history; see api.History.
func (s *Session) AppendAnswer(a api.Answer, recorded *schemas.Message) (live bool, err error) {
	return s.history.AppendAnswer(a, recorded)
}

// takeHeaders keeps what the server wants back.
func (s *Session) takeHeaders(each func(name string, f func(value string))) {
	for i, name := range s.c.o.EchoHeaders {
		each(name, func(value string) { s.echo[i] = value })
	}
	if s.jar == nil {
		return
	}
	var cookies []*http.Cookie
	each("Set-Cookie", func(value string) {
		if c, err := http.ParseSetCookie(value); err == nil {
			cookies = append(cookies, c)
		}
	})
	if len(cookies) > 0 {
		s.jar.SetCookies(s.url, cookies)
	}
}

// eachHeader gives the headers that the server wants back.
func (s *Session) eachHeader(f func(name, value string)) {
	for i, name := range s.c.o.EchoHeaders {
		if s.echo[i] != "" {
			f(name, headerValue(s.echo[i]))
		}
	}
	if s.jar == nil {
		return
	}
	var b strings.Builder
	for i, c := range s.jar.Cookies(s.url) {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s=%s", c.Name, c.Value)
	}
	if b.Len() > 0 {
		f("Cookie", headerValue(b.String()))
	}
}

// TurnRequest is what one turn asks for, besides the history.
type TurnRequest struct {
	RequestID string       // sent as X-Request-Id; "" sends none
	Params    *api.Params  // what the request says
	Headers   []api.Header // headers of this turn; they win over the client's
	// LeaveAfter is when the turn is given up, after its start, as a user does who has read enough: the row's status
	// is then abandoned. 0 is never.
	LeaveAfter time.Duration
	// DiscardText keeps no text: the answer is empty then.
	DiscardText bool
}

// Do sends the history as one request and receives the answer. It fills the row's moments from start_ns on,
// status and error, counts, tokens and chunk lists; all other columns are left alone. It never returns
// without a status in the row, and returns within milliseconds when ctx ends (status canceled).
//
// A request whose connection had been idle and broke before the first byte of a response is sent once more
// on a fresh connection (stale_replays); sent_ns and what follows are then of that second sending.
// Options.Retries allows further attempts, after a wait that the server may name (Retry-After): start_ns is the
// first one's start, sent_ns and what follows are of the last one; attempt_ns has the start of each.
func (s *Session) Do(ctx context.Context, t TurnRequest, row *schemas.Request) api.Answer {
	c := s.c
	x := c.exchanges.Get().(*exchange)
	x.s = s
	x.stream.DiscardText = t.DiscardText
	defer func() {
		x.s = nil
		x.dec.close()
		x.dec = nil
		c.exchanges.Put(x)
	}()
	c.refreshKey()
	start := c.clk.Now()
	if t.LeaveAfter > 0 {
		var leave context.CancelCauseFunc
		ctx, leave = context.WithCancelCause(ctx)
		defer leave(nil)
		timer := time.AfterFunc(t.LeaveAfter, func() { leave(errLeft) })
		defer timer.Stop()
	}
	lim := limits{total: start + int64(c.timeout), idle: int64(c.idle)}
	var attempts []int64 // when they began
	stales := int64(0)
	params := t.Params
	if params == nil {
		params = &api.Params{}
		t.Params = params
	}
	body, err := s.history.Body(params)
	if err != nil {
		x.begin()
		err = fail(KindBadRow, "the request could not be made: "+err.Error())
		x.stream.Finish(c.clk.Now(), err)
	} else {
		for retry := 0; ; retry++ {
			fresh := false
			for {
				attempts = append(attempts, c.clk.Now())
				x.begin()
				var stale bool
				if c.useHTTP.Load() {
					stale, err = c.fallback.attempt(ctx, x, &t, body, lim)
					attempts = append(attempts, x.replays...)
					stales += int64(len(x.replays))
				} else if stale, err = x.attempt(ctx, &t, body, lim, fresh); err == error(errOtherProtocol) {
					c.useHTTP.Store(true)
					attempts = attempts[:len(attempts)-1]
					continue
				}
				if !stale || fresh {
					break
				}
				fresh = true
				stales++
			}
			if context.Cause(ctx) == errLeft && err != nil && failure(err, reading).Kind == KindCanceled {
				err = fail(KindLeft, fmt.Sprintf("given up %v after its start, as --cancel asked", t.LeaveAfter))
			}
			x.finish(err)
			wait, again := x.again(retry)
			if !again || c.clk.Now()+int64(wait) >= lim.total || !sleep(ctx, wait) {
				break
			}
		}
	}
	x.fill(row)
	row.StartNS, row.AttemptNS = &start, attempts
	row.Attempts, row.StaleReplays = int64(len(attempts)), stales
	row.MessagesSent = int64(s.history.Messages())
	if t.DiscardText {
		return api.Answer{}
	}
	return x.stream.Answer()
}

// errLeft is why the context of a turn ends that its user gives up.
var errLeft = errors.New("given up by its user")

// finish ends the response.
func (x *exchange) finish(err error) {
	at := x.at
	if err != nil || at == unset {
		at = x.c.clk.Now()
	}
	if err != nil {
		err = x.c.cleanError(err)
	}
	x.stream.Finish(at, err)
}

// fill writes what the exchange knows into the row.
func (x *exchange) fill(row *schemas.Request) {
	c := x.c
	x.stream.Fill(row)
	row.SentNS, row.WroteNS, row.FirstByteNS = moment(x.sent), moment(x.wrote), moment(x.first)
	row.DNSNS, row.ConnectNS, row.TLSNS = span(x.dnsNS), span(x.connNS), span(x.tlsNS)
	row.ConnReused = nil
	if x.connected {
		reused := x.reused
		row.ConnReused = &reused
	}
	row.BytesSent, row.BytesReceived, row.Reads = x.bytesOut, x.bytesIn, x.reads
	c.kernelReads.Add(x.kernelReads)
	c.userReads.Add(x.reads - x.kernelReads)
	note := x.note
	switch {
	case x.decoded:
		note = "gzip"
	case note == "" && x.kernelReads < x.reads:
		note = "user_clock"
	}
	row.TimingNote = nil
	if note != "" {
		row.TimingNote = &note
	}
}

func moment(ns int64) *int64 {
	if ns == unset {
		return nil
	}
	return &ns
}

func span(ns int64) *int64 {
	if ns == 0 {
		return nil
	}
	return &ns
}

// mostRetryWait is the longest Retry-After that is waited for.
const mostRetryWait = time.Minute

// again tells whether another attempt is to be made after one that ended like this, and when.
func (x *exchange) again(retry int) (wait time.Duration, again bool) {
	f := x.stream.Failure()
	if f == nil || retry >= x.c.o.Retries {
		return 0, false
	}
	switch f.Kind {
	case api.KindRateLimited, api.KindOverloaded, api.KindLoading:
		if f.Status != schemas.StatusHTTPError {
			return 0, false // tokens may have been sent
		}
	case KindConnectRefused, KindConnectTimeout, KindReset, KindEOF:
		if x.first != unset {
			return 0, false
		}
	default:
		return 0, false
	}
	wait = min(500*time.Millisecond<<min(retry, 5), 10*time.Second)
	if asked, ok := x.stream.RetryAfter(x.c.clk.Wall(x.c.clk.Now())); ok {
		wait = asked
	}
	return wait, wait <= mostRetryWait
}

// sleep waits, and tells whether it was not cut short.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
