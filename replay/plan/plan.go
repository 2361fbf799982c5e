// Package plan makes plans of several runs: levels of load, repeats and targets, in an order that keeps what they
// are compared by apart from the server's drift. It decides and runs nothing itself; the runs are [replay.Run]'s.
package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/schemas"
	"parley/schemas/random"
)

// Orders of a plan's runs.
const (
	// Interleaved goes through all levels once before the first is repeated, there and back, so that a drift of
	// the server touches all levels alike; two targets are run as A B, B A, A B, ...
	Interleaved = "interleaved"
	// Ascending makes all repeats of a level before the next higher level.
	Ascending = "ascending"
	// Random is any order, by the seed.
	Random = "random"
)

// maxRuns is more than anybody waits for, and a typing error.
const maxRuns = 10_000

// ParseLevels reads a list of levels such as 1,2,4. ok is false for a text that is no list: one level, or stages.
func ParseLevels(text string) (levels []float64, ok bool, err error) {
	if !strings.Contains(text, ",") || strings.Contains(text, ":") {
		return nil, false, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0) || math.IsInf(v, 1) {
			return nil, true, fmt.Errorf("%q: a list of levels has positive numbers, such as 1,2,4,8", part)
		}
		if slices.Contains(levels, v) {
			return nil, true, fmt.Errorf("%g stands twice in the list of levels: repeat levels with --repeat", v)
		}
		levels = append(levels, v)
	}
	slices.Sort(levels)
	return levels, true, nil
}

// Lay puts the runs of a plan into their order: each of its levels, as often as it repeats, on each of its sides.
// A repeat has the same seed on all levels and sides (common random numbers), so that runs that are compared meet the
// same conversations at the same moments.
func Lay(p *schemas.Plan, levels []float64) error {
	sides := make([]string, len(p.Sides))
	for i := range p.Sides {
		sides[i] = p.Sides[i].Name
	}
	if n := len(levels) * p.Repeats * len(sides); n > maxRuns {
		return fmt.Errorf("a plan of %d runs: at most %d", n, maxRuns)
	}
	type pair struct {
		level  float64
		repeat int
	}
	var pairs []pair
	switch p.Order {
	case Interleaved, Random:
		for repeat := range p.Repeats {
			for i := range levels {
				if repeat%2 == 1 {
					i = len(levels) - 1 - i
				}
				pairs = append(pairs, pair{levels[i], repeat})
			}
		}
	case Ascending:
		for _, level := range levels {
			for repeat := range p.Repeats {
				pairs = append(pairs, pair{level, repeat})
			}
		}
	default:
		return errors.New("give interleaved, ascending or random")
	}
	rnd := random.Stream(p.Seed, "plan order")
	if p.Order == Random {
		rnd.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	}
	p.Runs = nil
	for n, at := range pairs {
		order := slices.Clone(sides)
		if p.Order == Random && rnd.IntN(2) == 1 || p.Order != Random && n%2 == 1 {
			slices.Reverse(order)
		}
		for _, side := range order {
			p.Runs = append(p.Runs, New(p, at.level, side, at.repeat))
		}
	}
	return nil
}

// New names one run of a plan.
func New(p *schemas.Plan, level float64, side string, repeat int) schemas.PlanRun {
	name := fmt.Sprintf("c%04.0f.r%d", level, repeat+1)
	if p.Load == "rate" {
		whole, rest, _ := strings.Cut(strconv.FormatFloat(level, 'f', -1, 64), ".")
		if name = fmt.Sprintf("rate%04s", whole); rest != "" {
			name += "." + rest
		}
		name += fmt.Sprintf(".r%d", repeat+1)
	}
	if side != "" {
		name += "." + side
	}
	return schemas.PlanRun{File: name + ".parquet", Level: level, Side: side, Repeat: repeat, Seed: p.Seed + uint64(repeat)}
}
