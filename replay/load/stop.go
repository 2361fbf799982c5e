package load

import (
	"math"
	"time"
)

// dropOf gives the reason for which turns are dropped in a run that was stopped.
func dropOf(stop string) string {
	switch stop {
	case EndRequests, EndDuration:
		return DropBudget
	case EndError:
		return DropRunFailed
	default:
		return stop // the others are called alike
	}
}

// The brakes against a server that answers with nothing but errors, unless Rules.MaxErrors says otherwise.
const (
	brakeTurns = 20               // so many turns in a row failed,
	brakeTime  = 10 * time.Second // over such a time: the run gives up
	backOffMin = 100 * time.Millisecond
	backOffMax = 10 * time.Second
	atOnce     = time.Second // a failure that came within this time costs the server nothing: new turns back off
)

// lastTurns is over how many turns an error budget's share is taken.
const lastTurns = 100

// Judge counts a turn that ended for the error budget.
func (l *Left) Judge(o Outcome) {
	if o == Canceled {
		return
	}
	if l.Last = append(l.Last, o != OK); len(l.Last) > lastTurns {
		l.Last = l.Last[1:]
	}
	if o != OK {
		l.Failed++
	}
}

func (s *Scheduler) cut(reason string) {
	if s.inFlight > 0 {
		s.out = append(s.out, Action{Kind: Cut, Reason: reason})
	}
}

// checkCount stops the run if its requests are used up.
func (s *Scheduler) checkCount(at int64) {
	if s.r.Requests > 0 && s.minimum && s.main >= s.r.Share(s.r.Requests) {
		s.stop(EndRequests, at)
	}
}

// judge takes a turn's outcome into account for the brakes. began is when it was started.
func (s *Scheduler) judge(o Outcome, began, at int64) {
	if o == Canceled {
		return
	}
	bad := o != OK
	if s.record(bad); bad {
		s.failed++
	}
	b := &s.r.MaxErrors
	switch {
	case b.Count > 0 && s.failed >= max(1, s.r.Share(b.Count)), b.Share > 0 && float64(s.lastBad) > b.Share*lastTurns:
		s.stop(EndErrors, at)
		return
	case o == Silent:
		return
	case !bad:
		s.inRow, s.fast, s.backOff = 0, 0, 0
		return
	}
	if s.inRow++; s.inRow == 1 {
		s.rowSince = at
	}
	if at-began < int64(atOnce) {
		s.fast++
	} else {
		s.fast, s.backOff = 0, 0
	}
	if !b.Off && b.Count == 0 && b.Share == 0 && s.inRow >= brakeTurns && at-s.rowSince >= int64(brakeTime) {
		s.stop(EndErrors, at)
		return
	}
	if s.fast >= brakeTurns && began >= s.round {
		s.backOff = min(max(2*s.backOff, backOffMin), backOffMax)
		s.round = at + int64(s.backOff)
		s.at(s.round, timer{kind: timeRelease})
	}
}

// record keeps whether the last turns failed.
func (s *Scheduler) record(bad bool) {
	i := s.lastN % lastTurns
	if s.last[i] {
		s.lastBad--
	}
	if s.last[i] = bad; bad {
		s.lastBad++
	}
	s.lastN++
}

// stop ends the starting of turns. The first reason counts.
func (s *Scheduler) stop(reason string, at int64) {
	if s.stopped != "" {
		return
	}
	s.stopped, s.stopAt = reason, at
	kept := s.timers.items
	s.timers.items = nil
	for _, t := range kept {
		if t.v.kind == timeDeadline {
			s.at(t.at, t.v)
		}
	}
	grace := s.r.Grace
	if reason == EndRequests {
		grace = s.r.CountGrace
	}
	if grace >= 0 {
		s.at(at+int64(grace), timer{kind: timeGrace})
	}
	s.queued, s.waiting = queue[ref]{}, queue[int32]{}
	for _, in := range s.trees {
		if in.live > 0 {
			s.cutTree(in, at)
		}
	}
}

// cutTree drops what a stop leaves of a tree: all but the turns under way.
func (s *Scheduler) cutTree(in *instance, at int64) {
	root := &in.convs[0]
	// Which of several conversations that get their places together take the last turns of a budget is chance;
	// how many rows there are must not be: one that has not begun is one that the run did not come to.
	unplan := s.r.Bounded() && !s.r.Open() && !root.began && root.planned
	if unplan {
		s.planned -= int64(in.members[0].turns - root.first)
		root.planned = false
	}
	for m := range in.convs {
		c := &in.convs[m]
		if c.state == over || c.state == running {
			continue
		}
		in.cut = true
		s.drop(in, int32(m), c.next, dropOf(s.stopped), false)
		s.end(in, int32(m), false, at)
	}
}

// dropRest drops what the run did not come to, a portion at a time.
func (s *Scheduler) dropRest() {
	s.gated, s.more = false, false
	for n := 0; s.peek(); n++ {
		if n == portion {
			s.more = true
			return
		}
		if s.r.Bounded() {
			offered := s.r.Open() && (s.r.Rate == nil || !math.IsInf(s.r.Rate[0].Level, 1)) && int64(s.pending.Offset) <= s.stopAt
			if !offered {
				if s.r.Loops == 0 && s.pending.Pass > 0 {
					s.have, s.over = false, true // the schedule has no end
					return
				}
				conversations, _ := s.x.Size(s.pending.Row)
				s.notAdmitted += int64(conversations)
				s.have = false
				continue
			}
		}
		in := s.take()
		in.cut = true
		root := &in.convs[0]
		if s.r.Bounded() {
			s.plan(in, 0)
			root.state, root.due = waits, int64(in.Offset)
		}
		for m := range in.convs {
			if c := &in.convs[m]; c.state != over {
				reason := dropOf(s.stopped)
				if c.bad {
					reason = DropFailed
				}
				s.drop(in, int32(m), c.next, reason, false)
				s.end(in, int32(m), false, s.stopAt)
			}
		}
	}
}
