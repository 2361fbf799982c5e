package clock

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// initSleep finds CLOCK_MONOTONIC at run time 0, which package time does not tell, and whether this is a
// synctest bubble: there package time's wall clock is not the kernel's.
func (c *Clock) initSleep() {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &ts) != nil {
		c.virtual = true // no clocks to ask: package time's timers do
		return
	}
	if d := time.Since(time.Unix(0, ts.Nano())); d > time.Minute || d < -time.Minute {
		c.virtual = true
		return
	}
	best, mono := int64(1<<62), int64(0)
	for range 12 {
		before := c.Now()
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
			c.virtual = true
			return
		}
		if width := c.Now() - before; width < best {
			best, mono = width, ts.Nano()-(before+width/2)
		}
	}
	c.monoNS.Store(mono)
	c.asleep = sinceBoot()
}

// Slept gives for how long the machine has been asleep since the clock was made. The run's time, and all of the
// client's limits, stand still while it is.
func (c *Clock) Slept() time.Duration {
	if c.virtual {
		return 0
	}
	return time.Duration(max(0, sinceBoot()-c.asleep))
}

// sinceBoot gives for how long the machine has been asleep since it was started, to within a few microseconds.
func sinceBoot() int64 {
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return boot.Nano() - mono.Nano()
}

// SleepUntil sleeps until the run's time is ns and returns at once when it has passed. It blocks its OS
// thread in clock_nanosleep with an absolute time, which wakes within about 0.1 ms where a timer of the
// Go runtime wakes about 1 ms late; the calling goroutine should have locked its thread
// (runtime.LockOSThread). It cannot be interrupted: a caller that has to look at something else sleeps in
// pieces.
func (c *Clock) SleepUntil(ns int64) {
	if c.virtual {
		time.Sleep(time.Duration(ns - c.Now()))
		return
	}
	for ns > c.Now() {
		ts := unix.NsecToTimespec(ns + c.monoNS.Load())
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			time.Sleep(time.Duration(ns - c.Now()))
			return
		}
	}
}
