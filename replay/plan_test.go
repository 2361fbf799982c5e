package replay

import (
	"fmt"
	"math"
	"testing"
	"time"

	"parley/replay/load"
	"parley/schemas"
)

// TestPlan holds the play against the engine itself, with a server in virtual time that takes what Plan
// assumes.
func TestPlan(t *testing.T) {
	family := talks(6, 4, 2*time.Second)
	parent, turn := "c0", int64(1)
	for i := range family[3:] {
		c := &family[3+i]
		delay := 700 + 50*float64(i)
		c.ParentID, c.ParentTurn, c.ParentDelayMS = &parent, &turn, &delay
	}
	tests := []struct {
		name  string
		cfg   Config
		convs []schemas.Conversation
	}{
		{"closed loop", Config{Concurrency: 3}, talks(20, 4, 1300*time.Millisecond)},
		{"ramp", Config{Concurrency: 5, Ramp: 7 * time.Second}, talks(20, 4, 0)},
		{"requests", Config{Concurrency: 4, Requests: 50}, talks(20, 4, 0)},
		{"duration", Config{Concurrency: 4, Duration: 33 * time.Second}, talks(20, 4, 100*time.Millisecond)},
		{"stagger", Config{Concurrency: 8, Stagger: true}, talks(30, 9, 0)},
		{"open loop", Config{Rate: rate(3), Seed: 9}, talks(60, 3, 800*time.Millisecond)},
		{"open loop, capped", Config{Rate: rate(3), MaxConversations: 5}, talks(60, 3, 800*time.Millisecond)},
		{"open loop, shed", Config{Rate: rate(3), MaxConversations: 5, WhenFull: "shed"}, talks(60, 3, 800*time.Millisecond)},
		{"open loop, requests capped", Config{Rate: rate(2), MaxInFlight: 3}, talks(40, 3, 800*time.Millisecond)},
		{"shard", Config{Rate: rate(6), Shard: "1/3"}, talks(60, 3, 0)},
		{"parents and children", Config{Concurrency: 5}, family},
		{"stages of conversations", Config{ConcurrencyStages: []load.Stage{{Level: 2, For: 15 * time.Second}, {Level: 7, For: 15 * time.Second}, {Level: 3, For: 10 * time.Second}}}, talks(20, 4, 700*time.Millisecond)},
		{"stages of rate", Config{RateStages: []load.Stage{{Level: 1, For: 15 * time.Second}, {Level: 5, For: 15 * time.Second}}, Seed: 2}, talks(20, 4, 700*time.Millisecond)},
		{"a minimum of time", Config{Concurrency: 4, Requests: 20, MinDuration: 33 * time.Second}, talks(20, 4, 0)},
		{"deadline", Config{Concurrency: 4, Deadline: 7 * time.Second}, talks(20, 4, 0)},
		{"grace", Config{Concurrency: 4, Duration: 7 * time.Second, Grace: 100 * time.Millisecond}, talks(20, 4, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Ends of requests never coincide with other moments: at such ties the two may differ.
			for i := range tt.convs {
				n := int64(10 + i)
				for j := range tt.convs[i].Turns {
					tt.convs[i].Turns[j].OutputTokens = &n
				}
			}
			r := trial{cfg: tt.cfg, convs: tt.convs}
			r.server.answer = func(id string, turn int64, row *schemas.Request) time.Duration {
				return 500*time.Millisecond + time.Duration(*row.OutputTokensAsked-1)*20*time.Millisecond
			}
			r.run(t)
			if r.err != nil {
				t.Fatal(r.err)
			}
			cfg, err := r.cfg.settle()
			if err != nil {
				t.Fatal(err)
			}
			s := rehearsed(t, cfg, tt.convs)
			sent, shed, tokens := int64(0), int64(0), int64(0)
			for _, row := range r.rows {
				switch {
				case schemas.Status(row.Status).Sent():
					sent++
					tokens += *row.OutputTokensAsked
				case row.Status == string(schemas.StatusShed) && row.Turn == 0:
					shed++
				}
			}
			got := fmt.Sprint(s.Turns, s.Shed, s.OutputTokens, s.MostRequests, s.MostActive)
			want := fmt.Sprint(sent, shed, tokens, r.server.most, r.e.Totals().MostActive)
			if got != want {
				t.Errorf("turns, shed, tokens, most requests, most conversations: %s, in the run %s", got, want)
			}
			if d := (s.Length - r.took).Abs(); d > time.Millisecond {
				t.Errorf("%v long, the run was %v", s.Length, r.took)
			}
			if bounded := cfg.rules.Bounded(); bounded != (s.Planned == 0) || !bounded && s.Planned != int64(len(r.rows)) {
				t.Errorf("planned %d, %d rows", s.Planned, len(r.rows))
			}
		})
	}
}

func rehearsed(t *testing.T, cfg *settled, convs []schemas.Conversation) *Shape {
	t.Helper()
	data := memoryDataset(convs)
	x, err := load.Survey("memory", data.Outlines, &cfg.rules)
	if err != nil {
		t.Fatal(err)
	}
	s, err := load.Rehearse(x, &cfg.rules, data.Outlines, cfg.outputTokens, planMost)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlanArrivals(t *testing.T) {
	cfg, err := Config{Dataset: "memory", Output: "none", URLs: []string{"http://none"}, Rate: rate(20), Think: "none"}.settle()
	if err != nil {
		t.Fatal(err)
	}
	s := rehearsed(t, cfg, talks(20_000, 1, 0))
	if math.Abs(s.ArrivalRate-20) > 0.6 || math.Abs(s.Dispersion-1) > 0.2 || s.BusiestSecond < 30 || s.BusiestSecond > 50 {
		t.Errorf("rate %v, dispersion %v, busiest second %d", s.ArrivalRate, s.Dispersion, s.BusiestSecond)
	}
	// Little's law: requests in flight are the rate times the time of one.
	if want := 20 * 0.68; math.Abs(s.MeanRequests-want) > 0.05*want {
		t.Errorf("%v requests in flight in the mean, want %v", s.MeanRequests, want)
	}
}
