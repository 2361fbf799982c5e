// Package observe tells others how a run goes: a page for Prometheus while it goes on ([Page]), and spans and
// histograms of its turns to a receiver of OpenTelemetry ([Exporter]).
//
// Both are fed with rows by the goroutine that writes the journal, after the turn. Nothing that goes wrong here
// reaches the load: a receiver that refuses or hangs costs what it was sent, which is counted and told at the end.
package observe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/schemas"
)

// State is how far a run is.
type State struct {
	Planned  int64 // turns; 0 if only a time ends the run
	InFlight int64 // requests
	Active   int64 // conversations that hold a place
	Backlog  int64 // rows that wait for the journal
}

// Page is a run's figures in the text format of Prometheus.
type Page struct {
	runID    string
	listener net.Listener
	server   *http.Server
	done     chan struct{}

	mu     sync.Mutex
	state  func() State // nil before the load begins
	turns  map[schemas.Status]uint64
	failed uint64
	input  uint64
	output uint64
	times  []*histogram // as pageTimes
}

// pageTimes are the latencies of the page, in seconds.
var pageTimes = []struct {
	name, help string
	of         func(row *schemas.Request) (float64, bool)
}{
	{"parley_ttft_seconds", "Time to first token, from sent.", func(r *schemas.Request) (float64, bool) { return seconds(r.SentNS, r.FirstTokenNS) }},
	{"parley_e2e_seconds", "From sent to the last token.", func(r *schemas.Request) (float64, bool) { return seconds(r.SentNS, r.LastTokenNS) }},
	{"parley_tpot_seconds", "Time per output token after the first chunk.", func(r *schemas.Request) (float64, bool) {
		if r.TPOTMS == nil {
			return 0, false
		}
		return *r.TPOTMS / 1e3, true
	}},
	{"parley_send_lag_seconds", "How late turns went: sent - scheduled.", func(r *schemas.Request) (float64, bool) { return seconds(r.ScheduledNS, r.SentNS) }},
}

// pageBounds go from a tenth of a millisecond to three minutes.
var pageBounds = []float64{
	.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 180,
}

// Listen serves the page at an address, such as :9100 or 127.0.0.1:0, under /metrics.
func Listen(address, runID string) (*Page, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Page{runID: runID, listener: l, turns: map[schemas.Status]uint64{}, done: make(chan struct{})}
	for range pageTimes {
		p.times = append(p.times, newHistogram(pageBounds))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = p.write(w) // whoever asked is gone
	})
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	go func() {
		defer close(p.done)
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return // the page is gone, the run goes on
		}
	}()
	return p, nil
}

// Address gives where the page is.
func (p *Page) Address() string { return "http://" + p.listener.Addr().String() + "/metrics" }

// Follow says where the run's state comes from, once its load begins.
func (p *Page) Follow(state func() State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
}

// Row counts a row.
func (p *Page) Row(row *schemas.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := schemas.Status(row.Status)
	p.turns[status]++
	if status.Failed() {
		p.failed++
	}
	if row.PromptTokens != nil {
		p.input += uint64(max(0, *row.PromptTokens))
	}
	if row.CompletionTokens != nil {
		p.output += uint64(max(0, *row.CompletionTokens))
	}
	for i, t := range pageTimes {
		if v, ok := t.of(row); ok {
			p.times[i].add(v)
		}
	}
}

// Close ends the page.
func (p *Page) Close() {
	_ = p.server.Close()
	<-p.done
}

func (p *Page) write(to io.Writer) error {
	p.mu.Lock()
	state, turns, bad, input, output := p.state, maps.Clone(p.turns), p.failed, p.input, p.output
	times := make([]*histogram, len(p.times))
	for i, h := range p.times {
		times[i] = h.clone()
	}
	p.mu.Unlock()
	now := State{}
	if state != nil {
		now = state() // it has locks of its own
	}
	w := bufio.NewWriter(to)
	run := `run="` + label(p.runID) + `"`
	family := func(name, kind, help string) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	one := func(name, kind, help string, value uint64) {
		family(name, kind, help)
		fmt.Fprintf(w, "%s{%s} %d\n", name, run, value)
	}
	one("parley_turns_planned", "gauge", "Turns planned; 0 if only a time ends the run.", uint64(max(0, now.Planned)))
	family("parley_turns_total", "counter", "Turns that are done, by how they ended.")
	for _, s := range slices.Sorted(maps.Keys(turns)) {
		fmt.Fprintf(w, "parley_turns_total{%s,status=%q} %d\n", run, s, turns[s])
	}
	one("parley_turns_failed_total", "counter", "Turns that failed by the server or the way to it.", bad)
	one("parley_requests_in_flight", "gauge", "Requests under way.", uint64(max(0, now.InFlight)))
	one("parley_conversations_active", "gauge", "Conversations that hold a place, in think time too.", uint64(max(0, now.Active)))
	one("parley_rows_waiting", "gauge", "Rows that wait for the journal.", uint64(max(0, now.Backlog)))
	family("parley_tokens_total", "counter", "Tokens of the turns that are done.")
	fmt.Fprintf(w, "parley_tokens_total{%s,type=\"input\"} %d\nparley_tokens_total{%s,type=\"output\"} %d\n", run, input, run, output)
	for i, t := range pageTimes {
		family(t.name, "histogram", t.help)
		h, sum := times[i], uint64(0)
		for b, n := range h.counts {
			sum += n
			le := "+Inf"
			if b < len(h.bounds) {
				le = strconv.FormatFloat(h.bounds[b], 'g', -1, 64)
			}
			fmt.Fprintf(w, "%s_bucket{%s,le=%q} %d\n", t.name, run, le, sum)
		}
		fmt.Fprintf(w, "%s_sum{%s} %g\n%s_count{%s} %d\n", t.name, run, h.sum, t.name, run, h.n)
	}
	return w.Flush()
}

// label writes a text as the value of a label.
func label(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
