package stat

import (
	"cmp"
	"math"
	"slices"
)

// KaplanMeier is the distribution of times of which some are only known to be longer than they could be
// watched (censored): the product-limit estimate (Kaplan and Meier, JASA 53, 1958).
type KaplanMeier struct {
	times []float64 // of events, rising
	below []float64 // share of times that are at most that
}

// NewKaplanMeier makes one from the times of events, and from those up to which a censored one was
// watched.
func NewKaplanMeier(events, censored []float64) KaplanMeier {
	type time struct {
		at    float64
		event bool
	}
	all := make([]time, 0, len(events)+len(censored))
	for _, t := range events {
		all = append(all, time{t, true})
	}
	for _, t := range censored {
		all = append(all, time{t, false})
	}
	// An event comes before what was censored at the same time.
	slices.SortFunc(all, func(a, b time) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		if a.event == b.event {
			return 0
		}
		if a.event {
			return -1
		}
		return 1
	})
	var k KaplanMeier
	survive := 1.0
	for i := 0; i < len(all); {
		j, died := i, 0
		for j < len(all) && all[j].at == all[i].at {
			if all[j].event {
				died++
			}
			j++
		}
		if died > 0 {
			survive *= 1 - float64(died)/float64(len(all)-i)
			k.times = append(k.times, all[i].at)
			k.below = append(k.below, 1-survive)
		}
		i = j
	}
	return k
}

// Quantile gives the smallest time that the share q does not exceed; infinite where too many were censored to
// say: it is longer than the last event.
func (k KaplanMeier) Quantile(q float64) float64 {
	i, _ := slices.BinarySearchFunc(k.below, q, func(have, want float64) int {
		if have >= want-1e-12 {
			return 1
		}
		return -1
	})
	if i == len(k.times) {
		return math.Inf(1)
	}
	return k.times[i]
}
