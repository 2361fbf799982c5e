package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of what is taken as one record. A record is held in memory whole, several of them at once.
const (
	maxRecord = 256 << 20
	maxDepth  = 500
)

// record is one JSON value of a file, found by its brackets and quotes and not yet parsed.
type record struct {
	data   []byte // the scanner's own memory, valid until the next call
	off    int64  // where it begins in the file
	line   int64  // the line on which it begins, from 1
	number int64  // its number in the file, from 1
	bad    string // why it is none; data is empty then
}

// scanner cuts a file into records without holding more than one: the elements of one large array, or
// values one after the other (JSON lines, or pretty-printed). It checks just enough of the grammar (what
// may stand next to a string, which bracket closes which, no line breaks in strings) to notice a damaged
// record where it is damaged and to find the next one after it.
type scanner struct {
	in     io.Reader
	buf    []byte
	lo, hi int
	off    int64 // of buf[0] in the file
	line   int64 // of buf[lo]
	number int64
	eof    bool
	err    error

	started, array, done bool
	stack                []byte
}

func newScanner(in io.Reader) *scanner {
	return &scanner{in: in, buf: make([]byte, 256<<10), line: 1}
}

// fill reads more behind buf[hi]. It says false when nothing comes any more.
func (s *scanner) fill() bool {
	if s.eof {
		return false
	}
	if s.lo > 0 && s.hi == len(s.buf) {
		copy(s.buf, s.buf[s.lo:s.hi])
		s.off += int64(s.lo)
		s.hi -= s.lo
		s.lo = 0
	}
	if s.hi == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for tries := 0; ; tries++ {
		n, err := s.in.Read(s.buf[s.hi:])
		s.hi += n
		if err != nil {
			s.eof = true
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
		}
		if n > 0 || err != nil {
			return n > 0
		}
		if tries == 100 {
			s.eof, s.err = true, io.ErrNoProgress
			return false
		}
	}
}

// byteAt gives the byte i places on.
func (s *scanner) byteAt(i int) (byte, bool) {
	for s.lo+i >= s.hi {
		if !s.fill() {
			return 0, false
		}
	}
	return s.buf[s.lo+i], true
}

// advance goes n bytes on.
func (s *scanner) advance(n int) {
	s.line += int64(bytes.Count(s.buf[s.lo:s.lo+n], newline))
	s.lo += n
}

var newline = []byte("\n")

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// skipSpace goes past white space, and past commas where they may stand, and gives the next byte.
func (s *scanner) skipSpace(commas bool) (byte, bool) {
	for {
		c, ok := s.byteAt(0)
		if !ok || !isSpace(c) && !(commas && c == ',') {
			return c, ok
		}
		s.advance(1)
	}
}

// next gives the next record. The error is io.EOF at the end, or what the reader said.
func (s *scanner) next() (record, error) {
	if !s.started {
		s.started = true
		if c, ok := s.byteAt(0); ok && c == 0xef { // a byte order mark
			if c, _ := s.byteAt(2); c == 0xbf {
				s.advance(3)
			}
		}
		if c, ok := s.skipSpace(false); ok && c == '[' {
			s.array = true
			s.advance(1)
		}
	}
	if s.done {
		return record{}, io.EOF
	}
	c, ok := s.skipSpace(true)
	switch {
	case !ok && s.err != nil:
		return record{}, s.err
	case !ok && s.array:
		s.done = true
		return s.damaged(s.line, "the file ends before its array does"), nil
	case !ok:
		return record{}, io.EOF
	case c == ']' && s.array:
		s.advance(1)
		s.array = false // what follows, if anything, are values
		return s.next()
	}
	s.number++
	rec := record{off: s.off + int64(s.lo), line: s.line, number: s.number}
	n, problem := s.value(c)
	if s.err != nil {
		return record{}, s.err
	}
	if problem == "" {
		rec.data = s.buf[s.lo : s.lo+n]
		s.advance(n)
		return rec, nil
	}
	s.advance(n)
	rec.bad = problem
	switch {
	case s.eof && s.lo == s.hi:
		s.done = true
	case c == '{' || c == '[':
		s.resync()
	}
	return rec, nil
}

func (s *scanner) damaged(line int64, why string) record {
	s.number++
	return record{off: s.off + int64(s.lo), line: line, number: s.number, bad: why}
}

// value measures the value that begins with c. With a problem, n is how far it got.
func (s *scanner) value(c byte) (n int, problem string) {
	if c != '{' && c != '[' {
		return s.scalar(), "not an object"
	}
	stack := s.stack[:0]
	defer func() { s.stack = stack[:0] }()
	prev := byte(',')
	for i := 0; ; i++ {
		c, ok := s.byteAt(i)
		switch {
		case !ok:
			return i, "the file ends within the record"
		case i > maxRecord:
			return i, fmt.Sprintf("longer than %d bytes", maxRecord)
		}
		switch {
		case isSpace(c):
			continue
		case c == '"':
			if prev != ',' && prev != ':' && prev != '{' && prev != '[' {
				return i, "a quote where none can be: a string before it is not closed or not escaped"
			}
			end, why := s.str(i + 1)
			if why != "" {
				return end, why
			}
			i = end
		case c == '{' || c == '[':
			if prev != ',' && prev != ':' && prev != '[' {
				return i, fmt.Sprintf("a %q where none can be", c)
			}
			if len(stack) == maxDepth {
				return i, fmt.Sprintf("nested deeper than %d", maxDepth)
			}
			stack = append(stack, c)
		case c == '}' || c == ']':
			if open := stack[len(stack)-1]; open+2 != c {
				return i, fmt.Sprintf("%q is closed by %q", open, c)
			}
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return i + 1, ""
			}
		case c == ',' || c == ':':
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.':
			if prev == '"' || prev == '}' || prev == ']' {
				return i, fmt.Sprintf("%q after a value", c)
			}
			c = '0'
		default:
			return i, fmt.Sprintf("%q outside of a string", c)
		}
		prev = c
	}
}

// str goes to the closing quote of a string whose first byte is i places on.
func (s *scanner) str(i int) (end int, problem string) {
	for {
		for p := s.lo + i; p < s.hi; p++ {
			switch c := s.buf[p]; {
			case c == '"':
				return p - s.lo, ""
			case c == '\\':
				i = p - s.lo + 2
				if _, ok := s.byteAt(i - 1); !ok { // may move the buffer
					return i - 1, "the file ends within a string"
				}
				p = s.lo + i - 1
			case c < 0x20:
				return p - s.lo, "a line break or control character within a string"
			}
		}
		i = max(i, s.hi-s.lo)
		if i > maxRecord {
			return i, fmt.Sprintf("longer than %d bytes", maxRecord)
		}
		if !s.fill() {
			return min(i, s.hi-s.lo), "the file ends within a string"
		}
	}
}

// scalar measures something that is no object: up to the next line, comma or bracket.
func (s *scanner) scalar() int {
	i := 0
	if c, _ := s.byteAt(0); c == '"' {
		if end, why := s.str(1); why == "" {
			return end + 1
		}
	}
	for ; i <= maxRecord; i++ {
		c, ok := s.byteAt(i)
		if !ok || i > 0 && (c == '\n' || s.array && (c == ',' || c == ']')) {
			break
		}
	}
	return i
}

// atLineStart says whether what comes is an opening bracket that begins a line.
func (s *scanner) atLineStart() bool {
	if s.lo == s.hi || s.buf[s.lo] != '{' && s.buf[s.lo] != '[' {
		return false
	}
	i := s.lo - 1
	for i >= 0 && (s.buf[i] == ' ' || s.buf[i] == '\t') {
		i--
	}
	return i >= 0 && s.buf[i] == '\n'
}

// resync goes to where the next record may begin: after a damaged record of an array to an opening brace
// that follows a closing one and a comma, after one of lines to a brace at the start of a line.
func (s *scanner) resync() {
	if !s.array {
		if s.atLineStart() {
			return
		}
		for {
			c, ok := s.byteAt(0)
			if !ok {
				return
			}
			s.advance(1)
			if c == '\n' {
				if next, ok := s.skipSpace(false); !ok || next == '{' || next == '[' {
					return
				}
			}
		}
	}
	for {
		c, ok := s.byteAt(0)
		if !ok {
			return
		}
		s.advance(1)
		if c != '}' {
			continue
		}
		for i, comma := 0, false; ; i++ {
			c, ok := s.byteAt(i)
			switch {
			case ok && isSpace(c):
				continue
			case ok && c == ',' && !comma:
				comma = true
				continue
			case ok && c == '{' && comma:
				s.advance(i)
				return
			}
			break
		}
	}
}
