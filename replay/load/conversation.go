package load

import "slices"

type instance struct {
	Entry
	members []member  // of its tree
	alone   [1]member // which is these for a single conversation
	convs   []conv
	live    int   // conversations that are not over
	placed  bool  // it holds a place
	cut     bool  // the run's stop ended it
	gone    bool  // its place is given back
	arrived int64 // when its time came
	slot    int32
	gen     uint32
}

// conv is a conversation of a run.
type conv struct {
	state   uint8
	bad     bool // it is over and failed
	planned bool
	began   bool  // a turn of it started
	warm    bool  // the turn under way is warm-up
	sent    int32 // turns that an interrupted run had sent
	first   int32
	next    int32 // the turn that has not started
	waits   int32 // conversations that the next turn still has to wait for
	joined  int32 // the member among them that ended last
	own     int64 // since when the next turn's own predecessor is there
	join    int64 // the end of the last joined conversation, None without any
	pause   Pause
	due     int64 // of the next turn
	at      int64 // of the turn under way: when it was started; of the next one: since when it is ready
}

// States of a conversation.
const (
	idle    uint8 = iota // others have not started it
	waits                // for a place
	joining              // for conversations that it joins
	timed                // for its moment
	queued               // for leave to send
	running
	over
)

type ref struct{ slot, member int32 }

// starts says whether a conversation starts when a member's turn begins.
func (in *instance) starts(m, turn int32) bool {
	return slices.ContainsFunc(in.members[m].kids, func(k int32) bool {
		return in.members[k].parentTurn == turn && !in.members[k].fromEnd
	})
}

// instance makes the tree of an entry, with what is left of it.
func (s *Scheduler) instance(e Entry) *instance {
	var in *instance
	if n := len(s.free); n > 0 {
		in = s.trees[s.free[n-1]]
		s.free = s.free[:n-1]
	} else {
		in = &instance{slot: int32(len(s.trees))}
		s.trees = append(s.trees, in)
	}
	in.Entry, in.placed, in.cut, in.gone, in.arrived = e, false, false, false, None
	in.gen++
	if in.members = s.x.trees[e.Row]; in.members == nil {
		in.alone[0] = s.x.single(e.Row)
		in.members = in.alone[:]
	}
	n := len(in.members)
	if cap(in.convs) < n {
		in.convs = make([]conv, n)
	}
	in.convs = in.convs[:n]
	clear(in.convs)
	in.live = n
	s.live++
	for i := range in.convs {
		in.convs[i].join, in.convs[i].joined = None, -1
	}
	root := &in.convs[0]
	begins := firstTurn(s.x, s.r, e.K, e.Row)
	root.first, root.next = begins, begins
	for m := range in.convs { // what others had done before the root's first turn, or before an interruption
		c := &in.convs[m]
		p := s.done[Key{in.members[m].row, e.Pass}]
		if m > 0 && in.members[m].rootTurn < begins {
			p.Turns = in.members[m].turns
		}
		c.sent = p.Sent
		if p.Turns > 0 {
			c.first, c.next = p.Turns, p.Turns
			c.planned = p.Turns == in.members[m].turns
			c.began = true
			c.bad = p.Failed && !s.r.KeepGoing
			if c.next >= in.members[m].turns {
				c.state = over
				in.live--
			}
		}
	}
	return in
}

func (s *Scheduler) task(in *instance, m int32) Task {
	return Task{in.K, in.Pass, in.Row, in.members[m].row, m, in.slot}
}

// plan counts the turns of a conversation whose time has come. In a run over a fixed extent they were counted
// beforehand.
func (s *Scheduler) plan(in *instance, m int32) {
	c := &in.convs[m]
	if s.r.Bounded() && !c.planned {
		s.planned += int64(in.members[m].turns - c.first)
	}
	c.planned = true
}

// enter starts a tree that has its place, if it needs one: its root, or what an interrupted run left of it.
func (s *Scheduler) enter(in *instance, scheduled, ready int64) {
	s.active++
	s.plan(in, 0)
	for m := range in.convs {
		c := &in.convs[m]
		switch {
		case c.state == over:
			s.dropKids(in, int32(m))
		case c.began && c.bad:
			s.drop(in, int32(m), c.next, DropFailed, false)
			s.end(in, int32(m), true, ready)
		case m == 0 || c.began:
			s.plan(in, int32(m))
			c.due, c.at = scheduled, ready
			s.queue(in, int32(m))
		case len(s.done) > 0:
			if member := &in.members[m]; member.parentTurn < in.convs[member.parent].sent {
				s.startChild(in, int32(m), ready-int64(member.delay))
			}
		}
	}
}

func (s *Scheduler) start(in *instance, m int32) {
	c := &in.convs[m]
	a := Action{Kind: Start, Task: s.task(in, m), Turn: c.next, Scheduled: c.due, InFlight: -1, Pause: c.pause, First: c.next == c.first, Stage: s.stage, WaitJoin: -1, Joined: -1}
	since, _ := s.flights.take()
	if s.flights.limit >= 0 {
		a.InFlight = max(c.at, since) - c.at
		c.at += a.InFlight
	}
	a.Ready = max(c.at, s.round)
	if c.join != None {
		a.WaitJoin = max(0, c.join-c.own)
		if c.join > c.own {
			a.Joined = c.joined
		}
	}
	s.started++
	// A conversation that begins in the middle sends a history that the server's cache would hold by then: its
	// first turn fills the cache, and is not measured.
	primes := s.r.Stagger && c.next > 0 && !c.began
	c.warm = primes || s.started <= s.r.Share(s.r.Warmup) || s.r.WarmupTime > 0 && s.now < int64(s.r.WarmupTime)
	a.Warmup = c.warm
	if !c.warm {
		s.main++
	}
	a.Tell = in.starts(m, c.next)
	c.next++
	c.state, c.began, c.at = running, true, s.now
	s.inFlight++
	s.out = append(s.out, a)
	s.checkCount(s.now)
}

// conv gives the conversation of a task whose turn is under way, nil if that is no more.
func (s *Scheduler) running(t Task) (*instance, *conv) {
	in := s.trees[t.slot]
	if in.K != t.K || in.live == 0 || in.convs[t.Member].state != running {
		return nil, nil
	}
	return in, &in.convs[t.Member]
}

// begun starts the conversations that start with a turn.
func (s *Scheduler) begun(t Task, at int64) {
	in, c := s.running(t)
	if c == nil || s.stopped != "" {
		return
	}
	s.startKids(in, t.Member, at, false)
}

// startKids begins the start delays of the conversations that start with the start or the end of a member's turn.
func (s *Scheduler) startKids(in *instance, m int32, at int64, fromEnd bool) {
	for _, k := range in.members[m].kids {
		if kid := &in.members[k]; kid.parentTurn == in.convs[m].next-1 && kid.fromEnd == fromEnd && in.convs[k].state == idle {
			s.startChild(in, k, at)
		}
	}
}

// startChild begins a conversation's start delay, at the moment from which it counts.
func (s *Scheduler) startChild(in *instance, m int32, from int64) {
	member := &in.members[m]
	c := &in.convs[m]
	c.own, c.pause = from+int64(member.delay), member.pause
	s.await(in, m)
}

// await waits for what a conversation's next turn joins, if anything, and then for its moment.
func (s *Scheduler) await(in *instance, m int32) {
	c := &in.convs[m]
	if s.stopped != "" {
		s.cutTree(in, s.now)
		return
	}
	c.join, c.joined, c.waits = None, -1, 0
	for _, n := range in.members[m].joinsAt(c.next) {
		switch other := &in.convs[n]; {
		case other.state != over:
			c.waits++
		case other.bad && !s.r.KeepGoing:
			s.drop(in, m, c.next, DropJoin, false)
			s.end(in, m, true, s.now)
			return
		case other.at >= c.join:
			c.join, c.joined = other.at, n
		}
	}
	if c.state = joining; c.waits == 0 {
		s.schedule(in, m)
	}
}

// schedule sets the moment of a conversation's next turn, of which all predecessors have ended.
func (s *Scheduler) schedule(in *instance, m int32) {
	c := &in.convs[m]
	switch {
	case c.next > c.first || m == 0:
		c.due = max(c.own, c.join) + c.pause.total()
	case c.join != None: // a child's first turn
		c.due = max(c.own, c.join+c.pause.total())
	default:
		c.due = c.own
	}
	if c.state = timed; c.due <= s.now {
		s.due(in, m)
		return
	}
	s.at(c.due, timer{kind: timeTurn, ref: ref{in.slot, m}, gen: in.gen})
}

// due has a turn whose moment came go on.
func (s *Scheduler) due(in *instance, m int32) {
	s.plan(in, m)
	in.convs[m].at = in.convs[m].due
	s.queue(in, m)
}

func (s *Scheduler) endTurn(e *Event) {
	in, c := s.running(e.Task)
	if c == nil {
		return
	}
	m, at := e.Task.Member, e.At
	s.inFlight--
	s.flights.give(at)
	if e.Outcome == Bad {
		s.started--
		if !c.warm {
			s.main--
		}
		s.drop(in, m, c.next-1, DropBad, false)
		s.end(in, m, true, at)
		return
	}
	s.judge(e.Outcome, c.at, at)
	failed := (e.Outcome == Failed || e.Outcome == Silent) && !s.r.KeepGoing
	if !failed && s.stopped == "" {
		s.startKids(in, m, at, true)
	}
	left := c.next < in.members[m].turns
	switch {
	case failed:
		if left {
			s.drop(in, m, c.next, DropFailed, false)
		}
		s.end(in, m, true, at)
	case !left:
		s.end(in, m, false, at)
	case s.stopped != "":
		in.cut = true
		s.drop(in, m, c.next, dropOf(s.stopped), false)
		s.end(in, m, false, at)
	default:
		c.own, c.pause = at, e.Pause
		s.await(in, m)
	}
}

// drop gives up the turns of a conversation from one on. In a bounded run one whose moment has not come is not
// planned, and only counted.
func (s *Scheduler) drop(in *instance, m, from int32, reason string, shed bool) {
	c := &in.convs[m]
	if s.r.Bounded() && !c.planned {
		s.notAdmitted++
		return
	}
	a := Action{Kind: Drop, Task: s.task(in, m), Turn: from, Scheduled: None, First: from == c.first, Shed: shed, Reason: reason}
	if c.state == queued || c.state == waits {
		a.Scheduled = c.due
	}
	s.out = append(s.out, a)
}

// end ends a conversation.
func (s *Scheduler) end(in *instance, m int32, bad bool, at int64) {
	c := &in.convs[m]
	c.state, c.bad, c.at = over, bad, at
	in.live--
	if s.stopped == "" {
		s.dropKids(in, m)
		for _, j := range in.members[m].joiners {
			jc := &in.convs[j.member]
			if jc.state != joining || jc.next != j.turn {
				continue
			}
			if bad && !s.r.KeepGoing {
				s.drop(in, j.member, jc.next, DropJoin, false)
				s.end(in, j.member, true, at)
				continue
			}
			if at >= jc.join {
				jc.join, jc.joined = at, m
			}
			if jc.waits--; jc.waits == 0 {
				s.schedule(in, j.member)
			}
		}
	}
	if in.live == 0 && !in.gone {
		s.leave(in, at)
	}
}

// dropKids drops the conversations that one which is over did not start.
func (s *Scheduler) dropKids(in *instance, m int32) {
	for _, k := range in.members[m].kids {
		if in.convs[k].state == idle && (in.members[k].parentTurn >= in.convs[m].sent || in.convs[m].sent == 0) {
			s.drop(in, k, in.convs[k].next, DropParent, false)
			s.end(in, k, true, s.now)
		}
	}
}
