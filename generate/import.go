package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"parley/generate/importer"
	"parley/schemas"
)

// errEnough ends an import that has all the conversations that were asked for.
var errEnough = errors.New("enough")

// maxExamples bounds the examples of skipped records in a report.
const maxExamples = 20

// importFile reads the source on one goroutine, does the work on its records on all, and writes the
// conversations in order.
func (w *writing) importFile(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := w.options
	opts := o.importOptions()
	opts.Tokenizer = w.tok
	if slices.Contains(o.Import, "-") {
		opts.Stdin = untilDone(ctx, o.Stdin)
	}
	im, err := importer.Open(o.Import, opts)
	if err != nil {
		return err
	}
	defer im.Close()
	w.meta.Source = strings.Join(o.Import, ", ")
	if w.meta.Spec, err = json.Marshal(importSpec{o.Import, o.Format, o.Conversations, o.JitterMS, o.Columns, string(o.Join), o.LinkPrefixes, o.BlockSize, o.Filter.OrNil()}); err != nil {
		return err
	}
	err = w.file(func() error {
		// The reader may be waiting for its input when something else fails: canceling wakes it.
		failed := func(err error) error {
			if err != nil {
				cancel()
			}
			return err
		}
		err := ordered(ctx, o.workers(), im.Items(), func(item importer.Item) (importer.Result, error) {
			res, err := im.Finish(item)
			return res, failed(err)
		}, func(res importer.Result) error {
			rows, more := im.Commit(res)
			for i := range rows {
				w.whole++
				if !o.mine(w.whole - 1) {
					continue
				}
				r := finished(&rows[i])
				r.index = w.whole - 1
				if err := w.add(r); err != nil {
					return failed(err)
				}
			}
			if !more {
				return failed(errEnough)
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		w.importReport(im.Report())
		w.report.Format, w.meta.Format = im.Format(), im.Format()
		return err
	})
	return err
}

func (o *Options) importOptions() importer.Options {
	return importer.Options{
		Format: importer.Format(o.Format), Seed: o.Seed, JitterMS: o.JitterMS, Columns: o.Columns, Join: o.Join, LinkPrefixes: o.LinkPrefixes, BlockSize: o.BlockSize,
		Filter: o.Filter, Limit: o.Conversations,
	}
}

// importSpec is what the metadata tells of an import.
type importSpec struct {
	Import        []string          `json:"import"`
	Format        string            `json:"format,omitempty"`
	Conversations int               `json:"conversations,omitempty"`
	JitterMS      float64           `json:"jitter_ms,omitempty"`
	Columns       map[string]string `json:"columns,omitempty"`
	Join          string            `json:"join,omitempty"`
	LinkPrefixes  bool              `json:"link_prefixes,omitempty"`
	BlockSize     int               `json:"block_size,omitempty"`
	Filter        *importer.Filter  `json:"filter,omitempty"`
}

func (w *writing) importReport(rep *importer.Report) {
	w.report.Read = rep.Read
	for why, n := range rep.Skipped {
		w.report.Skipped[why] += n
	}
	for i, p := range rep.Problems {
		if i == maxExamples {
			break
		}
		w.report.Examples = append(w.report.Examples, p.String())
	}
	w.report.Notes = append(w.report.Notes, rep.Notes...)
}

// untilDone gives a reader whose reads end with the context, which a read of a terminal or a pipe does not.
// The goroutine that reads r stays until r gives something, as nothing can wake it.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	if r == nil {
		r = os.Stdin
	}
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}

// OpenDataset opens a dataset to be replayed: a file of parley's, or any file of chats that can be imported.
// Of the latter it reads all once to know what is in it, and the answers have the lengths that the server gives
// them, as no tokens are counted. A record that cannot be read is an error, since nobody would see a count of
// those that are left out.
func OpenDataset(path string) (*schemas.Dataset, error) {
	if d, err := schemas.OpenDataset(path); err == nil || !errors.Is(err, schemas.ErrForeign) {
		return d, err
	}
	meta := &schemas.DatasetMeta{Source: path}
	return schemas.NewDataset(path, meta, func(first int64) iter.Seq2[schemas.Conversation, error] {
		return func(yield func(schemas.Conversation, error) bool) {
			im, err := importer.Open([]string{path}, importer.Options{})
			if err != nil {
				yield(schemas.Conversation{}, err)
				return
			}
			defer im.Close()
			n := int64(0)
			for c, err := range im.Conversations() {
				if bad := im.Bad(); err == nil && bad != nil {
					err = unreadable(bad)
				}
				if n++; n <= first && err == nil {
					continue
				}
				if !yield(c, err) || err != nil {
					return
				}
			}
			if bad := im.Bad(); bad != nil {
				yield(schemas.Conversation{}, unreadable(bad))
				return
			}
			if meta.ContentHash == "" {
				meta.Format, meta.Notes = im.Format(), im.Report().Notes
			}
		}
	})
}

func unreadable(bad *importer.Problem) error {
	return fmt.Errorf("%s: 'parley generate --from' imports the file without such records and counts them", bad)
}
