package analyze

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/analyze/compare"
	"parley/schemas"
)

// Moment is what latencies count from.
type Moment string

// The moments: the first byte handed to the kernel, the attempt's start (before it had a connection: what
// other clients call TTFT), and the moment that the schedule asked for (free of coordinated omission).
const (
	FromSent      Moment = "sent"
	FromStart     Moment = "start"
	FromScheduled Moment = "scheduled"
)

// Options is what to find out. The zero value gives the figures of the steady window, from the moment of
// sending, with no groups.
type Options struct {
	From        Moment         // "" is sent
	Percentiles []float64      // in percent, above 0 and below 100; none is 50, 90, 95, 99
	Window      WindowSpec     // the zero value is steady
	By          []GroupSpec    // at most two levels
	Objectives  []Objective    // of the goodput
	Figures     []string       // names of figures to work out; none is all. Without chunk figures the chunk lists are not read
	NoIntervals bool           // leave the confidence intervals out
	Baseline    *Runs          // runs to compare with
	Gates       []compare.Spec // what must hold
	GPUs        float64        // of the server, for figures per GPU; 0 is unknown
}

// DefaultPercentiles are the percentiles of a report, in percent.
var DefaultPercentiles = []float64{50, 90, 95, 99}

// withDefaults fills in what was left open.
func (o Options) withDefaults() Options {
	if o.From == "" {
		o.From = FromSent
	}
	if len(o.Percentiles) == 0 {
		o.Percentiles = DefaultPercentiles
	}
	for _, g := range o.Gates {
		if len(o.Figures) > 0 && slices.Contains(FigureNames(), g.Figure) && !slices.Contains(o.Figures, g.Figure) {
			o.Figures = append(slices.Clip(o.Figures), g.Figure)
		}
		if p, ok := g.Percentile(); ok {
			o.Percentiles = append(slices.Clip(o.Percentiles), p)
		}
	}
	o.Percentiles = slices.Compact(slices.Sorted(slices.Values(o.Percentiles)))
	if o.Window.Kind == "" {
		o.Window.Kind = WindowSteady
	}
	return o
}

// Validate returns everything that is wrong with the options at once.
func (o Options) Validate() error {
	var errs []error
	switch o.From {
	case "", FromSent, FromStart, FromScheduled:
	default:
		errs = append(errs, fmt.Errorf("latencies count from sent, start or scheduled, not from %q", o.From))
	}
	for _, p := range o.Percentiles {
		if !(p > 0 && p < 100) {
			errs = append(errs, fmt.Errorf("percentile %v: give a number above 0 and below 100", p))
		}
	}
	if len(o.By) > 2 {
		errs = append(errs, fmt.Errorf("%d levels of groups: at most two can be shown", len(o.By)))
	}
	for _, g := range o.By {
		if err := g.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range o.Figures {
		if !slices.Contains(FigureNames(), name) {
			errs = append(errs, fmt.Errorf("there is no figure %q: choose from %s", name, strings.Join(FigureNames(), ", ")))
		}
	}
	for _, obj := range o.Objectives {
		if !slices.Contains(ObjectiveFigures(), obj.Figure) {
			errs = append(errs, fmt.Errorf("there is no objective for %q: choose from %s", obj.Figure, strings.Join(ObjectiveFigures(), ", ")))
		}
		if !(obj.Limit > 0) {
			errs = append(errs, fmt.Errorf("objective %s: the limit must be above 0", obj.Figure))
		}
	}
	if o.GPUs < 0 {
		errs = append(errs, fmt.Errorf("%v GPUs: give a number above 0", o.GPUs))
	}
	relative := slices.ContainsFunc(o.Gates, compare.Spec.Relative)
	if relative && o.Baseline == nil {
		errs = append(errs, errors.New("a gate with a sign (such as +5%) compares with a baseline: give one with --baseline"))
	}
	goodput := func(g compare.Spec) bool { return strings.HasPrefix(g.Figure, "goodput") }
	if len(o.Objectives) == 0 && slices.ContainsFunc(o.Gates, goodput) {
		errs = append(errs, errors.New("a gate on goodput needs objectives: give them with --slo, such as --slo ttft=500ms"))
	}
	return errors.Join(errs...)
}

// wants says whether a figure is asked for.
func (o *Options) wants(name string) bool {
	return len(o.Figures) == 0 || slices.Contains(o.Figures, name)
}

// objective gives the limit for a figure, or 0.
func (o *Options) objective(figure string) float64 {
	for _, obj := range o.Objectives {
		if obj.Figure == figure {
			return obj.Limit
		}
	}
	return 0
}

// statusIndex maps a status to its place in schemas.Statuses.
func statusIndex(s string) int { return slices.Index(schemas.Statuses, schemas.Status(s)) }

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
