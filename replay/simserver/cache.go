package simserver

// prefixCache holds hashes of blocks of tokens, least recently used out first. A block's hash chains all
// blocks before it (as vLLM's automatic prefix caching does), so a hit needs the same prefix. Not safe for
// concurrent use.
type prefixCache struct {
	capacity int
	index    map[uint64]int32
	blocks   []cacheBlock // blocks[0] is the ring's root
}

type cacheBlock struct {
	hash       uint64
	prev, next int32
}

func newPrefixCache(capacity int) *prefixCache {
	return &prefixCache{capacity: capacity, index: make(map[uint64]int32), blocks: make([]cacheBlock, 1)}
}

// match gives how many of the blocks, from the first on, are there, and marks them as used.
func (c *prefixCache) match(hashes []uint64) int {
	n := 0
	for n < len(hashes) {
		if _, ok := c.index[hashes[n]]; !ok {
			break
		}
		n++
	}
	c.touch(hashes[:n])
	return n
}

// insert puts the blocks in and marks them as used.
func (c *prefixCache) insert(hashes []uint64) {
	if len(hashes) > c.capacity {
		hashes = hashes[:c.capacity] // what does not fit at all is the tail
	}
	c.touch(hashes) // so that the prefix is not what makes room for its own tail
	for _, h := range hashes {
		if _, ok := c.index[h]; ok {
			continue
		}
		var i int32
		if len(c.index) >= c.capacity {
			i = c.blocks[0].prev
			c.unlink(i)
			delete(c.index, c.blocks[i].hash)
		} else {
			i = int32(len(c.blocks))
			c.blocks = append(c.blocks, cacheBlock{})
		}
		c.blocks[i].hash = h
		c.index[h] = i
		c.pushFront(i)
	}
	c.touch(hashes)
}

// touch marks blocks as used, the first of a chain last: a chain loses its tail first.
func (c *prefixCache) touch(hashes []uint64) {
	for k := len(hashes) - 1; k >= 0; k-- {
		if i, ok := c.index[hashes[k]]; ok {
			c.unlink(i)
			c.pushFront(i)
		}
	}
}

func (c *prefixCache) reset() {
	clear(c.index)
	c.blocks = c.blocks[:1]
	c.blocks[0] = cacheBlock{}
}

func (c *prefixCache) len() int { return len(c.index) }

func (c *prefixCache) unlink(i int32) {
	b := c.blocks[i]
	c.blocks[b.prev].next = b.next
	c.blocks[b.next].prev = b.prev
}

func (c *prefixCache) pushFront(i int32) {
	first := c.blocks[0].next
	c.blocks[i].prev, c.blocks[i].next = 0, first
	c.blocks[first].prev = i
	c.blocks[0].next = i
}
