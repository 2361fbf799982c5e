package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// hfFile is the part of a tokenizer.json that decides how text becomes tokens.
type hfFile struct {
	Truncation   json.RawMessage `json:"truncation"`
	AddedTokens  []hfAdded       `json:"added_tokens"`
	Normalizer   *hfStage        `json:"normalizer"`
	PreTokenizer *hfStage        `json:"pre_tokenizer"`
	Model        *hfModel        `json:"model"`
}

type hfAdded struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// hfStage is a normaliser or a pre-tokenizer.
type hfStage struct {
	Type          string    `json:"type"`
	Normalizers   []hfStage `json:"normalizers"`
	PreTokenizers []hfStage `json:"pretokenizers"`

	// Split
	Pattern *struct {
		Regex  *string `json:"Regex"`
		String *string `json:"String"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`

	// ByteLevel
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`

	// Digits
	IndividualDigits bool `json:"individual_digits"`
}

type hfModel struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  json.RawMessage  `json:"merges"`
}

// maxID bounds identifiers, so that a damaged file cannot ask for a huge table.
const maxID = 1 << 24

func fromHuggingFace(name string, data []byte) (*Tokenizer, error) {
	t, err := readHuggingFace(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	t.name = name
	return t, nil
}

func readHuggingFace(data []byte) (*Tokenizer, error) {
	// The vocabulary of other model types is not a map, so the type is looked at before the rest.
	var kind struct {
		Model *struct {
			Type  string          `json:"type"`
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	switch {
	case kind.Model == nil:
		return nil, errors.New(`not a tokenizer.json: there is no "model"`)
	case kind.Model.Type != "" && kind.Model.Type != "BPE":
		return nil, fmt.Errorf("a model of type %s cannot be done exactly, only byte-level BPE can", kind.Model.Type)
	}
	var f hfFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json of byte-level BPE: %w", err)
	}
	if err := f.Model.check(); err != nil {
		return nil, err
	}
	t := &Tokenizer{}
	var err error
	if t.nfc, err = f.Normalizer.nfc(); err != nil {
		return nil, err
	}
	if t.split, err = f.PreTokenizer.splitter(); err != nil {
		return nil, err
	}
	if err = t.addTokens(f.AddedTokens); err != nil {
		return nil, err
	}
	merges, err := f.Model.merges()
	if err != nil {
		return nil, err
	}
	if t.bpe, err = f.Model.build(merges); err != nil {
		return nil, err
	}
	if s := string(f.Truncation); s != "" && s != "null" {
		t.notes = append(t.notes, "the file asks for truncation; counts are of the whole text")
	}
	sum := hashHuggingFace(&f, t.bpe.text, merges)
	t.hash = func() string { return sum }
	return t, nil
}

// check refuses what changes the tokens in ways that are not implemented.
func (m *hfModel) check() error {
	notEmpty := func(s *string) bool { return s != nil && *s != "" }
	switch {
	case m.ByteFallback:
		return errors.New("a SentencePiece model with byte fallback (Llama 2, Gemma, Mistral 7B) cannot be done exactly, only byte-level BPE can")
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("a model with dropout gives other tokens each time")
	case notEmpty(m.ContinuingSubwordPrefix), notEmpty(m.EndOfWordSuffix):
		return errors.New("a model with a subword prefix or an end-of-word suffix is not byte-level BPE")
	case len(m.Vocab) == 0:
		return errors.New("the vocabulary is empty")
	}
	return nil
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

// build makes the table of merges. The pairs are taken just as they stand, with their place in the list
// as their rank. So it does not matter whether identifiers rise with the order of the merges, which they
// do not where a file lists every way to a token (Llama 3, gpt-oss).
func (m *hfModel) build(merges [][2]string) (*bpe, error) {
	vocab := make(map[string]int32, len(m.Vocab))
	text := make([]string, 0, len(m.Vocab))
	for token, id := range m.Vocab {
		if id < 0 || id >= maxID {
			return nil, fmt.Errorf("token %q has the identifier %d", token, id)
		}
		if int(id) >= len(text) {
			text = append(text, make([]string, int(id)+1-len(text))...)
		}
		if text[id] != "" {
			return nil, fmt.Errorf("tokens %q and %q have the same identifier %d", token, text[id], id)
		}
		if b, ok := fromByteAlphabet(token); ok && b != "" {
			vocab[b] = id
			text[id] = b
		} else {
			text[id] = token // no merge leads here
		}
	}
	b := newBPE(vocab, text, m.IgnoreMerges)
	b.size = len(m.Vocab)
	if missing := b.missingByte(); missing >= 0 {
		return nil, fmt.Errorf("byte 0x%02x is not a token, so this is not byte-level BPE", missing)
	}
	b.pairs = newPairTable(len(merges))
	for rank, p := range merges {
		left, okL := m.Vocab[p[0]]
		right, okR := m.Vocab[p[1]]
		made, okM := m.Vocab[p[0]+p[1]]
		if !okL || !okR || !okM {
			return nil, fmt.Errorf("merge %d (%q, %q) needs a token that the vocabulary does not have", rank, p[0], p[1])
		}
		b.pairs.add(left, right, uint32(rank), uint32(made))
	}
	return b, nil
}

// nfc says whether the text is normalised to NFC. Any other normaliser is refused.
func (s *hfStage) nfc() (bool, error) {
	switch {
	case s == nil:
		return false, nil
	case s.Type == "NFC":
		return true, nil
	case s.Type == "Sequence":
		any := false
		for i := range s.Normalizers {
			nfc, err := s.Normalizers[i].nfc()
			if err != nil {
				return false, err
			}
			any = any || nfc
		}
		return any, nil
	}
	return false, fmt.Errorf("the normaliser %s is not implemented, only NFC is", s.Type)
}

// splitter builds the pre-tokenizer. Its last stage must be ByteLevel, which is what makes the model one
// of bytes.
func (s *hfStage) splitter() (splitter, error) {
	if s == nil {
		return nil, errors.New("there is no pre-tokenizer, so this is not byte-level BPE")
	}
	stages := []hfStage{*s}
	if s.Type == "Sequence" {
		stages = s.PreTokenizers
	}
	if len(stages) == 0 || stages[len(stages)-1].Type != "ByteLevel" {
		return nil, errors.New("the last pre-tokenizer is not ByteLevel, so this is not byte-level BPE")
	}
	var c chain
	for i := range stages {
		one, err := stages[i].stage(i == len(stages)-1)
		if err != nil {
			return nil, fmt.Errorf("pre-tokenizer %d: %w", i, err)
		}
		c = append(c, one...)
	}
	if len(c) == 1 {
		return c[0], nil
	}
	return c, nil
}

func (s *hfStage) stage(last bool) (chain, error) {
	switch s.Type {
	case "ByteLevel":
		if !last {
			return nil, errors.New("a ByteLevel that is not the last stage is not implemented")
		}
		var c chain
		if s.AddPrefixSpace == nil || *s.AddPrefixSpace {
			c = append(c, prefixSpace{})
		}
		if s.UseRegex == nil || *s.UseRegex {
			m, err := newMatcher(patternGPT2)
			if err != nil {
				return nil, err
			}
			c = append(c, single{matcher: m})
		}
		return c, nil
	case "Digits":
		expr := `\p{N}+`
		if s.IndividualDigits {
			expr = `\p{N}`
		}
		m, err := newMatcher(expr)
		if err != nil {
			return nil, err
		}
		return chain{single{matcher: m}}, nil
	case "Split":
		return s.splitStage()
	}
	return nil, fmt.Errorf("%s is not implemented, only Split, Digits and ByteLevel are", s.Type)
}

func (s *hfStage) splitStage() (chain, error) {
	var expr string
	switch {
	case s.Pattern != nil && s.Pattern.Regex != nil:
		expr = *s.Pattern.Regex
	case s.Pattern != nil && s.Pattern.String != nil:
		expr = regexp.QuoteMeta(*s.Pattern.String)
	}
	if expr == "" {
		return nil, errors.New("a Split without a pattern")
	}
	m, err := newMatcher(expr)
	if err != nil {
		return nil, err
	}
	one := single{matcher: m}
	switch s.Behavior {
	case "Isolated":
	case "Removed":
		one.dropMatches, one.dropGaps = !s.Invert, s.Invert
	default:
		return nil, fmt.Errorf("a Split of behaviour %q is not implemented, only Isolated and Removed are", s.Behavior)
	}
	return chain{one}, nil
}

// addTokens sorts the added tokens into those that are looked for before the normaliser and after it.
func (t *Tokenizer) addTokens(list []hfAdded) error {
	var raw, normalized []addedToken
	for _, a := range list {
		if a.Content == "" {
			continue
		}
		if a.SingleWord {
			return fmt.Errorf("the added token %q is of single words, which is not implemented", a.Content)
		}
		one := addedToken{text: a.Content, id: a.ID, lstrip: a.LStrip, rstrip: a.RStrip}
		if !a.Normalized {
			raw = append(raw, one)
			continue
		}
		if t.nfc {
			one.text = toNFC(one.text)
		}
		normalized = append(normalized, one)
	}
	t.addedRaw, t.addedNormalized = newAddedTokens(raw), newAddedTokens(normalized)
	return nil
}

func hashHuggingFace(f *hfFile, text []string, merges [][2]string) string {
	h := sha256.New()
	enc := json.NewEncoder(h) // deterministic: the values are structs and lists
	for _, part := range []any{"tokenizer.json", f.Normalizer, f.PreTokenizer, f.AddedTokens, f.Model.IgnoreMerges} {
		if err := enc.Encode(part); err != nil {
			fmt.Fprintf(h, "%v", err)
		}
	}
	for id, s := range text {
		if s != "" {
			fmt.Fprintf(h, "%d %x\n", id, s)
		}
	}
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
