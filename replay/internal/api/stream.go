package api

import (
	"time"

	"parley/schemas"
)

// Answer is what the server said.
type Answer struct {
	Message   schemas.Message // role assistant, content, tool calls in OpenAI's form
	Reasoning string          // the reasoning's text
	Signature string          // Anthropic's signature of the reasoning, which must go back with it
}

// A Stream follows one response. It is used again and again: Reset, Head, Feed until it says that no
// more is needed or the body ends, Finish, Fill. It belongs to one goroutine.
type Stream struct {
	// DiscardText keeps no text of the answer: Answer is empty then.
	DiscardText bool
	// MaxText is the limit in bytes of the answer's and reasoning's text together; 0 means 64 MiB.
	MaxText int
	// MaxEvent is the limit in bytes of one event, and of a body that is not a stream; 0 means 64 MiB.
	MaxEvent int
}

// Reset makes the stream ready for a response of an API.
func (s *Stream) Reset(a *API) {}

// Head takes the response's status code and headers. header gives a header's value by its canonical
// name, "" where there is none; it is not kept.
func (s *Stream) Head(status int, header func(name string) string) {}

// Feed takes the next bytes of the body (decoded from chunked and from any content encoding), which
// arrived at the time at, in nanoseconds since the run's origin. more is false once the response is
// over as far as its content goes, be it by its end marker or by an error: whatever follows may be
// drained or dropped. b is not kept.
func (s *Stream) Feed(b []byte, at int64) (more bool) { return true }

// Finish ends the response at the time at: cause is nil at the body's regular end (or after Feed
// returned false), else what broke it off, best a *Failure.
func (s *Stream) Finish(at int64, cause error) {}

// Fill writes into the row all that the response said: http_status, status and error, finish_reason,
// saw_done, streamed, response_id, the moments from first_event_ns to done_ns, events, comments, token
// counts and their source, and the chunk lists. The text columns are not filled: see Answer.
func (s *Stream) Fill(row *schemas.Request) {}

// Answer gives the text and the tool calls of the answer. It allocates.
func (s *Stream) Answer() Answer { return Answer{} }

// Failure gives why the response is not a success, nil for one that is.
func (s *Stream) Failure() *Failure { return nil }

// RetryAfter gives the wait that the server asked for with Retry-After, in either form (seconds or a
// date, which is held against now).
func (s *Stream) RetryAfter(now time.Time) (time.Duration, bool) { return 0, false }

// LastActivity gives the stamp of the last bytes of any kind, comments included; 0 before the first.
func (s *Stream) LastActivity() int64 { return 0 }
