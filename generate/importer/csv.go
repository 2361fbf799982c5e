package importer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"parley/generate/rawjson"
)

// csvRows gives the rows of a CSV file with a header as JSON objects of texts and numbers.
type csvRows struct {
	csv  *csv.Reader
	cols [][]byte // names as JSON, with a colon
	row  int64
	buf  []byte
}

// csvHeader gives the names of a CSV file's columns.
func csvHeader(text []byte) []string {
	line, _, _ := bytes.Cut(text[:min(len(text), 64<<10)], newline)
	line = bytes.TrimRight(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), "\r")
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma = separator(line)
	names, err := r.Read()
	if err != nil {
		return nil
	}
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// separator gives what stands between the names of a header: of comma, semicolon and tab the one that comes
// most.
func separator(line []byte) rune {
	best, most := ',', 0
	for _, c := range ",;\t" {
		if n := bytes.Count(line, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best
}

func newCSVRows(in io.Reader) (*csvRows, error) {
	br := bufio.NewReaderSize(in, 64<<10)
	if bom, _ := br.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = br.Discard(3) // they are there
	}
	head, err := br.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), newline)
	c := &csvRows{csv: csv.NewReader(br)}
	c.csv.Comma = separator(line)
	c.csv.FieldsPerRecord, c.csv.ReuseRecord = -1, true
	names, err := c.csv.Read()
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	for _, n := range names {
		c.cols = append(c.cols, append(rawjson.AppendText(nil, []byte(strings.TrimSpace(n))), ':'))
	}
	return c, nil
}

// Next gives the next row. One that is no CSV is bad.
func (c *csvRows) Next() (rawjson.Record, error) {
	row, err := c.csv.Read()
	var bad *csv.ParseError
	if err != nil && !errors.As(err, &bad) {
		return rawjson.Record{}, err
	}
	c.row++
	rec := rawjson.Record{Number: c.row}
	if err != nil {
		rec.Bad = fmt.Sprintf("line %d: %v", bad.StartLine, bad.Err)
		return rec, nil
	}
	line, _ := c.csv.FieldPos(0)
	rec.Line = int64(line)
	c.buf = append(c.buf[:0], '{')
	for i, cell := range row {
		if i >= len(c.cols) || cell == "" {
			continue
		}
		if len(c.buf) > 1 {
			c.buf = append(c.buf, ',')
		}
		c.buf = append(c.buf, c.cols[i]...)
		if first := cell[0]; (first == '-' || first >= '0' && first <= '9') && len(cell) < 30 && json.Valid([]byte(cell)) {
			c.buf = append(c.buf, cell...)
			continue
		}
		c.buf = rawjson.AppendText(c.buf, []byte(cell))
	}
	rec.Data = append(c.buf, '}')
	c.buf = rec.Data
	return rec, nil
}

// Keep copies a row.
func (c *csvRows) Keep(rec rawjson.Record) []byte { return bytes.Clone(rec.Data) }
