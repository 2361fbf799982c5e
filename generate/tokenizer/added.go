package tokenizer

import (
	"sort"
	"strings"
	"unicode"
)

// addedTokens are strings that become one token wherever they stand, before any splitting.
type addedTokens struct {
	first   [256]bool
	byFirst map[byte][]addedToken // longest first
	texts   map[int]string
}

type addedToken struct {
	text           string
	id             int
	lstrip, rstrip bool // the token takes the white space before or after it along
}

func newAddedTokens(list []addedToken) *addedTokens {
	if len(list) == 0 {
		return nil
	}
	a := &addedTokens{byFirst: map[byte][]addedToken{}, texts: map[int]string{}}
	for _, t := range list {
		a.first[t.text[0]] = true
		a.byFirst[t.text[0]] = append(a.byFirst[t.text[0]], t)
		a.texts[t.id] = t.text
	}
	for _, l := range a.byFirst {
		sort.SliceStable(l, func(i, j int) bool { return len(l[i].text) > len(l[j].text) })
	}
	return a
}

func (a *addedTokens) content(id int) (string, bool) {
	if a == nil {
		return "", false
	}
	s, ok := a.texts[id]
	return s, ok
}

// walk appends the added tokens of the text, the leftmost and longest first, and calls rest for the text
// between them.
func (a *addedTokens) walk(dst []int, text string, rest func([]int, string) []int) []int {
	from := 0
	for pos := 0; pos < len(text); {
		t := a.at(text[pos:])
		if t == nil {
			pos++
			continue
		}
		start, end := pos, pos+len(t.text)
		pos = end
		if t.lstrip {
			start = max(from, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if from < start {
			dst = rest(dst, text[from:start])
		}
		dst = append(dst, t.id)
		from = end
		pos = max(pos, end)
	}
	if from < len(text) {
		dst = rest(dst, text[from:])
	}
	return dst
}

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
