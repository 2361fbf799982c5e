package fit

import (
	"math"
	"slices"

	"parley/generate"
	"parley/generate/dist"
)

// node is a stretch of blocks that the same conversations begin with.
type node struct {
	count  int // conversations through it
	tokens int // of the stretch
	kids   []*node
	saved  float64 // tokens that a cache saves by this stretch
	kept   bool
}

// maxNodes bounds the shared prefixes that are told one by one; each has this many conversations at least.
const maxNodes, leastTold = 64, 8

// prefixes learns what conversations begin with in common, as a tree: a stretch that many share, and behind it those
// that some of these share. The largest savings are told one by one; the many small ones together, as families of
// a size.
func (o *Observation) prefixes() *generate.PrefixTree {
	var all []int
	for i := range o.list {
		if c := &o.list[i]; len(c.blocks) > 0 && !c.kid {
			all = append(all, i)
		}
	}
	if len(all) < least {
		return nil
	}
	root := &node{kept: true, count: len(all)}
	path := make([][]*node, len(o.list)) // of each conversation
	o.grow(root, all, 0, path)
	var nodes []*node
	for _, p := range path {
		nodes = append(nodes, p...)
	}
	slices.SortStableFunc(nodes, func(a, b *node) int { return int(math.Copysign(1, b.saved-a.saved)) })
	var kept []*node
	for _, n := range nodes {
		if len(kept) == maxNodes {
			break
		}
		if !n.kept && n.count >= leastTold {
			n.kept = true
			kept = append(kept, n)
		}
	}
	// A node is told only under its parent: a child never saves by more conversations, but perhaps by more tokens.
	var settle func(n *node)
	settle = func(n *node) {
		for _, k := range n.kids {
			k.kept = k.kept && n.kept
			settle(k)
		}
	}
	settle(root)

	t := &generate.PrefixTree{}
	var tell func(n *node) []generate.PrefixNode
	tell = func(n *node) (out []generate.PrefixNode) {
		for _, k := range n.kids {
			if k.kept {
				out = append(out, generate.PrefixNode{Share: dist.Rounded(float64(k.count) / float64(n.count)), Tokens: k.tokens, Of: tell(k)})
			}
		}
		return out
	}
	t.Of = tell(root)

	var extra, message []float64 // tokens of families, and of the first messages that begin with them
	var saved, told float64
	seen := map[*node]bool{}
	for _, i := range all {
		rest := 0
		for _, n := range path[i] {
			if !n.kept {
				rest += n.tokens
				if !seen[n] {
					saved += n.saved
				}
			} else if !seen[n] {
				told += n.saved
			}
			seen[n] = true
		}
		if rest > 0 {
			extra, message = append(extra, float64(rest)), append(message, float64(o.list[i].turns[0].fresh))
		}
	}
	var sum float64
	for _, e := range extra {
		sum += e
	}
	if sum > 0 && saved > 0.001*(saved+told) {
		// Of n conversations of families of a mean size s, a share of (s - 1 + exp(-s)) / s finds its family there.
		low, high := 1e-3, 1e6
		for range 200 {
			s := math.Sqrt(low * high)
			if (s-1+math.Exp(-s))/s < saved/sum {
				low = s
			} else {
				high = s
			}
		}
		d := dist.Sample(extra)
		t.Families = &generate.PrefixFamilies{Share: dist.Rounded(float64(len(extra)) / float64(len(all))), Size: dist.Rounded(low), NumTokens: &d, Alike: dist.Rounded(max(0, correlate(scores(extra), scores(message))))}
	}
	if len(t.Of) == 0 && t.Families == nil {
		return nil
	}
	return t
}

// grow adds the children of a node: the conversations of list begin alike up to block at.
func (o *Observation) grow(n *node, list []int, at int, path [][]*node) {
	groups := map[uint64][]int{}
	var order []uint64
	for _, i := range list {
		if b := o.list[i].blocks; len(b) > at {
			if groups[b[at]] == nil {
				order = append(order, b[at])
			}
			groups[b[at]] = append(groups[b[at]], i)
		}
	}
	for _, block := range order {
		same := groups[block]
		if len(same) < 2 {
			continue
		}
		// As far as all of them go on alike.
		first, end := o.list[same[0]], at+1
		for len(first.blocks) > end && !slices.ContainsFunc(same, func(i int) bool {
			b := o.list[i].blocks
			return len(b) <= end || b[end] != first.blocks[end]
		}) {
			end++
		}
		k := &node{count: len(same), tokens: (end - at) * first.size}
		k.saved = float64(k.count-1) * float64(k.tokens)
		n.kids = append(n.kids, k)
		for _, i := range same {
			path[i] = append(path[i], k)
		}
		o.grow(k, same, end, path)
	}
}
