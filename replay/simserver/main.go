package simserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"parley/replay/internal/stampconn"
)

// EnvQuery is the environment variable that holds the query of a server that runs as a child; a program
// that finds it set calls [Main] and does nothing else.
const EnvQuery = "PARLEY_SIMSERVER"

// Main runs a server as a process's whole work: on a free port of loopback, with the configuration of the
// given query ("prefill=20000&itl=12ms"). It prints the line "listening on http://127.0.0.1:PORT" to
// stdout and returns when ctx ends or stdin does, so that a child never outlives the parent that holds its
// stdin.
func Main(ctx context.Context, query string, stdin io.Reader, stdout io.Writer) error {
	cfg, err := ParseQuery(query)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // its end, in whatever way, is the signal
		cancel()
	}()
	return Run(ctx, cfg, "127.0.0.1:0", stdout)
}

// Run listens on a TCP address ("127.0.0.1:0" for a free port), prints "listening on http://ADDRESS" (or https://) to
// stdout and serves until ctx ends. Requests are stamped by the kernel where it can. The limit of open
// files is raised as far as the system lets it.
func Run(ctx context.Context, cfg Config, address string, stdout io.Writer) error {
	s, err := New(cfg)
	if err != nil {
		return err
	}
	raiseFileLimit()
	scheme, certificate := "http", (*tls.Certificate)(nil)
	if cfg.TLSCert != "" {
		own, err := selfSigned(cfg.TLSCert)
		if err != nil {
			return errors.Join(fmt.Errorf("simserver: the certificate: %w", err), s.Close())
		}
		scheme, certificate = "https", &own
	}
	ln, err := stampconn.Listen(ctx, net.ListenConfig{Control: writeNow}, "tcp", address)
	if err != nil {
		return errors.Join(fmt.Errorf("simserver: %w", err), s.Close())
	}
	if _, err := fmt.Fprintf(stdout, "listening on %s://%s\n", scheme, ln.Addr()); err != nil {
		return errors.Join(fmt.Errorf("simserver: %w", err), ln.Close(), s.Close())
	}
	return errors.Join(s.serve(ctx, ln, certificate), s.Close())
}

// Process is a simulated server in a process of its own.
type Process struct {
	URL    string // http://127.0.0.1:PORT, or https://
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *bytes.Buffer
	done   chan struct{}
	err    error // of the process, once done is closed
}

// startTimeout is how long a child may take to print its address.
const startTimeout = 20 * time.Second

// Start starts cmd, which must end up in [Main], with the given query in its environment, and waits for
// its address. cmd's Stdin, Stdout and Stderr must not be set. The process ends with ctx, with
// [Process.Stop], and with this process.
func Start(ctx context.Context, cmd *exec.Cmd, query string) (*Process, error) {
	if _, err := ParseQuery(query); err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Environ(), EnvQuery+"="+query)
	p := &Process{cmd: cmd, stderr: new(bytes.Buffer), done: make(chan struct{})}
	cmd.Stderr = p.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("simserver: start: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("simserver: start: %w", err)
	}
	p.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("simserver: start: %w", err)
	}
	line := make(chan string, 1)
	go func() {
		defer close(p.done)
		r := bufio.NewReader(stdout)
		first, _ := r.ReadString('\n') // an empty line is reported below
		line <- first
		_, _ = io.Copy(io.Discard, r)
		p.err = cmd.Wait()
	}()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case first := <-line:
		if url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening on "); ok {
			p.URL = url
			context.AfterFunc(ctx, func() { _ = p.stdin.Close() })
			return p, nil
		}
		err = errors.New("it ended without an address")
	case <-timer.C:
		err = fmt.Errorf("no address within %v", startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	stopErr := p.Stop()
	return nil, fmt.Errorf("simserver: start %s: %w: %w", cmd.Path, err, errors.Join(stopErr, errors.New(strings.TrimSpace(p.stderr.String()))))
}

// PID gives the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process in good order, or by force after five seconds, and returns what went wrong with it.
func (p *Process) Stop() error {
	_ = p.stdin.Close() // closed already if the context ended
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if p.err != nil {
		return fmt.Errorf("simserver: process: %w: %s", p.err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// Kill ends the process at once, as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
