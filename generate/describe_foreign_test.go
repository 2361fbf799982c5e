package generate_test

import (
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parley/generate/fit"
	"parley/generate/importer"
)

// A chat dataset as people put it on the hub has no counts: they are made now.
func TestDescribeForeignParquet(t *testing.T) {
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type row struct {
		Messages []message `parquet:"messages,list"`
	}
	name := filepath.Join(t.TempDir(), "hub.parquet")
	rows := []row{
		{[]message{{"system", "Answer in one word."}, {"user", "What is the capital of France?"}, {"assistant", "Paris."}}},
		{[]message{{"system", "Answer in one word."}, {"user", "And of Spain?"}, {"assistant", "Madrid."}, {"user", "Norway?"}, {"assistant", "Oslo."}}},
	}
	if err := parquet.WriteFile(name, rows); err != nil {
		t.Fatal(err)
	}
	d := describe(t, name)
	tok := load(t, "o200k_base")
	all, system := 0, tok.Count("Answer in one word.")
	for _, r := range rows {
		for _, m := range r.Messages {
			all += tok.Count(m.Content)
		}
	}
	if d.Conversations != 2 || d.Turns != 3 || d.Messages != 8 || !d.Counted || d.Tokens != int64(all) || d.Roles["user"] != 3 {
		t.Errorf("%+v", d)
	}
	// The second conversation finds the system prompt in the cache, its second turn its own first one.
	history := system + tok.Count("And of Spain?") + tok.Count("Madrid.")
	if want := int64(system + history); d.Cache.CachedTokens != want {
		t.Errorf("%d cached tokens, want %d", d.Cache.CachedTokens, want)
	}
	// What is learned of it has the same ceiling.
	seen, err := fit.Observe(t.Context(), []string{name}, importer.Options{Tokenizer: tok})
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.Figures().Reuse; got != d.Cache.Share {
		t.Errorf("--like finds %v of the prompts in a cache, --describe %v", got, d.Cache.Share)
	}
}
