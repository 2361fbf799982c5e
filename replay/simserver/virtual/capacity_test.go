package virtual

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "scan the servers anew, which takes minutes")

// Of each server, what is known is what this code comes to, and tells the capacity well.
func TestCapacity(t *testing.T) {
	for _, s := range Servers() {
		t.Run(s.Name, func(t *testing.T) {
			if *update {
				renew(t, &s)
			}
			levels, capacity, low, high, err := s.Known()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %.4g (%.4g to %.4g), %d levels", s.Objective, capacity, low, high, len(levels))
			if capacity <= s.From || low > capacity || high <= capacity || high-low > max(3, capacity*0.12) {
				t.Error("the capacity is not well known")
			}
			at := slices.IndexFunc(levels, func(l Level) bool { return l.Load == capacity })
			got, err := s.Scan([]float64{capacity}, 1, scanLength)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].First != levels[at].First {
				t.Errorf("at %.4g the first mood meets %v, in testdata/capacity.json it is %v: renew it with -update", capacity, got[0].First, levels[at].First)
			}
		})
	}
}

// Capacity goes by the loads below too: a server that fails, and then holds again, is no server for that load.
func TestCapacityOfLevels(t *testing.T) {
	s := Server{Objective: Objective{"ttft", 0.95, time.Second}}
	for _, c := range []struct {
		met                 []float64
		capacity, low, high float64
	}{
		{[]float64{1, 0.99, 0.96, 0.93, 0.90}, 3, 2, 5},
		{[]float64{1, 0.90, 0.99, 0.80}, 1, 1, 2},
		{[]float64{0.9, 0.8}, 0, 0, 1},
		{[]float64{1, 1}, 2, 2, 2},
	} {
		var levels []Level
		for i, m := range c.met {
			levels = append(levels, Level{Load: float64(i + 1), Met: m, SE: 0.01})
		}
		if capacity, low, high := s.Capacity(levels); capacity != c.capacity || low != c.low || high != c.high {
			t.Errorf("%v: %v (%v to %v), want %v (%v to %v)", c.met, capacity, low, high, c.capacity, c.low, c.high)
		}
	}
}

const scanLength = 3*time.Minute + Warm

// renew scans a server: every fifth load in few moods, until the objective is far away; those around the capacity
// that this shows in more; and those around the capacity that these show in many.
func renew(t *testing.T, s *Server) {
	t.Helper()
	loads := s.Loads()
	levels := map[float64]Level{}
	scan := func(from, to, step, moods int, length time.Duration) int {
		far := 0
		for i := max(0, from); i <= min(to, len(loads)-1) && far < 2; i += step {
			l, err := s.Scan(loads[i:i+1], moods, length)
			if err != nil {
				t.Fatal(err)
			}
			if l[0].Moods >= levels[loads[i]].Moods {
				levels[loads[i]] = l[0]
			}
			if far++; l[0].Met >= s.Share-0.2*(s.Share) {
				far = 0
			}
		}
		capacity, _, _ := s.Capacity(sorted(levels))
		return slices.Index(loads, capacity)
	}
	at := scan(0, len(loads), 5, 4, time.Minute+Warm)
	at = scan(at-6, at+9, 3, 8, 2*time.Minute+Warm)
	for range 5 { // the capacity may turn out to be elsewhere
		scan(at-5, at+5, 1, 60, scanLength)
		was := at
		capacity, _, _ := s.Capacity(sorted(levels))
		if at = slices.Index(loads, capacity); at > was-4 && at < was+4 {
			break
		}
	}
	all := map[string]Truth{}
	text, err := os.ReadFile("testdata/capacity.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err == nil {
		all[s.Name] = Truth{s.Objective.String(), sorted(levels)}
		known, err = json.MarshalIndent(all, "", "\t")
	}
	if err == nil {
		err = os.WriteFile("testdata/capacity.json", append(known, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func sorted(levels map[float64]Level) []Level {
	var out []Level
	for _, k := range slices.Sorted(maps.Keys(levels)) {
		out = append(out, levels[k])
	}
	return out
}
