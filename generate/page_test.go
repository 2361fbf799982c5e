package generate_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/generate"
	"parley/generate/dist"
)

// The page of datasets has every key of a config and every distribution, and none that is not there.
func TestPageHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := func(after, before string) []string {
		_, text, ok := strings.Cut(string(page), after)
		text, _, ok2 := strings.Cut(text, before)
		if !ok || !ok2 {
			t.Fatalf("the page has no %q before %q", after, before)
		}
		var out []string
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|").FindAllStringSubmatch(text, -1) {
			if m[1] != "distribution" { // the heading
				out = append(out, m[1])
			}
		}
		slices.Sort(out)
		return out
	}
	var keys []string
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[dist.Dist]() {
			keys = append(keys, path)
			return
		}
		for _, f := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				walk(strings.TrimPrefix(path+"."+name, "."), f.Type)
			}
		}
		if path == "joint_num_tokens" {
			keys = append(keys, path)
		}
	}
	walk("", reflect.TypeFor[generate.Spec]())
	slices.Sort(keys)
	if got := rows("## The config", "### Distributions"); !slices.Equal(got, keys) {
		t.Errorf("keys on the page: %q\nkeys of a config: %q", got, keys)
	}
	if got := rows("### Distributions", "### What differs"); !slices.Equal(got, dist.Names()) {
		t.Errorf("distributions on the page: %q\nthere are %q", got, dist.Names())
	}
}
