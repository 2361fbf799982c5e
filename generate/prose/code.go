package prose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// code composes source code, lines of JSON, and what tools print, of which a coding agent's tool results and
// edits consist. It comes from templates of whole snippets, in which a name is the same wherever it stands in
// the snippet, so that no text repeats.
type code struct {
	v        *vocabulary
	snippets [contents][]snippet
	newline  unit // behind a word
	comment  unit // at the start of a line
}

// Content is what a text of code is.
type Content int

// The kinds of content.
const (
	Source  Content = iota // functions and types in Go, Python and TypeScript
	Records                // JSON, an object per line
	Output                 // what builds, tests and searches print
	contents
)

// snippet is a template, compiled: literal text and places for names.
type snippet struct{ slots []codeSlot }

// codeSlot is literal text (names is nil), or a place for one of the names; equal letters get equal numbers.
type codeSlot struct {
	literal unit
	names   []unit
	letter  byte
}

// form is how code is written into a text.
type form int

const (
	plainText form = iota
	inJSON         // with the escapes of a JSON string
)

func newCode(tok Tokenizer, v *vocabulary, f form) *code {
	c := &code{v: v}
	write := func(s string) string {
		if f == plainText {
			return s
		}
		quoted, _ := json.Marshal(s) // a string cannot fail
		s = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted))
		return s[1 : len(s)-1]
	}
	word, line, mark := newBehind(tok, "the"), newBehind(tok, ";"+write("\n")), newBehind(tok, "the((")
	c.newline, c.comment = word.unit(write("\n")), line.unit("//")
	var names []string
	for _, w := range append(append([]string{}, nouns...), verbs...) {
		if len(w) > 2 && len(w) < 8 && (len(w)+int(w[0]))%3 == 0 {
			names = append(names, w)
		}
	}
	numbers := make([]string, 300)
	for i := range numbers {
		numbers[i] = strconv.Itoa(7 + i*i%991)
	}
	known := map[string][]unit{}
	// of gives the names, or with a digit the numbers, with what stands directly before them, which most
	// tokenizers take into one piece with them.
	of := func(letter byte, before string, from behind) []unit {
		upper, number := letter >= 'A' && letter <= 'Z', letter <= '9'
		key := fmt.Sprint(upper, number, before, from.text)
		if known[key] == nil {
			list := names
			if number {
				list = numbers
			}
			for _, w := range list {
				if upper {
					w = capital(w)
				}
				known[key] = append(known[key], from.unit(before+w))
			}
		}
		return known[key]
	}
	for kind, list := range snippetTexts {
		for _, text := range list {
			var s snippet
			from := line
			for text = strings.TrimPrefix(text, "\n"); text != ""; from = word {
				at := strings.IndexByte(text, '$')
				if at < 0 {
					s.slots = append(s.slots, codeSlot{literal: from.unit(write(text))})
					break
				}
				literal, letter := write(text[:at]), text[at+1]
				text = text[at+2:]
				// A mark behind a word or a space belongs to the name, and so does a whole escape; a mark behind
				// another mark belongs to that.
				cut := max(0, len(literal)-1)
				switch {
				case strings.HasSuffix(literal, `\t`):
					cut--
				case cut > 0 && literal[cut] != ' ' && literal[cut] != '\t' && strings.IndexByte(marks+" ", literal[cut-1]) >= 0:
					cut++
				}
				before := literal[cut:]
				if literal = literal[:cut]; literal != "" {
					s.slots = append(s.slots, codeSlot{literal: from.unit(literal)})
					from = mark
				}
				switch {
				case before == "" || from.text == line.text:
				case before == "\t" || before == `\t`:
					from = line
				default:
					from = word
				}
				s.slots = append(s.slots, codeSlot{names: of(letter, before, from), letter: letter})
			}
			c.snippets[kind] = append(c.snippets[kind], s)
		}
	}
	return c
}

// marks are the punctuation marks of code.
const marks = "!\"#%&'()*+,-./:;<=>?@[]^_`{|}~\\"

// compose writes a headline, then snippets, and fills up with a comment.
func (c *code) compose(kind Content, english composer) composer {
	return func(w *writer, opening []unit) {
		if w.left < 24 {
			english(w, opening)
			return
		}
		if opening == nil {
			opening = []unit{w.unit(c.v.start), w.unit(c.v.lower[lPlural])}
		}
		for _, u := range opening {
			w.put(u)
		}
		w.put(c.newline)
		c.body(w, kind)
	}
}

// body writes lines until nothing is left. It begins at the start of a line.
func (c *code) body(w *writer, kind Content) {
	least := c.comment.tokens + 1 + c.newline.tokens
	var units []unit
	for misses := 0; misses < 4; {
		s := &c.snippets[kind][w.index(len(c.snippets[kind]))]
		units = units[:0]
		tokens := 0
		var chosen [32]int
		for i := range s.slots {
			sl := &s.slots[i]
			u := sl.literal
			if sl.names != nil {
				// Numbers from 1, so that 0 is a letter without its name yet.
				at := &chosen[sl.letter&31] // a name in capitals is the same name
				if *at == 0 {
					*at = 1 + w.index(len(sl.names))
				}
				u = sl.names[*at-1]
			}
			units = append(units, u)
			tokens += u.tokens
		}
		if tokens+least > w.left {
			misses++
			continue
		}
		for _, u := range units {
			w.put(u)
		}
	}
	for w.left >= least {
		room := w.left - c.comment.tokens - c.newline.tokens
		words := min(room, 16)
		if room-words < least {
			words = room // what would be left is too little for a line of its own
		}
		w.put(c.comment)
		for range words {
			w.put(w.unit(c.v.single))
		}
		w.put(c.newline)
	}
	for w.left > 0 {
		w.put(w.unit(c.v.single))
	}
}

// Code gives the voice of code. Its parts begin with a headline of two words.
func (p *Prose) Code(kind Content) Voice {
	return Voice{p, p.code().compose(kind, p.english), p.opening}
}

// WrappedCode is [Prose.Wrapped] with code, escaped as in a JSON string, between the ends.
func (p *Prose) WrappedCode(r *rand.Rand, before, after string, n int) (string, error) {
	return p.wrapped(r, before, after, n, func(w *writer) { p.escaped().body(w, Source) })
}
