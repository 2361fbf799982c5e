//go:build !linux

package clock

import "time"

func (c *Clock) initSleep() {}

// SleepUntil sleeps until the run's time is ns, by a timer of the Go runtime, and returns at once when it
// has passed.
func (c *Clock) SleepUntil(ns int64) { time.Sleep(time.Duration(ns - c.Now())) }
