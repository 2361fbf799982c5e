package analyze

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"parley/analyze/stat"
	"parley/schemas"
)

// perSecond gives the series of the whole run, all phases, in steps of a second or of more where the run
// is long.
func (pl *plotter) perSecond() PerSecond {
	_, last, _ := pl.f.extent(pl.run)
	stepS := int64(1)
	for last/1e9/stepS > int64(pl.p.Seconds) {
		stepS = int64(niceWidth(float64(stepS) + 1))
	}
	step := stepS * 1e9
	n := int(last/step) + 1
	out := PerSecond{Step: Num(stepS)}
	zeros := func() []Num { return make([]Num, n) }
	out.Started, out.Completed, out.Failed = zeros(), zeros(), zeros()
	out.PromptTokens, out.CompletionTokens = zeros(), zeros()
	at := func(ns int64) int {
		if ns < 0 || ns == schemas.NullInt || ns > last {
			return -1
		}
		return int(ns / step)
	}
	add := func(series []Num, ns int64, v float64) {
		if i := at(ns); i >= 0 {
			series[i] += Num(v)
		}
	}
	sent, prompt := pl.f.ints("sent_ns"), pl.f.ints("prompt_tokens")
	ttft := rowFigure("ttft").values(pl.f, pl.o)
	firsts := make([][]float64, n)
	var starts, ends []int64
	for row := range pl.f.rows {
		add(out.Started, sent[row], 1)
		ok := pl.f.status[row] == statusOK
		switch {
		case ok:
			add(out.Completed, pl.f.end[row], 1)
			if i := at(pl.f.moment[row]); i >= 0 {
				if v := ttft(row); v == v {
					firsts[i] = append(firsts[i], v)
				}
			}
		case pl.f.failed(row):
			add(out.Failed, pl.f.end[row], 1)
		}
		if v := prompt[row]; ok && v != schemas.NullInt {
			add(out.PromptTokens, pl.f.end[row], float64(v))
		}
		if s, e := sent[row], pl.f.end[row]; s != schemas.NullInt && e > s {
			starts, ends = append(starts, s), append(ends, e)
		}
	}
	for i, n := range pl.chunks.series {
		add(out.CompletionTokens, int64(i)*pl.chunks.step, float64(n))
	}
	for _, series := range [][]Num{out.Started, out.Completed, out.Failed, out.PromptTokens, out.CompletionTokens} {
		for i := range series {
			series[i] /= Num(stepS)
		}
	}
	out.InFlight, out.InFlightPeak = stepLevels(levels(starts, ends), step, n)
	out.Conversations, _ = stepLevels(activeSteps(pl.f.conversationSpans(nil)), step, n)
	for i := range n {
		out.T = append(out.T, Num(int64(i)*stepS))
		p50, high := Missing, Missing
		if v := firsts[i]; len(v) > 0 {
			slices.Sort(v)
			p50, high = Num(stat.Quantile(v, 0.5)), Num(v[len(v)-1])
		}
		out.TTFTP50, out.TTFTMax = append(out.TTFTP50, p50), append(out.TTFTMax, high)
	}
	return out
}

// stepLevels gives the mean and the peak of a level in each of n steps of time.
func stepLevels(levels []step, width int64, n int) (mean, peak []Num) {
	mean, peak = make([]Num, n), make([]Num, n)
	for i, s := range levels {
		if i+1 == len(levels) {
			break
		}
		from, to := max(s.at, 0), levels[i+1].at
		for from < to {
			k := from / width
			if k >= int64(n) {
				break
			}
			end := min(to, (k+1)*width)
			mean[k] += Num(float64(s.level) * float64(end-from) / float64(width))
			peak[k] = max(peak[k], Num(s.level))
			from = end
		}
	}
	return mean, peak
}

// readTelemetry gives the series of the telemetry that stands beside the run's files, thinned. A run
// without telemetry has none; a telemetry file that is named in the metadata but gone is a warning's
// matter, not an error's: the figures do not need it.
func readTelemetry(ctx context.Context, r *run, budget int) ([]TelemetrySeries, error) {
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
	var out []TelemetrySeries
	for k, s := range series {
		ts := TelemetrySeries{Source: k.source, Name: k.name, Rate: counter(k.name), Of: int64(len(s.t))}
		t, v := s.t, s.v
		if ts.Rate {
			t, v = rate(t, v)
		}
		for _, i := range thin(t, v, budget/4) {
			ts.T, ts.V = append(ts.T, secondsOf(t[i])), append(ts.V, Num(v[i]))
		}
		out = append(out, ts)
	}
	slices.SortFunc(out, func(a, b TelemetrySeries) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// counter says whether a figure of the telemetry only rises. The client's counters say so in their names; the
// servers' go by the normalised names of scraping, which have no such ending.
func counter(name string) bool {
	switch name {
	case "prefix_cache_hits", "prefix_cache_queries", "preemptions", "generation_tokens", "prompt_tokens", "prompt_tokens_evaluated":
		return true
	}
	return strings.HasSuffix(name, "_total")
}

// rate turns a counter into its increase per second. A counter that fell was reset: it counts from 0.
func rate(t []int64, v []float64) ([]int64, []float64) {
	order := make([]int, len(t))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t[a], t[b]) })
	var times []int64
	var rates []float64
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if t[b] <= t[a] {
			continue
		}
		rise := v[b] - v[a]
		if rise < 0 {
			rise = v[b]
		}
		times = append(times, t[b])
		rates = append(rates, rise/(float64(t[b]-t[a])/1e9))
	}
	return times, rates
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
