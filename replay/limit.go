package replay

import (
	"math"
	"sync"
)

// A waiter is a conversation that waits: for its time ([pacer]) or for its turn at a limit ([limit]).
// Whoever fires it has no further business with it. A conversation waits for one thing at a time and has
// one waiter for all its life; once it stops waiting because the run stops it never waits again, so a
// late firing finds nobody.
type waiter struct {
	fired chan struct{} // one place, so that firing never blocks
	at    int64         // the moment that counts: when the time was due, when the place was free

	queued bool // stands in a limit's queue; the limit's mutex guards it
}

func newWaiter() *waiter { return &waiter{fired: make(chan struct{}, 1)} }

func (w *waiter) fire(at int64) {
	w.at = at
	w.fired <- struct{}{}
}

// always is the moment since when a limit that is none has had a place.
const always = math.MinInt64

// A limit bounds how many may do something at once, exactly: a place that becomes free goes straight to
// whoever has waited longest, and is never free in between. The zero value has no places; release adds
// one. A nil limit is no limit.
type limit struct {
	mu    sync.Mutex
	free  fifo[int64]   // since when each free place is free
	first fifo[*waiter] // waiters that go before those of queue
	queue fifo[*waiter]
}

// newLimit gives a limit with n places that have always been free, or no limit for n = 0.
func newLimit(n int) *limit {
	if n == 0 {
		return nil
	}
	l := &limit{}
	for range n {
		l.free.push(always)
	}
	return l
}

// acquire takes a place if one is free, the one that has been free longest, and gives the moment since
// when it was. If none is, it queues w, which is fired with the moment at which a place became free;
// first puts it before all that are not first.
func (l *limit) acquire(w *waiter, first bool) (at int64, ok bool) {
	if l == nil {
		return always, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.free.pop(); ok {
		return at, true
	}
	w.queued = true
	if first {
		l.first.push(w)
	} else {
		l.queue.push(w)
	}
	return 0, false
}

// try takes a place if one is free, and does not wait for one.
func (l *limit) try() bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.free.pop()
	return ok
}

// release gives a place back, or adds a new one, at the moment at.
func (l *limit) release(at int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		w, ok := l.first.pop()
		if !ok {
			w, ok = l.queue.pop()
		}
		if !ok {
			l.free.push(at)
			return
		}
		if w.queued {
			w.queued = false
			w.fire(at)
			return
		}
	}
}

// fire adds a place: the pacer opens those of a closed loop.
func (l *limit) fire(at int64) { l.release(at) }

// withdraw ends w's waiting. It returns false if w has been given a place, which is then its to release.
func (l *limit) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := w.queued
	w.queued = false
	return was
}

// fifo is a queue.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) push(v T) { q.items = append(q.items, v) }

func (q *fifo[T]) pop() (v T, ok bool) {
	var zero T
	if q.head == len(q.items) {
		return zero, false
	}
	v = q.items[q.head]
	q.items[q.head] = zero
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head > 1024 && q.head > len(q.items)/2:
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v, true
}
