package tokenizer

import "unicode/utf8"

// unigram finds the way through a piece whose tokens have the highest sum of scores (log probabilities).
type unigram struct {
	tokens  trie
	scores  []float64
	unknown int32
	penalty float64 // the score of a character that is no token
	bytes   [256]int32
	// fallback says that an unknown character becomes the tokens of its bytes; otherwise a run of them
	// becomes one unknown token.
	fallback bool
	// single says that sums are kept in single precision, as SentencePiece itself does. It decides between
	// ways of nearly the same score.
	single bool
}

// unknownPenalty is how much worse than the worst token an unknown character is, in both references.
const unknownPenalty = 10

func (u *unigram) appendPiece(dst []int, piece string) []int {
	type node struct {
		score float64 // of the best way that ends here
		from  int32   // where its last token begins; -1: no way yet
		id    int32
	}
	best := make([]node, len(piece)+1)
	for i := range best {
		best[i].from = -1
	}
	offer := func(from, to int, id int32, score float64) {
		score += best[from].score
		if u.single {
			score = float64(float32(score))
		}
		if n := &best[to]; n.from < 0 || score > n.score {
			*n = node{score, int32(from), id}
		}
	}
	for i, r := range piece {
		size, whole := utf8.RuneLen(r), false
		for at, k := int32(0), i; k < len(piece); k++ {
			if at = u.tokens.step(at, piece[k]); at < 0 {
				break
			}
			if id := u.tokens.at[at]; id >= 0 {
				offer(i, k+1, id, u.scores[id])
				whole = whole || k+1-i == size
			}
		}
		if !whole {
			offer(i, i+size, u.unknown, u.penalty)
		}
	}
	// Backwards from the end, and then round.
	start, inUnknown := len(dst), false
	for end := len(piece); end > 0; end = int(best[end].from) {
		n := best[end]
		switch {
		case n.id != u.unknown:
			dst = append(dst, int(n.id))
		case u.fallback:
			for k := end - 1; k >= int(n.from); k-- {
				dst = append(dst, int(u.bytes[piece[k]]))
			}
		case !inUnknown:
			dst = append(dst, int(u.unknown))
		}
		inUnknown = n.id == u.unknown
	}
	for i, j := start, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}
