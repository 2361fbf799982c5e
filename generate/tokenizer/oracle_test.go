package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

var loadOnce sync.Map

// load gives a tokenizer, loading each only once for all tests.
func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	f, _ := loadOnce.LoadOrStore(name, sync.OnceValues(func() (*Tokenizer, error) { return Load(name) }))
	tok, err := f.(func() (*Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// decode gives the text of tokens of byte-level BPE.
func decode(t testing.TB, tok *Tokenizer, ids []int) string {
	t.Helper()
	text := map[int]string{}
	for s, id := range tok.model.(*bpe).vocab {
		text[int(id)] = s
	}
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(text[id])
	}
	return b.String()
}

var oracleOnce sync.Map

// oracle gives tiktoken-go's encoder of an embedded encoding.
func oracle(t testing.TB, name string) *tiktoken.Tiktoken {
	t.Helper()
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	f, _ := oracleOnce.LoadOrStore(name, sync.OnceValues(func() (*tiktoken.Tiktoken, error) { return tiktoken.GetEncoding(name) }))
	enc, err := f.(func() (*tiktoken.Tiktoken, error))()
	if err != nil {
		t.Fatal(err)
	}
	return enc
}

// alphabets from which hostile text is drawn: what the splitting patterns tell apart.
var alphabets = []string{
	"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "etaoin shrdlu ", "0123456789", " ", "  \t\n\r\n", "\u00a0\u2003\u3000\u0085\u2028",
	"'sS'tT'reVE'll'D'", ".,;:!?-_/\\()[]{}<>@#$%^&*+=~`|\"", "éàüßçñøåœÆŁžǅǈ", "αβγδεΩΣ", "абвгдЖЯ",
	"中文字符测试漢字", "ひらがなカタカナー", "한국어조선", "עבריתسلامہ", "हिन्दीதமிழ்ไทย", "\u0301\u0308\u0323\u20d0", "٣४๕Ⅷ½²",
	"😀👍🏽👨‍👩‍👧🇩🇪\ufe0f\u200d", "\x00\x01\x1b\x7f\u200b\u00ad\ufeff", "func(x) { return x+1; }\n\t", "\ufffd\ue000",
}

// hostile draws text of about n characters.
func hostile(r *rand.Rand, n int) string {
	var b strings.Builder
	for written := 0; written < n; {
		runes := []rune(alphabets[r.IntN(len(alphabets))])
		run := 1 + r.IntN(8)
		if r.IntN(30) == 0 {
			run = 100
		}
		same := r.IntN(4) == 0
		c := runes[r.IntN(len(runes))]
		for range run {
			if !same {
				c = runes[r.IntN(len(runes))]
			}
			b.WriteRune(c)
			written++
		}
	}
	return b.String()
}

func TestEmbeddedEncodingsEqualTiktokenGo(t *testing.T) {
	for _, name := range []string{"cl100k_base", "o200k_base", "p50k_base", "p50k_edit", "r50k_base"} {
		tok, want := load(t, name), oracle(t, name)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 400 {
			if b := tok.model.(*bpe); i == 200 { // what joins is looked up by text before, and in the table from here on
				b.pairs.Store(b.joins())
			}
			text := hostile(r, 1+r.IntN(300))
			got, exp := tok.Encode(text), want.EncodeOrdinary(text)
			if !slices.Equal(got, exp) {
				t.Fatalf("%s, text %d %q:\n got %v\nwant %v", name, i, text, got, exp)
			}
			if n := tok.Count(text); n != len(exp) {
				t.Fatalf("%s: Count(%q) = %d, want %d", name, text, n, len(exp))
			}
		}
	}
}

func TestInvalidUTF8IsOneReplacementPerByte(t *testing.T) {
	tok, want := load(t, "cl100k_base"), oracle(t, "cl100k_base")
	for _, text := range []string{"\xff", "a\xff\xfeb", "\xe4\xb8", "x\xc3(y", "\xf0\x9f\x98"} {
		if got, exp := tok.Encode(text), want.EncodeOrdinary(text); !slices.Equal(got, exp) {
			t.Errorf("%q: got %v, want %v", text, got, exp)
		}
	}
}

// TestConcurrentUse shares one tokenizer, whose cache all of them write to.
func TestConcurrentUse(t *testing.T) {
	tok := load(t, "o200k_base")
	r := rand.New(rand.NewPCG(5, 6))
	var texts []string
	var want []int
	for range 60 {
		texts = append(texts, hostile(r, 200))
		want = append(want, len(tok.Encode(texts[len(texts)-1])))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, s := range texts {
				if n := tok.Count(s); n != want[i] {
					t.Errorf("text %d has %d tokens, want %d", i, n, want[i])
				}
			}
		})
	}
	wg.Wait()
}

func FuzzAgainstTiktokenGo(f *testing.F) {
	for _, s := range []string{"", "Hello, world! It's 12345 o'clock.", "  \n\n  x", "'ſ", "\xff\xfe", strings.Repeat("a", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// regexp2 folds case letter by letter and does not know that the long s is an s; the encoders
		// that the patterns were made for do.
		if len(text) > 2000 || strings.ContainsRune(text, 'ſ') {
			return
		}
		for _, name := range []string{"cl100k_base", "o200k_base", "r50k_base"} {
			if got, exp := load(t, name).Encode(text), oracle(t, name).EncodeOrdinary(text); !slices.Equal(got, exp) {
				t.Fatalf("%s %q:\n got %v\nwant %v", name, text, got, exp)
			}
		}
	})
}

// patternsToProve are expressions of real tokenizers.
var patternsToProve = []string{
	patternGPT2, patternCL100K, patternO200K, patternQwen,
	// DeepSeek V3, its three stages
	`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`,
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
}

func TestBuiltInMatcherEqualsRegexp2(t *testing.T) {
	type piece struct {
		text  string
		match bool
	}
	pieces := func(m matcher, s string) (out []piece) {
		m.each(s, func(p string, match bool) { out = append(out, piece{p, match}) })
		return out
	}
	for _, expr := range patternsToProve {
		fast, err := compilePattern(expr)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		slow, err := newRegexp2(expr)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, 4))
		for range 500 {
			s := hostile(r, 1+r.IntN(200))
			if got, want := pieces(fast, s), pieces(slow, s); !slices.Equal(got, want) {
				t.Fatalf("%s\non %q\n got %+v\nwant %+v", expr, s, got, want)
			}
		}
		// Every single character, between two others and alone.
		for c := rune(0); c <= utf8.MaxRune; c++ {
			if c > 0x3400 && c < 0xa000 && c%64 != 0 || c > 0xac00 && c < 0xd800 && c%64 != 0 || c > 0x20000 && c%256 != 0 || c == 'ſ' {
				continue
			}
			if !utf8.ValidRune(c) || c%8 != 0 && testing.Short() {
				continue
			}
			s := "a" + string(c) + string(c) + " 1" + string(c)
			if got, want := pieces(fast, s), pieces(slow, s); !slices.Equal(got, want) {
				t.Fatalf("%s\non %q (%U)\n got %+v\nwant %+v", expr, s, c, got, want)
			}
		}
	}
}

func TestHostileRepeats(t *testing.T) {
	// Quadratic merging takes a minute for some of these; the test's own time limit would notice.
	for _, name := range []string{"cl100k_base", "o200k_base", "r50k_base"} {
		tok := load(t, name)
		for _, unit := range []string{"a", "中", " ", "\n", "A", "!", "1", "é", "\u0301", "ab", "😀", " \n"} {
			text := strings.Repeat(unit, 100_000)
			if got := decode(t, tok, tok.Encode(text)); got != text {
				t.Fatalf("%s: 100,000 times %q does not come back", name, unit)
			}
		}
	}
}
