package tokenizer

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// bpe merges the symbols of a piece into tokens, lowest rank first and the leftmost of equal ones. The
// symbols are bytes, or characters where byBytes is not set (SentencePiece).
//
// Two ways of saying what merges are in use. A tokenizer.json and a SentencePiece model have pairs, in order; their
// table maps a pair of token identifiers to its rank and to the token that it makes. A rank file lets any two
// neighbours merge whose joined text is a token, the lowest first. It has no table at first, because to find all
// pairs takes longer than a small job; a large one gets it on the way (see manyMerges).
type bpe struct {
	vocab  map[string]int32
	pairs  atomic.Pointer[pairTable] // nil: what joins is looked up by its text
	merges atomic.Int64              // pieces merged without a table

	byBytes bool
	byID    [256]int32     // the token of each byte; -1 for none
	chars   map[rune]int32 // the token of each character that is one
	ascii   [utf8.RuneSelf]int32
	unknown int32 // for a character that is neither a token nor has tokens for its bytes; -1: it is left out
	fuse    bool  // one such token for a whole run of them

	// wholePieces says that a piece which is a token is that token without merging (tiktoken, and
	// "ignore_merges" of a tokenizer.json). Otherwise a token that its merges do not lead to is never
	// made; reach remembers which are (0 unknown, 1 yes, 2 no).
	wholePieces bool
	reach       []atomic.Uint32

	pairsOnce  sync.Once
	neighbours map[[2]rune]bool // characters that some token has next to each other

	seed  maphash.Seed
	cache []atomic.Pointer[cached]
}

// cached is the result of merging one piece. The cache is a table of fixed size in which a piece has one
// place; a newer one takes it over.
type cached struct {
	piece  string
	tokens []int32
}

const (
	cacheSlots    = 1 << 15
	cacheMaxPiece = 64      // bytes; longer pieces seldom come twice
	scanMaxPiece  = 48      // symbols; up to here scanning for the lowest rank beats a heap
	longPiece     = 1 << 16 // bytes
	// manyMerges is the number of pieces after which the table of pairs pays: looking up text takes some 40 % longer.
	manyMerges = 1 << 14
)

func newBPE(vocab map[string]int32, byBytes, wholePieces bool) *bpe {
	b := &bpe{
		vocab: vocab, byBytes: byBytes, wholePieces: wholePieces, unknown: -1,
		seed: maphash.MakeSeed(), cache: make([]atomic.Pointer[cached], cacheSlots),
	}
	if !wholePieces {
		most := int32(0)
		for _, id := range vocab {
			most = max(most, id)
		}
		b.reach = make([]atomic.Uint32, most+1)
	}
	token := func(s string) int32 {
		if id, ok := vocab[s]; ok {
			return id
		}
		return -1
	}
	if byBytes {
		for i := range b.byID {
			b.byID[i] = token(string([]byte{byte(i)}))
		}
		return b
	}
	for i := range b.byID {
		b.byID[i] = token(byteToken(byte(i)))
	}
	for i := range b.ascii {
		b.ascii[i] = token(string(rune(i)))
	}
	b.chars = make(map[rune]int32)
	for s, id := range vocab {
		if r, size := utf8.DecodeRuneInString(s); size == len(s) && size > 1 {
			b.chars[r] = id
		}
	}
	return b
}

// byteToken is how vocabularies with byte fallback write the token of a byte.
func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// missingByte gives a byte value that is not a token by itself, or -1.
func (b *bpe) missingByte() int { return slices.Index(b.byID[:], -1) }

// appendPiece appends the tokens of one piece.
func (b *bpe) appendPiece(dst []int, piece string) []int {
	if id, ok := b.vocab[piece]; ok {
		if b.wholePieces || b.reachable(id, piece) {
			return append(dst, int(id))
		}
	}
	if len(piece) > cacheMaxPiece {
		for len(piece) > longPiece {
			cut := b.cut(piece)
			if cut < 0 {
				break
			}
			dst, piece = b.merge(dst, piece[:cut]), piece[cut:]
		}
		return b.merge(dst, piece)
	}
	slot := &b.cache[maphash.String(b.seed, piece)%cacheSlots]
	if c := slot.Load(); c != nil && c.piece == piece {
		for _, id := range c.tokens {
			dst = append(dst, int(id))
		}
		return dst
	}
	from := len(dst)
	dst = b.merge(dst, piece)
	c := &cached{piece: strings.Clone(piece), tokens: make([]int32, len(dst)-from)}
	for i, id := range dst[from:] {
		c.tokens[i] = int32(id)
	}
	slot.Store(c)
	return dst
}

// cut gives a place in a long piece, well behind its beginning, across which nothing can merge: no token has these two
// neighbours anywhere. It is -1 where there is none (or the symbols are bytes, whose pieces are short but for the odd
// one). Merging takes some 40 bytes of memory for each symbol, and a text without spaces may be one piece.
func (b *bpe) cut(piece string) int {
	if b.byBytes {
		return -1
	}
	b.pairsOnce.Do(func() {
		b.neighbours = make(map[[2]rune]bool)
		for s := range b.vocab {
			before := rune(-1)
			for _, r := range s {
				if before >= 0 {
					b.neighbours[[2]rune{before, r}] = true
				}
				before = r
			}
		}
	})
	before := rune(-1)
	for i, r := range piece {
		if i >= longPiece/2 {
			_, known := b.chars[before]
			if (known || before < utf8.RuneSelf && b.ascii[before] >= 0) && !b.neighbours[[2]rune{before, r}] {
				return i
			}
		}
		before = r
	}
	return -1
}

// reachable says whether merging the token's own bytes ends in the token.
func (b *bpe) reachable(id int32, piece string) bool {
	switch b.reach[id].Load() {
	case 1:
		return true
	case 2:
		return false
	}
	got := b.merge(make([]int, 0, 8), piece)
	if len(got) == 1 && got[0] == int(id) {
		b.reach[id].Store(1)
		return true
	}
	b.reach[id].Store(2)
	return false
}

// merge appends the tokens of a piece without looking whether it is known.
func (b *bpe) merge(dst []int, piece string) []int {
	pairs := b.pairs.Load()
	if pairs == nil && b.merges.Add(1) == manyMerges {
		pairs = b.joins()
		b.pairs.Store(pairs)
	}
	var buf [scanMaxPiece]symbol
	list := b.start(buf[:0], piece)
	if len(list) <= scanMaxPiece {
		list = b.mergeByScan(pairs, list, piece)
	} else {
		list = b.mergeByHeap(pairs, list, piece)
	}
	for _, s := range list {
		dst = append(dst, int(s.id))
	}
	return dst
}

// symbol is a token of a piece while it is merged, and where it ends in the piece.
type symbol struct{ id, end int32 }

// pair gives the rank of the merge of two neighbours (above) and the token that it makes (below), or noMerge. from is
// where the first of them begins.
func (b *bpe) pair(pairs *pairTable, piece string, from int32, left, right symbol) uint64 {
	if pairs != nil {
		return pairs.get(left.id, right.id)
	}
	if id, ok := b.vocab[piece[from:right.end]]; ok {
		return uint64(id)<<32 | uint64(id)
	}
	return noMerge
}

// joins finds all pairs of tokens whose text together is a token.
func (b *bpe) joins() *pairTable {
	pairs := newPairTable(3 * len(b.vocab))
	for s, id := range b.vocab {
		for cut := 1; cut < len(s); cut++ {
			left, ok := b.vocab[s[:cut]]
			if !ok {
				continue
			}
			if right, ok := b.vocab[s[cut:]]; ok {
				pairs.add(left, right, uint32(id), uint32(id))
			}
		}
	}
	return &pairs
}

// start appends the symbols of a piece.
func (b *bpe) start(list []symbol, piece string) []symbol {
	if b.byBytes {
		for i := range len(piece) {
			list = append(list, symbol{b.byID[piece[i]], int32(i + 1)})
		}
		return list
	}
	inUnknown := false
	for i, r := range piece {
		id, end := int32(-1), int32(i+utf8.RuneLen(r))
		if r < utf8.RuneSelf {
			id = b.ascii[r]
		} else if known, ok := b.chars[r]; ok {
			id = known
		}
		if id >= 0 {
			list, inUnknown = append(list, symbol{id, end}), false
			continue
		}
		bytes := piece[i:end]
		from := len(list)
		for k := range len(bytes) {
			if id = b.byID[bytes[k]]; id < 0 {
				list = list[:from]
				break
			}
			list = append(list, symbol{id, end})
		}
		if id < 0 && b.unknown >= 0 && !(inUnknown && b.fuse) {
			list = append(list, symbol{b.unknown, end})
		}
		inUnknown = id < 0
	}
	return list
}

// noMerge is the rank of a pair that does not merge.
const noMerge = math.MaxUint64

// mergeByScan finds the lowest rank by looking at all pairs each time. It works in place.
func (b *bpe) mergeByScan(pairs *pairTable, list []symbol, piece string) []symbol {
	var ranks [scanMaxPiece]uint64 // of the pair (i, i+1)
	n := len(list)
	pair := func(i int) uint64 {
		from := int32(0)
		if i > 0 {
			from = list[i-1].end
		}
		return b.pair(pairs, piece, from, list[i], list[i+1])
	}
	for i := range n - 1 {
		ranks[i] = pair(i)
	}
	for n > 1 {
		low, at := uint64(noMerge), -1
		for i := range n - 1 {
			if ranks[i]>>32 < low>>32 {
				low, at = ranks[i], i
			}
		}
		if at < 0 {
			break
		}
		list[at] = symbol{int32(uint32(low)), list[at+1].end}
		copy(list[at+1:n-1], list[at+2:n])
		copy(ranks[at:n-2], ranks[at+1:n-1])
		n--
		if at > 0 {
			ranks[at-1] = pair(at - 1)
		}
		if at < n-1 {
			ranks[at] = pair(at)
		}
	}
	return list[:n]
}

// mergeByHeap does the same in n log n: the symbols are a linked list, the pairs wait in a heap by rank
// and then by position, and an entry that no longer fits its place is dropped when it comes up.
func (b *bpe) mergeByHeap(pairs *pairTable, list []symbol, piece string) []symbol {
	n := len(list)
	prev := make([]int32, n)
	next := make([]int32, n)
	ranks := make([]uint64, n) // of the pair that begins here; noMerge where none does
	h := make(pairHeap, 0, n)
	for i := range n {
		prev[i], next[i] = int32(i-1), int32(i+1)
	}
	next[n-1] = -1
	rank := func(i int32) bool {
		ranks[i] = noMerge
		if j := next[i]; j >= 0 {
			from := int32(0)
			if prev[i] >= 0 {
				from = list[prev[i]].end
			}
			ranks[i] = b.pair(pairs, piece, from, list[i], list[j])
		}
		return ranks[i] != noMerge
	}
	for i := range int32(n) {
		if rank(i) {
			h = append(h, waiting{ranks[i], i})
		}
	}
	h.init()
	for len(h) > 0 {
		top := h.pop()
		i := top.at
		if ranks[i] != top.rank {
			continue
		}
		gone := next[i]
		list[i] = symbol{int32(uint32(top.rank)), list[gone].end}
		next[i] = next[gone]
		if next[i] >= 0 {
			prev[next[i]] = i
		}
		ranks[gone] = noMerge
		for _, k := range [2]int32{i, prev[i]} {
			if k >= 0 && rank(k) {
				h.push(waiting{ranks[k], k})
			}
		}
	}
	out := list[:0]
	for i := int32(0); i >= 0; i = next[i] {
		out = append(out, list[i])
	}
	return out
}

type waiting struct {
	rank uint64
	at   int32
}

func (w waiting) before(o waiting) bool {
	return w.rank>>32 < o.rank>>32 || w.rank>>32 == o.rank>>32 && w.at < o.at
}

// pairHeap is a binary heap, written out because container/heap goes through interfaces.
type pairHeap []waiting

func (h pairHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *pairHeap) push(w waiting) {
	*h = append(*h, w)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *pairHeap) pop() waiting {
	s := *h
	top := s[0]
	s[0] = s[len(s)-1]
	*h = s[:len(s)-1]
	(*h).down(0)
	return top
}

func (h pairHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// pairTable is a hash table with open addressing from a pair of tokens to the rank of its merge (above)
// and the token it makes (below). It is written once and then only read.
type pairTable struct {
	slots []pairSlot
	shift uint
	used  int
}

type pairSlot struct {
	key   uint64 // the left identifier + 1 above, the right one below; 0 is empty
	value uint64
}

func newPairTable(n int) pairTable {
	size := uint(bits.Len(uint(max(n, 8) * 3 / 2)))
	return pairTable{slots: make([]pairSlot, 1<<size), shift: 64 - size}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left)+1)<<32 | uint64(uint32(right)) }

func (t *pairTable) index(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> t.shift }

// add enters a pair; it takes the place of an equal one, as in the reference.
func (t *pairTable) add(left, right int32, rank, made uint32) {
	if t.used >= len(t.slots)*3/4 {
		old := t.slots
		*t = pairTable{slots: make([]pairSlot, 2*len(old)), shift: t.shift - 1}
		for _, s := range old {
			if s.key != 0 {
				t.put(s.key, s.value)
			}
		}
	}
	t.put(pairKey(left, right), uint64(rank)<<32|uint64(made))
}

func (t *pairTable) put(key, value uint64) {
	mask := uint64(len(t.slots) - 1)
	for i := t.index(key); ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.key == key {
			s.value = value
			return
		}
		if s.key == 0 {
			*s = pairSlot{key, value}
			t.used++
			return
		}
	}
}

func (t *pairTable) get(left, right int32) uint64 {
	key := pairKey(left, right)
	mask := uint64(len(t.slots) - 1)
	for i := t.index(key); ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.key == key {
			return s.value
		}
		if s.key == 0 {
			return noMerge
		}
	}
}
