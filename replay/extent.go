package replay

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"parley/schemas"
)

// dataset is what the engine needs of a schemas.Dataset.
type dataset interface {
	Path() string
	Outlines() iter.Seq2[schemas.Outline, error]
	Conversations(first int64) iter.Seq2[schemas.Conversation, error]
}

// extent is what a dataset holds, as far as planning needs it: a few bytes per conversation.
type extent struct {
	ds       dataset
	turns    []int32         // turns of each row
	roots    []int64         // rows that start by themselves, in the order of their arrival
	sequence bool            // roots are all rows of the file in its order
	offsets  []time.Duration // recorded arrival of each root; nil unless asked for
	children map[int64][]int64
	parents  map[int64]link
	empty    int // rows without a turn
}

// link says when a conversation that another one starts is due.
type link struct {
	parent int64 // row
	turn   int   // the parent's turn at whose start the delay begins
	delay  time.Duration
}

// survey reads the outlines of all conversations.
func survey(ds dataset, recorded bool) (*extent, error) {
	x := &extent{ds: ds, children: map[int64][]int64{}, parents: map[int64]link{}}
	type child struct {
		row    int64
		parent string
		link
	}
	var kin []child
	wanted := map[string]int64{} // ids of parents, and their rows once found
	starts := map[int64]time.Duration{}
	row := int64(0)
	for o, err := range ds.Outlines() {
		if err != nil {
			return nil, err
		}
		x.turns = append(x.turns, int32(len(o.Turns)))
		if o.ParentID != nil {
			c := child{row: row, parent: *o.ParentID}
			if o.ParentTurn != nil {
				c.turn = int(max(0, *o.ParentTurn))
			}
			if o.ParentDelayMS != nil {
				d, err := milliseconds(*o.ParentDelayMS)
				if err != nil {
					return nil, fmt.Errorf("%s: conversation %q (row %d): parent_delay_ms: %w", ds.Path(), o.ConversationID, row, err)
				}
				c.delay = d
			}
			kin = append(kin, c)
			wanted[c.parent] = -1
		}
		if recorded && o.StartOffsetMS != nil {
			d, err := milliseconds(*o.StartOffsetMS)
			if err != nil {
				return nil, fmt.Errorf("%s: conversation %q (row %d): start_offset_ms: %w", ds.Path(), o.ConversationID, row, err)
			}
			starts[row] = d
		}
		row++
	}
	if len(kin) > 0 {
		row = 0
		for o, err := range ds.Outlines() {
			if err != nil {
				return nil, err
			}
			if at, ok := wanted[o.ConversationID]; ok && at < 0 {
				wanted[o.ConversationID] = row
			}
			row++
		}
		for _, c := range kin {
			c.link.parent = wanted[c.parent]
			if c.link.parent < 0 || x.turns[c.link.parent] == 0 || x.turns[c.row] == 0 {
				continue // its parent is not in this file: it starts by itself
			}
			c.turn = min(c.turn, int(x.turns[c.link.parent])-1)
			x.parents[c.row] = c.link
			x.children[c.link.parent] = append(x.children[c.link.parent], c.row)
		}
		if err := x.checkTrees(); err != nil {
			return nil, err
		}
	}
	for row, n := range x.turns {
		if n == 0 {
			x.empty++
			continue
		}
		if _, ok := x.parents[int64(row)]; !ok {
			x.roots = append(x.roots, int64(row))
		}
	}
	if len(x.roots) == 0 {
		return nil, fmt.Errorf("%s holds no conversation with a turn to replay", ds.Path())
	}
	if recorded {
		if err := x.orderByStart(starts); err != nil {
			return nil, err
		}
	}
	x.sequence = len(x.roots) == len(x.turns) && slices.IsSorted(x.roots)
	return x, nil
}

// checkTrees refuses conversations that start each other in a circle: they would never start.
func (x *extent) checkTrees() error {
	for row := range x.parents {
		at := row
		for range len(x.parents) + 1 {
			l, ok := x.parents[at]
			if !ok {
				at = -1
				break
			}
			at = l.parent
		}
		if at >= 0 {
			return fmt.Errorf("%s: the conversation of row %d is, through its parents, its own parent", x.ds.Path(), row)
		}
	}
	return nil
}

func (x *extent) orderByStart(starts map[int64]time.Duration) error {
	for _, row := range x.roots {
		if _, ok := starts[row]; !ok {
			return fmt.Errorf("--arrivals recorded: the conversation of row %d of %s has no start_offset_ms: use --rate", row, x.ds.Path())
		}
	}
	slices.SortStableFunc(x.roots, func(a, b int64) int { return cmp.Compare(starts[a], starts[b]) })
	x.offsets = make([]time.Duration, len(x.roots))
	for i, row := range x.roots {
		x.offsets[i] = starts[row]
	}
	return nil
}

// tree gives the number of turns of a conversation and of all that it starts, and of these conversations.
func (x *extent) tree(row int64) (turns, conversations int64) {
	turns, conversations = int64(x.turns[row]), 1
	for _, c := range x.children[row] {
		t, n := x.tree(c)
		turns, conversations = turns+t, conversations+n
	}
	return turns, conversations
}

// A place in the schedule: the kth conversation that starts by itself.
type entry struct {
	k        int64 // counts over all passes and all shards
	instance int64 // the pass
	row      int64
	offset   time.Duration // when it is due
}

// schedule gives a shard's part of the schedule. It ends with the last pass, or with the arrivals.
func (x *extent) schedule(s *settled) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		next, stop := iter.Pull(x.arrivals(s))
		defer stop()
		for k, pass := int64(0), int64(0); s.loops == 0 || pass < int64(s.loops); pass++ {
			for _, row := range x.roots {
				offset, ok := next()
				if !ok {
					return
				}
				if k%int64(s.shards) == int64(s.shard) && !yield(entry{k, pass, row, offset}) {
					return
				}
				k++
			}
		}
	}
}

// arrivals gives the arrival sequence of the whole run. In a closed loop a conversation is due as soon as
// a place is free.
func (x *extent) arrivals(s *settled) iter.Seq[time.Duration] {
	if !s.open || math.IsInf(s.rate, 1) {
		return AtOnce(-1)
	}
	var seq iter.Seq[time.Duration]
	switch s.Arrivals {
	case "recorded":
		seq = Recorded(x.offsets, s.Speed, s.loops)
	case "constant":
		seq = Constant(s.rate)
	case "gamma":
		seq = Gamma(s.rate, s.Burstiness, s.Seed)
	default:
		seq = Poisson(s.rate, s.Seed)
	}
	return Ramp(seq, s.Ramp)
}

// places gives the moments at which a closed loop's places open.
func places(s *settled) iter.Seq[time.Duration] {
	// A shard's places are every nth of the whole run's, so that shards fill up together.
	return func(yield func(time.Duration) bool) {
		i := 0
		for d := range Spread(s.Concurrency, s.Ramp) {
			if s.shards > 1 {
				d += time.Duration(float64(s.Ramp) / float64(s.Concurrency) * float64(s.shard) / float64(s.shards))
			}
			if i++; !yield(d) {
				return
			}
		}
	}
}

// firstTurn gives the turn at which the kth conversation of a run begins: 0, or with Stagger a turn drawn
// evenly from the conversation's for each conversation that takes one of the first places.
func firstTurn(s *settled, k int64, turns int) int {
	if !s.Stagger || turns < 2 || k/int64(s.shards) >= int64(s.Concurrency) {
		return 0
	}
	return random(s.Seed, "stagger", uint64(k)).IntN(turns)
}

// planned gives the number of turns of a run over the whole extent, from the numbers of turns alone.
func (x *extent) planned(s *settled) int64 {
	total := int64(0)
	k := int64(0)
	for range s.loops {
		for _, row := range x.roots {
			if k%int64(s.shards) == int64(s.shard) {
				turns, _ := x.tree(row)
				total += turns - int64(firstTurn(s, k, int(x.turns[row])))
			}
			k++
		}
	}
	return total
}

// reader reads conversations by row, and does so in one go as long as the rows follow on each other.
type reader struct {
	x    *extent
	next func() (schemas.Conversation, error, bool)
	stop func()
	row  int64
}

// maxSkip is how many rows a reader reads over instead of beginning anew.
const maxSkip = 64

func (r *reader) read(row int64) (schemas.Conversation, error) {
	if r.next == nil || row < r.row || row > r.row+maxSkip {
		r.close()
		r.next, r.stop = iter.Pull2(r.x.ds.Conversations(row))
		r.row = row
	}
	for {
		c, err, ok := r.next()
		if !ok {
			err = fmt.Errorf("%s: row %d is not there: was the file changed?", r.x.ds.Path(), row)
		}
		if err != nil {
			r.close()
			return c, err
		}
		if r.row++; r.row > row {
			return c, nil
		}
	}
}

func (r *reader) close() {
	if r.stop != nil {
		r.stop()
	}
	r.next, r.stop = nil, nil
}

// milliseconds turns a dataset's figure into a duration.
func milliseconds(ms float64) (time.Duration, error) {
	if math.IsNaN(ms) || ms < 0 || ms > 1e12 {
		return 0, errors.New("has to be a number of milliseconds between 0 and 1e12")
	}
	return time.Duration(ms * 1e6), nil
}
