package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"parley/replay/simserver"
	"parley/schemas"
)

// Exit codes; they are part of the interface.
const (
	codeOK          = 0
	codeFailed      = 1
	codeUsage       = 2
	codeVerdict     = 3 // the verdict is INVALID, or a gate failed
	codeUndecided   = 4 // no gate failed, and one is undecided; or a search is unresolved
	codeInterrupted = 130
)

// program is one run of the program: its arguments, its streams, and the interrupts that reach it.
type program struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	interrupts     <-chan struct{}
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error // nil: everything was said already
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprint("exit code ", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// usageError marks an error of how the program was called.
func usageError(err error) error { return exitError{codeUsage, err} }

// commandLine is the whole command line.
type commandLine struct {
	Generate generateCommand `cmd:"" help:"Make a dataset of conversations, or import one."`
	Replay   replayCommand   `cmd:"" help:"Drive a server with a dataset and record every turn."`
	Analyze  analyzeCommand  `cmd:"" help:"Compute figures from recorded runs: tables, reports, comparisons."`

	Profile kong.ConfigFlag `placeholder:"FILE" help:"Read flags from a YAML or JSON file; flags on the command line win."`
	Version bool            `help:"Print the version and exit."`
	NoColor bool            `help:"No colours and no progress line, even on a terminal." env:"NO_COLOR"`
}

const description = `parley benchmarks LLM servers with multi-turn conversations.

  parley generate -o chat.parquet --preset chat -n 1000
  parley replay chat.parquet --url http://127.0.0.1:8000 -o run.parquet --concurrency 64
  parley analyze run.parquet --by turn --html report.html

Every flag can also be set in the environment, as PARLEY_<VERB>_<FLAG> (PARLEY_REPLAY_RATE=5), and in a
profile, for all verbs or under the name of one:

  seed: 7
  replay:
    url: http://127.0.0.1:8000
    concurrency: 64
    sampling: {temperature: 0}

Exit codes, the first that holds: 2 usage; 1 failed (a run that the error budget gave up too); 130
interrupted, with the rows of replay written; 3 the verdict of replay is INVALID (of a plan: that of any
of its runs), or a gate of analyze failed; 4 a search of replay is unresolved, or no gate of analyze
failed and one is undecided; 0 done.`

// parsed says how parsing the command line ended, when it ended the program.
type parsed struct{ code int }

// run is the program; it gives its exit code.
func (p *program) run(ctx context.Context) (code int) {
	err := p.try(ctx)
	var exit exitError
	switch {
	case err == nil:
		return codeOK
	case errors.Is(err, syscall.EPIPE):
		return codeFailed // the reader of the output has gone, and knows it
	case errors.As(err, &exit):
		code = exit.code
		err = exit.err
	default:
		code = codeFailed
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(p.stderr, "parley:", clean(strings.TrimRight(line, "\n")))
		}
		if code == codeUsage {
			fmt.Fprintln(p.stderr, "parley: see 'parley --help' or 'parley VERB --help'")
		}
	}
	return code
}

func (p *program) try(ctx context.Context) (err error) {
	if query, ok := os.LookupEnv(simserver.EnvQuery); ok {
		return simserver.Main(ctx, query, p.stdin, p.stdout)
	}
	var line commandLine
	parser, err := kong.New(&line,
		kong.Name("parley"),
		kong.Description(description),
		kong.Writers(p.stdout, p.stderr),
		kong.Configuration(loadProfile),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		// The environment's names follow one rule, which the description tells; naming them with every
		// flag would bury the help.
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }),
		kong.PostBuild(addEnvironment),
		kong.Exit(func(code int) { panic(parsed{code}) }),
	)
	if err != nil {
		return err
	}
	defer func() {
		// kong ends the program itself after --help.
		switch r := recover().(type) {
		case nil:
		case parsed:
			err = nil
			if r.code != 0 {
				err = exitError{code: r.code}
			}
		default:
			panic(r)
		}
	}()
	args := p.args
	if len(args) == 1 && args[0] == "--version" {
		_, err := fmt.Fprintln(p.stdout, "parley", schemas.Version())
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return usageError(err)
	}
	ui := newUI(p.stderr, line.NoColor)
	switch kctx.Selected().Name {
	case "generate":
		err = line.Generate.run(ctx, p, ui)
	case "replay":
		err = line.Replay.run(ctx, p, ui)
	default:
		err = line.Analyze.run(ctx, p, ui)
	}
	if exit := (exitError{}); errors.As(err, &exit) && exit.code == codeUsage {
		return usageError(errors.Join(append([]error{err}, origins(kctx, string(line.Profile), err.Error())...)...))
	}
	return err
}

// origins says of flags that stand elsewhere than on the command line where they do, if there was trouble:
// with a flag that the trouble's text names, the one to change may be an environment variable.
func origins(kctx *kong.Context, profile, trouble string) []error {
	given, profiled := map[*kong.Flag]bool{}, map[*kong.Flag]bool{}
	for _, path := range kctx.Path {
		if path.Flag != nil {
			given[path.Flag], profiled[path.Flag] = !path.Resolved, path.Resolved
		}
	}
	var notes []error
	for _, flag := range kctx.Selected().Flags {
		if given[flag] || !regexp.MustCompile(`--`+flag.Name+`([^-\w]|$)`).MatchString(trouble) {
			continue
		}
		for _, name := range flag.Envs {
			_, ok := os.LookupEnv(name)
			switch {
			case profiled[flag]:
				notes = append(notes, fmt.Errorf("--%s comes from the profile %s", flag.Name, profile))
			case ok: // its value may be a secret
				notes = append(notes, fmt.Errorf("--%s comes from the environment variable %s", flag.Name, name))
			}
		}
	}
	return notes
}

// addEnvironment gives each flag of a verb its environment variable.
func addEnvironment(k *kong.Kong) error {
	for _, verb := range k.Model.Children {
		for _, flag := range verb.Flags {
			if len(flag.Envs) > 0 || flag.Name == "help" {
				continue
			}
			name := "PARLEY_" + verb.Name + "_" + strings.ReplaceAll(flag.Name, "-", "_")
			flag.Envs = []string{strings.ToUpper(name)}
			flag.Tag.Envs = flag.Envs
		}
	}
	return nil
}
