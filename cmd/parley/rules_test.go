package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The layout's rules: the verbs meet in the files of package schemas only, the client cannot know the
// simulated server's truth, and no package is a drawer for odds and ends.
func TestImportRules(t *testing.T) {
	root := filepath.Join("..", "..")
	forbidden := func(file, imported string) string {
		verb, _, _ := strings.Cut(file, "/")
		to, inModule := strings.CutPrefix(imported, "parley/")
		if !inModule {
			return ""
		}
		target, _, _ := strings.Cut(to, "/")
		verbs := []string{"generate", "replay", "analyze"}
		test := strings.HasSuffix(file, "_test.go")
		switch {
		case verb == "schemas":
			return "schemas imports nothing of the module"
		case verb != "cmd" && target == "cmd":
			return "nothing imports cmd"
		case slices.Contains(verbs, verb) && slices.Contains(verbs, target) && verb != target:
			return "the verbs do not import each other"
		case (to == "replay/simserver" || strings.HasPrefix(to, "replay/simserver/")) && !test && verb != "cmd" && !strings.HasPrefix(file, "replay/simserver/"):
			return "the client knows the simulated server by HTTP only"
		}
		return ""
	}
	top := []string{"cmd", "generate", "replay", "analyze", "schemas"}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			if rel != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || name == "bin" || name == "demo") {
				return filepath.SkipDir
			}
			if slices.Contains([]string{"utils", "util", "common", "types", "lib", "helpers"}, name) {
				t.Errorf("%s: a package is named for what it does", rel)
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		files++
		if first, _, _ := strings.Cut(rel, "/"); !slices.Contains(top, first) {
			t.Errorf("%s: code stands in one of %v", rel, top)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if why := forbidden(rel, name); why != "" {
				t.Errorf("%s imports %s: %s", rel, name, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were looked at", files)
	}
}
