//go:build !race

// One goroutine counts for seconds here: .ci/run has it without the race detector.

package analyze

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley/analyze/compare"
)

// nights simulates a history: plans of three repeats a night, of several configurations. From night `from` on, one
// configuration is slower by a factor in TTFT, as a regression makes it; from 0 none is.
func nights(seed uint64, configs, count, from int, factor float64) (all []observation) {
	r := rand.New(rand.NewPCG(seed, 9))
	for c := range configs {
		for n := range count {
			mood := math.Exp(0.03 * r.NormFloat64())
			for repeat := range 3 {
				values := map[string]compare.Figure{"error_rate": compare.Value(0)}
				for i, name := range []string{"ttft.p50", "ttft.p99", "tpot.p50", "e2e.p50", "output_throughput"} {
					v := 100 * mood * math.Exp(0.02*r.NormFloat64())
					if c == 0 && from > 0 && n >= from && i < 2 {
						v *= factor
					}
					values[name] = compare.Value(v)
				}
				all = append(all, observation{
					key: fmt.Sprint("config", c), title: fmt.Sprint("config ", c), plan: fmt.Sprint("plan", c, "-", n), file: fmt.Sprint(c, n, repeat),
					when: time.Date(2026, 1, 1+n, 3, repeat, 0, 0, time.UTC), values: values,
				})
			}
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// TestHistory: of simulated histories without a shift few say that anything changed; a regression of 15 % in nights whose
// mood differs by 3 % is found, where it was, and said to be worse.
func TestHistory(t *testing.T) {
	const histories = 40
	alarms, found, placed, changes, wrong := 0, 0, 0, 0, 0
	for seed := range uint64(histories) {
		h := &History{Rate: historyRate}
		h.gather(nights(seed, 3, 25, 0, 1))
		if slices.ContainsFunc(h.Groups, func(g HistoryGroup) bool {
			return slices.ContainsFunc(g.Series, func(s HistorySeries) bool { return len(s.Changes) > 0 })
		}) {
			alarms++
		}
		h = &History{Rate: historyRate}
		h.gather(nights(seed, 3, 25, 15, 1.15))
		for _, g := range h.Groups {
			for _, s := range g.Series {
				if len(s.Points) != 25 || s.Points[0].Runs != 3 || !s.Points[0].When.Before(s.Points[24].When) {
					t.Fatalf("%s: %d points, the first of %d runs", s.Figure, len(s.Points), s.Points[0].Runs)
				}
				if len(s.Changes) == 0 {
					continue
				}
				changes++
				if c := s.Changes[0]; g.Title == "config 0" && (s.Figure == "ttft.p50" || s.Figure == "ttft.p99") {
					found++
					if c.At >= 14 && c.At <= 16 && c.Worse && c.Low < 1.15 && c.High > 1.05 {
						placed++
					}
				} else {
					wrong++
				}
			}
		}
	}
	t.Logf("%d of %d histories without a shift alarm; with one, %d of %d shifts are found, %d where they were; %d of %d changes are none", alarms, histories, found, 2*histories, placed, wrong, changes)
	if alarms > histories*15/100 || found < 2*histories*95/100 || placed < found*85/100 || wrong > changes*12/100 {
		t.Error("histories are judged wrongly")
	}
}
