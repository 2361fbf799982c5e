package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"parley/replay/simserver"
)

func isSimulated(url string) bool { return strings.HasPrefix(url, "sim:") }

// startSimulator starts the server that a sim: URL describes, in a process of its own: this program
// again, in another role, which shares nothing with the client but the machine.
func startSimulator(ctx context.Context, url string) (*simserver.Process, error) {
	cfg, err := simserver.ParseURL(url)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, usageError(fmt.Errorf("--url %s: %w", url, err))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the simulated server: %w", err)
	}
	_, query, _ := strings.Cut(url, "?")
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
