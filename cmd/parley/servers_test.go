//go:build integration

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"parley/schemas"
)

// The real servers that .ci/servers.sh installs: PARLEY_SERVERS names the folder that holds one folder for each,
// SERVER_SCRIPTS that of the scripts which start them. A server whose folder is not there is left out, and the test says so.

// realServer is one that runs, with all that it started, in a process group of its own.
type realServer struct {
	url string
	dir string
}

func serverFolder(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("PARLEY_SERVERS")
	if root == "" {
		t.Fatal("PARLEY_SERVERS does not name the folder of the servers: use make integration-servers")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("LEFT OUT: %s is not installed", name)
	}
	return dir
}

// inGroup starts a command in a process group of its own, which ends with the test whatever becomes of it.
func inGroup(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	if list := os.Getenv("SERVER_GROUPS"); list != "" { // the script ends them if the test cannot
		if f, err := os.OpenFile(list, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			fmt.Fprintln(f, group)
			f.Close()
		}
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-group, syscall.SIGKILL)
		_, _ = cmd.Process.Wait() // an error if that was done
		for end := time.Now().Add(20 * time.Second); syscall.Kill(-group, 0) == nil; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("processes of group %d outlive the test", group)
				return
			}
		}
	})
}

// startServer runs a start script and waits for the URL that it prints.
func startServer(t *testing.T, name, script string, limit time.Duration, args ...string) *realServer {
	t.Helper()
	dir := serverFolder(t, name)
	out, err := os.Create(filepath.Join(t.TempDir(), name+".out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("bash", append([]string{filepath.Join(os.Getenv("SERVER_SCRIPTS"), script), dir}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	begin := time.Now()
	inGroup(t, cmd)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case <-time.After(limit):
		err = fmt.Errorf("not ready after %v", limit)
	}
	text, _ := os.ReadFile(out.Name())
	lines := strings.Fields(string(text))
	if err != nil || len(lines) == 0 {
		t.Fatalf("%s does not start: %v\n%s", name, err, text)
	}
	t.Logf("%s is ready after %v", name, time.Since(begin).Round(time.Second))
	return &realServer{url: lines[len(lines)-1], dir: dir}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

func tinyModel(t *testing.T) string { return filepath.Join(serverFolder(t, "model"), "tiny") }

// figures reads the sums of the server's own counters and gauges, histograms by their sum, and by name_count their count.
func (s *realServer) figures(t *testing.T) map[string]float64 {
	t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			sums[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() + m.GetHistogram().GetSampleSum()
			sums[name+"_count"] += float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sums
}

// serverData makes a small dataset with the model's own tokenizer.
func serverData(t *testing.T, args ...string) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data.parquet")
	parley(t, 0, append([]string{"generate", "-o", data, "--tokenizer", filepath.Join(tinyModel(t), "tokenizer.json"), "--seed", "3"}, args...)...)
	return data
}

func smallData(t *testing.T) string {
	return serverData(t, "--turns", "3", "--input-tokens", "60", "--output-tokens", "uniform(8,20)", "--shared-prefix", "300", "-n", "16")
}

// rowSums are the rows' own counts.
type rowSums struct{ rows, prompt, cached, completion int64 }

// replayServer runs a replay that is to end well. Exit code 3 is no failure: on a busy machine the verdict is that the
// client itself was late, which is true.
func replayServer(t *testing.T, args ...string) {
	t.Helper()
	var said bytes.Buffer
	p := &program{args: args, stdin: strings.NewReader(""), stdout: &said, stderr: &said}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if code := p.run(ctx); code != 0 && code != 3 {
		t.Fatalf("parley %s: exit code %d\n%s", strings.Join(args, " "), code, said.String())
	}
	t.Logf("parley %s\n%s", strings.Join(args, " "), said.String())
}

// driveServer replays, and wants every row to be ok and counted.
func driveServer(t *testing.T, data string, s *realServer, api string, args ...string) (sum rowSums, rows []schemas.Request, meta schemas.RunMeta) {
	t.Helper()
	out := filepath.Join(t.TempDir(), api+".parquet")
	replayServer(t, append([]string{"replay", data, "--url", s.url, "-o", out, "--api", api, "--concurrency", "4", "--think", "none"}, args...)...)
	rows, meta = rowsOf(t, out)
	for _, r := range rows {
		if r.Status != string(schemas.StatusOK) {
			t.Errorf("%s turn %d: %s %s %s", r.ConversationID, r.Turn, r.Status, deref(r.ErrorKind), deref(r.ErrorMessage))
			continue
		}
		if r.PromptTokens == nil || r.CompletionTokens == nil || r.TokenSource == nil || *r.TokenSource != schemas.TokensFromUsage {
			t.Fatalf("%s turn %d: no token counts by the server", r.ConversationID, r.Turn)
		}
		sum.rows++
		sum.prompt += *r.PromptTokens
		sum.completion += *r.CompletionTokens
		if r.CachedTokens != nil {
			sum.cached += *r.CachedTokens
		}
	}
	if meta.Planned != int64(len(rows)) {
		t.Errorf("%d rows, planned %d", len(rows), meta.Planned)
	}
	return sum, rows, meta
}

// failing replays where rows are to fail, and gives the first row's status, kind and message.
func failing(t *testing.T, code int, data string, s *realServer, args ...string) (status, kind, message string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "failing.parquet")
	parley(t, code, append([]string{"replay", data, "--url", s.url, "-o", out, "--concurrency", "1", "--think", "none", "--no-probe"}, args...)...)
	rows, _ := rowsOf(t, out)
	return rows[0].Status, deref(rows[0].ErrorKind), deref(rows[0].ErrorMessage)
}

// wantEqual holds the rows' counts against the server's own.
func wantEqual(t *testing.T, what string, ours int64, after, before map[string]float64, name string) {
	t.Helper()
	if theirs := int64(after[name] - before[name]); ours != theirs {
		t.Errorf("%s: the rows say %d, the server's %s says %d", what, ours, name, theirs)
	}
}

// telemetryOf gives which figures of the server are in a run's telemetry.
func telemetryOf(t *testing.T, output string, wanted ...string) {
	t.Helper()
	f, err := schemas.Open[schemas.Sample](schemas.TelemetryPath(output))
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
	for _, w := range wanted {
		if names[w] == 0 {
			t.Errorf("%s is not in the telemetry: %v", w, names)
		}
	}
}

// interrupted starts the program on a long run, interrupts it twice in its middle, and wants the gauge to be 0 soon after.
func interrupted(t *testing.T, data string, s *realServer, gauge string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "parley")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	output := filepath.Join(t.TempDir(), "interrupted.parquet")
	var said bytes.Buffer
	cmd := exec.Command(bin, "replay", data, "--url", s.url, "-o", output, "--concurrency", "4", "--think", "none", "--output-tokens", "4000", "--ignore-eos", "--no-probe")
	cmd.Stdout, cmd.Stderr = &said, &said
	inGroup(t, cmd)
	for end := time.Now().Add(time.Minute); s.figures(t)[gauge] < 4; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s never rose: %v", gauge, s.figures(t)[gauge])
		}
	}
	for range 2 {
		_ = cmd.Process.Signal(syscall.SIGINT)
		time.Sleep(500 * time.Millisecond)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d\n%s", code, said.String())
	}
	for end := time.Now().Add(30 * time.Second); s.figures(t)[gauge] > 0; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v requests run on at the server", s.figures(t)[gauge])
		}
	}
	rows, _ := rowsOf(t, output)
	canceled := 0
	for _, r := range rows {
		if r.Status == string(schemas.StatusCanceled) {
			canceled++
		}
	}
	if canceled != 4 {
		t.Errorf("%d rows are canceled, 4 were under way", canceled)
	}
}

// killedUnder runs a load in this process, kills in its middle, and gives the rows by status.
func killedUnder(t *testing.T, data string, s *realServer, gauge string, kill func()) (byStatus map[string]int, rows []schemas.Request) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "killed.parquet")
	done := make(chan string, 1)
	go func() {
		var said bytes.Buffer
		p := &program{args: []string{"replay", data, "--url", s.url, "-o", output, "--concurrency", "6", "--think", "none", "--output-tokens", "300",
			"--ignore-eos", "--no-probe", "--max-errors", "none"}, stdin: strings.NewReader(""), stdout: &said, stderr: &said}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		code := p.run(ctx)
		done <- fmt.Sprintf("exit code %d\n%s", code, said.String())
	}()
	for end := time.Now().Add(time.Minute); s.figures(t)[gauge] < 6 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
	}
	time.Sleep(300 * time.Millisecond)
	kill()
	t.Log(<-done)
	rows, _ = rowsOf(t, output)
	byStatus = map[string]int{}
	for _, r := range rows {
		byStatus[r.Status]++
		if schemas.Status(r.Status).Failed() && deref(r.ErrorMessage) == "" {
			t.Errorf("%s turn %d: %s without a word", r.ConversationID, r.Turn, r.Status)
		}
	}
	return byStatus, rows
}

func TestServersDynamo(t *testing.T) {
	s := startServer(t, "dynamo", "dynamo-start.sh", 4*time.Minute, tinyModel(t), freePort(t), "1")
	// The second worker is a process of its own, so that it can be killed.
	second := exec.Command("bash", "-c", `cd "$1" && export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$1/store DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq \
DYN_TCP_RPC_HOST=127.0.0.1 DYN_EVENT_PLANE_HOST=127.0.0.1 DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1 DYN_SYSTEM_HOST=127.0.0.1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
exec venv/bin/python -m dynamo.mocker --model-path "$2" --model-name tiny --block-size 16 --num-workers 1 --max-model-len 32768 >second.log 2>&1`, "bash", s.dir, tinyModel(t))
	inGroup(t, second)
	const registered = "dynamo_component_router_worker_registered"
	for end := time.Now().Add(2 * time.Minute); s.figures(t)[registered] < 2; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("the second worker does not register: %v", s.figures(t)[registered])
		}
	}
	data := smallData(t)
	for _, api := range []string{"chat", "completions", "responses", "anthropic"} {
		before := s.figures(t)
		sum, _, meta := driveServer(t, data, s, api, "--ignore-eos", "--no-probe", "--header", "X-Dynamo-Session-ID: {conversation}")
		after := s.figures(t)
		wantEqual(t, api+": requests", sum.rows, after, before, "dynamo_frontend_requests_total")
		wantEqual(t, api+": prompt tokens", sum.prompt, after, before, "dynamo_frontend_input_sequence_tokens")
		wantEqual(t, api+": cached tokens", sum.cached, after, before, "dynamo_frontend_cached_tokens")
		wantEqual(t, api+": output tokens", sum.completion, after, before, "dynamo_frontend_output_tokens_total")
		if sum.cached == 0 {
			t.Errorf("%s: no prompt token came from the cache", api)
		}
		if !strings.HasPrefix(meta.Targets[0].Server, "dynamo") {
			t.Errorf("the server was taken for %q", meta.Targets[0].Server)
		}
	}
	before := s.figures(t)
	out := filepath.Join(t.TempDir(), "probed.parquet")
	replayServer(t, "replay", data, "--url", s.url, "-o", out, "--concurrency", "4", "--think", "none", "--ignore-eos")
	rows, meta := rowsOf(t, out)
	if probes := int64(s.figures(t)["dynamo_frontend_requests_total"]-before["dynamo_frontend_requests_total"]) - int64(len(rows)); probes != 2 {
		t.Errorf("the probe made %d requests: %q", probes, meta.Probe.Steps)
	}
	if meta.Targets[0].CachedMost == 0 || meta.Probe.IgnoreEOS == nil || !*meta.Probe.IgnoreEOS {
		t.Errorf("the probe found %+v, at most %d cached tokens", meta.Probe, meta.Targets[0].CachedMost)
	}
	telemetryOf(t, out, "running", "waiting", "prefix_cache_hits", "prefix_cache_queries", "generation_tokens", "prompt_tokens")

	long := serverData(t, "--turns", "1", "--input-tokens", "40000", "--output-tokens", "8", "-n", "1")
	// The frontend lets it through, and the worker's refusal comes as an error inside the stream.
	if status, kind, message := failing(t, 3, long, s); status != "stream_error" || kind != "server_error" || message == "" {
		t.Errorf("a prompt that is too long: %s %s %s", status, kind, message)
	}
	if status, kind, message := failing(t, 3, data, s, "--model", "nope", "--requests", "1"); status != "http_error" || kind != "not_found" {
		t.Errorf("an unknown model: %s %s %s", status, kind, message)
	}
	var said bytes.Buffer
	p := &program{args: []string{"replay", data, "--url", s.url, "-o", filepath.Join(t.TempDir(), "f.parquet"), "--concurrency", "1", "--flush-cache"}, stdin: strings.NewReader(""), stdout: &said, stderr: &said}
	if code := p.run(t.Context()); code != 1 || !strings.Contains(said.String(), "dynamo forget its prefix cache; use --salt") {
		t.Errorf("--flush-cache: exit code %d\n%s", code, said.String())
	}
	interrupted(t, data, s, "dynamo_frontend_inflight_requests")

	byStatus, _ := killedUnder(t, data, s, "dynamo_frontend_inflight_requests", func() { _ = syscall.Kill(-second.Process.Pid, syscall.SIGKILL) })
	if byStatus["ok"] == 0 || byStatus["stream_error"]+byStatus["incomplete"]+byStatus["http_error"]+byStatus["transport_error"] == 0 {
		t.Errorf("a worker that was killed in mid-run: %v", byStatus)
	}

	t.Run("litellm", func(t *testing.T) { throughLiteLLM(t, data, s) })
}

// throughLiteLLM drives a LiteLLM proxy before Dynamo, which counts by itself.
func throughLiteLLM(t *testing.T, data string, dynamo *realServer) {
	s := startServer(t, "litellm", "litellm-start.sh", 8*time.Minute, dynamo.url, freePort(t))
	t.Setenv("OPENAI_API_KEY", "sk-test")
	for _, api := range []string{"chat", "completions", "responses", "anthropic"} {
		before := dynamo.figures(t)
		sum, _, meta := driveServer(t, data, s, api, "--model", "tiny")
		probes := int64(len(meta.Probe.Steps))
		after := dynamo.figures(t)
		if extra := int64(after["dynamo_frontend_requests_total"]-before["dynamo_frontend_requests_total"]) - sum.rows; extra < 1 || extra > probes {
			t.Errorf("%s: %d requests more than rows reached the server behind it; probe: %q", api, extra, meta.Probe.Steps)
		}
		if !strings.HasPrefix(meta.Targets[0].Server, "litellm") {
			t.Errorf("the server was taken for %q", meta.Targets[0].Server)
		}
	}
	out := filepath.Join(t.TempDir(), "lit.parquet")
	replayServer(t, "replay", data, "--url", s.url, "-o", out, "--concurrency", "4", "--think", "none")
	telemetryOf(t, out, "prompt_tokens", "generation_tokens", "prefix_cache_hits")
	if status, kind, message := failing(t, 3, data, s, "--model", "nope", "--requests", "1"); status != "http_error" || !strings.Contains(message, "Invalid model name") {
		t.Errorf("an unknown model: %s %s %s", status, kind, message)
	}
	t.Setenv("OPENAI_API_KEY", "sk-wrong")
	var said bytes.Buffer
	p := &program{args: []string{"replay", data, "--url", s.url, "-o", filepath.Join(t.TempDir(), "k.parquet"), "--concurrency", "1"}, stdin: strings.NewReader(""), stdout: &said, stderr: &said}
	if code := p.run(t.Context()); code != 1 || !strings.Contains(said.String(), "does not accept the API key ($OPENAI_API_KEY)") || strings.Contains(said.String(), "sk-wrong") {
		t.Errorf("a wrong key: exit code %d\n%s", code, said.String())
	}
}

func TestServersOllama(t *testing.T) {
	gguf := os.Getenv("OLLAMA_GGUF")
	t.Setenv("CTX", "2048") // its context length
	s := startServer(t, "ollama", "ollama-start.sh", 3*time.Minute, gguf, freePort(t))
	data := serverData(t, "--turns", "2", "--input-tokens", "60", "--output-tokens", "uniform(4,8)", "--shared-prefix", "300", "-n", "4")
	for _, api := range []string{"chat", "completions", "responses", "anthropic", "ollama"} {
		_, rows, meta := driveServer(t, data, s, api, "--ignore-eos")
		if !strings.HasPrefix(meta.Targets[0].Server, "ollama") {
			t.Errorf("the server was taken for %q", meta.Targets[0].Server)
		}
		if meta.Probe.IgnoreEOS == nil || *meta.Probe.IgnoreEOS {
			t.Errorf("%s: ignore_eos is believed of a server that ignores it: %q", api, meta.Probe.Steps)
		}
		for _, r := range rows {
			if r.CompletionTokens != nil && *r.CompletionTokens > *r.OutputTokensAsked {
				t.Errorf("%s: %d tokens where %d were asked for", api, *r.CompletionTokens, *r.OutputTokensAsked)
			}
		}
	}
	// Its Responses tell 0 cached tokens whatever comes from the cache.
	out := filepath.Join(t.TempDir(), "zeros.parquet")
	replayServer(t, "replay", data, "--url", s.url, "-o", out, "--api", "responses", "--concurrency", "2", "--think", "none")
	if text := parley(t, 0, "analyze", out, "--window", "all"); !strings.Contains(text, "tells 0 always") {
		t.Errorf("reuse is worked out of zeros:\n%s", text)
	}
	// It cuts prompts at its context length without a word.
	long := serverData(t, "--turns", "1", "--input-tokens", "5000", "--output-tokens", "4", "-n", "1")
	out = filepath.Join(t.TempDir(), "long.parquet")
	replayServer(t, "replay", long, "--url", s.url, "-o", out, "--concurrency", "1", "--no-probe")
	text := strings.Join(strings.Fields(parley(t, 0, "analyze", out, "--window", "all")), " ")
	if !strings.Contains(text, "1 of 1 prompts had 2") || !strings.Contains(text, "where 5") {
		t.Errorf("no reason for a prompt that was cut:\n%s", text)
	}
	if status, kind, message := failing(t, 3, data, s, "--model", "nope", "--requests", "1"); status != "http_error" || kind != "not_found" {
		t.Errorf("an unknown model: %s %s %s", status, kind, message)
	}
}

func TestServersVLLM(t *testing.T) {
	s := startServer(t, "vllm", "vllm-start.sh", 14*time.Minute, tinyModel(t), freePort(t))
	data := smallData(t)
	for _, api := range []string{"chat", "completions", "responses", "anthropic"} {
		before := s.figures(t)
		sum, _, meta := driveServer(t, data, s, api, "--ignore-eos", "--no-probe", "--flush-cache")
		after := s.figures(t)
		// The flush looks at the cache with three requests of one token each.
		looks := int64(after["vllm:request_success_total"]-before["vllm:request_success_total"]) - sum.rows
		if looks != 3 {
			t.Errorf("%s: %d requests besides the rows", api, looks)
		}
		if text := strings.Join(meta.Warnings, "\n"); strings.Contains(text, "flush") {
			t.Errorf("%s: %s", api, text)
		}
		wantEqual(t, api+": output tokens", sum.completion+looks, after, before, "vllm:generation_tokens_total")
		if sum.cached == 0 || sum.cached > int64(after["vllm:prefix_cache_hits_total"]-before["vllm:prefix_cache_hits_total"]) {
			t.Errorf("%s: %d cached tokens, the server says %v", api, sum.cached, after["vllm:prefix_cache_hits_total"]-before["vllm:prefix_cache_hits_total"])
		}
		if !strings.HasPrefix(meta.Targets[0].Server, "vllm 0.") {
			t.Errorf("the server was taken for %q", meta.Targets[0].Server)
		}
	}
	before := s.figures(t)
	sum, _, _ := driveServer(t, data, s, "chat", "--ignore-eos", "--no-probe")
	after := s.figures(t)
	wantEqual(t, "requests", sum.rows, after, before, "vllm:request_success_total")
	wantEqual(t, "prompt tokens", sum.prompt, after, before, "vllm:prompt_tokens_total")
	wantEqual(t, "cached tokens", sum.cached, after, before, "vllm:prefix_cache_hits_total")
	wantEqual(t, "output tokens", sum.completion, after, before, "vllm:generation_tokens_total")
	out := filepath.Join(t.TempDir(), "telemetry.parquet")
	replayServer(t, "replay", data, "--url", s.url, "-o", out, "--concurrency", "4", "--think", "none", "--ignore-eos")
	telemetryOf(t, out, "running", "waiting", "kv_usage", "prefix_cache_hits", "prefix_cache_queries", "preemptions", "generation_tokens", "prompt_tokens")

	long := serverData(t, "--turns", "1", "--input-tokens", "20000", "--output-tokens", "8", "-n", "1")
	if status, kind, message := failing(t, 3, long, s); status != "http_error" || kind != "context" {
		t.Errorf("a prompt that is too long: %s %s %s", status, kind, message)
	}
	if status, kind, message := failing(t, 3, data, s, "--model", "nope", "--requests", "1"); status != "http_error" || kind != "not_found" {
		t.Errorf("an unknown model: %s %s %s", status, kind, message)
	}
	interrupted(t, data, s, "vllm:num_requests_running")

	engine := vllmEngine(t, s.dir)
	byStatus, _ := killedUnder(t, data, s, "vllm:num_requests_running", func() { _ = syscall.Kill(engine, syscall.SIGKILL) })
	if failed := byStatus["stream_error"] + byStatus["incomplete"] + byStatus["http_error"] + byStatus["transport_error"]; failed < 6 {
		t.Errorf("an engine that was killed in mid-run: %v", byStatus)
	}
}

// vllmEngine gives the process of the engine, which is of the server's process group.
func vllmEngine(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(server)
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && strings.Contains(string(stat), "(VLLM::Engine") { // the kernel keeps 15 letters
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	t.Fatal("the engine's process is not found")
	return 0
}
