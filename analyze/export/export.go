// Package export writes runs in the layouts of other programs, so that what people made for those goes on working:
// one file, or one folder, for each run and for each stage of a run's load.
//
// The same word means another thing elsewhere. Each layout has the formulas of the program that it is of; README.md
// sets them side by side, and a test reads one run by each. What is not known has no key: readers of these layouts
// take every value as a number.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"parley/analyze"
	"parley/schemas"
)

// File is one file of an export.
type File struct {
	Path  string // below the output folder, with slashes
	Write func(io.Writer) error
}

// level is what one export is about: a run, or one stage of a run's load.
type level struct {
	run         *analyze.RunResult
	group       *analyze.Group // its figures
	stage       int            // -1: the run has no stages
	turns       []analyze.Turn
	listed      bool      // with their chunks
	percentiles []float64 // that were asked for
	gpus        float64   // of the server; 0: not known
	offered     *float64  // conversations per second
	concurrency *int64    // conversations at once
	experiment  string    // what all exports of one call have in common
}

// layout is how one program's files are made.
type layout struct {
	folder      bool      // its files belong together in a folder
	chunks      bool      // it tells what each chunk was
	percentiles []float64 // that it has, whatever is asked for
	facts       []string  // what the operator can tell it; see [Facts]
	files       func(l *level, facts Facts) ([]File, error)
}

var layouts = map[string]layout{
	"vllm-json":        {chunks: true, files: vllmFiles},
	"inferencex":       {facts: inferenceXFacts, files: inferenceXFiles},
	"llm-d":            {percentiles: llmdPercentiles, facts: llmdFacts, files: llmdFiles},
	"mlperf-endpoints": {folder: true, chunks: true, facts: mlperfFacts, files: mlperfFiles},
	"aiperf":           {folder: true, chunks: true, facts: nil, files: aiperfFiles},
}

// Formats gives the names of the layouts.
func Formats() []string { return slices.Sorted(maps.Keys(layouts)) }

// IsFolder says whether a layout has several files, which belong in a folder of their own.
func IsFolder(format string) bool { return layouts[format].folder }

// Prepare gives the options of the analysis that a layout is made from. It refuses what the layout has no place for.
func Prepare(format string, o analyze.Options, facts Facts) (analyze.Options, error) {
	if err := facts.check(format, layouts[format].facts); err != nil {
		return o, err
	}
	if len(o.By) > 0 {
		return o, fmt.Errorf("--format %s has no groups: leave out --by (stages of a load are told apart anyway)", format)
	}
	if len(o.Figures) > 0 {
		return o, fmt.Errorf("--format %s needs all figures: leave out --figures", format)
	}
	o.By = []analyze.GroupSpec{{Column: "stage"}}
	if len(o.Percentiles) == 0 {
		o.Percentiles = analyze.DefaultPercentiles
	}
	o.Percentiles = slices.Concat(o.Percentiles, []float64{50}, layouts[format].percentiles)
	return o, nil
}

// Files gives the files of runs in a layout. The analysis was made with the options of [Prepare]; asked are the
// percentiles without those that the layout has anyway.
func Files(ctx context.Context, format string, runs *analyze.Runs, res *analyze.Result, o analyze.Options, asked []float64, facts Facts) ([]File, error) {
	lay := layouts[format]
	var levels []*level
	for i := range res.Runs {
		run := &res.Runs[i]
		turns, listed, err := runs.Turns(ctx, i, o, lay.chunks)
		if err != nil {
			return nil, err
		}
		for _, l := range stages(run, turns) {
			l.listed = listed
			levels = append(levels, l)
		}
	}
	if len(asked) == 0 {
		asked = analyze.DefaultPercentiles
	}
	var files []File
	names := map[string]bool{}
	for _, l := range levels {
		l.percentiles, l.gpus, l.experiment = asked, o.GPUs, experiment(res)
		made, err := lay.files(l, facts)
		if err != nil {
			return nil, fmt.Errorf("--format %s, run %s: %w", format, l.run.Label, err)
		}
		for _, f := range made {
			if names[f.Path] {
				return nil, fmt.Errorf("--format %s: two runs would be %s: export them one by one, or give them labels of their own", format, f.Path)
			}
			names[f.Path] = true
		}
		files = append(files, made...)
	}
	return files, nil
}

// experiment names what exports of one call have in common: the plan of the runs, or the first run.
func experiment(res *analyze.Result) string {
	for i := range res.Runs {
		if p := res.Runs[i].Plan; p != "" {
			return p
		}
	}
	return res.Runs[0].RunID
}

// load is what a run's configuration says of its stages.
type load struct {
	Concurrency []struct{ Level float64 } `json:"concurrency_stages"`
	Rate        []struct{ Level float64 } `json:"rate_stages"`
}

// stages gives one level for each stage of a run's load; one for a run without stages.
func stages(run *analyze.RunResult, turns []analyze.Turn) []*level {
	whole := &level{run: run, group: &run.Total, stage: -1, turns: turns, offered: run.Offered, concurrency: run.Concurrency}
	var config load
	_ = json.Unmarshal(run.Config, &config) // a run without a configuration has no stages
	var out []*level
	for i := range run.Groups {
		g := &run.Groups[i]
		if len(g.Keys) != 1 || !g.Keys[0].Low.Known() || g.Counts.Planned == 0 {
			continue
		}
		n := int(g.Keys[0].Low)
		l := &level{run: run, group: g, stage: n}
		for _, t := range turns {
			if t.Stage == int64(n) {
				l.turns = append(l.turns, t)
			}
		}
		if n < len(config.Concurrency) {
			c := int64(config.Concurrency[n].Level)
			l.concurrency = &c
		}
		if n < len(config.Rate) {
			l.offered = &config.Rate[n].Level
		}
		out = append(out, l)
	}
	if len(out) < 2 {
		return []*level{whole}
	}
	return out
}

// name gives a file name for a level, without extension.
func (l *level) name() string {
	name := fileName(l.run.Label)
	if l.stage >= 0 {
		name += fmt.Sprintf("-stage%d", l.stage)
	}
	return name
}

// fileName keeps the letters of a name that any system takes in a file's.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, s)
	if s = strings.Trim(s, ". "); s == "" {
		return "run"
	}
	return s
}

func (l *level) target() schemas.Target {
	if len(l.run.Targets) > 0 {
		return l.run.Targets[0]
	}
	return schemas.Target{}
}

// jsonFile is a file that holds one value.
func jsonFile(name string, indent bool, v any) File {
	return File{Path: name, Write: func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		if indent {
			e.SetIndent("", "  ")
		}
		return e.Encode(v)
	}}
}

// below puts files into a folder.
func below(folder string, files ...File) []File {
	for i := range files {
		files[i].Path = path.Join(folder, files[i].Path)
	}
	return files
}

var errNoTurns = errors.New("no turn was sent in the window: choose another --window")
