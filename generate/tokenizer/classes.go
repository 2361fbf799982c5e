package tokenizer

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// charset is a set of characters: ranges and Unicode tables, some of them turned round, and sets inside of
// it.
type charset struct {
	negated bool
	folded  bool // a character is in if any of its case variants is
	ranges  []runeRange
	tables  []tableRef
	inner   []charset // classes inside of the class
	and     []charset // what a character has to be in besides (&&)
}

type runeRange struct{ lo, hi rune }

type tableRef struct {
	table   *unicode.RangeTable
	negated bool
}

// contains says whether the set has r. With folding the simple case folding of Unicode decides, in which
// the long s (U+017F) is an s and the Kelvin sign a k, as in the engines of the reference encoders.
func (c *charset) contains(r rune) bool {
	in := c.direct(r)
	if c.folded && !in {
		for f := unicode.SimpleFold(r); f != r && !in; f = unicode.SimpleFold(f) {
			in = c.direct(f)
		}
	}
	for i := range c.and {
		in = in && c.and[i].contains(r)
	}
	return in != c.negated
}

func (c *charset) direct(r rune) bool {
	for _, x := range c.ranges {
		if x.lo <= r && r <= x.hi {
			return true
		}
	}
	for _, t := range c.tables {
		if unicode.Is(t.table, r) != t.negated {
			return true
		}
	}
	for i := range c.inner {
		if c.inner[i].contains(r) {
			return true
		}
	}
	return false
}

// classes answers, for a character, which of up to 63 sets have it. The top bit stands for
// "any character" and is always set. The answers for 256 neighbours are
// worked out together when the first of them is asked for.
type classes struct {
	sets   []charset
	anyBit uint64 // set in every mask
	ascii  [utf8.RuneSelf]uint64
	pages  [(unicode.MaxRune + 1) >> 8]atomic.Pointer[[256]uint64]
}

func newClasses(sets []charset) *classes {
	c := &classes{sets: sets, anyBit: 1 << 63}
	for r := range c.ascii {
		c.ascii[r] = c.compute(rune(r))
	}
	return c
}

func (c *classes) compute(r rune) uint64 {
	mask := c.anyBit
	for i := range c.sets {
		if c.sets[i].contains(r) {
			mask |= 1 << i
		}
	}
	return mask
}

// at gives the size of the character at pos and the mask of the sets that have it.
func (c *classes) at(s string, pos int) (int, uint64) {
	if b := s[pos]; b < utf8.RuneSelf {
		return 1, c.ascii[b]
	}
	r, size := utf8.DecodeRuneInString(s[pos:])
	page := c.pages[r>>8].Load()
	if page == nil {
		page = c.page(r >> 8)
	}
	return size, page[r&0xff]
}

func (c *classes) page(n rune) *[256]uint64 {
	page := new([256]uint64)
	for i := range page {
		page[i] = c.compute(n<<8 | rune(i))
	}
	c.pages[n].Store(page)
	return page
}
