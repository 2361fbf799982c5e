package stat

import (
	"math"
	"slices"
)

// LevelStep is a level that holds from a moment to the next step.
type LevelStep struct {
	At    int64
	Level int64
}

// SpanLevels gives the number of spans that hold over time.
func SpanLevels(begin, end []int64) []LevelStep {
	var starts, ends []int64
	for c := range begin {
		if end[c] > begin[c] {
			starts = append(starts, begin[c])
			ends = append(ends, end[c])
		}
	}
	return Levels(starts, ends)
}

// Levels gives how many of the intervals [start, end) hold over time. It sorts its arguments.
func Levels(starts, ends []int64) []LevelStep {
	SortInts(starts)
	SortInts(ends)
	var steps []LevelStep
	var level int64
	s, e := 0, 0
	for s < len(starts) || e < len(ends) {
		at := int64(math.MaxInt64)
		if s < len(starts) {
			at = starts[s]
		}
		if e < len(ends) {
			at = min(at, ends[e])
		}
		for e < len(ends) && ends[e] == at {
			level--
			e++
		}
		for s < len(starts) && starts[s] == at {
			level++
			s++
		}
		steps = append(steps, LevelStep{at, level})
	}
	return steps
}

// TimeQuantile gives the q-quantile of a level over time.
func TimeQuantile(steps []LevelStep, q float64) float64 {
	type weighted struct{ level, time int64 }
	var all []weighted
	var total int64
	for i, s := range steps[:len(steps)-1] {
		d := steps[i+1].At - s.At
		all = append(all, weighted{s.Level, d})
		total += d
	}
	slices.SortFunc(all, func(a, b weighted) int { return int(a.level - b.level) })
	var sum int64
	for _, w := range all {
		sum += w.time
		if float64(sum) >= q*float64(total) {
			return float64(w.level)
		}
	}
	return float64(all[len(all)-1].level)
}

// NiceWidth rounds up to 1, 2 or 5 times a power of ten.
func NiceWidth(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= v*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}
