package importer

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"strings"
	"sync"

	"parley/generate/chatshape"
	"parley/generate/config"
	"parley/generate/prefix"
	"parley/generate/prose"
	"parley/generate/tokenizer"
	"parley/schemas"
)

// Options says how to import.
type Options struct {
	Format    Format               // Auto (or "") tells it by content
	Tokenizer *tokenizer.Tokenizer // counts tokens, and is the measure of made-up text; nil: chats without counts
	Seed      uint64               // of everything that is random: jitter, text that the source does not fix
	Stdin     io.Reader            // what the path "-" stands for; nil is the process's own

	Filter     // leaves conversations out
	Limit  int // stop after that many conversations, with all that they start; 0 is no limit

	// JitterMS moves every recorded arrival later by a random time below this many milliseconds. Some
	// traces (Mooncake) round arrivals down to steps of 3,000 ms, which makes bursts that never were.
	JitterMS float64

	// Columns says under which names chats have what would be looked for elsewhere (see chatshape.Reader).
	Columns map[string]string

	// Join says what becomes of chats whose identifiers differ in a last number only.
	Join Join

	// LinkPrefixes makes conversations of a Mooncake trace's requests where one's hashes go on from
	// another's. Otherwise each request is a conversation of one turn, whose prompt is exactly that of
	// the hashes.
	LinkPrefixes bool

	// Outline leaves out the texts that would be made for traces: their rows have lengths and times only. and
	// Result.Prefixes tells what first prompts share.
	Outline bool

	// BlockSize is the tokens of a block that a hash of a trace stands for; 0 is told by the lengths.
	BlockSize int
}

// Join says whether records a_0, a_1, ... are parts of one conversation.
type Join string

// The choices of Join.
const (
	JoinAuto   Join = "auto"   // join what shows that it can go on from each other
	JoinAlways Join = "always" // join any number
	JoinNever  Join = "never"  // leave records as they are
)

// Validate tells every problem at once.
func (o *Options) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if _, err := ParseFormat(string(o.Format)); err != nil {
		problems = append(problems, err)
	}
	switch o.Join {
	case "", JoinAuto, JoinAlways, JoinNever:
	default:
		bad("join %q is not known; there are auto, always and never", o.Join)
	}
	if o.BlockSize < 0 || o.BlockSize > 1<<20 {
		bad("blocks of %d tokens: it must be from 1 to %d", o.BlockSize, 1<<20)
	}
	if o.Limit < 0 {
		bad("a limit of %d conversations: it must not be negative", o.Limit)
	}
	var p config.Problems
	o.Filter.Check("", "_", &p)
	problems = append(problems, p.Err())
	if o.JitterMS < 0 || math.IsNaN(o.JitterMS) || math.IsInf(o.JitterMS, 0) {
		bad("a jitter of %v ms: it must be 0 or more", o.JitterMS)
	}
	return errors.Join(problems...)
}

// Importer reads files, one after the other.
type Importer struct {
	opts   Options
	chats  chatshape.Reader
	files  []input // still to be opened
	source *source
	reader reader
	format Format // of the source
	told   []told
	keep   []*source // read to their ends; work on their items may still want them
	blocks *blockText
	cache  blockCache // of a coding agents' traces, over all files

	jittered int64 // conversations whose arrival was moved
	ids      idSet
	renamed  map[string]string   // what the identifiers of a tree of conversations became,
	promised map[string]string   // and what those that its turns wait for will become
	roots    int                 // conversations kept that no other one starts
	out      map[uint64]struct{} // hashes of the identifiers of those left out, whose sub-agents go with them
	seen     prefix.Cache        // prompts and answers of chats
	report   Report
	finished bool
}

// input is a file that is to be read.
type input struct {
	path   string
	folder bool // it is one of a folder, and left out if it is no dataset
}

// reader cuts the source into items. It gives io.EOF at the end.
type reader interface {
	next() (Item, error)
}

// Item is one unit of work: a record, or records that belong together.
type Item struct {
	where   Where
	records int64 // of the source that it stands for
	problem *problem
	notes   []chatshape.Note // of reading it
	told    []told           // of what was read before it
	format  Format
	work    func() (made, *problem)
	exact   bool // turns carry their token counts already
}

// told is a note of reading. It goes with the item that is read next, so that what was read ahead of the last
// conversation that is wanted leaves no trace.
type told struct {
	what    string
	n       int64
	example string
}

func (im *Importer) tell(what string, n int64, example string) {
	im.told = append(im.told, told{what, n, example})
}

func (im *Importer) tellAll(list []told) {
	for _, t := range list {
		im.report.note(t.what, t.n, t.example)
	}
}

// made is what came of the work on an item.
type made struct {
	rows   []schemas.Conversation
	notes  []chatshape.Note
	chains [][]prefix.Chain // of each row with text: those of its tokens
	shared []Prefix         // with Outline: of each row
}

// Result is what became of an item.
type Result struct {
	item Item
	made
	problem *problem
}

// Prefix is the first prompt of a conversation as blocks of tokens: equal ones stand for equal text, if all before
// them are equal.
type Prefix struct {
	Size   int // tokens of a block
	Blocks []uint64
}

// Blocks of text: their tokens, and how many of a prompt are told at most.
const blockTokens, maxBlocks = 16, 4096

// Prefixes gives the first prompts of an item's conversations, in their order, if they were read with Outline.
func (r Result) Prefixes() []Prefix { return r.shared }

// Open begins to read files, and the files of folders, as one dataset; "-" is stdin.
func Open(paths []string, opts Options) (*Importer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Join == "" {
		opts.Join = JoinAuto
	}
	im := &Importer{opts: opts, chats: chatshape.Reader{Columns: opts.Columns}, ids: idSet{}, renamed: map[string]string{}, promised: map[string]string{}, out: map[uint64]struct{}{}}
	im.report = Report{Skipped: map[string]int64{}, noted: map[string]*noted{}, formats: map[Format]struct{}{}}
	im.blocks = &blockText{tok: opts.Tokenizer, seed: opts.Seed, prose: sync.OnceValues(func() (*prose.Prose, error) {
		p, err := prose.New(opts.Tokenizer)
		if err != nil {
			return nil, fmt.Errorf("tokenizer %s: %w", opts.Tokenizer.Name(), err)
		}
		return p, nil
	})}
	for _, path := range paths {
		files, folder, err := filesOf(path)
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		for _, f := range files {
			im.files = append(im.files, input{f, folder})
		}
	}
	im.report.several = len(im.files) > 1
	if err := im.advance(); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("import: no file is given")
			if len(im.told) > 0 {
				err = fmt.Errorf("import: none of the files in %s is a dataset: %s", strings.Join(paths, ", "), im.told[0].example)
			}
		}
		return nil, errors.Join(err, im.Close())
	}
	return im, nil
}

// advance goes to the next file; io.EOF says that there is none.
func (im *Importer) advance() error {
	for len(im.files) > 0 {
		f := im.files[0]
		im.files = im.files[1:]
		im.reader = nil
		if im.source != nil {
			if im.source.late {
				im.keep = append(im.keep, im.source)
			} else if err := im.source.Close(); err != nil {
				return err
			}
			im.source = nil
		}
		src, err := openSource(f.path, im.opts.Stdin)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		im.source = src
		err = im.begin(src)
		var no *notDataset
		if f.folder && errors.As(err, &no) {
			im.tell(leftOutFiles, 1, src.name+": "+no.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("import: %s: %w", src.name, err)
		}
		return nil
	}
	return io.EOF
}

// notDataset wraps why a file has no format.
type notDataset struct{ error }

func (n *notDataset) Unwrap() error { return n.error }

// begin tells a source's format and opens its reader.
func (im *Importer) begin(src *source) error {
	format := im.opts.Format
	if src.kind == kindParquet {
		switch kind, err := schemas.Inspect(src.file.Name()); {
		case err != nil:
			return &notDataset{err}
		case kind == schemas.KindConversations:
			format = Conversations
		case kind != "":
			return &notDataset{fmt.Errorf("it is a file of %s: look into it with analyze", kind)}
		}
	}
	keys, err := src.keys()
	if format == "" || format == Auto {
		for i := 0; i < len(keys) && err == nil; i++ {
			var no error
			if format, no = formatOf(&im.chats, keys[i]); no == nil {
				break
			} else if i == len(keys)-1 {
				_, err = formatOf(&im.chats, keys[0])
			}
		}
		if err != nil {
			return &notDataset{err}
		}
	}
	if im.opts.Tokenizer == nil && format != Chat && format != Conversations {
		return fmt.Errorf("it is a trace (%s) without texts: make a dataset of it with 'parley generate --from %s'", format, src.name)
	}
	im.format = format
	im.tell("files read as "+string(format), 1, src.name)
	for _, f := range formats {
		if f.format == format {
			im.reader, err = f.open(im, src)
			return err
		}
	}
	return fmt.Errorf("format %s is not available", format)
}

// Format is the format that is read, told by content where none was given; those of several files stand
// together.
func (im *Importer) Format() string { return im.report.Format() }

// Close closes the sources and removes temporary files.
func (im *Importer) Close() error {
	var errs []error
	for _, s := range append(im.keep, im.source) {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	im.keep, im.source = nil, nil
	return errors.Join(errs...)
}

// Items gives the items in order. It is for one goroutine. An error ends it.
func (im *Importer) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			item, err := im.reader.next()
			if errors.Is(err, io.EOF) {
				if err = im.advance(); err == nil {
					continue
				}
				if errors.Is(err, io.EOF) {
					return
				}
			} else if err != nil {
				err = fmt.Errorf("import: %s: %w", im.source.name, err)
			}
			item.format, item.told, im.told = im.format, im.told, nil
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Finish does the work on an item: parsing, text, tokens and turns. It is safe for concurrent use.
func (im *Importer) Finish(item Item) (Result, error) {
	work := item.work
	item.work = nil // it holds the record's bytes, which need not be there while tokens are counted
	res := Result{item: item, problem: item.problem}
	if res.problem == nil {
		res.made, res.problem = work()
	}
	if res.problem != nil {
		res.rows = nil
		if res.problem.fatal {
			return res, fmt.Errorf("import: %s: %s", item.where, res.problem)
		}
		return res, nil
	}
	for i := range res.rows {
		c := &res.rows[i]
		if len(c.Turns) == 0 {
			c.Turns = append([]schemas.Turn{}, schemas.DeriveTurns(c.Messages)...) // never null
		}
		if !item.exact && im.opts.Tokenizer != nil {
			chains := im.countTokens(c)
			res.chains = append(res.chains, chains)
			if im.opts.Outline {
				res.shared = append(res.shared, firstBlocks(c, chains))
			}
		}
	}
	return res, nil
}

// Commit takes the results in the order of their items, on one goroutine. It gives the conversations to
// keep, and false once no more are wanted.
func (im *Importer) Commit(res Result) ([]schemas.Conversation, bool) {
	if im.finished {
		return nil, false
	}
	if im.full() && (len(res.rows) == 0 || res.rows[0].ParentID == nil) {
		im.finished = true
		return nil, false
	}
	im.tellAll(res.item.told)
	im.report.formats[res.item.format] = struct{}{}
	im.report.Read += res.item.records
	p := res.problem
	if p == nil {
		p = im.refuse(res.rows, res.item.format)
	}
	if p != nil {
		im.report.skip(res.item.where, p, res.item.records)
		return nil, true
	}
	im.report.Kept += res.item.records
	for _, n := range append(res.item.notes, res.notes...) {
		example := res.item.where.String()
		if n.Detail != "" {
			example += ": " + n.Detail
		}
		im.report.note(n.What, 1, example)
	}
	rows := res.rows
	for i := range rows {
		c := &rows[i]
		if c.ParentID == nil {
			im.roots++
		}
		if im.name(c) {
			im.report.note("identifiers that came twice and were made unique", 1, res.item.where.String())
		}
		im.jitter(c)
		if len(res.chains) > 0 {
			im.share(c, res.chains[i])
		}
	}
	im.report.Conversations += int64(len(rows))
	for i := range rows {
		im.report.Turns += int64(len(rows[i].Turns))
	}
	// Those that others start are rows of their own in a dataset of parley, behind what starts them.
	im.finished = im.full() && res.item.format != Conversations
	return rows, !im.finished
}

// name makes a conversation's identifier unique, and says whether it had to. What refers to it goes along: its sub-agents
// name their parent, which comes before them, and its turns name the sub-agents that they wait for, which come after it.
func (im *Importer) name(c *schemas.Conversation) bool {
	fresh := func(id string) string {
		if name, ok := im.promised[id]; ok {
			return name
		}
		return im.ids.unique(id)
	}
	if c.ParentID == nil {
		clear(im.promised)
		clear(im.renamed)
	} else if name, ok := im.renamed[*c.ParentID]; ok {
		c.ParentID = &name
	}
	was := c.ConversationID
	c.ConversationID = fresh(was)
	im.renamed[was] = c.ConversationID
	for i := range c.Turns {
		for k, id := range c.Turns[i].Joins {
			im.promised[id] = fresh(id)
			c.Turns[i].Joins[k] = im.promised[id]
		}
	}
	return was != c.ConversationID
}

func (im *Importer) full() bool { return im.opts.Limit > 0 && im.roots >= im.opts.Limit }

const noTurn = "no turn: nobody asks for an answer"

// refuse applies the filters. Conversations that belong together (a coding agent and its sub-agents)
// stay or go by the first of them, in whose rows or behind which the others stand.
func (im *Importer) refuse(rows []schemas.Conversation, format Format) *problem {
	if len(rows) == 0 {
		return because("no conversation")
	}
	c := &rows[0]
	var p *problem
	switch n := len(c.Turns); {
	case n == 0:
		p = because(noTurn)
	case c.ParentID != nil:
		if _, gone := im.out[maphash.String(idSeed, *c.ParentID)]; gone {
			p = because("started by one that was left out")
		}
	default:
		longest := int64(0)
		for _, t := range c.Turns {
			if t.PromptTokens != nil {
				longest = max(longest, *t.PromptTokens)
			}
		}
		if why := im.opts.Refuses(n, int(longest)); why != "" {
			p = because(why)
		}
	}
	if p != nil && format == Conversations {
		im.out[maphash.String(idSeed, c.ConversationID)] = struct{}{}
	}
	return p
}

// Conversations does all three steps one after the other.
func (im *Importer) Conversations() iter.Seq2[schemas.Conversation, error] {
	return func(yield func(schemas.Conversation, error) bool) {
		for item, err := range im.Items() {
			var res Result
			if err == nil {
				res, err = im.Finish(item)
			}
			if err != nil {
				yield(schemas.Conversation{}, err)
				return
			}
			rows, more := im.Commit(res)
			for i := range rows {
				if !yield(rows[i], nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// Bad gives the first record that could not be read, if there is one. Those without a turn are no such records.
func (im *Importer) Bad() *Problem {
	for i := range im.report.Problems {
		if p := &im.report.Problems[i]; p.Reason != noTurn {
			return p
		}
	}
	return nil
}

// Report tells what was read, kept and left out, after the last item.
func (im *Importer) Report() *Report {
	if !im.finished {
		im.tellAll(im.told) // of files after the last item
		im.told = nil
	}
	return im.report.clone()
}
