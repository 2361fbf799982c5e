package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"parley/schemas"
)

// Progress is how far a run has come. Its percentiles are for looking at: they come from a histogram
// with an error of up to 0.1 %, over all turns since the start; analyze gives the exact ones.
type Progress struct {
	Elapsed       time.Duration
	Done          int64 // rows there are: turns ended, shed or not reached
	Planned       int64 // turns planned; in a run that a budget stops, Requests, or 0 if only a Duration does
	Started       int64
	InFlight      int64 // requests
	Active        int64 // conversations that hold a place, in think time too
	Errors        int64 // turns that failed
	RequestsPerS  float64
	TokensPerS    float64 // output tokens of the turns that ended
	TTFTs         int64   // turns that the percentiles of TTFT are of
	TTFTP50       time.Duration
	TTFTP99       time.Duration
	SendLagP99    time.Duration
	Backlog       int64 // rows that wait for the journal
	Stopping      string
	CountByStatus map[schemas.Status]int64
}

// tally counts rows as the collector writes them, away from the streams.
type tally struct {
	mu     sync.Mutex
	counts map[schemas.Status]int64
	rows   int64
	failed int64
	sent   int64
	tokens int64
	ttft   *hdrhistogram.Histogram // microseconds
	tpot   *hdrhistogram.Histogram
	lag    *hdrhistogram.Histogram
	marks  []mark // one a second, the oldest first
}

// mark is what the counts were at a moment.
type mark struct {
	at           int64
	sent, tokens int64
}

const markSeconds = 5 // the time over which a progress line's rates go

func newTally() *tally {
	const hour = 3600 * 1000 * 1000
	return &tally{
		counts: map[schemas.Status]int64{},
		ttft:   hdrhistogram.New(1, hour, 3),
		tpot:   hdrhistogram.New(1, hour, 3),
		lag:    hdrhistogram.New(1, hour, 3),
	}
}

func (t *tally) add(row *schemas.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	status := schemas.Status(row.Status)
	t.counts[status]++
	t.rows++
	if status.Failed() {
		t.failed++
	}
	if status.Sent() {
		t.sent++
	}
	if row.CompletionTokens != nil {
		t.tokens += *row.CompletionTokens
	}
	if row.TTFTMS != nil {
		_ = t.ttft.RecordValue(int64(*row.TTFTMS * 1000)) // out of range: not worth a word here
	}
	if row.TPOTMS != nil {
		_ = t.tpot.RecordValue(int64(*row.TPOTMS * 1000))
	}
	if row.SendLagMS != nil {
		_ = t.lag.RecordValue(max(0, int64(*row.SendLagMS*1000)))
	}
}

// tick remembers the counts for the rates; it is called once a second.
func (t *tally) tick(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marks = append(t.marks, mark{now, t.sent, t.tokens})
	if n := len(t.marks) - markSeconds; n > 0 {
		t.marks = append(t.marks[:0], t.marks[n:]...)
	}
}

// fill writes what the tally knows into p.
func (t *tally) fill(p *Progress, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Done, p.Errors = t.rows, t.failed
	p.CountByStatus = maps.Clone(t.counts)
	since := mark{}
	if len(t.marks) > 0 {
		since = t.marks[0]
	}
	if d := float64(now-since.at) / 1e9; d > 0 {
		p.RequestsPerS = float64(t.sent-since.sent) / d
		p.TokensPerS = float64(t.tokens-since.tokens) / d
	}
	us := func(h *hdrhistogram.Histogram, q float64) time.Duration {
		return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond
	}
	p.TTFTs = t.ttft.TotalCount()
	p.TTFTP50, p.TTFTP99, p.SendLagP99 = us(t.ttft, 50), us(t.ttft, 99), us(t.lag, 99)
}

func (t *tally) snapshot() (counts map[schemas.Status]int64, rows int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts), t.rows
}

// pace gives the medians of the time to first token and per token.
func (t *tally) pace() Pace {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Pace{float64(t.ttft.ValueAtQuantile(50)) / 1000, float64(t.tpot.ValueAtQuantile(50)) / 1000}
}

// lagP99 gives the 99th percentile of the send lag so far, in milliseconds.
func (t *tally) lagP99() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.lag.ValueAtQuantile(99)) / 1000
}
