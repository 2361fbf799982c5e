package simserver

import (
	"unicode"
	"unicode/utf8"
)

// maxPiece is the longest piece of a word, in characters. With it, English prose comes to about 1.25
// tokens per word, near what byte-pair encodings of 100,000 entries make of it.
const maxPiece = 6

// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Tokenize calls yield with the end of each token of s and the token's hash, until yield returns false.
//
// It is an approximation of a byte-pair encoding, made to be fast and the same everywhere: a token is one
// optional space and then up to six letters or up to three digits of a run, or up to four equal other
// characters; ideographs, kana and hangul syllables are a token each, as are runs of up to sixteen white
// spaces that no word follows. Tokens cover s exactly.
func Tokenize(s string, yield func(end int, hash uint64) bool) {
	for i := 0; i < len(s); {
		start := i
		i = nextToken(s, i)
		h := uint64(fnvOffset)
		for j := start; j < i; j++ {
			h = (h ^ uint64(s[j])) * fnvPrime
		}
		if !yield(i, h) {
			return
		}
	}
}

type class uint8

const (
	letter class = iota
	digit
	space
	alone // ideographs and the like
	other
)

// asciiClass is the class of each byte below utf8.RuneSelf.
var asciiClass = func() (t [utf8.RuneSelf]class) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			t[c] = letter
		case c >= '0' && c <= '9':
			t[c] = digit
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = space
		default:
			t[c] = other
		}
	}
	return t
}()

func classOf(s string, i int) (class, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	return classOfRune(s, i)
}

func classOfRune(s string, i int) (class, int) {
	r, n := utf8.DecodeRuneInString(s[i:])
	switch {
	case r >= 0x2E80 && r <= 0xD7FF || r >= 0x20000 && r <= 0x3FFFF:
		return alone, n
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return letter, n
	case unicode.IsSpace(r):
		return space, n
	}
	return other, n
}

// nextToken gives the end of the token of s that starts at i.
func nextToken(s string, i int) int {
	c, n := classOf(s, i)
	if c == space {
		run := i
		for k := 0; run < len(s) && k < 16; k++ {
			cc, m := classOf(s, run)
			if cc != space {
				break
			}
			run += m
		}
		if run == len(s) {
			return run
		}
		if cc, _ := classOf(s, run); cc == space || cc == alone || s[run-1] != ' ' {
			return run
		}
		if run-i > 1 {
			return run - 1 // the last space belongs to the word that follows
		}
		i++
		c, n = classOf(s, i)
	}
	start := i
	i += n
	limit := 1
	switch c {
	case letter:
		limit = maxPiece
	case digit:
		limit = 3
	case other:
		limit = 4
	}
	for k := 1; k < limit && i < len(s); k++ {
		cc, m := classOf(s, i)
		if cc != c || c == other && s[i:i+m] != s[start:start+n] {
			break
		}
		i += m
	}
	return i
}
