package analyze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/schemas"
)

// Runs is the runs that an analysis reads: their metadata, and their files open for the columns that it
// will need. Close them at the end.
type Runs struct {
	list     []*run
	warnings []Warning
}

// run is one run: the files of its shards, or a journal.
type run struct {
	label    string
	meta     schemas.RunMeta // of the first shard, counts summed
	parts    []*part
	rows     int
	warnings []Warning
	frame    *frame        // what has been read
	chunks   *chunkFigures // what the chunk lists said
}

// part is the rows of one shard.
type part struct {
	path    string
	meta    schemas.RunMeta
	file    *schemas.File[schemas.Request] // nil for a journal, and for rows in memory
	memory  []schemas.Request              // rows that are in no file
	by      string                         // the program that wrote the rows anew; empty: parley
	rows    int
	shiftNS int64 // what to add to its moments to count from the run's origin
}

// Len gives the number of runs.
func (r *Runs) Len() int { return len(r.list) }

// Close closes the files.
func (r *Runs) Close() error {
	var errs []error
	for _, run := range r.list {
		for _, p := range run.parts {
			if p.file != nil {
				errs = append(errs, p.file.Close())
				p.file = nil
			}
		}
	}
	return errors.Join(errs...)
}

// Load opens the runs at paths: requests files, folders of them, glob patterns, and the journals of runs
// that did not finish. Files that are shards of one run (the same run id) become one run.
func Load(ctx context.Context, paths []string) (*Runs, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	runs := &Runs{}
	byID := map[string]*run{}
	for _, path := range files {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, runs.Close())
		}
		p, err := openPart(path)
		if err != nil {
			return nil, errors.Join(err, runs.Close())
		}
		r := byID[p.meta.RunID]
		if r == nil || p.meta.RunID == "" {
			r = &run{meta: p.meta}
			byID[p.meta.RunID] = r
			runs.list = append(runs.list, r)
		}
		r.parts = append(r.parts, p)
	}
	for _, r := range runs.list {
		if err := r.join(); err != nil {
			return nil, errors.Join(err, runs.Close())
		}
	}
	runs.sortPlan()
	runs.label()
	return runs, nil
}

// loadJournal opens the journal of a run whose metadata the caller has.
func loadJournal(dir string, meta schemas.RunMeta) (*Runs, error) {
	p, err := openPart(dir)
	if err != nil {
		return nil, err
	}
	p.meta = meta
	r := &run{meta: meta, parts: []*part{p}}
	if err := r.join(); err != nil {
		return nil, err
	}
	runs := &Runs{list: []*run{r}}
	runs.label()
	return runs, nil
}

// expand turns the inputs into a list of requests files and journals.
func expand(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("no result file was named")
	}
	var files []string
	var errs []error
	add := func(path string) {
		if !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	for _, path := range paths {
		found, err := expandOne(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, f := range found {
			add(f)
		}
	}
	if len(paths) > 1 {
		// A shell's glob names the telemetry that stands beside each run too. Named alone it is a mistake,
		// which opening it tells.
		if runs := slices.DeleteFunc(slices.Clone(files), isTelemetry); len(runs) > 0 {
			files = runs
		}
	}
	return files, errors.Join(errs...)
}

func isTelemetry(path string) bool {
	if !strings.HasSuffix(path, ".telemetry.parquet") {
		return false
	}
	kind, err := schemas.Inspect(path)
	return err == nil && kind == schemas.KindTelemetry
}

func expandOne(path string) ([]string, error) {
	path = filepath.Clean(path)
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir() && schemas.IsJournal(path):
		return []string{path}, nil
	case err == nil && st.IsDir():
		return requestsIn(path)
	case err == nil:
		return []string{path}, nil
	case schemas.IsJournal(schemas.JournalPath(path)):
		// The run has not finished, and its rows are still in the journal.
		return []string{schemas.JournalPath(path)}, nil
	case strings.ContainsAny(path, "*?["):
		matches, err := filepath.Glob(path)
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", path, err)
		}
		var files []string
		for _, m := range matches {
			if isRequests(m) {
				files = append(files, m)
			}
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("pattern %s matches no requests file", path)
		}
		slices.SortFunc(files, naturally)
		return files, nil
	}
	return nil, err
}

// requestsIn lists the requests files and journals of a folder.
func requestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); isRequests(path) {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no requests file and no journal of a run", dir)
	}
	slices.SortFunc(files, naturally)
	return files, nil
}

// naturally orders names as people do, numbers in them by size: c4, c16, c128.
func naturally(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n), cmp.Compare(len(x), len(y))); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(a, b)
}

func leadingDigits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }

// isRequests says whether a path of a folder or a pattern is an input. A damaged Parquet file is: it
// must not be left out in silence.
func isRequests(path string) bool {
	st, err := os.Stat(path)
	if err != nil {
		return false
	}
	if st.IsDir() {
		// The journal of a run that has its file already is a left-over of the same rows.
		_, err := os.Stat(strings.TrimSuffix(path, ".journal"))
		return schemas.IsJournal(path) && err != nil
	}
	if !strings.HasSuffix(path, ".parquet") {
		return false
	}
	kind, err := schemas.Inspect(path)
	return err != nil || kind == schemas.KindRequests || kind == "" && schemas.IsReturned(path)
}

func openPart(path string) (*part, error) {
	if schemas.IsJournal(path) {
		meta, err := schemas.JournalMeta(path)
		if err != nil {
			return nil, err
		}
		return &part{path: path, meta: *meta}, nil
	}
	f, by, err := schemas.OpenRequests(path)
	if err != nil {
		return nil, err
	}
	p := &part{path: path, file: f, rows: int(f.NumRows()), by: by}
	if err := f.Meta(&p.meta); err != nil && by == "" {
		return nil, errors.Join(err, f.Close())
	}
	if by != "" { // what the metadata says of all rows is not said of these
		p.meta.Planned, p.meta.Rows, p.meta.Counts = int64(p.rows), int64(p.rows), nil
	}
	return p, nil
}

// join makes one run of its shards.
func (r *run) join() error {
	slices.SortStableFunc(r.parts, func(a, b *part) int { return a.meta.Shard - b.meta.Shard })
	first := r.parts[0]
	r.meta = first.meta
	for i, p := range r.parts {
		if i > 0 && p.meta.Shard == r.parts[i-1].meta.Shard {
			return fmt.Errorf("%s and %s are both shard %d of run %s: give each part of a run once", r.parts[i-1].path, p.path, p.meta.Shard, p.meta.RunID)
		}
		if p.meta.Origin.Before(r.meta.Origin) {
			r.meta.Origin = p.meta.Origin
		}
	}
	for _, p := range r.parts {
		if p.by != "" {
			text := "%s was written anew by %s: the figures cover the rows that are in it"
			if p.meta.RunID == "" {
				text += "; its metadata is gone (the load asked for, the client's health, the clock), and the verdict goes by the rows alone"
			}
			r.warn("rewritten", text, p.path, p.by)
		}
	}
	if n := r.meta.Shards; n > len(r.parts) {
		r.warn("missing_shards", "only %d of the %d shards of the run are here: rates and counts cover those", len(r.parts), n)
	}
	counts := map[schemas.Status]int64{}
	var planned, rows, notAdmitted int64
	for _, p := range r.parts {
		p.shiftNS = p.meta.Origin.Sub(r.meta.Origin).Nanoseconds()
		planned += p.meta.Planned
		rows += p.meta.Rows
		notAdmitted += p.meta.NotAdmitted
		for s, n := range p.meta.Counts {
			counts[s] += n
		}
		r.meta.EndedNS = max(r.meta.EndedNS, p.meta.EndedNS+p.shiftNS)
		if p.meta.Ended != r.meta.Ended {
			r.warn("shards_differ", "shard %d ended with %q, shard %d with %q", first.meta.Shard, first.meta.Ended, p.meta.Shard, p.meta.Ended)
		}
		if p.meta.Dataset.ContentHash != first.meta.Dataset.ContentHash {
			return fmt.Errorf("%s and %s have one run id but different datasets", first.path, p.path)
		}
	}
	r.meta.Planned, r.meta.Rows, r.meta.NotAdmitted, r.meta.Counts = planned, rows, notAdmitted, counts
	if len(r.parts) > 1 {
		addLoads(&r.meta, r.parts)
	}
	return nil
}

// addLoads sums what the shards of a run asked for together.
func addLoads(meta *schemas.RunMeta, parts []*part) {
	meta.OfferedRate, meta.Concurrency = nil, nil
	for _, p := range parts {
		if v := p.meta.OfferedRate; v != nil {
			sum := *v
			if meta.OfferedRate != nil {
				sum += *meta.OfferedRate
			}
			meta.OfferedRate = &sum
		}
		if v := p.meta.Concurrency; v != nil {
			sum := *v
			if meta.Concurrency != nil {
				sum += *meta.Concurrency
			}
			meta.Concurrency = &sum
		}
	}
}

func (r *run) warn(kind, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{kind, fmt.Sprintf(format, args...)})
}

// unfinished says whether the run has no end of its own.
func (r *run) unfinished() bool {
	return slices.ContainsFunc(r.parts, func(p *part) bool { return p.meta.Ended == "" && p.by == "" })
}

// label gives every run a name: its own label, else its file's name, with its folder where several have that name,
// here or among others. Runs of one configuration may share a label; names made from files are unique.
func (r *Runs) label(others ...*run) {
	names := func(run *run) [3]string {
		path := strings.TrimSuffix(strings.TrimSuffix(run.parts[0].path, ".journal"), ".parquet")
		base := filepath.Base(path)
		return [3]string{base, filepath.Join(filepath.Base(filepath.Dir(path)), base), path}
	}
	seen := map[string]int{}
	for _, run := range slices.Concat(r.list, others) {
		n := names(run)
		for _, name := range slices.Compact(n[:]) {
			seen[name]++
		}
	}
	for _, run := range r.list {
		if run.label = run.meta.Label; run.label != "" {
			continue
		}
		for _, run.label = range names(run) {
			if seen[run.label] == 1 {
				break
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
