// Package job judges trees of agents as what their users see of them: jobs. A job is a root conversation
// with all the conversations that it starts, directly or through others; it begins when the root's first
// turn was due and ends with the last token of the whole tree.
//
// Its time is explained by its critical path: the chain of turns, think times and tool times that decided
// when the job ended. Walked backwards from the turn that ended last, each turn leads to what its start
// waited for: the joined conversation that ended last, the turn before it, or the turn of the parent that
// started its conversation. What is not on the chain ran beside it and cost no time. The four parts of the
// path (server, tool, person, client) add up to the job's time exactly.
//
// The package takes plain values and knows neither files nor windows.
package job

import (
	"cmp"
	"slices"
)

// Unknown is a moment or a count that is not known.
const Unknown = int64(-1 << 63)

// Turn is one planned turn of a run. Moments are nanoseconds from the run's origin.
type Turn struct {
	Root         string // root conversation of its tree
	Instance     int64  // which copy of the dataset's tree it belongs to
	Conversation string
	Index        int64  // of the turn in its conversation, from 0
	Parent       string // conversation that started this one; empty for a root
	ParentTurn   int64  // the parent's turn that did; only with a parent
	Joined       string // joined conversation whose end decided the turn's moment; empty if none did

	Scheduled, Start, End int64 // End is the last token's arrival, else the end of the stream
	Think, Tool           int64 // ns that were waited before Scheduled, after what the turn depends on
	OK                    bool
	Sent                  bool
	Prompt, Cached        int64 // tokens as the server counted
	Output                int64
}

// Path is the time of a job's critical path by who took it, in nanoseconds.
type Path struct {
	Server int64 // from the start of a turn's first attempt to its last token
	Tool   int64 // tools, and the delays before sub-agents start
	Person int64 // think times
	Client int64 // from when a turn was due to the start of its first attempt
}

// Total gives the path's whole time.
func (p Path) Total() int64 { return p.Server + p.Tool + p.Person + p.Client }

// Job is one tree of a run.
type Job struct {
	Root          string
	Instance      int64
	Begin, End    int64 // End is Unknown if no turn of it got an answer
	Done          bool  // every turn of the tree ended well
	Turns         int   // planned
	Sent          int
	Conversations int
	Depth         int // turns on the critical path
	Path          Path

	Uncached, Cached, Output int64 // tokens; Unknown where a turn with an answer does not tell
}

// Time gives the job's time in nanoseconds, or Unknown.
func (j *Job) Time() int64 {
	if j.Begin == Unknown || j.End == Unknown {
		return Unknown
	}
	return j.End - j.Begin
}

// StepsPerMinute gives the pace that the person who waits for the agent feels: turns sent by the whole tree
// per minute of the job. A job without a time gives 0.
func (j *Job) StepsPerMinute() float64 {
	t := j.Time()
	if t == Unknown || t <= 0 {
		return 0
	}
	return float64(j.Sent) / (float64(t) / 60e9)
}

// Jobs gathers the turns of a run to its jobs, in the order in which they began. Jobs of which nothing was
// sent have no times and stand at the end.
func Jobs(turns []Turn) []Job {
	order := make([]int, len(turns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &turns[a], &turns[b]
		return cmp.Or(cmp.Compare(x.Root, y.Root), cmp.Compare(x.Instance, y.Instance),
			cmp.Compare(x.Conversation, y.Conversation), cmp.Compare(x.Index, y.Index))
	})
	var jobs []Job
	for from := 0; from < len(order); {
		to, first := from+1, &turns[order[from]]
		for to < len(order) && turns[order[to]].Root == first.Root && turns[order[to]].Instance == first.Instance {
			to++
		}
		t := tree{turns: turns, order: order[from:to]}
		jobs = append(jobs, t.job())
		from = to
	}
	slices.SortStableFunc(jobs, func(a, b Job) int {
		late := func(j *Job) int64 {
			if j.Begin == Unknown {
				return 1<<63 - 1
			}
			return j.Begin
		}
		return cmp.Compare(late(&a), late(&b))
	})
	return jobs
}

// tree is one job's turns, sorted by conversation and turn.
type tree struct {
	turns []Turn
	order []int
}

func (t *tree) at(i int) *Turn { return &t.turns[t.order[i]] }

func (t *tree) job() Job {
	root := t.at(0)
	j := Job{Root: root.Root, Instance: root.Instance, Begin: Unknown, End: Unknown, Done: true, Turns: len(t.order)}
	last := -1
	for i := range t.order {
		q := t.at(i)
		if i == 0 || q.Conversation != t.at(i-1).Conversation {
			j.Conversations++
		}
		if q.Conversation == q.Root && q.Index == 0 && q.Sent {
			j.Begin = q.Scheduled
		}
		j.Done = j.Done && q.OK
		if !q.Sent {
			continue
		}
		j.Sent++
		if q.End != Unknown && (last < 0 || q.End > t.at(last).End) {
			last = i
		}
		if q.OK {
			j.Output = add(j.Output, q.Output)
			j.Cached = add(j.Cached, q.Cached)
			if q.Prompt == Unknown || q.Cached == Unknown {
				j.Uncached = Unknown
			} else {
				j.Uncached = add(j.Uncached, q.Prompt-q.Cached)
			}
		}
	}
	if last < 0 || j.Begin == Unknown {
		j.Done = false
		return j
	}
	j.End = t.at(last).End
	j.Path, j.Depth = t.path(last, j.Begin)
	return j
}

func add(sum, v int64) int64 {
	if sum == Unknown || v == Unknown {
		return Unknown
	}
	return sum + v
}

// path walks from the turn that ended last back to the beginning. at is the moment up to which the path is
// explained. Every step moves it back, so that the parts add up, and a turn is never visited twice.
func (t *tree) path(last int, begin int64) (p Path, depth int) {
	at := t.at(last).End
	for i := last; ; depth++ {
		q := t.at(i)
		if depth >= len(t.order) || q.Start == Unknown || q.Scheduled == Unknown {
			break
		}
		p.Server += back(&at, q.Start)
		p.Client += back(&at, q.Scheduled)
		p.Person += back(&at, q.Scheduled-q.Think)
		p.Tool += back(&at, q.Scheduled-q.Think-q.Tool)
		before, moment, ok := t.before(i)
		if !ok {
			break
		}
		// What lies between is the delay before a sub-agent starts, or what the client took to notice the end.
		if q.Index == 0 && q.Joined == "" {
			p.Tool += back(&at, moment)
		} else {
			p.Client += back(&at, moment)
		}
		i = before
	}
	p.Client += back(&at, begin)
	return p, depth + 1
}

// back moves a moment back to an earlier one and gives the time between them; a later one changes nothing.
func back(at *int64, to int64) int64 {
	d := max(0, *at-to)
	*at -= d
	return d
}

// before gives the turn that a turn waited for, and the moment of it that counted: its end, or its start for
// a parent's turn that was still being answered.
func (t *tree) before(i int) (j int, moment int64, ok bool) {
	q := t.at(i)
	switch {
	case q.Joined != "":
		// The last turn of the joined conversation that has an end.
		end := t.find(q.Joined, 1<<62)
		for j = end - 1; j >= 0 && t.at(j).Conversation == q.Joined; j-- {
			if e := t.at(j).End; e != Unknown {
				return j, e, true
			}
		}
	case q.Index > 0:
		if i > 0 && t.at(i-1).Conversation == q.Conversation && t.at(i-1).End != Unknown {
			return i - 1, t.at(i - 1).End, true
		}
	case q.Parent != "":
		if j = t.find(q.Parent, q.ParentTurn); j < len(t.order) {
			if p := t.at(j); p.Conversation == q.Parent && p.Index == q.ParentTurn && p.Start != Unknown {
				if p.End != Unknown && p.End <= q.Scheduled {
					return j, p.End, true
				}
				return j, p.Start, true
			}
		}
	}
	return 0, 0, false
}

// find gives the place of the first turn that is not before the given one.
func (t *tree) find(conversation string, index int64) int {
	at, _ := slices.BinarySearchFunc(t.order, index, func(o int, index int64) int {
		q := &t.turns[o]
		return cmp.Or(cmp.Compare(q.Conversation, conversation), cmp.Compare(q.Index, index))
	})
	return at
}
