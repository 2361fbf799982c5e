package analyze

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/analyze/capacity"
	"parley/schemas"
)

// Judge says of single turns whether they miss the objectives of a search for the capacity.
type Judge struct {
	objectives []capacity.Objective
	figures    []*figure // nil: the error rate
	limits     []float64 // ms
	names      []string
	o          Options
}

// NewJudge reads objectives: conditions on a run as gates have them, of the kind that a growing load breaks
// (ttft.p99<500ms, tpot.mean<30ms, error_rate<1%).
func NewJudge(objectives []string, from Moment) (*Judge, error) {
	j := &Judge{o: Options{From: from}.withDefaults(), names: slices.Clone(baseColumns)}
	for _, text := range objectives {
		g, err := ParseGate(text)
		if err != nil {
			return nil, err
		}
		p, isPercentile := g.Percentile()
		switch {
		case g.Signed || g.Op != "<" && g.Op != "<=" || !(g.Bound > 0):
			return nil, fmt.Errorf("%q: an objective is an upper limit, such as ttft.p99<500ms", text)
		case g.Figure == "error_rate":
			j.add(capacity.Objective{Text: g.Text, Allowed: g.Bound, Share: true}, nil, 0)
		case !slices.Contains(ObjectiveFigures(), g.Figure):
			return nil, fmt.Errorf("%q: a search goes by figures of turns (%s) and by error_rate", text, strings.Join(ObjectiveFigures(), ", "))
		case isPercentile:
			j.add(capacity.Objective{Text: g.Text, Allowed: 1 - p/100, Share: true}, rowFigure(g.Figure), g.Bound)
		case g.Stat == "mean":
			j.add(capacity.Objective{Text: g.Text, Allowed: 1}, rowFigure(g.Figure), g.Bound)
		default:
			return nil, fmt.Errorf("%q: a search goes by percentiles and means", text)
		}
	}
	j.names = slices.Compact(slices.Sorted(slices.Values(j.names)))
	return j, nil
}

func (j *Judge) add(o capacity.Objective, f *figure, limit float64) {
	j.objectives, j.figures, j.limits = append(j.objectives, o), append(j.figures, f), append(j.limits, limit)
	if f != nil {
		j.names = append(j.names, f.columns...)
	}
}

// Objectives gives what the search has to hold.
func (j *Judge) Objectives() []capacity.Objective { return j.objectives }

// Turns judges rows of a run; those that were not sent, or that the run's end cut off, say nothing. A failed turn misses
// every percentile, and so does one that does not tell its figure, unless an answer of one token has none.
func (j *Judge) Turns(rows []schemas.Request) ([]capacity.Turn, error) {
	r := &run{parts: []*part{{memory: rows, rows: len(rows)}}}
	f, err := r.read(context.Background(), j.names)
	if err != nil {
		return nil, err
	}
	values := make([]func(int) float64, len(j.figures))
	for i, fig := range j.figures {
		if fig != nil {
			values[i] = fig.values(f, &j.o)
		}
	}
	scheduled, completion := f.ints("scheduled_ns"), f.ints("completion_tokens")
	var out []capacity.Turn
	for row := range f.rows {
		status := schemas.Statuses[f.status[row]]
		if !status.Sent() || status == schemas.StatusCanceled || status == schemas.StatusAbandoned || f.end[row] == schemas.NullInt {
			continue
		}
		begin := f.moment[row]
		if scheduled[row] != schemas.NullInt && j.o.From == FromScheduled {
			begin = scheduled[row]
		}
		t := capacity.Turn{Begin: float64(begin) / 1e9, End: float64(f.end[row]) / 1e9, Miss: make([]float64, len(j.figures))}
		for i, obj := range j.objectives {
			t.Miss[i] = j.miss(i, obj, f, row, status, values[i], completion[row])
			if !f.main[row] {
				t.Miss[i] = math.NaN()
			}
		}
		out = append(out, t)
	}
	return out, nil
}

func (j *Judge) miss(i int, obj capacity.Objective, f *frame, row int, status schemas.Status, value func(int) float64, tokens int64) float64 {
	yes := map[bool]float64{true: 1}
	switch {
	case value == nil:
		return yes[status.Failed()]
	case !obj.Share && status != schemas.StatusOK:
		return math.NaN()
	case !obj.Share:
		return value(row) / j.limits[i]
	case status != schemas.StatusOK:
		return 1
	}
	v := value(row)
	if math.IsNaN(v) && tokens == 1 && j.figures[i].perToken {
		return v
	}
	return yes[!(v <= j.limits[i])]
}
