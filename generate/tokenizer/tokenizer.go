package tokenizer

import (
	"strings"
	"sync"
	"unicode/utf8"
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

	hash    func() string
	buffers sync.Pool
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
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	return t.addedRaw.walk(dst, text, true, t.encodeRaw)
}

// Count gives the number of tokens of the text.
func (t *Tokenizer) Count(text string) int {
	buf, _ := t.buffers.Get().(*[]int)
	if buf == nil {
		buf = new([]int)
	}
	*buf = t.AppendEncode((*buf)[:0], text)
	n := len(*buf)
	if cap(*buf) <= 1<<20 {
		t.buffers.Put(buf)
	}
	return n
}

func (t *Tokenizer) encodeRaw(dst []int, text string, first bool) []int {
	return t.addedNormalized.walk(dst, t.normal(text), first, t.encodeNormal)
}

func (t *Tokenizer) normal(text string) string {
	for _, f := range t.normalize {
		text = f(text)
	}
	return text
}

func (t *Tokenizer) encodeNormal(dst []int, text string, first bool) []int {
	t.split.split(text, first, func(piece string) {
		if piece != "" {
			dst = t.model.appendPiece(dst, piece)
		}
	})
	return dst
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
