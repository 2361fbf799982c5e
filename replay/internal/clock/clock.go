// Package clock gives the time of a run: int64 nanoseconds since the run's origin, from the monotonic
// clock, and the conversion of the kernel's receive stamps, which are taken from the adjustable
// CLOCK_REALTIME, to it.
//
// The two clocks run at the same rate on Linux (the NTP discipline slews both alike), so that one offset
// connects them until somebody steps the wall clock. The offset is therefore sampled at the start and
// again with every [Clock.Resample]; a change of more than [StepBound] is counted as a step and stands in
// the run's metadata, because stamps taken between the step and the next sample are wrong by as much.
//
// The clock works in a testing/synctest bubble: there all its figures come from the bubble's time.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// StepBound is the change of the offset between two samples above which the wall clock is taken to have
// been stepped and not merely slewed: the kernel slews by at most 500 ppm (adjtimex(2), tick aside),
// which is 0.5 ms in the second between two samples.
const StepBound = time.Millisecond

// Clock is the time of one run. Make it with [New]; its methods may be called by any goroutine.
type Clock struct {
	base    time.Time    // a reading with a monotonic part
	baseNS  atomic.Int64 // base on the run's time line
	offset  atomic.Int64
	monoNS  atomic.Int64 // CLOCK_MONOTONIC at run time 0; see sleep_linux.go
	asleep  int64        // CLOCK_BOOTTIME minus CLOCK_MONOTONIC when the clock was made
	virtual bool

	mu      sync.Mutex
	first   int64
	maxDiff int64
	steps   int64
}

// Info tells how a run's wall clock behaved, for the run's metadata.
type Info struct {
	OffsetStartNS int64 // wall clock minus run time at the first sample
	OffsetEndNS   int64 // and at the last
	MaxDriftNS    int64 // largest distance of a sample from the first one
	Steps         int64 // changes above StepBound between neighbouring samples
}

// New starts a clock whose time 0 is origin. An origin without a monotonic part (one that was read from
// text) is placed by the wall clock as it is now; it may lie in the future.
func New(origin time.Time) *Clock {
	base := time.Now()
	c := &Clock{base: base}
	c.baseNS.Store(int64(base.Sub(origin)))
	c.first = c.sample()
	c.offset.Store(c.first)
	c.initSleep()
	return c
}

// Restart moves time 0 to origin, as if the clock had been made with it, and begins its samples anew.
// Moments that were taken before are of the old time line: it is for the time before the load, when
// nothing is measured yet and it is not known how long the preparations will take.
func (c *Clock) Restart(origin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	base := int64(c.base.Sub(origin))
	c.monoNS.Add(c.baseNS.Swap(base) - base)
	c.first = c.sample()
	c.offset.Store(c.first)
	c.maxDiff, c.steps = 0, 0
}

// Now gives the time since the origin in nanoseconds; it never goes back.
func (c *Clock) Now() int64 { return c.baseNS.Load() + int64(time.Since(c.base)) }

// Time gives the reading of time.Now that belongs to ns; it has a monotonic part and suits deadlines.
func (c *Clock) Time(ns int64) time.Time { return c.base.Add(time.Duration(ns - c.baseNS.Load())) }

// Wall gives the wall-clock time (UTC) of ns, by the offset of the last sample.
func (c *Clock) Wall(ns int64) time.Time { return time.Unix(0, ns+c.offset.Load()).UTC() }

// FromRealtime converts a stamp of CLOCK_REALTIME, in nanoseconds since 1970, to nanoseconds since the
// origin, by the offset of the last sample.
func (c *Clock) FromRealtime(unixNS int64) int64 { return unixNS - c.offset.Load() }

// Resample measures the offset between the two clocks again and uses it from now on. It takes about a
// microsecond. It returns by how many nanoseconds the offset changed, and whether that is a step.
func (c *Clock) Resample() (changeNS int64, step bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.sample()
	changeNS = now - c.offset.Swap(now)
	c.maxDiff = max(c.maxDiff, now-c.first, c.first-now)
	if step = changeNS > int64(StepBound) || changeNS < -int64(StepBound); step {
		c.steps++
	}
	return changeNS, step
}

// Info gives the figures for the run's metadata.
func (c *Clock) Info() Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Info{
		OffsetStartNS: c.first,
		OffsetEndNS:   c.offset.Load(),
		MaxDriftNS:    c.maxDiff,
		Steps:         c.steps,
	}
}

// sample measures wall clock minus run time: the wall clock is read between two readings of the monotonic
// one, and of several such readings the one with the narrowest bracket counts, so that a preemption
// between the two clocks does not enter.
func (c *Clock) sample() int64 {
	best, offset := int64(1<<62), int64(0)
	for range 12 {
		before := c.Now()
		wall := time.Now().UnixNano()
		after := c.Now()
		if width := after - before; width < best {
			best, offset = width, wall-(before+width/2)
		}
	}
	return offset
}
