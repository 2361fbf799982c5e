// Package scrape reads a server's own figures (GET /metrics) on an interval while a run goes on, and
// gives them names that are the same for every kind of server.
//
// It has a client of its own, and nothing that goes wrong here reaches the load: a scrape that fails is
// counted and skipped.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"parley/schemas"
)

// Options say what to scrape. URL, Now and Emit are required.
type Options struct {
	// URL is the figures' full URL, such as http://127.0.0.1:8000/metrics. See [Candidates].
	URL string
	// Interval from the start of one scrape to that of the next; 0 means 1 s.
	Interval time.Duration
	// Timeout of one scrape; 0 means 5 s.
	Timeout time.Duration
	// MaxBytes is the largest body that is read, after any decompression; 0 means 16 MiB.
	MaxBytes int64
	// Header is sent with each scrape (an API key may stand in it: it appears in no error).
	Header http.Header
	// Transport makes the requests; nil means one of the scraper's own, which Run closes.
	Transport http.RoundTripper
	// Now gives the time in nanoseconds since the run's origin.
	Now func() int64
	// Emit takes the samples of one scrape; it must not keep the slice. It is called from Run's
	// goroutine.
	Emit func([]schemas.Sample)
}

// Stats count what a scraper did.
type Stats struct {
	Scrapes  int64  `json:"scrapes"`              // that brought figures
	Failures int64  `json:"failures"`             // that did not
	LastErr  string `json:"last_error,omitempty"` // of the last failure
}

// A Scraper scrapes one server.
type Scraper struct {
	o      Options
	source string // the URL without anything secret
	raws   map[string]*string

	mu    sync.Mutex
	stats Stats
}

// New checks the options; the error names every problem.
func New(o Options) (*Scraper, error) {
	var problems []error
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		problems = append(problems, errors.New("scrape: the URL cannot be read")) // it may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		problems = append(problems, errors.New("scrape: the URL must begin with http:// or https:// and name a host"))
	}
	if o.Interval < 0 || o.Timeout < 0 || o.MaxBytes < 0 {
		problems = append(problems, errors.New("scrape: interval, timeout and size limit must not be negative"))
	}
	if o.Now == nil || o.Emit == nil {
		problems = append(problems, errors.New("scrape: Now and Emit are required"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return &Scraper{o: o, source: shown.String(), raws: map[string]*string{}}, nil
}

// Candidates gives the URLs under which a server may have its figures, by the base URL of its API, the
// usual one first. TensorRT-LLM has text only under /prometheus/metrics, and JSON under /metrics that
// needs a setting of the server.
func Candidates(base string) []string {
	u, err := url.Parse(base)
	if err != nil {
		return nil
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	u.RawQuery, u.Fragment = "", ""
	root := *u
	root.Path = ""
	urls := []string{root.String() + "/metrics"}
	if u.Path != "" {
		urls = append(urls, u.String()+"/metrics")
	}
	return append(urls, root.String()+"/prometheus/metrics")
}

// Find gives the first of the URLs that has figures of a known name now, "" with an error if none has.
func Find(ctx context.Context, o Options, urls []string) (string, error) {
	var problems []error
	o.Emit = func([]schemas.Sample) {}
	for _, u := range urls {
		o.URL = u
		s, err := New(o)
		if err != nil {
			return "", err
		}
		client, stop := s.client()
		_, err = s.scrape(ctx, client)
		stop()
		if err == nil {
			return u, nil
		}
		problems = append(problems, err)
	}
	return "", errors.Join(problems...)
}

// client makes the scraper's own HTTP client; stop lets go of its connections.
func (s *Scraper) client() (client *http.Client, stop func()) {
	stop = func() {}
	transport := s.o.Transport
	if transport == nil {
		own := &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:    1,
			MaxConnsPerHost:        1,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    s.o.Timeout,
			MaxResponseHeaderBytes: 256 << 10,
		}
		transport, stop = own, own.CloseIdleConnections
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, stop
}

// Run scrapes until ctx ends, at once and then at each interval, and makes one last scrape (bounded by
// the timeout) after that, so that counters have their final values. It returns when nothing of it is
// left running.
func (s *Scraper) Run(ctx context.Context) {
	client, stop := s.client()
	defer stop()
	tick := time.NewTicker(s.o.Interval) // a scrape that takes longer than the interval skips ticks
	defer tick.Stop()
	for {
		s.once(ctx, client)
		select {
		case <-ctx.Done():
			s.once(context.WithoutCancel(ctx), client)
			return
		case <-tick.C:
		}
	}
}

// once makes one scrape and books it.
func (s *Scraper) once(ctx context.Context, client *http.Client) {
	samples, err := s.scrape(ctx, client)
	if err != nil && ctx.Err() != nil {
		return // the run ended during the scrape: not the server's failure, and the last one follows
	}
	s.mu.Lock()
	if err != nil {
		s.stats.Failures++
		s.stats.LastErr = err.Error()
	} else {
		s.stats.Scrapes++
	}
	s.mu.Unlock()
	if len(samples) > 0 {
		s.o.Emit(samples)
	}
}

// scrape makes one scrape. Its moment is the middle between request and response.
func (s *Scraper) scrape(ctx context.Context, client *http.Client) ([]schemas.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.o.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: the request cannot be made", s.source)
	}
	for name, values := range s.o.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/json;q=0.9, */*;q=0.1")
	from := s.o.Now()
	resp, err := client.Do(req)
	if err != nil {
		var inner *url.Error // names the URL, which may hold a password
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("scrape %s: %w", s.source, err)
	}
	defer resp.Body.Close()
	at := from + (s.o.Now()-from)/2
	body, err := io.ReadAll(io.LimitReader(resp.Body, s.o.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("scrape %s: reading: %w", s.source, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("scrape %s: HTTP %d", s.source, resp.StatusCode)
	case int64(len(body)) > s.o.MaxBytes:
		return nil, fmt.Errorf("scrape %s: more than %d bytes", s.source, s.o.MaxBytes)
	}
	figures, err := parse(body)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", s.source, err)
	}
	samples := make([]schemas.Sample, len(figures))
	for i, f := range figures {
		raw := s.raws[f.raw]
		if raw == nil {
			raw = &f.raw
			s.raws[f.raw] = raw
		}
		samples[i] = schemas.Sample{TimeNS: at, Source: s.source, Name: f.name, Raw: raw, Value: f.value}
	}
	return samples, nil
}

// Stats may be called at any time.
func (s *Scraper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}
