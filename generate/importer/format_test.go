package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		head string
		want Format
	}{
		{`[{"id":"a_0","conversations":[{"from":"human"`, Chat},
		{"\ufeff [\n {\"id\": \"a\", \"conversation\": [", Chat},
		{`{"messages":[{"role":"user","content":"` + strings.Repeat("x", 5000), Chat},
		{`[{"id":1,"session_id":"s","messages":[`, Chat},
		{`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}`, Chat},
		{`{"question_id": 81, "category": "writing", "turns": ["a", "b"]}`, Chat},
		{`{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}`, Mooncake},
		{`{"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.0, "input_length": 5, "hash_ids": [1]}`, Qwen},
		{`{"id":"trace_0002","models":["m"],"block_size":64,"requests":[{"t":0.0,`, Agent},
		{`{"session_id":"a","turns":[{"text":"x"}]}`, AIPerf},
		{`{"session_id":"a","delay":3,"input_length":5}`, AIPerfRaw},
		{`{"text_input":"a","output_length":5}`, AIPerfRaw},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n", Azure},
		{"TIMESTAMP;ContextTokens;GeneratedTokens\n2023-11-16 18:17:03.9799600;48;10\n", Azure},
		{"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n", BurstGPT},
		{"Timestamp\tSession ID\tElapsed time\tModel\tRequest tokens\tResponse tokens\tTotal tokens\tLog Type\r\n", BurstGPT},
		{"instruction,input,output\n", Chat},
	} {
		im, err := Open([]string{write(t, "f", c.head)}, Options{Tokenizer: tok(t)})
		if err != nil || im.format != c.want {
			t.Errorf("%.60q: got %v, want %q", c.head, err, c.want)
		}
		if im != nil {
			_ = im.Close()
		}
	}
	for head, want := range map[string]string{
		"": "is empty", " \n": "is empty", "[]": "no records", "hello world": "neither JSON", `{"a":1,"b":[2]}`: "fields a, b", `[1,2]`: "not begin with an object",
	} {
		path := write(t, "my.file", head)
		if _, err := Open([]string{path}, Options{Tokenizer: tok(t)}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "my.file") {
			t.Errorf("%q: got %v, want %q", head, err, want)
		}
	}
	for _, f := range formats {
		if got, err := ParseFormat(string(f.format)); err != nil || got != f.format {
			t.Errorf("ParseFormat(%q) = %q, %v", f.format, got, err)
		}
	}
}

// TestSeveralFiles makes one dataset of several files, and of a folder of all sorts, and says what it took.
func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.json":    `[{"id":"x","conversations":[{"from":"human","value":"1"}]}]`,
		"b.csv":     "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,48,10\n",
		"c.jsonl":   `{"id":"x","messages":[{"role":"user","content":"2"}]}`,
		"README.md": "# A dataset\n",
		".hidden":   "[",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows, r := read(t, dir, Options{})
	if len(rows) != 3 || rows[0].ConversationID != "x" || rows[2].ConversationID != "x#2" || r.Format() != "azure, chat" {
		t.Errorf("%d conversations as %s, %+v", len(rows), r.Format(), r)
	}
	told := strings.Join(r.Notes, "\n")
	for _, want := range []string{"files of the folder left out: 1 (" + filepath.Join(dir, "README.md") + ": it is neither JSON", "files read as azure: 1", "files read as chat: 2"} {
		if !strings.Contains(told, want) {
			t.Errorf("the notes do not say %q:\n%s", want, told)
		}
	}
	im, err := Open([]string{filepath.Join(dir, "c.jsonl"), filepath.Join(dir, "a.json")}, Options{Tokenizer: tok(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	var got []string
	for c, err := range im.Conversations() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.ConversationID+" "+outline(c))
	}
	if s := strings.Join(got, ", "); s != "x u:2, x#2 u:1" {
		t.Errorf("two files gave %s", s)
	}
	// A file that is named has to be a dataset; one of a folder need not.
	if _, err := Open([]string{filepath.Join(dir, "README.md")}, Options{Tokenizer: tok(t)}); err == nil || !strings.Contains(err.Error(), "README.md: it is neither JSON") {
		t.Errorf("a page that is named: %v", err)
	}
}
