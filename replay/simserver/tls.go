package simserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// selfSigned makes a certificate for this machine's own addresses, and writes it to file (PEM) for clients to trust.
func selfSigned(file string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "simulated server"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, text, 0o644)
}

// serve serves on ln in the way that the configuration asks for: see Config.TLSCert and Config.HTTP2.
func (s *Server) serve(ctx context.Context, ln net.Listener, certificate *tls.Certificate) error {
	var settings *tls.Config
	if certificate != nil {
		settings = &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"http/1.1"}}
	}
	if s.cfg.HTTP2 {
		return s.serveHTTP2(ctx, ln, settings)
	}
	if settings != nil {
		ln = tls.NewListener(ln, settings)
	}
	return s.Serve(ctx, ln)
}

// serveHTTP2 serves HTTP/2 by net/http's server, over TLS or, without it, to clients that know beforehand.
func (s *Server) serveHTTP2(ctx context.Context, ln net.Listener, settings *tls.Config) error {
	h := &http.Server{Handler: s, TLSConfig: settings, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: headerTimeout}
	h.Protocols.SetHTTP2(settings != nil)
	h.Protocols.SetUnencryptedHTTP2(settings == nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			over, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			_ = h.Shutdown(over) // what still runs then is cut off
		case <-s.died:
		}
		_ = h.Close()
	}()
	flushed := make(chan struct{})
	go func() { defer close(flushed); s.truth.flushUntil(ended) }()
	var err error
	if settings != nil {
		settings.NextProtos = []string{"h2"}
		err = h.ServeTLS(ln, "", "")
	} else {
		err = h.Serve(ln)
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("simserver: %w", err)
	}
	<-ended
	<-flushed
	if s.dead() {
		return errDied
	}
	return s.truth.flush()
}
