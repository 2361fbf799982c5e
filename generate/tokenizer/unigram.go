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
	u.each(piece, func(ids []int) { dst = append(dst, ids...) })
	return dst
}

// each calls emit for the tokens of a piece, some at a time.
func (u *unigram) each(piece string, emit func(ids []int)) {
	// Where no token reaches across a place, every way leads through it. What lies before is settled then, so
	// that no more than the ways since the last such place are held, and no way of a long text.
	const typical = 128
	ways := make([]way, 1, typical)
	settled, reach, fused := 0, 0, false
	var ids []int
	offer := func(from, to int, id int32, score float64) {
		for len(ways) <= to-settled {
			ways = append(ways, way{from: -1})
		}
		score += ways[from-settled].score
		if u.single {
			score = float64(float32(score))
		}
		if w := &ways[to-settled]; w.from < 0 || score > w.score {
			*w = way{score, int32(from - settled), id}
		}
		reach = max(reach, to)
	}
	for i, r := range piece {
		if i == reach && i > 0 {
			ids, fused = u.settle(ids[:0], ways, piece[settled:i], fused)
			emit(ids)
			ways = append(ways[:0], way{score: ways[i-settled].score})
			settled = i
		}
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
	ids, _ = u.settle(ids[:0], ways, piece[settled:], fused)
	emit(ids)
}

// way is the best way to a place: its score, where its last token begins (-1: there is no way yet), and that token.
type way struct {
	score float64
	from  int32
	id    int32
}

// settle appends the tokens of the best way through a text. afterUnknown says that an unknown token came before;
// the second result, that one came last.
func (u *unigram) settle(dst []int, ways []way, text string, afterUnknown bool) ([]int, bool) {
	// Backwards from the end, and then round.
	start, next := len(dst), false
	for end := len(text); end > 0; end = int(ways[end].from) {
		w := ways[end]
		switch {
		case w.id != u.unknown:
			dst = append(dst, int(w.id))
		case u.fallback:
			for k := end - 1; k >= int(w.from); k-- {
				dst = append(dst, int(u.bytes[text[k]]))
			}
		case !next: // one token for the whole run
			dst = append(dst, int(u.unknown))
		}
		if w.id == u.unknown && !u.fallback && w.from == 0 && afterUnknown {
			dst = dst[:len(dst)-1] // the run began before this text
		}
		next = w.id == u.unknown
	}
	for i, j := start, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst, ways[len(text)].id == u.unknown
}
