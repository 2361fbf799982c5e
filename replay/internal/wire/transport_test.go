package wire

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// streaming answers with the usual stream.
var streaming = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for event := range strings.SplitAfterSeq(sseBody, "\n\n") {
		io.WriteString(w, event)
		w.(http.Flusher).Flush()
	}
})

func quietServer(t *testing.T, h http.Handler) *httptest.Server {
	ts := httptest.NewUnstartedServer(h)
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(ts.Close)
	return ts
}

// certificate writes a server's certificate into a file.
func certificate(t *testing.T, ts *httptest.Server) string {
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ts.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTLS(t *testing.T) {
	ts := quietServer(t, streaming)
	ts.StartTLS()
	ca := certificate(t, ts)
	older := quietServer(t, streaming)
	older.TLS = &tls.Config{MaxVersion: tls.VersionTLS12}
	older.StartTLS()
	host := strings.TrimPrefix(ts.URL, "https://")
	plain := quietServer(t, streaming)
	plain.Start()
	for _, test := range []struct {
		name, url string
		change    func(o *Options)
		status    schemas.Status
		kind      string
	}{
		{"not trusted", ts.URL, func(*Options) {}, schemas.StatusTransportError, KindTLSVerify},
		{"trusted", ts.URL, func(o *Options) { o.CAFile = ca }, schemas.StatusOK, ""},
		{"not looked at", ts.URL, func(o *Options) { o.Insecure = true }, schemas.StatusOK, ""},
		{"TLS 1.2", older.URL, func(o *Options) { o.Insecure = true }, schemas.StatusOK, ""},
		{"another host's", "https://localhost:" + host[strings.LastIndex(host, ":")+1:], func(o *Options) { o.CAFile = ca }, schemas.StatusTransportError, KindTLSVerify},
		{"no TLS there", strings.Replace(plain.URL, "http:", "https:", 1), func(*Options) {}, schemas.StatusTransportError, KindTLS},
		{"TLS there", strings.Replace(ts.URL, "https:", "http:", 1), func(*Options) {}, schemas.StatusHTTPError, api.KindBadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(test.url)
			test.change(&o)
			c := newClient(t, o)
			for i := range 2 {
				row, _ := turn(t, c, context.Background(), TurnRequest{})
				expect(t, row, test.status, test.kind)
				if test.status != schemas.StatusOK {
					continue
				}
				if *row.ConnReused != (i == 1) || (row.TLSNS == nil) != (i == 1) {
					t.Fatalf("turn %d: reused %t, tls %v", i, *row.ConnReused, row.TLSNS)
				}
				if c.KernelStamps() && row.TimingNote != nil {
					t.Fatalf("timing note %s", *row.TimingNote)
				}
			}
		})
	}
}

// A server may change its keys at any time, and ask the client to change its own (RFC 8446, 4.6.3): in the middle of a
// stream, too. Go's server never does; OpenSSL's does when it is told to.
func TestTLSKeyUpdate(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cert, key, _ := identity(t)
	server := exec.Command(openssl, "s_server", "-accept", "127.0.0.1:0", "-cert", cert, "-key", key, "-tls1_3", "-naccept", "1", "-msg")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	lines := bufio.NewScanner(out)
	said := func(what string) string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return lines.Text()
			}
		}
		t.Errorf("the server ended without %q", what)
		return ""
	}
	c := newClient(t, func() Options {
		o := options("https://" + strings.TrimPrefix(said("ACCEPT "), "ACCEPT "))
		o.Insecure = true
		return o
	}())
	say := func(text string) {
		time.Sleep(20 * time.Millisecond) // it looks for commands at the begin of what it reads at once
		io.WriteString(in, text)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for range 2 {
			said("POST /v1/chat/completions") // with the client's new keys the second time
			say(sseHead + "Transfer-Encoding: chunked\r\n\r\n")
			events := strings.SplitAfter(sseBody, "\n\n")
			for i, event := range events[:len(events)-1] {
				chunk := fmt.Sprintf("0%x\r\n%s\r\n", len(event), event) // no command begins with a 0
				if i == len(events)-2 {
					chunk += "0\r\n\r\n"
				}
				say(chunk)
				switch i {
				case 0:
					say("k\n")
					said(">>> TLS 1.3, Handshake [length 0005], KeyUpdate")
				case 1:
					say("K\n")
					said("<<< TLS 1.3, Handshake [length 0005], KeyUpdate")
				}
			}
		}
	}()
	for i := range 2 {
		row, answer := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")

		if *answer.Message.Content != "Hello you" || *row.ConnReused != (i == 1) {
			t.Errorf("turn %d: %s, reused %t", i, *answer.Message.Content, *row.ConnReused)
		}
	}
	<-served
}

// identity makes a certificate for a client that signs itself, and gives the files of it and of its key.
func identity(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, pool = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(own)
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// A server that wants to know its clients by certificates, over HTTP/1.1 and HTTP/2.
func TestClientCertificate(t *testing.T) {
	cert, key, pool := identity(t)
	ts := quietServer(t, streaming)
	ts.EnableHTTP2 = true
	ts.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	ts.StartTLS()
	for _, http2 := range []bool{false, true} {
		o := options(ts.URL)
		o.CAFile, o.HTTP2 = certificate(t, ts), http2
		row, _ := turn(t, newClient(t, o), context.Background(), TurnRequest{})
		if kind := row.ErrorKind; http2 && kind != nil && *kind == KindReset {
			expect(t, row, schemas.StatusTransportError, KindReset) // net/http wrote to the closed connection before it read the alert
		} else {
			expect(t, row, schemas.StatusTransportError, KindTLS)
		}
		o.ClientCert, o.ClientKey = cert, key
		c := newClient(t, o)
		row, a := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if text(a) != "Hello you" {
			t.Errorf("answer %q", text(a))
		}
		if status, _, _, err := c.Fetch(context.Background(), "GET", "/health", nil); err != nil || status != 200 {
			t.Errorf("Fetch: %d, %v", status, err)
		}
	}
	o := options(ts.URL)
	o.ClientCert = cert
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "needs its key") {
		t.Errorf("a certificate without its key: %v", err)
	}
	o.ClientKey = cert
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), cert) {
		t.Errorf("a key that is none: %v", err)
	}
}

func TestTLSFileErrors(t *testing.T) {
	o := options("https://127.0.0.1:1")
	o.CAFile = filepath.Join(t.TempDir(), "none.pem")
	if _, err := New(o); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), o.CAFile) {
		t.Fatal(err)
	}
	os.WriteFile(o.CAFile, []byte("no certificate"), 0o600)
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), o.CAFile) {
		t.Fatal(err)
	}
}

func TestHTTP2(t *testing.T) {
	var protos atomic.Value
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos.Store(r.Proto)
		if r.Header.Get("X-Request-Id") != "r" || r.Header.Get("Authorization") != "Bearer k" || len(r.Header["Idempotency-Key"]) != 0 {
			http.Error(w, "headers", http.StatusBadRequest)
			return
		}
		streaming(w, r)
	})
	both := quietServer(t, h)
	both.EnableHTTP2 = true
	both.StartTLS()
	only := quietServer(t, h) // speaks nothing but HTTP/2
	only.EnableHTTP2 = true
	// Go's server lets clients of HTTP/1.1 in without a protocol; others answer with an alert, as this one.
	only.TLS = new(tls.Config)
	only.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c := only.TLS.Clone()
		c.GetConfigForClient = nil
		c.NextProtos = []string{"other"}
		if slices.Contains(hello.SupportedProtos, "h2") {
			c.NextProtos = []string{"h2"}
		}
		return c, nil
	}
	only.StartTLS()
	clear1 := quietServer(t, h)
	clear1.Config.Protocols = new(http.Protocols)
	clear1.Config.Protocols.SetUnencryptedHTTP2(true)
	clear1.Start()
	for _, test := range []struct {
		name, url string
		http2     bool
		proto     string
		note      string
	}{
		{"asked", both.URL, true, "HTTP/2.0", "http2"},
		{"not asked", both.URL, false, "HTTP/1.1", ""},
		{"the server's only", only.URL, false, "HTTP/2.0", "http2"},
		{"without TLS", clear1.URL, true, "HTTP/2.0", "http2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(test.url)
			o.Insecure, o.HTTP2, o.APIKey = true, test.http2, "k"
			c := newClient(t, o)
			if err := c.Preconnect(context.Background(), 2); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				row, a := turn(t, c, context.Background(), TurnRequest{RequestID: "r"})
				expect(t, row, schemas.StatusOK, "")
				if text(a) != "Hello you" || protos.Load() != test.proto {
					t.Fatalf("answer %q by %v", text(a), protos.Load())
				}
				if note := row.TimingNote; test.note != "" && (note == nil || *note != test.note) {
					t.Fatalf("timing note %v", note)
				}
				if row.SentNS == nil || row.WroteNS == nil || row.FirstByteNS == nil || *row.FirstByteNS > *row.FirstTokenNS || row.Attempts != 1 {
					t.Fatalf("turn %d: %+v", i, row)
				}
				if test.note != "" && i == 1 && !*row.ConnReused {
					t.Fatal("the connection was not reused")
				}
			}
		})
	}
}

// The limits and cancellation hold with net/http's client too.
func TestHTTP2Limits(t *testing.T) {
	ts := quietServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Request-Id") != "head" {
			io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}))
	ts.EnableHTTP2 = true
	ts.StartTLS()
	for _, id := range []string{"head", "body"} {
		for _, test := range []struct {
			change func(o *Options)
			cancel bool
			status schemas.Status
			kind   string
		}{
			{func(o *Options) { o.Timeout = 50 * time.Millisecond }, false, schemas.StatusTimeout, KindTimeoutTotal},
			{func(o *Options) { o.IdleTimeout = 50 * time.Millisecond }, false, schemas.StatusTimeout, KindTimeoutIdle},
			{func(o *Options) {}, true, schemas.StatusCanceled, KindCanceled},
			{func(o *Options) {}, false, schemas.StatusAbandoned, KindLeft},
		} {
			o := options(ts.URL)
			o.Insecure, o.HTTP2 = true, true
			test.change(&o)
			ctx, cancel := context.WithCancel(context.Background())
			if test.cancel {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			tr := TurnRequest{RequestID: id}
			if test.kind == KindLeft {
				tr.LeaveAfter = 50 * time.Millisecond
			}
			row, _ := turn(t, newClient(t, o), ctx, tr)
			expect(t, row, test.status, test.kind)
			cancel()
		}
	}
}

func TestProxy(t *testing.T) {
	ts := quietServer(t, streaming)
	ts.Start()
	var seen atomic.Value
	p := quietServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.String() + " " + r.Header.Get("Proxy-Authorization"))
		out := r.Clone(r.Context())
		out.RequestURI = ""
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		io.Copy(w, resp.Body)
	}))
	p.Start()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	o := options(ts.URL)
	o.Proxy = strings.Replace(p.URL, "http://", "http://me:pr0xypass@", 1)
	c := newClient(t, o)
	row, a := turn(t, c, context.Background(), TurnRequest{})
	expect(t, row, schemas.StatusOK, "")
	if text(a) != "Hello you" || row.TimingNote == nil || *row.TimingNote != "proxy" {
		t.Fatalf("answer %q, note %v", text(a), row.TimingNote)
	}
	if got, _ := seen.Load().(string); !strings.HasPrefix(got, ts.URL+"/v1/chat/completions Basic ") {
		t.Fatalf("the proxy saw %q", got)
	}
	p.Close()
	row, _ = turn(t, c, context.Background(), TurnRequest{})
	if row.Status != string(schemas.StatusTransportError) || kind(row) != KindProxy || strings.Contains(message(row), "pr0xypass") {
		t.Fatalf("%s %s: %s", row.Status, kind(row), message(row))
	}
	// The environment's proxy is asked once per process by net/http; a target on loopback has none.
	o = options(ts.URL)
	o.Proxy = "environment"
	row, _ = turn(t, newClient(t, o), context.Background(), TurnRequest{})
	expect(t, row, schemas.StatusOK, "")
}

// What net/http sends again is counted, and it sends nothing again by itself that the server may have seen.
func TestReplaysThroughProxy(t *testing.T) {
	for _, silence := range []time.Duration{0, time.Duration(staleTime) + 100*time.Millisecond} {
		proxy := "http://" + listen(t, func(nc *net.TCPConn) {
			for n := 0; ; n++ {
				if _, _, ok := readRequest(nc); !ok {
					return
				}
				if n == 1 {
					time.Sleep(silence)
					nc.SetLinger(0)
					return
				}
				io.WriteString(nc, response())
			}
		})
		o := options("http://server.test")
		o.Proxy = proxy
		c := newClient(t, o)
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		row, _ = turn(t, c, context.Background(), TurnRequest{})
		if silence == 0 {
			expect(t, row, schemas.StatusOK, "")
			if row.Attempts != 2 || row.StaleReplays != 1 || *row.ConnReused {
				t.Fatalf("attempts %d, replays %d, reused %t", row.Attempts, row.StaleReplays, *row.ConnReused)
			}
			continue
		}
		expect(t, row, schemas.StatusTransportError, KindReset)
		if row.Attempts != 1 || row.StaleReplays != 0 {
			t.Fatalf("after a silence: attempts %d, replays %d", row.Attempts, row.StaleReplays)
		}
	}
}

// A proxy that closes each connection after its answer, without having said so, costs no turn.
func TestProxyThatCloses(t *testing.T) {
	o := options("http://server.test")
	o.Proxy = "http://" + listen(t, func(nc *net.TCPConn) {
		if _, _, ok := readRequest(nc); ok {
			io.WriteString(nc, response())
		}
	})
	c := newClient(t, o)
	for i := range 200 {
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if row.Attempts != row.StaleReplays+1 || row.Attempts > 3 {
			t.Fatalf("turn %d: attempts %d, replays %d", i, row.Attempts, row.StaleReplays)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			io.WriteString(w, "well")
			return
		}
		if r.URL.Path != "/v1/chat/completions" && r.URL.Path != "/base/v1/chat/completions" {
			http.NotFound(w, r)
			return
		}
		streaming(w, r)
	})}
	go srv.Serve(l)
	defer srv.Close()
	for _, test := range []struct {
		url, socket string
	}{
		{"unix:" + path, ""}, {"http+unix://" + url.QueryEscape(path) + "/base", ""}, {"http://name", path},
	} {
		o := options(test.url)
		o.UnixSocket = test.socket
		c := newClient(t, o)
		for i := range 2 {
			row, _ := turn(t, c, context.Background(), TurnRequest{})
			expect(t, row, schemas.StatusOK, "")
			if *row.ConnReused != (i > 0) || row.TimingNote == nil || *row.TimingNote != "user_clock" {
				t.Fatalf("%s: reused %t, note %v", test.url, *row.ConnReused, row.TimingNote)
			}
		}
		status, _, body, err := c.Fetch(context.Background(), "GET", "/health", nil)
		if err != nil || status != 200 || string(body) != "well" {
			t.Fatalf("%s: Fetch: %d %q %v", test.url, status, body, err)
		}
	}
	o := options("unix:" + path + ".none")
	row, _ := turn(t, newClient(t, o), context.Background(), TurnRequest{})
	expect(t, row, schemas.StatusTransportError, KindConnectRefused)
}

// Whatever a server repeats, and whatever fails: no secret comes out.
func TestSecrets(t *testing.T) {
	const key, password, cookie, header = "sk-APIKEY0123456789", "pa55w0rd!of:me", "cookie-SECRET-1", "gateway-SECRET-2"
	secrets := []string{key, password, url.QueryEscape(password), url.PathEscape(password), header, "bWU6cGE1NXcwcmQhb2Y6bWU="}
	var how atomic.Value
	h := func(nc *net.TCPConn) {
		for {
			head, body, ok := readRequest(nc)
			if !ok {
				return
			}
			all := head + body + " key " + key + " password " + password + " header " + header
			quoted, _ := json.Marshal(all)
			switch how.Load() {
			case "status":
				msg := fmt.Sprintf(`{"error":{"message":%s,"type":%s}}`, quoted, quoted)
				fmt.Fprintf(nc, "HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s", len(msg), msg)
			case "html":
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n<%s", len(all)+1, all)
			case "event":
				fmt.Fprintf(nc, "%s\r\ndata: {\"error\":{\"message\":%s}}\n\n", sseHead, quoted)
				return
			case "not json":
				fmt.Fprintf(nc, "%s\r\ndata: %s\n\n", sseHead, key+" "+header)
				return
			case "redirect":
				fmt.Fprintf(nc, "HTTP/1.1 302 Found\r\nLocation: http://me:%s@x/%s?k=%s\r\nContent-Length: 0\r\n\r\n", url.QueryEscape(password), key, key)
			case "no http":
				fmt.Fprint(nc, key+" "+header)
				return
			case "bad header":
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", header)
				return
			case "bad length":
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", key)
				return
			case "encoding":
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: 1\r\n\r\nx", key)
			case "chunk":
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n", key)
				return
			default:
				return
			}
		}
	}
	addr := listen(t, h)
	o := options("http://me:" + url.QueryEscape(password) + "@" + addr + "/v1?sig=" + url.QueryEscape(password))
	o.APIKey = key
	o.Headers = []api.Header{{Name: "X-Gateway-Token", Value: header}, {Name: "Cookie", Value: cookie}}
	check := func(t *testing.T, where string, v any) {
		t.Helper()
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range append(secrets, cookie) {
			if strings.Contains(string(out), s) {
				t.Errorf("%s: %q comes out: %s", where, s, out)
			}
		}
	}
	c := newClient(t, o)
	for _, mode := range []string{"status", "html", "event", "not json", "redirect", "no http", "bad header", "bad length", "encoding", "chunk", "close"} {
		how.Store(mode)
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		if row.Status == string(schemas.StatusOK) {
			t.Fatalf("%s: ok", mode)
		}
		check(t, mode, row)
		_, _, _, err := c.Fetch(context.Background(), "GET", "/health", nil)
		if err != nil {
			check(t, mode+", Fetch", err.Error())
		}
	}
	check(t, "URL", c.URL())
	// The API key as basic authentication's rival: one header of that name goes out, the key's.
	for _, u := range []string{"http://me:" + password + "\x7f@x", "ftp://me:" + url.QueryEscape(password) + "@x", "http://me:" + url.QueryEscape(password) + "@x/#" + key, "http://me:" + url.QueryEscape(password) + "@:80", "://" + key} {
		o.URL = u
		if _, err := New(o); err == nil {
			t.Errorf("%q is taken", u)
		} else {
			check(t, "New", err.Error())
		}
	}
	o.URL = "http://127.0.0.1:1"
	o.APIKey = key + "\n"
	o.Headers = []api.Header{{Name: "X-Gateway-Token", Value: header + "\r\nX: y"}}
	if _, err := New(o); err == nil {
		t.Error("line ends are taken")
	} else {
		check(t, "New", err.Error())
	}
}

func TestValidate(t *testing.T) {
	o := Options{URL: "example.com:80", Timeout: -5, Retries: -1, Proxy: "gopher://x", EchoHeaders: []string{"a b"},
		Headers: []api.Header{{Name: "Content-Length", Value: "1"}, {Name: "bad name", Value: "1"}}}
	err := o.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"API", "clock", "timeout", "retries", "proxy", "a b", "Content-Length", "bad name", "scheme"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, test := range []struct {
		err    error
		during phase
		kind   string
	}{
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}, dialing, KindDNS},
		{&net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}, dialing, KindDNS},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, dialing, KindConnectRefused},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, dialing, KindUnreachable},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, dialing, KindUnreachable},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}, dialing, KindConnectTimeout},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, dialing, KindConnectTimeout},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, dialing, KindFDLimit},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, dialing, KindPortExhausted},
		{context.DeadlineExceeded, handshaking, KindConnectTimeout},
		{io.EOF, handshaking, KindTLS},
		{syscall.ECONNRESET, handshaking, KindReset},
		{syscall.ECONNRESET, reading, KindReset},
		{syscall.EPIPE, writing, KindReset},
		{io.EOF, reading, KindEOF},
		{errors.New("odd"), reading, KindRead},
		{errors.New("odd"), writing, KindWrite},
		{errors.New("odd"), dialing, KindConnect},
		{context.Canceled, reading, KindCanceled},
	} {
		f := failure(fmt.Errorf("wrapped: %w", test.err), test.during)
		if test.err == io.EOF {
			f = failure(test.err, test.during) // package io's contract: unwrapped
		}
		if f.Kind != test.kind {
			t.Errorf("%v during %d: %s, want %s", test.err, test.during, f.Kind, test.kind)
		}
		if Advice(f.Kind) == "" || strings.Contains(Advice(f.Kind), "\n") {
			t.Errorf("advice for %s: %q", f.Kind, Advice(f.Kind))
		}
	}
}
