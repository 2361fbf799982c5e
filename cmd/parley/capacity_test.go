package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"parley/analyze"
	"parley/analyze/capacity"
	"parley/replay/simserver/virtual"
)

// Searches of servers whose capacity is known by brute force, in virtual time. CI makes one of each server;
// PARLEY_SEARCHES=50 makes the table of analyze/STATISTICS.md.

// searchLimit is the longest run of such a search; its first virtual.Warm does not count.
const searchLimit = 4 * time.Minute

// searched is what searches of one server came to.
type searched struct {
	n, resolved, covered, over, runs int
	widths, shares                   []float64
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// searchVirtual makes a search: its probes are runs in virtual time, each in a mood of its own.
func searchVirtual(s *virtual.Server, seed uint64) (capacity.Answer, capacity.Config, error) {
	from := analyze.FromSent
	if s.Open {
		from = analyze.FromScheduled
	}
	judge, err := analyze.NewJudge([]string{s.Objective.String()}, from)
	if err != nil {
		return capacity.Answer{}, capacity.Config{}, err
	}
	cfg := capacity.Config{
		Objectives: judge.Objectives(), Open: s.Open, First: 1, Max: 2000, Limit: searchLimit.Seconds(), Warm: virtual.Warm.Seconds(),
	}
	if s.Open {
		cfg.First = findRate
	}
	search := capacity.New(cfg)
	for {
		p, more := search.Next()
		if !more {
			return search.Answer(), cfg, nil
		}
		o, err := probeVirtual(s, judge, func() *capacity.Watch { return search.Watch(p) }, p.Load, seed*1000+uint64(len(search.Runs))+1, p.Phase == "doubling")
		if err != nil {
			return capacity.Answer{}, cfg, err
		}
		search.Add(p, o)
	}
}

// probeVirtual makes one run, which is played longer until it has told enough: it is the same from its begin.
func probeVirtual(s *virtual.Server, judge *analyze.Judge, watch func() *capacity.Watch, level float64, mood uint64, rough bool) (capacity.Outcome, error) {
	length := searchLimit / 4
	if s.Open || !rough { // most go on to the end
		length = searchLimit
	}
	for ; ; length *= 2 {
		run, err := s.Play(level, mood, length)
		if err != nil {
			return capacity.Outcome{}, err
		}
		turns, err := judge.Turns(run.Rows)
		if err != nil {
			return capacity.Outcome{}, err
		}
		slices.SortFunc(turns, func(a, b capacity.Turn) int { return cmp.Compare(a.End, b.End) })
		w := watch()
		now, i, done := 0.0, 0, false
		for !done && now < length.Seconds() {
			now++
			for i < len(turns) && turns[i].End <= now {
				w.Add(turns[i])
				i++
			}
			done = w.Look(now)
		}
		if !done {
			continue
		}
		for _, t := range turns[i:] { // that were under way when it ended
			if t.Begin < now {
				w.Add(t)
			}
		}
		return w.Outcome(now, s.Open), nil
	}
}

// TestCapacitySearch: an interval that is given has the capacity and is narrow, and none calls a load met that is not.
func TestCapacitySearch(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("PARLEY_SEARCHES"))
	if err != nil {
		t.Skip("PARLEY_SEARCHES does not say how many searches of each server to make")
	}
	only := os.Getenv("PARLEY_SERVER")
	var all searched
	for _, s := range virtual.Servers() {
		if only != "" && only != s.Name {
			continue
		}
		_, truth, low, high, err := s.Known()
		if err != nil {
			t.Fatal(err)
		}
		one := searched{n: seeds}
		why := map[string]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		places := make(chan struct{}, 2)
		for seed := range uint64(seeds) {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				a, cfg, err := searchVirtual(&s, seed)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				one.add(a, cfg, truth, low, high)
				if !a.Resolved {
					why[a.Missing]++
				}
			})
		}
		wg.Wait()
		t.Logf("%-13s %-16s %6.4g (%.4g to %.4g): %2d of %d resolved, %2d cover it, %d above it; width %4.1f %%, %3.0f runs, %3.0f %% of a grid's time",
			s.Name, s.Objective, truth, low, high, one.resolved, one.n, one.covered, one.over, 100*median(one.widths)/truth, float64(one.runs)/float64(one.n), 100*median(one.shares))
		for text, n := range why {
			t.Logf("    %d unresolved: %s", n, text)
		}
		if w := median(one.widths); one.resolved > 0 && w > max(capacity.DefaultResolution*truth, 1) {
			t.Errorf("%s: the median width is %.3g", s.Name, w)
		}
		all.n, all.resolved, all.covered, all.over, all.runs = all.n+one.n, all.resolved+one.resolved, all.covered+one.covered, all.over+one.over, all.runs+one.runs
		all.shares = append(all.shares, one.shares...)
	}
	text := fmt.Sprintf("%d of %d resolved; %d cover the capacity, %d call more met; %.0f %% of a grid's time", all.resolved, all.n, all.covered, all.over, 100*median(all.shares))
	t.Log(text)
	// Of so few searches more than is asked for may be wrong by chance: two standard errors.
	chance := func(share float64) float64 { return 2 * math.Sqrt(share*(1-share)*float64(all.resolved)) }
	// How many are resolved, and in what time, is in analyze/STATISTICS.md: less than what was found there is an alarm.
	if all.resolved < all.n/5 || float64(all.covered) < 0.93*float64(all.resolved)-chance(0.07) || float64(all.over) > 0.05*float64(all.resolved)+chance(0.05) || median(all.shares) > 1 {
		t.Error(text)
	}
}

// add takes an answer. The capacity is known but for the error of the brute force: loads that it cannot tell from the
// capacity, by two standard errors, are as right.
func (m *searched) add(a capacity.Answer, cfg capacity.Config, truth, low, high float64) {
	grid := 0.0
	for load := cfg.First; load <= truth*(1+capacity.DefaultResolution); {
		grid += 3 * cfg.Limit
		next := load * (1 + capacity.DefaultResolution)
		if !cfg.Open {
			next = max(next, load+1)
		}
		load = next
	}
	m.runs += a.Runs
	m.shares = append(m.shares, a.Seconds/grid)
	if !a.Resolved {
		return
	}
	m.resolved++
	m.widths = append(m.widths, a.High-a.Low)
	if a.Low <= high && low <= a.High {
		m.covered++
	}
	if a.Low > high {
		m.over++
	}
}
