package analyze

import (
	"context"
	"slices"

	"parley/schemas"
)

// rawGaps is up to how many chunk gaps a run's gaps are kept in memory as they are; a run with more is
// counted in two passes over the file instead (see wide.go).
const rawGaps = 16_000_000

// chunkFigures is what the chunk lists of a run say.
type chunkFigures struct {
	raw       bool
	gap, itl  rowValues // raw: every value, with its row
	wideGap   *wide
	wideITL   *wide
	rows      int64        // turns with gaps
	estimated int64        // of them, turns without token counts per chunk
	step      int64        // length of a step of series, in nanoseconds
	series    []int64      // tokens that arrived in each step of the whole run, from its origin
	arrived   []int64      // tokens that arrived in the window: of all turns, then of each group
	phase     []int64      // tokens of each phase, whenever they arrived
	fluid     []fluidCount // per group, the total first
	burst     []bool       // by row: the answer came in one piece or in few bursts
	pieces    int64        // turns of in with more than one token
	bursts    int64        // of them, those that came in one piece or in bursts
}

// rowValues is values with the row that each comes from.
type rowValues struct {
	values []float64
	rows   []int32
}

type fluidCount struct{ inTime, tokens, good, turns int64 }

// chunkWorker is what one reader of chunk lists collects.
type chunkWorker struct {
	chunkFigures
	gaps, tokens []float64 // of the row at hand
	counts       spreadMemory
	bin          int // of time, in which the last token arrived
	segments     []segment
}

// segment is where the values of a batch begin. Batches reach workers in no fixed order; the segments put
// them back into the order of the file, so that sums come out the same in every analysis.
type segment struct {
	first    int
	worker   int
	gap, itl int
}

// chunkPass says which rows chunk figures cover, and in which groups.
type chunkPass struct {
	w      *window
	in     []bool  // the turn completed, in the window
	groups *groups // nil without groups
	ttft   float64 // objectives of fluidity in ms; 0 is none
	tpot   float64
	// percentiles wanted, in percent
	percentiles []float64
}

// readChunks reads the chunk lists of a run.
func readChunks(ctx context.Context, r *run, f *frame, pass chunkPass) (*chunkFigures, error) {
	chunks, err := r.chunkCount(f)
	if err != nil {
		return nil, err
	}
	workers := make([]*chunkWorker, schemas.ListWorkers())
	raw := chunks <= rawGaps
	rows := newTokenRows(f)
	sent := f.ints("sent_ns")
	burst := make([]bool, f.rows) // every row is one worker's
	groups := 1
	if pass.groups != nil {
		groups += len(pass.groups.keys)
	}
	for i := range workers {
		w := &chunkWorker{chunkFigures: chunkFigures{raw: raw, step: seriesStep(f), burst: burst, fluid: make([]fluidCount, groups), arrived: make([]int64, groups), phase: make([]int64, len(f.strs("phase").Values))}}
		if !raw {
			w.wideGap, w.wideITL = newWide(f.convs), newWide(f.convs)
		}
		workers[i] = w
	}
	err = r.readLists(ctx, func(worker, first int, shiftNS int64, l *schemas.Lists) error {
		w := workers[worker]
		w.segments = append(w.segments, segment{first, worker, len(w.gap.values), len(w.itl.values)})
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
				continue
			}
			counts, told := rows.spread(&w.counts, row, ns, tokens)
			w.arrive(ns, counts, &pass, row, f)
			w.burst[row] = inBursts(ns, counts)
			if !pass.in[row] {
				continue
			}
			w.add(f, rows, row, ns, counts, told)
			if pass.ttft > 0 && pass.tpot > 0 {
				group := int32(-1)
				if pass.groups != nil {
					group = pass.groups.id[row]
				}
				w.fluidity(ns, counts, sent[row], group, pass)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := merge(workers)
	if !raw {
		err = all.refine(ctx, r, f, rows, pass)
	}
	return all, err
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
			for _, c := range f.ints("completion_tokens") {
				if c != schemas.NullInt {
					n += c
				}
			}
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
func (w *chunkWorker) add(f *frame, rows *tokenRows, row int, ns, counts []int64, told bool) {
	var n int64
	for _, k := range counts {
		n += k
	}
	if n > 1 {
		w.pieces++
		if w.burst[row] {
			w.bursts++
		}
	}
	if len(ns) < 2 {
		return
	}
	w.rows++
	if !told {
		w.estimated++
	}
	w.gaps, w.tokens = gapsOf(ns, rows.streamed(&w.counts, row, counts, told), w.gaps[:0], w.tokens[:0])
	if w.burst[row] {
		w.tokens = w.tokens[:0]
	}
	if !w.raw {
		w.wideGap.addAll(w.gaps, f.conv[row])
		w.wideITL.addAll(w.tokens, f.conv[row])
		return
	}
	w.gap.add(w.gaps, row)
	w.itl.add(w.tokens, row)
}

func (v *rowValues) add(values []float64, row int) {
	v.values = append(v.values, values...)
	for range values {
		v.rows = append(v.rows, int32(row))
	}
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
// objective after sending; each later one at the TPOT objective after the one before was due, or had
// arrived if that was later: time gained is kept, time lost is not held against the rest. After etalon's
// fluidity index (Agrawal et al., 2024), whose unit is deadlines instead of tokens.
func (w *chunkWorker) fluidity(ns, counts []int64, sent int64, group int32, pass chunkPass) {
	if sent <= schemas.NullInt/2 {
		return
	}
	due := float64(sent) + pass.ttft*1e6
	step := pass.tpot * 1e6
	var inTime, all int64
	for c, at := range ns {
		for range counts[c] {
			all++
			if float64(at) <= due {
				inTime++
			}
			due = max(due, float64(at)) + step
		}
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
	one := workers[0]
	all := &chunkFigures{raw: one.raw, step: one.step, burst: one.burst, fluid: make([]fluidCount, len(one.fluid)), arrived: make([]int64, len(one.arrived)), phase: make([]int64, len(one.phase))}
	all.joinValues(workers)
	for i, w := range workers {
		if i == 0 {
			all.wideGap, all.wideITL = w.wideGap, w.wideITL
		} else if !all.raw {
			all.wideGap.merge(w.wideGap)
			all.wideITL.merge(w.wideITL)
		}
		all.rows += w.rows
		all.estimated += w.estimated
		for i, c := range w.fluid {
			t := &all.fluid[i]
			t.inTime += c.inTime
			t.tokens += c.tokens
			t.good += c.good
			t.turns += c.turns
		}
		all.pieces += w.pieces
		all.bursts += w.bursts
		for i, n := range w.arrived {
			all.arrived[i] += n
		}
		for i, n := range w.phase {
			all.phase[i] += n
		}
		all.series = append(all.series, make([]int64, max(0, len(w.series)-len(all.series)))...)
		for i, n := range w.series {
			all.series[i] += n
		}
	}
	return all
}

// joinValues puts the workers' values together in the order of the file.
func (c *chunkFigures) joinValues(workers []*chunkWorker) {
	type part struct {
		segment
		gapEnd, itlEnd int
	}
	var parts []part
	gaps, itls := 0, 0
	for _, w := range workers {
		for i, s := range w.segments {
			p := part{s, len(w.gap.values), len(w.itl.values)}
			if i+1 < len(w.segments) {
				p.gapEnd, p.itlEnd = w.segments[i+1].gap, w.segments[i+1].itl
			}
			parts = append(parts, p)
		}
		gaps += len(w.gap.values)
		itls += len(w.itl.values)
	}
	slices.SortFunc(parts, func(a, b part) int { return a.first - b.first })
	c.gap = rowValues{make([]float64, 0, gaps), make([]int32, 0, gaps)}
	c.itl = rowValues{make([]float64, 0, itls), make([]int32, 0, itls)}
	for _, p := range parts {
		w := workers[p.worker]
		c.gap.values = append(c.gap.values, w.gap.values[p.gap:p.gapEnd]...)
		c.gap.rows = append(c.gap.rows, w.gap.rows[p.gap:p.gapEnd]...)
		c.itl.values = append(c.itl.values, w.itl.values[p.itl:p.itlEnd]...)
		c.itl.rows = append(c.itl.rows, w.itl.rows[p.itl:p.itlEnd]...)
	}
}
