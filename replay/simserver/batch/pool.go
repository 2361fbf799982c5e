package batch

// Pool is the blocks of a cache of keys and values. A block is held by the sequences that use it, or by none; then
// it is free, but keeps its content, which the hash of all tokens up to its end names, until the block is needed
// for something else: the one that was given back longest ago first. Not safe for concurrent use.
type Pool struct {
	capacity int
	index    map[uint64]int32 // blocks by their content
	blocks   []block          // of those that were ever needed; blocks[0] is the root of the ring of free ones
	held     int

	Evicted int64 // blocks whose content was dropped to make room
}

type block struct {
	hash       uint64
	named      bool  // it is in the index
	refs       int32 // sequences that hold it
	prev, next int32 // in the ring, if none does: the one given back longest ago is root.next
}

// NewPool makes a pool of so many blocks.
func NewPool(capacity int) *Pool {
	return &Pool{capacity: capacity, index: map[uint64]int32{}, blocks: make([]block, 1)}
}

// Capacity gives the number of blocks; Held those that sequences use; Known those whose content can be found.
func (p *Pool) Capacity() int { return p.capacity }
func (p *Pool) Held() int     { return p.held }
func (p *Pool) Known() int    { return len(p.index) }

// Match gives how many of the blocks with the given contents, from the first on, are there.
func (p *Pool) Match(hashes []uint64) int {
	for i, h := range hashes {
		if _, ok := p.index[h]; !ok {
			return i
		}
	}
	return len(hashes)
}

// room says how many blocks could be taken if those with the given contents were held.
func (p *Pool) room(shared []uint64) int {
	n := p.capacity - p.held
	for _, h := range shared {
		if i, ok := p.index[h]; ok && p.blocks[i].refs == 0 {
			n--
		}
	}
	return n
}

// share appends the blocks of the given contents, which are there, to list and holds them.
func (p *Pool) share(list []int32, hashes []uint64) []int32 {
	for _, h := range hashes {
		i := p.index[h]
		b := &p.blocks[i]
		if b.refs == 0 {
			p.unlink(i)
			p.held++
		}
		b.refs++
		list = append(list, i)
	}
	return list
}

// take appends n empty blocks to list and holds them. There is room for them.
func (p *Pool) take(list []int32, n int) []int32 {
	for range n {
		i := int32(len(p.blocks))
		if int(i) <= p.capacity {
			p.blocks = append(p.blocks, block{})
		} else {
			i = p.blocks[0].next
			p.unlink(i)
			if b := &p.blocks[i]; b.named {
				delete(p.index, b.hash)
				b.named = false
				p.Evicted++
			}
		}
		p.blocks[i].refs = 1
		p.held++
		list = append(list, i)
	}
	return list
}

// name gives a block's content a name, unless another one has it.
func (p *Pool) name(i int32, hash uint64) {
	if _, ok := p.index[hash]; !ok {
		p.index[hash] = i
		p.blocks[i].hash, p.blocks[i].named = hash, true
	}
}

// release gives blocks back, the last one first: of a chain the tail is dropped before what it needs.
func (p *Pool) release(list []int32) {
	for k := len(list) - 1; k >= 0; k-- {
		b := &p.blocks[list[k]]
		if b.refs--; b.refs > 0 {
			continue
		}
		p.held--
		last := p.blocks[0].prev
		b.prev, b.next = last, 0
		p.blocks[last].next, p.blocks[0].prev = list[k], list[k]
	}
}

func (p *Pool) unlink(i int32) {
	b := &p.blocks[i]
	p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
}

// Remember puts contents into the pool that nobody holds, as far as there is room, and marks them as used.
func (p *Pool) Remember(hashes []uint64) {
	known := p.Match(hashes)
	list := p.share(nil, hashes[:known])
	n := min(len(hashes)-known, p.capacity-p.held)
	list = p.take(list, n)
	for k := known; k < known+n; k++ {
		p.name(list[k], hashes[k])
	}
	p.release(list)
}

// Forget drops all contents; blocks that are held stay so.
func (p *Pool) Forget() {
	clear(p.index)
	for i := range p.blocks {
		p.blocks[i].named = false
	}
}
