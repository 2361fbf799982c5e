package load

// peek has the schedule's next entry in pending, and says whether it can be started.
func (s *Scheduler) peek() bool {
	if !s.have && !s.over {
		if s.pending, s.have = s.next(); !s.have {
			s.over = true
		}
	}
	return s.have && (!s.gated || s.taken < s.ready)
}

func (s *Scheduler) take() *instance {
	e := s.pending
	s.have = false
	s.taken++
	s.looped = s.looped || e.Pass > 0
	return s.instance(e)
}

// admit starts the conversations of the schedule whose time or place is there.
func (s *Scheduler) admit() {
	for n := 0; s.stopped == "" && !s.more; n++ {
		if n == portion {
			s.more = true
			return
		}
		if !s.r.Open() {
			if !s.places.any() || !s.peek() {
				return
			}
			since, _ := s.places.take()
			in := s.take()
			in.placed = true
			s.enter(in, max(since, 0), max(since, 0))
			continue
		}
		if slot, ok := s.waiting.peek(); ok && s.places.any() {
			since, _ := s.places.take()
			s.waiting.pop()
			in := s.trees[slot]
			in.placed = true
			s.enter(in, in.arrived, max(in.arrived, since))
			continue
		}
		can := s.peek()
		if at := int64(s.pending.Offset); s.have && at > s.now && s.arrival != at {
			s.arrival = at // which is due then, prepared or not
			s.at(at, timer{kind: timeArrival})
		}
		if !can || int64(s.pending.Offset) > s.now {
			return
		}
		s.arrive()
	}
}

// arrive has the open loop's next conversation arrive.
func (s *Scheduler) arrive() {
	in := s.take()
	in.arrived = max(int64(in.Offset), s.from)
	in.convs[0].due = in.arrived
	s.plan(in, 0)
	since, ok := s.places.take()
	switch {
	case ok:
		in.placed = true
		s.enter(in, in.arrived, max(in.arrived, since))
	case s.r.Shed:
		s.shed(in)
	default:
		in.convs[0].state = waits
		s.waiting.push(in.slot)
	}
}

// queue has a turn that is due wait for leave to be sent, or starts it.
func (s *Scheduler) queue(in *instance, m int32) {
	in.convs[m].state = queued
	if s.stopped != "" {
		s.cutTree(in, s.now)
		return
	}
	if s.queued.len() == 0 && s.may() {
		s.start(in, m)
		return
	}
	s.queued.push(ref{in.slot, m})
}

// may says whether a turn may start.
func (s *Scheduler) may() bool {
	return s.stopped == "" && !s.hold && s.now >= s.round && s.flights.any()
}

// pump starts turns that wait.
func (s *Scheduler) pump() {
	for s.queued.len() > 0 && s.may() {
		r, _ := s.queued.pop()
		s.start(s.trees[r.slot], r.member)
	}
}

// leave gives a tree's place back.
func (s *Scheduler) leave(in *instance, at int64) {
	in.gone = true
	s.live--
	in.gen++
	s.free = append(s.free, in.slot)
	if !in.cut { // else it holds its place to the end of load, as far as anybody can tell
		s.active--
	}
	if in.placed {
		s.places.give(at)
	}
}

// shed drops a tree that finds the limit of conversations full.
func (s *Scheduler) shed(in *instance) {
	in.cut = true // it never held a place
	in.convs[0].state = waits
	s.drop(in, 0, in.convs[0].next, DropShed, true)
	s.end(in, 0, true, in.arrived)
}

// slots bounds how many may do something at once. A place that is given back is free since the moment at which
// it was, and whoever takes one takes the one that has been free longest.
type slots struct {
	limit int64 // negative for no limit
	used  int64
	free  queue[int64] // since when
}

func (l *slots) any() bool { return l.limit < 0 || l.free.len() > 0 }

func (l *slots) take() (since int64, ok bool) {
	if l.limit < 0 {
		return None, true
	}
	if since, ok = l.free.pop(); ok {
		l.used++
	}
	return since, ok
}

func (l *slots) give(at int64) {
	if l.limit < 0 {
		return
	}
	if l.used--; l.used+int64(l.free.len()) < l.limit {
		l.free.push(at)
	}
}

// raise sets the limit, up or down; places that are in use stay so until they are given back.
func (l *slots) raise(limit, at int64) {
	l.limit = limit
	for l.used+int64(l.free.len()) < limit {
		l.free.push(at)
	}
	for l.used+int64(l.free.len()) > limit && l.free.len() > 0 {
		l.free.pop()
	}
}
