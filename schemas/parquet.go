package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Kind names a kind of file.
type Kind string

// The kinds of file.
const (
	KindConversations Kind = "conversations"
	KindRequests      Kind = "requests"
	KindTelemetry     Kind = "telemetry"
)

// Versions of the kinds of file: a reader takes every file of its own major version or an older one.
const (
	MajorVersion = 1
	MinorVersion = 1
)

// createdBy is the program's name in the footer.
const createdBy = "parley"

// Footer keys.
const (
	keyKind    = "parley.kind"
	keyVersion = "parley.version"
	keyMeta    = "parley.meta"
	keyArrow   = "ARROW:schema" // where readers of the Arrow family look for a file's own schema
)

// Row is a type of row that has a file kind of its own.
type Row interface {
	Conversation | Request | Sample
}

// KindOf gives the kind of file that holds rows of type T.
func KindOf[T Row]() Kind {
	var t T
	switch any(t).(type) {
	case Conversation:
		return KindConversations
	case Request:
		return KindRequests
	default:
		return KindTelemetry
	}
}

// ErrExists is wrapped by the error of a writer whose file is there already.
var ErrExists = errors.New("exists already")

// Writer writes one file of rows. The file has its name only after Close; before that it stands beside
// it with the suffix ".partial". Not safe for concurrent use.
type Writer[T Row] struct {
	path, partial string
	force         bool
	file          *os.File
	out           *parquet.GenericWriter[T]
	codec         *codec
	rows          int64
	err           error
}

// rowGroupRows bounds the rows of a row group: what a reader has to hold at least, and what a writer
// buffers. Conversations are of any size, up to megabytes: who writes many ends the groups by their bytes
// (see Flush). Every row group costs some 30 kB in the footer, in the file and in memory.
func rowGroupRows(k Kind) int64 {
	if k == KindConversations {
		return 50_000
	}
	return 100_000
}

// CheckOutput says whether a file can be made at path: that nothing is there (unless force) and that the
// folder can be written to. Call it before long work.
func CheckOutput(path string, force bool) error {
	if st, err := os.Lstat(path); err == nil {
		if st.IsDir() {
			return fmt.Errorf("%s is a folder: give the name of a file", path)
		}
		if !force {
			return fmt.Errorf("%s %w: choose another name, or overwrite it with --force", path, ErrExists)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".probe-*")
	if err != nil {
		return fmt.Errorf("cannot write into the folder of %s: %w", path, err)
	}
	name := probe.Name()
	return errors.Join(probe.Close(), os.Remove(name))
}

// Create begins a file of rows at path. It fails if the file is there, unless force.
func Create[T Row](path string, force bool) (*Writer[T], error) {
	return createVersion[T](path, force, fmt.Sprintf("%d.%d", MajorVersion, MinorVersion))
}

func createVersion[T Row](path string, force bool, version string) (*Writer[T], error) {
	if err := CheckOutput(path, force); err != nil {
		return nil, err
	}
	partial := path + ".partial"
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", partial, err)
	}
	kind := KindOf[T]()
	compress := &codec{Codec: zstd.Codec{Level: zstd.SpeedFastest}}
	options := []parquet.WriterOption{
		// Page headers would repeat, uncompressed, the least and the greatest value that the column index has
		// already (cut to 16 bytes there): with long texts that doubled the file.
		parquet.DataPageStatistics(false),
		parquet.Compression(compress),
		parquet.ColumnPageBuffers(&pageBuffers{parquet.NewBufferPool(), filepath.Dir(path), "." + filepath.Base(path) + ".pages-*"}),
		parquet.MaxRowsPerRowGroup(rowGroupRows(kind)),
		parquet.CreatedBy(createdBy, Version(), ""),
		parquet.KeyValueMetadata(keyKind, string(kind)),
		parquet.KeyValueMetadata(keyVersion, version),
	}
	if kind == KindConversations {
		// Nobody looks for texts between two others, and the footer would carry two whole ones per row group.
		for _, text := range []string{"content", "content_parts", "tool_calls", "reasoning_content"} {
			options = append(options, parquet.SkipPageBounds("messages", "list", "element", text))
		}
		options = append(options, parquet.SkipPageBounds("tools"), parquet.SkipPageBounds("body"))
	}
	options = append(options, parquet.KeyValueMetadata(keyArrow, arrowFooter(kind)))
	out := parquet.NewGenericWriter[T](file, options...)
	return &Writer[T]{path: path, partial: partial, force: force, file: file, out: out, codec: compress}, nil
}

// Write adds rows. After an error the writer only passes on that error.
func (w *Writer[T]) Write(rows ...T) error {
	if w.err != nil {
		return w.err
	}
	n, err := w.out.Write(rows)
	w.rows += int64(n)
	if err != nil {
		w.err = fmt.Errorf("write %s: %w", w.partial, err)
	}
	return w.err
}

// Rows gives the number of rows written.
func (w *Writer[T]) Rows() int64 { return w.rows }

// Close writes the footer with meta (as JSON), makes the file durable and gives it its name.
func (w *Writer[T]) Close(meta any) error {
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return errors.Join(fmt.Errorf("metadata of %s: %w", w.path, err), w.Abort())
	}
	w.out.SetKeyValueMetadata(keyMeta, string(text))
	err = w.out.Close()
	if err == nil {
		err = addSums(w.file)
	}
	if err == nil {
		err = w.file.Sync()
	}
	err = errors.Join(err, w.file.Close())
	w.file = nil
	if err != nil {
		return errors.Join(fmt.Errorf("finish %s: %w", w.partial, err), os.Remove(w.partial))
	}
	if w.force {
		err = os.Rename(w.partial, w.path)
	} else if err = os.Link(w.partial, w.path); err == nil {
		// A link, unlike a rename, fails if somebody made the file since the check.
		err = os.Remove(w.partial)
	} else if !errors.Is(err, fs.ErrExist) {
		err = os.Rename(w.partial, w.path) // a file system without hard links
	}
	if err != nil {
		return fmt.Errorf("%s is whole but could not get its name (it is in %s): %w", w.path, w.partial, err)
	}
	return nil
}

// Abort drops the unfinished file. It does nothing after Close.
func (w *Writer[T]) Abort() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.file.Close(), os.Remove(w.partial))
	w.file = nil
	return err
}

// File is an open file of rows.
type File[T Row] struct {
	path  string
	file  *os.File
	pq    *parquet.File
	major int
	minor int

	noJoins bool // a file of conversations before version 1.1

	returned bool // another program wrote the rows anew: see OpenRequests

	sums     *fileSums // nil in a file that carries none
	verifyMu sync.Mutex
	verified []bool // by column chunk
}

// Inspect tells the kind of a Parquet file, or "" if it is not one of parley's. The error says that it
// is no readable Parquet file at all.
func Inspect(path string) (Kind, error) {
	file, pq, _, err := openParquet(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	kind, _ := pq.Lookup(keyKind)
	return Kind(kind), nil
}

func openParquet(path string) (_ *os.File, _ *parquet.File, _ *fileSums, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	st, err := file.Stat()
	if err != nil {
		return nil, nil, nil, err
	}
	if st.IsDir() {
		return nil, nil, nil, fmt.Errorf("%s is a folder, not a Parquet file", path)
	}
	defer Guard(path, &err)
	var pq *parquet.File
	sums, err := readSumsBlock(file, st.Size())
	if err == nil {
		pq, err = parquet.OpenFile(file, st.Size())
	}
	if err != nil {
		if !startsAs(file, "PAR1") {
			return nil, nil, nil, fmt.Errorf("%s is not a whole Parquet file (it does not begin as one), and %w", path, ErrForeign)
		}
		return nil, nil, nil, fmt.Errorf("%s is not a whole Parquet file (cut off, damaged, or of another kind): %w", path, err)
	}
	if by := pq.Metadata().CreatedBy; sums == nil && strings.HasPrefix(by, createdBy+" ") {
		return nil, nil, nil, fmt.Errorf("%s is damaged: parley wrote it (%s), but its block of checksums is not there", path, by)
	}
	return file, pq, sums, nil
}

// startsAs says whether a file begins with these bytes.
func startsAs(file io.ReaderAt, want string) bool {
	head := make([]byte, len(want))
	_, err := file.ReadAt(head, 0)
	return err == nil && string(head) == want
}

// Guard turns a panic of the Parquet reader, which damaged files can cause, into an error that names the
// file. Use it deferred around every read.
func Guard(path string, err *error) {
	if p := recover(); p != nil {
		*err = errors.Join(*err, fmt.Errorf("%s is damaged: the Parquet reader stopped with: %v", path, p))
	}
}

// Open opens a file of rows of type T. It refuses another kind of file and a newer major version.
func Open[T Row](path string) (_ *File[T], err error) {
	file, pq, sums, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	f := &File[T]{path: path, file: file, pq: pq, sums: sums}
	kind, ok := pq.Lookup(keyKind)
	want := KindOf[T]()
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is a Parquet file, but %w: a %s file is wanted", path, ErrForeign, want)
	case Kind(kind) != want:
		return nil, fmt.Errorf("%s is a %s file: a %s file is wanted", path, kind, want)
	}
	version, _ := pq.Lookup(keyVersion)
	major, minor, ok := strings.Cut(version, ".")
	if f.major, err = strconv.Atoi(major); err == nil && ok {
		f.minor, err = strconv.Atoi(minor)
	}
	if err != nil || !ok {
		return nil, fmt.Errorf("%s has no readable version in its footer (%q)", path, version)
	}
	if f.major > MajorVersion {
		return nil, fmt.Errorf("%s has version %s of the %s format; this parley reads up to %d.x: use a newer parley", path, version, want, MajorVersion)
	}
	if err := checkColumns[T](path, pq); err != nil {
		return nil, err
	}
	_, ok = pq.Schema().Lookup("turns", "list", "element", "joins", "list", "element")
	f.noJoins = want == KindConversations && !ok
	return f, nil
}

// checkColumns refuses a file whose columns are not those of T: parquet-go would read such a file as
// zero rows' worth of values, without an error. Columns that a newer minor version added are ignored;
// optional ones that an older one lacked are null, and lists that a since tag marks are empty.
func checkColumns[T Row](path string, pq *parquet.File) error {
	have := map[string]parquet.LeafColumn{}
	for _, c := range pq.Schema().Columns() {
		leaf, _ := pq.Schema().Lookup(c...)
		have[strings.Join(c, ".")] = leaf
	}
	var zero T
	mine := parquet.SchemaOf(zero)
	var problems []error
	for _, c := range mine.Columns() {
		name := strings.Join(c, ".")
		want, _ := mine.Lookup(c...)
		got, ok := have[name]
		switch {
		case !ok && !want.Node.Optional() && !addedLater(reflect.TypeFor[T](), c):
			problems = append(problems, fmt.Errorf("%s lacks the column %s", path, name))
		case ok && got.Node.Type().Kind() != want.Node.Type().Kind():
			problems = append(problems, fmt.Errorf("%s: column %s is %s, should be %s", path, name, got.Node.Type(), want.Node.Type()))
		}
	}
	return errors.Join(problems...)
}

// addedLater says whether the column at a path is, or is inside, a field of T that a minor version after
// 1.0 added (its since tag says which).
func addedLater(t reflect.Type, path []string) bool {
	for _, name := range path {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return false
		}
		for i := range t.NumField() { // Parquet's own levels, list and element, are no fields
			f := t.Field(i)
			if column, _, _ := strings.Cut(f.Tag.Get("parquet"), ","); column == name {
				if f.Tag.Get("since") != "" {
					return true
				}
				t = f.Type
				break
			}
		}
	}
	return false
}

// Path gives the file's path.
func (f *File[T]) Path() string { return f.path }

// NumRows gives the number of rows by the footer.
func (f *File[T]) NumRows() int64 { return f.pq.NumRows() }

// Parquet gives the underlying file for column-wise reading. Verify the columns first, and use Guard
// around the reading.
func (f *File[T]) Parquet() *parquet.File { return f.pq }

// Meta decodes the footer's metadata into v, a *DatasetMeta or *RunMeta.
func (f *File[T]) Meta(v any) error {
	text, ok := f.pq.Lookup(keyMeta)
	if !ok {
		return fmt.Errorf("%s has no metadata in its footer", f.path)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("metadata of %s: %w", f.path, err)
	}
	return nil
}

// Close closes the file.
func (f *File[T]) Close() error { return f.file.Close() }

// Rows reads the rows in order from row first on. An error ends the sequence; so does the end of the
// file, if as many rows came as the footer promises.
func (f *File[T]) Rows(first int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		// Only the reader runs under the guard, never the body of the caller's loop.
		in, err := f.reader(first)
		if err != nil {
			yield(zero, err)
			return
		}
		defer in.Close()
		batch := make([]T, batchRows[T]())
		for read := first; ; {
			n, err := f.read(in, batch)
			for i := range n {
				row := batch[i]
				batch[i] = zero // its strings and lists belong to the caller now
				if !yield(row, nil) {
					return
				}
			}
			read += int64(n)
			switch {
			case errors.Is(err, io.EOF) && read == f.NumRows():
				return
			case errors.Is(err, io.EOF):
				err = fmt.Errorf("%s: %d rows were read, the footer promises %d", f.path, read, f.NumRows())
			case err != nil:
				err = fmt.Errorf("%s: row %d: %w", f.path, read, err)
			case n == 0:
				err = fmt.Errorf("%s: row %d: the reader gave no row and no error", f.path, read)
			}
			if err != nil {
				yield(zero, err)
				return
			}
		}
	}
}

func (f *File[T]) reader(first int64) (in *parquet.GenericReader[T], err error) {
	if f.returned {
		return nil, fmt.Errorf("%s was written anew by %s: its columns can be analyzed, its rows not be read whole", f.path, f.pq.Metadata().CreatedBy)
	}
	if err := f.Verify(); err != nil {
		return nil, err
	}
	defer Guard(f.path, &err)
	in = parquet.NewGenericReader[T](f.pq)
	if first > 0 {
		if err := in.SeekToRow(first); err != nil {
			return nil, fmt.Errorf("%s: go to row %d: %w", f.path, first, err)
		}
	}
	return in, nil
}

func (f *File[T]) read(in *parquet.GenericReader[T], batch []T) (n int, err error) {
	defer Guard(f.path, &err)
	n, err = in.Read(batch)
	if c, ok := any(batch).([]Conversation); ok && f.noJoins {
		for i := range n {
			clearJoins(c[i].Turns)
		}
	}
	return n, err
}

// clearJoins takes out what parquet-go reads for a list inside a list that a file does not have: one empty
// string.
func clearJoins(turns []Turn) {
	for i := range turns {
		turns[i].Joins = nil
	}
}

func batchRows[T Row]() int {
	if KindOf[T]() == KindConversations {
		return 16
	}
	return 1024
}
