package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parley/schemas"
)

// Every command of generate's page runs, over the files that the page shows.
func TestDatasetPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "generate", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	book, err := os.ReadFile(filepath.Join("..", "..", "generate", "testdata", "book.txt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("book.txt", book, 0o600); err != nil {
		t.Fatal(err)
	}
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type hub struct {
		Messages []message `parquet:"messages,list"`
	}
	if err := parquet.WriteFile("hub.parquet", []hub{{[]message{{"user", "Hello?"}, {"assistant", "Yes."}}}}); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for fence := range strings.SplitSeq(string(page), "\n```") {
		kind, text, _ := strings.Cut(fence, "\n")
		language, name, _ := strings.Cut(kind, " ")
		switch {
		case name != "":
			if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		case language == "sh":
			for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
				commands++
				var out, errs bytes.Buffer
				args := words(line)
				if args[0] != "parley" {
					t.Fatalf("%s: not a command of parley", line)
				}
				p := &program{args: args[1:], stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
				if code := p.run(t.Context()); code != 0 || out.Len() == 0 {
					t.Errorf("%s\nends with %d: %s%s", line, code, &out, &errs)
				}
			}
		}
	}
	if commands < 20 {
		t.Errorf("only %d commands were found on the page", commands)
	}
	var hashes []string
	for _, path := range []string{"chat.parquet", "parts"} {
		d, err := schemas.OpenDataset(path)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, d.Meta().ContentHash)
		d.Close()
	}
	if hashes[0] != hashes[1] {
		t.Errorf("the parts of the page have the hash %s, the whole %s", hashes[1], hashes[0])
	}
}

// words takes a command line apart at spaces that are not between single quotes.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
