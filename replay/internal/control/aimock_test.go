package control_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/internal/control"
	"parley/replay/internal/wire"
	"parley/schemas"
)

// TestAimock checks requests and streams against an independent mock server, npm's @copilotkit/aimock, over
// every API that both speak. It is a slow check: testdata/aimock/check.sh installs the server and runs it.
func TestAimock(t *testing.T) {
	program := os.Getenv("PARLEY_AIMOCK")
	if program == "" {
		t.Skip("PARLEY_AIMOCK does not name the mock server's program: run testdata/aimock/check.sh DIR")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().(*net.TCPAddr)
	ln.Close()
	cmd := exec.CommandContext(t.Context(), program, "-p", fmt.Sprint(address.Port), "-f", "testdata/aimock/fixtures.json", "--log-level", "warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	for _, kind := range []api.Kind{api.Chat, api.Responses, api.Anthropic, api.Ollama} {
		a, err := api.New(string(kind))
		if err != nil {
			t.Fatal(err)
		}
		client, err := wire.New(wire.Options{URL: "http://" + address.String(), API: a, Clock: clock.New(time.Now()), IdleTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := control.WaitReady(t.Context(), client.Fetch, 20*time.Second, func(string) {}); err != nil {
			t.Fatal(err)
		}
		for _, stream := range []bool{true, false} {
			for range 8 { // the mock's chunks race with its breaks
				checkAimock(t, client, kind, stream)
			}
		}
		client.Close()
	}
}

func checkAimock(t *testing.T, client *wire.Client, kind api.Kind, stream bool) {
	const plain, answer, thoughts = "The quick brown fox jumps over the lazy dog, and Zürich 世界 😀 follows.", "The answer is 42.", "Let me think about it for a while."
	for _, c := range []struct {
		prompt   string
		statuses string // that fit
		kinds    string // that fit, with a failure
		content  string
	}{
		{"plain", "ok", "", plain},
		{"think", "ok", "", answer},
		{"tools", "ok", "", "It is cold."},
		{"usage", "ok", "", "Counted."},
		{"slow", "ok", "", "One two three four five six seven."},
		{"limited", "http_error", api.KindRateLimited, ""},
		{"broken", "http_error", api.KindServerError, ""},
		{"dropped", "http_error", api.KindServerError, ""},
		{"malformed", "stream_error", api.KindNotJSON, ""},
		{"gone", "transport_error incomplete", "", ""},
		{"truncated", "transport_error incomplete", "", ""},
		{"disconnected", "transport_error incomplete", "", ""},
		{"empty", "empty ok", "", ""},
	} {
		if !stream && (c.prompt == "truncated" || c.prompt == "disconnected") {
			continue // only streams are broken off
		}
		name := fmt.Sprintf("%s, stream %v, %s", kind, stream, c.prompt)
		s, err := client.NewSession(api.HistoryOptions{Tools: `[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}},{"type":"function","function":{"name":"now"}}]`})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(schemas.Message{Role: "user", Content: &c.prompt}); err != nil {
			t.Fatal(err)
		}
		p := &api.Params{Model: "m", Stream: stream, IncludeUsage: true, OutputTokens: 100}
		row := &schemas.Request{}
		a := s.Do(context.Background(), wire.TurnRequest{Params: p}, row)
		if c.prompt == "tools" && row.Status == "ok" {
			a, row = answerTools(t, s, name, p, a)
		}
		if !strings.Contains(" "+c.statuses+" ", " "+row.Status+" ") {
			t.Errorf("%s: %s, want %s", name, words(row), c.statuses)
			continue
		}
		if c.kinds != "" && (row.ErrorKind == nil || *row.ErrorKind != c.kinds) {
			t.Errorf("%s: %s, want the kind %s", name, words(row), c.kinds)
		}
		if row.Status != "ok" {
			continue
		}
		if row.Streamed == nil || *row.Streamed != stream {
			t.Errorf("%s: streamed %v", name, row.Streamed)
		}
		content := ""
		if a.Message.Content != nil {
			content = *a.Message.Content
		}
		if content != c.content {
			t.Errorf("%s: %q, want %q", name, content, c.content)
		}
		if c.prompt == "think" && a.Reasoning != thoughts {
			t.Errorf("%s: reasoning %q", name, a.Reasoning)
		}
		if c.prompt == "empty" {
			continue
		}
		if stream {
			if len(row.ChunkNS) == 0 || row.FirstTokenNS == nil || row.FirstAnswerNS == nil || *row.LastTokenNS > *row.DoneNS {
				t.Errorf("%s: %d chunks, first token %d, first answer %d, last token %d, done %d", name,
					len(row.ChunkNS), got(row.FirstTokenNS), got(row.FirstAnswerNS), got(row.LastTokenNS), got(row.DoneNS))
			}
			if c.prompt == "think" && *row.FirstAnswerNS < *row.FirstTokenNS {
				t.Errorf("%s: the answer comes before the reasoning", name)
			}
			if c.prompt == "slow" && *row.FirstTokenNS-*row.SentNS < 250e6 {
				t.Errorf("%s: the first token came after %d ns; the server waited 300 ms", name, *row.FirstTokenNS-*row.SentNS)
			}
		} else if row.FirstTokenNS != nil || row.ChunkNS != nil {
			t.Errorf("%s: moments of a stream without one", name)
		}
		// Over Ollama's API the mock counts nothing.
		if c.prompt == "usage" && kind != api.Ollama && (got(row.PromptTokens) != 123 || got(row.CompletionTokens) != 7) {
			t.Errorf("%s: %d and %d tokens, want 123 and 7", name, got(row.PromptTokens), got(row.CompletionTokens))
		}
	}
}

// answerTools sends the results of the two tools that the mock calls.
func answerTools(t *testing.T, s *wire.Session, name string, p *api.Params, a api.Answer) (api.Answer, *schemas.Request) {
	recorded := `[{"id":"r1","type":"function","function":{"name":"get","arguments":"{}"}},{"id":"r2","type":"function","function":{"name":"now","arguments":"{}"}}]`
	live, err := s.AppendAnswer(a, &schemas.Message{Role: "assistant", ToolCalls: &recorded})
	if err != nil || !live {
		t.Errorf("%s: the answer's calls did not go into the history: %v; %+v", name, err, a.Message.ToolCalls)
	}
	if a.Message.ToolCalls == nil || !strings.Contains(*a.Message.ToolCalls, "Zürich") || !strings.Contains(*a.Message.ToolCalls, `"now"`) {
		t.Errorf("%s: tool calls %v", name, a.Message.ToolCalls)
	}
	for _, id := range []string{"r1", "r2"} {
		result := "result of " + id
		if err := s.Append(schemas.Message{Role: "tool", Content: &result, ToolCallID: &id}); err != nil {
			t.Fatal(err)
		}
	}
	row := &schemas.Request{}
	a = s.Do(context.Background(), wire.TurnRequest{Params: p}, row)
	return a, row
}
