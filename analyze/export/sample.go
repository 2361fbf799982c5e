package export

import (
	"math"
	"slices"

	"parley/analyze"
	"parley/analyze/stat"
	"parley/schemas"
)

// sample is the sorted values of one figure.
type sample []float64

// collect gives a figure over completed turns. Turns without a value give NaN.
func (l *level) collect(value func(t *analyze.Turn) float64) sample {
	var s sample
	for i := range l.turns {
		if t := &l.turns[i]; t.Status == schemas.StatusOK {
			if v := value(t); !math.IsNaN(v) {
				s = append(s, v)
			}
		}
	}
	slices.Sort(s)
	return s
}

func (s sample) sum() float64 {
	var sum float64
	for _, v := range s {
		sum += v
	}
	return sum
}

func (s sample) mean() float64 {
	mean, _ := stat.MeanStd(s)
	return mean
}

// std gives the standard deviation that divides by n - ddof; 0 of one value.
func (s sample) std(ddof float64) float64 {
	n := float64(len(s))
	if n < 2 {
		return 0
	}
	_, std := stat.MeanStd(s)
	return std * math.Sqrt((n-1)/(n-ddof))
}

func (s sample) percentile(p float64) float64 { return stat.Quantile(s, p/100) }

// lower gives the percentile that is a value of the sample: the one at or below the rank.
func (s sample) lower(p float64) float64 { return s[int(p/100*float64(len(s)-1))] }

// span gives the time from one moment to another in nanoseconds, or NaN if one never came.
func span(from, to int64) float64 {
	if from == schemas.NullInt || to == schemas.NullInt {
		return math.NaN()
	}
	return float64(to - from)
}

// count gives a count that may not be known.
func count(n int64) float64 {
	if n == schemas.NullInt {
		return math.NaN()
	}
	return float64(n)
}

// per divides by a count of tokens; NaN if there is none.
func per(span, tokens float64) float64 {
	if !(tokens >= 1) {
		return math.NaN()
	}
	return span / tokens
}

// known gives a number for a key that is left out where it is not known.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func ms(ns float64) float64 { return ns / 1e6 }
