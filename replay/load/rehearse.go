package load

import (
	"iter"
	"math"
	"time"

	"parley/schemas"
)

// What a rehearsal assumes of the server, since it asks none.
const (
	assumedTTFT   = 500 * time.Millisecond // time to first token
	assumedITL    = 20 * time.Millisecond  // time per output token
	assumedTokens = 200                    // of an answer whose length nothing limits
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
	ToolTime      time.Duration      `json:"tool_ns,omitempty"`

	Length        time.Duration `json:"length_ns"`          // until the last turn has ended
	Ended         string        `json:"ended,omitempty"`    // why, as in RunMeta
	MostActive    int64         `json:"most_conversations"` // trees of conversations at once
	MeanActive    float64       `json:"mean_conversations"` //
	MostRequests  int64         `json:"most_requests"`      // requests at once
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

// step is what a rehearsal needs to know of a turn.
type step struct {
	pause  Pause
	tokens int32 // asked for, 0 without a limit
	prompt int32
}

// Rehearse plays a run's schedule through, at most so many turns of it, against a server that is assumed to take
// half a second to the first token and 20 ms for each further one, however many it serves: it shows the shape of
// the load, not what the server will make of it. tokens gives what a turn asks for, 0 for no limit. Of a larger
// dataset only the first conversations are read; the others are taken to be like them.
func Rehearse(x *Extent, r *Rules, outlines func() iter.Seq2[schemas.Outline, error], tokens func(*schemas.Turn) int64, most int64) (*Shape, error) {
	steps := make([][]step, 0, min(len(x.turns), 1<<16))
	read := int64(0)
	for o, err := range outlines() {
		if err != nil {
			return nil, err
		}
		list := make([]step, len(o.Turns))
		for i := range o.Turns {
			t := &o.Turns[i]
			list[i].pause, _ = r.Pause(t) // the run's rows will say what is wrong with it
			list[i].tokens = int32(min(tokens(t), math.MaxInt32))
			if t.PromptTokens != nil {
				list[i].prompt = int32(min(*t.PromptTokens, math.MaxInt32))
			}
		}
		steps = append(steps, list)
		if read += int64(len(list)); read > most && len(x.trees) == 0 {
			break
		}
	}
	p := &rehearsal{s: NewScheduler(x, r, Left{}), steps: steps, seconds: map[int64]int64{}}
	defer p.s.Close()
	p.shape.Open = r.Open()
	if !r.Bounded() {
		p.shape.Planned = x.Planned(r)
	}
	a := &p.shape.Assumed
	a.TTFT, a.ITL, a.Tokens = assumedTTFT, assumedITL, assumedTokens
	p.play(most)
	return &p.shape, nil
}

type rehearsal struct {
	s       *Scheduler
	steps   [][]step
	shape   Shape
	now     int64
	ends    heap[ending]
	area    float64 // requests times time
	places  float64 // conversations that hold a place times time
	seconds map[int64]int64
	arrived int64
	lastArr int64
}

// ending is the end of a turn under way.
type ending struct {
	task Task
	turn int32
}

func (p *rehearsal) play(most int64) {
	s := &p.shape
	for s.Turns < most {
		at, ok := p.s.Next()
		switch {
		case p.ends.len() > 0 && (!ok || p.ends.next() <= at):
			at, e := p.ends.pop()
			p.end(at, e, OK)
		case ok:
			p.advance(at)
			p.take(p.s.Step(Event{Kind: Came, At: at}))
		default:
			p.close()
			return
		}
	}
	s.Cut = true
	p.close()
}

func (p *rehearsal) advance(at int64) {
	p.area += float64(p.s.InFlight()) * float64(at-p.now)
	p.places += float64(p.s.Active()) * float64(at-p.now)
	p.now = at
}

func (p *rehearsal) end(at int64, e ending, how Outcome) {
	p.advance(max(at, p.now))
	ev := Event{Kind: Ended, At: p.now, Task: e.task, Outcome: how}
	if list := p.of(e.task.Row); int(e.turn)+1 < len(list) {
		ev.Pause = list[e.turn+1].pause
	}
	p.take(p.s.Step(ev))
}

func (p *rehearsal) take(actions []Action) {
	s := &p.shape
	var told []Task
	cut := false
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case Start:
			if p.start(a); a.Tell {
				told = append(told, a.Task)
			}
		case Drop:
			if a.Shed && a.First {
				s.Shed++
				p.arrival(a.Scheduled)
			}
		case Cut:
			cut = true
		case End:
			s.Ended = a.Reason
		}
	}
	s.MostActive, s.MostRequests = max(s.MostActive, p.s.Active()), max(s.MostRequests, p.s.InFlight())
	for _, t := range told {
		p.take(p.s.Step(Event{Kind: Begun, At: p.now, Task: t}))
	}
	if cut {
		for p.ends.len() > 0 {
			_, e := p.ends.pop()
			p.end(p.now, e, Canceled)
		}
	}
}

// of gives the steps of a row: of one that was not read, those of another.
func (p *rehearsal) of(row int32) []step { return p.steps[int(row)%len(p.steps)] }

func (p *rehearsal) start(a *Action) {
	s := &p.shape
	st := &step{}
	if list := p.of(a.Task.Row); int(a.Turn) < len(list) {
		st = &list[a.Turn]
	}
	if a.First {
		s.Conversations++
		if a.Task.Member == 0 {
			p.arrival(a.Scheduled)
		}
	} else {
		s.ThinkTime += a.Pause.Think
		s.ToolTime += max(0, a.Pause.Tool)
	}
	n := int64(st.tokens)
	if s.OutputTokens += n; n == 0 {
		s.Unlimited++
		n = assumedTokens
	}
	s.Turns++
	s.PromptTokens += int64(st.prompt)
	s.LongestWait = max(s.LongestWait, time.Duration(p.now-a.Scheduled))
	p.ends.push(p.now+int64(assumedTTFT)+(n-1)*int64(assumedITL), ending{a.Task, a.Turn})
}

func (p *rehearsal) arrival(at int64) {
	p.arrived++
	p.lastArr = max(p.lastArr, at)
	p.seconds[at/int64(time.Second)]++
	if len(p.shape.FirstArrivals) < 10 {
		p.shape.FirstArrivals = append(p.shape.FirstArrivals, time.Duration(at).Seconds())
	}
}

// close sums up.
func (p *rehearsal) close() {
	s := &p.shape
	s.Length = time.Duration(p.now)
	if p.now > 0 {
		s.MeanRequests, s.MeanActive = p.area/float64(p.now), p.places/float64(p.now)
	}
	seconds := p.lastArr/int64(time.Second) + 1
	if p.lastArr > 0 {
		s.ArrivalRate = float64(p.arrived) / time.Duration(p.lastArr).Seconds()
	}
	var sum, sq float64
	for _, v := range p.seconds { // seconds without an arrival add nothing
		n := float64(v)
		s.BusiestSecond = max(s.BusiestSecond, v)
		sum += n
		sq += n * n
	}
	if n := float64(seconds); n > 1 && sum > 0 {
		mean := sum / n
		s.Dispersion = (sq/n - mean*mean) * n / (n - 1) / mean
	}
}
