package api

import (
	"errors"

	"parley/schemas"
)

// A History is the conversation so far, as the API wants it sent. Each message is encoded once, when it
// is appended; a request's body is the bytes so far and a short tail, however long the history is. It
// belongs to one goroutine.
type History struct {
	api  *API
	opts HistoryOptions
	n    int
}

// NewHistory begins a conversation. The error names what is wrong with the tools or the body.
func (a *API) NewHistory(o HistoryOptions) (*History, error) {
	return &History{api: a, opts: o}, nil
}

// Append adds a message of the dataset.
func (h *History) Append(m schemas.Message) error {
	h.n++
	return errors.ErrUnsupported
}

// AppendAnswer adds the server's own answer. recorded is the assistant message that the dataset has in
// its place, nil where it has none: what comes next in the dataset follows on that one, so the answer is
// made to fit. Where the recorded message calls tools and the answer calls as many, the tool results
// that follow are sent under the answer's ids; where it calls another number, the recorded message goes
// into the history instead; where only the answer calls tools, its text goes in without the calls. An
// answer without text and without calls is replaced by the recorded message. live says whether the
// server's answer went in.
func (h *History) AppendAnswer(a Answer, recorded *schemas.Message) (live bool, err error) {
	h.n++
	return true, errors.ErrUnsupported
}

// Messages gives the number of messages so far.
func (h *History) Messages() int { return h.n }

// Body gives the body of a request with all messages so far, in segments to be written one after the
// other. They are valid until the next call of a method of the history.
func (h *History) Body(p *Params) ([][]byte, error) {
	return nil, errors.ErrUnsupported
}
