//go:build !race

// One goroutine counts for seconds here: .ci/run has it without the race detector.

package capacity

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// toy is a server of which the share of missed turns is known: q exp(k u) at a load of exp(u) times its limit, if it
// has its usual mood. It says nothing of how servers are; it has the search meet noise of a known size.
type toy struct {
	limit, k    float64 // of the load; how steep
	mood, drift float64 // standard deviations of u: of a run, and within it (forgotten in 20 s)
	rate        float64 // turns a second at a load of 1
	open        bool
	allowed     float64
	bend        func(u float64) float64 // nil: as told
}

func (s *toy) share(u float64) float64 {
	if s.bend != nil {
		return s.bend(u)
	}
	return min(1, s.allowed*math.Exp(s.k*u))
}

// truth gives the load at which the mean over moods is what is allowed.
func (s *toy) truth() float64 {
	sd := math.Hypot(s.mood, s.drift)
	mean := func(u float64) (sum float64) {
		const n = 400
		for i := range n {
			z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/n-1)
			sum += s.share(u+sd*z) / n
		}
		return sum
	}
	low, high := -1.0, 1.0
	for range 50 {
		if m := (low + high) / 2; mean(m) > s.allowed {
			high = m
		} else {
			low = m
		}
	}
	return s.limit * math.Exp(low)
}

func (s *toy) play(w *Watch, load, limit float64, r *rand.Rand) Outcome {
	u := math.Log(load/s.limit) + s.mood*r.NormFloat64()
	d := r.NormFloat64()
	keep := math.Exp(-1.0 / 20)
	for sec := 0.0; sec < limit; sec++ {
		d = d*keep + math.Sqrt(1-keep*keep)*r.NormFloat64()
		p := s.share(u + s.drift*d)
		n := s.rate * load
		for n > 0 && (n >= 1 || r.Float64() < n) {
			n--
			miss := 0.0
			if r.Float64() < p {
				miss = 1
			}
			w.Add(Turn{Begin: sec, End: sec + 0.9, Miss: []float64{miss}})
		}
		if w.Look(sec + 1) {
			return w.Outcome(sec+1, s.open)
		}
	}
	return w.Outcome(limit, s.open)
}

func (s *toy) search(seed uint64, c Config) *Search {
	c.Objectives, c.Open = []Objective{{"ttft.p95<500ms", s.allowed, true}}, s.open
	f := New(c)
	r := rand.New(rand.NewPCG(seed, 77))
	for {
		p, ok := f.Next()
		if !ok {
			return f
		}
		f.Add(p, s.play(f.Watch(p), p.Load, c.Limit, r))
	}
}

// measured is what many searches of one server came to.
type measured struct {
	n, resolved, covered, over, runs int
	width, grid                      float64 // medians: of the interval's width, and of the time as a share of a grid's
}

// measure searches a server with many seeds. The grid that its time is held against goes in steps of the resolution (or
// of one conversation) from the first load to one step above the capacity, with three full runs of each.
func (s *toy) measure(seeds int, c Config, truth float64) measured {
	if !s.open {
		truth = math.Floor(truth)
	}
	m := measured{n: seeds}
	var widths, times []float64
	for seed := range seeds {
		a := s.search(uint64(seed), c).Answer()
		m.runs += a.Runs
		times = append(times, a.Seconds)
		if !a.Resolved {
			continue
		}
		m.resolved++
		if a.Low <= truth && truth <= a.High {
			m.covered++
		}
		if a.Low > truth {
			m.over++
		}
		widths = append(widths, a.High-a.Low)
	}
	grid := 0.0
	for load := c.First; load <= truth*1.1; {
		grid += 3 * c.Limit
		next := load * (1 + DefaultResolution)
		if !s.open {
			next = max(next, load+1)
		}
		load = next
	}
	slices.Sort(widths)
	slices.Sort(times)
	if m.grid = times[len(times)/2] / grid; m.resolved > 0 {
		m.width = widths[len(widths)/2]
	}
	return m
}

// TestSearch searches servers whose limit is known: the interval has it, is narrow, and takes far less time than a grid.
func TestSearch(t *testing.T) {
	for name, s := range map[string]toy{
		"smooth": {limit: 47.5, k: 12, mood: 0.03, drift: 0.05, rate: 0.15, allowed: 0.05},
		"cliff":  {limit: 47.5, k: 60, mood: 0.03, drift: 0.05, rate: 0.15, allowed: 0.05},
		"small":  {limit: 7.5, k: 12, mood: 0.03, drift: 0.05, rate: 0.3, allowed: 0.05},
		"large":  {limit: 310, k: 15, mood: 0.03, drift: 0.05, rate: 0.1, allowed: 0.01},
		"open":   {limit: 4.2, k: 15, mood: 0.03, drift: 0.05, rate: 4, allowed: 0.05, open: true},
		"quiet":  {limit: 80, k: 12, mood: 0.005, drift: 0.01, rate: 0.15, allowed: 0.05},
	} {
		c := Config{First: 1, Max: 4000, Limit: 240, Warm: 20}
		if s.open {
			c.First = 0.5
		}
		truth := s.truth()
		m := s.measure(60, c, truth)
		t.Logf("%s: limit %.4g: %d of %d resolved, %d cover it, %d above it; width %.2f, %.0f runs, %.0f %% of a grid's time",
			name, truth, m.resolved, m.n, m.covered, m.over, m.width, float64(m.runs)/float64(m.n), 100*m.grid)
		// Two standard errors of 60 searches stand between what is asked for and what is an alarm.
		if m.resolved < m.n/2 || m.covered < m.resolved*87/100 || m.over > m.resolved*11/100 || m.width > max(1, DefaultResolution*truth) || m.grid > 0.45 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestNotMonotone searches servers that fail a load and hold a larger one: never resolved to a number.
func TestNotMonotone(t *testing.T) {
	for name, bend := range map[string]func(u float64) float64{
		"fails at first": func(u float64) float64 { // 1 to 3 of 47
			if u < -2.6 {
				return 0.5
			}
			return min(1, 0.05*math.Exp(12*u))
		},
		"fails in between": func(u float64) float64 { // 10 to 26
			if u > -1.55 && u < -0.6 {
				return 0.3
			}
			return min(1, 0.05*math.Exp(12*u))
		},
	} {
		s := toy{limit: 47.5, mood: 0.03, drift: 0.02, rate: 0.4, allowed: 0.05, bend: bend}
		for seed := range uint64(20) {
			if a := s.search(seed, Config{First: 1, Max: 1000, Limit: 240, Warm: 20}).Answer(); a.Resolved {
				t.Errorf("%s, seed %d: %+v", name, seed, a)
			}
		}
	}
}

// TestEnds searches servers without a limit in reach.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		s    toy
		max  float64
		want string
	}{
		{toy{limit: 0.5, k: 12, rate: 1, allowed: 0.05}, 100, "the objectives fail at 1, the smallest load"},
		{toy{limit: 500, k: 12, rate: 0.3, allowed: 0.05}, 100, "hold at 100, the largest load that can be put on"},
	} {
		a := tt.s.search(1, Config{First: 1, Max: tt.max, Limit: 240, Warm: 20}).Answer()
		if a.Resolved || !strings.Contains(a.Missing, tt.want) {
			t.Errorf("%+v, want %s", a, tt.want)
		}
	}
}

// TestAgain: the state of a search follows from its runs alone.
func TestAgain(t *testing.T) {
	s := toy{limit: 47.5, k: 12, mood: 0.03, drift: 0.05, rate: 0.15, allowed: 0.05}
	whole := s.search(3, Config{First: 1, Max: 4000, Limit: 240, Warm: 20})
	again := New(whole.Config)
	for i, r := range whole.Runs {
		p, ok := again.Next()
		if !ok || p != r.Probe {
			t.Fatalf("run %d: %+v, was %+v", i, p, r.Probe)
		}
		again.Add(p, r.Outcome)
	}
	if _, more := again.Next(); more || !reflect.DeepEqual(again.Answer(), whole.Answer()) {
		t.Error("the search does not end as it did")
	}
}
