package api

import (
	"bytes"
	"math"

	"parley/replay/internal/sse"
	"parley/schemas"
)

// never is the stamp of a moment that has not come.
const never = math.MinInt64

// Limits where Stream's own are 0, and those that nobody needs to change.
const (
	defaultMaxText = 64 << 20
	maxErrorBody   = 64 << 10 // what is read of the body of an error response
	maxCalls       = 1024     // tool calls in one answer
	keepBuffer     = 64 << 10 // buffers above this are not kept over a Reset
)

// A Stream follows one response. It is used again and again: Reset, Head, Feed until it says that no
// more is needed or the body ends, Finish, Fill. It belongs to one goroutine.
type Stream struct {
	// DiscardText keeps no text of the answer: Answer is empty then.
	DiscardText bool
	// MaxText is the limit in bytes of the answer's and reasoning's text together; 0 means 64 MiB.
	MaxText int
	// MaxEvent is the limit in bytes of one event, and of a body that is not a stream; 0 means 64 MiB.
	MaxEvent int
	// Secrets are blotted out of error messages, in case a server repeats what it was sent.
	Secrets []string

	api        *API
	status     int
	hasHead    bool
	ndjson     bool // by the content type
	sseType    bool
	retryAfter string
	location   string

	shape    shape
	parser   sse.Parser
	pending  []byte // the first bytes, while they do not tell the shape
	body     []byte // of a whole response or an error, or the unfinished line of NDJSON
	bodyAt   int64  // stamp of the feed that completed body's first line, see feedWhole
	w        walker
	over     bool // the content has ended: nothing that follows counts
	finished bool

	ev       marks // of the event at hand
	terminal bool
	sawDone  bool
	streamed int8 // 0 unknown, 1 yes, -1 no, 2 a whole JSON document came, and perhaps more will
	cut      bool // the body ended inside an event
	fail     *Failure

	count       int64
	lastAt      int64
	firstEvent  int64
	firstToken  int64
	firstAnswer int64
	lastToken   int64
	done        int64
	chunkNS     []int64
	chunkTokens []int64
	chunks      int64 // token-bearing chunks, whole responses included

	usage       usage
	finalUsage  bool // usage holds one that came at the end
	continuous  bool // usage came with chunks on the way
	cumulative  int64
	timings     usage // llama.cpp's, where usage says nothing
	finish      []byte
	id          []byte
	text        []byte
	reasoning   []byte
	refusal     []byte
	signature   []byte
	scratch     []byte
	calls       []call
	textSeen    bool // the answer had text or calls by deltas
	reasonsSeen bool
}

// call is one tool call as it is put together.
type call struct {
	index    int64
	id, name []byte
	args     []byte
}

// marks say what one event held.
type marks struct {
	answer    bool // text, refusal or tool-call data
	reasoning bool
	choice    bool // something that may hold tokens was there, filled or not
	usage     usage
	hasUsage  bool
	terminal  bool
	errText   []byte // the raw error value
	isError   bool

	message, kind, code bool // members of an error in a flat form: see flatError
}

// Reset makes the stream ready for a response of an API.
func (s *Stream) Reset(a *API) {
	keep := func(b []byte) []byte {
		if cap(b) > keepBuffer {
			return nil
		}
		return b[:0]
	}
	calls := s.calls[:0]
	if cap(calls) > 16 {
		calls = nil
	}
	s.parser.MaxEvent = s.MaxEvent
	s.parser.Reset()
	*s = Stream{
		DiscardText: s.DiscardText, MaxText: s.MaxText, MaxEvent: s.MaxEvent, Secrets: s.Secrets,
		api: a, parser: s.parser, w: walker{keyBuf: keep(s.w.keyBuf)},
		lastAt: never, firstEvent: never, firstToken: never, firstAnswer: never, lastToken: never, done: never,
		chunkNS: s.chunkNS[:0], chunkTokens: s.chunkTokens[:0],
		pending: keep(s.pending), body: keep(s.body), finish: keep(s.finish), id: keep(s.id), text: keep(s.text),
		reasoning: keep(s.reasoning), refusal: keep(s.refusal), signature: keep(s.signature),
		scratch: keep(s.scratch), calls: calls, usage: noUsage, timings: noUsage,
	}
}

// Head takes the response's status code and headers. header gives a header's value by its canonical
// name, "" where there is none; it is not kept.
func (s *Stream) Head(status int, header func(name string) string) {
	s.status, s.hasHead = status, true
	s.retryAfter = header("Retry-After")
	kind := header("Content-Type")
	s.ndjson = hasFold(kind, "ndjson") || hasFold(kind, "jsonl") || hasFold(kind, "json-seq") || hasFold(kind, "stream+json")
	s.sseType = hasFold(kind, "event-stream")
	if status < 200 || status > 299 {
		s.shape = failedBody
		s.location = header("Location")
	}
}

// hasFold says whether the ASCII string s contains sub (in lower case), whatever the case of s.
func hasFold(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		j := 0
		for j < len(sub) && (s[i+j] == sub[j] || s[i+j] >= 'A' && s[i+j] <= 'Z' && s[i+j]+'a'-'A' == sub[j]) {
			j++
		}
		if j == len(sub) {
			return true
		}
	}
	return false
}

// Feed takes the next bytes of the body (decoded from chunked and from any content encoding), which
// arrived at the time at, in nanoseconds since the run's origin. more is false once the response is
// over as far as its content goes, be it by its end marker or by an error: whatever follows may be
// drained or dropped. b is not kept.
func (s *Stream) Feed(b []byte, at int64) (more bool) {
	if s.over || s.finished || len(b) == 0 {
		return !s.over && !s.finished
	}
	s.lastAt = at
	if s.shape == undecided {
		if b = s.decide(b); len(b) == 0 {
			return true
		}
	}
	switch s.shape {
	case events:
		return s.feedEvents(b, at)
	case lines:
		return s.feedLines(b, at)
	case whole:
		return s.feedWhole(b, at)
	default:
		room := maxErrorBody - len(s.body)
		s.body = append(s.body, b[:min(room, len(b))]...)
		if len(b) >= room {
			s.end(at)
		}
		return !s.over
	}
}

// broken ends the stream with an error of its own making.
func (s *Stream) broken(kind, message string, err error, at int64) {
	if s.fail == nil {
		s.fail = &Failure{Status: schemas.StatusStreamError, Kind: kind, Message: s.clean(message), Err: err}
	}
	s.end(at)
}

// end ends the content: the moment counts as done, whatever follows.
func (s *Stream) end(at int64) {
	s.over = true
	if s.done == never {
		s.done = at
	}
}

// event takes one data event of a stream.
func (s *Stream) event(name, data []byte, at int64) {
	data = bytes.TrimSpace(data)
	failed := string(name) == "error"
	if len(data) == 0 && !failed {
		return
	}
	if string(data) == "[DONE]" {
		s.sawDone = true
		s.end(at)
		return
	}
	s.count++
	if s.firstEvent == never {
		s.firstEvent = at
	}
	if !s.decode(name, data) {
		if failed {
			s.failEvent(data, at)
			return
		}
		s.broken(KindNotJSON, "an event of the stream is not JSON: "+excerpt(data), nil, at)
		return
	}
	if s.ev.isError || failed {
		if s.ev.errText == nil {
			s.ev.errText = data
		}
		s.failEvent(s.ev.errText, at)
		return
	}
	s.account(at)
	if s.ev.terminal {
		s.terminal, s.sawDone = true, true
		s.end(at)
	}
}

// account books what the event at hand proves.
func (s *Stream) account(at int64) {
	ev := &s.ev
	rise, carried := false, int64(0)
	finished := len(s.finish) > 0 // by this event or an earlier one
	if ev.hasUsage && ev.usage.some() {
		if n := ev.usage.completion; n > s.cumulative {
			carried = n - s.cumulative
			// A usage that comes only with the finish tells the sum, not that this chunk held a token.
			rise = ev.choice && (!finished || s.continuous)
			s.cumulative = n
		}
		s.finalUsage = !ev.choice || finished
		if !s.finalUsage {
			s.continuous = true
		}
		s.usage.merge(&ev.usage)
	}
	if !ev.answer && !ev.reasoning && !rise {
		return
	}
	s.chunks++
	if s.firstToken == never {
		s.firstToken = at
	}
	if ev.answer && s.firstAnswer == never {
		s.firstAnswer = at
	}
	s.lastToken = at
	s.chunkNS = append(s.chunkNS, at)
	s.chunkTokens = append(s.chunkTokens, carried)
	s.textSeen = s.textSeen || ev.answer
	s.reasonsSeen = s.reasonsSeen || ev.reasoning
	limit := s.MaxText
	if limit <= 0 {
		limit = defaultMaxText
	}
	if s.textSize() > limit {
		s.broken(KindTextTooLong, "the answer is longer than the limit of its text", nil, at)
	}
}

func (s *Stream) textSize() int {
	n := len(s.text) + len(s.reasoning) + len(s.refusal) + len(s.signature)
	for i := range s.calls {
		n += len(s.calls[i].id) + len(s.calls[i].name) + len(s.calls[i].args)
	}
	return n
}

// decode reads one JSON document of the API into the marks and the texts; it says whether it was JSON.
func (s *Stream) decode(name, data []byte) bool {
	s.ev = marks{}
	s.w.start(data)
	switch s.api.Kind {
	case Responses:
		s.decodeResponses(name)
	case Anthropic:
		s.decodeAnthropic()
	case Ollama:
		s.decodeOllama()
	default:
		s.decodeChat()
	}
	return s.w.end()
}

// Finish ends the response at the time at: cause is nil at the body's regular end (or after Feed
// returned false), else what broke it off, best a *Failure.
func (s *Stream) Finish(at int64, cause error) {
	if s.finished {
		return
	}
	switch {
	case s.over:
	case s.shape == undecided && len(s.pending) > 0:
		s.shape = notOurs
		s.body = append(s.body, s.pending...)
	case s.shape == events:
		if ev, ok := s.parser.Tail(); ok {
			s.lastEvent(ev.Name, ev.Data, ev.At)
		}
	case s.shape == lines && len(bytes.TrimSpace(s.body)) > 0:
		s.lastEvent(nil, s.body, s.lastAt)
	case s.shape == whole:
		s.finishWhole()
	}
	s.finished, s.over = true, true
	if s.done == never {
		s.done = at
	}
	s.verdict(cause)
}

// lastEvent takes what a stream held after its last complete event: whole if it is JSON or the end
// marker (some servers leave out the last line end) or an error in plain words, else cut off.
func (s *Stream) lastEvent(name, data []byte, at int64) {
	trimmed := bytes.TrimSpace(data)
	if string(trimmed) != "[DONE]" && string(name) != "error" && !s.w.validJSON(trimmed) {
		s.cut = true
		return
	}
	s.event(name, data, at)
}

// finishWhole reads a body that is one JSON document. It has no first token and no gaps; its last token
// came with its last byte.
func (s *Stream) finishWhole() {
	s.streamed = -1
	if body := bytes.TrimSpace(s.body); !s.decode(nil, body) {
		if s.cut = s.w.short; !s.cut {
			s.broken(KindNotJSON, "the response is not JSON: "+excerpt(body), nil, s.lastAt)
		}
		return
	}
	if s.ev.isError {
		s.failEvent(s.ev.errText, s.lastAt)
		return
	}
	if s.ev.hasUsage && s.ev.usage.some() {
		s.usage.merge(&s.ev.usage)
		s.finalUsage = true
	}
	if s.ev.answer || s.ev.reasoning {
		s.chunks = 1
		s.lastToken = s.lastAt
	}
	s.terminal = s.ev.terminal
}

// verdict settles how the response ended.
func (s *Stream) verdict(cause error) {
	switch {
	case s.fail != nil:
	case s.hasHead && (s.status < 200 || s.status > 299):
		s.fail = s.httpFailure()
	case s.shape == notOurs:
		s.fail = &Failure{Status: schemas.StatusStreamError, Kind: KindNotJSON,
			Message: s.clean("the response is neither an event stream nor JSON: " + excerpt(s.body) + "; check the URL and --api")}
	case len(s.finish) == 0 && !s.terminal && cause != nil:
		s.fail = AsFailure(cause)
	case !s.hasHead:
		s.fail = &Failure{Status: schemas.StatusTransportError, Kind: "no_response", Message: "no response"}
	case string(s.finish) == "abort" || string(s.finish) == "error":
		s.fail = &Failure{Status: schemas.StatusStreamError, Kind: KindAborted,
			Message: "the server broke the answer off with the finish reason " + string(s.finish)}
	case len(s.finish) == 0 && !s.terminal:
		s.fail = &Failure{Status: schemas.StatusIncomplete, Kind: KindNoFinish,
			Message: "the response ended without a finish reason"}
		if s.cut {
			s.fail.Kind, s.fail.Message = KindCutEvent, "the response ended inside an event"
		}
	case s.chunks == 0 && s.completion() <= 0:
		s.fail = &Failure{Status: schemas.StatusEmpty, Kind: KindNoTokens,
			Message: "the server finished without one token"}
	}
}

// Failure gives why the response is not a success, nil for one that is. It is settled by Finish.
func (s *Stream) Failure() *Failure { return s.fail }
