package replay

import (
	"container/heap"
	"iter"
	"math"
	"path/filepath"
	"time"

	"parley/schemas"
)

// What Plan assumes of a server, since it asks none.
const (
	assumedTTFT   = 500 * time.Millisecond // time to first token
	assumedITL    = 20 * time.Millisecond  // time per output token
	assumedTokens = 200                    // of an answer whose length nothing limits
	planMost      = 5_000_000              // turns that are played through
)

// Shape is what a run's schedule looks like, and what it would ask for.
type Shape struct {
	Dataset       schemas.DatasetRef `json:"dataset"`
	Open          bool               `json:"open_loop"`
	Planned       int64              `json:"planned,omitempty"` // turns of a run over a fixed extent; 0 if Requests or Duration stop it
	Conversations int64              `json:"conversations"`     // that start in the time played through
	Turns         int64              `json:"turns"`             // that are sent in it
	Shed          int64              `json:"shed,omitempty"`    // conversations that find the limit full
	OutputTokens  int64              `json:"output_tokens"`     // asked for
	Unlimited     int64              `json:"unlimited,omitempty"`
	PromptTokens  int64              `json:"prompt_tokens,omitempty"` // by the dataset's counts, where it has them
	ThinkTime     time.Duration      `json:"think_ns"`                // in all conversations together

	Length        time.Duration `json:"length_ns"`          // until the last turn has ended
	MostActive    int           `json:"most_conversations"` // conversations at once
	MostRequests  int           `json:"most_requests"`      // requests at once
	MeanRequests  float64       `json:"mean_requests"`      //
	LongestWait   time.Duration `json:"longest_wait_ns"`    // of a turn for the run's own limits
	Cut           bool          `json:"cut,omitempty"`      // there is more than was played through
	BusiestSecond int64         `json:"busiest_second"`     // conversations that arrive in it
	FirstArrivals []float64     `json:"first_arrivals_s"`   // of the first ten conversations
	ArrivalRate   float64       `json:"arrival_rate"`       // conversations per second, over the time of the arrivals
	Dispersion    float64       `json:"dispersion"`         // index of dispersion of arrivals per second: 1 for Poisson; NaN is given as 0
	Assumed       struct {      // what the times above assume of the server
		TTFT   time.Duration `json:"ttft_ns"`
		ITL    time.Duration `json:"itl_ns"`
		Tokens int64         `json:"tokens"` // of an answer without a limit
	} `json:"assumed"`
}

// Plan plays a run's schedule through without sending anything, against a server that is assumed to take
// half a second to the first token and 20 ms for each token, however many it serves: it shows the shape
// of the load, not what the server will make of it.
func Plan(cfg Config) (*Shape, error) {
	if cfg.Output == "" {
		cfg.Output = "nothing is written"
	}
	if len(cfg.URLs) == 0 {
		cfg.URLs = []string{"http://nobody.is.asked"}
	}
	s, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	ds, err := s.Open(cfg.Dataset)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	shape, err := playThrough(s, ds)
	if err != nil {
		return nil, err
	}
	meta := ds.Meta()
	shape.Dataset.ContentHash, shape.Dataset.Tokenizer = meta.ContentHash, meta.Tokenizer
	return shape, nil
}

func playThrough(s *settled, ds dataset) (*Shape, error) {
	x, err := survey(ds, s.Arrivals == "recorded")
	if err != nil {
		return nil, err
	}
	p := &play{cfg: s, x: x, e: &engine{cfg: s}}
	p.shape.Dataset = schemas.DatasetRef{File: filepath.Base(ds.Path()), Conversations: int64(len(x.turns))}
	for o, err := range ds.Outlines() {
		if err != nil {
			return nil, err
		}
		p.outlines = append(p.outlines, p.outline(o.Turns))
		p.shape.Dataset.Turns += int64(len(o.Turns))
	}
	p.shape.Open = s.open
	if !s.bounded {
		p.shape.Planned = x.planned(s)
	}
	a := &p.shape.Assumed
	a.TTFT, a.ITL, a.Tokens = assumedTTFT, assumedITL, assumedTokens
	p.run()
	return &p.shape, nil
}

// step is what playing needs to know of a turn.
type step struct {
	think  time.Duration
	tokens int32 // asked for, 0 without a limit
	prompt int32
}

// play is a discrete simulation of a run.
type play struct {
	cfg      *settled
	x        *extent
	e        *engine // for its settings only
	outlines [][]step
	shape    Shape
	refill   func() // closed loop: gives free places to conversations

	now     time.Duration
	events  playHeap
	seq     uint64
	places  int // free; negative means no limit
	flights int
	kids    fifo[*actor] // for a place, before the others
	waiting fifo[*actor] // for a place
	queued  fifo[*actor] // for a request's place
	active  int
	sending int
	area    float64 // requests times time
	since   time.Duration
	stopped bool
	buckets map[int64]int64
	arrived int64
	lastArr time.Duration
}

// actor is a conversation in the simulation.
type actor struct {
	entry
	next  int
	ready time.Duration // when its next turn was ready but for the limits
	child bool
}

type playEvent struct {
	at  time.Duration
	seq uint64
	do  func()
}

type playHeap []playEvent

func (h playHeap) Len() int { return len(h) }
func (h playHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h playHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *playHeap) Push(v any)   { *h = append(*h, v.(playEvent)) }
func (h *playHeap) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}

func (p *play) at(t time.Duration, do func()) {
	p.seq++
	heap.Push(&p.events, playEvent{t, p.seq, do})
}

func (p *play) outline(turns []schemas.Turn) []step {
	steps := make([]step, len(turns))
	for i := range turns {
		steps[i].tokens = int32(min(p.e.outputTokens(&turns[i]), math.MaxInt32))
		if i > 0 {
			steps[i].think = p.e.think(&turns[i])
		}
		if n := turns[i].PromptTokens; n != nil {
			steps[i].prompt = int32(min(*n, math.MaxInt32))
		}
	}
	return steps
}

func (p *play) run() {
	p.places, p.flights = -1, -1
	if n := p.cfg.MaxConversations; n > 0 {
		p.places = n
	}
	if n := p.cfg.MaxInFlight; n > 0 {
		p.flights = n
	}
	p.buckets = map[int64]int64{}
	next, stop := iter.Pull(p.x.schedule(p.cfg))
	defer stop()
	if p.cfg.Concurrency > 0 {
		p.places = 0
		p.refill = func() { p.fill(next) }
		for d := range places(p.cfg) {
			p.at(d, func() { p.places++; p.refill() })
		}
	} else {
		p.arrive(next)
	}
	for len(p.events) > 0 {
		ev := heap.Pop(&p.events).(playEvent)
		if d := p.cfg.Duration; d > 0 && ev.at > d {
			p.stopped = true
		}
		if d := p.cfg.Deadline; d > 0 && ev.at > d {
			break
		}
		p.area += float64(p.sending) * float64(ev.at-p.since)
		p.now, p.since = ev.at, ev.at
		ev.do()
	}
	s := &p.shape
	s.Length = p.now
	if p.now > 0 {
		s.MeanRequests = p.area / float64(p.now)
	}
	p.arrivalFigures()
}

// arrive has the open loop's conversations arrive one after the other.
func (p *play) arrive(next func() (entry, bool)) {
	en, ok := next()
	if !ok || p.shape.Turns >= planMost {
		p.shape.Cut = p.shape.Cut || ok
		return
	}
	p.at(en.offset, func() {
		if p.stopped {
			return
		}
		p.arrival()
		p.enter(&actor{entry: en})
		p.arrive(next)
	})
}

func (p *play) arrival() {
	p.arrived++
	p.lastArr = p.now
	p.buckets[int64(p.now/time.Second)]++
	if len(p.shape.FirstArrivals) < 10 {
		p.shape.FirstArrivals = append(p.shape.FirstArrivals, p.now.Seconds())
	}
}

// enter gives a conversation a place, or has it wait, or sheds it.
func (p *play) enter(a *actor) {
	a.ready = p.now
	switch {
	case p.places == 0 && p.cfg.WhenFull == "shed":
		p.shape.Shed++
	case p.places == 0 && a.child:
		p.kids.push(a)
	case p.places == 0:
		p.waiting.push(a)
	default:
		p.take(a)
	}
}

func (p *play) take(a *actor) {
	if p.places > 0 {
		p.places--
	}
	p.active++
	p.shape.Conversations++
	p.shape.MostActive = max(p.shape.MostActive, p.active)
	if !a.child {
		a.next = firstTurn(p.cfg, a.k, len(p.outlines[a.row]))
	}
	p.send(a)
}

// fill gives a closed loop's free places to conversations.
func (p *play) fill(next func() (entry, bool)) {
	for p.places > 0 && !p.stopped {
		a, ok := p.waits()
		if !ok {
			var en entry
			if p.shape.Turns >= planMost {
				p.shape.Cut = true
				return
			}
			if en, ok = next(); !ok {
				return
			}
			a = &actor{entry: en, ready: p.now}
			p.arrival()
		}
		p.take(a)
	}
}

func (p *play) send(a *actor) {
	if p.flights == 0 {
		p.queued.push(a)
		return
	}
	if n := p.cfg.Requests; p.stopped || n > 0 && p.shape.Turns >= n+p.cfg.Warmup {
		p.stopped = true
		p.leave()
		return
	}
	if p.flights > 0 {
		p.flights--
	}
	s := &p.shape
	step := p.outlines[a.row][a.next]
	tokens := int64(step.tokens)
	if s.OutputTokens += tokens; tokens == 0 {
		s.Unlimited++
		tokens = assumedTokens
	}
	s.Turns++
	s.PromptTokens += int64(step.prompt)
	s.LongestWait = max(s.LongestWait, p.now-a.ready)
	p.sending++
	s.MostRequests = max(s.MostRequests, p.sending)
	for _, row := range p.x.children[a.row] {
		if link := p.x.parents[row]; link.turn == a.next {
			kid := &actor{entry: a.entry, child: true}
			kid.row = row
			p.at(p.now+link.delay, func() {
				if !p.stopped {
					p.enter(kid)
				}
			})
		}
	}
	p.at(p.now+assumedTTFT+time.Duration(tokens-1)*assumedITL, func() { p.end(a) })
}

func (p *play) end(a *actor) {
	p.sending--
	if p.flights >= 0 {
		p.flights++
		if b, ok := p.queued.pop(); ok {
			p.send(b)
		}
	}
	a.next++
	if a.next == len(p.outlines[a.row]) || p.stopped {
		p.leave()
		return
	}
	think := p.outlines[a.row][a.next].think
	p.shape.ThinkTime += think
	p.at(p.now+think, func() {
		a.ready = p.now
		p.send(a)
	})
}

// leave gives a conversation's place back.
func (p *play) leave() {
	p.active--
	if p.places < 0 {
		return
	}
	p.places++
	if p.cfg.Concurrency > 0 {
		p.at(p.now, p.refill)
		return
	}
	if a, ok := p.waits(); ok && !p.stopped {
		p.take(a)
	}
}

// waits gives the next conversation that waits for a place.
func (p *play) waits() (*actor, bool) {
	if a, ok := p.kids.pop(); ok {
		return a, true
	}
	return p.waiting.pop()
}

// arrivalFigures sums up the arrivals.
func (p *play) arrivalFigures() {
	s := &p.shape
	seconds := int64(p.lastArr/time.Second) + 1
	if p.lastArr > 0 {
		s.ArrivalRate = float64(p.arrived) / p.lastArr.Seconds()
	}
	var sum, sq float64
	for i := range min(seconds, 10_000_000) {
		n := float64(p.buckets[i])
		s.BusiestSecond = max(s.BusiestSecond, p.buckets[i])
		sum += n
		sq += n * n
	}
	if n := float64(seconds); n > 1 && sum > 0 {
		mean := sum / n
		s.Dispersion = (sq/n - mean*mean) * n / (n - 1) / mean
	}
}
