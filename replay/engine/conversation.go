package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"parley/replay/internal/api"
	"parley/replay/load"
	"parley/schemas"
)

// What a conversation is doing, for the watchdog.
const (
	doingWait = iota
	doingRequest
	doingPrepare
)

var doingNames = [...]string{"waits for its next turn's moment", "has a request under way", "prepares its next turn"}

// A Session is a conversation's line to its server: its history, and the way to send it.
type Session interface {
	// Append adds a message of the dataset to the history.
	Append(m schemas.Message) error
	// AppendAnswer adds the server's answer, or the recorded message where that fits better.
	AppendAnswer(a api.Answer, recorded *schemas.Message) (live bool, err error)
	// Do sends the history as one request that asks for so many tokens (0 for no limit), and fills row with
	// all that happened. It never returns without a status in the row.
	Do(ctx context.Context, outputTokens int64, row *schemas.Request) api.Answer
}

// A Conversation is one instance of a dataset's conversation in a run. Its goroutine, which its first turn starts,
// alone uses what it holds, but for what mu and the engine's mutex guard.
type Conversation struct {
	load.Task
	ID     string
	Source *schemas.Conversation
	Turns  []schemas.Turn

	e      *Engine
	first  int // the turn that it begins with
	pos    int // messages of the dataset that are in the history or replaced by answers
	talk   Session
	broken error // why it cannot be sent
	url    int
	weight int64       // of the window, given back once it has begun
	alive  bool        // its goroutine runs
	ends   atomic.Bool // it has been told to end
	orders chan load.Action

	turn  atomic.Int32 // at which it is
	doing atomic.Int32
	since atomic.Int64

	mu        sync.Mutex
	sending   *schemas.Request // of the turn under way: who gives it its row takes it away
	task      load.Task        // of that turn, for the scheduler
	abandoned bool
}

// conversation makes a conversation without a line to its server.
func (e *Engine) conversation(t load.Task, source *schemas.Conversation) *Conversation {
	return &Conversation{
		Task: t, ID: source.ConversationID, Source: source, Turns: source.Turns, e: e,
		url: int(t.K % int64(len(e.Targets))), orders: make(chan load.Action, 2),
	}
}

// Server gives the number of the target that the conversation talks to.
func (c *Conversation) Server() int { return c.url }

// encode opens the conversation's session and puts what comes before its first turn into the history.
func (c *Conversation) encode() error {
	for t := range c.Turns {
		turn := &c.Turns[t]
		if n := turn.MessageIndex; n < 1 || n > int64(len(c.Source.Messages)) || t > 0 && n < c.Turns[t-1].MessageIndex {
			return fmt.Errorf("turn %d: message_index %d does not fit %d messages", t, n, len(c.Source.Messages))
		}
		if _, err := c.e.Rules.Pause(turn); err != nil {
			return fmt.Errorf("turn %d: %w", t, err)
		}
	}
	talk, err := c.e.Open(c)
	if err != nil {
		return err
	}
	c.talk = talk
	if c.e.Answers != nil {
		answers := c.e.Answers(load.Key{Row: c.Row, Pass: c.Pass})
		for t := range min(c.first, len(answers)) {
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
func (c *Conversation) recall(text *string) error {
	m := c.Source.Messages
	if text == nil || c.pos >= len(m) || m[c.pos].Role != "assistant" || m[c.pos].ToolCalls != nil {
		return nil // the recorded one follows by itself
	}
	c.pos++
	return c.talk.Append(schemas.Message{Role: "assistant", Content: text})
}

// order hands the conversation its next turn. The engine's mutex is held.
func (c *Conversation) order(a load.Action) {
	if !c.alive {
		c.alive = true
		c.e.window.Release(c.weight)
		c.weight = 0
		c.e.wg.Add(1)
		go c.run()
	}
	c.orders <- a // of the two places one is for an order, since the next comes only after its turn's end
}

// quit ends the conversation once it has nothing under way. The engine's mutex may be held.
func (c *Conversation) quit() {
	if c.weight > 0 {
		c.e.window.Release(c.weight)
		c.weight = 0
	}
	if c.alive && !c.ends.Swap(true) {
		c.orders <- load.Action{Kind: load.Drop}
	}
}

// run takes one turn after the other. A session with an End method is told when there are no more.
func (c *Conversation) run() {
	e := c.e
	defer e.wg.Done()
	if s, ok := c.talk.(interface{ End() }); ok {
		defer s.End()
	}
	defer func() {
		if p := recover(); p != nil {
			e.Fail(fmt.Errorf("conversation %q: %v\n%s", c.ID, p, debug.Stack()))
			c.abandon(load.DropRunFailed, fmt.Sprint(p))
		}
	}()
	for a := range c.orders {
		if a.Kind != load.Start || !c.take(&a) {
			return
		}
	}
}

func (c *Conversation) do(what int32) {
	c.since.Store(c.e.Clock.Now())
	c.doing.Store(what)
}

// take sends one turn, and makes the next one ready. It returns false when there is none.
func (c *Conversation) take(a *load.Action) bool {
	e, t := c.e, int(a.Turn)
	c.turn.Store(a.Turn)
	if c.broken != nil {
		e.step(load.Event{Kind: load.Ended, At: e.now(), Task: a.Task, Outcome: load.Bad})
		return true // the order to end follows
	}
	row := c.row(a)
	c.mu.Lock()
	c.sending, c.task = row, a.Task
	c.mu.Unlock()
	c.do(doingRequest)
	if a.Tell {
		e.step(load.Event{Kind: load.Begun, At: e.now(), Task: a.Task})
	}
	answer := c.talk.Do(e.load, e.OutputTokens(&c.Turns[t]), row)
	end := e.Clock.Now()
	if row.DoneNS != nil {
		end = *row.DoneNS
	}
	status := schemas.Status(row.Status)
	if status == schemas.StatusCanceled && e.load.Err() != nil {
		kind, message := e.cancelKind()
		row.ErrorKind, row.ErrorMessage = &kind, &message
	}
	switch status {
	case schemas.StatusTimeout, schemas.StatusTransportError, schemas.StatusIncomplete:
		if away := e.absences.since(c.since.Load(), e.Clock.Now(), e.Slept()); away > 0 { // not the server's fault
			kind, message := load.CutSuspended, fmt.Sprintf("the client was suspended for %.1f s while the request was under way", away.Seconds())
			if row.ErrorMessage != nil {
				message += ": " + *row.ErrorMessage
			}
			status = schemas.StatusCanceled
			row.Status, row.ErrorKind, row.ErrorMessage = string(status), &kind, &message
		}
	}
	c.do(doingPrepare)
	if !c.emit(row) {
		return false
	}
	last := t+1 == len(c.Turns)
	ev := load.Event{Kind: load.Ended, At: end - e.shift, Task: a.Task, Outcome: OutcomeOf(status)}
	if last {
		e.forget(c)
	} else {
		ev.Pause, _ = e.Rules.Pause(&c.Turns[t+1])
	}
	e.step(ev)
	e.moved()
	if last || c.ends.Load() {
		return false
	}
	if c.broken = c.remember(t, answer, status == schemas.StatusOK); c.broken == nil {
		if err := e.prepareKids(c, t+1); err != nil {
			e.Fail(err)
		}
	}
	c.do(doingWait)
	return true
}

// OutcomeOf is what a row's status means for the schedule.
func OutcomeOf(s schemas.Status) load.Outcome {
	switch {
	case s == schemas.StatusTimeout:
		return load.Silent
	case s.Failed():
		return load.Failed
	case s == schemas.StatusCanceled, s == schemas.StatusAbandoned:
		return load.Canceled
	}
	return load.OK
}

// forget takes a conversation that is over out of the list.
func (e *Engine) forget(c *Conversation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.convs, keyOf(c.Task))
}

// remember puts a turn's answer, and what the dataset has up to the next turn, into the history.
func (c *Conversation) remember(t int, answer api.Answer, ok bool) error {
	var recorded *schemas.Message
	if m := &c.Source.Messages; c.pos < len(*m) && (*m)[c.pos].Role == "assistant" {
		recorded = &(*m)[c.pos]
		c.pos++
	}
	var err error
	switch {
	case ok && c.e.LiveHistory:
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
func (c *Conversation) advance(t int) error {
	to := min(int(c.Turns[t].MessageIndex), len(c.Source.Messages))
	for ; c.pos < to; c.pos++ {
		m := &c.Source.Messages[c.pos]
		if err := c.talk.Append(*m); err != nil {
			return fmt.Errorf("message %d: %w", c.pos, err)
		}
		*m = schemas.Message{Role: m.Role} // the history holds it now
	}
	return nil
}

// row gives the row of a turn that is sent, with all that is known beforehand.
func (c *Conversation) row(a *load.Action) *schemas.Request {
	e := c.e
	row := c.blank(int(a.Turn))
	own := *a // the row keeps parts of it
	own.Fill(row, e.Extent, e.shift)
	return row
}

// blank gives the row of a turn with all that the dataset tells.
func (c *Conversation) blank(t int) *schemas.Request {
	e := c.e
	turn := &c.Turns[t]
	row := &schemas.Request{
		RunID: e.RunID,
		// Run, row of the dataset, pass, turn: what a resumed run goes by.
		RequestID:      fmt.Sprintf("%s-%d.%d-%d", e.RunID, c.Row, c.Pass, t),
		ConversationID: c.ID,
		Instance:       c.Pass,
		Turn:           int64(t),
		Phase:          schemas.PhaseMain,
		Shard:          int64(e.Rules.Shard),
		URL:            e.Targets[c.url].URL,
		API:            e.API,
		Model:          e.Targets[c.url].Model,
		Resumed:        e.Resumed,

		NewTokens:            turn.NewTokens,
		ExpectedPromptTokens: turn.PromptTokens,
		ExpectedCachedTokens: turn.ExpectedCachedTokens,
		PrefixGroup:          c.Source.PrefixGroup,
		Tags:                 c.Source.Tags,
	}
	if e.Model != nil {
		if model := e.Model(c.Row); model != "" {
			row.Model = model
		}
	}
	if n := e.OutputTokens(turn); n > 0 {
		row.OutputTokensAsked = &n
	}
	e.Extent.Place(row, c.Task)
	return row
}

// emit hands over the row of the turn under way. It returns false if that has been given up.
func (c *Conversation) emit(row *schemas.Request) bool {
	row.Derive()
	c.mu.Lock()
	given := c.abandoned
	c.sending = nil
	c.mu.Unlock()
	if given {
		return false
	}
	c.e.out.put(row)
	return true
}

// abandon gives up a turn that does not come back: it gets its row, and whatever its goroutine still delivers is
// dropped.
func (c *Conversation) abandon(kind, message string) {
	c.mu.Lock()
	open, task := c.sending != nil, c.task
	c.sending, c.abandoned = nil, true
	c.mu.Unlock()
	if open {
		row := c.blank(int(c.turn.Load())) // the goroutine may still write to its own
		row.Status = string(schemas.StatusCanceled)
		row.ErrorKind, row.ErrorMessage = &kind, &message
		c.e.out.put(row)
	}
	c.e.forget(c)
	c.e.step(load.Event{Kind: load.Ended, At: c.e.now(), Task: task, Outcome: load.Canceled})
}

func moment(ns int64) *int64 { return &ns }
