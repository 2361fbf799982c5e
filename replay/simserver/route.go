package simserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// request is one HTTP request with its body read.
type request struct {
	r        *http.Request
	body     *[]byte
	status   int // a refusal that reading it came to
	received time.Time
	age      int // requests that the connection carried before
}

// release gives the body back as soon as it has been read: streams are long.
func (q *request) release() {
	if q.body != nil {
		putBody(q.body)
		q.body = nil
	}
}

// route answers a request of any path.
func (s *Server) route(k sink, q *request) {
	defer q.release()
	path := strings.TrimSuffix(q.r.URL.Path, "/")
	post := q.r.Method == http.MethodPost
	if q.status != 0 {
		s.deny(k, q.status, http.StatusText(q.status)+": request body")
		return
	}
	for _, x := range s.d.paths {
		if path != x.path() {
			continue
		}
		if !post {
			s.deny(k, http.StatusMethodNotAllowed, "Method Not Allowed")
			return
		}
		s.serveAPI(k, q, x)
		return
	}
	if wait := s.loading(); wait > 0 && path != "/sim/stats" {
		s.replyHeader(k, http.StatusServiceUnavailable, s.retryHeader(), appendError(buffer(), s.d.errors, http.StatusServiceUnavailable, "Loading model", ""))
		return
	}
	if s.identify(k, q.r.Method, path, q.r.URL.RawQuery) {
		return
	}
	switch path {
	case "/v1/models", "/models":
		s.reply(k, http.StatusOK, object(buffer(), "object", "list", "data", list(inner("id", s.cfg.Model, "object", "model",
			"created", s.start.Unix(), "owned_by", s.owner(), "max_model_len", s.cfg.MaxModelLen))))
	case "/api/tags":
		s.reply(k, http.StatusOK, object(buffer(), "models", list(inner("name", s.cfg.Model, "model", s.cfg.Model))))
	case "/health", "/health_generate", "/v1/health/ready":
		s.reply(k, http.StatusOK, object(buffer(), "status", "ok"))
	case "/metrics", "/prometheus/metrics":
		s.metrics(k)
	case "/sim/stats":
		s.simStats(k)
	case "/reset_prefix_cache", "/flush_cache":
		if post {
			s.accelerator.resetCache()
			s.reply(k, http.StatusOK, object(buffer(), "success", true))
			return
		}
		s.deny(k, http.StatusMethodNotAllowed, "Method Not Allowed: use POST")
	case "/tokenize":
		s.tokenize(k, q)
	default:
		s.deny(k, http.StatusNotFound, fmt.Sprintf("Not Found: %s %s", q.r.Method, path))
	}
}

// buffer gives an empty buffer for a body, with its room.
func buffer() []byte { return make([]byte, room, 512) }

func (s *Server) reply(k sink, status int, b []byte) { s.replyHeader(k, status, nil, b) }

// deny answers with an error in the dialect's form.
func (s *Server) deny(k sink, status int, message string) {
	s.reply(k, status, appendError(buffer(), s.d.errors, status, message, ""))
}

// replyHeader sends a whole body; errors of the connection are its end and nobody's business.
func (s *Server) replyHeader(k sink, status int, header http.Header, b []byte) {
	h := http.Header{"Content-Type": {jsonType}, "Content-Length": {strconv.Itoa(len(b) - room)}}
	for name, v := range header {
		h[name] = v
	}
	k.writeHead(status, h)
	_ = k.writeBody(b, true)
}

// loading gives how long the model will still be loading.
func (s *Server) loading() time.Duration { return s.cfg.Loading - time.Since(s.start) }

func (s *Server) retryHeader() http.Header {
	d := s.cfg.RetryAfter
	if s.cfg.RetryDate {
		return http.Header{"Retry-After": {time.Now().Add(d).UTC().Format(http.TimeFormat)}}
	}
	return http.Header{"Retry-After": {strconv.Itoa(int((d + time.Second - 1) / time.Second))}}
}

// tokenize answers vLLM's and llama.cpp's form: {"prompt"} or {"content"} or {"messages"}.
func (s *Server) tokenize(k sink, q *request) {
	var in struct {
		ask
		Content *string `json:"content"`
	}
	err := json.Unmarshal(*q.body, &in)
	var tokens []uint64
	collect := func(text string) {
		Tokenize(text, func(_ int, h uint64) bool { tokens = append(tokens, h); return true })
	}
	n := 0
	switch {
	case err != nil:
	case len(in.Messages) > 0:
		var p prompt
		p, _, err = in.prompt(chat, 0)
		n = p.tokens
	case in.Content != nil:
		collect(*in.Content)
	case len(in.Prompt) > 0:
		err = eachText(in.Prompt, collect, nil)
	default:
		err = errors.New("prompt: Field required")
	}
	if err != nil {
		s.deny(k, http.StatusBadRequest, err.Error())
		return
	}
	n = max(n, len(tokens))
	numbers := []byte{'['}
	for i, t := range tokens {
		if i > 0 {
			numbers = append(numbers, ',')
		}
		numbers = strconv.AppendUint(numbers, t&(1<<31-1), 10)
	}
	s.reply(k, http.StatusOK, object(buffer(), "count", n, "max_model_len", s.cfg.MaxModelLen, "tokens", raw(append(numbers, ']'))))
}

// Stats is what /sim/stats answers: the server's own view of the load.
type Stats struct {
	InFlight         int64 `json:"in_flight"`
	MaxInFlight      int64 `json:"max_in_flight"` // most requests in flight at once since the start
	Running          int   `json:"running"`
	Waiting          int   `json:"waiting"`
	Requests         int64 `json:"requests"` // that reached one of the APIs
	Success          int64 `json:"success"`  // answered to the end
	Refused          int64 `json:"refused"`  // answered with an error status, asked for or not
	Canceled         int64 `json:"canceled"` // left by the client
	Faults           int64 `json:"faults"`   // requests with a fault injected
	Chunks           int64 `json:"chunks"`
	PromptTokens     int64 `json:"prompt_tokens"`
	GenerationTokens int64 `json:"generation_tokens"`
	CachedBlocks     int   `json:"cached_blocks"`
	CacheHits        int64 `json:"cache_hits"`    // tokens
	CacheQueries     int64 `json:"cache_queries"` // tokens
	SessionsIssued   int64 `json:"sessions_issued"`
	SessionsEchoed   int64 `json:"sessions_echoed"`
}

// Stats gives the server's own view of the load so far.
func (s *Server) Stats() Stats {
	l := s.accelerator.load()
	t := &s.stats
	return Stats{
		InFlight: t.inFlight.Load(), MaxInFlight: t.maxInFlight.Load(), Running: l.running, Waiting: l.waiting,
		Requests: t.requests.Load(), Success: t.success.Load(), Refused: t.refused.Load(), Canceled: t.canceled.Load(),
		Faults: t.faults.Load(), Chunks: s.chunks.Load(), PromptTokens: t.promptTokens.Load(), GenerationTokens: t.generationTokens.Load(),
		CachedBlocks: l.cached, CacheHits: l.hits, CacheQueries: l.queries,
		SessionsIssued: t.issued.Load(), SessionsEchoed: t.echoed.Load(),
	}
}

func (s *Server) simStats(k sink) {
	b, err := json.Marshal(s.Stats())
	if err != nil {
		b = appendError(nil, errText, 500, err.Error(), "")
	}
	s.reply(k, http.StatusOK, append(buffer(), b...))
}
