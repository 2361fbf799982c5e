package api

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deeply the values of an event may nest. encoding/json allows 10,000; no server needs a
// tenth of this one, and a hostile one gets no deeper stack.
const maxDepth = 512

// A walker reads one JSON document from front to back without allocating. The caller asks for the
// members of the objects and the elements of the arrays that it wants and skips the rest, which is
// checked all the same: bad tells in the end whether the bytes read so far are JSON.
//
//	for ok := w.object(); ok && w.member(); {
//		switch string(w.key) {
//		case "id":
//			raw, ok := w.str()
//		default:
//			w.skip()
//		}
//	}
//
// After bad is set every method returns at once with nothing, so that such loops end.
type walker struct {
	b     []byte
	i     int
	bad   bool
	short bool // bad only because the document ends too early
	fresh bool // the innermost object or array has had no member yet
	depth int

	key    []byte // the current member's name, unescaped
	keyBuf []byte
}

func (w *walker) start(b []byte) {
	w.b, w.i, w.bad, w.short, w.fresh, w.depth, w.key = b, 0, false, false, false, 0, nil
}

// fail notes that the document is bad at a place.
func (w *walker) fail(at int) {
	if !w.bad {
		w.bad, w.short = true, at >= len(w.b)
	}
	w.i = len(w.b)
}

// peek skips white space and gives the next byte, 0 at the end.
func (w *walker) peek() byte {
	for w.i < len(w.b) {
		switch c := w.b[w.i]; c {
		case ' ', '\t', '\n', '\r':
			w.i++
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing but white space is left, and says whether the whole document was JSON.
func (w *walker) end() bool {
	if !w.bad && (w.peek() != 0 || w.i < len(w.b)) {
		w.fail(w.i)
	}
	return !w.bad
}

// object enters the object that comes next. If another value comes, it is skipped and ok is false: the
// loop over its members must not run then.
func (w *walker) object() (ok bool) { return w.open('{') }

// array enters the array that comes next, in the same way.
func (w *walker) array() (ok bool) { return w.open('[') }

func (w *walker) open(c byte) bool {
	if w.peek() != c {
		w.skip()
		return false
	}
	w.i++
	w.depth++
	w.fresh = true
	if w.depth > maxDepth {
		w.fail(w.i)
		return false
	}
	return true
}

// next moves to the next member or element of the innermost object or array, and leaves it at its end.
func (w *walker) next(closing byte) bool {
	if w.bad {
		return false
	}
	c := w.peek()
	if c == closing {
		w.i++
		w.depth--
		w.fresh = false
		return false
	}
	if !w.fresh {
		if c != ',' {
			w.fail(w.i)
			return false
		}
		w.i++
	}
	w.fresh = false
	return true
}

// member moves to the next member of the innermost object and sets key, or leaves the object.
func (w *walker) member() bool {
	if !w.next('}') {
		return false
	}
	if w.peek() != '"' {
		w.fail(w.i)
		return false
	}
	raw := w.rawString()
	if w.bad {
		return false
	}
	w.key = raw
	for _, c := range raw {
		if c == '\\' || c >= utf8.RuneSelf {
			w.keyBuf = appendUnescaped(w.keyBuf[:0], raw)
			w.key = w.keyBuf
			break
		}
	}
	if w.peek() != ':' {
		w.fail(w.i)
		return false
	}
	w.i++
	return true
}

// element moves to the next element of the innermost array, or leaves the array.
func (w *walker) element() bool { return w.next(']') }

// str takes the next value if it is a string, and gives its bytes between the quotes, still escaped. Any
// other value is skipped.
func (w *walker) str() (raw []byte, ok bool) {
	if w.peek() != '"' {
		w.skip()
		return nil, false
	}
	raw = w.rawString()
	return raw, !w.bad
}

// integer takes the next value if it is a number that is whole and fits; any other value is skipped.
func (w *walker) integer() (n int64, ok bool) {
	if c := w.peek(); c != '-' && (c < '0' || c > '9') {
		w.skip()
		return 0, false
	}
	raw := w.number()
	if w.bad {
		return 0, false
	}
	return parseInt(raw)
}

// truth takes the next value and says whether it is true.
func (w *walker) truth() bool {
	yes := w.peek() == 't'
	w.skip()
	return yes && !w.bad
}

// skip takes the next value, whatever it is, and gives its bytes.
func (w *walker) skip() []byte {
	c := w.peek()
	from := w.i
	switch {
	case w.bad:
		return nil
	case c == '{':
		for ok := w.object(); ok && w.member(); {
			w.skip()
		}
	case c == '[':
		for ok := w.array(); ok && w.element(); {
			w.skip()
		}
	case c == '"':
		w.rawString()
	case c == '-' || c >= '0' && c <= '9':
		w.number()
	case c == 't':
		w.literal("true")
	case c == 'f':
		w.literal("false")
	case c == 'n':
		w.literal("null")
	default:
		w.fail(w.i)
	}
	if w.bad {
		return nil
	}
	return w.b[from:w.i]
}

// place takes the next value and gives where it begins, to come back to it.
func (w *walker) place() int {
	w.peek()
	at := w.i
	w.skip()
	return at
}

func (w *walker) literal(s string) {
	for j := range len(s) {
		if w.i+j >= len(w.b) || w.b[w.i+j] != s[j] {
			w.fail(w.i + j)
			return
		}
	}
	w.i += len(s)
}

// rawString takes the string that begins at the current byte (a quote) and gives what stands between its
// quotes. Escapes and control bytes are checked; UTF-8 is not, as in encoding/json.
func (w *walker) rawString() []byte {
	b := w.b
	i := w.i + 1
	from := i
	for i < len(b) {
		c := b[i]
		if c == '"' {
			w.i = i + 1
			return b[from:i]
		}
		if c < ' ' {
			break
		}
		if c != '\\' {
			i++
			continue
		}
		if i+1 >= len(b) {
			i++
			break
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for j := i + 2; j < i+6; j++ {
				if j >= len(b) || hexValue(b[j]) < 0 {
					w.fail(j)
					return nil
				}
			}
			i += 6
		default:
			w.fail(i + 1)
			return nil
		}
	}
	w.fail(i)
	return nil
}

// number takes the number that begins at the current byte.
func (w *walker) number() []byte {
	b, i := w.b, w.i
	from := i
	digits := func() bool {
		start := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		w.fail(i)
		return nil
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			w.fail(i)
			return nil
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			w.fail(i)
			return nil
		}
	}
	w.i = i
	return b[from:i]
}

// parseInt gives the value of a JSON number that is whole and within an int64. 12.0 and 1e3 are whole.
func parseInt(raw []byte) (int64, bool) {
	neg := false
	digits := raw
	if len(digits) > 0 && digits[0] == '-' {
		neg, digits = true, digits[1:]
	}
	if len(digits) <= 18 {
		n, plain := int64(0), true
		for _, c := range digits {
			if c < '0' || c > '9' {
				plain = false
				break
			}
			n = n*10 + int64(c-'0')
		}
		if plain {
			if neg {
				n = -n
			}
			return n, len(digits) > 0
		}
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// validJSON says whether b is one JSON document (nested no deeper than maxDepth).
func (w *walker) validJSON(b []byte) bool {
	w.start(b)
	w.skip()
	return w.end()
}

// appendUnescaped appends the value of a JSON string, given as the checked bytes between its quotes.
// What is not UTF-8, and a surrogate without its partner, becomes U+FFFD, as in encoding/json.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		// The longest stretch of plain ASCII at once.
		j := i
		for j < len(raw) && raw[j] != '\\' && raw[j] < utf8.RuneSelf {
			j++
		}
		dst = append(dst, raw[i:j]...)
		if i = j; i == len(raw) {
			break
		}
		if raw[i] != '\\' {
			r, size := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		switch c := raw[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw[i+2:])
			i += 6
			if r >= 0xd800 && r < 0xe000 {
				pair := rune(utf8.RuneError)
				if r < 0xdc00 && len(raw)-i >= 6 && raw[i] == '\\' && raw[i+1] == 'u' {
					if low := hex4(raw[i+2:]); low >= 0xdc00 && low < 0xe000 {
						pair = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
						i += 6
					}
				}
				r = pair
			}
			dst = utf8.AppendRune(dst, r)
			continue
		default: // quote, backslash, slash
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

// hex4 gives the value of the four hexadecimal digits at the front of b, -1 where there are none.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		v := hexValue(c)
		if v < 0 {
			return -1
		}
		r = r<<4 | v
	}
	return r
}

// hexValue gives the value of a hexadecimal digit, -1 for another byte.
func hexValue(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c - 'a' + 10)
	case c >= 'A' && c <= 'F':
		return rune(c - 'A' + 10)
	}
	return -1
}

// appendQuoted appends s as a JSON string. What is not UTF-8 becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends what stands between the quotes of s as a JSON string.
func appendEscaped(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(append(dst, s[from:i]...), "\ufffd"...)
		} else {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}
