package replay

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/control"
	"parley/replay/internal/scrape"
	"parley/replay/internal/wire"
	"parley/schemas"
)

// scoutLimit bounds each of the questions that a server is asked before the load; the wait for its
// readiness has a limit of its own.
const scoutLimit = 30 * time.Second

// scout finds out before the load what the servers are and what they take: readiness, kind, model,
// request parameters, where their figures are; and it has them forget their caches where asked.
func (r *run) scout(ctx context.Context) error {
	for _, s := range r.servers {
		if err := r.scoutServer(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.URL, err)
		}
	}
	return r.findFigures(ctx)
}

func (r *run) scoutServer(ctx context.Context, s *server) error {
	ask := func(ctx context.Context, method, path string, body []byte) (int, http.Header, []byte, error) {
		ctx, cancel := context.WithTimeout(ctx, scoutLimit)
		defer cancel()
		if path == "/v1/models" {
			path = s.api.ModelsPath(s.client.Path())
		}
		return s.client.Fetch(ctx, method, path, body)
	}
	r.hooks.Note("waiting for " + s.URL)
	ready, err := control.WaitReady(ctx, ask, r.cfg.ReadyLimit)
	if err != nil {
		return err
	}
	if ready.Tries > 1 {
		r.hooks.Note(fmt.Sprintf("%s is ready after %v", s.URL, ready.Waited.Round(time.Millisecond)))
	}
	kind, version := control.Detect(ctx, ask)
	s.Server = strings.TrimSpace(string(kind) + " " + version)
	if s.Model == "" {
		models, err := control.Models(ctx, ask)
		if err == nil && len(models) == 0 {
			err = fmt.Errorf("the server lists no model")
		}
		if err != nil {
			return fmt.Errorf("which model? give --model: %w", err)
		}
		s.Model = models[0]
	}
	model := s.Model
	if len(r.cfg.models) > 0 {
		model = r.cfg.models[0].name
		r.checkMix(ctx, s, ask)
	}
	s.params = baseParams(r.cfg, model)
	if r.cfg.NoProbe {
		if limits := s.api.TokenLimits; s.params.TokenLimit == "" && len(limits) > 0 {
			s.params.TokenLimit = limits[0]
		}
	} else if err := r.probe(ctx, s); err != nil {
		return err
	}
	if r.cfg.FlushCache {
		f, err := control.Flush(ctx, ask, kind, r.scoutSalt("flush"), s.params, s.send)
		if err != nil {
			return fmt.Errorf("--flush-cache: %w", err)
		}
		r.hooks.Note(f.Note)
		if f.Verified == nil || !*f.Verified {
			r.meta.Warnings = append(r.meta.Warnings, "--flush-cache: "+f.Note)
		}
	}
	return nil
}

// checkMix warns of models of a mix that the server does not list.
func (r *run) checkMix(ctx context.Context, s *server, ask control.Do) {
	listed, err := control.Models(ctx, ask)
	if err != nil {
		return // a server without a list; the rows will tell
	}
	for _, m := range r.cfg.models {
		if !slices.Contains(listed, m.name) {
			r.warn(fmt.Sprintf("--model: %s does not list %s", s.URL, m.name))
		}
	}
}

// scoutSalt gives a text that makes a prompt before the load unlike any other.
func (r *run) scoutSalt(purpose string) string {
	return saltOf(r.meta.RunID+purpose+time.Now().Format(time.RFC3339Nano), 0)
}

// probe sends requests that find out what the server takes, and stores it for the first target.
func (r *run) probe(ctx context.Context, s *server) error {
	r.hooks.Note("probing " + s.URL)
	found, use, err := control.Probe(ctx, s.api, s.params, r.scoutSalt("probe"), s.send)
	if err != nil {
		return fmt.Errorf("%w (--no-probe skips this)", err)
	}
	if r.meta.Probe == nil {
		r.meta.Probe = &found
	}
	for _, lost := range []struct {
		wanted, kept bool
		flag         string
	}{
		{s.params.IgnoreEOS, use.IgnoreEOS, "--ignore-eos"},
		{s.params.MinTokens > 0, use.MinTokens > 0, "--min-tokens"},
	} {
		if lost.wanted && !lost.kept {
			r.warn(fmt.Sprintf("%s does not take %s: answers may be shorter than asked", s.URL, lost.flag))
		}
	}
	s.params = use
	return nil
}

// send sends one message in a conversation of its own.
func (s *server) send(ctx context.Context, prompt string, p *api.Params) *schemas.Request {
	row := &schemas.Request{}
	session, err := s.client.NewSession(api.HistoryOptions{})
	if err == nil {
		err = session.Append(schemas.Message{Role: "user", Content: &prompt})
	}
	if err != nil {
		api.AsFailure(err).Fill(row)
		return row
	}
	session.Do(ctx, wire.TurnRequest{Params: p}, row)
	return row
}

// findFigures finds out where the servers' own figures are.
func (r *run) findFigures(ctx context.Context) error {
	if slices.Contains(r.cfg.Scrape, "none") || r.hooks.dial != nil {
		return nil
	}
	options := func(client *wire.Client, path string) scrape.Options {
		return scrape.Options{
			Fetch: client.Fetch, Path: path, Source: client.Origin(), Interval: r.cfg.ScrapeInterval, Now: r.clk.Now,
			Emit: func(samples []schemas.Sample) { r.e.PutSamples(samples) },
		}
	}
	for _, text := range r.cfg.Scrape {
		client, path, err := r.metricsClient(text)
		if err != nil {
			return fmt.Errorf("--scrape: %w", err)
		}
		found, err := scrape.Find(ctx, options(client, path), []string{path})
		if err != nil {
			r.warn(fmt.Sprintf("--scrape: %v", err))
			found = path // it may come
		}
		r.scrapes = append(r.scrapes, scrape.New(options(client, found)))
	}
	known := map[string]bool{}
	for _, s := range r.servers {
		if len(r.cfg.Scrape) > 0 || known[s.client.Origin()] {
			continue
		}
		known[s.client.Origin()] = true
		if path, err := scrape.Find(ctx, options(s.client, ""), scrape.Candidates(s.client.Path())); err == nil {
			r.scrapes = append(r.scrapes, scrape.New(options(s.client, path)))
		}
	}
	return ctx.Err()
}

// metricsClient gives the client for a metrics URL and the path on its server: a target's own, or one that reaches
// another host in the same way, without the run's key and headers.
func (r *run) metricsClient(text string) (client *wire.Client, path string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, "", fmt.Errorf("%s is no URL like http://host:9090/metrics", PublicURL(text))
	}
	for i, target := range r.cfg.URLs {
		if t, err := url.Parse(target); err == nil && t.Host == u.Host && t.Scheme == u.Scheme {
			return r.servers[i].client, u.RequestURI(), nil
		}
	}
	o := wire.Options{
		URL: (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String(), API: r.servers[0].api, Clock: r.clk,
		CAFile: r.cfg.CAFile, Insecure: r.cfg.Insecure, ClientCert: r.cfg.ClientCert, ClientKey: r.cfg.ClientKey, Proxy: r.cfg.Proxy,
	}
	if client, err = wire.New(o); err == nil {
		r.closers = append(r.closers, client)
	}
	return client, u.RequestURI(), err
}
