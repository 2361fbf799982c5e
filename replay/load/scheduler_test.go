package load

import (
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/schemas"
)

// talk is a conversation of so many turns with a think time before each but the first.
func talk(id string, turns int, think time.Duration) schemas.Outline {
	o := schemas.Outline{ConversationID: id}
	for t := range turns {
		turn := schemas.Turn{MessageIndex: int64(2*t + 1)}
		if ms := float64(think) / 1e6; t > 0 && think > 0 {
			turn.ThinkTimeMS = &ms
		}
		o.Turns = append(o.Turns, turn)
	}
	return o
}

func talks(n, turns int, think time.Duration) []schemas.Outline {
	list := make([]schemas.Outline, n)
	for i := range list {
		list[i] = talk(fmt.Sprintf("c%d", i), turns, think)
	}
	return list
}

// starts has a conversation started by a turn of another one.
func starts(o *schemas.Outline, parent string, turn int64, delay time.Duration, from string) {
	ms := float64(delay) / 1e6
	o.ParentID, o.ParentTurn, o.ParentDelayMS = &parent, &turn, &ms
	if from != "" {
		o.ParentFrom = &from
	}
}

func outlines(list []schemas.Outline) func() iter.Seq2[schemas.Outline, error] {
	return func() iter.Seq2[schemas.Outline, error] {
		return func(yield func(schemas.Outline, error) bool) {
			for _, o := range list {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// closed are the rules of a closed loop with everything else as usual.
func closed(n int) Rules {
	return Rules{Concurrency: []Stage{{Level: float64(n)}}, Think: Scale{Factor: 1}, Tool: Scale{Factor: 1}, Loops: 1, Grace: 30 * time.Second, CountGrace: -1, Shards: 1}
}

func open(rate float64) Rules {
	r := closed(1)
	r.Concurrency, r.Rate, r.Arrivals, r.Burstiness = nil, []Stage{{Level: rate}}, "constant", 1
	return r
}

// turnKey names a turn of a run.
type turnKey struct {
	row  int32
	pass int64
	turn int32
}

// sent is what became of a turn that was started.
type sent struct {
	Action
	at, end int64
	outcome Outcome
}

// player drives a scheduler in virtual time, against a server whose times and outcomes are functions, and holds
// everything that it does against the rules that must always hold.
type player struct {
	t       testing.TB
	s       *Scheduler
	x       *Extent
	list    []schemas.Outline
	rules   *Rules
	takes   func(k turnKey) time.Duration // how long a turn takes; nil is a second
	outcome func(k turnKey) Outcome
	events  []Event // further ones, in order of their moments

	now   int64
	sent  map[turnKey]*sent
	drops map[turnKey]string
	order []turnKey
	ends  heap[ending]
	most  int64
	cut   int
	ended string
}

func play(t testing.TB, list []schemas.Outline, r Rules, change func(p *player)) *player {
	t.Helper()
	x, err := Survey("memory", outlines(list), &r)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, x: x, list: list, rules: &r, sent: map[turnKey]*sent{}, drops: map[turnKey]string{}}
	p.s = NewScheduler(x, &r, Left{})
	if change != nil {
		change(p)
	}
	p.run()
	return p
}

func (p *player) run() {
	defer p.s.Close()
	for steps := 0; !p.s.Ended(); steps++ {
		if steps > 3_000_000 {
			p.t.Fatalf("no end at %v", time.Duration(p.now))
		}
		at, ok := p.s.Next()
		next := func(other int64) bool { return !ok || other <= at }
		switch {
		case len(p.events) > 0 && next(p.events[0].At) && (p.ends.len() == 0 || p.events[0].At <= p.ends.next()):
			e := p.events[0]
			p.events = p.events[1:]
			p.now = e.At
			p.take(p.s.Step(e))
		case p.ends.len() > 0 && next(p.ends.next()):
			p.end(p.ends.pop())
		case ok:
			p.now = max(p.now, at)
			p.take(p.s.Step(Event{Kind: Came, At: p.now}))
		default:
			p.t.Fatalf("at %v nothing is due, nothing runs, and yet the load does not end", time.Duration(p.now))
		}
	}
	if p.ends.len() > 0 {
		p.t.Fatalf("%d turns are under way at the end", p.ends.len())
	}
	// Every planned turn has one outcome.
	outcomes := len(p.drops)
	for k := range p.sent {
		if _, ok := p.drops[k]; !ok {
			outcomes++
		}
	}
	if int64(outcomes) != p.s.Planned() {
		p.t.Errorf("%d turns have an outcome, %d were planned", outcomes, p.s.Planned())
	}
}

func (p *player) key(t Task, turn int32) turnKey { return turnKey{t.Row, t.Pass, turn} }

func (p *player) take(actions []Action) {
	var told []Task
	cut := false
	for i := range actions {
		a := actions[i]
		switch a.Kind {
		case Start:
			k := p.key(a.Task, a.Turn)
			if p.sent[k] != nil || p.drops[k] != "" {
				p.t.Fatalf("%+v has an outcome already", k)
			}
			if a.Turn > 0 && !a.First && p.sent[p.key(a.Task, a.Turn-1)] == nil {
				p.t.Fatalf("%+v before the turn before it", k)
			}
			if a.Scheduled > p.now || a.Ready > p.now || a.Ready < a.Scheduled {
				p.t.Fatalf("%+v: scheduled %d, ready %d, started %d", k, a.Scheduled, a.Ready, p.now)
			}
			d := time.Second
			if p.takes != nil {
				d = p.takes(k)
			}
			p.sent[k] = &sent{Action: a, at: p.now, end: None}
			p.order = append(p.order, k)
			p.ends.push(p.now+int64(d), ending{a.Task, a.Turn})
			if a.Tell {
				told = append(told, a.Task)
			}
		case Drop:
			for turn := a.Turn; int(turn) < len(p.list[a.Task.Row].Turns); turn++ {
				k := p.key(a.Task, turn)
				if s := p.sent[k]; p.drops[k] != "" || s != nil && s.outcome != Bad {
					p.t.Fatalf("%+v has an outcome already", k)
				}
				p.drops[k] = a.Reason
			}
		case Cut:
			cut = true
			p.cut++
		case End:
			p.ended = a.Reason
		}
	}
	flying := int64(p.ends.len())
	p.most = max(p.most, flying)
	if n := p.rules.MaxInFlight; n > 0 && flying > p.rules.Share(int64(n)) {
		p.t.Fatalf("%d requests at once, %d are allowed", flying, n)
	}
	if flying != p.s.InFlight() {
		p.t.Fatalf("%d requests at once, the scheduler counts %d", flying, p.s.InFlight())
	}
	for _, t := range told {
		p.take(p.s.Step(Event{Kind: Begun, At: p.now, Task: t}))
	}
	if cut {
		for p.ends.len() > 0 {
			_, e := p.ends.pop()
			p.over(e, Canceled)
		}
	}
}

func (p *player) end(at int64, e ending) {
	p.now = at
	o := OK
	if p.outcome != nil {
		o = p.outcome(p.key(e.task, e.turn))
	}
	p.over(e, o)
}

func (p *player) over(e ending, o Outcome) {
	s := p.sent[p.key(e.task, e.turn)]
	s.end, s.outcome = p.now, o
	ev := Event{Kind: Ended, At: p.now, Task: e.task, Outcome: o}
	if turns := p.list[e.task.Row].Turns; int(e.turn)+1 < len(turns) {
		ev.Pause, _ = p.rules.Pause(&turns[e.turn+1])
	}
	p.take(p.s.Step(ev))
}

// startedAt gives the moments of starts in milliseconds, by conversation and turn.
func (p *player) startedAt() map[string]int64 {
	out := map[string]int64{}
	for k, s := range p.sent {
		out[fmt.Sprintf("%s.%d", p.list[k.row].ConversationID, k.turn)] = s.at / 1e6
	}
	return out
}

func (p *player) count() map[string]int {
	out := map[string]int{}
	for k, s := range p.sent {
		if p.drops[k] == "" {
			out[[]string{"ok", "failed", "silent", "canceled", "bad"}[s.outcome]]++
		}
	}
	for _, why := range p.drops {
		out[why]++
	}
	return out
}

func (p *player) check(want map[string]int, ended string, at time.Duration) {
	p.t.Helper()
	if got := p.count(); !maps.Equal(got, want) {
		p.t.Errorf("outcomes: %v, want %v", got, want)
	}
	if p.ended != ended || time.Duration(p.now) != at {
		p.t.Errorf("ended as %s at %v, want %s at %v", p.ended, time.Duration(p.now), ended, at)
	}
}

func TestScheduler(t *testing.T) {
	with := func(r Rules, change func(r *Rules)) Rules { change(&r); return r }
	const s = time.Second
	tests := []struct {
		name  string
		rules Rules
		list  []schemas.Outline
		want  map[string]int
		ended string
		at    time.Duration
	}{
		{"one at a time", closed(1), talks(4, 3, 0), map[string]int{"ok": 12}, EndComplete, 12 * s},
		{"a place is kept through think time", closed(2), talks(4, 2, 3*s), map[string]int{"ok": 8}, EndComplete, 10 * s},
		{"requests", with(closed(3), func(r *Rules) { r.Requests, r.Loops = 10, 0 }), talks(9, 4, 0), map[string]int{"ok": 10, "budget": 2}, EndRequests, 4 * s},
		{"warm-up comes on top", with(closed(2), func(r *Rules) { r.Requests, r.Loops, r.Warmup = 10, 0, 4 }), talks(9, 2, 0), map[string]int{"ok": 14, "budget": 2}, EndRequests, 7 * s},
		{"warm-up by time", with(closed(2), func(r *Rules) { r.Requests, r.Loops, r.WarmupTime = 10, 0, 3*s }), talks(20, 1, 0), map[string]int{"ok": 16}, EndRequests, 8 * s},
		{"requests and a minimum of time", with(closed(3), func(r *Rules) { r.Requests, r.Loops, r.MinDuration = 3, 0, 7*s+s/2 }), talks(9, 1, 0), map[string]int{"ok": 24}, EndRequests, 8 * s},
		{"the minimum has passed when the requests are used up", with(closed(1), func(r *Rules) { r.Requests, r.Loops, r.MinDuration = 5, 0, 2*s }), talks(9, 1, 0), map[string]int{"ok": 5}, EndRequests, 5 * s},
		{"duration", with(closed(2), func(r *Rules) { r.Duration, r.Loops = 4*s+s/2, 0 }), talks(3, 2, 0), map[string]int{"ok": 10, "budget": 2}, EndDuration, 5 * s},
		{"a duration's grace", with(closed(2), func(r *Rules) { r.Duration, r.Loops, r.Grace = 4*s+s/2, 0, s/4 }), talks(3, 2, 0), map[string]int{"ok": 8, "canceled": 2, "budget": 2}, EndDuration, 4*s + 3*s/4},
		{"a count's grace is its own", with(closed(2), func(r *Rules) { r.Requests, r.Loops, r.Grace = 10, 0, s/4 }), talks(5, 2, 0), map[string]int{"ok": 10, "budget": 2}, EndRequests, 5 * s},
		{"a count's grace", with(closed(2), func(r *Rules) { r.Requests, r.Loops, r.CountGrace = 10, 0, s/4 }), talks(5, 2, 0), map[string]int{"ok": 8, "canceled": 2, "budget": 2}, EndRequests, 4*s + s/4},
		{"deadline", with(closed(2), func(r *Rules) { r.Deadline = 3*s + s/2 }), talks(10, 3, 0), map[string]int{"ok": 6, "canceled": 2, "deadline": 22}, EndDeadline, 3*s + s/2},
		{"places by stages", with(closed(0), func(r *Rules) {
			r.Concurrency = []Stage{{1, 10 * s}, {3, 10 * s}, {1, 10 * s}}
			r.Duration, r.Loops = 30*s, 0
		}), talks(7, 1, 0), map[string]int{"ok": 50}, EndDuration, 30 * s},
		{"places by stages, the first filled by a ramp", with(closed(0), func(r *Rules) {
			r.Concurrency, r.Ramp = []Stage{{4, 10 * s}, {1, 10 * s}}, 8*s
			r.Duration, r.Loops = 20*s, 0
		}), talks(7, 1, 0), map[string]int{"ok": 10 + 8 + 6 + 4 + 10}, EndDuration, 20 * s},
		{"rates by stages", with(open(1), func(r *Rules) {
			r.Rate = []Stage{{1, 10 * s}, {4, 10 * s}, {0.5, 10 * s}}
			r.Duration, r.Loops = 30*s, 0
		}), talks(7, 1, 0), map[string]int{"ok": 55, "budget": 1}, EndDuration, 30 * s},
		{"more arrivals than one step takes", with(open(1), func(r *Rules) { r.Rate[0].Level = 1e6 }), talks(3000, 1, 0), map[string]int{"ok": 3000}, EndComplete, 1002999000},
		{"all at once", with(open(1), func(r *Rules) { r.Rate[0].Level, r.MaxInFlight = inf, 10 }), talks(1000, 1, 0), map[string]int{"ok": 1000}, EndComplete, 100 * s},
		{"shed", with(open(1), func(r *Rules) { r.MaxConversations, r.Shed = 2, true }), talks(10, 4, 0), map[string]int{"ok": 16, "shed": 24}, EndComplete, 10 * s},
		{"a large rest", with(closed(1), func(r *Rules) { r.Deadline = s / 2 }), talks(3000, 2, 0), map[string]int{"canceled": 1, "deadline": 5999}, EndDeadline, s / 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := play(t, tt.list, tt.rules, nil)
			p.check(tt.want, tt.ended, tt.at)
		})
	}
}

var inf = func() float64 { z := 0.0; return 1 / z }()

// TestBudgetAfterResume checks that a resumed run's error budget goes on from what the first part had used of it.
func TestBudgetAfterResume(t *testing.T) {
	for _, tt := range []struct {
		budget Budget
		before []Outcome // of turns of the first part, one after the other
		want   int       // turns that fail in the second
	}{
		{Budget{Count: 10}, slices.Repeat([]Outcome{Failed}, 7), 3},
		{Budget{Count: 10}, nil, 10},
		{Budget{Share: 0.1}, append(slices.Repeat([]Outcome{OK, Canceled}, 95), slices.Repeat([]Outcome{Silent}, 6)...), 5},
		{Budget{Share: 0.1}, append(slices.Repeat([]Outcome{Failed}, 50), slices.Repeat([]Outcome{OK}, 100)...), 11},
	} {
		r := closed(1)
		r.MaxErrors = tt.budget
		p := play(t, talks(200, 1, 0), r, func(p *player) {
			p.outcome = func(turnKey) Outcome { return Failed }
			var left Left
			for _, o := range tt.before {
				left.Judge(o)
			}
			p.s = NewScheduler(p.x, &r, left)
		})
		if n := len(p.sent); n != tt.want || p.ended != EndErrors {
			t.Errorf("%+v: %d turns were sent, want %d; ended %s", tt.budget, n, tt.want, p.ended)
		}
	}
}

// TestStagesOnRows checks which stage a turn says it started in.
func TestStagesOnRows(t *testing.T) {
	r := closed(0)
	r.Concurrency, r.Duration, r.Loops = []Stage{{1, 10 * time.Second}, {3, 10 * time.Second}, {2, 10 * time.Second}}, 30*time.Second, 0
	p := play(t, talks(5, 1, 0), r, nil)
	count := map[int32]int{}
	for _, s := range p.sent {
		count[s.Stage]++
		if want := int32(s.at / 10e9); s.Stage != want {
			t.Errorf("started at %v in stage %d", time.Duration(s.at), s.Stage)
		}
	}
	if want := map[int32]int{0: 10, 1: 30, 2: 20}; !maps.Equal(count, want) {
		t.Errorf("turns by stage: %v, want %v", count, want)
	}
	if p := play(t, talks(5, 1, 0), closed(2), nil); p.sent[turnKey{0, 0, 0}].Stage != -1 {
		t.Error("a load without stages has one")
	}
}

// TestBrakes has servers that fail in several ways.
func TestBrakes(t *testing.T) {
	const s = time.Second
	dead := func(p *player) {
		p.takes = func(turnKey) time.Duration { return time.Millisecond }
		p.outcome = func(turnKey) Outcome { return Failed }
	}
	many := talks(100_000, 2, 0)
	for name, rules := range map[string]Rules{"one": closed(1), "many": closed(64), "open": open(100)} {
		p := play(t, many, rules, dead)
		n := p.count()
		if p.ended != EndErrors || n["failed"] < brakeTurns || n["failed"] > 1500 || p.now < int64(10*s) || p.now > int64(25*s) {
			t.Errorf("%s: a dead server: %s at %v, %v", name, p.ended, time.Duration(p.now), n)
		}
		if n["failed"]+n[DropFailed]+n[DropErrors] != 200_000 {
			t.Errorf("%s: %v", name, n)
		}
	}
	// Back-off: 0.1 s, 0.2 s, ... after twenty that failed at once, as long as each round fails.
	r := closed(1)
	r.MaxErrors.Off = true
	p := play(t, talks(40, 1, 0), r, dead)
	var at []int64
	for _, k := range p.order {
		at = append(at, p.sent[k].at/1e6)
		if k.row >= 20 && p.sent[k].Ready != p.sent[k].at {
			t.Errorf("%v: ready at %d, started at %d: the client is blamed for its own back-off", k, p.sent[k].Ready, p.sent[k].at)
		}
	}
	want := []int64{19, 120, 321, 722, 1523, 3124, 6325, 12726, 22727, 32728}
	if got := at[19:29]; !slices.Equal(got, want) {
		t.Errorf("starts at %v ms, want %v", got, want)
	}
	// A turn that succeeds ends it.
	p = play(t, talks(60, 1, 0), r, func(p *player) {
		p.takes = func(turnKey) time.Duration { return time.Millisecond }
		p.outcome = func(k turnKey) Outcome {
			if k.row < 25 {
				return Failed
			}
			return OK
		}
	})
	if got := p.sent[turnKey{row: 59}].at - p.sent[turnKey{row: 25}].at; got != 34e6 {
		t.Errorf("34 turns after the first that succeeded took %v", time.Duration(got))
	}
	// Failures that take their time, and those of silence, are no reason to back off.
	for _, o := range []Outcome{Failed, Silent} {
		p = play(t, talks(40, 1, 0), r, func(p *player) {
			p.takes = func(turnKey) time.Duration { return 2 * s }
			p.outcome = func(turnKey) Outcome { return o }
		})
		if p.now != int64(80*s) {
			t.Errorf("40 turns of 2 s took %v", time.Duration(p.now))
		}
	}
	silent := play(t, talks(200, 1, 0), closed(1), func(p *player) { p.outcome = func(turnKey) Outcome { return Silent } })
	silent.check(map[string]int{"silent": 200}, EndComplete, 200*s)
	slow := play(t, talks(200, 1, 0), closed(1), func(p *player) { p.outcome = func(turnKey) Outcome { return Failed } })
	slow.check(map[string]int{"failed": 20, DropErrors: 180}, EndErrors, 20*s)

	half := func(p *player) {
		p.outcome = func(k turnKey) Outcome {
			if k.row%2 == 0 {
				return Failed
			}
			return OK
		}
	}
	play(t, talks(300, 1, 0), closed(1), half).check(map[string]int{"ok": 150, "failed": 150}, EndComplete, 300*s)
	r = closed(1)
	r.MaxErrors.Count = 10
	play(t, talks(300, 1, 0), r, half).check(map[string]int{"ok": 9, "failed": 10, DropErrors: 281}, EndErrors, 19*s)
	r.MaxErrors = Budget{Share: 0.1}
	play(t, talks(300, 1, 0), r, half).check(map[string]int{"ok": 10, "failed": 11, DropErrors: 279}, EndErrors, 21*s)
	r.MaxErrors = Budget{Share: 0.5}
	play(t, talks(300, 1, 0), r, half).check(map[string]int{"ok": 150, "failed": 150}, EndComplete, 300*s)
}

func TestStop(t *testing.T) {
	const s = time.Second
	stop := func(at time.Duration, reason string) func(p *player) {
		return func(p *player) { p.events = []Event{{Kind: Stop, At: int64(at), Reason: reason}} }
	}
	play(t, talks(10, 3, 0), closed(2), stop(3*s/2, EndInterrupted)).check(map[string]int{"ok": 4, "interrupted": 26}, EndInterrupted, 2*s)
	play(t, talks(10, 3, time.Hour), closed(2), stop(3*s/2, EndError)).check(map[string]int{"ok": 2, "run_failed": 28}, EndError, 3*s/2)
	p := play(t, talks(10, 3, 0), open(1), stop(9*s/2, EndWatchdog))
	p.check(map[string]int{"ok": 12, "watchdog": 18}, EndWatchdog, 5*s)

	// What thinks when the run stops has held its place up to there.
	r := closed(5)
	r.Duration, r.Loops = 10*s, 0
	active := int64(0)
	p = play(t, talks(5, 2, time.Minute), r, func(p *player) {
		p.takes = func(k turnKey) time.Duration { return time.Duration(k.row+1) * s }
		p.events = []Event{{Kind: Go, At: int64(9 * s)}}
	})
	if active = p.s.Active(); active != 5 || p.s.InFlight() != 0 {
		t.Errorf("%d conversations hold a place at the end, %d requests run", active, p.s.InFlight())
	}

	// While results cannot be written nothing starts.
	p = play(t, talks(4, 2, 0), closed(2), func(p *player) {
		p.events = []Event{{Kind: Hold, At: int64(s / 2)}, {Kind: Go, At: int64(5 * s)}}
	})
	p.check(map[string]int{"ok": 8}, EndComplete, 8*s)
	if k := (turnKey{0, 0, 1}); p.sent[k].at != int64(5*s) || p.sent[k].Ready != int64(s) {
		t.Errorf("held back: %+v", p.sent[k])
	}
}

// TestGate checks that an entry starts when it is told to be ready, and is late then.
func TestGate(t *testing.T) {
	p := play(t, talks(4, 1, 0), open(1), func(p *player) {
		p.s.Gate()
		p.events = []Event{{Kind: Prepared, N: 2}, {Kind: Prepared, N: 4, At: 5e9}}
	})
	want := map[string]int64{"c0.0": 0, "c1.0": 1000, "c2.0": 5000, "c3.0": 5000}
	if got := p.startedAt(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if at := p.sent[turnKey{2, 0, 0}].Scheduled; at != 2e9 {
		t.Errorf("scheduled at %d", at)
	}
}

// TestBadConversations checks that what cannot be sent does not count as sent.
func TestBadConversations(t *testing.T) {
	r := closed(1)
	r.Requests = 5
	r.Loops = 0
	p := play(t, talks(4, 2, 0), r, func(p *player) {
		p.takes = func(k turnKey) time.Duration {
			if k.row == 1 {
				return 0
			}
			return time.Second
		}
		p.outcome = func(k turnKey) Outcome {
			if k.row == 1 {
				return Bad
			}
			return OK
		}
	})
	p.check(map[string]int{"ok": 5, "bad_conversation": 2, "budget": 1}, EndRequests, 5*time.Second)
}

// TestStagger checks that the first conversations begin at mixed ages, that what they had started is over, and
// that their first turns are not measured.
func TestStagger(t *testing.T) {
	list := talks(60, 10, 0)
	for i := 0; i < 30; i += 2 { // every second of the first has a child that it waits for
		child := talk(fmt.Sprintf("kid%d", i), 3, 0)
		starts(&child, fmt.Sprintf("c%d", i), 4, 0, "end")
		list[i].Turns[6].Joins = []string{child.ConversationID}
		list = append(list, child)
	}
	r := closed(30)
	r.Stagger, r.Seed = true, 5
	p := play(t, list, r, nil)
	if n := p.count(); n["ok"] != len(p.sent) || len(p.drops) > 0 {
		t.Fatalf("%v", n)
	}
	ages := map[int32]int{}
	for k, s := range p.sent {
		if !s.First || k.row >= 60 {
			continue
		}
		ages[k.turn]++
		if s.Warmup != (k.turn > 0) {
			t.Errorf("row %d begins at turn %d, warm-up %t", k.row, k.turn, s.Warmup)
		}
		if kid := p.sent[turnKey{row: 60 + k.row/2}]; k.row < 30 && k.row%2 == 0 && (kid == nil) != (k.turn > 4) {
			t.Errorf("row %d begins at turn %d; its child ran: %t", k.row, k.turn, kid != nil)
		}
	}
	if len(ages) < 7 {
		t.Errorf("conversations begin at only these turns: %v", ages)
	}
}

// TestShards checks that the shards together send exactly what the whole run does, with trees and stages: the
// same turns, and in an open loop at the same moments.
func TestShards(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := forest(rt, rapid.IntRange(4, 12).Draw(rt, "trees"))
		r := open(1)
		r.Rate = []Stage{{0.5, 4 * time.Second}, {3, 0}}
		r.Arrivals = rapid.SampledFrom([]string{"poisson", "constant", "gamma"}).Draw(rt, "arrivals")
		r.Seed = rapid.Uint64().Draw(rt, "seed")
		r.Loops = rapid.IntRange(1, 3).Draw(rt, "loops")
		if rapid.Bool().Draw(rt, "closed") {
			r.Rate, r.Concurrency = nil, []Stage{{4, 5 * time.Second}, {8, 0}}
			r.Stagger = rapid.Bool().Draw(rt, "stagger")
		}
		whole := play(t, list, r, nil)
		parts := map[turnKey]*sent{}
		r.Shards = rapid.IntRange(2, 4).Draw(rt, "shards")
		for r.Shard = range r.Shards {
			maps.Copy(parts, play(t, list, r, nil).sent)
		}
		if len(parts) != len(whole.sent) {
			rt.Fatalf("the shards send %d turns, the whole %d", len(parts), len(whole.sent))
		}
		for k, s := range whole.sent {
			if o := parts[k]; o == nil || r.Open() && (o.at != s.at || o.Scheduled != s.Scheduled) || o.Warmup != s.Warmup {
				rt.Fatalf("%+v: %+v in the whole, %+v in a shard", k, s, o)
			}
		}
	})
}

// forest draws trees of conversations with joins.
func forest(rt *rapid.T, trees int) []schemas.Outline {
	var list []schemas.Outline
	for range trees {
		list = append(list, drawTree(rt, fmt.Sprintf("t%d", len(list)))...)
	}
	return list
}

// drawTree draws one tree: each conversation but the root is started by a turn of an earlier one, and turns join
// conversations that surely can end before them.
func drawTree(rt *rapid.T, name string) []schemas.Outline {
	ms := func(label string) *float64 {
		if n := rapid.IntRange(-1, 4).Draw(rt, label); n >= 0 {
			v := float64(n) * 250
			return &v
		}
		return nil
	}
	n := rapid.IntRange(1, 6).Draw(rt, "conversations")
	var list []schemas.Outline
	for i := range n {
		o := talk(fmt.Sprintf("%s-%d", name, i), rapid.IntRange(1, 5).Draw(rt, "turns"), 0)
		for t := range o.Turns {
			o.Turns[t].ThinkTimeMS, o.Turns[t].ToolTimeMS = ms("think"), ms("tool")
		}
		if i > 0 {
			p := &list[rapid.IntRange(0, i-1).Draw(rt, "parent")]
			starts(&o, p.ConversationID, int64(rapid.IntRange(0, len(p.Turns)-1).Draw(rt, "turn")), time.Duration(rapid.IntRange(0, 3).Draw(rt, "delay"))*300*time.Millisecond,
				rapid.SampledFrom([]string{"", "start", "end"}).Draw(rt, "from"))
		}
		list = append(list, o)
	}
	// Joins are tried one by one; what would wait for itself is left out.
	for range rapid.IntRange(0, 6).Draw(rt, "joins") {
		i, j := rapid.IntRange(0, n-1).Draw(rt, "who"), rapid.IntRange(0, n-1).Draw(rt, "whom")
		turn := &list[i].Turns[rapid.IntRange(0, len(list[i].Turns)-1).Draw(rt, "when")]
		before := turn.Joins
		if i == j || slices.Contains(before, list[j].ConversationID) {
			continue
		}
		turn.Joins = append(slices.Clone(before), list[j].ConversationID)
		r := closed(1)
		if _, err := Survey("memory", outlines(list), &r); err != nil {
			turn.Joins = before
		}
	}
	return list
}

// reference computes when each turn of trees starts if nothing limits them: from what a turn waits for, by
// recursion over the definition.
type reference struct {
	list  []schemas.Outline
	rules *Rules
	takes func(k turnKey) time.Duration
	row   map[string]int32
	known map[turnKey]int64
}

func (r *reference) end(row int32, turn int) int64 {
	k := turnKey{row: row, turn: int32(turn)}
	return r.start(row, turn) + int64(r.takes(k))
}

func (r *reference) start(row int32, turn int) int64 {
	k := turnKey{row: row, turn: int32(turn)}
	if at, ok := r.known[k]; ok {
		return at
	}
	o := &r.list[row]
	joins := None
	for _, id := range o.Turns[turn].Joins {
		other := r.row[id]
		joins = max(joins, r.end(other, len(r.list[other].Turns)-1))
	}
	pause, _ := r.rules.Pause(&o.Turns[turn])
	at := int64(0)
	switch {
	case turn > 0:
		at = max(r.end(row, turn-1), joins) + pause.total()
	case o.ParentID != nil:
		parent, t := r.row[*o.ParentID], int(*o.ParentTurn)
		from := r.start(parent, t)
		if o.ParentFrom != nil && *o.ParentFrom == "end" {
			from = r.end(parent, t)
		}
		at = from + int64(r.rules.Tool.of(time.Duration(*o.ParentDelayMS*1e6)))
		if joins != None {
			at = max(at, joins+pause.total())
		}
	}
	r.known[k] = at
	return at
}

// TestTreesEqualReference plays 10,000 random trees.
func TestTreesEqualReference(t *testing.T) {
	trees := 0
	joined := 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 100 {
			trees++
			list := drawTree(rt, "t")
			r := closed(1)
			r.Tool.Factor = 0.5
			takes := func(k turnKey) time.Duration {
				return time.Duration(1+(7*int(k.row)+3*int(k.turn))%5) * 200 * time.Millisecond
			}
			p := play(t, list, r, func(p *player) { p.takes = takes })
			ref := &reference{list: list, rules: &r, takes: takes, row: map[string]int32{}, known: map[turnKey]int64{}}
			turns := 0
			for i := range list {
				ref.row[list[i].ConversationID] = int32(i)
				turns += len(list[i].Turns)
			}
			if len(p.sent) != turns {
				rt.Fatalf("%d of %d turns were sent: %v", len(p.sent), turns, p.count())
			}
			for k, s := range p.sent {
				if want := ref.start(k.row, int(k.turn)); s.at != want || s.Scheduled != want {
					rt.Fatalf("%+v started at %v (scheduled %v), the reference at %v\n%+v", k, time.Duration(s.at), time.Duration(s.Scheduled), time.Duration(want), list)
				}
				if turn := &list[k.row].Turns[k.turn]; len(turn.Joins) > 0 && k.turn > 0 {
					joined++
					last := None
					for _, id := range turn.Joins {
						last = max(last, ref.end(ref.row[id], len(list[ref.row[id]].Turns)-1))
					}
					own := ref.end(k.row, int(k.turn)-1)
					if s.WaitJoin != max(0, last-own) || (s.Joined >= 0) != (last > own) {
						rt.Fatalf("%+v waited %d for joins, joined %d; want %d", k, s.WaitJoin, s.Joined, max(0, last-own))
					}
				}
			}
		}
	})
	if most := map[bool]int{false: 10_000, true: 2_000}[testing.Short()]; trees < most || joined < most/10 {
		t.Errorf("only %d trees with %d joins were played", trees, joined)
	}
}

// TestTreesUnderLimits draws loads with all limits, failures and stops: places are never exceeded, queues keep
// their order, and each planned turn has one outcome (the player checks that).
func TestTreesUnderLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := forest(rt, rapid.IntRange(1, 15).Draw(rt, "trees"))
		r := closed(rapid.IntRange(1, 6).Draw(rt, "places"))
		if rapid.Bool().Draw(rt, "open") {
			r = open(rapid.SampledFrom([]float64{0.3, 2, 50, inf}).Draw(rt, "rate"))
			r.MaxConversations = rapid.IntRange(0, 4).Draw(rt, "max")
			r.Shed = r.MaxConversations > 0 && rapid.Bool().Draw(rt, "shed")
		}
		r.MaxInFlight = rapid.IntRange(0, 4).Draw(rt, "in flight")
		r.KeepGoing = rapid.Bool().Draw(rt, "keep going")
		r.MaxErrors = Budget{Count: rapid.SampledFrom([]int64{0, 0, 5}).Draw(rt, "errors")}
		r.Loops = rapid.IntRange(1, 2).Draw(rt, "loops")
		switch rapid.IntRange(0, 3).Draw(rt, "bound") {
		case 1:
			r.Requests = int64(rapid.IntRange(1, 40).Draw(rt, "requests"))
			r.Loops = rapid.SampledFrom([]int{0, 2}).Draw(rt, "loops of a count")
			if r.Open() && r.Rate[0].Level == inf && r.MaxConversations == 0 {
				r.Loops = 1 // else all of an endless schedule arrives at once
			}
		case 2:
			r.Duration = time.Duration(rapid.IntRange(1, 20).Draw(rt, "duration")) * time.Second
		case 3:
			r.Deadline = time.Duration(rapid.IntRange(1, 20).Draw(rt, "deadline")) * time.Second
		}
		if r.Open() && r.Rate[0].Level == inf {
			r.Loops = 1
		}
		salt := rapid.IntRange(0, 100).Draw(rt, "salt")
		fails := rapid.SampledFrom([]int{3, 10, 1000}).Draw(rt, "fails")
		hash := func(k turnKey) int { return (31*int(k.row) + 17*int(k.turn) + 7*int(k.pass) + salt) }
		p := play(t, list, r, func(p *player) {
			p.takes = func(k turnKey) time.Duration { return time.Duration(hash(k)%7) * 300 * time.Millisecond }
			p.outcome = func(k turnKey) Outcome {
				switch h := hash(k) % fails; {
				case h == 1:
					return Failed
				case h == 2 && k.turn == 0:
					return Bad
				}
				return OK
			}
		})
		// Turns start in the order in which they were ready, unless the back-off made them wait together.
		if r.MaxInFlight > 0 {
			last := int64(0)
			for _, k := range p.order {
				s := p.sent[k]
				if at := s.Ready - s.InFlight; s.InFlight > 0 && at < last {
					rt.Fatalf("%+v was ready at %d and started after one ready at %d", k, at, last)
				} else if s.InFlight > 0 {
					last = at
				}
			}
		}
		if n := p.s.Active(); p.s.stopped == EndComplete && n != 0 {
			rt.Fatalf("%d conversations hold places at the end", n)
		}
		if r.Requests > 0 && p.s.main > r.Requests {
			rt.Fatalf("%d turns were sent", p.s.main)
		}
		for k, why := range p.drops {
			if why == DropJoin && r.KeepGoing {
				rt.Fatalf("%+v was dropped for a join although the run keeps going", k)
			}
		}
		if r.KeepGoing && !r.Bounded() && r.Deadline == 0 && !r.Shed && p.s.stopped == EndComplete {
			for k, why := range p.drops {
				if why == DropFailed || why == DropErrors {
					rt.Fatalf("%+v: %s", k, why)
				}
			}
		}
	})
}

// TestResume stops runs where a killed process would have left them, and plays on from what had ended: each turn
// has one outcome in the end, none is sent twice, and the time under load goes on.
func TestResume(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := forest(rt, rapid.IntRange(1, 12).Draw(rt, "trees"))
		r := closed(rapid.IntRange(1, 5).Draw(rt, "places"))
		if rapid.Bool().Draw(rt, "open") {
			r = open(1.5)
		}
		r.KeepGoing = rapid.Bool().Draw(rt, "keep going")
		r.Loops = rapid.IntRange(1, 2).Draw(rt, "loops")
		if rapid.Bool().Draw(rt, "count") {
			r.Requests = int64(rapid.IntRange(1, 40).Draw(rt, "requests"))
		}
		fails := rapid.SampledFrom([]int{7, 1000}).Draw(rt, "fails")
		outcome := func(p *player) {
			p.outcome = func(k turnKey) Outcome {
				if (int(k.row)+3*int(k.turn))%fails == 5 {
					return Failed
				}
				return OK
			}
		}
		at := int64(rapid.IntRange(1, 20).Draw(rt, "killed at")) * 500e6
		first := play(t, list, r, func(p *player) {
			outcome(p)
			p.events = []Event{{Kind: Stop, At: at, Reason: EndInterrupted}}
		})
		left := Left{Done: Done{}, Time: at}
		for k, s := range first.sent {
			if s.end == None || s.end > at {
				continue
			}
			left.Rows++
			left.Sent++
			left.Main++
			key := Key{k.row, k.pass}
			p := left.Done[key]
			if k.turn+1 > p.Turns {
				p.Turns, p.Sent, p.Failed = k.turn+1, k.turn+1, s.outcome == Failed
			}
			left.Done[key] = p
		}
		if int64(len(first.sent)) == left.Sent && len(first.drops) == 0 {
			return // there is nothing to resume
		}
		second := play(t, list, r, func(p *player) {
			outcome(p)
			p.s.Close()
			p.s = NewScheduler(p.x, &r, left)
			p.now = at
			for k, s := range first.sent { // so that the player knows what came before
				if s.end != None && s.end <= at {
					p.sent[k] = s
				}
			}
		})
		for k := range second.drops {
			if s := first.sent[k]; s != nil && s.end != None && s.end <= at {
				rt.Fatalf("%+v was sent and is dropped", k)
			}
		}
		if !r.Bounded() {
			turns := 0
			for i := range list {
				turns += len(list[i].Turns)
			}
			if got := len(second.sent) + len(second.drops); got != turns*r.Loops {
				rt.Fatalf("%d turns have an outcome, there are %d", got, turns*r.Loops)
			}
		} else if n := second.s.main; second.ended == EndRequests && n != max(r.Requests, left.Main) {
			rt.Fatalf("%d turns were sent, %d asked for", n, r.Requests)
		}
		for k, s := range second.sent {
			if s.at >= at && s.Scheduled < at && s != first.sent[k] {
				rt.Fatalf("%+v is scheduled at %d, before the run went on at %d", k, s.Scheduled, at)
			}
		}
	})
}

func TestSurveyRefuses(t *testing.T) {
	survey := func(list []schemas.Outline, r Rules) (*Extent, error) { return Survey("memory", outlines(list), &r) }
	list := talks(3, 2, 0)
	list[1].Turns = nil
	x, err := survey(list, closed(1))
	if err != nil || x.Empty != 1 || !slices.Equal(x.roots, []int32{0, 2}) {
		t.Errorf("%+v, %v", x, err)
	}
	bad := -1.0
	list[0].StartOffsetMS = &bad
	recorded := open(1)
	recorded.Rate, recorded.Arrivals = nil, "recorded"
	for _, tt := range []struct {
		name   string
		rules  Rules
		change func() []schemas.Outline
		want   string
	}{
		{"a negative offset", recorded, func() []schemas.Outline { return list }, `"c0"`},
		{"no offset", recorded, func() []schemas.Outline { return talks(2, 1, 0) }, "no start_offset_ms"},
		{"nothing", closed(1), func() []schemas.Outline { return nil }, "no conversation"},
		{"a circle of parents", closed(1), func() []schemas.Outline {
			list := talks(3, 2, 0)
			starts(&list[1], "c2", 0, 0, "")
			starts(&list[2], "c1", 0, 0, "")
			return list
		}, "its own parent"},
		{"a turn that joins what it starts", closed(1), func() []schemas.Outline {
			list := talks(2, 2, 0)
			starts(&list[1], "c0", 1, 0, "start")
			list[0].Turns[1].Joins = []string{"c1"}
			return list
		}, "turn 1 of the conversation of row 0 waits, through joins, for itself"},
		{"two that wait for each other", closed(1), func() []schemas.Outline {
			list := talks(3, 2, 0)
			starts(&list[1], "c0", 0, 0, "")
			starts(&list[2], "c0", 0, 0, "")
			list[1].Turns[1].Joins, list[2].Turns[1].Joins = []string{"c2"}, []string{"c1"}
			return list
		}, "for itself"},
		{"a parent that is there twice", closed(1), func() []schemas.Outline {
			list := talks(3, 2, 0)
			list[1].ConversationID = "c0"
			starts(&list[2], "c0", 0, 0, "")
			return list
		}, `rows 0 and 1 are both "c0"`},
	} {
		if _, err := survey(tt.change(), tt.rules); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	list = talks(2, 2, 0)
	list[0].Turns[1].Joins = []string{"c1", "nobody"}
	if x, err := survey(list, closed(1)); err != nil || x.Loose != 2 {
		t.Errorf("joins of strangers: %+v, %v", x, err)
	}
	list = talks(3, 2, 0)
	starts(&list[1], "c0", 7, 0, "")
	starts(&list[2], "c0", -1, 0, "")
	if x, err := survey(list, closed(1)); err != nil || x.Beyond != 2 || x.FirstBeyond != `"c1" (row 1): parent_turn is 7, and "c0" has 2 turns` {
		t.Errorf("turns that the parent does not have: %+v, %v", x, err)
	}
	starts(&list[1], "c0", 1, 0, "")
	starts(&list[2], "c0", 0, 0, "")
	if x, err := survey(list, closed(1)); err != nil || x.Beyond != 0 {
		t.Errorf("turns that the parent has: %+v, %v", x, err)
	}
	list = talks(2, 2, 0)
	list[1].ConversationID = "c0"
	if x, err := survey(list[:2], closed(1)); err != nil || x.Duplicates != 1 {
		t.Errorf("duplicates: %+v, %v", x, err)
	}
}

func TestParse(t *testing.T) {
	stages, err := ParseStages("8:2m, 16:90s,4")
	if want := []Stage{{8, 2 * time.Minute}, {16, 90 * time.Second}, {4, 0}}; err != nil || !slices.Equal(stages, want) {
		t.Errorf("%v, %v", stages, err)
	}
	for _, bad := range []string{"", "x", "8:", "8:2m,16,4:2m", "8:-2m", "8:2"} {
		if s, err := ParseStages(bad); err == nil {
			t.Errorf("%q was taken as %v", bad, s)
		}
	}
	for text, want := range map[string]Budget{"": {}, "none": {Off: true}, "7": {Count: 7}, "12.5%": {Share: 0.125}} {
		if b, err := ParseBudget(text); err != nil || b != want {
			t.Errorf("%q: %v, %v", text, b, err)
		}
	}
	for _, bad := range []string{"0", "-1", "x", "0%", "100%", "NaN%"} {
		if b, err := ParseBudget(bad); err == nil {
			t.Errorf("%q was taken as %v", bad, b)
		}
	}
}

// TestPause checks that think and tool times scale apart.
func TestPause(t *testing.T) {
	v := func(ms float64) *float64 { return &ms }
	think, tool, both, none := schemas.Turn{ThinkTimeMS: v(2000)}, schemas.Turn{ToolTimeMS: v(3000)}, schemas.Turn{ThinkTimeMS: v(2000), ToolTimeMS: v(3000)}, schemas.Turn{}
	for _, tt := range []struct {
		think, tool string
		want        [4]Pause // of the four turns
	}{
		{"", "", [4]Pause{{2e9, -1}, {0, 3e9}, {2e9, 3e9}, {0, -1}}},
		{"none", "2x", [4]Pause{{0, -1}, {0, 6e9}, {0, 6e9}, {0, -1}}},
		{"5s", "1s", [4]Pause{{5e9, -1}, {0, 1e9}, {5e9, 1e9}, {5e9, -1}}},
		{"0.5x", "none", [4]Pause{{1e9, -1}, {0, 0}, {1e9, 0}, {0, -1}}},
	} {
		r := closed(1)
		r.Think, _ = ParseScale(tt.think)
		r.Tool, _ = ParseScale(tt.tool)
		for i, turn := range []*schemas.Turn{&think, &tool, &both, &none} {
			if p, err := r.Pause(turn); err != nil || p != tt.want[i] {
				t.Errorf("--think %q --tool-time %q, turn %d: %+v, %v; want %+v", tt.think, tt.tool, i, p, err, tt.want[i])
			}
		}
	}
	nan := schemas.Turn{ToolTimeMS: v(-1)}
	r := closed(1)
	if _, err := r.Pause(&nan); err == nil {
		t.Error("a negative tool time was taken")
	}
}

func TestHeap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var h heap[int]
		var want []int64
		for i, at := range rapid.SliceOfN(rapid.Int64Range(0, 20), 0, 200).Draw(rt, "moments") {
			h.push(at, i)
			want = append(want, at)
		}
		slices.Sort(want)
		before := -1
		for i, at := range want {
			got, n := h.pop()
			if got != at || i > 0 && at == want[i-1] && n < before {
				rt.Fatalf("%d-th: %d at %d, want one at %d", i, n, got, at)
			}
			before = n
		}
	})
}

// BenchmarkScheduler is what a turn costs the scheduler: two events, its moment and its end.
func BenchmarkScheduler(b *testing.B) {
	tree := []schemas.Outline{talk("root", 20, time.Second)}
	for i := range 3 {
		kid := talk(fmt.Sprintf("kid%d", i), 8, time.Second)
		starts(&kid, "root", int64(3*i), 0, "end")
		tree[0].Turns[3*i+4].Joins = []string{kid.ConversationID}
		tree = append(tree, kid)
	}
	for _, bb := range []struct {
		name string
		list []schemas.Outline
		r    Rules
	}{
		{"closed", talks(1000, 20, time.Second), closed(1000)},
		{"limited", talks(1000, 20, time.Second), func() Rules { r := closed(1000); r.MaxInFlight = 100; return r }()},
		{"open", talks(1000, 20, time.Second), open(50)},
		{"trees", tree, closed(1000)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			bb.r.Loops, bb.r.Requests = 0, 1<<60
			x, err := Survey("memory", outlines(bb.list), &bb.r)
			if err != nil {
				b.Fatal(err)
			}
			s := NewScheduler(x, &bb.r, Left{})
			defer s.Close()
			pause := Pause{Think: time.Second, Tool: -1}
			var ends heap[ending]
			var told []Task
			now, turn, events := int64(0), uint64(0), 0
			take := func(actions []Action) {
				for i := range actions {
					if a := &actions[i]; a.Kind == Start {
						turn++
						ends.push(now+1e9+int64(turn%97)*1e6, ending{a.Task, a.Turn})
						if a.Tell {
							told = append(told, a.Task)
						}
					}
				}
			}
			step := func() {
				events++
				if at, ok := s.Next(); ends.len() > 0 && (!ok || ends.next() <= at) {
					var e ending
					now, e = ends.pop()
					take(s.Step(Event{Kind: Ended, At: now, Task: e.task, Pause: pause}))
				} else {
					now = at
					take(s.Step(Event{Kind: Came, At: at}))
				}
				for len(told) > 0 {
					t := told[len(told)-1]
					told = told[:len(told)-1]
					take(s.Step(Event{Kind: Begun, At: now, Task: t}))
				}
			}
			for events < 200_000 { // the steady state
				step()
			}
			b.ReportAllocs()
			b.ResetTimer()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				step()
			}
			runtime.ReadMemStats(&after)
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "events/s")
			if n := after.Mallocs - before.Mallocs; b.N > 100_000 && (rate < 1e6 || n > uint64(b.N)/1000) {
				b.Errorf("%.0f events per second and %d allocations in %d events; at least a million and none are promised", rate, n, b.N)
			}
		})
	}
}
