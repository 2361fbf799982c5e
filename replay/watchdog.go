package replay

import (
	"context"
	"fmt"
	"time"
)

// watchSlack is what a request may take beyond its own limits before it counts as hung: its limits are
// the transport's to keep, the watchdog is for the case that it does not.
const watchSlack = 15 * time.Second

// watch ends the run when nothing moves any more: when a request outlives every limit that it has, or
// when no request is under way, no moment of the schedule is to come, and yet the run does not end.
func (e *engine) watch(ctx context.Context) {
	idle := e.cfg.IdleTimeout
	if idle <= 0 {
		idle = DefaultIdleTimeout
	}
	longest := time.Duration(0) // of a request
	if e.cfg.Timeout > 0 {
		longest = e.cfg.Timeout*time.Duration(e.cfg.Retries+1) + watchSlack
	}
	tick := time.NewTicker(min(time.Second, idle/4+1))
	defer tick.Stop()
	select {
	case <-e.begun:
	case <-ctx.Done():
		return
	}
	e.moved()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := e.clk.Now()
		var hung []*conversation
		if longest > 0 {
			for _, c := range e.conversations() {
				if c.doing.Load() == doingRequest && time.Duration(now-c.since.Load()) > longest {
					hung = append(hung, c)
				}
			}
		}
		what := fmt.Sprintf("requests outlived their limit of %v", longest)
		if len(hung) == 0 {
			still := time.Duration(now - e.lastMove.Load())
			if due, ok := e.pacer.next(); still <= idle || e.inFlight.now.Load() > 0 || ok && due > now {
				continue
			}
			hung = e.conversations()
			what = fmt.Sprintf("nothing has moved for %v", still.Round(time.Millisecond))
			if !e.out.roomy() {
				what += ", because the journal takes no rows: is the disk stuck?"
			}
		}
		e.stop(endWatchdog)
		e.failRun(fmt.Errorf("watchdog: %s; what was waiting:\n%s", what, describe(hung, now)))
		e.cut(kindWatchdog)
		return
	}
}
