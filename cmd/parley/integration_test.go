//go:build integration

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/schemas"
)

// The real inference server: llama.cpp's, with a tiny random model, in the folder that LLAMA names (see
// `make integration`).
type llama struct {
	url string
}

func startLlama(t *testing.T) *llama {
	t.Helper()
	dir := os.Getenv("LLAMA")
	if dir == "" {
		t.Fatal("LLAMA does not name the folder of the inference server: use make integration LLAMA=DIR")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().(*net.TCPAddr)
	ln.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "llama.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "llama-server"), "-m", filepath.Join(dir, "tiny.gguf"), "--host", "127.0.0.1",
		"--port", strconv.Itoa(addr.Port), "-c", "32768", "-np", "8", "--metrics", "--no-ui", "-t", "2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the server's log ends with:\n%s", text[max(0, len(text)-3000):])
		}
	})
	// No waiting here: parley itself waits until the server is ready.
	return &llama{url: fmt.Sprintf("http://%s", addr)}
}

// counters reads the server's own counts.
func (l *llama) counters(t *testing.T) map[string]int64 {
	t.Helper()
	resp, err := http.Get(l.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(value, 64); ok && err == nil && strings.HasPrefix(name, "llamacpp:") {
			counts[strings.TrimPrefix(name, "llamacpp:")] = int64(f)
		}
	}
	return counts
}

// parley runs the program and gives its standard output.
func parley(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{args: args, stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if got := p.run(ctx); got != code {
		t.Fatalf("parley %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	t.Logf("parley %s\n%s%s", strings.Join(args, " "), out.String(), errs.String())
	return out.String()
}

func rowsOf(t *testing.T, path string) ([]schemas.Request, schemas.RunMeta) {
	t.Helper()
	f, err := schemas.Open[schemas.Request](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var meta schemas.RunMeta
	if err := f.Meta(&meta); err != nil {
		t.Fatal(err)
	}
	var rows []schemas.Request
	for r, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows, meta
}

const integrationConfig = `{"filetype": "generate_conversations", "num_conversations": 40, "text_files": [],
 "prompt_input": {"num_turns": {"distribution": "uniform", "min": 10, "max": 14},
  "common_prefix_num_tokens": {"distribution": "constant", "value": 120},
  "prefix_num_tokens": {"distribution": "lognormal", "average": 60, "max": 200},
  "num_tokens": {"distribution": "uniform", "min": 20, "max": 60}},
 "prompt_output": {"num_tokens": {"distribution": "uniform", "min": 8, "max": 40}}}`

// TestRealServer drives the real server over each of its routes and compares every count with the
// server's own counters.
func TestRealServer(t *testing.T) {
	server := startLlama(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(integrationConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "dataset.parquet")
	parley(t, 0, "generate", "-o", data, "--config", config, "--seed", "3")

	for _, c := range []struct {
		api  string
		args []string
	}{
		{"chat", nil},
		{"completions", nil},
		{"anthropic", nil},
	} {
		t.Run(c.api, func(t *testing.T) {
			out := filepath.Join(dir, c.api+".parquet")
			before := map[string]int64{}
			args := append([]string{"replay", data, "--url", server.url, "-o", out, "--api", c.api, "--concurrency", "8",
				"--think", "none", "--no-probe", "--sampling", `{"temperature":1,"seed":1}`}, c.args...)
			// The first route waits until the server has loaded; the counters start at 0.
			if c.api != "chat" {
				before = server.counters(t)
			}
			parley(t, 0, args...)
			after := server.counters(t)
			rows, meta := rowsOf(t, out)
			if len(rows) < 200 || meta.Planned != int64(len(rows)) {
				t.Fatalf("%d rows, planned %d", len(rows), meta.Planned)
			}
			var prompt, cached, completion, stale int64
			for _, r := range rows {
				if r.Status != string(schemas.StatusOK) {
					t.Errorf("%s turn %d: %s %v %v", r.ConversationID, r.Turn, r.Status, deref(r.ErrorKind), deref(r.ErrorMessage))
					continue
				}
				if r.PromptTokens == nil || r.CompletionTokens == nil || r.CachedTokens == nil {
					t.Fatalf("%s turn %d: no token counts", r.ConversationID, r.Turn)
				}
				if r.OutputTokensAsked == nil || *r.CompletionTokens > *r.OutputTokensAsked {
					t.Errorf("%s turn %d: %d tokens, asked for %v", r.ConversationID, r.Turn, *r.CompletionTokens, r.OutputTokensAsked)
				}
				prompt += *r.PromptTokens
				cached += *r.CachedTokens
				completion += *r.CompletionTokens
				stale += r.StaleReplays
			}
			for _, n := range []struct {
				name       string
				ours, real int64
			}{
				{"completion tokens", completion, after["tokens_predicted_total"] - before["tokens_predicted_total"]},
				{"evaluated prompt tokens", prompt - cached, after["prompt_tokens_total"] - before["prompt_tokens_total"]},
				{"cached prompt tokens", cached, after["prompt_tokens_cached_total"] - before["prompt_tokens_cached_total"]},
			} {
				if n.ours != n.real {
					t.Errorf("%s: the rows say %d, the server counted %d", n.name, n.ours, n.real)
				}
			}
			if cached == 0 {
				t.Error("no prompt token came from the cache")
			}
			t.Logf("%d turns, %d prompt tokens (%d cached), %d completion tokens, %d replays on a fresh connection",
				len(rows), prompt, cached, completion, stale)
			checkTelemetry(t, schemas.TelemetryPath(out))
		})
	}
	parley(t, 0, "analyze", filepath.Join(dir, "chat.parquet"), "--by", "turn")
}

// checkTelemetry finds the server's own figures in the telemetry file.
func checkTelemetry(t *testing.T, path string) {
	t.Helper()
	f, err := schemas.Open[schemas.Sample](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]int{}
	for s, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Source != "client" {
			names[s.Name]++
		}
	}
	for _, name := range []string{"running", "waiting", "generation_tokens"} {
		if names[name] == 0 {
			t.Errorf("the server's %q is not in the telemetry: %v", name, names)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
