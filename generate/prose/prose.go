package prose

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"unsafe"
)

// Prose makes texts of exact lengths in the tokens of one tokenizer. It is safe for concurrent use; the
// random generators that are handed to it are not.
type Prose struct {
	tok       Tokenizer
	vocab     *vocabulary
	sentences []sentence
}

// New counts the word list in the tokenizer's tokens, which takes some ten milliseconds. It fails for a
// tokenizer that has hardly any English words.
func New(tok Tokenizer) (*Prose, error) {
	v, err := newVocabulary(tok)
	if err != nil {
		return nil, fmt.Errorf("prose: %w", err)
	}
	return &Prose{tok: tok, vocab: v, sentences: compileSentences(v)}, nil
}

// Exact gives a text of exactly n tokens (none for n <= 0) that stands by itself: a whole message. The
// same state of r gives the same text.
func (p *Prose) Exact(r *rand.Rand, n int) (string, error) {
	return p.make(r, n, nil, true)
}

// Part gives a text of exactly n tokens with a space in front, to be put behind other text. The tokens of
// parts one behind the other are the tokens of each, one behind the other; and a part at the start of a
// message keeps its length when its leading space is cut off ([Message] does so).
func (p *Prose) Part(r *rand.Rand, n int) (string, error) {
	return p.make(r, n, nil, false)
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
	return p.make(r, n, nil, false)
}

// Unique is [Prose.Part] (or, with whole, [Prose.Exact]) whose first two or three words are those of the
// given index and of no other, as far as n reaches: texts of different indices differ after a few tokens,
// however many there are. The salt shuffles which index has which words.
func (p *Prose) Unique(r *rand.Rand, salt, index uint64, n int, whole bool) (string, error) {
	return p.make(r, n, p.opening(salt, index), whole)
}

// Message joins parts to the content of one message: it has exactly the tokens of the parts.
func Message(parts ...string) string { return strings.TrimPrefix(strings.Join(parts, ""), " ") }

// opening gives the words of an index. The pairs (adjective, plural) are numbered, and the numbers are
// mixed by x -> a*x + b modulo their count, under which no two become equal; once all pairs are used, further
// adjectives between the two tell the rounds apart.
func (p *Prose) opening(salt, index uint64) []unit {
	v := p.vocab
	nouns := v.lower[lPlural]
	pairs := uint64(len(v.start)) * uint64(len(nouns))
	a := coprime(salt*0x9E3779B97F4A7C15>>33+pairs/3, pairs)
	x := (a*(index%pairs) + salt%pairs) % pairs
	out := []unit{v.start[x%uint64(len(v.start))]}
	for round := index / pairs; round > 0; round /= uint64(len(v.lower[lAdjective])) {
		out = append(out, v.lower[lAdjective][round%uint64(len(v.lower[lAdjective]))])
	}
	return append(out, nouns[x/uint64(len(v.start))])
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

// make composes, encodes once, and repairs where the sum was not the whole.
func (p *Prose) make(r *rand.Rand, n int, opening []unit, whole bool) (string, error) {
	if n <= 0 {
		return "", nil
	}
	text := p.compose(make([]byte, 0, n*6+32), r, n, opening)
	s := unsafe.String(unsafe.SliceData(text), len(text)) // text is not touched again
	return p.verified(s, n, whole)
}

// verified gives the text once its count, encoded as a whole, is n.
func (p *Prose) verified(s string, n int, whole bool) (string, error) {
	if whole {
		s = strings.TrimPrefix(s, " ")
	}
	got := p.tok.Count(s)
	if got == n {
		return s, nil
	}
	return p.repair(s, n, got)
}

// repair takes whole words off the end of a text, and puts words of one token there, until the count of
// the whole text is n.
func (p *Prose) repair(s string, n, got int) (string, error) {
	for range 64 {
		for got > n {
			cut := strings.LastIndexByte(s, ' ')
			if cut < 0 {
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

// compose appends a text whose units sum up to n tokens, with a leading space. Words come as they are
// drawn as long as a place is left for the full stop; the last places are filled with words of one token.
func (p *Prose) compose(dst []byte, r *rand.Rand, n int, opening []unit) []byte {
	v, d, left := p.vocab, draws{r: r}, n
	fits := func(u unit) bool { return u.tokens < left } // one place stays for the full stop
	word := true                                         // the last unit was a word, so that a full stop may follow
	put := func(u unit) {
		dst = append(dst, u.text...)
		left -= u.tokens
	}

	if opening == nil {
		opening = []unit{d.unit(v.start), d.unit(v.lower[lPlural])}
	}
	if !fits(opening[0]) {
		put(d.unit(v.one))
		return p.fill(dst, &d, left, word)
	}
	put(opening[0])
	for _, u := range opening[1:] {
		if !fits(u) {
			return p.fill(dst, &d, left, word)
		}
		put(u)
	}
	for _, l := range [...]list{lPast, lDeterminer, lNoun} {
		u := d.unit(v.lower[l])
		if !fits(u) {
			return p.fill(dst, &d, left, word)
		}
		put(u)
	}

	inParagraph := minParagraph + d.index(maxParagraph-minParagraph+1)
	for {
		// A full stop and at least one more word behind it, or the end.
		end := v.stop
		if inParagraph--; inParagraph == 0 {
			end = v.newPar
		}
		s := &p.sentences[d.index(len(p.sentences))]
		first := s.upper
		if inParagraph == 0 {
			first = s.para
			inParagraph = minParagraph + d.index(maxParagraph-minParagraph+1)
		}
		u := d.unit(first)
		if end.tokens+u.tokens >= left {
			return p.fill(dst, &d, left, word)
		}
		put(end)
		put(u)
		for i := range s.slots {
			sl := &s.slots[i]
			if i > 0 {
				u = d.unit(sl.units)
				if !fits(u) {
					return p.fill(dst, &d, left, word)
				}
				put(u)
				word = true
			}
			if sl.comma {
				if !fits(v.comma) {
					return p.fill(dst, &d, left, word)
				}
				put(v.comma)
				word = false
			}
		}
	}
}

// fill appends exactly left tokens: words of one token, then a full stop where one can stand.
func (p *Prose) fill(dst []byte, d *draws, left int, word bool) []byte {
	for ; left > 1 || left == 1 && !word; left-- {
		dst = append(dst, d.unit(p.vocab.single).text...)
		word = true
	}
	if left == 1 {
		dst = append(dst, p.vocab.stop.text...)
	}
	return dst
}

// Count gives the tokens of any text.
func (p *Prose) Count(text string) int { return p.tok.Count(text) }

// Wrapped gives a text of exactly n tokens that begins with before and ends with after, such as a JSON
// object around a string. The words between are letters and spaces only, so that they need no escapes.
func (p *Prose) Wrapped(r *rand.Rand, before, after string, n int) (string, error) {
	seed := [2]uint64{r.Uint64(), r.Uint64()}
	// How the ends join with the words shows only in the whole text, but is the same for any number of
	// words: the second try is right, unless the tokenizer is of an unusual kind.
	words := n - p.tok.Count(before+after)
	for range 16 {
		if words < 1 {
			break
		}
		d := draws{r: rand.New(rand.NewPCG(seed[0], seed[1]))}
		text := append(make([]byte, 0, words*6+len(before)+len(after)), before...)
		text = append(text, d.unit(p.vocab.one).text[1:]...)
		for left := words - 1; left > 0; {
			u := d.unit(p.vocab.single)
			if l := list(d.index(int(lists))); left > 8 {
				u = d.unit(p.vocab.lower[l])
			}
			text = append(text, u.text...)
			left -= u.tokens
		}
		got := p.tok.Count(string(append(text, after...)))
		if got == n {
			return string(append(text, after...)), nil
		}
		words += n - got
	}
	return "", fmt.Errorf("prose: no text of %d tokens around %q to be had", n, before+after)
}
