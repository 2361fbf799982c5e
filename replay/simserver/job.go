package simserver

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// job is one request of an API on its way through the server.
type job struct {
	s       *Server
	k       sink
	q       *request
	x       api
	plan    plan
	truth   Truth
	left    bool // no longer in flight
	work    work
	prompt  prompt
	a       answer
	enc     encoder
	buf     []byte
	headers http.Header
}

func (s *Server) serveAPI(k sink, q *request, x api) {
	seq := s.seq.Add(1) - 1
	s.stats.requests.Add(1)
	j := &job{s: s, k: k, q: q, x: x, plan: s.cfg.plan(seq)}
	j.truth = Truth{
		RequestID: q.r.Header.Get("X-Request-Id"), Path: x.path(), Seq: seq, Dialect: s.cfg.Dialect, ConnAge: q.age,
		ReceivedNS: q.received.UnixNano(), InFlight: s.stats.enter(), Fault: j.plan.name,
	}
	if j.plan.name != "" {
		s.stats.faults.Add(1)
	}
	defer func() {
		j.leave()
		s.truth.write(&j.truth)
	}()
	tag := tagWord(seq)
	prefix := [...]string{"chatcmpl-", "cmpl-", "resp_", "msg_", "sim-"}[x]
	j.a = answer{
		cfg: &s.cfg, d: s.d, id: prefix + s.run + "-" + tag, tag: tag, created: q.received,
		rnd: derive(s.cfg.Seed, "text", seq), noDone: j.plan.noDone,
	}
	if x == messages || x == responses {
		j.a.id = strings.ReplaceAll(j.a.id, "-", "")
	}
	j.truth.ResponseID = j.a.id
	j.session()
	j.serve()
}

// leave ends the request's time in flight and in its slot. It comes before the last bytes are written.
func (j *job) leave() {
	if j.left {
		return
	}
	j.left = true
	if j.work != nil {
		j.work.leave()
	}
	j.s.stats.inFlight.Add(-1)
}

// session issues the header and the cookie that the configuration asks for.
func (j *job) session() {
	j.headers = http.Header{}
	fresh := "s-" + j.a.tag
	if name := j.s.cfg.IssueHeader; name != "" {
		if v := j.q.r.Header.Get(name); v != "" {
			j.truth.Session = v
			j.s.stats.echoed.Add(1)
		} else {
			j.headers.Set(name, fresh)
			j.truth.Session = fresh
			j.s.stats.issued.Add(1)
		}
	}
	if j.s.cfg.Cookie {
		if c, err := j.q.r.Cookie("sim_session"); err == nil {
			j.truth.Session = c.Value
			j.s.stats.echoed.Add(1)
		} else {
			j.headers.Set("Set-Cookie", "sim_session="+fresh+"; Path=/; HttpOnly")
			j.truth.Session = fresh
			j.s.stats.issued.Add(1)
		}
	}
}

// style is the form of error bodies of the API.
func (j *job) style() errorStyle {
	switch j.x {
	case messages:
		return errClaude
	case ollamaChat:
		return errText
	}
	return j.s.d.errors
}

// refuse answers with an error status.
func (j *job) refuse(status int, message, member string) {
	j.leave()
	j.truth.Status = status
	j.s.stats.refused.Add(1)
	h := j.headers
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529 {
		for k, v := range j.s.retryHeader() {
			h[k] = v
		}
	}
	j.truth.EndNS = time.Now().UnixNano()
	j.s.replyHeader(j.k, status, h, appendError(buffer(), j.style(), status, message, member))
}

// gone notes that the client left.
func (j *job) gone(err error) {
	j.truth.Error = err.Error()
	j.s.stats.canceled.Add(1)
	j.k.abort(false)
}

func (j *job) serve() {
	s, cfg := j.s, &j.s.cfg
	if wait := s.loading(); wait > 0 {
		j.refuse(http.StatusServiceUnavailable, "Loading model", "")
		return
	}
	ask, err := parseAsk(j.x, *j.q.body)
	if err == nil {
		var seed uint64
		if j.prompt, seed, err = ask.prompt(j.x, cfg.BlockSize); err == nil {
			err = j.shape(ask, seed)
		}
	}
	j.q.release()
	if err != nil {
		j.refuse(http.StatusBadRequest, err.Error(), "")
		return
	}
	for _, r := range s.d.refuse {
		if ask.has(r.member) && (r.when == nil || r.when(cfg, j.x)) {
			j.refuse(r.status, r.message, r.member)
			return
		}
	}
	j.truth.Streaming = ask.streams(j.x)
	switch {
	case j.plan.never:
		j.gone(j.k.wait(time.Time{}))
		return
	case j.plan.tooMany:
		j.refuse(http.StatusTooManyRequests, "Too many requests: slow down.", "")
		return
	case j.plan.fail && s.d.failOK && j.truth.Streaming:
		j.plan.mid, j.a.tokens = "error_in_stream", 0
	case j.plan.fail:
		j.refuse(cfg.FailStatus, "The simulated server was asked to fail.", "")
		return
	}
	if cfg.MaxModelLen > 0 && j.prompt.tokens >= cfg.MaxModelLen {
		if !s.d.overflow {
			j.refuse(http.StatusBadRequest, fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens.", cfg.MaxModelLen, j.prompt.tokens), "messages")
			return
		}
		j.plan.empty = true
	}
	if j.plan.empty {
		j.a.tokens, j.a.reasoning, j.a.finish = 0, 0, "stop"
	}
	if !j.admit() {
		return
	}
	j.generate()
}

// shape decides on the answer's length and kind.
func (j *job) shape(ask *ask, seed uint64) error {
	cfg, d, a := &j.s.cfg, j.s.d, &j.a
	a.model = ask.Model
	if a.model == "" {
		a.model = cfg.Model
	}
	a.prompt = j.prompt.tokens
	draw := j.truth.Seq // what chance goes by
	if ask.greedy() {
		draw = j.prompt.chain
		a.tag, a.rnd = tagWord(draw), derive(cfg.Seed, "text", draw)
	}
	a.progress = ask.ReturnProgress && d.timings
	if o := ask.StreamOptions; o != nil {
		a.includeUsage = o.IncludeUsage
		a.continuousUsage = d.continuous && o.IncludeUsage && o.ContinuousUsageStats != nil && *o.ContinuousUsageStats
	}
	limit := ask.limit(j.x, d)
	if cfg.MaxModelLen > 0 {
		left := max(cfg.MaxModelLen-a.prompt, 1)
		if limit == 0 || limit > left {
			limit = left
		}
	}
	natural := cfg.Output/2 + int(derive(cfg.Seed, "length", seed)%uint64(cfg.Output+1))
	n := max(natural, 1)
	if d.minTokens && ask.MinTokens != nil {
		n = max(n, *ask.MinTokens)
	}
	a.finish = "stop"
	if d.ignoreEOS && ask.IgnoreEOS != nil && *ask.IgnoreEOS && limit > 0 && ask.limit(j.x, d) > 0 {
		n = limit
	}
	if limit > 0 && n >= limit {
		n, a.finish = limit, "length"
	}
	a.tokens = n
	if j.x != completions {
		a.reasoning = min(cfg.Reasoning, n)
	}
	if a.reasoning < n {
		switch {
		case unit(derive(cfg.Seed, "tools", draw)) < cfg.Tools && (j.x == chat || j.x == messages || j.x == responses || j.x == ollamaChat):
			a.tool, a.toolName, a.finish = true, ask.toolName(), "tool_calls" // a call is whole at any length
			a.nameApart = j.x == messages || j.x == responses
		case unit(derive(cfg.Seed, "refusal", draw)) < cfg.Refusal && (j.x == chat || j.x == responses):
			a.refusal = true
		}
	}
	return nil
}

// admit waits until the accelerator works on the request, and says whether it does.
func (j *job) admit() bool {
	var err error
	if j.work, err = j.s.accelerator.enqueue(j); err != nil {
		j.refuse(http.StatusBadRequest, "The prompt and its answer do not fit into the KV cache: "+err.Error(), "messages")
		return false
	}
	if j.work == nil {
		j.refuse(j.s.d.overload, "The server is overloaded: its queue is full.", "")
		return false
	}
	if err := j.work.admitted(); err != nil {
		j.gone(err)
		return false
	}
	j.truth.AdmittedNS = j.a.admitted.UnixNano()
	j.truth.Prompt, j.truth.Cached = j.prompt.tokens, j.a.cached
	j.s.stats.promptTokens.Add(int64(j.prompt.tokens))
	return true
}

// await waits for a channel, or until a moment if that is not zero, and fails when the client leaves.
func (j *job) await(c <-chan struct{}, until time.Time) error {
	gone, stop := j.k.watch()
	defer stop()
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-c:
	case <-timeout:
	case <-gone:
		return errPeerGone
	}
	return nil
}

// head sets the response's status and headers.
func (j *job) head(contentType string, length int) {
	h := j.headers
	h["Content-Type"] = []string{contentType}
	if contentType != jsonType {
		h["Cache-Control"] = []string{"no-cache"}
	}
	if id := j.truth.RequestID; id != "" && !strings.ContainsAny(id, "\r\n") {
		h["X-Request-Id"] = []string{id}
	}
	if length >= 0 {
		h["Content-Length"] = []string{strconv.Itoa(length)}
	}
	if f := newForm(j.plan.crlf && contentType != jsonType, j.plan.split, j.plan.gzip); f != nil {
		j.k.(interface{ setForm(*form) }).setForm(f)
		if j.plan.gzip {
			h["Content-Encoding"] = []string{"gzip"}
			delete(h, "Content-Length")
		}
	}
	j.truth.Status = http.StatusOK
	j.k.writeHead(http.StatusOK, h)
}

// fatten makes the next event of b[room:] a line of huge_line_bytes.
func (j *job) fatten(b []byte) []byte {
	i := bytes.IndexByte(b[room:], '{')
	if i < 0 {
		return b
	}
	i += room + 1
	pad := `"padding":"` + strings.Repeat("x", max(j.s.cfg.HugeLineBytes-len(b), 1)) + `",`
	out := make([]byte, 0, len(b)+len(pad)+16)
	out = append(out, b[:i]...)
	out = append(out, pad...)
	return append(out, b[i:]...)
}
