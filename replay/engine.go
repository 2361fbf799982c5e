package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"parley/replay/internal/clock"
	"parley/schemas"
)

// Bounds of the conversations that are read and encoded but have not begun. Reading far ahead would only
// take processor time and memory from the load.
const (
	windowBytes = 64 << 20
	windowMost  = 4096            // conversations in an open loop; in a closed one a share of its places
	windowAhead = 2 * time.Second // how long before its time a conversation is made ready
)

// mostReady gives the number of conversations that may be ready.
func mostReady(cfg *settled) int64 {
	if cfg.Concurrency > 0 {
		return int64(cfg.Concurrency + cfg.Concurrency/4 + 16)
	}
	return windowMost
}

// engine is one run's load: from the schedule to the rows. Everything that talks to the outside is given
// to it.
type engine struct {
	cfg      *settled
	x        *extent
	clk      *clock.Clock
	out      *collector
	pacer    *pacer
	places   *limit // conversations at once
	flights  *limit // requests at once
	window   *semaphore.Weighted
	targets  []schemas.Target
	runID    string
	resumed  *resumed
	verifier *verifier // nil without --verify-output
	open     func(c *conversation) (session, error)
	begin    func(held int) int64 // called once, when the first conversations are ready: gives the run time of the schedule's offset 0
	begun    chan struct{}        // closed after that

	base  int64              // run time of the schedule's offset 0
	load  context.Context    // canceled: requests are cut off
	cut   func(cause string) // cancels load
	stops stopper

	stopping <-chan struct{} // closed: no turn starts any more
	stopCtx  context.Context // the same as a context

	held []*conversation // ready before the load began; the dispatcher's own

	planned     atomic.Int64 // turns
	notAdmitted atomic.Int64 // conversations
	looped      atomic.Bool  // a second pass over the dataset has begun
	started     atomic.Int64 // turns
	inFlight    gauge
	active      gauge
	lastMove    atomic.Int64

	wg   sync.WaitGroup // conversations
	mu   sync.Mutex
	live map[*conversation]struct{}
	err  error
}

// stopper remembers why and when a run stopped starting turns: the first reason counts.
type stopper struct {
	mu     sync.Mutex
	reason string // as in RunMeta.Ended
	at     int64
	stop   context.CancelFunc
	cause  string // why requests were cut off: an error kind
}

// Reasons why a run ends, for RunMeta.Ended.
const (
	endComplete    = "complete"
	endRequests    = "requests"
	endDuration    = "duration"
	endDeadline    = "deadline"
	endInterrupted = "interrupted"
	endError       = "error"
	endWatchdog    = "watchdog"
)

// newEngine puts an engine together. load ends when parent does.
func newEngine(parent context.Context, cfg *settled, x *extent, clk *clock.Clock, s store) (*engine, context.CancelFunc) {
	e := &engine{
		cfg: cfg, x: x, clk: clk,
		pacer:  newPacer(clk),
		window: semaphore.NewWeighted(windowBytes),
		live:   map[*conversation]struct{}{},
		begin:  func(int) int64 { return clk.Now() },
		begun:  make(chan struct{}),
	}
	e.out = newCollector(s, newTally(), func(err error) {
		e.failRun(fmt.Errorf("the rows can no longer be written, so the load was ended: %w", err))
		e.cut(kindRunFailed)
	})
	switch {
	case cfg.Concurrency > 0:
		e.places = &limit{} // its places open by and by
	default:
		e.places = newLimit(cfg.MaxConversations)
	}
	e.flights = newLimit(cfg.MaxInFlight)
	load, cancel := context.WithCancel(parent)
	e.load = load
	e.cut = func(cause string) {
		e.stops.mu.Lock()
		if e.stops.cause == "" {
			e.stops.cause = cause
		}
		e.stops.mu.Unlock()
		cancel()
	}
	stopCtx, stop := context.WithCancel(context.Background())
	e.stops.stop = stop
	e.stopCtx, e.stopping = stopCtx, stopCtx.Done()
	if !cfg.bounded {
		e.planned.Store(x.planned(cfg))
	}
	return e, func() { stop(); cancel() }
}

// stop ends the starting of turns. Only the first reason counts.
func (e *engine) stop(reason string) {
	e.stops.mu.Lock()
	defer e.stops.mu.Unlock()
	if e.stops.reason != "" {
		return
	}
	e.stops.reason, e.stops.at = reason, e.clk.Now()
	e.stops.stop()
}

// stopped gives the reason for which the run stopped starting turns, "" if it has not, and when.
func (e *engine) stopped() (reason string, at int64) {
	e.stops.mu.Lock()
	defer e.stops.mu.Unlock()
	return e.stops.reason, e.stops.at
}

// failRun ends the starting of turns with an error that the run gives back.
func (e *engine) failRun(err error) {
	e.mu.Lock()
	if e.err == nil {
		e.err = err
	}
	e.mu.Unlock()
	e.stop(endError)
}

func (e *engine) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// stopKind gives the error kind of turns that the run's stop kept from starting.
func (e *engine) stopKind() string {
	switch reason, _ := e.stopped(); reason {
	case endRequests, endDuration:
		return kindBudget
	case endDeadline:
		return kindDeadline
	case endError:
		return kindRunFailed
	case endWatchdog:
		return kindWatchdog
	default:
		return kindInterrupted
	}
}

// cancelKind gives the error kind of requests that were cut off, and words for it.
func (e *engine) cancelKind() (kind, message string) {
	e.stops.mu.Lock()
	kind = e.stops.cause
	e.stops.mu.Unlock()
	if kind == "" {
		kind = kindInterrupted
	}
	return kind, e.why(kind)
}

// why puts an error kind into words.
func (e *engine) why(kind string) string {
	switch kind {
	case kindBudget:
		if reason, _ := e.stopped(); reason == endRequests {
			return "the run's --requests were used up"
		}
		return "the run's --duration was over"
	case kindDeadline:
		return "the run's --deadline passed"
	case kindGrace:
		return "the request outlasted the run's --grace"
	case kindRunFailed:
		if err := e.failure(); err != nil {
			return "the run ended by an error: " + err.Error()
		}
		return "the run ended by an error"
	case kindWatchdog:
		return "the run was ended because nothing moved any more"
	case kindParent:
		return "the turn of the conversation that starts this one did not start"
	case kindInterrupted:
		return "the run was stopped"
	}
	return ""
}

// startTurn asks whether one more turn may start, and gives its phase.
func (e *engine) startTurn() (phase string, ok bool) {
	select {
	case <-e.stopping:
		return "", false
	default:
	}
	n := e.started.Add(1)
	if most := e.cfg.Warmup + e.cfg.Requests; e.cfg.Requests > 0 && n >= most {
		e.stop(endRequests)
		if n > most {
			e.started.Add(-1)
			return "", false
		}
	}
	e.moved()
	if n <= e.cfg.Warmup {
		return schemas.PhaseWarmup, true
	}
	return schemas.PhaseMain, true
}

func (e *engine) moved() { e.lastMove.Store(e.clk.Now()) }

// plan counts the turns of a conversation whose time has come. In a run over a fixed extent they were
// counted beforehand.
func (e *engine) plan(c *conversation) {
	if e.cfg.bounded {
		e.planned.Add(int64(len(c.turns) - c.first))
	}
	if c.instance > 0 {
		e.looped.Store(true)
	}
}

// unplan takes back the plan of a conversation of a closed loop that had its place but whose first turn
// came too late for the run's budget: it is one that the run did not come to. Which of several
// conversations that get their places together take the last turns of a budget is chance; how many rows
// there are must not be.
func (e *engine) unplan(c *conversation) bool {
	c.mu.Lock()
	begun := c.next > c.first || c.abandoned
	c.mu.Unlock()
	if !e.cfg.bounded || e.cfg.open || begun {
		return false
	}
	e.planned.Add(int64(c.first - len(c.turns)))
	_, n := e.x.tree(c.row)
	e.notAdmitted.Add(n)
	return true
}

// think gives the think time before a turn.
func (e *engine) think(turn *schemas.Turn) time.Duration {
	var d time.Duration
	switch e.cfg.thinkKind {
	case thinkFixed:
		d = e.cfg.thinkTime
	default:
		if turn.ThinkTimeMS != nil {
			// The dataset's figures were checked when the conversation was read.
			d, _ = milliseconds(*turn.ThinkTimeMS)
		}
		if e.cfg.thinkKind == thinkFactor {
			d = time.Duration(float64(d) * e.cfg.thinkTimes)
		}
	}
	if e.cfg.ThinkCap > 0 {
		d = min(d, e.cfg.ThinkCap)
	}
	return d
}

// outputTokens gives the tokens that a turn asks for, 0 for no limit.
func (e *engine) outputTokens(turn *schemas.Turn) int64 {
	switch {
	case e.cfg.tokensFrom == "number":
		return e.cfg.tokens
	case e.cfg.tokensFrom == "dataset" && turn.OutputTokens != nil:
		return max(0, *turn.OutputTokens)
	}
	return 0
}

// spawn starts a conversation's goroutine.
func (e *engine) spawn(c *conversation) {
	e.mu.Lock()
	e.live[c] = struct{}{}
	e.mu.Unlock()
	e.wg.Add(1)
	if !e.cfg.open && !c.child {
		// The queue's order is the schedule's, whichever goroutine runs first.
		c.do(doingWaitPlace)
		if at, ok := e.places.acquire(c.wait, false); ok {
			c.wait.fire(at)
		}
	}
	go c.run()
}

func (e *engine) forget(c *conversation) {
	e.mu.Lock()
	delete(e.live, c)
	e.mu.Unlock()
	e.moved()
	e.wg.Done()
}

// conversations gives the conversations whose goroutines run.
func (e *engine) conversations() []*conversation {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*conversation, 0, len(e.live))
	for c := range e.live {
		out = append(out, c)
	}
	return out
}

// abandonAfter is how long canceled requests may take to come back before they are given up.
const abandonAfter = 15 * time.Second

// run goes through the whole load and returns when each planned turn has its row in the collector, which
// it leaves open. hard ends the requests under way, drain the starting of turns.
func (e *engine) run(hard context.Context, drain <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { e.pacer.run(ctx) })
	helpers.Go(e.out.run)
	loaded := make(chan struct{})
	helpers.Go(func() { e.supervise(hard, drain, loaded) })
	helpers.Go(func() { e.watch(ctx) })

	e.wg.Add(1) // so that the count is not 0 before the first conversation
	go func() {
		defer e.wg.Done()
		e.dispatch()
	}()
	all := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(all)
	}()
	e.await(all)
	e.stop(endComplete)
	close(loaded)
	cancel()
	// The collector's own end comes later.
	go helpers.Wait()
	return e.failure()
}

// await waits for the conversations, and after a cut only so long.
func (e *engine) await(all <-chan struct{}) {
	select {
	case <-all:
		return
	case <-e.load.Done():
	}
	// Rows of a large dataset may take a while to write; as long as they come, it is no hang.
	timer := time.NewTicker(abandonAfter)
	defer timer.Stop()
	before := -1
	for {
		select {
		case <-all:
			return
		case <-timer.C:
		}
		stuck := e.conversations()
		_, rows := e.out.tally.snapshot()
		if n := len(stuck) - int(rows); n != before {
			before = n
			continue
		}
		kind, _ := e.cancelKind()
		for _, c := range stuck {
			c.abandon(kind)
		}
		e.failRun(fmt.Errorf("%d conversations did not end %v after they were canceled:\n%s", len(stuck), abandonAfter, describe(stuck, e.clk.Now())))
		return
	}
}

// supervise turns the outside's wishes and the clock into stops and cuts.
func (e *engine) supervise(hard context.Context, drain, loaded <-chan struct{}) {
	timer := func(d time.Duration) <-chan time.Time {
		if d <= 0 {
			return nil
		}
		return time.After(d)
	}
	var duration, deadline, grace <-chan time.Time
	begun := e.begun
	stopping := e.stopping
	for {
		select {
		case <-begun:
			begun = nil
			until := time.Duration(e.base - e.clk.Now())
			if d := e.cfg.Duration; d > 0 {
				duration = timer(max(1, until+d-time.Duration(e.resumed.spent())))
			}
			if d := e.cfg.Deadline; d > 0 {
				deadline = timer(max(1, until+d))
			}
		case <-duration:
			e.stop(endDuration)
		case <-deadline:
			e.stop(endDeadline)
			e.cut(kindDeadline)
		case <-drain:
			drain = nil
			e.stop(endInterrupted)
		case <-hard.Done():
			hard = context.Background()
			e.stop(endInterrupted)
			e.cut(kindInterrupted)
		case <-stopping:
			stopping = nil
			grace = timer(max(1, e.cfg.Grace))
		case <-grace:
			e.cut(kindGrace)
		case <-loaded:
			return
		}
	}
}

// describe lists conversations and what they do, those that have done it longest first.
func describe(list []*conversation, now int64) string {
	slices.SortFunc(list, func(a, b *conversation) int { return int(a.since.Load()/1e6 - b.since.Load()/1e6) })
	var b strings.Builder
	for i, c := range list {
		if i == 50 {
			fmt.Fprintf(&b, "... and %d more\n", len(list)-i)
			break
		}
		c.mu.Lock()
		next := c.next
		c.mu.Unlock()
		fmt.Fprintf(&b, "conversation %q (row %d, pass %d), turn %d of %d: %s for %v\n", c.id, c.row, c.instance, next,
			len(c.turns), doingNames[c.doing.Load()], time.Duration(now-c.since.Load()).Round(time.Millisecond))
	}
	return b.String()
}

// errReconcile says that rows and plan do not agree. It is a fault of parley.
var errReconcile = errors.New("the number of rows is not the number of planned turns: this is a fault of parley, please report it")

// resume has the engine go on with what an interrupted run left, which may be nil.
func (e *engine) resume(r *resumed) {
	if e.resumed = r; r == nil {
		return
	}
	if e.cfg.bounded {
		e.planned.Store(r.rows)
	}
	e.started.Store(r.sent)
}
