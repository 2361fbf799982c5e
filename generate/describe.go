package generate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"parley/generate/importer"
	"parley/schemas"
)

// Description is what a dataset holds. Times are seconds, lengths tokens of the tokenizer that it names.
type Description struct {
	File          string               `json:"file"`
	FileBytes     int64                `json:"file_bytes"`
	Format        string               `json:"format"`         // conversations (of parley), or that of another tool
	Meta          *schemas.DatasetMeta `json:"meta,omitempty"` // of a file of parley
	Tokenizer     string               `json:"tokenizer"`
	Counted       bool                 `json:"counted"` // tokens were counted now, not taken from the file
	Conversations int64                `json:"conversations"`
	Turns         int64                `json:"turns"`
	Messages      int64                `json:"messages"`
	Roles         map[string]int64     `json:"messages_by_role"`
	TextBytes     int64                `json:"text_bytes"` // of all messages
	Tokens        int64                `json:"tokens"`     // of all messages

	TurnsPer     Summary `json:"turns_per_conversation"`
	FirstNew     Summary `json:"first_new_tokens"` // new tokens of first turns
	LaterNew     Summary `json:"later_new_tokens"` // of later ones
	Prompt       Summary `json:"prompt_tokens"`
	Output       Summary `json:"output_tokens"`
	Conversation Summary `json:"conversation_tokens"` // last prompt and its answer
	ThinkTime    Summary `json:"think_time_s"`        // before later turns that have one
	ToolTime     Summary `json:"tool_time_s"`         // the same

	Arrivals *ArrivalSummary `json:"arrivals,omitempty"`
	Cache    CacheCeiling    `json:"cache_ceiling"`
	Prefixes []PrefixGroup   `json:"shared_prefixes,omitempty"` // largest first, at most maxGroupsShown
	Groups   int64           `json:"prefix_groups"`             // how many there are

	WithTools int64                       `json:"conversations_with_tools,omitempty"`
	WithParts int64                       `json:"conversations_with_parts,omitempty"` // multi-part content, such as images
	SubAgents int64                       `json:"conversations_of_a_parent,omitempty"`
	Joins     int64                       `json:"turns_that_join,omitempty"` // that wait for other conversations' ends
	Tags      map[string]map[string]int64 `json:"tags,omitempty"`            // conversations by value; "..." for the rarer ones

	Skipped map[string]int64 `json:"skipped,omitempty"` // records that could not be used, by reason
	Notes   []string         `json:"notes,omitempty"`
}

// Summary describes numbers. Quantiles are exact: the smallest value that at least that share of the
// numbers does not exceed.
type Summary struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P10   float64 `json:"p10"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// ArrivalSummary describes recorded starts.
type ArrivalSummary struct {
	Conversations int64   `json:"conversations"` // that have one
	SpanS         float64 `json:"span_s"`        // from the first to the last
	PerSecond     float64 `json:"per_second"`    // gaps per second of the span
	GapCV         float64 `json:"gap_cv"`        // standard deviation of the gaps over their mean: 1 is Poisson, more is burstier
}

// CacheCeiling is how much of the prompts a prefix cache that never forgets would hold, when conversations
// run in the order of the file and every answer is the recorded one.
type CacheCeiling struct {
	PromptTokens int64   `json:"prompt_tokens"` // of all requests
	CachedTokens int64   `json:"cached_tokens"` // of them, those that an earlier request has sent or got
	Share        float64 `json:"share"`
	First        float64 `json:"share_of_first_turns"` // what conversations share with each other
	Later        float64 `json:"share_of_later_turns"` // mostly their own history
}

// PrefixGroup is a set of conversations that begin alike.
type PrefixGroup struct {
	Name          string `json:"name"`
	Conversations int64  `json:"conversations"`
	Tokens        int64  `json:"tokens"` // most tokens of a first prompt that an earlier conversation has sent
}

const (
	maxGroupsShown = 20
	maxTagValues   = 12
	maxTagNames    = 12
)

// Describe tells what a dataset holds: a file of parley, the parts of one (by their folder or a pattern), any chat
// dataset in Parquet, or any other file that can be imported. Of the options it takes Tokenizer (or Loaded),
// Format and Workers. Tokens are counted where the file does not have their numbers.
func Describe(ctx context.Context, path string, o Options) (Description, error) {
	d := &describer{desc: Description{
		File: path, Roles: map[string]int64{}, Tags: map[string]map[string]int64{}, Skipped: map[string]int64{},
	}, groups: map[string]*PrefixGroup{}}
	files, err := schemas.DatasetFiles(path)
	if err != nil {
		files = []string{path} // no Parquet: the importer tells what it is
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return Description{}, err
		}
		d.desc.FileBytes += st.Size()
	}
	own, err := openOwn(path, files)
	if err == nil && own != nil {
		err = errors.Join(d.own(ctx, own), own.Close())
	} else if err == nil {
		err = d.other(ctx, path, &o)
	}
	if err != nil {
		return Description{}, err
	}
	return d.finish(), nil
}

// openOwn opens a dataset of parley with the tokens of every turn; it gives nil for any other.
func openOwn(path string, files []string) (own *schemas.Dataset, err error) {
	kind, err := schemas.Inspect(files[0])
	if err != nil || kind == "" {
		return nil, nil // the importer tells what it is
	}
	if kind != schemas.KindConversations {
		return nil, fmt.Errorf("%s is a file of %s, not a dataset: look into it with analyze", files[0], kind)
	}
	if len(files) == 1 {
		own, err = schemas.OpenFile(files[0]) // a part by itself, too
	} else {
		own, err = schemas.OpenDataset(path)
	}
	if err != nil {
		return nil, err
	}
	for o, err := range own.Outlines() {
		if err != nil {
			return nil, errors.Join(err, own.Close())
		}
		for _, t := range o.Turns {
			if t.PromptTokens == nil || t.NewTokens == nil || t.ExpectedCachedTokens == nil {
				return nil, own.Close()
			}
		}
	}
	return own, nil
}

// describer gathers a description.
type describer struct {
	desc   Description
	groups map[string]*PrefixGroup

	turnsPer, firstNew, laterNew, prompt, output, conversation, think, tool, starts []float64
	first, later                                                                    [2]int64 // prompt tokens, cached ones
}

func (d *describer) own(ctx context.Context, f *schemas.Dataset) error {
	meta := f.Meta()
	d.desc.Meta, d.desc.Format, d.desc.Tokenizer, d.desc.Notes = &meta, string(schemas.KindConversations), meta.Tokenizer, meta.Notes
	for c, err := range f.Conversations(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		d.add(&c)
	}
	return nil
}

func (d *describer) other(ctx context.Context, path string, o *Options) error {
	tok, err := o.tokenizer()
	if err != nil {
		return err
	}
	opts := o.importOptions()
	opts.Tokenizer = tok
	im, err := importer.Open([]string{path}, opts)
	if err != nil {
		return err
	}
	defer im.Close()
	d.desc.Tokenizer, d.desc.Counted = tok.Name(), true
	err = ordered(ctx, o.workers(), im.Items(), im.Finish, func(res importer.Result) error {
		rows, more := im.Commit(res)
		for i := range rows {
			d.add(&rows[i])
		}
		if !more {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	rep := im.Report()
	d.desc.Format, d.desc.Skipped, d.desc.Notes = im.Format(), rep.Skipped, rep.Notes
	return nil
}

func (d *describer) add(c *schemas.Conversation) {
	out := &d.desc
	out.Conversations++
	out.Turns += int64(len(c.Turns))
	out.Messages += int64(len(c.Messages))
	parts := false
	for i := range c.Messages {
		m := &c.Messages[i]
		out.Roles[m.Role]++
		out.TextBytes += textBytes(m)
		parts = parts || m.Parts != nil
	}
	count := func(to *int64, yes bool) {
		if yes {
			*to++
		}
	}
	count(&out.WithTools, c.Tools != nil)
	count(&out.WithParts, parts)
	count(&out.SubAgents, c.ParentID != nil)
	for k, v := range c.Tags {
		d.tag(k, v)
	}
	if c.StartOffsetMS != nil {
		d.starts = append(d.starts, *c.StartOffsetMS/1000)
	}
	d.turnsPer = append(d.turnsPer, float64(len(c.Turns)))
	d.turns(c)
}

func (d *describer) turns(c *schemas.Conversation) {
	shared := int64(0)
	for k, t := range c.Turns {
		var prompt, cached int64
		if t.PromptTokens != nil {
			prompt = *t.PromptTokens
			d.prompt = append(d.prompt, float64(prompt))
		}
		if t.ExpectedCachedTokens != nil {
			cached = *t.ExpectedCachedTokens
		}
		if t.OutputTokens != nil {
			d.output = append(d.output, float64(*t.OutputTokens))
		}
		fresh, sums := &d.laterNew, &d.later
		if k == 0 {
			fresh, sums, shared = &d.firstNew, &d.first, cached
		} else if t.ThinkTimeMS != nil {
			d.think = append(d.think, *t.ThinkTimeMS/1000)
		}
		if t.ToolTimeMS != nil {
			d.tool = append(d.tool, *t.ToolTimeMS/1000)
		}
		if len(t.Joins) > 0 {
			d.desc.Joins++
		}
		if t.NewTokens != nil {
			*fresh = append(*fresh, float64(*t.NewTokens))
		}
		sums[0] += prompt
		sums[1] += cached
		if k == len(c.Turns)-1 {
			answer := int64(0)
			if t.OutputTokens != nil {
				answer = *t.OutputTokens
			}
			d.conversation = append(d.conversation, float64(prompt+answer))
			d.desc.Tokens += prompt
			if t.MessageIndex < int64(len(c.Messages)) { // the answer is recorded
				d.desc.Tokens += answer
			}
		}
	}
	if c.PrefixGroup != nil {
		g := d.groups[*c.PrefixGroup]
		if g == nil {
			g = &PrefixGroup{Name: *c.PrefixGroup}
			d.groups[*c.PrefixGroup] = g
		}
		g.Conversations++
		g.Tokens = max(g.Tokens, shared)
	}
}

// maxTagsKept bounds the values of a tag that are counted one by one.
const maxTagsKept = 1000

func (d *describer) tag(name, value string) {
	values := d.desc.Tags[name]
	if values == nil {
		if len(d.desc.Tags) >= maxTagsKept {
			return
		}
		values = map[string]int64{}
		d.desc.Tags[name] = values
	}
	if _, ok := values[value]; !ok && len(values) >= maxTagsKept {
		value = otherValues
	}
	values[value]++
}

// otherValues stands for the values of a tag that are not shown one by one.
const otherValues = "..."

func (d *describer) finish() Description {
	out := &d.desc
	for _, s := range []struct {
		to   *Summary
		from []float64
	}{
		{&out.TurnsPer, d.turnsPer}, {&out.FirstNew, d.firstNew}, {&out.LaterNew, d.laterNew}, {&out.Prompt, d.prompt},
		{&out.Output, d.output}, {&out.Conversation, d.conversation}, {&out.ThinkTime, d.think}, {&out.ToolTime, d.tool},
	} {
		*s.to = summarize(s.from)
	}
	out.Arrivals = arrivals(d.starts)
	share := func(s [2]int64) float64 {
		if s[0] == 0 {
			return 0
		}
		return float64(s[1]) / float64(s[0])
	}
	all := [2]int64{d.first[0] + d.later[0], d.first[1] + d.later[1]}
	out.Cache = CacheCeiling{all[0], all[1], share(all), share(d.first), share(d.later)}
	out.Groups = int64(len(d.groups))
	out.Prefixes = nil
	for _, g := range d.groups {
		out.Prefixes = append(out.Prefixes, *g)
	}
	slices.SortFunc(out.Prefixes, func(a, b PrefixGroup) int {
		if a.Conversations != b.Conversations {
			return int(b.Conversations - a.Conversations)
		}
		return strings.Compare(a.Name, b.Name)
	})
	out.Prefixes = out.Prefixes[:min(len(out.Prefixes), maxGroupsShown)]
	if len(out.Tags) > maxTagNames {
		for _, name := range slices.Sorted(maps.Keys(out.Tags))[maxTagNames:] {
			delete(out.Tags, name)
		}
	}
	for name, values := range out.Tags {
		out.Tags[name] = commonest(values)
	}
	return *out
}

// commonest keeps the values that come most, and adds up the others.
func commonest(values map[string]int64) map[string]int64 {
	if len(values) <= maxTagValues {
		return values
	}
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		if values[a] != values[b] {
			return int(values[b] - values[a])
		}
		return strings.Compare(a, b)
	})
	out := map[string]int64{}
	for i, n := range names {
		if i >= maxTagValues {
			n = otherValues
		}
		out[n] += values[names[i]]
	}
	return out
}

func summarize(x []float64) Summary {
	if len(x) == 0 {
		return Summary{}
	}
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	q := func(p float64) float64 { return x[max(0, int(math.Ceil(p*float64(len(x))))-1)] }
	return Summary{int64(len(x)), sum / float64(len(x)), x[0], q(0.1), q(0.5), q(0.9), q(0.99), x[len(x)-1]}
}

func arrivals(starts []float64) *ArrivalSummary {
	if len(starts) == 0 {
		return nil
	}
	slices.Sort(starts)
	a := &ArrivalSummary{Conversations: int64(len(starts)), SpanS: starts[len(starts)-1] - starts[0]}
	n := float64(len(starts) - 1)
	if a.SpanS <= 0 {
		return a
	}
	mean, squares := a.SpanS/n, 0.0
	for i := 1; i < len(starts); i++ {
		gap := starts[i] - starts[i-1] - mean
		squares += gap * gap
	}
	a.PerSecond, a.GapCV = n/a.SpanS, math.Sqrt(squares/n)/mean
	return a
}
