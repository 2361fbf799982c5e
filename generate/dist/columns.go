package dist

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"parley/schemas"
)

// readColumns reads columns of numbers from a CSV file with a heading line (with commas, semicolons or tabs) or
// from a Parquet file, and their weights from another one, if it is named. A column of the name "" is the only
// one that the file has. Rows in which something is missing are left out, and equal rows are put together, by
// which weights come about where there were none, so that the values of a long file fit into the metadata of a
// dataset. No weights are nil.
func readColumns(name string, resolve func(string) string, weightColumn string, names ...string) (columns [][]float64, weights []float64, err error) {
	if resolve != nil {
		name = resolve(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	want := names
	if weightColumn != "" {
		want = append(slices.Clone(names), weightColumn)
	}
	read, magic := csvColumns, make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err == nil && string(magic) == "PAR1" {
		read = parquetColumns
	}
	all, err := read(f, name, want)
	if err != nil {
		return nil, nil, err
	}
	columns = make([][]float64, len(names))
	at, repeated := map[string]int{}, false
	for i := range all[0] {
		var key []byte
		missing, weight := false, 1.0
		for c := range all {
			missing = missing || math.IsNaN(all[c][i])
			if c == len(names) {
				weight = all[c][i]
				break
			}
			key = strconv.AppendUint(append(key, ' '), math.Float64bits(all[c][i]), 36)
		}
		if missing {
			continue
		}
		if n, ok := at[string(key)]; ok {
			weights[n] += weight
			repeated = true
			continue
		}
		at[string(key)] = len(at)
		weights = append(weights, weight)
		for c := range columns {
			columns[c] = append(columns[c], all[c][i])
		}
	}
	if len(at) == 0 {
		return nil, nil, fmt.Errorf("%s: column %q has no values", name, strings.Join(names, ", "))
	}
	if weightColumn == "" && !repeated {
		weights = nil
	}
	return columns, weights, nil
}

// find gives the places of the wanted columns among those that a file has.
func find(name string, have, want []string) ([]int, error) {
	at := make([]int, len(want))
	for i, w := range want {
		if w == "" && len(have) == 1 {
			continue
		}
		if at[i] = slices.Index(have, w); at[i] < 0 {
			return nil, fmt.Errorf("%s: no column %q; it has %s", name, w, strings.Join(have, ", "))
		}
	}
	return at, nil
}

func csvColumns(f *os.File, name string, names []string) ([][]float64, error) {
	in := bufio.NewReader(f)
	line, _ := in.Peek(in.Size())
	line, _, _ = bytes.Cut(line, []byte("\n"))
	r := csv.NewReader(in)
	r.ReuseRecord = true
	for _, separator := range ";\t" {
		if bytes.ContainsRune(line, separator) && !bytes.ContainsRune(line, ',') {
			r.Comma = separator
		}
	}
	heading, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: no heading line: %w", name, err)
	}
	var have []string
	for _, h := range heading {
		have = append(have, strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))
	}
	at, err := find(name, have, names)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(names))
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		for c, i := range at {
			cell, x := strings.TrimSpace(row[i]), math.NaN()
			if cell != "" {
				if x, err = strconv.ParseFloat(cell, 64); err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
					return nil, fmt.Errorf("%s:%d: column %q: %q is not a number", name, line, have[i], cell)
				}
			}
			out[c] = append(out[c], x)
		}
	}
}

// parquetColumns reads leaves by their paths. Those of a list, such as turns.output_tokens of a dataset of
// parley, give a row for each entry.
func parquetColumns(f *os.File, name string, names []string) (out [][]float64, err error) {
	defer schemas.Guard(name, &err)
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pq, err := parquet.OpenFile(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s is not a whole Parquet file: %w", name, err)
	}
	var have []string
	for _, path := range pq.Schema().Columns() {
		have = append(have, strings.ReplaceAll(strings.Join(path, "."), ".list.element", ""))
	}
	at, err := find(name, have, names)
	if err != nil {
		return nil, err
	}
	for c, i := range at {
		var column []float64
		for _, group := range pq.RowGroups() {
			if column, err = appendChunk(column, group.ColumnChunks()[i]); err != nil {
				return nil, fmt.Errorf("%s: column %q: %w", name, have[i], err)
			}
		}
		if out = append(out, column); len(column) != len(out[0]) {
			return nil, fmt.Errorf("%s: the columns %q and %q have not the same number of values", name, have[at[0]], have[at[c]])
		}
	}
	return out, nil
}

func appendChunk(to []float64, chunk parquet.ColumnChunk) ([]float64, error) {
	pages := chunk.Pages()
	defer pages.Close()
	batch := make([]parquet.Value, 1024)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return to, nil
		}
		if err != nil {
			return nil, err
		}
		for values := page.Values(); ; {
			n, err := values.ReadValues(batch)
			for _, v := range batch[:n] {
				switch x := math.NaN(); {
				case v.IsNull():
					to = append(to, x)
				case v.Kind() == parquet.Int32:
					to = append(to, float64(v.Int32()))
				case v.Kind() == parquet.Int64:
					to = append(to, float64(v.Int64()))
				case v.Kind() == parquet.Float:
					to = append(to, float64(v.Float()))
				case v.Kind() == parquet.Double:
					to = append(to, v.Double())
				default:
					return nil, errors.New("its values are no numbers")
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
		parquet.Release(page)
	}
}
