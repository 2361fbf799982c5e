package replay

import (
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

func TestParseModels(t *testing.T) {
	for text, want := range map[string]int{"": 0, "org/model:tag": 0, "a=0.7,b=0.3": 2, " a = 7 , b=3": 2} {
		if models, err := parseModels(text); err != nil || len(models) != want {
			t.Errorf("%q: %v, %v", text, models, err)
		}
	}
	for _, text := range []string{"a=", "=1", "a=0,b=1", "a=1,b", "a=1,a=2", "a=-1", "a=nan", "a=inf", "a=1,"} {
		if models, err := parseModels(text); err == nil {
			t.Errorf("%q was taken as %v", text, models)
		}
	}
	s := &settled{}
	s.models, _ = parseModels("a=7,b=3")
	n := 0
	for row := range int32(10000) {
		first := s.modelOf(row)
		if first == "a" {
			n++
		}
		if again := s.modelOf(row); again != first {
			t.Fatal("not the same twice")
		}
	}
	if share := float64(n) / 10000; math.Abs(share-0.7) > 0.02 {
		t.Errorf("a share of %v", share)
	}
	if (&settled{}).modelOf(3) != "" {
		t.Error("a model without a mix")
	}
}

func TestParseCancel(t *testing.T) {
	for _, text := range []string{"5%:2s", "0.05:2s", " 5% : 2s "} {
		if share, after, err := parseCancel(text); err != nil || share != 0.05 || after != 2*time.Second {
			t.Errorf("%q: %v, %v, %v", text, share, after, err)
		}
	}
	for _, text := range []string{"", "5%", "5%:", "0:2s", "101%:2s", "5%:0s", "5%:-1s", "x:2s"} {
		if _, _, err := parseCancel(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// A mix of models goes by conversation, and each request and its row say which.
func TestModelMix(t *testing.T) {
	cfg, err := simserver.ParseQuery("base=1ms&itl=0s&prefill=0&slots=0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked := map[string]string{} // by request
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		r.Body = http.MaxBytesReader(w, teeBody{r.Body, body}, 1<<20)
		s.ServeHTTP(w, r)
		mu.Lock()
		defer mu.Unlock()
		asked[r.Header.Get("X-Request-Id")] = body.String()
	}))
	defer ts.Close()
	var notes []string
	out, rows, err := replayed(t, Config{
		Dataset: writeDataset(t, talks(40, 2, 0)), URLs: []string{ts.URL}, Concurrency: 4, Model: "sim=0.5,adapter=0.5", Seed: 3, Scrape: []string{"none"},
	}, Hooks{Note: func(text string) { notes = append(notes, text) }})
	if err != nil || out.Meta.Counts[schemas.StatusOK] != 80 {
		t.Fatalf("%v, %v", out, err)
	}
	ts.Close()
	of, n := map[string]string{}, map[string]int{}
	for _, row := range rows {
		if before := of[row.ConversationID]; before != "" && before != row.Model {
			t.Errorf("%s asked %s and %s", row.ConversationID, before, row.Model)
		}
		of[row.ConversationID] = row.Model
		n[row.Model]++
		if !strings.Contains(asked[row.RequestID], `"model":"`+row.Model+`"`) {
			t.Errorf("the row says %s, the request was %.300s", row.Model, asked[row.RequestID])
		}
	}
	if len(n) != 2 || n["sim"] < 20 || n["adapter"] < 20 {
		t.Errorf("rows by model: %v", n)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, "does not list adapter") || strings.Contains(text, "does not list sim") {
		t.Errorf("notes: %s", text)
	}
}

type teeBody struct {
	body interface {
		Read([]byte) (int, error)
		Close() error
	}
	to *strings.Builder
}

func (b teeBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.to.Write(p[:n])
	return n, err
}

func (b teeBody) Close() error { return b.body.Close() }

// Turns that are given up have a status that is no failure, and their conversations go on.
func TestAbandonedTurns(t *testing.T) {
	url, _ := simulate(t, "ttft=20ms&itl=20ms&slots=0")
	cfg := Config{Dataset: writeDataset(t, talks(20, 3, 0)), URLs: []string{url}, Concurrency: 20, Cancel: "40%:100ms", NoProbe: true, Scrape: []string{"none"}}
	out, rows, err := replayed(t, cfg, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	left := out.Meta.Counts[schemas.StatusAbandoned]
	if left < 10 || left > 40 || left+out.Meta.Counts[schemas.StatusOK] != 60 {
		t.Fatalf("%v", out.Meta.Counts)
	}
	for _, row := range rows {
		if schemas.Status(row.Status) == schemas.StatusAbandoned {
			if took := *row.DoneNS - *row.StartNS; row.FirstTokenNS == nil || took < 100e6 || took > 1e9 || *row.ErrorKind != "left" {
				t.Errorf("%s: left after %d ns, first token %v, kind %s", row.RequestID, took, row.FirstTokenNS, *row.ErrorKind)
			}
		}
	}
	// The same seed gives up the same turns.
	cfg.Output = ""
	_, again, err := replayed(t, cfg, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for _, row := range rows {
		status[row.ConversationID+string(rune('0'+row.Turn))] = row.Status
	}
	for _, row := range again {
		if status[row.ConversationID+string(rune('0'+row.Turn))] != row.Status {
			t.Errorf("%s turn %d is %s in the second run", row.ConversationID, row.Turn, row.Status)
		}
	}
}

// Answers are held against a first run's, text and tool calls alike, whatever the order of the requests was: a simulated
// server of the same seed gives the same ones, one of another seed others.
func TestVerifyOutput(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{
		Dataset: writeDataset(t, talks(10, 3, 0)), Concurrency: 5, SaveText: true, History: "live", Sampling: `{"temperature":0}`, NoProbe: true, Scrape: []string{"none"},
	}
	for _, tt := range []struct {
		first, again string
		different    int64
	}{{"", "", 0}, {"", "seed=5", 30}, {"tools=1", "tools=1", 0}, {"tools=1", "tools=1&seed=5", 30}, {"tools=0.5", "tools=0.5", 0}} {
		const sim = "base=1ms&itl=100us&jitter=0.5&prefill=0&slots=0&"
		first, again := cfg, cfg
		url, _ := simulate(t, sim+tt.first)
		first.URLs, first.Output = []string{url}, filepath.Join(t.TempDir(), "first.parquet")
		out, rows, err := replayed(t, first, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if calls := row.ToolCalls != nil; tt.first != "tools=0.5" && calls != (tt.first != "") || row.Text == nil && !calls {
				t.Fatalf("%+v", row)
			}
		}
		if _, err := schemas.SealRun(first.Output, &out.Meta, false); err != nil {
			t.Fatal(err)
		}
		url, _ = simulate(t, sim+tt.again)
		again.URLs, again.SaveText, again.Concurrency, again.VerifyOutput = []string{url}, false, 1, first.Output
		if out, rows, err = replayed(t, again, Hooks{}); err != nil {
			t.Fatal(err)
		}
		v := out.Meta.Verification
		if v == nil || v.Compared != 30 || v.Different != tt.different || v.Missing != 0 || v.File != "first.parquet" || (v.Conversations > 0) != (tt.different > 0) {
			t.Errorf("%+v: %+v", tt, v)
		}
		for _, row := range rows {
			if row.OutputSame == nil || *row.OutputSame != (tt.different == 0) || row.Text != nil || row.ToolCalls != nil {
				t.Fatalf("%+v: row %+v", tt, row)
			}
		}
		if said := strings.Contains(strings.Join(out.Meta.Warnings, "\n"), "30 of 30 answers differ"); said != (tt.different > 0) {
			t.Errorf("%+v: warnings %q", tt, out.Meta.Warnings)
		}
	}
	bad := cfg
	bad.URLs, bad.Output, bad.VerifyOutput, bad.Sampling = []string{"http://127.0.0.1:1"}, filepath.Join(dir, "x.parquet"), filepath.Join(dir, "none.parquet"), `{"temperature":0.7}`
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "--verify-output") {
		t.Errorf("a temperature of 0.7: %v", err)
	}
	bad.Sampling = ""
	if _, _, err := replayed(t, bad, Hooks{}); err == nil || !strings.Contains(err.Error(), "--verify-output") {
		t.Errorf("no first run: %v", err)
	}
	if _, err := os.Stat(schemas.JournalPath(bad.Output)); err == nil {
		t.Error("a run that never began left a journal")
	}
}

// Connections: each request has one of its own where that is asked for, and none was made before.
func TestNewConnections(t *testing.T) {
	url, _ := simulate(t, "base=1ms&itl=0s&prefill=0&slots=0")
	for _, fresh := range []bool{false, true} {
		cfg := Config{Dataset: writeDataset(t, talks(5, 3, 0)), URLs: []string{url}, Concurrency: 2, NewConnections: fresh, NoProbe: true, Scrape: []string{"none"}}
		_, rows, err := replayed(t, cfg, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if (row.ConnectNS != nil) != fresh || fresh && *row.ConnReused {
				t.Errorf("new connections %t: turn %d reused %t, connect %v", fresh, row.Turn, *row.ConnReused, row.ConnectNS)
			}
		}
	}
}
