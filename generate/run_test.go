package generate_test

import (
	"context"
	"path/filepath"
	"testing"

	"parley/generate"
	"parley/schemas"
)

func run(t testing.TB, o generate.Options) (generate.Report, []schemas.Conversation) {
	t.Helper()
	if o.Output == "" {
		o.Output = filepath.Join(t.TempDir(), "out.parquet")
	}
	rep, err := generate.Run(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rep, read(t, o.Output)
}

func read(t testing.TB, path string) []schemas.Conversation {
	t.Helper()
	f, err := schemas.Open[schemas.Conversation](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []schemas.Conversation
	for c, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func preset(t testing.TB, name string) *generate.Spec {
	t.Helper()
	s, err := generate.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTry(t *testing.T) {
	for _, p := range generate.Presets() {
		rep, rows := run(t, generate.Options{Spec: preset(t, p), Conversations: 20, Seed: 7})
		t.Logf("%+v", rep)
		c := rows[3]
		for i, m := range c.Messages[:min(4, len(c.Messages))] {
			s := ""
			if m.Content != nil {
				s = *m.Content
			} else {
				s = *m.ToolCalls
			}
			t.Logf("%d %s: %.300s", i, m.Role, s)
		}
	}
}
