package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
)

// Defaults of the zero values of [Options].
const (
	DefaultTimeout        = 10 * time.Minute
	DefaultIdleTimeout    = 2 * time.Minute
	DefaultConnectTimeout = 30 * time.Second
	DefaultKeepIdle       = 4 * time.Second // uvicorn, in front of most servers, closes after 5 s
	DefaultMaxHeader      = 1 << 20
	DefaultMaxBody        = 1 << 30
)

// None switches a time limit off where 0 means the default.
const None = -1 * time.Nanosecond

// Options say which server a client talks to, and how. URL, API and Clock are needed; everything else has a
// useful zero value.
type Options struct {
	// URL is the server's base URL: http://, https://, unix:/path/of/socket (plain HTTP over a Unix socket;
	// the path of the requests comes from the API alone) or http+unix://%2Fpath%2Fof%2Fsocket/base. A user
	// and password in it are sent as basic authentication and shown nowhere. It may be the whole endpoint; a
	// query goes with each turn's request.
	URL string
	// Path is what the requests ask for on the server, in the place of what the API and the URL make; "" for none.
	Path string
	// UnixSocket is the path of a Unix socket to connect to instead of URL's host; "" for none.
	UnixSocket string
	API        *api.API
	Clock      *clock.Clock

	// APIKey is sent in the API's own way with each request. It is shown nowhere.
	APIKey string
	// APIKeyFile is a file that holds the key instead; it is read again when it changes, at the latest a second after.
	// While it cannot be read the last key stays.
	APIKeyFile string
	// Headers are sent with each request; they win over the client's own. Their values may be secrets and
	// are shown nowhere.
	Headers []api.Header
	// EchoHeaders are names of response headers whose value goes into the session's next requests.
	EchoHeaders []string
	// Cookies gives each session a cookie jar.
	Cookies bool
	// UserAgent is the User-Agent header; "" is parley's.
	UserAgent string

	Timeout        time.Duration // one turn in all; 0 is DefaultTimeout, None no limit
	IdleTimeout    time.Duration // the longest silence; 0 is DefaultIdleTimeout, None no limit
	ConnectTimeout time.Duration // name look-up, connect and TLS handshake; 0 is DefaultConnectTimeout
	KeepIdle       time.Duration // how long an idle connection is used again; 0 is DefaultKeepIdle, None: no connection is used twice
	Retries        int           // attempts after the first, for overload (429, 503, 529) and for connections that failed

	CAFile   string // certificates (PEM) to trust instead of the system's
	Insecure bool   // do not verify the server's certificate
	// ClientCert and ClientKey are files (PEM) of the certificate that the client shows, and of its key; "" for none.
	ClientCert, ClientKey string
	HTTP2                 bool   // HTTP/2, over plain connections too, by net/http's client
	Proxy                 string // http, https or socks5 proxy to go through, or "environment" for HTTP_PROXY and its like

	// Dial connects in place of package net's dialer, for in-memory connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// UserClock forgoes the kernel's stamps.
	UserClock bool

	MaxHeader int64 // bytes of a response's header; 0 is DefaultMaxHeader
	MaxBody   int64 // bytes of a response's body, decoded; 0 is DefaultMaxBody
	MaxText   int   // bytes of an answer's text; 0 is the api package's
	MaxEvent  int   // bytes of one event; 0 is the api package's
}

// Validate gives every problem at once.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := parseTarget(o); err != nil {
		errs = append(errs, err)
	}
	if o.API == nil {
		bad("no API is given")
	}
	if o.Clock == nil {
		bad("no clock is given")
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", o.Timeout}, {"idle timeout", o.IdleTimeout}, {"connect timeout", o.ConnectTimeout}, {"time to keep idle connections", o.KeepIdle}} {
		if d.d < 0 && d.d != None {
			bad("the %s %v is negative", d.name, d.d)
		}
	}
	if o.Retries < 0 {
		bad("%d retries: give 0 or more", o.Retries)
	}
	if o.MaxHeader < 0 || o.MaxBody < 0 || o.MaxText < 0 || o.MaxEvent < 0 {
		bad("a size limit is negative")
	}
	if _, err := url.ParseRequestURI(o.Path); o.Path != "" && (err != nil || o.Path[0] != '/') {
		bad("the path %q is none: give one like /v1/chat/completions", o.Path)
	}
	for _, h := range o.Headers {
		if err := checkHeader(h); err != nil {
			errs = append(errs, err)
		}
	}
	if o.APIKeyFile != "" {
		if _, err := readKey(o.APIKeyFile); err != nil {
			errs = append(errs, err)
		}
	}
	if (o.ClientCert == "") != (o.ClientKey == "") {
		bad("a client's certificate needs its key, and a key its certificate: give both files")
	}
	if !httpguts.ValidHeaderFieldValue(o.APIKey) {
		bad("the API key holds characters that a header cannot carry (a line end, perhaps, from its file)")
	}
	for _, name := range o.EchoHeaders {
		if !httpguts.ValidHeaderFieldName(name) {
			bad("%q is no name of a header to echo", name)
		}
	}
	if o.Proxy != "" && o.Proxy != "environment" {
		u, err := url.Parse(o.Proxy)
		if err != nil || u.Host == "" {
			bad("the proxy is no URL like http://host:port")
		} else if s := u.Scheme; s != "http" && s != "https" && s != "socks5" && s != "socks5h" {
			bad("a proxy of the scheme %q is not supported: use http, https or socks5", s)
		}
		if o.Dial != nil || o.UnixSocket != "" {
			bad("a proxy cannot be used with a Unix socket or a dialer of one's own")
		}
	}
	if _, err := o.tlsConfig("x"); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkHeader refuses what cannot be sent, and what the client has to decide itself. It does not repeat
// values, which may be secrets.
func checkHeader(h api.Header) error {
	if !httpguts.ValidHeaderFieldName(h.Name) {
		return fmt.Errorf("%q is no name of a header", h.Name)
	}
	if !httpguts.ValidHeaderFieldValue(h.Value) {
		return fmt.Errorf("the value of the header %s holds characters that a header cannot carry", h.Name)
	}
	switch strings.ToLower(h.Name) {
	case "content-length", "transfer-encoding", "connection", "upgrade", "expect", "trailer", "te", "accept-encoding":
		return fmt.Errorf("the header %s is the client's own to set", h.Name)
	}
	return nil
}

// limit gives a duration with its default, and a very long one for None.
func limit(d, byDefault time.Duration) time.Duration {
	switch {
	case d == 0:
		return byDefault
	case d < 0:
		return 1 << 61 // 73 years
	}
	return d
}

func orDefault(n, byDefault int64) int64 {
	if n == 0 {
		return byDefault
	}
	return n
}

// tlsConfig gives the settings for connections to a server of this name.
func (o *Options) tlsConfig(serverName string) (*tls.Config, error) {
	c := &tls.Config{ServerName: serverName, InsecureSkipVerify: o.Insecure, MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the trusted certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", o.CAFile)
		}
	}
	if o.ClientCert != "" && o.ClientKey != "" {
		own, err := tls.LoadX509KeyPair(o.ClientCert, o.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate (%s, %s): %w", o.ClientCert, o.ClientKey, err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// readKey reads a file that holds an API key.
func readKey(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the API key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || !httpguts.ValidHeaderFieldValue(key) {
		return "", fmt.Errorf("%s holds no API key: one line is wanted", file)
	}
	return key, nil
}

// target is a server's address, taken from its URL.
type target struct {
	tls      bool
	network  string // tcp or unix
	address  string // host:port or the socket's path
	host     string // the Host header
	name     string // for TLS: the host without its port
	basePath string
	query    string // sent with every turn; it may hold a key
	user     *url.Userinfo
	public   string // the URL without what may be secret
	origin   string // the same without its path
}

// CheckURL says what is wrong with a server's URL, without repeating what may be secret in it.
func CheckURL(text string) error {
	_, err := parseTarget(&Options{URL: text})
	return err
}

// parseTarget reads the URL. Its errors never repeat the URL's user, query or fragment.
func parseTarget(o *Options) (target, error) {
	var t target
	if path, ok := strings.CutPrefix(o.URL, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return t, errors.New("unix: needs the path of a socket, as in unix:/run/server.sock")
		}
		return target{network: "unix", address: path, host: "localhost", name: "localhost", public: "unix:" + path, origin: "unix:" + path}, nil
	}
	if rest, ok := strings.CutPrefix(o.URL, "http+unix://"); ok {
		// Not by package url, which takes no escapes in a host.
		socket, base, _ := strings.Cut(rest, "/")
		path, err := url.PathUnescape(socket)
		if err != nil || path == "" || strings.ContainsAny(base, "?#") {
			return t, errors.New("http+unix:// needs the escaped path of a socket, as in http+unix://%2Frun%2Fserver.sock/base")
		}
		if base = strings.TrimRight(base, "/"); base != "" {
			base = "/" + base
		}
		origin := "http+unix://" + url.PathEscape(path)
		return target{network: "unix", address: path, host: "localhost", name: "localhost", basePath: base, public: origin + base, origin: origin}, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return t, errors.New("the URL cannot be read: give one like http://127.0.0.1:8000 (escape special characters in a password)")
	}
	t = target{network: "tcp", host: u.Host, name: u.Hostname(), basePath: strings.TrimRight(u.EscapedPath(), "/"), user: u.User}
	t.origin = u.Scheme + "://" + u.Host
	t.public = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	switch u.Scheme {
	case "http":
		t.address = withPort(u, "80")
	case "https":
		t.address, t.tls = withPort(u, "443"), true
	case "":
		return t, fmt.Errorf("the URL %q has no scheme: give one like http://127.0.0.1:8000", t.public)
	default:
		return t, fmt.Errorf("URLs of the scheme %q are not supported: use http, https or unix", u.Scheme)
	}
	if u.Hostname() == "" {
		return t, fmt.Errorf("the URL %q has no host: give one like http://127.0.0.1:8000", t.public)
	}
	if u.Fragment != "" {
		return t, fmt.Errorf("the URL %q must not have a fragment", t.public)
	}
	t.query = u.RawQuery
	if o.UnixSocket != "" {
		t.network, t.address = "unix", o.UnixSocket
	}
	return t, nil
}

func withPort(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}
