package schemas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// Lists is the chunk lists of some consecutive rows. The slices are valid only during the call that
// passes them.
type Lists struct {
	First   int     // index of the first row in the file
	Offsets []int32 // row i has NS[Offsets[i]:Offsets[i+1]]; one longer than the number of rows
	NS      []int64 // chunk_ns
	TokenAt []int32 // the same of Tokens
	Tokens  []int64 // chunk_tokens
}

// Rows gives the number of rows.
func (l *Lists) Rows() int { return len(l.Offsets) - 1 }

// Row gives the lists of the row at index i of these.
func (l *Lists) Row(i int) (ns, tokens []int64) {
	return l.NS[l.Offsets[i]:l.Offsets[i+1]], l.Tokens[l.TokenAt[i]:l.TokenAt[i+1]]
}

// listBatch is how many rows a call of ReadLists' function gets at most: enough to make the call cheap,
// few enough to stay in the processor's cache.
const listBatch = 256

// ListWorkers is how many workers ReadLists uses at most.
func ListWorkers() int { return runtime.GOMAXPROCS(0) }

// ReadLists gives the chunk lists of every row of a requests file to each, in batches, from several
// goroutines: calls with the same worker number, which is below ListWorkers, do not overlap. The memory
// it needs does not grow with the file.
func ReadLists(ctx context.Context, f *File[Request], each func(worker int, l *Lists) error) error {
	if err := f.Verify("chunk_ns", "chunk_tokens"); err != nil {
		return err
	}
	groups := f.pq.RowGroups()
	type job struct{ group, first int }
	jobs := make([]job, len(groups))
	first := 0
	for i, g := range groups {
		jobs[i] = job{i, first}
		first += int(g.NumRows())
	}
	if int64(first) != f.NumRows() {
		return fmt.Errorf("%s: the row groups have %d rows, the footer promises %d", f.path, first, f.NumRows())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan job)
	var wg sync.WaitGroup
	for worker := range min(ListWorkers(), len(groups)) {
		wg.Go(func() {
			for j := range work {
				if err := f.readLists(ctx, groups[j.group], j.first, func(l *Lists) error { return each(worker, l) }); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		work <- j
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

func (f *File[T]) readLists(ctx context.Context, group parquet.RowGroup, first int, each func(*Lists) error) error {
	ns, err := f.openList(group, "chunk_ns")
	if err != nil {
		return err
	}
	defer ns.close()
	tokens, err := f.openList(group, "chunk_tokens")
	if err != nil {
		return err
	}
	defer tokens.close()
	rows := int(group.NumRows())
	for done := 0; done < rows; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := min(listBatch, rows-done)
		if err := ns.next(n); err != nil {
			return fmt.Errorf("%s: column chunk_ns: row %d: %w", f.path, first+done, err)
		}
		if err := tokens.next(n); err != nil {
			return fmt.Errorf("%s: column chunk_tokens: row %d: %w", f.path, first+done, err)
		}
		if err := each(&Lists{First: first + done, Offsets: ns.offsets, NS: ns.values, TokenAt: tokens.offsets, Tokens: tokens.values}); err != nil {
			return err
		}
		done += n
	}
	for _, l := range []*listCursor{ns, tokens} {
		if err := l.end(); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

// listCursor walks over the rows of one list column of a row group.
type listCursor struct {
	path    string
	name    string
	present byte
	pages   parquet.Pages
	page    parquet.Page
	absent  bool // the file has no such lists: all are empty
	// What is left of the page; full: no list in it is empty.
	rep, def []byte
	data     []int64
	full     bool

	// The batch.
	offsets []int32
	values  []int64
	copied  []int64 // memory for values of several pages
}

func (f *File[T]) openList(group parquet.RowGroup, name string) (c *listCursor, err error) {
	defer Guard(f.path, &err)
	leaf, ok := f.listLeaf(name)
	if !ok {
		if f.returned {
			return &listCursor{path: f.path, name: name, absent: true}, nil
		}
		return nil, fmt.Errorf("%s lacks the column %s", f.path, name)
	}
	return &listCursor{path: f.path, name: name, present: byte(leaf.MaxDefinitionLevel), pages: group.ColumnChunks()[leaf.ColumnIndex].Pages()}, nil
}

func (c *listCursor) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.absent {
		return
	}
	c.pages.Close() // reading only: what could fail has been told by the reads
}

// load takes the next page. io.EOF says that there is none.
func (c *listCursor) load() error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	page, err := c.pages.ReadPage()
	if err != nil {
		return err
	}
	c.page = page
	c.rep, c.def = page.RepetitionLevels(), page.DefinitionLevels()
	if c.data, err = pageInts(page); err != nil {
		return err
	}
	if len(c.rep) != len(c.def) {
		return fmt.Errorf("%d repetition and %d definition levels in a page", len(c.rep), len(c.def))
	}
	have := countPresent(c.def, c.present, 0)
	c.full = have == len(c.def)
	if have != len(c.data) {
		return fmt.Errorf("a page promises %d values and holds %d", have, len(c.data))
	}
	return nil
}

// next fills the batch with n rows. Rows that lie in one page are not copied.
func (c *listCursor) next(n int) (err error) {
	defer Guard(c.path, &err)
	c.offsets = append(c.offsets[:0], 0)
	c.values = c.copied[:0]
	if c.absent {
		c.offsets = slices.Grow(c.offsets, n)[:n+1]
		clear(c.offsets)
		return nil
	}
	started := 0 // rows that have begun in this batch
	for {
		for len(c.rep) == 0 {
			err := c.load()
			if errors.Is(err, io.EOF) && started == n {
				c.offsets = append(c.offsets, int32(len(c.values)))
				c.copied = c.values
				return nil
			}
			if err != nil {
				return noEOF(err)
			}
		}
		if started == 0 && c.rep[0] != 0 {
			return errors.New("a page begins in the middle of a row that never began")
		}
		// The end of this batch within the page, in levels and in values: row by row, for rows are long and
		// looking for the byte that begins the next is fast.
		i, v := 0, 0
		for i < len(c.rep) {
			if c.rep[i] == 0 {
				if started == n {
					break
				}
				if started > 0 {
					c.offsets = append(c.offsets, int32(len(c.values)+v))
				}
				started++
			}
			row := len(c.rep)
			if at := bytes.IndexByte(c.rep[i+1:], 0); at >= 0 {
				row = i + 1 + at
			}
			if c.full {
				v += row - i
			} else {
				v += countPresent(c.def[i:row], c.present, 0)
			}
			i = row
		}
		full := i < len(c.rep)
		if full && len(c.values) == 0 {
			c.values = c.data[:v:v]
		} else {
			c.values = append(c.values, c.data[:v]...)
			c.copied = c.values
		}
		c.rep, c.def, c.data = c.rep[i:], c.def[i:], c.data[v:]
		if full {
			c.offsets = append(c.offsets, int32(len(c.values)))
			return nil
		}
	}
}

// end checks that nothing is left.
func (c *listCursor) end() (err error) {
	defer Guard(c.path, &err)
	if c.absent {
		return nil
	}
	for len(c.rep) == 0 {
		if err := c.load(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("column %s has more rows than its row group", c.name)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ListValues gives how many values a list column has, by the footer: what reading it will bring.
func ListValues(f *File[Request], name string) (n int64, err error) {
	defer Guard(f.path, &err)
	leaf, ok := f.listLeaf(name)
	if !ok {
		if f.returned {
			return 0, nil
		}
		return 0, fmt.Errorf("%s lacks the column %s", f.path, name)
	}
	for _, g := range f.pq.RowGroups() {
		n += g.ColumnChunks()[leaf.ColumnIndex].NumValues()
	}
	return n, nil
}
