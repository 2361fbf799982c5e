package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"parley/analyze/twin"
	"parley/cmd/internal/likeness"
	"parley/replay"
	"parley/replay/simserver"
	"parley/schemas"
)

func isSimulated(url string) bool { return strings.HasPrefix(url, "sim:") }

// startSimulator starts the server that a sim: URL describes, in a process of its own: this program
// again, in another role, which shares nothing with the client but the machine. If the URL names a run that it is to
// be like, it gives what is known of that run's server too.
func startSimulator(ctx context.Context, address string) (*simserver.Process, *twin.Fit, error) {
	bad := func(err error) (*simserver.Process, *twin.Fit, error) {
		return nil, nil, usageError(fmt.Errorf("--url %s: %w", address, err))
	}
	before, query, asked := strings.Cut(address, "?")
	query, fit, err := likeness.Resolve(ctx, query)
	if err != nil {
		return bad(err)
	}
	if asked {
		address = before + "?" + query
	}
	if _, err := simserver.ParseURL(address); err != nil {
		return bad(err)
	}
	s, err := startSimulatorQuery(ctx, query)
	return s, fit, err
}

// calibrate measures what this client adds at a run's load, against a simulated server that logs its true
// times.
func calibrate(ctx context.Context, cfg replay.Config, outcome *replay.Outcome) (_ *schemas.Calibration, err error) {
	dir, err := os.MkdirTemp("", "parley-calibration-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := filepath.Join(dir, "truth.jsonl")
	return replay.Calibrate(ctx, cfg, outcome, func(ctx context.Context, query string) (*replay.Simulator, error) {
		s, err := startSimulatorQuery(ctx, strings.TrimPrefix(query+"&log="+url.QueryEscape(log), "&"))
		if err != nil {
			return nil, err
		}
		return &replay.Simulator{URL: s.URL, Log: log, Stop: s.Stop}, nil
	})
}

func startSimulatorQuery(ctx context.Context, query string) (*simserver.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the simulated server: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Args[0] = os.Args[0]
	// Only what it needs: a key in the environment is none of its business.
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	detach(cmd)
	return simserver.Start(ctx, cmd, query)
}
