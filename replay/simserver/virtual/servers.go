package virtual

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"parley/replay/load"
	"parley/replay/simserver/batch"
	"parley/schemas"
)

// Server is an engine with the load that is put on it and what is asked of it.
type Server struct {
	Name   string
	Engine batch.Config
	Chats  Shape
	Open   bool // loads are conversations that start per second; else conversations at once

	Objective
	// From and To bound the loads in question, and Grid is the ratio of one open load to the next.
	From, To, Grid float64
}

// Objective asks that a share of turns have a figure of at most Limit.
type Objective struct {
	Figure string        // ttft (from the scheduled moment in an open loop, from the sent one in a closed one) or tpot
	Share  float64       // 0.95 for a p95
	Limit  time.Duration //
}

// String has the form of an objective's flag, such as ttft.p95<500ms.
func (o Objective) String() string {
	return fmt.Sprintf("%s.p%v<%v", o.Figure, math.Round(o.Share*1e6)/1e4, o.Limit)
}

// Warm is the time at the beginning of a run whose turns do not count: places fill and the cache does.
const Warm = 30 * time.Second

// conversations is the size of a server's dataset: no run of ten minutes comes to its end.
const conversations = 4000

// datasets holds each server's, which all its runs share.
var datasets sync.Map

// Dataset gives the server's conversations.
func (s *Server) Dataset() *Conversations {
	make := sync.OnceValue(func() *Conversations { return s.Chats.Make(1, conversations) })
	v, _ := datasets.LoadOrStore(s.Chats, make)
	return v.(func() *Conversations)()
}

// Rules gives a run's load of a level.
func (s *Server) Rules(level float64, seed uint64, length time.Duration) load.Rules {
	r := load.Rules{Think: load.Scale{Factor: 1}, Tool: load.Scale{Factor: 1}, Duration: length, Grace: -1, CountGrace: -1, Shards: 1, Seed: seed}
	if s.Open {
		r.Rate, r.Arrivals = []load.Stage{{Level: level}}, "poisson"
	} else {
		r.Concurrency, r.Ramp = []load.Stage{{Level: level}}, Warm/2
	}
	return r
}

// Play makes a run of a level in a mood, which all chance of the run derives from. Every turn that starts within
// the length is answered to its end.
func (s *Server) Play(level float64, mood uint64, length time.Duration) (*Run, error) {
	e := s.Engine
	e.Seed = mood
	return s.Dataset().Play(s.Rules(level, mood, length), e)
}

// Met gives the share of a run's turns that meet the objective, of those that were scheduled from a moment on.
func (s *Server) Met(rows []schemas.Request, since time.Duration) float64 {
	met, all := 0, 0
	for i := range rows {
		r := &rows[i]
		if r.ScheduledNS == nil || *r.ScheduledNS < int64(since) || r.FirstTokenNS == nil {
			continue
		}
		var v float64 // ms
		switch {
		case s.Figure == "tpot" && r.TPOTMS == nil:
			continue
		case s.Figure == "tpot":
			v = *r.TPOTMS
		case s.Open:
			v = float64(*r.FirstTokenNS-*r.ScheduledNS) / 1e6
		default:
			v = *r.TTFTMS
		}
		all++
		if v <= s.Limit.Seconds()*1e3 {
			met++
		}
	}
	return float64(met) / float64(max(all, 1))
}

// Level is what many moods came to at a load.
type Level struct {
	Load  float64 `json:"load"`
	Moods int     `json:"moods"`
	Met   float64 `json:"met"`   // mean over moods of the share of turns that meet the objective
	SE    float64 `json:"se"`    // standard error of that mean
	First float64 `json:"first"` // the share in the first mood: whoever scans this load anew finds it
}

// Loads gives the loads in question, in order.
func (s *Server) Loads() []float64 {
	var out []float64
	if !s.Open {
		for n := s.From; n <= s.To; n++ {
			out = append(out, n)
		}
		return out
	}
	for k, v := 0, s.From; v <= s.To; k++ {
		out = append(out, v)
		v = s.From * math.Pow(s.Grid, float64(k+1))
	}
	return out
}

// Scan plays loads, each in the same moods, on all processors.
func (s *Server) Scan(loads []float64, moods int, length time.Duration) ([]Level, error) {
	out := make([]Level, len(loads))
	shares := make([][]float64, len(loads))
	errs := make(chan error, 1)
	var wg sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, l := range loads {
		shares[i] = make([]float64, moods)
		for m := range moods {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				run, err := s.Play(l, uint64(m)+1, length)
				if err != nil {
					select {
					case errs <- err:
					default:
					}
					return
				}
				shares[i][m] = s.Met(run.Rows, Warm)
			})
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	for i, list := range shares {
		var sum, sq float64
		for _, v := range list {
			sum += v
			sq += v * v
		}
		n := float64(moods)
		mean := sum / n
		out[i] = Level{Load: loads[i], Moods: moods, Met: mean, SE: math.Sqrt(max(0, sq/n-mean*mean) / max(1, n-1)), First: list[0]}
	}
	return out, nil
}

// Truth is what is known of a server.
type Truth struct {
	Objective string  `json:"objective"`
	Levels    []Level `json:"levels"` // in order of the load
}

// Capacity gives the largest load that holds with all smaller ones, 0 if none does; and the loads between which the
// scan cannot tell it from there: those of the last level that holds, and the first that fails, by two standard errors.
func (s *Server) Capacity(levels []Level) (capacity, low, high float64) {
	held, sure, failed := true, true, false
	for _, l := range levels {
		if l.Met < s.Share {
			held = false
		}
		if held {
			capacity = l.Load
		}
		if l.Met-2*l.SE < s.Share {
			sure = false
		}
		if sure {
			low = l.Load
		}
		if !failed {
			high = l.Load
			failed = l.Met+2*l.SE < s.Share
		}
	}
	return capacity, low, high
}

//go:embed testdata/capacity.json
var known []byte

// Known gives the scan of a server of [Servers], and its capacity.
func (s *Server) Known() (levels []Level, capacity, low, high float64, err error) {
	var all map[string]Truth
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, 0, 0, 0, fmt.Errorf("virtual: testdata/capacity.json: %w", err)
	}
	t, ok := all[s.Name]
	if !ok {
		return nil, 0, 0, 0, fmt.Errorf("virtual: %s is not in testdata/capacity.json: scan it", s.Name)
	}
	capacity, low, high = s.Capacity(t.Levels)
	return t.Levels, capacity, low, high, nil
}

// Servers gives servers that saturate in different ways: by slots, by their prefill, by a cliff of the cache, and
// smoothly; in closed and open loops; one with workers apart and one that guesses.
func Servers() []Server {
	chats := Shape{Turns: 4, System: 160, First: 400, Later: 200, Output: 150, Sigma: 0.7, Think: 3 * time.Second}
	prompts := Shape{Turns: 2, First: 3000, Later: 1500, Output: 40, Sigma: 0.6, Think: 3 * time.Second}
	long := Shape{Turns: 5, First: 1200, Later: 300, Output: 250, Sigma: 0.6, Think: 4 * time.Second}
	moods := func(c batch.Config) batch.Config {
		c.BlockSize, c.Mood, c.Drift, c.DriftTime, c.Jitter = 16, 0.03, 0.05, 20*time.Second, 0.1
		return c
	}
	slots := moods(batch.Config{Step: 8 * time.Millisecond, PerSequence: 50 * time.Microsecond, PerToken: 20 * time.Microsecond, Sequences: 32, Budget: 8192, Blocks: 40000})
	prefill := moods(batch.Config{Step: 8 * time.Millisecond, PerSequence: 50 * time.Microsecond, PerToken: 30 * time.Microsecond, Sequences: 256, Budget: 4096, Blocks: 60000, NoSharing: true})
	cliff := moods(batch.Config{Step: 8 * time.Millisecond, PerSequence: 50 * time.Microsecond, PerToken: 60 * time.Microsecond, Sequences: 256, Budget: 4096, Blocks: 6000})
	smooth := moods(batch.Config{Step: 8 * time.Millisecond, PerSequence: 400 * time.Microsecond, PerToken: 20 * time.Microsecond, Sequences: 256, Budget: 2048, Blocks: 60000})
	apart, guesses := prefill, smooth
	apart.Prefillers, apart.Transfer = 1, 2*time.Microsecond
	guesses.Draft, guesses.Accept = 3, 0.6
	return []Server{
		{Name: "slots", Engine: slots, Chats: chats, Objective: Objective{"ttft", 0.95, 500 * time.Millisecond}, From: 1, To: 200},
		{Name: "slots-open", Engine: slots, Chats: chats, Open: true, Objective: Objective{"ttft", 0.95, 500 * time.Millisecond}, From: 1, To: 20, Grid: 1.03},
		{Name: "prefill", Engine: prefill, Chats: prompts, Objective: Objective{"ttft", 0.95, time.Second}, From: 1, To: 200},
		{Name: "prefill-open", Engine: prefill, Chats: prompts, Open: true, Objective: Objective{"ttft", 0.95, time.Second}, From: 1, To: 20, Grid: 1.03},
		{Name: "cliff", Engine: cliff, Chats: long, Objective: Objective{"ttft", 0.95, time.Second}, From: 1, To: 200},
		{Name: "cliff-open", Engine: cliff, Chats: long, Open: true, Objective: Objective{"ttft", 0.95, time.Second}, From: 1, To: 20, Grid: 1.03},
		{Name: "smooth", Engine: smooth, Chats: chats, Objective: Objective{"tpot", 0.95, 25 * time.Millisecond}, From: 1, To: 200},
		{Name: "smooth-open", Engine: smooth, Chats: chats, Open: true, Objective: Objective{"tpot", 0.95, 25 * time.Millisecond}, From: 1, To: 20, Grid: 1.03},
		{Name: "apart", Engine: apart, Chats: prompts, Objective: Objective{"ttft", 0.95, time.Second}, From: 1, To: 200},
		{Name: "guesses-open", Engine: guesses, Chats: chats, Open: true, Objective: Objective{"tpot", 0.95, 12 * time.Millisecond}, From: 1, To: 20, Grid: 1.03},
	}
}
