package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// Parquet's own page checksums cover the pages' bodies only: a flipped bit in a page's header or in the
// footer can give other values without an error, or make a reader ask for all the memory there is. Our
// files therefore carry a block of sums in front of the footer, where every Parquet reader passes over
// it:
//
//	"parley-sums1"              12 bytes
//	offset of the page indexes  uint64
//	number of column chunks n   uint32
//	CRC-32C of each chunk       n * uint32, by row group, then by column
//	CRC-32C of the indexes      uint32, from their offset to this block
//	CRC-32C of the footer       uint32, with its length and magic
//	CRC-32C of this block       uint32, up to here
//	length of this block        uint32
//
// all little-endian. The footer, the indexes and the block are checked when a file is opened, a column
// chunk when it is first read.

const (
	sumsMagic     = "parley-sums1"
	sumsFixed     = len(sumsMagic) + 8 + 4 + 4 + 4 + 4 + 4
	parquetMagic  = "PAR1"
	footerTail    = 8 // length and magic
	maxFooterSize = 256 << 20
)

// chunkRange is where a column chunk's bytes stand.
type chunkRange struct{ from, size int64 }

func chunkRanges(pq *parquet.File) []chunkRange {
	var ranges []chunkRange
	for _, g := range pq.Metadata().RowGroups {
		for _, c := range g.Columns {
			from := c.MetaData.DataPageOffset
			if d := c.MetaData.DictionaryPageOffset; d > 0 && d < from {
				from = d
			}
			ranges = append(ranges, chunkRange{from, c.MetaData.TotalCompressedSize})
		}
	}
	return ranges
}

func sumRange(r io.ReaderAt, at chunkRange) (uint32, error) {
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, io.NewSectionReader(r, at.from, at.size))
	if err == nil && n != at.size {
		err = io.ErrUnexpectedEOF
	}
	return h.Sum32(), err
}

// addSums puts the block of sums into a whole Parquet file that has none.
func addSums(file *os.File) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	size := st.Size()
	footerAt, err := findFooter(file, size)
	if err != nil {
		return err
	}
	pq, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	ranges := chunkRanges(pq)
	indexAt := int64(len(parquetMagic))
	for _, r := range ranges {
		indexAt = max(indexAt, r.from+r.size)
	}
	block := []byte(sumsMagic)
	block = binary.LittleEndian.AppendUint64(block, uint64(indexAt))
	block = binary.LittleEndian.AppendUint32(block, uint32(len(ranges)))
	for _, r := range append(ranges, chunkRange{indexAt, footerAt - indexAt}, chunkRange{footerAt, size - footerAt}) {
		sum, err := sumRange(file, r)
		if err != nil {
			return err
		}
		block = binary.LittleEndian.AppendUint32(block, sum)
	}
	block = binary.LittleEndian.AppendUint32(block, crc32.Checksum(block, castagnoli))
	block = binary.LittleEndian.AppendUint32(block, uint32(len(block)+4))
	footer := make([]byte, size-footerAt)
	if _, err := file.ReadAt(footer, footerAt); err != nil {
		return err
	}
	_, err = file.WriteAt(append(block, footer...), footerAt)
	return err
}

// findFooter gives the offset of the footer of a Parquet file.
func findFooter(file io.ReaderAt, size int64) (int64, error) {
	if size < int64(len(parquetMagic)+footerTail) {
		return 0, fmt.Errorf("%d bytes are too few", size)
	}
	var tail [footerTail]byte
	if _, err := file.ReadAt(tail[:], size-footerTail); err != nil {
		return 0, err
	}
	if string(tail[4:]) != parquetMagic {
		return 0, errors.New("its end is missing")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	at := size - footerTail - n
	if n > maxFooterSize || at < int64(len(parquetMagic)) {
		return 0, fmt.Errorf("its footer cannot be %d bytes long", n)
	}
	return at, nil
}

// fileSums are the sums that a file carries.
type fileSums struct{ chunks []uint32 }

// readSumsBlock reads and checks the block in front of the footer, and with it the footer and the
// indexes. It gives nil if there is no block, as in files that parley did not write.
func readSumsBlock(file io.ReaderAt, size int64) (*fileSums, error) {
	footerAt, err := findFooter(file, size)
	if err != nil {
		return nil, err
	}
	var length [4]byte
	if footerAt < int64(sumsFixed) {
		return nil, nil
	}
	if _, err := file.ReadAt(length[:], footerAt-4); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	if n < int64(sumsFixed) || n > footerAt || n > maxFooterSize {
		return nil, nil
	}
	block := make([]byte, n)
	if _, err := file.ReadAt(block, footerAt-n); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(block, []byte(sumsMagic)) {
		return nil, nil
	}
	end := len(block) - 8
	if crc32.Checksum(block[:end], castagnoli) != binary.LittleEndian.Uint32(block[end:]) {
		return nil, errors.New("its block of checksums is damaged")
	}
	rest := block[len(sumsMagic):]
	indexAt := int64(binary.LittleEndian.Uint64(rest))
	count := int(binary.LittleEndian.Uint32(rest[8:]))
	rest = rest[12:]
	if len(rest) != 4*count+16 || indexAt < 0 || indexAt > footerAt-n {
		return nil, errors.New("its block of checksums is damaged")
	}
	sums := make([]uint32, count+2)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint32(rest[4*i:])
	}
	for i, r := range []chunkRange{{indexAt, footerAt - n - indexAt}, {footerAt, size - footerAt}} {
		got, err := sumRange(file, r)
		if err != nil {
			return nil, err
		}
		if got != sums[count+i] {
			return nil, errors.New("its footer does not match its checksum")
		}
	}
	return &fileSums{chunks: sums[:count]}, nil
}

// Verify reads the column chunks of the named top-level columns (all columns if none is named) and
// compares them with the file's checksums. What was verified once is not read again.
func (f *File[T]) Verify(columns ...string) error {
	if f.sums == nil {
		return nil
	}
	f.verifyMu.Lock()
	defer f.verifyMu.Unlock()
	ranges := chunkRanges(f.pq)
	if len(ranges) != len(f.sums.chunks) {
		return fmt.Errorf("%s is damaged: %d column chunks, but %d checksums", f.path, len(ranges), len(f.sums.chunks))
	}
	if f.verified == nil {
		f.verified = make([]bool, len(ranges))
	}
	i := 0
	for g, group := range f.pq.Metadata().RowGroups {
		for _, c := range group.Columns {
			if !f.verified[i] && (len(columns) == 0 || slices.Contains(columns, c.MetaData.PathInSchema[0])) {
				sum, err := sumRange(f.file, ranges[i])
				if err != nil {
					return fmt.Errorf("%s: row group %d, column %v: %w", f.path, g, c.MetaData.PathInSchema, err)
				}
				if sum != f.sums.chunks[i] {
					return fmt.Errorf("%s is damaged: row group %d, column %v does not match its checksum", f.path, g, c.MetaData.PathInSchema)
				}
				f.verified[i] = true
			}
			i++
		}
	}
	return nil
}
