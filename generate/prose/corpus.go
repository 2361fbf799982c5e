package prose

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Corpus is text of the user, cut so that passages of exact lengths can be taken from it.
//
// The text is cut before every space between a word (or its punctuation) and a letter, where tokenizers
// cut as well, and the tokens of each piece are counted once. Some pieces in a row make a segment, and
// segments one behind the other make an endless tape: first the text in its own order, then again and
// again in seeded shuffles, the first half of the text and the last half apart. So a segment comes again
// only after half of the corpus at least, and texts from neighbouring places of the tape share nothing, as
// long as both together are shorter than that.
type Corpus struct {
	p        *Prose
	text     string
	pieces   []piece
	segments []uint32 // index of the first piece of each segment, and the number of pieces at the end
	tokens   int64
	shuffle  func(pass uint64) *rand.Rand

	mu     sync.Mutex
	passes map[uint64][]uint32
}

type piece struct {
	at     uint32 // offset in the text; it ends where the next begins
	tokens uint16 // 0: not to be used
}

const (
	// MaxCorpus bounds how much of the text files is used, in bytes.
	MaxCorpus = 128 << 20
	// segmentTokens is the least length of a segment but the last.
	segmentTokens = 48
	// maxPiece is the longest piece that is used, in tokens: longer ones are not prose (a table, an
	// encoded picture, a text without spaces).
	maxPiece = 40
	// minCorpus is the least that a corpus must have, in tokens.
	minCorpus = 200
)

// NewCorpus reads text files and counts their pieces, with count running in as many goroutines as
// workers. Shuffle gives the random numbers of each pass after the first.
func NewCorpus(p *Prose, files []string, workers int, shuffle func(pass uint64) *rand.Rand) (*Corpus, error) {
	var b strings.Builder
	for _, name := range files {
		if err := readText(&b, name); err != nil {
			return nil, fmt.Errorf("text file: %w", err)
		}
		b.WriteByte('\n')
	}
	c := &Corpus{p: p, text: strings.ToValidUTF8(b.String(), "\uFFFD"), shuffle: shuffle, passes: make(map[uint64][]uint32)}
	c.cut()
	c.count(max(1, workers))
	c.segment()
	if c.tokens < minCorpus || len(c.segments) < 5 {
		return nil, fmt.Errorf("%s: only %d tokens of text with spaces between words, which is too little to make messages of (at least %d): give a longer text, or none at all for the built-in prose",
			strings.Join(files, ", "), c.tokens, minCorpus)
	}
	return c, nil
}

func readText(b *strings.Builder, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(b, io.LimitReader(f, int64(MaxCorpus-b.Len()))); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Length gives the number of segments after which the tape repeats the corpus.
func (c *Corpus) Length() int64 { return int64(len(c.segments) - 1) }

// Tokens gives the number of tokens that the corpus has before it repeats itself.
func (c *Corpus) Tokens() int64 { return c.tokens }

// cut finds the places where every byte-level tokenizer cuts: before one space, between something that is
// no space and a letter.
func (c *Corpus) cut() {
	for i := 0; i < len(c.text); i++ {
		if c.text[i] != ' ' || i == 0 {
			continue
		}
		if before, _ := utf8.DecodeLastRuneInString(c.text[:i]); unicode.IsSpace(before) {
			continue
		}
		if after, _ := utf8.DecodeRuneInString(c.text[i+1:]); unicode.IsLetter(after) {
			c.pieces = append(c.pieces, piece{at: uint32(i)})
		}
	}
}

// piece gives the text of a piece. The last one has no end of its own and is never used.
func (c *Corpus) piece(i int) string { return c.text[c.pieces[i].at:c.pieces[i+1].at] }

// count counts the tokens of each piece; the same words come often, so counts are kept.
func (c *Corpus) count(workers int) {
	n := max(0, len(c.pieces)-1)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			known, word := make(map[string]uint16), newBehind(c.p.tok, "the")
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				s := c.piece(i)
				k, ok := known[s]
				if !ok {
					if len(s) < 1024 {
						k = uint16(word.count(s))
					}
					if k > maxPiece {
						k = 0
					}
					if len(known) < 1<<17 {
						known[s] = k
					}
				}
				c.pieces[i].tokens = k
			}
		})
	}
	wg.Wait()
}

func (c *Corpus) segment() {
	length := segmentTokens
	for i := 0; i+1 < len(c.pieces); i++ {
		if length >= segmentTokens {
			c.segments = append(c.segments, uint32(i))
			length = 0
		}
		length += int(c.pieces[i].tokens)
		c.tokens += int64(c.pieces[i].tokens)
	}
	// A last segment that is too short would break the promise of Segments: it goes to the one before.
	if length < segmentTokens && len(c.segments) > 1 {
		c.segments = c.segments[:len(c.segments)-1]
	}
	c.segments = append(c.segments, uint32(max(0, len(c.pieces)-1)))
}

// Segments bounds how many segments of the tape a text of n tokens takes.
func (c *Corpus) Segments(n int) int64 { return int64(n)/segmentTokens + 3 }

// Part gives a text of exactly n tokens with a space in front, like [Prose.Part], from segment number at
// of the tape on. It takes no more than [Corpus.Segments] of them.
func (c *Corpus) Part(r *rand.Rand, at int64, n int) (string, error) {
	return c.make(r, at, n, nil)
}

// Unique is [Corpus.Part] behind a few words of [Prose.Unique], because passages of a corpus that is used
// more than once may begin alike.
func (c *Corpus) Unique(r *rand.Rand, salt, index uint64, at int64, n int) (string, error) {
	return c.make(r, at, n, c.p.opening(salt, index))
}

func (c *Corpus) make(r *rand.Rand, at int64, n int, opening []unit) (string, error) {
	if n <= 0 {
		return "", nil
	}
	dst, left := make([]byte, 0, n*5+32), n
	for i, u := range opening {
		if u.tokens > left || i == len(opening)-1 && u.tokens+1 > left {
			return c.finish(dst, r, left, n)
		}
		dst = append(dst, u.text...)
		left -= u.tokens
	}
	if opening != nil {
		dst, left = append(dst, c.p.vocab.stop.text...), left-c.p.vocab.stop.tokens
	}
	limit := at + c.Segments(n)
	for ; at < limit && left > 0; at++ {
		s := c.segmentAt(at)
		for i := int(c.segments[s]); i < int(c.segments[s+1]) && left > 0; i++ {
			k := int(c.pieces[i].tokens)
			if k == 0 || k > left {
				continue
			}
			text := c.piece(i)
			if len(dst) == 0 && !c.mayBegin(text, k) {
				continue
			}
			dst = append(dst, text...)
			left -= k
		}
	}
	return c.finish(dst, r, left, n)
}

// mayBegin says whether a piece has as many tokens without its leading space, so that a message may begin
// with it.
func (c *Corpus) mayBegin(text string, tokens int) bool { return c.p.tok.Count(text[1:]) == tokens }

func (c *Corpus) finish(dst []byte, r *rand.Rand, left, n int) (string, error) {
	d := draws{r: r}
	if len(dst) == 0 && left > 0 {
		dst = append(dst, d.unit(c.p.vocab.one).text...)
		left--
	}
	for ; left > 0; left-- {
		dst = append(dst, d.unit(c.p.vocab.single).text...)
	}
	return c.p.verified(string(dst), n)
}

// segmentAt gives the segment at a place of the tape.
func (c *Corpus) segmentAt(at int64) int {
	n := uint64(len(c.segments) - 1)
	pass := uint64(at) / n
	if pass == 0 {
		return int(uint64(at) % n)
	}
	return int(c.order(pass)[uint64(at)%n])
}

// keptPasses bounds the orders that are kept. Conversations take the tape in order, so the workers are
// never more than a few passes apart.
const keptPasses = 64

func (c *Corpus) order(pass uint64) []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.passes[pass]; ok {
		return o
	}
	if len(c.passes) >= keptPasses {
		clear(c.passes)
	}
	o := make([]uint32, len(c.segments)-1)
	for i := range o {
		o[i] = uint32(i)
	}
	r := c.shuffle(pass)
	for _, half := range [][]uint32{o[:len(o)/2], o[len(o)/2:]} {
		r.Shuffle(len(half), func(i, j int) { half[i], half[j] = half[j], half[i] })
	}
	c.passes[pass] = o
	return o
}
