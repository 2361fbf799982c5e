package api

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/schemas"
)

// maxMessage is the length in bytes at which a server's error message is cut.
const maxMessage = 1000

// errorMember takes a top-level member that no decoder knows, and notes what belongs to an error:
// `"error"` with anything in it, and the members of the flat forms, which flatError judges.
func (s *Stream) errorMember() {
	w := &s.w
	switch string(w.key) {
	case "error":
		if raw := w.skip(); !emptyValue(raw) {
			s.ev.isError, s.ev.errText = true, raw
		}
	case "object":
		if raw, ok := w.str(); ok && string(raw) == "error" {
			s.ev.isError = true
		}
	case "detail":
		if raw := w.skip(); !emptyValue(raw) {
			s.ev.message, s.ev.code = true, true
		}
	case "message":
		_, s.ev.message = w.str()
	case "type":
		_, s.ev.kind = w.str()
	case "error_type": // nothing but an error has one, with a message or without
		if raw, ok := w.str(); ok && len(raw) > 0 {
			s.ev.isError = true
		}
	case "code", "status":
		s.ev.code = !emptyValue(w.skip())
	default:
		w.skip()
	}
}

// flatError finishes what errorMember began: an event that has a message and a type or a code, but
// nothing of an answer, is an error in a flat form.
func (s *Stream) flatError() {
	if s.w.bad {
		return
	}
	ev := &s.ev
	if ev.message && (ev.kind || ev.code) && !ev.choice && !ev.hasUsage && !ev.answer && !ev.reasoning {
		ev.isError = true
	}
	if ev.isError && ev.errText == nil {
		ev.errText = s.w.b
	}
}

// emptyValue says whether a raw JSON value is null, false, "" or an object or array of nothing.
func emptyValue(raw []byte) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]", "0":
		return true
	}
	return false
}

// failEvent ends the stream with an error that the server sent inside a 2xx response.
func (s *Stream) failEvent(raw []byte, at int64) {
	d := readError(raw)
	if len(raw) != len(s.w.b) { // what stands beside the error (TGI's error_type)
		d.fill(readError(s.w.b))
	}
	kind := classify(d.status(), d)
	if kind == "" {
		kind = KindErrorEvent
	}
	switch {
	case d.message != "":
	case len(raw) > 0 && !s.w.validJSON(raw): // a text by itself
		d.message = string(raw)
	default:
		d.message = "the server sent an error without a message"
		if len(raw) > 0 {
			d.message += ": " + excerpt(raw)
		}
	}
	s.fail = &Failure{Status: schemas.StatusStreamError, Kind: kind, Message: s.clean(d.message)}
	s.end(at)
}

// httpFailure makes the failure of a response with a status other than 2xx.
func (s *Stream) httpFailure() *Failure {
	kind := ErrorKind(s.status, s.body)
	message := "HTTP " + strconv.Itoa(s.status)
	if text := http.StatusText(s.status); text != "" {
		message += " " + text
	}
	if text := errorText(s.body); text != "" {
		message += ": " + text
	}
	if kind == KindRedirect && s.location != "" {
		if u, err := url.Parse(s.location); err == nil { // without user, query and fragment
			to := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
			message += ": to " + to.String() + "; give that as --url"
		}
	}
	return &Failure{Status: schemas.StatusHTTPError, Kind: kind, Message: s.clean(message)}
}

// ErrorKind gives the kind of failure that the status and the body of a response tell.
func ErrorKind(status int, body []byte) string {
	if kind := classify(status, readError(body)); kind != "" {
		return kind
	}
	return KindBadStatus
}

// ErrorText gives in words what the body of an error says, fit for a terminal; "" where it says nothing.
func ErrorText(body []byte) string { return Clean(errorText(body), nil) }

func errorText(body []byte) string {
	if d := readError(body); d.message != "" {
		return d.message
	}
	if body = bytes.TrimSpace(body); len(body) > 0 {
		return excerpt(body)
	}
	return ""
}

// detail is what could be read of an error in any of the forms that servers send.
type detail struct {
	message, kind, code string
}

// status gives the HTTP status that an error names as its code, 0 for none.
func (d detail) status() int {
	n, err := strconv.Atoi(d.code)
	if err != nil || n < 100 || n > 599 {
		return 0
	}
	return n
}

// fill takes over from e what d does not say.
func (d *detail) fill(e detail) {
	if d.message == "" {
		d.message = e.message
	}
	if d.kind == "" {
		d.kind = e.kind
	}
	if d.code == "" {
		d.code = e.code
	}
}

// readError reads an error: the value of an "error" member or a whole body, JSON or an event stream with
// JSON in it. The forms: {"error":{"message","type","param","code"}} with a code that is a number or a
// string, {"error":"text","error_type":..}, {"error":"text"}, a flat {"message","type","code"},
// {"object":"error","message"}, {"detail":..} with a text or FastAPI's list, a bare string, and a list
// of one of these.
func readError(raw []byte) (d detail) {
	raw = bytes.TrimSpace(raw)
	for _, line := range bytes.Split(raw, []byte("\n")) { // an event stream under an error status
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			raw = bytes.TrimSpace(rest)
			break
		}
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		d.read(v, 0)
	}
	return d
}

// read takes what is not known yet from an error's JSON.
func (d *detail) read(v any, depth int) {
	if depth > 4 {
		return
	}
	put := func(to *string, v any) {
		if text, ok := v.(string); ok && *to == "" {
			*to = text
		} else if n, ok := v.(float64); ok && *to == "" && to == &d.code && n == math.Trunc(n) {
			*to = strconv.FormatFloat(n, 'f', -1, 64)
		}
	}
	switch v := v.(type) {
	case string:
		put(&d.message, v)
	case []any:
		for _, e := range v {
			d.read(e, depth+1)
		}
	case map[string]any:
		for _, name := range [...]string{"type", "error_type"} {
			put(&d.kind, v[name])
		}
		for _, name := range [...]string{"code", "http_status_code", "status_code", "status"} {
			put(&d.code, v[name])
		}
		// A message may be an object with details (Mistral, FastAPI).
		for _, name := range [...]string{"message", "msg", "error_message", "error", "detail", "errors", "response"} {
			d.read(v[name], depth+1)
		}
	}
}

// classify gives the kind of an error by its HTTP status (0 for none) and by what it says; "" for an
// error without a status that says nothing of a known kind.
func classify(status int, d detail) string {
	kind, message := strings.ToLower(d.kind+" "+d.code), strings.ToLower(d.message)
	has := func(s string, subs ...string) bool {
		for _, sub := range subs {
			if strings.Contains(s, sub) {
				return true
			}
		}
		return false
	}
	switch {
	case has(kind, "context_length", "exceed_context") || has(message, "context length", "maximum context", "context window",
		"context size", "prompt is too long", "must have less than", "max_new_tokens` must be", "longer than the model's"):
		return KindContext
	case status == 503 && has(message, "loading"):
		return KindLoading
	case has(kind, "overloaded", "capacity") || status == 503 || status == 529:
		return KindOverloaded
	case status == 429 || has(kind, "rate_limit", "too_many_requests"):
		return KindRateLimited
	case status == 401 || status == 403 || has(kind, "authentication", "permission", "invalid_api_key", "no_db_connection"): // the last is LiteLLM's, for a key that is not its own
		return KindUnauthorized
	case status == 404 || has(kind, "not_found"):
		return KindNotFound
	case status >= 300 && status < 400:
		return KindRedirect
	case status == 502 || status == 504:
		return KindGateway
	case status >= 500:
		return KindServerError
	case status >= 400:
		return KindBadRequest
	}
	return ""
}

// excerpt gives the beginning of bytes that are not what was expected.
func excerpt(b []byte) string {
	const most = 160
	b = bytes.TrimSpace(b)
	if len(b) <= most {
		return strconv.Quote(string(b))
	}
	return strconv.Quote(string(b[:most])) + "..."
}

// clean makes a server's text fit for a file and a terminal: secrets are blotted out, control
// characters become spaces, what is not UTF-8 becomes U+FFFD, and the length is bounded.
func (s *Stream) clean(message string) string { return Clean(message, s.Secrets) }

// Clean blots the secrets out of a message that may repeat what a server or a proxy said, makes control
// characters into spaces and bounds the length.
func Clean(message string, secrets []string) string {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		message = strings.ReplaceAll(message, secret, "[secret]")
		if q := strconv.Quote(secret); len(q) > 2 { // as an excerpt shows it
			message = strings.ReplaceAll(message, q[1:len(q)-1], "[secret]")
		}
	}
	message = strings.Map(func(r rune) rune {
		if schemas.Unprintable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(message, "\ufffd"))
	if len(message) > maxMessage {
		cut := maxMessage
		for !utf8.RuneStart(message[cut]) {
			cut--
		}
		message = message[:cut] + "..."
	}
	return message
}

// RetryAfter gives the wait that the server asked for with Retry-After, in either form (seconds or a
// date, which is held against now).
func (s *Stream) RetryAfter(now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(s.retryAfter)
	if value == "" {
		return 0, false
	}
	if sec, err := strconv.ParseFloat(value, 64); err == nil {
		if !(sec >= 0 && sec < 1e9) {
			return 0, false
		}
		return time.Duration(sec * float64(time.Second)), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now), 0), true
}
