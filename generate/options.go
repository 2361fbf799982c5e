package generate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"parley/generate/config"
	"parley/generate/importer"
	"parley/generate/tokenizer"
	"parley/schemas"
)

// Options says what dataset to make and where.
type Options struct {
	Output string // the file to write; of a part, also the folder that gets part-00003-of-00008.parquet
	Force  bool   // overwrite it if it is there

	Spec *Spec // what to make; nil for an import
	// Import are files to read instead, or folders of them; "-" is Stdin.
	Import []string
	Format string    // of the imported file; "" or "auto": told by its content
	Stdin  io.Reader // what "-" stands for; nil: the process's own
	// These are the importer's; see importer.Options.
	JitterMS     float64
	Columns      map[string]string
	Join         importer.Join
	LinkPrefixes bool
	BlockSize    int

	Conversations int                  // how many; 0: as the specification or the source has
	Seed          uint64               // of everything that is random
	Tokenizer     string               // name or file; "": tokenizer.Default
	Loaded        *tokenizer.Tokenizer // the tokenizer itself, where it has been loaded already
	Filter        importer.Filter
	Workers       int // goroutines; 0: one per core
	Shard, Shards int // write conversations Shard, Shard+Shards, ... of the dataset; 0 of 0: all
}

// Validate tells every problem at once, those of the specification included, without doing any work.
func (o *Options) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	problems = append(problems, o.CheckOutput())
	switch {
	case o.Spec == nil && len(o.Import) == 0:
		bad("nothing to generate: give --preset, --config, lengths (--turns, --input-tokens, --output-tokens) or --from")
	case o.Spec != nil && len(o.Import) > 0:
		bad("--from: an import takes no --preset, --config or lengths")
	case o.Spec != nil:
		problems = append(problems, o.Spec.Validate())
		for _, name := range o.Spec.TextFiles {
			if sameFile(o.Spec.file(name), o.Output) {
				bad("--output: %s is one of the text files: choose another name", o.Output)
			}
		}
		if o.Conversations == 0 && o.Spec.NumConversations == 0 {
			bad("num_conversations: missing: say how many in the config, or with --conversations")
		}
	}
	for _, name := range o.Import {
		if name != "-" && sameFile(name, o.Output) {
			bad("--output: %s is the file to import: choose another name", o.Output)
		}
	}
	if o.Conversations < 0 || o.Conversations > maxConversations {
		bad("--conversations: %d must be from 1 to %d", o.Conversations, maxConversations)
	}
	if o.Workers < 0 {
		bad("--workers: %d must not be negative", o.Workers)
	}
	if o.Shards < 0 || o.Shard < 0 || o.Shard > 0 && o.Shard >= o.Shards {
		bad("--shard: %d/%d: parts are numbered from 0, as in 0/4, 1/4, 2/4, 3/4", o.Shard, o.Shards)
	}
	if len(o.Import) > 0 {
		if _, err := importer.ParseFormat(o.Format); err != nil {
			bad("--format: %w", err)
		}
		opts := importer.Options{JitterMS: o.JitterMS, Join: o.Join, BlockSize: o.BlockSize}
		if err := opts.Validate(); err != nil {
			bad("--from: %w", err)
		}
	}
	var p config.Problems
	o.Filter.Check("--", "-", &p)
	return errors.Join(append(problems, p.Err())...)
}

// CheckOutput is the part of Validate that looks at the output alone.
func (o *Options) CheckOutput() error {
	output := o.partName()
	if _, err := os.Stat(filepath.Dir(output)); err != nil && output != o.Output {
		return nil // the folder is to be made
	}
	if o.Output == "" {
		return errors.New("--output: missing: name the file to write, such as -o chat.parquet")
	}
	if err := schemas.CheckOutput(output, o.Force); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// partName gives the file of a part, where the output is a folder, there already or to be made.
func (o *Options) partName() string {
	if st, err := os.Stat(o.Output); o.Shards < 1 || !strings.HasSuffix(o.Output, "/") && (err != nil || !st.IsDir()) {
		return o.Output
	}
	return filepath.Join(o.Output, fmt.Sprintf("part-%05d-of-%05d.parquet", o.Shard, o.Shards))
}

// sameFile says whether two names are the same existing file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func (o *Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (o *Options) tokenizer() (*tokenizer.Tokenizer, error) {
	if o.Loaded != nil {
		return o.Loaded, nil
	}
	name := o.Tokenizer
	if name == "" {
		name = tokenizer.Default
	}
	t, err := tokenizer.Load(name)
	if err != nil {
		return nil, fmt.Errorf("--tokenizer: %w", err)
	}
	return t, nil
}

// mine says whether the conversation at this place of the dataset belongs to the part to be written.
func (o *Options) mine(place int64) bool {
	return o.Shards <= 1 || place%int64(o.Shards) == int64(o.Shard)
}

// Progress is how far a run has come.
type Progress struct {
	Conversations int64 // written, without sub-agents
	Total         int64 // to be written; 0 where the source does not say
	Tokens        int64 // of the messages written
	Elapsed       time.Duration
}

// Report is what a run has written.
type Report struct {
	Output        string           `json:"output"`
	Conversations int64            `json:"conversations"`        // sub-agents among them
	SubAgents     int64            `json:"sub_agents,omitempty"` // conversations that another one started
	Turns         int64            `json:"turns"`
	Messages      int64            `json:"messages"`
	Tokens        int64            `json:"tokens"`     // of all messages
	TextBytes     int64            `json:"text_bytes"` // of all messages
	FileBytes     int64            `json:"file_bytes"`
	ContentHash   string           `json:"content_hash"`
	Tokenizer     string           `json:"tokenizer"`
	Format        string           `json:"format,omitempty"`  // of the imported file
	Read          int64            `json:"read,omitempty"`    // records of the imported file
	Skipped       map[string]int64 `json:"skipped,omitempty"` // records and conversations left out, by reason
	Examples      []string         `json:"examples,omitempty"`
	Notes         []string         `json:"notes,omitempty"`
	Elapsed       time.Duration    `json:"elapsed_ns"`
}
