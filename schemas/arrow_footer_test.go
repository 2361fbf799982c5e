package schemas

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// The footer's Arrow schema has the columns of the file, in their order, each with its meaning and unit.
func TestFooterTellsUnitsAndMeanings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.parquet")
	w, err := Create[Request](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&RunMeta{}); err != nil {
		t.Fatal(err)
	}
	f, err := Open[Request](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, _ := f.Parquet().Lookup("ARROW:schema")
	message, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	columns := f.Parquet().Schema().Fields()
	if len(columns) != r.Schema().NumFields() {
		t.Fatalf("%d columns, %d fields", len(columns), r.Schema().NumFields())
	}
	units := 0
	for i, field := range r.Schema().Fields() {
		if field.Name != columns[i].Name() {
			t.Errorf("field %d is %s, the column %s", i, field.Name, columns[i].Name())
		}
		if doc, _ := field.Metadata.GetValue("doc"); doc == "" {
			t.Errorf("%s has no meaning", field.Name)
		}
		if unit, _ := field.Metadata.GetValue("unit"); unit != "" {
			units++
		}
	}
	if units < 20 {
		t.Errorf("%d columns have a unit", units)
	}
}
