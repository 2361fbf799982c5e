// Package engine runs a load's scheduler (package load) on real time: it has the conversations ready when they
// are due, sends their turns, and hands every planned turn's row to the journal.
//
// The scheduler sits behind one mutex. Whoever has news steps it (a conversation whose turn ended, the pacer at
// the moment that is due next, the outside with a wish to stop) and performs the actions at once, none of which
// blocks: a turn is sent to its conversation's goroutine, dropped turns to the clerk. A conversation without think
// time so goes on with its next turn without waiting for another goroutine.
//
//   - The preparer reads and encodes conversations in the schedule's order, shortly before their time.
//   - One goroutine per conversation owns its history and sends its turns ([Conversation]).
//   - The pacer sleeps until the scheduler's next moment.
//   - The clerk makes rows of the turns that are not sent.
//   - The collector owns the journal. Handing it a row never blocks; while it is behind, no turn starts.
//   - The watchdog ends a run in which nothing moves.
package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"parley/replay/internal/clock"
	"parley/replay/load"
	"parley/schemas"
)

// Dataset is what the engine needs of a schemas.Dataset.
type Dataset interface {
	Path() string
	Conversations(first int64) iter.Seq2[schemas.Conversation, error]
}

// Store is the part of the journal that the engine needs.
type Store interface {
	Dir() string
	AppendRequests(rows []schemas.Request) error
	AppendSamples(rows []schemas.Sample) error
}

// Settings are what a run's engine is made of.
type Settings struct {
	Rules   *load.Rules
	Extent  *load.Extent
	Dataset Dataset
	Clock   *clock.Clock
	Store   Store

	RunID   string
	API     string
	Targets []schemas.Target
	Open    func(c *Conversation) (Session, error) // opens a conversation's line to its server
	// Begin is called once, when the first conversations are ready: it gives the run time at which the load
	// begins.
	Begin func(held int) int64

	Timeout      time.Duration                // of one turn, 0 for none
	IdleTimeout  time.Duration                // of one silence, 0 for none
	LiveHistory  bool                         // the server's answers go into the history, not the recorded ones
	OutputTokens func(t *schemas.Turn) int64  // that a turn asks for, 0 for no limit
	Model        func(row int32) string       // that a conversation asks for, "" for its target's; may be nil
	Left         load.Left                    // of an interrupted run
	Resumed      bool                         //
	Answers      func(key load.Key) []*string // of an interrupted run's turns, as far as they were saved
	Backlog      int64                        // bytes of rows that may wait for the journal, 0 for 128 MiB
	Slept        func() time.Duration         // for which the machine has been asleep; nil asks the clock
}

// Engine is one run's load: from the schedule to the rows.
type Engine struct {
	Settings
	out    *collector
	pacer  *pacer
	clerk  clerk
	shelf  shelf
	window *semaphore.Weighted // of what is ready and has not begun

	load context.Context // canceled: requests are cut off
	cut  context.CancelFunc
	stop context.Context // canceled: no turn starts any more
	halt context.CancelFunc
	over chan struct{} // closed: the scheduler has ended

	mu       sync.Mutex
	sched    *load.Scheduler
	begun    bool
	pending  string // the reason of a stop before the load began
	shift    int64  // run time minus time under load
	base     int64  // run time at which the load began
	convs    map[key]*Conversation
	ready    int64 // entries that are prepared
	holding  bool  // the scheduler was told that the journal is behind
	cause    string
	err      error
	ended    string
	peakFly  int64
	peakLive int64

	lastMove atomic.Int64
	absences absences
	wg       sync.WaitGroup // conversations' goroutines
}

// key names a conversation of a run.
type key struct {
	k      int64
	member int32
}

func keyOf(t load.Task) key { return key{t.K, t.Member} }

// New puts an engine together. Close it at the end.
func New(s Settings) *Engine {
	e := &Engine{
		Settings: s, pacer: newPacer(s.Clock), window: semaphore.NewWeighted(windowBytes),
		sched: load.NewScheduler(s.Extent, s.Rules, s.Left), convs: map[key]*Conversation{}, over: make(chan struct{}),
	}
	e.sched.Gate()
	if e.Slept == nil {
		e.Slept = e.Clock.Slept
	}
	e.load, e.cut = context.WithCancel(context.Background())
	e.stop, e.halt = context.WithCancel(context.Background())
	e.clerk.init(e)
	e.shelf.ds = s.Dataset
	e.out = newCollector(s.Store, newTally(), func(err error) {
		e.Fail(fmt.Errorf("the rows can no longer be written, so the load was ended: %w", err))
		e.cutOff(load.DropRunFailed)
	}, e.pressure)
	if s.Backlog > 0 {
		e.out.limit = s.Backlog
	}
	return e
}

// Close lets go of what the engine holds; it has to have run.
func (e *Engine) Close() {
	e.halt()
	e.cut()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.Close()
	e.shelf.close()
}

// Count has rows of an interrupted run count in the sums.
func (e *Engine) Count(row *schemas.Request) { e.out.tally.add(row) }

// step tells the scheduler what happened, in time under load, and does what follows.
func (e *Engine) step(ev load.Event) {
	e.mu.Lock()
	if !e.begun {
		e.mu.Unlock()
		return
	}
	e.perform(e.sched.Step(ev))
	at, ok := e.sched.Next()
	at += e.shift
	e.mu.Unlock()
	if ok {
		e.pacer.wake(at)
	}
}

// now gives the time under load.
func (e *Engine) now() int64 { return e.Clock.Now() - e.shift }

// perform does what the scheduler asks for. Nothing here waits. e.mu is held.
func (e *Engine) perform(actions []load.Action) {
	moved := false
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case load.Start:
			moved = true
			c := e.convs[keyOf(a.Task)]
			if c == nil {
				go e.Fail(fmt.Errorf("the conversation of row %d is due and was not made ready: this is a fault of parley, please report it", a.Task.Row))
				continue
			}
			c.order(*a)
		case load.Drop:
			c := e.convs[keyOf(a.Task)]
			delete(e.convs, keyOf(a.Task))
			if c != nil {
				c.quit()
			}
			e.clerk.add(*a, c)
		case load.Cut:
			e.cutLocked(a.Reason)
		case load.End:
			e.ended = a.Reason
			e.halt()
			close(e.over)
		}
	}
	e.peakFly, e.peakLive = max(e.peakFly, e.sched.InFlight()), max(e.peakLive, e.sched.Active())
	if reason, _ := e.sched.Stopped(); reason != "" {
		e.halt()
	}
	if moved {
		e.moved()
	}
}

func (e *Engine) moved() { e.lastMove.Store(e.Clock.Now()) }

// Stop ends the starting of turns for one of the reasons of package load. Only the first counts.
func (e *Engine) Stop(reason string) {
	e.mu.Lock()
	if !e.begun {
		if e.pending == "" {
			e.pending = reason
		}
		e.mu.Unlock()
		e.halt()
		return
	}
	e.mu.Unlock()
	e.step(load.Event{Kind: load.Stop, At: e.now(), Reason: reason})
}

// Stopped gives the reason for which the run stopped starting turns, "" if it has not, and the run time.
func (e *Engine) Stopped() (reason string, at int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reason, at = e.sched.Stopped()
	if reason == "" {
		return e.pending, e.Clock.Now()
	}
	return reason, at + e.shift
}

// Fail ends the starting of turns with an error that Run gives back.
func (e *Engine) Fail(err error) {
	e.mu.Lock()
	e.fail(err)
	e.mu.Unlock()
	e.Stop(load.EndError)
}

func (e *Engine) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// cutOff cuts off the requests under way; the first cause counts.
func (e *Engine) cutOff(cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cutLocked(cause)
}

func (e *Engine) cutLocked(cause string) {
	if e.cause == "" {
		e.cause = cause
	}
	e.cut()
}

// cancelKind gives the error kind of requests that were cut off, and words for it.
func (e *Engine) cancelKind() (kind, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kind = e.cause; kind == "" {
		kind = load.DropInterrupted
	}
	return kind, e.why(kind)
}

// why puts an error kind into words. e.mu is held.
func (e *Engine) why(kind string) string {
	switch kind {
	case load.DropBudget:
		if reason, _ := e.sched.Stopped(); reason == load.EndRequests {
			return "the run's --requests were used up"
		}
		return "the run's --duration was over"
	case load.DropDeadline:
		return "the run's --deadline passed"
	case load.CutGrace:
		return "the request outlasted the run's --grace"
	case load.DropErrors:
		return "the run gave the server up: too many turns had failed (--max-errors)"
	case load.DropRunFailed:
		if e.err != nil {
			return "the run ended by an error: " + e.err.Error()
		}
		return "the run ended by an error"
	case load.DropWatchdog:
		return "the run was ended because nothing moved any more"
	case load.DropParent:
		return "the turn of the conversation that starts this one did not start"
	case load.DropJoin:
		return "a conversation whose result the turn needs failed"
	case load.DropFailed:
		return "an earlier turn of the conversation failed"
	case load.DropShed:
		return "the run's limit of conversations was full"
	case load.DropInterrupted:
		return "the run was stopped"
	}
	return ""
}

// pressure tells the scheduler when the journal falls behind, and when it has caught up.
func (e *Engine) pressure() {
	e.mu.Lock()
	defer e.mu.Unlock()
	full := !e.out.roomy()
	if full == e.holding || !e.begun {
		return
	}
	e.holding = full
	ev := load.Event{Kind: load.Go, At: e.now()}
	if full {
		ev.Kind = load.Hold
		e.out.stalled()
	}
	e.moved()
	e.perform(e.sched.Step(ev))
}

// abandonAfter is how long canceled requests may take to come back before they are given up.
const abandonAfter = 15 * time.Second

// Run goes through the whole load and returns when each planned turn has its row in the collector, which it
// leaves open. hard ends the requests under way, drain the starting of turns.
func (e *Engine) Run(hard context.Context, drain <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var helpers sync.WaitGroup
	begun := make(chan struct{})
	helpers.Go(func() { e.prepare(begun) })
	helpers.Go(func() {
		select {
		case <-begun:
			e.pacer.run(ctx, e.nextMoment, e.fire)
		case <-ctx.Done():
		}
	})
	helpers.Go(func() { e.supervise(ctx, hard, drain) })
	helpers.Go(func() {
		select {
		case <-begun:
			e.watch(ctx)
		case <-ctx.Done():
		}
	})
	go e.out.run()
	go e.clerk.run()
	e.await()
	e.halt()
	e.clerk.close()
	for _, c := range e.conversations() { // made ready, and never wanted
		c.quit()
	}
	cancel()
	go helpers.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// nextMoment gives the run time at which the scheduler has something to do by itself.
func (e *Engine) nextMoment() (int64, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.sched.Next()
	return at + e.shift, ok
}

// fire is called by the pacer when a moment has come.
func (e *Engine) fire() {
	if e.stop.Err() != nil {
		e.clerk.room() // what a stop leaves may be a whole dataset
	}
	e.step(load.Event{Kind: load.Came, At: e.now()})
}

// await waits for the end of the load, and of its rows; after a cut only as long as something moves.
func (e *Engine) await() {
	select {
	case <-e.over:
	case <-e.load.Done():
		e.awaitCut()
	}
	for !e.clerk.idle(abandonAfter) {
		if !e.clerk.progress() {
			e.Fail(fmt.Errorf("the rows of turns that were not sent did not get written: %w", errStuck))
			return
		}
	}
	ended := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended: // the conversations have let go of their connections
	case <-time.After(abandonAfter):
	}
}

func (e *Engine) awaitCut() {
	timer := time.NewTicker(abandonAfter)
	defer timer.Stop()
	before := int64(-1)
	for {
		select {
		case <-e.over:
			return
		case <-timer.C:
		}
		// Rows of a large dataset may take a while to write; as long as they come, it is no hang.
		_, rows := e.out.tally.snapshot()
		if rows != before {
			before = rows
			continue
		}
		kind, message := e.cancelKind()
		var stuck []*Conversation
		for _, c := range e.conversations() {
			if c.doing.Load() == doingRequest {
				stuck = append(stuck, c)
			}
		}
		e.Fail(fmt.Errorf("%d conversations did not end %v after they were canceled:\n%s", len(stuck), abandonAfter, e.describe(stuck)))
		for _, c := range stuck {
			c.abandon(kind, message)
		}
		select {
		case <-e.over:
		case <-time.After(abandonAfter):
		}
		return
	}
}

// supervise passes the outside's wishes on.
func (e *Engine) supervise(ctx, hard context.Context, drain <-chan struct{}) {
	for {
		select {
		case <-drain:
			drain = nil
			e.Stop(load.EndInterrupted)
		case <-hard.Done():
			e.Stop(load.EndInterrupted)
			e.cutOff(load.DropInterrupted)
			return
		case <-ctx.Done():
			return
		}
	}
}

// conversations gives those that are ready or have begun, and are not over.
func (e *Engine) conversations() []*Conversation {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*Conversation, 0, len(e.convs))
	for _, c := range e.convs {
		out = append(out, c)
	}
	return out
}

// describe lists conversations and what they do, those that have done it longest first.
func (e *Engine) describe(list []*Conversation) string {
	now := e.Clock.Now()
	slices.SortFunc(list, func(a, b *Conversation) int { return int(a.since.Load()/1e6 - b.since.Load()/1e6) })
	var b strings.Builder
	for i, c := range list {
		if i == 50 {
			fmt.Fprintf(&b, "... and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "conversation %q (row %d, pass %d), turn %d of %d: %s for %v\n", c.ID, c.Row, c.Pass, c.turn.Load(),
			len(c.Turns), doingNames[c.doing.Load()], time.Duration(now-c.since.Load()).Round(time.Millisecond))
	}
	return b.String()
}

// Finish has everything written and ends the collector, within a time.
func (e *Engine) Finish(limit time.Duration) error { return e.out.close(limit) }

// Alive says whether rows can still be written.
func (e *Engine) Alive() bool { return e.out.alive() }

// ErrStuck says that the journal did not come back from a write.
var ErrStuck = errStuck

// Totals are what a run came to.
type Totals struct {
	Planned     int64         // turns
	NotAdmitted int64         // conversations
	Written     int64         // rows that the journal took
	Lost        int64         // rows that it did not
	MostActive  int64         // trees of conversations at once
	Stalls      int64         // times that turns were held back for the journal
	Suspended   time.Duration // for which the client did not run, though it wanted to
	Slept       time.Duration // for which the machine was asleep
	Looped      bool          // a second pass over the dataset began
	Pace        Pace
	Counts      map[schemas.Status]int64 // rows, with those of an interrupted run
	Rows        int64
}

// Pace is how fast a server answered, in the median of the turns that were measured; 0 without any.
type Pace struct{ TTFTMS, TPOTMS float64 }

// Totals gives the figures of a run that is over.
func (e *Engine) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := Totals{Planned: e.sched.Planned(), NotAdmitted: e.sched.NotAdmitted(), Looped: e.sched.Looped(), MostActive: e.peakLive, Pace: e.out.tally.pace()}
	t.Suspended, t.Slept = e.absences.totals()
	_, _, t.Stalls, t.Written, t.Lost = e.out.state()
	t.Counts, t.Rows = e.out.tally.snapshot()
	t.Rows -= t.Lost
	return t
}

// Progress tells how far the run is. It may be called at any time.
func (e *Engine) Progress() Progress {
	now := e.Clock.Now()
	e.mu.Lock()
	p := Progress{
		Elapsed: time.Duration(now - e.base), Planned: e.sched.Planned(), Started: e.sched.Started(),
		InFlight: e.sched.InFlight(), Active: e.sched.Active(),
	}
	p.Stopping, _ = e.sched.Stopped()
	e.mu.Unlock()
	if r := e.Rules; r.Bounded() {
		if p.Planned = 0; r.Requests > 0 {
			p.Planned = r.Share(r.Requests) + r.Share(r.Warmup)
		}
	}
	p.Backlog, _, _, _, _ = e.out.state()
	e.out.tally.fill(&p, now)
	return p
}

// PutSamples hands over telemetry. It never blocks.
func (e *Engine) PutSamples(rows []schemas.Sample) { e.out.putSamples(rows) }

var errNoRow = errors.New("was the file changed?")
