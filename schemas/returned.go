package schemas

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Rows come back: people filter them in pandas, polars, DuckDB or pyarrow, and write them anew. Such a file
// has other encodings (dictionaries of numbers), other types (32-bit integers, doubles for integers with
// nulls), no metadata, columns in another order or left out. Known columns with known types are enough to
// analyze it column by column.

// returnedColumns are what rows must at least have to be analyzed.
var returnedColumns = []string{"conversation_id", "turn", "status", "sent_ns", "first_token_ns", "last_token_ns"}

// IsReturned says whether a Parquet file has rows of requests that another program wrote anew.
func IsReturned(path string) bool {
	file, pq, _, err := openParquet(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return rewritten(pq) && len(missingColumns(pq)) == 0
}

func rewritten(pq *parquet.File) bool {
	return !strings.HasPrefix(pq.Metadata().CreatedBy, createdBy+" ")
}

func missingColumns(pq *parquet.File) []string {
	var missing []string
	for _, name := range returnedColumns {
		if _, ok := pq.Schema().Lookup(name); !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

// OpenRequests opens a requests file to read its columns ([ReadColumns], [ReadLists]), also one that another
// program wrote anew: by is then its name. Rows of such a file cannot be read whole.
func OpenRequests(path string) (f *File[Request], by string, err error) {
	file, pq, sums, err := openParquet(path)
	if err != nil {
		return nil, "", err
	}
	if kind, ok := pq.Lookup(keyKind); !rewritten(pq) || ok && Kind(kind) != KindRequests {
		err := file.Close()
		f, openErr := Open[Request](path)
		return f, "", errors.Join(openErr, err)
	}
	by = pq.Metadata().CreatedBy
	if by == "" {
		by = "another program"
	}
	if missing := missingColumns(pq); len(missing) > 0 {
		return nil, "", errors.Join(fmt.Errorf("%s is a Parquet file, but no rows of requests: it lacks the columns %s", path, strings.Join(missing, ", ")), file.Close())
	}
	f = &File[Request]{path: path, file: file, pq: pq, sums: sums, major: MajorVersion, minor: MinorVersion, returned: true}
	if err := f.checkReturned(); err != nil {
		return nil, "", errors.Join(err, file.Close())
	}
	return f, by, nil
}

// checkReturned refuses columns whose types cannot be taken for the known ones.
func (f *File[T]) checkReturned() error {
	var problems []error
	for _, c := range Dictionary(KindRequests) {
		want := ColumnType(c.Name)
		leaf, ok := f.pq.Schema().Lookup(c.Name)
		if want == "" || !ok {
			continue
		}
		got := leaf.Node.Type().Kind()
		number := got == parquet.Int64 || got == parquet.Int32 || got == parquet.Double || got == parquet.Float
		fits := number || got == parquet.Boolean && want == "int"
		if want == "string" {
			fits = got == parquet.ByteArray
		}
		// A column without one value may have got any type.
		if !fits && !f.empty(leaf) {
			problems = append(problems, fmt.Errorf("%s: column %s is %s, which cannot be read as %s", f.path, c.Name, leaf.Node.Type(), want))
		}
	}
	return errors.Join(problems...)
}

// empty says whether a column has nothing but nulls, by its type (pyarrow's null) or by the footer.
func (f *File[T]) empty(leaf parquet.LeafColumn) bool {
	if leaf.Node.Type().String() == "NULL" {
		return true
	}
	for _, g := range f.pq.Metadata().RowGroups {
		s := g.Columns[leaf.ColumnIndex].MetaData
		if s.NumValues != s.Statistics.NullCount {
			return false
		}
	}
	return true
}

// listLeaf gives the leaf of a column of lists, whatever the names on the way to it; ok is false if the file
// has no such lists.
func (f *File[T]) listLeaf(name string) (leaf parquet.LeafColumn, ok bool) {
	for _, path := range f.pq.Schema().Columns() {
		if path[0] != name {
			continue
		}
		leaf, ok := f.pq.Schema().Lookup(path...)
		if ok && leaf.MaxRepetitionLevel == 1 && slices.Contains([]parquet.Kind{parquet.Int64, parquet.Int32}, leaf.Node.Type().Kind()) {
			return leaf, true
		}
	}
	return leaf, false
}

// pageInts gives the integers of a page: of a dictionary, of 32 bits, or doubles that are whole. A double
// that is NaN, as pandas writes for a null, is [NullInt].
func pageInts(p parquet.Page) ([]int64, error) {
	if dict := p.Dictionary(); dict != nil {
		words, err := pageInts(dict.Page())
		if err != nil {
			return nil, err
		}
		return look(p, words)
	}
	data := p.Data()
	switch p.Type().Kind() {
	case parquet.Int64:
		return data.Int64(), nil
	case parquet.Int32:
		return convert(data.Int32(), func(v int32) int64 { return int64(v) }), nil
	case parquet.Double, parquet.Float:
		floats, err := pageFloats(p)
		if err != nil {
			return nil, err
		}
		out := make([]int64, len(floats))
		for i, v := range floats {
			switch {
			case v != v:
				out[i] = NullInt
			case v != math.Trunc(v) || math.Abs(v) > 1<<62:
				return nil, fmt.Errorf("%v is no whole number", v)
			default:
				out[i] = int64(v)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("a page of %s holds no integers", p.Type())
}

// pageFloats gives the numbers of a page.
func pageFloats(p parquet.Page) ([]float64, error) {
	if dict := p.Dictionary(); dict != nil {
		words, err := pageFloats(dict.Page())
		if err != nil {
			return nil, err
		}
		return look(p, words)
	}
	data := p.Data()
	switch p.Type().Kind() {
	case parquet.Double:
		return data.Double(), nil
	case parquet.Float:
		return convert(data.Float(), func(v float32) float64 { return float64(v) }), nil
	case parquet.Int64:
		return convert(data.Int64(), func(v int64) float64 { return float64(v) }), nil
	case parquet.Int32:
		return convert(data.Int32(), func(v int32) float64 { return float64(v) }), nil
	}
	return nil, fmt.Errorf("a page of %s holds no numbers", p.Type())
}

func convert[A, B any](in []A, of func(A) B) []B {
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = of(v)
	}
	return out
}

// look looks up the values of a page in its dictionary.
func look[V any](p parquet.Page, words []V) ([]V, error) {
	data := p.Data()
	indexes := data.Int32()
	out := make([]V, len(indexes))
	for i, at := range indexes {
		if at < 0 || int(at) >= len(words) {
			return nil, fmt.Errorf("a value refers to entry %d of a dictionary of %d", at, len(words))
		}
		out[i] = words[at]
	}
	return out, nil
}
