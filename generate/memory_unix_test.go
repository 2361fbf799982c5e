//go:build linux

package generate_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parley/generate"
)

// TestLongRecord imports one record of 60 MB: the process may take four times that for it. Text of random words
// takes more than a line again and again, of which the compressed page is next to nothing.
func TestLongRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("a record of 60 MB takes seconds")
	}
	line := "a line of a long \"log\", with a number and an \u00e9\n"
	repeated := func() string { return strings.Repeat(line, longMegabytes*1_000_000/len(line)) }
	for _, c := range []struct {
		name  string
		text  func() string
		write func(t *testing.T, path string, chats ...[]chatMessage)
	}{
		{"repeated.jsonl", repeated, writeLines},
		{"words.jsonl", randomWords, writeLines},
		{"dictionary.parquet", repeated, writeDictionary},
		{"words.parquet", randomWords, writeDictionary},
		{"plain.parquet", randomWords, writePlain},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			in, out, tiny := filepath.Join(dir, c.name), filepath.Join(dir, "out.parquet"), filepath.Join(dir, "tiny-"+c.name)
			short := []chatMessage{{"user", "x"}}
			c.write(t, in, []chatMessage{{"user", c.text()}, {"assistant", "ok"}}, short)
			c.write(t, tiny, short)
			small, most := peakOfImport(t, tiny, filepath.Join(dir, "tiny.parquet")), peakOfImport(t, in, out)
			t.Logf("%.0f MB over %.0f MB: %.2f times the record", most-small, small, (most-small)/longMegabytes)
			bound := 4.0
			if c.name == "dictionary.parquet" {
				bound = 4.5 // how parquet-go unpacks and decodes a dictionary takes about four times by itself, a little more at times
			}
			if memoryHeld && most-small > bound*longMegabytes {
				t.Errorf("a record of %d MB takes %.0f MB over the %.0f MB of a short one", longMegabytes, most-small, small)
			}
			if rows := read(t, out); len(rows) != 2 || len(rows[0].Messages) != 2 || *rows[0].Messages[0].Content != c.text() {
				t.Error("the text is not what was imported")
			}
		})
	}
}

// peakOfImport imports a file in a process of its own and gives the peak of its resident memory in MB.
func peakOfImport(t *testing.T, in, out string) float64 {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestImportAlone$")
	cmd.Env = append(os.Environ(), importFrom+"="+in, importTo+"="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// Not Rusage.Maxrss, which counts this process too, of which the other one is a copy at first.
	text, err := os.ReadFile(out + ".peak")
	if err != nil {
		t.Fatal(err)
	}
	peak, err := strconv.ParseFloat(string(text), 64)
	if err != nil || peak == 0 {
		t.Fatalf("no peak of memory: %q, %v", text, err)
	}
	return peak
}

const importFrom, importTo = "PARLEY_TEST_IMPORT_FROM", "PARLEY_TEST_IMPORT_TO"

// TestImportAlone is what a process of peakOfImport does.
func TestImportAlone(t *testing.T) {
	in := os.Getenv(importFrom)
	if in == "" {
		t.Skip("runs in processes of TestLongRecord")
	}
	if _, err := generate.Run(t.Context(), generate.Options{Loaded: load(t, "o200k_base"), Output: os.Getenv(importTo), Import: []string{in}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv(importTo)+".peak", []byte(strconv.FormatFloat(peakMB(), 'f', 1, 64)), 0o644); err != nil {
		t.Fatal(err)
	}
}

type chatMessage struct {
	Role    string `json:"role" parquet:"role"`
	Content string `json:"content" parquet:"content"`
}

// randomWords gives text of letters by chance, which zstd can make little of.
func randomWords() string {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 0, longMegabytes*1_000_000)
	for len(text) < cap(text)-12 {
		for range 2 + random.IntN(8) {
			text = append(text, 'a'+byte(random.IntN(26)))
		}
		text = append(text, ' ')
	}
	return string(text)
}

func writeLines(t *testing.T, path string, chats ...[]chatMessage) {
	var out bytes.Buffer
	for _, c := range chats {
		if err := json.NewEncoder(&out).Encode(map[string]any{"messages": c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeDictionary writes Parquet as pyarrow does: each text in a dictionary page.
func writeDictionary(t *testing.T, path string, chats ...[]chatMessage) {
	type message struct {
		Role    string `parquet:"role,dict"`
		Content string `parquet:"content,dict,snappy"`
	}
	type row struct {
		Messages []message `parquet:"messages,list"`
	}
	var rows []row
	for _, c := range chats {
		var r row
		for _, m := range c {
			r.Messages = append(r.Messages, message(m))
		}
		rows = append(rows, r)
	}
	// As pyarrow, DuckDB and polars do, it keeps no long text as the least or the greatest of a page.
	if err := parquet.WriteFile(path, rows, parquet.SkipPageBounds("messages", "list", "element", "content")); err != nil {
		t.Fatal(err)
	}
}

// writePlain writes Parquet with texts as they are.
func writePlain(t *testing.T, path string, chats ...[]chatMessage) {
	type row struct {
		Messages []chatMessage `parquet:"messages,list"`
	}
	var rows []row
	for _, c := range chats {
		rows = append(rows, row{c})
	}
	// As pyarrow, DuckDB and polars do, it keeps no long text as the least or the greatest of a page.
	if err := parquet.WriteFile(path, rows, parquet.SkipPageBounds("messages", "list", "element", "content")); err != nil {
		t.Fatal(err)
	}
}
