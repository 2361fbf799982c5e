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

	"github.com/klauspost/compress/zstd"
)

// source is the input: a file, or something that can only be read once.
type source struct {
	name  string
	file  *os.File  // set where the input can be read again from any place
	once  io.Reader // set where not
	close []func() error
	files []fileAt // of a folder, as they were opened
}

// openSource opens a path; "-" is stdin. Files that gzip or zstd compressed are unpacked on the way.
func openSource(path string, stdin io.Reader) (*source, error) {
	if path == "-" {
		if stdin == nil {
			stdin = os.Stdin
		}
		return newSource("stdin", stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return openFolder(path, f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("import: %s: %w", path, err), f.Close())
	}
	var s *source
	if info.Mode().IsRegular() {
		head := make([]byte, 4)
		n, _ := f.ReadAt(head, 0)
		if unpacker(head[:n]) == nil {
			return &source{name: path, file: f, close: []func() error{f.Close}}, nil
		}
	}
	if s, err = newSource(path, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.close = append(s.close, f.Close)
	return s, nil
}

// openFolder makes one source of the JSON files of a folder, in the order of their names: a set of traces
// that comes as one file each.
func openFolder(path string, f *os.File) (*source, error) {
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	s := &source{name: path}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && (ext == ".json" || ext == ".jsonl") {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("import: the folder %s has no .json or .jsonl files", path)
	}
	slices.Sort(names)
	files := &filesReader{source: s, names: names}
	s.once = files
	s.close = append(s.close, files.Close)
	return s, nil
}

// filesReader reads files one after the other, with a line break between.
type filesReader struct {
	source *source
	names  []string
	file   *os.File
	off    int64
}

func (r *filesReader) Read(p []byte) (int, error) {
	for {
		if r.file == nil {
			if len(r.names) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(r.names[0])
			if err != nil {
				return 0, err
			}
			r.source.files = append(r.source.files, fileAt{r.names[0], r.off})
			r.file, r.names = f, r.names[1:]
		}
		n, err := r.file.Read(p)
		if errors.Is(err, io.EOF) && n == 0 {
			err = r.file.Close()
			r.file = nil
			if len(p) > 0 {
				p[0], n = '\n', 1
			}
		}
		r.off += int64(n)
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Close closes the file that is being read.
func (r *filesReader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// fileAt says where a file of a folder begins in what is read.
type fileAt struct {
	name string
	off  int64
}

// where gives the place of a record.
func (s *source) where(rec record) Where {
	w := Where{File: s.name, Line: rec.line, Record: rec.number}
	for _, f := range s.files {
		if f.off <= rec.off {
			w.File, w.Line = f.name, 0
		}
	}
	return w
}

func newSource(name string, in io.Reader) (*source, error) {
	br := bufio.NewReaderSize(in, 64<<10)
	head, _ := br.Peek(4)
	s := &source{name: name, once: br}
	if open := unpacker(head); open != nil {
		r, closer, err := open(br)
		if err != nil {
			return nil, fmt.Errorf("import: %s: %w", name, err)
		}
		s.once = r
		s.close = append(s.close, closer)
	}
	return s, nil
}

// unpacker gives what opens a compressed file with that beginning; nil for others.
func unpacker(head []byte) func(io.Reader) (io.Reader, func() error, error) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return func(in io.Reader) (io.Reader, func() error, error) {
			r, err := gzip.NewReader(in)
			if err != nil {
				return nil, nil, err
			}
			return r, r.Close, nil
		}
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return func(in io.Reader) (io.Reader, func() error, error) {
			r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
			if err != nil {
				return nil, nil, err
			}
			return r, func() error { r.Close(); return nil }, nil
		}
	}
	return nil
}

// peek gives the beginning of the input without using it up.
func (s *source) peek(n int) ([]byte, error) {
	if s.file != nil {
		head := make([]byte, n)
		got, err := s.file.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("import: %s: %w", s.name, err)
		}
		return head[:got], nil
	}
	br := bufio.NewReaderSize(s.once, n)
	head, err := br.Peek(n)
	s.once = br
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("import: %s: %w", s.name, err)
	}
	return bytes.Clone(head), nil
}

// reader gives the input from its beginning. An input that is read once gives it only once.
func (s *source) reader() io.Reader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, 1<<62)
	}
	return s.once
}

// seekable makes sure that the input can be read twice: what cannot is copied into a temporary file,
// which is removed at the end.
func (s *source) seekable() error {
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp("", "parley-import-*")
	if err != nil {
		return fmt.Errorf("import: %s has to be read twice, which needs a temporary file: %w", s.name, err)
	}
	s.close = append(s.close, func() error { return errors.Join(f.Close(), os.Remove(f.Name())) })
	if _, err := io.Copy(f, s.once); err != nil {
		return fmt.Errorf("import: %s: copy into a temporary file: %w", s.name, err)
	}
	s.file, s.once = f, nil
	return nil
}

func (s *source) Close() error {
	var errs []error
	for _, c := range s.close {
		errs = append(errs, c())
	}
	s.close = nil
	return errors.Join(errs...)
}
