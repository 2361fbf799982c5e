package analyze

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"parley/analyze/stat"
)

// How two runs are compared. Each row of the table is a statistic in both runs, its difference and its
// ratio. The error of a statistic is a sum over conversations of their influence on it: for a mean,
// (S_c - mean*n_c)/n; for a percentile, (p*n_c - k_c)/n divided by the density there, which comes from the
// width of the percentile's own interval (Woodruff). Where both runs replayed the same dataset, a
// conversation's influences on both are taken together, so that what the two share (a long prompt is slow
// in both) cancels; else the errors add. The row named pairs is the mean over pairs of turns of the
// logarithm of their ratio: the most sensitive of all to a change that touches every turn.
//
// Many rows mean many chances of a false alarm, and a check that cries wolf in one build of twenty is soon
// ignored. A row counts as changed only at a level of 1 % after Holm's correction over the table: in the
// simulation of the tests, two equal runs are called different in about one comparison of a hundred, and a
// slowdown of 5 % is found every time. The intervals are of 95 %, each by itself.

// compared are the figures of the comparison, each with its statistics.
var compared = []struct {
	figure string
	stats  []float64 // percentiles in percent; 0 is the mean
}{
	{"ttft", []float64{0, 50, 90, 99}},
	{"tpot", []float64{0, 50, 90, 99}},
	{"e2e", []float64{0, 50, 90, 99}},
}

// paired are the figures that are compared turn by turn.
var pairedFigures = []string{"ttft", "tpot", "e2e"}

func addComparison(ctx context.Context, res *Result, runs *Runs, o *Options) error {
	if runs.Len() != 1 || o.Baseline.Len() != 1 {
		return fmt.Errorf("a comparison takes one run and one baseline, not %d and %d: name the files of one run each", runs.Len(), o.Baseline.Len())
	}
	plain := *o
	plain.By, plain.Baseline, plain.Gates = nil, nil, nil
	base, err := analyzeRun(ctx, o.Baseline.list[0], &plain)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	a, err := newSide(o.Baseline.list[0], &plain)
	if err != nil {
		return err
	}
	b, err := newSide(runs.list[0], &plain)
	if err != nil {
		return err
	}
	cand := &res.Runs[0]
	c := &Comparison{
		Baseline: base.Label, Candidate: cand.Label, BaseGrade: base.Verdict.Grade, CandGrade: cand.Verdict.Grade, base: base,
	}
	c.Config = configChanges(a.run, b.run)
	c.Paired, c.Why = pairable(a.run, b.run)
	var pairs [][2]int32
	if c.Paired {
		pairs = a.pairs(b)
		c.Pairs = int64(len(pairs))
		c.OnlyBase, c.OnlyCand = a.count()-c.Pairs, b.count()-c.Pairs
		if len(pairs) == 0 {
			c.Paired, c.Why = false, "unpaired: no turn completed in the windows of both runs"
		}
	}
	for _, f := range compared {
		c.Rows = append(c.Rows, a.differences(b, f.figure, f.stats, c.Paired)...)
	}
	if c.Paired {
		for _, name := range pairedFigures {
			if d, ok := a.pairRatio(b, pairs, name); ok {
				c.Rows = append(c.Rows, d)
			}
		}
	}
	c.Rows = append(c.Rows, plainDifferences(base, cand)...)
	c.decide()
	for _, g := range []*RunResult{base, cand} {
		if g.Verdict.Grade != "VALID" {
			c.Warnings = append(c.Warnings, Warning{"grade", fmt.Sprintf("the run %s is %s: what differs may be the client", g.Label, g.Verdict.Grade)})
		}
	}
	if a.run.meta.Simulated != b.run.meta.Simulated {
		c.Warnings = append(c.Warnings, Warning{"simulated", "one of the runs is against the simulated server"})
	}
	res.Comparison = c
	return nil
}

// pairable says whether the turns of two runs correspond.
func pairable(a, b *run) (bool, string) {
	x, y := a.meta.Dataset.ContentHash, b.meta.Dataset.ContentHash
	switch {
	case x == "" || y == "":
		return false, "unpaired: a run does not say which dataset it replayed"
	case x != y:
		return false, "unpaired: the runs replayed different datasets"
	}
	return true, "paired by conversation and turn: both runs replayed the same dataset"
}

// side is one run of a comparison: the rows that latencies cover.
type side struct {
	run  *run
	o    *Options
	f    *frame
	w    window
	rows []int32
}

func newSide(r *run, o *Options) (*side, error) {
	s := &side{run: r, o: o, f: r.frame}
	if s.f == nil {
		return nil, errors.New("a run that was not read cannot be compared")
	}
	s.w, _ = findWindow(r, s.f, o.Window)
	turn := s.f.ints("turn")
	for row := range s.f.rows {
		if s.f.main[row] && s.f.status[row] == statusOK && s.w.holds(s.f, turn, row) {
			s.rows = append(s.rows, int32(row))
		}
	}
	return s, nil
}

func (s *side) count() int64 { return int64(len(s.rows)) }

// turnKey names a turn in any run of one dataset.
type turnKey struct {
	conversation string
	instance     int64
	turn         int64
}

func (s *side) key(row int32) turnKey {
	ids := s.f.strs("conversation_id")
	id := ""
	if c := ids.Codes[row]; c >= 0 {
		id = ids.Values[c]
	}
	return turnKey{id, s.f.ints("instance")[row], s.f.ints("turn")[row]}
}

// pairs gives the rows of turns that completed in both.
func (s *side) pairs(o *side) [][2]int32 {
	mine := make(map[turnKey]int32, len(s.rows))
	for _, row := range s.rows {
		mine[s.key(row)] = row
	}
	var out [][2]int32
	for _, row := range o.rows {
		k := o.key(row)
		if m, ok := mine[k]; ok {
			out = append(out, [2]int32{m, row})
			delete(mine, k)
		}
	}
	return out
}

// influence is the influence of each conversation on a statistic, by the conversation's name.
type influence map[turnKey]float64

// figureOf gives the values of a figure over the rows, with their conversations.
func (s *side) figureOf(name string) (values []float64, conv []int32) {
	value := rowFigure(name).values(s.f, s.o)
	for _, row := range s.rows {
		if v := value(int(row)); v == v {
			values = append(values, v)
			conv = append(conv, s.f.conv[row])
		}
	}
	return values, conv
}

// conversation names the instance of a conversation.
func (s *side) conversation(c int32) turnKey {
	k := s.key(s.f.convRow[c])
	k.turn = 0
	return k
}

// statistics of one figure of one side.
type sideFigure struct {
	values, sorted []float64
	conv           []int32
	mean           float64
}

func (s *side) figure(name string) sideFigure {
	v, c := s.figureOf(name)
	f := sideFigure{values: v, conv: c, sorted: stat.Sort(slices.Clone(v), nil)}
	for _, x := range v {
		f.mean += x
	}
	f.mean /= float64(len(v))
	return f
}

// stat gives a statistic (percent, 0 is the mean), and the influence of each conversation on it.
func (f *sideFigure) stat(s *side, p float64) (float64, influence) {
	n := float64(len(f.values))
	sums := map[int32]float64{}
	if p == 0 {
		for i, v := range f.values {
			sums[f.conv[i]] += (v - f.mean) / n
		}
		return f.mean, s.named(sums)
	}
	q := p / 100
	at := stat.Quantile(f.sorted, q)
	// One over the density, from the width of the middle of the percentile's neighbourhood.
	width := math.Sqrt(q*(1-q)/n) * 2
	lo, hi := max(q-width, 0), min(q+width, 1)
	slope := (stat.Quantile(f.sorted, hi) - stat.Quantile(f.sorted, lo)) / (hi - lo)
	below := sort.Search(len(f.sorted), func(i int) bool { return f.sorted[i] > at })
	share := float64(below) / n
	for i, v := range f.values {
		d := share
		if v <= at {
			d -= 1
		}
		sums[f.conv[i]] += d / n * slope
	}
	return at, s.named(sums)
}

func (s *side) named(sums map[int32]float64) influence {
	out := make(influence, len(sums))
	for c, v := range sums {
		out[s.conversation(c)] = v
	}
	return out
}

// spreadOf gives the standard error of b - a (or of log b - log a, with weights 1/value), and its degrees
// of freedom.
func spreadOf(a, b influence, wa, wb float64, paired bool) (se, df float64) {
	if !paired {
		va, da := variance(a, wa)
		vb, db := variance(b, wb)
		if da < 1 || db < 1 {
			return math.NaN(), 0
		}
		if va+vb == 0 {
			return 0, da + db
		}
		// Welch and Satterthwaite.
		return math.Sqrt(va + vb), (va + vb) * (va + vb) / (va*va/da + vb*vb/db)
	}
	both := make(influence, len(a))
	for k, v := range a {
		both[k] = -v * wa
	}
	for k, v := range b {
		both[k] += v * wb
	}
	v, df := variance(both, 1)
	return math.Sqrt(v), df
}

// variance sums the squares of influences, and gives their degrees of freedom. It does so in an order
// that does not depend on the map's.
func variance(in influence, weight float64) (v, df float64) {
	squares := make([]float64, 0, len(in))
	for _, x := range in {
		squares = append(squares, x*x*weight*weight)
	}
	slices.Sort(squares)
	var sum, fourth float64
	for _, s := range squares {
		sum += s
		fourth += s * s
	}
	m := float64(len(in))
	if m < 2 {
		return math.NaN(), 0
	}
	return sum * m / (m - 1), varianceDF(m, sum, fourth)
}

// differences compares statistics of one figure.
func (s *side) differences(o *side, name string, stats []float64, paired bool) []Difference {
	fa, fb := s.figure(name), o.figure(name)
	var out []Difference
	for _, p := range stats {
		need := int64(2)
		label := name + ".mean"
		title := rowFigure(name).title + " mean"
		if p > 0 {
			need = needs(p)
			label = fmt.Sprintf("%s.p%g", name, p)
			title = fmt.Sprintf("%s p%g", rowFigure(name).title, p)
		}
		if int64(len(fa.values)) < need || int64(len(fb.values)) < need {
			continue
		}
		va, ia := fa.stat(s, p)
		vb, ib := fb.stat(o, p)
		d := newDifference(label, title, rowFigure(name).unit, va, vb, false)
		se, df := spreadOf(ia, ib, 1, 1, paired)
		d.interval(se, df)
		if va > 0 && vb > 0 {
			seLog, dfLog := spreadOf(ia, ib, 1/va, 1/vb, paired)
			d.ratioInterval(seLog, dfLog)
		}
		out = append(out, d)
	}
	return out
}

func newDifference(name, title, unit string, a, b float64, highIsGood bool) Difference {
	d := Difference{
		Name: name, Title: title, Unit: unit, Baseline: Num(a), Candidate: Num(b), Diff: Num(b - a),
		DiffLow: Missing, DiffHigh: Missing, Ratio: Missing, RatioLow: Missing, RatioHigh: Missing, P: Missing, HighIsGood: highIsGood,
	}
	if a != 0 {
		d.Ratio = Num(b / a)
	}
	return d
}

// interval sets the difference's interval and its p-value.
func (d *Difference) interval(se, df float64) {
	if math.IsNaN(se) || df < 1 {
		return
	}
	half := studentT(df) * se
	d.DiffLow, d.DiffHigh = d.Diff-Num(half), d.Diff+Num(half)
	if se == 0 {
		d.P = 1
		if d.Diff != 0 {
			d.P = 0
		}
		return
	}
	d.P = Num(twoSided(float64(d.Diff)/se, df))
}

func (d *Difference) ratioInterval(se, df float64) {
	if math.IsNaN(se) || df < 1 {
		return
	}
	half := math.Exp(studentT(df) * se)
	d.RatioLow, d.RatioHigh = d.Ratio/Num(half), d.Ratio*Num(half)
}

func twoSided(t, df float64) float64 {
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.CDF(-math.Abs(t))
}

// pairRatio gives the geometric mean of the ratio of paired turns.
func (s *side) pairRatio(o *side, pairs [][2]int32, name string) (Difference, bool) {
	fa, fb := rowFigure(name).values(s.f, s.o), rowFigure(name).values(o.f, o.o)
	var logs []float64
	var conv []int32
	for _, p := range pairs {
		a, b := fa(int(p[0])), fb(int(p[1]))
		if a > 0 && b > 0 {
			logs = append(logs, math.Log(b/a))
			conv = append(conv, s.f.conv[p[0]])
		}
	}
	if len(logs) < 2 {
		return Difference{}, false
	}
	var mean float64
	for _, l := range logs {
		mean += l
	}
	mean /= float64(len(logs))
	d := newDifference(name+".pairs", rowFigure(name).title+", ratio of paired turns", "ratio", 1, math.Exp(mean), false)
	scratch := &scratch{}
	local, clusters := scratch.renumber(conv)
	se, df := meanError(logs, local, clusters, mean)
	if df >= 1 {
		half := studentT(df) * se
		d.RatioLow, d.RatioHigh = Num(math.Exp(mean-half)), Num(math.Exp(mean+half))
		d.DiffLow, d.DiffHigh = d.RatioLow-1, d.RatioHigh-1
		switch {
		case se > 0:
			d.P = Num(twoSided(mean/se, df))
		case mean == 0:
			d.P = 1
		default:
			d.P = 0
		}
	}
	return d, true
}

// plainDifferences compares what is one number of a run: without an interval, for one run does not say how
// much that number would vary.
func plainDifferences(a, b *RunResult) []Difference {
	var out []Difference
	for _, p := range plainFigures {
		x, y := p.get(a), p.get(b)
		if x.Known() && y.Known() {
			out = append(out, newDifference(p.name, p.title, p.unit, float64(x), float64(y), p.highIsGood))
		}
	}
	return out
}

// alarmLevel is the chance that equal runs are called different.
const alarmLevel = 0.01

// decide applies Holm's correction: rows in order of their p-values, each against the level divided by the
// number of rows that are left.
func (c *Comparison) decide() {
	var tested []*Difference
	for i := range c.Rows {
		if c.Rows[i].P.Known() {
			tested = append(tested, &c.Rows[i])
		}
	}
	slices.SortStableFunc(tested, func(a, b *Difference) int {
		switch {
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
	for i, d := range tested {
		if float64(d.P) > alarmLevel/float64(len(tested)-i) {
			break
		}
		d.Changed = true
		d.Worse = (d.Diff > 0) != d.HighIsGood
		c.Slower = c.Slower || d.Worse
		c.Faster = c.Faster || !d.Worse
	}
}
