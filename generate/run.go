package generate

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"parley/generate/prose"
	"parley/generate/tokenizer"
	"parley/schemas"
	"parley/schemas/random"
)

// Run makes a dataset. Progress (may be nil) is called now and then from Run's goroutine. A run that fails
// or is canceled leaves nothing under the output's name.
func Run(ctx context.Context, o Options, progress func(Progress)) (Report, error) {
	began := time.Now()
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	tok, err := o.tokenizer()
	if err != nil {
		return Report{}, err
	}
	if o.Output = o.partName(); o.Shards > 0 {
		if err := os.MkdirAll(filepath.Dir(o.Output), 0o755); err != nil {
			return Report{}, err
		}
	}
	w := &writing{
		options: &o, tok: tok, began: began, progress: progress, hash: schemas.NewContentHash(),
		report: Report{Output: o.Output, Tokenizer: tok.Name(), Skipped: map[string]int64{}, Notes: tok.Notes()},
		meta: schemas.DatasetMeta{
			ToolVersion: schemas.Version(), CreatedBy: "generate", Seed: o.Seed, Tokenizer: tok.Name(), TokenizerHash: tok.Hash(),
		},
	}
	if o.Spec != nil {
		err = w.synthesize(ctx)
	} else {
		err = w.importFile(ctx)
	}
	w.report.Elapsed = time.Since(began)
	return w.report, err
}

// writing is a dataset on its way into its file.
type writing struct {
	options  *Options
	tok      *tokenizer.Tokenizer
	out      *schemas.Writer[schemas.Conversation]
	meta     schemas.DatasetMeta
	hash     *schemas.ContentHash
	report   Report
	progress func(Progress)
	began    time.Time
	told     time.Time
	total    int64 // to be written; 0 if nobody knows
	whole    int64 // conversations of the whole dataset, of which a part may be written

	batch   []schemas.Conversation
	pending int64 // bytes of text in the batch
	grouped int64 // bytes of text in the row group
}

// row is a finished conversation with its figures.
type row struct {
	c             *schemas.Conversation
	index         int64 // in the whole dataset
	hash          [32]byte
	tokens, bytes int64
}

// finished rounds the times of a conversation, which computing leaves at odd fractions, to whole microseconds
// (package schemas/random sees to it that they are the same everywhere before that), and takes its figures.
func finished(c *schemas.Conversation) row {
	for _, ms := range []*float64{c.StartOffsetMS, c.ParentDelayMS} {
		wholeMicroseconds(ms)
	}
	for i := range c.Turns {
		wholeMicroseconds(c.Turns[i].ThinkTimeMS)
		wholeMicroseconds(c.Turns[i].ToolTimeMS)
	}
	r := row{c: c, hash: schemas.HashConversation(c)}
	for i := range c.Messages {
		r.bytes += textBytes(&c.Messages[i])
	}
	if n := len(c.Turns); n > 0 {
		last := c.Turns[n-1]
		if last.PromptTokens != nil {
			r.tokens += *last.PromptTokens
		}
		if last.OutputTokens != nil && last.MessageIndex < int64(len(c.Messages)) {
			r.tokens += *last.OutputTokens
		}
	}
	return r
}

func wholeMicroseconds(ms *float64) {
	if ms != nil {
		*ms = math.Round(*ms*1000) / 1000
	}
}

func (w *writing) synthesize(ctx context.Context) (err error) {
	o, s := w.options, w.options.Spec
	n := o.Conversations
	if n == 0 {
		n = s.NumConversations
	}
	text, err := prose.New(w.tok)
	if err != nil {
		return fmt.Errorf("tokenizer %s: %w", w.tok.Name(), err)
	}
	filter := o.Filter.Over(s.Filter)
	p := newPlanner(s, o.Seed, filter)
	corpus, err := w.corpus(text)
	if err != nil {
		return err
	}
	if corpus != nil {
		p.takeFrom(corpus)
	}
	b, err := newBuilder(s, o.Seed, p, text)
	if err != nil {
		return err
	}
	resolved := *s
	resolved.NumConversations, resolved.Filter = n, filter.OrNil()
	if w.meta.Spec, err = json.Marshal(resolved); err != nil {
		return err
	}
	w.total = int64(n)
	if o.Shards > 1 {
		w.total = (int64(n) - int64(o.Shard) + int64(o.Shards) - 1) / int64(o.Shards)
	}
	err = w.file(func() error {
		err := ordered(ctx, o.workers(), w.mine(p.plans(n)), func(pl *plan) (row, error) {
			c, err := b.conversation(pl)
			if err != nil {
				return row{}, err
			}
			r := finished(c)
			r.index = pl.row
			return r, nil
		}, w.add)
		w.whole = p.rows
		return err
	})
	for why, n := range p.skipped {
		w.report.Skipped[why] += n
	}
	if corpus != nil && p.tape > corpus.Length() {
		w.report.Notes = append(w.report.Notes, fmt.Sprintf("the text files have %d tokens, and the dataset takes more: they were reused in shuffled order", corpus.Tokens()))
	}
	return err
}

// mine leaves out the plans of other shards.
func (w *writing) mine(plans iter.Seq2[*plan, error]) iter.Seq2[*plan, error] {
	return func(yield func(*plan, error) bool) {
		for pl, err := range plans {
			if err == nil && !w.options.mine(pl.kept) {
				continue
			}
			if !yield(pl, err) {
				return
			}
		}
	}
}

func (w *writing) corpus(text *prose.Prose) (*prose.Corpus, error) {
	o, s := w.options, w.options.Spec
	if len(s.TextFiles) == 0 {
		return nil, nil
	}
	files := make([]string, len(s.TextFiles))
	for i, name := range s.TextFiles {
		files[i] = s.file(name)
	}
	c, err := prose.NewCorpus(text, files, o.workers(), func(pass uint64) *rand.Rand { return random.Stream(o.Seed, "corpus", pass) })
	if err != nil {
		return nil, fmt.Errorf("text_files: %w", err)
	}
	return c, nil
}

// file opens the output, lets fill write the rows, and finishes it; after an error nothing stays.
func (w *writing) file(fill func() error) error {
	var err error
	if w.out, err = schemas.Create[schemas.Conversation](w.options.Output, w.options.Force); err != nil {
		return err
	}
	if err = fill(); err == nil {
		err = w.flush()
	}
	if err == nil && w.whole == 0 {
		err = errors.New("no conversation was left to write")
		if len(w.report.Skipped) > 0 {
			var out []string
			for _, reason := range slices.Sorted(maps.Keys(w.report.Skipped)) {
				out = append(out, fmt.Sprintf("%d (%s)", w.report.Skipped[reason], reason))
			}
			err = fmt.Errorf("no conversation was left to write; left out: %s", strings.Join(out, ", "))
			for _, e := range w.report.Examples[:min(len(w.report.Examples), 3)] {
				err = fmt.Errorf("%w\ne.g. %s", err, e)
			}
		}
	}
	if err != nil {
		return errors.Join(err, w.out.Abort())
	}
	o := w.options
	w.meta.ContentHash, w.report.ContentHash = w.hash.String(), w.hash.String()
	w.meta.Conversations, w.meta.Turns = w.report.Conversations, w.report.Turns
	w.meta.Notes = w.report.Notes
	if o.Shards > 1 {
		w.meta.Shard, w.meta.Whole = fmt.Sprintf("%d/%d", o.Shard, o.Shards), w.whole
	}
	if err := w.out.Close(w.meta); err != nil {
		return err
	}
	if st, err := os.Stat(o.Output); err == nil {
		w.report.FileBytes = st.Size()
	}
	w.tell(true)
	return nil
}

const (
	batchRows  = 64
	batchBytes = 1 << 20
	// groupBytes bounds the text of a row group, which the writer holds in memory until it is full, and a
	// reader may hold.
	groupBytes = 64 << 20
)

// add takes the next row to be written.
func (w *writing) add(r row) error {
	hash := hex.EncodeToString(r.hash[:])
	r.c.Index, r.c.ContentHash = &r.index, &hash
	w.hash.Add(r.hash)
	w.report.Conversations++
	if r.c.ParentID != nil {
		w.report.SubAgents++
	}
	w.report.Turns += int64(len(r.c.Turns))
	w.report.Messages += int64(len(r.c.Messages))
	w.report.Tokens += r.tokens
	w.report.TextBytes += r.bytes
	w.batch = append(w.batch, *r.c)
	*r.c = schemas.Conversation{} // the batch is to be the only one that holds a long text
	w.pending += r.bytes
	if len(w.batch) < batchRows && w.pending < batchBytes {
		return nil
	}
	return w.flush()
}

// largeBatch is from when on the memory of making a batch is given back before it is written: a single record
// may be of tens of megabytes, and the collector would let several of its copies gather.
const largeBatch = 16 << 20

func (w *writing) flush() error {
	if w.pending > largeBatch {
		runtime.GC() // what lies in pools goes with the second collection
		debug.FreeOSMemory()
	}
	if err := w.out.Take(w.batch); err != nil {
		return err
	}
	clear(w.batch)
	w.batch = w.batch[:0]
	w.grouped += w.pending
	w.pending = 0
	if w.grouped >= groupBytes {
		w.grouped = 0
		if err := w.out.Flush(); err != nil {
			return err
		}
	}
	w.tell(false)
	return nil
}

// tell reports progress a few times a second.
func (w *writing) tell(end bool) {
	if w.progress == nil || !end && time.Since(w.told) < 100*time.Millisecond {
		return
	}
	w.told = time.Now()
	w.progress(Progress{Conversations: w.report.Conversations - w.report.SubAgents, Total: w.total, Tokens: w.report.Tokens, Elapsed: time.Since(w.began)})
}

func textBytes(m *schemas.Message) int64 {
	n := len(m.Role)
	for _, s := range []*string{m.Content, m.Parts, m.Name, m.ToolCallID, m.ToolCalls} {
		if s != nil {
			n += len(*s)
		}
	}
	return int64(n)
}
