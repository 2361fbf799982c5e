package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errShape is what a value is that the scanner should not have passed.
var errShape = errors.New("damaged JSON")

// Walk gives the members of an object, or with key nil the elements of an array, as they stand, until f
// says false.
func Walk(data []byte, f func(key, value []byte) bool) error {
	if len(data) < 2 {
		return errShape
	}
	object := data[0] == '{'
	if !object && data[0] != '[' {
		return errShape
	}
	s := Scanner{buf: data, lo: 1, hi: len(data), eof: true}
	for {
		c, ok := s.skipSpace(true)
		if !ok {
			return errShape
		}
		if c == '}' || c == ']' {
			return nil
		}
		var key []byte
		if object {
			end, why := 0, "no key"
			if c == '"' {
				end, why = s.str(1)
			}
			if why != "" {
				return errShape
			}
			key = s.buf[s.lo+1 : s.lo+end]
			s.lo += end + 1
			if c, ok = s.skipSpace(false); !ok || c != ':' {
				return errShape
			}
			s.lo++
			if c, ok = s.skipSpace(false); !ok {
				return errShape
			}
		}
		n, why := 0, ""
		switch c {
		case '{', '[':
			n, why = s.value(c)
		case '"':
			n, why = s.str(1)
			n++
		default:
			for s.lo+n < s.hi {
				if c := s.buf[s.lo+n]; c == ',' || c == '}' || c == ']' || isSpace(c) {
					break
				}
				n++
			}
			if !json.Valid(s.buf[s.lo : s.lo+n]) {
				return fmt.Errorf("%w: %q is no value", errShape, clip(s.buf[s.lo:s.lo+n]))
			}
		}
		if why != "" || n == 0 {
			return errShape
		}
		if !f(key, s.buf[s.lo:s.lo+n]) {
			return nil
		}
		s.lo += n
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

// Field gives the value of a top-level key of an object, as it stands; nil if there is none.
func Field(object []byte, key string) []byte {
	var out []byte
	_ = Walk(object, func(k, v []byte) bool { // damage is the same as no such key here
		if string(k) == key {
			out = v
			return false
		}
		return true
	})
	return out
}

// Members gives all members of an object. Of equal keys the last one counts, as in encoding/json.
func Members(object []byte) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	err := Walk(object, func(k, v []byte) bool {
		out[string(k)] = v
		return true
	})
	return out, err
}

// Text decodes a JSON string, in one piece of memory of its length at most.
func Text(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", fmt.Errorf("%w: %q is no text", errShape, clip(raw))
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 && bytes.IndexByte(raw, '"') < 0 && utf8.Valid(raw) {
		return string(raw), nil
	}
	var b strings.Builder
	b.Grow(len(raw))
	for len(raw) > 0 {
		n := 0 // of what stands for itself
		for n < len(raw) && raw[n] != '\\' && raw[n] != '"' && raw[n] >= 0x20 && raw[n] < utf8.RuneSelf {
			n++
		}
		b.Write(raw[:n])
		if raw = raw[n:]; len(raw) == 0 {
			break
		}
		switch c := raw[0]; {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(raw) // what is no UTF-8 becomes the replacement character, as in encoding/json
			b.WriteRune(r)
			raw = raw[size:]
		case c != '\\' || len(raw) < 2:
			return "", fmt.Errorf("%w: a %q within a text", errShape, c)
		case raw[1] == 'u':
			r, size := escaped(raw)
			if size == 0 {
				return "", fmt.Errorf("%w: %q in a text", errShape, clip(raw))
			}
			b.WriteRune(r)
			raw = raw[size:]
		default:
			at := strings.IndexByte(`"\/bfnrt`, raw[1])
			if at < 0 {
				return "", fmt.Errorf("%w: %q in a text", errShape, raw[:2])
			}
			b.WriteByte("\"\\/\b\f\n\r\t"[at])
			raw = raw[2:]
		}
	}
	return b.String(), nil
}

// escaped decodes \uXXXX, or two of them that are one character; of size 0 where it is damaged.
func escaped(raw []byte) (r rune, size int) {
	unit := func(b []byte) rune {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	if r = unit(raw); r < 0 {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if both := utf16.DecodeRune(r, unit(raw[6:])); both != utf8.RuneError {
			return both, 12
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

// Missing says whether a value is not there, or null.
func Missing(v []byte) bool { return len(v) == 0 || string(v) == "null" }

// Scalar gives a text (but the empty one), number or truth value as text.
func Scalar(raw []byte) (string, bool) {
	if Missing(raw) {
		return "", false
	}
	switch raw[0] {
	case '"':
		s, err := Text(raw)
		return s, err == nil && s != ""
	case '{', '[':
		return "", false
	}
	return string(raw), true
}

// AppendText appends a text as JSON.
func AppendText(dst []byte, s []byte) []byte {
	const hex = "0123456789abcdef"
	more := 2
	if len(s) >= large { // it must not grow to twice its size on the way
		for _, c := range s {
			switch {
			case c == '"' || c == '\\' || c == '\n':
				more++
			case c < 0x20:
				more += 5
			}
		}
	}
	dst = append(slices.Grow(dst, len(s)+more), '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRune(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c >= utf8.RuneSelf:
			dst = append(dst, "\ufffd"...)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i += size
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
