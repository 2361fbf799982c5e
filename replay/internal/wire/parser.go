package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// state is where a parser stands in a response.
type state uint8

const (
	inHead      state = iota // the status line and the header fields
	inSize                   // a chunk's size line
	inChunk                  // a chunk's data
	inChunkEnd               // the line end after a chunk's data
	inTrailer                // the trailer fields after the last chunk
	inFixed                  // a body of a known length
	inUntilEOF               // a body that ends with the connection
	afterTheEnd              // the response is complete
)

const (
	maxChunkLine = 4096 // bytes of a chunk's size line with its extensions, as in net/http
	maxInterim   = 32   // 1xx responses before the final one
)

// receiver takes what a parser finds.
type receiver interface {
	// head is called once, when the header of the final response is complete.
	head(p *parser) error
	// data is called with each piece of the body, in order.
	data(b []byte) error
}

// field is one header field.
type field struct{ name, value []byte }

// parser takes one HTTP/1.1 response apart, in whatever pieces it comes (RFC 9112). It accepts what
// net/http's ReadResponse accepts. It belongs to one goroutine; start it with reset.
type parser struct {
	maxHeader, maxBody int64

	state     state
	raw       []byte // the header so far
	lineStart int    // in raw
	fields    []field
	status    int
	minor     byte // of the HTTP version, 0 or 1
	interim   int
	keep      bool   // the connection may be used again after this response
	some      bool   // a byte of a response has come
	line      []byte // a framing line so far, when it comes in pieces
	left      int64  // bytes to come of the chunk or the fixed body
	headBytes int64  // header and trailer bytes so far
	bodyBytes int64  // body bytes so far
}

func (p *parser) reset(maxHeader, maxBody int64) {
	raw, line := p.raw, p.line
	if cap(raw) > 64<<10 {
		raw = nil
	}
	*p = parser{maxHeader: maxHeader, maxBody: maxBody, raw: raw[:0], line: line[:0], fields: p.fields[:0]}
}

// header gives the value of the first field of a name, "" if there is none.
func (p *parser) header(name string) string {
	for _, f := range p.fields {
		if equalFold(f.name, name) {
			return string(f.value)
		}
	}
	return ""
}

// each calls f with each value of the fields of a name.
func (p *parser) each(name string, f func(value string)) {
	for _, field := range p.fields {
		if equalFold(field.name, name) {
			f(string(field.value))
		}
	}
}

func equalFold(b []byte, s string) bool { return len(b) == len(s) && strings.EqualFold(string(b), s) }

// complete tells whether the response has come in whole.
func (p *parser) complete() bool { return p.state == afterTheEnd }

// feed takes the next bytes and tells how many of them belong to the response: fewer than all only after
// its end. An error is final.
func (p *parser) feed(b []byte, r receiver) (used int, err error) {
	n := len(b)
	for len(b) > 0 && err == nil {
		p.some = true
		switch p.state {
		case inHead:
			b, err = p.feedHead(b, r)
		case inSize:
			if size, n := plainSize(b); n > 0 && len(p.line) == 0 {
				p.state, p.left = inChunk, size
				b = b[n:]
				break
			}
			b, err = p.feedLine(b)
		case inTrailer:
			b, err = p.feedLine(b)
		case inChunk, inFixed:
			piece := b[:min(int64(len(b)), p.left)]
			b = b[len(piece):]
			if p.left -= int64(len(piece)); p.left == 0 {
				if p.state == inChunk {
					p.state = inChunkEnd
				} else {
					p.state = afterTheEnd
				}
			}
			err = p.body(piece, r)
		case inChunkEnd:
			if len(p.line) == 0 && len(b) > 1 && b[0] == '\r' && b[1] == '\n' {
				p.state = inSize
				b = b[2:]
				break
			}
			p.line = append(p.line, b[0])
			b = b[1:]
			if string(p.line) == "\r\n" {
				p.line, p.state = p.line[:0], inSize
			} else if string(p.line) != "\r" {
				err = fail(KindBadResponse, "the response's chunked encoding is broken: no line end after a chunk")
			}
		case inUntilEOF:
			piece := b
			b = nil
			err = p.body(piece, r)
		case afterTheEnd:
			return n - len(b), nil
		}
	}
	return n - len(b), err
}

func (p *parser) body(piece []byte, r receiver) error {
	if p.bodyBytes += int64(len(piece)); p.bodyBytes > p.maxBody {
		return fail(KindBodyTooLarge, fmt.Sprintf("the response's body is larger than the limit of %d bytes", p.maxBody))
	}
	return r.data(piece)
}

// eof takes the end of the connection; nil says that it completed the response.
func (p *parser) eof() error {
	switch p.state {
	case afterTheEnd:
		return nil
	case inUntilEOF:
		p.state = afterTheEnd
		return nil
	case inHead:
		if !p.some {
			return fail(KindEOF, "the server closed the connection without a response")
		}
		return fail(KindEOF, "the server closed the connection within the response's header")
	}
	return fail(KindCutBody, "the connection was closed in the middle of the response's body")
}

// count counts bytes of headers and trailers against their limit.
func (p *parser) count(n int) error {
	if p.headBytes += int64(n); p.headBytes > p.maxHeader {
		return fail(KindHeaderTooLarge, fmt.Sprintf("the response's header is larger than the limit of %d bytes", p.maxHeader))
	}
	return nil
}

// feedHead takes header lines.
func (p *parser) feedHead(b []byte, r receiver) (rest []byte, err error) {
	const magic = "HTTP/1."
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n') + 1
		whole := n > 0
		if !whole {
			n = len(b)
		}
		p.raw = append(p.raw, b[:n]...)
		b = b[n:]
		if err := p.count(n); err != nil {
			return nil, err
		}
		// What is no HTTP is told at once: it may have no line ends.
		if k := min(len(p.raw), len(magic)); string(p.raw[:k]) != magic[:k] {
			return nil, fail(KindBadResponse, "the server's answer is no HTTP/1.1 response: it begins with "+quote(p.raw))
		}
		if !whole {
			return nil, nil
		}
		if line := trimLineEnd(p.raw[p.lineStart:]); len(line) > 0 {
			p.lineStart = len(p.raw)
			continue
		}
		if err := p.parseHead(); err != nil {
			return nil, err
		}
		if p.status >= 100 && p.status <= 199 {
			if p.interim++; p.status == 101 || p.interim > maxInterim {
				return nil, fail(KindBadResponse, fmt.Sprintf("the server answered with too many interim responses, or one that was not asked for (status %d)", p.status))
			}
			p.raw, p.lineStart, p.fields = p.raw[:0], 0, p.fields[:0]
			continue
		}
		if err := p.frame(); err != nil {
			return nil, err
		}
		return b, r.head(p)
	}
	return nil, nil
}

func trimLineEnd(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// parseHead reads the status line and the fields of a complete header.
func (p *parser) parseHead() error {
	bad := func(what string, line []byte) error {
		return fail(KindBadResponse, "the response's "+what+" is malformed: "+quote(line))
	}
	head := p.raw
	line, head := cutLine(head)
	version, rest, _ := bytes.Cut(line, []byte(" "))
	if string(version) != "HTTP/1.1" && string(version) != "HTTP/1.0" {
		return bad("status line", line)
	}
	p.minor = version[7] - '0'
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	status, err := strconv.ParseUint(string(code), 10, 16)
	if err != nil || len(code) != 3 || status < 100 {
		return bad("status line", line)
	}
	p.status = int(status)
	p.fields = p.fields[:0]
	for {
		line, head = cutLine(head)
		if len(line) == 0 {
			return nil
		}
		if line[0] == ' ' || line[0] == '\t' { // a folded value (RFC 9112, 5.2)
			if len(p.fields) == 0 {
				return bad("header", line)
			}
			f := &p.fields[len(p.fields)-1]
			f.value = bytes.TrimSpace(bytes.Join([][]byte{f.value, bytes.Trim(line, " \t")}, []byte(" ")))
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !validName(name) {
			return bad("header", line)
		}
		p.fields = append(p.fields, field{name, bytes.Trim(value, " \t")})
	}
}

func cutLine(b []byte) (line, rest []byte) {
	n := bytes.IndexByte(b, '\n') + 1
	return trimLineEnd(b[:n]), b[n:]
}

// validName tells whether name can be a field's name. One with a space is none (RFC 9112, 5.1), but is let
// pass as in net/http; it is not found under the name without the space.
func validName(name []byte) bool {
	for _, c := range name {
		if !httpguts.IsTokenRune(rune(c)) && c != ' ' {
			return false
		}
	}
	return len(name) > 0
}

// frame settles how the body is delimited (RFC 9112, 6.3).
func (p *parser) frame() error {
	p.keep = p.minor == 1
	codings, length := 0, int64(-1)
	chunked := false
	for _, f := range p.fields {
		switch {
		case equalFold(f.name, "Connection"):
			for token := range strings.SplitSeq(string(f.value), ",") {
				switch token = strings.Trim(token, " \t"); {
				case strings.EqualFold(token, "close"):
					p.keep = false
				case strings.EqualFold(token, "keep-alive") && p.minor == 0:
					p.keep = true
				}
			}
		case equalFold(f.name, "Transfer-Encoding") && p.minor == 1:
			codings++
			chunked = equalFold(f.value, "chunked")
		}
	}
	if codings > 1 || codings == 1 && !chunked {
		return fail(KindBadResponse, "the response has a transfer encoding other than chunked")
	}
	bodiless := p.status == 204 || p.status == 304
	if !chunked {
		for _, f := range p.fields {
			if !equalFold(f.name, "Content-Length") {
				continue
			}
			n, err := strconv.ParseUint(string(f.value), 10, 63)
			if err != nil || length >= 0 && length != int64(n) {
				return fail(KindBadResponse, "the response's content length is malformed: "+quote(f.value))
			}
			length = int64(n)
		}
	}
	switch {
	case bodiless:
		p.state = afterTheEnd
	case chunked:
		p.state = inSize
	case length == 0:
		p.state = afterTheEnd
	case length > p.maxBody:
		return fail(KindBodyTooLarge, fmt.Sprintf("the response's body of %d bytes is larger than the limit of %d", length, p.maxBody))
	case length > 0:
		p.state, p.left = inFixed, length
	default:
		p.state, p.keep = inUntilEOF, false
	}
	return nil
}

// feedLine takes bytes of a chunk's size line or of the trailer.
func (p *parser) feedLine(b []byte) (rest []byte, err error) {
	n := bytes.IndexByte(b, '\n') + 1
	whole := n > 0
	if !whole {
		n = len(b)
	}
	line := b[:n]
	if len(p.line) > 0 || !whole {
		p.line = append(p.line, line...)
		line = p.line
	}
	b = b[n:]
	if p.state == inTrailer {
		if err := p.count(n); err != nil {
			return nil, err
		}
	} else if len(line) >= maxChunkLine {
		return nil, fail(KindLineTooLong, fmt.Sprintf("a size line of the response's chunked encoding is longer than %d bytes", maxChunkLine))
	}
	if !whole {
		return nil, nil
	}
	if p.state == inTrailer {
		if len(trimLineEnd(line)) == 0 {
			p.state = afterTheEnd
		}
	} else {
		err = p.chunkSize(line)
	}
	p.line = p.line[:0]
	return b, err
}

// plainSize reads the size line of a chunk that is not the last from the front of b, if it is there in whole
// and of the usual form: a few digits and nothing else. n is the line's length, 0 if it has to be looked at
// more closely.
func plainSize(b []byte) (size int64, n int) {
	for ; n < len(b) && n < 8; n++ {
		digit, ok := hexDigit(b[n])
		if !ok {
			if size > 0 && n+1 < len(b) && b[n] == '\r' && b[n+1] == '\n' {
				return size, n + 2
			}
			return 0, 0
		}
		size = size<<4 | int64(digit)
	}
	return 0, 0
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// chunkSize reads a chunk's size line.
func (p *parser) chunkSize(line []byte) error {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	text, _, _ = bytes.Cut(text, []byte(";")) // without extensions
	text = bytes.TrimRight(text, " \t")
	ok = ok && len(text) > 0 && len(text) <= 16 && bytes.IndexByte(line, '\r') == len(line)-2
	size := uint64(0)
	for _, c := range text {
		digit, hex := hexDigit(c)
		ok = ok && hex
		size = size<<4 | uint64(digit)
	}
	if !ok || size > 1<<62 {
		return fail(KindBadResponse, "the response's chunked encoding is broken: "+quote(line)+" is no size of a chunk")
	}
	if size == 0 {
		p.state = inTrailer
		return nil
	}
	p.state, p.left = inChunk, int64(size)
	return nil
}
