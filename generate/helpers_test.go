package generate_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"parley/generate"
	"parley/generate/tokenizer"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tokenizers sync.Map

func load(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	if v, ok := tokenizers.Load(name); ok {
		return v.(*tokenizer.Tokenizer)
	}
	tok, err := tokenizer.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	tokenizers.Store(name, tok)
	return tok
}

func run(t testing.TB, o generate.Options) (generate.Report, []schemas.Conversation) {
	t.Helper()
	if o.Output == "" {
		o.Output = filepath.Join(t.TempDir(), "out.parquet")
	}
	if o.Tokenizer == "" {
		o.Loaded = load(t, tokenizer.Default)
	}
	rep, err := generate.Run(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rep, read(t, o.Output)
}

func read(t testing.TB, path string) []schemas.Conversation {
	t.Helper()
	f, err := schemas.Open[schemas.Conversation](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []schemas.Conversation
	for c, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func preset(t testing.TB, name string) *generate.Spec {
	t.Helper()
	s, err := generate.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func config(t testing.TB, name string) *generate.Spec {
	t.Helper()
	s := &generate.Spec{}
	if err := s.Lay(filepath.Join("testdata", name)); err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, text string) *generate.Spec {
	t.Helper()
	s, err := generate.ParseSpec([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// encodeMessage gives the tokens of a message as prompt_tokens counts them, by the JSON of the tool calls
// and not by the code under test.
func encodeMessage(t testing.TB, tok *tokenizer.Tokenizer, m schemas.Message) []int {
	t.Helper()
	var out []int
	if m.Content != nil {
		out = tok.AppendEncode(out, *m.Content)
	}
	if m.ToolCalls != nil {
		var calls []struct {
			Function struct{ Name, Arguments string }
		}
		if err := json.Unmarshal([]byte(*m.ToolCalls), &calls); err != nil {
			t.Fatalf("tool calls: %v", err)
		}
		for _, c := range calls {
			var arguments map[string]string
			if err := json.Unmarshal([]byte(c.Function.Arguments), &arguments); err != nil || len(arguments) != 1 {
				t.Fatalf("arguments %s: %v", c.Function.Arguments, err)
			}
			out = tok.AppendEncode(out, c.Function.Name)
			out = tok.AppendEncode(out, c.Function.Arguments)
		}
	}
	return out
}

// prompt gives the tokens of a message, a mark of its role before them.
func prompt(t testing.TB, tok *tokenizer.Tokenizer, m schemas.Message) []int {
	mark := -1 - slices.Index([]string{"system", "user", "assistant", "tool"}, m.Role)
	return append([]int{mark}, encodeMessage(t, tok, m)...)
}

// words counts the tokens of a prompt without its marks.
func words(tokens []int) int64 {
	n := int64(0)
	for _, t := range tokens {
		if t >= 0 {
			n++
		}
	}
	return n
}

func commonPrefix(a, b []int) []int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
