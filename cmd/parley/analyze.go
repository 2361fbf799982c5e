package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/analyze/export"
	"parley/analyze/plots"
	"parley/analyze/render"
	"parley/analyze/report"
	"parley/schemas"
)

// analyzeCommand is the command line of parley analyze.
type analyzeCommand struct {
	Inputs []string `arg:"" optional:"" placeholder:"RUN" help:"Result files, folders or globs; a run's journal too. Shards of one run are one run."`

	By          []string  `group:"Figures" sep:"none" placeholder:"COLUMN" help:"Group by turn, conversation, stage (of the load: each over its own time), model, url, phase, prompt_tokens, uncached_tokens, tag.NAME, time, or any column; COLUMN:WIDTH or COLUMN:EDGE,EDGE for bins. Twice for two levels."`
	Percentiles []float64 `group:"Figures" default:"50,90,95,99" help:"Percentiles (${default})."`
	From        string    `group:"Figures" default:"sent" enum:"sent,start,scheduled" help:"The moment that latencies count from: ${enum}."`
	Window      string    `group:"Figures" default:"steady" help:"Part of the run: all, steady, FROM:TO such as 10s:5m, turns (all but first turns), turns=A:B (B exclusive, from 0)."`
	SLO         []string  `group:"Figures" name:"slo" sep:"none" placeholder:"FIGURE=LIMIT" help:"Objective for goodput, such as ttft=500ms. Repeatable."`
	Figures     []string  `group:"Figures" placeholder:"NAME" help:"Only these figures."`
	GPUs        float64   `group:"Figures" name:"gpus" placeholder:"N" help:"GPUs of the server, for tokens per second per GPU."`

	Format string   `group:"Output" default:"table" enum:"table,json,csv,markdown,vllm-json,inferencex,llm-d,mlperf-endpoints,aiperf" help:"${enum}. From vllm-json on they are layouts of other programs: a file for each run, and for each stage of a run's load."`
	HTML   string   `group:"Output" name:"html" placeholder:"FILE" help:"Write a report with plots: one file that opens offline."`
	Arrow  string   `group:"Output" placeholder:"FILE" help:"Write the rows as an Arrow IPC file."`
	Detail bool     `group:"Output" help:"Every figure, in tables and Markdown: statuses, waits, rates, intervals, the run itself."`
	Output string   `group:"Output" short:"o" placeholder:"FILE" help:"Write the figures to a file instead of standard output; layouts of several files to a folder."`
	Fact   []string `group:"Output" sep:"none" placeholder:"NAME=VALUE" help:"What a run cannot know and another program's layout has a place for, such as hw=h100, tp=8 or precision=fp8. Repeatable."`
	Facts  string   `group:"Output" type:"path" placeholder:"FILE" help:"The same from a file, NAME: VALUE in YAML or JSON."`
	Force  bool     `group:"Output" help:"Overwrite files."`
	Fit    bool     `group:"Output" help:"Instead of figures, the engine that the run's steps come from (a step's parts, blocks, limits), as a simulated server: try loads on sim:?like=RUN before paying for them. table or json."`
	Schema string   `group:"Output" placeholder:"FORMAT" help:"Print the data dictionary (markdown, json or text) and exit."`

	Baseline  []string `group:"Comparison" sep:"none" placeholder:"RUN" help:"Compare with these runs: files, folders or globs. Several runs a side tell a change from chance; one a side is described. Repeatable."`
	Gate      []string `group:"Comparison" sep:"none" placeholder:"CONDITION" help:"What must hold, such as 'ttft.p99 < +5%', 'error_rate < 1%' or 'verdict >= SUSPECT'. Exit code 3 if one failed, 4 if none failed and one is undecided. Repeatable."`
	History   string   `group:"Comparison" type:"path" placeholder:"DIR" help:"Read all runs and plans below this folder as a history: a line per figure and configuration over time, and where it changed."`
	Undecided string   `group:"Comparison" default:"" enum:",pass,fail" placeholder:"pass|fail" help:"Let undecided gates count as held (pass) or as failed (fail)."`
}

// Help is shown below the flags.
func (analyzeCommand) Help() string {
	return `Examples:

  parley analyze run.parquet
  parley analyze run.parquet --by turn --slo ttft=500ms --slo tpot=50ms --html report.html
  parley analyze after.parquet --baseline before.parquet        # one run a side: a description
  parley analyze 'after/*.parquet' --baseline 'before/*.parquet' --gate 'ttft.p99 < +5%' --format markdown
  parley analyze runs/ --gpus 8              # a plan of replay: a row for each level, the knee, the capacity
  parley analyze --history nightly/ --html history.html
  parley analyze run.parquet --format llm-d -o report.json --fact hw=H100 --fact tp=8 --fact framework_version=0.14.0
  parley analyze run.parquet --format mlperf-endpoints -o submission --facts system.yaml
  parley analyze run.parquet.journal          # a run that is going on, or was killed
  parley analyze run.parquet --fit            # the engine behind it; then replay against sim:?like=run.parquet
  parley analyze --schema markdown`
}

func (c *analyzeCommand) run(ctx context.Context, p *program, ui *ui) (err error) {
	if c.Schema != "" {
		return printSchema(p.stdout, c.Schema)
	}
	if c.History != "" {
		return c.history(ctx, p, ui)
	}
	if len(c.Inputs) == 0 {
		return usageError(errors.New("no input: give result files, folders or the journal of a run"))
	}
	o, err := c.options()
	if err != nil {
		return usageError(err)
	}
	facts, err := c.facts()
	if err != nil {
		return usageError(err)
	}
	if c.isExport() {
		if o, err = export.Prepare(c.Format, o, facts); err != nil {
			return usageError(err)
		}
		if export.IsFolder(c.Format) && c.Output == "" {
			return usageError(fmt.Errorf("--format %s is a folder of files: name it with -o", c.Format))
		}
	} else if len(facts) > 0 {
		return usageError(fmt.Errorf("--fact and --facts are for layouts of other programs: --format %s has no place for them", c.Format))
	}
	for _, path := range []string{c.HTML, c.Arrow, c.Output} {
		if path == "" || path == c.Output && c.exportsFolder() {
			continue
		}
		if err := schemas.CheckOutput(path, c.Force); err != nil {
			return usageError(err)
		}
	}
	// An analysis has few large slices of numbers, which cost the collector nothing to look at: it may come often,
	// so that they do not lie beside those that they replace.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runs, err := analyze.Load(ctx, c.Inputs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	if c.Fit {
		return c.fit(ctx, p, runs)
	}
	if len(c.Baseline) > 0 {
		if o.Baseline, err = analyze.Load(ctx, c.Baseline); err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
		defer func() { err = errors.Join(err, o.Baseline.Close()) }()
	}
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	result, err := analyze.Analyze(ctx, runs, o)
	if err != nil {
		return err
	}
	if c.isExport() {
		if err := errors.Join(c.export(ctx, p, ui, runs, result, o, facts), c.writeArrow(ctx, ui, runs), c.writeReport(ctx, ui, runs, result, o)); err != nil {
			return err
		}
		return c.gatesCode(result.GatesOutcome())
	}
	if err := c.print(ctx, p, ui, runs, result, o); err != nil {
		return err
	}
	return c.gatesCode(result.GatesOutcome())
}

// fit prints the engine behind a run.
func (c *analyzeCommand) fit(ctx context.Context, p *program, runs *analyze.Runs) error {
	f, err := analyze.FitEngine(ctx, runs)
	if err != nil {
		return err
	}
	switch c.Format {
	case "table":
		_, err = fmt.Fprintf(p.stdout, "%s\nsim:?%s\n", f, f.Query().Encode())
	case "json":
		err = printJSON(p.stdout, f)
	default:
		err = usageError(fmt.Errorf("--fit prints table or json, not %s", c.Format))
	}
	return err
}

// history prints what runs over a long time say.
func (c *analyzeCommand) history(ctx context.Context, p *program, ui *ui) error {
	if len(c.Inputs) > 0 || len(c.Baseline) > 0 || len(c.Gate) > 0 || len(c.By) > 0 || c.Arrow != "" || c.Output != "" {
		return usageError(errors.New("--history: reads all runs below its folder: leave inputs, --baseline, --gate, --by, --arrow and --output out"))
	}
	o, err := c.options()
	if err != nil {
		return usageError(err)
	}
	if c.HTML != "" {
		if err := schemas.CheckOutput(c.HTML, c.Force); err != nil {
			return usageError(err)
		}
	}
	h, err := analyze.ReadHistory(ctx, c.History, o)
	if err != nil {
		return fmt.Errorf("--history: %w", err)
	}
	if err := render.WriteHistory(p.stdout, render.Format(c.Format), h); err != nil || c.HTML == "" {
		return err
	}
	f, err := createText(c.HTML, c.Force)
	if err != nil {
		return err
	}
	defer f.drop()
	if err := report.WriteHistory(f, h); err != nil {
		return fmt.Errorf("write %s: %w", c.HTML, err)
	}
	if err := f.finish(); err != nil {
		return err
	}
	ui.note("the page is %s", c.HTML)
	return nil
}

// gatesCode gives the exit code of what became of the gates.
func (c *analyzeCommand) gatesCode(outcome compare.Outcome) error {
	switch {
	case outcome == compare.Failed, outcome == compare.Undecided && c.Undecided == "fail":
		return exitError{code: codeVerdict}
	case outcome == compare.Undecided && c.Undecided != "pass":
		return exitError{code: codeUndecided}
	}
	return nil
}

func (c *analyzeCommand) options() (analyze.Options, error) {
	o := analyze.Options{From: analyze.Moment(c.From), Percentiles: c.Percentiles, Figures: c.Figures, GPUs: c.GPUs}
	var problems []error
	flag := func(name string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", name, err))
		}
	}
	var err error
	o.Window, err = analyze.ParseWindow(c.Window)
	flag("window", err)
	for _, text := range c.By {
		g, err := analyze.ParseGroup(text)
		flag("by", err)
		o.By = append(o.By, g)
	}
	for _, text := range c.SLO {
		s, err := analyze.ParseObjective(text)
		flag("slo", err)
		o.Objectives = append(o.Objectives, s)
	}
	for _, text := range c.Gate {
		g, err := analyze.ParseGate(text)
		flag("gate", err)
		o.Gates = append(o.Gates, g)
	}
	return o, errors.Join(problems...)
}

// print writes everything that was asked for.
func (c *analyzeCommand) print(ctx context.Context, p *program, ui *ui, runs *analyze.Runs, result *analyze.Result, o analyze.Options) error {
	out, closeOut := p.stdout, func() error { return nil }
	if c.Output != "" {
		f, err := createText(c.Output, c.Force)
		if err != nil {
			return err
		}
		out, closeOut = f, f.finish
		defer f.drop()
	}
	err := render.Write(out, render.Format(c.Format), result, c.layout(p, ui))
	if err := errors.Join(err, closeOut()); err != nil {
		return err
	}
	return errors.Join(c.writeArrow(ctx, ui, runs), c.writeReport(ctx, ui, runs, result, o))
}

// layout says how to print tables.
func (c *analyzeCommand) layout(p *program, ui *ui) render.Options {
	o := render.Options{Detail: c.Detail}
	if c.Output == "" {
		o = tableOptions(p, ui)
		o.Detail = c.Detail
	}
	more := []string{"--detail"}
	if len(c.By) == 0 {
		more = append(more, "--by turn")
	}
	if c.HTML == "" {
		more = append(more, "--html report.html")
	}
	o.More = strings.Join(more, ", ")
	return o
}

// tableOptions suit the terminal, if standard output is one.
func tableOptions(p *program, ui *ui) render.Options {
	if !isTerminal(p.stdout) || !ui.terminal {
		return render.Options{}
	}
	return render.Options{Color: true, Width: max(ui.width(), 80)}
}

func (c *analyzeCommand) writeArrow(ctx context.Context, ui *ui, runs *analyze.Runs) error {
	if c.Arrow == "" {
		return nil
	}
	f, err := createText(c.Arrow, c.Force)
	if err != nil {
		return err
	}
	defer f.drop()
	rows, err := analyze.WriteArrow(ctx, f, runs)
	if err != nil {
		return fmt.Errorf("write %s: %w", c.Arrow, err)
	}
	if err := f.finish(); err != nil {
		return err
	}
	ui.note("%s rows are in %s", thousands(rows), c.Arrow)
	return nil
}

func (c *analyzeCommand) writeReport(ctx context.Context, ui *ui, runs *analyze.Runs, result *analyze.Result, o analyze.Options) error {
	if c.HTML == "" {
		return nil
	}
	plots, err := analyze.BuildPlots(ctx, runs, result, o, plots.Budget{})
	if err != nil {
		return err
	}
	f, err := createText(c.HTML, c.Force)
	if err != nil {
		return err
	}
	defer f.drop()
	if err := report.Write(f, result, plots); err != nil {
		return fmt.Errorf("write %s: %w", c.HTML, err)
	}
	if err := f.finish(); err != nil {
		return err
	}
	ui.note("the report is %s", c.HTML)
	return nil
}

func printSchema(w io.Writer, format string) error {
	kinds := []schemas.Kind{schemas.KindConversations, schemas.KindRequests, schemas.KindTelemetry}
	switch format {
	case "markdown":
		_, err := io.WriteString(w, schemas.DictionaryMarkdown())
		return err
	case "json":
		all := map[schemas.Kind][]schemas.Column{}
		for _, k := range kinds {
			all[k] = schemas.Dictionary(k)
		}
		return printJSON(w, all)
	case "text":
		var b strings.Builder
		for _, k := range kinds {
			fmt.Fprintf(&b, "%s\n", k)
			for _, c := range schemas.Dictionary(k) {
				unit := c.Unit
				if c.Null {
					unit = strings.TrimSpace(unit + " null")
				}
				fmt.Fprintf(&b, "  %-34s %-22s %-12s %s\n", c.Name, c.Type, unit, c.Doc)
			}
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	return usageError(fmt.Errorf("--schema %q: give markdown, json or text", format))
}
