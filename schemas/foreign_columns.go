package schemas

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// fnode is a node of a foreign file's schema, as far as it is read. Row values are put together from the
// columns below it: strings, numbers, truth values, times, lists ([]any) and groups (map[string]any), with
// nil for null.
type fnode struct {
	name     string
	def, rep int // levels at and above which the node is there
	optional bool
	repeated bool
	leaf     *fcolumn
	kids     []*fnode
}

// newNode copies a node of the schema with the fields that want (nil: all) names.
func newNode(root *parquet.Schema, n parquet.Field, path []string, def, rep int, want func(path []string) bool) *fnode {
	path = append(path[:len(path):len(path)], n.Name())
	f := &fnode{name: n.Name(), optional: n.Optional(), repeated: n.Repeated()}
	if f.optional {
		def++
	}
	if f.repeated {
		def++
		rep++
	}
	f.def, f.rep = def, rep
	if n.Leaf() {
		column, ok := root.Lookup(path...)
		if !ok || want != nil && !want(path) {
			return nil
		}
		f.leaf = &fcolumn{index: int(column.ColumnIndex), def: def, convert: converter(n)}
		return f
	}
	for _, kid := range n.Fields() {
		if k := newNode(root, kid, path, def, rep, want); k != nil {
			f.kids = append(f.kids, k)
		}
	}
	if len(f.kids) == 0 {
		return nil
	}
	return f
}

// element gives what a list's node holds, through the one or two levels that Parquet puts between; nil if
// the node is no list.
func (f *fnode) element() *fnode {
	inner := f
	if !f.repeated {
		if len(f.kids) != 1 || !f.kids[0].repeated {
			return nil
		}
		inner = f.kids[0]
	}
	if inner.leaf == nil && len(inner.kids) == 1 {
		switch inner.kids[0].name {
		case "element", "item", "array_element", "array":
			return inner.kids[0]
		}
	}
	return inner
}

func (f *fnode) columns(dst []*fcolumn) []*fcolumn {
	if f.leaf != nil {
		return append(dst, f.leaf)
	}
	for _, k := range f.kids {
		dst = k.columns(dst)
	}
	return dst
}

// first gives the leftmost column, whose levels tell what is there.
func (f *fnode) first() *fcolumn {
	for f.leaf == nil {
		f = f.kids[0]
	}
	return f.leaf
}

// skip takes one value, a null, off each column below.
func (f *fnode) skip() {
	for _, c := range f.columns(nil) {
		c.take()
	}
}

var errLevels = errors.New("its columns do not fit together")

// value puts the node's value for the current row together.
func (f *fnode) value() (any, error) {
	if f.repeated {
		return f.list(f.single)
	}
	if e := f.element(); e != nil && e != f {
		v, ok, err := f.present()
		if !ok || err != nil {
			return v, err
		}
		inner := f.kids[0]
		return inner.list(func() (any, error) {
			if e == inner {
				return inner.single()
			}
			return e.value()
		})
	}
	v, ok, err := f.present()
	if !ok || err != nil {
		return v, err
	}
	return f.single()
}

// present says whether an optional node is there in the current row, taking its nulls off if not.
func (f *fnode) present() (any, bool, error) {
	v, ok := f.first().peek()
	if !ok {
		return nil, false, errLevels
	}
	if f.optional && v.def < f.def {
		f.skip()
		return nil, false, nil
	}
	return nil, true, nil
}

// list gives the items of a repeated node.
func (f *fnode) list(item func() (any, error)) (any, error) {
	first := f.first()
	v, ok := first.peek()
	if !ok {
		return nil, errLevels
	}
	out := []any{}
	if v.def < f.def {
		f.skip()
		return out, nil
	}
	for {
		x, err := item()
		if err != nil {
			return nil, err
		}
		out = append(out, x)
		if v, ok := first.peek(); !ok || v.rep < f.rep {
			return out, nil
		}
	}
}

// single gives one value of the node, apart from its being optional or repeated.
func (f *fnode) single() (any, error) {
	if f.leaf != nil {
		v, ok := f.leaf.peek()
		if !ok {
			return nil, errLevels
		}
		f.leaf.take()
		return v.v, nil
	}
	out := make(map[string]any, len(f.kids))
	for _, k := range f.kids {
		v, err := k.value()
		if err != nil {
			return nil, err
		}
		out[k.name] = v
	}
	return out, nil
}

// fcolumn reads one column value by value.
type fcolumn struct {
	index   int
	def     int
	convert func(parquet.Value) any

	pages  parquet.Pages
	values parquet.ValueReader
	page   parquet.Page
	buf    []parquet.Value
	have   []parquet.Value // of buf, not yet used
	ended  bool

	row []fvalue // the current row's values, not yet taken
}

type fvalue struct {
	v        any
	def, rep int
}

func (c *fcolumn) peek() (fvalue, bool) {
	if len(c.row) == 0 {
		return fvalue{}, false
	}
	return c.row[0], true
}

func (c *fcolumn) take() {
	if len(c.row) > 0 {
		c.row = c.row[1:]
	}
}

// open goes to a row of a row group.
func (c *fcolumn) open(group parquet.RowGroup, first int64) error {
	c.close()
	c.pages, c.ended = group.ColumnChunks()[c.index].Pages(), false
	if first > 0 {
		return c.pages.SeekToRow(first)
	}
	return nil
}

func (c *fcolumn) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages != nil {
		_ = c.pages.Close() // nothing was written
	}
	c.pages, c.page, c.values, c.have, c.row = nil, nil, nil, nil, nil
}

// fill makes sure that there is a value to look at; false at the end of the row group.
func (c *fcolumn) fill() (bool, error) {
	for len(c.have) == 0 {
		if c.ended {
			return false, nil
		}
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				c.ended = true
				return false, nil
			}
			if err != nil {
				return false, err
			}
			c.page, c.values = page, page.Values()
		}
		if c.buf == nil {
			c.buf = make([]parquet.Value, 256)
		}
		n, err := c.values.ReadValues(c.buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		c.have = c.buf[:n]
		if n == 0 { // the page is used up; before, its values still pointed into it
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		}
	}
	return true, nil
}

// nextRow takes the values of the next row; false if there is none.
func (c *fcolumn) nextRow() (bool, error) {
	c.row = c.row[:0:0]
	for {
		ok, err := c.fill()
		if err != nil {
			return false, err
		}
		if !ok {
			return len(c.row) > 0, nil
		}
		v := c.have[0]
		if len(c.row) > 0 && v.RepetitionLevel() == 0 {
			return true, nil
		}
		x := fvalue{def: v.DefinitionLevel(), rep: v.RepetitionLevel()}
		if !v.IsNull() && x.def >= c.def {
			x.v = c.convert(v)
		}
		c.row = append(c.row, x)
		c.have = c.have[1:]
	}
}

// converter gives what turns a column's values into strings, numbers, truth values and times.
func converter(n parquet.Node) func(parquet.Value) any {
	kind := n.Type().Kind()
	var stamp *format.TimestampType
	isTime := false
	if logical := n.Type().LogicalType(); logical != nil {
		stamp, isTime = logical.Value.(*format.TimestampType)
	}
	switch {
	case kind == parquet.Boolean:
		return func(v parquet.Value) any { return v.Boolean() }
	case kind == parquet.Int96:
		return func(v parquet.Value) any { return timeOfInt96(v.Int96()) }
	case kind == parquet.Int64 && isTime:
		unit := time.Millisecond
		if stamp.Unit.Value != nil {
			unit = stamp.Unit.Value.Duration()
		}
		return func(v parquet.Value) any {
			per := int64(time.Second / unit)
			s, rest := v.Int64()/per, v.Int64()%per
			return time.Unix(s, rest*int64(unit)).UTC()
		}
	case kind == parquet.Int32:
		return func(v parquet.Value) any { return int64(v.Int32()) }
	case kind == parquet.Int64:
		return func(v parquet.Value) any { return v.Int64() }
	case kind == parquet.Float:
		return func(v parquet.Value) any { return float64(v.Float()) }
	case kind == parquet.Double:
		return func(v parquet.Value) any { return v.Double() }
	}
	return func(v parquet.Value) any { return strings.Clone(string(v.ByteArray())) }
}

// timeOfInt96 decodes the old form of time stamps: nanoseconds of the day, and the Julian day.
func timeOfInt96(v deprecated.Int96) time.Time {
	const epoch = 2440588 // the Julian day of 1970-01-01
	nanos := int64(uint64(v[1])<<32 | uint64(v[0]))
	return time.Unix((int64(v[2])-epoch)*86400, nanos).UTC()
}

// frows reads rows of some columns, group by group.
type frows struct {
	path    string
	groups  []parquet.RowGroup
	columns []*fcolumn
	at      int // the next row group
	open    bool
	skip    int64
}

// next goes to the next row; false at the end.
func (r *frows) next() (ok bool, err error) {
	defer Guard(r.path, &err)
	for {
		if !r.open {
			for r.at < len(r.groups) && r.skip >= r.groups[r.at].NumRows() {
				r.skip -= r.groups[r.at].NumRows()
				r.at++
			}
			if r.at == len(r.groups) {
				return false, nil
			}
			for _, c := range r.columns {
				if err := c.open(r.groups[r.at], r.skip); err != nil {
					return false, err
				}
			}
			r.at, r.skip, r.open = r.at+1, 0, true
		}
		got := 0
		for _, c := range r.columns {
			ok, err := c.nextRow()
			if err != nil {
				return false, err
			}
			if ok {
				got++
			}
		}
		switch got {
		case len(r.columns):
			return true, nil
		case 0:
			r.open = false
		default:
			return false, fmt.Errorf("row group %d has columns of different lengths", r.at-1)
		}
	}
}

func (r *frows) close() (err error) {
	defer Guard(r.path, &err)
	for _, c := range r.columns {
		c.close()
	}
	return nil
}
