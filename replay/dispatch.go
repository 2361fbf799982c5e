package replay

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"parley/schemas"
)

// dispatch goes over the schedule, reads and encodes each conversation ahead of its time, and starts its
// goroutine, which then waits for its time and its place by itself. What it holds ready is bounded by the
// window. After the run has stopped it goes on over the schedule to give the conversations that the run
// had planned, and never came to, their rows.
func (e *engine) dispatch() {
	rd := &reader{x: e.x}
	defer rd.close()
	begin := func() {
		e.base = e.begin(len(e.held))
		if e.cfg.Concurrency > 0 {
			for d := range places(e.cfg) {
				e.pacer.add(e.base+int64(d), e.places)
			}
		}
		close(e.begun)
		for _, c := range e.held {
			c.due += e.base
			e.spawn(c)
		}
		e.held = nil
	}
	var shift int64 // of a resumed run: the offset of the first conversation that is left
	first := true
	for en := range e.x.schedule(e.cfg) {
		if reason, _ := e.stopped(); reason != "" {
			if !e.hasBegun() {
				begin()
			}
			if !e.passOver(en, shift) {
				return
			}
			continue
		}
		source, err := rd.read(en.row)
		if err != nil {
			e.failRun(err)
			if !e.hasBegun() {
				begin()
			}
			return // its rows cannot be named: the error says why they are missing
		}
		if e.resumed.over(e, en, &source) {
			e.resumeKids(en, &source)
			continue
		}
		if first {
			first = false
			if e.resumed != nil {
				shift = int64(en.offset)
			}
		}
		c := e.prepare(en, source)
		c.due = int64(en.offset) - shift
		if !e.hasBegun() {
			// A closed loop's first conversations are all made ready, since they start together and need their
			// memory anyway. Beyond them, or in an open loop, enough are ready when the window is full.
			if len(e.held) < e.cfg.Concurrency {
				c.weight = 0
			}
			if e.window.TryAcquire(c.weight) {
				e.held = append(e.held, c)
				if int64(len(e.held)) == mostReady(e.cfg) || int64(en.offset)-shift > int64(windowAhead) {
					begin()
				}
				continue
			}
			begin()
		}
		c.due += e.base
		e.notTooEarly(c.due)
		if err := e.window.Acquire(e.stopCtx, c.weight); err != nil {
			c.close()
			if !e.passOver(en, shift) {
				return
			}
			continue
		}
		e.spawn(c)
	}
	if !e.hasBegun() {
		begin()
	}
}

func (e *engine) hasBegun() bool {
	select {
	case <-e.begun:
		return true
	default:
		return false
	}
}

// notTooEarly waits until shortly before a conversation's time, or until the run stops.
func (e *engine) notTooEarly(due int64) {
	early := time.Duration(due-e.clk.Now()) - windowAhead
	if !e.cfg.open || early <= 0 {
		return
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.stopping:
	}
}

// passOver deals with a conversation of the schedule that was not prepared before the run stopped. It
// returns false when no further one is of interest.
func (e *engine) passOver(en entry, shift int64) bool {
	_, at := e.stopped()
	offered := e.cfg.open && !math.IsInf(e.cfg.rate, 1) && e.base+int64(en.offset)-shift <= at
	if !e.cfg.bounded || offered {
		return e.unreached(en.row, en, e.stopKind())
	}
	if e.cfg.loops == 0 && en.instance > 0 {
		return false // the schedule has no end
	}
	_, n := e.x.tree(en.row)
	e.notAdmitted.Add(n)
	return true
}

// unreached gives the turns of a conversation that was never prepared, and of those that it would have
// started, their rows. In a run that a budget stops, conversations that others start are only counted. It
// returns false when no rows can be written any more.
func (e *engine) unreached(row int64, of entry, kind string) bool {
	child := row != of.row
	if e.cfg.bounded && child {
		_, n := e.x.tree(row)
		e.notAdmitted.Add(n)
		return true
	}
	rd := &reader{x: e.x}
	defer rd.close()
	source, err := rd.read(row)
	if err != nil {
		e.failRun(err)
		return false
	}
	en := of
	en.row = row
	c := e.outline(en, source)
	if c.first = e.resumed.first(c); c.first == 0 && !child {
		c.first = firstTurn(e.cfg, en.k, len(c.turns))
	}
	c.next = c.first
	var scheduled *int64
	if e.cfg.bounded {
		scheduled = moment(e.base + int64(en.offset))
	}
	e.plan(c)
	// Nobody's stream is timed by this goroutine: it may wait for the journal.
	if !e.out.roomy() && !e.out.room(e.load) || !e.out.alive() {
		return false
	}
	c.rest(schemas.StatusNotReached, kind, e.why(kind), scheduled)
	for _, kid := range e.x.children[row] {
		if !e.unreached(kid, en, kind) {
			return false
		}
	}
	return true
}

// outline makes a conversation without a line to its server.
func (e *engine) outline(en entry, source schemas.Conversation) *conversation {
	return &conversation{
		e: e, entry: en, id: source.ConversationID, source: source, turns: source.Turns,
		url: int(en.k % int64(len(e.targets))), wait: newWaiter(),
	}
}

// prepare makes a conversation ready to be sent: its history up to its first turn is encoded.
func (e *engine) prepare(en entry, source schemas.Conversation) *conversation {
	c := e.outline(en, source)
	c.weight = min(max(weigh(&source), windowBytes/mostReady(e.cfg)), windowBytes)
	if c.first = e.resumed.first(c); c.first == 0 && !c.child {
		c.first = firstTurn(e.cfg, en.k, len(c.turns))
	}
	c.next, c.begunTurns = c.first, c.first
	c.broken = c.encode()
	if c.broken == nil {
		c.broken = e.prepareKids(c, c.first)
	}
	return c
}

// encode opens the conversation's session and puts what comes before its first turn into the history.
func (c *conversation) encode() error {
	for t := range c.turns {
		turn := &c.turns[t]
		if n := turn.MessageIndex; n < 1 || n > int64(len(c.source.Messages)) || t > 0 && n < c.turns[t-1].MessageIndex {
			return fmt.Errorf("turn %d: message_index %d does not fit %d messages", t, n, len(c.source.Messages))
		}
		if turn.ThinkTimeMS != nil {
			if _, err := milliseconds(*turn.ThinkTimeMS); err != nil {
				return fmt.Errorf("turn %d: think_time_ms: %w", t, err)
			}
		}
	}
	talk, err := c.e.open(c)
	if err != nil {
		return err
	}
	c.talk = talk
	if answers := c.e.resumed.answers(c); len(answers) > 0 {
		for t := range c.first {
			if err := c.advance(t); err != nil {
				return err
			}
			if err := c.recall(answers[t]); err != nil {
				return fmt.Errorf("the answer of turn %d: %w", t, err)
			}
		}
	}
	return c.advance(c.first)
}

// recall puts the saved answer of an earlier run into the history, where there is one, in place of the
// recorded one.
func (c *conversation) recall(text *string) error {
	m := c.source.Messages
	if text == nil || c.pos >= len(m) || m[c.pos].Role != "assistant" || m[c.pos].ToolCalls != nil {
		return nil // the recorded one follows by itself
	}
	c.pos++
	return c.talk.Append(schemas.Message{Role: "assistant", Content: text})
}

func (c *conversation) close() {
	if c.talk != nil {
		c.talk.Close()
	}
}

// prepareKids prepares the conversations that a turn starts.
func (e *engine) prepareKids(c *conversation, turn int) error {
	var rd *reader
	for _, row := range e.x.children[c.row] {
		link := e.x.parents[row]
		if link.turn != turn {
			continue
		}
		if rd == nil {
			rd = &reader{x: e.x}
			defer rd.close()
		}
		source, err := rd.read(row)
		if err != nil {
			return err
		}
		kid := e.child(c.entry, row, source)
		kid.due = int64(link.delay)
		if c.kids == nil {
			c.kids = map[int][]*conversation{}
		}
		c.kids[turn] = append(c.kids[turn], kid)
	}
	return nil
}

// child prepares a conversation that another one starts. It does not count against the window: it starts
// with its parent's turn.
func (e *engine) child(of entry, row int64, source schemas.Conversation) *conversation {
	en := of
	en.row = row
	c := e.outline(en, source)
	c.child = true
	c.first = e.resumed.first(c)
	c.next, c.begunTurns = c.first, c.first
	if c.broken = c.encode(); c.broken == nil {
		c.broken = e.prepareKids(c, c.first)
	}
	return c
}

// weigh estimates the memory of a conversation: its texts, once more encoded, and what surrounds them.
func weigh(c *schemas.Conversation) int64 {
	n := 4096 + len(c.Turns)*int(unsafe.Sizeof(schemas.Turn{})) + len(c.Messages)*int(unsafe.Sizeof(schemas.Message{}))
	for i := range c.Messages {
		m := &c.Messages[i]
		for _, s := range []*string{m.Content, m.Parts, m.ToolCalls} {
			if s != nil {
				n += 2 * len(*s)
			}
		}
	}
	return int64(n)
}
