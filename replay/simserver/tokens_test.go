package simserver

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/replay/simserver/batch"
)

func pieces(s string) []string {
	var out []string
	last := 0
	Tokenize(s, func(end int, _ uint64) bool {
		out = append(out, s[last:end])
		last = end
		return true
	})
	return out
}

func TestTokenize(t *testing.T) {
	for s, want := range map[string]string{
		"":                            "",
		"Hello there":                 "Hello| there",
		"responsibilities grow":       "respon|sibili|ties| grow",
		"in 2024, 12345678":           "in| 202|4|,| 123|456|78",
		"a  b\n\n  c":                 "a| | b|\n\n | c",
		"x == y; //////":              "x| ==| y|;| ////|//",
		"größer über":                 "größer| über",
		"日本語 text":                    "日|本|語| text",
		"tail  ":                      "tail|  ",
		" 日":                          " |日",
		"func(x){\n\treturn x\n}":     "func|(|x|)|{|\n\t|return| x|\n|}",
		"emoji 🙂🙂 ok":                 "emoji| 🙂🙂| ok",
		"\xff\xfe bad":                "\xff|\xfe| bad",
		strings.Repeat(" ", 20) + "x": strings.Repeat(" ", 16) + "|" + "   | x",
	} {
		if got := strings.Join(pieces(s), "|"); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	prose := "The quick brown fox jumps over the lazy dog, and nobody understands how it manages to continue so cheerfully through every season."
	if n, words := countTokens(prose), len(strings.Fields(prose)); n < words || n > words*3/2 {
		t.Errorf("%d tokens for %d words", n, words)
	}
}

func FuzzTokenize(f *testing.F) {
	for _, s := range []string{"Hello there", "  \n x", "日本\xff", "a1b2", strings.Repeat("-", 50), "\u2003\u2003x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, last := 0, 0
		Tokenize(s, func(end int, _ uint64) bool {
			if end <= last {
				t.Fatalf("%q: a token from %d to %d", s, last, end)
			}
			last = end
			n++
			return true
		})
		if last != len(s) || n != countTokens(s) {
			t.Errorf("%q: covered %d of %d bytes, %d tokens, counted %d", s, last, len(s), n, countTokens(s))
		}
	})
}

// The text of an answer is as many tokens as the answer has, wherever it is read.
func TestAnswersAreCountedAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "tokens")
		a := answer{tokens: n, tag: tagWord(rapid.Uint64().Draw(t, "n")), rnd: rapid.Uint64().Draw(t, "rnd")}
		outside := rapid.Bool().Draw(t, "outside")
		var b strings.Builder
		for i := range n {
			b.WriteString(a.textAt(i, outside))
		}
		if got := countTokens(b.String()); got != n {
			t.Fatalf("%q has %d tokens, want %d", b.String(), got, n)
		}
	})
	seen := map[string]bool{}
	for i := range uint64(100000) {
		seen[tagWord(i)] = true
	}
	if len(seen) != 100000 {
		t.Errorf("100,000 tags are %d different words", len(seen))
	}
}

// naiveCache is the plain idea of the prefix cache: hashes in the order of their last use.
type naiveCache struct {
	capacity int
	order    []uint64 // most recent first
}

func (c *naiveCache) use(h uint64) {
	for i, x := range c.order {
		if x == h {
			c.order = append(c.order[:i], c.order[i+1:]...)
			break
		}
	}
	c.order = append([]uint64{h}, c.order...)
}

func (c *naiveCache) insert(hashes []uint64) {
	hashes = hashes[:min(len(hashes), c.capacity)]
	for k := len(hashes) - 1; k >= 0; k-- {
		c.use(hashes[k])
	}
	c.order = c.order[:min(len(c.order), c.capacity)]
}

func (c *naiveCache) match(hashes []uint64) int {
	n := 0
	for ; n < len(hashes); n++ {
		found := false
		for _, x := range c.order {
			found = found || x == hashes[n]
		}
		if !found {
			break
		}
	}
	for k := n - 1; k >= 0; k-- {
		c.use(hashes[k])
	}
	return n
}

func TestPrefixCacheAgainstThePlainIdea(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
		c, naive := batch.NewPool(capacity), &naiveCache{capacity: capacity}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			// Chains of a small alphabet share prefixes.
			var p prompt
			p.block = 1
			for _, x := range rapid.SliceOfN(rapid.Uint64Range(0, 2), 1, 15).Draw(t, "tokens") {
				p.add(x)
			}
			n := c.Match(p.hashes)
			c.Remember(p.hashes[:n])
			if got, want := n, naive.match(p.hashes); got != want {
				t.Fatalf("match: %d, want %d", got, want)
			}
			if rapid.Bool().Draw(t, "insert") {
				c.Remember(p.hashes)
				naive.insert(p.hashes)
			}
			if c.Known() != len(naive.order) || c.Known() > capacity {
				t.Fatalf("%d blocks, want %d", c.Known(), len(naive.order))
			}
		}
		c.Forget()
		if c.Known() != 0 || c.Match([]uint64{1}) != 0 {
			t.Fatal("reset left something")
		}
	})
}
