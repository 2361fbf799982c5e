package load

import (
	"iter"
	"math"
	"time"
)

// None stands for a moment that there is not.
const None = int64(math.MinInt64)

// A Task names one conversation of a run: a member of the tree that an entry of the schedule starts.
type Task struct {
	K      int64 // the entry
	Pass   int64 // its pass over the dataset
	Root   int32 // the dataset's row of the tree's root
	Row    int32 // and of this conversation
	Member int32 // its number in the tree, 0 for the root
	slot   int32
}

// What happened: the kinds of an [Event].
type EventKind uint8

const (
	Came     EventKind = iota // a moment came, perhaps one that Next told
	Prepared                  // N entries of the schedule, from its beginning, can be started (see Gate)
	Begun                     // a turn whose Start asked to be told has begun
	Ended                     // a turn that was started has ended
	Hold                      // no turn may start: the results cannot be written as fast as they come
	Go                        // turns may start again
	Stop                      // no turn starts any more, for Reason
)

// Event is what a [Scheduler] is told.
type Event struct {
	Kind    EventKind
	At      int64 // when, in nanoseconds of time under load; must not go back by more than actions need
	Task    Task
	Outcome Outcome
	Pause   Pause // Ended: before the conversation's next turn
	N       int64
	Reason  string
}

// Outcome is how a turn ended.
type Outcome uint8

// The outcomes.
const (
	OK       Outcome = iota
	Failed           // an error of the server or of the way to it
	Silent           // the same, but only time told: a limit passed
	Canceled         // the client gave it up
	Bad              // it was not sent, because the dataset's row cannot be made into a request
)

// ActionKind is what is to be done.
type ActionKind uint8

const (
	Start ActionKind = iota // send a turn's request
	Drop                    // the turns from Turn to the conversation's last are not sent: they become rows
	Cut                     // cut off the requests under way, for Reason
	End                     // the load is over, for Reason
)

// Action is what is to be done. Moments are of time under load.
type Action struct {
	Kind ActionKind
	Task Task
	Turn int32

	Scheduled int64 // when the turn was meant to go; in a Drop None if its time had not come
	Ready     int64 // when it could
	InFlight  int64 // how long before Ready it waited for MaxInFlight; negative without that limit
	Pause     Pause // before the turn; meaningless for a turn that begins a conversation
	First     bool  // it begins its conversation
	Warmup    bool
	Stage     int32 // -1 without stages
	WaitJoin  int64 // how long its joined conversations outlasted its own predecessor; negative without joins
	Joined    int32 // the member among them that decided the moment, -1 for none
	Tell      bool  // tell with Begun when the request begins: others start with it

	Shed   bool   // Drop: the limit of conversations was full
	Reason string // Drop, Cut, End: why
}

// Reasons why turns are dropped: the error kinds of not_reached rows. [Scheduler.Stop] has one for each end.
const (
	DropBudget      = "budget"              // the run's requests or its duration were used up
	DropDeadline    = "deadline"            // the run's deadline passed
	DropInterrupted = "interrupted"         // somebody stopped the run
	DropRunFailed   = "run_failed"          // the run ended by an error of its own
	DropWatchdog    = "watchdog"            // the run ended because nothing moved any more
	DropErrors      = "max_errors"          // the run gave the server up
	DropFailed      = "conversation_failed" // an earlier turn of the conversation failed
	DropParent      = "parent_not_reached"  // the turn of another conversation that starts this one did not start
	DropJoin        = "joined_failed"       // a conversation whose result the turn needs failed
	DropBad         = "bad_conversation"    // the dataset's row cannot be made into requests
	DropShed        = "shed"                // the limit of conversations was full
	CutGrace        = "grace"               // canceled: the turn outlasted the run's grace
	CutSuspended    = "suspended"           // canceled: the client did not run for a while, and the request did not survive it
)

// Reasons why a run ends, for RunMeta.Ended.
const (
	EndComplete    = "complete"
	EndRequests    = "requests"
	EndDuration    = "duration"
	EndDeadline    = "deadline"
	EndInterrupted = "interrupted"
	EndError       = "error"
	EndErrors      = "max_errors"
	EndWatchdog    = "watchdog"
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

type instance struct {
	Entry
	tree    *tree // nil for a single conversation
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
		s.flights.raise(r.share(int64(r.MaxInFlight)), None)
	}
	if r.MaxConversations > 0 {
		s.places.raise(r.share(int64(r.MaxConversations)), None)
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
			s.places.raise(s.r.places(int(s.stage)), at)
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

func (s *Scheduler) cut(reason string) {
	if s.inFlight > 0 {
		s.out = append(s.out, Action{Kind: Cut, Reason: reason})
	}
}

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
	in.Entry, in.tree, in.placed, in.cut, in.gone, in.arrived = e, s.x.trees[e.Row], false, false, false, None
	in.gen++
	n := 1
	if in.tree != nil {
		n = len(in.tree.members)
	}
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
	root.first = firstTurn(s.x, s.r, e.K, e.Row)
	root.next = root.first
	for m := range in.convs { // what others had done before the root's first turn, or before an interruption
		c := &in.convs[m]
		p := s.done[Key{s.row(in, int32(m)), e.Pass}]
		early := in.tree != nil && m > 0 && s.isBefore(in, int32(m))
		if early {
			p.Turns = s.turns(in, int32(m))
		}
		c.sent = p.Sent
		if p.Turns > 0 {
			c.first, c.next = p.Turns, p.Turns
			c.planned = p.Turns == s.turns(in, int32(m))
			c.began = true
			c.bad = p.Failed && !s.r.KeepGoing
			if c.next >= s.turns(in, int32(m)) {
				c.state = over
				in.live--
			}
		}
	}
	return in
}

// isBefore says whether a member was started, directly or not, by a turn of the root before the first.
func (s *Scheduler) isBefore(in *instance, m int32) bool {
	for {
		member := &in.tree.members[m]
		if member.parent == 0 {
			return member.parentTurn < firstTurn(s.x, s.r, in.K, in.Row)
		}
		m = member.parent
	}
}

func (s *Scheduler) row(in *instance, m int32) int32 {
	if in.tree == nil {
		return in.Row
	}
	return in.tree.members[m].row
}

func (s *Scheduler) turns(in *instance, m int32) int32 {
	if in.tree == nil {
		return s.x.turns[in.Row]
	}
	return in.tree.members[m].turns
}

func (s *Scheduler) task(in *instance, m int32) Task {
	return Task{in.K, in.Pass, in.Row, s.row(in, m), m, in.slot}
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

// plan counts the turns of a conversation whose time has come. In a run over a fixed extent they were counted
// beforehand.
func (s *Scheduler) plan(in *instance, m int32) {
	c := &in.convs[m]
	if s.r.Bounded() && !c.planned {
		s.planned += int64(s.turns(in, m) - c.first)
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
			if member := &in.tree.members[m]; member.parentTurn < in.convs[member.parent].sent {
				s.startChild(in, int32(m), ready-int64(member.delay))
			}
		}
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
	c.warm = primes || s.started <= s.r.share(s.r.Warmup) || s.r.WarmupTime > 0 && s.now < int64(s.r.WarmupTime)
	a.Warmup = c.warm
	if !c.warm {
		s.main++
	}
	a.Tell = in.tree != nil && in.tree.startsWith(&in.tree.members[m], c.next)
	c.next++
	c.state, c.began, c.at = running, true, s.now
	s.inFlight++
	s.out = append(s.out, a)
	s.checkCount(s.now)
}

// checkCount stops the run if its requests are used up.
func (s *Scheduler) checkCount(at int64) {
	if s.r.Requests > 0 && s.minimum && s.main >= s.r.share(s.r.Requests) {
		s.stop(EndRequests, at)
	}
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
	if c == nil || in.tree == nil || s.stopped != "" {
		return
	}
	for _, k := range in.tree.members[t.Member].kids {
		if kid := &in.tree.members[k]; kid.parentTurn == c.next-1 && !kid.fromEnd && in.convs[k].state == idle {
			s.startChild(in, k, at)
		}
	}
}

// startChild begins a conversation's start delay, at the moment from which it counts.
func (s *Scheduler) startChild(in *instance, m int32, from int64) {
	member := &in.tree.members[m]
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
	if in.tree != nil {
		for _, n := range in.tree.members[m].joinsAt(c.next) {
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
	if in.tree != nil && !failed && s.stopped == "" {
		for _, k := range in.tree.members[m].kids {
			if kid := &in.tree.members[k]; kid.parentTurn == c.next-1 && kid.fromEnd {
				s.startChild(in, k, at)
			}
		}
	}
	left := c.next < s.turns(in, m)
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
	if in.tree != nil && s.stopped == "" {
		s.dropKids(in, m)
		for _, j := range in.tree.members[m].joiners {
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
	if in.tree == nil {
		return
	}
	for _, k := range in.tree.members[m].kids {
		if in.convs[k].state == idle && (in.tree.members[k].parentTurn >= in.convs[m].sent || in.convs[m].sent == 0) {
			s.drop(in, k, in.convs[k].next, DropParent, false)
			s.end(in, k, true, s.now)
		}
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
	case b.Count > 0 && s.failed >= max(1, s.r.share(b.Count)), b.Share > 0 && float64(s.lastBad) > b.Share*lastTurns:
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
		s.planned -= int64(s.turns(in, 0) - root.first)
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

// shed drops a tree that finds the limit of conversations full.
func (s *Scheduler) shed(in *instance) {
	in.cut = true // it never held a place
	in.convs[0].state = waits
	s.drop(in, 0, in.convs[0].next, DropShed, true)
	s.end(in, 0, true, in.arrived)
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

// heap gives items in the order of their moments; those of one moment in the order in which they came.
type heap[T any] struct {
	items []dated[T]
	seq   uint64
}

type dated[T any] struct {
	at  int64
	seq uint64
	v   T
}

func (d *dated[T]) before(o *dated[T]) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

func (h *heap[T]) len() int { return len(h.items) }

// next gives the earliest moment; the heap is not empty.
func (h *heap[T]) next() int64 { return h.items[0].at }

func (h *heap[T]) push(at int64, v T) {
	h.seq++
	d := dated[T]{at, h.seq, v}
	h.items = append(h.items, d)
	i := len(h.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !d.before(&h.items[up]) {
			break
		}
		h.items[i] = h.items[up]
		i = up
	}
	h.items[i] = d
}

func (h *heap[T]) pop() (at int64, v T) {
	q := h.items
	top, n := q[0], len(q)-1
	d := q[n]
	h.items = q[:n]
	i := 0
	for {
		kid := 2*i + 1
		if kid >= n {
			break
		}
		if kid+1 < n && q[kid+1].before(&q[kid]) {
			kid++
		}
		if !q[kid].before(&d) {
			break
		}
		q[i] = q[kid]
		i = kid
	}
	if n > 0 {
		q[i] = d
	}
	return top.at, top.v
}

// queue is a queue.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }
func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

func (q *queue[T]) peek() (v T, ok bool) {
	if q.len() == 0 {
		return v, false
	}
	return q.items[q.head], true
}

func (q *queue[T]) pop() (v T, ok bool) {
	if v, ok = q.peek(); !ok {
		return v, false
	}
	switch q.head++; {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 1024 && q.head > len(q.items)/2:
		q.items, q.head = q.items[:copy(q.items, q.items[q.head:])], 0
	}
	return v, true
}
