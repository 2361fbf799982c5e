// Package load says when each turn of a run is due. It is pure: it holds no clock, starts no goroutine and
// talks to nobody.
//
//   - [Rules] are a run's load as it was asked for, and [Extent] what the dataset holds;
//   - arrival processes ([Poisson], [Gamma], [Constant], [Recorded], changed by [Ramp] and [Staged]) and
//     [Schedule] give the conversations in the order and at the moments at which they are due;
//   - [Scheduler] is the state machine that everything else follows from: events go in (a moment came, a turn
//     ended), actions come out (start this turn, these turns will not be sent, the load is over).
//
// The dry run, the run, the resumed run and the tests drive one and the same machine: the dry run with an
// assumed server ([Rehearse]), the run with the clock and real requests (package engine), the resumed run
// with what the journal says was done ([Done]).
package load

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"parley/schemas/random"
)

// An arrival sequence gives the offsets from the start of a run at which conversations are due, in
// order. Sequences are pure: they hold no clock, and going over one twice gives the same offsets twice, on
// every processor (see package schemas/random, and for the float64(...) around products).
// All but [Recorded] and [AtOnce] go on for ever (until an offset no longer fits a time.Duration).

// Poisson gives arrivals of a Poisson process: gaps are exponential with the mean 1/rate. rate is per
// second.
func Poisson(rate float64, seed uint64) iter.Seq[time.Duration] {
	return renewal(func(r *rand.Rand) func() float64 {
		return func() float64 { return random.Exponential(r) / rate }
	}, seed)
}

// Gamma gives arrivals whose gaps are gamma distributed with the given shape and the mean 1/rate. The
// index of dispersion of such arrivals tends to 1/shape: a shape under 1 is burstier than Poisson, 1 is
// Poisson, above 1 is more even. It is what other tools call burstiness (vllm bench serve
// --burstiness).
func Gamma(rate, shape float64, seed uint64) iter.Seq[time.Duration] {
	return renewal(func(r *rand.Rand) func() float64 {
		return func() float64 { return random.Gamma(r, shape) / (shape * rate) }
	}, seed)
}

// renewal gives the running sum of gaps in seconds.
func renewal(gaps func(*rand.Rand) func() float64, seed uint64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		gap := gaps(random.Stream(seed, "arrivals"))
		for t := gap(); ; t += gap() {
			d, ok := seconds(t)
			if !ok || !yield(d) {
				return
			}
		}
	}
}

// Constant gives arrivals at equal distances of 1/rate, the first at 0. The distances do not add up
// rounding errors.
func Constant(rate float64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for k := 0; ; k++ {
			d, ok := seconds(float64(k) / rate)
			if !ok || !yield(d) {
				return
			}
		}
	}
}

// Recorded gives the offsets of a trace, which must not go back, divided by speed, over and over: each
// further pass follows the one before after one mean gap. The first offset becomes 0. loops is the
// number of passes, 0 for no end.
func Recorded(offsets []time.Duration, speed float64, loops int) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		if len(offsets) == 0 {
			return
		}
		first := offsets[0]
		span := float64(offsets[len(offsets)-1] - first)
		if n := len(offsets); n > 1 {
			span += span / float64(n-1)
		} else {
			span = float64(time.Second) // a trace of one arrival has no gap to go by
		}
		for pass := 0; loops == 0 || pass < loops; pass++ {
			for _, o := range offsets {
				d, ok := seconds((float64(o-first) + float64(float64(pass)*span)) / speed / 1e9)
				if !ok || !yield(d) {
					return
				}
			}
		}
	}
}

// AtOnce gives n arrivals at 0; without end if n is negative.
func AtOnce(n int) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for k := 0; n < 0 || k < n; k++ {
			if !yield(0) {
				return
			}
		}
	}
}

// Spread gives n arrivals at equal distances over a time, the first at 0: the way in which a closed loop
// fills its places.
func Spread(n int, over time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for k := range n {
			if !yield(time.Duration(float64(over) * float64(k) / float64(n))) {
				return
			}
		}
	}
}

// Ramp raises the rate of an arrival sequence from 0 to its own, linearly over a time. It is a change of
// time: an operational clock whose rate at t is t/over until over, and 1 from then on, has reached
// t²/(2·over), then t - over/2; an arrival that was due when that clock shows u is now due at the t at
// which it does. Whatever the process is, its shape in operational time stays.
func Ramp(arrivals iter.Seq[time.Duration], over time.Duration) iter.Seq[time.Duration] {
	if over <= 0 {
		return arrivals
	}
	return func(yield func(time.Duration) bool) {
		for u := range arrivals {
			if t := ramped(u, over); t < u || !yield(t) {
				return // past the end of time.Duration, or enough
			}
		}
	}
}

// ramped gives the t at which a ramp's operational clock shows u.
func ramped(u, over time.Duration) time.Duration {
	if u < over/2 {
		return time.Duration(math.Sqrt(2 * float64(over) * float64(u)))
	}
	return u + over/2
}

// Staged runs a process through stages of rate: process(1) is its arrivals at one per second, and each stage
// lets that clock run at the stage's rate. It is a change of time, as in [Ramp]: an arrival that is due when
// the clock shows u is due at the t at which the rates have added up to u. The last stage has no end here: the
// run's own does it. A ramp, not longer than the first stage, raises the rate to that stage's from 0.
func Staged(process func(rate float64) iter.Seq[time.Duration], stages []Stage, ramp time.Duration) iter.Seq[time.Duration] {
	if len(stages) == 1 {
		return Ramp(process(stages[0].Level), ramp)
	}
	return func(yield func(time.Duration) bool) {
		i, from, done := 0, time.Duration(0), 0.0 // the stage, when it began, and what the clock showed then
		for u := range process(1) {
			for ; i+1 < len(stages); i++ {
				s := stages[i]
				if i == 0 {
					s.For -= ramp / 2 // which is what the ramp lets it do less
				}
				if u.Seconds() < done+float64(s.Level*s.For.Seconds()) {
					break
				}
				done += float64(s.Level * s.For.Seconds())
				from += stages[i].For
			}
			d, ok := seconds((u.Seconds() - done) / stages[i].Level)
			if i == 0 {
				d = ramped(d, ramp)
			}
			if !ok || !yield(from+d) {
				return
			}
		}
	}
}

// seconds gives s as a duration, or false where it does not fit one.
func seconds(s float64) (time.Duration, bool) {
	if ns := s * 1e9; ns < math.MaxInt64/2 {
		return time.Duration(ns), true
	}
	return 0, false
}
