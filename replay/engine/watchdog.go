package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/replay/load"
)

// watchSlack is what a request may take beyond its own limits before it counts as hung: its limits are
// the transport's to keep, the watchdog is for the case that it does not.
const watchSlack = 15 * time.Second

// stuckAfter is how long nothing may move without a reason, unless turns may be silent for a shorter time.
const stuckAfter = 2 * time.Minute

// suspendedAfter is how much later than it asked for the watchdog has to wake for the client to have been suspended:
// the process was stopped, or its (virtual) machine was, or it had no processor. While a machine sleeps the run's own
// time stands still, and only the clock that goes on through sleep tells.
const suspendedAfter = time.Second

// absences are the times for which the client did not run. The watchdog notes them, and whoever finds a request broken
// looks whether it should have.
type absences struct {
	mu               sync.Mutex
	due              int64 // run time at which the watchdog is to wake
	noted            int64 // up to when all is noted
	asleep           time.Duration
	suspended, slept time.Duration // in all
	list             []absence
}

type absence struct {
	until  int64 // run time at which the client ran again
	length time.Duration
}

// look notes whether the client was away up to now.
func (a *absences) look(now int64, asleep time.Duration) {
	if late := time.Duration(now - max(a.due, a.noted)); late >= suspendedAfter {
		a.suspended += late
		a.list = append(a.list, absence{now, late})
		a.noted = now
	}
	if slept := asleep - a.asleep; slept >= suspendedAfter {
		a.slept += slept
		a.list = append(a.list, absence{now, slept})
		a.asleep = asleep
	}
}

// begin is told when the watchdog begins, and when it is to wake first.
func (a *absences) begin(next int64, asleep time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.asleep = next, asleep
}

// woke is told when the watchdog wakes, and when it is to wake next, and says how late it is.
func (a *absences) woke(now, next int64, asleep time.Duration) (late time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(now, asleep)
	late = time.Duration(now - a.due)
	a.due = next
	return late
}

// since gives for how long the client was away since a moment.
func (a *absences) since(at, now int64, asleep time.Duration) (away time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due > 0 {
		a.look(now, asleep)
	}
	for _, one := range a.list {
		if one.until > at {
			away += one.length
		}
	}
	return away
}

func (a *absences) totals() (suspended, slept time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.suspended, a.slept
}

// watch ends the run when nothing can move any more: when a request outlives its limit, or when neither the
// scheduler has a moment to come nor a request is under way, and yet the run does not end. However long a run
// waits for its next arrival or a think time's end, it is healthy. After the client was suspended, everything that
// is overdue has the whole patience once more: the watchdog may be the first to run.
func (e *Engine) watch(ctx context.Context) {
	patience := stuckAfter
	if e.IdleTimeout > 0 {
		patience = min(patience, e.IdleTimeout)
	}
	every := min(time.Second, patience/4+1)
	tick := time.NewTicker(every)
	defer tick.Stop()
	e.absences.begin(e.Clock.Now()+int64(every), e.Slept())
	bear := int64(0) // until when all is borne
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := e.Clock.Now()
		if late := e.absences.woke(now, now+int64(every), e.Slept()); late >= min(suspendedAfter, patience/2) {
			bear = now + int64(patience)
		}
		if now <= bear {
			continue
		}
		stuck, what := e.stuck(now, patience)
		if what == "" {
			continue
		}
		e.Stop(load.EndWatchdog)
		e.Fail(fmt.Errorf("watchdog: %s\nwhat was waiting:\n%s", what, e.describe(stuck)))
		e.cutOff(load.DropWatchdog)
		return
	}
}

// stuck gives the conversations that nothing will move any more, and why; "" if all is well.
func (e *Engine) stuck(now int64, patience time.Duration) (list []*Conversation, what string) {
	if limit := e.Timeout + watchSlack; e.Timeout > 0 {
		for _, c := range e.conversations() {
			if c.doing.Load() == doingRequest && time.Duration(now-c.since.Load()) > limit {
				list = append(list, c)
			}
		}
		if len(list) > 0 {
			return list, fmt.Sprintf("requests outlived their limit of %v", limit)
		}
	}
	still := time.Duration(now - e.lastMove.Load())
	if still <= patience {
		return nil, ""
	}
	e.mu.Lock()
	at, ok := e.sched.Next()
	flying, held, over := e.sched.InFlight(), e.holding, e.sched.Ended()
	e.mu.Unlock()
	overdue := time.Duration(now - e.shift - at) // if ok
	switch {
	case over:
		return nil, "" // Run sees to the rest
	case flying > 0:
		return nil, ""
	case held:
		return e.conversations(), fmt.Sprintf("nothing has moved for %v, because the journal takes no rows and all waits for the journal: is the disk stuck?", still.Round(time.Millisecond))
	case ok && overdue <= patience:
		return nil, "" // something is due later, or has just become so
	case e.clerk.progress():
		return nil, ""
	case ok:
		return e.conversations(), fmt.Sprintf("nothing has moved for %v, and the schedule does not go on, though something has been due for %v", still.Round(time.Millisecond), overdue.Round(time.Millisecond))
	}
	return e.conversations(), fmt.Sprintf("nothing has moved for %v, and nothing is due", still.Round(time.Millisecond))
}
