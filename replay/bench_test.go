package replay

import (
	"context"
	"testing"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/schemas"
)

// instant is a session whose requests take no time.
type instant struct{ clk *clock.Clock }

func (s *instant) Append(schemas.Message) error { return nil }
func (s *instant) AppendAnswer(api.Answer, *schemas.Message) (bool, error) {
	return true, nil
}
func (s *instant) Close() {}
func (s *instant) Do(_ context.Context, _ turnRequest, row *schemas.Request) api.Answer {
	now := s.clk.Now()
	row.StartNS, row.SentNS, row.DoneNS = &now, &now, &now
	row.Status = string(schemas.StatusOK)
	return api.Answer{}
}

// BenchmarkTurn is what the engine itself costs for each turn: schedule, limits, row, hand-over.
func BenchmarkTurn(b *testing.B) {
	for name, cfg := range map[string]Config{
		"closed":  {Concurrency: 100},
		"limited": {Concurrency: 100, MaxInFlight: 50},
	} {
		b.Run(name, func(b *testing.B) {
			const turns = 20
			cfg.Dataset, cfg.Output, cfg.URLs = "memory", "none", []string{"http://none"}
			cfg.Requests = int64(b.N)
			s, err := cfg.settle()
			if err != nil {
				b.Fatal(err)
			}
			x, err := survey(memoryDataset(talks(1000, turns, 0)), false)
			if err != nil {
				b.Fatal(err)
			}
			clk := clock.New(time.Now())
			e, done := newEngine(context.Background(), s, x, clk, &discard{b.TempDir()})
			defer done()
			e.targets = []schemas.Target{{URL: "http://none"}}
			e.open = func(*conversation) (session, error) { return &instant{clk}, nil }
			b.ReportAllocs()
			b.ResetTimer()
			if err := e.run(context.Background(), nil); err != nil {
				b.Fatal(err)
			}
			if err := e.out.close(time.Minute); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// discard is a store that forgets.
type discard struct{ dir string }

func (d *discard) Dir() string                            { return d.dir }
func (d *discard) AppendRequests([]schemas.Request) error { return nil }
func (d *discard) AppendSamples([]schemas.Sample) error   { return nil }

// BenchmarkPacerAdd is the cost of a think time's registration among 10,000 others.
func BenchmarkPacerAdd(b *testing.B) {
	p := newPacer(clock.New(time.Now()))
	w := newWaiter()
	for i := range 10_000 {
		p.add(int64(time.Hour)+int64(i*7919%10_000), w)
	}
	b.ReportAllocs()
	for i := range b.N {
		p.add(int64(time.Hour)+int64(i%10_000), w)
		p.mu.Lock()
		p.times = p.times[:10_000]
		p.mu.Unlock()
	}
}

// BenchmarkPacerLateness reports how late the pacer fires on this machine, in microseconds.
func BenchmarkPacerLateness(b *testing.B) {
	clk := clock.New(time.Now())
	p := newPacer(clk)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.run(ctx) }()
	w := newWaiter()
	for range b.N {
		p.add(clk.Now()+2e6, w)
		<-w.fired
	}
	cancel()
	p.add(clk.Now(), w) // wakes it
	<-ended
	late := p.latenessMS(0.5, 0.99)
	b.ReportMetric(late[0]*1000, "p50-us")
	b.ReportMetric(late[1]*1000, "p99-us")
}
