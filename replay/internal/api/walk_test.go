package api

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// depthOf gives how deeply the brackets outside strings nest, at most.
func depthOf(b []byte) int {
	depth, most, inString := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			depth++
			most = max(most, depth)
		case !inString && (c == '}' || c == ']'):
			depth--
		}
	}
	return most
}

// FuzzWalker holds the walker against encoding/json: the same documents are valid, strings have the same
// values, and whole numbers too.
func FuzzWalker(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `1.5e-7`, `01`, `1.`, `-`, `""`, `"a`, `{"a":1,}`, `[1,]`, `[,1]`,
		`{"a" : [1, 2.0, 1e3, -5, 9223372036854775807, 9223372036854775808], "b":{"c":null}} `,
		`"\u00e9\ud83d\ude00\ud83d x \udc00 \ud83d\u0041"`, "\"a\xff\xfeb\xc3\"", "\"\x01\"", `"\x"`, `"\u12g4"`,
		`{"\u0061":"x","é":2}`, `nul`, `truefalse`, `{"a":1}}`, "\ufeff{}", `{"a"}`, `{1:2}`, ` `, ``,
		strings.Repeat("[", 600) + strings.Repeat("]", 600),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w walker
		got, want := w.validJSON(b), json.Valid(b)
		if got != want && !(want && depthOf(b) > maxDepth) {
			t.Fatalf("valid: %v, encoding/json says %v: %q", got, want, b)
		}
		if !got {
			// A beginning of a document is bad only for being short.
			if w.short && !w.bad {
				t.Fatal("short but not bad")
			}
			return
		}
		for n := range b {
			if w.validJSON(b[:n]) {
				break // a number, or white space at the end
			}
			if !w.short {
				t.Fatalf("%q is not taken as a beginning of %q", b[:n], b)
			}
		}
		var v any
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		w.start(b)
		compare(t, &w, v)
		if !w.end() {
			t.Fatalf("walked badly: %q", b)
		}
	})
}

// compare walks the next value and holds it against v. Members that come twice are not compared: the
// map has only the last one.
func compare(t *testing.T, w *walker, v any) {
	switch v := v.(type) {
	case map[string]any:
		seen := map[string]int{}
		for ok := w.object(); ok && w.member(); {
			key := string(w.key)
			want, there := v[key]
			if !there {
				t.Fatalf("member %q is not in %v", key, v)
			}
			seen[key]++
			save := *w
			w.skip()
			if end := w.i; strings.Count(string(w.b), key) <= 1 {
				*w = save
				compare(t, w, want)
				if w.i != end {
					t.Fatalf("skip ended at %d, walking at %d", end, w.i)
				}
			}
		}
		if len(seen) != len(v) {
			t.Fatalf("%d members, want %d", len(seen), len(v))
		}
	case []any:
		n := 0
		for ok := w.array(); ok && w.element(); {
			if n >= len(v) {
				t.Fatal("too many elements")
			}
			compare(t, w, v[n])
			n++
		}
		if n != len(v) {
			t.Fatalf("%d elements, want %d", n, len(v))
		}
	case string:
		raw, ok := w.str()
		if got := string(appendUnescaped(nil, raw)); !ok || got != v {
			t.Fatalf("string %q, want %q", got, v)
		}
	case json.Number:
		n, ok := w.integer()
		if want, err := v.Int64(); err == nil {
			if !ok || n != want {
				t.Fatalf("integer %d %v, want %d", n, ok, want)
			}
		} else if f, err := v.Float64(); ok && (err != nil || float64(n) != f) {
			t.Fatalf("integer %d for %v", n, v)
		} else if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 && !ok {
			t.Fatalf("%v was not taken as whole", v)
		}
	case bool:
		if got := w.truth(); got != v {
			t.Fatalf("truth %v, want %v", got, v)
		}
	case nil:
		if got := string(w.skip()); got != "null" {
			t.Fatalf("%q, want null", got)
		}
	}
}

// FuzzQuote checks that a quoted string means the same to encoding/json, and to the walker.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "tab\tnl\nquote\"back\\slash/", "\x00\x1f\x7f", "é😀\u2028", "cut \xc3", "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := appendQuoted(nil, s)
		var got string
		if err := json.Unmarshal(q, &got); err != nil {
			t.Fatalf("%q: %v", q, err)
		}
		if want := string([]rune(s)); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		if un := string(appendUnescaped(nil, q[1:len(q)-1])); un != got {
			t.Fatalf("unescaped %q, want %q", un, got)
		}
	})
}
