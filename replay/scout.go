package replay

import (
	"context"
	"errors"
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
func (r *run) scout(ctx context.Context) (err error) {
	if r.sample, err = newSample(r.ds); err != nil {
		return err
	}
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
		status, header, answer, err := s.client.Fetch(ctx, method, path, body)
		if err == nil && status != http.StatusOK { // it goes into messages
			answer = []byte(s.client.Clean(string(answer)))
		}
		return status, header, answer, err
	}
	r.hooks.Note("waiting for " + s.URL)
	ready, err := control.WaitReady(ctx, ask, r.cfg.ReadyLimit, r.waits(s))
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
			return fmt.Errorf("which model? %w", r.refused(s, "", err))
		}
		s.Model = models[0]
	} else {
		r.checkModels(ctx, s, ask)
	}
	model := s.Model
	if len(r.cfg.models) > 0 {
		model = r.cfg.models[0].name
	}
	s.params = baseParams(r.cfg, model)
	if r.cfg.NoProbe {
		if limits := s.api.TokenLimits; s.params.TokenLimit == "" && len(limits) > 0 {
			s.params.TokenLimit = limits[0]
		}
	} else if err := r.probe(ctx, s, kind); err != nil {
		return err
	}
	if r.cfg.FlushCache {
		f, err := control.Flush(ctx, ask, kind, r.scoutSalt("flush"), s.params, r.send(s))
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

// checkModels warns of models asked for that the server does not list, with the names that it has.
func (r *run) checkModels(ctx context.Context, s *server, ask control.Do) {
	listed, err := control.Models(ctx, ask)
	if err != nil {
		return // a server without a list; the rows will tell
	}
	asked := []string{s.Model}
	if len(r.cfg.models) > 0 {
		asked = asked[:0]
		for _, m := range r.cfg.models {
			asked = append(asked, m.name)
		}
	}
	const most = 8
	has := strings.Join(listed[:min(most, len(listed))], ", ")
	if more := len(listed) - most; more > 0 {
		has += fmt.Sprintf(" and %d more", more)
	}
	for _, name := range asked {
		if !slices.Contains(listed, name) {
			r.warn(fmt.Sprintf("--model: %s does not list %s; it has %s", s.URL, name, has))
		}
	}
}

// scoutSalt gives a text that makes a prompt before the load unlike any other.
func (r *run) scoutSalt(purpose string) string {
	return saltOf(r.meta.RunID+purpose+time.Now().Format(time.RFC3339Nano), 0)
}

// probe sends requests that find out what the server takes, and stores it for the first target.
func (r *run) probe(ctx context.Context, s *server, kind control.Server) error {
	r.hooks.Note("probing " + s.URL)
	b := control.Probe{
		API: s.api, Kind: kind, Send: r.send(s), Salt: r.scoutSalt("probe"), Patience: r.cfg.ReadyLimit, Note: r.waits(s),
	}
	found, use, err := b.Run(ctx, s.params)
	if err != nil {
		return r.refused(s, s.client.Endpoint(), err)
	}
	s.CachedMost = b.CachedMost
	if r.meta.Probe == nil {
		r.meta.Probe = &found
	}
	for _, p := range []struct {
		wanted, kept bool
		works        *bool
		flag         string
	}{
		{s.params.IgnoreEOS, use.IgnoreEOS, found.IgnoreEOS, "--ignore-eos"},
		{s.params.MinTokens > 0, use.MinTokens > 0, found.MinTokens, "--min-tokens"},
	} {
		switch {
		case p.wanted && !p.kept:
			r.warn(fmt.Sprintf("%s does not take %s: answers may be shorter than asked", s.URL, p.flag))
		case p.wanted && p.works == nil:
			r.warn(fmt.Sprintf("%s was sent %s, but nothing shows that it has an effect: look at the lengths of the answers", s.URL, p.flag))
		}
	}
	s.params = use
	return nil
}

// waits gives what tells why a server is waited for.
func (r *run) waits(s *server) func(why string) {
	return func(why string) { r.hooks.Note(fmt.Sprintf("still waiting for %s: %s", s.URL, why)) }
}

// refused makes the error of a server that did not answer a question before the load, with the next step.
func (r *run) refused(s *server, asked string, err error) error {
	kind := ""
	var probe *control.ProbeError
	var list *control.Refused
	switch {
	case errors.As(err, &list):
		kind = list.Kind
	case errors.As(err, &probe):
		kind = probe.Kind
		err = fmt.Errorf("POST %s: %w", asked, err)
	default:
		return err
	}
	key := "$" + r.cfg.APIKeyEnv
	switch {
	case r.cfg.APIKeyFile != "":
		key = r.cfg.APIKeyFile
	case r.cfg.APIKeyEnv == "":
		key = "none was given"
	}
	switch {
	case kind == api.KindUnauthorized && (r.cfg.APIKey != "" || r.cfg.APIKeyFile != ""):
		return fmt.Errorf("the server does not accept the API key (%s): %w; put the right one there, or name another place with --api-key-env or --api-key-file", key, err)
	case kind == api.KindUnauthorized:
		return fmt.Errorf("the server wants an API key (%s is not set): %w; put it there, or name another place with --api-key-env or --api-key-file", key, err)
	case list != nil && r.cfg.APIKey == "" && r.cfg.APIKeyFile == "":
		return fmt.Errorf("%w; no API key was sent (%s is not set); or name a model with --model", err, key)
	case list != nil:
		return fmt.Errorf("%w; name a model with --model", err)
	}
	if len(r.sample.has) > 0 {
		err = fmt.Errorf("%w (a request as the run's will be, with %s)", err, strings.Join(r.sample.has, ", "))
	}
	if kind == api.KindNotFound {
		return fmt.Errorf("%w; check --url, --api and --model", err)
	}
	return fmt.Errorf("%w; --no-probe skips this", err)
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
