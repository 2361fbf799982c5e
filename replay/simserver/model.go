package simserver

import (
	"slices"
	"sync"
	"time"
)

// model is the accelerator: slots with a queue, the prefix cache, and the prefill's time.
type model struct {
	cfg Config

	mu          sync.Mutex
	running     int
	waiting     []*ticket
	cache       *prefixCache
	usedBlocks  int       // of running requests
	prefillFree time.Time // with PrefillShared: when the last prompt so far will be done
	hits        int64     // prompt tokens found in the cache
	queries     int64     // prompt tokens looked up
}

// ticket is a place in the queue.
type ticket struct {
	granted chan struct{} // closed when the slot is there
	has     bool          // guarded by model.mu
}

func newModel(cfg Config) *model {
	m := &model{cfg: cfg}
	if cfg.CacheBlocks > 0 {
		m.cache = newPrefixCache(cfg.CacheBlocks)
	}
	return m
}

// enqueue takes a slot, or a place in the queue; nil means that the queue is full.
func (m *model) enqueue() *ticket {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &ticket{granted: make(chan struct{})}
	switch {
	case m.cfg.Slots == 0 || m.running < m.cfg.Slots:
		m.grant(t)
	case m.cfg.Queue == 0 || len(m.waiting) < m.cfg.Queue:
		m.waiting = append(m.waiting, t)
	default:
		return nil
	}
	return t
}

func (m *model) grant(t *ticket) {
	m.running++
	t.has = true
	close(t.granted)
}

// release gives back a slot or a place in the queue, and the blocks that were held with it.
func (m *model) release(t *ticket, blocks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usedBlocks -= blocks
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

// prefill looks a prompt up in the cache and gives the tokens found there and the moment of the first
// token of a request that got its slot at t.
func (m *model) prefill(p prompt, blocks int, t time.Time) (cached int, first time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usedBlocks += blocks
	if m.cache != nil {
		// As in vLLM, the last token is always computed: its logits are needed.
		usable := p.hashes[:max(0, min(len(p.hashes), (p.tokens-1)/m.cfg.BlockSize))]
		cached = m.cache.match(usable) * m.cfg.BlockSize
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

// remember puts blocks into the prefix cache.
func (m *model) remember(hashes []uint64) {
	if m.cache == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cache.insert(hashes)
}

func (m *model) resetCache() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache != nil {
		m.cache.reset()
	}
}

// load is a look at the model's state.
type load struct {
	running, waiting, cached int
	usage                    float64
	hits, queries            int64
}

func (m *model) load() load {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := load{running: m.running, waiting: len(m.waiting), hits: m.hits, queries: m.queries}
	if m.cache != nil {
		l.cached = m.cache.len()
		l.usage = min(1, float64(m.usedBlocks)/float64(m.cfg.CacheBlocks))
	}
	return l
}

// prompt is the tokens of a request: how many, and the chained hashes of its full blocks.
type prompt struct {
	tokens int
	hashes []uint64
	block  int
	chain  uint64
}

// add appends one token.
func (p *prompt) add(token uint64) {
	p.tokens++
	p.chain = mix(p.chain ^ token)
	if p.block > 0 && p.tokens%p.block == 0 {
		p.hashes = append(p.hashes, p.chain)
	}
}

// addText appends the tokens of s.
func (p *prompt) addText(s string) {
	for i := 0; i < len(s); {
		start := i
		i = nextToken(s, i)
		h := uint64(fnvOffset)
		for j := start; j < i; j++ {
			h = (h ^ uint64(s[j])) * fnvPrime
		}
		p.add(h)
	}
}

// Marks of the chat template, one token each. The template is <|role|> text <|end|> for each message, and
// <|assistant|> where the answer begins, so that prompt and answer together are the start of the
// conversation's next prompt.
func (p *prompt) mark(name string) { p.add(derive(0, "<|"+name+"|>", 1)) }
