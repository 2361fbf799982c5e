package schemas

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// foreignRows reads all of a fixture (made by testdata/foreign/make.py): each conversation in short, or
// the error of its row.
func foreignRows(t testing.TB, path string) (out []string, rows []Conversation) {
	t.Helper()
	f, err := OpenForeign(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for c, err := range f.Rows(0) {
		var row *RowError
		if err != nil && !errors.As(err, &row) {
			t.Fatal(err)
		}
		if err != nil {
			out = append(out, "error: "+row.Err.Error())
			continue
		}
		out = append(out, inShort(c))
		rows = append(rows, c)
	}
	if int64(len(out)) != f.NumRows() {
		t.Errorf("%d rows came, the footer says %d", len(out), f.NumRows())
	}
	return out, rows
}

func inShort(c Conversation) string {
	var b strings.Builder
	b.WriteString(c.ConversationID)
	for _, m := range c.Messages {
		content := "<nil>"
		if m.Content != nil {
			content = *m.Content
		}
		fmt.Fprintf(&b, " %s:%s", m.Role[:1], content)
	}
	return b.String()
}

func TestForeign(t *testing.T) {
	for name, want := range map[string][]string{
		"messages": {"row-0 s:be kind u:hi a:hello", "row-1 u:ünïcödé 日本語 a:はい u:more", "row-2", "row-3",
			`error: message 0: the role "martian" is not known`, "error: message 0: the user message has no content", "row-6 u:last a:one"},
		"lmsys":     {"c1 u:q1 a:a1 u:q2 a:a2", "c2 u:q a:a"},
		"wildchat":  {"h1 u:q1 a:a1 u:q2 a:a2", "h2 u:q1 a:a1 u:q2"},
		"ultrachat": {"0 u:q1 a:a1 u:q2 a:a2", "1 u:q a:a"},
		"mtbench":   {"81 u:first a:<nil> u:second", "82 u:only"},
		"pairs":     {"row-0 s:rules u:p1 a:r1", "row-1 u:p2", "row-2 a:r3"},
		"alpaca":    {"row-0 u:Sum up\n\na long text a:short", "row-1 u:Say hi a:hi"},
		"sharegpt":  {"s_0 u:q a:a"},
		"json_text": {"row-0 u:in text", "error: its messages are text, but not a JSON list: invalid character 'o' in literal null (expecting 'u')"},
		"parts":     {"row-0 u:see  a:<nil> t:found"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := foreignRows(t, filepath.Join("testdata", "foreign", name+".parquet"))
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestForeignDetails(t *testing.T) {
	_, rows := foreignRows(t, "testdata/foreign/lmsys.parquet")
	if c := rows[1]; c.Tags["model"] != "koala-13b" || c.Tags["language"] != "German" {
		t.Errorf("tags %v", c.Tags)
	}
	_, rows = foreignRows(t, "testdata/foreign/wildchat.parquet")
	if turns := rows[0].Turns; len(turns) != 2 || turns[0].ThinkTimeMS != nil || *turns[1].ThinkTimeMS != 45500 {
		t.Errorf("stamped answers only: turns %+v", turns)
	}
	if turns := rows[1].Turns; len(turns) != 2 || turns[1].MessageIndex != 3 || *turns[1].ThinkTimeMS != 8000 {
		t.Errorf("stamped questions too: turns %+v", turns)
	}
	_, rows = foreignRows(t, "testdata/foreign/parts.parquet")
	c := rows[0]
	if got, want := *c.Messages[0].Parts, `[{"text":"see ","type":"text"},{"image_url":{"url":"https://x/y?a=1&b=<2>"},"type":"image_url"}]`; got != want {
		t.Errorf("parts %s, want %s", got, want)
	}
	if got, want := *c.Messages[1].ToolCalls, `[{"function":{"arguments":"{\"q\":3}","name":"find"},"id":"c1","type":"function"}]`; got != want {
		t.Errorf("tool calls %s, want %s", got, want)
	}
	if c.Messages[2].ToolCalls != nil || *c.Messages[2].ToolCallID != "c1" || *c.Tools != `[{"type":"function"}]` {
		t.Errorf("%+v", c)
	}
}

func TestForeignSeek(t *testing.T) {
	f, err := OpenForeign("testdata/foreign/large.parquet")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, first := range []int64{0, 1, 999, 1000, 1500, 2999, 3000} {
		row := first
		for c, err := range f.Rows(first) {
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("question %d %s", row, strings.Repeat("x", int(row%700)))
			if *c.Messages[0].Content != want || *c.Messages[1].Content != fmt.Sprintf("answer %d", row) || c.ConversationID != fmt.Sprintf("row-%d", row) {
				t.Fatalf("from row %d, row %d: %s", first, row, inShort(c))
			}
			row++
		}
		if row != 3000 {
			t.Errorf("from row %d on, reading ended at %d", first, row)
		}
	}
}

func TestForeignRefuses(t *testing.T) {
	_, err := OpenForeign("testdata/foreign/numbers.parquet")
	if err == nil || !strings.Contains(err.Error(), "its columns are a, b") || !strings.Contains(err.Error(), "numbers.parquet") {
		t.Errorf("columns of numbers: %v", err)
	}
}

// TestForeignDamage flips bytes: whatever comes, it is rows or an error that names the file, never a
// panic.
func TestForeignDamage(t *testing.T) {
	whole, err := os.ReadFile("testdata/foreign/wildchat.parquet")
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
		f, err := OpenForeign(path)
		if err == nil {
			for _, e := range f.Rows(0) {
				if err = e; err != nil {
					break
				}
			}
			f.Close()
		}
		if err != nil {
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

func FuzzForeign(f *testing.F) {
	for _, name := range []string{"messages", "wildchat", "parts", "ultrachat", "mtbench"} {
		data, err := os.ReadFile(filepath.Join("testdata", "foreign", name+".parquet"))
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
		file, err := OpenForeign(path)
		if err != nil {
			return
		}
		defer file.Close()
		n := 0
		for range file.Rows(0) {
			if n++; n > 10_000 {
				break
			}
		}
	})
}
