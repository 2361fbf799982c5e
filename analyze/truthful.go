package analyze

import (
	"encoding/json"
	"fmt"
	"slices"

	"parley/analyze/verdict"
	"parley/schemas"
)

// What servers leave out of their counts, or tell wrongly, and how that is seen from the rows.

// cacheShown is how many tokens of a prompt an infinite cache has to hold before a server that has one is expected to
// tell some: more than any server's block.
const cacheShown = 128

// settleCaches finds what a count of cached tokens that is null or 0 means. A server leaves the count out when it is 0:
// so null is 0 where the same server told a count above 0 at least once, be it in the probe, and else not known. A server
// tells 0 always, whatever came from its cache (Ollama's Responses): so 0 is not known where the server never told
// more, although the dataset's ceiling says that it should have. A server is a URL and an API.
func (f *frame) settleCaches() {
	cached := f.ints("cached_tokens")
	var null, zero, above bool
	for row, n := range cached {
		if f.status[row] == statusOK {
			null, zero, above = null || n == schemas.NullInt, zero || n == 0, above || n > 0
		}
	}
	targets := map[[2]string]bool{} // by URL and API: the probe was told a count above 0
	for _, p := range f.parts {
		for _, t := range p.meta.Targets {
			key := [2]string{t.URL, t.API}
			targets[key] = targets[key] || t.CachedMost > 0
			above = above || t.CachedMost > 0
		}
	}
	if !(null && above || zero && (!above || len(targets) > 1)) {
		return
	}
	urls, apis, sources := f.strs("url"), f.strs("api"), f.strs("token_source")
	prompt, ceiling := f.ints("prompt_tokens"), f.ints("expected_cached_tokens")
	type server struct{ told, owes bool }
	servers := map[[2]int32]*server{}
	of := func(row int) *server {
		key := [2]int32{urls.Codes[row], apis.Codes[row]}
		s := servers[key]
		if s == nil {
			s = &server{}
			if key[0] >= 0 && key[1] >= 0 {
				s.told = targets[[2]string{urls.Values[key[0]], apis.Values[key[1]]}]
			}
			servers[key] = s
		}
		return s
	}
	for row, n := range cached {
		if f.status[row] == statusOK {
			s := of(row)
			s.told = s.told || n > 0
			s.owes = s.owes || n == 0 && ceiling[row] >= cacheShown
		}
	}
	usage := int32(slices.Index(sources.Values, schemas.TokensFromUsage))
	for row, n := range cached {
		if f.status[row] != statusOK {
			continue
		}
		switch s := of(row); {
		case n == schemas.NullInt && s.told && prompt[row] != schemas.NullInt && usage >= 0 && sources.Codes[row] == usage:
			if _, bad := slices.BinarySearch(f.untrue, int32(row)); !bad {
				f.leftOut = append(f.leftOut, int32(row))
			}
		case n == 0 && !s.told && s.owes:
			f.zeros = append(f.zeros, int32(row))
		}
	}
	for _, v := range f.held {
		f.takeOut(v)
	}
}

// reuseAbove finds more of the prompts in the cache than even an infinite one could have held.
func (j *signals) reuseAbove(g *Group) {
	reuse, ceiling := g.Tokens.CacheReuse, g.Tokens.CacheCeiling
	if !reuse.Known() || !ceiling.Known() {
		return
	}
	above := float64(reuse - ceiling)
	j.signal("reuse_above_ceiling", above, fmt.Sprintf("%s of the prompts' tokens came from the cache, where an infinite one that was empty at first could have held %s, %s more",
		verdict.Show(float64(reuse), "share"), verdict.Show(float64(ceiling), "share"), verdict.Show(above, "share")))
}

// promptShort is the share of the tokens that were sent below which a prompt counts as cut off: tokenizers differ by less
// on most texts, and templates only add.
const promptShort = 0.75

// promptsCut finds prompts of which the server counted far fewer tokens than were sent. The dataset's count of a prompt
// is one of recorded answers: where the server's own went into the history, they are counted in their place.
func (j *signals) promptsCut(a *analysis) {
	f := a.f
	prompt, expected, fresh := f.ints("prompt_tokens"), f.ints("expected_prompt_tokens"), f.ints("new_tokens")
	completion := f.ints("completion_tokens")
	order := make([]int32, f.rows)
	for row := range order {
		order[row] = int32(row)
	}
	slices.SortFunc(order, func(x, y int32) int {
		if d := int(f.conv[x]) - int(f.conv[y]); d != 0 {
			return d
		}
		return int(f.turn[x]) - int(f.turn[y])
	})
	var cut, of, got, sent int64
	live := int64(schemas.NullInt) // tokens of the prompt with the server's answers in it
	for i, row := range order {
		switch {
		case i == 0 || f.conv[order[i-1]] != f.conv[row]:
			live = expected[row]
		case live != schemas.NullInt:
			before := order[i-1]
			if fresh[row] == schemas.NullInt || completion[before] == schemas.NullInt || f.turn[before]+1 != f.turn[row] {
				live = schemas.NullInt
			} else {
				live += completion[before] - f.hidden(int(before)) + fresh[row]
			}
		}
		if f.status[row] != statusOK || prompt[row] == schemas.NullInt || live == schemas.NullInt || expected[row] == schemas.NullInt {
			continue
		}
		of++
		if least := min(live, expected[row]); float64(prompt[row]) < promptShort*float64(least) {
			cut++
			got += prompt[row]
			sent += least
		}
	}
	if cut > 0 {
		share := float64(cut) / float64(of)
		j.signal("prompts_cut", share, fmt.Sprintf("%d of %d prompts had %d tokens by the server's count, where %d were sent (a chat template only adds to them), %s", cut, of, got, sent, verdict.Show(share, "share")))
	}
}

// lengthAdvice says what to do about answers of other lengths than asked for, by what the run did already; "" for the
// usual advice.
func (j *signals) lengthAdvice(meta *schemas.RunMeta, longer bool) string {
	var set struct {
		IgnoreEOS bool  `json:"ignore_eos"`
		MinTokens int64 `json:"min_tokens"`
	}
	_ = json.Unmarshal(meta.Config, &set) // a configuration that cannot be read set nothing
	refused := func(found *bool) bool { return found != nil && !*found }
	var ignores, least bool
	if p := meta.Probe; p != nil {
		ignores, least = refused(p.IgnoreEOS), refused(p.MinTokens)
	}
	switch {
	case longer:
		return "the server does not hold the limit of output tokens: ask with --output-tokens for what it gives, or compare only runs of this server"
	case set.IgnoreEOS && ignores || set.MinTokens > 0 && least:
		return "the server cannot be kept from ending answers: ask with --output-tokens for what the model gives"
	case set.IgnoreEOS || set.MinTokens > 0:
		return "answers end early although the run asked for their full length: the server ignores that, or cuts them off; ask with --output-tokens for what the model gives"
	}
	return ""
}
