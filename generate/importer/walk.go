package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The functions here take JSON apart that a scanner has measured, without decoding what nobody asks for:
// decoding a whole record generically costs several times as much as counting its tokens.

var errShape = errors.New("damaged JSON")

// walk gives the members of an object, or with key nil the elements of an array, as they stand, until f
// says false.
func walk(data []byte, f func(key, value []byte) bool) error {
	if len(data) < 2 {
		return errShape
	}
	object := data[0] == '{'
	if !object && data[0] != '[' {
		return errShape
	}
	s := scanner{buf: data, lo: 1, hi: len(data), eof: true}
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

// field gives the value of a top-level key of an object, as it stands; nil if there is none.
func field(object []byte, key string) []byte {
	var out []byte
	_ = walk(object, func(k, v []byte) bool { // damage is the same as no such key here
		if string(k) == key {
			out = v
			return false
		}
		return true
	})
	return out
}

// members gives all members of an object. Of equal keys the last one counts, as in encoding/json.
func members(object []byte) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	err := walk(object, func(k, v []byte) bool {
		out[string(k)] = v
		return true
	})
	return out, err
}

// text decodes a JSON string.
func text(raw []byte) (string, error) {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 && bytes.IndexByte(inner, '"') < 0 && utf8.Valid(inner) {
			return string(inner), nil
		}
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	return s, nil
}
