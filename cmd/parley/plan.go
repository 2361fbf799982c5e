package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"parley/analyze"
	"parley/analyze/render"
	"parley/replay"
	"parley/replay/load"
	"parley/replay/plan"
	"parley/schemas"
)

// A plan's runs are made one by one in its folder. What stands there is all that is known of how far it is: a run is
// done if its file is there and the run ended by itself. So a plan can be killed at any moment.

// levels gives the levels of the plan that the flags ask for, and whether they ask for one.
func (c *replayCommand) levels() (levels []float64, is bool, err error) {
	var problems []error
	for _, l := range []struct {
		flag string
		text *string
	}{{"concurrency", c.Concurrency}, {"rate", c.Rate}} {
		if l.text == nil {
			continue
		}
		list, isList, err := plan.ParseLevels(*l.text)
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", l.flag, err))
		}
		if is = is || isList; isList {
			levels = list
		}
	}
	if c.Repeat < 1 {
		problems = append(problems, fmt.Errorf("--repeat %d: give 1 or more", c.Repeat))
	}
	is = is || c.Repeat > 1 || c.BProfile != ""
	if !is {
		for flag, given := range map[string]bool{"between": c.Between != 0, "order": c.Order != plan.Interleaved} {
			if given {
				problems = append(problems, fmt.Errorf("--%s: there is one run only: it goes with a list of levels, --repeat or --b-profile", flag))
			}
		}
		return nil, false, errors.Join(problems...)
	}
	if c.Between < 0 {
		problems = append(problems, fmt.Errorf("--between %v is negative", c.Between))
	}
	if c.Concurrency != nil && c.Rate != nil {
		problems = append(problems, errors.New("--concurrency: cannot be given with --rate"))
	}
	if c.Concurrency == nil && c.Rate == nil {
		problems = append(problems, errors.New("--concurrency: a plan needs its levels of load: give --concurrency 1,2,4 or --rate 0.5,1,2 (one level, if it is to be repeated)"))
	}
	for flag, given := range map[string]bool{"shard": c.Shard != "", "start-at": c.StartAt != "", "run-id": c.RunID != "", "force": c.Force} {
		if given {
			problems = append(problems, fmt.Errorf("--%s: cannot be given with a plan of several runs", flag))
		}
	}
	if len(levels) == 0 && len(problems) == 0 {
		text := c.Concurrency
		if text == nil {
			text = c.Rate
		}
		v, err := strconv.ParseFloat(*text, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("%q: a plan has plain levels, such as 16 or 1,2,4: stages are one run", *text))
		}
		levels = []float64{v}
	}
	return levels, true, errors.Join(problems...)
}

// planner makes the runs of a plan.
type planner struct {
	p     *program
	ui    *ui
	dir   string
	plan  *schemas.Plan
	sides []side
	took  map[float64]time.Duration // by level: how long a run of it took
	code  error                     // the exit code so far

	follow func(d *drive, ended <-chan struct{}) // of a search: watches the run under way
}

// side is one target of a plan.
type side struct {
	command replayCommand
	cfg     replay.Config // with the addresses of its simulated servers, for every run
}

func (c *replayCommand) runPlan(ctx context.Context, p *program, ui *ui, levels []float64) (err error) {
	pl := &planner{p: p, ui: ui, dir: c.Output, took: map[float64]time.Duration{}}
	if err := pl.make(c, levels); err != nil {
		return usageError(err)
	}
	if c.DryRun {
		return pl.describe()
	}
	if err := pl.folder(c.Resume); err != nil {
		return err
	}
	if pl.done() < len(pl.plan.Runs) { // else no server is needed
		for i := range pl.sides {
			s := &pl.sides[i]
			stop, err := s.command.simulators(ctx, &s.cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
		}
	}
	ui.note("%s", pl.outline())
	for i := range pl.plan.Runs {
		if err := pl.one(ctx, i); err != nil {
			ui.note("%d of %d runs are done; the same command with --resume goes on", pl.done(), len(pl.plan.Runs))
			return err
		}
	}
	return errors.Join(pl.summary(ctx), pl.code)
}

// make lays the plan out.
func (pl *planner) make(c *replayCommand, levels []float64) error {
	id := make([]byte, 6)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	pl.plan = &schemas.Plan{
		ID: hex.EncodeToString(id), ToolVersion: schemas.Version(), Load: "concurrency", Repeats: c.Repeat, Order: c.Order, Between: c.Between, Seed: c.Seed,
	}
	if c.Rate != nil {
		pl.plan.Load = "rate"
	}
	if c.Output == "" {
		return errors.New("--output: missing: give the folder for the runs of the plan, such as -o runs/")
	}
	pl.sides = []side{{command: *c}}
	names := []string{""}
	if c.BProfile != "" {
		b, err := c.sideB()
		if err != nil {
			return fmt.Errorf("--b-profile: %w", err)
		}
		names = []string{"a", "b"}
		pl.sides = append(pl.sides, side{command: *b})
	}
	for i := range pl.sides {
		s := &pl.sides[i]
		s.command.Resume = false
		if names[i] != "" && s.command.Label == "" {
			s.command.Label = strings.ToUpper(names[i])
		}
		for _, level := range levels { // everything that is wrong with any of them is said before the first
			cfg, err := s.command.at(level).config()
			if err != nil {
				return err
			}
			cfg.Open = s.command.opener(pl.ui)
			s.cfg = cfg
			if cfg.URLs = slices.Clone(cfg.URLs); c.DryRun && len(cfg.URLs) == 0 {
				cfg.URLs = []string{"http://127.0.0.1"}
			}
			for j, url := range cfg.URLs {
				if isSimulated(url) {
					cfg.URLs[j] = "http://127.0.0.1"
					cfg.SimURLs = append(cfg.SimURLs, url)
				}
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			if level != levels[0] {
				continue
			}
			cfg.Output, cfg.Concurrency, cfg.Rate, cfg.Seed = "", 0, nil, 0 // of each run its own
			text, err := json.Marshal(cfg)
			if err != nil {
				return err
			}
			pl.plan.Sides = append(pl.plan.Sides, schemas.PlanSide{Name: names[i], Label: s.command.Label, Config: text})
		}
	}
	if err := plan.Lay(pl.plan, levels); err != nil {
		return fmt.Errorf("--order: %w", err)
	}
	return nil
}

// at gives the command of a run at one level.
func (c *replayCommand) at(level float64) *replayCommand {
	one := *c
	text := strconv.FormatFloat(level, 'f', -1, 64)
	if one.Rate != nil {
		one.Rate = &text
	} else {
		one.Concurrency = &text
	}
	return &one
}

// sideB gives the command of the second target: this one's, but for what its profile says.
func (c *replayCommand) sideB() (*replayCommand, error) {
	var line commandLine
	parser, err := kong.New(&line, kong.Name("parley"), kong.Configuration(loadProfile), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return nil, err
	}
	file, err := os.Open(c.BProfile)
	if err != nil {
		return nil, err
	}
	values, err := loadProfile(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.BProfile, err)
	}
	kctx, err := parser.Parse([]string{"replay", "x", "--profile", c.BProfile})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.BProfile, err)
	}
	b, given := *c, 0
	from, to := reflect.ValueOf(&line.Replay).Elem(), reflect.ValueOf(&b).Elem()
	for _, flag := range kctx.Selected().Flags {
		if v, err := values.Resolve(kctx, nil, flag); err != nil || v == nil {
			continue
		}
		given++
		if own := []string{"output", "force", "run-id"}; flag.Group == nil || slices.Contains(own, flag.Name) ||
			!slices.Contains([]string{"Target", "Requests", "Connection", "Telemetry"}, flag.Group.Key) {
			return nil, fmt.Errorf("%s: --%s is the same on both sides: the second target differs in its address, model, keys, headers, body and label", c.BProfile, flag.Name)
		}
		for i := range from.NumField() {
			if from.Field(i).CanAddr() && from.Field(i).Addr().Pointer() == flag.Target.Addr().Pointer() {
				to.Field(i).Set(from.Field(i))
			}
		}
	}
	if given == 0 {
		return nil, fmt.Errorf("%s names no flag of replay: give those in which the second target differs, such as url: http://b:8000", c.BProfile)
	}
	return &b, nil
}

// folder sees to the plan's folder: a new one, or with --resume the one in which this plan was begun.
func (pl *planner) folder(resume bool) error {
	old, err := schemas.ReadPlan(pl.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && resume:
		return usageError(fmt.Errorf("--resume: there is no %s in %s: no plan of runs was begun there", schemas.PlanFile, pl.dir))
	case errors.Is(err, fs.ErrNotExist):
		entries, err := os.ReadDir(pl.dir)
		begun := func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), schemas.PlanFile) } // killed while it was written
		if err == nil && len(slices.DeleteFunc(entries, begun)) > 0 {
			return usageError(fmt.Errorf("--output %s: the folder of a plan's runs has to be new or empty", pl.dir))
		}
		if err := os.MkdirAll(pl.dir, 0o755); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		return pl.plan.Write(pl.dir)
	case err != nil:
		return err
	case !resume:
		return usageError(fmt.Errorf("--output %s: a plan of runs was begun there: go on with it with --resume, or give another folder", pl.dir))
	}
	if err := samePlan(old, pl.plan); err != nil {
		return usageError(fmt.Errorf("--resume: %s: %w", filepath.Join(pl.dir, schemas.PlanFile), err))
	}
	pl.plan = old
	return nil
}

// samePlan says in what a plan that is to go on differs from the one that was begun.
func samePlan(old, now *schemas.Plan) error {
	var problems []error
	differ := func(what string, was, is any) {
		if !reflect.DeepEqual(was, is) {
			problems = append(problems, fmt.Errorf("the plan was begun with %s %v, and is now asked for with %v", what, was, is))
		}
	}
	differ("levels of", old.Load, now.Load)
	differ("--repeat", old.Repeats, now.Repeats)
	differ("--order", old.Order, now.Order)
	differ("--seed", old.Seed, now.Seed)
	differ("sides:", len(old.Sides), len(now.Sides))
	if old.Search != nil && now.Search != nil {
		differ("--objective", old.Search.Objectives, now.Search.Objectives)
		differ("--from", old.Search.From, now.Search.From)
		differ("the search", string(compact(old.Search.Config)), string(compact(now.Search.Config)))
		old, now = &schemas.Plan{Sides: old.Sides}, &schemas.Plan{Sides: now.Sides}
	} else {
		differ("--find", old.Search != nil, now.Search != nil)
	}
	if len(problems) == 0 {
		names := func(p *schemas.Plan) (list []string) {
			for _, r := range p.Runs {
				list = append(list, r.File)
			}
			return list
		}
		differ("the runs", names(old), names(now))
		for i := range old.Sides {
			var a, b map[string]json.RawMessage
			if err := errors.Join(json.Unmarshal(old.Sides[i].Config, &a), json.Unmarshal(now.Sides[i].Config, &b)); err != nil {
				return err
			}
			for name := range b {
				if _, ok := a[name]; !ok {
					a[name] = nil
				}
			}
			for name, was := range a {
				if !bytes.Equal(compact(was), compact(b[name])) {
					problems = append(problems, fmt.Errorf("the plan was begun with --%s %s, and is now asked for with %s",
						strings.ReplaceAll(name, "_", "-"), orNothing(was), orNothing(b[name])))
				}
			}
		}
	}
	return errors.Join(problems...)
}

func compact(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

func orNothing(text json.RawMessage) string {
	if text == nil {
		return "nothing"
	}
	return string(compact(text))
}

func (pl *planner) path(r *schemas.PlanRun) string { return filepath.Join(pl.dir, r.File) }

// done counts the runs whose file is there and that ended by themselves.
func (pl *planner) done() (n int) {
	for i := range pl.plan.Runs {
		if meta, err := schemas.ReadRunMeta(pl.path(&pl.plan.Runs[i])); err == nil && meta != nil && meta.Ended != load.EndInterrupted {
			n++
		}
	}
	return n
}

// cutFolder is where the rows of runs are kept that were cut short: half a run is no observation, and is made anew.
const cutFolder = "cut"

// setAside moves what a run left that was cut short.
func (pl *planner) setAside(r *schemas.PlanRun) error {
	path := pl.path(r)
	dir := filepath.Join(pl.dir, cutFolder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := strings.TrimSuffix(r.File, ".parquet")
	n := 1
	for ; ; n++ {
		if found, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%s.%d.*", name, n))); err != nil || len(found) == 0 {
			break
		}
	}
	for _, from := range []string{schemas.TelemetryPath(path), path, schemas.JournalPath(path)} {
		to := filepath.Join(dir, fmt.Sprintf("%s.%d", name, n)+strings.TrimPrefix(from, strings.TrimSuffix(path, ".parquet")))
		if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	pl.ui.note("%s was cut short: what it left is in %s, and the run is made anew", r.File, dir)
	return nil
}

// one makes a run of the plan, unless it is done.
func (pl *planner) one(ctx context.Context, i int) error {
	r := &pl.plan.Runs[i]
	s := &pl.sides[slices.IndexFunc(pl.plan.Sides, func(s schemas.PlanSide) bool { return s.Name == r.Side })]
	c := s.command.at(r.Level)
	c.Output, c.Seed = pl.path(r), r.Seed
	outcome, err := c.ended()
	if err != nil {
		return err
	}
	if outcome != nil { // the program was killed when only the file was still to be made, or half of it was
		c.Force = true
		if _, err := c.seal(ctx, pl.ui, outcome, nil, &drive{}); err != nil {
			return err
		}
		c.Force = false
	}
	meta, err := schemas.ReadRunMeta(c.Output)
	if err != nil {
		return fmt.Errorf("%w: remove the file, and --resume makes the run again", err)
	}
	if meta != nil && meta.Plan != pl.plan.ID {
		return fmt.Errorf("%s is no run of the plan in %s: move it elsewhere", c.Output, pl.dir)
	}
	if meta != nil && meta.Ended != load.EndInterrupted {
		pl.note(meta)
		return nil
	}
	if meta != nil || schemas.IsJournal(schemas.JournalPath(c.Output)) {
		if err := pl.setAside(r); err != nil {
			return err
		}
	}
	if i > 0 && pl.plan.Between > 0 {
		select {
		case <-pl.p.interrupts:
			return exitError{code: codeInterrupted}
		case <-time.After(pl.plan.Between):
		}
	}
	return pl.drive(ctx, c, s, r, i)
}

// drive makes one run: its load, its file, and a line about it.
func (pl *planner) drive(ctx context.Context, c *replayCommand, s *side, r *schemas.PlanRun, i int) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	cfg.URLs, cfg.Simulated, cfg.SimURLs, cfg.Open = s.cfg.URLs, s.cfg.Simulated, s.cfg.SimURLs, s.cfg.Open
	cfg.Place = pl.plan.Place(r)
	begun := time.Now()
	d := &drive{place: func() string {
		text := fmt.Sprintf("run %d of %d", i+1, len(pl.plan.Runs))
		if pl.plan.Search != nil {
			return fmt.Sprintf("run %d, %s %s: ", i+1, r.Phase, pl.plan.LevelName(r.Level))
		}
		if left, ok := pl.left(i, time.Since(begun)); ok {
			text += fmt.Sprintf(", about %v left", left.Round(time.Second))
		}
		return text + ": "
	}}
	ended := make(chan struct{})
	if pl.follow != nil {
		pl.follow(d, ended)
	}
	outcome, err := c.drive(ctx, pl.p, pl.ui, cfg, d)
	close(ended)
	if errors.Is(err, replay.ErrInterrupted) {
		return exitError{codeInterrupted, err}
	}
	if outcome == nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	err = c.calibrated(ctx, pl.ui, cfg, outcome, err)
	if _, err = c.seal(ctx, pl.ui, outcome, err, d); err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	for _, w := range outcome.Meta.Warnings {
		pl.ui.note("%s: %s", r.File, w)
	}
	pl.note(&outcome.Meta)
	pl.took[r.Level] = time.Since(begun)
	if d.interrupted || outcome.Meta.Ended == load.EndInterrupted {
		return exitError{code: codeInterrupted}
	}
	return nil
}

// note takes a run's outcome over into the plan's exit code: one that gave its server up counts before one that is
// INVALID.
func (pl *planner) note(meta *schemas.RunMeta) {
	switch code := (exitError{}); {
	case meta.Ended == load.EndInterrupted:
	case meta.Ended == load.EndErrors:
		pl.code = errors.New("a run of the plan gave its server up: too many turns failed; see --max-errors")
	case pl.code == nil && errors.As(runCode(meta), &code):
		pl.code = code
	}
}

// left is how long the runs from i on still take, by those of the same level that were made, or by --duration.
func (pl *planner) left(i int, since time.Duration) (sum time.Duration, ok bool) {
	for at := i; at < len(pl.plan.Runs); at++ {
		r := &pl.plan.Runs[at]
		one, known := pl.took[r.Level]
		if !known {
			if one = pl.sides[0].command.Duration; one == 0 {
				return 0, false
			}
		}
		if at == i {
			one = max(0, one-since)
		} else {
			one += pl.plan.Between
		}
		sum += one
	}
	return sum, true
}

// outline says in a line what the plan is.
func (pl *planner) outline() string {
	text := fmt.Sprintf("a plan of %d runs in %s", len(pl.plan.Runs), pl.dir)
	if d := pl.sides[0].command.Duration; d > 0 {
		text += fmt.Sprintf(", at least %v of load", time.Duration(len(pl.plan.Runs))*(d+pl.plan.Between))
	}
	if n := pl.done(); n > 0 {
		text += fmt.Sprintf("; %d are done", n)
	}
	if c := &pl.sides[0].command; !c.Salt && !c.FlushCache {
		text += "; its runs replay the same conversations: where the server has a prefix cache, give --salt or --flush-cache"
	}
	return text
}

// describe prints the plan without making it.
func (pl *planner) describe() error {
	var b strings.Builder
	fmt.Fprintln(&b, pl.outline())
	for _, r := range pl.plan.Runs {
		fmt.Fprintf(&b, "  %-24s %-16s seed %d", r.File, pl.plan.LevelName(r.Level), r.Seed)
		if r.Side != "" {
			fmt.Fprintf(&b, "  side %s", strings.ToUpper(r.Side))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(pl.p.stdout, b.String())
	return err
}

// summary prints what parley analyze says of the folder.
func (pl *planner) summary(ctx context.Context) (err error) {
	runs, err := analyze.Load(ctx, []string{pl.dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	result, err := analyze.Analyze(ctx, runs, analyze.Options{})
	if err != nil {
		return err
	}
	o := tableOptions(pl.p, pl.ui)
	o.More = "parley analyze " + pl.dir + " --detail"
	return render.Write(pl.p.stdout, render.Text, result, o)
}
