package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/generate/record"
	"parley/generate/tokenizer"
)

// lastWords is how long answers under way may take after the recording was told to end.
const lastWords = 10 * time.Second

// recording stands between an application and its server until it is interrupted, and then writes the
// dataset of what went by.
func (c *generateCommand) recording(ctx context.Context, p *program, ui *ui) error {
	o, err := c.recordOptions()
	if err != nil {
		return usageError(err)
	}
	l, err := net.Listen("tcp", c.Record)
	if err != nil {
		return usageError(fmt.Errorf("--record: %w", err))
	}
	r, err := record.New(o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	ui.note("recording: http://%s passes requests on to %s; end it with Ctrl-C", l.Addr(), o.Upstream.Host)

	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	told := false
	for end := false; !end; {
		select {
		case <-p.interrupts:
			end = true
		case <-ctx.Done():
			end = true
		case err = <-failed:
			end = true
		case <-ticks.C:
			n := r.Counts()
			ui.progress(fmt.Sprintf("%s requests, %s turns of %s conversations", thousands(n.Requests), thousands(n.Turns), thousands(n.Conversations)))
			if err := r.Failed(); err != nil && !told {
				told = true
				ui.note("requests pass on, but are no longer recorded: %v", err)
			}
		}
	}
	// Answers under way are let through to their end; then the connections are cut.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if server.Shutdown(limit) != nil {
		err = errors.Join(err, server.Close())
	}
	ui.done()
	counts, hash, sealed := r.Close()
	if err = errors.Join(err, sealed); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, struct {
			Output      string `json:"output"`
			ContentHash string `json:"content_hash"`
			record.Counts
		}{c.Output, hash, counts})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s conversations, %s turns of %s requests\ncontent %s\n", clean(c.Output),
		thousands(counts.Conversations), thousands(counts.Turns), thousands(counts.Requests), hash)
	for _, list := range []struct {
		word string
		of   map[string]int64
	}{{"left out", counts.Left}, {"note", counts.Notes}} {
		for _, what := range slices.Sorted(maps.Keys(list.of)) {
			fmt.Fprintf(&b, "%s: %s: %s\n", list.word, clean(what), thousands(list.of[what]))
		}
	}
	_, err = fmt.Fprint(p.stdout, b.String())
	return err
}

func (c *generateCommand) recordOptions() (record.Options, error) {
	o := record.Options{Output: c.Output, Force: c.Force, KeepText: c.KeepText}
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Output == "" || c.Output == "-" {
		bad("--output: name the file to write")
	}
	if c.Redact && c.KeepText {
		bad("--redact and --keep-text exclude each other")
	}
	if c.Upstream == "" {
		bad("--upstream: give the server's address, such as http://127.0.0.1:8000")
	} else if u, err := url.Parse(c.Upstream); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		bad("--upstream: %q is no address of a server, such as http://127.0.0.1:8000", c.Upstream)
	} else {
		o.Upstream = u
	}
	name := c.Tokenizer
	if name == "" {
		name = tokenizer.Default
	}
	var err error
	if o.Tokenizer, err = tokenizer.Load(name); err != nil {
		bad("--tokenizer: %w", err)
	}
	return o, errors.Join(problems...)
}

// seal makes the dataset of a recording that was killed.
func (c *generateCommand) seal(p *program) error {
	if c.Output == "" || c.Output == "-" {
		return usageError(errors.New("--output: name the file to write"))
	}
	hash, err := record.Seal(c.From[0], c.Output, c.Force)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s: made of the recording %s\ncontent %s\n", clean(c.Output), clean(c.From[0]), hash)
	return err
}
