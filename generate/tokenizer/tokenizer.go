package tokenizer

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Default is the name of the encoding that is used where none is asked for.
const Default = "o200k_base"

// Tokenizer turns text into tokens. It is safe for concurrent use.
type Tokenizer struct {
	name      string
	notes     []string
	normalize []normalizer
	split     splitter
	model     model

	addedRaw        *addedTokens // matched in the text as it is
	addedNormalized *addedTokens // matched after the normalisers

	hash func() string
}

// normalizer changes text before it is split.
type normalizer func(text string) string

// splitter cuts text into the pieces that become tokens each by itself. first says that the text is the
// beginning of what was to be encoded.
type splitter interface {
	split(text string, first bool, emit func(piece string))
}

// model turns a piece into tokens. It is safe for concurrent use.
type model interface {
	appendPiece(dst []int, piece string) []int
}

// Name tells what was loaded: an encoding's name, or the file as it was given.
func (t *Tokenizer) Name() string { return t.name }

// Notes are remarks for the user about choices that were made, such as which splitting pattern a rank
// file got. Most tokenizers have none.
func (t *Tokenizer) Notes() []string { return t.notes }

// Hash identifies the tokenizer's behaviour: a SHA-256 in hexadecimal over the vocabulary, the merges
// and the splitting rules. Two files of the same content have the same hash whatever their names.
func (t *Tokenizer) Hash() string { return t.hash() }

// Encode gives the tokens of the text. For tiktoken's encodings, tekken.json and SentencePiece models
// special tokens are ordinary text; for a tokenizer.json its added tokens are recognised, as its own
// encoder and the servers that use it do. No token is added in front or at the end.
func (t *Tokenizer) Encode(text string) []int {
	return t.AppendEncode(nil, text)
}

// AppendEncode appends the tokens of the text to dst.
func (t *Tokenizer) AppendEncode(dst []int, text string) []int {
	t.pieces(text, func(id int) { dst = append(dst, id) }, func(piece string) { dst = t.model.appendPiece(dst, piece) })
	return dst
}

// Each calls emit for the tokens of the text, those of a piece at a time. It holds no more than them.
func (t *Tokenizer) Each(text string, emit func(ids []int)) {
	var buf []int
	long, some := t.model.(longPieces)
	t.pieces(text, func(id int) { emit([]int{id}) }, func(piece string) {
		if some {
			long.each(piece, emit)
			return
		}
		buf = t.model.appendPiece(buf[:0], piece)
		emit(buf)
	})
}

// longPieces is a model whose pieces may be a whole text: it gives their tokens some at a time.
type longPieces interface {
	each(piece string, emit func(ids []int))
}

// Count gives the number of tokens of the text. It holds no more than the tokens of a piece at a time.
func (t *Tokenizer) Count(text string) int { return t.CountParts(text, nil) }

// Part is a part of a text that was put together from known ones: where it ends, and the number of tokens
// that it has where it is a piece by itself (see [Tokenizer.CountAlone]).
type Part struct{ End, Tokens int32 }

// CountAlone gives the number of tokens of a text that is one piece: what no splitting or normalising changes.
// It is -1 for any other.
func (t *Tokenizer) CountAlone(text string) int32 {
	tokens := int32(-1)
	t.pieces(text, func(int) {}, func(piece string) {
		if same(piece, text) {
			tokens = int32(len(t.model.appendPiece(nil, piece)))
		}
	})
	return tokens
}

// CountParts is [Tokenizer.Count] of a text that was put together from the parts. The whole of it is normalised
// and split as ever. A piece that turns out to be one of the parts has that part's tokens, and does not
// have to be encoded anew; every other piece is encoded. So the result holds whatever the parts say about where
// they end.
func (t *Tokenizer) CountParts(text string, parts []Part) int {
	n, i := 0, 0
	base := uintptr(unsafe.Pointer(unsafe.StringData(text)))
	long, some := t.model.(longPieces)
	var few [64]int
	buf := few[:]
	count := func(piece string) (tokens int) {
		if some {
			long.each(piece, func(ids []int) { tokens += len(ids) })
			return tokens
		}
		buf = t.model.appendPiece(buf[:0], piece)
		return len(buf)
	}
	t.pieces(text, func(int) { n++ }, func(piece string) {
		if len(parts) == 0 {
			n += count(piece)
			return
		}
		// Where the piece stands in the text, if it is a part of it at all.
		at := int64(uintptr(unsafe.Pointer(unsafe.StringData(piece))) - base)
		for i < len(parts) && at >= int64(parts[i].End) {
			i++
		}
		if i < len(parts) && at >= 0 && at+int64(len(piece)) == int64(parts[i].End) && parts[i].Tokens >= 0 && (i == 0 && at == 0 || i > 0 && at == int64(parts[i-1].End)) {
			n += int(parts[i].Tokens)
			return
		}
		n += count(piece)
	})
	return n
}

func same(a, b string) bool { return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b) }

// pieces calls added for each added token and piece for each piece of the text, in order.
func (t *Tokenizer) pieces(text string, added func(id int), piece func(string)) {
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	notEmpty := func(s string) {
		if s != "" {
			piece(s)
		}
	}
	t.addedRaw.walk(text, true, added, func(text string, first bool) {
		t.addedNormalized.walk(t.normal(text), first, added, func(text string, first bool) { t.split.split(text, first, notEmpty) })
	})
}

func (t *Tokenizer) normal(text string) string {
	for _, f := range t.normalize {
		text = f(text)
	}
	return text
}

// replaceInvalid puts U+FFFD in place of each byte that is no part of a valid character.
// [strings.ToValidUTF8] would put one for a whole run of such bytes.
func replaceInvalid(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 16)
	for _, r := range text { // ranging gives U+FFFD for each bad byte
		b.WriteRune(r)
	}
	return b.String()
}
