package importer

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parley/generate/tokenizer"
	"parley/schemas"
)

var theTokenizer = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Load("cl100k_base") })

func tok(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	k, err := theTokenizer()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// shared gives the path of a real file, or skips the test where there is none.
func shared(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("PARLEY_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(dir, "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the real file %s is not here (set PARLEY_SHARED to the folder that holds data/)", name)
	}
	return path
}

// write makes a file with that content.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// read imports a whole file.
func read(t testing.TB, path string, opts Options) ([]schemas.Conversation, *Report) {
	t.Helper()
	if opts.Tokenizer == nil {
		opts.Tokenizer = tok(t)
	}
	im, err := Open([]string{path}, opts)
	if err != nil {
		t.Fatal(err)
	}
	var rows []schemas.Conversation
	for c, err := range im.Conversations() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, c)
	}
	if err := im.Close(); err != nil {
		t.Fatal(err)
	}
	r := im.Report()
	var skipped int64
	for _, n := range r.Skipped {
		skipped += n
	}
	if opts.Limit == 0 && r.Read != r.Kept+skipped {
		t.Errorf("%d records read, %d kept and %d skipped", r.Read, r.Kept, skipped)
	}
	if r.Conversations != int64(len(rows)) {
		t.Errorf("the report says %d conversations, and %d came", r.Conversations, len(rows))
	}
	seen := map[string]bool{}
	for _, c := range rows {
		if c.ConversationID == "" || seen[c.ConversationID] {
			t.Errorf("the identifier %q is empty or comes twice", c.ConversationID)
		}
		seen[c.ConversationID] = true
	}
	return rows, r
}

// outline writes messages as role:content, separated by bars.
func outline(c schemas.Conversation) string {
	var b strings.Builder
	for i, m := range c.Messages {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(m.Role[:1] + ":")
		if m.Content != nil {
			b.WriteString(*m.Content)
		} else {
			b.WriteString("<nil>")
		}
	}
	return b.String()
}

func num(v *int64) int64 {
	if v == nil {
		return -1
	}
	return *v
}
