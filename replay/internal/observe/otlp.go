package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/schemas"
)

// SchemaURL names the version of the semantic conventions that spans and histograms follow. Those of generative AI are
// in development: names may change with the version.
const SchemaURL = "https://opentelemetry.io/schemas/1.41.0"

// Bounds of the export.
const (
	spanBatch  = 512              // spans of one request
	spanQueue  = 1 << 16          // spans that may wait; more are dropped, and counted
	sendEvery  = 2 * time.Second  // what waits is sent so often
	sendLimit  = 10 * time.Second // of one request
	sendTries  = 3                // of one request, when the receiver asks for another
	closeLimit = 10 * time.Second // for what still waits when the run is over
)

// Exporter sends a span for each turn and conversation and the histograms of generative AI clients to a receiver, as
// OTLP over HTTP in JSON.
type Exporter struct {
	base    *url.URL
	headers map[string]string
	runID   string
	tool    string
	wall    func(ns int64) time.Time
	client  *http.Client

	mu      sync.Mutex
	queue   []span
	series  map[seriesKey]*series
	order   []seriesKey
	since   int64 // wall clock's nanoseconds at which counting began
	sent    int64
	lost    int64
	lastErr error
	full    chan struct{}
}

// ExporterOptions say where to export to. All but Headers are required.
type ExporterOptions struct {
	URL     string                   // of the receiver, such as http://127.0.0.1:4318; /v1/traces and /v1/metrics are put behind it
	Headers string                   // of each request, NAME=VALUE,NAME=VALUE, as $OTEL_EXPORTER_OTLP_HEADERS has them
	RunID   string                   //
	Tool    string                   // the version of parley
	Wall    func(ns int64) time.Time // the wall clock's time of a moment of the run
}

// NewExporter makes an exporter. Nothing is sent before Run.
func NewExporter(o ExporterOptions) (*Exporter, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s is no URL of an OTLP receiver over HTTP, such as http://127.0.0.1:4318", public(u))
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/traces"), "/v1/metrics")
	e := &Exporter{
		base: u, headers: map[string]string{}, runID: o.RunID, tool: o.Tool, wall: o.Wall,
		client: &http.Client{Timeout: sendLimit}, series: map[seriesKey]*series{}, full: make(chan struct{}, 1),
	}
	for _, pair := range strings.Split(o.Headers, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if value, err = url.QueryUnescape(strings.TrimSpace(value)); !ok || err != nil {
			return nil, fmt.Errorf("$OTEL_EXPORTER_OTLP_HEADERS: write it as NAME=VALUE,NAME=VALUE, each value as in a URL")
		}
		e.headers[strings.TrimSpace(name)] = value
	}
	return e, nil
}

// public gives a URL without what may be secret.
func public(u *url.URL) string {
	if u == nil {
		return "the text"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// URL gives where the exporter sends to, without what may be secret.
func (e *Exporter) URL() string { return public(e.base) }

// Conversation is one conversation's span: that of its turns, which are below it.
type Conversation struct {
	TraceID, ID string
	Instance    int64
	Begin, End  int64 // of the run
	Turns       int64
	Failed      bool
}

// ConversationSpan gives the span id of a trace's conversation. Nothing else in the trace has it: the ids of turns are
// drawn apart.
func ConversationSpan(traceID string) string { return traceID[:16] }

// Conversation takes a conversation that is over. It does not wait for anything.
func (e *Exporter) Conversation(c *Conversation) {
	s := span{
		TraceID: c.TraceID, SpanID: ConversationSpan(c.TraceID), Name: "conversation", Kind: kindInternal,
		Start: e.unix(c.Begin), End: e.unix(max(c.Begin, c.End)),
		Attributes: []attribute{text("gen_ai.conversation.id", c.ID), whole("parley.instance", c.Instance), whole("parley.turns", c.Turns)},
	}
	if c.Failed {
		s.Status.Code = statusError
	}
	e.put(s)
}

// Row takes a turn that is over. It does not wait for anything.
func (e *Exporter) Row(row *schemas.Request) {
	if row.StartNS == nil || row.TraceID == nil || row.SpanID == nil {
		return // it was never sent
	}
	e.put(e.turn(row))
	e.count(row)
}

func (e *Exporter) put(s span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= spanQueue {
		e.lost++
		return
	}
	e.queue = append(e.queue, s)
	if len(e.queue) == spanBatch {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// operation gives the convention's name for what an API does.
func operation(api string) string {
	if api == "completions" {
		return "text_completion"
	}
	return "chat"
}

// provider gives the flavour of an API: parley sees an API and not who is behind it.
func provider(api string) string {
	switch api {
	case "anthropic", "ollama":
		return api
	}
	return "openai"
}

// turn makes the span of a turn.
func (e *Exporter) turn(row *schemas.Request) span {
	s := span{TraceID: *row.TraceID, SpanID: *row.SpanID, Parent: ConversationSpan(*row.TraceID), Kind: kindClient}
	s.Name = operation(row.API) + " " + row.Model
	end := *row.StartNS
	for _, m := range []*int64{row.SentNS, row.LastTokenNS, row.DoneNS} {
		if m != nil {
			end = max(end, *m)
		}
	}
	s.Start, s.End = e.unix(*row.StartNS), e.unix(end)
	s.Attributes = append(keyOf(row).attributes(), text("gen_ai.conversation.id", row.ConversationID),
		text("parley.request_id", row.RequestID), whole("parley.turn", row.Turn), text("parley.phase", row.Phase))
	for name, v := range map[string]*int64{
		"gen_ai.usage.input_tokens": row.PromptTokens, "gen_ai.usage.output_tokens": row.CompletionTokens,
		"gen_ai.usage.cache_read.input_tokens": row.CachedTokens, "http.response.status_code": row.HTTPStatus,
	} {
		if v != nil {
			s.Attributes = append(s.Attributes, whole(name, *v))
		}
	}
	if row.ResponseID != nil {
		s.Attributes = append(s.Attributes, text("gen_ai.response.id", *row.ResponseID))
	}
	if row.FinishReason != nil {
		s.Attributes = append(s.Attributes, attribute{"gen_ai.response.finish_reasons", map[string]any{"arrayValue": map[string]any{
			"values": []any{map[string]any{"stringValue": *row.FinishReason}},
		}}})
	}
	if v, ok := seconds(row.StartNS, row.FirstEventNS); ok {
		s.Attributes = append(s.Attributes, attribute{"gen_ai.response.time_to_first_chunk", map[string]any{"doubleValue": v}})
	}
	if _, bad := failed(row); bad {
		s.Status.Code = statusError
		if row.ErrorMessage != nil {
			s.Status.Message = *row.ErrorMessage
		}
	}
	return s
}

func (e *Exporter) unix(ns int64) string {
	return strconv.FormatInt(e.wall(ns).UnixNano(), 10)
}

// seriesKey is what the points of a histogram are told apart by.
type seriesKey struct{ operation, provider, model, url, failure string }

func keyOf(row *schemas.Request) seriesKey {
	kind, _ := failed(row)
	return seriesKey{operation(row.API), provider(row.API), row.Model, row.URL, kind}
}

// attributes gives the key as the convention has it.
func (k seriesKey) attributes() []attribute {
	a := []attribute{text("gen_ai.operation.name", k.operation), text("gen_ai.provider.name", k.provider), text("gen_ai.request.model", k.model)}
	if u, err := url.Parse(k.url); err == nil && u.Hostname() != "" {
		port := u.Port()
		if port == "" {
			if port = "80"; u.Scheme == "https" {
				port = "443"
			}
		}
		a = append(a, text("server.address", u.Hostname()))
		if n, err := strconv.ParseInt(port, 10, 64); err == nil {
			a = append(a, whole("server.port", n))
		}
	}
	if k.failure != "" {
		a = append(a, text("error.type", k.failure))
	}
	return a
}

// series are the histograms of one key.
type series struct {
	duration, firstChunk, perChunk, input, output *histogram
}

// The buckets of the convention, in seconds and in tokens.
var (
	semconvSeconds = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	semconvTokens  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// count adds a turn to the histograms: the duration of all operations, the rest of streams and of what is known.
func (e *Exporter) count(row *schemas.Request) {
	k := keyOf(row)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.since == 0 {
		e.since = e.wall(*row.StartNS).UnixNano()
	}
	s := e.series[k]
	if s == nil {
		s = &series{newHistogram(semconvSeconds), newHistogram(semconvSeconds), newHistogram(semconvSeconds), newHistogram(semconvTokens), newHistogram(semconvTokens)}
		e.series[k] = s
		e.order = append(e.order, k)
	}
	if v, ok := seconds(row.StartNS, row.DoneNS); ok {
		s.duration.add(v)
	}
	if row.Streamed != nil && *row.Streamed {
		if v, ok := seconds(row.StartNS, row.FirstEventNS); ok {
			s.firstChunk.add(v)
		}
		for c := 1; c < len(row.ChunkNS); c++ {
			s.perChunk.add(float64(row.ChunkNS[c]-row.ChunkNS[c-1]) / 1e9)
		}
	}
	for h, v := range map[*histogram]*int64{s.input: row.PromptTokens, s.output: row.CompletionTokens} {
		if v != nil {
			h.add(float64(*v))
		}
	}
}

// Run sends until the context ends, and then what still waits, for at most closeLimit.
func (e *Exporter) Run(ctx context.Context) {
	ticks := time.NewTicker(sendEvery)
	defer ticks.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticks.C:
			e.flush(ctx, true)
		case <-e.full:
			e.flush(ctx, false)
		case <-ctx.Done():
		}
	}
}

// Close sends what still waits, for at most closeLimit, and says what became of all of it: sent and lost spans, and
// the last error.
func (e *Exporter) Close() (sent, lost int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	e.flush(ctx, true)
	e.client.CloseIdleConnections()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += int64(len(e.queue))
	e.queue = nil
	return e.sent, e.lost, e.lastErr
}

// flush sends the spans that wait, and the histograms as they are.
func (e *Exporter) flush(ctx context.Context, metrics bool) {
	for {
		e.mu.Lock()
		n := min(spanBatch, len(e.queue))
		batch := e.queue[:n:n]
		e.queue = e.queue[n:]
		if len(e.queue) == 0 {
			e.queue = nil
		}
		e.mu.Unlock()
		if n == 0 {
			break
		}
		rejected, err := e.send(ctx, "/v1/traces", e.traces(batch))
		e.mu.Lock()
		switch {
		case err != nil && ctx.Err() != nil: // there is another try, or Close counts them
			e.queue = append(batch, e.queue...)
			e.lastErr = err
		case err != nil:
			e.lost += int64(n)
			e.lastErr = err
		default:
			e.sent += int64(n) - rejected
			e.lost += rejected
		}
		e.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
	}
	if !metrics {
		return
	}
	if body := e.metrics(); body != nil {
		if _, err := e.send(ctx, "/v1/metrics", body); err != nil {
			e.mu.Lock()
			e.lastErr = err
			e.mu.Unlock()
		}
	}
}

// send posts one body, again where the receiver asks for it. It gives how many items the receiver did not take.
func (e *Exporter) send(ctx context.Context, path string, body []byte) (rejected int64, err error) {
	wait := 200 * time.Millisecond
	for try := 1; ; try++ {
		again := false
		if rejected, again, err = e.post(ctx, path, body); err == nil || !again || try == sendTries {
			return rejected, err
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return 0, err
		}
	}
}

func (e *Exporter) post(ctx context.Context, path string, body []byte) (rejected int64, again bool, err error) {
	u := *e.base
	u.Path += path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if inner, ok := err.(*url.Error); ok { // its text has the whole URL
			err = inner.Err
		}
		return 0, true, fmt.Errorf("%s%s: %w", e.URL(), path, err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		switch resp.StatusCode {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			again = true
		}
		return 0, again, fmt.Errorf("%s%s: HTTP %d: %.200s", e.URL(), path, resp.StatusCode, strings.TrimSpace(string(answer)))
	}
	var partial struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &partial) == nil {
		rejected, _ = partial.PartialSuccess.RejectedSpans.Int64()
	}
	return rejected, false, nil
}

// What follows is OTLP in JSON (opentelemetry-proto 1, "OTLP/JSON"): 64-bit numbers are texts, ids hexadecimal.
type (
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     struct {
			Message string `json:"message,omitempty"`
			Code    int    `json:"code,omitempty"`
		} `json:"status"`
	}
	attribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	point struct {
		Attributes []attribute `json:"attributes"`
		Start      string      `json:"startTimeUnixNano"`
		Time       string      `json:"timeUnixNano"`
		Count      string      `json:"count"`
		Sum        float64     `json:"sum"`
		Counts     []string    `json:"bucketCounts"`
		Bounds     []float64   `json:"explicitBounds"`
	}
)

const (
	kindInternal = 1
	kindClient   = 3
	statusError  = 2
	cumulative   = 2
)

func text(key, value string) attribute {
	return attribute{key, map[string]any{"stringValue": value}}
}

func whole(key string, value int64) attribute {
	return attribute{key, map[string]any{"intValue": strconv.FormatInt(value, 10)}}
}

func (e *Exporter) resource() map[string]any {
	return map[string]any{"attributes": []attribute{text("service.name", "parley"), text("service.version", e.tool), text("service.instance.id", e.runID)}}
}

func (e *Exporter) scope() map[string]any { return map[string]any{"name": "parley", "version": e.tool} }

func (e *Exporter) traces(spans []span) []byte {
	return encode(map[string]any{"resourceSpans": []any{map[string]any{
		"resource": e.resource(), "schemaUrl": SchemaURL, "scopeSpans": []any{map[string]any{"scope": e.scope(), "spans": spans}},
	}}})
}

// metrics gives the histograms so far; nil if there are none.
func (e *Exporter) metrics() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.order) == 0 {
		return nil
	}
	now := strconv.FormatInt(time.Now().UnixNano(), 10)
	since := strconv.FormatInt(e.since, 10)
	var list []any
	family := func(name, unit, about string, of func(s *series) *histogram, more ...attribute) []point {
		var points []point
		for _, k := range e.order {
			h := of(e.series[k])
			if h.n == 0 {
				continue
			}
			counts := make([]string, len(h.counts))
			for i, n := range h.counts {
				counts[i] = strconv.FormatUint(n, 10)
			}
			points = append(points, point{
				Attributes: append(k.attributes(), more...), Start: since, Time: now,
				Count: strconv.FormatUint(h.n, 10), Sum: h.sum, Counts: counts, Bounds: h.bounds,
			})
		}
		if len(points) > 0 && name != "" {
			list = append(list, map[string]any{"name": name, "unit": unit, "description": about, "histogram": map[string]any{"aggregationTemporality": cumulative, "dataPoints": points}})
		}
		return points
	}
	family("gen_ai.client.operation.duration", "s", "GenAI operation duration.", func(s *series) *histogram { return s.duration })
	family("gen_ai.client.operation.time_to_first_chunk", "s", "From the request to the first chunk of a stream.", func(s *series) *histogram { return s.firstChunk })
	family("gen_ai.client.operation.time_per_output_chunk", "s", "Between chunks of a stream after the first.", func(s *series) *histogram { return s.perChunk })
	tokens := append(family("", "", "", func(s *series) *histogram { return s.input }, text("gen_ai.token.type", "input")),
		family("", "", "", func(s *series) *histogram { return s.output }, text("gen_ai.token.type", "output"))...)
	if len(tokens) > 0 {
		list = append(list, map[string]any{"name": "gen_ai.client.token.usage", "unit": "{token}", "description": "Number of input and output tokens used.", "histogram": map[string]any{"aggregationTemporality": cumulative, "dataPoints": tokens}})
	}
	return encode(map[string]any{"resourceMetrics": []any{map[string]any{
		"resource": e.resource(), "schemaUrl": SchemaURL, "scopeMetrics": []any{map[string]any{"scope": e.scope(), "metrics": list}},
	}}})
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and finite numbers
	}
	return body
}
