package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"parley/generate"
	"parley/generate/importer"
	"parley/generate/record"
)

// generateCommand is the command line of parley generate. The tag for names what a flag belongs to: making (spec),
// importing (from), describing; a flag without it is harmless anywhere.
type generateCommand struct {
	Output string `for:"like spec from record" short:"o" placeholder:"FILE" help:"File to write; never overwritten without --force. With --shard also a folder: -o parts/"`
	Force  bool   `help:"Overwrite the output."`
	Preset string `for:"spec" group:"Source" placeholder:"NAME" help:"A kind of traffic: chat, longchat, coding-agent, api."`
	Config string `for:"spec" group:"Source" type:"path" placeholder:"FILE" help:"A generation config: vLLM's as it is, or ours (YAML or JSON). With --preset, the fields that it gives take the place of the preset's."`

	Turns        string `for:"spec" group:"Lengths" placeholder:"DIST" help:"Requests of a conversation: a number, min:max, normal(mean,sd), lognormal(median=..,p90=..), any other distribution with its parameters, or FILE:COLUMN of a CSV or Parquet file. Alone, or over --preset and --config."`
	InputTokens  string `for:"spec" group:"Lengths" placeholder:"DIST" help:"Tokens of each user message. Two columns of one file, here and for --output-tokens, are drawn together, row by row."`
	OutputTokens string `for:"spec" group:"Lengths" placeholder:"DIST" help:"Tokens of each answer."`
	SharedPrefix string `for:"spec" group:"Lengths" placeholder:"DIST" help:"Tokens of a system message that conversations share."`

	Languages string `for:"like spec" group:"Text" placeholder:"SHARES" help:"Languages of the conversations by share, as in en:0.7,zh:0.2,es:0.1 (ar, de, en, es, fr, hi, it, ja, ko, pt, ru, zh)."`
	Images    string `for:"spec" group:"Text" placeholder:"SIZES" help:"Synthetic PNG images in user messages, for models that see: a size, or sizes with the share of messages, as in 1024x768:0.3,512x512:0.1."`

	From      []string `for:"from" group:"Source" sep:"none" placeholder:"FILE" help:"A file to import, or a folder of files; - is standard input. Give it several times for one dataset of several files."`
	Format    string   `for:"like from describe" group:"Source" default:"auto" placeholder:"NAME" help:"Their format (default: told by content): chat, conversations, mooncake, qwen, agent, aiperf, aiperf-mooncake, azure, burstgpt."`
	Like      []string `for:"like" group:"Source" sep:"none" placeholder:"FILE" help:"Learn a workload from a dataset, a trace or a log (anything that --from reads) and make more of it: lengths, turns, think times, arrivals and shared prefixes, none of its text. Repeatable."`
	SpecOnly  bool     `for:"like" group:"Source" help:"Print what was learned by --like as a config, and write nothing."`
	Record    string   `for:"record" group:"Source" placeholder:"ADDRESS" help:"Record what passes: listen here (127.0.0.1:9000), pass requests on to --upstream, and write the conversations when interrupted."`
	Upstream  string   `for:"record" group:"Source" placeholder:"URL" help:"Server behind --record."`
	Redact    bool     `for:"record" group:"Source" help:"Replace recorded texts by words of as many tokens, shared prefixes kept (default)."`
	KeepText  bool     `for:"record" group:"Source" help:"Keep recorded texts as they are."`
	Describe  string   `group:"Source" placeholder:"FILE" help:"Print what a dataset holds, one of parley's or anything that --from reads, and write nothing."`
	JSON      bool     `group:"Source" name:"json" help:"Print the description, or the report of what was written, as JSON."`
	Seed      uint64   `group:"Dataset" default:"0" help:"Seed: the same seed gives the same bytes."`
	Tokenizer string   `group:"Dataset" placeholder:"NAME|FILE" help:"Tokenizer to count with: o200k_base (default), cl100k_base, p50k_base, r50k_base, or a file: tokenizer.json, tekken.json, tokenizer.model, *.tiktoken."`

	Conversations   int               `for:"like spec from" group:"Dataset" short:"n" placeholder:"N" help:"How many conversations (default: as the source has). Those that they start, such as sub-agents, come on top."`
	MinTurns        int               `for:"like spec from" group:"Dataset" placeholder:"N" help:"Leave out conversations of fewer turns."`
	MaxTurns        int               `for:"like spec from" group:"Dataset" placeholder:"N" help:"Leave out conversations of more turns."`
	MaxPromptTokens int               `for:"like spec from" group:"Dataset" placeholder:"N" help:"Leave out conversations with a longer prompt."`
	Column          map[string]string `for:"like from describe" group:"Import" mapsep:"none" placeholder:"WHAT=NAME" help:"Where chats have something under another name: messages=chat, prompt=question_text, response=data.answer. May be given several times."`
	Join            string            `for:"like from" group:"Import" enum:"auto,always,never" default:"auto" help:"Records named a_0, a_1, ...: auto joins those that show that they are parts of one conversation; always, never."`
	Link            string            `for:"from" group:"Import" enum:"none,prefix" default:"none" help:"prefix makes conversations of a Mooncake trace's requests whose prompts go on from each other."`
	BlockSize       int               `for:"like from" group:"Import" placeholder:"N" help:"Tokens of a block that a trace's hash stands for (default: told by lengths and hashes)."`
	Jitter          time.Duration     `for:"from" group:"Import" help:"Spread arrivals of an imported trace that come in bunches over this time."`
	Shard           string            `for:"like spec from" group:"Dataset" placeholder:"I/N" help:"Write the Ith of N parts of the dataset, from 0: into a file, or a folder (-o parts/) that replay takes as one dataset."`
	Workers         int               `group:"Dataset" placeholder:"N" help:"Goroutines (default: one per core)."`
}

// Help is shown below the flags.
func (generateCommand) Help() string {
	return `Examples:

  parley generate -o chat.parquet --preset chat -n 1000 --seed 7
  parley generate -o vllm.parquet --config generate_multi_turn.json
  parley generate -o load.parquet --turns 4 --input-tokens 1000 --output-tokens 'normal(200,50)'
  parley generate -o share.parquet --from ShareGPT_V3.json --max-turns 20
  zcat trace.jsonl.gz | parley generate -o trace.parquet --from - --jitter 3s
  parley generate -o prod.parquet --record 127.0.0.1:9000 --upstream http://127.0.0.1:8000
  parley generate -o big.parquet --like trace.jsonl -n 100000
  parley generate --describe chat.parquet

What is imported is told by its content, in JSON, JSON lines, Parquet or CSV alike, gzip or zstd: chats in
the usual shapes (ShareGPT, OpenAI messages and batches, Hugging Face, Alpaca, Dolly, OASST, preference
pairs, MT-Bench), Mooncake, Qwen-Bailian, coding-agent traces, AIPerf, Azure, BurstGPT. What could not be
kept is counted by reason, with an example.`
}

// ignored tells the flags that what is to be done would ignore.
func (c *generateCommand) ignored() error {
	does, with := "", ""
	switch {
	case c.Describe != "":
		does, with = "describe", "--describe"
	case c.Record != "":
		does, with = "record", "--record"
	case len(c.Like) > 0:
		does, with = "like", "--like"
	case c.SpecOnly:
		return errors.New("--spec-only: say what to learn from with --like")
	case len(c.From) > 0:
		does, with = "from", "--from"
	case c.recipe().Given():
		does, with = "spec", "what is made by --preset, --config or lengths"
	case c.Upstream != "" || c.Redact || c.KeepText:
		return errors.New("--record: say where to listen, such as 127.0.0.1:9000; --upstream, --redact and --keep-text go with it")
	default:
		return nil
	}
	var problems []error
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		belongs, ok := f.Tag.Lookup("for")
		if !ok || slices.Contains(strings.Fields(belongs), does) || v.Field(i).IsZero() || v.Field(i).Kind() == reflect.String && v.Field(i).String() == f.Tag.Get("default") {
			continue
		}
		problems = append(problems, fmt.Errorf("--%s: has no effect on %s: leave it out", flagOf(f.Name), with))
	}
	return errors.Join(problems...)
}

// flagOf gives the flag of a field: OutputTokens is --output-tokens.
func flagOf(field string) string {
	var b strings.Builder
	for i, r := range field {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (c *generateCommand) recipe() generate.Recipe {
	return generate.Recipe{
		Preset: c.Preset, Config: c.Config, Turns: c.Turns, InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, SharedPrefix: c.SharedPrefix,
		Languages: c.Languages, Images: c.Images,
	}
}

// describe prints what a dataset holds.
func (c *generateCommand) describe(ctx context.Context, p *program) error {
	d, err := generate.Describe(ctx, c.Describe, generate.Options{Tokenizer: c.Tokenizer, Format: c.Format, Columns: c.Column, Workers: c.Workers})
	if err != nil {
		return err
	}
	if c.JSON {
		return d.WriteJSON(p.stdout)
	}
	return d.WriteText(p.stdout)
}

func (c *generateCommand) run(ctx context.Context, p *program, ui *ui) error {
	if err := c.ignored(); err != nil {
		return usageError(err)
	}
	if c.Describe != "" {
		return c.describe(ctx, p)
	}
	if c.Record != "" {
		return c.recording(ctx, p, ui)
	}
	if len(c.From) == 1 && record.IsSpool(c.From[0]) {
		return c.seal(p)
	}
	o, err := c.options(p.stdin)
	if err != nil {
		return usageError(err)
	}
	if len(c.Like) > 0 {
		if !c.SpecOnly { // before it takes its time
			if err := o.CheckOutput(); err != nil {
				return usageError(err)
			}
		}
		if o.Spec, err = c.learn(ctx, p, ui); err != nil || c.SpecOnly {
			return err
		}
	}
	if c.Output == "-" {
		return usageError(errors.New("--output -: a Parquet file is not written to a stream: name the file"))
	}
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	report, err := generate.Run(ctx, o, func(now generate.Progress) { ui.progress(generateProgress(now)) })
	ui.done()
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return exitError{codeInterrupted, fmt.Errorf("interrupted: %s was not written", c.Output)}
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, report)
	}
	return printGenerated(p.stdout, report)
}

var errInterrupted = errors.New("interrupted")

func (c *generateCommand) options(stdin io.Reader) (generate.Options, error) {
	o := generate.Options{
		Output: c.Output, Force: c.Force, Format: c.Format, Stdin: stdin, Seed: c.Seed,
		Tokenizer: c.Tokenizer, Conversations: c.Conversations, Workers: c.Workers,
		Import: c.From, JitterMS: float64(c.Jitter) / float64(time.Millisecond),
		Columns: c.Column, Join: importer.Join(c.Join), LinkPrefixes: c.Link == "prefix", BlockSize: c.BlockSize,
		Filter: importer.Filter{MinTurns: c.MinTurns, MaxTurns: c.MaxTurns, MaxPromptTokens: c.MaxPromptTokens},
	}
	var problems []error
	if recipe := c.recipe(); recipe.Given() {
		var err error
		o.Spec, err = recipe.Spec()
		problems = append(problems, err)
	}
	if c.Shard != "" {
		var i, n int
		if k, err := fmt.Sscanf(c.Shard, "%d/%d", &i, &n); err != nil || k != 2 || n < 1 {
			problems = append(problems, fmt.Errorf("--shard: %q: give I/N, as in 0/4", c.Shard))
		}
		o.Shard, o.Shards = i, n
	}
	return o, errors.Join(problems...)
}

func generateProgress(now generate.Progress) string {
	text := fmt.Sprintf("%s conversations", thousands(now.Conversations))
	if now.Total > 0 {
		text = fmt.Sprintf("%s of %s conversations (%.0f %%)", thousands(now.Conversations), thousands(now.Total),
			100*float64(now.Conversations)/float64(now.Total))
	}
	if s := now.Elapsed.Seconds(); s > 0 {
		text += fmt.Sprintf(", %s tokens, %s tokens/s", thousands(now.Tokens), thousands(int64(float64(now.Tokens)/s)))
	}
	return text
}

func printGenerated(w io.Writer, r generate.Report) error {
	var b strings.Builder
	agents := ""
	if r.SubAgents > 0 {
		agents = fmt.Sprintf(" (%s of them started by others)", thousands(r.SubAgents))
	}
	fmt.Fprintf(&b, "%s: %s conversations%s, %s turns, %s messages, %s tokens (%s), %s of text, file %s, in %s\n",
		clean(r.Output), thousands(r.Conversations), agents, thousands(r.Turns), thousands(r.Messages), thousands(r.Tokens), clean(r.Tokenizer),
		size(r.TextBytes), size(r.FileBytes), r.Elapsed.Round(time.Millisecond))
	fmt.Fprintf(&b, "content %s\n", r.ContentHash)
	if r.Format != "" {
		fmt.Fprintf(&b, "imported as %s: %s records read", r.Format, thousands(r.Read))
		if len(r.Skipped) == 0 {
			b.WriteString(", none skipped")
		}
		b.WriteByte('\n')
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&b, "  skipped %s: %s\n", thousands(r.Skipped[reason]), clean(reason))
	}
	for _, e := range r.Examples {
		fmt.Fprintf(&b, "  e.g. %s\n", clean(e))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", clean(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// thousands prints a whole number with separators.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size prints a number of bytes.
func size(n int64) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}
