package schemas

import (
	"errors"
	"io"
	"os"
	"runtime/debug"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// longPage is from when on a page counts as long: a single text of tens of megabytes, of which the writer has a
// copy in the column's buffer, one in the encoded page and one compressed.
const longPage = 16 << 20

// takenRows is how many rows parquet-go has in its column buffers before it writes pages. Rows are given to it
// in such portions where they are to be forgotten then.
const takenRows = 64

// Take writes rows as Write does, to the same bytes, and takes them over: they may be zero values afterwards. That
// of long rows need not be there while their pages are made.
func (w *Writer[T]) Take(rows []T) error {
	defer func() { w.codec.buffered = nil }()
	for len(rows) > 0 {
		portion := rows[:min(takenRows, len(rows))]
		w.codec.buffered = func() { clear(portion) }
		if err := w.Write(portion...); err != nil {
			return err
		}
		rows = rows[len(portion):]
	}
	return nil
}

// codec compresses pages, long ones with no more memory than they take.
type codec struct {
	zstd.Codec
	buffered func() // forgets the rows of a page; nil where they are the caller's
}

// Encode implements compress.Codec.
func (c *codec) Encode(dst, src []byte) ([]byte, error) {
	if len(src) < longPage {
		return c.Codec.Encode(dst, src)
	}
	if c.buffered != nil {
		c.buffered()
		c.buffered = nil
	}
	debug.FreeOSMemory()
	if most := len(src) + len(src)/256 + 64; cap(dst) < most {
		// A slice that grows would leave five times its final size to the collector. What the output does not
		// reach of this one stays untouched, so it takes no memory.
		dst = make([]byte, 0, most)
	}
	return c.Codec.Encode(dst, src)
}

// pageBuffers keeps the compressed pages of a row group, which go into the file column by column: short ones in
// memory, those of a column with a long one in a file beside the output.
type pageBuffers struct {
	parquet.BufferPool
	dir, name string
}

// GetBuffer implements parquet.BufferPool.
func (p *pageBuffers) GetBuffer() io.ReadWriteSeeker {
	return &pageBuffer{ReadWriteSeeker: p.BufferPool.GetBuffer(), pool: p}
}

// PutBuffer implements parquet.BufferPool.
func (p *pageBuffers) PutBuffer(b io.ReadWriteSeeker) {
	buf := b.(*pageBuffer)
	if f, ok := buf.ReadWriteSeeker.(*os.File); ok {
		_ = f.Close()
		_ = os.Remove(f.Name()) // gone already, but where open files cannot be removed
		return
	}
	p.BufferPool.PutBuffer(buf.ReadWriteSeeker)
}

// pageBuffer is a buffer in memory, or an *os.File from the first long page on.
type pageBuffer struct {
	io.ReadWriteSeeker
	pool *pageBuffers
}

func (b *pageBuffer) Write(page []byte) (int, error) {
	if _, ok := b.ReadWriteSeeker.(*os.File); !ok && len(page) >= longPage {
		if err := b.toFile(); err != nil {
			return 0, err
		}
	}
	return b.ReadWriteSeeker.Write(page)
}

func (b *pageBuffer) toFile() error {
	f, err := os.CreateTemp(b.pool.dir, b.pool.name)
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name()) // so that nothing stays whatever happens
	memory := b.ReadWriteSeeker
	if _, err = memory.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(f, memory)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	b.pool.BufferPool.PutBuffer(memory)
	b.ReadWriteSeeker = f
	return nil
}

// WriteTo implements io.WriterTo, which io.Copy prefers.
func (b *pageBuffer) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, b.ReadWriteSeeker) }
