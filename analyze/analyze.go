// Package analyze turns the rows of runs into figures that people can trust and share.
//
// Its layers are separate, and each is a file or a few: loading (files, folders, journals; shards of one
// run become one run), the frame (columns, which are read when they are needed), windows and groups (which rows a
// figure covers), figures, and the result, which is plain data. What they rest on are packages that know no file:
// stat (quantiles, intervals, tests), verdict (whether the run measured the server or itself), compare
// (comparison and gates), job (trees of agents), plots (what a report draws). Package analyze/render prints
// results and computes nothing.
//
// Every percentile is exact, by linear interpolation between order statistics (of chunk gaps that are too many for
// memory, to 6e-5), and is marked where the sample is too small to carry it. Failed turns are rows: latencies cover completed turns, the error rate
// stands beside them, and a failure-aware variant counts each failed turn as infinitely slow. Warnings are
// data and travel with the result.
package analyze

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"parley/analyze/stat"
	"parley/schemas"
)

const statusOK = 0 // the place of schemas.StatusOK in schemas.Statuses

// Analyze works out the figures of runs.
func Analyze(ctx context.Context, runs *Runs, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if b := o.Baseline; b != nil && runs.list[0].parts[0].path != "" { // the sides tell their runs apart
		runs.label(b.list...)
		b.label(runs.list...)
	}
	res := &Result{
		Schema: ResultSchema, Version: ResultVersion, ToolVersion: schemas.Version(),
		From: o.From, Percentiles: o.Percentiles, Level: stat.Confidence, Objectives: o.Objectives,
		Warnings: slices.Clone(runs.warnings),
	}
	for _, g := range o.By {
		res.By = append(res.By, g.String())
	}
	for _, r := range runs.list {
		rr, err := analyzeRun(ctx, r, &o)
		if err != nil {
			return nil, err
		}
		res.Runs = append(res.Runs, *rr)
	}
	if err := compareAll(ctx, res, runs, &o); err != nil {
		return nil, err
	}
	if plans(res, runs, &o); res.Plans == nil && (len(res.Runs) > 1 || o.GPUs > 0) {
		res.Sweep = sweep(res.Runs, o.GPUs)
	}
	for _, r := range runs.list { // columns that a comparison read
		if r.frame.err != nil {
			return nil, r.frame.err
		}
	}
	res.Heading = headings(res)
	return res, nil
}

// headings says what a reader must know before any figure.
func headings(res *Result) []string {
	const simulated = "SIMULATED SERVER: figures of parley's simulator, not of a real server"
	var out []string
	all := len(res.Runs) > 1 && !slices.ContainsFunc(res.Runs, func(r RunResult) bool { return !r.Simulated })
	if all {
		out = append(out, simulated)
	}
	for i := range res.Runs {
		r := &res.Runs[i]
		name := ""
		if len(res.Runs) > 1 {
			name = r.Label + ": "
		}
		if r.Simulated && !all {
			out = append(out, name+simulated)
		}
		if r.Unfinished {
			out = append(out, name+"UNFINISHED RUN: these are the rows that were safe when it stopped")
		}
	}
	return out
}

// analysis is the state of the work on one run.
type analysis struct {
	o      *Options
	run    *run
	f      *frame
	w      window
	in     []bool      // main, completed, in the window: what latencies cover
	rows   []int32     // every row
	sw     stat.Window // the window of intervals
	block  []uint8     // of each row, its block of time in it
	load   stat.Load   // what says how long the server remembers
	chunks *chunkFigures
}

func analyzeRun(ctx context.Context, r *run, o *Options) (*RunResult, error) {
	f, err := r.read(ctx, neededColumns(o))
	if err != nil {
		return nil, err
	}
	r.checkRows(f)
	a := &analysis{o: o, run: r, f: f}
	w, warnings, err := findWindow(r, f, o.Window)
	if err != nil {
		return nil, err
	}
	a.w = w
	res := newRunResult(r, f, w)
	res.Warnings = append(slices.Clone(r.warnings), warnings...)

	a.in = make([]bool, f.rows)
	inWindow := make([]int32, 0, f.rows)
	a.rows = make([]int32, f.rows)
	for row := range f.rows {
		a.rows[row] = int32(row)
		if f.main[row] && w.holds(f, row) {
			inWindow = append(inWindow, int32(row))
			a.in[row] = f.status[row] == statusOK
		}
	}
	a.load = a.memory(r)
	a.measure(stat.Window{From: w.from, To: w.to}.WithTau(a.load))
	res.Window.Relaxation = Num(a.sw.Tau)
	res.Window.LongFrom, res.Window.LongFromOuter = Num(a.sw.Needs(0.5)), Num(a.sw.Needs(0.99))
	var groups *groups
	if len(o.By) > 0 {
		if groups, err = groupsOf(f, o.By, w); err != nil {
			return nil, err
		}
	}
	pass := chunkPass{w: &a.w, values: o.wants(figITL) || o.wants(figChunkGap), in: a.in, block: a.block, groups: groups, ttft: o.objective("ttft"), tpot: o.objective("tpot")}
	if a.chunks, err = readChunks(ctx, r, f, pass); err != nil {
		return nil, err
	}
	r.chunks = a.chunks
	total := &population{inWindow: inWindow, all: a.rows, w: &a.w, arrived: a.chunks.arrived[0]}
	if err := a.work(ctx, []*population{total}); err != nil {
		return nil, err
	}
	res.Total = total.Group
	a.addTotals(&res.Total)
	res.CacheTurns = cacheByTurn(f, inWindow)
	if err := a.addPhases(ctx, res); err != nil {
		return nil, err
	}
	if groups != nil {
		if err := a.addGroups(ctx, res, groups, inWindow); err != nil {
			return nil, err
		}
	}
	if len(o.Gates) > 0 {
		res.trials = a.trials(inWindow)
	}
	a.addJobs(res)
	res.Verdict = judgeRun(a, res)
	return res, errors.Join(f.err, ctx.Err())
}

// measure sets the window that intervals come from.
func (a *analysis) measure(w stat.Window) {
	a.sw, a.block = w, make([]uint8, a.f.rows)
	for row, m := range a.f.moment {
		if m != schemas.NullInt {
			a.block[row] = uint8(w.BlockOf(m))
		}
	}
}

// memory gives what says how long the server remembers what it did.
func (a *analysis) memory(r *run) stat.Load {
	l := stat.Load{Waiting: math.NaN(), Turns: func(yield func(sent, first int64) bool) {
		sent, until := a.f.ints("sent_ns"), a.f.awaitedUntil()
		for row, s := range sent {
			if s != schemas.NullInt && a.w.during(s) && !yield(s, until(row)) {
				return
			}
		}
	}}
	if c := r.meta.Concurrency; c != nil {
		turns := 0
		for range l.Turns {
			turns++
		}
		if turns > 0 {
			l.Longest = float64(*c) / float64(turns) * float64(a.w.length()) / 1e9
		}
	}
	var waiting, samples float64
	for _, p := range r.parts {
		err := p.eachSample(context.Background(), func(s *schemas.Sample) {
			if s.Name == "waiting" && a.w.during(s.TimeNS+p.shiftNS) {
				samples++
				if s.Value > 0 {
					waiting++
				}
			}
		})
		if err != nil { // figures do not need the telemetry
			return l
		}
	}
	if samples > 0 {
		l.Waiting = waiting / samples
	}
	return l
}

func newRunResult(r *run, f *frame, w window) *RunResult {
	first, last, _ := f.extent(r)
	res := &RunResult{
		Label: r.label, RunID: r.meta.RunID, Unfinished: r.unfinished(), Simulated: r.meta.Simulated,
		Ended: r.meta.Ended, Origin: r.meta.Origin, Duration: Num(float64(max(last-first, 0)) / 1e9),
		ToolVer: r.meta.ToolVersion, Seed: r.meta.Seed, Config: r.meta.Config, Dataset: r.meta.Dataset,
		Targets: r.meta.Targets, Clock: r.meta.Clock, Host: r.meta.Host, Health: r.meta.Health,
		Calibrated: r.meta.Calibration, Window: w.result,
		Offered: r.meta.OfferedRate, Concurrency: r.meta.Concurrency, Plan: r.meta.Plan,
	}
	for _, p := range r.parts {
		res.Files = append(res.Files, p.path)
	}
	return res
}

// checkRows notes what is missing from the rows.
func (r *run) checkRows(f *frame) {
	for _, state := range f.journal {
		for _, d := range state.Damage {
			r.warn("damaged_journal", "%s", d)
		}
	}
	f.journal = nil
	for _, w := range r.meta.Warnings {
		r.warn("run", "%s", w)
	}
	r.meta.Warnings = nil
}

// neededColumns lists what must be read for the options.
func neededColumns(o *Options) []string {
	names := slices.Concat(baseColumns, tokenColumns, []string{"think_time_ms"})
	for i := range rowFigures {
		if o.wants(rowFigures[i].name) || o.objective(rowFigures[i].name) > 0 {
			names = append(names, rowFigures[i].columns...)
		}
	}
	for _, g := range o.By {
		names = append(names, g.columns()...)
	}
	return names
}

// population is rows of which the same figures are worked out.
type population struct {
	inWindow []int32 // sent in the window
	all      []int32 // of any moment and phase, of which something may count in rates
	w        *window // of its rates
	arrived  int64   // tokens that arrived in it
	Group
}

// work works out the figures of populations, all of them by one column before the next, so that each is read once.
func (a *analysis) work(ctx context.Context, pops []*population) error {
	rows := 0
	each := func(do func(p *population)) {
		for _, p := range pops {
			do(p)
		}
	}
	counts := countsOf(a.f)
	each(func(p *population) {
		rows = max(rows, len(p.all))
		p.Counts = counts(p.inWindow, p.w)
	})
	rates := func() {
		sums := tokenSums(a.f)
		each(func(p *population) { p.Tokens = sums(p.inWindow) })
		through := throughput(a.f)
		each(func(p *population) { p.Throughput = through(p.all, p.w, p.arrived) })
		if len(a.o.Objectives) > 0 {
			good := a.goodput()
			each(func(p *population) { p.Goodput = good(p) })
		}
	}
	var wg sync.WaitGroup
	alone := rows < stat.RadixFrom || a.f.rows >= manyRows // not worth a goroutine, or its memory
	if alone {
		rates()
	} else {
		wg.Go(rates)
	}
	a.rowFigures(pops, alone)
	wg.Wait()
	each(func(p *population) {
		if tpot := p.Figure("tpot"); tpot != nil && tpot.Mean > 0 {
			p.Throughput.TokensPerUser = 1000 / tpot.Mean
		}
	})
	return ctx.Err()
}

// manyRows is from how many rows on memory counts more than time: figures are worked out one after the other.
var manyRows = 3_000_000

// rowFigures works out the figures of turns, several at once unless alone.
func (a *analysis) rowFigures(pops []*population, alone bool) {
	var wanted []*figure
	for i := range rowFigures {
		if fig := &rowFigures[i]; a.o.wants(fig.name) && fig.name != "ttft_"+string(a.o.From) {
			wanted = append(wanted, fig)
		}
	}
	for _, p := range pops {
		p.Figures = make([]Figure, len(wanted))
	}
	work := func(s *scratch, i int) {
		fig := wanted[i]
		value := fig.values(a.f, a.o)
		for _, p := range pops {
			a.rowFigure(s, fig, value, p, &p.Figures[i])
		}
	}
	workers := runtime.GOMAXPROCS(0)
	if alone {
		workers = 1
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, len(wanted)) {
		wg.Go(func() {
			var s scratch
			for i := range next {
				work(&s, i)
			}
		})
	}
	for i := range wanted {
		next <- i
	}
	close(next)
	wg.Wait()
}

// rowFigure works out a figure of one population.
func (a *analysis) rowFigure(s *scratch, fig *figure, value func(row int) float64, p *population, out *Figure) {
	each := func(yield func(v float64, row int32)) {
		for _, row := range p.inWindow {
			if !a.in[row] {
				continue
			}
			if v := value(int(row)); v == v && !(fig.perToken && a.bursts(int(row))) {
				yield(v, row)
			}
		}
	}
	many := len(p.inWindow) >= manyRows
	in := stat.Sample{Values: s.in.Values[:0], Cluster: s.in.Cluster[:0], Block: s.in.Block[:0]}
	if many {
		in.Values = slices.Grow(in.Values, len(p.inWindow))
	}
	each(func(v float64, row int32) {
		in.Values = append(in.Values, v)
		if !many {
			in.Cluster = append(in.Cluster, a.f.conv[row])
			in.Block = append(in.Block, a.block[row])
		}
	})
	s.in = in
	if many {
		in.Clusters = a.f.convs
		in.Again = func(yield func(float64, int32, uint8)) {
			each(func(v float64, row int32) { yield(v, a.f.conv[row], a.block[row]) })
		}
	}
	failed := -1
	if fig.aware {
		failed = int(p.Counts.Failed)
	}
	*out = Figure{Name: fig.name, Title: fig.title, Unit: fig.unit, Population: popCompleted}
	switch {
	case fig.perToken:
		out.Population = a.perTokenPopulation(p.inWindow)
	case fig.wholeAnswer && p.Counts.Censored > 0:
		// Those were the long ones: what is left favours short answers.
		out.Population += fmt.Sprintf("; %d turns that the run stopped are left out, and would have taken longer", p.Counts.Censored)
	}
	s.summarize(out, in, failed, a)
}

// addTotals adds the figures that only the total has, and the chunk figures.
func (a *analysis) addTotals(g *Group) {
	g.Throughput.PeakActive = peakActive(a.f, &a.w)
	a.rateIntervals(&g.Throughput)
	if !a.w.turns {
		g.Throughput.PeakTokenRate = a.chunks.bestSecond(&a.w)
	}
	if a.o.wants(figITL) || a.o.wants(figChunkGap) {
		if c := a.chunks; c.gap.counted == nil {
			a.addChunkFigures(g, c.gap.sample(a), c.itl.sample(a))
		} else {
			gap, itl := a.chunkFigure(figChunkGap), a.chunkFigure(figITL)
			for f, v := range map[*Figure]*gapValues{gap: &c.gap, itl: &c.itl} {
				sum := stat.SummarizeBlocks(v.counted.all(), &v.counted.blocks, sharesOf(a.o.Percentiles), a.sw, int(g.Counts.Conversations), float64(c.turns[0]), a.o.NoIntervals)
				f.fill(&sum, a.o.Percentiles, float64(c.turns[0]))
				f.RelativeError = stat.RelativeError
			}
			g.insertChunks(a.o, gap, itl)
		}
	}
	g.Fluidity = a.fluidity(0)
	with, without := a.conversationTimes()
	for _, c := range []struct {
		name, title string
		sample      stat.Sample
	}{
		{figConvTime, "Conversation", with},
		{figConvBusy, "Conversation without think time", without},
	} {
		if a.o.wants(c.name) {
			fig := Figure{Name: c.name, Title: c.title, Unit: "ms", Population: "conversations whose turns all completed"}
			var s scratch
			s.summarize(&fig, c.sample, -1, a)
			g.Figures = append(g.Figures, fig)
		}
	}
}

func (a *analysis) chunkFigure(name string) *Figure {
	fig := &Figure{Name: name, Unit: "ms"}
	if name == figChunkGap {
		fig.Title, fig.Population = "Chunk gap", "gaps between chunks of completed turns"
		return fig
	}
	fig.Title, fig.Population = "ITL", "tokens after the first chunk of completed turns"
	if c := a.chunks; c.estimated > 0 {
		fig.Population += fmt.Sprintf("; estimated: %d of %d turns have no token counts per chunk, their tokens are spread evenly over their chunks", c.estimated, c.rows)
	}
	if c := a.chunks; c.bursts > 0 {
		fig.Population += fmt.Sprintf("; %d answers that came in one piece or in bursts left out", c.bursts)
	}
	return fig
}

// bursts says whether a turn's answer came in one piece or in bursts, so that its chunk times say nothing
// of the time per token.
func (a *analysis) bursts(row int) bool { return a.chunks.burst[row] }

// perTokenPopulation says which turns a time per token covers.
func (a *analysis) perTokenPopulation(rows []int32) string {
	hidden, bursts := 0, 0
	for _, row := range rows {
		if !a.in[row] {
			continue
		}
		if a.bursts(int(row)) {
			bursts++
		} else if a.f.hidden(int(row)) > 0 {
			hidden++
		}
	}
	text := popCompleted
	if hidden > 0 {
		text += fmt.Sprintf("; over the streamed tokens only in %d turns that hid their reasoning", hidden)
	}
	if bursts > 0 {
		text += fmt.Sprintf("; %d answers that came in one piece or in bursts left out", bursts)
	}
	return text
}

// addChunkFigures adds the chunk gap and the ITL of a population.
func (a *analysis) addChunkFigures(g *Group, gaps, itls stat.Sample) {
	var s scratch
	gap, itl := a.chunkFigure(figChunkGap), a.chunkFigure(figITL)
	s.summarize(gap, gaps, -1, a)
	s.summarize(itl, itls, -1, a)
	g.insertChunks(a.o, gap, itl)
}

// insertChunks puts the chunk figures behind TPOT.
func (g *Group) insertChunks(o *Options, gap, itl *Figure) {
	at := slices.IndexFunc(g.Figures, func(f Figure) bool { return f.Name == "e2e" })
	if at < 0 {
		at = len(g.Figures)
	}
	if o.wants(figChunkGap) {
		g.Figures = slices.Insert(g.Figures, at, *gap)
	}
	if o.wants(figITL) {
		g.Figures = slices.Insert(g.Figures, at, *itl)
	}
}

func (a *analysis) fluidity(group int) *Fluidity {
	c := a.chunks.fluid[group]
	ttft, tpot := a.o.objective("ttft"), a.o.objective("tpot")
	if c.tokens == 0 || ttft <= 0 || tpot <= 0 {
		return nil
	}
	return &Fluidity{
		Share: Num(float64(c.inTime) / float64(c.tokens)), Tokens: c.tokens,
		Good: Num(float64(c.good) / float64(c.turns)), TTFT: Num(ttft), PerToken: Num(tpot),
	}
}

// addPhases adds the figures of each phase where there are several, over the time from its first send to its
// last end.
func (a *analysis) addPhases(ctx context.Context, res *RunResult) error {
	phase := a.f.strs("phase")
	if len(phase.Values) < 2 {
		return nil
	}
	for code, name := range phase.Values {
		b := *a
		b.in = make([]bool, a.f.rows)
		var rows []int32
		b.w = window{last: math.MaxInt64, all: true}
		from, to := int64(math.MaxInt64), int64(math.MinInt64)
		for row := range a.f.rows {
			if phase.Codes[row] != int32(code) {
				continue
			}
			rows = append(rows, int32(row))
			b.in[row] = a.f.status[row] == statusOK
			if e := a.f.end[row]; e != schemas.NullInt {
				from, to = min(from, a.f.moment[row]), max(to, e+1)
			}
		}
		if from < to {
			b.w.from, b.w.to = from, to
		}
		b.w.spans = []span{{b.w.from, b.w.to, anyStage}}
		b.measure(stat.Window{From: b.w.from, To: b.w.to, Tau: math.NaN()})
		p := &population{inWindow: rows, all: rows, w: &b.w, arrived: a.chunks.phase[code], Group: Group{Keys: []Key{{"phase", name, Missing, Missing}}}}
		if err := b.work(ctx, []*population{p}); err != nil {
			return err
		}
		res.Phases = append(res.Phases, p.Group)
	}
	return nil
}

// addGroups adds the figures of the groups asked for. Groups of which nothing happened in the window are left out.
func (a *analysis) addGroups(ctx context.Context, res *RunResult, groups *groups, inWindow []int32) error {
	n := len(groups.keys)
	windowRows, rateRows := divide(inWindow, groups.id, n), groups.rateRows(a.f, a.rows)
	var gaps, itls []stat.Sample
	c := a.chunks
	wanted := a.o.wants(figITL) || a.o.wants(figChunkGap)
	if wanted && c.gap.counted == nil {
		gaps, itls = c.gap.split(a, groups.id, n), c.itl.split(a, groups.id, n)
	}
	var pops []*population
	var at []int
	for i, keys := range groups.keys {
		if c.arrived[i+1] > 0 || a.came(windowRows[i], groups.told) {
			at = append(at, i)
			pops = append(pops, &population{inWindow: windowRows[i], all: rateRows[i], w: groups.windowOf(i, &a.w), arrived: c.arrived[i+1], Group: Group{Keys: keys}})
		}
	}
	if err := a.work(ctx, pops); err != nil {
		return err
	}
	for k, p := range pops {
		g, i := &p.Group, at[k]
		if gaps != nil {
			a.addChunkFigures(g, gaps[i], itls[i])
		} else if wanted {
			gap, itl := a.chunkFigure(figChunkGap), a.chunkFigure(figITL)
			for f, v := range map[*Figure]*gapValues{gap: &c.gap, itl: &c.itl} {
				sum := stat.SummarizeHistogram(&v.counted.groups[i], sharesOf(a.o.Percentiles))
				sum.Clusters = int(g.Counts.Conversations)
				f.fill(&sum, a.o.Percentiles, float64(c.turns[i+1]))
				f.RelativeError = stat.RelativeError
			}
			g.insertChunks(a.o, gap, itl)
		}
		g.Fluidity = a.fluidity(i + 1)
		res.Groups = append(res.Groups, *g)
	}
	return nil
}

// came says whether there is something to tell of rows: whether one of them is more than a turn that the end of the run
// left over. Groups of how turns ended (told) tell of those as well.
func (a *analysis) came(rows []int32, told bool) bool {
	return slices.ContainsFunc(rows, func(row int32) bool {
		return told || schemas.Statuses[a.f.status[row]] != schemas.StatusNotReached
	})
}

// divide sorts rows into groups.
func divide(rows, group []int32, groups int) [][]int32 {
	counts := make([]int, groups)
	for _, row := range rows {
		counts[group[row]]++
	}
	all := make([]int32, len(rows))
	out := make([][]int32, groups)
	at := 0
	for g, n := range counts {
		out[g] = all[at : at : at+n]
		at += n
	}
	for _, row := range rows {
		out[group[row]] = append(out[group[row]], row)
	}
	return out
}

// Summary analyzes the journal of a run that has just ended, whose final metadata is meta, so that the
// verdict can stand in the metadata of the file that the journal becomes.
func Summary(ctx context.Context, journal string, meta *schemas.RunMeta, o Options) (*Result, error) {
	runs, err := loadJournal(journal, *meta)
	if err != nil {
		return nil, err
	}
	res, err := Analyze(ctx, runs, o)
	return res, errors.Join(err, runs.Close())
}
