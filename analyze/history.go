package analyze

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/analyze/capacity"
	"parley/analyze/compare"
	"parley/analyze/stat"
	"parley/schemas"
)

// History is what runs over a long time say: how each figure went, and where it changed.
type History struct {
	Dir      string         `json:"dir"`
	Rate     float64        `json:"false_discovery_rate"` // share of the figures said to have changed that have not, at most, on average
	Groups   []HistoryGroup `json:"groups"`
	Warnings []string       `json:"warnings,omitempty"` // files that could not be read
}

// Percent is Rate in percent.
func (h *History) Percent() float64 { return h.Rate * 100 }

// HistoryGroup is runs of one configuration, load and dataset.
type HistoryGroup struct {
	Hash   string          `json:"hash"` // of the configuration
	Title  string          `json:"title"`
	Series []HistorySeries `json:"series"`
}

// HistorySeries is one figure over time.
type HistorySeries struct {
	Figure  string          `json:"figure"`
	Unit    string          `json:"unit"`
	Points  []HistoryPoint  `json:"points"` // in order of time
	Changes []HistoryChange `json:"changes,omitempty"`
}

// HistoryPoint is a run, or the runs of one level of a plan.
type HistoryPoint struct {
	When  time.Time `json:"when"`
	Value Num       `json:"value"`
	Low   Num       `json:"low"` // over repeats, or within the run
	High  Num       `json:"high"`
	Runs  int       `json:"runs"`
	File  string    `json:"file"` // of the first
}

// HistoryChange is a place at which a figure changed.
type HistoryChange struct {
	At     int       `json:"at"` // the first point behind it
	When   time.Time `json:"when"`
	Before Num       `json:"before"` // means of the levels on both sides
	After  Num       `json:"after"`
	Ratio  Num       `json:"ratio"` // of latencies and rates
	Low    Num       `json:"low"`   // its interval
	High   Num       `json:"high"`
	P      float64   `json:"p"`
	Worse  bool      `json:"worse"`
}

// historyRate bounds the false discoveries of a history.
const historyRate = 0.05

// historyFigures are the figures of a history.
var historyFigures = []string{"ttft.p50", "ttft.p99", "tpot.p50", "e2e.p50", "output_throughput", "request_throughput", "error_rate", "cache_reuse", capacityFigure}

// capacityFigure is what a search found.
const capacityFigure = "capacity"

// notConfiguration are the parts of a configuration that may differ between runs that belong together.
var notConfiguration = []string{"output", "resume", "run_id", "label", "seed", "start_at", "urls", "dataset", "save_text"}

// observation is a run, before those of a plan's level are put together.
type observation struct {
	key, title, plan, file string
	when                   time.Time
	values                 map[string]compare.Figure
}

// ReadHistory reads every run below a folder, one at a time, and finds where figures changed.
func ReadHistory(ctx context.Context, dir string, o Options) (*History, error) {
	h := &History{Dir: dir, Rate: historyRate}
	var all []observation
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "cut" && path != dir: // runs of a plan that were cut short
			return fs.SkipDir
		case d.Name() == schemas.PlanFile:
			if found, ok := observeSearch(filepath.Dir(path)); ok {
				all = append(all, found)
			}
			return nil
		case d.IsDir() || !isRequests(path) || isSearched(filepath.Dir(path)):
			return ctx.Err()
		}
		got, err := observe(ctx, path, o)
		if err != nil {
			h.Warnings = append(h.Warnings, fmt.Sprintf("%s is left out: %v", path, err))
			return ctx.Err()
		}
		all = append(all, *got)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.Join(fmt.Errorf("%s holds no run that can be read", dir), ctx.Err())
	}
	h.gather(all)
	return h, nil
}

// isSearched says whether a folder has the runs of a search, whose loads and lengths are never the same twice: what it
// says is its answer.
func isSearched(dir string) bool {
	p, err := schemas.ReadPlan(dir)
	return err == nil && p.Search != nil
}

// observeSearch gives the answer of a folder's search, if it has one.
func observeSearch(dir string) (observation, bool) {
	p, err := schemas.ReadPlan(dir)
	if err != nil || p.Search == nil || len(p.Sides) == 0 || len(p.Runs) == 0 {
		return observation{}, false
	}
	var a capacity.Answer
	if json.Unmarshal(p.Search.Answer, &a) != nil || !a.Resolved {
		return observation{}, false
	}
	meta, err := schemas.ReadRunMeta(filepath.Join(dir, p.Runs[0].File))
	if err != nil || meta == nil {
		return observation{}, false
	}
	key, err := configHash(p.Sides[0].Config, meta.Dataset.ContentHash, p.Load, p.Search.Objectives)
	if err != nil {
		return observation{}, false
	}
	f := compare.Value(a.Capacity)
	f.Low, f.High = a.Low, a.High
	return observation{
		key: key, title: strings.TrimSpace(p.Sides[0].Label + " " + p.Load + " within " + strings.Join(p.Search.Objectives, ", ")), plan: p.ID,
		file: filepath.Join(dir, schemas.PlanFile), when: meta.Origin, values: map[string]compare.Figure{capacityFigure: f},
	}, true
}

// configHash names a configuration, without what may differ between runs that belong together.
func configHash(config json.RawMessage, more ...any) (string, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(config, &parts); err != nil {
		return "", fmt.Errorf("its configuration: %w", err)
	}
	for _, name := range notConfiguration {
		delete(parts, name)
	}
	text, err := json.Marshal([]any{parts, more}) // maps are written in order
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6]), nil
}

// observe works out what one run says.
func observe(ctx context.Context, path string, o Options) (_ *observation, err error) {
	runs, err := Load(ctx, []string{path})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	res, err := Analyze(ctx, runs, o)
	if err != nil {
		return nil, err
	}
	meta := &runs.list[0].meta
	if res.Runs[0].Verdict.Grade == schemas.Invalid {
		return nil, errors.New("its verdict is INVALID")
	}
	key, err := configHash(meta.Config, meta.Dataset.ContentHash, meta.Place.Side, models(runs.list[0]))
	if err != nil {
		return nil, err
	}
	title := meta.Label
	if meta.Place.Level != "" {
		title += " " + meta.Place.Level
	}
	if meta.Place.Side != "" {
		title += " side " + meta.Place.Side
	}
	for _, m := range models(runs.list[0]) {
		title += " " + m
	}
	return &observation{
		key: key, title: strings.TrimSpace(title + " " + meta.Dataset.File), plan: meta.Place.Plan, file: path, when: meta.Origin, values: gateFigures(&res.Runs[0]),
	}, nil
}

func models(r *run) (list []string) {
	for _, t := range r.meta.Targets {
		if !slices.Contains(list, t.Model) {
			list = append(list, t.Model)
		}
	}
	return list
}

// gather makes series of observations and judges them.
func (h *History) gather(all []observation) {
	slices.SortStableFunc(all, func(a, b observation) int { return cmp.Or(cmp.Compare(a.key, b.key), a.when.Compare(b.when)) })
	var series [][]float64
	var of []*HistorySeries
	for at := 0; at < len(all); {
		end := at
		for end < len(all) && all[end].key == all[at].key {
			end++
		}
		g := HistoryGroup{Hash: all[at].key, Title: all[at].title}
		for _, name := range historyFigures {
			if s := historySeries(name, all[at:end]); len(s.Points) > 0 {
				g.Series = append(g.Series, s)
			}
		}
		at = end
		h.Groups = append(h.Groups, g)
	}
	slices.SortStableFunc(h.Groups, func(a, b HistoryGroup) int { return cmp.Compare(a.Title, b.Title) })
	for i := range h.Groups {
		for j := range h.Groups[i].Series {
			s := &h.Groups[i].Series[j]
			of, series = append(of, s), append(series, s.scale())
		}
	}
	for i, steps := range stat.Steps(series, h.Rate, 1) {
		of[i].change(steps, series[i])
	}
}

// historySeries gives one figure of the observations of a group: runs of one plan are one point.
func historySeries(name string, all []observation) HistorySeries {
	s := HistorySeries{Figure: name, Unit: compare.UnitOf(name)}
	if name == capacityFigure {
		s.Unit = ""
	}
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[i].plan != "" && all[end].plan == all[i].plan {
			end++
		}
		var values []float64
		for _, o := range all[i:end] {
			if f, ok := o.values[name]; ok && !math.IsNaN(f.Value) {
				values = append(values, f.Value)
			}
		}
		if len(values) > 0 {
			f := spread("", name, values)
			p := HistoryPoint{When: all[i].when, Value: f.Mean, Low: f.Low, High: f.High, Runs: len(values), File: all[i].file}
			if len(values) == 1 {
				one := all[i].values[name]
				p.Low, p.High = Num(one.Low), Num(one.High)
			}
			s.Points = append(s.Points, p)
		}
		i = end
	}
	return s
}

// isShare says whether the series is one of shares, which are compared as they are; others by their logarithms.
func (s *HistorySeries) isShare() bool {
	return s.Unit == "share" || slices.ContainsFunc(s.Points, func(p HistoryPoint) bool { return !(p.Value > 0) })
}

func (s *HistorySeries) scale() []float64 {
	share := s.isShare()
	out := make([]float64, len(s.Points))
	for i, p := range s.Points {
		if out[i] = float64(p.Value); !share {
			out[i] = math.Log(out[i])
		}
	}
	return out
}

// change takes over the places at which the series changed.
func (s *HistorySeries) change(steps []stat.Step, values []float64) {
	higher := s.Figure == capacityFigure
	for _, p := range compare.Plain {
		higher = higher || p.Name == s.Figure && p.HighIsGood
	}
	for i, st := range steps {
		from, to := 0, len(values)
		if i > 0 {
			from = steps[i-1].At
		}
		if i+1 < len(steps) {
			to = steps[i+1].At
		}
		w := stat.Welch(values[from:st.At], values[st.At:to])
		before, _ := stat.MeanStd(values[from:st.At])
		after, _ := stat.MeanStd(values[st.At:to])
		c := HistoryChange{At: st.At, When: s.Points[st.At].When, P: st.P, Worse: (w.Diff > 0) != higher, Ratio: Missing, Low: Missing, High: Missing, Before: Num(before), After: Num(after)}
		if !s.isShare() {
			c.Before, c.After = Num(math.Exp(before)), Num(math.Exp(after))
			c.Ratio, c.Low, c.High = Num(math.Exp(w.Diff)), Num(math.Exp(w.Interval.Low)), Num(math.Exp(w.Interval.High))
		}
		s.Changes = append(s.Changes, c)
	}
}
