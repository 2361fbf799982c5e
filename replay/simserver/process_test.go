package simserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// child is this test's own program, which TestMain turns into a server.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(exe)
}

func post(t *testing.T, client *http.Client, url, body string) (string, error) {
	t.Helper()
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

func TestProcess(t *testing.T) {
	for _, test := range []struct {
		name, query, scheme string
		major               int
	}{
		{"plain", "", "http://", 1},
		{"TLS", "&tls_cert=CERT", "https://", 1},
		{"HTTP/2", "&http2", "http://", 2},
		{"HTTP/2 over TLS", "&http2&tls_cert=CERT", "https://", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			log, cert := filepath.Join(dir, "truth.jsonl"), filepath.Join(dir, "cert.pem")
			p, err := Start(context.Background(), child(t), "ttft=5ms&itl=1ms&log="+log+strings.ReplaceAll(test.query, "CERT", cert))
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}
			transport.Protocols.SetHTTP1(test.major == 1)
			transport.Protocols.SetUnencryptedHTTP2(test.major == 2)
			transport.Protocols.SetHTTP2(test.major == 2)
			if pem, err := os.ReadFile(cert); err == nil {
				transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
			}
			client := &http.Client{Transport: transport}
			defer client.CloseIdleConnections()
			if resp, err := client.Get(p.URL + "/health"); err != nil || resp.ProtoMajor != test.major || !strings.HasPrefix(p.URL, test.scheme) {
				t.Fatalf("%s: %v, %v", p.URL, resp, err)
			} else {
				resp.Body.Close()
			}
			before := time.Now().UnixNano()
			body, err := post(t, client, p.URL, chatBody("Hi", 10, withUsage))
			after := time.Now().UnixNano()
			if r := readChat(t, body); err != nil || !r.done || r.usage[1] != 10 {
				t.Fatalf("%v, %s", err, body)
			}
			client.CloseIdleConnections()
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			var tr Truth
			if err := json.Unmarshal(data, &tr); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			order := []int64{before, tr.ReceivedNS, tr.FirstNS, tr.FirstDoneNS, tr.LastNS, tr.EndNS, after}
			for i := 1; i < len(order); i++ {
				if order[i] < order[i-1] {
					t.Errorf("moments out of order: %v", order)
				}
			}
			if tr.FirstNS-tr.ReceivedNS < int64(5*time.Millisecond) {
				t.Errorf("TTFT of %d ns, less than configured", tr.FirstNS-tr.ReceivedNS)
			}
		})
	}
}

func TestProcessIsKilled(t *testing.T) {
	p, err := Start(context.Background(), child(t), "ttft=5ms&itl=10ms")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	time.AfterFunc(100*time.Millisecond, p.Kill)
	if _, err := post(t, client, p.URL, chatBody("Hi", 10000)); err == nil {
		t.Error("an answer outlived its server")
	}
	if err := p.Stop(); err == nil {
		t.Error("Stop says that a killed process ended well")
	}
}

func TestStartReportsFailure(t *testing.T) {
	if _, err := Start(context.Background(), child(t), "itl=nonsense"); err == nil {
		t.Error("a bad query was taken")
	}
	_, err := Start(context.Background(), child(t), "log=/nonexistent/dir/log")
	if err == nil || !strings.Contains(err.Error(), "nonexistent") {
		t.Errorf("a server that cannot start: %v", err)
	}
	_, err = Start(context.Background(), exec.Command("/nonexistent/program"), "")
	if err == nil {
		t.Error("a program that is not there was started")
	}
}

// The server ends with its standard input, so it never outlives its parent.
func TestMainEndsWithStdin(t *testing.T) {
	in, w := io.Pipe()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Main(context.Background(), "itl=1ms", in, &out) }()
	w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "listening on http://127.0.0.1:") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("printed %q", out.String())
	}
}

// The same server under net/http.
func TestHandler(t *testing.T) {
	s, err := New(Config{Cut: 0})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewTLSServer(s)
	defer ts.Close()
	body, err := post(t, ts.Client(), ts.URL, chatBody("Hi", 10, withUsage))
	if r := readChat(t, body); err != nil || !r.done || r.usage[1] != 10 {
		t.Errorf("%v, %s", err, body)
	}
	if st := s.Stats(); st.Success != 1 || st.InFlight != 0 {
		t.Errorf("stats: %+v", st)
	}
	broken, err := New(Config{Cut: 1, Reset: 1, Truncate: 0})
	if err != nil {
		t.Fatal(err)
	}
	ts2 := httptest.NewServer(broken)
	defer ts2.Close()
	if body, err := post(t, ts2.Client(), ts2.URL, chatBody("Hi", 10)); err == nil || readChat(t, body).done {
		t.Errorf("cut under net/http: %v, %s", err, body)
	}
	ts.Client().CloseIdleConnections()
	ts2.Client().CloseIdleConnections()
}
