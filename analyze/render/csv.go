package render

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"parley/analyze"
)

// csvHeader are the columns of the CSV: one line per statistic, so that a data frame needs no parsing of
// column names. group is empty for the total, else "column=value" joined by semicolons. low and high are the
// long-run interval; carried, lower and upper, of percentiles, what the sample says by itself.
var csvHeader = []string{"run", "verdict", "scope", "group", "figure", "statistic", "value", "low", "high", "unit", "n", "error_rate", "carried", "lower", "upper"}

func writeCSV(w io.Writer, res *analyze.Result) error {
	out := csv.NewWriter(w)
	c := csvWriter{out: out}
	c.line(csvHeader...)
	for i := range res.Runs {
		r := &res.Runs[i]
		c.run, c.verdict = clean(r.Label), string(r.Verdict.Grade)
		c.group("window", &r.Total)
		for i := range r.Phases {
			c.group("phase", &r.Phases[i])
		}
		for i := range r.Groups {
			c.group("group", &r.Groups[i])
		}
	}
	c.comparisons(res)
	out.Flush()
	if c.err != nil {
		return c.err
	}
	return out.Error()
}

// comparisons adds the differences (scope comparison: ratios, of shares differences) and the gates (scope
// gate). Their column verdict says what was found.
func (c *csvWriter) comparisons(res *analyze.Result) {
	for _, x := range res.Comparisons {
		c.run, c.verdict = clean(x.Candidate), ""
		for i := range x.Rows {
			d := &x.Rows[i]
			figure, statistic, _ := strings.Cut(d.Name, ".")
			value, low, high, what := d.Ratio, d.RatioLow, d.RatioHigh, "ratio"
			if d.Unit == "share" {
				value, low, high, what = d.Diff, d.DiffLow, d.DiffHigh, "difference"
			}
			tested := "not tested"
			switch {
			case d.Changed:
				tested = "beyond chance"
			case d.Tested:
				tested = "within chance"
			}
			c.line(c.run, tested, "comparison", "baseline="+clean(x.Baseline), figure, strings.TrimPrefix(statistic+"_"+what, "_"),
				exact(value), exact(low), exact(high), what, strconv.Itoa(len(x.CandidateRuns)), "")
		}
	}
	for _, g := range res.Gates {
		c.line(clean(g.Of), string(g.Outcome), "gate", "", clean(g.Expression), "gate", exact(g.Value), exact(g.Low), exact(g.High), "", "", "")
	}
}

type csvWriter struct {
	out          *csv.Writer
	run, verdict string
	err          error
}

func (c *csvWriter) line(cells ...string) {
	for len(cells) < len(csvHeader) {
		cells = append(cells, "")
	}
	if c.err == nil {
		c.err = c.out.Write(cells)
	}
}

func (c *csvWriter) group(scope string, g *analyze.Group) {
	var keys []string
	for _, k := range g.Keys {
		keys = append(keys, clean(k.Column+"="+k.Value))
	}
	name := strings.Join(keys, ";")
	stat := func(figure, statistic, value, low, high, unit string, n int64, sure ...string) {
		c.line(append([]string{c.run, c.verdict, scope, name, figure, statistic, value, low, high, unit, strconv.FormatInt(n, 10), exact(g.Counts.ErrorRate)}, sure...)...)
	}
	for i := range g.Figures {
		f := &g.Figures[i]
		stat(f.Name, "mean", exact(f.Mean), exact(f.MeanLow), exact(f.MeanHigh), f.Unit, f.N)
		stat(f.Name, "std", exact(f.Std), "", "", f.Unit, f.N)
		stat(f.Name, "min", exact(f.Min), "", "", f.Unit, f.N)
		for _, p := range f.Percentiles {
			stat(f.Name, percentName(p.P), exact(p.Value), exact(p.Low), exact(p.High), f.Unit, f.N, strconv.FormatBool(p.Carried), exact(p.Lower), exact(p.Upper))
		}
		for _, p := range f.FailureAware {
			value := exact(p.Value)
			if p.Infinite {
				value = "inf"
			}
			stat(f.Name, percentName(p.P)+"_failed_as_infinite", value, "", "", f.Unit, f.N+g.Counts.Failed, strconv.FormatBool(p.Carried))
		}
		stat(f.Name, "max", exact(f.Max), "", "", f.Unit, f.N)
	}
	plain := func(figure string, v analyze.Num, unit string) {
		stat(figure, "value", exact(v), "", "", unit, g.Counts.OK)
	}
	plain("planned", analyze.Num(g.Counts.Planned), "turns")
	plain("ok", analyze.Num(g.Counts.OK), "turns")
	plain("failed", analyze.Num(g.Counts.Failed), "turns")
	plain("error_rate", g.Counts.ErrorRate, "share")
	plain("request_throughput", g.Throughput.Requests, "1/s")
	plain("prompt_throughput", g.Throughput.PromptTokens, "tokens/s")
	plain("output_throughput", g.Throughput.CompletionTokens, "tokens/s")
	plain("total_throughput", g.Throughput.TotalTokens, "tokens/s")
	plain("cache_reuse", g.Tokens.CacheReuse, "share")
	plain("cache_ceiling", g.Tokens.CacheCeiling, "share")
	if g.Goodput != nil {
		plain("goodput", g.Goodput.Requests, "1/s")
		plain("goodput_tokens", g.Goodput.Tokens, "tokens/s")
		plain("goodput_share", g.Goodput.Share, "share")
	}
	if g.Fluidity != nil {
		plain("fluidity", g.Fluidity.Share, "share")
	}
}
