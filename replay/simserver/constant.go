package simserver

import (
	"slices"
	"sync"
	"time"

	"parley/replay/simserver/batch"
)

// constant is the accelerator whose tokens take the same time however many requests run: slots with a queue, a
// prefix cache beside them, and times that lie on an absolute schedule from the moment of the slot on.
type constant struct {
	cfg Config

	mu          sync.Mutex
	running     int
	waiting     []*ticket
	cache       *batch.Pool
	usedBlocks  int       // of running requests
	prefillFree time.Time // with PrefillShared: when the last prompt so far will be done
	hits        int64     // prompt tokens found in the cache
	queries     int64     // prompt tokens looked up
}

// ticket is a place in the queue, and then in a slot.
type ticket struct {
	m       *constant
	j       *job
	granted chan struct{} // closed when the slot is there
	has     bool          // guarded by constant.mu
	blocks  int           // that the request holds, guarded too
	due     time.Time     // of the next chunk
}

func newConstant(cfg Config) *constant {
	m := &constant{cfg: cfg}
	if cfg.CacheBlocks > 0 {
		m.cache = batch.NewPool(cfg.CacheBlocks)
	}
	return m
}

func (m *constant) enqueue(j *job) (work, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &ticket{m: m, j: j, granted: make(chan struct{})}
	switch {
	case m.cfg.Slots == 0 || m.running < m.cfg.Slots:
		m.grant(t)
	case m.cfg.Queue == 0 || len(m.waiting) < m.cfg.Queue:
		m.waiting = append(m.waiting, t)
	default:
		return nil, nil
	}
	return t, nil
}

func (m *constant) grant(t *ticket) {
	m.running++
	t.has = true
	close(t.granted)
}

// leave gives back a slot or a place in the queue, and the blocks that were held with it.
func (t *ticket) leave() {
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usedBlocks -= t.blocks
	t.blocks = 0
	if !t.has {
		if i := slices.Index(m.waiting, t); i >= 0 {
			m.waiting = slices.Delete(m.waiting, i, i+1)
		}
		return
	}
	t.has = false
	m.running--
	if len(m.waiting) > 0 && (m.cfg.Slots == 0 || m.running < m.cfg.Slots) {
		next := m.waiting[0]
		m.waiting = slices.Delete(m.waiting, 0, 1)
		m.grant(next)
	}
}

func (t *ticket) admitted() error {
	j := t.j
	at := j.q.received
	select {
	case <-t.granted:
	default:
		if err := j.await(t.granted, time.Time{}); err != nil {
			return err
		}
		at = time.Now()
	}
	block := max(t.m.cfg.BlockSize, 1)
	j.a.admitted = at
	j.a.cached, t.due = t.m.prefill(t, j.prompt, (j.prompt.tokens+j.a.tokens+block-1)/block, at)
	if j.plan.slowHeaders {
		t.due = t.due.Add(t.m.cfg.SlowHeaderFor)
	}
	j.a.first = t.due
	return nil
}

func (t *ticket) first(until time.Time) (bool, error) {
	if !until.IsZero() && until.Before(t.due) {
		return false, t.j.pause(until)
	}
	return true, t.j.pause(t.due)
}

func (t *ticket) next(i, asked int) (int, error) {
	if i > 0 {
		t.due = t.due.Add(t.j.gap(i, asked))
	}
	if t.j.truth.Streaming && !t.j.plan.plainJSON || i+asked == t.j.a.tokens { // else nobody looks before the end
		return asked, t.j.pause(t.due)
	}
	return asked, nil
}

// prefill looks a prompt up in the cache and gives the tokens found there and the moment of the first
// token of a request that got its slot at t.
func (m *constant) prefill(ticket *ticket, p prompt, blocks int, t time.Time) (cached int, first time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ticket.blocks = blocks
	m.usedBlocks += blocks
	if m.cache != nil {
		// As in vLLM, the last token is always computed: its logits are needed.
		usable := p.hashes[:max(0, min(len(p.hashes), (p.tokens-1)/m.cfg.BlockSize))]
		n := m.cache.Match(usable)
		m.cache.Remember(usable[:n])
		cached = n * m.cfg.BlockSize
		m.queries += int64(p.tokens)
		m.hits += int64(cached)
	}
	if m.cfg.TTFT > 0 {
		return cached, t.Add(m.cfg.TTFT)
	}
	var d time.Duration
	if m.cfg.Prefill > 0 {
		d = time.Duration(float64(p.tokens-cached) / m.cfg.Prefill * 1e9)
	}
	if m.cfg.PrefillShared {
		if m.prefillFree.After(t) {
			t = m.prefillFree
		}
		m.prefillFree = t.Add(d)
	}
	return cached, t.Add(m.cfg.Base + d)
}

func (m *constant) remember(hashes []uint64) {
	if m.cache == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cache.Remember(hashes)
}

func (m *constant) resetCache() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache != nil {
		m.cache.Forget()
	}
}

func (m *constant) load() load {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := load{running: m.running, waiting: len(m.waiting), hits: m.hits, queries: m.queries}
	if m.cache != nil {
		l.cached = m.cache.Known()
		l.usage = min(1, float64(m.usedBlocks)/float64(m.cfg.CacheBlocks))
	}
	return l
}

// gap gives the time before chunk i.
func (j *job) gap(i, tokens int) time.Duration {
	cfg := &j.s.cfg
	d := float64(cfg.ITL) * float64(tokens)
	if cfg.Jitter > 0 {
		d *= 1 + cfg.Jitter*(2*unit(mix(j.a.rnd+uint64(i)*0x9E37))-1)
	}
	return time.Duration(d)
}
