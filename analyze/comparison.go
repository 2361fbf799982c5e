package analyze

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/analyze/compare"
	"parley/analyze/stat"
	"parley/schemas"
)

// Comparisons and gates are judged by package compare, from values. Here is how runs become such values,
// and which of them belong together.

// compareAll compares with the baseline, level by level, and checks the gates.
func compareAll(ctx context.Context, res *Result, runs *Runs, o *Options) error {
	if o.Baseline == nil && len(o.Gates) == 0 {
		return nil
	}
	cand := groupRuns(runs.list, o.Baseline != nil)
	if o.Baseline == nil {
		for _, group := range cand {
			checkGates(res, o, valuesOf(runs, res.Runs, group, o, false), nil)
		}
		return nil
	}
	plain := *o
	plain.By, plain.Baseline, plain.Gates = nil, nil, nil
	var results []RunResult
	for _, r := range o.Baseline.list {
		base, err := analyzeRun(ctx, r, &plain)
		if err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
		results = append(results, *base)
	}
	base := groupRuns(o.Baseline.list, true)
	if len(base) == 1 && len(cand) == 1 { // levels by other names, if any, are what is compared
		base[0].level = cand[0].level
	}
	var left []string
	of := make([]*compare.Comparison, len(cand)) // of each group; nil: the baseline has none like it
	for at, group := range cand {
		i := slices.IndexFunc(base, func(b runGroup) bool { return b.level == group.level })
		if i < 0 {
			left = append(left, group.level)
			continue
		}
		c := compare.New(valuesOf(o.Baseline, results, base[i], o, true), valuesOf(runs, res.Runs, group, o, true))
		if len(cand) > 1 {
			c.Level = group.level
		}
		c.Config = configChanges(groupOf(o.Baseline, base[i]), groupOf(runs, group))
		res.Comparisons = append(res.Comparisons, c)
		of[at] = c
	}
	if len(left) > 0 {
		res.Warnings = append(res.Warnings, Warning{"no_baseline", "the baseline has no run of " + strings.Join(left, ", ") + ": these are not compared"})
	}
	if len(res.Comparisons) == 0 {
		return fmt.Errorf("no run of the baseline has the load of one of the runs (%s): nothing to compare", strings.Join(left, ", "))
	}
	for _, r := range runs.list {
		if r.meta.RunID != "" && slices.ContainsFunc(o.Baseline.list, func(b *run) bool { return b.meta.RunID == r.meta.RunID }) {
			res.Warnings = append(res.Warnings, Warning{"own_baseline", fmt.Sprintf("%s is compared with itself: there is no difference to find", r.label)})
		}
	}
	compare.Decide(res.Comparisons...)
	for i, group := range cand {
		checkGates(res, o, valuesOf(runs, res.Runs, group, o, false), of[i])
	}
	return nil
}

func checkGates(res *Result, o *Options, runs []compare.Run, c *compare.Comparison) {
	for i := range o.Gates {
		res.Gates = append(res.Gates, o.Gates[i].Check(runs, c))
	}
}

// runGroup is runs of one load, by their places.
type runGroup struct {
	level string
	runs  []int
}

// groupRuns puts runs of one load together: by the level of their plan. Without a plan, the runs of a side of
// a comparison are one group; else runs of one label are, as in the table of spreads.
func groupRuns(list []*run, side bool) []runGroup {
	var out []runGroup
	var names []string
	for i, r := range list {
		level := r.meta.Level
		name := r.meta.Plan + "\x00" + level + "\x00" + r.meta.Side
		switch {
		case side:
			name = level
		case level == "" && r.meta.Label != "":
			name = "\x00\x00" + r.meta.Label
		case level == "":
			name = fmt.Sprint("\x00\x00\x00", i)
		}
		at := slices.Index(names, name)
		if at < 0 {
			at = len(names)
			names = append(names, name)
			out = append(out, runGroup{level: level})
		}
		out[at].runs = append(out[at].runs, i)
	}
	return out
}

func groupOf(runs *Runs, g runGroup) []*run {
	var out []*run
	for _, i := range g.runs {
		out = append(out, runs.list[i])
	}
	return out
}

// valuesOf makes the values of a group of runs; with their turns if they are to be compared.
func valuesOf(runs *Runs, results []RunResult, g runGroup, o *Options, turns bool) []compare.Run {
	var out []compare.Run
	for _, i := range g.runs {
		r, res := runs.list[i], &results[i]
		v := compare.Run{
			Label: r.label, RunID: r.meta.RunID, Grade: res.Verdict.Grade, Simulated: r.meta.Simulated, Figures: gateFigures(res),
			Pair: compare.Pair{Dataset: r.meta.Dataset.ContentHash, Level: r.meta.Level, Repeat: r.meta.Repeat, Seed: r.meta.Seed},
		}
		if turns {
			v.Turns, v.Others, v.Latency = r.turns(o)
		}
		out = append(out, v)
	}
	return out
}

// turns gives the completed turns in the window, with how many others awaited their first token when each was
// sent, and their latencies.
func (r *run) turns(o *Options) ([]compare.Turn, []int32, map[string][]float64) {
	f := r.frame
	w, _, _ := findWindow(r, f, o.Window) // its analysis told what is wrong with it
	ids, instance := f.strs("conversation_id"), f.ints("instance")
	sent, until, awaited := f.ints("sent_ns"), f.awaitedUntil(), make([]int64, f.rows)
	for row, s := range sent {
		if awaited[row] = schemas.NullInt; s != schemas.NullInt {
			awaited[row] = until(row)
		}
	}
	awaiting := stat.Awaiting(sent, awaited)
	var out []compare.Turn
	var others []int32
	latency := map[string][]float64{}
	values := map[string]func(int) float64{}
	for _, name := range compare.Latencies() {
		values[name] = rowFigure(name).values(f, o)
		latency[name] = nil
	}
	for row := range f.rows {
		if !f.main[row] || f.status[row] != statusOK || !w.holds(f, row) {
			continue
		}
		id := ""
		if c := ids.Codes[row]; c >= 0 {
			id = ids.Values[c]
		}
		out = append(out, compare.Turn{Conversation: id, Instance: instance[row], Index: int64(f.turn[row])})
		others = append(others, awaiting[row])
		for name, value := range values {
			latency[name] = append(latency[name], value(row))
		}
	}
	return out, others, latency
}

// awaitedUntil says until when a turn that was sent awaited its first token: to its end if none came.
func (f *frame) awaitedUntil() func(row int) int64 {
	first := f.ints("first_token_ns")
	return func(row int) int64 {
		if first[row] == schemas.NullInt {
			return f.end[row]
		}
		return first[row]
	}
}

// trials is how many independent trials the turns of a run count for, in whether they failed and whether they
// met the objectives; 0: not worked out.
type trials struct{ failed, good float64 }

// trials works that out for the turns sent in the window.
func (a *analysis) trials(inWindow []int32) trials {
	in := stat.Sample{}
	for _, row := range inWindow {
		if schemas.Statuses[a.f.status[row]].Sent() {
			in.Moments = append(in.Moments, a.f.moment[row])
			in.Cluster = append(in.Cluster, a.f.conv[row])
			in.Values = append(in.Values, 0)
		}
	}
	effective := func(yes func(row int) bool) float64 {
		i := 0
		for _, row := range inWindow {
			if schemas.Statuses[a.f.status[row]].Sent() {
				in.Values[i] = 0
				if yes(int(row)) {
					in.Values[i] = 1
				}
				i++
			}
		}
		return stat.EffectiveTrials(in, stat.Window{From: a.w.from, To: a.w.to, Tau: math.NaN()})
	}
	out := trials{failed: effective(a.f.failed)}
	if len(a.o.Objectives) > 0 {
		out.good = effective(a.meetsObjectives())
	}
	return out
}

// gateFigures gives every figure of a run that a gate can be about.
func gateFigures(r *RunResult) map[string]compare.Figure {
	out := map[string]compare.Figure{}
	g := &r.Total
	long := 0.0
	if r.Window.LongFrom.Known() {
		long = float64(r.Window.LongFrom)
	}
	for i := range g.Figures {
		f := &g.Figures[i]
		if f.N == 0 {
			continue
		}
		mean := compare.Value(float64(f.Mean))
		mean.Low, mean.High, mean.N, mean.LongFrom = float64(f.MeanLow), float64(f.MeanHigh), float64(f.N), long
		out[f.Name+".mean"] = mean
		for name, v := range map[string]Num{"std": f.Std, "min": f.Min, "max": f.Max} {
			out[f.Name+"."+name] = compare.Value(float64(v))
		}
		for _, p := range f.Percentiles {
			out[fmt.Sprintf("%s.p%g", f.Name, p.P)] = compare.Figure{
				Value: float64(p.Value), Low: float64(p.Low), High: float64(p.High), Lower: float64(p.Lower), Upper: float64(p.Upper),
				N: float64(f.N), Effective: float64(p.Effective), Confidence: p.Confidence,
			}
		}
	}
	c := &g.Counts
	out["error_rate"] = compare.ShareOf(c.Failed, c.Sent, r.trials.failed)
	th := &g.Throughput
	for name, v := range map[string][3]Num{
		"request_throughput": {th.Requests, th.RequestsLow, th.RequestsHigh},
		"output_throughput":  {th.CompletionTokens, th.CompletionLow, th.CompletionHigh},
		"total_throughput":   {th.TotalTokens, th.TotalLow, th.TotalHigh},
	} {
		f := compare.Value(float64(v[0]))
		f.Low, f.High, f.LongFrom = float64(v[1]), float64(v[2]), long
		out[name] = f
	}
	out["cache_reuse"] = compare.Value(float64(g.Tokens.CacheReuse))
	out["goodput"], out["goodput_share"] = compare.Value(math.NaN()), compare.Value(math.NaN())
	if g.Goodput != nil {
		out["goodput"] = compare.Value(float64(g.Goodput.Requests))
		out["goodput_share"] = compare.ShareOf(g.Goodput.Good, g.Goodput.Of, r.trials.good)
	}
	return out
}

// GatesOutcome says what became of all gates together: failed if one did, else undecided if one is, else
// held. It is held without gates.
func (r *Result) GatesOutcome() compare.Outcome {
	out := compare.Held
	for _, g := range r.Gates {
		if g.Outcome == compare.Failed {
			return compare.Failed
		}
		if g.Outcome == compare.Undecided {
			out = compare.Undecided
		}
	}
	return out
}

// ParseGate reads a condition: see [compare.ParseGate].
func ParseGate(s string) (compare.Spec, error) { return compare.ParseGate(s, FigureNames()) }
