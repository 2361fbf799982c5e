package control

import (
	"context"
	"errors"
	"fmt"
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

// probePrompt is long enough for a prefix cache of any block size up to 128, and unlike any other prompt
// by the salt at its front.
func probePrompt(salt string) string {
	var b strings.Builder
	b.WriteString(salt)
	b.WriteString(" " + schemas.ProbeText + "\n")
	for i, word := range strings.Fields("amber basalt cedar delta ember fjord granite harbor indigo juniper kelp lagoon marble nectar onyx pumice quartz raven saffron tundra umber velvet willow xenon yarrow zephyr") {
		fmt.Fprintf(&b, "%d. The word %q stands for itself.\n", i+1, word)
	}
	b.WriteString("Answer with the single word OK and nothing else.")
	return b.String()
}

// Probe finds out which of the wanted parameters the server takes, by sending one short request and
// falling back in steps as long as it refuses: first continuous_usage_stats goes, then stream_options, then
// the token limit's name changes, then ignore_eos and min_tokens go; a parameter that the refusal names goes
// first. want is what the run is going to send; use is the same with what the server did not take taken
// out, and nothing else changed. salt makes the probe's prompt its own.
//
// The error is a server that answers no form of the request; it says what the server said.
func Probe(ctx context.Context, a *api.API, want api.Params, salt string, send Send) (found schemas.Probe, use api.Params, err error) {
	use = want
	if use.TokenLimit == "" {
		use.TokenLimit = a.TokenLimits[0]
	}
	chatty := a.Kind == api.Chat || a.Kind == api.Completions
	if !chatty || !want.Stream {
		use.IncludeUsage, use.ContinuousUsage = false, false
	}
	use.IncludeUsage = use.IncludeUsage || use.ContinuousUsage
	limits := map[string]bool{use.TokenLimit: true} // names that were tried
	prompt := probePrompt(salt)
	busy := 0
	for try := 0; ; try++ {
		if try == maxProbes {
			return found, use, fmt.Errorf("probe: no answer after %d requests: %s", try, strings.Join(found.Steps, "; "))
		}
		p := use
		p.OutputTokens = probeTokens
		if p.MinTokens > 0 {
			p.MinTokens = probeTokens
		}
		row := send(ctx, prompt, &p)
		said := describe(&p) + ": "
		if ctx.Err() != nil {
			return found, use, fmt.Errorf("probe: %w", context.Cause(ctx))
		}
		kind := ""
		if row.ErrorKind != nil {
			kind = *row.ErrorKind
		}
		switch {
		case row.Status == string(schemas.StatusOK) || row.Status == string(schemas.StatusEmpty):
			found.Steps = append(found.Steps, said+success(row))
			// A limit that was not held is a name that the server does not know.
			if n := row.CompletionTokens; n != nil && *n > probeTokens && row.TokenSource != nil && *row.TokenSource == schemas.TokensFromUsage {
				if name := nextLimit(a, limits); name != "" {
					use.TokenLimit = name
					continue
				}
				found.Steps = append(found.Steps, "the server held none of the limits: answers may be longer than asked")
			}
			settle(&found, &want, &use, row)
			return found, use, look(ctx, &found, &use, prompt, send)
		case kind == api.KindBadRequest:
			found.Steps = append(found.Steps, said+reason(row))
			if !fallBack(a, &use, limits, row) {
				return found, use, fmt.Errorf("probe: the server refuses the request in every form: %s", reason(row))
			}
		case (kind == api.KindOverloaded || kind == api.KindRateLimited || kind == api.KindLoading) && busy < 5:
			busy++
			found.Steps = append(found.Steps, said+reason(row))
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(busy) * time.Second):
			}
		default:
			found.Steps = append(found.Steps, said+reason(row))
			return found, use, errors.New("probe: " + reason(row))
		}
	}
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
func settle(found *schemas.Probe, want, use *api.Params, row *schemas.Request) {
	found.TokenLimitName = use.TokenLimit
	usage := row.TokenSource != nil && *row.TokenSource == schemas.TokensFromUsage
	found.Usage = &usage
	tokens := int64(0)
	if row.CompletionTokens != nil && usage {
		tokens = *row.CompletionTokens
	}
	if want.ContinuousUsage {
		sent := use.ContinuousUsage && len(row.ChunkTokens) > 0
		switch {
		case !sent && use.ContinuousUsage && len(row.ChunkNS) <= 1:
			// An answer of one chunk, which also finishes, shows nothing either way.
		case !sent && use.ContinuousUsage:
			use.ContinuousUsage = false
			found.Steps = append(found.Steps, "continuous_usage_stats was taken but had no effect: it is left out")
			fallthrough
		default:
			found.ContinuousUsage = &sent
		}
	}
	if want.IgnoreEOS {
		works := use.IgnoreEOS
		if works && usage && tokens < probeTokens {
			works, use.IgnoreEOS = false, false
			found.Steps = append(found.Steps, fmt.Sprintf("ignore_eos was taken but had no effect (%d tokens of %d asked for): it is left out", tokens, probeTokens))
		}
		found.IgnoreEOS = &works
	}
	if want.MinTokens > 0 {
		works := use.MinTokens > 0
		if works && usage && tokens < probeTokens {
			works, use.MinTokens = false, 0
			found.Steps = append(found.Steps, fmt.Sprintf("min_tokens was taken but had no effect (%d tokens of %d asked for): it is left out", tokens, probeTokens))
		}
		found.MinTokens = &works
	}
	if row.Streamed != nil && !*row.Streamed && want.Stream {
		found.Steps = append(found.Steps, "the answer came whole although a stream was asked for: there will be no time to first token")
	}
	if row.Status == string(schemas.StatusEmpty) {
		found.Steps = append(found.Steps, "the answer had no token")
	}
	if row.CachedTokens != nil {
		yes := true
		found.CachedTokens = &yes
	}
}

// look sends the same prompt again where the usage did not say how much of it was cached: some servers
// leave the count out when it is 0.
func look(ctx context.Context, found *schemas.Probe, use *api.Params, prompt string, send Send) error {
	if found.CachedTokens != nil || !*found.Usage {
		return nil
	}
	p := *use
	p.OutputTokens, p.IgnoreEOS, p.MinTokens = 1, false, 0
	row := send(ctx, prompt, &p)
	if ctx.Err() != nil {
		return fmt.Errorf("probe: %w", context.Cause(ctx))
	}
	yes := row.CachedTokens != nil
	found.CachedTokens = &yes
	said := "the usage does not tell cached tokens"
	if yes {
		said = fmt.Sprintf("the usage tells cached tokens (%d)", *row.CachedTokens)
	}
	found.Steps = append(found.Steps, "the same prompt again: "+said)
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
