package replay

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"parley/replay/internal/clock"
)

// The pacer fires waiters at their time. A timer of the Go runtime wakes about 1 ms late on Linux, which
// is as long as a fast server's answer; clock.SleepUntil on a thread of its own comes within about 0.1
// ms. It cannot be interrupted, so the pacer waits in two steps: by an ordinary timer, which a new
// earlier time can cut short, until shortly before the next time, and then in small pieces of precise
// sleep, so that a new earlier time is late by at most one piece.
const (
	pacerFine  = 2500 * time.Microsecond // from here on precise: more than an ordinary timer's lateness
	pacerPiece = 200 * time.Microsecond
)

// firer is what a pacer fires: a conversation's waiter, or a place that opens.
type firer interface{ fire(at int64) }

type pacer struct {
	clk  *clock.Clock
	kick chan struct{} // a new earliest time while the pacer waits by the ordinary timer

	mu       sync.Mutex
	times    dueHeap
	seq      uint64
	coarse   int64                   // the ordinary timer's end while the pacer waits by it, else 0
	lateness *hdrhistogram.Histogram // of firing against the time, in microseconds
}

func newPacer(clk *clock.Clock) *pacer {
	return &pacer{clk: clk, kick: make(chan struct{}, 1), lateness: hdrhistogram.New(1, 60_000_000, 3)}
}

// add has f fired at the time due. Times that are due together are fired in the order of their adding.
func (p *pacer) add(due int64, f firer) {
	p.mu.Lock()
	p.seq++
	heap.Push(&p.times, dueEntry{due: due, seq: p.seq, f: f})
	kick := p.coarse != 0 && due < p.coarse
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

// next gives the earliest time that waits, and whether there is one.
func (p *pacer) next() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.times) == 0 {
		return 0, false
	}
	return p.times[0].due, true
}

// run fires until ctx ends.
func (p *pacer) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := p.clk.Now()
		p.mu.Lock()
		fired := false
		for len(p.times) > 0 && p.times[0].due <= now {
			fired = true
			e := heap.Pop(&p.times).(dueEntry)
			_ = p.lateness.RecordValue((now - e.due) / 1000) // above a minute: the last bucket is not needed
			p.mu.Unlock()
			e.f.fire(e.due)
			p.mu.Lock()
		}
		if fired {
			p.mu.Unlock()
			runtime.Gosched()
			now = p.clk.Now()
			p.mu.Lock()
		}
		wait := int64(time.Hour)
		if len(p.times) > 0 {
			wait = p.times[0].due - now
		}
		if wait <= int64(pacerFine) {
			p.mu.Unlock()
			p.clk.SleepUntil(now + min(wait, int64(pacerPiece)))
			continue
		}
		wait -= int64(pacerFine)
		p.coarse = now + wait + int64(pacerFine)
		p.mu.Unlock()
		timer.Reset(time.Duration(wait))
		select {
		case <-timer.C:
		case <-p.kick:
		case <-ctx.Done():
		}
		p.mu.Lock()
		p.coarse = 0
		p.mu.Unlock()
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

type dueEntry struct {
	due int64
	seq uint64
	f   firer
}

type dueHeap []dueEntry

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].seq < h[j].seq
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return e
}
