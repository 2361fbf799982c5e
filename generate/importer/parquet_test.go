package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/schemas"
)

// TestParquetFiles reads files that pyarrow wrote (testdata/make.py), in its encodings.
func TestParquetFiles(t *testing.T) {
	for name, want := range map[string][]string{
		"messages": {"conversation-1 s:be kind|u:hi|a:hello", "conversation-2 u:ünïcödé 日本語|a:はい|u:more", "conversation-7 u:last|a:one",
			"row 3: no turn", "row 4: bad record: it has no messages", `row 5: bad record: message 0: the role "martian" is not known`, "row 6: bad record: message 0: the user message has no content"},
		"lmsys":     {"c1 u:q1|a:a1|u:q2|a:a2", "c2 u:q|a:a"},
		"wildchat":  {"h1 u:q1|a:a1|u:q2|a:a2", "h2 u:q1|a:a1|u:q2"},
		"ultrachat": {"0 u:q1|a:a1|u:q2|a:a2", "1 u:q|a:a"},
		"mtbench":   {"81 u:first|a:<nil>|u:second", "82 u:only"},
		"pairs":     {"conversation-1 s:rules|u:p1|a:r1", "conversation-2 u:p2", "row 3: bad record: it has no messages: its fields are response"},
		"alpaca":    {"conversation-1 u:Sum up\n\na long text|a:short", "conversation-2 u:Say hi|a:hi"},
		"sharegpt":  {"s_0 u:q|a:a"},
		"json_text": {"conversation-1 u:in text", "row 2: bad record: its messages are text, but not a JSON list"},
		"parts":     {"conversation-1 u:see |a:<nil>|t:found"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, r := read(t, filepath.Join("testdata", name+".parquet"), Options{})
			var got []string
			for _, c := range rows {
				got = append(got, c.ConversationID+" "+outline(c))
			}
			for _, p := range r.Problems {
				got = append(got, strings.TrimPrefix(p.String(), filepath.Join("testdata", name+".parquet: ")))
			}
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
					t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
	if _, err := Open([]string{"testdata/numbers.parquet"}, Options{}); err == nil || !strings.Contains(err.Error(), "numbers.parquet: no format has records with the fields a, b") {
		t.Errorf("columns of numbers: %v", err)
	}
	if _, err := Open([]string{"../../schemas/testdata/requests-1.0.parquet"}, Options{}); err == nil || !strings.Contains(err.Error(), "a file of requests") {
		t.Errorf("a file of results: %v", err)
	}
}

func TestParquetDetails(t *testing.T) {
	rows, _ := read(t, "testdata/wildchat.parquet", Options{})
	if turns := rows[0].Turns; len(turns) != 2 || turns[0].ThinkTimeMS != nil || *turns[1].ThinkTimeMS != 45500 {
		t.Errorf("stamped answers only: turns %+v", turns)
	}
	if turns := rows[1].Turns; len(turns) != 2 || turns[1].MessageIndex != 3 || *turns[1].ThinkTimeMS != 8000 {
		t.Errorf("stamped questions too: turns %+v", turns)
	}
	rows, _ = read(t, "testdata/parts.parquet", Options{})
	c := rows[0]
	if got, want := *c.Messages[0].Parts, `[{"type":"text","text":"see "},{"type":"image_url","image_url":{"url":"https://x/y?a=1&b=<2>"}}]`; got != want {
		t.Errorf("parts %s, want %s", got, want)
	}
	if got, want := *c.Messages[1].ToolCalls, `[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"q\":3}"}}]`; got != want {
		t.Errorf("tool calls %s, want %s", got, want)
	}
	if c.Messages[2].ToolCalls != nil || *c.Messages[2].ToolCallID != "c1" || *c.Tools != `[{"type":"function"}]` {
		t.Errorf("%+v", c)
	}
	rows, _ = read(t, "testdata/large.parquet", Options{})
	for i, c := range rows {
		if want := fmt.Sprintf("u:question %d %s|a:answer %d", i, strings.Repeat("x", i%700), i); outline(c) != want {
			t.Fatalf("row %d: %s", i, outline(c))
		}
	}
	if len(rows) != 3000 {
		t.Errorf("%d rows", len(rows))
	}
}

// drain reads a file as far as it goes.
func drain(path string) error {
	im, err := Open([]string{path}, Options{})
	if err != nil {
		return err
	}
	n := 0
	for item, e := range im.Items() {
		if err = e; err == nil {
			_, err = im.Finish(item)
		}
		if n++; err != nil || n > 10_000 {
			break
		}
	}
	if e := im.Close(); err == nil {
		err = e
	}
	return err
}

// TestParquetDamage flips bytes: whatever comes, it is rows or an error that names the file, never a panic.
func TestParquetDamage(t *testing.T) {
	whole, err := os.ReadFile("testdata/wildchat.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.parquet")
	failed := 0
	for at := 4; at < len(whole)-8; at += 3 {
		damaged := append([]byte{}, whole...)
		damaged[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := drain(path); err != nil {
			failed++
			if !strings.Contains(err.Error(), path) {
				t.Errorf("byte %d: the error does not name the file: %v", at, err)
			}
		}
	}
	if failed == 0 {
		t.Error("no damage was noticed")
	}
}

func FuzzParquet(f *testing.F) {
	for _, name := range []string{"messages", "wildchat", "parts", "ultrachat", "mtbench"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f.parquet")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if kind, err := schemas.Inspect(path); err == nil && kind != "" {
			return
		}
		_ = drain(path) // an error is as good as rows; a panic is not
	})
}
