package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"parley/cmd/internal/likeness"
	"parley/replay/simserver"
)

const description = `A simulated LLM server: real HTTP, a model of prefill, decoding, slots and prefix cache (with --gpu: continuous
batching in steps, as real servers do it), the dialects of real servers, faults on demand, and a log of the true times of every request.

It prints one line, "listening on http://ADDRESS", and serves until it is interrupted.

Examples:

  llmsim --listen 127.0.0.1:8000
  llmsim --listen 127.0.0.1:8000 --ttft 500ms --itl 50ms --slots 0 --log truth.jsonl --log-chunks
  llmsim --listen 127.0.0.1:8000 --dialect sglang --reasoning 40 --tools 0.2
  llmsim --listen 127.0.0.1:8000 --fail 0.5 --fail-status 500 --cut 0.1 --seed 3
  llmsim --listen 127.0.0.1:8000 --gpu h100 --mood 0.03 --drift 0.05
  llmsim 'sim:?prefill=20000&itl=12ms&slots=64'`

// flags is the command line; the server's own flags are the fields of its configuration.
type flags struct {
	URL    string `arg:"" optional:"" help:"Configuration as a sim: URL; flags given besides win."`
	Listen string `default:"127.0.0.1:0" help:"TCP address to listen on; port 0 is a free one." env:"LLMSIM_LISTEN"`

	Like string `placeholder:"RUN" help:"Be like the server of this run (a requests file of parley replay): the engine that 'parley analyze --fit' finds in it."`

	simserver.Config `embed:""`
}

// dashed gives the server's parameters the usual form of flags: fail_status is --fail-status.
func dashed(value *kong.Value) string { return strings.ReplaceAll(value.Name, "_", "-") }

// run is the program; it gives the exit code: 0 done, 1 failed, 2 usage.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if query, ok := os.LookupEnv(simserver.EnvQuery); ok {
		return report(simserver.Main(ctx, query, stdin, stdout), stderr)
	}
	cfg, listen, err := parse(ctx, args, stdout, stderr)
	if errors.Is(err, errHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "llmsim: %v\n", err)
		return 2
	}
	return report(simserver.Run(ctx, cfg, listen, stdout), stderr)
}

func report(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintf(stderr, "llmsim: %v\n", err)
		return 1
	}
	return 0
}

// errHelp means that the help was printed and there is nothing else to do.
var errHelp = errors.New("help printed")

// parse reads the command line.
func parse(ctx context.Context, args []string, stdout, stderr io.Writer) (cfg simserver.Config, listen string, err error) {
	var f flags
	helped := false
	parser, err := kong.New(&f, kong.Name("llmsim"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }), kong.UsageOnError(),
		kong.PostBuild(func(k *kong.Kong) error {
			for _, fl := range k.Model.Flags {
				fl.Name = dashed(fl.Value)
			}
			return nil
		}))
	if err != nil {
		return cfg, "", err
	}
	kctx, err := parser.Parse(args)
	if helped {
		return cfg, "", errHelp
	}
	if err != nil {
		return cfg, "", err
	}
	cfg, err = configure(ctx, f.URL, kctx)
	return cfg, f.Listen, err
}

// configure gives what a sim: URL and the flags that were given say, the flags first.
func configure(ctx context.Context, address string, kctx *kong.Context) (simserver.Config, error) {
	query := ""
	if address != "" {
		if !strings.HasPrefix(address, "sim:") {
			_, err := simserver.ParseURL(address)
			return simserver.Config{}, err
		}
		_, query, _ = strings.Cut(address, "?")
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return simserver.Config{}, err
	}
	for _, p := range kctx.Path {
		if p.Flag == nil || p.Resolved || p.Flag.Name == "listen" {
			continue
		}
		for name := range parameters {
			if strings.ReplaceAll(name, "_", "-") == p.Flag.Name {
				parameters.Del(name)
			}
		}
		parameters.Set(p.Flag.Name, fmt.Sprint(p.Flag.Target.Interface()))
	}
	query, _, err = likeness.Resolve(ctx, parameters.Encode())
	if err != nil {
		return simserver.Config{}, err
	}
	return simserver.ParseQuery(query)
}
