package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// matcher gives the matches of an expression and the gaps between them, in order.
type matcher interface {
	each(s string, f func(piece string, match bool))
}

// newMatcher compiles an expression, for the built-in matcher where that is enough and else for regexp2.
func newMatcher(expr string) (matcher, error) {
	p, err := compilePattern(expr)
	if err == nil {
		return p, nil
	}
	if errors.Is(err, errBeyond) && nestsClasses(expr) {
		err = fmt.Errorf("nested classes and intersections: %w", errInexact)
	}
	if !errors.Is(err, errBeyond) {
		return nil, fmt.Errorf("splitting pattern %q: %w", expr, err)
	}
	return newRegexp2(expr)
}

// nestsClasses says whether an expression has a class or a && inside of a class, which regexp2 reads
// otherwise.
func nestsClasses(expr string) bool {
	inside := false
	for i := 0; i < len(expr); i++ {
		switch {
		case expr[i] == '\\':
			i++
		case inside && (expr[i] == '[' || strings.HasPrefix(expr[i:], "&&")):
			return true
		case expr[i] == '[':
			inside = true
		case expr[i] == ']':
			inside = false
		}
	}
	return false
}

// slowMatcher is an expression in regexp2.
type slowMatcher struct{ re *regexp2.Regexp }

func newRegexp2(expr string) (matcher, error) {
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("splitting pattern %q: %w", expr, err)
	}
	return slowMatcher{re}, nil
}

func (m slowMatcher) each(s string, f func(piece string, match bool)) {
	// regexp2 counts in characters; pos and char walk along the text together.
	pos, char, gap := 0, 0, 0
	to := func(target int) int {
		for ; char < target; char++ {
			_, size := utf8.DecodeRuneInString(s[pos:])
			pos += size
		}
		return pos
	}
	found, err := m.re.FindStringMatch(s)
	for err == nil && found != nil {
		if found.Length > 0 {
			start := to(found.Index)
			end := to(found.Index + found.Length)
			if gap < start {
				f(s[gap:start], false)
			}
			f(s[start:end], true)
			gap = end
		}
		found, err = m.re.FindNextMatch(found)
	}
	// The only error is a time-out, and none is set.
	if gap < len(s) {
		f(s[gap:], false)
	}
}

// behavior is what a splitter of one expression does with what matches.
type behavior uint8

const (
	isolated behavior = iota
	onlyGaps
	onlyMatches
	joinPrevious // a match belongs to the gap before it
	joinNext
	contiguous // matches that touch are one piece
)

// behaviors are those of a tokenizer.json's Split by name.
var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": onlyGaps, "MergedWithPrevious": joinPrevious, "MergedWithNext": joinNext, "Contiguous": contiguous,
}

// single is a splitter of one expression. inverted says that gaps are what counts as matches.
type single struct {
	matcher
	behavior behavior
	inverted bool
}

func (s single) split(text string, _ bool, emit func(string)) {
	if s.behavior == isolated {
		s.each(text, func(piece string, _ bool) { emit(piece) })
		return
	}
	// Pieces that belong together are neighbours in the text: from is where the one under way begins.
	from, at, before := 0, 0, false
	s.each(text, func(piece string, match bool) {
		match = match != s.inverted
		switch s.behavior {
		case onlyGaps, onlyMatches:
			if match == (s.behavior == onlyMatches) {
				emit(piece)
			}
			at += len(piece)
			return
		case joinPrevious:
			if at > from && (!match || before) {
				emit(text[from:at])
				from = at
			}
		case joinNext:
			if at > from && (match || !before) {
				emit(text[from:at])
				from = at
			}
		case contiguous:
			if at > from && match != before {
				emit(text[from:at])
				from = at
			}
		}
		at, before = at+len(piece), match
	})
	if s.behavior >= joinPrevious && from < len(text) {
		emit(text[from:])
	}
}

// chain runs splitters one after the other: each works on the pieces of the one before, as if each piece
// were a text by itself. An empty one leaves the text whole.
type chain []splitter

func (c chain) split(text string, first bool, emit func(string)) {
	if len(c) == 0 {
		emit(text)
		return
	}
	c[0].split(text, first, func(piece string) {
		c[1:].split(piece, first, emit)
		first = false
	})
}

// prefixSpace puts a space in front of a piece that does not begin with one (ByteLevel's
// add_prefix_space).
type prefixSpace struct{}

func (prefixSpace) split(text string, _ bool, emit func(string)) {
	if text != "" && text[0] != ' ' {
		text = " " + text
	}
	emit(text)
}

// metaspace writes spaces as a mark, puts one in front, and cuts before each mark.
type metaspace struct {
	mark             string
	always, onlyHead bool // put a mark in front: of every text, or of the one that comes first
	cut              bool
}

// spaceMark is how SentencePiece writes a space.
const spaceMark = "\u2581"

func (m metaspace) split(text string, first bool, emit func(string)) {
	text = strings.ReplaceAll(text, " ", m.mark)
	if (m.always || m.onlyHead && first) && !strings.HasPrefix(text, m.mark) {
		text = m.mark + text
	}
	for m.cut && text != "" {
		next := strings.Index(text[1:], m.mark)
		if next < 0 {
			break
		}
		emit(text[:next+1])
		text = text[next+1:]
	}
	if text != "" {
		emit(text)
	}
}

// wordStarts cuts before each space mark, but not behind the characters of glue. Where no token has a mark
// behind another character but those, nothing could have merged across a cut: the tokens stay the same, and
// words can be looked up instead of merging a whole text.
type wordStarts struct{ glue map[rune]bool }

func newWordStarts(vocab map[string]int32) wordStarts {
	w := wordStarts{glue: map[rune]bool{}}
	for s := range vocab {
		for i := strings.Index(s, spaceMark); i >= 0; {
			if i > 0 {
				r, _ := utf8.DecodeLastRuneInString(s[:i])
				w.glue[r] = true
			}
			next := strings.Index(s[i+len(spaceMark):], spaceMark)
			if next < 0 {
				break
			}
			i += len(spaceMark) + next
		}
	}
	return w
}

func (w wordStarts) split(text string, _ bool, emit func(string)) {
	from := 0
	for at := 0; ; {
		next := strings.Index(text[at:], spaceMark)
		if next < 0 {
			break
		}
		at += next
		if r, _ := utf8.DecodeLastRuneInString(text[:at]); at > from && !w.glue[r] {
			emit(text[from:at])
			from = at
		}
		at += len(spaceMark)
	}
	emit(text[from:])
}

// punctuation matches each punctuation mark by itself.
type punctuation struct{}

func (punctuation) each(s string, f func(piece string, match bool)) {
	from := 0
	for i, r := range s {
		if !bertPunctuation(r) {
			continue
		}
		if from < i {
			f(s[from:i], false)
		}
		from = i + utf8.RuneLen(r)
		f(s[i:from], true)
	}
	if from < len(s) {
		f(s[from:], false)
	}
}

func bertPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7f && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	}
	return unicode.Is(unicode.P, r) && !newerPunctuation.has(r) || olderPunctuation.has(r)
}

// wordChars is \w of the expressions in Rust (Unicode Technical Standard 18, Annex C).
var wordChars = charset{tables: []tableRef{
	{unicode.L, false}, {unicode.Nl, false}, {unicode.Other_Alphabetic, false}, {unicode.M, false}, {unicode.Nd, false}, {unicode.Pc, false}, {unicode.Join_Control, false},
}}
