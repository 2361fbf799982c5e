package tokenizer

import (
	"encoding/binary"
	"errors"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

// normalForm gives text in one of Unicode's normal forms.
//
// The norm package is nearly that, but it also applies the Stream-Safe Text Process of Unicode Standard
// Annex 15: after 30 combining marks in a row it puts in a U+034F. Tokenizers do not, so text with long
// runs of marks goes through the plain algorithm here.
func normalForm(form norm.Form) normalizer {
	return func(text string) string {
		switch {
		case form.IsNormalString(text):
			return text
		case !longMarks(text):
			return form.String(text)
		}
		return plainForm(form, text)
	}
}

// longMarks says whether some run of combining marks could reach the limit of 30 once decomposed. A mark
// decomposes into at most two, and the character before the run adds at most three.
func longMarks(text string) bool {
	run := 0
	for pos := 0; pos < len(text); {
		if text[pos] < utf8.RuneSelf {
			pos++
			run = 0
			continue
		}
		p := norm.NFC.PropertiesString(text[pos:])
		if p.CCC() == 0 && p.LeadCCC() == 0 {
			run = 0
		} else if run++; run > 12 {
			return true
		}
		pos += max(p.Size(), 1)
	}
	return false
}

// plainForm decomposes, orders marks by their combining class and composes where the form says so, as
// section 3.11 of the Unicode Standard says.
func plainForm(form norm.Form, text string) string {
	decomposed := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		decomposed = norm.NFKD
	}
	type char struct {
		r   rune
		ccc uint8
	}
	var chars []char
	for _, r := range text {
		for _, d := range decomposed.String(string(r)) {
			chars = append(chars, char{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for i := 0; i < len(chars); {
		if chars[i].ccc == 0 {
			i++
			continue
		}
		end := i
		for end < len(chars) && chars[end].ccc != 0 {
			end++
		}
		run := chars[i:end]
		sort.SliceStable(run, func(a, b int) bool { return run[a].ccc < run[b].ccc })
		i = end
	}
	out := chars[:0]
	starter := -1 // the last character of class 0, by its place in out
	for _, c := range chars {
		if starter >= 0 && (form == norm.NFC || form == norm.NFKC) {
			last := out[len(out)-1]
			blocked := len(out)-1 > starter && (last.ccc >= c.ccc)
			if !blocked {
				if made, ok := composed(out[starter].r, c.r); ok {
					out[starter].r = made
					continue
				}
			}
		}
		out = append(out, c)
		if c.ccc == 0 {
			starter = len(out) - 1
		}
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, c := range out {
		b.WriteRune(c.r)
	}
	return b.String()
}

// composed gives the primary composite of two characters.
func composed(a, b rune) (rune, bool) {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return 0, false
	}
	both := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(both)
	return r, size == len(both)
}

// lowercase works character by character, as the reference does: only the capital I with a dot becomes
// two characters.
func lowercase(text string) string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(text, "\u0130", "i\u0307")), "\u0130", "i\u0307")
}

// without drops the characters of a table as the reference has it: but for newer ones, and with those that were
// in it once.
func without(table *unicode.RangeTable, newer, older runeRanges) normalizer {
	return func(text string) string {
		return strings.Map(func(r rune) rune {
			if r >= utf8.RuneSelf && (unicode.Is(table, r) && !newer.has(r) || older.has(r)) {
				return -1
			}
			return r
		}, text)
	}
}

// bertClean drops control characters and makes all white space one kind (BERT's clean_text).
func bertClean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0, r == utf8.RuneError, r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && !newerControl.has(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, text)
}

// bertHan puts spaces around the characters that BERT takes for Chinese words.
func bertHan(text string) string {
	if !strings.ContainsFunc(text, isHan) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHan(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isHan(r rune) bool {
	return r >= 0x3400 && (r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x2a6df ||
		r >= 0x2a700 && r <= 0x2b73f || r >= 0x2b740 && r <= 0x2b81f || r >= 0x2b920 && r <= 0x2ceaf || r >= 0x2f800 && r <= 0x2fa1f)
}

// charsMap is the table of replacements of a SentencePiece model (precompiled_charsmap): the length of a
// double-array trie in the layout of darts-clone, the trie, and the replacements, each ended by a zero.
type charsMap struct {
	units []uint32
	text  string
}

func newCharsMap(blob []byte) (*charsMap, error) {
	if len(blob) < 4 {
		return nil, errors.New("the table of replacements (precompiled_charsmap) is too short")
	}
	n := int64(binary.LittleEndian.Uint32(blob))
	if n%4 != 0 || n > int64(len(blob)-4) {
		return nil, errors.New("the table of replacements (precompiled_charsmap) is damaged")
	}
	c := &charsMap{units: make([]uint32, n/4), text: string(blob[4+n:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(blob[4+4*i:])
	}
	return c, nil
}

// prefixes gives the shortest and the longest beginning of s that is replaced: their lengths (0 for none)
// and what takes their place.
func (c *charsMap) prefixes(s string) (short, long int, forShort, forLong string) {
	at := func(pos uint32) uint32 {
		if int(pos) < len(c.units) {
			return c.units[pos]
		}
		return 1 << 31 // the label of no byte
	}
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	pos := offset(at(0))
	for i := range len(s) {
		pos ^= uint32(s[i])
		unit := at(pos)
		if unit&(1<<31|0xff) != uint32(s[i]) {
			break
		}
		pos ^= offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		from := min(int(at(pos)&(1<<31-1)), len(c.text))
		long = i + 1
		forLong, _, _ = strings.Cut(c.text[from:], "\x00")
		if short == 0 {
			short, forShort = long, forLong
		}
	}
	return short, long, forShort, forLong
}

// byGraphemes replaces as the tokenizers library does (normalizers/precompiled.rs), which differs from
// SentencePiece itself: what a short grapheme begins with decides about the whole of it.
func (c *charsMap) byGraphemes(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for state, rest, g := -1, text, ""; rest != ""; {
		g, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if len(g) < 6 {
			if n, _, made, _ := c.prefixes(g); n > 0 {
				b.WriteString(made)
				continue
			}
		}
		for i, r := range g {
			one := g[i : i+utf8.RuneLen(r)]
			if n, _, made, _ := c.prefixes(one); n > 0 {
				one = made
			}
			b.WriteString(one)
		}
	}
	return b.String()
}
