package analyze

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write RESULT.md anew, or the tables of STATISTICS.md")

// RESULT.md documents the JSON of a result. It is made from the comments of the Go types, so that it cannot
// fall behind: this test compares.
func TestResultDocument(t *testing.T) {
	got := resultDocument(t)
	if *update {
		if err := os.WriteFile("RESULT.md", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("RESULT.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("RESULT.md is not what the types say: raise ResultVersion if the layout changed, and write it anew with -update")
	}
}

// comments gives the comments of types and fields of a package's files.
func comments(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				typ := spec.(*ast.TypeSpec)
				out[typ.Name.Name] = oneLine(g.Doc.Text())
				st, ok := typ.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range st.Fields.List {
					for _, n := range f.Names {
						out[typ.Name.Name+"."+n.Name] = oneLine(f.Doc.Text() + f.Comment.Text())
					}
				}
			}
		}
	}
	return out
}

func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

func resultDocument(t *testing.T) []byte {
	docs := map[string]string{}
	for _, dir := range []string{"../schemas", "compare", "plots", "."} { // a name of this package goes before others'
		maps.Copy(docs, comments(t, dir))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The JSON of `parley analyze --format json`\n\n")
	fmt.Fprintf(&b, "Layout `%s`, version %s. A minor version adds fields; a major one changes or removes some.\n", ResultSchema, ResultVersion)
	fmt.Fprintf(&b, "Numbers that are not known are `null`. Made from the Go types by a test; do not edit.\n")
	var queue []reflect.Type
	seen := map[reflect.Type]bool{}
	add := func(typ reflect.Type) {
		if !seen[typ] {
			seen[typ] = true
			queue = append(queue, typ)
		}
	}
	add(reflect.TypeFor[Result]())
	for len(queue) > 0 {
		typ := queue[0]
		queue = queue[1:]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | type | meaning |\n| --- | --- | --- |\n", typ.Name(), docs[typ.Name()])
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				t.Errorf("%s.%s has no JSON name", typ.Name(), f.Name)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, jsonType(f.Type, add), docs[typ.Name()+"."+f.Name])
		}
	}
	return b.Bytes()
}

func jsonType(typ reflect.Type, add func(reflect.Type)) string {
	switch {
	case typ == reflect.TypeFor[Num]():
		return "number or null"
	case typ.String() == "time.Time":
		return "time (RFC 3339)"
	case typ.String() == "json.RawMessage":
		return "object"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return jsonType(typ.Elem(), add)
	case reflect.Slice:
		return "list of " + jsonType(typ.Elem(), add)
	case reflect.Map:
		return "object of " + jsonType(typ.Elem(), add)
	case reflect.Struct:
		add(typ)
		return fmt.Sprintf("[%s](#%s)", typ.Name(), strings.ToLower(typ.Name()))
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "number"
	}
	return "integer"
}
