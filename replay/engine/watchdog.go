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

// watch ends the run when nothing can move any more: when a request outlives its limit, or when neither the
// scheduler has a moment to come nor a request is under way, and yet the run does not end. However long a run
// waits for its next arrival or a think time's end, it is healthy.
func (e *Engine) watch(ctx context.Context) {
	patience := stuckAfter
	if e.IdleTimeout > 0 {
		patience = min(patience, e.IdleTimeout)
	}
	tick := time.NewTicker(min(time.Second, patience/4+1))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		stuck, what := e.stuck(patience)
		if what == "" {
			continue
		}
		e.Stop(load.EndWatchdog)
		e.Fail(fmt.Errorf("watchdog: %s; what was waiting:\n%s", what, e.describe(stuck)))
		e.cutOff(load.DropWatchdog)
		return
	}
}

// stuck gives the conversations that nothing will move any more, and why; "" if all is well.
func (e *Engine) stuck(patience time.Duration) (list []*Conversation, what string) {
	now := e.Clock.Now()
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
	switch {
	case over:
		return nil, "" // Run sees to the rest
	case flying > 0:
		return nil, ""
	case held:
		return e.conversations(), fmt.Sprintf("nothing has moved for %v, because the journal takes no rows and all waits for the journal: is the disk stuck?", still.Round(time.Millisecond))
	case ok && time.Duration(now-e.shift-at) <= patience:
		return nil, "" // something is due later, or has just become so
	case e.clerk.progress():
		return nil, ""
	}
	return e.conversations(), fmt.Sprintf("nothing has moved for %v, and nothing is due", still.Round(time.Millisecond))
}
