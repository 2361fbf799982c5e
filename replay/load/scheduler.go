package load

import (
	"iter"
	"time"
)

// portion bounds the arrivals and drops of one Step.
const portion = 256

// Scheduler decides what is due: places and their order, ramps, stages, pauses, warm-up, limits, the trees of
// conversations that start and join others, loops, shards, the error budget, and what becomes of the turns that
// a stop leaves. It is a value without clock and goroutine: [Scheduler.Step] takes what happened and gives what
// is to be done, [Scheduler.Next] says when something is due by itself. Moments are nanoseconds of time under
// load: a resumed run begins where the interrupted one was.
//
// # What is planned
//
// A run over a fixed extent plans every turn of it. A run that [Rules.Bounded] says stops plans the turns of the
// conversations that it comes to: in a closed loop those that get a place, in an open loop those that arrive
// before the stop, and of what these start, those whose moment came. Each planned turn is started once or
// dropped once.
//
// # Places
//
// A tree of conversations holds one place from its root's first turn to the end of its last conversation. A
// place that becomes free goes to whoever has waited longest, at the moment at which it became free.
//
// # Failing servers
//
// Without Rules.MaxErrors a run gives up when every turn of the last ten seconds, at least twenty, failed. When
// the last twenty turns failed within a second each, new turns wait: 0.1 s, and twice as long with each round
// that fails too, up to 10 s. Turns that timed out are the limits' matter and count neither way.
type Scheduler struct {
	r    *Rules
	x    *Extent
	done Done

	next    func() (Entry, bool)
	release func()
	pending Entry // the schedule's next entry
	have    bool
	over    bool // it has no further one
	gated   bool
	ready   int64 // entries that can be started, if gated
	taken   int64 // entries that were

	from    int64 // where the run began
	now     int64
	timers  heap[timer]
	arrival int64 // for which a timer is set
	more    bool  // arrivals or drops that did not fit into one Step
	places  slots
	flights slots
	waiting queue[int32] // trees that wait for a place
	queued  queue[ref]   // turns that wait for a place among the requests, for the journal or for the back-off
	hold    bool
	trees   []*instance
	free    []int32
	live    int // trees that are not over
	stage   int32

	started, main int64
	planned       int64
	notAdmitted   int64
	active        int64 // trees that hold a place, or held one when the run stopped
	inFlight      int64
	looped        bool
	stopped       string
	stopAt        int64
	minimum       bool // Rules.MinDuration has passed
	ended         bool

	failed   int64 // turns
	inRow    int64 // failures in a row
	rowSince int64 // when the first of them ended
	fast     int64 // those among them, from the last one back, that came at once
	round    int64 // the last back-off's end
	backOff  time.Duration
	last     [lastTurns]bool // whether the last turns failed
	lastN    int64
	lastBad  int64

	out []Action
}

type timerKind uint8

const (
	timeTurn timerKind = iota
	timeArrival
	timePlace
	timeStage
	timeRelease // of the back-off
	timeDuration
	timeMinimum
	timeDeadline
	timeGrace
)

type timer struct {
	kind timerKind
	ref
	gen uint32
}

// Left is what an interrupted run left.
type Left struct {
	Done Done
	Time int64 // that it was under load
	Rows int64
	Sent int64 // turns
	Main int64 // those of them that were not warm-up

	Failed int64  // turns
	Last   []bool // whether the last turns that ended failed, at most as many as the error budget looks at
}

// NewScheduler makes the machine of a run, from the beginning or from where an interrupted one was. Close it at
// the end.
func NewScheduler(x *Extent, r *Rules, left Left) *Scheduler {
	from := left.Time
	s := &Scheduler{r: r, x: x, done: left.Done, from: from, now: from, arrival: None, stage: -1, minimum: int64(r.MinDuration) <= from, stopAt: None, round: None}
	s.next, s.release = iter.Pull(Schedule(x, r, left.Done))
	if r.Bounded() {
		s.planned = left.Rows
	} else {
		s.planned = x.Planned(r)
	}
	s.started, s.main, s.failed = left.Sent, left.Main, left.Failed
	for _, bad := range left.Last {
		s.record(bad)
	}
	s.more = true // whatever is due at once
	s.places.limit, s.flights.limit = -1, -1
	if r.MaxInFlight > 0 {
		s.flights.raise(r.Share(int64(r.MaxInFlight)), None)
	}
	if r.MaxConversations > 0 {
		s.places.raise(r.Share(int64(r.MaxConversations)), None)
	}
	if !r.Open() {
		s.places.limit = 0
		for d := range openings(r) {
			s.at(max(from, int64(d)), timer{kind: timePlace})
		}
	}
	if stages := r.stages(); stages != nil {
		s.stage = 0
		end := time.Duration(0)
		for _, st := range stages[:len(stages)-1] {
			end += st.For
			s.at(max(from, int64(end)), timer{kind: timeStage})
		}
	}
	if r.Duration > 0 {
		s.at(max(from, int64(r.Duration)), timer{kind: timeDuration})
	}
	if r.Deadline > 0 {
		s.at(max(from, int64(r.Deadline)), timer{kind: timeDeadline})
	}
	if !s.minimum {
		s.at(int64(r.MinDuration), timer{kind: timeMinimum})
	}
	s.checkCount(from)
	return s
}

// Gate has entries start only when Prepared told that they can.
func (s *Scheduler) Gate() { s.gated = true }

// Close lets go of the schedule.
func (s *Scheduler) Close() { s.release() }

// The figures of a run so far.
func (s *Scheduler) Planned() int64     { return s.planned }     // turns
func (s *Scheduler) NotAdmitted() int64 { return s.notAdmitted } // conversations that a bounded run never came to
func (s *Scheduler) Started() int64     { return s.started }     // turns
func (s *Scheduler) InFlight() int64    { return s.inFlight }    // requests
func (s *Scheduler) Active() int64      { return s.active }      // trees of conversations that hold a place, to the end of load
func (s *Scheduler) Looped() bool       { return s.looped }      // a second pass has begun
func (s *Scheduler) Ended() bool        { return s.ended }

// Stopped gives the reason for which no turn starts any more, "" if turns do, and since when.
func (s *Scheduler) Stopped() (reason string, at int64) { return s.stopped, s.stopAt }

// Next gives the moment at which something is due by itself, false if all depends on what others do.
func (s *Scheduler) Next() (at int64, ok bool) {
	switch {
	case s.ended:
		return 0, false
	case s.more:
		return s.now, true
	case s.timers.len() > 0:
		return s.timers.next(), true
	}
	return 0, false
}

// Step takes an event and gives what is to be done, in order. The actions are valid until the next call.
func (s *Scheduler) Step(e Event) []Action {
	s.out = s.out[:0]
	if s.ended {
		return nil
	}
	s.now = max(s.now, e.At)
	if e.Kind == Came {
		s.more = false
	}
	s.settle() // what was due before
	switch e.Kind {
	case Prepared:
		s.ready = e.N
	case Begun:
		s.begun(e.Task, e.At)
	case Ended:
		s.endTurn(&e)
	case Hold:
		s.hold = true
	case Go:
		s.hold = false
	case Stop:
		s.stop(e.Reason, e.At)
	}
	s.settle()
	if s.stopped != "" {
		s.dropRest()
	}
	s.finish()
	return s.out
}

// settle has all happen that is due by now.
func (s *Scheduler) settle() {
	for s.timers.len() > 0 && s.timers.next() <= s.now {
		s.fire(s.timers.pop())
		s.admit()
		s.pump()
	}
	s.admit()
	s.pump()
}

// at sets a timer.
func (s *Scheduler) at(at int64, t timer) { s.timers.push(at, t) }

func (s *Scheduler) fire(at int64, t timer) {
	switch t.kind {
	case timeTurn:
		if in := s.trees[t.slot]; in.gen == t.gen && in.convs[t.member].state == timed {
			s.due(in, t.member)
		}
	case timeArrival: // admit takes it from there
	case timePlace:
		s.places.raise(s.places.limit+1, at)
	case timeStage:
		s.stage++
		if !s.r.Open() {
			s.places.raise(s.r.Places(int(s.stage)), at)
		}
	case timeRelease: // pump goes on
	case timeDuration:
		s.stop(EndDuration, at)
	case timeMinimum:
		s.minimum = true
		s.checkCount(at)
	case timeDeadline:
		s.stop(EndDeadline, at)
		s.cut(DropDeadline)
	case timeGrace:
		s.cut(CutGrace)
	}
}

// finish ends the load when nothing is left.
func (s *Scheduler) finish() {
	if s.live > 0 || s.more || s.stopped == "" && s.waiting.len() > 0 {
		return
	}
	if s.peek(); s.have || !s.over {
		return
	}
	if s.ended = true; s.stopped == "" {
		s.stopped, s.stopAt = EndComplete, s.now
	}
	s.out = append(s.out, Action{Kind: End, Reason: s.stopped})
}
