package control_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/internal/control"
	"parley/replay/internal/scrape"
	"parley/replay/internal/wire"
	"parley/schemas"
)

// TestLlamaCpp drives the real llama.cpp server over its chat, completions and Anthropic routes. Every
// count of parley's rows has to agree with the server's own counters: testdata/llamacpp/check.sh DIR.
func TestLlamaCpp(t *testing.T) {
	dir := os.Getenv("PARLEY_LLAMACPP")
	if dir == "" {
		t.Skip("PARLEY_LLAMACPP does not name a directory with llama-server and tiny.gguf: run testdata/llamacpp/check.sh DIR")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "llama-server"), "-m", filepath.Join(dir, "tiny.gguf"), "--host", "127.0.0.1",
		"--port", fmt.Sprint(port), "-c", "16384", "-np", "2", "--metrics", "--slots", "--slot-save-path", t.TempDir(), "--no-ui", "-t", "2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, kind := range []api.Kind{api.Chat, api.Completions, api.Anthropic} {
		t.Run(string(kind), func(t *testing.T) { checkLlamaCpp(t, base, kind) })
	}
}

func checkLlamaCpp(t *testing.T, base string, kind api.Kind) {
	ctx := t.Context()
	a, err := api.New(string(kind))
	if err != nil {
		t.Fatal(err)
	}
	client, err := wire.New(wire.Options{URL: base, API: a, Clock: clock.New(time.Now()), IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ready, err := control.WaitReady(ctx, client.Fetch, time.Minute, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	server, version := control.Detect(ctx, client.Fetch)
	if server != control.LlamaCpp || version == "" {
		t.Errorf("detected %s %q", server, version)
	}
	models, err := control.Models(ctx, client.Fetch)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s, ready by %s, models %v", server, version, ready.Path, models)

	r := &rig{t: t, api: a, client: client}
	want := api.Params{Model: models[0], Stream: true, IncludeUsage: true, ContinuousUsage: true, IgnoreEOS: true, OutputTokens: 40, Seed: new(int64)}
	found, use, err := (&control.Probe{API: a, Kind: server, Send: r.send, Salt: time.Now().String()}).Run(ctx, want)
	t.Logf("probe: %s", strings.Join(found.Steps, "; "))
	if err != nil {
		t.Fatal(err)
	}
	if found.Usage == nil || !*found.Usage || found.CachedTokens == nil || !*found.CachedTokens {
		t.Errorf("the probe found no usage or no cached tokens: %+v", found)
	}

	before := llamaFigures(t, client)
	rows, _ := r.converse(&use, 5)
	sent, cached, predicted := int64(0), int64(0), int64(0)
	for i, row := range rows {
		if row.Status != string(schemas.StatusOK) || row.TokenSource == nil || *row.TokenSource != schemas.TokensFromUsage {
			t.Fatalf("turn %d: %s", i, words(row))
		}
		t.Logf("turn %d: prompt %d, cached %d, completion %d in %d chunks, %s", i, got(row.PromptTokens), got(row.CachedTokens),
			got(row.CompletionTokens), len(row.ChunkNS), words(row))
		if row.CachedTokens == nil || i > 0 && *row.CachedTokens < got(rows[i-1].PromptTokens)/2 {
			t.Errorf("turn %d: %d of the prompt's tokens were cached; the turn before had %d", i, got(row.CachedTokens), got(rows[i-1].PromptTokens))
		}
		if use.IgnoreEOS && *row.CompletionTokens != want.OutputTokens {
			t.Errorf("turn %d: %d tokens, asked for %d", i, *row.CompletionTokens, want.OutputTokens)
		}
		// An answer of the end token alone has no chunk.
		if int64(len(row.ChunkNS)) > *row.CompletionTokens || len(row.ChunkNS) == 0 && *row.CompletionTokens > 1 {
			t.Errorf("turn %d: %d chunks of %d tokens", i, len(row.ChunkNS), *row.CompletionTokens)
		}
		sent, cached, predicted = sent+*row.PromptTokens, cached+got(row.CachedTokens), predicted+*row.CompletionTokens
	}
	after := llamaFigures(t, client)
	if d := after[scrape.PromptEvaluated] - before[scrape.PromptEvaluated]; int64(d) != sent-cached {
		t.Errorf("the server evaluated %v prompt tokens; by the rows it was %d - %d cached", d, sent, cached)
	}
	if d := after[scrape.GenerationToken] - before[scrape.GenerationToken]; int64(d) != predicted {
		t.Errorf("the server predicted %v tokens; by the rows it was %d", d, predicted)
	}

	flushed, err := control.Flush(ctx, client.Fetch, server, time.Now().String(), use, r.send)
	if err != nil || flushed.Verified == nil || !*flushed.Verified {
		t.Errorf("flush: %+v, %v", flushed, err)
	}
	t.Log(flushed.Note)

	// A prompt beyond the context is an error of its own kind.
	row := r.send(ctx, "", strings.Repeat("far too long ", 20000), &use)
	if row.Status != string(schemas.StatusHTTPError) || row.ErrorKind == nil || *row.ErrorKind != api.KindContext {
		t.Errorf("too long a prompt: %s", words(row))
	}
}

// llamaFigures scrapes the server's own counters once.
func llamaFigures(t *testing.T, client *wire.Client) map[string]float64 {
	t.Helper()
	figures := map[string]float64{}
	s := scrape.New(scrape.Options{Fetch: client.Fetch, Path: "/metrics", Source: client.Origin(), Now: func() int64 { return 0 }, Emit: func(samples []schemas.Sample) {
		for _, x := range samples {
			figures[x.Name] = x.Value
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx) // one last scrape
	if stats := s.Stats(); stats.Scrapes != 1 {
		t.Fatalf("%+v", stats)
	}
	return figures
}
