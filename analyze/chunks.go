package analyze

import (
	"context"
	"math"
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
	perSecond []int64      // tokens that arrived in each second, in units of 2^-32 tokens
	fluid     []fluidCount // per group, the total first
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
	gaps, spread []float64 // of the row at hand
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
	in     []bool  // the turn completed, in the window
	group  []int32 // nil without groups
	groups int
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
	completion, sent := f.ints("completion_tokens"), f.ints("sent_ns")
	for i := range workers {
		w := &chunkWorker{chunkFigures: chunkFigures{raw: raw, fluid: make([]fluidCount, pass.groups+1)}}
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
			if len(ns) == 0 || !f.main[row] {
				continue
			}
			w.rate(ns, tokens, completion[row], shiftNS)
			if !pass.in[row] {
				continue
			}
			w.add(f, row, ns, tokens)
			if pass.ttft > 0 && pass.tpot > 0 {
				group := int32(-1)
				if pass.group != nil {
					group = pass.group[row]
				}
				w.fluidity(ns, tokens, sent[row]-shiftNS, group, pass)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := merge(workers)
	if !raw {
		err = all.refine(ctx, r, f, pass)
	}
	return all, err
}

// chunkCount gives how many values chunk_ns has, from the files' footers where there are any.
func (r *run) chunkCount(f *frame) (int64, error) {
	var n int64
	for _, p := range r.parts {
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
func (w *chunkWorker) add(f *frame, row int, ns, tokens []int64) {
	if len(ns) < 2 {
		return
	}
	w.rows++
	known := len(tokens) == len(ns)
	if !known {
		w.estimated++
	}
	w.gaps, w.spread = gapsOf(ns, tokens, w.gaps[:0], w.spread[:0])
	if !w.raw {
		w.wideGap.addAll(w.gaps, f.conv[row])
		w.wideITL.addAll(w.spread, f.conv[row])
		return
	}
	w.gap.add(w.gaps, row)
	w.itl.add(w.spread, row)
}

func (v *rowValues) add(values []float64, row int) {
	v.values = append(v.values, values...)
	for range values {
		v.rows = append(v.rows, int32(row))
	}
}

// gapsOf appends the chunk gaps of a turn to gaps, and its inter-token latencies to itl: each gap spread
// over the tokens that the later chunk carried, one value per token. A chunk whose count is 0 (its tokens
// were counted with a later one) leaves its gap to that one. Without counts per chunk, each chunk is
// taken as one token.
func gapsOf(ns, tokens []int64, gaps, itl []float64) (g, i []float64) {
	known := len(tokens) == len(ns)
	open := 0.0
	for c := 1; c < len(ns); c++ {
		gap := float64(ns[c]-ns[c-1]) / 1e6
		gaps = append(gaps, gap)
		if !known {
			itl = append(itl, gap)
			continue
		}
		open += gap
		k := tokens[c]
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

// tokensOf gives the tokens that a chunk stands for: the server's count, else an equal share of the
// answer's tokens, else one.
func tokensOf(tokens []int64, chunk, chunks int, completion int64) float64 {
	switch {
	case len(tokens) == chunks:
		return float64(tokens[chunk])
	case completion > 0:
		return float64(completion) / float64(chunks)
	}
	return 1
}

// tokenUnit is what parts of a token are counted in: sums of whole numbers do not depend on their order.
const tokenUnit = 1 << 32

// maxSeconds bounds the per-second series: a year.
const maxSeconds = 366 * 24 * 3600

// rate adds a turn's tokens to the seconds that they arrived in.
func (w *chunkWorker) rate(ns, tokens []int64, completion, shiftNS int64) {
	for c, at := range ns {
		second := (at + shiftNS) / 1e9
		if second < 0 || second >= maxSeconds {
			continue
		}
		for int64(len(w.perSecond)) <= second {
			w.perSecond = append(w.perSecond, 0)
		}
		w.perSecond[second] += int64(tokensOf(tokens, c, len(ns), completion) * tokenUnit)
	}
}

// fluidity counts the tokens of a turn that arrived by their deadline. The first is due at the TTFT
// objective after sending; each later one at the TPOT objective after the one before was due, or had
// arrived if that was later: time gained is kept, time lost is not held against the rest. After etalon's
// fluidity index (Agrawal et al., 2024), whose unit is deadlines instead of tokens.
func (w *chunkWorker) fluidity(ns, tokens []int64, sent int64, group int32, pass chunkPass) {
	if sent <= schemas.NullInt/2 {
		return
	}
	due := float64(sent) + pass.ttft*1e6
	step := pass.tpot * 1e6
	var inTime, all int64
	for c, at := range ns {
		k := int64(1)
		if len(tokens) == len(ns) {
			k = tokens[c]
		}
		for range k {
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
	all := &chunkFigures{raw: workers[0].raw, fluid: make([]fluidCount, len(workers[0].fluid))}
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
		for i, v := range w.perSecond {
			if i == len(all.perSecond) {
				all.perSecond = append(all.perSecond, 0)
			}
			all.perSecond[i] += v
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

// peakRate gives the tokens of the best second of those that lie in [from, to) by at least a half (a window
// seldom begins on a whole second), or of the best that it touches where there is none.
func (c *chunkFigures) peakRate(from, to int64) Num {
	best, partly := Missing, Missing
	for s, units := range c.perSecond {
		v := float64(units) / tokenUnit
		a, b := int64(s)*1e9, int64(s+1)*1e9
		if min(b, to)-max(a, from) >= 5e8 {
			best = Num(math.Max(v, zeroIfMissing(best)))
		} else if b > from && a < to {
			partly = Num(math.Max(v, zeroIfMissing(partly)))
		}
	}
	if best.Known() {
		return best
	}
	return partly
}

func zeroIfMissing(n Num) float64 {
	if n.Known() {
		return float64(n)
	}
	return 0
}
