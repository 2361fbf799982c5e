package tokenizer

import "unicode/utf8"

// pattern is a splitting expression in the small form that today's tokenizers use: alternatives of
// sequences of character sets with repeats, optional groups of literals, and look-ahead. It matches as a
// backtracking engine does: the first alternative that matches wins, repeats are greedy. An expression
// beyond this form is not a pattern (see errBeyond) and runs in regexp2 instead.
type pattern struct {
	classes *classes
	alts    []alternative
}

// alternative is one branch at the top, with the sets that its first character can be in.
type alternative struct {
	first uint64
	nodes []node
}

type nodeKind uint8

const (
	nodeSet      nodeKind = iota // a character set, repeated min to max times
	nodeGroup                    // alternatives of sets that each come once; min 0 or 1 times
	nodeAhead                    // (?=...)
	nodeNotAhead                 // (?!...)
)

type node struct {
	kind       nodeKind
	bit        uint64 // the set's bit in the masks of classes
	min, max   int    // max < 0 is without limit
	possessive bool
	alts       [][]node
}

// each calls f for every match and for every gap between matches, in order.
func (p *pattern) each(s string, f func(piece string, match bool)) {
	gap := 0
	for pos := 0; pos < len(s); {
		end := p.match(s, pos)
		if end < 0 {
			_, size := utf8.DecodeRuneInString(s[pos:])
			pos += size
			continue
		}
		if gap < pos {
			f(s[gap:pos], false)
		}
		f(s[pos:end], true)
		pos, gap = end, end
	}
	if gap < len(s) {
		f(s[gap:], false)
	}
}

// match gives the end of the match that begins at pos, or -1.
func (p *pattern) match(s string, pos int) int {
	_, mask := p.classes.at(s, pos)
	for i := range p.alts {
		a := &p.alts[i]
		if a.first&mask == 0 {
			continue
		}
		if end := p.sequence(a.nodes, s, pos); end >= 0 {
			return end
		}
	}
	return -1
}

// sequence matches the nodes one after the other from pos and gives the end, or -1.
func (p *pattern) sequence(nodes []node, s string, pos int) int {
	for i := range nodes {
		n := &nodes[i]
		switch n.kind {
		case nodeSet:
			count := 0
			for pos < len(s) && count != n.max {
				size, mask := p.classes.at(s, pos)
				if mask&n.bit == 0 {
					break
				}
				pos += size
				count++
			}
			if count < n.min {
				return -1
			}
			if count == n.min || n.possessive || i == len(nodes)-1 {
				continue
			}
			for rest := nodes[i+1:]; ; count-- {
				if end := p.sequence(rest, s, pos); end >= 0 {
					return end
				}
				if count == n.min {
					return -1
				}
				_, size := utf8.DecodeLastRuneInString(s[:pos])
				pos -= size
			}
		case nodeGroup:
			for _, alt := range n.alts {
				if end := p.sequence(alt, s, pos); end >= 0 {
					if n.possessive {
						return p.sequence(nodes[i+1:], s, end)
					}
					if end = p.sequence(nodes[i+1:], s, end); end >= 0 {
						return end
					}
				}
			}
			if n.min > 0 {
				return -1
			}
		case nodeAhead, nodeNotAhead:
			found := false
			for _, alt := range n.alts {
				if p.sequence(alt, s, pos) >= 0 {
					found = true
					break
				}
			}
			if found != (n.kind == nodeAhead) {
				return -1
			}
		}
	}
	return pos
}

// firstOf gives the sets that the first character of the nodes can be in. All bits are set where
// anything can come first.
func firstOf(nodes []node) uint64 {
	var first uint64
	for _, n := range nodes {
		switch n.kind {
		case nodeSet:
			first |= n.bit
		case nodeGroup:
			for _, alt := range n.alts {
				first |= firstOf(alt)
			}
		default:
			return ^uint64(0)
		}
		if n.min > 0 {
			return first
		}
	}
	return ^uint64(0)
}

// shortest gives the fewest characters that the nodes match.
func shortest(nodes []node) int {
	total := 0
	for _, n := range nodes {
		switch n.kind {
		case nodeSet:
			total += n.min
		case nodeGroup:
			if n.min > 0 {
				least := -1
				for _, alt := range n.alts {
					if l := shortest(alt); least < 0 || l < least {
						least = l
					}
				}
				total += max(least, 0)
			}
		}
	}
	return total
}

// onceEach says whether every node is a set that comes exactly once, so that the sequence can end in one
// place only.
func onceEach(nodes []node) bool {
	for _, n := range nodes {
		if n.kind != nodeSet || n.min != 1 || n.max != 1 {
			return false
		}
	}
	return true
}
