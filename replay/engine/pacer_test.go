package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"parley/replay/internal/clock"
)

// BenchmarkPacerLateness reports how late the pacer fires on this machine, in microseconds.
func BenchmarkPacerLateness(b *testing.B) {
	clk := clock.New(time.Now())
	p := newPacer(clk)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	fired := make(chan struct{}, 1)
	var at atomic.Int64
	go func() {
		defer close(ended)
		p.run(ctx, func() (int64, bool) { return at.Load(), at.Load() != 0 }, func() {
			at.Store(0)
			fired <- struct{}{}
		})
	}()
	for range b.N {
		at.Store(clk.Now() + 2e6)
		p.wake(at.Load())
		<-fired
	}
	cancel()
	at.Store(1)
	p.wake(1)
	<-ended
	late := p.latenessMS(0.5, 0.99)
	b.ReportMetric(late[0]*1000, "p50-us")
	b.ReportMetric(late[1]*1000, "p99-us")
}
