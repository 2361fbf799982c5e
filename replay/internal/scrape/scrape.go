// Package scrape reads a server's own figures (GET /metrics) on an interval while a run goes on, and
// gives them names that are the same for every kind of server.
//
// It has a client of its own, and nothing that goes wrong here reaches the load: a scrape that fails is
// counted and skipped.
package scrape

import (
	"context"
	"net/http"
	"time"

	"parley/schemas"
)

// Options say what to scrape. URL, Now and Emit are required.
type Options struct {
	// URL is the figures' full URL, such as http://127.0.0.1:8000/metrics. See MetricsURL.
	URL string
	// Interval from the start of one scrape to that of the next; 0 means 1 s.
	Interval time.Duration
	// Timeout of one scrape; 0 means the smaller of 5 s and ten intervals.
	Timeout time.Duration
	// MaxBytes is the largest body that is read; 0 means 16 MiB.
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
	Scrapes  int64  `json:"scrapes"`              // that brought at least one figure
	Failures int64  `json:"failures"`             // that did not
	LastErr  string `json:"last_error,omitempty"` // of the last failure
}

// A Scraper scrapes one server.
type Scraper struct {
	o Options
}

// New checks the options.
func New(o Options) (*Scraper, error) { return &Scraper{o: o}, nil }

// Run scrapes until ctx ends, at once and then at each interval, and makes one last scrape (bounded by
// the timeout) after that, so that counters have their final values. It returns when nothing of it is
// left running.
func (s *Scraper) Run(ctx context.Context) {}

// Stats may be called at any time.
func (s *Scraper) Stats() Stats { return Stats{} }
