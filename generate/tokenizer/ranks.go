package tokenizer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/pkoukk/tiktoken-go-loader/assets"
	"golang.org/x/text/unicode/norm"
)

// Splitting patterns. The first three are those of tiktoken (openai/tiktoken, tiktoken_ext/openai_public.py,
// in the form before possessive repeats came in, which matches the same); the others come from the
// tokenizer.json files of Llama 3 and Qwen, and from Kimi K2's tokenization_kimi.py.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternCL100K = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200K  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternKimi = `[\p{Han}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// rules are what a rank file does not say.
type rules struct {
	pattern string
	nfc     bool
}

// known are the splitting rules by name, for the embedded encodings and for rank files.
var known = map[string]rules{
	"r50k_base":   {pattern: patternGPT2},
	"p50k_base":   {pattern: patternGPT2},
	"cl100k_base": {pattern: patternCL100K},
	"o200k_base":  {pattern: patternO200K},
	"llama3":      {pattern: patternCL100K},
	"qwen":        {pattern: patternQwen, nfc: true},
	"kimi":        {pattern: patternKimi},
}

// knownSizes tells the rules of a rank file by its number of ranks. Llama 3's reference code has cl100k's
// pattern; Qwen's normalises to NFC.
var knownSizes = map[int]string{
	50256:  "r50k_base",
	50280:  "p50k_base",
	100256: "cl100k_base",
	199998: "o200k_base",
	128000: "llama3",
	151643: "qwen",
	163584: "kimi",
}

// embedded maps the names of encodings to the rank files that are part of the program.
var embedded = map[string]string{
	"cl100k_base":   "cl100k_base",
	"o200k_base":    "o200k_base",
	"o200k_harmony": "o200k_base", // the same ranks with other special tokens
	"p50k_base":     "p50k_base",
	"p50k_edit":     "p50k_base",
	"r50k_base":     "r50k_base",
	"gpt2":          "r50k_base",
}

// Names lists the encodings that are part of the program.
func Names() []string {
	names := make([]string, 0, len(embedded))
	for n := range embedded {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func loadEmbedded(name string) (*Tokenizer, error) {
	file := embedded[name]
	data, err := assets.Assets.ReadFile(file + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: embedded ranks: %w", name, err)
	}
	vocab, err := parseRanks(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: embedded ranks: %w", name, err)
	}
	return fromRanks(name, vocab, known[file], 0)
}

// loadRankFile reads a rank file. rulesName is what the user put after "#", or empty.
func loadRankFile(name, rulesName string, data []byte) (*Tokenizer, error) {
	vocab, err := parseRanks(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	chosen, how := rulesName, "as asked"
	if chosen == "" {
		how = fmt.Sprintf("told by its %d ranks", len(vocab))
		if chosen = knownSizes[len(vocab)]; chosen == "" {
			return nil, fmt.Errorf("tokenizer %s: a rank file says nothing about splitting, and one of %d ranks is not known; "+
				"name the rules after a #, as in %s#cl100k_base (%s), or use the model's tokenizer.json",
				name, len(vocab), name, strings.Join(ruleNames(), ", "))
		}
	}
	r, ok := known[chosen]
	if !ok {
		return nil, fmt.Errorf("tokenizer %s: splitting rules %q are not known; there are %s", name, chosen, strings.Join(ruleNames(), ", "))
	}
	t, err := fromRanks(name, vocab, r, 0)
	if err != nil {
		return nil, err
	}
	t.notes = append(t.notes, fmt.Sprintf("%s is split by the rules of %s (%s)", name, chosen, how))
	return t, nil
}

func ruleNames() []string {
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// looksLikeRanks says whether the data begins as a rank file does: base64, a space, a number.
func looksLikeRanks(data []byte) bool {
	line, _, _ := bytes.Cut(data[:min(len(data), 4096)], []byte("\n"))
	_, _, err := parseRank(bytes.TrimRight(line, "\r"))
	return err == nil
}

func parseRank(line []byte) (token string, rank int32, err error) {
	word, number, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return "", 0, errors.New("want a token in base64, a space and a rank")
	}
	b, err := base64.StdEncoding.DecodeString(string(word))
	if err != nil {
		return "", 0, fmt.Errorf("the token is not base64: %w", err)
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(number)), 10, 24)
	if err != nil {
		return "", 0, fmt.Errorf("the rank: %w", err)
	}
	return string(b), int32(n), nil
}

func parseRanks(data []byte) (map[string]int32, error) {
	lines := bytes.Count(data, []byte("\n")) + 1
	vocab := make(map[string]int32, lines)
	seen := make(map[int32]bool)
	given := make([]bool, lines) // the same for ranks below the number of lines, which all of a good file are
	for line := 1; len(data) > 0; line++ {
		var text []byte
		text, data, _ = bytes.Cut(data, []byte("\n"))
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		token, rank, err := parseRank(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if token == "" {
			return nil, fmt.Errorf("line %d: an empty token", line)
		}
		twice := seen[rank]
		if int(rank) < lines {
			twice, given[rank] = given[rank], true
		} else {
			seen[rank] = true
		}
		before := len(vocab)
		vocab[token] = rank
		if twice || len(vocab) == before {
			return nil, fmt.Errorf("line %d: the token or the rank %d comes twice", line, rank)
		}
	}
	return vocab, nil
}

// fromRanks builds a tokenizer in which the identifier of a token is its rank plus a number, and any two
// neighbours merge whose bytes together are a token.
func fromRanks(name string, vocab map[string]int32, r rules, plus int32) (*Tokenizer, error) {
	m, err := newMatcher(r.pattern)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	if plus != 0 {
		for s := range vocab {
			vocab[s] += plus
		}
	}
	b := newBPE(vocab, true, true)
	if missing := b.missingByte(); missing >= 0 {
		return nil, fmt.Errorf("tokenizer %s: byte 0x%02x is not a token, so not every text can be encoded", name, missing)
	}
	t := &Tokenizer{name: name, model: b, split: single{matcher: m, behavior: onlyMatches}}
	if r.nfc {
		t.normalize = []normalizer{normalForm(norm.NFC)}
	}
	t.hash = sync.OnceValue(func() string {
		h := sha256.New()
		fmt.Fprintf(h, "ranks\n%q\nnfc %v\n", r.pattern, r.nfc)
		hashTokens(h, vocab)
		return hex.EncodeToString(h.Sum(nil))
	})
	return t, nil
}

// hashTokens adds the tokens by identifier to a hash.
func hashTokens(h hash.Hash, vocab map[string]int32) {
	tokens := slices.Collect(maps.Keys(vocab))
	slices.SortFunc(tokens, func(a, b string) int { return cmp.Or(cmp.Compare(vocab[a], vocab[b]), cmp.Compare(a, b)) })
	for _, s := range tokens {
		if s != "" {
			fmt.Fprintf(h, "%d %x\n", vocab[s], s)
		}
	}
}

// tekkenFile is Mistral's tekken.json: ranks as in a rank file, of which the first are used, and a number
// of special tokens that come before them.
type tekkenFile struct {
	Config struct {
		Pattern  string `json:"pattern"`
		Size     *int   `json:"default_vocab_size"`
		Specials *int   `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"`
	} `json:"vocab"`
}

func fromTekken(name string, data []byte) (*Tokenizer, error) {
	var f tekkenFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer %s: not a tekken.json: %w", name, err)
	}
	c := f.Config
	if c.Pattern == "" || c.Size == nil || c.Specials == nil || *c.Specials < 0 || *c.Size <= *c.Specials || *c.Size > maxID {
		return nil, fmt.Errorf("tokenizer %s: a tekken.json has a pattern, default_vocab_size and default_num_special_tokens in its config", name)
	}
	ranks := min(*c.Size-*c.Specials, len(f.Vocab))
	vocab := make(map[string]int32, ranks)
	for i, t := range f.Vocab[:ranks] {
		if _, twice := vocab[string(t.Bytes)]; t.Rank != i || len(t.Bytes) == 0 || twice {
			return nil, fmt.Errorf("tokenizer %s: token %d of the tekken.json has the rank %d, is empty, or comes twice", name, i, t.Rank)
		}
		vocab[string(t.Bytes)] = int32(i)
	}
	return fromRanks(name, vocab, rules{pattern: c.Pattern}, int32(*c.Specials))
}
