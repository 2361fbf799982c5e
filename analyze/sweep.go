package analyze

import (
	"math"
	"slices"
)

// sweep sets runs side by side, and finds those that no other beats in both throughput and speed per user.
func sweep(runs []RunResult, gpus float64) *Sweep {
	s := &Sweep{GPUs: gpus}
	for i := range runs {
		s.Rows = append(s.Rows, sweepRow(&runs[i], gpus))
	}
	markPareto(s.Rows)
	s.Labels = spreads(runs)
	return s
}

func sweepRow(r *RunResult, gpus float64) SweepRow {
	g := &r.Total
	at := func(figure string, p float64) Num {
		if f := g.Figure(figure); f != nil {
			if v := f.Percentile(p); v != nil {
				return v.Value
			}
		}
		return Missing
	}
	row := SweepRow{
		Label: r.Label, Grade: r.Verdict.Grade, Concurrency: Missing, Rate: Missing,
		Requests: g.Throughput.Requests, OutputTokens: g.Throughput.CompletionTokens, TotalTokens: g.Throughput.TotalTokens,
		PerUser: g.Throughput.TokensPerUser, PerGPU: Missing, OutputPerGPU: Missing,
		TTFTP50: at("ttft", 50), TTFTP99: at("ttft", 99), TPOTP50: at("tpot", 50), E2EP50: at("e2e", 50),
		ErrorRate: g.Counts.ErrorRate, GoodputShare: Missing,
	}
	if r.concurrency != nil {
		row.Concurrency = Num(*r.concurrency)
	}
	if r.offered != nil {
		row.Rate = Num(*r.offered)
	}
	if gpus > 0 {
		row.PerGPU, row.OutputPerGPU = row.TotalTokens/Num(gpus), row.OutputTokens/Num(gpus)
	}
	if g.Goodput != nil {
		row.GoodputShare = g.Goodput.Share
	}
	return row
}

// markPareto marks the rows that no other row is at least as good as in both output tokens per second and
// output tokens per second and user, and better in one.
func markPareto(rows []SweepRow) {
	for i := range rows {
		a := &rows[i]
		if !a.OutputTokens.Known() || !a.PerUser.Known() {
			continue
		}
		a.Pareto = !slices.ContainsFunc(rows, func(b SweepRow) bool {
			return b.OutputTokens >= a.OutputTokens && b.PerUser >= a.PerUser &&
				(b.OutputTokens > a.OutputTokens || b.PerUser > a.PerUser)
		})
	}
}

// spreads gives, for labels that several runs have, how much the main figures vary between them.
func spreads(runs []RunResult) []Spread {
	byLabel := map[string][]*RunResult{}
	var labels []string
	for i := range runs {
		l := runs[i].Label
		if byLabel[l] == nil {
			labels = append(labels, l)
		}
		byLabel[l] = append(byLabel[l], &runs[i])
	}
	var out []Spread
	for _, label := range labels {
		group := byLabel[label]
		if len(group) < 2 {
			continue
		}
		for _, g := range []GateSpec{
			{Figure: "ttft", Stat: "p50"}, {Figure: "ttft", Stat: "p99"}, {Figure: "tpot", Stat: "p50"},
			{Figure: "e2e", Stat: "p50"}, {Figure: "request_throughput"}, {Figure: "output_throughput"}, {Figure: "error_rate"},
		} {
			var values []float64
			for _, r := range group {
				if v := g.get(r); v.Known() {
					values = append(values, float64(v))
				}
			}
			if len(values) > 1 {
				out = append(out, spread(label, &g, values))
			}
		}
	}
	return out
}

func spread(label string, g *GateSpec, values []float64) Spread {
	n := float64(len(values))
	s := Spread{Label: label, Runs: int64(len(values)), Name: g.Figure, Unit: "ms", Min: Num(slices.Min(values)), Max: Num(slices.Max(values)), CV: Missing}
	if g.Stat != "" {
		s.Name += "." + g.Stat
	} else {
		s.Unit = plainFigures[plainFigure(g.Figure)].unit
	}
	var mean, squares float64
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	std := math.Sqrt(squares / (n - 1))
	half := studentT(n-1) * std / math.Sqrt(n)
	s.Mean, s.Std, s.Low, s.High = Num(mean), Num(std), Num(mean-half), Num(mean+half)
	if mean != 0 {
		s.CV = Num(std / math.Abs(mean))
	}
	return s
}
