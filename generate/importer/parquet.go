package importer

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"parley/schemas"
)

// newParquet opens a Parquet file: one of parley's own, or of another make.
func newParquet(im *Importer) (reader, error) {
	if err := im.source.seekable(); err != nil {
		return nil, err
	}
	path := im.source.file.Name()
	kind, err := schemas.Inspect(path)
	if err != nil {
		return nil, err
	}
	var rows iter.Seq2[schemas.Conversation, error]
	if kind != "" {
		f, err := schemas.Open[schemas.Conversation](path)
		if err != nil {
			return nil, err
		}
		im.closes = append(im.closes, f.Close)
		rows = f.Rows(0)
	} else {
		f, err := schemas.OpenForeign(path)
		if err != nil {
			return nil, err
		}
		im.closes = append(im.closes, f.Close)
		rows = f.Rows(0)
	}
	next, stop := iter.Pull2(rows)
	im.closes = append(im.closes, func() error { stop(); return nil })
	return &rowReader{im: im, pull: next}, nil
}

// rowReader gives the rows of a Parquet file as items.
type rowReader struct {
	im   *Importer
	pull func() (schemas.Conversation, error, bool)
	row  int64
}

func (r *rowReader) next() (Item, error) {
	c, err, ok := r.pull()
	if !ok {
		return Item{}, io.EOF
	}
	var bad *schemas.RowError
	if err != nil && !errors.As(err, &bad) {
		return Item{}, err
	}
	r.row++
	item := Item{where: Where{File: r.im.source.name, Record: r.row, What: "row"}, records: 1}
	if bad != nil {
		item.problem = badRecord("%v", bad.Err)
		return item, nil
	}
	if c.ConversationID == "" {
		c.ConversationID = fmt.Sprintf("row-%d", r.row)
	}
	item.work = func() ([]schemas.Conversation, *problem) { return []schemas.Conversation{c}, nil }
	return item, nil
}
