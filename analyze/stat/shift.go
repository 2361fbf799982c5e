package stat

import (
	"cmp"
	"math"
	"slices"
)

// trimmed is the share of pairs of turns that a shift leaves out at each end. undisturbed is the share of
// pairs that must have met an idle server for the others to be left out, fewest how many of each pair of runs.
const (
	trimmed     = 0.25
	undisturbed = 0.09
	fewest      = 8
)

// TurnPair is one turn in both runs of a pair.
type TurnPair struct {
	A, B float64 // its latency; a pair with a value that is not above 0 (or NaN) does not count
	// Others is how many other turns awaited their first token when it was sent ([Awaiting]), in both runs
	// together.
	Others int32
}

// Shifts gives, for each pair of runs, by how much turns of B are slower than the same turns of A: the mean of
// log(B/A), a quarter of the turns left out at each end; exp of it is the factor. It is the most sensitive
// statistic for a change that touches every turn, for the turn's own length cancels. NaN for a pair of runs
// without turns.
//
// A queue makes a small change of the server large, and random: a turn that waited in one of the runs
// says little. Where at least a ninth or so of all pairs of turns met nobody else in either run, only these
// count (in a pair of runs with fewer than eight, the least disturbed eight), and idle is true; else, in
// a queue that never ends, all do. Which it is depends on when turns were sent, not on how long they took.
//
// A shift is one observation of a pair of runs, and has no error of its own: test it over several
// ([PairedDifferences]).
func Shifts(runs [][]TurnPair) (shifts []float64, idle bool) {
	var all, alone int
	usable := make([][]TurnPair, len(runs))
	for i, turns := range runs {
		for _, t := range turns {
			if t.A > 0 && t.B > 0 {
				usable[i] = append(usable[i], t)
				all++
				if t.Others == 0 {
					alone++
				}
			}
		}
	}
	idle = float64(alone) >= undisturbed*float64(all)
	for _, turns := range usable {
		if idle {
			slices.SortStableFunc(turns, func(a, b TurnPair) int { return cmp.Compare(a.Others, b.Others) })
			for i, t := range turns {
				if t.Others > 0 && i >= fewest {
					turns = turns[:i]
					break
				}
			}
		}
		shifts = append(shifts, shift(turns))
	}
	return shifts, idle
}

func shift(turns []TurnPair) float64 {
	logs := make([]float64, len(turns))
	for i, t := range turns {
		logs[i] = math.Log(t.B / t.A)
	}
	slices.Sort(logs)
	cut := int(trimmed * float64(len(logs)))
	mean, _ := MeanStd(logs[cut : len(logs)-cut])
	return mean
}

// Awaiting gives, for each turn, how many others had been sent and awaited their first token when it was
// sent. Moments are nanoseconds; a turn whose first token is not after its sending awaited none.
func Awaiting(sent, first []int64) []int32 {
	order := make([]int, len(sent))
	var ends []int64
	for i := range order {
		order[i] = i
		if first[i] > sent[i] {
			ends = append(ends, first[i])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sent[a], sent[b]) })
	SortInts(ends)
	out := make([]int32, len(sent))
	begun, over := 0, 0
	for _, i := range order {
		for over < len(ends) && ends[over] <= sent[i] {
			over++
		}
		out[i] = int32(begun - over)
		if first[i] > sent[i] {
			begun++
		}
	}
	return out
}
