package api

// usage is a server's count of tokens, normalised: prompt includes the cached ones, completion the
// reasoning. -1 means that the server did not say.
//
// Sources of the field names: the OpenAI API reference (prompt_tokens_details.cached_tokens,
// completion_tokens_details.reasoning_tokens; input_tokens and output_tokens with their details in
// Responses); DeepSeek's context caching guide (prompt_cache_hit_tokens, prompt_cache_miss_tokens);
// Anthropic's prompt caching guide (input_tokens leaves out cache_read_input_tokens and
// cache_creation_input_tokens); Ollama's API document (prompt_eval_count, eval_count); llama.cpp's
// server README (timings).
type usage struct {
	prompt, cached, completion, reasoning int64

	uncached, hit, miss, created int64 // parts of prompt, where the server counts in parts
}

var noUsage = usage{prompt: -1, cached: -1, completion: -1, reasoning: -1, uncached: -1, hit: -1, miss: -1, created: -1}

// some says whether the usage counts anything at all: a usage of zeros is none.
func (u *usage) some() bool {
	return u.prompt > 0 || u.completion > 0 || u.uncached > 0 || u.hit > 0 || u.miss > 0 || u.created > 0
}

// merge takes over what a later usage says. A zero does not overwrite a count.
func (u *usage) merge(v *usage) {
	for _, p := range [...]struct {
		to   *int64
		from int64
	}{
		{&u.prompt, v.prompt}, {&u.cached, v.cached}, {&u.completion, v.completion}, {&u.reasoning, v.reasoning},
		{&u.uncached, v.uncached}, {&u.hit, v.hit}, {&u.miss, v.miss}, {&u.created, v.created},
	} {
		if p.from > 0 || p.from == 0 && *p.to < 0 {
			*p.to = p.from
		}
	}
}

// totals gives the prompt's tokens, cached ones included, and the cached ones among them; -1 unknown.
func (u *usage) totals() (prompt, cached int64) {
	prompt, cached = u.prompt, u.cached
	if u.hit >= 0 && cached < 0 {
		cached = u.hit
	}
	if prompt < 0 && u.hit >= 0 && u.miss >= 0 {
		prompt = u.hit + u.miss
	}
	if u.uncached >= 0 { // Anthropic: three disjoint counts
		prompt = u.uncached + max(cached, 0) + max(u.created, 0)
	}
	return prompt, cached
}

// readUsage reads a usage object of any of the APIs. For Anthropic disjoint is set: input_tokens leaves
// the cached tokens out there.
func (w *walker) readUsage(disjoint bool) (u usage, ok bool) {
	u = noUsage
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "prompt_tokens":
			w.count(&u.prompt)
		case "input_tokens":
			if disjoint {
				w.count(&u.uncached)
			} else {
				w.count(&u.prompt)
			}
		case "completion_tokens", "output_tokens":
			w.count(&u.completion)
		case "prompt_tokens_details", "input_tokens_details":
			for ok := w.object(); ok && w.member(); {
				if string(w.key) == "cached_tokens" {
					w.count(&u.cached)
				} else {
					w.skip()
				}
			}
		case "completion_tokens_details", "output_tokens_details":
			for ok := w.object(); ok && w.member(); {
				if string(w.key) == "reasoning_tokens" {
					w.count(&u.reasoning)
				} else {
					w.skip()
				}
			}
		case "reasoning_tokens":
			w.count(&u.reasoning)
		case "cached_tokens", "cache_read_input_tokens":
			w.count(&u.cached)
		case "cache_creation_input_tokens":
			w.count(&u.created)
		case "prompt_cache_hit_tokens":
			w.count(&u.hit)
		case "prompt_cache_miss_tokens":
			w.count(&u.miss)
		default:
			w.skip()
		}
	}
	return u, u.some()
}

// count takes a number of tokens; null, a negative one or anything else leaves *to as it is.
func (w *walker) count(to *int64) {
	if n, ok := w.integer(); ok && n >= 0 {
		*to = n
	}
}
