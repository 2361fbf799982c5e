package schemas

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// The footer's Arrow schema has the columns of the file, in their order, each with its meaning and unit, down to the
// columns within columns.
func TestFooterTellsUnitsAndMeanings(t *testing.T) {
	t.Run("requests", func(t *testing.T) { footerTells[Request](t, &RunMeta{}, 20) })
	t.Run("telemetry", func(t *testing.T) { footerTells[Sample](t, &RunMeta{}, 1) })
	t.Run("conversations", func(t *testing.T) { footerTells[Conversation](t, &DatasetMeta{}, 8) })
}

func footerTells[T Request | Sample | Conversation](t *testing.T, meta any, least int) {
	path := filepath.Join(t.TempDir(), "run.parquet")
	w, err := Create[T](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(meta); err != nil {
		t.Fatal(err)
	}
	f, err := Open[T](path)
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
	var each func(fields []arrow.Field)
	each = func(fields []arrow.Field) {
		for _, field := range fields {
			if doc, _ := field.Metadata.GetValue("doc"); doc == "" {
				t.Errorf("%s has no meaning", field.Name)
			}
			if unit, _ := field.Metadata.GetValue("unit"); unit != "" {
				units++
			}
			if list, ok := field.Type.(*arrow.ListType); ok {
				if of, ok := list.Elem().(*arrow.StructType); ok {
					each(of.Fields())
				}
			}
		}
	}
	each(r.Schema().Fields())
	for i, field := range r.Schema().Fields() {
		if field.Name != columns[i].Name() {
			t.Errorf("field %d is %s, the column %s", i, field.Name, columns[i].Name())
		}
	}
	if units < least {
		t.Errorf("%d columns have a unit", units)
	}
}
