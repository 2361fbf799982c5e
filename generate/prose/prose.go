package prose

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"parley/generate/tokenizer"
)

// Prose makes texts of exact lengths in the tokens of one tokenizer. It is safe for concurrent use; the
// random generators that are handed to it are not.
type Prose struct {
	tok       Tokenizer
	vocab     *vocabulary
	sentences []sentence
	writers   sync.Pool // of *writer

	code, escaped func() *code
	tongues       map[string]func() (*tongue, error)
}

// New counts the word list in the tokenizer's tokens, which takes some ten milliseconds. It fails for a
// tokenizer that has hardly any English words. Code and other languages are counted when they are asked for.
func New(tok Tokenizer) (*Prose, error) {
	v, err := newVocabulary(tok)
	if err != nil {
		return nil, fmt.Errorf("prose: %w", err)
	}
	p := &Prose{tok: tok, vocab: v, sentences: compileSentences(v), tongues: map[string]func() (*tongue, error){}}
	p.code = sync.OnceValue(func() *code { return newCode(tok, v, plainText) })
	p.escaped = sync.OnceValue(func() *code { return newCode(tok, v, inJSON) })
	for name := range languages {
		p.tongues[name] = sync.OnceValues(func() (*tongue, error) { return newTongue(tok, v, name) })
	}
	return p, nil
}

// Exact gives a text of exactly n tokens (none for n <= 0) that stands by itself: a whole message. The
// same state of r gives the same text.
func (p *Prose) Exact(r *rand.Rand, n int) (string, error) {
	return p.make(p.english, r, n, nil, true)
}

// Part gives a text of exactly n tokens with a space in front, to be put behind other text. The tokens of
// parts one behind the other are the tokens of each, one behind the other. The leading space of a message is
// cut off ([Message] does so): the n tokens are those without it at the start, and those with it elsewhere.
func (p *Prose) Part(r *rand.Rand, n int) (string, error) {
	return p.make(p.english, r, n, nil, false)
}

// Block is [Prose.Part] with a text that depends on nothing but the two keys and n: the content of a
// cache block of a trace. Blocks with the same keys have equal tokens, and blocks with different ones
// differ from the first words on.
func (p *Prose) Block(key, previous uint64, n int) (string, error) {
	var b [32]byte
	copy(b[:], "parley block")
	binary.LittleEndian.PutUint64(b[16:], key)
	binary.LittleEndian.PutUint64(b[24:], previous)
	sum := sha256.Sum256(b[:])
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[0:]), binary.LittleEndian.Uint64(sum[8:])))
	return p.make(p.english, r, n, nil, false)
}

// Unique is [Prose.Part] (or, with whole, [Prose.Exact]) whose first two or three words are those of the
// given index and of no other, as far as n reaches: texts of different indices differ after a few tokens,
// however many there are. The salt shuffles which index has which words.
func (p *Prose) Unique(r *rand.Rand, salt, index uint64, n int, whole bool) (string, error) {
	return p.make(p.english, r, n, p.opening(salt, index), whole)
}

// Voice gives parts (see [Prose.Part]) of another kind than English prose.
type Voice struct {
	p       *Prose
	compose composer
	opening func(salt, index uint64) []unit
}

// Part is [Prose.Part] in this voice.
func (v Voice) Part(r *rand.Rand, n int) (string, error) {
	return v.p.make(v.compose, r, n, nil, false)
}

// Unique is [Prose.Unique] in this voice.
func (v Voice) Unique(r *rand.Rand, salt, index uint64, n int) (string, error) {
	return v.p.make(v.compose, r, n, v.opening(salt, index), false)
}

// English is the voice of [Prose.Part] itself.
func (p *Prose) English() Voice { return Voice{p, p.english, p.opening} }

// Message joins parts to the content of one message: it has exactly the tokens of the parts.
func Message(parts ...string) string { return strings.TrimPrefix(strings.Join(parts, ""), " ") }

// Joined is [Message] of parts that have n tokens in all. Nearly always that is so; with a tokenizer that looks at
// more than a word at a time (Unigram) a part may come out otherwise behind another, and is repaired.
func (p *Prose) Joined(n int, parts ...string) (string, error) {
	s, joined := Message(parts...), 0
	for _, part := range parts {
		if part != "" {
			joined++
		}
	}
	if joined < 2 {
		return s, nil
	}
	got := p.tok.Count(s)
	if got == n {
		return s, nil
	}
	return p.repair(s, n, got)
}

// opening gives the words of an index. The pairs (adjective, plural) are numbered, and the numbers are
// mixed by x -> a*x + b modulo their count, under which no two become equal; once all pairs are used, further
// adjectives between the two tell the rounds apart.
func (p *Prose) opening(salt, index uint64) []unit {
	return opening(p.vocab.start, p.vocab.lower[lAdjective], p.vocab.lower[lPlural], salt, index)
}

// opening gives the words of an index: one of the first list and one of the last.
func opening(first, between, last []unit, salt, index uint64) []unit {
	pairs := uint64(len(first)) * uint64(len(last))
	a := coprime(salt*0x9E3779B97F4A7C15>>33+pairs/3, pairs)
	x := (a*(index%pairs) + salt%pairs) % pairs
	out := []unit{first[x%uint64(len(first))]}
	for round := index / pairs; round > 0; round /= uint64(len(between)) {
		out = append(out, between[round%uint64(len(between))])
	}
	return append(out, last[x/uint64(len(first))])
}

// coprime gives the first number from x on, modulo m, that has no factor in common with m.
func coprime(x, m uint64) uint64 {
	for x = x%m + 1; gcd(x, m) != 1; x++ {
	}
	return x
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// composer puts a text together in a writer, of w.left tokens.
type composer func(w *writer, opening []unit)

// writer is a text under way: its units, and how many tokens are left.
type writer struct {
	draws
	dst   []byte
	parts []tokenizer.Part
	left  int
}

func (w *writer) put(u unit) {
	if u.text == "" {
		return
	}
	w.dst = append(w.dst, u.text...)
	w.parts = append(w.parts, tokenizer.Part{End: int32(len(w.dst)), Tokens: u.alone})
	w.left -= u.tokens
}

// make composes, encodes once, and repairs where the sum was not the whole.
func (p *Prose) make(compose composer, r *rand.Rand, n int, opening []unit, whole bool) (string, error) {
	if n <= 0 {
		return "", nil
	}
	w, _ := p.writers.Get().(*writer)
	if w == nil {
		w = &writer{}
	}
	defer p.writers.Put(w)
	*w = writer{draws: draws{r: r}, dst: make([]byte, 0, n*6+32), parts: w.parts[:0], left: n}
	compose(w, opening)
	s := unsafe.String(unsafe.SliceData(w.dst), len(w.dst)) // it is not touched again
	w.dst = nil
	// The count is of the text without its leading space, and parts are counted from there; the first word is
	// not the unit that it was drawn as.
	text := strings.TrimPrefix(s, " ")
	if cut := len(s) - len(text); cut > 0 {
		for i := range w.parts {
			w.parts[i].End -= int32(cut)
		}
		w.parts[0].Tokens = -1
	}
	if got := p.tok.CountParts(text, w.parts); got != n {
		var err error
		if text, err = p.repair(text, n, got); err != nil {
			return "", err
		}
		s = " " + text
	}
	if whole {
		return text, nil
	}
	return s, nil
}

// verified gives a part once its count, encoded as a whole and without its leading space, is n.
func (p *Prose) verified(s string, n int) (string, error) {
	text := strings.TrimPrefix(s, " ")
	got := p.tok.Count(text)
	if got == n {
		return s, nil
	}
	text, err := p.repair(text, n, got)
	return " " + text, err
}

// repair takes whole words off the end of a text (characters, where there are no words), and puts words of one
// token there, until the count of the whole text is n.
func (p *Prose) repair(s string, n, got int) (string, error) {
	for range 64 {
		for got > n {
			cut := strings.LastIndexByte(s, ' ')
			if cut < len(s)-longPiece {
				_, size := utf8.DecodeLastRuneInString(s)
				cut = len(s) - size
			}
			if s == "" || cut < 0 {
				return "", fmt.Errorf("prose: no text of %d tokens to be had from this tokenizer", n)
			}
			s = s[:cut]
			got = p.tok.Count(s)
		}
		var b strings.Builder
		b.WriteString(s)
		for i := 0; got+i < n; i++ {
			b.WriteString(p.vocab.single[(len(s)+i*7)%len(p.vocab.single)].text)
		}
		s = b.String()
		if got = p.tok.Count(s); got == n {
			return s, nil
		}
	}
	return "", fmt.Errorf("prose: no text of %d tokens to be had from this tokenizer", n)
}

// paragraph bounds the sentences of a paragraph.
const minParagraph, maxParagraph = 3, 7

// english composes a text with a leading space. Words come as they are drawn as long as a place is left for
// the full stop; the last places are filled with words of one token.
func (p *Prose) english(w *writer, opening []unit) {
	v := p.vocab
	fits := func(u unit) bool { return u.tokens < w.left } // one place stays for the full stop
	word := true                                           // the last unit was a word, so that a full stop may follow

	if opening == nil {
		opening = []unit{w.unit(v.start), w.unit(v.lower[lPlural])}
	}
	if !fits(opening[0]) {
		w.put(w.unit(v.one))
		p.fill(w, word)
		return
	}
	w.put(opening[0])
	for _, u := range opening[1:] {
		if !fits(u) {
			p.fill(w, word)
			return
		}
		w.put(u)
	}
	for _, l := range [...]list{lPast, lDeterminer, lNoun} {
		u := w.unit(v.lower[l])
		if !fits(u) {
			p.fill(w, word)
			return
		}
		w.put(u)
	}

	inParagraph := minParagraph + w.index(maxParagraph-minParagraph+1)
	for {
		// A full stop and at least one more word behind it, or the end.
		end := v.stop
		if inParagraph--; inParagraph == 0 {
			end = v.newPar
		}
		s := &p.sentences[w.index(len(p.sentences))]
		first := s.upper
		if inParagraph == 0 {
			first = s.para
			inParagraph = minParagraph + w.index(maxParagraph-minParagraph+1)
		}
		u := w.unit(first)
		if end.tokens+u.tokens >= w.left {
			p.fill(w, word)
			return
		}
		w.put(end)
		w.put(u)
		for i := range s.slots {
			sl := &s.slots[i]
			if i > 0 {
				u = w.unit(sl.units)
				if !fits(u) {
					p.fill(w, word)
					return
				}
				w.put(u)
				word = true
			}
			if sl.comma {
				if !fits(v.comma) {
					p.fill(w, word)
					return
				}
				w.put(v.comma)
				word = false
			}
		}
	}
}

// fill puts exactly the tokens that are left: words of one token, then a full stop where one can stand.
func (p *Prose) fill(w *writer, word bool) {
	for w.left > 1 || w.left == 1 && !word {
		w.put(w.unit(p.vocab.single))
		word = true
	}
	if w.left == 1 {
		w.put(p.vocab.stop)
	}
}

// Count gives the tokens of any text.
func (p *Prose) Count(text string) int { return p.tok.Count(text) }

// Wrapped gives a text of exactly n tokens that begins with before and ends with after, such as a JSON
// object around a string. The words between are letters and spaces only, so that they need no escapes.
func (p *Prose) Wrapped(r *rand.Rand, before, after string, n int) (string, error) {
	return p.wrapped(r, before, after, n, func(w *writer) {
		u := w.unit(p.vocab.one)
		w.put(unit{text: u.text[1:], tokens: u.tokens, alone: -1})
		for w.left > 0 {
			u := w.unit(p.vocab.single)
			if l := list(w.index(int(lists))); w.left > 8 {
				u = w.unit(p.vocab.lower[l])
			}
			w.put(u)
		}
	})
}

func (p *Prose) wrapped(r *rand.Rand, before, after string, n int, body func(*writer)) (string, error) {
	seed := [2]uint64{r.Uint64(), r.Uint64()}
	// How the ends join with the words shows only in the whole text. So the last few words are put behind the
	// body one by one, as many as are right.
	words := n - p.tok.Count(before+after)
	for _, slack := range [...]int{6, 16, 64} {
		slack = min(slack, words-1)
		if slack < 0 {
			break
		}
		w := &writer{draws: draws{r: rand.New(rand.NewPCG(seed[0], seed[1]))}, dst: append(make([]byte, 0, words*6+len(before)+len(after)), before...), left: words - slack}
		body(w)
		for pad, tries := slack, 0; pad >= 0 && tries < 8; tries++ {
			text := append([]byte(nil), w.dst...)
			for i := range pad {
				text = append(text, p.vocab.single[(len(w.dst)+i*7)%len(p.vocab.single)].text...)
			}
			s := string(append(text, after...))
			got := p.tok.Count(s)
			if got == n {
				return s, nil
			}
			pad += n - got
		}
	}
	return "", fmt.Errorf("prose: no text of %d tokens around %q to be had", n, before+after)
}
