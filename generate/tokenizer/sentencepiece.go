package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// spModel is the part of a SentencePiece model (sentencepiece_model.proto) that decides about tokens.
type spModel struct {
	pieces       []spPiece
	kind         uint64 // model_type: 1 Unigram, 2 BPE
	byteFallback bool
	spaceBehind  bool // treat_whitespace_as_suffix
	charsMap     []byte
	dummyPrefix  bool
	fewSpaces    bool // remove_extra_whitespaces
	marks        bool // escape_whitespaces
}

type spPiece struct {
	text  string
	score float32
	kind  uint64
}

// The kinds of pieces, by number in the protocol.
const (
	spNormal, spUnknown, spControl, spUserDefined, spUnused, spByte = 1, 2, 3, 4, 5, 6
)

// spFields calls f for each field of a message: with the value of a number, or the bytes of anything else.
func spFields(data []byte, f func(field protowire.Number, value uint64, data []byte) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var value uint64
		var inner []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			value = uint64(v)
		case protowire.BytesType:
			inner, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(field, value, inner); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// readSentencePiece reads a model. The numbers of the fields are those of sentencepiece_model.proto.
func readSentencePiece(data []byte) (*spModel, error) {
	m := &spModel{kind: 1, dummyPrefix: true, fewSpaces: true, marks: true}
	const pieces, trainer, normalizer = 1000, 2000, 3000
	err := spFields(data, func(part protowire.Number, _ uint64, data []byte) error {
		if part *= 1000; part > normalizer {
			return nil
		}
		if part == pieces {
			m.pieces = append(m.pieces, spPiece{kind: spNormal})
		}
		return spFields(data, func(field protowire.Number, v uint64, data []byte) error {
			switch part + field {
			case pieces + 1:
				m.pieces[len(m.pieces)-1].text = string(data)
			case pieces + 2:
				m.pieces[len(m.pieces)-1].score = math.Float32frombits(uint32(v))
			case pieces + 3:
				m.pieces[len(m.pieces)-1].kind = v
			case trainer + 3:
				m.kind = v
			case trainer + 24:
				m.spaceBehind = v != 0
			case trainer + 35:
				m.byteFallback = v != 0
			case normalizer + 2:
				m.charsMap = data
			case normalizer + 3:
				m.dummyPrefix = v != 0
			case normalizer + 4:
				m.fewSpaces = v != 0
			case normalizer + 5:
				m.marks = v != 0
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a SentencePiece model: %w", err)
	case len(m.pieces) == 0:
		return nil, errors.New("not a SentencePiece model: it has no pieces")
	case m.kind != 1 && m.kind != 2:
		return nil, fmt.Errorf("a SentencePiece model of type %d is not implemented, only Unigram (1) and BPE (2) are", m.kind)
	}
	return m, nil
}

func fromSentencePiece(name string, data []byte) (*Tokenizer, error) {
	t := &Tokenizer{name: name, split: chain(nil)}
	sum := sha256.Sum256(data)
	t.hash = func() string { return hex.EncodeToString(sum[:]) }
	m, err := readSentencePiece(data)
	if err == nil {
		err = m.build(t)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	return t, nil
}

func (m *spModel) build(t *Tokenizer) error {
	vocab := make(map[string]int32, len(m.pieces)) // what text can become
	var userDefined []addedToken
	unknown := int32(-1)
	var bytes [256]int32
	found := 0
	for i, p := range m.pieces {
		switch p.kind {
		case spUnknown:
			unknown = int32(i)
		case spByte:
			var b byte
			if n, err := fmt.Sscanf(p.text, "<0x%02X>", &b); n != 1 || err != nil {
				return fmt.Errorf("piece %d (%q) is not a byte", i, p.text)
			}
			bytes[b] = int32(i)
			found++
		case spUserDefined:
			if p.text != "" {
				userDefined = append(userDefined, addedToken{text: p.text, id: i})
			}
			vocab[p.text] = int32(i)
		case spUnused:
			if m.kind == 2 {
				return fmt.Errorf("a BPE model with unused pieces (%q) is not implemented", p.text)
			}
		case spNormal:
			vocab[p.text] = int32(i)
		}
	}
	switch {
	case unknown < 0:
		return errors.New("the model has no unknown piece")
	case m.byteFallback && found != 256:
		return fmt.Errorf("the model asks for byte fallback, and has %d of 256 bytes", found)
	}
	fixed := newAddedTokens(userDefined)
	normal, err := m.normalizer(fixed)
	if err != nil {
		return err
	}
	t.normalize = []normalizer{normal}
	if m.kind == 1 {
		t.model = m.unigram(vocab, unknown, bytes)
		return nil
	}
	t.addedNormalized = fixed
	b := newBPE(vocab, false, false)
	b.unknown, b.fuse = unknown, true
	for i := range b.byID {
		b.byID[i] = -1
		if m.byteFallback {
			b.byID[i] = bytes[i]
		}
	}
	t.model = b
	if _, ok := vocab[spaceMark]; ok {
		t.split = newWordStarts(vocab)
	}
	return m.pairs(b)
}

// pairs enters the merges: any two neighbours whose text together is a piece, the highest score first.
func (m *spModel) pairs(b *bpe) error {
	order := make([]int32, 0, len(b.vocab))
	for s, id := range b.vocab {
		if utf8.RuneCountInString(s) > 1 {
			order = append(order, id)
		}
	}
	slices.SortFunc(order, func(x, y int32) int {
		if m.pieces[x].score != m.pieces[y].score {
			if m.pieces[x].score > m.pieces[y].score {
				return -1
			}
			return 1
		}
		return int(x - y)
	})
	pairs := newPairTable(2 * len(order))
	rank := uint32(0)
	for i, id := range order {
		if i > 0 && m.pieces[id].score != m.pieces[order[i-1]].score {
			rank++
		}
		s := m.pieces[id].text
		for cut, r := range s {
			if _, ok := b.vocab[string(r)]; !ok && m.pieces[id].kind == spNormal {
				return fmt.Errorf("piece %d (%q) has a character that is no piece by itself, which is not implemented", id, s)
			}
			left, okL := b.vocab[s[:cut]]
			right, okR := b.vocab[s[cut:]]
			if okL && okR {
				pairs.add(left, right, rank, uint32(id))
			}
		}
	}
	b.pairs.Store(&pairs)
	return nil
}

// unigram gives the model with scores as SentencePiece has them (unigram_model.cc): a user-defined symbol
// is all but sure to be taken.
func (m *spModel) unigram(vocab map[string]int32, unknown int32, bytes [256]int32) *unigram {
	u := &unigram{tokens: newTrie(vocab), scores: make([]float64, len(m.pieces)), unknown: unknown, bytes: bytes, fallback: m.byteFallback, single: true}
	lowest, highest := float32(math.MaxFloat32), float32(0x1p-126)
	for _, p := range m.pieces {
		if p.kind == spNormal {
			lowest, highest = min(lowest, p.score), max(highest, p.score)
		}
	}
	for i, p := range m.pieces {
		u.scores[i] = float64(p.score)
		if p.kind == spUserDefined {
			u.scores[i] = float64(float32(len(p.text))*highest) - 0.1
		}
	}
	u.penalty = float64(lowest - unknownPenalty)
	return u
}

// normalizer does what SentencePiece's Normalizer::Normalize does.
func (m *spModel) normalizer(fixed *addedTokens) (normalizer, error) {
	var c *charsMap
	if len(m.charsMap) > 0 {
		var err error
		if c, err = newCharsMap(m.charsMap); err != nil {
			return nil, err
		}
	}
	space := " "
	if m.marks {
		space = spaceMark
	}
	// next gives what the first few bytes of a text become, and their number.
	next := func(s string) (string, int) {
		if fixed != nil {
			if t := fixed.at(s); t != nil {
				return t.text, len(t.text)
			}
		}
		if c != nil {
			if _, n, _, made := c.prefixes(s); n > 0 {
				return made, n
			}
		}
		_, n := utf8.DecodeRuneInString(s)
		return s[:n], n
	}
	return func(text string) string {
		if m.fewSpaces {
			for text != "" {
				made, n := next(text)
				if made != " " {
					break
				}
				text = text[n:]
			}
		}
		if text == "" {
			return ""
		}
		var b strings.Builder
		b.Grow(len(text) + len(text)/2)
		if m.dummyPrefix && !m.spaceBehind {
			b.WriteString(space)
		}
		for after := m.fewSpaces; text != ""; {
			made, n := next(text)
			text = text[n:]
			if after {
				made = strings.TrimLeft(made, " ")
			}
			if made != "" {
				switch {
				case !m.marks:
					b.WriteString(made)
				case made == " ":
					b.WriteString(spaceMark)
				default:
					b.WriteString(strings.ReplaceAll(made, " ", spaceMark))
				}
				after = m.fewSpaces && strings.HasSuffix(made, " ")
			}
		}
		out := b.String()
		if m.fewSpaces {
			for strings.HasSuffix(out, space) {
				out = strings.TrimSuffix(out, space)
			}
		}
		if m.dummyPrefix && m.spaceBehind {
			out += space
		}
		return out
	}, nil
}
