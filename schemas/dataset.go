package schemas

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// Dataset is an open dataset of conversations: one of parley's files, or what NewDataset was given.
type Dataset struct {
	path string
	meta DatasetMeta
	rows int64
	read func(first int64) iter.Seq2[Conversation, error]
	own  *File[Conversation] // nil for what is no file of parley's
	io.Closer

	parts []*Dataset // of a dataset in several files
	order []int32    // which of them each conversation is in
}

// ErrForeign is wrapped by the error of a file that is none of parley's.
var ErrForeign = errors.New("not one of parley's")

// OpenDataset opens a file of conversations of parley's for reading; or the parts of a dataset, by their folder
// or a pattern such as parts/*.parquet.
func OpenDataset(path string) (*Dataset, error) {
	files, err := DatasetFiles(path)
	if err != nil {
		return nil, err
	}
	if len(files) > 1 {
		return openParts(files)
	}
	d, err := OpenFile(files[0])
	if err == nil && d.meta.Shard != "" {
		d.Close()
		return openParts(files) // which names the others
	}
	return d, err
}

// OpenFile opens one file of parley's, also a part by itself.
func OpenFile(path string) (*Dataset, error) {
	f, err := Open[Conversation](path)
	if err != nil {
		return nil, err
	}
	d := &Dataset{path: path, rows: f.NumRows(), read: f.Rows, own: f, Closer: f}
	if err := f.Meta(&d.meta); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// NewDataset makes a dataset of conversations that come from elsewhere. read gives them in order from a
// number on, as often as it is called. It is called once here, for the content hash and the number of turns,
// meta gets; read may fill the rest of it then.
func NewDataset(path string, meta *DatasetMeta, read func(first int64) iter.Seq2[Conversation, error]) (*Dataset, error) {
	d := &Dataset{path: path, read: read, Closer: io.NopCloser(nil)}
	hash := NewContentHash()
	for c, err := range read(0) {
		if err != nil {
			return nil, err
		}
		hash.Add(HashConversation(&c))
		d.rows++
		meta.Turns += int64(len(c.Turns))
	}
	meta.Conversations, meta.ContentHash = d.rows, hash.String()
	d.meta = *meta
	return d, nil
}

// Path gives the file's path.
func (d *Dataset) Path() string { return d.path }

// Meta gives the file's metadata.
func (d *Dataset) Meta() DatasetMeta { return d.meta }

// NumRows gives the number of conversations.
func (d *Dataset) NumRows() int64 { return d.rows }

// Conversations reads the conversations in order from number first on. An error ends the sequence.
func (d *Dataset) Conversations(first int64) iter.Seq2[Conversation, error] { return d.read(first) }

// Outline is what planning needs to know of a conversation: all but what is said in it.
type Outline struct {
	ConversationID string            `parquet:"conversation_id"`
	Turns          []Turn            `parquet:"turns,list"`
	StartOffsetMS  *float64          `parquet:"start_offset_ms,optional"`
	ParentID       *string           `parquet:"parent_id,optional"`
	ParentTurn     *int64            `parquet:"parent_turn,optional"`
	ParentDelayMS  *float64          `parquet:"parent_delay_ms,optional"`
	ParentFrom     *string           `parquet:"parent_from,optional"`
	PrefixGroup    *string           `parquet:"prefix_group,optional"`
	Tags           map[string]string `parquet:"tags"`
}

// Outlines reads the outlines of all conversations in order. In one of parley's files the texts are not
// read for it.
func (d *Dataset) Outlines() iter.Seq2[Outline, error] {
	if d.parts != nil {
		return merged(d, 0, func(p int) iter.Seq2[Outline, error] { return d.parts[p].Outlines() })
	}
	if d.own == nil {
		return func(yield func(Outline, error) bool) {
			for c, err := range d.read(0) {
				o := Outline{c.ConversationID, c.Turns, c.StartOffsetMS, c.ParentID, c.ParentTurn, c.ParentDelayMS, c.ParentFrom, c.PrefixGroup, c.Tags}
				if !yield(o, err) || err != nil {
					return
				}
			}
		}
	}
	return columnsAs[Outline](d.own)
}

// columnsAs reads those columns of a file of parley's that the fields of T name, and no others.
func columnsAs[T any](f *File[Conversation]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		in, err := columnReader[T](f)
		if err != nil {
			yield(zero, err)
			return
		}
		defer in.Close()
		batch := make([]T, 256)
		for read := int64(0); ; {
			n, err := readColumns(f, in, batch)
			for i := range n {
				row := batch[i]
				batch[i] = zero
				if !yield(row, nil) {
					return
				}
			}
			read += int64(n)
			switch {
			case errors.Is(err, io.EOF) && read == f.NumRows():
				return
			case err == nil && n > 0:
				continue
			}
			yield(zero, fmt.Errorf("%s: row %d of %d: %w", f.path, read, f.NumRows(), errors.Join(err, io.ErrUnexpectedEOF)))
			return
		}
	}
}

func columnReader[T any](f *File[Conversation]) (in *parquet.GenericReader[T], err error) {
	var names []string
	for _, c := range columnsOf("", reflect.TypeFor[T]()) {
		names = append(names, c.Name)
	}
	if err := f.Verify(names...); err != nil {
		return nil, err
	}
	defer Guard(f.path, &err)
	return parquet.NewGenericReader[T](f.pq), nil
}

func readColumns[T any](f *File[Conversation], in *parquet.GenericReader[T], batch []T) (n int, err error) {
	defer Guard(f.path, &err)
	n, err = in.Read(batch)
	if outlines, ok := any(batch).([]Outline); ok && f.noJoins {
		for i := range n {
			clearJoins(outlines[i].Turns)
		}
	}
	return n, err
}
