package schemas

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// Dataset is an open file of conversations: one of parley's, or any Parquet file of chats that
// OpenForeign can read.
type Dataset struct {
	path string
	meta DatasetMeta
	rows int64
	read func(first int64) iter.Seq2[Conversation, error]
	own  *File[Conversation] // nil for a foreign file
	io.Closer
}

// OpenDataset opens a file of conversations for reading. For a foreign file it reads the whole file once
// to give its content hash and its number of turns.
func OpenDataset(path string) (*Dataset, error) {
	kind, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		return openForeignDataset(path)
	}
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

func openForeignDataset(path string) (*Dataset, error) {
	f, err := OpenForeign(path)
	if err != nil {
		return nil, err
	}
	d := &Dataset{path: path, rows: f.NumRows(), Closer: f, read: func(first int64) iter.Seq2[Conversation, error] {
		return func(yield func(Conversation, error) bool) {
			for c, err := range f.Rows(first) {
				if len(c.Turns) == 0 {
					c.Turns = DeriveTurns(c.Messages)
				}
				if bad, ok := errors.AsType[*RowError](err); ok {
					err = fmt.Errorf("%w: 'parley generate --from' imports the file without such rows and counts them", bad)
				}
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}}
	d.meta.CreatedBy = f.CreatedBy()
	hash := NewContentHash()
	for c, err := range d.read(0) {
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		hash.Add(HashConversation(&c))
		d.meta.Conversations++
		d.meta.Turns += int64(len(c.Turns))
	}
	d.meta.ContentHash = hash.String()
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
	return func(yield func(Outline, error) bool) {
		in, err := d.outlineReader()
		if err != nil {
			yield(Outline{}, err)
			return
		}
		defer in.Close()
		batch := make([]Outline, 256)
		for read := int64(0); ; {
			n, err := d.readOutlines(in, batch)
			for i := range n {
				row := batch[i]
				batch[i] = Outline{}
				if !yield(row, nil) {
					return
				}
			}
			read += int64(n)
			switch {
			case errors.Is(err, io.EOF) && read == d.rows:
				return
			case err == nil && n > 0:
				continue
			}
			yield(Outline{}, fmt.Errorf("%s: row %d of %d: %w", d.path, read, d.rows, errors.Join(err, io.ErrUnexpectedEOF)))
			return
		}
	}
}

func (d *Dataset) outlineReader() (in *parquet.GenericReader[Outline], err error) {
	var names []string
	for _, c := range columnsOf("", reflect.TypeFor[Outline]()) {
		names = append(names, c.Name)
	}
	if err := d.own.Verify(names...); err != nil {
		return nil, err
	}
	defer Guard(d.path, &err)
	return parquet.NewGenericReader[Outline](d.own.Parquet()), nil
}

func (d *Dataset) readOutlines(in *parquet.GenericReader[Outline], batch []Outline) (n int, err error) {
	defer Guard(d.path, &err)
	n, err = in.Read(batch)
	if d.own.noJoins {
		for i := range n {
			clearJoins(batch[i].Turns)
		}
	}
	return n, err
}
