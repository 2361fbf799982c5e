package analyze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"

	"parley/analyze/plots"
	"parley/analyze/stat"
	"parley/schemas"
)

// What the plots of a report are made of: package plots makes them, from the columns here.

// plotted are the figures of plots over time, of distributions, and along turns and context.
var (
	plottedOverTime = []string{"ttft", "e2e", "tpot", "send_lag"}
	plottedCDFs     = []string{"ttft", "tpot", "e2e"}
	plottedBands    = []string{"ttft", "tpot", "e2e"}
)

// BuildPlots makes the series of a report from the runs of an analysis, with the options that it had.
func BuildPlots(ctx context.Context, runs *Runs, res *Result, o Options, b plots.Budget) (*plots.Plots, error) {
	o, b = o.withDefaults(), b.WithDefaults()
	if len(res.Runs) != runs.Len() {
		return nil, fmt.Errorf("the result is of %d runs, not of these %d", len(res.Runs), runs.Len())
	}
	out := &plots.Plots{}
	for i, r := range runs.list {
		run, err := plotRun(ctx, r, &res.Runs[i], &o, b)
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, *run)
	}
	return out, nil
}

type plotter struct {
	analysis
	b plots.Budget
}

func plotRun(ctx context.Context, r *run, res *RunResult, o *Options, budget plots.Budget) (*plots.RunPlots, error) {
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
	pl := &plotter{analysis{o: o, run: r, f: f}, budget}
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
	out := &plots.RunPlots{Label: res.Label, WindowFrom: res.Window.From, WindowTo: res.Window.To, CacheTurns: res.CacheTurns}
	for _, name := range plottedOverTime {
		out.OverTime = append(out.OverTime, pl.overTime(name))
	}
	out.Failures = pl.failures()
	out.CDFs = pl.cdfs()
	for _, name := range plottedBands {
		out.ByTurn = append(out.ByTurn, pl.bands(name, GroupSpec{Column: "turn"}))
		out.ByContext = append(out.ByContext, pl.bands(name, GroupSpec{Column: "prompt_tokens"}))
	}
	_, last, _ := f.extent(r)
	out.PerSecond = plots.NewPerSecond(pl.turns(), f.convs, last, pl.chunks.series, pl.chunks.step, budget.Seconds)
	out.Lanes = plots.NewLanes(pl.turns(), f.convs, budget)
	out.LanesOf = int64(f.convs)
	if out.Telemetry, err = readTelemetry(ctx, r, budget.Points/4); err != nil {
		return nil, err
	}
	return out, errors.Join(f.err, ctx.Err())
}

// turns gives the run's turns as plots need them.
func (pl *plotter) turns() iter.Seq[plots.Turn] {
	f := pl.f
	return func(yield func(plots.Turn) bool) {
		ids, instance, prompt, completion := f.strs("conversation_id"), f.ints("instance"), f.ints("prompt_tokens"), f.ints("completion_tokens")
		scheduled, sent, first := f.ints("scheduled_ns"), f.ints("sent_ns"), f.ints("first_token_ns")
		ttft := rowFigure("ttft").values(f, pl.o)
		for row := range f.rows {
			t := plots.Turn{
				Session: f.conv[row], Instance: instance[row], Index: int64(f.turn[row]), Status: schemas.Statuses[f.status[row]],
				Moment: f.moment[row], Scheduled: scheduled[row], Sent: sent[row], First: first[row], End: f.end[row], TTFT: ttft(row),
				Prompt: prompt[row], Output: completion[row],
			}
			if c := ids.Codes[row]; c >= 0 {
				t.Conversation = ids.Values[c]
			}
			if !yield(t) {
				return
			}
		}
	}
}

// overTime gives a figure of the completed turns of all phases over their moments.
func (pl *plotter) overTime(name string) plots.Points {
	fig := rowFigure(name)
	value := fig.values(pl.f, pl.o)
	var t []int64
	var v []float64
	for row := range pl.f.rows {
		if pl.f.status[row] != statusOK || pl.f.moment[row] == schemas.NullInt {
			continue
		}
		if x := value(row); x == x {
			t, v = append(t, pl.f.moment[row]), append(v, x)
		}
	}
	return plots.NewPoints(fig.name, fig.title, fig.unit, t, v, nil, pl.b.Points)
}

// failures gives one point per failed or stopped turn: how long it had lasted.
func (pl *plotter) failures() plots.Points {
	var t []int64
	var v []float64
	status := []string{}
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
	return plots.NewPoints("failures", "Failed turns", "ms", t, v, status, pl.b.Points)
}

// cdfs gives the distributions in the window.
func (pl *plotter) cdfs() []plots.Curve {
	points := pl.b.Points / 8
	var out []plots.Curve
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
		out = append(out, plots.NewCurve(fig.name, fig.title, fig.unit, stat.Sort(v, nil), points))
	}
	for _, name := range []string{figITL, figChunkGap} {
		if !pl.o.wants(figITL) && !pl.o.wants(figChunkGap) {
			break
		}
		fig := pl.chunkFigure(name)
		v := &pl.chunks.itl
		if name == figChunkGap {
			v = &pl.chunks.gap
		}
		if v.counted == nil {
			out = append(out, plots.NewCurve(name, fig.Title, fig.Unit, stat.Sort(slices.Clone(v.values), nil), points))
		} else {
			out = append(out, plots.CountedCurve(name, fig.Title, fig.Unit, v.counted.all(), points))
		}
	}
	return out
}

// bands gives percentiles along a number.
func (pl *plotter) bands(name string, by GroupSpec) plots.Bands {
	fig := rowFigure(name)
	out := plots.Bands{Figure: fig.name, Title: fig.title, Unit: fig.unit, XName: by.Column}
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
		out.Add(k.Low, k.High, samples[i], pl.sw, &scratch)
	}
	return out
}

// readTelemetry gives the series of the telemetry that stands beside the run's files, thinned. A run
// without telemetry has none; a telemetry file that is named in the metadata but gone is a warning's
// matter, not an error's: the figures do not need it.
func readTelemetry(ctx context.Context, r *run, budget int) ([]plots.TelemetrySeries, error) {
	type key struct{ source, name string }
	type raw struct {
		t []int64
		v []float64
	}
	series := map[key]*raw{}
	add := func(s *schemas.Sample, shift int64) {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			return
		}
		k := key{s.Source, s.Name}
		if series[k] == nil {
			series[k] = &raw{}
		}
		series[k].t = append(series[k].t, s.TimeNS+shift)
		series[k].v = append(series[k].v, s.Value)
	}
	for _, p := range r.parts {
		if err := p.eachSample(ctx, func(s *schemas.Sample) { add(s, p.shiftNS) }); err != nil {
			return nil, err
		}
	}
	var out []plots.TelemetrySeries
	for k, s := range series {
		out = append(out, plots.NewTelemetry(k.source, k.name, s.t, s.v, budget))
	}
	slices.SortFunc(out, func(a, b plots.TelemetrySeries) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// eachSample gives the telemetry of a part.
func (p *part) eachSample(ctx context.Context, each func(*schemas.Sample)) error {
	if p.memory != nil {
		return nil
	}
	if p.file == nil {
		_, err := schemas.ReadJournalSamples(p.path, func(rows []schemas.Sample) error {
			for i := range rows {
				each(&rows[i])
			}
			return ctx.Err()
		})
		return err
	}
	if p.meta.Telemetry == "" {
		return nil
	}
	// The name in the metadata, and only in the folder of the run: metadata must not lead elsewhere.
	path := filepath.Join(filepath.Dir(p.path), filepath.Base(p.meta.Telemetry))
	if renamed := schemas.TelemetryPath(p.path); !exists(path) {
		path = renamed
	}
	if !exists(path) {
		return nil
	}
	f, err := schemas.Open[schemas.Sample](path)
	if err != nil {
		return err
	}
	defer f.Close()
	for s, err := range f.Rows(0) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		each(&s)
	}
	return nil
}
