//go:build linux

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"parley/schemas"
)

// gossip is a server that repeats whatever the client authenticates with: in error texts, in streams, in
// headers, in a redirect.
func gossip(t *testing.T) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			if r.URL.Path == "/v1/models" {
				fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
				return
			}
			http.NotFound(w, r)
			return
		}
		user, password, _ := r.BasicAuth()
		heard := fmt.Sprintf("%s %s %s %v", r.Header.Get("Authorization"), user, password, r.Header)
		quoted, _ := json.Marshal("not for you: " + heard)
		chunk := func(text string) { fmt.Fprintf(w, "data: %s\n\n", text) }
		const head = `{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":`
		switch n.Add(1) % 5 {
		case 0:
			w.Header().Set("X-Heard", heard)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":%s,"type":%s,"code":"k"}}`, quoted, quoted)
		case 1:
			w.Header().Set("Content-Type", "text/event-stream")
			chunk(head + `{"role":"assistant","content":"hi"},"finish_reason":null}]}`)
			chunk(fmt.Sprintf(`{"error":{"message":%s,"type":"x"}}`, quoted))
		case 2:
			w.Header().Set("Location", "http://"+user+":"+url.QueryEscape(password)+"@127.0.0.1/"+url.QueryEscape(heard))
			w.WriteHeader(http.StatusFound)
		case 3:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<html>%s", heard)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			chunk(head + `{"role":"assistant","content":"hello"},"finish_reason":null}]}`)
			chunk(head + `{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
			chunk("[DONE]")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestSecretsStayIn runs all verbs with secrets in every place that can hold one, against a server that
// repeats them, and looks for them in every byte of every file, in each row's columns, and in both streams:
// of a run that ended, and of one that was killed and left its journal.
func TestSecretsStayIn(t *testing.T) {
	const envKey, fileKey, header, password, proxy = "sk-env-Zq81", "sk-file-Zq82", "tok-Zq83", "pw!Zq84", "px-Zq85"
	secrets := []string{envKey, fileKey, header, password, proxy, "Zq8",
		base64.StdEncoding.EncodeToString([]byte("me:" + password)), url.QueryEscape(password), url.PathEscape(password)}
	server := gossip(t)
	dir := t.TempDir()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(fileKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := dataset(t, 20, 2, 5)
	withUser := strings.Replace(server.URL, "http://", "http://me:"+url.QueryEscape(password)+"@", 1)
	var said strings.Builder
	run := func(codes string, env []string, args ...string) {
		t.Helper()
		cmd := self(t).command(args...)
		cmd.Env = append(os.Environ(), env...)
		p := launch(t, cmd)
		if code := p.code(t, patience); !strings.Contains(codes, fmt.Sprint(code)) {
			t.Errorf("%v: exit code %d\n%s", args, code, p.errs.String())
		}
		said.WriteString(p.out.String() + p.errs.String())
	}
	out := func(name string) string { return filepath.Join(dir, name+".parquet") }
	load := func(name, url string, more ...string) []string {
		return append([]string{"replay", data, "--url", url, "-o", out(name), "--concurrency", "3", "--no-probe", "--keep-going", "--scrape", "none"}, more...)
	}
	run("03", []string{"OPENAI_API_KEY=" + envKey}, load("env", server.URL, "--save-text")...)
	run("03", []string{"MY_KEY=" + envKey}, load("named", server.URL, "--api-key-env", "MY_KEY", "--retries", "1")...)
	run("03", nil, load("file", server.URL, "--api-key-file", keyFile)...)
	run("03", nil, load("header", server.URL, "--header", "X-Token: "+header, "--header", "Authorization=Bearer "+header)...)
	run("03", []string{"PARLEY_REPLAY_HEADER=X-Token: " + header}, load("envheader", server.URL)...)
	run("03", nil, load("user", withUser, "--http2=false")...)
	run("03", nil, load("twice", withUser, "--url", withUser)...)
	// Errors before the load, of what was given wrongly.
	run("12", []string{"OPENAI_API_KEY=" + envKey}, load("down", "http://me:"+url.QueryEscape(password)+"@127.0.0.1:1", "--ready-timeout", "1s", "--header", "X-Token: "+header)...)
	run("2", nil, load("badurl", "http://me:"+password+"@ bad")...)
	run("2", nil, load("badheader", server.URL, "--header", "X-Token: "+header+"\n"+header)...)
	run("12", []string{"OPENAI_API_KEY=" + envKey + "\n" + envKey}, load("badkey", server.URL)...)
	run("123", nil, load("proxy", server.URL, "--proxy", "http://me:"+proxy+"@127.0.0.1:1", "--ready-timeout", "1s")...)
	run("0", []string{"OPENAI_API_KEY=" + envKey}, load("dry", withUser, "--dry-run", "--header", "X-Token: "+header)...)
	for _, format := range []string{"table", "json", "csv", "markdown"} {
		run("0", nil, "analyze", dir, "--format", format)
	}
	run("0", nil, "analyze", out("env"), "--format", "vllm-json")
	run("0", nil, "analyze", out("user"), "--by", "url", "--html", filepath.Join(dir, "report.html"), "--arrow", filepath.Join(dir, "rows.arrow"))
	// A run that is killed leaves its journal.
	cmd := self(t).command(load("killed", withUser, "--loops", "100000", "--header", "X-Token: "+header)...)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY="+envKey)
	p := launch(t, cmd)
	underWay(t, p, out("killed"), 30)
	_ = p.Process.Kill()
	<-p.done
	said.WriteString(p.out.String() + p.errs.String())

	look := func(where, text string) {
		t.Helper()
		for _, s := range secrets {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("%s holds %q: ...%q", where, s, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
	look("standard output or error", said.String())
	files, rows := 0, 0
	columns := func(where string, all []schemas.Request) {
		for _, r := range all {
			rows++
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			look(where, string(text))
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if schemas.IsJournal(path) {
				columns(path, journalRows(t, path))
			}
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		look(path, string(text))
		if strings.HasSuffix(path, ".parquet") && !strings.HasSuffix(path, ".telemetry.parquet") {
			all, meta := fileRows(t, path)
			columns(path, all)
			text, _ := json.Marshal(meta)
			look(path+"'s metadata", string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 15 || rows < 300 || !strings.Contains(said.String(), "http_error") {
		t.Errorf("only %d files and %d rows were looked at", files, rows)
	}
}

// TestSimulatorGetsNoKey: the simulated server's process does not inherit what it has no use for.
func TestSimulatorGetsNoKey(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	cmd := self(t).command("replay", dataset(t, 30, 30, 20), "--url", simSteady, "-o", out, "--concurrency", "2", "--no-probe")
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=sk-Zq91")
	p := launch(t, cmd)
	underWay(t, p, out, 1)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.Process.Pid, p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// Any thread may have started it.
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if more, err := os.ReadFile(task); err == nil {
			children = append(children, more...)
		}
	}
	pids := strings.Fields(string(children))
	if len(pids) == 0 {
		t.Fatal("the run has no child: where is the simulated server?")
	}
	for _, pid := range pids {
		env, err := os.ReadFile("/proc/" + pid + "/environ")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(env), "PARLEY_SIMSERVER=") || strings.Contains(string(env), "sk-Zq91") {
			t.Errorf("the simulated server's environment: %q", env)
		}
	}
}

// TestFileModes: files of data are for everybody to read and for their owner to write, even where the
// user's mask would let everybody write.
func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "chat.parquet")
	shell := func(args ...string) *process {
		cmd := exec.Command("sh", append([]string{"-c", `umask 0; exec "$0" "$@"`, filepath.Join(dir, "bin", "parley")}, args...)...)
		return launch(t, cmd)
	}
	// Under its own name, so that the test's executable is the program.
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self(t).path, filepath.Join(dir, "bin", "parley")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "chats.jsonl")
	if err := os.WriteFile(config, []byte(`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"there"}]}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run.parquet")
	for _, args := range [][]string{
		{"generate", "-o", data, "--from", config},
		{"replay", data, "--url", "sim:?base=1ms&itl=1ms", "-o", out, "--concurrency", "1", "--no-probe"},
		{"analyze", out, "--html", filepath.Join(dir, "r.html"), "--arrow", filepath.Join(dir, "r.arrow"), "--format", "csv", "-o", filepath.Join(dir, "r.csv")},
	} {
		p := shell(args...)
		if code := p.code(t, patience); code != codeOK && code != codeVerdict {
			t.Fatalf("%v: exit code %d\n%s", args, code, p.errs.String())
		}
	}
	// And the journal of a run under way.
	killed := filepath.Join(dir, "killed.parquet")
	p := shell("replay", data, "--url", "sim:?base=1ms&itl=1ms", "-o", killed, "--concurrency", "1", "--no-probe", "--loops", "1000000")
	underWay(t, p, killed, 5)
	p.signal(t, syscall.SIGKILL)
	<-p.done
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		want := fs.FileMode(0o644)
		if d.IsDir() {
			want = fs.ModeDir | 0o755
		}
		if info.Mode() != want {
			t.Errorf("%s has the mode %v, want %v", path, info.Mode(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 12 {
		t.Errorf("only %d files were looked at", files)
	}
}
