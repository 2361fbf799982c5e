package generate_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"path/filepath"
	"strings"
	"testing"

	"parley/generate"
	"parley/schemas"
)

// made gives the conversations of a recipe.
func made(t *testing.T, r generate.Recipe, n int) []schemas.Conversation {
	t.Helper()
	s, err := r.Spec()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "d.parquet")
	run(t, generate.Options{Output: out, Spec: s, Conversations: n, Seed: 3})
	return read(t, out)
}

// Conversations have the languages that were asked for, in their share, and the length that was drawn.
func TestLanguages(t *testing.T) {
	count := map[string]int{}
	for _, c := range made(t, generate.Recipe{Turns: "1", InputTokens: "300", OutputTokens: "20", Languages: "zh:3,en:1"}, 200) {
		count[c.Tags["language"]]++
		text := *c.Messages[0].Content
		if han := strings.ContainsRune(text, '，'); han != (c.Tags["language"] == "zh") {
			t.Errorf("a conversation in %s: %.80s", c.Tags["language"], text)
		}
		if n := load(t, "o200k_base").Count(text); n != 300 {
			t.Errorf("%d tokens", n)
		}
	}
	if count["zh"] < 130 || count["zh"] > 170 || count["zh"]+count["en"] != 200 {
		t.Errorf("languages %v, want 150 and 50", count)
	}
}

// User messages carry images that are what they say, each another one, beside their text.
func TestImages(t *testing.T) {
	seen := map[string]bool{}
	sizes := map[int]int{}
	users := 0
	for _, c := range made(t, generate.Recipe{Turns: "4", InputTokens: "30", OutputTokens: "10", Images: "64x48:0.5,33x7:0.25"}, 50) {
		for _, m := range c.Messages {
			if m.Role != "user" {
				if m.Parts != nil {
					t.Error("an answer has an image")
				}
				continue
			}
			if users++; m.Parts == nil {
				continue
			}
			var parts []struct {
				Type, Text string
				ImageURL   struct{ URL string } `json:"image_url"`
			}
			if err := json.Unmarshal([]byte(*m.Parts), &parts); err != nil || len(parts) != 2 || parts[0].Text != *m.Content {
				t.Fatalf("parts %.200s (%v)", *m.Parts, err)
			}
			data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(parts[1].ImageURL.URL, "data:image/png;base64,"))
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			sizes[img.Bounds().Dx()*1000+img.Bounds().Dy()]++
			if seen[string(data)] {
				t.Error("an image comes twice")
			}
			seen[string(data)] = true
		}
	}
	if a, b := sizes[64_048], sizes[33_007]; users != 200 || a < 80 || a > 120 || b < 32 || b > 68 || len(sizes) != 2 {
		t.Errorf("%d user messages, images by size %v", users, sizes)
	}
}

// What a coding agent reads and writes is code.
func TestCodingAgentHasCode(t *testing.T) {
	results, code, calls := 0, 0, 0
	for _, c := range made(t, generate.Recipe{Preset: "coding-agent", Turns: "20"}, 3) {
		for _, m := range c.Messages {
			if m.Role == "tool" && len(*m.Content) > 500 {
				results++
				if strings.Count(*m.Content, "\n") > len(*m.Content)/120 && strings.ContainsAny(*m.Content, "{(") {
					code++
				}
			}
			if m.ToolCalls != nil && strings.Contains(*m.ToolCalls, `\\n`) {
				calls++
			}
		}
	}
	if results < 20 || code < results*9/10 || calls < 10 {
		t.Errorf("%d of %d long results look like code, and %d calls write code", code, results, calls)
	}
}

func TestSharesAreChecked(t *testing.T) {
	for _, c := range []struct{ languages, images, want string }{
		{"en:0.5,xx:0.5", "", "xx"}, {"en:-1", "", "greater than 0"}, {"en,zh:0.5", "", "or to none"}, {"en,en", "", "twice"},
		{"", "64", "WIDTHxHEIGHT"}, {"", "64x64x3", "WIDTHxHEIGHT"}, {"", "0x5", "WIDTHxHEIGHT"}, {"", "9x9:0.9,8x8:0.2", "more than all"},
	} {
		_, err := generate.Recipe{InputTokens: "5", OutputTokens: "5", Languages: c.languages, Images: c.images}.Spec()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: got %v, want %q", c.languages, c.images, err, c.want)
		}
	}
}
