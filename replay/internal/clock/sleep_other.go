//go:build !linux

package clock

import "time"

func (c *Clock) initSleep() {}

// Slept is not known on these systems.
func (c *Clock) Slept() time.Duration { return 0 }

// SleepUntil sleeps until the run's time is ns, by a timer of the Go runtime, and returns at once when it
// has passed.
func (c *Clock) SleepUntil(ns int64) { time.Sleep(time.Duration(ns - c.Now())) }
