// Package record stands between an application and its server, passes everything on untouched, and keeps the
// conversations that go by as a dataset: with their arrivals, think times and shared prefixes.
//
// A request goes to the server while it is read, and an answer to the application as it comes; copies of both
// are looked at afterwards, off the path, so that what the application sees is delayed only by one more hop
// (BenchmarkAddedLatency shows by how much).
//
// A request belongs to the conversation whose messages it repeats: all that was sent before, the answer (in
// the words of the application, which may have trimmed it), and something new. Anything else begins a
// conversation of its own, also one that repeats a part of another: it shares the text that it repeats.
//
// # What is kept
//
// By default no text of the application stays: each message is replaced by words that have as many tokens
// (see redactor). Prompts that began with the same tokens begin with the same words, so that what a prefix
// cache can reuse stays the same, token by token. The replacement depends on a random key that is never
// written, so that no text can be looked up. Names of tools, participants and conversations are replaced too.
//
// Turns are written to a spool file as they end; Close makes the dataset of it. A killed recorder leaves the
// spool, of which [Seal] makes the dataset.
package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/generate/prose"
	"parley/generate/tokenizer"
)

// Options say what to record and how.
type Options struct {
	Upstream  *url.URL // server that requests go to
	Output    string   // dataset to write; the spool stands beside it
	Force     bool     // overwrite the output
	KeepText  bool     // keep texts as they are instead of replacing them
	Tokenizer *tokenizer.Tokenizer
	Transport http.RoundTripper // nil: an own one that keeps connections and answers as they are
}

// maxKept bounds the body of one request or answer that is looked at; a longer one is passed on all the
// same, and counted as one that could not be kept.
const maxKept = 64 << 20

// Counts tell what went by.
type Counts struct {
	Requests      int64            `json:"requests"`      // to an endpoint for text
	Conversations int64            `json:"conversations"` //
	Turns         int64            `json:"turns"`         // kept
	Left          map[string]int64 `json:"left_out"`      // requests that could not be kept, by reason
	Notes         map[string]int64 `json:"notes"`         // what could not be kept of those that were
}

// Recorder is the handler that stands in between. Its methods may be called from many goroutines.
type Recorder struct {
	options Options
	proxy   *httputil.ReverseProxy
	began   time.Time
	join    *joiner

	mu      sync.Mutex
	queue   []*exchange // ended, not yet looked at, in the order in which they ended
	more    chan struct{}
	open    sync.WaitGroup // exchanges under way
	stopped chan struct{}
	failed  error
}

// exchange is one request and its answer.
type exchange struct {
	path         string
	arrival, end time.Duration // since the recorder began, on the monotonic clock
	request      capture
	answer       capture
	status       int
	contentType  string
	broken       bool // the answer was cut off: by the server, or because the application left
}

// capture is a copy of what passes.
type capture struct {
	bytes.Buffer
	over bool
}

func (c *capture) Write(p []byte) (int, error) {
	if c.over = c.over || c.Len()+len(p) > maxKept; !c.over {
		c.Buffer.Write(p)
	}
	return len(p), nil
}

// New makes a recorder and its spool. The output is not made before Close.
func New(o Options) (*Recorder, error) {
	if o.Upstream == nil || o.Upstream.Host == "" || o.Upstream.Scheme != "http" && o.Upstream.Scheme != "https" {
		return nil, errors.New("--upstream: give the server's address, such as http://127.0.0.1:8000")
	}
	text, err := prose.New(o.Tokenizer)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", o.Tokenizer.Name(), err)
	}
	s, err := createSpool(o)
	if err != nil {
		return nil, err
	}
	r := &Recorder{options: o, began: time.Now(), more: make(chan struct{}, 1), stopped: make(chan struct{})}
	r.join = newJoiner(o, text, s)
	transport := o.Transport
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy, t.DisableCompression, t.MaxIdleConnsPerHost = nil, true, 1024
		transport = t
	}
	r.proxy = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(o.Upstream)
			if path.Base(p.In.URL.Path) != "" && exchangeOf(p.In) != nil {
				// An answer that is packed could not be read. Servers of models do not pack streams.
				p.Out.Header.Set("Accept-Encoding", "identity")
			}
		},
		Transport:      transport,
		FlushInterval:  -1, // each read of the answer goes on at once
		ModifyResponse: r.watch,
		ErrorLog:       log.New(io.Discard, "", 0), // an application that leaves is counted, not logged
		ErrorHandler: func(w http.ResponseWriter, q *http.Request, err error) {
			if x := exchangeOf(q); x != nil {
				x.broken = true
			}
			if q.Context().Err() == nil {
				http.Error(w, fmt.Sprintf("recording proxy: %s cannot be reached: %v", o.Upstream.Host, err), http.StatusBadGateway)
			}
		},
	}
	go r.work()
	return r, nil
}

// textPaths are the ends of the paths whose requests are for text.
var textPaths = []string{"/chat/completions", "/completions", "/responses", "/messages", "/api/chat", "/api/generate"}

type exchangeKey struct{}

func exchangeOf(q *http.Request) *exchange {
	x, _ := q.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// ServeHTTP passes a request on.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	text := q.Method == http.MethodPost && slices.ContainsFunc(textPaths, func(p string) bool { return strings.HasSuffix(q.URL.Path, p) })
	if !text {
		r.proxy.ServeHTTP(w, q)
		return
	}
	x := &exchange{arrival: time.Since(r.began), path: q.URL.Path}
	r.open.Add(1)
	defer r.open.Done()
	q = q.WithContext(context.WithValue(q.Context(), exchangeKey{}, x))
	q.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(q.Body, &x.request), q.Body}
	defer func() {
		// The proxy panics with http.ErrAbortHandler to cut the application off where the server was.
		trouble := recover()
		if x.end == 0 {
			x.end = time.Since(r.began)
		}
		x.broken = x.broken || trouble != nil
		r.put(x)
		if trouble != nil {
			panic(trouble)
		}
	}()
	r.proxy.ServeHTTP(w, q)
}

// watch copies an answer as it passes.
func (r *Recorder) watch(p *http.Response) error {
	if x := exchangeOf(p.Request); x != nil {
		x.status, x.contentType = p.StatusCode, p.Header.Get("Content-Type")
		p.Body = &watched{ReadCloser: p.Body, x: x, r: r}
	}
	return nil
}

type watched struct {
	io.ReadCloser
	x *exchange
	r *Recorder
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.x.answer.Write(p[:n])
		w.x.end = time.Since(w.r.began)
	}
	if err != nil && err != io.EOF {
		w.x.broken = true
	}
	return n, err
}

// put hands an exchange over. It never waits: what is not yet looked at waits in memory.
func (r *Recorder) put(x *exchange) {
	r.mu.Lock()
	r.queue = append(r.queue, x)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *Recorder) work() {
	defer close(r.stopped)
	for range r.more {
		for {
			r.mu.Lock()
			list := r.queue
			r.queue = nil
			r.mu.Unlock()
			if len(list) == 0 {
				break
			}
			for _, x := range list {
				if err := r.join.add(x); err != nil {
					r.mu.Lock()
					r.failed = errors.Join(r.failed, err)
					r.mu.Unlock()
				}
			}
		}
	}
}

// Failed gives the first error of writing the spool; the proxy goes on all the same.
func (r *Recorder) Failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Counts tells what went by so far.
func (r *Recorder) Counts() Counts { return r.join.snapshot() }

// Close waits for what is under way, writes the dataset and removes the spool. No request may come any more.
// If nothing was recorded, there is no dataset, and the error says so.
func (r *Recorder) Close() (Counts, string, error) {
	r.open.Wait()
	close(r.more)
	<-r.stopped
	counts := r.Counts()
	if err := errors.Join(r.failed, r.join.spool.close()); err != nil {
		return counts, "", fmt.Errorf("%w (what was recorded before stands in %s)", err, SpoolName(r.options.Output))
	}
	if counts.Turns == 0 {
		return counts, "", errors.Join(errors.New("nothing was recorded: no request for text was answered"), r.join.spool.remove())
	}
	hash, err := Seal(SpoolName(r.options.Output), r.options.Output, r.options.Force)
	return counts, hash, err
}
