package schemas

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// OpenParts opens a dataset that stands in several files, such as the parts of parley generate --shard: as one,
// with the conversations in the order of their index and one content hash, which is that of the same dataset in
// a single file. Each path is a file, a folder of parts, or a pattern such as parts/*.parquet. What is missing,
// there twice, or of another dataset is refused by name.
func OpenParts(paths ...string) (*Dataset, error) {
	var files []string
	for _, path := range paths {
		found, err := DatasetFiles(path)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 1 {
		return OpenDataset(files[0])
	}
	return openParts(files)
}

// DatasetFiles gives the files that a path stands for: those of a folder, of a pattern, or the file itself.
func DatasetFiles(path string) ([]string, error) {
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir():
		path = filepath.Join(path, "*.parquet")
	case err == nil || !strings.ContainsAny(path, "*?["):
		return []string{path}, nil
	}
	files, err := filepath.Glob(path)
	if err == nil && len(files) == 0 {
		err = fs.ErrNotExist
		if st != nil {
			err = fmt.Errorf("there is none in the folder, which is %w", ErrForeign)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return files, nil
}

// openParts opens the files of a dataset that were made with --shard.
func openParts(files []string) (_ *Dataset, err error) {
	d := &Dataset{path: filepath.Dir(files[0])}
	d.Closer = closeParts{d}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	for _, path := range files {
		part, err := OpenFile(path)
		if err != nil {
			return nil, err
		}
		d.parts = append(d.parts, part)
	}
	if err := d.checkParts(); err != nil {
		return nil, err
	}
	d.meta = d.parts[0].meta
	d.meta.Shard, d.meta.Whole, d.meta.Turns = "", 0, 0
	for _, part := range d.parts {
		d.meta.Turns += part.meta.Turns
		d.rows += part.rows
	}
	d.meta.Conversations = d.rows
	if whole := d.parts[0].meta.Whole; d.rows != whole {
		return nil, fmt.Errorf("%s: the parts have %d conversations, and the dataset has %d: one of them was changed", d.path, d.rows, whole)
	}
	if d.meta.ContentHash, err = d.arrange(); err != nil {
		return nil, err
	}
	d.read = func(first int64) iter.Seq2[Conversation, error] {
		from := make([]int64, len(d.parts)) // the row of each part that comes next
		for _, p := range d.order[:min(first, d.rows)] {
			from[p]++
		}
		return merged(d, first, func(p int) iter.Seq2[Conversation, error] { return d.parts[p].read(from[p]) })
	}
	return d, nil
}

type closeParts struct{ d *Dataset }

func (c closeParts) Close() error {
	var errs []error
	for _, p := range c.d.parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// checkParts says by name what keeps the parts from being one dataset: each of them once.
func (d *Dataset) checkParts() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	first, shards := d.parts[0], 0
	have := map[int]string{}
	for _, p := range d.parts {
		var i, n int
		if _, err := fmt.Sscanf(p.meta.Shard, "%d/%d", &i, &n); err != nil || n < 1 || i < 0 || i >= n {
			bad("%s is a whole dataset and no part of one, as generate --shard makes them: replay it by itself", p.path)
			continue
		}
		if shards == 0 {
			shards = n
		}
		if other, ok := have[i]; n != shards {
			bad("%s is a part of %d, and others are parts of %d", p.path, n, shards)
		} else if ok {
			bad("part %d of %d is there twice: %s and %s", i, n, other, p.path)
		} else {
			have[i] = p.path
		}
		a, b := first.meta, p.meta
		for _, v := range []struct{ name, first, this string }{
			{"seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed)}, {"source", a.Source, b.Source}, {"format", a.Format, b.Format},
			{"tokenizer", a.Tokenizer + " " + a.TokenizerHash, b.Tokenizer + " " + b.TokenizerHash},
			{"version of parley", a.ToolVersion, b.ToolVersion}, {"number of conversations in all", fmt.Sprint(a.Whole), fmt.Sprint(b.Whole)}, {"specification", string(a.Spec), string(b.Spec)},
		} {
			if v.first == v.this {
				continue
			}
			if v.name == "specification" {
				v.first, v.this = "one", "another"
			}
			bad("%s is a part of another dataset: its %s is %s, that of %s is %s", p.path, v.name, v.this, first.path, v.first)
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	var missing []string
	for i := range shards {
		if have[i] == "" {
			missing = append(missing, fmt.Sprint(i))
		}
	}
	switch {
	case len(missing) > 10:
		bad("%s: of the %d parts of the dataset %d are missing, from part %s on", d.path, shards, len(missing), missing[0])
	case len(missing) > 0:
		bad("%s: of the %d parts of the dataset these are missing: %s (parts are numbered from 0)", d.path, shards, strings.Join(missing, ", "))
	}
	return errors.Join(problems...)
}

// place is what a row tells of its place in the whole dataset.
type place struct {
	Index *int64  `parquet:"index,optional"`
	Hash  *string `parquet:"content_hash,optional"`
}

// arrange finds which part each conversation is in, and the content hash of all.
func (d *Dataset) arrange() (string, error) {
	hash := NewContentHash()
	next := make([]func() (place, error, bool), len(d.parts))
	head := make([]place, len(d.parts))
	advance := func(p int) error {
		row, err, ok := next[p]()
		if !ok {
			head[p] = place{}
			return nil
		}
		if err == nil && (row.Index == nil || row.Hash == nil) {
			err = fmt.Errorf("%s: a row without index or content_hash: make the parts again with this parley", d.parts[p].path)
		}
		head[p] = row
		return err
	}
	for p, part := range d.parts {
		pull, stop := iter.Pull2(columnsAs[place](part.own))
		defer stop()
		next[p] = pull
		if err := advance(p); err != nil {
			return "", err
		}
	}
	for i := range d.rows {
		has := func(p place) bool { return p.Index != nil && *p.Index == i }
		p := int(i) % len(d.parts) // where it is, if the parts are in order
		if !has(head[p]) {
			p = slices.IndexFunc(head, has)
		}
		if p < 0 {
			return "", fmt.Errorf("%s: conversation %d of %d is in none of the parts: they do not belong together, or one was changed", d.path, i, d.rows)
		}
		var sum [32]byte
		if n, err := hex.Decode(sum[:], []byte(*head[p].Hash)); err != nil || n != len(sum) {
			return "", fmt.Errorf("%s: conversation %d has the content hash %q, which is none", d.parts[p].path, i, *head[p].Hash)
		}
		hash.Add(sum)
		d.order = append(d.order, int32(p))
		if err := advance(p); err != nil {
			return "", err
		}
	}
	return hash.String(), nil
}

// merged reads the parts, each by its own sequence, in the order of the whole from number first on.
func merged[T any](d *Dataset, first int64, part func(p int) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		next := make([]func() (T, error, bool), len(d.parts))
		for p := range d.parts {
			pull, stop := iter.Pull2(part(p))
			defer stop()
			next[p] = pull
		}
		for _, p := range d.order[min(first, d.rows):] {
			row, err, ok := next[p]()
			if !ok {
				err = fmt.Errorf("%s ended before its last row", d.parts[p].path)
			}
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
