package job

import (
	"math/rand/v2"
	"testing"
)

const ms = int64(1e6)

func turn(conversation string, index int64, scheduled, start, end int64) Turn {
	return Turn{Root: "r", Conversation: conversation, Index: index, Scheduled: scheduled * ms, Start: start * ms,
		End: end * ms, OK: true, Sent: true, Prompt: 100, Cached: 40, Output: 10}
}

// TestCriticalPath takes a root of two turns that joins two of its three sub-agents: the path goes through
// the one that ended last, and the third, which nobody waits for, counts only if it ends after everything.
func TestCriticalPath(t *testing.T) {
	first := turn("r", 0, 0, 2, 102)
	fast, slow, beside := turn("r/a", 0, 110, 110, 200), turn("r/b", 0, 112, 115, 415), turn("r/c", 0, 50, 50, 300)
	for _, k := range []*Turn{&fast, &slow, &beside} {
		k.Parent, k.ParentTurn = "r", 0
	}
	second := turn("r", 1, 450, 451, 551)
	second.Joined, second.Tool, second.Think = "r/b", 25*ms, 10*ms
	turns := []Turn{second, slow, beside, first, fast}

	jobs := Jobs(turns)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	j := jobs[0]
	want := Path{Server: (100 + 300 + 100) * ms, Tool: (25 + 10) * ms, Person: 10 * ms, Client: (1 + 3 + 2) * ms}
	if j.Path != want {
		t.Errorf("path %+v, want %+v", j.Path, want)
	}
	if j.Time() != 551*ms || j.Path.Total() != j.Time() || j.Depth != 3 || j.Conversations != 4 || j.Turns != 5 || !j.Done {
		t.Errorf("job %+v", j)
	}
	if j.Uncached != 300 || j.Cached != 200 || j.Output != 50 {
		t.Errorf("tokens %d uncached, %d cached, %d out", j.Uncached, j.Cached, j.Output)
	}
	if got, want := j.StepsPerMinute(), 5/(0.551/60); got < want*0.999 || got > want*1.001 {
		t.Errorf("%v steps per minute, want %v", got, want)
	}

	// The one beside ends last: it started 48 ms after the root's turn did, while that was being answered.
	turns[2].End = 900 * ms
	j = Jobs(turns)[0]
	want = Path{Server: 850 * ms, Tool: 48 * ms, Client: 2 * ms}
	if j.Path != want || j.Depth != 2 {
		t.Errorf("path %+v of %d turns, want %+v of 2", j.Path, j.Depth, want)
	}
}

func TestUnfinishedJobs(t *testing.T) {
	lost := turn("r", 1, 0, 0, 0)
	lost.Scheduled, lost.Start, lost.End, lost.Sent, lost.OK = Unknown, Unknown, Unknown, false, false
	j := Jobs([]Turn{turn("r", 0, 5, 5, 20), lost})[0]
	if j.Done || j.Time() != 15*ms || j.Sent != 1 || j.Turns != 2 {
		t.Errorf("job with a turn that was not reached: %+v", j)
	}
	none := lost
	none.Index = 0
	if j := Jobs([]Turn{none, lost})[0]; j.Done || j.Time() != Unknown || j.StepsPerMinute() != 0 {
		t.Errorf("job of which nothing was sent: %+v", j)
	}
	untold := turn("r", 0, 0, 0, 9)
	untold.Cached = Unknown
	if j := Jobs([]Turn{untold})[0]; j.Cached != Unknown || j.Uncached != Unknown || j.Output != 10 {
		t.Errorf("a server that tells no cached tokens: %+v", j)
	}
}

// TestPathAddsUp plays random trees with their own small scheduler and asks for what holds always: the parts
// are never negative and add up to the job's time, and without client time nothing is called the client's.
func TestPathAddsUp(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		turns := randomTree(r)
		for _, j := range Jobs(turns) {
			p := j.Path
			if p.Total() != j.Time() || p.Server <= 0 || p.Tool < 0 || p.Person < 0 || p.Client != 0 {
				t.Fatalf("seed %d: %+v of %d ns", seed, p, j.Time())
			}
		}
	}
}

// randomTree gives two jobs of a client that is never late: each conversation starts after its parent's turn
// has ended, and some turns wait for the children of the turn before them.
func randomTree(r *rand.Rand) []Turn {
	var turns []Turn
	for instance := range int64(2) {
		var play func(id, parent string, parentTurn, at int64, depth int) int64
		play = func(id, parent string, parentTurn, at int64, depth int) (end int64) {
			decided := ""
			for i := range 1 + r.Int64N(4) {
				q := Turn{Root: "root", Instance: instance, Conversation: id, Index: i, Parent: parent, ParentTurn: parentTurn,
					Joined: decided, OK: true, Sent: true}
				q.Think, q.Tool = r.Int64N(50), r.Int64N(50)
				if i == 0 {
					q.Think, q.Tool = 0, 0
				}
				q.Scheduled = at + q.Think + q.Tool
				q.Start = q.Scheduled
				q.End = q.Start + 1 + r.Int64N(100)
				turns = append(turns, q)
				at, end, decided = q.End, q.End, ""
				for k := range r.Int64N(3) {
					if depth > 2 {
						break
					}
					kid := id + string(rune('a'+k)) + string(rune('0'+i))
					e := play(kid, id, i, q.End+r.Int64N(20), depth+1)
					if r.IntN(2) == 0 && e > at {
						at, decided = e, kid
					}
				}
			}
			return end
		}
		play("root", "", 0, r.Int64N(1000), 0)
	}
	return turns
}
