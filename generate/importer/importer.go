package importer

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sync"

	"parley/generate/prose"
	"parley/generate/tokenizer"
	"parley/schemas"
)

// Options says how to import.
type Options struct {
	Format    Format               // Auto (or "") tells it by content
	Tokenizer *tokenizer.Tokenizer // counts tokens, and is the measure of made-up text
	Seed      uint64               // of everything that is random: jitter, text that the source does not fix
	Stdin     io.Reader            // what the path "-" stands for; nil is the process's own

	MinTurns        int // leave out conversations of fewer requests
	MaxTurns        int // leave out conversations of more; 0 is no limit
	MaxPromptTokens int // leave out conversations with a longer prompt; 0 is no limit
	Limit           int // stop after that many conversations; 0 is no limit

	// JitterMS moves every recorded arrival later by a random time below this many milliseconds. Some
	// traces (Mooncake) round arrivals down to steps of 3,000 ms, which makes bursts that never were.
	JitterMS float64

	// Join says what becomes of ShareGPT records whose identifiers differ in a last number only.
	Join Join

	// LinkPrefixes makes conversations of a Mooncake trace's requests where one's hashes go on from
	// another's. Otherwise each request is a conversation of one turn, whose prompt is exactly that of
	// the hashes.
	LinkPrefixes bool
}

// Join says whether ShareGPT records a_0, a_1, ... are one conversation.
type Join string

// The choices of Join.
const (
	JoinAuto   Join = ""       // join, unless there are more than MaxParts of them: then the number is a counter
	JoinAlways Join = "always" // join any number
	JoinNever  Join = "never"  // leave records as they are
)

// MaxParts is the most parts that JoinAuto takes for one conversation. A real one was split at some 2,000
// tokens (FastChat's split_long_conversation.py), so 100 parts would be 200,000 tokens; more records than
// that with the same name are examples that somebody numbered.
const MaxParts = 100

// Validate tells every problem at once.
func (o *Options) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.Tokenizer == nil {
		bad("a tokenizer is needed to count tokens")
	}
	if _, err := ParseFormat(string(o.Format)); err != nil {
		problems = append(problems, err)
	}
	switch o.Join {
	case JoinAuto, JoinAlways, JoinNever:
	default:
		bad("join %q is not known; there are always and never", o.Join)
	}
	for _, v := range []struct {
		name string
		n    int
	}{{"turns (least)", o.MinTurns}, {"turns (most)", o.MaxTurns}, {"prompt tokens", o.MaxPromptTokens}, {"conversations", o.Limit}} {
		if v.n < 0 {
			bad("a limit of %d %s: it must not be negative", v.n, v.name)
		}
	}
	if o.MaxTurns > 0 && o.MinTurns > o.MaxTurns {
		bad("at least %d turns and at most %d: nothing can be both", o.MinTurns, o.MaxTurns)
	}
	if o.JitterMS < 0 || math.IsNaN(o.JitterMS) || math.IsInf(o.JitterMS, 0) {
		bad("a jitter of %v ms: it must be 0 or more", o.JitterMS)
	}
	return errors.Join(problems...)
}

// Importer reads one file.
type Importer struct {
	opts   Options
	format Format
	source *source
	reader reader
	closes []func() error
	blocks *blockText

	jittered int64 // conversations whose arrival was moved
	ids      idSet
	systems  map[uint64]struct{} // hashes of system prompts seen
	report   Report
	finished bool
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
	work    func() ([]schemas.Conversation, *problem)
	exact   bool // turns carry their token counts already
}

// Result is what became of an item.
type Result struct {
	item    Item
	rows    []schemas.Conversation
	problem *problem
}

// Open begins to read a file; "-" is stdin.
func Open(path string, opts Options) (*Importer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	src, err := openSource(path, opts.Stdin)
	if err != nil {
		return nil, err
	}
	im := &Importer{opts: opts, source: src, systems: map[uint64]struct{}{}}
	if err := im.start(); err != nil {
		return nil, errors.Join(err, im.Close())
	}
	return im, nil
}

func (im *Importer) start() error {
	im.format = im.opts.Format
	if im.format == "" || im.format == Auto {
		head, err := im.source.peek(peekSize)
		if err != nil {
			return err
		}
		if im.format, err = Detect(head, im.source.name); err != nil {
			return fmt.Errorf("import: %w", err)
		}
	}
	im.report = Report{Source: im.source.name, Format: im.format, Skipped: map[string]int64{}, noted: map[string]int64{}}
	switch im.format {
	case Mooncake, Qwen, Agent, AIPerfRaw, Azure, BurstGPT:
		im.blocks = &blockText{tok: im.opts.Tokenizer, seed: im.opts.Seed, prose: sync.OnceValues(func() (*prose.Prose, error) {
			p, err := prose.New(im.opts.Tokenizer)
			if err != nil {
				return nil, fmt.Errorf("tokenizer %s: %w", im.opts.Tokenizer.Name(), err)
			}
			return p, nil
		})}
	}
	var err error
	switch im.format {
	case ShareGPT:
		im.reader, err = newShareGPT(im)
	case OpenAI:
		im.reader = newOpenAI(im)
	case Batch:
		im.reader = newBatch(im)
	case Questions:
		im.reader = newQuestions(im)
	case Parquet:
		im.reader, err = newParquet(im)
	case Mooncake:
		im.reader, err = newMooncake(im)
	case Qwen:
		im.reader, err = newQwen(im)
	case Agent:
		im.reader = newAgent(im)
	case AIPerf:
		im.reader = newAIPerf(im)
	case AIPerfRaw:
		im.reader, err = newAIPerfRaw(im)
	case Azure:
		im.reader, err = newAzure(im)
	case BurstGPT:
		im.reader, err = newBurst(im)
	default:
		err = fmt.Errorf("import: format %s is not available", im.format)
	}
	return err
}

// Format is the format that is read, told by content where none was given.
func (im *Importer) Format() Format { return im.format }

// Close closes the source and removes temporary files.
func (im *Importer) Close() error {
	var errs []error
	for _, c := range slices.Backward(im.closes) {
		errs = append(errs, c())
	}
	im.closes = nil
	return errors.Join(append(errs, im.source.Close())...)
}

// Items gives the items in order. It is for one goroutine. An error ends it.
func (im *Importer) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			item, err := im.reader.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("import: %s: %w", im.source.name, err)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Finish does the work on an item: parsing, text, tokens and turns. It is safe for concurrent use.
func (im *Importer) Finish(item Item) (Result, error) {
	res := Result{item: item, problem: item.problem}
	if res.problem == nil {
		res.rows, res.problem = item.work()
	}
	res.item.work = nil
	if res.problem != nil {
		res.rows = nil
		if res.problem.fatal {
			return res, fmt.Errorf("import: %s: %s", item.where, res.problem)
		}
		return res, nil
	}
	for i := range res.rows {
		if c := &res.rows[i]; item.exact {
			c.Turns = cleanTurns(c.Turns)
		} else {
			im.countTokens(c)
		}
	}
	return res, nil
}

// cleanTurns is there so that a row always has a list of turns.
func cleanTurns(t []schemas.Turn) []schemas.Turn {
	if t == nil {
		return []schemas.Turn{}
	}
	return t
}

// Commit takes the results in the order of their items, on one goroutine. It gives the conversations to
// keep, and false once no more are wanted.
func (im *Importer) Commit(res Result) ([]schemas.Conversation, bool) {
	if im.finished {
		return nil, false
	}
	im.report.Read += res.item.records
	p := res.problem
	if p == nil {
		p = im.refuse(res.rows)
	}
	if p != nil {
		im.report.skip(res.item.where, p, res.item.records)
		return nil, true
	}
	im.report.Kept += res.item.records
	renamed := map[string]string{}
	rows := res.rows
	for i := range rows {
		c := &rows[i]
		if id := im.ids.unique(c.ConversationID); id != c.ConversationID {
			renamed[c.ConversationID] = id
			c.ConversationID = id
			im.report.note("identifiers that came twice and were made unique", 1)
		}
		if c.ParentID != nil {
			if id, ok := renamed[*c.ParentID]; ok {
				c.ParentID = &id
			}
		}
		im.jitter(c)
		im.expectSystemPrompt(c)
	}
	if n := im.opts.Limit; n > 0 && im.report.Conversations+int64(len(rows)) >= int64(n) {
		rows = rows[:int64(n)-im.report.Conversations]
		im.finished = true
	}
	im.report.Conversations += int64(len(rows))
	for i := range rows {
		im.report.Turns += int64(len(rows[i].Turns))
	}
	return rows, !im.finished
}

// refuse applies the filters. Conversations that belong together (a coding agent and its sub-agents)
// stay or go by the first of them.
func (im *Importer) refuse(rows []schemas.Conversation) *problem {
	if len(rows) == 0 {
		return because("no conversation")
	}
	c := &rows[0]
	n := len(c.Turns)
	switch {
	case n == 0:
		return because("no turn: nobody asks for an answer")
	case n < im.opts.MinTurns:
		return because(fmt.Sprintf("fewer than %d turns", im.opts.MinTurns))
	case im.opts.MaxTurns > 0 && n > im.opts.MaxTurns:
		return because(fmt.Sprintf("more than %d turns", im.opts.MaxTurns))
	}
	if most := int64(im.opts.MaxPromptTokens); most > 0 {
		for _, t := range c.Turns {
			if t.PromptTokens != nil && *t.PromptTokens > most {
				return because(fmt.Sprintf("prompt of more than %d tokens", most))
			}
		}
	}
	return nil
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

// Report tells what was read, kept and left out so far.
func (im *Importer) Report() Report { return im.report.clone() }
