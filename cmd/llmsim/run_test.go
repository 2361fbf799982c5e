package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/replay/simserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	def := simserver.Default()
	for _, c := range []struct {
		args string
		want func(*simserver.Config)
	}{
		{"", func(*simserver.Config) {}},
		{"--itl 50ms --slots 0 --cache-blocks=7 --dialect tgi --429 0.5 --crlf 1 --log-chunks --seed=-3", func(c *simserver.Config) {
			c.ITL, c.Slots, c.CacheBlocks, c.Dialect, c.TooMany, c.CRLF, c.LogChunk, c.Seed = 50*time.Millisecond, 0, 7, "tgi", 0.5, 1, true, -3
		}},
		{"sim:?itl=50ms&slots=3", func(c *simserver.Config) { c.ITL, c.Slots = 50*time.Millisecond, 3 }},
		{"sim:?itl=50ms&slots=3 --slots 64 --fail-status 503", func(c *simserver.Config) {
			c.ITL, c.FailStatus = 50*time.Millisecond, 503 // slots: the flag wins, with the default's value too
		}},
		{"sim:?gpu=l40s&fail_status=503 --slots 64 --fail-status 501", func(c *simserver.Config) {
			*c, _ = simserver.ParseQuery("gpu=l40s&slots=64&fail_status=501")
		}},
		{"--gpu h200 --log-chunks", func(c *simserver.Config) { *c, _ = simserver.ParseQuery("gpu=h200&log_chunks") }},
	} {
		want := def
		c.want(&want)
		got, listen, err := parse(t.Context(), strings.Fields(c.args), io.Discard, io.Discard)
		if err != nil || got != want || listen != "127.0.0.1:0" {
			t.Errorf("%q: %+v, %q, %v", c.args, got, listen, err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for args, text := range map[string]string{
		"--nope":                "unknown flag --nope",
		"--itl 5":               "itl",
		"--fail 2":              "fail=2: must be from 0 to 1",
		"http://x":              "not a sim: URL",
		"sim:?x=1":              `unknown parameter "x"`,
		"--dialect x":           "dialect=x: unknown",
		"sim:?itl=1ms --cut 9 ": "cut=9",
	} {
		var stderr bytes.Buffer
		if code := run(context.Background(), strings.Fields(args), nil, io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), text) {
			t.Errorf("%q: code %d, %q, want 2 and %q", args, code, stderr.String(), text)
		}
	}
	var stderr bytes.Buffer
	if code := run(context.Background(), []string{"--listen", "256.0.0.1:1"}, nil, io.Discard, &stderr); code != 1 || !strings.HasPrefix(stderr.String(), "llmsim: ") {
		t.Errorf("an address that cannot be: code %d, %q", code, stderr.String())
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if code := run(context.Background(), []string{"--help"}, nil, &out, io.Discard); code != 0 {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{"Examples:", "--listen", "--cache-blocks", "--error-in-stream", "--fail-status"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "fail_status=") {
		t.Error("the help has a flag with an underscore")
	}
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"--model", "tiny", "--ttft", "1ms"}, nil, w, io.Discard) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `"id":"tiny"`) {
		t.Errorf("%s, %v", body, err)
	}
	client.CloseIdleConnections()
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("code %d after an interrupt", code)
	}
}
