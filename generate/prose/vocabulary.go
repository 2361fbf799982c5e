package prose

import (
	"fmt"
	"slices"

	"parley/generate/tokenizer"
)

// Tokenizer is what is needed of a tokenizer; see [tokenizer.Tokenizer]. It must be safe for concurrent use.
type Tokenizer interface {
	Count(text string) int
	CountAlone(text string) int32
	CountParts(text string, parts []tokenizer.Part) int
	Cuts(text string) []int
}

// unit is a piece of text whose number of tokens does not depend on its neighbours, as long as what stands
// before it is of the right kind (a word, the end of a line).
type unit struct {
	text   string
	tokens int
	alone  int32 // the tokens where the tokenizer takes it for a piece by itself; see tokenizer.CountParts
}

// behind counts units behind a text: what each adds to the tokens of the text.
type behind struct {
	tok    Tokenizer
	text   string
	tokens int
}

func newBehind(tok Tokenizer, text string) behind { return behind{tok, text, tok.Count(text)} }

func (b behind) count(text string) int { return b.tok.Count(b.text+text) - b.tokens }

func (b behind) unit(text string) unit { return unit{text, b.count(text), b.tok.CountAlone(text)} }

// list names a word list in one inflected form.
type list int

const (
	lAdjective list = iota
	lNoun
	lPlural
	lPast
	lThird
	lBase
	lGerund
	lAdverb
	lName
	lPlace
	lPreposition
	lDeterminer
	lPluralDeterminer
	lConjunction
	lists
)

var listWords = [lists]func() []string{
	lAdjective:        func() []string { return adjectives },
	lNoun:             func() []string { return nouns },
	lPlural:           func() []string { return mapped(nouns, plural) },
	lPast:             func() []string { return mapped(verbs, past) },
	lThird:            func() []string { return mapped(verbs, third) },
	lBase:             func() []string { return verbs },
	lGerund:           func() []string { return mapped(verbs, gerund) },
	lAdverb:           func() []string { return adverbs },
	lName:             func() []string { return names },
	lPlace:            func() []string { return places },
	lPreposition:      func() []string { return prepositions },
	lDeterminer:       func() []string { return determiners },
	lPluralDeterminer: func() []string { return pluralDeterminers },
	lConjunction:      func() []string { return conjunctions },
}

// vocabulary is the word list with the token counts of one tokenizer.
type vocabulary struct {
	lower [lists][]unit // " word"
	upper [lists][]unit // " Word"
	para  [lists][]unit // "Word", at the start of a line

	start  []unit // " Word" that has as many tokens at the start of a text, without its space: how a text may begin
	single []unit // " word" of one token: what fills the last places of a text
	one    []unit // " Word" of one token, with and without its space
	stop   unit   // "."
	comma  unit   // ","
	newPar unit   // ".\n\n"

	literals map[string]unit // the words that templates spell out
}

func mapped(words []string, f func(string) string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = f(w)
	}
	return out
}

func newVocabulary(tok Tokenizer) (*vocabulary, error) {
	v := &vocabulary{literals: make(map[string]unit)}
	word, paragraph := newBehind(tok, "the"), newBehind(tok, "it.\n\n")
	seen := make(map[string]bool)
	for l, words := range listWords {
		for _, w := range words() {
			lower, upper, para := word.unit(" "+w), word.unit(" "+capital(w)), paragraph.unit(capital(w))
			v.lower[l] = append(v.lower[l], lower)
			v.upper[l] = append(v.upper[l], upper)
			v.para[l] = append(v.para[l], para)
			if seen[w] {
				continue
			}
			seen[w] = true
			if lower.tokens == 1 && len(w) > 3 {
				v.single = append(v.single, lower)
			}
			if len(w) > 2 && upper.tokens == tok.Count(capital(w)) {
				switch list(l) {
				case lAdjective, lPlural, lName, lGerund:
					v.start = append(v.start, upper)
				}
				if upper.tokens == 1 {
					v.one = append(v.one, upper)
				}
			}
		}
	}
	v.stop, v.comma, v.newPar = word.unit("."), word.unit(","), word.unit(".\n\n")
	for _, w := range templateLiterals() {
		from := word
		if w[0] != ' ' {
			from = paragraph
		}
		v.literals[w] = from.unit(w)
	}
	if len(v.start) < 16 || len(v.single) < 16 || len(v.one) < 4 || v.stop.tokens != 1 {
		return nil, fmt.Errorf("this tokenizer has too few English words of one token (%d found) to make text of an exact length: use one that was trained on English", len(v.single))
	}
	// The order of the lists must not depend on anything but the words.
	v.start, v.single, v.one = slices.Clip(v.start), slices.Clip(v.single), slices.Clip(v.one)
	return v, nil
}
