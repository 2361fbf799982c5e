package analyze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"parley/analyze/stat"
	"parley/schemas"
)

// PlotOptions bounds how much a report draws. Zero values give the defaults.
type PlotOptions struct {
	Points  int // of a cloud or a curve; 4000
	Lanes   int // conversations in the swim-lanes; 200
	Turns   int // turns in all lanes; 8000
	Seconds int // steps of the series per second, above which steps get longer; 1200
}

func (o PlotOptions) withDefaults() PlotOptions {
	o.Points = cmp.Or(o.Points, 4000)
	o.Lanes = cmp.Or(o.Lanes, 200)
	o.Turns = cmp.Or(o.Turns, 8000)
	o.Seconds = cmp.Or(o.Seconds, 1200)
	return o
}

// plotted are the figures of plots over time, of distributions, and along turns and context.
var (
	plottedOverTime = []string{"ttft", "e2e", "tpot", "send_lag"}
	plottedCDFs     = []string{"ttft", "tpot", "e2e"}
	plottedBands    = []string{"ttft", "tpot", "e2e"}
)

// BuildPlots makes the series of a report from the runs of an analysis, with the options that it had.
func BuildPlots(ctx context.Context, runs *Runs, res *Result, o Options, p PlotOptions) (*Plots, error) {
	o, p = o.withDefaults(), p.withDefaults()
	if len(res.Runs) != runs.Len() {
		return nil, fmt.Errorf("the result is of %d runs, not of these %d", len(res.Runs), runs.Len())
	}
	out := &Plots{}
	for i, r := range runs.list {
		plots, err := plotRun(ctx, r, &res.Runs[i], &o, p)
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, *plots)
	}
	return out, nil
}

type plotter struct {
	analysis
	p PlotOptions
}

func plotRun(ctx context.Context, r *run, res *RunResult, o *Options, p PlotOptions) (*RunPlots, error) {
	names := neededColumns(o)
	for _, list := range [][]string{plottedOverTime, plottedCDFs, plottedBands} {
		for _, name := range list {
			names = append(names, rowFigure(name).columns...)
		}
	}
	f, err := r.read(ctx, names)
	if err != nil {
		return nil, err
	}
	pl := &plotter{analysis{o: o, run: r, f: f}, p}
	if pl.w, _, err = findWindow(r, f, o.Window); err != nil {
		return nil, err
	}
	pl.measure(stat.Window{From: pl.w.from, To: pl.w.to, Tau: math.NaN()})
	pl.in = make([]bool, f.rows)
	for row := range f.rows {
		pl.in[row] = f.main[row] && f.status[row] == statusOK && pl.w.holds(f, row)
	}
	if pl.chunks = r.chunks; pl.chunks == nil {
		return nil, fmt.Errorf("run %s has not been analyzed", r.label)
	}
	out := &RunPlots{Label: res.Label, WindowFrom: res.Window.From, WindowTo: res.Window.To, CacheTurns: res.CacheTurns}
	for _, name := range plottedOverTime {
		out.OverTime = append(out.OverTime, pl.overTime(name))
	}
	out.Failures = pl.failures()
	out.CDFs = pl.cdfs()
	for _, name := range plottedBands {
		out.ByTurn = append(out.ByTurn, pl.bands(name, GroupSpec{Column: "turn"}))
		out.ByContext = append(out.ByContext, pl.bands(name, GroupSpec{Column: "prompt_tokens"}))
	}
	out.PerSecond = pl.perSecond()
	out.Lanes = pl.lanes()
	out.LanesOf = int64(f.convs)
	if out.Telemetry, err = readTelemetry(ctx, r, p.Points); err != nil {
		return nil, err
	}
	return out, errors.Join(f.err, ctx.Err())
}

func secondsOf(ns int64) Num {
	if ns == schemas.NullInt {
		return Missing
	}
	return Num(float64(ns) / 1e9)
}

// overTime gives a figure of the completed turns of all phases over their moments.
func (pl *plotter) overTime(name string) Points {
	fig := rowFigure(name)
	value := fig.values(pl.f, pl.o)
	out := Points{Figure: fig.name, Title: fig.title, Unit: fig.unit}
	var t []int64
	var v []float64
	for row := range pl.f.rows {
		if pl.f.status[row] != statusOK || pl.f.moment[row] == schemas.NullInt {
			continue
		}
		if x := value(row); x == x {
			t = append(t, pl.f.moment[row])
			v = append(v, x)
		}
	}
	out.Of = int64(len(t))
	for _, i := range thin(t, v, pl.p.Points) {
		out.T = append(out.T, secondsOf(t[i]))
		out.V = append(out.V, Num(v[i]))
	}
	return out
}

// thin chooses at most budget points, in order of time: of each of equal stretches of time the lowest and
// the highest, and one of those between, so that neither an extreme nor the look of the cloud is lost.
func thin(t []int64, v []float64, budget int) []int {
	order := make([]int, len(t))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t[a], t[b]) })
	if len(order) <= budget {
		return order
	}
	buckets := max(budget/3, 1)
	first, last := t[order[0]], t[order[len(order)-1]]
	var out []int
	for at := 0; at < len(order); {
		bucket := bucketOf(t[order[at]], first, last, buckets)
		end := at
		low, high := order[at], order[at]
		for end < len(order) && bucketOf(t[order[end]], first, last, buckets) == bucket {
			i := order[end]
			if v[i] < v[low] {
				low = i
			}
			if v[i] > v[high] {
				high = i
			}
			end++
		}
		chosen := []int{low, order[at+(end-at)/2], high}
		slices.SortFunc(chosen, func(a, b int) int { return cmp.Or(cmp.Compare(t[a], t[b]), cmp.Compare(a, b)) })
		out = append(out, slices.Compact(chosen)...)
		at = end
	}
	return out
}

func bucketOf(t, first, last int64, buckets int) int {
	if last <= first {
		return 0
	}
	return min(int(float64(t-first)/float64(last-first)*float64(buckets)), buckets-1)
}

// failures gives one point per failed or stopped turn: how long it had lasted.
func (pl *plotter) failures() Points {
	out := Points{Figure: "failures", Title: "Failed turns", Unit: "ms", Status: []string{}}
	var t []int64
	var v []float64
	var status []string
	for row := range pl.f.rows {
		s := schemas.Statuses[pl.f.status[row]]
		if pl.f.status[row] == statusOK || pl.f.moment[row] == schemas.NullInt || s == schemas.StatusNotReached {
			continue
		}
		lasted := 0.0
		if pl.f.end[row] != schemas.NullInt {
			lasted = float64(pl.f.end[row]-pl.f.moment[row]) / 1e6
		}
		t = append(t, pl.f.moment[row])
		v = append(v, lasted)
		status = append(status, string(s))
	}
	out.Of = int64(len(t))
	for _, i := range thin(t, v, pl.p.Points) {
		out.T = append(out.T, secondsOf(t[i]))
		out.V = append(out.V, Num(v[i]))
		out.Status = append(out.Status, status[i])
	}
	return out
}

// cdfs gives the distributions in the window.
func (pl *plotter) cdfs() []Curve {
	var out []Curve
	for _, name := range plottedCDFs {
		fig := rowFigure(name)
		value := fig.values(pl.f, pl.o)
		var v []float64
		for row := range pl.f.rows {
			if pl.in[row] {
				if x := value(row); x == x {
					v = append(v, x)
				}
			}
		}
		c := Curve{Figure: fig.name, Title: fig.title, Unit: fig.unit, N: int64(len(v))}
		c.fromSorted(stat.Sort(v, nil), pl.p.Points/8)
		out = append(out, c)
	}
	for _, name := range []string{figITL, figChunkGap} {
		if !pl.o.wants(figITL) && !pl.o.wants(figChunkGap) {
			break
		}
		fig := pl.chunkFigure(name)
		c := Curve{Figure: name, Title: fig.Title, Unit: fig.Unit}
		v := &pl.chunks.itl
		if name == figChunkGap {
			v = &pl.chunks.gap
		}
		if v.counted == nil {
			c.N = int64(len(v.values))
			c.fromSorted(stat.Sort(slices.Clone(v.values), nil), pl.p.Points/8)
		} else {
			all := v.counted.all()
			c.N = int64(all.N())
			shares := curveShares(pl.p.Points / 8)
			for i, x := range all.Quantiles(shares...) {
				c.Value, c.Share = append(c.Value, Num(x)), append(c.Share, Num(shares[i]))
			}
		}
		out = append(out, c)
	}
	return out
}

// fromSorted thins a distribution: every value where they are few, else even steps that get finer towards
// both ends, down to the extremes.
func (c *Curve) fromSorted(sorted []float64, points int) {
	n := len(sorted)
	if n == 0 {
		return
	}
	if n <= points {
		for i, v := range sorted {
			c.Value, c.Share = append(c.Value, Num(v)), append(c.Share, Num(float64(i+1)/float64(n)))
		}
		return
	}
	for _, q := range curveShares(points) {
		i := min(int(math.Round(q*float64(n-1))), n-1)
		share := Num(float64(i+1) / float64(n))
		if len(c.Share) == 0 || share > c.Share[len(c.Share)-1] {
			c.Value, c.Share = append(c.Value, Num(sorted[i])), append(c.Share, share)
		}
	}
}

// curveShares gives shares from 0 to 1, dense at the ends.
func curveShares(points int) []float64 {
	points = max(points, 16)
	out := make([]float64, 0, points)
	for i := range points {
		x := float64(i) / float64(points-1)
		out = append(out, (1-math.Cos(math.Pi*x))/2)
	}
	for _, tail := range []float64{1e-4, 1e-5, 1e-6} {
		out = append(out, 1-tail)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bands gives percentiles along a number.
func (pl *plotter) bands(name string, by GroupSpec) Bands {
	fig := rowFigure(name)
	out := Bands{Figure: fig.name, Title: fig.title, Unit: fig.unit, XName: by.Column}
	groups, err := groupRows(pl.f, by, pl.w)
	if err != nil { // more groups than can be drawn
		return out
	}
	value := fig.values(pl.f, pl.o)
	samples := make([]stat.Sample, len(groups.keys))
	for row := range pl.f.rows {
		if !pl.in[row] {
			continue
		}
		if x := value(row); x == x {
			s := &samples[groups.id[row]]
			s.Values = append(s.Values, x)
			s.Cluster = append(s.Cluster, pl.f.conv[row])
			s.Block = append(s.Block, pl.block[row])
		}
	}
	var scratch stat.Scratch
	for i, k := range groups.keys {
		if len(samples[i].Values) == 0 || !k.Low.Known() && !k.High.Known() {
			continue
		}
		s := scratch.Summarize(samples[i], []float64{0.5, 0.9, 0.99}, pl.sw, false)
		x := k.Low
		if k.High.Known() && k.High > k.Low {
			x = (k.Low + k.High) / 2
		}
		out.X, out.Low, out.High = append(out.X, x), append(out.Low, k.Low), append(out.High, k.High)
		out.N, out.Mean = append(out.N, int64(s.N)), append(out.Mean, Num(s.Mean.Value))
		for at, to := range []*[]Num{&out.P50, &out.P90, &out.P99} {
			v := Missing // a line through what the bin cannot carry would mislead
			if s.Quantiles[at].Carried {
				v = Num(s.Quantiles[at].Value)
			}
			*to = append(*to, v)
		}
	}
	return out
}

// lanes gives conversations from all parts of the run: evenly chosen in order of their start.
func (pl *plotter) lanes() []Lane {
	begin, end := pl.f.conversationSpans(nil)
	var order []int32
	for c := range begin {
		if end[c] >= begin[c] {
			order = append(order, int32(c))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(begin[a], begin[b]), cmp.Compare(a, b)) })
	chosen := map[int32]int{}
	lanes := min(pl.p.Lanes, len(order))
	for i := range lanes {
		chosen[order[i*len(order)/lanes]] = i
	}
	out := make([]Lane, lanes)
	ids, instance := pl.f.strs("conversation_id"), pl.f.ints("instance")
	prompt, completion := pl.f.ints("prompt_tokens"), pl.f.ints("completion_tokens")
	scheduled, sent, first := pl.f.ints("scheduled_ns"), pl.f.ints("sent_ns"), pl.f.ints("first_token_ns")
	number := func(v int64) Num {
		if v == schemas.NullInt {
			return Missing
		}
		return Num(v)
	}
	turns := 0
	for row := range pl.f.rows {
		lane, ok := chosen[pl.f.conv[row]]
		if !ok || pl.f.end[row] == schemas.NullInt || turns >= pl.p.Turns {
			continue
		}
		turns++
		l := &out[lane]
		if c := ids.Codes[row]; c >= 0 {
			l.Conversation = ids.Values[c]
		}
		l.Instance = instance[row]
		l.Turns = append(l.Turns, Span{
			Turn: int64(pl.f.turn[row]), Status: string(schemas.Statuses[pl.f.status[row]]),
			Scheduled: secondsOf(scheduled[row]), Sent: secondsOf(sent[row]), First: secondsOf(first[row]), End: secondsOf(pl.f.end[row]),
			Prompt: number(prompt[row]), Output: number(completion[row]),
		})
	}
	for i := range out {
		slices.SortFunc(out[i].Turns, func(a, b Span) int { return cmp.Compare(a.Turn, b.Turn) })
	}
	return slices.DeleteFunc(out, func(l Lane) bool { return len(l.Turns) == 0 })
}
