package tokenizer

import "unicode/utf8"

// wordPiece takes the longest token that a word begins with, then the longest that the rest begins with
// among those that continue a word, and so on. A word that does not come out whole is one unknown token.
type wordPiece struct {
	tokens    trie
	continued int32 // the node of the prefix (such as "##") that marks tokens inside of a word
	unknown   int32
	longest   int // characters of a word that is tried at all
}

func (w *wordPiece) appendPiece(dst []int, word string) []int {
	if len(word) > w.longest && utf8.RuneCountInString(word) > w.longest {
		return append(dst, int(w.unknown))
	}
	from := len(dst)
	for pos := 0; pos < len(word); {
		at, end, id := int32(0), 0, int32(-1)
		if pos > 0 {
			at = w.continued
		}
		for k := pos; k < len(word); k++ {
			if at = w.tokens.step(at, word[k]); at < 0 {
				break
			}
			if t := w.tokens.at[at]; t >= 0 {
				end, id = k+1, t
			}
		}
		if id < 0 {
			return append(dst[:from], int(w.unknown))
		}
		dst, pos = append(dst, int(id)), end
	}
	return dst
}
