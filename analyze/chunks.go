package analyze

import (
	"context"
	"slices"

	"parley/analyze/stat"
	"parley/schemas"
)

// exactGaps is up to how many chunks, and how many tokens, a run's gaps are kept in memory as they are. Those of a run
// with more are counted in histograms, in memory that does not grow with their number; their percentiles are
// then within [stat.RelativeError].
var exactGaps int64 = 8_000_000

// chunkFigures is what the chunk lists of a run say. They are read once.
type chunkFigures struct {
	gap, itl  gapValues
	rows      int64        // turns with gaps
	estimated int64        // of them, turns without token counts per chunk
	step      int64        // length of a step of series, in nanoseconds
	series    []int64      // tokens that arrived in each step of the whole run, from its origin
	arrived   []int64      // tokens that arrived in the window: of all turns, then of each group
	phase     []int64      // tokens of each phase, whenever they arrived
	fluid     []fluidCount // of all turns, then of each group
	turns     []int64      // with gaps: of all, then of each group
	burst     []bool       // by row: the answer came in one piece or in few bursts
	pieces    int64        // turns of in with more than one token
	bursts    int64        // of them, those that came in one piece or in bursts
}

// gapValues is the values of one figure of chunks, in milliseconds: as they are, or counted.
type gapValues struct {
	values  []float64 // exact: in the order of the file
	turns   []gapTurn // and how many of each turn
	counted *counted  // else
}

type gapTurn struct{ row, n int32 }

type fluidCount struct{ inTime, tokens, good, turns int64 }

// chunkWorker is what one reader of chunk lists collects.
type chunkWorker struct {
	chunkFigures
	gaps, tokens []float64 // of the row at hand
	both         []float64
	weighted     []weighted
	shared       *counted // what is a gap and an ITL at once
	counts       spreadMemory
	bin          int // of time, in which the last token arrived
	segments     []segment
}

// segment is where the values of a batch begin. Batches reach workers in no fixed order; the segments put
// them back into the order of the file, so that sums come out the same in every analysis.
type segment struct {
	first, worker int
	gap, itl      mark
}

type mark struct{ values, turns int }

func (v *gapValues) mark() mark { return mark{len(v.values), len(v.turns)} }

// chunkPass says which rows chunk figures cover, and in which groups.
type chunkPass struct {
	w      *window
	values bool    // the figures of gaps are wanted
	in     []bool  // the turn completed, in the window
	phase  []int32 // codes of the rows' phases
	block  []uint8 // of time, by row
	groups *groups // nil without groups
	ttft   float64 // objectives of fluidity in ms; 0 is none
	tpot   float64
}

// readChunks reads the chunk lists of a run.
func readChunks(ctx context.Context, r *run, f *frame, pass chunkPass) (*chunkFigures, error) {
	chunks, err := r.chunkCount(f)
	if err != nil {
		return nil, err
	}
	workers := make([]*chunkWorker, schemas.ListWorkers())
	rows := newTokenRows(f)
	sent, firsts, phases := f.ints("sent_ns"), f.ints("first_token_ns"), f.strs("phase")
	pass.phase = phases.Codes
	burst := make([]bool, f.rows) // every row is one worker's
	groups := 1
	if pass.groups != nil {
		groups += len(pass.groups.keys)
	}
	for i := range workers {
		w := &chunkWorker{chunkFigures: chunkFigures{
			step: seriesStep(f), burst: burst, fluid: make([]fluidCount, groups), arrived: make([]int64, groups),
			turns: make([]int64, groups), phase: make([]int64, len(phases.Values)),
		}}
		if chunks > exactGaps || rows.total() > exactGaps {
			w.gap.counted, w.itl.counted, w.shared = newCounted(groups-1), newCounted(groups-1), newCounted(groups-1)
		}
		workers[i] = w
	}
	err = r.readLists(ctx, func(worker, first int, shiftNS int64, l *schemas.Lists) error {
		w := workers[worker]
		w.segments = append(w.segments, segment{first, worker, w.gap.mark(), w.itl.mark()})
		for i := range l.Rows() {
			row := first + i
			ns, tokens := l.Row(i)
			if shiftNS != 0 {
				for c := range ns {
					ns[c] += shiftNS
				}
			}
			if len(ns) == 0 {
				w.whole(rows, &pass, row, f)
				if pass.in[row] && rows.completion[row] > 1 && firsts[row] == schemas.NullInt { // one document, not a stream
					w.burst[row] = true
					w.pieces++
					w.bursts++
				}
				continue
			}
			counts, told := rows.spread(&w.counts, row, ns, tokens)
			w.arrive(ns, counts, &pass, row, f)
			w.burst[row] = inBursts(ns, counts)
			if !pass.in[row] {
				continue
			}
			group := -1
			if pass.groups != nil {
				group = int(pass.groups.id[row])
			}
			w.add(&pass, rows, row, group, ns, counts, told)
			if pass.ttft > 0 && pass.tpot > 0 {
				w.fluidity(ns, counts, sent[row], group, &pass)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return merge(workers), nil
}

// chunkCount gives how many values chunk_ns has, from the files' footers where there are any.
func (r *run) chunkCount(f *frame) (int64, error) {
	var n int64
	for _, p := range r.parts {
		for i := range p.memory {
			n += int64(len(p.memory[i].ChunkNS))
		}
		if p.memory != nil {
			continue
		}
		if p.file == nil {
			// A journal is that of a run that has just ended or stopped: about a chunk per token.
			n += newTokenRows(f).total()
			continue
		}
		count, err := schemas.ListValues(p.file, "chunk_ns")
		if err != nil {
			return 0, err
		}
		n += count
	}
	return n, nil
}

// add takes the gaps of a turn.
func (w *chunkWorker) add(pass *chunkPass, rows *tokenRows, row, group int, ns, counts []int64, told bool) {
	if len(ns) > 1 || counts[0] > 1 {
		w.pieces++
		if w.burst[row] {
			w.bursts++
		}
	}
	if len(ns) < 2 || !pass.values {
		return
	}
	w.rows++
	w.turns[0]++
	if group >= 0 {
		w.turns[group+1]++
	}
	if !told {
		w.estimated++
	}
	counts = rows.streamed(&w.counts, row, counts, told)
	if w.gap.counted == nil {
		w.gaps, w.tokens = gapsOf(ns, counts, w.gaps[:0], w.tokens[:0])
		w.gap.add(w.gaps, row)
		if !w.burst[row] {
			w.itl.add(w.tokens, row)
		}
		return
	}
	w.gaps, w.weighted, w.both = gapsApart(ns, counts, !w.burst[row], w.gaps[:0], w.weighted[:0], w.both[:0])
	w.gap.counted.add(w.gaps, row, group, pass.block[row])
	w.itl.counted.addWeighted(w.weighted, row, group, pass.block[row])
	w.shared.add(w.both, row, group, pass.block[row])
}

// counted is values in histograms: of each group (one, if there are none), and by block of time those of one
// turn in eight, from which effective sizes and intervals come.
type counted struct {
	groups []stat.Histogram
	blocks [stat.Blocks]stat.Histogram
}

const blockTurns = 8

func newCounted(groups int) *counted { return &counted{groups: make([]stat.Histogram, max(groups, 1))} }

func (c *counted) add(values []float64, row, group int, block uint8) {
	c.groups[max(group, 0)].AddAll(values)
	if row%blockTurns == 0 {
		c.blocks[block].AddAll(values)
	}
}

// weighted is a value that several tokens have.
type weighted struct {
	value float64
	n     uint64
}

func (c *counted) addWeighted(values []weighted, row, group int, block uint8) {
	h := &c.groups[max(group, 0)]
	for _, v := range values {
		h.AddN(v.value, v.n)
	}
	if row%blockTurns == 0 {
		for _, v := range values {
			c.blocks[block].AddN(v.value, v.n)
		}
	}
}

func (c *counted) merge(o *counted) {
	for b := range c.blocks {
		c.blocks[b].Merge(&o.blocks[b])
	}
	for g := range c.groups {
		c.groups[g].Merge(&o.groups[g])
	}
}

func (v *gapValues) add(values []float64, row int) {
	v.values = append(v.values, values...)
	v.turns = append(v.turns, gapTurn{int32(row), int32(len(values))})
}

// all gives the histogram of all values.
func (c *counted) all() *stat.Histogram {
	var h stat.Histogram
	for g := range c.groups {
		h.Merge(&c.groups[g])
	}
	return &h
}

// gapsApart is gapsOf for counting, in memory that goes by the chunks and not by their tokens: what is a gap and an ITL at once is in both only. Without itl, all are
// gaps only.
func gapsApart(ns, counts []int64, itl bool, gaps []float64, tokens []weighted, both []float64) (g []float64, i []weighted, b []float64) {
	if !itl {
		for c := 1; c < len(ns); c++ {
			gaps = append(gaps, float64(ns[c]-ns[c-1])/1e6)
		}
		return gaps, tokens, both
	}
	open := 0.0
	for c := 1; c < len(ns); c++ {
		gap := float64(ns[c]-ns[c-1]) / 1e6
		k := counts[c]
		if k == 1 && open == 0 {
			both = append(both, gap)
			continue
		}
		gaps = append(gaps, gap)
		open += gap
		if k <= 0 {
			continue
		}
		tokens = append(tokens, weighted{open / float64(k), uint64(k)})
		open = 0
	}
	return gaps, tokens, both
}

// gapsOf appends the chunk gaps of a turn to gaps, and its inter-token latencies to itl: each gap spread
// over the tokens that the later chunk carried, one value per token. A chunk whose count is 0 (its tokens
// were counted with a later one) leaves its gap to that one.
func gapsOf(ns, counts []int64, gaps, itl []float64) (g, i []float64) {
	open := 0.0
	for c := 1; c < len(ns); c++ {
		gap := float64(ns[c]-ns[c-1]) / 1e6
		gaps = append(gaps, gap)
		open += gap
		k := counts[c]
		if k == 1 {
			itl = append(itl, open)
			open = 0
			continue
		}
		if k <= 0 {
			continue
		}
		each := open / float64(k)
		for range k {
			itl = append(itl, each)
		}
		open = 0
	}
	return gaps, itl
}

// fluidity counts the tokens of a turn that arrived by their deadline. The first is due at the TTFT
// objective after sending; each later one at the TPOT objective after the later of the deadline and the
// arrival of the one before: slack is kept, time lost is not held against the rest. After etalon's
// fluidity index (Agrawal et al., 2024), whose unit is deadlines instead of tokens.
func (w *chunkWorker) fluidity(ns, counts []int64, sent int64, group int, pass *chunkPass) {
	if sent <= schemas.NullInt/2 {
		return
	}
	due := float64(sent) + pass.ttft*1e6
	step := pass.tpot * 1e6
	var inTime, all int64
	for c, at := range ns {
		k := counts[c]
		if k <= 0 {
			continue
		}
		all += k
		inTime += k
		if float64(at) > due { // the first of the chunk only: the rest is due later
			inTime--
			due = float64(at)
		}
		due += float64(k) * step
	}
	if all == 0 {
		return
	}
	w.fluid[0].add(inTime, all)
	if group >= 0 {
		w.fluid[group+1].add(inTime, all)
	}
}

// fluidGood is the share of a turn's tokens in time from which it counts as fluid.
const fluidGood = 0.9

func (c *fluidCount) add(inTime, tokens int64) {
	c.inTime += inTime
	c.tokens += tokens
	c.turns++
	if float64(inTime) >= fluidGood*float64(tokens) {
		c.good++
	}
}

// merge joins what the workers collected.
func merge(workers []*chunkWorker) *chunkFigures {
	all := &workers[0].chunkFigures
	if all.gap.counted == nil {
		all.gap = join(workers, func(w *chunkWorker) *gapValues { return &w.gap }, func(s segment) mark { return s.gap })
		all.itl = join(workers, func(w *chunkWorker) *gapValues { return &w.itl }, func(s segment) mark { return s.itl })
	}
	addInts := func(to *[]int64, from []int64) {
		*to = append(*to, make([]int64, max(0, len(from)-len(*to)))...)
		for i, n := range from {
			(*to)[i] += n
		}
	}
	for _, w := range workers[1:] {
		if all.gap.counted != nil {
			all.gap.counted.merge(w.gap.counted)
			all.itl.counted.merge(w.itl.counted)
			workers[0].shared.merge(w.shared)
		}
		all.rows += w.rows
		all.estimated += w.estimated
		all.pieces += w.pieces
		all.bursts += w.bursts
		for i, c := range w.fluid {
			t := &all.fluid[i]
			t.inTime += c.inTime
			t.tokens += c.tokens
			t.good += c.good
			t.turns += c.turns
		}
		addInts(&all.arrived, w.arrived)
		addInts(&all.turns, w.turns)
		addInts(&all.phase, w.phase)
		addInts(&all.series, w.series)
	}
	if all.gap.counted != nil {
		all.gap.counted.merge(workers[0].shared)
		all.itl.counted.merge(workers[0].shared)
	}
	return all
}

// join puts the workers' values together in the order of the file.
func join(workers []*chunkWorker, of func(*chunkWorker) *gapValues, at func(segment) mark) gapValues {
	type part struct {
		segment
		from, to mark
	}
	var parts []part
	values, turns := 0, 0
	for _, w := range workers {
		v := of(w)
		for i, s := range w.segments {
			p := part{s, at(s), v.mark()}
			if i+1 < len(w.segments) {
				p.to = at(w.segments[i+1])
			}
			parts = append(parts, p)
		}
		values += len(v.values)
		turns += len(v.turns)
	}
	if len(parts) > 0 && values == len(of(workers[parts[0].worker]).values) { // one worker did it all
		return *of(workers[parts[0].worker])
	}
	slices.SortFunc(parts, func(a, b part) int { return a.first - b.first })
	out := gapValues{values: make([]float64, 0, values), turns: make([]gapTurn, 0, turns)}
	for _, p := range parts {
		v := of(workers[p.worker])
		out.values = append(out.values, v.values[p.from.values:p.to.values]...)
		out.turns = append(out.turns, v.turns[p.from.turns:p.to.turns]...)
	}
	return out
}

// sample gives exact values with the conversation and block of time of each.
func (v *gapValues) sample(a *analysis) stat.Sample {
	s := stat.Sample{Values: v.values, Cluster: make([]int32, 0, len(v.values)), Block: make([]uint8, 0, len(v.values))}
	for _, t := range v.turns {
		for range t.n {
			s.Cluster = append(s.Cluster, a.f.conv[t.row])
			s.Block = append(s.Block, a.block[t.row])
		}
	}
	return s
}

// split gives the exact values of each group.
func (v *gapValues) split(a *analysis, group []int32, groups int) []stat.Sample {
	counts := make([]int, groups)
	for _, t := range v.turns {
		counts[group[t.row]] += int(t.n)
	}
	out := make([]stat.Sample, groups)
	for g, n := range counts {
		out[g] = stat.Sample{Values: make([]float64, 0, n), Cluster: make([]int32, 0, n), Block: make([]uint8, 0, n)}
	}
	at := 0
	for _, t := range v.turns {
		s := &out[group[t.row]]
		s.Values = append(s.Values, v.values[at:at+int(t.n)]...)
		at += int(t.n)
		for range t.n {
			s.Cluster = append(s.Cluster, a.f.conv[t.row])
			s.Block = append(s.Block, a.block[t.row])
		}
	}
	return out
}
