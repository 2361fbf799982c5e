package schemas

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// The rows that travel as Arrow records: in the journal, and in exports.
type flatRow interface{ Request | Sample }

// arrowColumn is how one field of a row type is kept in an Arrow record.
type arrowColumn struct {
	field  arrow.Field
	index  int  // of the struct's field
	later  bool // a minor version after 1.0 added it: older records lack it
	append func(b array.Builder, v reflect.Value)
	read   func(a arrow.Array, row int, v reflect.Value)
}

// ArrowSchema gives the Arrow schema of T: the columns of the Parquet file, by the same names, with unit
// and meaning as field metadata.
func ArrowSchema[T flatRow]() *arrow.Schema {
	columns := arrowColumns[T]()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = c.field
	}
	meta := arrow.NewMetadata([]string{keyKind, keyVersion}, []string{string(KindOf[T]()), fmt.Sprintf("%d.%d", MajorVersion, MinorVersion)})
	return arrow.NewSchema(fields, &meta)
}

// arrowFooter gives the Arrow schema of a kind of file as readers of the Arrow family expect it in a footer:
// the schema message of the IPC format, in base64. They show the unit and meaning of each column with it
// (pyarrow: table.schema.field("ttft_ms").metadata).
func arrowFooter(kind Kind) string {
	row := map[Kind]reflect.Type{
		KindRequests: reflect.TypeFor[Request](), KindTelemetry: reflect.TypeFor[Sample](), KindConversations: reflect.TypeFor[Conversation](),
	}[kind]
	var b bytes.Buffer
	// Kind and version stand in the footer by themselves.
	w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema(arrowFields(row), nil)))
	if err := w.Close(); err != nil {
		panic(fmt.Sprintf("schemas: a schema that is not to be written: %v", err)) // into memory
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// arrowFields gives the Arrow fields of a row type, or of a struct within one.
func arrowFields(t reflect.Type) []arrow.Field {
	fields := make([]arrow.Field, t.NumField())
	for i := range fields {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		var typ arrow.DataType
		switch {
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			typ = arrow.ListOfNonNullable(arrow.StructOf(arrowFields(f.Type.Elem())...))
		case f.Type == reflect.TypeFor[[]string]():
			typ = arrow.ListOfNonNullable(arrow.BinaryTypes.String)
		default:
			typ, _, _ = arrowType(f.Type)
		}
		meta := arrow.NewMetadata([]string{"doc", "unit"}, []string{f.Tag.Get("doc"), f.Tag.Get("unit")})
		fields[i] = arrow.Field{Name: name, Type: typ, Nullable: f.Type.Kind() == reflect.Pointer, Metadata: meta}
	}
	return fields
}

func arrowColumns[T flatRow]() []arrowColumn {
	t := reflect.TypeFor[T]()
	fields := arrowFields(t)
	columns := make([]arrowColumn, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		_, appendTo, readFrom := arrowType(f.Type)
		columns = append(columns, arrowColumn{
			field:  fields[i],
			index:  i,
			later:  f.Tag.Get("since") != "",
			append: appendTo,
			read:   readFrom,
		})
	}
	return columns
}

// arrowType gives the Arrow type of a Go type of a row's field, and how its values go in and come out. A
// type that is not among them is a mistake in this package, which its tests find.
func arrowType(t reflect.Type) (arrow.DataType, func(array.Builder, reflect.Value), func(arrow.Array, int, reflect.Value)) {
	switch {
	case t.Kind() == reflect.Pointer:
		typ, put, get := arrowType(t.Elem())
		return typ, func(b array.Builder, v reflect.Value) {
				if v.IsNil() {
					b.AppendNull()
					return
				}
				put(b, v.Elem())
			}, func(a arrow.Array, row int, v reflect.Value) {
				if a.IsNull(row) {
					return
				}
				p := reflect.New(t.Elem())
				get(a, row, p.Elem())
				v.Set(p)
			}
	case t.Kind() == reflect.String:
		return arrow.BinaryTypes.String,
			func(b array.Builder, v reflect.Value) { b.(*array.StringBuilder).Append(v.String()) },
			// Cloned: the array's memory is reused once the record is released.
			func(a arrow.Array, row int, v reflect.Value) {
				v.SetString(strings.Clone(a.(*array.String).Value(row)))
			}
	case t.Kind() == reflect.Int64:
		return arrow.PrimitiveTypes.Int64,
			func(b array.Builder, v reflect.Value) { b.(*array.Int64Builder).Append(v.Int()) },
			func(a arrow.Array, row int, v reflect.Value) { v.SetInt(a.(*array.Int64).Value(row)) }
	case t.Kind() == reflect.Float64:
		return arrow.PrimitiveTypes.Float64,
			func(b array.Builder, v reflect.Value) { b.(*array.Float64Builder).Append(v.Float()) },
			func(a arrow.Array, row int, v reflect.Value) { v.SetFloat(a.(*array.Float64).Value(row)) }
	case t.Kind() == reflect.Bool:
		return arrow.FixedWidthTypes.Boolean,
			func(b array.Builder, v reflect.Value) { b.(*array.BooleanBuilder).Append(v.Bool()) },
			func(a arrow.Array, row int, v reflect.Value) { v.SetBool(a.(*array.Boolean).Value(row)) }
	case t == reflect.TypeFor[[]int64]():
		return arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64),
			func(b array.Builder, v reflect.Value) {
				lb := b.(*array.ListBuilder)
				lb.Append(true)
				lb.ValueBuilder().(*array.Int64Builder).AppendValues(v.Interface().([]int64), nil)
			},
			func(a arrow.Array, row int, v reflect.Value) {
				list := a.(*array.List)
				from, to := list.ValueOffsets(row)
				if from < to {
					v.Set(reflect.ValueOf(slices.Clone(list.ListValues().(*array.Int64).Int64Values()[from:to])))
				}
			}
	case t == reflect.TypeFor[map[string]string]():
		return arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String), appendMap, readMap
	}
	panic(fmt.Sprintf("schemas: no Arrow type for %s", t))
}

func appendMap(b array.Builder, v reflect.Value) {
	mb := b.(*array.MapBuilder)
	mb.Append(true)
	m := v.Interface().(map[string]string)
	for _, k := range sortedKeys(m) {
		mb.KeyBuilder().(*array.StringBuilder).Append(k)
		mb.ItemBuilder().(*array.StringBuilder).Append(m[k])
	}
}

func readMap(a arrow.Array, row int, v reflect.Value) {
	list := a.(*array.Map)
	from, to := list.ValueOffsets(row)
	if from == to {
		return
	}
	m := make(map[string]string, to-from)
	keys, items := list.Keys().(*array.String), list.Items().(*array.String)
	for i := int(from); i < int(to); i++ {
		m[strings.Clone(keys.Value(i))] = strings.Clone(items.Value(i))
	}
	v.Set(reflect.ValueOf(m))
}

// RecordBuilder turns rows into Arrow records. Not safe for concurrent use.
type RecordBuilder[T flatRow] struct {
	columns []arrowColumn
	builder *array.RecordBuilder
}

// NewRecordBuilder makes a builder of records of T. Release it at the end.
func NewRecordBuilder[T flatRow](mem memory.Allocator) *RecordBuilder[T] {
	return &RecordBuilder[T]{arrowColumns[T](), array.NewRecordBuilder(mem, ArrowSchema[T]())}
}

// Record makes one record of the rows. The caller releases it.
func (b *RecordBuilder[T]) Record(rows []T) arrow.Record {
	b.builder.Reserve(len(rows))
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		for c := range b.columns {
			b.columns[c].append(b.builder.Field(c), v.Field(b.columns[c].index))
		}
	}
	return b.builder.NewRecord()
}

// Release frees the builder's memory.
func (b *RecordBuilder[T]) Release() { b.builder.Release() }

// rowsOf turns a record into rows. Columns are matched by name: one that the record lacks stays at its
// zero value if it may be null or a later version added it, and is an error otherwise; one that only the record has is ignored.
func rowsOf[T flatRow](rec arrow.Record) ([]T, error) {
	rows := make([]T, rec.NumRows())
	for _, c := range arrowColumns[T]() {
		at := rec.Schema().FieldIndices(c.field.Name)
		if len(at) != 1 {
			if c.field.Nullable || c.later {
				continue
			}
			return nil, fmt.Errorf("column %s is missing", c.field.Name)
		}
		column := rec.Column(at[0])
		if got := column.DataType().ID(); got != c.field.Type.ID() {
			return nil, fmt.Errorf("column %s is %s, should be %s", c.field.Name, column.DataType(), c.field.Type)
		}
		for i := range rows {
			c.read(column, i, reflect.ValueOf(&rows[i]).Elem().Field(c.index))
		}
	}
	return rows, nil
}
