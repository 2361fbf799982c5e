package replay

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

// serveAs runs a simulated server as its program does, in this process, and gives its URL.
func serveAs(t testing.TB, query string) string {
	t.Helper()
	cfg, err := simserver.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- simserver.Run(ctx, cfg, "127.0.0.1:0", w) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simserver: %v", err)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// forward is a proxy, for plain requests and for tunnels; passed counts what went through.
func forward(t testing.TB, passed *atomic.Int64) string {
	t.Helper()
	plain := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: -1, Transport: &http.Transport{}}
	var tunnels sync.WaitGroup
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed.Add(1)
		if r.Method != http.MethodConnect {
			plain.ServeHTTP(w, r)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			to.Close()
			return
		}
		tunnels.Go(func() { io.Copy(to, from); to.Close() })
		tunnels.Go(func() { io.Copy(from, to); from.Close() })
	}))
	t.Cleanup(func() {
		ts.Close()
		tunnels.Wait()
		plain.Transport.(*http.Transport).CloseIdleConnections()
	})
	return ts.URL
}

// A whole run, with its probe and its telemetry, goes over every path to a server; so does its calibration, as far as
// it can, and it says over which.
func TestRunOverEachPath(t *testing.T) {
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert.pem")
	const model = "ttft=5ms&itl=1ms&slots=0"
	overTLS, overHTTP2 := serveAs(t, model+"&tls_cert="+cert), serveAs(t, model+"&http2")
	cert2 := filepath.Join(dir, "cert2.pem")
	overBoth := serveAs(t, model+"&http2&tls_cert="+cert2)
	plain, _ := simulate(t, model)
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	query, err := simserver.ParseQuery(model)
	if err != nil {
		t.Fatal(err)
	}
	server, err := simserver.New(query)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go server.Serve(ctx, ln)
	var passed atomic.Int64
	proxy := forward(t, &passed)
	for _, test := range []struct {
		name   string
		cfg    Config
		note   string // the rows' timing note
		source string // of the telemetry
		path   string // of the calibration
	}{
		{"TLS", Config{URLs: []string{overTLS}, CAFile: cert}, "", overTLS, "HTTP/1.1 over TLS"},
		{"TLS, not verified", Config{URLs: []string{overTLS}, Insecure: true}, "", overTLS, "HTTP/1.1 over TLS"},
		{"HTTP/2", Config{URLs: []string{overHTTP2}, HTTP2: true}, "http2", overHTTP2, "HTTP/2"},
		{"HTTP/2 over TLS", Config{URLs: []string{overBoth}, CAFile: cert2, HTTP2: true}, "http2", overBoth, "HTTP/2 over TLS"},
		{"Unix socket's URL", Config{URLs: []string{"unix:" + socket}}, "user_clock", "unix:" + socket, "HTTP/1.1, without the run's Unix socket"},
		{"Unix socket", Config{URLs: []string{"http://server.test"}, UnixSocket: socket}, "user_clock", "http://server.test", "HTTP/1.1, without the run's Unix socket"},
		{"proxy", Config{URLs: []string{plain}, Proxy: proxy}, "proxy", plain, "HTTP/1.1, without the run's proxy"},
		{"proxy's tunnel", Config{URLs: []string{overTLS}, CAFile: cert, Proxy: proxy}, "proxy", overTLS, "HTTP/1.1 over TLS, without the run's proxy"},
		{"metrics elsewhere", Config{URLs: []string{plain}, CAFile: cert, Scrape: []string{overTLS + "/metrics"}}, "", overTLS, "HTTP/1.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := passed.Load()
			cfg := test.cfg
			cfg.Dataset, cfg.Concurrency, cfg.ScrapeInterval = writeDataset(t, talks(6, 2, 0)), 3, 10*time.Millisecond
			out, rows, err := replayed(t, cfg, Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			if out.Meta.Counts[schemas.StatusOK] != 12 || out.Meta.Health.Scrapes == 0 || out.Meta.Probe == nil {
				t.Fatalf("%v, %d scrapes; warnings %q", out.Meta.Counts, out.Meta.Health.Scrapes, out.Meta.Warnings)
			}
			for _, row := range rows {
				note := ""
				if row.TimingNote != nil {
					note = *row.TimingNote
				}
				if note != test.note || row.Attempts != 1 || row.StaleReplays != 0 || row.SentNS == nil || *row.TTFTMS < 5 {
					t.Errorf("%s: note %q, attempts %d, TTFT %v", row.RequestID, note, row.Attempts, *row.TTFTMS)
				}
			}
			if (passed.Load() > before) != (cfg.Proxy != "") {
				t.Errorf("%d requests through the proxy", passed.Load()-before)
			}
			sources := map[string]int{}
			if _, err := schemas.ReadJournalSamples(out.Journal, func(batch []schemas.Sample) error {
				for _, s := range batch {
					sources[s.Source]++
				}
				return nil
			}); err != nil || sources[test.source+"/metrics"] == 0 {
				t.Errorf("telemetry %v, %v", sources, err)
			}
			if got := wayOf(cfg, out).String(); got != test.path {
				t.Errorf("calibrated over %q, want %q", got, test.path)
			}
			if test.name != "TLS" && test.name != "HTTP/2 over TLS" {
				return
			}
			cfg.Duration = time.Second
			out.Meta.EndedNS = 0
			c, err := Calibrate(context.Background(), cfg, out, func(ctx context.Context, query string) (*Simulator, error) {
				log := filepath.Join(t.TempDir(), "truth.jsonl")
				return &Simulator{URL: serveAs(t, query+"&log="+log), Log: log, Stop: func() error { time.Sleep(500 * time.Millisecond); return nil }}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.Path != test.path || c.Requests < 10 || c.TTFTErrP50 > 20 {
				t.Errorf("calibrated over %q, want %q: %+v", c.Path, test.path, c)
			}
		})
	}
}

// Retries stand in the row: the first attempt's start, each one's moment, and what the server was asked.
func TestRetriesToTheRow(t *testing.T) {
	url, _ := simulate(t, "ttft=5ms&itl=1ms&slots=0&429=0.3&retry_after=0s")
	cfg := Config{Dataset: writeDataset(t, talks(20, 2, 0)), URLs: []string{url}, Concurrency: 5, Retries: 9, NoProbe: true, Scrape: []string{"none"}}
	out, rows, err := replayed(t, cfg, Hooks{})
	if err != nil || out.Meta.Counts[schemas.StatusOK] != 40 {
		t.Fatalf("%v, %v", out.Meta.Counts, err)
	}
	retried := 0
	for _, row := range rows {
		n := len(row.AttemptNS)
		if int64(n) != row.Attempts || row.AttemptNS[0] < *row.StartNS || *row.SentNS < row.AttemptNS[n-1] || *row.StartNS-*row.ReadyNS > int64(time.Second) {
			t.Errorf("%s: ready at %d, started at %d, attempts at %v, sent at %d", row.RequestID, *row.ReadyNS, *row.StartNS, row.AttemptNS, *row.SentNS)
		}
		if n > 1 {
			retried++
		}
	}
	if retried < 4 {
		t.Errorf("%d rows of 40 with more than one attempt", retried)
	}
}
