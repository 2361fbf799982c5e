package replay

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// Why a turn was not reached: the error kinds of not_reached rows.
const (
	kindBudget      = "budget"              // the run's requests or its duration were used up
	kindDeadline    = "deadline"            // the run's deadline passed
	kindInterrupted = "interrupted"         // somebody stopped the run
	kindRunFailed   = "run_failed"          // the run ended by an error of its own
	kindWatchdog    = "watchdog"            // the run ended because nothing moved any more
	kindFailed      = "conversation_failed" // an earlier turn of the conversation failed
	kindParent      = "parent_not_reached"  // the turn of another conversation that starts this one did not start
	kindBad         = "bad_conversation"    // the dataset's row cannot be made into requests
	kindShed        = "shed"                // the limit of conversations was full
	kindGrace       = "grace"               // canceled: the turn outlasted the run's grace
)

// What a conversation is doing, for the watchdog.
const (
	doingWaitStart = iota // for its time
	doingWaitPlace
	doingThink
	doingWaitFlight
	doingWaitRoom
	doingRequest
	doingPrepare
	doingEnd
)

var doingNames = [...]string{
	"waits for its arrival time", "waits for a place among the conversations", "thinks",
	"waits for a place among the requests", "waits for the journal", "has a request under way",
	"prepares its next turn", "ends",
}

// A session is a conversation's line to its server: its history, and the way to send it.
type session interface {
	// Append adds a message of the dataset to the history.
	Append(m schemas.Message) error
	// AppendAnswer adds the server's answer, or the recorded message where that fits better.
	AppendAnswer(a api.Answer, recorded *schemas.Message) (live bool, err error)
	// Do sends the history as one request and fills row with all that happened. It never returns without a
	// status in the row.
	Do(ctx context.Context, r turnRequest, row *schemas.Request) api.Answer
	// Close lets go of what the session holds.
	Close()
}

// turnRequest is what one turn asks for.
type turnRequest struct {
	OutputTokens int64   // 0 for no limit
	Body         *string // the turn's own parameters, if it has any
}

// A conversation is one instance of a dataset's conversation in a run. Its goroutine alone uses it, but
// for what mu guards.
type conversation struct {
	e *engine
	entry
	id     string
	due    int64 // run time at which it is due, if it is open-loop or a child
	child  bool  // another conversation starts it
	source schemas.Conversation
	turns  []schemas.Turn
	first  int // the turn that it begins with
	pos    int // messages of the dataset that are in the history or replaced by answers
	talk   session
	broken error // why it cannot be sent
	wait   *waiter
	weight int64 // of the window, given back once it has begun
	url    int
	kids   map[int][]*conversation // prepared children of the turn that comes next
	ended  int64                   // end of the last turn

	begunTurns int // the next turn that has not begun

	doing atomic.Int32
	since atomic.Int64

	mu        sync.Mutex
	next      int // the next turn without a row
	abandoned bool
}

func (c *conversation) do(what int32) {
	c.since.Store(c.e.clk.Now())
	c.doing.Store(what)
}

// run lives the conversation through and sees to it that each planned turn gets its row.
func (c *conversation) run() {
	defer c.e.forget(c)
	defer func() {
		if p := recover(); p != nil {
			c.e.failRun(fmt.Errorf("conversation %q: %v\n%s", c.id, p, debug.Stack()))
			c.abandon(kindRunFailed)
		}
	}()
	scheduled, ready, kind := c.admit()
	switch {
	case kind == kindShed:
		c.e.window.Release(c.weight)
		c.rest(schemas.StatusShed, kind, "the run's limit of conversations was full", &scheduled)
		c.orphans(kindParent)
	case kind != "":
		c.e.window.Release(c.weight)
		if scheduled == notDue && c.e.cfg.bounded {
			_, n := c.e.x.tree(c.row)
			c.e.notAdmitted.Add(n)
			return
		}
		var at *int64
		if scheduled != notDue {
			at = &scheduled
		}
		message := c.e.why(kind)
		if c.broken != nil {
			message = c.broken.Error()
		}
		c.rest(schemas.StatusNotReached, kind, message, at)
		c.orphans(kind)
	default:
		c.e.active.add(1)
		c.e.window.Release(c.weight)
		c.ended = ready
		kind, message := c.converse(scheduled, ready)
		c.talk.Close()
		c.e.active.add(-1)
		c.e.places.release(c.ended)
		if kind == c.e.stopKind() && c.e.unplan(c) {
			return
		}
		if kind != "" {
			c.rest(schemas.StatusNotReached, kind, message, nil)
		}
		c.orphans(kindParent)
	}
	c.do(doingEnd)
}

// notDue stands for the scheduled moment of a conversation whose time had not come.
const notDue = int64(-1) << 62

// admit waits for the conversation's time and its place. It gives the scheduled and the ready moment of
// its first turn, or the kind of what came in between.
func (c *conversation) admit() (scheduled, ready int64, kind string) {
	e := c.e
	timed := e.cfg.open || c.child
	if timed {
		c.do(doingWaitStart)
		if !c.sleepUntil(c.due) {
			return notDue, 0, e.stopKind()
		}
		scheduled = c.due
		e.plan(c)
	}
	if timed && c.broken != nil {
		return scheduled, 0, kindBad
	}
	if e.cfg.WhenFull == "shed" {
		if !e.places.try() {
			return scheduled, 0, kindShed
		}
		return scheduled, scheduled, ""
	}
	c.do(doingWaitPlace)
	if timed {
		ready, ok := c.acquire(e.places, c.child)
		if !ok {
			return scheduled, 0, e.stopKind()
		}
		return scheduled, max(scheduled, ready), ""
	}
	// In a closed loop a conversation is meant to start at the moment at which its place is free. It stands
	// in the queue for one since before its goroutine began: see spawn.
	ready, ok := c.await(e.places)
	if !ok {
		return notDue, 0, e.stopKind()
	}
	e.plan(c)
	if c.broken != nil {
		e.places.release(ready)
		return ready, 0, kindBad
	}
	return ready, ready, ""
}

// acquire takes a place of a limit, waiting for it if need be, and gives the moment since when the place
// was free. It returns false, without a place, if the run stops starting turns first.
func (c *conversation) acquire(l *limit, first bool) (at int64, ok bool) {
	if at, ok := l.acquire(c.wait, first); ok {
		return at, true
	}
	return c.await(l)
}

// await waits for the place that the conversation is queued for.
func (c *conversation) await(l *limit) (at int64, ok bool) {
	select {
	case <-c.wait.fired:
		return c.wait.at, true
	case <-c.e.stopping:
		if !l.withdraw(c.wait) {
			<-c.wait.fired
			l.release(c.wait.at)
		}
		return 0, false
	}
}

// sleepUntil waits for a moment. It returns false if the run stops starting turns first.
func (c *conversation) sleepUntil(due int64) bool {
	select {
	case <-c.e.stopping:
		return false
	default:
	}
	if due <= c.e.clk.Now() {
		return true
	}
	c.e.pacer.add(due, c.wait)
	select {
	case <-c.wait.fired:
		return true
	case <-c.e.stopping:
		return false
	}
}

// converse sends turn after turn. It gives the kind and the words for the turns that are left.
func (c *conversation) converse(scheduled, ready int64) (kind, message string) {
	e := c.e
	for t := c.first; t < len(c.turns); t++ {
		thought := time.Duration(0)
		if t > c.first {
			if kind, message := c.prepare(t); kind != "" {
				return kind, message
			}
			thought = e.think(&c.turns[t])
			scheduled = c.ended + int64(thought)
			c.do(doingThink)
			if !c.sleepUntil(scheduled) {
				return e.stopKind(), e.why(e.stopKind())
			}
			ready = scheduled
		}
		row := c.blank(t)
		row.ScheduledNS = moment(scheduled)
		if t > c.first {
			ms := float64(thought) / 1e6
			row.ThinkTimeMS = &ms
		}
		if e.flights != nil {
			c.do(doingWaitFlight)
			at, ok := c.acquire(e.flights, false)
			if !ok {
				return e.stopKind(), e.why(e.stopKind())
			}
			waited := max(0, at-ready)
			ready += waited
			row.InFlightNS = &waited
		}
		if !c.room() {
			e.flights.release(e.clk.Now())
			return e.stopKind(), e.why(e.stopKind())
		}
		phase, ok := e.startTurn()
		if !ok {
			e.flights.release(e.clk.Now())
			return e.stopKind(), e.why(e.stopKind())
		}
		row.Phase = phase
		row.ReadyNS = moment(ready)
		answer := c.send(t, row)
		c.ended = e.clk.Now()
		if row.DoneNS != nil {
			c.ended = *row.DoneNS
		}
		e.flights.release(c.ended)
		status := schemas.Status(row.Status)
		c.emit(row)
		switch {
		case status == schemas.StatusCanceled:
			if t+1 < len(c.turns) {
				return e.stopKind(), e.why(e.stopKind())
			}
		case status != schemas.StatusOK && status != schemas.StatusAbandoned && !e.cfg.KeepGoing:
			return kindFailed, fmt.Sprintf("turn %d ended as %s", t, status)
		}
		if t+1 < len(c.turns) {
			if err := c.remember(t, answer, status == schemas.StatusOK); err != nil {
				return kindBad, err.Error()
			}
		}
	}
	return "", ""
}

// room waits while the journal is behind. It returns false if the run stopped meanwhile.
func (c *conversation) room() bool {
	if c.e.out.roomy() {
		return true
	}
	c.do(doingWaitRoom)
	ctx, cancel := context.WithCancel(c.e.load)
	defer cancel()
	stop := context.AfterFunc(c.e.stopCtx, cancel)
	defer stop()
	return c.e.out.room(ctx)
}

// send makes one request, with retries where asked.
func (c *conversation) send(t int, row *schemas.Request) api.Answer {
	e := c.e
	c.do(doingRequest)
	c.begunTurns = t + 1
	for _, kid := range c.kids[t] {
		kid.due += e.clk.Now() // so far the delay
		e.spawn(kid)
	}
	delete(c.kids, t)
	e.inFlight.add(1)
	answer := c.talk.Do(e.load, turnRequest{OutputTokens: e.outputTokens(&c.turns[t]), Body: c.turns[t].Body}, row)
	e.inFlight.add(-1)
	e.moved()
	if schemas.Status(row.Status) == schemas.StatusCanceled {
		kind, message := e.cancelKind()
		row.ErrorKind, row.ErrorMessage = &kind, &message
	}
	return answer
}

// remember puts a turn's answer, and what the dataset has up to the next turn, into the history.
func (c *conversation) remember(t int, answer api.Answer, ok bool) error {
	c.do(doingPrepare)
	var recorded *schemas.Message
	if m := &c.source.Messages; c.pos < len(*m) && (*m)[c.pos].Role == "assistant" {
		recorded = &(*m)[c.pos]
		c.pos++
	}
	var err error
	switch {
	case ok && c.e.cfg.History == "live":
		_, err = c.talk.AppendAnswer(answer, recorded)
	case recorded != nil:
		err = c.talk.Append(*recorded)
	}
	if err != nil {
		return fmt.Errorf("the answer of turn %d does not go into the history: %w", t, err)
	}
	return c.advance(t + 1)
}

// advance appends the dataset's messages up to a turn.
func (c *conversation) advance(t int) error {
	to := min(int(c.turns[t].MessageIndex), len(c.source.Messages))
	for ; c.pos < to; c.pos++ {
		m := &c.source.Messages[c.pos]
		if err := c.talk.Append(*m); err != nil {
			return fmt.Errorf("message %d: %w", c.pos, err)
		}
		*m = schemas.Message{Role: m.Role} // the history holds it now
	}
	return nil
}

// prepare makes ready what a turn starts besides its request.
func (c *conversation) prepare(t int) (kind, message string) {
	if err := c.e.prepareKids(c, t); err != nil {
		c.e.failRun(err)
		return kindRunFailed, err.Error()
	}
	return "", ""
}

// blank gives the row of a turn with all that is known beforehand.
func (c *conversation) blank(t int) *schemas.Request {
	e := c.e
	turn := &c.turns[t]
	row := &schemas.Request{
		RunID:          e.runID,
		RequestID:      c.requestID(t),
		ConversationID: c.id,
		Instance:       c.instance,
		Turn:           int64(t),
		Phase:          schemas.PhaseMain,
		Shard:          int64(e.cfg.shard),
		URL:            e.targets[c.url].URL,
		API:            e.cfg.API,
		Model:          e.targets[c.url].Model,
		Resumed:        e.resumed != nil,

		NewTokens:            turn.NewTokens,
		ExpectedPromptTokens: turn.PromptTokens,
		ExpectedCachedTokens: turn.ExpectedCachedTokens,
		PrefixGroup:          c.source.PrefixGroup,
		Tags:                 c.source.Tags,
	}
	if model := e.cfg.modelOf(c.row); model != "" {
		row.Model = model
	}
	if n := e.outputTokens(turn); n > 0 {
		row.OutputTokensAsked = &n
	}
	return row
}

// requestID gives a turn's identifier: run, row of the dataset, pass, turn.
func (c *conversation) requestID(t int) string {
	return fmt.Sprintf("%s-%d.%d-%d", c.e.runID, c.row, c.instance, t)
}

// emit hands over a row.
func (c *conversation) emit(row *schemas.Request) {
	row.Derive()
	c.mu.Lock()
	if c.abandoned {
		c.mu.Unlock()
		return
	}
	c.next = int(row.Turn) + 1
	c.mu.Unlock()
	c.e.out.put(row)
}

// rest gives a row to every turn that has none.
func (c *conversation) rest(status schemas.Status, kind, message string, scheduled *int64) {
	c.mu.Lock()
	from := c.next
	if c.abandoned {
		from = len(c.turns)
	}
	c.next = len(c.turns)
	c.mu.Unlock()
	for t := from; t < len(c.turns); t++ {
		row := c.blank(t)
		row.Status = string(status)
		row.ErrorKind = &kind
		if message != "" {
			row.ErrorMessage = &message
		}
		if t == c.first {
			row.ScheduledNS = scheduled
		}
		row.Derive()
		c.e.out.put(row)
	}
}

// abandon gives up a conversation whose goroutine does not come back: its turns get their rows, and
// whatever the goroutine still delivers is dropped.
func (c *conversation) abandon(kind string) {
	c.mu.Lock()
	from := c.next
	if c.abandoned {
		from = len(c.turns)
	}
	c.abandoned = true
	c.next = len(c.turns)
	c.mu.Unlock()
	message := c.e.why(kind)
	for t := from; t < len(c.turns); t++ {
		row := c.blank(t)
		row.Status = string(schemas.StatusNotReached)
		if t == from && c.doing.Load() == doingRequest {
			row.Status = string(schemas.StatusCanceled)
		}
		row.ErrorKind, row.ErrorMessage = &kind, &message
		c.e.out.put(row)
	}
}

// orphans gives rows to the conversations that this one would have started.
func (c *conversation) orphans(kind string) {
	for _, row := range c.e.x.children[c.row] {
		if c.e.x.parents[row].turn < c.begunTurns && c.e.x.parents[row].turn >= c.first {
			continue // started
		}
		c.e.unreached(row, c.entry, kind)
	}
}

func moment(ns int64) *int64 { return &ns }
