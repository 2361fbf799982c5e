package generate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/generate"
	"parley/schemas"
)

// TestOpenDataset opens what replay may be given: files of parley's, and chats of others in any file.
func TestOpenDataset(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := file("chats.jsonl", `{"id":"a","messages":[{"role":"user","content":"1"},{"role":"user","content":"2"}],"max_tokens":5}`+"\n"+
		`{"id":"b","messages":[]}`+"\n"+`{"id":"c","messages":[{"role":"user","content":"3"},{"role":"assistant","content":"4"}]}`+"\n")
	rep, _ := run(t, generate.Options{Import: []string{lines}})
	for path, want := range map[string]string{
		lines:                                  "a:1 c:1",
		rep.Output:                             "a:1 c:1",
		file("array.json", `[{"prompt":"q"}]`): "conversation-1:1",
		file("table.csv", "prompt,response\nq,r\n"):               "conversation-1:1",
		filepath.Join("importer", "testdata", "wildchat.parquet"): "h1:2 h2:2",
	} {
		d, err := generate.OpenDataset(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got []string
		var turns int64
		for o, err := range d.Outlines() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, o.ConversationID+":"+string(rune('0'+len(o.Turns))))
			turns += int64(len(o.Turns))
		}
		if s := strings.Join(got, " "); s != want || d.NumRows() != int64(len(got)) || d.Meta().Turns != turns || !strings.HasPrefix(d.Meta().ContentHash, "sha256:") {
			t.Errorf("%s: %s (%+v), want %s", path, s, d.Meta(), want)
		}
		n := 0
		for c, err := range d.Conversations(1) {
			if n++; err != nil || c.ConversationID != strings.Split(strings.Fields(want)[n], ":")[0] {
				t.Errorf("%s from the second on: %s, %v", path, c.ConversationID, err)
			}
		}
		if path == lines && (len(d.Meta().Notes) != 1 || *mustFirst(t, d).Turns[0].OutputTokens != 5) {
			t.Errorf("%+v", d.Meta())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]string{
		file("bad.jsonl", `{"messages":[{"role":"user","content":"x"}]}`+"\n"+`{"messages":[{"role":"martian","content":"x"}]}`): "bad.jsonl:2 (record 2): bad record",
		file("trace.jsonl", `{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[1]}`):                                 "it is a trace (mooncake) without texts",
		filepath.Join(dir, "absent.json"):                                  "absent.json",
		filepath.Join("..", "schemas", "testdata", "requests-1.0.parquet"): "is a requests file",
	} {
		if _, err := generate.OpenDataset(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := schemas.OpenDataset(lines); !errors.Is(err, schemas.ErrForeign) {
		t.Errorf("schemas opens its own files only: %v", err)
	}
}

func mustFirst(t *testing.T, d *schemas.Dataset) schemas.Conversation {
	t.Helper()
	for c, err := range d.Conversations(0) {
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatal("it is empty")
	return schemas.Conversation{}
}
