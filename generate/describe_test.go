package generate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/generate"
)

func describe(t *testing.T, path string) generate.Description {
	t.Helper()
	d, err := generate.Describe(context.Background(), path, generate.Options{Loaded: load(t, "o200k_base")})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDescribeCountsAllThereIs(t *testing.T) {
	for name, o := range specs(t) {
		t.Run(name, func(t *testing.T) {
			o.Output, o.Seed = filepath.Join(t.TempDir(), "x.parquet"), 2
			rep, rows := run(t, o)
			d := describe(t, o.Output)
			if d.Conversations != rep.Conversations || d.Turns != rep.Turns || d.Messages != rep.Messages || d.Tokens != rep.Tokens || d.TextBytes != rep.TextBytes || d.FileBytes != rep.FileBytes {
				t.Errorf("described %+v, made %+v", d, rep)
			}
			if d.Counted || d.Tokenizer != "o200k_base" || d.Meta.ContentHash != rep.ContentHash {
				t.Errorf("%+v", d)
			}
			var prompt, cached, first int64
			for _, c := range rows {
				for k, turn := range c.Turns {
					prompt, cached = prompt+*turn.PromptTokens, cached+*turn.ExpectedCachedTokens
					if k == 0 {
						first += *turn.NewTokens
					}
				}
			}
			if d.Cache.PromptTokens != prompt || d.Cache.CachedTokens != cached || math.Abs(d.Cache.Share-float64(cached)/float64(prompt)) > 1e-12 {
				t.Errorf("ceiling %+v, counted %d of %d", d.Cache, cached, prompt)
			}
			if got := d.FirstNew.Mean * float64(d.FirstNew.Count); math.Abs(got-float64(first)) > 0.5 {
				t.Errorf("first messages of %v tokens, counted %d", got, first)
			}
			var grouped int64
			for _, g := range d.Prefixes {
				grouped += g.Conversations
				if g.Conversations > 1 && g.Tokens == 0 {
					t.Errorf("group %+v shares nothing", g)
				}
			}
			if name == "coding-agent" && (d.Prefixes[0].Tokens != 13000 || d.WithTools != d.Conversations || d.Cache.Share < 0.9) {
				t.Errorf("%+v", d)
			}
			if (name == "api") != (d.Arrivals != nil) && name != "example" {
				t.Errorf("arrivals %+v", d.Arrivals)
			}
			if d.Tags["source"] == nil && name != "vllm" {
				t.Errorf("tags %v", d.Tags)
			}
		})
	}
}

func TestDescriptionAsTextAndJSON(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.parquet")
	run(t, generate.Options{Output: out, Spec: preset(t, "api"), Conversations: 50})
	d := describe(t, out)
	var text, js bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"conversations         50", "prefix cache ceiling", "tokens per prompt", "group-", "per second", "o200k_base (counts of the file)"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if err := d.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back generate.Description
	if err := json.Unmarshal(js.Bytes(), &back); err != nil || back.Cache != d.Cache || back.Prompt != d.Prompt {
		t.Errorf("%v: %+v", err, back)
	}
	t.Logf("\n%s", text.String())
}

func TestDescriptionKeepsTheTerminalSafe(t *testing.T) {
	s := preset(t, "api")
	s.Tags = map[string]string{"a\x1b[2J\tb": "c\nd\x07"}
	out := filepath.Join(t.TempDir(), "x.parquet")
	run(t, generate.Options{Output: out, Spec: s, Conversations: 2})
	d := describe(t, out)
	var text bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\x07\t") || !strings.Contains(text.String(), "c\ufffdd\ufffd 2") {
		t.Errorf("%q", text.String())
	}
}

func TestDescribeOtherFiles(t *testing.T) {
	dir := t.TempDir()
	share := filepath.Join(dir, "share.json")
	if err := os.WriteFile(share, []byte(shareGPT(20, 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, share); d.Conversations != 20 || d.Turns != 40 || d.Format != "chat" {
		t.Errorf("%+v", d)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := generate.Describe(context.Background(), empty, generate.Options{Loaded: load(t, "o200k_base")}); err == nil {
		t.Error("an empty file was described")
	}
	if _, err := generate.Describe(context.Background(), filepath.Join(dir, "absent"), generate.Options{}); err == nil {
		t.Error("an absent file was described")
	}
}
