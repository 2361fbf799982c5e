package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// hfFile is the part of a tokenizer.json that decides how text becomes tokens.
type hfFile struct {
	Truncation   json.RawMessage `json:"truncation"`
	AddedTokens  []hfAdded       `json:"added_tokens"`
	Normalizer   *hfStage        `json:"normalizer"`
	PreTokenizer *hfStage        `json:"pre_tokenizer"`
	Model        *hfModel        `json:"model"`
	Config       json.RawMessage `json:"config"` // of a tekken.json
}

type hfAdded struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

type hfModel struct {
	Type                    string          `json:"type"`
	Dropout                 *float64        `json:"dropout"`
	ContinuingSubwordPrefix *string         `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string         `json:"end_of_word_suffix"`
	ByteFallback            bool            `json:"byte_fallback"`
	IgnoreMerges            bool            `json:"ignore_merges"`
	FuseUnk                 bool            `json:"fuse_unk"`
	UnkToken                *string         `json:"unk_token"`
	UnkID                   *int32          `json:"unk_id"`
	MaxInputCharsPerWord    *int            `json:"max_input_chars_per_word"`
	Vocab                   json.RawMessage `json:"vocab"`
	Merges                  json.RawMessage `json:"merges"`

	vocab  map[string]int32
	scores []float64 // Unigram
}

// maxID bounds identifiers, so that a damaged file cannot ask for a huge table.
const maxID = 1 << 24

func fromHuggingFace(name string, data []byte) (*Tokenizer, error) {
	var f hfFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer %s: not a tokenizer.json: %w", name, err)
	}
	if f.Model == nil && f.Config != nil {
		return fromTekken(name, data)
	}
	t, err := f.tokenizer()
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	t.name = name
	return t, nil
}

func (f *hfFile) tokenizer() (*Tokenizer, error) {
	if f.Model == nil {
		return nil, errors.New(`not a tokenizer.json: there is no "model"`)
	}
	t := &Tokenizer{}
	var err error
	if t.normalize, err = f.Normalizer.normalizers(); err != nil {
		return nil, err
	}
	stages, bytes, err := f.PreTokenizer.splitters()
	if err != nil {
		return nil, err
	}
	if err = f.Model.readVocab(); err != nil {
		return nil, err
	}
	var merges [][2]string
	switch kind := f.Model.kind(); kind {
	case "BPE":
		if merges, err = f.Model.merges(); err == nil {
			t.model, err = f.Model.bpe(merges, bytes)
		}
		if !bytes && err == nil && f.Model.vocab[spaceMark] > 0 {
			stages = append(stages, newWordStarts(f.Model.vocab))
		}
	case "Unigram":
		t.model, err = f.Model.unigram()
	case "WordPiece":
		t.model, err = f.Model.wordPiece()
	default:
		err = fmt.Errorf("a model of type %s is not implemented, only BPE, Unigram and WordPiece are", kind)
	}
	if err == nil {
		err = t.addTokens(f.AddedTokens)
	}
	if err != nil {
		return nil, err
	}
	t.split = stages
	if len(stages) == 1 {
		t.split = stages[0]
	}
	if s := string(f.Truncation); s != "" && s != "null" {
		t.notes = append(t.notes, "the file asks for truncation; counts are of the whole text")
	}
	sum := hashHuggingFace(f, merges, bytes)
	t.hash = func() string { return sum }
	return t, nil
}

// kind is the type of the model. Old files leave it out where it can be told from the rest.
func (m *hfModel) kind() string {
	switch {
	case m.Type != "":
		return m.Type
	case m.UnkID != nil:
		return "Unigram"
	case m.MaxInputCharsPerWord != nil:
		return "WordPiece"
	}
	return "BPE"
}

// readVocab reads the vocabulary, which is a map from a token to its identifier, or (Unigram) a list of
// tokens with their scores.
func (m *hfModel) readVocab() error {
	if m.kind() == "Unigram" {
		var list []hfScored
		if err := json.Unmarshal(m.Vocab, &list); err != nil {
			return fmt.Errorf("the vocabulary is not a list of tokens and scores: %w", err)
		}
		m.vocab = make(map[string]int32, len(list))
		for i, t := range list {
			m.vocab[t.text] = int32(i)
			m.scores = append(m.scores, t.score)
		}
	} else if err := json.Unmarshal(m.Vocab, &m.vocab); err != nil {
		return fmt.Errorf("the vocabulary is not a map from tokens to identifiers: %w", err)
	}
	if len(m.vocab) == 0 {
		return errors.New("the vocabulary is empty")
	}
	seen := make(map[int32]string, len(m.vocab))
	for token, id := range m.vocab {
		if id < 0 || id >= maxID {
			return fmt.Errorf("token %q has the identifier %d", token, id)
		}
		if other, ok := seen[id]; ok {
			return fmt.Errorf("tokens %q and %q have the same identifier %d", min(token, other), max(token, other), id)
		}
		seen[id] = token
	}
	return nil
}

// hfScored is a token of a Unigram vocabulary: a list of its text and its score.
type hfScored struct {
	text  string
	score float64
}

func (s *hfScored) UnmarshalJSON(data []byte) error {
	var number json.Number
	if err := json.Unmarshal(data, &[]any{&s.text, &number}); err != nil {
		return err
	}
	var err error
	s.score, err = serdeFloat(number.String())
	return err
}

// serdeFloat reads a number as the reference does (serde_json without float_roundtrip): all digits as one
// whole number, which is then divided by a power of ten. The last bit may differ from the nearest number, and
// it decides between ways of equal score.
func serdeFloat(s string) (float64, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits, err := strconv.ParseUint(whole+fraction, 10, 64)
	tens := 0
	if err == nil && exponent != "" {
		tens, err = strconv.Atoi(exponent)
	}
	tens -= len(fraction)
	if err != nil || tens < -22 || tens > 22 {
		return strconv.ParseFloat(s, 64)
	}
	f := float64(digits)
	if tens < 0 {
		f /= math.Pow10(-tens)
	} else {
		f *= math.Pow10(tens)
	}
	if s[0] == '-' {
		f = -f
	}
	return f, nil
}

// merges gives the merges in order, as pairs of tokens. They come as strings with a space between, or as
// pairs.
func (m *hfModel) merges() ([][2]string, error) {
	var pairs [][2]string
	if list := bytes.TrimLeft(m.Merges, " \t\r\n["); bytes.Count(m.Merges[:len(m.Merges)-len(list)], []byte("[")) > 1 {
		if err := json.Unmarshal(m.Merges, &pairs); err != nil {
			return nil, fmt.Errorf("merges are neither strings nor pairs: %w", err)
		}
		return pairs, nil
	}
	var lines []string
	if err := json.Unmarshal(m.Merges, &lines); err != nil {
		return nil, fmt.Errorf("merges are neither strings nor pairs: %w", err)
	}
	pairs = make([][2]string, 0, len(lines))
	for i, l := range lines {
		left, right, ok := strings.Cut(l, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			if strings.HasPrefix(l, "#version") {
				continue
			}
			return nil, fmt.Errorf("merge %d (%q) is not two tokens", i, l)
		}
		pairs = append(pairs, [2]string{left, right})
	}
	return pairs, nil
}

// bpe makes the table of merges. The pairs are taken just as they stand, with their place in the list
// as their rank. So it does not matter whether identifiers rise with the order of the merges, which they
// do not where a file lists every way to a token (Llama 3, gpt-oss).
func (m *hfModel) bpe(merges [][2]string, byBytes bool) (*bpe, error) {
	notEmpty := func(s *string) bool { return s != nil && *s != "" }
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, errors.New("a model with dropout gives other tokens each time")
	case notEmpty(m.ContinuingSubwordPrefix), notEmpty(m.EndOfWordSuffix):
		return nil, errors.New("BPE with a subword prefix or an end-of-word suffix (CLIP, XLM) is not implemented")
	}
	vocab := m.vocab
	if byBytes {
		vocab = make(map[string]int32, len(m.vocab))
		for token, id := range m.vocab {
			if b, ok := fromByteAlphabet(token); ok && b != "" {
				vocab[b] = id
			}
		}
	}
	b := newBPE(vocab, byBytes, m.IgnoreMerges)
	switch missing := b.missingByte(); {
	case missing < 0 && byBytes:
	case byBytes:
		return nil, fmt.Errorf("byte 0x%02x is not a token, so this is not byte-level BPE", missing)
	case !m.ByteFallback:
		for i := range b.byID {
			b.byID[i] = -1
		}
	}
	if m.UnkToken != nil && !byBytes {
		id, ok := m.vocab[*m.UnkToken]
		if !ok && !m.ByteFallback {
			return nil, fmt.Errorf("the token of unknown characters, %q, is not in the vocabulary", *m.UnkToken)
		}
		if ok {
			b.unknown, b.fuse = id, m.FuseUnk
		}
	}
	pairs := newPairTable(len(merges))
	for rank, p := range merges {
		left, okL := m.vocab[p[0]]
		right, okR := m.vocab[p[1]]
		made, okM := m.vocab[p[0]+p[1]]
		if !okL || !okR || !okM {
			return nil, fmt.Errorf("merge %d (%q, %q) needs a token that the vocabulary does not have", rank, p[0], p[1])
		}
		pairs.add(left, right, uint32(rank), uint32(made))
	}
	b.pairs.Store(&pairs)
	return b, nil
}

func (m *hfModel) unigram() (*unigram, error) {
	if m.UnkID == nil || *m.UnkID < 0 || int(*m.UnkID) >= len(m.scores) {
		return nil, errors.New("a Unigram model without an unknown token (unk_id) fails on some texts, and is not implemented")
	}
	u := &unigram{tokens: newTrie(m.vocab), scores: m.scores, unknown: *m.UnkID, penalty: m.scores[0]}
	for _, s := range m.scores {
		u.penalty = min(u.penalty, s)
	}
	u.penalty -= unknownPenalty
	if m.ByteFallback {
		u.fallback = true
		for i := range u.bytes {
			id, ok := m.vocab[byteToken(byte(i))]
			u.bytes[i], u.fallback = id, u.fallback && ok
		}
	}
	return u, nil
}

func (m *hfModel) wordPiece() (*wordPiece, error) {
	prefix, unknown, longest := "##", "[UNK]", 100
	if m.ContinuingSubwordPrefix != nil {
		prefix = *m.ContinuingSubwordPrefix
	}
	if m.UnkToken != nil {
		unknown = *m.UnkToken
	}
	if m.MaxInputCharsPerWord != nil {
		longest = *m.MaxInputCharsPerWord
	}
	id, ok := m.vocab[unknown]
	if !ok {
		return nil, fmt.Errorf("the token of unknown words, %q, is not in the vocabulary", unknown)
	}
	w := &wordPiece{tokens: newTrie(m.vocab), unknown: id, longest: longest}
	w.continued = w.tokens.node(prefix)
	return w, nil
}

// addTokens sorts the added tokens into those that are looked for before the normaliser and after it.
func (t *Tokenizer) addTokens(list []hfAdded) error {
	var raw, normalized []addedToken
	for _, a := range list {
		if a.Content == "" {
			continue
		}
		one := addedToken{text: a.Content, id: a.ID, lstrip: a.LStrip, rstrip: a.RStrip, word: a.SingleWord}
		if !a.Normalized {
			raw = append(raw, one)
			continue
		}
		if one.text = t.normal(one.text); one.text != "" {
			normalized = append(normalized, one)
		}
	}
	t.addedRaw, t.addedNormalized = newAddedTokens(raw), newAddedTokens(normalized)
	return nil
}

func hashHuggingFace(f *hfFile, merges [][2]string, byBytes bool) string {
	h := sha256.New()
	enc := json.NewEncoder(h) // deterministic: the values are structs and lists
	parts := []any{"tokenizer.json", f.Normalizer, f.PreTokenizer, f.AddedTokens, f.Model.IgnoreMerges}
	if f.Model.kind() != "BPE" || f.Model.ByteFallback {
		m := *f.Model
		m.Vocab, m.Merges = nil, nil
		parts = append(parts, m, m.scores)
	}
	for _, part := range parts {
		if err := enc.Encode(part); err != nil {
			fmt.Fprintf(h, "%v", err)
		}
	}
	text := f.Model.vocab
	if byBytes { // tokens are hashed as the bytes that they stand for
		text = make(map[string]int32, len(f.Model.vocab))
		for s, id := range f.Model.vocab {
			if b, ok := fromByteAlphabet(s); ok {
				s = b
			}
			text[s] = id
		}
	}
	hashTokens(h, text)
	for _, m := range merges {
		fmt.Fprintf(h, "%s %s\n", m[0], m[1])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// byteOf is the alphabet in which byte-level BPE writes bytes as printable characters (GPT-2's
// bytes_to_unicode): those that are printable in Latin-1 stand for themselves, the others are moved to
// U+0100 and on.
var byteOf = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range 256 {
		switch r := rune(b); {
		case r >= '!' && r <= '~', r >= 0xa1 && r <= 0xac, r >= 0xae && r <= 0xff:
			m[r] = byte(b)
		default:
			m[next] = byte(b)
			next++
		}
	}
	return m
}()

func fromByteAlphabet(token string) (string, bool) {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := byteOf[r]
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), true
}
