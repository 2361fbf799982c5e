package importer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"parley/generate/rawjson"
	"parley/schemas"
)

// openParquet opens a Parquet file that parley did not make.
func openParquet(file *os.File) (pq *parquet.File, err error) {
	defer schemas.Guard(file.Name(), &err)
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if pq, err = parquet.OpenFile(file, st.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return nil, fmt.Errorf("it is not a whole Parquet file (cut off, damaged, or of another kind): %w", err)
	}
	return pq, nil
}

// parquetKeys gives the columns of a file, each with the first byte of its values as JSON.
func parquetKeys(file *os.File) (map[string]byte, error) {
	pq, err := openParquet(file)
	if err != nil {
		return nil, err
	}
	keys := map[string]byte{}
	for _, f := range pq.Schema().Fields() {
		keys[f.Name()] = 's'
		if n := newNode(pq.Schema(), f, nil, 0, 0); n != nil && (n.repeated || n.element() != nil) {
			keys[f.Name()] = '['
		} else if !f.Leaf() {
			keys[f.Name()] = '{'
		}
	}
	return keys, nil
}

// parquetRows gives the rows of a Parquet file as JSON objects without nulls. Text is text, other bytes
// (images) are data URLs, times are as RFC 3339 has them.
//
// A long row and those behind it in its row group go through a temporary file: the pages and the dictionary in which they
// stand, which take several times their size, are gone then before anybody works on them.
type parquetRows struct {
	path    string
	groups  []parquet.RowGroup
	rows    int64 // by the footer
	nodes   []*node
	columns []*column
	at      int // the next row group
	open    bool
	read    int64 // rows
	buf     []byte
	given   int64    // rows
	aside   *os.File // rows that were read and not yet given
	lengths []int    // of these
}

// longRow is from when on a row is long, in bytes.
const longRow = 16 << 20

func newParquetRows(s *source, want func(string) bool) (*parquetRows, error) {
	pq, err := openParquet(s.file)
	if err != nil {
		return nil, err
	}
	r := &parquetRows{path: s.name, groups: pq.RowGroups(), rows: pq.NumRows()}
	for _, f := range pq.Schema().Fields() {
		if want != nil && !want(f.Name()) {
			continue
		}
		if n := newNode(pq.Schema(), f, nil, 0, 0); n != nil {
			r.nodes = append(r.nodes, n)
			r.columns = n.columns(r.columns)
		}
	}
	if len(r.nodes) == 0 {
		return nil, errors.New("it has no column that is wanted")
	}
	s.close = append(s.close, r.close)
	return r, nil
}

// Next gives the next row.
func (r *parquetRows) Next() (rec rawjson.Record, err error) {
	defer schemas.Guard(r.path, &err)
	for r.aside == nil && rec.Data == nil {
		if !r.open {
			if r.at == len(r.groups) {
				if r.read < r.rows {
					return rec, fmt.Errorf("%d rows were read, the footer promises %d", r.read, r.rows)
				}
				return rec, io.EOF
			}
			for _, c := range r.columns {
				c.start(r.groups[r.at])
			}
			r.at, r.open = r.at+1, true
		}
		row, err := r.inGroup()
		if err == nil && len(row) >= longRow {
			err = r.setAside(row)
			row = nil
		}
		if err != nil {
			return rec, fmt.Errorf("row %d: %w", r.read+1, err)
		}
		rec.Data = row
	}
	if r.aside != nil {
		rec.Data = make([]byte, r.lengths[0])
		if _, err := io.ReadFull(r.aside, rec.Data); err != nil {
			return rec, err
		}
		if r.lengths = r.lengths[1:]; len(r.lengths) == 0 {
			err = r.dropAside()
		}
	}
	r.given++
	rec.Number = r.given
	return rec, err
}

// inGroup gives the next row of the row group; at its end there is none.
func (r *parquetRows) inGroup() ([]byte, error) {
	got := 0
	for _, c := range r.columns {
		ok, err := c.nextRow()
		if err != nil {
			return nil, err
		}
		if ok {
			got++
		}
	}
	if got == 0 {
		r.open = false
		return nil, nil
	}
	if got < len(r.columns) {
		return nil, fmt.Errorf("row group %d has columns of different lengths", r.at-1)
	}
	if r.read == r.rows {
		return nil, errors.New("the footer promises no more rows than those before")
	}
	r.read++
	var err error
	r.buf, err = object(r.buf[:0], r.nodes)
	return r.buf, err
}

// setAside writes a row and those behind it in its row group into a temporary file, and forgets the row group.
func (r *parquetRows) setAside(row []byte) (err error) {
	if r.aside, err = os.CreateTemp("", "parley-import-*"); err != nil {
		return fmt.Errorf("a long row needs a temporary file: %w", err)
	}
	for err == nil && r.open {
		r.lengths = append(r.lengths, len(row))
		if _, err = r.aside.Write(row); err == nil {
			row, err = r.inGroup()
		}
	}
	for _, c := range r.columns {
		c.close()
	}
	r.buf = nil
	giveBack()
	if err == nil {
		_, err = r.aside.Seek(0, io.SeekStart)
	}
	return err
}

// giveBack gives the memory of long pages back before more is taken. What lies in pools goes with the second collection.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}

func (r *parquetRows) dropAside() error {
	f := r.aside
	r.aside = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Keep copies a row; one that was set aside has memory of its own.
func (r *parquetRows) Keep(rec rawjson.Record) []byte {
	if len(rec.Data) >= longRow {
		return rec.Data
	}
	return bytes.Clone(rec.Data)
}

func (r *parquetRows) close() (err error) {
	defer schemas.Guard(r.path, &err)
	for _, c := range r.columns {
		c.close()
	}
	if r.aside != nil {
		return r.dropAside()
	}
	return nil
}

// node is a node of a file's schema.
type node struct {
	name     string
	key      []byte // the name as JSON, with a colon
	def, rep int    // levels at and above which the node is there
	optional bool
	repeated bool
	leaf     *column
	kids     []*node
}

func newNode(root *parquet.Schema, n parquet.Field, path []string, def, rep int) *node {
	path = append(path[:len(path):len(path)], n.Name())
	f := &node{name: n.Name(), key: append(rawjson.AppendText(nil, []byte(n.Name())), ':'), optional: n.Optional(), repeated: n.Repeated()}
	if f.optional {
		def++
	}
	if f.repeated {
		def++
		rep++
	}
	f.def, f.rep = def, rep
	if n.Leaf() {
		c, ok := root.Lookup(path...)
		if !ok {
			return nil
		}
		f.leaf = &column{index: int(c.ColumnIndex), def: def, write: writer(n)}
		return f
	}
	for _, kid := range n.Fields() {
		if k := newNode(root, kid, path, def, rep); k != nil {
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
func (f *node) element() *node {
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

func (f *node) columns(dst []*column) []*column {
	if f.leaf != nil {
		return append(dst, f.leaf)
	}
	for _, k := range f.kids {
		dst = k.columns(dst)
	}
	return dst
}

// first gives the leftmost column, whose levels tell what is there.
func (f *node) first() *column {
	for f.leaf == nil {
		f = f.kids[0]
	}
	return f.leaf
}

// skip takes one value, a null, off each column below.
func (f *node) skip() {
	for _, c := range f.columns(nil) {
		c.take()
	}
}

var errLevels = errors.New("its columns do not fit together")

// object appends the nodes' values as an object, without those that are null.
func object(dst []byte, nodes []*node) ([]byte, error) {
	dst = append(dst, '{')
	for _, n := range nodes {
		before := len(dst)
		if dst[before-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, n.key...)
		from := len(dst)
		var err error
		if dst, err = n.append(dst); err != nil {
			return dst, err
		}
		if string(dst[from:]) == "null" {
			dst = dst[:before]
		}
	}
	return append(dst, '}'), nil
}

// append appends the node's value in the current row.
func (f *node) append(dst []byte) ([]byte, error) {
	if f.repeated {
		return f.list(dst, f.single)
	}
	v, ok := f.first().peek()
	if !ok {
		return dst, errLevels
	}
	if f.optional && v.DefinitionLevel() < f.def {
		f.skip()
		return append(dst, "null"...), nil
	}
	if e := f.element(); e != nil {
		inner := f.kids[0]
		if e == inner {
			return inner.list(dst, inner.single)
		}
		return inner.list(dst, e.append)
	}
	return f.single(dst)
}

// list appends the items of a repeated node.
func (f *node) list(dst []byte, item func([]byte) ([]byte, error)) ([]byte, error) {
	first := f.first()
	v, ok := first.peek()
	if !ok {
		return dst, errLevels
	}
	dst = append(dst, '[')
	if v.DefinitionLevel() < f.def {
		f.skip()
		return append(dst, ']'), nil
	}
	for {
		var err error
		if dst, err = item(dst); err != nil {
			return dst, err
		}
		if v, ok := first.peek(); !ok || v.RepetitionLevel() < f.rep {
			return append(dst, ']'), nil
		}
		dst = append(dst, ',')
	}
}

// single appends one value of the node, apart from its being optional or repeated.
func (f *node) single(dst []byte) ([]byte, error) {
	if f.leaf == nil {
		return object(dst, f.kids)
	}
	v, ok := f.leaf.peek()
	if !ok {
		return dst, errLevels
	}
	if v.IsNull() {
		dst = append(dst, "null"...)
	} else {
		dst = f.leaf.write(dst, v)
	}
	f.leaf.take()
	return dst, nil
}

// column reads one column value by value.
type column struct {
	index int
	def   int
	write func(dst []byte, v parquet.Value) []byte

	pages  parquet.Pages
	values parquet.ValueReader
	page   parquet.Page
	buf    []parquet.Value
	have   []parquet.Value // of buf, not yet used; they point into the page
	ended  bool
	begun  bool // values of the current row were taken
	err    error
}

func (c *column) start(group parquet.RowGroup) {
	c.close()
	c.pages, c.ended = group.ColumnChunks()[c.index].Pages(), false
}

func (c *column) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages != nil {
		_ = c.pages.Close() // nothing was written
	}
	clear(c.buf) // values point into pages
	c.pages, c.page, c.values, c.have = nil, nil, nil, nil
}

// fill makes sure that there is a value to look at; false at the end of the row group or after an error.
func (c *column) fill() bool {
	for len(c.have) == 0 {
		if c.ended || c.err != nil {
			return false
		}
		if c.values == nil {
			end := thrifty() // a long page is unpacked and decoded in several steps
			page, err := c.pages.ReadPage()
			end()
			if errors.Is(err, io.EOF) {
				c.ended = true
				return false
			}
			if c.err = err; err != nil {
				return false
			}
			if c.page, c.values = page, page.Values(); page.Size() >= longRow || page.Dictionary() != nil && page.Dictionary().Size() >= longRow {
				giveBack()
			}
		}
		if c.buf == nil {
			c.buf = make([]parquet.Value, 256)
		}
		n, err := c.values.ReadValues(c.buf)
		if err != nil && !errors.Is(err, io.EOF) {
			c.err = err
			return false
		}
		if c.have = c.buf[:n]; n == 0 { // the page is used up; before, its values still pointed into it
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		}
	}
	return true
}

// nextRow says whether there is another row, and that nothing is left of the one before.
func (c *column) nextRow() (bool, error) {
	ok := c.fill()
	if c.err != nil {
		return false, c.err
	}
	if ok && c.have[0].RepetitionLevel() != 0 {
		return false, errLevels
	}
	c.begun = false
	return ok, nil
}

// peek gives the next value of the current row.
func (c *column) peek() (parquet.Value, bool) {
	if !c.fill() || c.begun && c.have[0].RepetitionLevel() == 0 {
		return parquet.Value{}, false
	}
	return c.have[0], true
}

// take goes past the value that peek gave.
func (c *column) take() {
	if _, ok := c.peek(); ok {
		c.have, c.begun = c.have[1:], true
	}
}

// writer gives what appends a column's values as JSON.
func writer(n parquet.Node) func([]byte, parquet.Value) []byte {
	var stamp *format.TimestampType
	isTime := false
	if logical := n.Type().LogicalType(); logical != nil {
		stamp, isTime = logical.Value.(*format.TimestampType)
	}
	moment := func(dst []byte, t time.Time) []byte { return t.UTC().AppendFormat(dst, `"`+time.RFC3339Nano+`"`) }
	number := func(dst []byte, f float64, bits int) []byte {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return append(dst, "null"...)
		}
		return strconv.AppendFloat(dst, f, 'g', -1, bits)
	}
	switch n.Type().Kind() {
	case parquet.Boolean:
		return func(dst []byte, v parquet.Value) []byte { return strconv.AppendBool(dst, v.Boolean()) }
	case parquet.Int96:
		return func(dst []byte, v parquet.Value) []byte { return moment(dst, timeOfInt96(v.Int96())) }
	case parquet.Int32:
		return func(dst []byte, v parquet.Value) []byte { return strconv.AppendInt(dst, int64(v.Int32()), 10) }
	case parquet.Int64:
		if !isTime {
			return func(dst []byte, v parquet.Value) []byte { return strconv.AppendInt(dst, v.Int64(), 10) }
		}
		unit := time.Millisecond
		if stamp.Unit.Value != nil {
			unit = stamp.Unit.Value.Duration()
		}
		return func(dst []byte, v parquet.Value) []byte {
			per := int64(time.Second / unit)
			return moment(dst, time.Unix(v.Int64()/per, v.Int64()%per*int64(unit)))
		}
	case parquet.Float:
		return func(dst []byte, v parquet.Value) []byte { return number(dst, float64(v.Float()), 32) }
	case parquet.Double:
		return func(dst []byte, v parquet.Value) []byte { return number(dst, v.Double(), 64) }
	}
	return func(dst []byte, v parquet.Value) []byte {
		b := v.ByteArray()
		if utf8.Valid(b) {
			return rawjson.AppendText(dst, b)
		}
		dst = append(append(append(dst, `"data:`...), mediaType(b)...), ";base64,"...)
		return append(base64.StdEncoding.AppendEncode(dst, b), '"')
	}
}

// mediaType tells a kind of image by its first bytes.
func mediaType(b []byte) string {
	for begin, kind := range map[string]string{"\x89PNG": "image/png", "\xff\xd8\xff": "image/jpeg", "GIF8": "image/gif", "RIFF": "image/webp"} {
		if bytes.HasPrefix(b, []byte(begin)) {
			return kind
		}
	}
	return "application/octet-stream"
}

// timeOfInt96 decodes the old form of time stamps: nanoseconds of the day, and the Julian day.
func timeOfInt96(v deprecated.Int96) time.Time {
	const epoch = 2440588 // the Julian day of 1970-01-01
	nanos := int64(uint64(v[1])<<32 | uint64(v[0]))
	return time.Unix((int64(v[2])-epoch)*86400, nanos).UTC()
}

// ownRows gives the conversations of a dataset of parley's own.
type ownRows struct {
	src  *source
	pull func() (schemas.Conversation, error, bool)
	row  int64
}

func newRows(im *Importer, src *source) (reader, error) {
	f, err := schemas.Open[schemas.Conversation](src.name)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(f.Rows(0))
	src.close = append(src.close, f.Close, func() error { stop(); return nil })
	return &ownRows{src: src, pull: next}, nil
}

func (r *ownRows) next() (Item, error) {
	c, err, ok := r.pull()
	if !ok {
		return Item{}, io.EOF
	}
	if err != nil {
		return Item{}, err
	}
	r.row++
	item := Item{where: r.src.where(rawjson.Record{Number: r.row}), records: 1}
	item.work = func() (made, *problem) { return made{rows: []schemas.Conversation{c}}, nil }
	return item, nil
}
