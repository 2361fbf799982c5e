package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"parley/analyze/stat"
	"parley/analyze/verdict"
	"parley/schemas"
)

// Outcome is what became of a gate. What decides is the bound of a figure and not its point estimate: a
// figure that is good by chance holds nothing.
type Outcome string

// The outcomes.
const (
	Held      Outcome = "held"
	Failed    Outcome = "failed"
	Undecided Outcome = "undecided"
)

// Gate is one condition and what became of it.
type Gate struct {
	Expression string  `json:"expression"`
	Of         string  `json:"of"` // the runs that it was checked on
	Outcome    Outcome `json:"outcome"`
	Value      Num     `json:"value"` // in the unit of the expression's bound: a relative change, a difference or the figure
	Low        Num     `json:"low"`   // bounds with 95 % confidence (99 % of a percentile of a short run): the gate is decided if both lie on one side of the limit
	High       Num     `json:"high"`
	Text       string  `json:"text"`            // one sentence with the numbers
	Needs      string  `json:"needs,omitempty"` // of an undecided one: what would decide it
}

// Check checks a gate on a group of runs of one load; on several runs by what such runs give, on one by
// what it says of the server. c is their comparison with the baseline; nil without one.
func (g *Spec) Check(runs []Run, c *Comparison) Gate {
	refs := make([]*Run, len(runs))
	for i := range runs {
		refs[i] = &runs[i]
	}
	out := Gate{Expression: g.Text, Of: sideName(refs), Value: stat.Missing, Low: stat.Missing, High: stat.Missing}
	if g.Figure == verdictFigure {
		g.checkVerdict(&out, refs)
		return out
	}
	all := refs
	switch {
	case !g.Signed:
		g.decide(&out, g.absolute(refs))
	case c == nil:
		out.Outcome, out.Needs = Undecided, "a baseline of this load"
		out.Text = "there is nothing to compare with; it would take " + out.Needs
	default:
		all = c.sides.runs()
		g.decide(&out, g.relative(c.sides))
	}
	for _, r := range all {
		if r.Grade == schemas.Invalid {
			out.Outcome, out.Needs = Undecided, "a run that is not INVALID"
			out.Text += fmt.Sprintf("; the run %s is INVALID, so that nothing is decided", r.name())
			break
		}
	}
	return out
}

func (g *Spec) checkVerdict(out *Gate, runs []*Run) {
	worst := runs[0]
	for _, r := range runs[1:] {
		if !verdict.AtLeast(r.Grade, worst.Grade) {
			worst = r
		}
	}
	out.Outcome = Failed
	if verdict.AtLeast(worst.Grade, g.Grade) {
		out.Outcome = Held
	}
	out.Text = fmt.Sprintf("the verdict is %s", worst.Grade)
	if len(runs) > 1 {
		out.Text = fmt.Sprintf("the worst verdict of %d runs is %s", len(runs), worst.Grade)
	}
	out.Text += "; wanted " + string(g.Grade) + " or better"
}

// evidence is what runs say of a gate's figure.
type evidence struct {
	value, low, high float64 // NaN: not known
	text             string  // the value in words, or why there is none
	unknown          bool    // the runs do not have the figure: the gate fails
	fact             bool    // of these runs themselves, without a bound
	confidence       float64 // of low and high; 0 is 95 %
	needs            func(g *Spec, e *evidence) string
}

// name gives the figure's name.
func (g *Spec) name() string { return join(g.Figure, g.Stat) }

func (g *Spec) decide(out *Gate, e evidence) {
	out.Value, out.Low, out.High = Num(e.value), Num(e.low), Num(e.high)
	out.Text = e.text
	if e.unknown {
		out.Outcome = Failed
		return
	}
	wanted := g.show(g.Bound)
	if g.Signed {
		wanted = g.showChange(g.Bound)
	}
	switch {
	case e.fact && g.holds(e.value):
		out.Outcome = Held
	case e.fact:
		out.Outcome = Failed
	case g.bounded(&e, true):
		out.Outcome = Held
	case g.bounded(&e, false):
		out.Outcome = Failed
	default:
		out.Outcome = Undecided
		out.Needs = e.needs(g, &e)
	}
	if !e.fact {
		out.Text += g.bounds(&e)
	}
	out.Text += fmt.Sprintf("; wanted %s %s", g.Op, wanted)
	if out.Needs != "" {
		out.Text += "; it would take " + out.Needs
	}
}

// bounded says whether the bounds decide a gate so.
func (g *Spec) bounded(e *evidence, held bool) bool {
	bound := e.high // the one that decides for held, where low values are wanted
	if g.upward() == held {
		bound = e.low
	}
	return !math.IsNaN(bound) && g.holds(bound) == held
}

// upward says whether high values are wanted.
func (g *Spec) upward() bool { return g.Op[0] == '>' }

// bounds prints the range of a figure.
func (g *Spec) bounds(e *evidence) string {
	show := g.show
	if g.Signed {
		show = g.showChange
	}
	known := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	percent := 100 * cmp.Or(e.confidence, stat.Confidence)
	switch {
	case known(e.low) && known(e.high):
		return fmt.Sprintf(" (%g %%: %s to %s)", percent, show(e.low), show(e.high))
	case known(e.high):
		return fmt.Sprintf(" (%g %%: at most %s)", percent, show(e.high))
	case known(e.low):
		return fmt.Sprintf(" (%g %%: at least %s)", percent, show(e.low))
	}
	return ""
}

// absolute is the evidence of a figure by itself.
func (g *Spec) absolute(runs []*Run) evidence {
	name := g.name()
	figures := make([]Figure, len(runs))
	for i, r := range runs {
		f, ok := r.Figures[name]
		if !ok || math.IsNaN(f.Value) {
			return evidence{value: math.NaN(), low: math.NaN(), high: math.NaN(), unknown: true, text: fmt.Sprintf("%s of %s is not known", name, r.Label)}
		}
		figures[i] = f
	}
	if len(runs) == 1 {
		return g.ofOne(figures[0])
	}
	return g.ofRuns(figures)
}

// ofOne is the evidence of one run.
func (g *Spec) ofOne(f Figure) evidence {
	e := evidence{value: f.Value, low: f.Low, high: f.High, text: fmt.Sprintf("%s is %s", g.name(), g.show(f.Value))}
	_, isPercentile := g.Percentile()
	isShare := plainUnit(g.Figure) == "share"
	switch {
	case g.isFact():
		e.fact = true
	case isPercentile || isShare && f.Effective > 0:
		e.low, e.high, e.confidence = f.Lower, f.Upper, f.Confidence
		e.needs = func(g *Spec, e *evidence) string { return g.moreTurns(f) }
	default:
		e.needs = func(g *Spec, e *evidence) string { return g.longer(e, f.LongFrom) }
	}
	return e
}

// isFact says whether the gate is about the runs themselves: their extremes, and whether anything failed at
// all. Nothing bounds those.
func (g *Spec) isFact() bool {
	return g.Stat == "min" || g.Stat == "max" || g.isShare() && (g.Bound == 0 && !g.upward() || g.Bound == 1 && g.upward())
}

// ofRuns is the evidence of several runs: Student's t over them, which says what such runs give.
func (g *Spec) ofRuns(figures []Figure) evidence {
	sc := logScale
	if g.isShare() || slices.ContainsFunc(figures, func(f Figure) bool { return f.Value <= 0 }) {
		sc = plainScale
	}
	values := make([]float64, len(figures))
	for i, f := range figures {
		values[i] = f.Value
	}
	n := len(values)
	if g.isFact() {
		worst := slices.Max(values)
		if g.upward() {
			worst = slices.Min(values)
		}
		return evidence{value: worst, low: math.NaN(), high: math.NaN(), fact: true, text: fmt.Sprintf("%s is %s in the worst of %d runs", g.name(), g.show(worst), n)}
	}
	on := onScale(values, sc)
	_, std := stat.MeanStd(on)
	interval := stat.OfRuns(on)
	value := meanOf(values, sc)
	e := evidence{value: value, low: interval.Low, high: interval.High, text: fmt.Sprintf("%s is %s over %d runs", g.name(), g.show(value), n)}
	if sc == logScale {
		e.low, e.high = math.Exp(e.low), math.Exp(e.high)
	}
	if std == 0 && g.isShare() {
		// Runs that agree to the last turn (none failed) do not show how they vary: their turns do.
		var effective float64
		for _, f := range figures {
			effective += f.Effective
		}
		e.low, e.high = shareBounds(value, effective)
	}
	e.needs = func(g *Spec, e *evidence) string {
		limit, value := g.Bound, e.value
		if sc == logScale {
			limit, value = math.Log(limit), math.Log(value)
		}
		return moreRuns(math.Abs(value-limit), std, n, 1, "")
	}
	return e
}

// relative is the evidence of a change against the baseline.
func (g *Spec) relative(s *sides) evidence {
	e := evidence{value: math.NaN(), low: math.NaN(), high: math.NaN()}
	inPercent := g.Share && !g.isShare() // of shares, percent are percentage points
	sc := plainScale
	if inPercent {
		sc = logScale
	}
	m := s.measure(g.Figure, g.Stat, sc)
	for _, side := range []struct {
		value float64
		runs  []*Run
		of    string
	}{{m.cand, s.cand, ""}, {m.base, s.base, "the baseline "}} {
		if math.IsNaN(side.value) {
			e.unknown, e.text = true, fmt.Sprintf("%s of %s%s is not known", g.name(), side.of, sideName(side.runs))
			if g.Stat == turnsStat {
				e.text = fmt.Sprintf("%s is not known: the runs are no pairs, or have no turns in common", g.name())
			}
			return e
		}
	}
	change := func(d float64) float64 { return d }
	switch {
	case inPercent && m.scale == logScale:
		change = math.Expm1
		e.value = m.cand/m.base - 1
	case inPercent && m.base == 0:
		e.unknown, e.text = true, fmt.Sprintf("%s of the baseline is 0: a change in percent says nothing", g.name())
		return e
	case inPercent: // some run's value is 0: the change of the mean
		change = func(d float64) float64 { return d / math.Abs(m.base) }
		e.value = change(m.cand - m.base)
	default:
		e.value = m.cand - m.base
	}
	e.text = fmt.Sprintf("%s went from %s to %s, %s", g.name(), g.show(m.base), g.show(m.cand), g.showChange(e.value))
	if g.Stat == turnsStat {
		e.text = fmt.Sprintf("%s: the same turns differ by %s", g.name(), g.showChange(e.value))
	}
	if !m.tested {
		e.needs = func(*Spec, *evidence) string { return "several runs on both sides: one run does not say how runs vary" }
		return e
	}
	e.low, e.high = change(m.test.Interval.Low), change(m.test.Interval.High)
	e.needs = func(g *Spec, e *evidence) string {
		limit := g.Bound
		switch {
		case m.scale == logScale && inPercent:
			limit = math.Log1p(limit)
		case inPercent:
			limit *= math.Abs(m.base)
		}
		groups, noun := 2, " a side"
		if m.paired {
			groups = 1
		}
		return moreRuns(math.Abs(m.test.Diff-limit), m.spread, min(len(s.base), len(s.cand)), groups, noun)
	}
	return e
}

// muchMore is how many runs nobody makes for one gate.
const muchMore = 1000

// moreRuns says how many more runs would decide, if they went on as these did: the interval of n runs a side
// (k groups of them) must become narrower than the distance to the limit.
func moreRuns(distance, std float64, n, groups int, side string) string {
	m := n + 1 + sort.Search(muchMore-n, func(more int) bool {
		m := n + 1 + more
		return stat.StudentT(float64((m-1)*groups))*std*math.Sqrt(float64(groups)/float64(m)) < distance
	})
	if m > muchMore {
		return "more than a thousand runs" + side + ": it is too close to the limit"
	}
	return fmt.Sprintf("about %s%s like these", counted(m-n, "more run"), side)
}

// moreTurns says how many more turns would decide a percentile or a share.
func (g *Spec) moreTurns(f Figure) string {
	if !(f.Effective > 0) || !(f.N > 0) {
		return "more turns"
	}
	per := f.N / f.Effective // turns that count for one
	if p, ok := g.Percentile(); ok {
		q := p / 100
		if math.IsNaN(f.Upper) && g.holds(f.Value) && !g.upward() {
			return fmt.Sprintf("about %s more turns like these", grouped(int(math.Ceil(max(float64(stat.Needs(q, cmp.Or(f.Confidence, stat.Confidence)))-f.Effective, 1)*per))))
		}
		half := f.Upper - f.Value
		if g.holds(f.Value) == g.upward() {
			half = f.Value - f.Lower
		}
		times := half / (f.Value - g.Bound)
		if more := (times*times - 1) * f.N; more < 1e9 {
			return fmt.Sprintf("about %s more turns like these", grouped(roundUp(max(more, 1))))
		}
		return "far more turns: it is too close to the limit"
	}
	const most = 1_000_000_000
	more := sort.Search(most, func(more int) bool {
		low, high := shareBounds(f.Value, f.Effective+float64(more))
		return high < g.Bound || low > g.Bound
	})
	if more == most {
		return "far more turns: it is too close to the limit"
	}
	return fmt.Sprintf("about %s more turns like these", grouped(roundUp(float64(more)*per)))
}

// roundUp gives a number with two digits, not below v.
func roundUp(v float64) int {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(max(v, 1)))-1))
	return int(math.Ceil(v/unit) * unit)
}

// longer says how long a run would decide.
func (g *Spec) longer(e *evidence, from float64) string {
	half := math.Max(e.high-e.value, e.value-e.low)
	distance := math.Abs(e.value - g.Bound)
	switch {
	case math.IsNaN(half) && from > 0:
		return fmt.Sprintf("a window of %s s, or several runs", grouped(roundUp(from)))
	case math.IsNaN(half), distance == 0:
		return "a longer run, or several"
	}
	times := math.Ceil(half / distance * half / distance)
	if times > muchMore {
		return "far longer runs: it is too close to the limit"
	}
	return fmt.Sprintf("a run about %s times as long, or several runs", grouped(int(times)))
}

// shareBounds gives the one-sided bounds, each with 95 % confidence, of a share found in n independent
// trials (Clopper and Pearson; n need not be whole).
func shareBounds(share, n float64) (low, high float64) {
	k := share * n
	low, high = 0, 1
	if !(n > 0) {
		return low, high
	}
	if k > 0 {
		low = mathext.InvRegIncBeta(k, n-k+1, 1-stat.Confidence)
	}
	if k < n {
		high = mathext.InvRegIncBeta(k+1, n-k, stat.Confidence)
	}
	return low, high
}

// isShare says whether the figure is itself a share.
func (g *Spec) isShare() bool { return plainUnit(g.Figure) == "share" }

func (g *Spec) holds(v float64) bool {
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

// show prints a value of the gate's figure.
func (g *Spec) show(v float64) string {
	switch plainUnit(g.Figure) {
	case "share":
		return strconv.FormatFloat(v*100, 'g', 4, 64) + " %"
	case "":
		return strconv.FormatFloat(v, 'g', 5, 64) + " ms"
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

func (g *Spec) showChange(v float64) string {
	sign := ""
	if v >= 0 {
		sign = "+"
	}
	if g.Share {
		return sign + strconv.FormatFloat(v*100, 'g', 4, 64) + " %"
	}
	return sign + g.show(v)
}

// grouped prints a count with commas between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}
