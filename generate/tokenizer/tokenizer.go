package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Default is the name of the encoding that is used where none is asked for.
const Default = "o200k_base"

// Tokenizer turns text into tokens. It is safe for concurrent use.
type Tokenizer struct {
	name  string
	notes []string
	nfc   bool
	split splitter
	bpe   *bpe

	addedRaw        *addedTokens // matched in the text as it is
	addedNormalized *addedTokens // matched after the normaliser

	hash    func() string
	buffers sync.Pool
}

// Name tells what was loaded: an encoding's name, or the file as it was given.
func (t *Tokenizer) Name() string { return t.name }

// Notes are remarks for the user about choices that were made, such as which splitting pattern a rank
// file got. Most tokenizers have none.
func (t *Tokenizer) Notes() []string { return t.notes }

// Hash identifies the tokenizer's behaviour: a SHA-256 in hexadecimal over the vocabulary, the merges
// and the splitting rules. Two files of the same content have the same hash whatever their names.
func (t *Tokenizer) Hash() string { return t.hash() }

// VocabSize is the number of tokens, added ones not counted.
func (t *Tokenizer) VocabSize() int { return t.bpe.size }

// Encode gives the tokens of the text. For tiktoken's encodings special tokens are ordinary text; for a
// tokenizer.json its added tokens are recognised, as its own encoder and the servers that use it do.
// No token is added in front or at the end.
func (t *Tokenizer) Encode(text string) []int {
	return t.AppendEncode(nil, text)
}

// AppendEncode appends the tokens of the text to dst.
func (t *Tokenizer) AppendEncode(dst []int, text string) []int {
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	if t.addedRaw == nil {
		return t.encodeRaw(dst, text)
	}
	return t.addedRaw.walk(dst, text, t.encodeRaw)
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

// Decode gives the bytes of the tokens. They need not be whole characters. An identifier that the
// vocabulary does not have is an error.
func (t *Tokenizer) Decode(tokens []int) ([]byte, error) {
	var out []byte
	for i, id := range tokens {
		b, ok := t.TokenBytes(id)
		if !ok {
			return nil, fmt.Errorf("tokenizer %s: token %d at position %d is not in the vocabulary", t.name, id, i)
		}
		out = append(out, b...)
	}
	return out, nil
}

// TokenBytes gives the bytes of one token; false if there is no such token.
func (t *Tokenizer) TokenBytes(id int) (string, bool) {
	if s, ok := t.addedRaw.content(id); ok {
		return s, true
	}
	if s, ok := t.addedNormalized.content(id); ok {
		return s, true
	}
	return t.bpe.bytes(id)
}

func (t *Tokenizer) encodeRaw(dst []int, text string) []int {
	if t.nfc {
		text = toNFC(text)
	}
	if t.addedNormalized == nil {
		return t.encodeNormal(dst, text)
	}
	return t.addedNormalized.walk(dst, text, t.encodeNormal)
}

func (t *Tokenizer) encodeNormal(dst []int, text string) []int {
	t.split.split(text, func(piece string) { dst = t.bpe.appendPiece(dst, piece) })
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
