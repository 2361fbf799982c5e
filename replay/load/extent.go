package load

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"parley/schemas"
	"parley/schemas/random"
)

// Extent is what a dataset holds, as far as scheduling needs it: a few bytes per conversation, and more for
// those that others start or wait for.
type Extent struct {
	path    string
	turns   []int32            // turns of each row
	roots   []int32            // rows that start by themselves, in the order of their arrival
	offsets []time.Duration    // recorded arrival of each root; nil unless asked for
	trees   map[int32][]member // of roots that start others: the root first, parents before their children

	Turns       int64  // in all rows
	Empty       int    // rows without a turn: they are passed over
	Loose       int    // joins of conversations that are not in the same tree: they are passed over
	Beyond      int    // conversations whose parent_turn their parent does not have: they start with its first or last
	Duplicates  int    // rows whose conversation_id an earlier one has
	FirstBeyond string // the first of Beyond, in words
}

// member is a conversation of a tree: of one that starts by itself, with all those that it and its descendants start.
type member struct {
	id         string
	row        int32
	turns      int32
	parent     int32         // -1 for the root
	parentTurn int32         // the turn of the parent that starts it
	rootTurn   int32         // the turn of the root that starts it, directly or not
	fromEnd    bool          // its delay begins at the end of that turn, not at its start
	delay      time.Duration //
	pause      Pause         // before its first turn, if that joins others
	kids       []int32       // members that it starts
	joins      []join        // in the order of turns
	joiners    []joiner      // turns of others that wait for its end
}

// join says for whose ends a turn waits.
type join struct {
	turn int32
	of   []int32
}

type joiner struct{ member, turn int32 }

func (m *member) joinsAt(turn int32) []int32 {
	for _, j := range m.joins {
		if j.turn == turn {
			return j.of
		}
	}
	return nil
}

// members gives the tree of a root, which may be the root alone.
func (x *Extent) members(root int32) []member {
	if t := x.trees[root]; t != nil {
		return t
	}
	return []member{x.single(root)}
}

func (x *Extent) single(row int32) member { return member{row: row, turns: x.turns[row], parent: -1} }

// Conversations gives the number of rows.
func (x *Extent) Conversations() int64 { return int64(len(x.turns)) }

// Kids gives the rows of the conversations that a turn of a conversation starts, and their members' numbers.
func (x *Extent) Kids(root, member int32, turn int) iter.Seq2[int32, int32] {
	return func(yield func(row, member int32) bool) {
		t := x.members(root)
		for _, k := range t[member].kids {
			if kid := &t[k]; int(kid.parentTurn) == turn && !yield(kid.row, k) {
				return
			}
		}
	}
}

// ID gives the conversation_id of a member of a tree that has several, "" for a single conversation.
func (x *Extent) ID(root, member int32) string { return x.members(root)[member].id }

// Row gives the row of a member of a root's tree.
func (x *Extent) Row(root, member int32) int32 { return x.members(root)[member].row }

// Parent gives the member and the turn that start a member, false for one that starts by itself.
func (x *Extent) Parent(root, member int32) (parent, turn int32, ok bool) {
	m := x.members(root)[member]
	return m.parent, m.parentTurn, m.parent >= 0
}

// Size gives the number of conversations of a root's tree, and of their turns.
func (x *Extent) Size(root int32) (conversations int, turns int64) {
	t := x.members(root)
	for i := range t {
		turns += int64(t[i].turns)
	}
	return len(t), turns
}

// kin is what the outlines say of a conversation that another one starts, or whose turns join others.
type kin struct {
	row    int32
	id     string
	parent string
	asked  int64 // the parent's turn, as the dataset has it
	member
	joins map[int32][]string
}

// Survey reads the outlines of all conversations. The rules say whether their recorded arrivals count, and how
// long their pauses are.
func Survey(path string, outlines func() iter.Seq2[schemas.Outline, error], r *Rules) (*Extent, error) {
	x := &Extent{path: path, trees: map[int32][]member{}}
	var relatives []kin
	wanted := map[string]bool{} // ids that others name
	starts := map[int32]time.Duration{}
	ids := make(map[string]struct{})
	row := int32(0)
	for o, err := range outlines() {
		if err != nil {
			return nil, err
		}
		bad := func(column string, err error) error {
			return fmt.Errorf("%s: conversation %q (row %d): %s: %w", path, o.ConversationID, row, column, err)
		}
		if row == math.MaxInt32 {
			return nil, fmt.Errorf("%s has more than %d conversations: split it", path, row)
		}
		if _, ok := ids[o.ConversationID]; ok {
			x.Duplicates++
		}
		ids[o.ConversationID] = struct{}{}
		x.turns = append(x.turns, int32(len(o.Turns)))
		x.Turns += int64(len(o.Turns))
		k := kin{row: row, id: o.ConversationID}
		for t := range o.Turns {
			if len(o.Turns[t].Joins) > 0 {
				if k.joins == nil {
					k.joins = map[int32][]string{}
				}
				k.joins[int32(t)] = o.Turns[t].Joins
				for _, id := range o.Turns[t].Joins {
					wanted[id] = true
				}
			}
		}
		if o.ParentID != nil {
			k.parent = *o.ParentID
			wanted[k.parent] = true
			if o.ParentTurn != nil {
				k.asked = *o.ParentTurn
			}
			k.fromEnd = o.ParentFrom != nil && *o.ParentFrom == "end"
			if o.ParentDelayMS != nil {
				if k.delay, err = milliseconds(*o.ParentDelayMS); err != nil {
					return nil, bad("parent_delay_ms", err)
				}
				k.delay = r.Tool.of(k.delay) // what starts a conversation from within another is a tool
			}
			if len(o.Turns) > 0 {
				k.pause, _ = r.Pause(&o.Turns[0]) // what is wrong with it, the conversation's rows will say
			}
		}
		if k.parent != "" || k.joins != nil {
			relatives = append(relatives, k)
		}
		if r.Arrivals == "recorded" && o.StartOffsetMS != nil {
			d, err := milliseconds(*o.StartOffsetMS)
			if err != nil {
				return nil, bad("start_offset_ms", err)
			}
			starts[row] = d
		}
		row++
	}
	rooted := map[int32]bool{} // rows that others start
	if len(relatives) > 0 {
		if err := x.plant(outlines, relatives, wanted, rooted); err != nil {
			return nil, err
		}
	}
	for row, n := range x.turns {
		switch {
		case n == 0:
			x.Empty++
		case !rooted[int32(row)]:
			x.roots = append(x.roots, int32(row))
		}
	}
	if len(x.roots) == 0 {
		return nil, fmt.Errorf("%s holds no conversation with a turn to replay", path)
	}
	if r.Arrivals == "recorded" {
		return x, x.orderByStart(starts)
	}
	return x, nil
}

// plant makes the trees.
func (x *Extent) plant(outlines func() iter.Seq2[schemas.Outline, error], relatives []kin, wanted map[string]bool, rooted map[int32]bool) error {
	rows, names := make(map[string]int32, len(wanted)), make(map[int32]string, len(wanted))
	row := int32(0)
	for o, err := range outlines() {
		if err != nil {
			return err
		}
		if wanted[o.ConversationID] {
			if first, ok := rows[o.ConversationID]; ok {
				return fmt.Errorf("%s: the conversations of rows %d and %d are both %q, and another one refers to it: which is meant?", x.path, first, row, o.ConversationID)
			}
			rows[o.ConversationID], names[row] = row, o.ConversationID
		}
		row++
	}
	parents := map[int32]int32{}
	kids := map[int32][]*kin{}
	byRow := map[int32]*kin{}
	for i := range relatives {
		k := &relatives[i]
		byRow[k.row] = k
		parent, ok := rows[k.parent]
		if k.parent == "" || !ok || x.turns[parent] == 0 || x.turns[k.row] == 0 {
			continue // its parent is not in this file: it starts by itself
		}
		if k.parentTurn = int32(min(max(0, k.asked), int64(x.turns[parent])-1)); int64(k.parentTurn) != k.asked {
			if x.Beyond++; x.Beyond == 1 {
				x.FirstBeyond = fmt.Sprintf("%q (row %d): parent_turn is %d, and %q has %d turns", k.id, k.row, k.asked, k.parent, x.turns[parent])
			}
		}
		parents[k.row] = parent
		rooted[k.row] = true
		kids[parent] = append(kids[parent], k)
	}
	for row := range parents {
		at := row
		for range len(parents) + 1 {
			up, ok := parents[at]
			if !ok {
				at = -1
				break
			}
			at = up
		}
		if at >= 0 {
			return fmt.Errorf("%s: the conversation of row %d is, through its parents, its own parent", x.path, row)
		}
	}
	for row := range kids {
		if rooted[row] {
			continue
		}
		t := []member{x.single(row)}
		t[0].id = names[row]
		at := map[int32]int32{row: 0}
		for i := 0; i < len(t); i++ {
			for _, k := range kids[t[i].row] {
				n := int32(len(t))
				m := k.member
				m.id, m.row, m.turns, m.parent, m.rootTurn = k.id, k.row, x.turns[k.row], int32(i), t[i].rootTurn
				if i == 0 {
					m.rootTurn = m.parentTurn
				}
				t = append(t, m)
				t[i].kids = append(t[i].kids, n)
				at[k.row] = n
			}
		}
		for i := range t {
			m := &t[i]
			if k := byRow[m.row]; k != nil {
				for turn, ids := range k.joins {
					j := join{turn: turn}
					for _, id := range ids {
						other, ok := rows[id]
						n, in := at[other]
						if !ok || !in || n == int32(i) {
							x.Loose++
							continue
						}
						if !slices.Contains(j.of, n) {
							j.of = append(j.of, n)
							t[n].joiners = append(t[n].joiners, joiner{int32(i), turn})
						}
					}
					if len(j.of) > 0 {
						m.joins = append(m.joins, j)
					}
				}
				slices.SortFunc(m.joins, func(a, b join) int { return cmp.Compare(a.turn, b.turn) })
			}
		}
		if err := x.checkJoins(t); err != nil {
			return err
		}
		x.trees[row] = t
	}
	for _, k := range relatives { // joins of conversations without a tree
		if !rooted[k.row] && x.trees[k.row] == nil {
			for _, ids := range k.joins {
				x.Loose += len(ids)
			}
		}
	}
	return nil
}

// checkJoins refuses a tree in which turns wait for each other in a circle: they would never start. It plays
// the tree through.
func (x *Extent) checkJoins(t []member) error {
	next := make([]int32, len(t)) // of each member: turns that can begin, and so end
	for moved := true; moved; {
		moved = false
		for i := range t {
			m := &t[i]
			if m.parent >= 0 && next[m.parent] <= m.parentTurn {
				continue
			}
			waits := func(n int32) bool { return next[n] < t[n].turns }
			for next[i] < m.turns && !slices.ContainsFunc(m.joinsAt(next[i]), waits) {
				next[i]++
				moved = true
			}
		}
	}
	for i := range t {
		if m := &t[i]; next[i] < m.turns {
			return fmt.Errorf("%s: turn %d of the conversation of row %d waits, through joins, for itself", x.path, next[i], m.row)
		}
	}
	return nil
}

func (x *Extent) orderByStart(starts map[int32]time.Duration) error {
	for _, row := range x.roots {
		if _, ok := starts[row]; !ok {
			return fmt.Errorf("--arrivals recorded: the conversation of row %d of %s has no start_offset_ms: use --rate", row, x.path)
		}
	}
	slices.SortStableFunc(x.roots, func(a, b int32) int { return cmp.Compare(starts[a], starts[b]) })
	x.offsets = make([]time.Duration, len(x.roots))
	for i, row := range x.roots {
		x.offsets[i] = starts[row]
	}
	return nil
}

// An Entry is a place in the schedule: a conversation that starts by itself, in one pass over the dataset.
type Entry struct {
	K      int64         // counts over all passes and all shards
	Pass   int64         //
	Row    int32         // of the dataset
	Offset time.Duration // when it is due, from the load's begin; in a closed loop 0: when a place is free
}

// Schedule gives a shard's part of the schedule, without what an interrupted run was done with. It ends with
// the last pass, or with the arrivals.
func Schedule(x *Extent, r *Rules, done Done) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		next, stop := iter.Pull(arrivals(x, r))
		defer stop()
		for k, pass := int64(0), int64(0); r.Loops == 0 || pass < int64(r.Loops); pass++ {
			for _, row := range x.roots {
				offset, ok := next()
				if !ok {
					return
				}
				if e := (Entry{k, pass, row, offset}); k%int64(r.Shards) == int64(r.Shard) && !done.over(x, e) && !yield(e) {
					return
				}
				k++
			}
		}
	}
}

// arrivals gives the arrival sequence of the whole run.
func arrivals(x *Extent, r *Rules) iter.Seq[time.Duration] {
	if r.Open() && r.Arrivals == "recorded" {
		return Ramp(Recorded(x.offsets, r.Speed, r.Loops), r.Ramp)
	}
	if !r.Open() || math.IsInf(r.Rate[0].Level, 1) {
		return AtOnce(-1)
	}
	process := func(rate float64) iter.Seq[time.Duration] { return Poisson(rate, r.Seed) }
	switch r.Arrivals {
	case "constant":
		process = Constant
	case "gamma":
		process = func(rate float64) iter.Seq[time.Duration] { return Gamma(rate, r.Burstiness, r.Seed) }
	}
	return Staged(process, r.Rate, r.Ramp)
}

// openings gives the moments at which the places of a closed loop's first stage open.
func openings(r *Rules) iter.Seq[time.Duration] {
	whole := r.Concurrency[0].Level
	// A shard's places are every nth of the whole run's, so that shards fill up together.
	late := time.Duration(float64(r.Ramp) / whole * float64(r.Shard) / float64(r.Shards))
	return func(yield func(time.Duration) bool) {
		for d := range Spread(int(r.Places(0)), r.Ramp) {
			if !yield(d + late) {
				return
			}
		}
	}
}

// firstTurn gives the turn at which the kth conversation of a run begins: 0, or with Stagger a turn drawn
// evenly from the conversation's for each conversation that takes one of the first places.
func firstTurn(x *Extent, r *Rules, k int64, root int32) int32 {
	turns := x.turns[root]
	if !r.Stagger || turns < 2 || k/int64(r.Shards) >= r.Places(0) {
		return 0
	}
	return int32(random.Stream(r.Seed, "stagger", uint64(k)).IntN(int(turns)))
}

// Begins gives the members of an entry's tree that an interrupted run had begun, or should have, and the root
// if that is not over, each with the turn at which it goes on: those that start as soon as the entry does.
func (d Done) Begins(x *Extent, r *Rules, e Entry) iter.Seq2[int32, int32] {
	return func(yield func(member, turn int32) bool) {
		t := x.members(e.Row)
		for i := range t {
			m := &t[i]
			p := d[Key{m.row, e.Pass}]
			switch {
			case p.Turns >= m.turns:
				continue
			case p.Turns == 0 && i == 0:
				p.Turns = firstTurn(x, r, e.K, e.Row)
			case p.Turns == 0 && d[Key{t[m.parent].row, e.Pass}].Sent <= m.parentTurn:
				continue
			}
			if !yield(int32(i), p.Turns) {
				return
			}
		}
	}
}

// Planned gives the number of turns of a run over the whole extent (one that is not [Rules.Bounded]).
func (x *Extent) Planned(r *Rules) int64 {
	total, k := int64(0), int64(0)
	for range r.Loops {
		for _, row := range x.roots {
			if k%int64(r.Shards) == int64(r.Shard) {
				_, turns := x.Size(row)
				total += turns - x.before(row, firstTurn(x, r, k, row))
			}
			k++
		}
	}
	return total
}

// before gives the turns of a tree that are over when its root begins with a turn: those of the root before
// it, and those of the conversations that these started.
func (x *Extent) before(root, first int32) int64 {
	total := int64(first)
	for _, m := range x.members(root)[1:] {
		if m.rootTurn < first {
			total += int64(m.turns)
		}
	}
	return total
}

// milliseconds turns a dataset's figure into a duration.
func milliseconds(ms float64) (time.Duration, error) {
	if math.IsNaN(ms) || ms < 0 || ms > 1e12 {
		return 0, errors.New("has to be a number of milliseconds between 0 and 1e12")
	}
	return time.Duration(ms * 1e6), nil
}

// Done is what an interrupted run left of each conversation: by row and pass, the key of [Key].
type Done map[Key]Progress

// Key names one instance of a row: its pass over the dataset.
type Key struct {
	Row  int32
	Pass int64
}

// Progress is how far a conversation came.
type Progress struct {
	Turns  int32 // that have rows, from the first on
	Sent   int32 // those among them that were sent
	Failed bool  // the last of these failed
}

// over says whether nothing of an entry's tree is left to do.
func (d Done) over(x *Extent, e Entry) bool {
	if len(d) == 0 {
		return false
	}
	return !slices.ContainsFunc(x.members(e.Row), func(m member) bool { return d[Key{m.row, e.Pass}].Turns < m.turns })
}
