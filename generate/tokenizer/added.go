package tokenizer

import "sort"

// addedTokens are strings that become one token wherever they stand, before any splitting.
type addedTokens struct {
	byFirst map[byte][]addedToken // longest first
	texts   map[int]string
}

type addedToken struct {
	text string
	id   int
}

func newAddedTokens(list []addedToken) *addedTokens {
	if len(list) == 0 {
		return nil
	}
	a := &addedTokens{byFirst: map[byte][]addedToken{}, texts: map[int]string{}}
	for _, t := range list {
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
		if from < pos {
			dst = rest(dst, text[from:pos])
		}
		dst = append(dst, t.id)
		pos += len(t.text)
		from = pos
	}
	if from < len(text) {
		dst = rest(dst, text[from:])
	}
	return dst
}

func (a *addedTokens) at(s string) *addedToken {
	list := a.byFirst[s[0]]
	for i := range list {
		if t := list[i].text; len(t) <= len(s) && s[:len(t)] == t {
			return &list[i]
		}
	}
	return nil
}
