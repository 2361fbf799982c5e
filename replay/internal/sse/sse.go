// Package sse parses event streams (text/event-stream) as they arrive, by the rules of the WHATWG HTML
// standard, section 9.2.6: https://html.spec.whatwg.org/multipage/server-sent-events.html
//
// A [Parser] is fed the bytes of a response body in whatever pieces the network gives them, each with
// the time at which it arrived, and yields complete events:
//
//	p.Feed(b, at)
//	for {
//		ev, ok := p.Next()
//		if !ok {
//			break
//		}
//		...
//	}
//	if err := p.Err(); err != nil { ... }
//
// It differs from a browser where a browser would discard without a word what a server means to tell:
// [Parser.Tail] gives what stood unfinished at the end of the stream; a field named error counts as an event of that
// name with this data; and an event named error is given also when it has no data, with its comments in their place
// (Dynamo tells its errors there).
package sse

import (
	"bytes"
	"errors"
)

// DefaultMaxEvent is the limit of an event's bytes (its data and the line in progress) where
// [Parser.MaxEvent] is 0. Real servers send single lines above 1 MiB.
const DefaultMaxEvent = 64 << 20

// keepBuffer is the largest buffer that a parser keeps when it is reset, so that one huge event does
// not hold its memory for the rest of a run.
const keepBuffer = 64 << 10

// ErrTooLong says that an event was longer than the parser's limit. The stream cannot be followed any
// further: nothing says where the next event begins until the line ends, and it may never end.
var ErrTooLong = errors.New("event longer than the limit")

// An Event is one dispatched event. Its slices are valid until the next call of a method of the parser.
type Event struct {
	Name []byte // the event field; empty where the stream gave none ("message" to a browser)
	Data []byte // the data lines, joined with LF
	ID   []byte // the last event id seen so far in the stream
	At   int64  // the stamp of the feed that completed the event
}

// A Parser is the state of one stream. The zero value is ready for use.
type Parser struct {
	// MaxEvent is the limit in bytes of one event and of one line; 0 means DefaultMaxEvent.
	MaxEvent int

	in []byte // what the current feed has left
	at int64

	line    []byte // the beginning of a line that earlier feeds did not finish
	data    []byte // data of the event in progress, where it had to be copied
	view    []byte // data of the event in progress, inside the current feed
	hasView bool   // the event's data is view, not data
	hasData bool   // a data field was seen in the event in progress
	name    []byte
	id      []byte
	comment []byte // comments of the event in progress, joined with LF

	began  bool // the place where a byte-order mark may stand is behind us
	skipLF bool // the last line ended in CR: an LF that follows belongs to it
	clear  bool // an event was given out: its name and data go at the next call
	err    error

	comments int64
}

// Reset makes the parser ready for a new stream. Buffers of a common size are kept.
func (p *Parser) Reset() {
	keep := func(b []byte) []byte {
		if cap(b) > keepBuffer {
			return nil
		}
		return b[:0]
	}
	*p = Parser{
		MaxEvent: p.MaxEvent,
		line:     keep(p.line), data: keep(p.data), name: keep(p.name), id: keep(p.id), comment: keep(p.comment),
	}
}

// Feed hands the parser the next bytes of the stream, which arrived at the time at. The parser refers to
// b until Next has returned false; a caller must not change it before, and must not feed again before.
func (p *Parser) Feed(b []byte, at int64) {
	p.in, p.at = b, at
}

// Next gives the next complete event, or false when the fed bytes hold no further one or the stream
// broke a limit (see Err).
func (p *Parser) Next() (Event, bool) {
	if p.clear {
		p.clearEvent()
	}
	if p.err != nil {
		p.in = nil
		return Event{}, false
	}
	for len(p.in) > 0 {
		if p.skipLF {
			p.skipLF = false
			if p.in[0] == '\n' {
				p.in = p.in[1:]
				continue
			}
		}
		n := lineEnd(p.in)
		if n < 0 {
			break
		}
		line := p.in[:n]
		p.skipLF = p.in[n] == '\r'
		p.in = p.in[n+1:]
		if !p.room(len(line)) {
			return Event{}, false
		}
		copied := false
		if len(p.line) > 0 {
			p.line = append(p.line, line...)
			line, copied = p.line, true
		}
		ev, ok := p.take(line, copied)
		p.line = p.line[:0]
		if ok {
			return ev, true
		}
	}
	// No further line end: keep what is needed, because the fed bytes belong to the caller.
	if len(p.in) > 0 {
		if !p.room(len(p.in)) {
			return Event{}, false
		}
		p.line = append(p.line, p.in...)
		p.in = nil
	}
	if p.hasView {
		p.data = append(p.data[:0], p.view...)
		p.view, p.hasView = nil, false
	}
	return Event{}, false
}

// lineEnd gives the index of the first CR or LF in b, or -1.
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	line := b
	if n >= 0 {
		line = b[:n]
	}
	if r := bytes.IndexByte(line, '\r'); r >= 0 {
		return r
	}
	return n
}

// room says whether n more bytes of a line fit beside the event in progress, and sets the error when not.
func (p *Parser) room(n int) bool {
	limit := p.MaxEvent
	if limit <= 0 {
		limit = DefaultMaxEvent
	}
	held := len(p.line) + len(p.data) + len(p.comment)
	if p.hasView {
		held += len(p.view)
	}
	if held+n > limit {
		p.err = ErrTooLong
		p.in, p.view, p.hasView = nil, nil, false
		return false
	}
	return true
}

// take works off one whole line, and gives an event when the line completed one. copied says that the
// line stands in p.line, whose bytes the next line overwrites.
func (p *Parser) take(line []byte, copied bool) (Event, bool) {
	if !p.began {
		p.began = true
		line = bytes.TrimPrefix(line, bom)
	}
	if len(line) == 0 {
		return p.dispatch()
	}
	if line[0] == ':' {
		p.comments++
		if len(p.comment) > 0 {
			p.comment = append(p.comment, '\n')
		}
		p.comment = append(p.comment, bytes.TrimPrefix(line[1:], space)...)
		return Event{}, false
	}
	field, value := line, []byte(nil)
	if colon := bytes.IndexByte(line, ':'); colon >= 0 {
		field, value = line[:colon], line[colon+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(field) {
	case "data":
		p.addData(value, copied)
	case "event":
		p.name = append(p.name[:0], value...)
	case "error":
		p.name = append(p.name[:0], field...)
		p.addData(value, copied)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.id = append(p.id[:0], value...)
		}
	}
	return Event{}, false
}

var bom, space = []byte("\ufeff"), []byte(" ")

// addData adds one data line to the event in progress.
func (p *Parser) addData(value []byte, copied bool) {
	if !p.hasData && !copied {
		p.view, p.hasView, p.hasData = value, true, true
		return
	}
	if p.hasView {
		p.data = append(p.data[:0], p.view...)
		p.view, p.hasView = nil, false
	}
	if p.hasData {
		p.data = append(p.data, '\n')
	}
	p.data = append(p.data, value...)
	p.hasData = true
}

// dispatch ends the event in progress at an empty line.
func (p *Parser) dispatch() (Event, bool) {
	failed := string(p.name) == "error"
	if !p.hasData && !failed {
		p.name, p.comment = p.name[:0], p.comment[:0] // by the standard: no data, no event, and the name is forgotten
		return Event{}, false
	}
	data := p.data
	if p.hasView {
		data = p.view
	}
	if failed && len(data) == 0 {
		data = p.comment
	}
	p.clear = true
	return Event{Name: p.name, Data: data, ID: p.id, At: p.at}, true
}

func (p *Parser) clearEvent() {
	p.clear, p.hasData, p.hasView, p.view = false, false, false, nil
	p.data, p.name, p.comment = p.data[:0], p.name[:0], p.comment[:0]
}

// Err gives the error that ended the parsing, [ErrTooLong], or nil.
func (p *Parser) Err() error { return p.err }

// Comments gives the number of comment lines so far.
func (p *Parser) Comments() int64 { return p.comments }

// Tail is to be called once the stream has ended and Next has returned false. It gives the event that
// stood unfinished there: ok is false when nothing did. A browser discards such an event; some servers
// leave out the last empty line, so whoever reads the data may find it whole. The line that was in
// progress counts as ended. The event carries the stamp of the last feed.
func (p *Parser) Tail() (ev Event, ok bool) {
	if p.clear {
		p.clearEvent()
	}
	if p.err != nil {
		return Event{}, false
	}
	if len(p.line) > 0 {
		p.take(p.line, true)
		p.line = p.line[:0]
	}
	return p.dispatch()
}
