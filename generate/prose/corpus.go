package prose

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Corpus is text of the user, cut so that passages of exact lengths can be taken from it.
//
// The text is cut where the tokenizer cuts it (and long pieces further, see divide), whatever its language, or if it
// is source code; and the tokens of each piece are counted once. Some pieces in a row make a segment, and
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
	// longPiece is the longest piece that is used as it is, in bytes.
	longPiece = 128
	// chunkBytes is the text that is cut at a time.
	chunkBytes = 1 << 20
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
	c.cut(max(1, workers))
	c.segment()
	if c.tokens < minCorpus || len(c.segments) < 5 {
		return nil, fmt.Errorf("%s: only %d tokens of text that can be taken apart (with spaces between words, or in a script that has none), which is too little to make messages of (at least %d): give a longer text, or none at all for the built-in prose",
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

// cut cuts the text and counts its pieces, in chunks of a fixed size, so that the number of workers changes nothing.
func (c *Corpus) cut(workers int) {
	chunks := make([][]piece, (len(c.text)+chunkBytes-1)/chunkBytes)
	begin := func(i int) int { // of a chunk: at a character
		at := min(i*chunkBytes, len(c.text))
		for at < len(c.text) && !utf8.RuneStart(c.text[at]) {
			at++
		}
		return at
	}
	var wg sync.WaitGroup
	for w := range min(workers, len(chunks)) {
		wg.Go(func() {
			count := c.counter()
			for i := w; i < len(chunks); i += workers {
				from, to := begin(i), begin(i+1)
				at := from
				for _, end := range append(c.p.tok.Cuts(c.text[from:to]), to-from) {
					chunks[i] = c.divide(chunks[i], at, from+end, count)
					at = max(at, from+end)
				}
			}
		})
	}
	wg.Wait()
	c.pieces = append(slices.Concat(chunks...), piece{at: uint32(len(c.text))})
}

// counter counts pieces. The same ones come often, so counts are kept.
func (c *Corpus) counter() func(s string) uint16 {
	known, word := make(map[string]uint16), newBehind(c.p.tok, "the")
	return func(s string) uint16 {
		k, ok := known[s]
		if !ok {
			if first, _ := utf8.DecodeRuneInString(s); unicode.IsLetter(first) || unicode.IsDigit(first) {
				k = uint16(c.p.tok.Count(s)) // which would grow together with a word before it
			} else {
				k = uint16(max(0, word.count(s)))
			}
			if len(known) < 1<<17 {
				known[s] = k
			}
		}
		return k
	}
}

// divide appends a piece of the text; one that is too long in parts: before spaces, and in scripts without spaces
// between words anywhere. What is long all the same is no text (a table, an encoded picture) and is not used.
func (c *Corpus) divide(to []piece, at, end int, count func(string) uint16) []piece {
	for at < end {
		next := end
		if end-at > longPiece {
			if space := strings.IndexByte(c.text[at+1:end], ' '); space >= 0 {
				next = at + 1 + space
			}
			if dense := strings.IndexFunc(c.text[at:next], func(r rune) bool { return r >= firstWithoutSpaces }); next-at > longPiece && dense >= 0 {
				next = at + max(dense, longPiece/2)
				for dense <= longPiece/2 && !utf8.RuneStart(c.text[next]) {
					next++
				}
			}
		}
		p := piece{at: uint32(at)}
		if r, _ := utf8.DecodeRuneInString(c.text[at:]); next-at <= longPiece && r != 0 {
			p.tokens = count(c.text[at:next])
		}
		to, at = append(to, p), next
	}
	return to
}

// firstWithoutSpaces is the first character of Thai, behind which the scripts are that write no spaces between
// words (Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese) and some that do.
const firstWithoutSpaces = 0x0E00

// piece gives the text of a piece.
func (c *Corpus) piece(i int) string { return c.text[c.pieces[i].at:c.pieces[i+1].at] }

// mayLead says whether a segment may begin with a piece: whether it is cut off there from whatever text it is put
// behind. That is so for a letter behind a space, and for one behind another sign if that follows a letter.
func (c *Corpus) mayLead(i int) bool {
	s := c.piece(i)
	first, size := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[size:])
	before, _ := utf8.DecodeLastRuneInString(c.text[:c.pieces[i].at])
	switch {
	case !unicode.IsLetter(second) || unicode.IsSpace(before):
		return false
	case first == ' ':
		return true
	}
	return !unicode.IsLetter(first) && !unicode.IsDigit(first) && !unicode.IsSpace(first) && unicode.IsLetter(before)
}

func (c *Corpus) segment() {
	length, n := segmentTokens, len(c.pieces)-1
	for i := range n {
		if length >= segmentTokens && (c.mayLead(i) || length >= 4*segmentTokens) {
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
	c.segments = append(c.segments, uint32(n))
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
	// The pieces of one passage of the text have their tokens; what is put together, or cut within a piece, is
	// counted and mended.
	take := taker{c: c, at: at, limit: at + c.Segments(n)}
	for range 8 {
		before := len(dst)
		dst = take.more(dst, left)
		got := c.p.tok.Count(strings.TrimPrefix(string(dst), " "))
		for got > n && len(dst) > before {
			_, size := utf8.DecodeLastRune(dst)
			dst = dst[:len(dst)-size]
			got = c.p.tok.Count(strings.TrimPrefix(string(dst), " "))
		}
		if got == n {
			return string(dst), nil
		}
		if left = n - got; left < 0 || len(dst) == before {
			break
		}
	}
	return c.finish(dst, r, max(left, 0), n)
}

// taker takes pieces off the tape.
type taker struct {
	c         *Corpus
	at, limit int64 // segments
	piece     int   // of the segment, from its first
}

// more appends pieces of that many tokens in all. Of a last one that is too long, it takes the beginning; but no
// word is cut, as others will be short enough.
func (t *taker) more(dst []byte, left int) []byte {
	c := t.c
	for ; t.at < t.limit; t.at, t.piece = t.at+1, 0 {
		s := c.segmentAt(t.at)
		first, end := int(c.segments[s]), int(c.segments[s+1])
		for ; first+t.piece < end; t.piece++ {
			i := first + t.piece
			k, text := int(c.pieces[i].tokens), c.piece(i)
			switch word := text[0] == ' '; {
			case left <= 0:
				return dst
			case k == 0, len(dst) == 0 && word && !c.mayBegin(text, k):
				continue
			case k > left && word:
				continue
			case len(dst) == 0 && !word:
				dst = append(dst, ' ') // which a message loses
			}
			if k > left {
				text = c.beginning(text, left)
				t.piece++
				return append(dst, text...)
			}
			dst, left = append(dst, text...), left-k
		}
	}
	return dst
}

// beginning gives as much of a piece as has at most n tokens.
func (c *Corpus) beginning(text string, n int) string {
	for len(text) > 0 && c.p.tok.Count(text) > n {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
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
