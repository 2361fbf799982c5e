package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// byteAlphabet gives the printable form of a byte string.
func byteAlphabet(s string) string {
	back := map[byte]rune{}
	for r, b := range byteOf {
		back[b] = r
	}
	var out strings.Builder
	for i := range len(s) {
		out.WriteRune(back[s[i]])
	}
	return out.String()
}

// smallFile makes a tokenizer.json with all bytes and a few merges; edit may change it.
func smallFile(t testing.TB, edit func(file, model map[string]any)) []byte {
	t.Helper()
	vocab := map[string]int{}
	for b := range 256 {
		vocab[byteAlphabet(string([]byte{byte(b)}))] = b
	}
	var merges []any
	for i, m := range [][2]string{{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "w"}, {"\xc3", "\xa9"}} {
		l, r := byteAlphabet(m[0]), byteAlphabet(m[1])
		vocab[l+r] = 256 + i
		merges = append(merges, l+" "+r)
	}
	vocab[byteAlphabet("world")] = 300 // a token that no merge leads to
	model := map[string]any{"type": "BPE", "vocab": vocab, "merges": merges}
	file := map[string]any{
		"model": model,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": patternGPT2}, "behavior": "Isolated"},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
		"added_tokens": []any{map[string]any{"id": 400, "content": "<|end|>"}, map[string]any{"id": 401, "content": "<|end|>>", "rstrip": true}},
	}
	if edit != nil {
		edit(file, model)
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestHuggingFace(t *testing.T) {
	bytesOf := func(s string) (ids []int) {
		for i := range len(s) {
			ids = append(ids, int(s[i]))
		}
		return ids
	}
	join := func(parts ...[]int) (ids []int) {
		for _, p := range parts {
			ids = append(ids, p...)
		}
		return ids
	}
	one := func(id int) []int { return []int{id} }
	type edit = func(file, model map[string]any)
	pairs := func(_, model map[string]any) {
		var out []any
		for _, m := range model["merges"].([]any) {
			l, r, _ := strings.Cut(m.(string), " ")
			out = append(out, []string{l, r})
		}
		model["merges"] = out
	}
	for _, c := range []struct {
		name, text string
		edit       edit
		want       []int
	}{
		{"merges", "hello", nil, one(259)},
		{"merges as pairs", "hello", pairs, one(259)},
		{"a token without merges is not made", "world", nil, bytesOf("world")},
		{"ignore_merges takes whole tokens", "world", func(_, m map[string]any) { m["ignore_merges"] = true }, one(300)},
		{"added token", "hello<|end|>hello", nil, join(one(259), one(400), one(259))},
		{"longest added token, with the space after it", "<|end|>> \n hello", nil, join(one(401), one(259))},
		{"no NFC asked for", "e\u0301", nil, bytesOf("e\u0301")},
		{"NFC", "e\u0301", func(f, _ map[string]any) { f["normalizer"] = map[string]any{"type": "NFC"} }, one(261)},
		{"NFC in a sequence", "e\u0301", func(f, _ map[string]any) {
			f["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"}}}
		}, one(261)},
		{"ByteLevel alone has its own expression and a space in front", "world", func(f, _ map[string]any) {
			f["pre_tokenizer"] = map[string]any{"type": "ByteLevel"}
		}, join(one(260), bytesOf("orld"))},
		{"Removed and inverted keeps the matches", "hello--hello", func(f, _ map[string]any) {
			f["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0] = map[string]any{
				"type": "Split", "pattern": map[string]any{"Regex": `\p{L}+`}, "behavior": "Removed", "invert": true}
		}, join(one(259), one(259))},
		{"a literal pattern", "he.llo", func(f, _ map[string]any) {
			f["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0] = map[string]any{
				"type": "Split", "pattern": map[string]any{"String": "."}, "behavior": "Isolated"}
		}, join(one(256), bytesOf("."), one(257), bytesOf("o"))},
		{"an expression for regexp2", "hello hello", func(f, _ map[string]any) {
			f["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0] = map[string]any{
				"type": "Split", "pattern": map[string]any{"Regex": `(?<=l)l|\p{L}+?`}, "behavior": "Isolated"}
		}, bytesOf("hello hello")},
		{"digits", "he12", func(f, _ map[string]any) {
			f["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0] = map[string]any{"type": "Digits", "individual_digits": true}
		}, join(one(256), bytesOf("12"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := loadData("t.json", "", smallFile(t, c.edit))
			if err != nil {
				t.Fatal(err)
			}
			if got := tok.Encode(c.text); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"byte fallback", "byte fallback", smallFile(t, func(_, model m) { model["byte_fallback"] = true })},
		{"unigram", "type Unigram", []byte(`{"model":{"type":"Unigram","vocab":[["a",-1.5]]}}`)},
		{"wordpiece", "type WordPiece", smallFile(t, func(_, model m) { model["type"] = "WordPiece" })},
		{"normaliser", "NFKC", smallFile(t, func(f, _ m) { f["normalizer"] = m{"type": "NFKC"} })},
		{"pre-tokenizer", "Metaspace", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"] = m{"type": "Sequence", "pretokenizers": []any{m{"type": "Metaspace"}, m{"type": "ByteLevel"}}}
		})},
		{"no ByteLevel", "not ByteLevel", smallFile(t, func(f, _ m) { f["pre_tokenizer"] = m{"type": "Whitespace"} })},
		{"no pre-tokenizer", "no pre-tokenizer", smallFile(t, func(f, _ m) { f["pre_tokenizer"] = nil })},
		{"behaviour", "MergedWithNext", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"].(m)["pretokenizers"].([]any)[0].(m)["behavior"] = "MergedWithNext"
		})},
		{"an inexact expression", "differs between engines", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"].(m)["pretokenizers"].([]any)[0].(m)["pattern"] = m{"Regex": `\w+`}
		})},
		{"class intersection", "differs between engines", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"].(m)["pretokenizers"].([]any)[0].(m)["pattern"] = m{"Regex": `[\p{L}&&[^\p{Han}]]+`}
		})},
		{"dropout", "dropout", smallFile(t, func(_, model m) { model["dropout"] = 0.1 })},
		{"suffix", "end-of-word", smallFile(t, func(_, model m) { model["end_of_word_suffix"] = "</w>" })},
		{"merge of nothing", "vocabulary does not have", smallFile(t, func(_, model m) { model["merges"] = []string{"h x"} })},
		{"missing byte", "byte 0x", smallFile(t, func(_, model m) { delete(model["vocab"].(map[string]int), "a") })},
		{"single words", "single words", smallFile(t, func(f, _ m) { f["added_tokens"] = []any{m{"id": 1, "content": "x", "single_word": true}} })},
		{"sentencepiece", "SentencePiece", []byte("\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02\n")},
		{"empty", "empty", nil},
		{"some other JSON", `no "model"`, []byte(`{"a":1}`)},
		{"unknown number of ranks", "#cl100k_base", []byte("YQ== 0\nYg== 1\n")},
		{"rank twice", "twice", []byte("YQ== 0\nYg== 0\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := loadData("file", "", c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
	if _, err := Load("no_such_base"); err == nil || !strings.Contains(err.Error(), "cl100k_base") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestRankFile(t *testing.T) {
	var file bytes.Buffer
	want := load(t, "r50k_base")
	for id, s := range want.bpe.text {
		if s != "" {
			fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(s)), id)
		}
	}
	path := filepath.Join(t.TempDir(), "my.tiktoken")
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(tok.Notes()) != 1 || !strings.Contains(tok.Notes()[0], "r50k_base") {
		t.Errorf("the choice of rules is not told: %q", tok.Notes())
	}
	if tok.Hash() != want.Hash() || len(tok.Hash()) != 64 {
		t.Errorf("hash %s of the same content as %s", tok.Hash(), want.Hash())
	}
	other, err := Load(path + "#qwen")
	if err != nil {
		t.Fatal(err)
	}
	if other.Hash() == want.Hash() {
		t.Error("other splitting rules have the same hash")
	}
	if a, b := tok.Count("e\u0301 12345"), other.Count("e\u0301 12345"); a == b {
		t.Errorf("other splitting rules give the same %d tokens", a)
	}
	if _, err := Load(path + "#nothing"); err == nil || !strings.Contains(err.Error(), "llama3") {
		t.Errorf("unknown rules: %v", err)
	}
}

func TestDecodeUnknownToken(t *testing.T) {
	if _, err := load(t, "r50k_base").Decode([]int{1, 1 << 30}); err == nil || !strings.Contains(err.Error(), "position 1") {
		t.Errorf("got %v", err)
	}
}

func TestNFC(t *testing.T) {
	marks := strings.Repeat("\u0301\u0323", 40)
	for _, c := range []struct{ in, want string }{
		{"e\u0301", "é"}, {"q\u0307\u0323", "q\u0323\u0307"}, {"\u1100\u1161\u11a8", "각"}, {"\u2126", "\u03a9"}, {"\u0958", "\u0915\u093c"},
		{"plain", "plain"},
		// more marks in a row than the norm package leaves alone
		{"e" + marks, "\u1eb9" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40)},
	} {
		if got := toNFC(c.in); got != c.want {
			t.Errorf("%+q: got %+q, want %+q", c.in, got, c.want)
		}
	}
}

func FuzzNFC(f *testing.F) {
	for _, s := range []string{"e\u0301", "\u1100\u1161\u11a8x", "\u0344\u0301", "\u09c7\u09be", "\u2126"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1000 || longMarks(s) {
			return
		}
		s = strings.ToValidUTF8(s, "")
		if got, want := plainNFC(s), norm.NFC.String(s); got != want {
			t.Errorf("%+q: got %+q, want %+q", s, got, want)
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add(smallFile(f, nil))
	f.Add([]byte("YQ== 0\nYg== 1\n"))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := loadData("f", "", data)
		if err == nil {
			tok.Encode("hello, world é 123")
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, p := range patternsToProve {
		f.Add(p, "Hello, wörld's 123\n")
	}
	f.Add(`(?i:ab|c)?\s{2,3}[^a-c]`, "abc  xyz")
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(expr) > 200 || len(text) > 100 {
			return
		}
		p, err := compilePattern(expr)
		if err != nil {
			return
		}
		// What comes out is the text again, in whole characters.
		var all strings.Builder
		p.each(text, func(piece string, _ bool) { all.WriteString(piece) })
		if all.String() != text {
			t.Errorf("%q on %q gives %q", expr, text, all.String())
		}
	})
}
