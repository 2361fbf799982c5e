package schemas

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// AppendRows adds the named columns of rows to c, as ReadColumns does from a file.
func (c *Table) AppendRows(rows []Request, names ...string) error {
	cols, err := c.want(names)
	if err != nil {
		return err
	}
	for _, col := range cols {
		if tag, ok := strings.CutPrefix(col.Name, "tag."); ok {
			for i := range rows {
				if v, ok := rows[i].Tags[tag]; ok {
					col.Codes = append(col.Codes, col.code([]byte(v)))
				} else {
					col.Codes = append(col.Codes, -1)
				}
			}
			continue
		}
		at := fieldOf(col.Name)
		if at < 0 {
			return fmt.Errorf("requests have no column %q", col.Name)
		}
		for i := range rows {
			col.appendValue(reflect.ValueOf(&rows[i]).Elem().Field(at))
		}
	}
	c.Rows += len(rows)
	return nil
}

func (c *Vector) appendValue(v reflect.Value) {
	null := false
	if v.Kind() == reflect.Pointer {
		if null = v.IsNil(); !null {
			v = v.Elem()
		}
	}
	switch {
	case c.Ints != nil && null:
		c.Ints = append(c.Ints, NullInt)
	case c.Ints != nil && v.Kind() == reflect.Bool:
		var b int64
		if v.Bool() {
			b = 1
		}
		c.Ints = append(c.Ints, b)
	case c.Ints != nil:
		c.Ints = append(c.Ints, v.Int())
	case c.Floats != nil && null:
		c.Floats = append(c.Floats, math.NaN())
	case c.Floats != nil:
		c.Floats = append(c.Floats, v.Float())
	case null:
		c.Codes = append(c.Codes, -1)
	default:
		c.Codes = append(c.Codes, c.code([]byte(v.String())))
	}
}

// ListsOf gives the chunk lists of rows, the first of which has the index first.
func ListsOf(rows []Request, first int) *Lists {
	l := &Lists{First: first, Offsets: []int32{0}, TokenAt: []int32{0}}
	for i := range rows {
		l.NS = append(l.NS, rows[i].ChunkNS...)
		l.Tokens = append(l.Tokens, rows[i].ChunkTokens...)
		l.Offsets = append(l.Offsets, int32(len(l.NS)))
		l.TokenAt = append(l.TokenAt, int32(len(l.Tokens)))
	}
	return l
}

// fieldOf gives the index of the field of Request that a column comes from, or -1.
func fieldOf(column string) int {
	t := reflect.TypeFor[Request]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("parquet"), ","); name == column {
			return i
		}
	}
	return -1
}
