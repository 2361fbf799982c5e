package replay

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/replay/engine"
	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/internal/observe"
	"parley/replay/internal/wire"
	"parley/replay/load"
	"parley/schemas"
	"parley/schemas/random"
)

// server is one of a run's targets.
type server struct {
	schemas.Target
	api    *api.API
	client *wire.Client
	params api.Params // what every request says; OutputTokens and Fields are the turn's
}

// newClient makes the client of one target.
func newClient(cfg *settled, url string, clk *clock.Clock, dial dialer) (*wire.Client, error) {
	a, err := api.New(cfg.API)
	if err != nil {
		return nil, err
	}
	o := wire.Options{
		URL: url, UnixSocket: cfg.UnixSocket, Path: cfg.Path, API: a, Clock: clk, APIKey: cfg.APIKey, APIKeyFile: cfg.APIKeyFile,
		EchoHeaders: cfg.EchoHeaders, Cookies: cfg.Cookies, UserAgent: "parley/" + schemas.Version(),
		Timeout: limitOf(cfg.Timeout), IdleTimeout: limitOf(cfg.IdleTimeout), Retries: cfg.Retries,
		ConnectTimeout: cfg.ConnectTimeout, KeepIdle: cfg.KeepIdle, ClientCert: cfg.ClientCert, ClientKey: cfg.ClientKey,
		CAFile: cfg.CAFile, Insecure: cfg.Insecure, HTTP2: cfg.HTTP2, Proxy: cfg.Proxy,
		Dial: dial, UserClock: cfg.UserClock,
	}
	for _, h := range cfg.headers {
		if !h.places {
			o.Headers = append(o.Headers, api.Header{Name: h.name, Value: h.text})
		}
	}
	return wire.New(o)
}

// limitOf gives a settled limit, in which 0 is none, in the transport's way.
func limitOf[D ~int64](d D) D {
	if d == 0 {
		return D(wire.None)
	}
	return d
}

// baseParams gives what every request to a target says, as far as it does not depend on what the target
// turned out to take.
func baseParams(cfg *settled, model string) api.Params {
	p := api.Params{Model: model, Stream: true, IncludeUsage: true, ContinuousUsage: true, Extra: cfg.extra}
	p.IgnoreEOS, p.MinTokens = cfg.IgnoreEOS, cfg.MinTokens
	if cfg.zero {
		p.Temperature = new(float64)
	}
	return p
}

// line is a conversation's session with a real server.
type line struct {
	*wire.Session
	r       *run
	c       *engine.Conversation
	to      *server
	params  api.Params
	headers []api.Header
	discard bool
	trace   *observe.Conversation // nil: the run is not traced
}

// openLine opens a conversation's session. The requests' headers and fields that have places are filled
// in for each turn.
func (r *run) openLine(to *server, c *engine.Conversation) (engine.Session, error) {
	o := api.HistoryOptions{KeepReasoning: r.cfg.HistoryReasoning}
	if r.cfg.Salt {
		// It differs in the first characters, so that not one block of the prompt is in a cache.
		o.Salt = saltOf(r.meta.RunID, c.Pass)
	}
	if c.Source.Tools != nil {
		o.Tools = *c.Source.Tools
	}
	if c.Source.Body != nil {
		o.Body = *c.Source.Body
	}
	s, err := to.client.NewSession(o)
	if err != nil {
		return nil, err
	}
	l := &line{Session: s, r: r, c: c, to: to, params: to.params}
	if model := r.cfg.modelOf(c.Row); model != "" {
		l.params.Model = model
	}
	if r.cfg.Traceparent || r.exporter != nil {
		l.trace = &observe.Conversation{TraceID: observe.NewTraceID(), ID: c.ID, Instance: c.Pass, Begin: math.MaxInt64}
	}
	l.discard = !r.cfg.SaveText && r.verifier == nil && (r.cfg.History != "live" || len(c.Turns) == 1)
	return l, nil
}

// Advice says in one line what to do about failures of a kind (a row's error_kind), "" where there is nothing to do.
func Advice(kind string) string {
	switch kind {
	case wire.KindCanceled, wire.KindLeft:
		return "" // as was asked
	case load.CutSuspended:
		return "the client did not run for a while: keep its machine from sleeping and its process from being stopped"
	}
	return wire.Advice(kind)
}

// saltOf gives a text that differs from the first characters on for each pass over the dataset of each
// run. The conversations of one pass have the same: what they share stays shared.
func saltOf(runID string, instance int64) string {
	r := random.Stream(0, "salt "+runID, uint64(instance))
	return strconv.FormatUint(r.Uint64(), 36) + " "
}

func (l *line) Do(ctx context.Context, outputTokens int64, row *schemas.Request) api.Answer {
	cfg := l.r.cfg
	l.params.OutputTokens, l.params.Body = outputTokens, ""
	if body := l.c.Turns[row.Turn].Body; body != nil {
		l.params.Body = *body
	}
	l.headers, l.params.Fields = cfg.fillTemplates(func() []string {
		return places(l.c.ID, strconv.FormatInt(row.Turn, 10), row.RequestID, row.RunID, strconv.FormatInt(l.c.Pass, 10))
	}, l.headers[:0], l.params.Fields[:0])
	if l.trace != nil {
		l.startSpan(row)
	}
	answer := l.Session.Do(ctx, wire.TurnRequest{
		RequestID: row.RequestID, Params: &l.params, Headers: l.headers, DiscardText: l.discard,
		LeaveAfter: cfg.leaveAfter(l.c.Row, l.c.Pass, row.Turn),
	}, row)
	if l.trace != nil {
		l.trace.Add(row)
	}
	if !l.discard && (cfg.SaveText || l.r.verifier != nil) {
		row.Text, row.ToolCalls = answer.Message.Content, answer.Message.ToolCalls
		if answer.Reasoning != "" {
			row.ReasoningText = &answer.Reasoning
		}
	}
	if v := l.r.verifier; v != nil {
		v.compare(row)
	}
	if !cfg.SaveText {
		row.Text, row.ReasoningText, row.ToolCalls = nil, nil, nil
	}
	return answer
}

// fillTemplates appends the headers and the body's fields that have places for values, filled in.
func (s *settled) fillTemplates(values func() []string, headers []api.Header, fields []api.Field) ([]api.Header, []api.Field) {
	if len(s.headers)+len(s.fields) == 0 {
		return headers, fields
	}
	fill := strings.NewReplacer(values()...)
	for _, h := range s.headers {
		if h.places {
			headers = append(headers, api.Header{Name: h.name, Value: fill.Replace(h.text)})
		}
	}
	for _, f := range s.fields {
		fields = append(fields, api.Field{Name: f.name, Value: fill.Replace(f.text)})
	}
	return headers, fields
}

// startSpan gives the request a span of its own, and tells the server of it if that was asked for.
func (l *line) startSpan(row *schemas.Request) {
	span := observe.NewSpanID()
	row.TraceID, row.SpanID = &l.trace.TraceID, &span
	if l.r.cfg.Traceparent {
		l.headers = append(l.headers, api.Header{Name: "traceparent", Value: observe.Traceparent(l.trace.TraceID, span)})
	}
}

// End tells of the conversation where that is traced.
func (l *line) End() {
	if e := l.r.exporter; e != nil && l.trace != nil && l.trace.Turns > 0 {
		e.Conversation(l.trace)
	}
}

// configText gives the configuration for the metadata.
func configText(c Config) json.RawMessage {
	text, err := json.Marshal(c)
	if err != nil {
		// Only a NaN or an infinity could do that, which validation refuses.
		text, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return text
}

// publicTargets gives the targets for the metadata.
func publicTargets(servers []*server) []schemas.Target {
	out := make([]schemas.Target, len(servers))
	for i, s := range servers {
		out[i] = s.Target
	}
	return slices.Clip(out)
}
