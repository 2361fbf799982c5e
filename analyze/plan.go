package analyze

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parley/analyze/capacity"
	"parley/analyze/compare"
	"parley/analyze/stat"
	"parley/schemas"
)

// Plan is what the runs of a plan say together: one level of load beside the other.
type Plan struct {
	ID     string   `json:"id"`
	Load   string   `json:"load"` // what levels are of: concurrency or rate
	GPUs   float64  `json:"gpus,omitempty"`
	Search *Search  `json:"search,omitempty"` // of a search for the capacity
	Shown  []string `json:"shown"`            // names of the figures that are looked at first: the objectives' own, then the usual
	Levels []Level  `json:"levels"`           // in order of the load, side a before side b
	Knees  []Knee   `json:"knees,omitempty"`  // of each side
}

// Search is what a search for the capacity looked for, and what it found.
type Search struct {
	Objectives []string         `json:"objectives"`
	From       string           `json:"from"`
	Answer     *capacity.Answer `json:"answer,omitempty"` // missing while the search goes on
}

// Level is the runs of one load on one target.
type Level struct {
	Name    string        `json:"name"` // such as concurrency=16
	Load    float64       `json:"load"`
	Side    string        `json:"side,omitempty"`
	Label   string        `json:"label,omitempty"` // of the side
	Runs    []int         `json:"runs"`            // places in the result's runs
	Grade   schemas.Grade `json:"grade"`           // the worst of their verdicts
	Figures []Spread      `json:"figures"`
	Front   Front         `json:"front"` // of output tokens per second (per GPU) against those per user
}

// Figure gives a figure of the level by name, nil if its runs do not have it.
func (l *Level) Figure(name string) *Spread {
	for i := range l.Figures {
		if l.Figures[i].Name == name {
			return &l.Figures[i]
		}
	}
	return nil
}

// Front says whether a level is on the Pareto front.
type Front string

// On it: no other level can be as good in both. Perhaps: the runs do not decide it.
const (
	OnFront   Front = "on"
	MaybeOn   Front = "perhaps"
	OffFront  Front = "off"
	frontHigh       = 0.05 // chance that any level is said to be on or off the front wrongly
)

// Knee is the last level up to which throughput still grows with the load.
type Knee struct {
	Side string  `json:"side,omitempty"`
	Load float64 `json:"load"` // 0: throughput still grows at the largest level
	Next float64 `json:"next"` // the level above
	// Gain is by how much throughput grows from the one to the other, as a power of the load: 1 in proportion, 0 not
	// at all. Under kneeGain it is no growth any more.
	Gain Num `json:"gain"`
	Low  Num `json:"low"` // its interval over repeats
	High Num `json:"high"`
}

const kneeGain = 0.5

// planFigures are the figures of a level, in the order of tables.
var planFigures = []string{
	"request_throughput", "output_throughput", "total_throughput", "output_per_gpu", "tokens_per_user", "jobs_per_hour",
	"ttft.p50", "ttft.p99", "tpot.p50", "tpot.p99", "e2e.p50", "error_rate", "goodput_share",
}

// shownFigures are those of them that are looked at first.
var shownFigures = []string{"output_throughput", "output_per_gpu", "tokens_per_user", "jobs_per_hour", "ttft.p50", "ttft.p99", "tpot.p50", "e2e.p50", "error_rate", "goodput_share"}

// levelOf gives the load of a level's name; NaN if it has none.
func levelOf(name string) float64 {
	_, text, _ := strings.Cut(name, "=")
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	return math.NaN()
}

// sortPlan puts the runs of plans in order of their load, side and repeat, in the place of their files' names.
func (r *Runs) sortPlan() {
	if slices.ContainsFunc(r.list, func(run *run) bool { return run.meta.Place.Plan == "" }) {
		return
	}
	slices.SortStableFunc(r.list, func(a, b *run) int {
		p, q := a.meta.Place, b.meta.Place
		return cmp.Or(cmp.Compare(p.Plan, q.Plan), cmp.Compare(levelOf(p.Level), levelOf(q.Level)), cmp.Compare(p.Side, q.Side), cmp.Compare(p.Repeat, q.Repeat))
	})
}

// plans works out what runs of plans say together. Sides of a plan are compared level by level.
func plans(res *Result, runs *Runs, o *Options) {
	var order []string
	byPlan := map[string][]int{}
	for i, r := range runs.list {
		id := r.meta.Place.Plan
		if id == "" {
			return // runs of plans and others together are runs side by side
		}
		if byPlan[id] == nil {
			order = append(order, id)
		}
		byPlan[id] = append(byPlan[id], i)
	}
	for _, id := range order {
		res.Plans = append(res.Plans, *plan(res, runs, byPlan[id], o))
	}
}

func plan(res *Result, runs *Runs, of []int, o *Options) *Plan {
	place := runs.list[of[0]].meta.Place
	p := &Plan{ID: place.Plan, GPUs: o.GPUs}
	p.Load, _, _ = strings.Cut(place.Level, "=")
	if file, err := schemas.ReadPlan(filepath.Dir(runs.list[of[0]].parts[0].path)); err == nil && file.ID == p.ID && file.Search != nil {
		p.Search = &Search{Objectives: file.Search.Objectives, From: file.Search.From}
		a := &capacity.Answer{}
		if json.Unmarshal(file.Search.Answer, a) == nil { // there is none before the search's end
			p.Search.Answer = a
		}
	}
	for _, i := range of {
		meta := &runs.list[i].meta
		at := slices.IndexFunc(p.Levels, func(l Level) bool { return l.Name == meta.Place.Level && l.Side == meta.Place.Side })
		if at < 0 {
			at = len(p.Levels)
			p.Levels = append(p.Levels, Level{Name: meta.Place.Level, Load: levelOf(meta.Place.Level), Side: meta.Place.Side, Label: meta.Label, Grade: schemas.Valid})
		}
		l := &p.Levels[at]
		l.Runs = append(l.Runs, i)
		if res.Runs[i].Verdict.Grade == schemas.Invalid || l.Grade == schemas.Valid {
			l.Grade = res.Runs[i].Verdict.Grade
		}
	}
	figures := slices.Clone(planFigures)
	if p.Search != nil {
		for _, text := range p.Search.Objectives {
			if g, err := ParseGate(text); err == nil {
				p.Shown = append(p.Shown, strings.TrimSuffix(g.Figure+"."+g.Stat, "."))
			}
		}
	}
	for _, name := range append(slices.Clone(p.Shown), shownFigures...) {
		if !slices.Contains(figures, name) {
			figures = append(figures, name)
		}
		if !slices.Contains(p.Shown, name) {
			p.Shown = append(p.Shown, name)
		}
	}
	for i := range p.Levels {
		p.Levels[i].work(res, figures, o)
	}
	p.front(res, o)
	p.knees(res)
	p.compareSides(res, runs, o)
	return p
}

// planFigure gives a figure of one run; NaN if it does not have it.
func planFigure(r *RunResult, name string, gpus float64) float64 {
	switch name {
	case "tokens_per_user":
		return float64(r.Total.Throughput.TokensPerUser)
	case "output_per_gpu":
		if gpus > 0 {
			return float64(r.Total.Throughput.CompletionTokens) / gpus
		}
		return math.NaN()
	case "jobs_per_hour":
		if r.Jobs == nil {
			return math.NaN()
		}
		return float64(r.Jobs.PerHour)
	}
	if f, ok := gateFigures(r)[name]; ok {
		return f.Value
	}
	return math.NaN()
}

func (l *Level) values(res *Result, name string, gpus float64) (values []float64) {
	for _, i := range l.Runs {
		if v := planFigure(&res.Runs[i], name, gpus); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values
}

func (l *Level) work(res *Result, names []string, o *Options) {
	for _, name := range names {
		if values := l.values(res, name, o.GPUs); len(values) > 0 {
			s := spread(l.Name, name, values)
			switch name {
			case "tokens_per_user", "output_per_gpu":
				s.Unit = "1/s"
			case "jobs_per_hour":
				s.Unit = "1/h"
			}
			l.Figures = append(l.Figures, s)
		}
	}
}

// front finds the levels that no other beats in both output throughput and speed per user. A level is on the front or
// off it if the repeats decide that beyond chance, all pairs of levels together (Holm).
func (p *Plan) front(res *Result, o *Options) {
	type test struct {
		a, b  int // levels
		axis  int
		diff  float64 // b less a, of logarithms
		p     float64
		known bool
	}
	var tests []test
	var ps []float64
	for a := range p.Levels {
		for b := range p.Levels {
			for axis, name := range []string{"output_throughput", "tokens_per_user"} {
				if a >= b {
					continue
				}
				x, y := logs(p.Levels[a].values(res, name, o.GPUs)), logs(p.Levels[b].values(res, name, o.GPUs))
				t := test{a: a, b: b, axis: axis, p: math.NaN()}
				if len(x) > 0 && len(y) > 0 {
					w := stat.Welch(x, y)
					t.diff, t.p, t.known = w.Diff, w.P, true
				}
				tests, ps = append(tests, t), append(ps, t.p)
			}
		}
	}
	sure := stat.Holm(ps, frontHigh)
	// better says whether a level is surely above (1) or below (-1) another on an axis, or neither (0).
	better := func(a, b, axis int) int {
		for i, t := range tests {
			if t.axis != axis || !sure[i] {
				continue
			}
			switch {
			case t.a == a && t.b == b:
				return -sign(t.diff)
			case t.a == b && t.b == a:
				return sign(t.diff)
			}
		}
		return 0
	}
	for a := range p.Levels {
		l := &p.Levels[a]
		if l.Figure("output_throughput") == nil || l.Figure("tokens_per_user") == nil {
			l.Front = OffFront
			continue
		}
		l.Front = OnFront
		for b := range p.Levels {
			if a == b {
				continue
			}
			x, y := better(a, b, 0), better(a, b, 1)
			switch {
			case x > 0 || y > 0: // b cannot be as good in both
			case x < 0 && y < 0:
				l.Front = OffFront
			case l.Front == OnFront:
				l.Front = MaybeOn
			}
		}
	}
}

func sign(v float64) int { return cmp.Compare(v, 0) }

func logs(values []float64) []float64 {
	out := make([]float64, 0, len(values))
	for _, v := range values {
		if v > 0 {
			out = append(out, math.Log(v))
		}
	}
	return out
}

// knees finds where throughput stops to grow with the load, on each side.
func (p *Plan) knees(res *Result) {
	var sides []string
	for _, l := range p.Levels {
		if !slices.Contains(sides, l.Side) {
			sides = append(sides, l.Side)
		}
	}
	for _, side := range sides {
		var levels []*Level
		for i := range p.Levels {
			if l := &p.Levels[i]; l.Side == side && l.Load > 0 && len(logs(l.values(res, "output_throughput", 0))) > 0 {
				levels = append(levels, l)
			}
		}
		if len(levels) < 2 {
			continue
		}
		k := Knee{Side: side, Gain: Missing, Low: Missing, High: Missing}
		for i := 1; i < len(levels); i++ {
			a, b := levels[i-1], levels[i]
			t := stat.Welch(logs(a.values(res, "output_throughput", 0)), logs(b.values(res, "output_throughput", 0)))
			step := math.Log(b.Load / a.Load)
			k.Gain, k.Low, k.High = Num(t.Diff/step), Num(t.Interval.Low/step), Num(t.Interval.High/step)
			if t.Diff/step < kneeGain {
				k.Load, k.Next = a.Load, b.Load
				break
			}
		}
		p.Knees = append(p.Knees, k)
	}
}

// compareSides compares side b with side a, level by level; all of them together alarm by chance in 5 %.
func (p *Plan) compareSides(res *Result, runs *Runs, o *Options) {
	if o.Baseline != nil {
		return
	}
	var made []*compare.Comparison
	for _, a := range p.Levels {
		b := slices.IndexFunc(p.Levels, func(l Level) bool { return a.Side == "a" && l.Side == "b" && l.Name == a.Name })
		if b < 0 {
			continue
		}
		base, cand := runGroup{a.Name, a.Runs}, runGroup{a.Name, p.Levels[b].Runs}
		c := compare.New(valuesOf(runs, res.Runs, base, o, true), valuesOf(runs, res.Runs, cand, o, true))
		c.Level = a.Name
		c.Config = configChanges(groupOf(runs, base), groupOf(runs, cand))
		made = append(made, c)
	}
	if len(made) > 0 {
		compare.Decide(made...)
		res.Comparisons = append(res.Comparisons, made...)
	}
}

// Say gives the plan's answer in sentences, the most important one first.
func (p *Plan) Say(res *Result) (lines []string) {
	if s := p.Search; s != nil && s.Answer != nil {
		lines = append(lines, p.sayCapacity(s.Answer)...)
	} else if s != nil {
		lines = append(lines, "the search for the capacity goes on: there is no answer yet")
	}
	for _, c := range res.Comparisons {
		if slices.ContainsFunc(p.Levels, func(l Level) bool { return l.Name == c.Level && l.Side != "" }) {
			lines = append(lines, fmt.Sprintf("%s: %s against %s: %s", c.Level, c.Candidate, c.Baseline, c.Headline()))
		}
	}
	if p.Search != nil {
		return lines
	}
	for _, k := range p.Knees {
		of := ""
		if k.Side != "" {
			of = "side " + strings.ToUpper(k.Side) + ": "
		}
		if k.Load == 0 {
			lines = append(lines, of+"no knee: output tokens per second still grow with the load at the largest level")
			continue
		}
		sure := ""
		if k.High.Known() && k.High < kneeGain {
			sure = fmt.Sprintf(" (95 %%: %.2f to %.2f)", float64(k.Low), float64(k.High))
		} else if k.High.Known() {
			sure = fmt.Sprintf(" (95 %%: %.2f to %.2f: more repeats would make that sure)", float64(k.Low), float64(k.High))
		} else {
			sure = " (one run of each: repeats would say how sure that is)"
		}
		lines = append(lines, fmt.Sprintf("%sthe knee is at %s %g: from there to %g, output tokens per second grow as the load to the power of %.2f%s", of, p.Load, k.Load, k.Next, float64(k.Gain), sure))
	}
	return lines
}

// Unit gives the unit of the plan's levels in words.
func (p *Plan) unit() string {
	if p.Load == "rate" {
		return "conversations started per second"
	}
	return "conversations at once"
}

func (p *Plan) sayCapacity(a *capacity.Answer) []string {
	if !a.Resolved {
		lines := []string{"UNRESOLVED: " + a.Missing}
		if a.Low > 0 {
			lines = append(lines, fmt.Sprintf("at least %.4g %s (95 %%)", a.Low, p.unit()))
		}
		return lines
	}
	kind := "a slope"
	failed := ""
	if g, err := ParseGate(a.Binds); err == nil {
		if l := p.level(a.Failed.Load); l != nil {
			if s := l.Figure(g.Figure + "." + g.Stat); s != nil {
				failed = fmt.Sprintf(": at %.4g it is %s", a.Failed.Load, showMS(float64(s.Mean)))
			}
		}
	}
	if a.Cliff {
		kind = "a cliff"
	}
	return []string{
		fmt.Sprintf("%.4g %s (95 %%: %.4g to %.4g), bound by %s; %s%s", a.Capacity, p.unit(), a.Low, a.High, a.Binds, kind, failed),
		fmt.Sprintf("confirmed: %.4g held in %d of %d runs, %.4g failed in %d of %d", a.Held.Load, a.Held.Held, a.Held.Runs, a.Failed.Load, a.Failed.Runs-a.Failed.Held, a.Failed.Runs),
		fmt.Sprintf("%d runs, %.0f s under load", a.Runs, a.Seconds),
	}
}

func (p *Plan) level(load float64) *Level {
	for i := range p.Levels {
		if p.Levels[i].Load == load {
			return &p.Levels[i]
		}
	}
	return nil
}

func showMS(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.3g s", ms/1000)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
