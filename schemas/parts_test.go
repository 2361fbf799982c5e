package schemas

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// partRow is the nth conversation of a dataset.
func partRow(n int64) Conversation {
	c := sampleConversation()
	c.ConversationID = fmt.Sprintf("c%d", n)
	sum := HashConversation(&c)
	c.Index, c.ContentHash = &n, ptr(hex.EncodeToString(sum[:]))
	return c
}

// writePart writes every shards-th of n conversations from number shard on, into a file that it names.
func writePart(t *testing.T, dir string, shard, shards, n int, change func(*DatasetMeta)) string {
	t.Helper()
	meta := DatasetMeta{ToolVersion: "1", Seed: 7, Spec: json.RawMessage(`{"a":1}`), Tokenizer: "t", Shard: fmt.Sprintf("%d/%d", shard, shards)}
	if meta.Whole = int64(n); shards == 1 {
		meta.Shard, meta.Whole = "", 0
	}
	hash, rows := NewContentHash(), []Conversation{}
	for i := shard; i < n; i += shards {
		c := partRow(int64(i))
		hash.Add(HashConversation(&c))
		rows = append(rows, c)
		meta.Turns += int64(len(c.Turns))
	}
	meta.ContentHash, meta.Conversations = hash.String(), int64(len(rows))
	if change != nil {
		change(&meta)
	}
	path := filepath.Join(dir, fmt.Sprintf("part-%d-of-%d.parquet", shard, shards))
	writeFile(t, path, meta, rows...)
	return path
}

// However many parts there are, some of them empty: the same conversations in the same order, from any number
// on, the same outlines, and the same hash.
func TestPartsAreOneDataset(t *testing.T) {
	const n = 23
	whole, err := OpenDataset(writePart(t, t.TempDir(), 0, 1, n, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	for _, shards := range []int{2, 3, 7, 23, 30} {
		dir := t.TempDir()
		for i := range shards {
			writePart(t, dir, i, shards, n, nil)
		}
		for _, path := range []string{dir, filepath.Join(dir, "part-*.parquet")} {
			d, err := OpenDataset(path)
			if err != nil {
				t.Fatal(err)
			}
			if m := d.Meta(); m.ContentHash != whole.Meta().ContentHash || m.Conversations != n || m.Turns != whole.Meta().Turns || m.Shard != "" || d.NumRows() != n || d.Path() != dir {
				t.Errorf("%d parts: %s with %+v, the whole %+v", shards, d.Path(), m, whole.Meta())
			}
			for _, first := range []int64{0, 1, 5, n - 1, n} {
				next := first
				for c, err := range d.Conversations(first) {
					if err != nil {
						t.Fatal(err)
					}
					if want := partRow(next); c.ConversationID != want.ConversationID || *c.Index != next {
						t.Fatalf("%d parts from %d on: %s in the place of %s", shards, first, c.ConversationID, want.ConversationID)
					}
					next++
				}
				if next != n {
					t.Errorf("%d parts from %d on end at %d", shards, first, next)
				}
			}
			k := 0
			for o, err := range d.Outlines() {
				if err != nil || o.ConversationID != fmt.Sprintf("c%d", k) {
					t.Fatalf("outline %d of %d parts: %s, %v", k, shards, o.ConversationID, err)
				}
				k++
			}
			if err := d.Close(); k != n || err != nil {
				t.Errorf("%d outlines of %d parts, %v", k, shards, err)
			}
		}
	}
}

func TestPartsThatAreNoDataset(t *testing.T) {
	const n = 12
	for name, c := range map[string]struct {
		spoil func(dir string) []string // gives what to open; nil for the folder
		want  string
	}{
		"one missing": {func(dir string) []string { os.Remove(filepath.Join(dir, "part-2-of-4.parquet")); return nil }, "these are missing: 2 (parts"},
		"one alone":   {func(dir string) []string { return []string{filepath.Join(dir, "part-1-of-4.parquet")} }, "these are missing: 0, 2, 3"},
		"one twice": {func(dir string) []string {
			b, _ := os.ReadFile(filepath.Join(dir, "part-1-of-4.parquet"))
			os.WriteFile(filepath.Join(dir, "copy.parquet"), b, 0o600)
			return nil
		}, "part 1 of 4 is there twice"},
		"other division": {func(dir string) []string { writePart(t, dir, 1, 5, n, nil); return nil }, "part-1-of-5.parquet is a part of 5, and others are parts of 4"},
		"whole beside":   {func(dir string) []string { writePart(t, dir, 0, 1, n, nil); return nil }, "part-0-of-1.parquet is a whole dataset"},
		"other seed":     {respoiled(t, n, func(m *DatasetMeta) { m.Seed = 8 }), "part-3-of-4.parquet is a part of another dataset: its seed is 8"},
		"other spec":     {respoiled(t, n, func(m *DatasetMeta) { m.Spec = json.RawMessage(`{"a":2}`) }), "its specification is another"},
		"other tokens":   {respoiled(t, n, func(m *DatasetMeta) { m.TokenizerHash = "x" }), "its tokenizer is t x"},
		"too few":        {respoiled(t, n-4, func(m *DatasetMeta) { m.Whole = n }), "the parts have 11 conversations, and the dataset has 12"},
		"other number":   {respoiled(t, n-4, nil), "its number of conversations in all is 8, that of"},
		"other rows": {func(dir string) []string {
			os.Remove(filepath.Join(dir, "part-3-of-4.parquet"))
			os.Rename(writePart(t, t.TempDir(), 2, 4, n, func(m *DatasetMeta) { m.Shard = "3/4" }), filepath.Join(dir, "part-3-of-4.parquet"))
			return nil
		}, "conversation 3 of 12 is in none of the parts"},
		"no rows": {func(dir string) []string { return []string{filepath.Join(dir, "absent-*.parquet")} }, "absent-*.parquet: file does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range 4 {
				writePart(t, dir, i, 4, n, nil)
			}
			paths := c.spoil(dir)
			if paths == nil {
				paths = []string{dir}
			}
			_, err := OpenParts(paths...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

// respoiled writes the last part anew.
func respoiled(t *testing.T, n int, change func(*DatasetMeta)) func(dir string) []string {
	return func(dir string) []string {
		os.Remove(filepath.Join(dir, "part-3-of-4.parquet"))
		writePart(t, dir, 3, 4, n, change)
		return nil
	}
}
