// Package scrape reads a server's own figures (GET /metrics) on an interval while a run goes on, and
// gives them names that are the same for every kind of server.
//
// It asks through the client that the run has for the server, so what the load reaches (by its own certificates, a
// Unix socket, a proxy) the scrapes reach, too. Nothing that goes wrong here reaches the load: a scrape that fails is
// counted and skipped.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"parley/schemas"
)

// Options say what to scrape. Fetch, Path, Source, Now and Emit are required.
type Options struct {
	// Fetch makes a request to the server, as wire.Client's does: its errors hold no secret, and what it reads is
	// bounded.
	Fetch func(ctx context.Context, method, path string, body []byte) (status int, header http.Header, response []byte, err error)
	// Path of the figures on the server, such as /metrics. See [Candidates].
	Path string
	// Source is what samples and errors call the server: its URL without anything secret.
	Source string
	// Interval from the start of one scrape to that of the next; 0 means 1 s.
	Interval time.Duration
	// Timeout of one scrape; 0 means 5 s.
	Timeout time.Duration
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
	source string // with the path
	raws   map[string]*string

	mu    sync.Mutex
	stats Stats
}

// New gives a scraper.
func New(o Options) *Scraper {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	shown, _, _ := strings.Cut(o.Path, "?")
	return &Scraper{o: o, source: o.Source + shown, raws: map[string]*string{}}
}

// Candidates gives the paths under which a server may have its figures, by the path of its API's base URL, the
// usual one first. TensorRT-LLM has text only under /prometheus/metrics, and JSON under /metrics that
// needs a setting of the server.
func Candidates(base string) []string {
	paths := []string{"/metrics"}
	if base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1"); base != "" {
		paths = append(paths, base+"/metrics")
	}
	return append(paths, "/prometheus/metrics")
}

// moved is the error of a path that redirects.
type moved struct {
	status int
	to     *url.URL // nil: nowhere
}

func (m *moved) Error() string {
	if m.to == nil {
		return fmt.Sprintf("HTTP %d", m.status)
	}
	public := url.URL{Scheme: m.to.Scheme, Host: m.to.Host, Path: m.to.Path} // without user, query and fragment
	return fmt.Sprintf("HTTP %d to %s", m.status, public.String())
}

// Find gives the first of the paths that has figures of a known name now, "" with an error if none has. A path
// that redirects to another one of the same server (LiteLLM's /metrics, to /metrics/) stands for that one.
func Find(ctx context.Context, o Options, paths []string) (string, error) {
	var problems []error
	for _, path := range paths {
		for range 3 { // no ring of redirects
			o.Path = path
			_, err := New(o).scrape(ctx)
			if err == nil {
				return path, nil
			}
			problems = append(problems, err)
			var m *moved
			if !errors.As(err, &m) || m.to == nil || m.to.Host != "" && !strings.HasSuffix(o.Source, "://"+m.to.Host) {
				break
			}
			path = m.to.RequestURI()
		}
	}
	return "", errors.Join(problems...)
}

// Run scrapes until ctx ends, at once and then at each interval, and makes one last scrape (bounded by
// the timeout) after that, so that counters have their final values. It returns when nothing of it is
// left running.
func (s *Scraper) Run(ctx context.Context) {
	tick := time.NewTicker(s.o.Interval) // a scrape that takes longer than the interval skips ticks
	defer tick.Stop()
	for {
		s.once(ctx)
		select {
		case <-ctx.Done():
			s.once(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

// once makes one scrape and books it.
func (s *Scraper) once(ctx context.Context) {
	samples, err := s.scrape(ctx)
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
func (s *Scraper) scrape(ctx context.Context) ([]schemas.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	from := s.o.Now()
	status, header, body, err := s.o.Fetch(ctx, http.MethodGet, s.o.Path, nil)
	at := from + (s.o.Now()-from)/2
	if err == nil && status != http.StatusOK {
		m := &moved{status: status}
		if place := header.Get("Location"); place != "" && status >= 300 && status < 400 {
			m.to, _ = url.Parse(place)
		}
		err = m
	}
	var figures []figure
	if err == nil {
		figures, err = parse(body)
	}
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
