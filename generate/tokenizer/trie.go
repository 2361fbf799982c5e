package tokenizer

// trie finds which tokens a text begins with, byte by byte. Its edges are a hash table from a node and a
// byte to a node; node 0 is the root.
type trie struct {
	edges pairTable
	at    []int32 // the token that ends at each node; -1 for none
}

func newTrie(tokens map[string]int32) trie {
	t := trie{edges: newPairTable(4 * len(tokens)), at: []int32{-1}}
	for s, id := range tokens {
		t.at[t.node(s)] = id
	}
	return t
}

// node gives the node that a text leads to, and makes it where there is none.
func (t *trie) node(s string) int32 {
	at := int32(0)
	for i := range len(s) {
		next := t.step(at, s[i])
		if next < 0 {
			next = int32(len(t.at))
			t.at = append(t.at, -1)
			t.edges.add(at, int32(s[i]), 0, uint32(next))
		}
		at = next
	}
	return at
}

// step follows an edge; -1 where there is none.
func (t *trie) step(at int32, b byte) int32 {
	next := t.edges.get(at, int32(b))
	if next == noMerge {
		return -1
	}
	return int32(uint32(next))
}
