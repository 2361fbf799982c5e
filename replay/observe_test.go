package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"parley/schemas"
)

// TestTraceparent looks at the headers that arrive: one trace per conversation, one span per request, as the rows have them.
func TestTraceparent(t *testing.T) {
	target, _ := simulate(t, "ttft=1ms&itl=0s&slots=0")
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]string{} // header by request
	proxy := httputil.NewSingleHostReverseProxy(u)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("X-Request-ID")] = r.Header.Get("Traceparent")
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	cfg := Config{Dataset: writeDataset(t, talks(5, 3, 0)), URLs: []string{front.URL}, Concurrency: 3, Scrape: []string{"none"}, Traceparent: true}
	_, rows, err := replayed(t, cfg, Hooks{Note: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	traces, spans := map[string]string{}, map[string]bool{}
	for _, row := range rows {
		if row.TraceID == nil || row.SpanID == nil {
			t.Fatalf("%s has no trace", row.RequestID)
		}
		if want := "00-" + *row.TraceID + "-" + *row.SpanID + "-01"; seen[row.RequestID] != want || len(want) != 55 {
			t.Errorf("%s came with %q, want %q", row.RequestID, seen[row.RequestID], want)
		}
		if old := traces[row.ConversationID]; old != "" && old != *row.TraceID {
			t.Errorf("%s has two traces", row.ConversationID)
		}
		traces[row.ConversationID] = *row.TraceID
		spans[*row.SpanID] = true
	}
	if len(rows) != 15 || len(traces) != 5 || len(spans) != 15 {
		t.Errorf("%d rows, %d traces, %d spans", len(rows), len(traces), len(spans))
	}

	cfg.Traceparent, cfg.Output = false, ""
	if _, rows, err = replayed(t, cfg, Hooks{Note: func(string) {}}); err != nil || rows[0].TraceID != nil || seen[rows[0].RequestID] != "" {
		t.Errorf("without --traceparent: %v, %q, %v", rows[0].TraceID, seen[rows[0].RequestID], err)
	}
}

// TestOTLPNeverDelays runs the same load with receivers that take all, refuse, hang or are not there: rows and end are
// the same, and what did not arrive is told.
func TestOTLPNeverDelays(t *testing.T) {
	target, _ := simulate(t, "ttft=1ms&itl=0s&slots=0")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + free.Addr().String()
	free.Close()
	var mu sync.Mutex
	names := map[string]int{}
	key := ""
	good := func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []struct{ Name string } }
			}
		}
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		key = r.Header.Get("X-Key")
		if r.URL.Path == "/base/v1/metrics" {
			names["metrics"]++
			return
		}
		for _, s := range body.ResourceSpans[0].ScopeSpans[0].Spans {
			names[s.Name]++
		}
		fmt.Fprint(w, `{"partialSuccess":{"rejectedSpans":"0"}}`)
	}
	cfg := Config{Dataset: writeDataset(t, talks(20, 3, 0)), URLs: []string{target}, Concurrency: 4, Scrape: []string{"none"}}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		told    string
	}{
		"good": {good, ""},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no room here", http.StatusInsufficientStorage)
		}, "80 of 80 spans did not reach"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "80 of 80 spans did not reach"},
		"rejects": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"partialSuccess":{"rejectedSpans":"80","errorMessage":"too old"}}`)
		}, "80 of 80 spans did not reach"},
		"gone": {nil, "80 of 80 spans did not reach"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.OTLP = gone
			if c.handler != nil {
				s := httptest.NewServer(c.handler)
				defer s.Close()
				defer s.CloseClientConnections()
				cfg.OTLP, cfg.OTLPHeaders = s.URL+"/base/v1/traces", "x-key=a%20b"
			}
			var loadEnded time.Duration
			begun := time.Now()
			out, rows, err := replayed(t, cfg, Hooks{Note: func(string) {}})
			if err != nil || len(rows) != 60 || out.Meta.Counts[schemas.StatusOK] != 60 || !out.Sealable {
				t.Fatalf("%d rows, %v: %v", len(rows), out.Meta.Counts, err)
			}
			loadEnded = time.Duration(out.Meta.EndedNS)
			if loadEnded > 5*time.Second || time.Since(begun) > 30*time.Second {
				t.Errorf("the load took %v, the run %v", loadEnded, time.Since(begun))
			}
			told := slices.ContainsFunc(out.Meta.Warnings, func(w string) bool { return strings.Contains(w, c.told) && strings.Contains(w, "--otlp") })
			if told != (c.told != "") {
				t.Errorf("warnings %q", out.Meta.Warnings)
			}
		})
	}
	if names["chat sim"] != 60 || names["conversation"] != 20 || names["metrics"] == 0 || key != "a b" {
		t.Errorf("the good receiver has %v, key %q", names, key)
	}
	if err := (Config{Dataset: "x", Output: "x", URLs: []string{target}, Concurrency: 1, OTLP: "localhost:4318"}).Validate(); err == nil || !strings.Contains(err.Error(), "--otlp") {
		t.Errorf("a URL without a scheme: %v", err)
	}
}

// TestMetricsPage reads the page while the run goes on, and its last state against the rows.
func TestMetricsPage(t *testing.T) {
	target, _ := simulate(t, "ttft=5ms&itl=1ms&slots=0&fail=0.1")
	address := make(chan string, 1)
	var last map[string]float64
	var text string
	release := make(chan struct{})
	hooks := Hooks{
		Note: func(text string) {
			if _, at, ok := strings.Cut(text, " are at "); ok {
				address <- at
			}
		},
		Started: func(progress func() Progress) {
			at := <-address
			for p := progress(); p.Done < 150; p = progress() {
				time.Sleep(time.Millisecond)
			}
			resp, err := http.Get(at)
			if err != nil {
				t.Error(err)
				close(release)
				return
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			text = string(body)
			close(release)
		},
	}
	drain := make(chan struct{})
	hooks.Drain = drain
	go func() { <-release; close(drain) }() // the run lasts until the page was read
	cfg := Config{Dataset: writeDataset(t, talks(50, 3, 0)), URLs: []string{target}, Concurrency: 4, Loops: 1000, Scrape: []string{"none"}, Metrics: "127.0.0.1:0", RunID: `a"b`}
	_, rows, err := replayed(t, cfg, hooks)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	last = map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			if l := m.Label[0]; l.GetName() != "run" && l.GetName() != "le" || l.GetName() == "run" && l.GetValue() != `a"b` {
				t.Errorf("%s has %v", name, m.Label)
			}
			switch {
			case m.Counter != nil:
				last[name] += m.Counter.GetValue()
			case m.Gauge != nil:
				last[name] += m.Gauge.GetValue()
			case m.Histogram != nil:
				last[name] += float64(m.Histogram.GetSampleCount())
				if n := m.Histogram.Bucket[len(m.Histogram.Bucket)-1].GetCumulativeCount(); n != m.Histogram.GetSampleCount() {
					t.Errorf("%s: %d in buckets, %d in all", name, n, m.Histogram.GetSampleCount())
				}
			}
		}
	}
	done := last["parley_turns_total"]
	if done < 150 || done > float64(len(rows)) || last["parley_turns_planned"] != 150000 || last["parley_requests_in_flight"] > 4 || last["parley_conversations_active"] > 4 {
		t.Errorf("%v of %d rows", last, len(rows))
	}
	if last["parley_ttft_seconds"] == 0 || last["parley_tokens_total"] == 0 || last["parley_turns_failed_total"] == 0 || last["parley_e2e_seconds"] > done {
		t.Errorf("%v", last)
	}
	if busy, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		defer busy.Close()
		cfg.Metrics, cfg.Output = busy.Addr().String(), ""
		if _, _, err := replayed(t, cfg, Hooks{Note: func(string) {}}); err == nil || !strings.Contains(err.Error(), "--metrics") {
			t.Errorf("an address in use: %v", err)
		}
	}
}
