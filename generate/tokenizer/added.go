package tokenizer

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedTokens are strings that become one token wherever they stand, before any splitting. A nil one has
// none.
type addedTokens struct {
	first   [256]bool
	byFirst map[byte][]addedToken // longest first
}

type addedToken struct {
	text           string
	id             int
	lstrip, rstrip bool // the token takes the white space before or after it along
	word           bool // not inside of a word
}

func newAddedTokens(list []addedToken) *addedTokens {
	if len(list) == 0 {
		return nil
	}
	a := &addedTokens{byFirst: map[byte][]addedToken{}}
	for _, t := range list {
		a.first[t.text[0]] = true
		a.byFirst[t.text[0]] = append(a.byFirst[t.text[0]], t)
	}
	for _, l := range a.byFirst {
		sort.SliceStable(l, func(i, j int) bool { return len(l[i].text) > len(l[j].text) })
	}
	return a
}

// walk calls added for the added tokens of the text, the leftmost and longest first, and rest for the text
// between them. first says that the text is the beginning of what is encoded.
func (a *addedTokens) walk(text string, first bool, added func(id int), rest func(text string, first bool)) {
	if a == nil {
		if text != "" {
			rest(text, first)
		}
		return
	}
	from := 0
	for pos := 0; pos < len(text); {
		t := a.at(text[pos:])
		if t == nil {
			pos++
			continue
		}
		start, end := pos, pos+len(t.text)
		pos = end
		if t.word && insideWord(text, start, end) {
			continue
		}
		if t.lstrip {
			start = max(from, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if from < start {
			rest(text[from:start], first && from == 0)
		}
		added(t.id)
		from = end
		pos = max(pos, end)
	}
	if from < len(text) {
		rest(text[from:], first && from == 0)
	}
}

func insideWord(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return start > 0 && wordChars.contains(before) || end < len(text) && wordChars.contains(after)
}

// at gives the longest token that the text begins with, or nil.
func (a *addedTokens) at(s string) *addedToken {
	if !a.first[s[0]] {
		return nil
	}
	list := a.byFirst[s[0]]
	for i := range list {
		if strings.HasPrefix(s, list[i].text) {
			return &list[i]
		}
	}
	return nil
}
