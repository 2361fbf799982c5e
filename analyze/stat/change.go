package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Change points of histories: series of observations in the order of time, such as one a night.

// Step is a place at which the level of a series changed.
type Step struct {
	At int     // index of the first value behind it
	P  float64 // of a change as clear without one
}

// permutations is how many orders a series is held against: p-values go down to 1 in so many and one.
const permutations = 9999

// leastSide is how many values a level is judged by at least.
const leastSide = 3

// Steps finds changes of level in several series at once, each independent from value to value but for them. Of all
// series that are said to have changed, a share of rate at most has not, on average (Benjamini and Hochberg, JRSS B 57,
// 1995: figures of one run go up and down together, for which it holds too). The test of one series is the largest
// Student's t of all splits, against that of its values in random order; what a change leaves on both sides is tested
// again, at the level that the rate came to.
func Steps(series [][]float64, rate float64, seed uint64) [][]Step {
	r := rand.New(rand.NewPCG(seed, 0x5354455053))
	first := make([]Step, len(series))
	p := make([]float64, len(series))
	for i, s := range series {
		first[i] = step(s, r)
		p[i] = first[i].P
	}
	level := falseDiscovery(p, rate)
	out := make([][]Step, len(series))
	for i, s := range series {
		var find func(from, to int, st Step)
		find = func(from, to int, st Step) {
			if st.P > level {
				return
			}
			at := from + st.At
			find(from, at, step(s[from:at], r))
			out[i] = append(out[i], Step{at, st.P})
			find(at, to, step(s[at:to], r))
		}
		find(0, len(s), first[i])
	}
	return out
}

// falseDiscovery gives the p-value up to which tests stand; below 0 if none does.
func falseDiscovery(p []float64, rate float64) float64 {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(p)), math.IsNaN)
	for i := len(sorted) - 1; i >= 0; i-- {
		if sorted[i] <= rate*float64(i+1)/float64(len(sorted)) {
			return sorted[i]
		}
	}
	return -1
}

// step finds the strongest change of a series; P is 1 where it is too short for one.
func step(series []float64, r *rand.Rand) Step {
	at, t := strongest(series)
	if at == 0 {
		return Step{P: 1}
	}
	mixed := slices.Clone(series)
	as := 1
	for range permutations {
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if _, other := strongest(mixed); other >= t {
			as++
			if as > permutations/5 { // nothing that anybody looks for
				return Step{at, 1}
			}
		}
	}
	return Step{at, float64(as) / (permutations + 1)}
}

// strongest gives the split with the largest difference of means, in units of its error: it falls with what the split
// leaves, n1 n2 / n times the difference squared, as the sum of squares of all is the same in every order.
func strongest(series []float64) (at int, size float64) {
	n := len(series)
	if n < 2*leastSide {
		return 0, 0
	}
	var sum float64
	for _, v := range series {
		sum += v
	}
	var left float64
	for i, v := range series[:n-leastSide] {
		left += v
		k := float64(i + 1)
		if i+1 < leastSide {
			continue
		}
		d := left/k - (sum-left)/(float64(n)-k)
		if s := k * (float64(n) - k) / float64(n) * d * d; s > size {
			at, size = i+1, s
		}
	}
	return at, size
}
