package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"parley/replay/internal/api"
	"parley/schemas"
)

// Kinds of failures below a response's body. What stands in the body has its kinds in package api; see
// [Advice] for all.
const (
	KindDNS             = "dns"
	KindConnectRefused  = "connect_refused"
	KindConnectTimeout  = "connect_timeout"
	KindUnreachable     = "unreachable"
	KindConnect         = "connect" // any other failure to connect
	KindFDLimit         = "fd_limit"
	KindPortExhausted   = "port_exhausted"
	KindTLSVerify       = "tls_verify"
	KindTLS             = "tls"
	KindProxy           = "proxy"
	KindReset           = "reset"
	KindWrite           = "write"
	KindRead            = "read"
	KindEOF             = "eof_before_response"
	KindCutBody         = "cut_body"
	KindTimeoutTotal    = "timeout_total"
	KindTimeoutIdle     = "timeout_idle"
	KindCanceled        = "canceled"
	KindLeft            = "left"
	KindHeaderTooLarge  = "header_too_large"
	KindLineTooLong     = "line_too_long"
	KindBodyTooLarge    = "body_too_large"
	KindBadResponse     = "bad_response"
	KindContentEncoding = "content_encoding"
	KindBadRow          = "bad_request_data"
)

// Advice says in one line what to do about failures of a kind, "" for a kind that is not known.
func Advice(kind string) string { return advice[kind] }

var advice = map[string]string{
	KindDNS:             "the host's name could not be looked up: check the URL's host and the machine's resolver",
	KindConnectRefused:  "nothing listens at that address: check host and port, and that the server is up",
	KindConnectTimeout:  "no answer to the connection attempt: check host, port and firewall; under load, the server's listen backlog (net.core.somaxconn) may be full",
	KindUnreachable:     "no route to the host: check the address and the network",
	KindConnect:         "the connection could not be made: see the message",
	KindFDLimit:         "the process may open no more files: raise the limit (ulimit -n) or lower the concurrency",
	KindPortExhausted:   "no free local port to this server: widen net.ipv4.ip_local_port_range, or use fewer connections or several addresses",
	KindTLSVerify:       "the server's certificate is not trusted: give its authority with --ca-file, correct the host's name, or accept it with --insecure",
	KindTLS:             "the TLS handshake failed: check that the server speaks TLS on that port, and its version",
	KindProxy:           "the proxy could not make the connection: check --proxy and the proxy's log",
	KindReset:           "the server, or something on the way, reset the connection: look at the server's log for a crash or a limit",
	KindWrite:           "the request could not be written: see the message",
	KindRead:            "reading the response failed: see the message",
	KindEOF:             "the server closed the connection without an answer: look at its log for a crash or a limit on connections",
	KindCutBody:         "the server closed the connection in the middle of the response: look at its log for a crash",
	KindTimeoutTotal:    "the turn took longer than --timeout: raise it, or lower the load",
	KindTimeoutIdle:     "nothing came for longer than --idle-timeout: the server is stuck or queues for longer; raise it, or lower the load",
	KindCanceled:        "the run stopped while the request was under way",
	KindLeft:            "the turn was given up as --cancel asked",
	KindHeaderTooLarge:  "the response's header is larger than the limit: this is hardly the server that you mean",
	KindLineTooLong:     "a line of the response's framing is longer than the limit: this is hardly an HTTP server",
	KindBodyTooLarge:    "the response is larger than the limit: ask for fewer output tokens, or look at what the server sends",
	KindBadResponse:     "the answer is no HTTP/1.1 response: check the port, and http against https",
	KindContentEncoding: "the response is compressed in a way that was not asked for and is not known: switch compression off in the server or proxy",
	KindBadRow:          "the request could not be made from the dataset's row: see the message",

	api.KindBadRequest:   "the server did not accept the request: see its message; the probe (no --no-probe) finds parameters that it does not know",
	api.KindContext:      "the prompt is longer than the model's context: filter the dataset with --max-prompt-tokens",
	api.KindUnauthorized: "the server wants a key: put it in the environment variable that --api-key-env names",
	api.KindNotFound:     "the server does not know the path or the model: check --url, --api and --model",
	api.KindRedirect:     "redirects are not followed, as they would be timed with the request: give the final address as --url",
	api.KindRateLimited:  "the server limits the rate: lower the load, or allow --retries",
	api.KindOverloaded:   "the server is overloaded: lower the load, or allow --retries",
	api.KindLoading:      "the server is still loading its model: wait until it is ready",
	api.KindServerError:  "the server failed: look at its log",
	api.KindGateway:      "a proxy could not reach the server behind it: look at the proxy's and the server's log",
	api.KindErrorEvent:   "the server reported an error inside the stream: see its message and its log",
	api.KindAborted:      "the server broke the answer off: look at its log",
	api.KindNoFinish:     "the stream ended without a finish reason: the server crashed, or something on the way cut it",
	api.KindCutEvent:     "the stream ended inside an event: the server crashed, or something on the way cut it",
	api.KindNoTokens:     "the server finished without one token: often the prompt overflowed its context; look at its log",
	api.KindNotJSON:      "the response is not what the API sends: check --url and --api",
	api.KindEventTooLong: "one event is larger than the limit: look at what the server sends",
	api.KindTextTooLong:  "the answer is longer than the limit: ask for fewer output tokens",
}

// phase is what an exchange was doing when an error came.
type phase int

const (
	dialing phase = iota
	handshaking
	writing
	reading
)

// failure makes an api.Failure of an error of the connection. Its message is made from what package net
// and crypto/tls say, which is addresses and reasons, never what was sent.
func failure(err error, during phase) *api.Failure {
	var known *api.Failure
	if errors.As(err, &known) {
		return known
	}
	kind, status := KindRead, schemas.StatusTransportError
	var (
		dns      *net.DNSError
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		record   tls.RecordHeaderError
		op       *net.OpError
	)
	message := err.Error()
	if whole, ok := err.(*net.OpError); ok && whole.Source != nil {
		// Without the local port, so that like failures have like messages.
		short := *whole
		short.Source = nil
		message = short.Error()
	}
	switch {
	case errors.Is(err, context.Canceled):
		kind, status, message = KindCanceled, schemas.StatusCanceled, "canceled while the request was under way"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		kind = KindFDLimit
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		kind = KindPortExhausted
	case errors.As(err, &dns):
		kind = KindDNS
	case errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		kind = KindTLSVerify
	case errors.As(err, &record), errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"): // TLS alerts
		kind = KindTLS
	case strings.Contains(message, noHTTP2):
		kind, message = KindTLS, "the server ended the connection as soon as the TLS handshake was over, as it does when it wants a client's certificate (--client-cert)"
	case during == dialing && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)):
		kind = KindConnectRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		kind = KindUnreachable
	case during <= handshaking && (isTimeout(err) || errors.Is(err, syscall.ETIMEDOUT)):
		kind = KindConnectTimeout
	case during == handshaking && !errors.Is(err, syscall.ECONNRESET):
		kind = KindTLS
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			message = "the server closed the connection during the TLS handshake"
		}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		kind = KindReset
	case during == dialing:
		kind = KindConnect
	case isTimeout(err):
		kind, status = KindTimeoutIdle, schemas.StatusTimeout
	case during == writing:
		kind = KindWrite
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		kind = KindEOF
		message = "the server closed the connection without a response"
	}
	return &api.Failure{Status: status, Kind: kind, Message: message, Err: err}
}

// noHTTP2 is what net/http says of a connection over TLS that ended before HTTP/2 began on it; what the server said
// for that, an alert mostly, it keeps to itself when it reads it late.
const noHTTP2 = "http2: client conn could not be established"

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// fail makes a failure of the wire's own finding.
func fail(kind, message string) *api.Failure {
	status := schemas.StatusTransportError
	switch kind {
	case KindTimeoutIdle, KindTimeoutTotal:
		status = schemas.StatusTimeout
	case KindCanceled:
		status = schemas.StatusCanceled
	case KindLeft:
		status = schemas.StatusAbandoned
	case KindCutBody:
		status = schemas.StatusIncomplete
	}
	return &api.Failure{Status: status, Kind: kind, Message: message}
}

// quote shows bytes of a server in a message: short, and without control characters.
func quote(b []byte) string {
	const most = 60
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "..."
	}
	return strconv.Quote(strings.ToValidUTF8(string(b), "?"))
}
