package main

import (
	"strings"
	"testing"
)

// FuzzProfile reads any text as a profile: values or an error, never a panic.
func FuzzProfile(f *testing.F) {
	for _, text := range []string{
		"", "seed: 7\nreplay:\n  url: [http://127.0.0.1:8000]\n  concurrency: 64\n", `{"replay": {"rate": 5, "sampling": {"temperature": 0}}}`,
		"replay: 3", "a: &a [*a]", "a: &a {b: *a}", "[1, 2]", "replay:\n\turl: x", "? {a: b}\n: c", "1: 2", "replay: {1: 2}", "x: !!binary a",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		resolver, err := loadProfile(strings.NewReader(text))
		if (resolver == nil) == (err == nil) {
			t.Fatalf("%v and %v", resolver, err)
		}
	})
}
