package analyze

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GateSpec is a condition on a figure: of a run by itself (ttft.p99 < 500ms, error_rate < 1%), or against
// a baseline (ttft.p99 < +5%, throughput > -2%), where a sign says that the bound is a change.
type GateSpec struct {
	Text   string
	Figure string  // ttft, request_throughput, error_rate, ...
	Stat   string  // p99, mean, ...; "" for figures that are one number
	Op     string  // <, <=, >, >=
	Bound  float64 // ms, a share, a rate, or a change
	Signed bool    // the bound is a change against the baseline
	Share  bool    // the bound was given in percent
}

// Relative says whether the gate needs a baseline.
func (g GateSpec) Relative() bool { return g.Signed }

// plainFigures are the figures that are one number of a run, with their units and getters.
var plainFigures = []struct {
	name, title, unit string
	highIsGood        bool
	get               func(*RunResult) Num
}{
	{"error_rate", "Error rate", "share", false, func(r *RunResult) Num { return r.Total.Counts.ErrorRate }},
	{"request_throughput", "Requests per second", "1/s", true, func(r *RunResult) Num { return r.Total.Throughput.Requests }},
	{"output_throughput", "Output tokens per second", "1/s", true, func(r *RunResult) Num { return r.Total.Throughput.CompletionTokens }},
	{"total_throughput", "Tokens per second, prompt and output", "1/s", true, func(r *RunResult) Num { return r.Total.Throughput.TotalTokens }},
	{"cache_reuse", "Cache reuse", "share", true, func(r *RunResult) Num { return r.Total.Tokens.CacheReuse }},
	{"goodput", "Goodput, requests per second", "1/s", true, func(r *RunResult) Num {
		if r.Total.Goodput == nil {
			return Missing
		}
		return r.Total.Goodput.Requests
	}},
	{"goodput_share", "Share of turns within every objective", "share", true, func(r *RunResult) Num {
		if r.Total.Goodput == nil {
			return Missing
		}
		return r.Total.Goodput.Share
	}},
}

func plainFigure(name string) int {
	for i := range plainFigures {
		if plainFigures[i].name == name {
			return i
		}
	}
	return -1
}

// ParseGate reads a condition.
func ParseGate(s string) (GateSpec, error) {
	g := GateSpec{Text: strings.TrimSpace(s)}
	fail := func(format string, args ...any) (GateSpec, error) {
		return GateSpec{}, fmt.Errorf("gate %q: %s", s, fmt.Sprintf(format, args...))
	}
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return fail("it has no < or >: write it like 'ttft.p99 < +5%%' or 'error_rate < 1%%'")
	}
	g.Op = s[at : at+1]
	rest := s[at+1:]
	if strings.HasPrefix(rest, "=") {
		g.Op += "="
		rest = rest[1:]
	}
	name := strings.TrimSpace(s[:at])
	g.Figure, g.Stat, _ = strings.Cut(name, ".")
	if err := g.checkName(name); err != nil {
		return fail("%v", err)
	}
	bound := strings.TrimSpace(rest)
	if bound == "" {
		return fail("it has no bound after %s", g.Op)
	}
	g.Signed = bound[0] == '+' || bound[0] == '-'
	if err := g.parseBound(bound); err != nil {
		return fail("%v", err)
	}
	return g, nil
}

func (g *GateSpec) checkName(name string) error {
	if plainFigure(g.Figure) >= 0 {
		if g.Stat != "" {
			return fmt.Errorf("%s is one number: leave out .%s", g.Figure, g.Stat)
		}
		return nil
	}
	if !slices.Contains(FigureNames(), g.Figure) {
		var plain []string
		for _, p := range plainFigures {
			plain = append(plain, p.name)
		}
		return fmt.Errorf("there is no figure %q: choose from %s, or from %s with a statistic such as .p99", name,
			strings.Join(plain, ", "), strings.Join(FigureNames(), ", "))
	}
	switch g.Stat {
	case "mean", "std", "min", "max":
		return nil
	case "":
		return fmt.Errorf("which statistic of %s? Write %s.p99, %s.p50 or %s.mean", g.Figure, g.Figure, g.Figure, g.Figure)
	case "median":
		g.Stat = "p50"
		return nil
	}
	if _, ok := g.percentile(); !ok {
		return fmt.Errorf("%q is no statistic: choose mean, std, min, max or a percentile such as p99", g.Stat)
	}
	return nil
}

// percentile gives the percentile that the gate is about.
func (g *GateSpec) percentile() (float64, bool) {
	digits, ok := strings.CutPrefix(g.Stat, "p")
	if !ok || digits == "" || digits[0] < '0' || digits[0] > '9' {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits, 64)
	return p, err == nil && p > 0 && p < 100
}

// parseBound reads a number with a unit: %, a duration, or nothing.
func (g *GateSpec) parseBound(s string) error {
	latency := plainFigure(g.Figure) < 0
	if number, ok := strings.CutSuffix(s, "%"); ok {
		v, err := parseFinite(strings.TrimSpace(number))
		if err != nil {
			return err
		}
		if latency && !g.Signed {
			return fmt.Errorf("%s is a time: a bound in percent needs a sign, such as +%s, and a baseline", g.Figure, s)
		}
		g.Bound, g.Share = v/100, true
		return nil
	}
	if latency {
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%q is no bound for %s: give a duration such as 500ms, or a change such as +5%%", s, g.Figure)
		}
		g.Bound = float64(d) / 1e6
		return nil
	}
	v, err := parseFinite(s)
	g.Bound = v
	return err
}

func parseFinite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || strings.ContainsAny(s, "xX_") {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v, nil
}

// get gives the gate's figure of a run.
func (g *GateSpec) get(r *RunResult) Num {
	if i := plainFigure(g.Figure); i >= 0 {
		return plainFigures[i].get(r)
	}
	f := r.Total.Figure(g.Figure)
	if f == nil {
		return Missing
	}
	switch g.Stat {
	case "mean":
		return f.Mean
	case "std":
		return f.Std
	case "min":
		return f.Min
	case "max":
		return f.Max
	}
	p, _ := g.percentile()
	if at := f.Percentile(p); at != nil {
		return at.Value
	}
	return Missing
}

// check says whether the gate holds. A figure that is not there, or that its sample cannot carry, does
// not hold: nothing is known of it.
func (g *GateSpec) check(run, base *RunResult) Gate {
	out := Gate{Expression: g.Text, Value: Missing}
	v := g.get(run)
	name := g.Figure
	if g.Stat != "" {
		name += "." + g.Stat
	}
	if !v.Known() {
		out.Text = fmt.Sprintf("%s of %s is not known: the sample does not carry it, or the run does not have it", name, run.Label)
		return out
	}
	if !g.Signed {
		out.Value = v
		out.Held = g.holds(float64(v))
		out.Text = fmt.Sprintf("%s is %s; wanted %s %s", name, g.show(float64(v)), g.Op, g.show(g.Bound))
		return out
	}
	b := g.get(base)
	if !b.Known() {
		out.Text = fmt.Sprintf("%s of the baseline %s is not known: the sample does not carry it, or the run does not have it", name, base.Label)
		return out
	}
	change := float64(v - b)
	if g.Share && !g.isShare() { // of shares, percent are percentage points
		if b == 0 {
			out.Text = fmt.Sprintf("%s of the baseline is 0: a change in percent says nothing", name)
			return out
		}
		change /= math.Abs(float64(b))
	}
	out.Value = Num(change)
	out.Held = g.holds(change)
	out.Text = fmt.Sprintf("%s went from %s to %s, %s; wanted %s %s", name, g.show(float64(b)), g.show(float64(v)), g.showChange(change), g.Op, g.showChange(g.Bound))
	return out
}

// isShare says whether the figure is itself a share.
func (g *GateSpec) isShare() bool {
	i := plainFigure(g.Figure)
	return i >= 0 && plainFigures[i].unit == "share"
}

func (g *GateSpec) holds(v float64) bool {
	switch g.Op {
	case "<":
		return v < g.Bound
	case "<=":
		return v <= g.Bound
	case ">":
		return v > g.Bound
	}
	return v >= g.Bound
}

func (g *GateSpec) show(v float64) string {
	if i := plainFigure(g.Figure); i >= 0 {
		if plainFigures[i].unit == "share" {
			return strconv.FormatFloat(v*100, 'g', 4, 64) + " %"
		}
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64) + " ms"
}

func (g *GateSpec) showChange(v float64) string {
	sign := ""
	if v >= 0 {
		sign = "+"
	}
	if g.Share {
		return sign + strconv.FormatFloat(v*100, 'g', 4, 64) + " %"
	}
	return sign + g.show(v)
}

// ParseObjective reads an objective: FIGURE=DURATION, such as ttft=500ms.
func ParseObjective(s string) (Objective, error) {
	name, limit, ok := strings.Cut(s, "=")
	if !ok {
		return Objective{}, fmt.Errorf("objective %q: write it like ttft=500ms", s)
	}
	name = strings.TrimSpace(name)
	if name == "e2el" { // what vllm bench serve calls it
		name = "e2e"
	}
	if !slices.Contains(ObjectiveFigures(), name) {
		return Objective{}, fmt.Errorf("objective %q: there is no figure %q to set one for: choose from %s", s, name, strings.Join(ObjectiveFigures(), ", "))
	}
	d, err := time.ParseDuration(strings.TrimSpace(limit))
	if err != nil || d <= 0 {
		return Objective{}, fmt.Errorf("objective %q: %q is no duration above 0, such as 500ms", s, limit)
	}
	return Objective{name, float64(d) / 1e6}, nil
}
