//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

// within runs the program in this process and gives its exit code and what it said.
func within(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := &program{args: args, stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code = p.run(ctx)
	return code, out.String() + errs.String()
}

// The flags of connections, keys and answers, on a server that asks for a client's certificate and a key that changes.
func TestConnectionFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	pool := clientIdentity(t, file("client.pem"), file("client.key"))
	cfg, err := simserver.ParseQuery("ttft=5ms&itl=5ms&slots=0")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := simserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var second atomic.Int64 // requests with the second key
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer first-key":
		case "Bearer second-key":
			second.Add(1)
		default:
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		sim.ServeHTTP(w, r)
	}))
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	ts.StartTLS()
	defer ts.Close()
	write(t, file("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ts.Certificate().Raw}))
	write(t, file("key"), []byte("first-key\n"))
	data := dataset(t, 40, 3, 20)
	common := []string{"replay", data, "--url", ts.URL, "--ca-file", file("ca.pem"), "--api-key-file", file("key"), "--concurrency", "8",
		"--history", "recorded", "--think", "100ms", "--ignore-eos", "--connect-timeout", "10s"}
	identified := append(common, "--client-cert", file("client.pem"), "--client-key", file("client.key"))

	if code, said := within(t, append(common, "-o", file("none.parquet"), "--ready-timeout", "100ms")...); code != codeFailed || !strings.Contains(said, "certificate required") {
		t.Errorf("without a client's certificate: code %d, %s", code, said)
	}
	changed := time.AfterFunc(500*time.Millisecond, func() { write(t, file("key"), []byte("second-key\n")) })
	defer changed.Stop()
	code, said := within(t, append(identified, "-o", file("first.parquet"), "--save-text", "--keep-idle", "1s", "--model", "sim=0.6,adapter=0.4", "--duration", "2500ms")...)
	if code != codeOK && code != codeVerdict || !strings.Contains(said, "does not list adapter") {
		t.Fatalf("code %d, %s", code, said)
	}
	rows, meta := fileRows(t, file("first.parquet"))
	models, reused := map[string]int{}, 0
	for _, row := range rows {
		models[row.Model]++
		if row.ConnReused != nil && *row.ConnReused {
			reused++
		}
	}
	if len(models) != 2 || reused == 0 || second.Load() == 0 {
		t.Errorf("%v; models %v, %d connections reused, %d requests with the second key", meta.Counts, models, reused, second.Load())
	}
	if meta.Counts[schemas.StatusOK] < 50 || meta.Counts[schemas.StatusHTTPError] > 0 {
		t.Errorf("%v\n%s", meta.Counts, said)
	}

	code, said = within(t, append(identified, "-o", file("second.parquet"), "--verify-output", file("first.parquet"), "--new-connections", "--requests", "20")...)
	if code != codeOK && code != codeVerdict || !strings.Contains(said, "of 20 answers differ from those of first.parquet") {
		t.Fatalf("code %d, %s", code, said)
	}
	rows, meta = fileRows(t, file("second.parquet"))
	if v := meta.Verification; v == nil || v.Compared+v.Missing != 20 {
		t.Errorf("verification %+v", v)
	}
	for _, row := range rows {
		if schemas.Status(row.Status) == schemas.StatusOK && (row.ConnectNS == nil || row.TLSNS == nil || *row.ConnReused) {
			t.Errorf("%s: no connection of its own", row.RequestID)
		}
	}

	code, said = within(t, append(identified, "-o", file("third.parquet"), "--cancel", "50%:40ms", "--model", "sim")...)
	_, meta = fileRows(t, file("third.parquet"))
	if n := meta.Counts[schemas.StatusAbandoned]; code != codeOK && code != codeVerdict || n < 20 || n > 100 || meta.Rows != 120 {
		t.Errorf("code %d, %v, %s", code, meta.Counts, said)
	}
}

// What to do about failures is said after the run.
func TestAdvice(t *testing.T) {
	server, err := simserver.New(simserver.Config{TooMany: 1})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(server)
	defer ts.Close()
	_, said := within(t, "replay", dataset(t, 5, 1, 5), "--url", ts.URL, "-o", filepath.Join(t.TempDir(), "run.parquet"), "--concurrency", "2", "--no-probe")
	if !strings.Contains(said, "turns of the window): the server limits the rate: lower the load, or allow --retries") {
		t.Errorf("said %s", said)
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Error(err)
	}
}

// clientIdentity writes a certificate for a client, which signs itself, and its key.
func clientIdentity(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	pool := x509.NewCertPool()
	pool.AddCert(own)
	return pool
}
