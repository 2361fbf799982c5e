package generate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/generate"
	"parley/generate/importer"
	"parley/schemas"
)

// shareGPT makes an array of n conversations of k questions each.
func shareGPT(n, k int) string {
	var b strings.Builder
	b.WriteString("[")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"id":"c%d","conversations":[`, i)
		for j := range k {
			if j > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `{"from":"human","value":"Question %d of %d?"},{"from":"gpt","value":"Answer %d of %d."}`, j, i, j, i)
		}
		b.WriteString("]}")
	}
	b.WriteString("]")
	return b.String()
}

func TestImport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "share.json")
	if err := os.WriteFile(name, []byte(shareGPT(300, 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	rep, whole := run(t, generate.Options{Import: []string{name}})
	if len(whole) != 300 || rep.Format != "chat" || rep.Read != 300 || rep.Turns != 900 {
		t.Fatalf("%d rows, %+v", len(whole), rep)
	}
	for i, c := range whole {
		if want := fmt.Sprintf("Question 0 of %d?", i); *c.Messages[0].Content != want {
			t.Fatalf("row %d is out of order: %q", i, *c.Messages[0].Content)
		}
	}
	// The same from a pipe, by any number of workers, and in shards.
	for _, workers := range []int{1, 5} {
		again, rows := run(t, generate.Options{Import: []string{"-"}, Stdin: strings.NewReader(shareGPT(300, 3)), Workers: workers})
		if again.ContentHash != rep.ContentHash || len(rows) != 300 {
			t.Errorf("%d workers and a pipe: %d rows of other content", workers, len(rows))
		}
	}
	for i := range 3 {
		_, rows := run(t, generate.Options{Import: []string{name}, Shard: i, Shards: 3})
		for k, c := range rows {
			if schemas.HashConversation(&c) != schemas.HashConversation(&whole[3*k+i]) {
				t.Fatalf("shard %d, row %d is not that of the whole", i, k)
			}
		}
		if len(rows) != 100 {
			t.Errorf("shard %d has %d rows", i, len(rows))
		}
	}
	if rep, rows := run(t, generate.Options{Import: []string{name}, Conversations: 7}); len(rows) != 7 || rep.Conversations != 7 {
		t.Errorf("asked for 7 conversations, got %d", len(rows))
	}
}

// What is read ahead of the last conversation that is wanted leaves no trace, however far that went.
func TestLimitOverSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.json", "b.json", "c.json", "d.csv"} {
		text := shareGPT(20, 1)
		if name == "d.csv" {
			text = "no dataset at all"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var first []byte
	for i := range 6 {
		rep, rows := run(t, generate.Options{Import: []string{dir}, Conversations: 21, Workers: 1 + 3*i})
		data, err := os.ReadFile(rep.Output)
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(rep.Notes, "\n"); len(rows) != 21 || !strings.Contains(notes, "files read as chat: 2 (") || strings.Contains(notes, "left out") {
			t.Errorf("%d conversations, notes:\n%s", len(rows), notes)
		}
		if first == nil {
			first = data
		} else if !bytes.Equal(data, first) {
			t.Errorf("%d workers make another file", 1+3*i)
		}
	}
}

func TestImportThatKeepsNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.parquet")
	_, err := generate.Run(context.Background(), generate.Options{Loaded: load(t, "o200k_base"), Output: out, Import: []string{"-"}, Stdin: strings.NewReader(shareGPT(5, 1)), Filter: importer.Filter{MinTurns: 2}}, nil)
	if err == nil || !strings.Contains(err.Error(), "fewer than 2 turns") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, out)
}

// A pipe that nobody writes to any more must not hold up a canceled import.
func TestCanceledImportOfAnIdlePipe(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// Lines of questions and answers, then silence.
		for i := range 500 {
			fmt.Fprintf(feed, `{"messages":[{"role":"user","content":"Question %d?"},{"role":"assistant","content":"Yes."}]}`+"\n", i)
		}
		cancel()
	}()
	out := filepath.Join(t.TempDir(), "out.parquet")
	_, err := generate.Run(ctx, generate.Options{Loaded: load(t, "o200k_base"), Output: out, Import: []string{"-"}, Stdin: in}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, out)
}

func nothingLeft(t *testing.T, out string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
}

// The real files import whole; how they are read is tested in package importer.
func TestImportOfRealFiles(t *testing.T) {
	shared := os.Getenv("PARLEY_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	files, _ := filepath.Glob(filepath.Join(shared, "data", "*.json*"))
	if len(files) == 0 {
		t.Skipf("no files in %s/data", shared)
	}
	for _, name := range files {
		if strings.Contains(name, "mooncake") || strings.Contains(name, "agent_trace") {
			continue // tens of millions of tokens; package importer takes parts of them
		}
		rep, rows := run(t, generate.Options{Import: []string{name}})
		if len(rows) == 0 || rep.Read == 0 {
			t.Errorf("%s: nothing imported: %+v", name, rep)
		}
		t.Logf("%s: %s, read %d, conversations %d, turns %d, skipped %v", filepath.Base(name), rep.Format, rep.Read, rep.Conversations, rep.Turns, rep.Skipped)
	}
}
