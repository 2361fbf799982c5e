package stat

import (
	"math"
	"slices"
)

// trimmed is the share of pairs that [Shift] leaves out at each end.
const trimmed = 0.25

// Shift gives by how much turns of b are slower than the same turns of a: the mean of log(b/a) over the
// pairs, a quarter of them left out at each end. exp(Shift) is the factor. A pair with a value that is not
// above 0 (or NaN) does not count; NaN for no pairs.
//
// It is the most sensitive statistic for a change that touches every turn: the turn's own length cancels,
// and the trimming leaves out turns that met a queue in one of the runs only. It is one observation of
// the pair of runs, and has no error of its own: test it over several pairs ([PairedDifferences]).
func Shift(a, b []float64) float64 {
	logs := make([]float64, 0, len(a))
	for i := range a {
		if a[i] > 0 && b[i] > 0 {
			logs = append(logs, math.Log(b[i]/a[i]))
		}
	}
	if len(logs) == 0 {
		return math.NaN()
	}
	slices.Sort(logs)
	cut := int(trimmed * float64(len(logs)))
	mean, _ := MeanStd(logs[cut : len(logs)-cut])
	return mean
}
