package tokenizer

import (
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// toNFC gives the text in Unicode's Normalization Form C.
//
// The norm package is nearly that, but it also applies the Stream-Safe Text Process of Unicode Standard
// Annex 15: after 30 combining marks in a row it puts in a U+034F. Tokenizers do not, so text with long
// runs of marks goes through the plain algorithm here.
func toNFC(text string) string {
	switch {
	case norm.NFC.IsNormalString(text):
		return text
	case !longMarks(text):
		return norm.NFC.String(text)
	}
	return plainNFC(text)
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

// plainNFC decomposes, orders marks by their combining class and composes, as section 3.11 of the
// Unicode Standard says.
func plainNFC(text string) string {
	type char struct {
		r   rune
		ccc uint8
	}
	var chars []char
	for _, r := range text {
		for _, d := range norm.NFD.String(string(r)) {
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
		if starter >= 0 {
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
