package wire

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/internal/stampconn"
)

// Client talks to one server. Its methods may be called by any goroutine. Close it at the end.
type Client struct {
	o         Options
	clk       *clock.Clock
	target    target
	path      string // of the API's requests
	common    atomic.Pointer[common]
	keyRead   atomic.Int64 // run time at which the key's file was looked at last
	tlsConfig *tls.Config  // nil without TLS
	timeout   time.Duration
	idle      time.Duration
	connect   time.Duration
	keepIdle  time.Duration

	pool      pool
	buffers   sync.Pool // of *[]byte, to read into
	exchanges sync.Pool // of *exchange
	warmth    *stampconn.Warmth
	pollers   []*stampconn.Poller // none where the connections read by themselves
	readied   sync.Once           // warmth and pollers: a client that only fetches needs neither
	fallback  *fallback           // net/http's client
	useHTTP   atomic.Bool

	opened      atomic.Int64
	kernelReads atomic.Int64
	userReads   atomic.Int64
}

// Stats are a client's counts so far.
type Stats struct {
	ConnsOpened int64 // connections made
	ConnsIdle   int64 // of them, idle now
	KernelReads int64 // reads of responses with a stamp of the kernel
	UserReads   int64 // and without one
}

// readBuffer is the size of the buffers that are read into: some hundred chunks of a usual stream. They are
// held only while there is data.
const readBuffer = 32 << 10

// New makes a client; it opens no connection. The error names every problem of the options.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := parseTarget(&o)
	if err != nil {
		return nil, err
	}
	c := &Client{
		o: o, clk: o.Clock, target: t, path: o.API.JoinPath(t.basePath),
		timeout: limit(o.Timeout, DefaultTimeout), idle: limit(o.IdleTimeout, DefaultIdleTimeout),
		connect: limit(o.ConnectTimeout, DefaultConnectTimeout), keepIdle: limit(o.KeepIdle, DefaultKeepIdle),
	}
	if o.KeepIdle < 0 {
		c.keepIdle = 0
	}
	if o.Path != "" {
		c.path = o.Path
	}
	if t.query != "" && !strings.Contains(c.path, "?") {
		c.path += "?" + t.query
	}
	c.buffers.New = func() any { b := make([]byte, readBuffer); return &b }
	c.exchanges.New = func() any { return newExchange(c) }
	if t.tls {
		if c.tlsConfig, err = o.tlsConfig(t.name); err != nil {
			return nil, err
		}
		c.tlsConfig.NextProtos = []string{"http/1.1"}
		c.tlsConfig.DynamicRecordSizingDisabled = true // requests are sent whole, not as the user waits for their parts
		c.tlsConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	key := o.APIKey
	if o.APIKeyFile != "" {
		c.keyRead.Store(c.clk.Now())
		if key, err = readKey(o.APIKeyFile); err != nil {
			return nil, err
		}
	}
	c.makeCommon(key, nil)
	if c.fallback, err = newFallback(c); err != nil {
		return nil, err
	}
	c.useHTTP.Store(o.HTTP2 || c.fallback.proxied)
	return c, nil
}

// ready makes what the first connection of a load needs.
func (c *Client) ready() {
	c.readied.Do(func() {
		if c.o.Dial != nil {
			return
		}
		if !c.o.UserClock && c.target.network == "tcp" {
			// Without loopback there are still the readers' stamps.
			c.warmth, _ = stampconn.Warm()
		}
		for range min(max(runtime.GOMAXPROCS(0)/2, 1), 8) {
			if p, err := stampconn.NewPoller(); err == nil { // not on other systems
				c.pollers = append(c.pollers, p)
			}
		}
	})
}

// common is what all requests have.
type common struct {
	key     string // of the API
	headers []api.Header
	secrets []string // among the headers, and in the URLs; those of earlier keys, too
}

// makeCommon gathers what all requests have, with this key. more are further secrets.
func (c *Client) makeCommon(key string, more []string) {
	agent := c.o.UserAgent
	if agent == "" {
		agent = "parley"
	}
	set := []api.Header{
		{Name: "Host", Value: c.target.host},
		{Name: "User-Agent", Value: agent},
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Accept-Encoding", Value: "identity"},
	}
	set = append(set, c.o.API.Headers...)
	secrets := append([]string{key}, more...)
	if c.target.user != nil {
		password, _ := c.target.user.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(c.target.user.Username() + ":" + password))
		set = append(set, api.Header{Name: "Authorization", Value: "Basic " + basic})
		secrets = append(secrets, password, url.QueryEscape(password), url.PathEscape(password), basic)
	}
	if key != "" {
		set = override(set, api.Header{Name: c.o.API.KeyHeader, Value: c.o.API.KeyPrefix + key})
	}
	for _, h := range c.o.Headers {
		set = override(set, h)
		if secretName(h.Name) {
			secrets = append(secrets, secretsOf(h.Value)...)
		}
	}
	_, query, _ := strings.Cut(c.path, "?")
	if values, err := url.ParseQuery(query); err == nil {
		for name, list := range values {
			for _, v := range list {
				if secretName(name) || len(v) >= 16 {
					secrets = append(secrets, v, url.QueryEscape(v))
				}
			}
		}
	}
	if u, err := url.Parse(c.o.Proxy); err == nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, url.PathEscape(password))
	}
	c.common.Store(&common{key, set, slices.DeleteFunc(secrets, func(s string) bool { return s == "" })})
}

// keyInterval is how often the key's file is looked at.
const keyInterval = int64(time.Second)

// refreshKey takes over the key of a file that has changed.
func (c *Client) refreshKey() {
	if c.o.APIKeyFile == "" {
		return
	}
	now, last := c.clk.Now(), c.keyRead.Load()
	if now-last < keyInterval || !c.keyRead.CompareAndSwap(last, now) {
		return
	}
	old := c.common.Load()
	if key, err := readKey(c.o.APIKeyFile); err == nil && key != old.key {
		c.makeCommon(key, old.secrets)
	}
}

func override(set []api.Header, h api.Header) []api.Header {
	for i := range set {
		if strings.EqualFold(set[i].Name, h.Name) {
			set[i] = h
			return set
		}
	}
	return append(set, h)
}

// secretName tells whether a header of this name is likely to carry a secret.
func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "key", "token", "secret", "cookie", "password", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// secretsOf gives a header's value, and what follows a scheme's name in it ("Bearer ...").
func secretsOf(value string) []string {
	all := []string{value}
	if _, rest, ok := strings.Cut(value, " "); ok {
		all = append(all, strings.TrimSpace(rest))
	}
	return all
}

// URL gives the server's URL without anything secret.
func (c *Client) URL() string { return c.target.public }

// Origin gives the server's URL without the path and anything secret.
func (c *Client) Origin() string { return c.target.origin }

// HTTP2 tells whether the server is spoken to by HTTP/2: that was asked for, or it speaks nothing else.
func (c *Client) HTTP2() bool { return c.o.HTTP2 || c.useHTTP.Load() && !c.fallback.proxied }

// Endpoint gives the URL that turns are sent to, without what may be secret.
func (c *Client) Endpoint() string {
	path, _, _ := strings.Cut(c.path, "?")
	return c.target.origin + path
}

// Path gives the path of the server's base URL, "" for none.
func (c *Client) Path() string { return c.target.basePath }

// Stats gives the client's counts so far.
func (c *Client) Stats() Stats {
	return Stats{
		ConnsOpened: c.opened.Load(), ConnsIdle: int64(c.pool.len()),
		KernelReads: c.kernelReads.Load(), UserReads: c.userReads.Load(),
	}
}

// Close closes the idle connections; those in use are closed when their turns end.
func (c *Client) Close() error {
	c.readied.Do(func() {}) // not any more
	c.pool.close()
	c.fallback.close()
	for _, p := range c.pollers {
		_ = p.Close()
	}
	return c.warmth.Close()
}

// Preconnect makes connections until n are idle. The first failure stops it, and is an *api.Failure.
func (c *Client) Preconnect(ctx context.Context, n int) error {
	if c.useHTTP.Load() {
		return nil // net/http's client makes its own
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const workers = 32 // a burst that a server's listen backlog can take
	var (
		wg    sync.WaitGroup
		left  atomic.Int64
		mu    sync.Mutex
		first error
	)
	left.Store(int64(n - c.pool.len()))
	for range min(workers, n) {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				cn, err := c.dialWithin(ctx)
				if err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					cancel()
					return
				}
				c.pool.put(cn, c.clk.Now())
			}
		})
	}
	wg.Wait()
	if errors.Is(first, error(errOtherProtocol)) {
		c.useHTTP.Store(true)
		return nil
	}
	return c.cleanError(first)
}

// dialWithin dials within the limit for connecting.
func (c *Client) dialWithin(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.connect)
	defer cancel()
	return c.dial(ctx)
}

// cleanError blots secrets out of a failure's message.
func (c *Client) cleanError(err error) error {
	if err == nil {
		return nil
	}
	f := *failure(err, reading)
	f.Message = api.Clean(f.Message, c.common.Load().secrets)
	return &f
}
