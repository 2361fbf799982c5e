package api

import (
	"bytes"

	"parley/replay/internal/sse"
)

// shape is the form of a response's body.
type shape uint8

const (
	undecided  shape = iota
	events           // text/event-stream
	lines            // newline-delimited JSON
	whole            // one JSON document, or the first line of several: see feedWhole
	failedBody       // the body of a response with a status other than 2xx
	notOurs          // something else, such as HTML
)

// decide tells the body's shape by its first byte that says anything, and by the content type where the
// byte leaves a choice. It gives what is left of b.
func (s *Stream) decide(b []byte) []byte {
	if s.sseType && b[0] != '{' {
		s.shape, s.streamed = events, 1
		return b
	}
	for len(s.pending) == 0 && len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:] // padding that keeps a connection busy
	}
	if len(b) == 0 {
		return nil
	}
	first := b[0]
	if len(s.pending) > 0 {
		first = s.pending[0]
	}
	switch first {
	case '{', '[':
		s.shape = whole
		if s.ndjson {
			s.shape, s.streamed = lines, 1
		}
	case ':', 0xef: // a comment, a byte-order mark
		s.shape, s.streamed = events, 1
	default:
		if len(s.pending) > 0 {
			s.pending = append(s.pending, b...)
			b = s.pending
		}
		switch beginsWithField(b) {
		case 1:
			s.shape, s.streamed = events, 1
		case -1:
			s.shape = notOurs
		default: // a piece of a name: it says nothing yet
			if len(s.pending) == 0 {
				s.pending = append(s.pending, b...)
			}
			return nil
		}
	}
	return b
}

// beginsWithField says whether b begins with the name of an event stream's field: 1 yes, -1 no, 0 not to
// be told before more bytes are there.
func beginsWithField(b []byte) int {
	for _, name := range [...]string{"data", "event", "id", "retry", "error"} {
		n := min(len(name), len(b))
		if string(b[:n]) != name[:n] {
			continue
		}
		switch {
		case len(b) <= len(name):
			return 0
		case b[len(name)] == ':' || b[len(name)] == '\n' || b[len(name)] == '\r':
			return 1
		}
	}
	return -1
}

func (s *Stream) feedEvents(b []byte, at int64) bool {
	s.parser.Feed(b, at)
	for {
		ev, ok := s.parser.Next()
		if !ok {
			break
		}
		if s.event(ev.Name, ev.Data, ev.At); s.over {
			return false
		}
	}
	if err := s.parser.Err(); err != nil {
		s.broken(KindEventTooLong, "an event of the stream is longer than the limit", err, at)
	}
	return !s.over
}

// feedLines takes newline-delimited JSON.
func (s *Stream) feedLines(b []byte, at int64) bool {
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			if s.room(len(b), at) {
				s.body = append(s.body, b...)
			}
			break
		}
		line := b[:n]
		b = b[n+1:]
		if len(s.body) > 0 {
			if !s.room(len(line), at) {
				break
			}
			s.body = append(s.body, line...)
			line = s.body
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.event(nil, line, at)
		}
		s.body = s.body[:0]
		if s.over {
			break
		}
	}
	return !s.over
}

// feedWhole gathers a body that is one JSON document, unless its first line turns out to be a document
// with more to follow: then it is newline-delimited JSON under another content type.
func (s *Stream) feedWhole(b []byte, at int64) bool {
	if s.streamed != 2 && !s.room(len(b), at) {
		return false
	}
	if s.streamed == 0 {
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			s.body = append(s.body, b...)
			return true
		}
		s.body = append(s.body, b[:n]...)
		b = b[n+1:]
		if !s.w.validJSON(s.body) {
			s.streamed = -1 // one document over several lines
			s.body = append(s.body, '\n')
		} else {
			s.streamed, s.bodyAt = 2, at // a whole document: what follows decides
		}
	}
	if s.streamed == -1 {
		s.body = append(s.body, b...)
		return true
	}
	if b = bytes.TrimLeft(b, " \t\r\n"); len(b) == 0 {
		return true
	}
	s.shape, s.streamed = lines, 1
	s.scratch = append(s.scratch[:0], s.body...)
	s.body = s.body[:0]
	if s.event(nil, s.scratch, s.bodyAt); s.over {
		return false
	}
	return s.feedLines(b, at)
}

// room says whether n more bytes of an unfinished body or line may be kept.
func (s *Stream) room(n int, at int64) bool {
	limit := s.MaxEvent
	if limit <= 0 {
		limit = sse.DefaultMaxEvent
	}
	if len(s.body)+n > limit {
		s.broken(KindEventTooLong, "the response is longer than the limit", sse.ErrTooLong, at)
		return false
	}
	return true
}
