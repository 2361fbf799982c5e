package importer

import (
	"hash/fnv"
	"strings"
	"sync/atomic"

	"parley/generate/prefix"
	"parley/generate/prose"
	"parley/generate/tokenizer"
	"parley/schemas/random"
)

// blockText makes the text of traces that record only lengths and the hashes of cache blocks.
//
// The text of a block depends on its identifier, on that of the block before it, and on the seed, and has
// exactly as many tokens as the block, also where blocks are joined (package prose sees to it, and the
// joined message is counted again). So prompts whose first n hashes are equal have equal first n blocks of
// tokens, and prompts whose hashes differ from some block on differ from that block's first words on.
type blockText struct {
	prose func() (*prose.Prose, error) // made when the first text is wanted
	tok   *tokenizer.Tokenizer
	seed  uint64
	cache [cachedBlocks]atomic.Pointer[cachedBlock]
}

// cachedBlocks bounds the texts that are kept; blocks that many prompts share (a system prompt) come
// again and again. 8,192 blocks of 512 tokens are some 25 MB.
const cachedBlocks = 8192

type cachedBlock struct {
	key  blockKey
	text string
}

type blockKey struct {
	id, previous uint64
	tokens       int
}

func (b *blockText) block(k blockKey) (string, error) {
	slot := &b.cache[prefix.Mix(k.id, k.previous+uint64(k.tokens))%cachedBlocks]
	if c := slot.Load(); c != nil && c.key == k {
		return c.text, nil
	}
	p, err := b.prose()
	if err != nil {
		return "", err
	}
	text, err := p.Block(k.id, k.previous, k.tokens)
	if err == nil {
		slot.Store(&cachedBlock{k, text})
	}
	return text, err
}

// hashes are the blocks of one prompt. Those beyond the recorded ones (a last partial block, in traces
// that round down) are the prompt's own.
type hashes struct {
	size int      // tokens of a block
	ids  []uint64 // within the scope
	own  uint64   // what identifiers beyond them derive from
}

func (h *hashes) id(i int) uint64 {
	if i < len(h.ids) {
		return h.ids[i]
	}
	return prefix.Mix(h.own, uint64(i)+1)
}

// complete gives how many of n tokens' blocks are recorded and full.
func (h *hashes) complete(n int) int { return min(len(h.ids), n/h.size) }

// common gives how many first blocks of two prompts are the same.
func (h *hashes) common(o *hashes) int {
	n := 0
	for n < len(h.ids) && n < len(o.ids) && h.ids[n] == o.ids[n] {
		n++
	}
	return n
}

// text gives the tokens from up to to of a prompt as the text of one message.
func (b *blockText) text(h *hashes, from, to int) (string, error) {
	var parts []string
	for at := from; at < to; {
		i := at / h.size
		start, end := i*h.size, min((i+1)*h.size, to)
		k := blockKey{id: h.id(i), previous: b.seed, tokens: end - at}
		if i > 0 {
			k.previous = prefix.Mix(h.id(i-1), b.seed)
		}
		if at > start { // a message that begins within a block
			k.id = prefix.Mix(k.id, uint64(at-start))
		}
		text, err := b.block(k)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
		at = end
	}
	p, err := b.prose()
	if err != nil {
		return "", err
	}
	return p.Joined(to-from, parts...)
}

// unique gives a text of n tokens that no other index has.
func (b *blockText) unique(index uint64, n int) (string, error) {
	p, err := b.prose()
	if err != nil {
		return "", err
	}
	return p.Unique(random.Stream(b.seed, "import text", index), b.seed, index, n, true)
}

// scope gives the number that stands for a namespace of block identifiers.
func scope(names ...string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(names, "\x00"))) // never fails
	return h.Sum64()
}

// blockCache remembers which blocks have been in a prompt.
type blockCache struct{ prefix.Cache }

// hits gives how many first blocks of a prompt are there, and enters them all.
func (c *blockCache) hits(ids []uint64) int {
	chains, at := make([]prefix.Chain, len(ids)), prefix.Chain(0)
	for i, id := range ids {
		at = at.With(id)
		chains[i] = at
	}
	defer c.Add(0, chains)
	return c.Known(0, chains)
}
