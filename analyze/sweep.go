package analyze

import (
	"cmp"
	"math"
	"slices"

	"parley/analyze/compare"
	"parley/analyze/stat"
	"parley/schemas"
)

// sweep sets runs side by side, and finds those that no other beats in both throughput and speed per user.
func sweep(runs []RunResult, gpus float64) *Sweep {
	s := &Sweep{GPUs: gpus}
	for i := range runs {
		s.Rows = append(s.Rows, sweepRow(&runs[i], gpus))
		s.Rows[i].Run = int64(i)
	}
	if !slices.ContainsFunc(s.Rows, func(r SweepRow) bool { return !r.Concurrency.Known() && !r.Rate.Known() }) {
		slices.SortStableFunc(s.Rows, func(a, b SweepRow) int {
			return cmp.Or(cmp.Compare(a.Concurrency, b.Concurrency), cmp.Compare(a.Rate, b.Rate))
		})
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
	if r.Concurrency != nil {
		row.Concurrency = Num(*r.Concurrency)
	}
	if r.Offered != nil {
		row.Rate = Num(*r.Offered)
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
		for _, name := range []string{"ttft.p50", "ttft.p99", "tpot.p50", "e2e.p50", "request_throughput", "output_throughput", "error_rate"} {
			var values []float64
			for _, r := range group {
				if f, ok := gateFigures(r)[name]; ok && !math.IsNaN(f.Value) {
					values = append(values, f.Value)
				}
			}
			if len(values) > 1 {
				out = append(out, spread(label, name, values))
			}
		}
	}
	return out
}

// spread tells how a figure varies over runs. That of latencies and rates is skewed: their mean and its interval
// are geometric, as in comparisons.
func spread(label, name string, values []float64) Spread {
	mean, std := stat.MeanStd(values)
	interval := stat.OfRuns(values)
	if compare.UnitOf(name) != "share" && slices.Min(values) > 0 {
		logs := make([]float64, len(values))
		for i, v := range values {
			logs[i] = math.Log(v)
		}
		middle, _ := stat.MeanStd(logs)
		interval = stat.OfRuns(logs)
		mean, interval.Low, interval.High = math.Exp(middle), math.Exp(interval.Low), math.Exp(interval.High)
	}
	s := Spread{
		Label: label, Runs: int64(len(values)), Name: name, Unit: compare.UnitOf(name), Mean: Num(mean), Std: Num(std),
		Low: Num(interval.Low), High: Num(interval.High), Min: Num(slices.Min(values)), Max: Num(slices.Max(values)), CV: Missing,
	}
	if mean != 0 {
		s.CV = Num(std / math.Abs(mean))
	}
	return s
}

// Sweep sets several runs side by side.
type Sweep struct {
	GPUs   float64    `json:"gpus,omitempty"`
	Rows   []SweepRow `json:"rows"`
	Labels []Spread   `json:"labels,omitempty"` // over runs of one label
}

// SweepRow is one run of a sweep.
type SweepRow struct {
	Run          int64         `json:"run"` // its place among the runs of the result; rows are in order of their load
	Label        string        `json:"label"`
	Grade        schemas.Grade `json:"grade"`
	Concurrency  Num           `json:"concurrency"`
	Rate         Num           `json:"offered_rate"`
	Requests     Num           `json:"requests_per_s"`
	OutputTokens Num           `json:"completion_tokens_per_s"`
	TotalTokens  Num           `json:"total_tokens_per_s"`
	PerUser      Num           `json:"tokens_per_s_per_user"`
	PerGPU       Num           `json:"total_tokens_per_s_per_gpu"`
	OutputPerGPU Num           `json:"completion_tokens_per_s_per_gpu"`
	TTFTP50      Num           `json:"ttft_p50"`
	TTFTP99      Num           `json:"ttft_p99"`
	TPOTP50      Num           `json:"tpot_p50"`
	E2EP50       Num           `json:"e2e_p50"`
	ErrorRate    Num           `json:"error_rate"`
	GoodputShare Num           `json:"goodput_share"`
	Pareto       bool          `json:"pareto"` // no other run has both more tokens per second and more per user
}

// Spread is a figure over several runs of one configuration.
type Spread struct {
	Label string `json:"label"`
	Runs  int64  `json:"runs"`
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Mean  Num    `json:"mean"` // of latencies and rates the geometric one
	Std   Num    `json:"std"`
	CV    Num    `json:"cv"`  // std / mean
	Low   Num    `json:"low"` // interval of the mean (Student's t over runs)
	High  Num    `json:"high"`
	Min   Num    `json:"min"`
	Max   Num    `json:"max"`
}
