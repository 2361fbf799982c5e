package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoroutinesAreWatched: a package that starts goroutines looks in its tests, with goleak, whether one
// of them was left behind. Programs for developers (package main below an internal folder) are left out.
func TestGoroutinesAreWatched(t *testing.T) {
	root := filepath.Join("..", "..")
	starts, watched := map[string]string{}, map[string]bool{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			for _, i := range file.Imports {
				if i.Path.Value == `"go.uber.org/goleak"` {
					watched[folder] = true
				}
			}
			return nil
		}
		if file.Name.Name == "main" && strings.Contains(filepath.ToSlash(folder), "/internal/") {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts[folder] = fset.Position(n.Pos()).String()
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					starts[folder] = fset.Position(n.Pos()).String()
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(starts) < 8 {
		t.Fatalf("only %d packages start goroutines: the search is broken", len(starts))
	}
	for folder, where := range starts {
		if !watched[folder] {
			t.Errorf("%s starts a goroutine, and no test of its package uses goleak", where)
		}
	}
}
