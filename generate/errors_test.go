package generate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/generate"
	"parley/generate/importer"
	"parley/schemas"
)

func TestNeverOverwritesWithoutForce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(out, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := generate.Options{Loaded: load(t, "o200k_base"), Output: out, Spec: preset(t, "chat"), Conversations: 2}
	if _, err := generate.Run(context.Background(), o, nil); !errors.Is(err, schemas.ErrExists) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(out); string(b) != "precious" {
		t.Error("the file was touched")
	}
	o.Force = true
	if _, rows := run(t, o); len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
}

// Everything that is wrong is told at once and before any work.
func TestValidateTellsEverything(t *testing.T) {
	s := parse(t, `{"num_conversations":-1,"text_files":["absent.txt"],"prompt_input":{"num_tokens":{"distribution":"zipf","alpha":0.5}},
		"tool_use":{"share":2},"arrivals":{"rate":0},"max_prompt_tokens":-5,"shared_prefix":{"groups":1}}`)
	_, err := generate.Run(context.Background(), generate.Options{Loaded: load(t, "o200k_base"),
		Output: filepath.Join(t.TempDir(), "no", "such", "folder", "x.parquet"), Spec: s, Workers: -1, Shard: 3, Shards: 2,
		Filter: importer.Filter{MinTurns: 5, MaxTurns: 2},
	}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"--output: cannot write into the folder", "num_conversations: -1", "text_files[0]", "prompt_input.num_turns: missing",
		"prompt_input.num_tokens.alpha: 0.5 must be greater than 1", "prompt_output.num_tokens: missing", "tool_use.share: 2",
		"arrivals.rate: 0", "max_prompt_tokens: -5", "shared_prefix.num_tokens: missing", "--workers: -1", "--shard: 3/2", "--min-turns: 5",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %s\n%v", want, err)
		}
	}
}

func TestErrorsOfConfigs(t *testing.T) {
	for _, tc := range []struct{ config, want string }{
		{`{"prompt_input":{"num_tokens":{"distribution":"constant"}},"x":1}`, "x: no such setting"},
		{`{"prompt_input":{"num_token":3}}`, "prompt_input.num_token: no such setting; here are"},
		{`{"prompt_input":7}`, "prompt_input: expected an object"},
		{`{"num_conversations":1.5}`, "num_conversations: expected a whole number and found 1.5"},
		{`{"text_files":"a.txt"}`, "text_files: expected a list and found"},
		{"{\n\"a\": 1,\n]", "line 3"},
		{"num_conversations: [", "yaml"},
		{`[{"id":"a","messages":[]}]`, "imported with --from"},
		{`{"prompt_input":{"num_tokens":{"distribution":"constant","value":"x"}}}`, `prompt_input.num_tokens.value: expected a number and found the text "x"`},
	} {
		_, err := generate.ParseSpec([]byte(tc.config))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.config, err, tc.want)
		}
	}
}

func TestOutputIsNoInput(t *testing.T) {
	name := filepath.Join(t.TempDir(), "book.txt")
	if err := os.WriteFile(name, []byte(strings.Repeat("Words and more words here. ", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := preset(t, "chat")
	s.TextFiles = []string{name}
	for _, o := range []generate.Options{{Spec: s, Output: name, Force: true}, {Import: []string{name}, Output: name, Force: true}} {
		if _, err := generate.Run(context.Background(), o, nil); err == nil || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("got %v", err)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	if _, err := generate.Preset("chatt"); err == nil || !strings.Contains(err.Error(), "api, chat, coding-agent, longchat") {
		t.Errorf("got %v", err)
	}
	out := filepath.Join(t.TempDir(), "x.parquet")
	if _, err := generate.Run(context.Background(), generate.Options{Output: out, Spec: preset(t, "chat"), Tokenizer: "nope"}, nil); err == nil || !strings.Contains(err.Error(), "--tokenizer") {
		t.Errorf("got %v", err)
	}
	if _, err := generate.Run(context.Background(), generate.Options{Output: out, Import: []string{"x.json"}, Format: "xml"}, nil); err == nil || !strings.Contains(err.Error(), "--format") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, out)
}

func TestFiltersThatLeaveNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.parquet")
	_, err := generate.Run(context.Background(), generate.Options{Loaded: load(t, "o200k_base"), Output: out, Spec: preset(t, "api"), Conversations: 5, Filter: importer.Filter{MinTurns: 3}}, nil)
	if err == nil || !strings.Contains(err.Error(), "fewer than 3 turns") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, out)
}

func TestCanceledRunLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	out := filepath.Join(t.TempDir(), "x.parquet")
	calls := 0
	_, err := generate.Run(ctx, generate.Options{Loaded: load(t, "o200k_base"), Output: out, Spec: preset(t, "chat"), Conversations: 100_000}, func(p generate.Progress) {
		if calls++; p.Total != 100_000 {
			t.Errorf("%d of %d", p.Conversations, p.Total)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) || calls == 0 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	nothingLeft(t, out)
}

// The metadata tells how a dataset was made, and its specification makes the same dataset again.
func TestMetadataMakesTheSameDataset(t *testing.T) {
	for name, o := range specs(t) {
		if name != "vllm" && name != "example" && name != "api" {
			continue
		}
		o.Conversations, o.Seed, o.Output = 10, 5, filepath.Join(t.TempDir(), "x.parquet")
		if name == "example" {
			o.Filter = importer.Filter{MinTurns: 2, MaxTurns: 6}
		}
		rep, _ := run(t, o)
		d, err := schemas.OpenDataset(o.Output)
		if err != nil {
			t.Fatal(err)
		}
		meta := d.Meta()
		d.Close()
		if meta.ContentHash != rep.ContentHash || meta.Conversations != 10 || meta.Turns != rep.Turns || meta.Seed != 5 || meta.Tokenizer != "o200k_base" || meta.TokenizerHash == "" {
			t.Errorf("%s: metadata %+v, report %+v", name, meta, rep)
		}
		s, err := generate.ParseSpec(meta.Spec)
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, meta.Spec)
		}
		s.TextFiles = nil
		for _, f := range o.Spec.TextFiles {
			s.TextFiles = append(s.TextFiles, filepath.Join("testdata", f))
		}
		again, _ := run(t, generate.Options{Spec: s, Seed: meta.Seed})
		if again.ContentHash != rep.ContentHash {
			t.Errorf("%s: the specification in the metadata makes another dataset: %s", name, meta.Spec)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, name := range []string{"vllm_generate_multi_turn.json", "example.yaml"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"prompt_input":{"num_turns":{"distribution":"mixture","of":[1,2]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := generate.ParseSpec(b)
		if err == nil && len(s.TextFiles) == 0 && !strings.Contains(string(b), "csv") {
			_ = s.Validate()
		}
	})
}
