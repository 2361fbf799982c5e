package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// hfStage is a normaliser or a pre-tokenizer of a tokenizer.json.
type hfStage struct {
	Type          string    `json:"type"`
	Normalizers   []hfStage `json:"normalizers"`
	PreTokenizers []hfStage `json:"pretokenizers"`

	// Split, Replace
	Pattern *struct {
		Regex  *string `json:"Regex"`
		String *string `json:"String"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`

	// ByteLevel, Metaspace
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`

	// Digits
	IndividualDigits bool `json:"individual_digits"`

	Content       string `json:"content,omitempty"`              // Replace
	Prepend       string `json:"prepend,omitempty"`              // Prepend
	CharsMap      []byte `json:"precompiled_charsmap,omitempty"` // Precompiled
	StripLeft     *bool  `json:"strip_left,omitempty"`           // Strip
	StripRight    *bool  `json:"strip_right,omitempty"`          // Strip
	CleanText     *bool  `json:"clean_text,omitempty"`           // BertNormalizer, with the next three
	ChineseChars  *bool  `json:"handle_chinese_chars,omitempty"`
	StripAccents  *bool  `json:"strip_accents,omitempty"`
	Lowercase     *bool  `json:"lowercase,omitempty"`
	Replacement   string `json:"replacement,omitempty"` // Metaspace, with the next two
	PrependScheme string `json:"prepend_scheme,omitempty"`
	Split         *bool  `json:"split,omitempty"`
	Delimiter     string `json:"delimiter,omitempty"` // CharDelimiterSplit
}

// orTrue is a value that is true where the file leaves it out.
func orTrue(b *bool) bool { return b == nil || *b }

// normalizers gives what a normaliser of a tokenizer.json does, one step after the other.
func (s *hfStage) normalizers() ([]normalizer, error) {
	if s == nil {
		return nil, nil
	}
	one := func(f normalizer) ([]normalizer, error) { return []normalizer{f}, nil }
	switch s.Type {
	case "Sequence":
		var all []normalizer
		for i := range s.Normalizers {
			fs, err := s.Normalizers[i].normalizers()
			if err != nil {
				return nil, err
			}
			all = append(all, fs...)
		}
		return all, nil
	case "NFC":
		return one(forms(norm.NFC))
	case "NFD":
		return one(forms(norm.NFD))
	case "NFKC":
		return one(forms(norm.NFKC))
	case "NFKD":
		return one(forms(norm.NFKD))
	case "Lowercase":
		return one(lowercase)
	case "StripAccents":
		return one(without(unicode.M, newerMarks, olderMarks))
	case "Strip":
		return one(func(text string) string {
			if orTrue(s.StripLeft) {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
			}
			if orTrue(s.StripRight) {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
			}
			return text
		})
	case "Prepend":
		return one(func(text string) string {
			if text == "" {
				return text
			}
			return s.Prepend + text
		})
	case "Replace":
		return s.replace()
	case "Precompiled":
		c, err := newCharsMap(s.CharsMap)
		if err != nil {
			return nil, err
		}
		return one(c.byGraphemes)
	case "BertNormalizer":
		var all []normalizer
		if orTrue(s.CleanText) {
			all = append(all, bertClean)
		}
		if orTrue(s.ChineseChars) {
			all = append(all, bertHan)
		}
		if s.StripAccents == nil && orTrue(s.Lowercase) || s.StripAccents != nil && *s.StripAccents {
			all = append(all, forms(norm.NFD), without(unicode.Mn, newerNonspacing, olderNonspacing))
		}
		if orTrue(s.Lowercase) {
			all = append(all, lowercase)
		}
		return all, nil
	}
	return nil, fmt.Errorf("the normaliser %s is not implemented", s.Type)
}

func (s *hfStage) replace() ([]normalizer, error) {
	if s.Pattern == nil || s.Pattern.Regex == nil {
		if s.Pattern == nil || s.Pattern.String == nil || *s.Pattern.String == "" {
			return nil, errors.New("a Replace without a pattern")
		}
		return []normalizer{func(text string) string { return strings.ReplaceAll(text, *s.Pattern.String, s.Content) }}, nil
	}
	m, err := newMatcher(*s.Pattern.Regex)
	if err != nil {
		return nil, err
	}
	return []normalizer{func(text string) string {
		var b strings.Builder
		m.each(text, func(piece string, match bool) {
			if match {
				piece = s.Content
			}
			b.WriteString(piece)
		})
		return b.String()
	}}, nil
}

// splitters builds the pre-tokenizer. bytes says that its last stage is ByteLevel, which makes the model
// one of bytes.
func (s *hfStage) splitters() (c chain, bytes bool, err error) {
	if s == nil {
		return nil, false, nil
	}
	stages := []hfStage{*s}
	if s.Type == "Sequence" {
		stages = s.PreTokenizers
	}
	for i := range stages {
		if stages[i].Type == "Metaspace" && stages[i].PrependScheme == "first" && i > 0 {
			return nil, false, fmt.Errorf("pre-tokenizer %d: a Metaspace of prepend_scheme first behind another stage is not implemented", i)
		}
		if bytes {
			return nil, false, fmt.Errorf("pre-tokenizer %d: %s behind ByteLevel is not implemented", i, stages[i].Type)
		}
		bytes = stages[i].Type == "ByteLevel"
		one, err := stages[i].splitter()
		if err != nil {
			return nil, false, fmt.Errorf("pre-tokenizer %d: %w", i, err)
		}
		c = append(c, one...)
	}
	return c, bytes, nil
}

func (s *hfStage) splitter() (chain, error) {
	of := func(expr string, b behavior) (chain, error) {
		m, err := newMatcher(expr)
		if err != nil {
			return nil, err
		}
		return chain{single{matcher: m, behavior: b, inverted: s.Invert}}, nil
	}
	switch s.Type {
	case "ByteLevel":
		var c chain
		if orTrue(s.AddPrefixSpace) {
			c = append(c, prefixSpace{})
		}
		if !orTrue(s.UseRegex) {
			return c, nil
		}
		words, err := of(patternGPT2, isolated)
		return append(c, words...), err
	case "Digits":
		if s.IndividualDigits {
			return of(`\p{N}`, isolated)
		}
		return of(`\p{N}`, contiguous)
	case "Split":
		var expr string
		switch {
		case s.Pattern != nil && s.Pattern.Regex != nil:
			expr = *s.Pattern.Regex
		case s.Pattern != nil && s.Pattern.String != nil:
			expr = regexp.QuoteMeta(*s.Pattern.String)
		}
		b, ok := behaviors[s.Behavior]
		switch {
		case expr == "":
			return nil, errors.New("a Split without a pattern")
		case !ok:
			return nil, fmt.Errorf("a Split of behaviour %q is not implemented", s.Behavior)
		}
		return of(expr, b)
	case "Metaspace":
		m := metaspace{mark: spaceMark, cut: orTrue(s.Split)}
		if s.Replacement != "" {
			m.mark = s.Replacement
		}
		switch s.PrependScheme {
		case "":
			m.always = orTrue(s.AddPrefixSpace)
		case "always":
			m.always = true
		case "first":
			m.onlyHead = true
		case "never":
		default:
			return nil, fmt.Errorf("a Metaspace of prepend_scheme %q is not implemented", s.PrependScheme)
		}
		return chain{m}, nil
	case "WhitespaceSplit":
		return of(`\s`, onlyGaps)
	case "CharDelimiterSplit":
		return of(regexp.QuoteMeta(s.Delimiter), onlyGaps)
	case "Whitespace":
		word, other := node{bit: 1, min: 1, max: -1}, node{bit: 2, min: 1, max: -1}
		notOther := wordChars
		notOther.tables = append(notOther.tables[:len(notOther.tables):len(notOther.tables)], tableRef{unicode.White_Space, false})
		notOther.negated = true
		p := &pattern{classes: newClasses([]charset{wordChars, notOther}), alts: []alternative{{1, []node{word}}, {2, []node{other}}}}
		return chain{single{matcher: p, behavior: onlyMatches}}, nil
	case "BertPreTokenizer":
		words, err := of(`\s`, onlyGaps)
		return append(words, single{matcher: punctuation{}}), err
	case "Punctuation":
		b, ok := behaviors[s.Behavior]
		if !ok && s.Behavior != "" {
			return nil, fmt.Errorf("a Punctuation of behaviour %q is not implemented", s.Behavior)
		}
		return chain{single{matcher: punctuation{}, behavior: b}}, nil
	}
	return nil, fmt.Errorf("%s is not implemented", s.Type)
}
