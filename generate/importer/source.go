package importer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"parley/generate/rawjson"
)

// source is one input: a file, or something that can only be read once.
type source struct {
	name   string
	file   *os.File  // set where the input can be read again from any place
	once   io.Reader // set where not
	kind   kind
	rows   bool // its records are rows
	lines  bool // and have lines
	late   bool // work on its items reads it again
	opened bool // the input that is read once is in use
	close  []func() error
}

// kind is the kind of file that records come in.
type kind int

const (
	kindJSON kind = iota // an array, or lines
	kindCSV
	kindParquet
)

// carrier cuts a file into records, each a JSON object. A record's data are valid until the next call, or
// from Keep as long as they are wanted.
type carrier interface {
	Next() (rawjson.Record, error)
	Keep(rawjson.Record) []byte
}

// filesOf gives the files that a path stands for: itself, or those of a folder in the order of their names.
func filesOf(path string) (files []string, folder bool, err error) {
	if path == "-" {
		return []string{path}, false, nil
	}
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return []string{path}, false, err
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("the folder %s has no files", path)
	}
	return files, true, err
}

// openSource opens a path; "-" is stdin. Files that gzip or zstd compressed are unpacked on the way.
func openSource(path string, stdin io.Reader) (*source, error) {
	s := &source{name: path, lines: true}
	if path == "-" {
		if stdin == nil {
			stdin = os.Stdin
		}
		s.name, s.once = "stdin", stdin
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		s.file, s.close = f, []func() error{f.Close}
		if st, err := f.Stat(); err != nil {
			return nil, errors.Join(err, f.Close())
		} else if !st.Mode().IsRegular() {
			s.file, s.once = nil, f
		}
	}
	head, err := s.peek(4)
	if err == nil {
		err = s.unpack(head)
	}
	if err == nil && bytes.Equal(head, []byte("PAR1")) {
		s.kind, s.rows, s.lines = kindParquet, true, false
		err = s.seekable()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// unpack reads a compressed file through what unpacks it.
func (s *source) unpack(head []byte) error {
	in := s.once
	if s.file != nil {
		in = s.file
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(bufio.NewReaderSize(in, 64<<10))
		if err != nil {
			return err
		}
		s.file, s.once, s.close = nil, r, append(s.close, r.Close)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		s.file, s.once, s.close = nil, r, append(s.close, func() error { r.Close(); return nil })
	}
	return nil
}

// peek gives the beginning of the input without using it up.
func (s *source) peek(n int) ([]byte, error) {
	if s.file != nil {
		head := make([]byte, n)
		got, err := s.file.ReadAt(head, 0)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return head[:got], err
	}
	br := bufio.NewReaderSize(s.once, n)
	head, err := br.Peek(n)
	if s.once = br; errors.Is(err, io.EOF) {
		err = nil
	}
	return bytes.Clone(head), err
}

// keys tells the kind of file, and the fields of its records: those of the first, and where that one is damaged
// of the next ones.
func (s *source) keys() ([]map[string]byte, error) {
	if s.kind == kindParquet {
		keys, err := parquetKeys(s.file)
		return []map[string]byte{keys}, err
	}
	head, err := s.peek(peekSize)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case len(text) == 0:
		return nil, errors.New("it is empty")
	case text[0] == '{' || text[0] == '[':
		if rest := bytes.TrimLeft(text, "[ \t\r\n"); len(rest) == 0 || rest[0] == ']' {
			return nil, errors.New("it holds no records")
		}
		list := []map[string]byte{keysOf(text)}
		for in := rawjson.NewScanner(bytes.NewReader(text)); len(list) < 10; {
			rec, err := in.Next()
			if err != nil {
				break // the end of what was looked at
			}
			if rec.Bad == "" {
				list = append(list, keysOf(rec.Data))
			}
		}
		return list, nil
	}
	columns := csvHeader(text)
	if len(columns) < 2 {
		line, _, _ := bytes.Cut(text[:min(len(text), 80)], newline)
		return nil, fmt.Errorf("it is neither JSON, Parquet nor CSV; it begins with %q", line)
	}
	s.kind, s.rows = kindCSV, true
	keys := map[string]byte{}
	for _, c := range columns {
		keys[c] = 's'
	}
	return []map[string]byte{keys}, nil
}

var newline = []byte("\n")

// records gives the input's records from the beginning, with the fields that are wanted where the kind of file
// lets others be left unread (nil: all). An input that is read once gives them only once.
func (s *source) records(want func(column string) bool) (carrier, error) {
	var in io.Reader = s.once
	if s.file != nil {
		in = io.NewSectionReader(s.file, 0, 1<<62)
	} else if s.opened {
		return nil, errors.New("internal error: an input that is read once is read twice")
	}
	s.opened = true
	switch s.kind {
	case kindParquet:
		return newParquetRows(s, want)
	case kindCSV:
		return newCSVRows(in)
	}
	return rawjson.NewScanner(in), nil
}

// each looks at the input's records until f says false.
func (s *source) each(want func(column string) bool, f func(rawjson.Record) bool) error {
	in, err := s.records(want)
	for more := true; more && err == nil; {
		var rec rawjson.Record
		if rec, err = in.Next(); err == nil {
			more = f(rec)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// seekable makes sure that the input can be read twice: what cannot is copied into a temporary file, which
// is removed at the end.
func (s *source) seekable() error {
	if s.file != nil {
		return nil
	}
	return s.replace(func(f *os.File) error {
		_, err := io.Copy(f, s.once)
		return err
	})
}

// asLines makes sure that each record can be read at its place: those of other kinds of files are written as
// JSON lines into a temporary file.
func (s *source) asLines(want func(string) bool) error {
	if s.kind == kindJSON {
		return s.seekable()
	}
	c, err := s.records(want)
	if err != nil {
		return err
	}
	err = s.replace(func(f *os.File) error {
		out := bufio.NewWriterSize(f, 64<<10)
		for {
			rec, err := c.Next()
			if errors.Is(err, io.EOF) {
				return out.Flush()
			}
			if err != nil {
				return err
			}
			if rec.Bad != "" { // as the scanner will see it again
				rec.Data = []byte(rec.Bad)
			}
			_, _ = out.Write(rec.Data) // Flush tells
			_ = out.WriteByte('\n')
		}
	})
	s.kind, s.lines = kindJSON, false
	return err
}

func (s *source) replace(fill func(f *os.File) error) error {
	f, err := os.CreateTemp("", "parley-import-*")
	if err != nil {
		return fmt.Errorf("it has to be read twice, which needs a temporary file: %w", err)
	}
	s.close = append(s.close, func() error { return errors.Join(f.Close(), os.Remove(f.Name())) })
	if err := fill(f); err != nil {
		return fmt.Errorf("copy into a temporary file: %w", err)
	}
	s.file, s.once = f, nil
	return nil
}

// where gives the place of a record.
func (s *source) where(rec rawjson.Record) Where {
	w := Where{File: s.name, Line: rec.Line, Record: rec.Number}
	if s.rows {
		w.What = "row"
	}
	if !s.lines {
		w.Line = 0
	}
	return w
}

func (s *source) Close() error {
	var errs []error
	for _, c := range slices.Backward(s.close) {
		errs = append(errs, c())
	}
	s.close = nil
	return errors.Join(errs...)
}
