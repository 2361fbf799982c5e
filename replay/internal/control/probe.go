package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// probeTokens is the answer length that the probe asks for: more than the one word that its prompt wants,
// so that a server that is told to ignore the end of the text can show it.
const probeTokens = 24

// maxProbes bounds the requests of one probe.
const maxProbes = 16

// probeText is long enough for a prefix cache of any block size up to 128.
var probeText = func() string {
	var b strings.Builder
	b.WriteString(schemas.ProbeText + "\n")
	for i, word := range strings.Fields("amber basalt cedar delta ember fjord granite harbor indigo juniper kelp lagoon marble nectar onyx pumice quartz raven saffron tundra umber velvet willow xenon yarrow zephyr") {
		fmt.Fprintf(&b, "%d. The word %q stands for itself.\n", i+1, word)
	}
	b.WriteString("Answer with the single word OK and nothing else.")
	return b.String()
}()

// A Probe finds out what a server takes.
type Probe struct {
	API  *api.API
	Kind Server // as Detect told it
	Send Send
	Salt string // makes the probe's conversation unlike any other
	// Patience is how long a server is waited for that answers 429, 503 or the like.
	Patience time.Duration
	// Note is told, after the first such answers, why the probe waits.
	Note func(why string)

	// CachedMost is, after Run, the most cached tokens that the server told.
	CachedMost int64

	found  schemas.Probe
	want   api.Params
	use    api.Params
	limits map[string]bool // names that were tried
}

// ProbeError is the error of a server that answers no form of the probe's request.
type ProbeError struct {
	Kind string // the failure's, as in a row
	Text string
}

func (e *ProbeError) Error() string { return "probe: " + e.Text }

// Run finds out which of the wanted parameters the server takes, by sending one short request and
// falling back in steps as long as it refuses: first continuous_usage_stats goes, then stream_options, then
// the token limit's name changes, then ignore_eos and min_tokens go; a parameter that the refusal names goes
// first. want is what the run is going to send; use is the same with what the server did not take taken
// out, and nothing else changed.
//
// That ignore_eos and min_tokens were taken proves nothing, since some servers ignore what they do not know: they are
// believed where the kind of the server has them, or where the same request without them ends earlier.
//
// The error is a *ProbeError for a server that answers no form of the request, with what it said.
func (b *Probe) Run(ctx context.Context, want api.Params) (found schemas.Probe, use api.Params, err error) {
	b.want, b.use = want, want
	if b.use.TokenLimit == "" {
		b.use.TokenLimit = b.API.TokenLimits[0]
	}
	chatty := b.API.Kind == api.Chat || b.API.Kind == api.Completions
	if !chatty || !want.Stream {
		b.use.IncludeUsage, b.use.ContinuousUsage = false, false
	}
	b.use.IncludeUsage = b.use.IncludeUsage || b.use.ContinuousUsage
	b.limits = map[string]bool{b.use.TokenLimit: true}
	row, err := b.accepted(ctx)
	if err == nil {
		b.settle(row)
		err = b.endings(ctx, row)
	}
	if err == nil {
		err = b.look(ctx)
	}
	return b.found, b.use, err
}

// params gives the parameters of the probe's requests.
func (b *Probe) params() api.Params {
	p := b.use
	p.OutputTokens = probeTokens
	if p.MinTokens > 0 {
		p.MinTokens = probeTokens
	}
	return p
}

// step sends one request and notes what came of it.
func (b *Probe) step(ctx context.Context, what string, p *api.Params) (row *schemas.Request, ok bool, err error) {
	row = b.Send(ctx, b.Salt, probeText, p)
	if ctx.Err() != nil {
		return row, false, fmt.Errorf("probe: %w", context.Cause(ctx))
	}
	ok = row.Status == string(schemas.StatusOK) || row.Status == string(schemas.StatusEmpty)
	said := reason(row)
	if ok {
		said = success(row)
		if row.CachedTokens != nil {
			yes := true
			b.found.CachedTokens = &yes
			b.CachedMost = max(b.CachedMost, *row.CachedTokens)
		}
	}
	if what = what + ": " + said; !slices.Contains(b.found.Steps, what) {
		b.found.Steps = append(b.found.Steps, what)
	}
	return row, ok, nil
}

// accepted gives the row of the first form of the request that the server takes.
func (b *Probe) accepted(ctx context.Context) (*schemas.Request, error) {
	begin := time.Now()
	told := false
	for try := 0; try < maxProbes; {
		p := b.params()
		row, ok, err := b.step(ctx, describe(&p), &p)
		if err != nil {
			return nil, err
		}
		kind := ""
		if row.ErrorKind != nil {
			kind = *row.ErrorKind
		}
		switch {
		case ok:
			// A limit that was not held is a name that the server does not know.
			if n := row.CompletionTokens; n != nil && *n > probeTokens && row.TokenSource != nil && *row.TokenSource == schemas.TokensFromUsage {
				if name := nextLimit(b.API, b.limits); name != "" {
					b.use.TokenLimit = name
					break
				}
				b.found.Steps = append(b.found.Steps, "the server held none of the limits: answers may be longer than asked")
			}
			return row, nil
		case kind == api.KindBadRequest:
			if !fallBack(b.API, &b.use, b.limits, row) {
				return nil, &ProbeError{kind, "the server refuses the request in every form: " + reason(row)}
			}
		case kind == api.KindOverloaded || kind == api.KindRateLimited || kind == api.KindLoading:
			const pause = time.Second
			waited := time.Since(begin)
			if waited+pause > b.Patience {
				return nil, &ProbeError{kind, fmt.Sprintf("still refused after %v: %s", waited.Round(time.Second), reason(row))}
			}
			if !told && waited >= 2*pause {
				told = true
				b.Note(reason(row))
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue // it says nothing of the form
		default:
			return nil, &ProbeError{kind, reason(row)}
		}
		try++
	}
	return nil, &ProbeError{"", fmt.Sprintf("no answer after %d requests: %s", maxProbes, strings.Join(b.found.Steps, "; "))}
}

// fallBack takes one parameter out, or gives the token limit its next name; false when nothing is left.
func fallBack(a *api.API, use *api.Params, limits map[string]bool, row *schemas.Request) bool {
	message := ""
	if row.ErrorMessage != nil {
		message = *row.ErrorMessage
	}
	steps := []struct {
		name  string
		there bool
		drop  func()
	}{
		{"continuous_usage_stats", use.ContinuousUsage, func() { use.ContinuousUsage = false }},
		{"stream_options", use.IncludeUsage && !use.ContinuousUsage, func() { use.IncludeUsage = false }},
		{use.TokenLimit, nextName(a, limits) != "", func() { use.TokenLimit = nextLimit(a, limits) }},
		{"ignore_eos", use.IgnoreEOS, func() { use.IgnoreEOS = false }},
		{"min_tokens", use.MinTokens > 0, func() { use.MinTokens = 0 }},
	}
	for _, named := range []bool{true, false} {
		for _, s := range steps {
			if s.there && (!named || strings.Contains(message, s.name)) {
				s.drop()
				return true
			}
		}
	}
	return false
}

func nextName(a *api.API, tried map[string]bool) string {
	for _, name := range a.TokenLimits {
		if !tried[name] {
			return name
		}
	}
	return ""
}

func nextLimit(a *api.API, tried map[string]bool) string {
	name := nextName(a, tried)
	if name != "" {
		tried[name] = true
	}
	return name
}

// settle writes down what the accepted request showed, and takes out what was taken but had no effect.
func (b *Probe) settle(row *schemas.Request) {
	b.found.TokenLimitName = b.use.TokenLimit
	usage := row.TokenSource != nil && *row.TokenSource == schemas.TokensFromUsage
	b.found.Usage = &usage
	if b.want.ContinuousUsage {
		sent := b.use.ContinuousUsage && len(row.ChunkTokens) > 0
		switch {
		case !sent && b.use.ContinuousUsage && len(row.ChunkNS) <= 1:
			// An answer of one chunk, which also finishes, shows nothing either way.
		case !sent && b.use.ContinuousUsage:
			b.use.ContinuousUsage = false
			b.found.Steps = append(b.found.Steps, "continuous_usage_stats was taken but had no effect: it is left out")
			fallthrough
		default:
			b.found.ContinuousUsage = &sent
		}
	}
	if row.Streamed != nil && !*row.Streamed && b.want.Stream {
		b.found.Steps = append(b.found.Steps, "the answer came whole although a stream was asked for: there will be no time to first token")
	}
	if row.Status == string(schemas.StatusEmpty) {
		b.found.Steps = append(b.found.Steps, "the answer had no token")
	}
}

// endsAnswers says which kinds of servers have the parameters that keep an answer from ending early, as far as that is
// known: see the table in api/README.md.
var endsAnswers = map[Server]struct{ ignoreEOS, minTokens bool }{
	VLLM: {true, true}, SGLang: {true, true}, TensorRTLLM: {true, true}, Dynamo: {true, true}, Simulated: {true, true},
	LlamaCpp: {true, false}, Ollama: {}, LMStudio: {}, TGI: {},
}

// endings settles whether ignore_eos and min_tokens work. row is the accepted request's.
func (b *Probe) endings(ctx context.Context, row *schemas.Request) error {
	counted := *b.found.Usage && row.CompletionTokens != nil
	tokens := int64(0)
	if counted {
		tokens = *row.CompletionTokens
	}
	has, known := endsAnswers[b.Kind]
	if b.Kind == LlamaCpp && b.API.Kind == api.Anthropic {
		has.ignoreEOS = false // its Messages API hands on what it knows alone: answers of 8 tokens in 40 were seen
	}
	proven := false
	if sent := b.use.IgnoreEOS || b.use.MinTokens > 0; sent && !known && counted && tokens >= probeTokens {
		p := b.params()
		p.IgnoreEOS, p.MinTokens = false, 0
		row, ok, err := b.step(ctx, "the same without what keeps answers from ending", &p)
		if err != nil {
			return err
		}
		proven = ok && row.CompletionTokens != nil && *row.CompletionTokens < probeTokens
	}
	for _, e := range []struct {
		name         string
		wanted, sent bool
		has          bool
		drop         func()
		found        **bool
	}{
		{"ignore_eos", b.want.IgnoreEOS, b.use.IgnoreEOS, has.ignoreEOS, func() { b.use.IgnoreEOS = false }, &b.found.IgnoreEOS},
		{"min_tokens", b.want.MinTokens > 0, b.use.MinTokens > 0, has.minTokens, func() { b.use.MinTokens = 0 }, &b.found.MinTokens},
	} {
		works := e.sent
		switch {
		case !e.wanted:
			continue
		case !e.sent:
		case counted && tokens < probeTokens:
			works = false
			b.found.Steps = append(b.found.Steps, fmt.Sprintf("%s was taken but had no effect (%d tokens of %d asked for): it is left out", e.name, tokens, probeTokens))
		case known && !e.has:
			works = false
			b.found.Steps = append(b.found.Steps, fmt.Sprintf("%s was taken, but servers of the kind %s ignore it: it is left out", e.name, b.Kind))
		case !known && !proven:
			b.found.Steps = append(b.found.Steps, e.name+" was taken, but nothing shows that it has an effect: it is sent all the same")
			continue // neither yes nor no
		}
		if !works {
			e.drop()
		}
		*e.found = &works
	}
	return nil
}

// look sends the same conversation again where the usage did not tell a count of cached tokens above 0: some servers
// leave the count out when it is 0, and some tell 0 whatever came from the cache.
func (b *Probe) look(ctx context.Context) error {
	if b.CachedMost > 0 || !*b.found.Usage {
		return nil
	}
	p := b.use
	p.OutputTokens, p.IgnoreEOS, p.MinTokens = 1, false, 0
	if _, _, err := b.step(ctx, "the same prompt again", &p); err != nil {
		return err
	}
	said := "the usage does not tell cached tokens"
	if yes := b.found.CachedTokens != nil; yes {
		said = fmt.Sprintf("the usage tells cached tokens, %d at most", b.CachedMost)
	} else {
		b.found.CachedTokens = &yes
	}
	b.found.Steps = append(b.found.Steps, said)
	return nil
}

// describe names the parameters of a request that the probe is about.
func describe(p *api.Params) string {
	words := []string{p.TokenLimit}
	if p.IncludeUsage {
		words = append(words, "stream_options.include_usage")
	}
	if p.ContinuousUsage {
		words = append(words, "stream_options.continuous_usage_stats")
	}
	if p.IgnoreEOS {
		words = append(words, "ignore_eos")
	}
	if p.MinTokens > 0 {
		words = append(words, "min_tokens")
	}
	return strings.Join(words, ", ")
}

// success says what an accepted request brought.
func success(row *schemas.Request) string {
	s := row.Status
	if row.CompletionTokens != nil && row.TokenSource != nil {
		s += fmt.Sprintf(", %d tokens by %s", *row.CompletionTokens, *row.TokenSource)
	}
	if len(row.ChunkTokens) > 0 {
		s += ", counts with every chunk"
	}
	if row.FinishReason != nil {
		s += ", finished by " + *row.FinishReason
	}
	return s
}
