package prose_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"parley/generate/prose"
	"parley/generate/tokenizer"
)

func corpus(t *testing.T, m maker, files ...string) *prose.Corpus {
	t.Helper()
	c, err := prose.NewCorpus(m.p, files, 2, func(pass uint64) *rand.Rand { return rng(1, pass) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// book is a text with everything in it that makes cutting hard.
var book = filepath.Join("..", "testdata", "book.txt")

func TestCorpusPartsAreExactAndJoin(t *testing.T) {
	for _, name := range encodings {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			c := corpus(t, m, book)
			r := rng(8, 8)
			for round := range 150 {
				var parts []string
				want := 0
				for k := range 1 + r.IntN(4) {
					n := 1 + r.IntN(200)
					part, err := c.Part(r, r.Int64N(1000), n)
					if k == 0 {
						part, err = c.Unique(r, 5, uint64(round), r.Int64N(1000), n)
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := m.tok.Count(prose.Message(part)); got != n {
						t.Fatalf("asked for %d tokens, got %d: %q", n, got, part)
					}
					want, parts = want+n, append(parts, part)
				}
				if s, err := m.p.Joined(want, parts...); err != nil || m.tok.Count(s) != want {
					t.Fatalf("message of %d tokens has %d (%v): %q", want, m.tok.Count(s), err, parts)
				}
			}
		})
	}
}

// The first pass is the text in its own order, and a place of the tape has the same text always.
func TestCorpusTape(t *testing.T) {
	m := load(t, "o200k_base")
	c := corpus(t, m, book)
	text, err := os.ReadFile(book)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Part(rng(1, 1), 0, 300)
	if err != nil {
		t.Fatal(err)
	}
	if got := first[:len(first)*3/4]; !strings.Contains(string(text), got) {
		t.Errorf("not a passage of the text: %q", got)
	}
	again := corpus(t, m, book)
	for _, at := range []int64{0, 7, c.Length() + 3, 100 * c.Length()} {
		a, err := c.Part(rng(1, 1), at, 120)
		if err != nil {
			t.Fatal(err)
		}
		b, err := again.Part(rng(1, 1), at, 120)
		if err != nil {
			t.Fatal(err)
		}
		if a != b {
			t.Errorf("two texts at place %d", at)
		}
	}
	// Every segment comes once in a pass, and again after half of the corpus at the earliest.
	last := map[string]int64{}
	for at := range 6 * c.Length() {
		s, err := c.Part(rng(1, 1), at, 30)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := last[s]; ok && at-before < c.Length()/2 {
			t.Errorf("segment at %d comes again at %d, in a corpus of %d", before, at, c.Length())
		}
		last[s] = at
	}
	if n := int64(len(last)); n < c.Length()*9/10 {
		t.Errorf("%d different texts in a corpus of %d segments", n, c.Length())
	}
}

func TestCorpusRefuses(t *testing.T) {
	m := load(t, "o200k_base")
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, tc := range []struct{ file, want string }{
		{filepath.Join(dir, "absent.txt"), "absent.txt"},
		{write("short.txt", "Just a few words here."), "too little"},
		{write("blob.txt", strings.Repeat("x", 1<<20)), "spaces between words"},
		{write("binary", string(make([]byte, 1<<16))), "spaces between words"},
	} {
		_, err := prose.NewCorpus(m.p, []string{tc.file}, 2, func(pass uint64) *rand.Rand { return rng(1, pass) })
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.file, err, tc.want)
		}
	}
}

// Text in other scripts, with bad bytes, control characters and odd spaces, still gives exact lengths.
func TestCorpusOfOddText(t *testing.T) {
	m := load(t, "o200k_base")
	name := filepath.Join(t.TempDir(), "odd.txt")
	line := "Größe, naïve café — “quoted” don't l'été 12,345.67 \t tab\r\nПривет мир и всем людям 東京 タワー हिन्दी पाठ \xff\xfe bad <|endoftext|> e\u0301t\u00e9  two  spaces 'tis 's 'll x\u00a0y 🙂 ok\n\n"
	if err := os.WriteFile(name, []byte(strings.Repeat(line, 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := corpus(t, m, name)
	for n := 1; n < 400; n += 3 {
		s, err := c.Part(rng(2, uint64(n)), int64(n), n)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(m.tok.Encode(prose.Message(s))); got != n {
			t.Fatalf("asked for %d tokens, got %d", n, got)
		}
	}
}

// whole is a tokenizer that does not say where it cuts, as those are that take a text as one piece.
type whole struct{ *tokenizer.Tokenizer }

func (whole) Cuts(string) []int { return nil }

// Chinese, Thai and source code are quoted as they stand, in exact lengths: nearly all of a text is a passage of the
// file, and only what no piece is short enough for is filled up with words.
func TestCorpusWithoutSpaces(t *testing.T) {
	source, err := os.ReadFile("corpus.go")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"code": string(source)}
	for name, words := range map[string][]string{
		"chinese": {"今天", "天气", "很好", "我们", "一起", "去", "公园", "散步", "，", "然后", "喝茶", "。", "他", "没有", "回答", "这个", "问题", "：", "时间", "不够", "了", "！\n", "北京", "的", "冬天", "特别", "冷"},
		"thai":    {"วันนี้", "อากาศ", "ดีมาก", "เรา", "ไป", "เดินเล่น", "ใน", "สวน", "แล้ว", "ดื่ม", "ชา", "ด้วยกัน", "เขา", "ไม่", "ตอบ", "คำถาม"},
	} {
		r := rng(3, 9)
		var b strings.Builder
		for range 6000 {
			b.WriteString(words[r.IntN(len(words))])
		}
		texts[name] = b.String()
	}
	for _, encoding := range []string{"o200k_base", "cl100k_base", "whole"} {
		m := load(t, strings.Replace(encoding, "whole", "o200k_base", 1))
		if encoding == "whole" {
			p, err := prose.New(whole{m.tok})
			if err != nil {
				t.Fatal(err)
			}
			m.p = p
		}
		for name, text := range texts {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := corpus(t, m, file)
			if got, all := c.Tokens(), int64(m.tok.Count(text)); got < all*9/10 || got > all*11/10 {
				t.Errorf("%s, %s: %d tokens of %d can be used", encoding, name, got, all)
			}
			bytes, foreign := 0, 0
			for n := 1; n < 700; n += 23 {
				s, err := c.Part(rng(2, uint64(n)), int64(n%9), n)
				if err != nil {
					t.Fatal(err)
				}
				s = prose.Message(s)
				if got := m.tok.Count(s); got != n {
					t.Fatalf("%s, %s: asked for %d tokens, got %d: %q", encoding, name, n, got, s)
				}
				// Words that were put in have letters that the other scripts do not have; in code they stand where the
				// passage ends.
				if bytes += len(s); name != "code" {
					foreign += len(s) - len(strings.Map(func(r rune) rune {
						if r < 128 && unicode.IsLetter(r) {
							return -1
						}
						return r
					}, s))
				} else {
					for ; len(s) > 0 && !strings.Contains(text, s); s = s[:len(s)-1] {
						foreign++
					}
				}
			}
			if foreign > bytes/50 {
				t.Errorf("%s, %s: %d bytes of %d are not of the text", encoding, name, foreign, bytes)
			}
			// Behind other texts, and where passages meet.
			for n := 20; n < 500; n += 37 {
				first, err := c.Unique(rng(1, 1), 5, uint64(n), int64(n), n)
				if err != nil {
					t.Fatal(err)
				}
				second, err := c.Part(rng(1, 1), c.Length()*3+int64(n), n)
				if err != nil {
					t.Fatal(err)
				}
				if s, err := m.p.Joined(2*n, first, second); err != nil || m.tok.Count(s) != 2*n {
					t.Fatalf("%s, %s: message of %d tokens has %d (%v): %q", encoding, name, 2*n, m.tok.Count(s), err, s)
				}
			}
		}
	}
}

func TestWrapped(t *testing.T) {
	for _, name := range encodings {
		m := load(t, name)
		for n := 12; n < 300; n++ {
			s, err := m.p.Wrapped(rng(4, uint64(n)), `{"path":"`, `"}`, n)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(m.tok.Encode(s)); got != n || !strings.HasPrefix(s, `{"path":"`) || !strings.HasSuffix(s, `"}`) || strings.Count(s, `"`) != 4 {
				t.Fatalf("%s: asked for %d tokens, got %d: %s", name, n, got, s)
			}
		}
		if _, err := m.p.Wrapped(rng(1, 1), `{"path":"`, `"}`, 2); err == nil {
			t.Error("two tokens were enough for an object")
		}
	}
}
