package engine

import (
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"parley/replay/internal/clock"
)

// The pacer fires at the scheduler's moments. A timer of the Go runtime wakes about 1 ms late on Linux, which
// is as long as a fast server's answer; clock.SleepUntil on a thread of its own comes within about 0.1
// ms. It cannot be interrupted, so the pacer waits in two steps: by an ordinary timer, which a new
// earlier time can cut short, until shortly before the next time, and then in small pieces of precise
// sleep, so that a new earlier time is late by at most one piece.
const (
	pacerFine  = 2500 * time.Microsecond // from here on precise: more than an ordinary timer's lateness
	pacerPiece = 200 * time.Microsecond
)

type pacer struct {
	clk  *clock.Clock
	kick chan struct{} // a new earliest moment while the pacer waits by the ordinary timer

	mu       sync.Mutex
	coarse   int64                   // the moment for which the pacer waits by the ordinary timer, else 0
	lateness *hdrhistogram.Histogram // of firing against the moment, in microseconds
}

func newPacer(clk *clock.Clock) *pacer {
	return &pacer{clk: clk, kick: make(chan struct{}, 1), lateness: hdrhistogram.New(1, 60_000_000, 3)}
}

// wake tells that something is due at a moment, perhaps earlier than what the pacer waits for.
func (p *pacer) wake(at int64) {
	p.mu.Lock()
	kick := p.coarse != 0 && at < p.coarse
	if kick {
		p.coarse = 0
	}
	p.mu.Unlock()
	if kick {
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

// run calls fire at each moment that next gives, until ctx ends.
func (p *pacer) run(ctx context.Context, next func() (int64, bool), fire func()) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		p.mu.Lock()
		p.coarse = math.MaxInt64 // from here on whoever has something earlier kicks
		p.mu.Unlock()
		now := p.clk.Now()
		at, ok := next()
		wait := int64(time.Hour)
		if ok {
			wait = at - now
		}
		switch {
		case wait <= 0:
			p.mu.Lock()
			_ = p.lateness.RecordValue(-wait / 1000) // above a minute: the last bucket is not needed
			p.mu.Unlock()
			fire()
			runtime.Gosched() // what was started runs on this processor, which is awake
			continue
		case wait <= int64(pacerFine):
			p.clk.SleepUntil(now + min(wait, int64(pacerPiece)))
			continue
		}
		p.mu.Lock()
		waits := p.coarse != 0
		if waits {
			p.coarse = now + wait
		}
		p.mu.Unlock()
		if !waits {
			continue // it was kicked meanwhile
		}
		timer.Reset(time.Duration(wait - int64(pacerFine)))
		select {
		case <-timer.C:
		case <-p.kick:
		case <-ctx.Done():
		}
	}
}

// latenessMS gives quantiles of how late the pacer fired, in milliseconds.
func (p *pacer) latenessMS(quantiles ...float64) []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]float64, len(quantiles))
	for i, q := range quantiles {
		out[i] = float64(p.lateness.ValueAtQuantile(q*100)) / 1000
	}
	return out
}
