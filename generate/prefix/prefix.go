// Package prefix tells how much of a prompt stood at the beginning of earlier ones, token by token: what a prefix cache
// that never forgets would hold of it. A real cache holds no more, whatever the size of its blocks.
package prefix

import "hash/fnv"

// Chain stands for all tokens of a prompt up to some place. Prompts that are equal up to there have the same one, on
// every processor and in every run.
type Chain uint64

// With gives the chain behind one more token, or behind whatever else takes part in a prompt by its number.
func (c Chain) With(x uint64) Chain { return Chain(Mix(uint64(c), x)) }

// WithText gives the chain behind something that stands before or between tokens: a role, definitions of tools.
func (c Chain) WithText(text string) Chain {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return c.With(h.Sum64())
}

// Mix combines two numbers to one that is as good as random (the finaliser of SplitMix64).
func Mix(a, b uint64) uint64 {
	x := a + 0x9E3779B97F4A7C15*(b+1)
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Cache remembers prompts, in 8 MiB whatever their number. The zero value is empty and ready. It is for one goroutine.
//
// The chains of all tokens are in one Bloom filter and those of whole blocks in another one. A place counts as known if
// its token is, and if it ends a block, the block too. So nothing that was there is ever missed, and what was not is taken
// for known by chance, for a few tokens: below half a token per prompt up to 20 million different tokens, and below 25 up to
// 250 million.
type Cache struct{ tokens, blocks filter }

// block is the number of tokens of a block.
const block = 16

// Known gives how many of the chains, which follow on each other behind the first at tokens of a prompt, are there.
func (c *Cache) Known(at int, chains []Chain) int {
	for i, k := range chains {
		if !c.tokens.has(k) || (at+i+1)%block == 0 && !c.blocks.has(k) {
			return i
		}
	}
	return len(chains)
}

// Add enters the chains, which follow on each other behind the first at tokens of a prompt.
func (c *Cache) Add(at int, chains []Chain) {
	for i, k := range chains {
		if c.tokens.add(k); (at+i+1)%block == 0 {
			c.blocks.add(k)
		}
	}
}

// filter is a Bloom filter with two bits of one word for each entry.
type filter []uint64

const filterWords = 1 << 19 // 4 MiB

func (f filter) place(c Chain) (word int, bits uint64) {
	return int(c % filterWords), 1<<(c>>52&63) | 1<<(c>>58)
}

func (f filter) has(c Chain) bool {
	if f == nil {
		return false
	}
	word, bits := f.place(c)
	return f[word]&bits == bits
}

func (f *filter) add(c Chain) {
	if *f == nil {
		*f = make(filter, filterWords)
	}
	word, bits := f.place(c)
	(*f)[word] |= bits
}
