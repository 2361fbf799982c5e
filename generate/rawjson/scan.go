// Package rawjson cuts files of JSON into records and takes records apart without decoding what nobody asks
// for: decoding a whole record generically costs several times as much as counting its tokens.
package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// Bounds of what is taken as one record. A record is held in memory whole, several of them at once.
const (
	MaxRecord = 256 << 20
	maxDepth  = 500

	firstBuffer = 256 << 10
	large       = 4 << 20
)

// Record is one JSON value of a file, found by its brackets and quotes and not yet parsed.
type Record struct {
	Data   []byte // the reader's own memory, valid until the next call
	Off    int64  // where it begins in the file
	Line   int64  // the line on which it begins, from 1; 0 where lines mean nothing
	Number int64  // its number in the file, from 1
	Bad    string // why it is none; Data is empty then
}

// Scanner cuts a file into records without holding more than one: the elements of one large array, or
// values one after the other (JSON lines, or pretty-printed). It checks just enough of the grammar (what
// may stand next to a string, which bracket closes which, no line breaks in strings) to notice a damaged
// record where it is damaged and to find the next one after it.
type Scanner struct {
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

// NewScanner begins at what comes next from a reader.
func NewScanner(in io.Reader) *Scanner {
	return &Scanner{in: in, buf: make([]byte, firstBuffer), line: 1}
}

// Keep gives the data of the record that Next gave last for as long as the caller wants them. A long one's
// are the scanner's memory itself, which goes on with new memory.
func (s *Scanner) Keep(rec Record) []byte {
	if len(rec.Data) < large {
		return bytes.Clone(rec.Data)
	}
	rest := s.buf[s.lo:s.hi]
	s.off += int64(s.lo)
	s.buf = make([]byte, max(firstBuffer, len(rest)))
	s.lo, s.hi = 0, copy(s.buf, rest)
	return rec.Data
}

// fill reads more behind buf[hi]. It says false when nothing comes any more.
func (s *Scanner) fill() bool {
	if s.eof {
		return false
	}
	if s.lo > 0 && s.hi == len(s.buf) {
		copy(s.buf, s.buf[s.lo:s.hi])
		s.off += int64(s.lo)
		s.hi -= s.lo
		s.lo = 0
	}
	if n := len(s.buf); s.hi == n {
		more := n
		if n >= large { // a record of tens of megabytes must not take twice that
			more = n / 4
		}
		buf := make([]byte, n+more)
		copy(buf, s.buf)
		s.buf = buf
		if n >= 4*large {
			debug.FreeOSMemory() // or the smaller ones would gather
		}
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
func (s *Scanner) byteAt(i int) (byte, bool) {
	for s.lo+i >= s.hi {
		if !s.fill() {
			return 0, false
		}
	}
	return s.buf[s.lo+i], true
}

// advance goes n bytes on.
func (s *Scanner) advance(n int) {
	s.line += int64(bytes.Count(s.buf[s.lo:s.lo+n], newline))
	s.lo += n
}

var newline = []byte("\n")

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// skipSpace goes past white space, and past commas where they may stand, and gives the next byte.
func (s *Scanner) skipSpace(commas bool) (byte, bool) {
	for {
		c, ok := s.byteAt(0)
		if !ok || !isSpace(c) && !(commas && c == ',') {
			return c, ok
		}
		s.advance(1)
	}
}

// Next gives the next record. The error is io.EOF at the end, or what the reader said.
func (s *Scanner) Next() (Record, error) {
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
		return Record{}, io.EOF
	}
	c, ok := s.skipSpace(true)
	switch {
	case !ok && s.err != nil:
		return Record{}, s.err
	case !ok && s.array:
		s.done = true
		return s.damaged(s.line, "the file ends before its array does"), nil
	case !ok:
		return Record{}, io.EOF
	case c == ']' && s.array:
		s.advance(1)
		s.array = false // what follows, if anything, are values
		return s.Next()
	}
	s.number++
	rec := Record{Off: s.off + int64(s.lo), Line: s.line, Number: s.number}
	n, problem := s.value(c)
	if s.err != nil {
		return Record{}, s.err
	}
	if problem == "" {
		rec.Data = s.buf[s.lo : s.lo+n]
		s.advance(n)
		return rec, nil
	}
	s.advance(n)
	rec.Bad = problem
	switch {
	case s.eof && s.lo == s.hi:
		s.done = true
	case c == '{' || c == '[':
		s.resync()
	}
	return rec, nil
}

func (s *Scanner) damaged(line int64, why string) Record {
	s.number++
	return Record{Off: s.off + int64(s.lo), Line: line, Number: s.number, Bad: why}
}

// value measures the value that begins with c. With a problem, n is how far it got.
func (s *Scanner) value(c byte) (n int, problem string) {
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
		case i > MaxRecord:
			return i, fmt.Sprintf("longer than %d bytes", MaxRecord)
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
func (s *Scanner) str(i int) (end int, problem string) {
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
		if i > MaxRecord {
			return i, fmt.Sprintf("longer than %d bytes", MaxRecord)
		}
		if !s.fill() {
			return min(i, s.hi-s.lo), "the file ends within a string"
		}
	}
}

// scalar measures something that is no object: up to the next line, comma or bracket.
func (s *Scanner) scalar() int {
	i := 0
	if c, _ := s.byteAt(0); c == '"' {
		if end, why := s.str(1); why == "" {
			return end + 1
		}
	}
	for ; i <= MaxRecord; i++ {
		c, ok := s.byteAt(i)
		if !ok || i > 0 && (c == '\n' || s.array && (c == ',' || c == ']')) {
			break
		}
	}
	return i
}

// atLineStart says whether what comes is an opening bracket that begins a line.
func (s *Scanner) atLineStart() bool {
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
func (s *Scanner) resync() {
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
