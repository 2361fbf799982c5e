package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"google.golang.org/protobuf/encoding/protowire"
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
		{"unigram without an unknown token", "unk_id", []byte(`{"model":{"type":"Unigram","vocab":[["a",-1.5]]}}`)},
		{"wordpiece without an unknown token", "[UNK]", []byte(`{"model":{"type":"WordPiece","vocab":{"a":0}}}`)},
		{"wordlevel", "type WordLevel", smallFile(t, func(_, model m) { model["type"] = "WordLevel" })},
		{"normaliser", "Nmt", smallFile(t, func(f, _ m) { f["normalizer"] = m{"type": "Nmt"} })},
		{"table of replacements", "damaged", smallFile(t, func(f, _ m) {
			f["normalizer"] = m{"type": "Precompiled", "precompiled_charsmap": []byte{255, 255, 0, 0, 1}}
		})},
		{"pre-tokenizer", "UnicodeScripts", smallFile(t, func(f, _ m) { f["pre_tokenizer"] = m{"type": "UnicodeScripts"} })},
		{"behind ByteLevel", "behind ByteLevel", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"] = m{"type": "Sequence", "pretokenizers": []any{m{"type": "ByteLevel"}, m{"type": "Digits"}}}
		})},
		{"first behind another stage", "prepend_scheme first", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"] = m{"type": "Sequence", "pretokenizers": []any{m{"type": "Digits"}, m{"type": "Metaspace", "prepend_scheme": "first"}}}
		})},
		{"behaviour", "Sometimes", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"].(m)["pretokenizers"].([]any)[0].(m)["behavior"] = "Sometimes"
		})},
		{"an inexact expression", "differs between engines", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"].(m)["pretokenizers"].([]any)[0].(m)["pattern"] = m{"Regex": `\w+`}
		})},
		{"class intersection behind a look-behind", "differs between engines", smallFile(t, func(f, _ m) {
			f["pre_tokenizer"].(m)["pretokenizers"].([]any)[0].(m)["pattern"] = m{"Regex": `(?<=a)[\p{L}&&[^\p{Han}]]+`}
		})},
		{"dropout", "dropout", smallFile(t, func(_, model m) { model["dropout"] = 0.1 })},
		{"suffix", "end-of-word", smallFile(t, func(_, model m) { model["end_of_word_suffix"] = "</w>" })},
		{"merge of nothing", "vocabulary does not have", smallFile(t, func(_, model m) { model["merges"] = []string{"h x"} })},
		{"missing byte", "byte 0x", smallFile(t, func(_, model m) { delete(model["vocab"].(map[string]int), "a") })},
		{"sentencepiece of words", "type 3", spFile(3, spPiece{"<unk>", 0, spUnknown})},
		{"sentencepiece without an unknown piece", "no unknown piece", spFile(1, spPiece{"a", 0, spNormal})},
		{"sentencepiece, cut", "SentencePiece", spFile(1, spPiece{"<unk>", 0, spUnknown})[:9]},
		{"sentencepiece of characters that are no pieces", "no piece by itself", spFile(2, spPiece{"<unk>", 0, spUnknown}, spPiece{"ab", -1, spNormal})},
		{"tekken without a pattern", "pattern", []byte(`{"config":{},"vocab":[]}`)},
		{"tekken of one byte", "byte 0x01", []byte(`{"config":{"pattern":"[^\\r\\n]+","default_vocab_size":131072,"default_num_special_tokens":1000},"vocab":[{"rank":0,"token_bytes":"AA=="}]}`)},
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

// spFile makes a SentencePiece model.
func spFile(kind uint64, pieces ...spPiece) []byte {
	var out []byte
	for _, p := range pieces {
		one := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), p.text)
		one = protowire.AppendFixed32(protowire.AppendTag(one, 2, protowire.Fixed32Type), math.Float32bits(p.score))
		one = protowire.AppendVarint(protowire.AppendTag(one, 3, protowire.VarintType), p.kind)
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), one)
	}
	trainer := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), kind)
	return protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), trainer)
}

// TestSmallModels has every kind of model whose tokens can be told by hand. Real files are held against their
// own encoders by TestReference.
func TestSmallModels(t *testing.T) {
	hf := func(rest string) []byte { return []byte("{" + rest + "}") }
	bpe := []spPiece{{"<unk>", 0, spUnknown}, {"<s>", 0, spControl}, {"▁", -9, 1}, {"a", -9, 1}, {"b", -9, 1}, {"ab", -1, 1}, {"▁a", -1, 1}, {"[X]", 0, spUserDefined}}
	unigram := []spPiece{{"<unk>", 0, spUnknown}, {"▁", -1, 1}, {"a", -2, 1}, {"b", -2, 1}, {"ab", -3, 1}, {"▁ab", -5, 1}, {"[X]", 0, spUserDefined}}
	for _, c := range []struct {
		name, text string
		file       []byte
		want       []int
	}{
		{"SentencePiece BPE, the leftmost of equal scores", " ab  [X]éé<s>b", spFile(2, bpe...), []int{6, 4, 2, 7, 0, 4}},
		{"SentencePiece Unigram, the best sum", "ab [X]cab", spFile(1, unigram...), []int{1, 4, 1, 6, 0, 4}},
		{"Unigram, Metaspace", "ab é", hf(`"pre_tokenizer":{"type":"Metaspace"},"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1],["a",-2],["b",-2],["▁ab",-4.5]]}`), []int{4, 1, 0}},
		{"WordPiece", "Abab, abc", hf(`"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","vocab":{"[UNK]":0,"ab":1,"##ab":2,",":3}}`), []int{1, 2, 3, 0}},
		{"byte fallback, a run of unknown characters", "xéa\t\t", hf(`"model":{"byte_fallback":true,"fuse_unk":true,"unk_token":"?","vocab":{"?":0,"<0xC3>":1,"<0xA9>":2,"a":3},"merges":[]}`), []int{0, 1, 2, 3, 0}},
		{"words only", "ab abc (ab)", hf(`"added_tokens":[{"id":9,"content":"ab","single_word":true}],"model":{"unk_token":"?","vocab":{"?":0,"a":1,"b":2,"c":3," ":4},"merges":[]}`), []int{9, 4, 1, 2, 3, 4, 0, 9, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := loadData("m", "", c.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := tok.Encode(c.text); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got %v, want %v", c.text, got, c.want)
			}
		})
	}
}

// TestTekken has the tokens of a rank file behind the special ones.
func TestTekken(t *testing.T) {
	want := load(t, "r50k_base")
	vocab := want.model.(*bpe).vocab
	list := make([]map[string]any, len(vocab)+1)
	list[len(vocab)] = map[string]any{"rank": len(vocab), "token_bytes": []byte(" not used")}
	for s, id := range vocab {
		list[id] = map[string]any{"rank": id, "token_bytes": []byte(s)}
	}
	data, err := json.Marshal(map[string]any{"vocab": list, "config": map[string]any{
		"pattern": patternGPT2, "default_vocab_size": len(vocab) + 100, "default_num_special_tokens": 100}})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := loadData("tekken.json", "", data)
	if err != nil {
		t.Fatal(err)
	}
	text := "Hello, wörld! not used 12345"
	got := tok.Encode(text)
	for i := range got {
		got[i] -= 100
	}
	if !reflect.DeepEqual(got, want.Encode(text)) {
		t.Errorf("got %v, want %v", got, want.Encode(text))
	}
}

func TestRankFile(t *testing.T) {
	var file bytes.Buffer
	want := load(t, "r50k_base")
	for s, id := range want.model.(*bpe).vocab {
		fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(s)), id)
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

func TestNFC(t *testing.T) {
	marks := strings.Repeat("\u0301\u0323", 40)
	for _, c := range []struct{ in, want string }{
		{"e\u0301", "é"}, {"q\u0307\u0323", "q\u0323\u0307"}, {"\u1100\u1161\u11a8", "각"}, {"\u2126", "\u03a9"}, {"\u0958", "\u0915\u093c"},
		{"plain", "plain"},
		// more marks in a row than the norm package leaves alone
		{"e" + marks, "\u1eb9" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40)},
	} {
		if got := normalForm(norm.NFC)(c.in); got != c.want {
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
		if got, want := plainForm(norm.NFC, s), norm.NFC.String(s); got != want {
			t.Errorf("%+q: got %+q, want %+q", s, got, want)
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add(smallFile(f, nil))
	f.Add([]byte("YQ== 0\nYg== 1\n"))
	f.Add(spFile(1, spPiece{"<unk>", 0, spUnknown}, spPiece{"a", -1, spNormal}))
	f.Add(spFile(2, spPiece{"<unk>", 0, spUnknown}, spPiece{"a", -1, spNormal}))
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",-1]]},"pre_tokenizer":{"type":"Metaspace"}}`))
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

// Cutting a long text without spaces must not change its tokens, and counting it must not hold them.
func TestLongTexts(t *testing.T) {
	pieces := []spPiece{{"<unk>", 0, spUnknown}}
	for i, s := range strings.Fields("我 们 你 我们 你我 们们 们你我 ▁") {
		pieces = append(pieces, spPiece{s, -float32(i), spNormal})
	}
	tok, err := loadData("m", "", spFile(2, pieces...))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range 200_000 {
		text.WriteRune([]rune("我们你我们你我们你他")[r.IntN(10)])
	}
	b := tok.model.(*bpe)
	if cut := b.cut(text.String()); cut < longPiece/2 || cut > longPiece {
		t.Fatalf("cut at %d", cut)
	}
	if whole := b.merge(nil, text.String()); !reflect.DeepEqual(b.appendPiece(nil, text.String()), whole) {
		t.Error("cutting changes the tokens")
	}

	unigram, err := loadData("m", "", spFile(1, pieces...))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("The cat's 12 mats, 我们你他", 1<<17)
	// Tokens that are held would take 8 bytes each, of which there are 0.4 for a byte of text, and as much again while
	// they grow: above 7 times. Buffers are used again, but the race detector drops a quarter of them on purpose.
	for name, tok := range map[string]*Tokenizer{"byte-level": load(t, "o200k_base"), "Unigram": unigram, "SentencePiece BPE": tok} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := tok.Count(long)
		runtime.ReadMemStats(&after)
		if grew := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(long)); grew > 5 {
			t.Errorf("%s: counting %d tokens of %d MB takes %.1f times the text's memory", name, n, len(long)>>20, grew)
		} else {
			t.Logf("%s: %.2f times", name, grew)
		}
	}
}
