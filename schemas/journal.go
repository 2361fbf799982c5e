package schemas

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// A run's journal is a folder next to its output, <output>.journal:
//
//	run.json                   the run's metadata, renewed while it runs
//	requests-000001.arrows     rows, an Arrow IPC stream; a resumed run adds a segment
//	requests-000001.sums       a line "end rows crc32c" for each batch of that stream
//	telemetry-000001.arrows    the same for telemetry
//	finished.json              the final metadata; only a run that ended by itself has it
//
// Batches are appended and handed to the kernel at once, so that a killed process loses at most what it
// had not yet given to the journal. The sums find damage that the stream itself has no means to tell; a
// cut exactly between two batches is told by run.json's missing successor, finished.json.

const (
	journalSuffix   = ".journal"
	journalRunFile  = "run.json"
	journalFinished = "finished.json"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// JournalPath gives the folder of the journal of a run that writes to output.
func JournalPath(output string) string { return output + journalSuffix }

// TelemetryPath gives the telemetry file of a run that writes to output.
func TelemetryPath(output string) string {
	return strings.TrimSuffix(output, ".parquet") + ".telemetry.parquet"
}

// Journal is the crash-safe store of a run's rows while it runs. One goroutine at a time may use each of
// its two streams; the methods for the two may be called at the same time.
type Journal struct {
	dir       string
	requests  segment[Request]
	telemetry segment[Sample]
}

// CreateJournal begins the journal of a run that writes to output. It fails if one is there: an
// interrupted run's rows are never overwritten.
func CreateJournal(output string, meta *RunMeta) (*Journal, error) {
	dir := JournalPath(output)
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s holds the rows of a run that was killed and %w: read it with 'parley analyze %s', continue it with 'parley replay --resume', or remove it", dir, ErrExists, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", err)
	}
	return newJournal(dir, 1, meta)
}

// ResumeJournal opens the journal of an interrupted run to add segments to it.
func ResumeJournal(output string, meta *RunMeta) (*Journal, error) {
	dir := JournalPath(output)
	names, err := journalFiles(dir, "requests-", ".arrows")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, journalFinished)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return newJournal(dir, len(names)+1, meta)
}

func newJournal(dir string, number int, meta *RunMeta) (*Journal, error) {
	j := &Journal{dir: dir}
	if err := j.SaveMeta(meta); err != nil {
		return nil, err
	}
	if err := j.requests.open(dir, "requests", number); err != nil {
		return nil, err
	}
	if err := j.telemetry.open(dir, "telemetry", number); err != nil {
		return nil, errors.Join(err, j.requests.close())
	}
	return j, nil
}

// Dir gives the journal's folder.
func (j *Journal) Dir() string { return j.dir }

// SaveMeta renews the run's metadata.
func (j *Journal) SaveMeta(meta *RunMeta) error {
	return writeJSON(filepath.Join(j.dir, journalRunFile), meta)
}

// AppendRequests hands rows to the kernel as one batch. After an error the stream takes no more rows.
func (j *Journal) AppendRequests(rows []Request) error { return j.requests.append(rows) }

// AppendSamples hands telemetry to the kernel as one batch.
func (j *Journal) AppendSamples(rows []Sample) error { return j.telemetry.append(rows) }

// Finish marks the journal as that of a run that ended by itself, and closes it. The rows stay in it
// until SealRun.
func (j *Journal) Finish(meta *RunMeta) error {
	err := errors.Join(j.requests.close(), j.telemetry.close(), j.SaveMeta(meta))
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(j.dir, journalFinished), meta)
}

// Abandon closes the files and leaves the journal unfinished, as a crash would.
func (j *Journal) Abandon() error {
	return errors.Join(j.requests.close(), j.telemetry.close())
}

// writeJSON writes v to path so that a reader sees the old or the new content, never a part.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, append(text, '\n'), 0o644); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, path)
}

// segment is one Arrow IPC stream of the journal with its sums.
type segment[T flatRow] struct {
	path    string
	file    *os.File
	sums    *os.File
	buf     *bufio.Writer
	sum     uint32
	end     int64
	builder *RecordBuilder[T]
	ipc     *ipc.Writer
	err     error
}

func (s *segment[T]) open(dir, name string, number int) error {
	s.path = filepath.Join(dir, fmt.Sprintf("%s-%06d.arrows", name, number))
	var err error
	if s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	sums := strings.TrimSuffix(s.path, ".arrows") + ".sums"
	if s.sums, err = os.OpenFile(sums, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
		return errors.Join(err, s.file.Close())
	}
	s.buf = bufio.NewWriterSize(s.file, 1<<16)
	mem := memory.NewGoAllocator()
	s.builder = NewRecordBuilder[T](mem)
	// One compressor: the journal must not take more than one core from the load.
	s.ipc = ipc.NewWriter((*summed[T])(s), ipc.WithSchema(ArrowSchema[T]()), ipc.WithAllocator(mem),
		ipc.WithZstd(), ipc.WithCompressConcurrency(1))
	return nil
}

// summed is the segment as the writer below the IPC encoder: it sums what goes through.
type summed[T flatRow] segment[T]

func (s *summed[T]) Write(p []byte) (int, error) {
	s.sum = crc32.Update(s.sum, castagnoli, p)
	s.end += int64(len(p))
	return s.buf.Write(p)
}

func (s *segment[T]) append(rows []T) error {
	if s.err != nil || len(rows) == 0 {
		return s.err
	}
	rec := s.builder.Record(rows)
	defer rec.Release()
	s.err = s.ipc.Write(rec)
	if s.err == nil {
		s.err = s.buf.Flush()
	}
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.sums, "%d %d %08x\n", s.end, len(rows), s.sum)
	}
	if s.err != nil {
		s.err = fmt.Errorf("append to the journal %s: %w", s.path, s.err)
	}
	return s.err
}

func (s *segment[T]) close() error {
	if s.file == nil {
		return nil
	}
	var err error
	if s.err == nil {
		err = errors.Join(s.ipc.Close(), s.buf.Flush(), s.file.Sync())
	}
	s.builder.Release()
	err = errors.Join(err, s.file.Close(), s.sums.Close())
	s.file = nil
	return err
}

// JournalState says how a journal that was read ended.
type JournalState struct {
	Finished bool     // the run ended by itself
	Rows     int64    // rows read
	Damage   []string // what was found damaged, with the file; a cut at the end of a segment is none
}

// IsJournal says whether path is the folder of a journal.
func IsJournal(path string) bool {
	st, err := os.Stat(filepath.Join(path, journalRunFile))
	return err == nil && st.Mode().IsRegular()
}

// JournalMeta reads the newest metadata of a journal.
func JournalMeta(dir string) (*RunMeta, error) {
	name := filepath.Join(dir, journalFinished)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		name = filepath.Join(dir, journalRunFile)
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not the journal of a run: %w", dir, err)
	}
	var meta RunMeta
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &meta, nil
}

// ReadJournal gives the rows of a journal, batch by batch, to each. Every batch that was whole when the
// process stopped is read; what came after a cut is not there. Damage that is not a cut at the end ends
// the reading of its segment and stands in the state.
func ReadJournal(dir string, each func([]Request) error) (JournalState, error) {
	return readSegments(dir, "requests", each)
}

// ReadJournalSamples is ReadJournal for the telemetry.
func ReadJournalSamples(dir string, each func([]Sample) error) (JournalState, error) {
	return readSegments(dir, "telemetry", each)
}

func readSegments[T flatRow](dir, name string, each func([]T) error) (JournalState, error) {
	var state JournalState
	if !IsJournal(dir) {
		return state, fmt.Errorf("%s is not the journal of a run", dir)
	}
	_, err := os.Stat(filepath.Join(dir, journalFinished))
	state.Finished = err == nil
	names, err := journalFiles(dir, name+"-", ".arrows")
	if err != nil {
		return state, err
	}
	for _, path := range names {
		damage, err := readSegment(path, func(rows []T) error {
			state.Rows += int64(len(rows))
			return each(rows)
		})
		if damage != "" {
			state.Damage = append(state.Damage, damage)
		}
		if err != nil {
			return state, err
		}
	}
	return state, nil
}

// eachError is an error of the caller's function, told from the reader's own.
type eachError struct{ error }

func (e eachError) Unwrap() error { return e.error }

func readSegment[T flatRow](path string, each func([]T) error) (damage string, err error) {
	sums, damage, err := readSums(path)
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	// Only what the sums cover is read: a batch whose line is missing was being written at the kill.
	whole := 0
	for whole < len(sums) && sums[whole].end <= size {
		whole++
	}
	if whole < len(sums) {
		damage = fmt.Sprintf("%s: %d bytes long, but %d were written: cut off after the run", path, size, sums[len(sums)-1].end)
	}
	if whole == 0 {
		return damage, nil
	}
	bad, err := verify(file, sums[:whole])
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if bad < whole {
		damage = fmt.Sprintf("%s: batch %d does not match its sum: damaged; it and the %d batches after it are left out", path, bad+1, whole-bad-1)
		whole = bad
	}
	if whole == 0 {
		return damage, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	err = readBatches(path, io.LimitReader(file, sums[whole-1].end), sums[:whole], each)
	if own, ok := errors.AsType[eachError](err); ok {
		return damage, own.error
	}
	if err != nil {
		damage = err.Error()
	}
	return damage, nil
}

func readBatches[T flatRow](path string, in io.Reader, sums []batchSum, each func([]T) error) (err error) {
	batch := 0
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: batch %d: the Arrow reader stopped with: %v", path, batch+1, p)
		}
	}()
	r, err := ipc.NewReader(bufio.NewReaderSize(in, 1<<16), ipc.WithAllocator(memory.NewGoAllocator()))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer r.Release()
	for ; batch < len(sums); batch++ {
		if !r.Next() {
			return fmt.Errorf("%s: batch %d of %d is missing: %w", path, batch+1, len(sums), errors.Join(r.Err(), io.ErrUnexpectedEOF))
		}
		rows, err := rowsOf[T](r.Record())
		if err == nil && len(rows) != sums[batch].rows {
			err = fmt.Errorf("%d rows, %d were written", len(rows), sums[batch].rows)
		}
		if err != nil {
			return fmt.Errorf("%s: batch %d: %w", path, batch+1, err)
		}
		if err := each(rows); err != nil {
			return eachError{err}
		}
	}
	return nil
}

type batchSum struct {
	end  int64
	rows int
	crc  uint32
}

// readSums reads the lines of a segment's sums. A last line without its end is one that was being
// written; a line that is not of our form is damage, and what stands before it is still good.
func readSums(segment string) (sums []batchSum, damage string, err error) {
	path := strings.TrimSuffix(segment, ".arrows") + ".sums"
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if st, err := os.Stat(segment); err == nil && st.Size() == 0 {
			return nil, "", nil // the process was killed between the making of the two files
		}
		return nil, fmt.Sprintf("%s is missing: the rows of its segment cannot be checked and are left out", path), nil
	}
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var s batchSum
		n, err := fmt.Sscanf(line, "%d %d %x\n", &s.end, &s.rows, &s.crc)
		if n != 3 || err != nil || s.rows <= 0 || len(sums) > 0 && s.end <= sums[len(sums)-1].end {
			return sums, fmt.Sprintf("%s: line %d is damaged; what comes after it is left out", path, len(sums)+1), nil
		}
		sums = append(sums, s)
	}
	return sums, "", nil
}

// verify gives the index of the first batch whose bytes do not match their sum, len(sums) if all do.
func verify(in io.ReadSeeker, sums []batchSum) (int, error) {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	crc := crc32.New(castagnoli)
	var at int64
	for i, s := range sums {
		if _, err := io.CopyN(crc, in, s.end-at); err != nil {
			return 0, err
		}
		at = s.end
		if crc.Sum32() != s.crc {
			return i, nil
		}
	}
	return len(sums), nil
}

// SealRun turns the journal of output into its Parquet files with meta in the footer, and removes the
// journal once both stand under their names. It gives the number of rows. force lets it replace files.
func SealRun(output string, meta *RunMeta, force bool) (int64, error) {
	dir := JournalPath(output)
	telemetry := TelemetryPath(output)
	samples, err := seal(telemetry, force, meta, func(each func([]Sample) error) (JournalState, error) {
		return ReadJournalSamples(dir, each)
	})
	if err != nil {
		return 0, fmt.Errorf("write the telemetry (the rows are safe in %s): %w", dir, err)
	}
	if samples > 0 {
		meta.Telemetry = filepath.Base(telemetry)
	}
	rows, err := seal(output, force, meta, func(each func([]Request) error) (JournalState, error) {
		return ReadJournal(dir, each)
	})
	if err != nil {
		return 0, fmt.Errorf("write the results (the rows are safe in %s): %w", dir, err)
	}
	return rows, removeJournal(dir)
}

func seal[T Row](path string, force bool, meta *RunMeta, read func(func([]T) error) (JournalState, error)) (int64, error) {
	w, err := Create[T](path, force)
	if err != nil {
		return 0, err
	}
	state, err := read(func(rows []T) error { return w.Write(rows...) })
	if err == nil && len(state.Damage) > 0 {
		err = fmt.Errorf("the journal is damaged: %s", strings.Join(state.Damage, "; "))
	}
	if err != nil {
		return 0, errors.Join(err, w.Abort())
	}
	return state.Rows, w.Close(meta)
}

// removeJournal removes the files that belong to a journal, and the folder if nothing else is in it.
func removeJournal(dir string) error {
	segments, err := journalFiles(dir, "", ".arrows")
	sums, err2 := journalFiles(dir, "", ".sums")
	errs := []error{err, err2}
	for _, name := range append(segments, sums...) {
		errs = append(errs, os.Remove(name))
	}
	for _, name := range []string{journalFinished, journalRunFile, ""} {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// journalFiles lists the files of a folder by prefix and suffix, in order of their names.
func journalFiles(dir, prefix, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}
