package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/analyze"
	"parley/analyze/render"
	"parley/analyze/stat"
	"parley/generate"
	"parley/replay"
	"parley/replay/load"
	"parley/schemas"
)

func (c *replayCommand) run(ctx context.Context, p *program, ui *ui) (err error) {
	if c.Output == "-" {
		return usageError(errors.New("--output -: results are a Parquet file and its journal: name the file"))
	}
	if c.Find != "" || len(c.Objective) > 0 {
		return c.find(ctx, p, ui)
	}
	if levels, is, err := c.levels(); err != nil {
		return usageError(err)
	} else if is {
		return c.runPlan(ctx, p, ui, levels)
	}
	cfg, err := c.config()
	if err != nil {
		return usageError(err)
	}
	cfg.Open = c.opener(ui)
	if c.DryRun {
		return c.dryRun(p, cfg)
	}
	if c.Resume {
		outcome, err := c.ended()
		if err != nil {
			return err
		}
		if outcome != nil {
			if err := schemas.CheckOutput(c.Output, c.Force); err != nil {
				return usageError(err)
			}
			ui.note("the run had ended: its rows become %s", c.Output)
			c.Force = true // the telemetry may stand there already, from this very journal
			return c.settle(ctx, p, ui, outcome, nil)
		}
	}
	if err := checkReplayOutput(c); err != nil {
		return usageError(err)
	}
	stop, err := c.simulators(ctx, &cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := cfg.Validate(); err != nil {
		return usageError(err)
	}
	if cfg.Insecure {
		ui.note("--insecure: the server's certificate is not verified")
	}
	outcome, err := c.drive(ctx, p, ui, cfg, &drive{})
	if errors.Is(err, replay.ErrInterrupted) {
		return exitError{codeInterrupted, err}
	}
	if outcome == nil {
		return err
	}
	err = c.calibrated(ctx, ui, cfg, outcome, err)
	return c.settle(ctx, p, ui, outcome, err)
}

// opener gives what opens the dataset, in whatever form it is.
func (c *replayCommand) opener(ui *ui) func(path string) (*schemas.Dataset, error) {
	return func(path string) (*schemas.Dataset, error) {
		if len(c.Dataset) > 1 { // the shell has put the names in the place of a pattern
			return schemas.OpenParts(c.Dataset...)
		}
		d, err := generate.OpenDataset(path)
		if err == nil && d.Meta().CreatedBy != "generate" { // what was done to others' chats is told by nobody else
			for _, n := range d.Meta().Notes {
				ui.note("%s", n)
			}
		}
		return d, err
	}
}

// calibrated adds to a run what its client adds, if that was asked for.
func (c *replayCommand) calibrated(ctx context.Context, ui *ui, cfg replay.Config, outcome *replay.Outcome, err error) error {
	if c.Calibrate && err == nil && outcome.Sealable && outcome.Meta.Ended != "interrupted" {
		ui.note("calibrating: the same load against the simulated server, whose true times are known")
		if outcome.Meta.Calibration, err = calibrate(ctx, cfg, outcome); err != nil {
			// The run itself is whole: it is not lost for this.
			outcome.Meta.Warnings = append(outcome.Meta.Warnings, fmt.Sprintf("the calibration failed: %v", err))
			ui.note("the calibration failed: %v", err)
			err = nil
		}
	}
	return err
}

// dryRun prints the schedule's shape and what it would ask for.
func (c *replayCommand) dryRun(p *program, cfg replay.Config) error {
	// Nothing is sent and nothing written: neither need be given.
	if cfg.Output == "" {
		cfg.Output = "-"
	}
	if len(cfg.URLs) == 0 {
		cfg.URLs = []string{"http://127.0.0.1"}
	}
	for i, url := range cfg.URLs {
		if isSimulated(url) {
			cfg.URLs[i] = "http://127.0.0.1"
		}
	}
	if err := cfg.Validate(); err != nil {
		return usageError(err)
	}
	shape, err := replay.Plan(cfg)
	if err != nil {
		return err
	}
	return printShape(p.stdout, shape)
}

// ended gives the outcome of a run that had ended, but whose program was killed, or whose disk was full, before its
// files stood; nil if there is no such run. Of any other journal the run itself tells.
func (c *replayCommand) ended() (*replay.Outcome, error) {
	dir := schemas.JournalPath(c.Output)
	if !schemas.IsJournal(dir) {
		return nil, nil
	}
	state, err := schemas.ReadJournal(dir, func([]schemas.Request) error { return nil })
	if err != nil || !state.Finished {
		return nil, nil
	}
	meta, err := schemas.JournalMeta(dir)
	if err != nil {
		return nil, nil
	}
	if state.Rows != meta.Rows {
		return nil, fmt.Errorf("%s holds %d of the %d rows of a run that ended: the run wrote its file before, or the journal is damaged", dir, state.Rows, meta.Rows)
	}
	return &replay.Outcome{Journal: dir, Meta: *meta, Sealable: true}, nil
}

// checkReplayOutput finds out before the load whether its results will have a place.
func checkReplayOutput(c *replayCommand) error {
	if c.Output == "" {
		return errors.New("--output: missing: give the file to write, such as -o run.parquet")
	}
	if c.Resume && !schemas.IsJournal(schemas.JournalPath(c.Output)) {
		return fmt.Errorf("--resume: there is no %s to continue: only a run that was killed leaves its journal; one that ended, or that was interrupted in good order, has its rows in %s", schemas.JournalPath(c.Output), c.Output)
	}
	return errors.Join(
		schemas.CheckOutput(c.Output, c.Force),
		schemas.CheckOutput(schemas.TelemetryPath(c.Output), c.Force),
	)
}

// simulators starts a server for each sim: URL and puts its address in the URL's place.
func (c *replayCommand) simulators(ctx context.Context, cfg *replay.Config) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, s := range stops {
			errs = append(errs, s())
		}
		return errors.Join(errs...)
	}
	cfg.URLs = append([]string(nil), cfg.URLs...)
	for i, url := range cfg.URLs {
		if !isSimulated(url) {
			continue
		}
		s, twin, err := startSimulator(ctx, url)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		c.twin = twin
		stops = append(stops, s.Stop)
		cfg.URLs[i] = s.URL
		cfg.Simulated = true
		cfg.SimURLs = append(cfg.SimURLs, url)
	}
	return stop, nil
}

// drive is what one run has to do with the plan that it belongs to. The zero value is a run by itself.
type drive struct {
	place       func() string // which run of the plan it is, and how long that still takes
	interrupted bool          // the run was, whether or not it ended by that
	rows        func(rows []schemas.Request)
	enough      <-chan struct{} // closed: the run has told what it had to
	started     func(progress func() replay.Progress)
}

// before gives what stands before the progress.
func (d *drive) before() string {
	if d.place == nil {
		return ""
	}
	return d.place()
}

// drive runs the load with a progress line and the interrupts' two meanings.
func (c *replayCommand) drive(ctx context.Context, p *program, ui *ui, cfg replay.Config, d *drive) (*replay.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	drain := make(chan struct{})
	ended := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-ended:
				return
			case <-p.interrupts:
			}
			if n == 1 {
				d.interrupted = true
				close(drain)
				ui.note("interrupted: running turns may finish; interrupt again to stop them")
			} else {
				ui.note("interrupted again: stopping")
				cancel()
			}
		}
	})
	hooks := replay.Hooks{
		Drain: drain, Rows: d.rows, Enough: d.enough,
		Note: func(text string) {
			if d.place == nil {
				ui.note("%s", text)
			} else { // what each run of a plan would say again; warnings stand in its file
				ui.progress(d.before() + text)
			}
		},
		Started: func(progress func() replay.Progress) {
			if d.started != nil {
				helpers.Go(func() { d.started(progress) })
			}
			helpers.Go(func() {
				ticks := time.NewTicker(500 * time.Millisecond)
				defer ticks.Stop()
				for {
					select {
					case <-ended:
						return
					case <-ticks.C:
						ui.progress(d.before() + replayProgress(progress()))
					}
				}
			})
		},
	}
	outcome, err := replay.Run(ctx, cfg, hooks)
	close(ended)
	helpers.Wait()
	ui.done()
	return outcome, err
}

// replayProgress is the progress line.
func replayProgress(now replay.Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", now.Elapsed.Round(time.Second))
	if now.Planned > 0 {
		fmt.Fprintf(&b, "%s/%s turns", thousands(now.Done), thousands(now.Planned))
	} else {
		fmt.Fprintf(&b, "%s turns", thousands(now.Done))
	}
	fmt.Fprintf(&b, " | %d in flight, %d conversations | %.1f req/s, %.0f tok/s | TTFT p50 %s p99 %s | %s errors",
		now.InFlight, now.Active, now.RequestsPerS, now.TokensPerS, percentile(now.TTFTP50, 0.5, now.TTFTs), percentile(now.TTFTP99, 0.99, now.TTFTs), thousands(now.Errors))
	if now.Stopping != "" {
		fmt.Fprintf(&b, " | stopping: %s", now.Stopping)
	}
	return b.String()
}

// percentile prints the q-quantile of n turns, marked as tables mark it where so few do not carry it.
func percentile(d time.Duration, q float64, n int64) string {
	if d <= 0 {
		return "-"
	}
	mark := "~"
	if stat.Carries(q, float64(n)) {
		mark = ""
	}
	return fmt.Sprintf("%s%.0f ms", mark, float64(d)/1e6)
}

// settle gives the run its verdict, its file and its summary, and decides the exit code. Whatever went
// wrong, the rows stay readable: in the file, or in the journal that is named.
func (c *replayCommand) settle(ctx context.Context, p *program, ui *ui, outcome *replay.Outcome, runErr error) error {
	result, runErr := c.seal(ctx, ui, outcome, runErr, &drive{})
	if result != nil {
		o := tableOptions(p, ui)
		o.More = "parley analyze " + c.Output + " --detail"
		if err := render.Write(p.stdout, render.Text, result, o); err != nil {
			runErr = errors.Join(runErr, err)
		}
	}
	if result != nil && len(result.Runs) == 1 {
		advise(ui, result.Runs[0].Total.Counts.ErrorKinds)
	}
	if runErr != nil {
		return runErr
	}
	return runCode(&outcome.Meta)
}

// seal gives the run its verdict and its file.
func (c *replayCommand) seal(ctx context.Context, ui *ui, outcome *replay.Outcome, runErr error, d *drive) (*analyze.Result, error) {
	meta := &outcome.Meta
	result, err := analyze.Summary(ctx, outcome.Journal, meta, analyze.Options{})
	if err != nil {
		err = fmt.Errorf("the summary: %w", err)
	} else if len(result.Runs) == 1 {
		meta.Verdict = &result.Runs[0].Verdict
	}
	runErr = errors.Join(runErr, err)
	if c.twin != nil {
		beyond, err := analyze.BeyondFit(ctx, outcome.Journal, c.twin)
		runErr = errors.Join(runErr, err)
		for _, text := range beyond {
			text = "the twin does not know this load: " + text
			meta.Warnings = append(meta.Warnings, text)
			ui.note("%s%s", d.before(), text)
		}
	}
	if outcome.Sealable {
		if _, err := schemas.SealRun(c.Output, meta, c.Force); err != nil {
			runErr = errors.Join(runErr, fmt.Errorf("%w: the same command with --resume makes the files from there", err))
		} else {
			ui.note("%s%s", d.before(), written(c.Output, meta))
		}
	} else {
		runErr = errors.Join(runErr, fmt.Errorf("the rows so far are in %s: read them with 'parley analyze %s', continue with 'parley replay --resume'", outcome.Journal, outcome.Journal))
	}
	return result, runErr
}

// runCode gives the exit code of a run whose rows are written.
func runCode(meta *schemas.RunMeta) error {
	switch {
	case meta.Ended == load.EndErrors:
		return fmt.Errorf("the run gave the server up: too many turns failed (%d of %d rows); see the errors above, and --max-errors", failures(meta), meta.Rows)
	case meta.Ended == load.EndInterrupted:
		return exitError{code: codeInterrupted}
	case meta.Verdict != nil && meta.Verdict.Grade == schemas.Invalid:
		return exitError{code: codeVerdict}
	}
	return nil
}

// advise says what to do about the most frequent kinds of failure.
func advise(ui *ui, kinds map[string]int64) {
	most := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
	})
	said := 0
	for _, kind := range most {
		if text := replay.Advice(kind); text != "" && said < 3 {
			said++
			ui.note("%s (%s turns of the window): %s", kind, thousands(kinds[kind]), text)
		}
	}
}

// failures gives the number of a run's failed turns.
func failures(meta *schemas.RunMeta) (n int64) {
	for status, count := range meta.Counts {
		if status.Failed() {
			n += count
		}
	}
	return n
}

// written says what stands where, and that it is all of it.
func written(output string, meta *schemas.RunMeta) string {
	var parts []string
	for _, s := range schemas.Statuses {
		if n := meta.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", thousands(n), s))
		}
	}
	text := fmt.Sprintf("%s: %s turns planned, %s rows (%s)", output, thousands(meta.Planned), thousands(meta.Rows), strings.Join(parts, ", "))
	if meta.Telemetry != "" {
		text += "; telemetry in " + meta.Telemetry
	}
	if st, err := os.Stat(output); err == nil {
		text += "; " + size(st.Size())
	}
	return text
}
