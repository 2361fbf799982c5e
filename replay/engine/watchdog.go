package engine

import (
	"context"
	"fmt"
	"time"

	"parley/replay/load"
)

// watchSlack is what a request may take beyond its own limits before it counts as hung: its limits are
// the transport's to keep, the watchdog is for the case that it does not.
const watchSlack = 15 * time.Second

// stuckAfter is how long nothing may move without a reason, unless turns may be silent for a shorter time.
const stuckAfter = 2 * time.Minute

// suspendedAfter is how much later than it asked for the watchdog has to wake for the client to have been suspended:
// the process was stopped, or its (virtual) machine was, or it had no processor.
const suspendedAfter = time.Second

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
	before, bear := e.Clock.Now(), int64(0) // bear: until when all is borne
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := e.Clock.Now()
		late := time.Duration(now-before) - every
		before = now
		if late >= min(suspendedAfter, patience/2) {
			bear = now + int64(patience)
		}
		if late >= suspendedAfter {
			e.suspended.Add(int64(late))
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
