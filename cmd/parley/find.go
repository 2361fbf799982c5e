package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"parley/analyze"
	"parley/analyze/capacity"
	"parley/replay"
	"parley/replay/load"
	"parley/replay/plan"
	"parley/schemas"
)

// Of a search's runs.
const (
	findLimit = 4 * time.Minute // the longest, if --duration does not say
	findWarm  = 12              // part of it that does not count, at its begin
	findRate  = 0.5             // conversations per second to begin with
	mostRate  = 1e5
)

// find looks for the largest load that a server carries within objectives. The search itself is package
// analyze/capacity; here its probes become runs of a plan, whose rows the search's watch follows.
func (c *replayCommand) find(ctx context.Context, p *program, ui *ui) (err error) {
	cfg, judge, err := c.search()
	if err != nil {
		return usageError(err)
	}
	pl := &planner{p: p, ui: ui, dir: c.Output, took: map[float64]time.Duration{}}
	if err := pl.make(c, []float64{cfg.First}); err != nil {
		return usageError(err)
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	pl.plan.Runs = nil
	pl.plan.Search = &schemas.PlanSearch{Objectives: c.Objective, From: c.From, Config: text}
	expect, most, err := pl.expect(c, &cfg)
	if err != nil {
		return err
	}
	if cfg.Max = most; c.DryRun {
		_, err := fmt.Fprintln(p.stdout, expect)
		return err
	}
	if err := pl.folder(c.Resume); err != nil {
		return err
	}
	ui.note("%s", expect)
	s := &pl.sides[0]
	stop, err := s.command.simulators(ctx, &s.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	search := capacity.New(cfg)
	for i := 0; ; i++ {
		probe, more := search.Next()
		if !more {
			break
		}
		if i == len(pl.plan.Runs) {
			pl.plan.Runs = append(pl.plan.Runs, pl.probe(probe))
			if err := pl.plan.Write(pl.dir); err != nil {
				return err
			}
		}
		r := &pl.plan.Runs[i]
		if r.Level != probe.Load || r.Phase != probe.Phase {
			return fmt.Errorf("%s: run %d is %s at %g, and the search wants %s at %g: it was begun by another version of parley", filepath.Join(pl.dir, schemas.PlanFile), i+1, r.Phase, r.Level, probe.Phase, probe.Load)
		}
		if r.Outcome == nil {
			pl.follow = func(d *drive, ended <-chan struct{}) { follow(d, ended, judge, search.Watch(probe), ui) }
			if err := pl.one(ctx, i); err != nil {
				ui.note("%d runs are done; the same command with --resume goes on", i)
				return err
			}
		}
		o, err := pl.outcome(r, judge, search.Watch(probe), cfg.Open)
		if err != nil {
			return err
		}
		if search.Add(probe, o); r.Outcome == nil {
			if r.Outcome, err = json.Marshal(o); err != nil {
				return err
			}
			if err := pl.plan.Write(pl.dir); err != nil {
				return err
			}
			pl.tell(r, &o, judge)
		}
	}
	answer := search.Answer()
	if pl.plan.Search.Answer, err = json.Marshal(answer); err != nil {
		return err
	}
	if err := pl.plan.Write(pl.dir); err != nil {
		return err
	}
	if err := pl.summary(ctx); err != nil {
		return err
	}
	if !answer.Resolved {
		return exitError{code: codeUndecided}
	}
	return nil
}

// search gives the search that the flags ask for, and completes the flags that its runs share.
func (c *replayCommand) search() (capacity.Config, *analyze.Judge, error) {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Find == "" {
		bad("--objective: goes with --find concurrency or --find rate; what must hold of runs is a --gate of analyze")
	}
	if len(c.Objective) == 0 {
		bad("--find: what has to hold? Give objectives, such as --objective 'ttft.p99<500ms'")
	}
	for flag, given := range map[string]bool{"repeat": c.Repeat > 1, "b-profile": c.BProfile != "", "order": c.Order != plan.Interleaved, "shard": c.Shard != "", "start-at": c.StartAt != "",
		"run-id": c.RunID != "", "force": c.Force, "requests": c.Requests != nil, "loops": c.Loops != nil, "ramp": c.Ramp != 0} {
		if given {
			bad("--%s: cannot be given with --find", flag)
		}
	}
	cfg := capacity.Config{Open: c.Find == "rate", First: 1, Resolution: capacity.DefaultResolution, MaxRuns: capacity.DefaultRuns}
	given, other, flag := &c.Concurrency, &c.Rate, "rate"
	if cfg.Open {
		given, other, flag, cfg.First = &c.Rate, &c.Concurrency, "concurrency", findRate
	}
	if *other != nil {
		bad("--%s: cannot be given with --find %s", flag, c.Find)
	}
	if *given != nil {
		v, err := strconv.ParseFloat(**given, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) || !cfg.Open && v != math.Trunc(v) {
			bad("--%s %s: with --find it is the load to begin with: one number", c.Find, **given)
		}
		cfg.First = v
	}
	first := strconv.FormatFloat(cfg.First, 'f', -1, 64)
	*given = &first
	if c.From == "" {
		if c.From = "sent"; cfg.Open {
			c.From = "scheduled"
		}
	}
	if c.Duration == 0 {
		c.Duration = findLimit
	}
	if c.WarmupTime == 0 {
		c.WarmupTime = c.Duration / findWarm
	}
	c.Stagger = !cfg.Open
	c.Salt = c.Salt || !c.FlushCache // no run may find what an earlier one left in the cache
	cfg.Limit, cfg.Warm = c.Duration.Seconds(), c.WarmupTime.Seconds()
	if cfg.Warm > cfg.Limit/2 {
		bad("--warmup-time %v: leaves less than half of the %v that one run may take", c.WarmupTime, c.Duration)
	}
	judge, err := analyze.NewJudge(c.Objective, analyze.Moment(c.From))
	if err != nil {
		bad("--objective: %w", err)
	} else {
		cfg.Objectives = judge.Objectives()
	}
	return cfg, judge, errors.Join(problems...)
}

// expect says before the first run how long the search will take, and gives the largest load that the dataset carries.
func (pl *planner) expect(c *replayCommand, cfg *capacity.Config) (text string, most float64, err error) {
	one := pl.sides[0].cfg
	if one.Output = c.Output; one.Output == "" {
		one.Output = "-"
	}
	one.URLs = []string{"http://127.0.0.1"} // nothing is sent
	shape, err := replay.Plan(one)
	if err != nil {
		return "", 0, err
	}
	if most = mostRate; !cfg.Open {
		most = float64(shape.Dataset.Conversations)
	}
	think := time.Duration(0)
	if shape.Turns > 0 {
		think = shape.ThinkTime / time.Duration(shape.Turns)
	}
	limit := c.Duration
	text = fmt.Sprintf("a search of about 20 runs of %v to %v each in %s: about %v, at most %v", (limit / 6).Round(time.Second), limit, c.Output,
		(20 * limit * 3 / 4).Round(time.Second), time.Duration(cfg.MaxRuns)*limit)
	if think > 0 {
		text += fmt.Sprintf("; a turn waits %v on average before it is sent (--think)", think.Round(time.Millisecond))
	}
	if !cfg.Open && shape.Turns > 0 && shape.Length > 0 {
		if turns := float64(shape.Turns) / shape.Length.Seconds() / cfg.First * limit.Seconds(); turns < 30 {
			text += fmt.Sprintf("; one conversation has about %.0f turns in a run, if the server takes %v to the first token and %v for each further one: a longer --duration or shorter think times make the small loads tell more", turns, shape.Assumed.TTFT, shape.Assumed.ITL)
		}
	}
	return text, most, nil
}

// probe makes the run of the plan that a probe asks for.
func (pl *planner) probe(p capacity.Probe) schemas.PlanRun {
	repeat := 0
	for _, r := range pl.plan.Runs {
		if r.Level == p.Load {
			repeat++
		}
	}
	r := plan.New(pl.plan, p.Load, "", repeat)
	r.Phase = p.Phase
	return r
}

// follow has a run's rows judged as they come, and ends the run when they have told enough.
func follow(d *drive, ended <-chan struct{}, judge *analyze.Judge, w *capacity.Watch, ui *ui) {
	enough := make(chan struct{})
	var mu sync.Mutex
	var failed error
	d.enough = enough
	d.rows = func(rows []schemas.Request) {
		turns, err := judge.Turns(rows)
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
		for _, t := range turns {
			w.Add(t)
		}
	}
	d.started = func(progress func() replay.Progress) {
		ticks := time.NewTicker(500 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			at := progress()
			if at.Stopping != "" {
				return
			}
			mu.Lock()
			done := w.Look(at.Elapsed.Seconds()-0.5) || failed != nil // rows come within half a second
			if failed != nil {
				ui.note("judge the run under way: %v", failed)
			}
			mu.Unlock()
			if done {
				close(enough)
				return
			}
		}
	}
}

// outcome judges a run from its file.
func (pl *planner) outcome(r *schemas.PlanRun, judge *analyze.Judge, w *capacity.Watch, open bool) (o capacity.Outcome, err error) {
	if r.Outcome != nil {
		return o, json.Unmarshal(r.Outcome, &o)
	}
	f, err := schemas.Open[schemas.Request](pl.path(r))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var meta schemas.RunMeta
	if err := f.Meta(&meta); err != nil {
		return o, err
	}
	var rows []schemas.Request
	for row, err := range f.Rows(0) {
		if err != nil {
			return o, err
		}
		rows = append(rows, row)
	}
	turns, err := judge.Turns(rows)
	if err != nil {
		return o, err
	}
	for _, t := range turns {
		w.Add(t)
	}
	end := float64(meta.EndedNS) / 1e9
	if meta.StopNS != nil {
		end = float64(*meta.StopNS) / 1e9
	}
	o = w.Outcome(end, open)
	if meta.Ended == load.EndErrors && o.Y <= 0 || o.Bad != "" && meta.Ended == load.EndErrors {
		o.Y, o.SE, o.Bad = 2, 0.5, ""
	}
	if v := meta.Verdict; v != nil {
		for _, reason := range v.Reasons {
			if reason.Grade == schemas.Invalid && reason.Signal == "send_lag_p99" {
				o.Bad = r.File + ": " + reason.Text + ". " + reason.Advice
			}
		}
	}
	return o, nil
}

// tell says in a line what a run came to.
func (pl *planner) tell(r *schemas.PlanRun, o *capacity.Outcome, judge *analyze.Judge) {
	if o.Bad != "" {
		pl.ui.note("%s says nothing: %s", r.File, o.Bad)
		return
	}
	obj := judge.Objectives()[o.Objective]
	word := "held"
	if !o.Held() {
		word = "failed"
	}
	text := fmt.Sprintf("%s %s in %.0f s", pl.plan.LevelName(r.Level), word, o.Seconds)
	switch {
	case o.Rising:
		text += ": the requests in flight rose"
	case obj.Share:
		text += fmt.Sprintf(": %s missed by %.3g %% of %d turns, %.3g %% may", obj.Text, o.Share*100, o.Turns, obj.Allowed*100)
	default:
		text += fmt.Sprintf(": %s at %.3g of its limit", obj.Text, o.Share)
	}
	pl.ui.note("%s", text)
}
