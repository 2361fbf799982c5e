package simserver

import (
	"slices"
	"sync"
	"time"

	"parley/replay/simserver/batch"
)

// batched is the accelerator that batches, in real time. The engine's clock is the time since its start, and its
// steps follow on each other by that clock: a late wake-up delays what is sent, and not the next step.
type batched struct {
	cfg   Config
	epoch time.Time

	mu    sync.Mutex
	e     *batch.Engine
	timer *time.Timer
}

// sequence is a request's part of the batch.
type sequence struct {
	m *batched
	j *job
	s *batch.Sequence

	wake  chan struct{} // something came
	timer *time.Timer   // of the goroutine that waits
	// Guarded by batched.mu:
	began bool
	at    int64 // of the first token
	came  []int // tokens of each step, not yet taken
}

func newBatched(cfg Config) *batched {
	return &batched{cfg: cfg, epoch: time.Now(), e: batch.New(cfg.Batch())}
}

func (m *batched) enqueue(j *job) (work, error) {
	q := &sequence{m: m, j: j, wake: make(chan struct{}, 1)}
	p := j.prompt
	r := batch.Request{Prompt: max(1, p.tokens), Output: max(1, j.a.tokens)}
	if m.cfg.CacheBlocks > 0 && r.Prompt+r.Output <= m.cfg.CacheBlocks*m.cfg.BlockSize {
		p.hashes = slices.Clip(p.hashes)
		for i := range j.a.tokens {
			p.addText(j.a.textAt(i, j.plan.split))
		}
		r.Hashes = p.hashes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	if l := m.e.Load(); m.cfg.Queue != 0 && m.cfg.Slots > 0 && l.Running+l.Waiting >= m.cfg.Slots+max(0, m.cfg.Queue) {
		return nil, nil
	}
	var err error
	if q.s, err = m.e.Add(j.q.received.Sub(m.epoch).Nanoseconds(), r, q); err != nil {
		return nil, err
	}
	m.advance()
	return q, nil
}

// advance has the engine catch up with the clock, hands on what came out of it, and sets the timer for what is next.
// m.mu is held.
func (m *batched) advance() {
	for _, ev := range m.e.Advance(time.Since(m.epoch).Nanoseconds()) {
		q := ev.Of.Tag.(*sequence)
		switch ev.Kind {
		case batch.Admitted:
			q.began = true
		case batch.Tokens:
			if q.at == 0 {
				q.at = ev.At
			}
			q.came = append(q.came, ev.Tokens)
		}
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	at, ok := m.e.Next()
	switch wait := time.Duration(at) - time.Since(m.epoch); {
	case !ok:
	case m.timer == nil:
		m.timer = time.AfterFunc(wait, m.tick)
	default:
		m.timer.Reset(wait)
	}
}

func (m *batched) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
}

func (m *batched) remember([]uint64) {}

func (m *batched) resetCache() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.e.Forget()
}

func (m *batched) load() load {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, n := m.e.Load(), m.e.Counts()
	return load{running: l.Running, waiting: l.Waiting, cached: l.Known, usage: l.Usage, hits: n.Hits, queries: n.Queries, preemptions: n.Preemptions}
}

// until waits until what is asked for is so, with m.mu held when it looks; or until a moment, if that is not zero.
func (q *sequence) until(moment time.Time, so func() bool) (bool, error) {
	for {
		q.m.mu.Lock()
		is := so()
		q.m.mu.Unlock()
		if is {
			return true, nil
		}
		if !moment.IsZero() && !time.Now().Before(moment) {
			return false, nil
		}
		if err := q.j.await(q.wake, moment); err != nil {
			return false, err
		}
	}
}

func (q *sequence) admitted() error {
	if _, err := q.until(time.Time{}, func() bool { return q.began }); err != nil {
		return err
	}
	q.j.a.admitted, q.j.a.cached = q.m.epoch.Add(time.Duration(q.s.Admitted)), q.s.Cached
	return nil
}

func (q *sequence) first(until time.Time) (bool, error) {
	is, err := q.until(until, func() bool { return q.at > 0 })
	if is {
		q.j.a.first = q.m.epoch.Add(time.Duration(q.at))
		if q.j.plan.slowHeaders {
			return true, q.j.pause(q.j.a.first.Add(q.m.cfg.SlowHeaderFor))
		}
	}
	return is, err
}

// next gives what came in one step; where chunks are to have more tokens, as much as that, or what is left.
func (q *sequence) next(i, asked int) (n int, err error) {
	// Most tokens come soon: whether the client is still there, their writing tells.
	soon := time.Now().Add(watchedWait)
	for n < asked || n == 0 {
		got := 0
		take := func() bool {
			if len(q.came) == 0 {
				return false
			}
			got = q.came[0]
			if most := q.j.a.tokens - i - n; got > most {
				got = most
			}
			q.came = q.came[1:]
			return true
		}
		q.m.mu.Lock()
		is := take()
		q.m.mu.Unlock()
		if !is {
			if q.timer == nil {
				q.timer = time.NewTimer(watchedWait)
			} else {
				q.timer.Reset(time.Until(soon))
			}
			select {
			case <-q.wake:
				continue
			case <-q.timer.C:
			}
			if _, err := q.until(time.Time{}, take); err != nil {
				return n, err
			}
		}
		n += got
	}
	return n, nil
}

func (q *sequence) leave() {
	if q.timer != nil {
		q.timer.Stop()
	}
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	q.m.e.Cancel(q.s)
}
