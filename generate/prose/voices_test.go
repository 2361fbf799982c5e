package prose_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"parley/generate/prose"
)

// voices are all kinds of text but plain English.
func voices(t *testing.T, p *prose.Prose) map[string]prose.Voice {
	t.Helper()
	all := map[string]prose.Voice{"source": p.Code(prose.Source), "records": p.Code(prose.Records), "output": p.Code(prose.Output)}
	for _, name := range prose.Languages() {
		v, err := p.In(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = v
	}
	return all
}

// Parts of every voice have the tokens that were asked for, alone and one behind the other.
func TestVoicesAreExactAndJoin(t *testing.T) {
	for _, name := range encodings {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			for kind, v := range voices(t, m.p) {
				r := rng(5, 6)
				for round := range 60 {
					var parts []string
					want := 0
					for range 1 + r.IntN(3) {
						n := 1 + r.IntN(40)
						if round%3 == 0 {
							n = 1 + r.IntN(1500)
						}
						part, err := v.Part(r, n)
						if round%2 == 0 {
							part, err = v.Unique(r, 3, r.Uint64N(1<<40), n)
						}
						if err != nil {
							t.Fatalf("%s: %v", kind, err)
						}
						if got := m.tok.Count(prose.Message(part)); got != n {
							t.Fatalf("%s: asked for %d tokens, got %d: %q", kind, n, got, part)
						}
						parts, want = append(parts, part), want+n
					}
					if s, err := m.p.Joined(want, parts...); err != nil || m.tok.Count(s) != want {
						t.Errorf("%s: message of %d tokens has %d (%v): %q", kind, want, m.tok.Count(s), err, parts)
					}
				}
			}
		})
	}
}

// Code has the characters a token of real source (about 3.4 with o200k_base), and languages their own letters.
func TestVoicesAreWhatTheySay(t *testing.T) {
	m := load(t, "o200k_base")
	scripts := map[string]*unicode.RangeTable{
		"zh": unicode.Han, "ja": unicode.Hiragana, "ko": unicode.Hangul, "ru": unicode.Cyrillic, "ar": unicode.Arabic, "hi": unicode.Devanagari,
	}
	for kind, v := range voices(t, m.p) {
		s, err := v.Part(rng(1, 2), 20_000)
		if err != nil {
			t.Fatal(err)
		}
		length := float64(len([]rune(s))) / 20_000
		t.Logf("%s: %.2f characters a token: %.80q", kind, length, s[len(s)/2:])
		if kind == "source" && (length < 3.1 || length > 3.7) {
			t.Errorf("source code has %.2f characters a token", length)
		}
		if script := scripts[kind]; script != nil {
			own, letters := 0, 0
			for _, r := range s {
				if unicode.IsLetter(r) {
					letters++
				}
				if unicode.Is(script, r) {
					own++
				}
			}
			if own < letters*45/100 {
				t.Errorf("%s: %d of %d letters are of its script", kind, own, letters)
			}
		}
		if kind == "records" {
			lines := strings.Split(strings.TrimSpace(s), "\n")
			for _, line := range lines[1:] {
				if !strings.HasPrefix(line, "//") && !json.Valid([]byte(line)) {
					t.Fatalf("not JSON: %s", line)
				}
			}
		}
	}
}

func TestWrappedCodeIsAJSONString(t *testing.T) {
	for _, name := range encodings {
		m := load(t, name)
		for n := 12; n < 700; n += 7 {
			s, err := m.p.WrappedCode(rng(4, uint64(n)), `{"content":"`, `"}`, n)
			if err != nil {
				t.Fatal(err)
			}
			var v struct{ Content string }
			if err := json.Unmarshal([]byte(s), &v); err != nil || m.tok.Count(s) != n {
				t.Fatalf("%s: asked for %d tokens, got %d (%v): %s", name, n, m.tok.Count(s), err, s)
			}
			if n > 400 && strings.Count(v.Content, "\n") < 8 {
				t.Errorf("hardly any lines: %s", v.Content)
			}
		}
	}
}

func TestUnknownLanguage(t *testing.T) {
	if _, err := load(t, "o200k_base").p.In("xx"); err == nil || !strings.Contains(err.Error(), "zh") {
		t.Errorf("got %v", err)
	}
}
