package batch

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Request is what an engine is asked for.
type Request struct {
	Prompt int // tokens, at least 1
	Output int // tokens, at least 1
	// Hashes are names of the contents of the full blocks of prompt and answer together, each of all tokens up to
	// its block's end. Those that are missing at the end cannot be found again.
	Hashes []uint64
}

// Sequence is a request under way. Its fields are for reading; moments are those of the engine's clock.
type Sequence struct {
	Request
	Tag       any   // the caller's own
	Arrived   int64 // as Add was told
	Admitted  int64 // its first step began
	Cached    int   // prompt tokens that were found in the cache then
	Done      int   // tokens made
	Preempted int   // times that it was

	worker   *worker
	state    state
	ready    bool // its keys and values came from a prefiller: it may begin to decode
	computed int  // tokens whose keys and values are in its blocks
	now      int  // tokens that the step under way computes
	guess    int  // guesses among them
	blocks   []int32
}

type state uint8

const (
	coming  state = iota // on its way to a worker
	waiting              // in a worker's queue
	running
	over
)

// Event is something that came out of an engine.
type Event struct {
	At     int64
	Kind   Kind
	Of     *Sequence
	Tokens int // Tokens: how many came, together
}

// Kind is what an event tells.
type Kind uint8

const (
	Admitted Kind = iota // the sequence's first step began
	Tokens               // tokens of its answer came; it is over if that makes Done its Output
)

// Engine is one engine, of one or more workers. Not safe for concurrent use.
type Engine struct {
	cfg        Config
	workers    []*worker
	prefillers []*worker
	pending    arrivals
	seq        uint64
	now        int64
	out        []Event

	mood    float64 // factor of this start
	drift   float64 // state of the process, standard normal
	driftAt int64
	rand    *rand.Rand

	counts Counts
}

// Counts are an engine's counters since its start.
type Counts struct {
	Steps       int64
	Preemptions int64
	Queries     int64 // prompt tokens looked up in the cache
	Hits        int64 // of them, found
	Prefilled   int64 // prompt tokens computed, those of preempted sequences again included
	Generated   int64 // tokens made
	Guessed     int64 // by speculative decoding
	Accepted    int64 // of the guesses
}

// Load is what an engine has to do at a moment.
type Load struct {
	Running, Waiting int     // sequences; those on their way count as waiting
	Usage            float64 // share of the blocks that running sequences hold
	Known            int     // blocks whose content can be found
	Evicted          int64   // contents dropped to make room, since the start
}

// worker is one accelerator.
type worker struct {
	pool     *Pool
	queue    []*Sequence // of those that wait; the head is at first
	first    int
	running  []*Sequence
	ends     int64 // of the step under way, if busy
	busy     bool
	prefills bool // it only prefills
}

// New makes an engine whose clock is at 0. The configuration is valid.
func New(c Config) *Engine {
	c = c.normal()
	e := &Engine{cfg: c, rand: rand.New(rand.NewPCG(c.Seed, 0xBA7C))}
	e.mood = math.Exp(c.Mood * e.rand.NormFloat64())
	e.drift = e.rand.NormFloat64()
	for range c.Workers {
		e.workers = append(e.workers, &worker{pool: NewPool(c.Blocks)})
	}
	for range c.Prefillers {
		e.prefillers = append(e.prefillers, &worker{pool: NewPool(c.Blocks), prefills: true})
	}
	return e
}

// ErrTooLong means that a request can never be served.
var ErrTooLong = errors.New("batch: the request needs more blocks than there are")

// Add brings a request at a moment, which may not be before those of earlier calls by more than a step. The
// sequence counts as waiting until a step takes it.
func (e *Engine) Add(at int64, r Request, tag any) (*Sequence, error) {
	if n := e.blocksOf(r.Prompt + r.Output); n > e.cfg.Blocks {
		return nil, fmt.Errorf("%w: %d of %d tokens, and there are %d", ErrTooLong, n, e.cfg.BlockSize, e.cfg.Blocks)
	}
	s := &Sequence{Request: r, Tag: tag, Arrived: at, Admitted: -1}
	e.send(s, at+int64(e.cfg.Delay))
	return s, nil
}

// send has a sequence arrive at a worker at a moment.
func (e *Engine) send(s *Sequence, at int64) {
	s.state = coming
	e.seq++
	heap.Push(&e.pending, arrival{max(at, e.now), e.seq, s})
}

// Cancel takes a sequence out of the engine; nothing more comes of it. What the step under way does for it has been
// paid for.
func (e *Engine) Cancel(s *Sequence) {
	switch was := s.state; was {
	case waiting:
		w := s.worker
		i := w.first + slices.Index(w.queue[w.first:], s)
		w.queue = slices.Delete(w.queue, i, i+1)
	case running:
		w := s.worker
		if w.busy && s.now > 0 {
			s.state = over // its blocks are in use to the end of the step
			return
		}
		w.leave(s)
	}
	s.state = over
}

// Next gives the moment at which something happens by itself, false if nothing will.
func (e *Engine) Next() (at int64, ok bool) {
	at = math.MaxInt64
	for w := range e.all {
		if w.busy {
			at, ok = min(at, w.ends), true
		}
	}
	if len(e.pending) > 0 {
		at, ok = min(at, e.pending[0].at), true
	}
	return at, ok
}

func (e *Engine) all(yield func(*worker) bool) {
	for _, w := range e.prefillers {
		if !yield(w) {
			return
		}
	}
	for _, w := range e.workers {
		if !yield(w) {
			return
		}
	}
}

// Advance has all happen that is due by a moment, in order, and gives what came out. The events are valid until the
// next call.
func (e *Engine) Advance(to int64) []Event {
	e.out = e.out[:0]
	for {
		at, ok := e.Next()
		if !ok || at > to {
			e.now = max(e.now, to)
			return e.out
		}
		e.now = at
		for w := range e.all {
			if w.busy && w.ends <= at {
				e.finish(w)
			}
		}
		for len(e.pending) > 0 && e.pending[0].at <= at {
			e.arrive(heap.Pop(&e.pending).(arrival).s)
		}
		for w := range e.all {
			if !w.busy {
				e.begin(w)
			}
		}
	}
}

// arrive has a sequence join the queue of the worker with the fewest sequences.
func (e *Engine) arrive(s *Sequence) {
	if s.state != coming {
		return
	}
	list := e.workers
	if len(e.prefillers) > 0 && s.Done == 0 {
		list = e.prefillers
	}
	w := list[0]
	for _, x := range list[1:] {
		if x.load() < w.load() {
			w = x
		}
	}
	s.worker, s.state = w, waiting
	w.queue = append(w.queue, s)
}

func (w *worker) waiting() int { return len(w.queue) - w.first }
func (w *worker) load() int    { return len(w.running) + w.waiting() }

// pushFront puts a sequence at the queue's head.
func (w *worker) pushFront(s *Sequence) {
	if w.first == 0 {
		w.queue = slices.Insert(w.queue, 0, s)
		return
	}
	w.first--
	w.queue[w.first] = s
}

func (w *worker) popFront() {
	w.queue[w.first] = nil
	w.first++
	if w.first == len(w.queue) {
		w.queue, w.first = w.queue[:0], 0
	} else if w.first >= 256 && w.first > len(w.queue)/2 {
		w.queue, w.first = w.queue[:copy(w.queue, w.queue[w.first:])], 0
	}
}

// leave takes a running sequence off the worker.
func (w *worker) leave(s *Sequence) {
	i := slices.Index(w.running, s)
	w.running = slices.Delete(w.running, i, i+1)
	w.drop(s)
}

// drop gives a sequence's blocks back.
func (w *worker) drop(s *Sequence) {
	w.pool.release(s.blocks)
	s.blocks, s.computed, s.now, s.guess = s.blocks[:0], 0, 0, 0
}

func (e *Engine) blocksOf(tokens int) int { return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize }

// begin plans a step and starts it, if there is anything to do.
func (e *Engine) begin(w *worker) {
	budget := e.cfg.Budget
	decoding, computing := 0, 0
	preempted := false
	for i := 0; i < len(w.running) && budget > 0; i++ {
		s := w.running[i]
		need := s.Prompt + s.Done - s.computed
		n, guess := min(need, budget), 0
		if need == 1 && e.cfg.Draft > 0 {
			guess = min(e.cfg.Draft, s.Output-s.Done-1, budget-1)
			n += guess
		}
		for !w.grow(s, e.blocksOf(s.computed+n)) {
			preempted = true
			last := w.running[len(w.running)-1]
			w.running = w.running[:len(w.running)-1]
			if last.now > 0 { // it comes before this one; cannot be, since who began last is last
				panic("batch: a sequence that this step computes was preempted")
			}
			w.drop(last)
			last.Preempted++
			e.counts.Preemptions++
			last.state = waiting
			w.pushFront(last)
			if last == s {
				s = nil
				break
			}
		}
		if s == nil {
			break
		}
		s.now, s.guess = n, guess
		budget -= n
		if need == 1 && s.Done > 0 {
			decoding++
			computing += guess
		} else {
			computing += n
		}
	}
	for !preempted && budget > 0 && w.waiting() > 0 && len(w.running) < e.cfg.Sequences {
		s := w.queue[w.first]
		n, transferred := e.admit(w, s, budget)
		if n == 0 {
			break
		}
		w.popFront()
		s.now, s.guess, s.state = n, 0, running
		w.running = append(w.running, s)
		budget -= n
		if transferred {
			decoding++
		} else {
			computing += n
		}
		if s.Admitted < 0 {
			s.Admitted = e.now
			e.out = append(e.out, Event{At: e.now, Kind: Admitted, Of: s})
		}
	}
	if decoding+computing == 0 {
		return
	}
	e.counts.Steps++
	e.counts.Prefilled += int64(computing)
	d := float64(e.cfg.Step) + float64(e.cfg.PerSequence)*float64(decoding) + float64(e.cfg.PerToken)*float64(computing)
	w.busy, w.ends = true, e.now+max(1, int64(d*e.speed()))
}

// admit gives a waiting sequence its blocks, and says how many of its tokens the step computes: 0 if there is no
// room. What a prefiller made is there without being computed.
func (e *Engine) admit(w *worker, s *Sequence, budget int) (n int, transferred bool) {
	total := s.Prompt + s.Done
	known := 0
	if !e.cfg.NoSharing {
		// The last token is computed in any case: the next one comes from it.
		full := min(len(s.Hashes), (total-1)/e.cfg.BlockSize)
		known = w.pool.Match(s.Hashes[:full])
	}
	have := known * e.cfg.BlockSize
	if s.ready {
		have, transferred = total-1, true
	}
	n = min(total-have, budget)
	shared := s.Hashes[:known]
	fresh := e.blocksOf(have+n) - known
	if fresh > w.pool.room(shared) {
		return 0, false
	}
	if s.Admitted < 0 && !e.cfg.NoSharing {
		s.Cached = have
		e.counts.Queries += int64(total)
		e.counts.Hits += int64(have)
	}
	s.blocks = w.pool.take(w.pool.share(s.blocks[:0], shared), fresh)
	s.computed, s.ready = have, false
	if transferred {
		e.name(w, s, known*e.cfg.BlockSize)
	}
	return n, transferred
}

// grow gives a sequence so many blocks, and says whether they were there.
func (w *worker) grow(s *Sequence, blocks int) bool {
	n := blocks - len(s.blocks)
	if n <= 0 {
		return true
	}
	if n > w.pool.capacity-w.pool.held {
		return false
	}
	s.blocks = w.pool.take(s.blocks, n)
	return true
}

// finish ends a worker's step.
func (e *Engine) finish(w *worker) {
	w.busy = false
	at := w.ends
	kept := w.running[:0]
	for _, s := range w.running {
		if s.state == over { // canceled meanwhile
			w.drop(s)
			continue
		}
		if s.now == 0 { // the budget did not reach it
			kept = append(kept, s)
			continue
		}
		made := 0
		if s.computed+s.now-s.guess == s.Prompt+s.Done {
			made = 1
			for made <= s.guess && e.rand.Float64() < e.cfg.Accept {
				made++
			}
			e.counts.Guessed += int64(s.guess)
			e.counts.Accepted += int64(made - 1)
			e.counts.Generated += int64(made)
		}
		// The keys of wrong guesses are computed anew, over the old ones.
		before := s.computed
		s.computed += s.now - s.guess + max(0, made-1)
		s.now, s.guess = 0, 0
		e.name(w, s, before)
		s.Done += made
		if made > 0 {
			e.out = append(e.out, Event{At: at, Kind: Tokens, Of: s, Tokens: made})
		}
		switch {
		case s.Done >= s.Output:
			w.drop(s)
			s.state = over
		case w.prefills && made > 0:
			w.drop(s)
			s.ready = true
			e.send(s, at+int64(e.cfg.Transfer)*int64(s.Prompt))
		default:
			kept = append(kept, s)
		}
	}
	clear(w.running[len(kept):])
	w.running = kept
}

// name has the blocks be found that are full since so many tokens were computed.
func (e *Engine) name(w *worker, s *Sequence, since int) {
	if e.cfg.NoSharing {
		return
	}
	size := e.cfg.BlockSize
	for k := since / size; k < s.computed/size && k < len(s.Hashes); k++ {
		w.pool.name(s.blocks[k], s.Hashes[k])
	}
}

// speed gives the factor on the time of a step that begins now.
func (e *Engine) speed() float64 {
	f := e.mood
	if e.cfg.Drift > 0 {
		k := math.Exp(-float64(e.now-e.driftAt) / float64(e.cfg.DriftTime))
		e.drift = e.drift*k + math.Sqrt(1-k*k)*e.rand.NormFloat64()
		e.driftAt = e.now
		f *= math.Exp(e.cfg.Drift * e.drift)
	}
	if e.cfg.Jitter > 0 {
		f *= 1 + e.cfg.Jitter*(2*e.rand.Float64()-1)
	}
	return f
}

// Counts gives the counters so far.
func (e *Engine) Counts() Counts { return e.counts }

// Load gives what the engine has to do now.
func (e *Engine) Load() Load {
	l := Load{Waiting: len(e.pending)}
	held, all := 0, 0
	for w := range e.all {
		l.Running += len(w.running)
		l.Waiting += w.waiting()
		l.Known += w.pool.Known()
		l.Evicted += w.pool.Evicted
		held += w.pool.held
		all += w.pool.capacity
	}
	l.Usage = float64(held) / float64(all)
	return l
}

// Forget drops the contents of all blocks that can be found again.
func (e *Engine) Forget() {
	for w := range e.all {
		w.pool.Forget()
	}
}

// arrival is a sequence on its way to a worker's queue.
type arrival struct {
	at  int64
	seq uint64
	s   *Sequence
}

type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	old := *a
	x := old[len(old)-1]
	old[len(old)-1] = arrival{}
	*a = old[:len(old)-1]
	return x
}
