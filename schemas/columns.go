package schemas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// NullInt stands for null in the integers of a [Vector]. No moment, count or token number has it.
const NullInt = math.MinInt64

// Vector is one column of many rows in memory. One of its slices is filled, by the type of the column;
// a null is NullInt, NaN or the code -1.
type Vector struct {
	Name   string
	Ints   []int64   // int64 columns; bool columns as 0 and 1
	Floats []float64 // double columns
	Codes  []int32   // string columns: indexes into Values
	Values []string  // the distinct strings, in order of first appearance

	codes map[string]int32
}

// Len gives the number of rows.
func (c *Vector) Len() int {
	switch {
	case c.Ints != nil:
		return len(c.Ints)
	case c.Floats != nil:
		return len(c.Floats)
	}
	return len(c.Codes)
}

// Size gives about how many bytes the column takes.
func (c *Vector) Size() int {
	return 8*(len(c.Ints)+len(c.Floats)) + 4*len(c.Codes) + 32*len(c.Values)
}

// Seal gives up what is only needed to add rows.
func (c *Vector) Seal() { c.codes = nil }

// Nulls gives a column without a value.
func Nulls(name string, rows int) *Vector {
	var t Table
	cols, err := t.want([]string{name})
	if err != nil {
		panic(err) // names are those of the program
	}
	cols[0].grow(rows)
	cols[0].appendNulls(rows)
	return cols[0]
}

// code gives the code of a string, adding it to the column's values if it is new.
func (c *Vector) code(s []byte) int32 {
	if code, ok := c.codes[string(s)]; ok {
		return code
	}
	if c.codes == nil {
		c.codes = map[string]int32{}
	}
	code := int32(len(c.Values))
	c.Values = append(c.Values, string(s))
	c.codes[c.Values[code]] = code
	return code
}

// SetMissing gives every row without a string this one.
func (c *Vector) SetMissing(s string) {
	code := c.code([]byte(s))
	for i, v := range c.Codes {
		if v < 0 {
			c.Codes[i] = code
		}
	}
}

// Table is a set of columns of the same rows, which may come from several files.
type Table struct {
	Rows    int
	vectors map[string]*Vector
}

// Vector gives a column by name, or nil if it was not read.
func (c *Table) Vector(name string) *Vector { return c.vectors[name] }

// ColumnType is what kind of slice a column of a name becomes: int, float, string or tag, or "" if
// requests have no such column or it is a list. tag.NAME is the value of the tag NAME.
func ColumnType(name string) string {
	if strings.HasPrefix(name, "tag.") && len(name) > len("tag.") {
		return "tag"
	}
	leaf, ok := parquet.SchemaOf(Request{}).Lookup(name)
	if !ok || !leaf.Node.Leaf() || leaf.MaxRepetitionLevel > 0 {
		return ""
	}
	switch leaf.Node.Type().Kind() {
	case parquet.Int64, parquet.Boolean:
		return "int"
	case parquet.Double:
		return "float"
	case parquet.ByteArray:
		return "string"
	}
	return ""
}

// want gives the columns of names that are not there yet, for rows that start at base.
func (c *Table) want(names []string) ([]*Vector, error) {
	if c.vectors == nil {
		c.vectors = map[string]*Vector{}
	}
	var cols []*Vector
	for _, name := range names {
		typ := ColumnType(name)
		if typ == "" {
			return nil, fmt.Errorf("requests have no column %q to read by itself", name)
		}
		col := c.vectors[name]
		if col == nil {
			col = &Vector{Name: name}
			switch typ {
			case "int":
				col.Ints = []int64{}
			case "float":
				col.Floats = []float64{}
			default:
				col.Codes = []int32{}
			}
			c.vectors[name] = col
		}
		cols = append(cols, col)
	}
	return cols, nil
}

// ReadColumns appends the named columns of a requests file to c, a few of them at once, and nothing but
// those is read from the file. Every call for one c must name the same columns. An error names the file,
// and leaves c in no state to be used.
func ReadColumns(ctx context.Context, f *File[Request], c *Table, names ...string) error {
	cols, err := c.want(names)
	if err != nil {
		return err
	}
	if err := f.Verify(fileColumns(names)...); err != nil {
		return err
	}
	rows := int(f.NumRows())
	var (
		work = make(chan *Vector)
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for range min(runtime.GOMAXPROCS(0), len(cols)) {
		wg.Go(func() {
			for col := range work {
				err := f.appendColumn(ctx, col)
				if err == nil && col.Len() != c.Rows+rows {
					err = fmt.Errorf("%s: column %s has %d rows, the footer promises %d", f.path, col.Name, col.Len()-c.Rows, rows)
				}
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, col := range cols {
		work <- col
	}
	close(work)
	wg.Wait()
	c.Rows += rows
	return errors.Join(errs...)
}

// fileColumns gives the columns of the file that the named ones come from.
func fileColumns(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if strings.HasPrefix(name, "tag.") {
			out[i] = "tags"
		}
	}
	return out
}

// appendColumn reads one column of all row groups.
func (f *File[T]) appendColumn(ctx context.Context, col *Vector) (err error) {
	defer Guard(f.path, &err)
	if tag, ok := strings.CutPrefix(col.Name, "tag."); ok {
		return f.appendTag(ctx, col, tag)
	}
	leaf, ok := f.pq.Schema().Lookup(col.Name)
	rows := int(f.pq.NumRows())
	if !ok || f.returned && f.empty(leaf) { // an older file without it
		col.appendNulls(rows)
		return nil
	}
	col.grow(rows)
	for _, group := range f.pq.RowGroups() {
		before := col.Len()
		err := eachPage(ctx, group.ColumnChunks()[leaf.ColumnIndex], func(p parquet.Page) error {
			return col.appendPage(p, byte(leaf.MaxDefinitionLevel))
		})
		if err == nil && int64(col.Len()-before) != group.NumRows() {
			err = fmt.Errorf("%d values in a row group of %d rows", col.Len()-before, group.NumRows())
		}
		if err != nil {
			return fmt.Errorf("%s: column %s: %w", f.path, col.Name, err)
		}
	}
	return nil
}

// eachPage gives the pages of a column chunk to fn. A page is valid only during the call.
func eachPage(ctx context.Context, chunk parquet.ColumnChunk, fn func(parquet.Page) error) (err error) {
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = fn(page)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
}

func (c *Vector) grow(rows int) {
	switch {
	case c.Ints != nil:
		c.Ints = append(make([]int64, 0, len(c.Ints)+rows), c.Ints...)
	case c.Floats != nil:
		c.Floats = append(make([]float64, 0, len(c.Floats)+rows), c.Floats...)
	default:
		c.Codes = append(make([]int32, 0, len(c.Codes)+rows), c.Codes...)
	}
}

func (c *Vector) appendNulls(n int) {
	for range n {
		switch {
		case c.Ints != nil:
			c.Ints = append(c.Ints, NullInt)
		case c.Floats != nil:
			c.Floats = append(c.Floats, math.NaN())
		default:
			c.Codes = append(c.Codes, -1)
		}
	}
}

// appendPage adds the values of a page of a column without repetition. present is the definition level
// of a value that is there.
func (c *Vector) appendPage(p parquet.Page, present byte) error {
	levels := p.DefinitionLevels()
	n := int(p.NumValues())
	switch {
	case c.Floats != nil:
		values, err := pageFloats(p)
		if err != nil {
			return err
		}
		return spread(&c.Floats, values, levels, present, math.NaN())
	case c.Ints != nil && p.Type().Kind() == parquet.Boolean:
		data := p.Data()
		bits := data.Boolean()
		values := make([]int64, countPresent(levels, present, n))
		if (len(values)+7)/8 > len(bits) {
			return fmt.Errorf("a page of %d values holds %d bytes", len(values), len(bits))
		}
		for i := range values {
			values[i] = int64(bits[i/8] >> (i % 8) & 1)
		}
		return spread(&c.Ints, values, levels, present, NullInt)
	case c.Ints != nil:
		values, err := pageInts(p)
		if err != nil {
			return err
		}
		return spread(&c.Ints, values, levels, present, NullInt)
	}
	codes, err := c.pageCodes(p, countPresent(levels, present, n))
	if err != nil {
		return err
	}
	return spread(&c.Codes, codes, levels, present, -1)
}

func countPresent(levels []byte, present byte, n int) int {
	if levels == nil {
		return n
	}
	return bytes.Count(levels, []byte{present})
}

// spread appends values to dst with null where the definition level says that there is none.
func spread[V any](dst *[]V, values []V, levels []byte, present byte, null V) error {
	if levels == nil {
		*dst = append(*dst, values...)
		return nil
	}
	if have := countPresent(levels, present, 0); have != len(values) {
		return fmt.Errorf("a page promises %d values and holds %d", have, len(values))
	}
	if len(values) == len(levels) {
		*dst = append(*dst, values...)
		return nil
	}
	out, next := *dst, 0
	for _, l := range levels {
		if l == present {
			out = append(out, values[next])
			next++
		} else {
			out = append(out, null)
		}
	}
	*dst = out
	return nil
}

// pageCodes gives the codes of the n strings of a page.
func (c *Vector) pageCodes(p parquet.Page, n int) ([]int32, error) {
	codes := make([]int32, n)
	if dict := p.Dictionary(); dict != nil {
		words := dict.Page().Data()
		text, offsets := words.ByteArray()
		mine := make([]int32, dict.Len())
		for i := range mine {
			mine[i] = c.code(text[offsets[i]:offsets[i+1]])
		}
		data := p.Data()
		indexes := data.Int32()
		if len(indexes) != n {
			return nil, fmt.Errorf("a page promises %d values and holds %d", n, len(indexes))
		}
		for i, index := range indexes {
			if index < 0 || int(index) >= len(mine) {
				return nil, fmt.Errorf("a value refers to entry %d of a dictionary of %d", index, len(mine))
			}
			codes[i] = mine[index]
		}
		return codes, nil
	}
	data := p.Data()
	text, offsets := data.ByteArray()
	if len(offsets) != n+1 && (n != 0 || len(offsets) > 1) {
		return nil, fmt.Errorf("a page promises %d values and holds %d", n, len(offsets)-1)
	}
	for i := range codes {
		s := text[offsets[i]:offsets[i+1]]
		// Neighbours are often equal, and comparing is cheaper than looking up.
		if i > 0 && string(s) == c.Values[codes[i-1]] {
			codes[i] = codes[i-1]
			continue
		}
		codes[i] = c.code(s)
	}
	return codes, nil
}

// appendTag reads the values of one key of the tags map.
func (f *File[T]) appendTag(ctx context.Context, col *Vector, tag string) error {
	keyLeaf, ok1 := f.pq.Schema().Lookup("tags", "key_value", "key")
	valueLeaf, ok2 := f.pq.Schema().Lookup("tags", "key_value", "value")
	if !ok1 || !ok2 {
		col.appendNulls(int(f.pq.NumRows()))
		return nil
	}
	keys := &Vector{Name: "key", Codes: []int32{}}
	values := &Vector{Name: "value", Codes: []int32{}}
	for _, group := range f.pq.RowGroups() {
		keys.Codes, values.Codes = keys.Codes[:0], values.Codes[:0]
		var starts []bool // of each entry: whether it begins a row
		chunks := group.ColumnChunks()
		err := eachPage(ctx, chunks[keyLeaf.ColumnIndex], func(p parquet.Page) error {
			for _, r := range p.RepetitionLevels() {
				starts = append(starts, r == 0)
			}
			return keys.appendPage(p, byte(keyLeaf.MaxDefinitionLevel))
		})
		if err == nil {
			err = eachPage(ctx, chunks[valueLeaf.ColumnIndex], func(p parquet.Page) error {
				return values.appendPage(p, byte(valueLeaf.MaxDefinitionLevel))
			})
		}
		if err == nil && (len(keys.Codes) != len(starts) || len(values.Codes) != len(starts)) {
			err = fmt.Errorf("%d keys, %d values, %d entries", len(keys.Codes), len(values.Codes), len(starts))
		}
		if err != nil {
			return fmt.Errorf("%s: column tags: %w", f.path, err)
		}
		before := len(col.Codes)
		for i, first := range starts {
			if first {
				col.Codes = append(col.Codes, -1)
			}
			if k := keys.Codes[i]; k >= 0 && keys.Values[k] == tag && values.Codes[i] >= 0 && len(col.Codes) > before {
				col.Codes[len(col.Codes)-1] = col.code([]byte(values.Values[values.Codes[i]]))
			}
		}
		if got := int64(len(col.Codes) - before); got != group.NumRows() {
			return fmt.Errorf("%s: column tags: %d rows in a row group of %d", f.path, got, group.NumRows())
		}
	}
	return nil
}
