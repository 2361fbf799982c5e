package schemas

import (
	"fmt"
	"reflect"
	"strings"
)

// Column describes one column of a kind of file.
type Column struct {
	Name string `json:"name"` // with dots inside structs, as Parquet paths without list levels
	Type string `json:"type"`
	Null bool   `json:"nullable"`
	Unit string `json:"unit,omitempty"`
	Doc  string `json:"doc"`
}

// Dictionary gives the columns of a kind of file in order, from the tags of its row type.
func Dictionary(kind Kind) []Column {
	switch kind {
	case KindConversations:
		return columnsOf("", reflect.TypeFor[Conversation]())
	case KindRequests:
		return columnsOf("", reflect.TypeFor[Request]())
	case KindTelemetry:
		return columnsOf("", reflect.TypeFor[Sample]())
	}
	return nil
}

func columnsOf(prefix string, t reflect.Type) []Column {
	var columns []Column
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		c := Column{Name: prefix + name, Unit: f.Tag.Get("unit"), Doc: f.Tag.Get("doc")}
		typ := f.Type
		if c.Null = typ.Kind() == reflect.Pointer; c.Null {
			typ = typ.Elem()
		}
		var nested []Column
		switch {
		case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
			c.Type = "list of struct"
			nested = columnsOf(c.Name+".", typ.Elem())
		case typ.Kind() == reflect.Slice:
			c.Type = "list of " + typeName(typ.Elem())
		case typ.Kind() == reflect.Map:
			c.Type = "map of string to string"
		default:
			c.Type = typeName(typ)
		}
		columns = append(append(columns, c), nested...)
	}
	return columns
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "double"
	case reflect.Bool:
		return "boolean"
	}
	return "string"
}

// DictionaryMarkdown gives the page of all kinds of file, which stands in the repository as
// schemas/README.md.
func DictionaryMarkdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# parley's files, version %d.%d\n\n", MajorVersion, MinorVersion)
	b.WriteString("Made from the row types of package schemas by `parley analyze --schema markdown`; a test keeps it true.\n\n")
	fmt.Fprintf(&b, "Each file names its kind, its version and its metadata (JSON) in the footer under `%s`, `%s` and\n`%s`. A reader takes files of its own major version and of older ones.\n", keyKind, keyVersion, keyMeta)
	for _, k := range []struct {
		kind  Kind
		title string
	}{
		{KindConversations, "Conversations: one row per conversation (`parley generate`)"},
		{KindRequests, "Requests: one row per planned turn (`parley replay`)"},
		{KindTelemetry, "Telemetry: one row per sample (`*.telemetry.parquet`)"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| column | type | unit | meaning |\n| --- | --- | --- | --- |\n", k.title)
		for _, c := range Dictionary(k.kind) {
			null := ""
			if c.Null {
				null = ", null"
			}
			fmt.Fprintf(&b, "| `%s` | %s%s | %s | %s |\n", c.Name, c.Type, null, c.Unit, strings.ReplaceAll(c.Doc, "|", "\\|"))
		}
	}
	return b.String()
}
