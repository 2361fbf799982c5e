package analyze

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parley/schemas"
)

// arrowBatch is the rows of one record batch of an Arrow export.
const arrowBatch = 8192

// WriteArrow writes every row of the runs, failures and all phases included, as an Arrow IPC file with the
// columns of the requests file: pandas.read_feather, polars.read_ipc and DuckDB take it. Moments of the
// shards of one run count from the run's origin. It gives the number of rows.
func WriteArrow(ctx context.Context, w io.WriteSeeker, runs *Runs) (rows int64, err error) {
	mem := memory.NewGoAllocator()
	out, err := ipc.NewFileWriter(w, ipc.WithSchema(schemas.ArrowSchema[schemas.Request]()), ipc.WithAllocator(mem), ipc.WithZstd())
	if err != nil {
		return 0, fmt.Errorf("arrow export: %w", err)
	}
	builder := schemas.NewRecordBuilder[schemas.Request](mem)
	defer builder.Release()
	write := func(batch []schemas.Request) error {
		if err := ctx.Err(); err != nil || len(batch) == 0 {
			return err
		}
		rec := builder.Record(batch)
		defer rec.Release()
		rows += int64(len(batch))
		return out.Write(rec)
	}
	for _, r := range runs.list {
		for _, p := range r.parts {
			if err := p.eachBatch(write); err != nil {
				return rows, errors.Join(fmt.Errorf("arrow export of %s: %w", p.path, err), out.Close())
			}
		}
	}
	return rows, out.Close()
}

// eachBatch gives the rows of a part.
func (p *part) eachBatch(each func([]schemas.Request) error) error {
	if p.file == nil {
		_, err := schemas.ReadJournal(p.path, func(rows []schemas.Request) error {
			p.shiftRows(rows)
			return each(rows)
		})
		return err
	}
	batch := make([]schemas.Request, 0, arrowBatch)
	for row, err := range p.file.Rows(0) {
		if err != nil {
			return err
		}
		if batch = append(batch, row); len(batch) == cap(batch) {
			p.shiftRows(batch)
			if err := each(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	p.shiftRows(batch)
	return each(batch)
}

// shiftRows makes the moments of a shard count from the run's origin.
func (p *part) shiftRows(rows []schemas.Request) {
	if p.shiftNS == 0 {
		return
	}
	for i := range rows {
		r := &rows[i]
		for _, m := range []*int64{r.ScheduledNS, r.ReadyNS, r.StartNS, r.SentNS, r.WroteNS, r.FirstByteNS,
			r.FirstEventNS, r.FirstTokenNS, r.FirstAnswerNS, r.LastTokenNS, r.DoneNS} {
			if m != nil {
				*m += p.shiftNS
			}
		}
		for _, list := range [][]int64{r.ChunkNS, r.AttemptNS} {
			for i := range list {
				list[i] += p.shiftNS
			}
		}
	}
}
