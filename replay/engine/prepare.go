package engine

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
	"unsafe"

	"parley/replay/load"
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
func (e *Engine) mostReady() int64 {
	if n := e.Rules.MostPlaces(); n > 0 {
		return n + n/4 + 16
	}
	return windowMost
}

// prepare goes over the schedule, and reads and encodes each conversation shortly before its time. What it holds
// ready is bounded by the window. It has the load begin when enough is ready: of a closed loop all that start
// together, since they need their memory anyway; beyond them, or in an open loop, what the window holds.
func (e *Engine) prepare(begun chan<- struct{}) {
	begin := func() {
		e.begin()
		close(begun)
	}
	held, first := int64(0), int64(0)
	if !e.Rules.Open() {
		first = e.Rules.Places(0)
	}
	started := false
	for en := range load.Schedule(e.Extent, e.Rules, e.Left.Done) {
		if e.stop.Err() != nil {
			break
		}
		c, weight, err := e.prepareEntry(en, !started && held < first)
		if err != nil {
			e.Fail(err)
			break
		}
		due := int64(en.Offset) - e.Left.Time
		if !started {
			if e.window.TryAcquire(weight) {
				held++
				e.prepared(c, weight)
				if held == e.mostReady() || due > int64(windowAhead) {
					begin()
					started = true
				}
				continue
			}
			begin()
			started = true
		}
		e.notTooEarly(int64(en.Offset))
		if e.window.Acquire(e.stop, weight) != nil {
			break
		}
		e.prepared(c, weight)
	}
	if !started {
		begin()
	}
}

// begin has the load begin.
func (e *Engine) begin() {
	e.mu.Lock()
	held := len(e.convs)
	e.mu.Unlock()
	base := e.Begin(held)
	e.mu.Lock()
	e.base, e.shift, e.begun = base, base-e.Left.Time, true
	pending, ready := e.pending, e.ready
	e.mu.Unlock()
	e.moved()
	e.step(load.Event{Kind: load.Prepared, At: e.Left.Time, N: ready})
	if pending != "" {
		e.step(load.Event{Kind: load.Stop, At: e.Left.Time, Reason: pending})
	}
}

// prepared tells that one more entry can be started; its first conversation has the weight in the window.
func (e *Engine) prepared(c *Conversation, weight int64) {
	e.mu.Lock()
	if c != nil {
		c.weight = weight
	}
	e.ready++
	n := e.ready
	e.mu.Unlock()
	e.step(load.Event{Kind: load.Prepared, At: e.now(), N: n})
}

// notTooEarly waits until shortly before a conversation's time, or until the run stops.
func (e *Engine) notTooEarly(due int64) {
	early := time.Duration(due-e.now()) - windowAhead
	if !e.Rules.Open() || early <= 0 {
		return
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.stop.Done():
	}
}

// prepareEntry makes what starts with an entry of the schedule ready, and gives its weight in the window.
func (e *Engine) prepareEntry(en load.Entry, free bool) (holder *Conversation, weight int64, err error) {
	for member, turn := range e.Left.Done.Begins(e.Extent, e.Rules, en) {
		c, err := e.ready1(load.Task{K: en.K, Pass: en.Pass, Root: en.Row, Row: e.Extent.Row(en.Row, member), Member: member}, turn)
		if err != nil {
			return nil, 0, err
		}
		if holder == nil {
			holder = c
		}
		weight += weigh(c.Source)
	}
	if weight = min(max(weight, windowBytes/e.mostReady()), windowBytes); free {
		weight = 0
	}
	return holder, weight, nil
}

// ready1 makes one conversation ready to be sent: its history up to the turn at which it begins is encoded, and
// what that turn starts is ready too. What is wrong with the conversation itself becomes its rows.
func (e *Engine) ready1(t load.Task, first int32) (*Conversation, error) {
	source, err := e.shelf.read(int64(t.Row))
	if err != nil {
		return nil, err
	}
	c := e.conversation(t, &source)
	c.first = int(first)
	c.turn.Store(first)
	c.broken = c.encode()
	if c.broken == nil {
		if err := e.prepareKids(c, c.first); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	e.convs[keyOf(t)] = c
	e.mu.Unlock()
	return c, nil
}

// prepareKids makes the conversations ready that a turn starts.
func (e *Engine) prepareKids(c *Conversation, turn int) error {
	for row, member := range e.Extent.Kids(c.Root, c.Member, turn) {
		t := c.Task
		t.Row, t.Member = row, member
		if _, err := e.ready1(t, 0); err != nil {
			return err
		}
	}
	return nil
}

// weigh estimates the memory of a conversation: its texts, once more encoded, and what surrounds them.
func weigh(c *schemas.Conversation) int64 {
	n := 4096 + len(c.Turns)*int(unsafe.Sizeof(schemas.Turn{})) + len(c.Messages)*int(unsafe.Sizeof(schemas.Message{}))
	for i := range c.Messages {
		m := &c.Messages[i]
		for _, s := range []*string{m.Content, m.Parts, m.ToolCalls, m.Reasoning} {
			if s != nil {
				n += 2 * len(*s)
			}
		}
	}
	return int64(n)
}

// shelf reads conversations by row, for whoever asks. What follows on a row that was read lately is read on from there,
// since opening the file in the middle costs as much as reading many rows: a tree's next conversations mostly do.
type shelf struct {
	ds   Dataset
	mu   sync.Mutex
	open []*reader // the last used last
}

// reader is the dataset opened at a row.
type reader struct {
	next func() (schemas.Conversation, error, bool)
	stop func()
	row  int64
}

const (
	maxSkip = 64 // rows that are read over instead of opening the file anew
	maxOpen = 64 // readers that are kept
)

func (s *shelf) read(row int64) (schemas.Conversation, error) {
	r := s.take(row)
	for {
		c, err, ok := r.next()
		if !ok {
			err = fmt.Errorf("%s: row %d is not there: %w", s.ds.Path(), row, errNoRow)
		}
		if err != nil {
			r.stop()
			return c, err
		}
		if r.row++; r.row > row {
			s.put(r)
			return c, nil
		}
	}
}

// take gives the reader that stands closest before a row, or a new one.
func (s *shelf) take(row int64) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, r := range s.open {
		if r.row <= row && row <= r.row+maxSkip && (best < 0 || r.row > s.open[best].row) {
			best = i
		}
	}
	if best >= 0 {
		r := s.open[best]
		s.open = slices.Delete(s.open, best, best+1)
		return r
	}
	r := &reader{row: row}
	r.next, r.stop = iter.Pull2(s.ds.Conversations(row))
	return r
}

func (s *shelf) put(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open = append(s.open, r); len(s.open) > maxOpen {
		s.open[0].stop()
		s.open = slices.Delete(s.open, 0, 1)
	}
}

func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open {
		r.stop()
	}
	s.open = nil
}
