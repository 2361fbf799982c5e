package tokenizer

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// splitter cuts text into the pieces that are merged each by itself.
type splitter interface {
	split(text string, emit func(piece string))
}

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
	if !errors.Is(err, errBeyond) {
		return nil, fmt.Errorf("splitting pattern %q: %w", expr, err)
	}
	return newRegexp2(expr)
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

// single is a splitter of one expression.
type single struct {
	matcher
	dropMatches, dropGaps bool
}

func (s single) split(text string, emit func(string)) {
	s.each(text, func(piece string, match bool) {
		if match && s.dropMatches || !match && s.dropGaps {
			return
		}
		emit(piece)
	})
}

// chain runs splitters one after the other: each works on the pieces of the one before, as if each piece
// were a text by itself.
type chain []splitter

func (c chain) split(text string, emit func(string)) {
	if len(c) == 0 {
		if text != "" {
			emit(text)
		}
		return
	}
	c[0].split(text, func(piece string) { c[1:].split(piece, emit) })
}

// prefixSpace puts a space in front of a piece that does not begin with one (ByteLevel's
// add_prefix_space).
type prefixSpace struct{}

func (prefixSpace) split(text string, emit func(string)) {
	if text != "" && text[0] != ' ' {
		text = " " + text
	}
	emit(text)
}
