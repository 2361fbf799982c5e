package api

import (
	"context"
	"errors"

	"parley/schemas"
)

// A Failure is why a turn did not end well, with the status and the kind that its row gets. The
// transport makes them for what happens below the body (connection, TLS, time limits), this package for
// what stands in the body.
type Failure struct {
	Status  schemas.Status
	Kind    string // one word: see the Kind constants
	Message string // in words, never with a secret
	Err     error  // what lies beneath, if anything
}

func (f *Failure) Error() string {
	if f.Message == "" {
		return string(f.Status) + ": " + f.Kind
	}
	return f.Message
}

func (f *Failure) Unwrap() error { return f.Err }

// Fill writes the failure into a row.
func (f *Failure) Fill(row *schemas.Request) {
	row.Status = string(f.Status)
	row.ErrorKind, row.ErrorMessage = nil, nil
	if f.Kind != "" {
		row.ErrorKind = &f.Kind
	}
	if f.Message != "" {
		row.ErrorMessage = &f.Message
	}
}

// AsFailure gives err as a Failure: itself if it is one, a timeout or canceled for a context's end, and
// a transport error of the kind "read" for anything else.
func AsFailure(err error) *Failure {
	var f *Failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Status: schemas.StatusTimeout, Kind: "timeout", Message: err.Error(), Err: err}
	case errors.Is(err, context.Canceled):
		return &Failure{Status: schemas.StatusCanceled, Kind: "canceled", Message: err.Error(), Err: err}
	}
	return &Failure{Status: schemas.StatusTransportError, Kind: "read", Message: err.Error(), Err: err}
}

// Kinds of failures that this package finds in responses.
const (
	KindBadRequest   = "bad_request"    // 400, 422 and other 4xx: the server did not understand
	KindContext      = "context"        // the prompt is longer than the model's context
	KindUnauthorized = "unauthorized"   // 401, 403
	KindNotFound     = "not_found"      // 404: wrong URL or model
	KindRedirect     = "redirect"       // 3xx
	KindRateLimited  = "rate_limited"   // 429
	KindOverloaded   = "overloaded"     // 503, 529, or an error of that type
	KindLoading      = "loading"        // 503 while the model is being loaded
	KindServerError  = "server_error"   // other 5xx
	KindGateway      = "gateway"        // 502, 504: a proxy could not reach the server
	KindBadStatus    = "bad_status"     // a status that no server should send
	KindErrorEvent   = "error_event"    // an error inside a 200
	KindAborted      = "aborted"        // the server ended the request with the finish reason abort or error
	KindNoFinish     = "no_finish"      // the stream ended without a finish reason
	KindCutEvent     = "cut_event"      // the stream ended inside an event
	KindNoTokens     = "no_tokens"      // finished without one token
	KindNotJSON      = "not_json"       // the body is not what the API sends
	KindEventTooLong = "event_too_long" // one event above the limit
	KindTextTooLong  = "text_too_long"  // the answer above the limit
)
