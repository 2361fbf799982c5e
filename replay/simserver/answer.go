package simserver

import "time"

// answer is one response under way, as the encoders see it.
type answer struct {
	cfg     *Config
	d       *dialect
	id      string
	tag     string
	created time.Time
	model   string

	prompt, cached  int
	tokens          int // of the whole answer
	reasoning       int // of them, first
	done            int // sent so far, this chunk included
	chunks          int // sent before this one
	finish          string
	tool, refusal   bool
	toolName        string
	nameApart       bool // the call's name comes in an event of its own, not with the first arguments
	includeUsage    bool
	continuousUsage bool
	progress        bool // llama.cpp's return_progress
	noDone          bool
	admitted, first time.Time
	rnd             uint64

	blocks int // Anthropic, Responses: content blocks opened
	events int // Responses: sequence number
	begun  bool
}

// part is what kind of text a chunk carries.
type part uint8

const (
	partText part = iota
	partReasoning
	partRefusal
	partTool
)

// partAt tells what token i of the answer is.
func (a *answer) partAt(i int) part {
	switch {
	case i < a.reasoning:
		return partReasoning
	case a.tool:
		return partTool
	case a.refusal:
		return partRefusal
	}
	return partText
}

// alike gives how many of n tokens from token i on are of its kind.
func (a *answer) alike(i, n int) int {
	for k := 1; k < n; k++ {
		if a.partAt(i+k) != a.partAt(i) {
			return k
		}
	}
	return n
}

// textAt gives the text of token i.
func (a *answer) textAt(i int, outside bool) string {
	j := i
	if i >= a.reasoning {
		j -= a.reasoning
	}
	if a.partAt(i) == partTool {
		// {"query":"tag word word"}: the opening with the second token, the closing with the last. The first
		// token is the call's name, or the brace where that would leave a chunk without text.
		open := `{"query":"`
		if a.nameApart {
			open = open[1:]
		}
		switch {
		case a.tokens-a.reasoning < 3 && j == 0:
			return "{}"
		case j == 0 && a.nameApart:
			return "{"
		case j == 0 || a.tokens-a.reasoning < 3:
			return ""
		case j == 1:
			return open + a.tag
		case i == a.tokens-1:
			return `"}`
		}
		return wordAt(a.tag, a.rnd, i, false)
	}
	if j == 0 {
		return a.tag
	}
	return wordAt(a.tag, a.rnd, i, outside)
}

// doneReasoning gives the reasoning tokens sent so far.
func (a *answer) doneReasoning() int { return min(a.done, a.reasoning) }

// encoder writes one API's answers. All methods append to b.
type encoder interface {
	// opening is what comes before the first token.
	opening(b []byte, a *answer) []byte
	// delta is one chunk of text; last is the answer's last.
	delta(b []byte, a *answer, p part, text string, last bool) []byte
	// ending is everything after the last token.
	ending(b []byte, a *answer) []byte
	// failure is an error inside the stream; abrupt asks for the connection to be broken after it.
	failure(b []byte, a *answer) (out []byte, abrupt bool)
	// body is a whole answer without streaming.
	body(b []byte, a *answer, reasoning, text string) []byte
	contentType() string
}

const lateMessage = "The simulated server was asked to fail here."

func newEncoder(x api, a *answer) encoder {
	switch x {
	case responses:
		return &responsesEncoder{}
	case messages:
		return &messagesEncoder{}
	case ollamaChat:
		return &ollamaEncoder{}
	}
	return newOpenAIEncoder(a, x == completions)
}

// appendUsage appends usage in the OpenAI form, as a further member.
func appendUsage(b []byte, a *answer) []byte {
	b = members(append(b, `,"usage":{`...), "prompt_tokens", a.prompt, "completion_tokens", a.done, "total_tokens", a.prompt+a.done)
	if reportsCached(a) {
		b = append(members(append(b, `,"prompt_tokens_details":{`...), "cached_tokens", a.cached), '}')
	}
	if a.reasoning > 0 && !a.d.timings && a.d.cached != cachedNever {
		b = append(members(append(b, `,"completion_tokens_details":{`...), "reasoning_tokens", a.doneReasoning()), '}')
	}
	return append(b, '}')
}

func reportsCached(a *answer) bool {
	if a.cfg.NoCacheReport && a.d.errors != errOpenAI || a.cfg.CacheBlocks == 0 {
		return false
	}
	return a.d.cached == cachedAlways || a.d.cached == cachedNonZero && a.cached > 0
}

// appendTimings appends llama.cpp's timings, as a further member: prompt_n leaves cached tokens out.
func appendTimings(b []byte, a *answer) []byte {
	if !a.d.timings {
		return b
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return members(b, "timings", inner("cache_n", a.cached, "prompt_n", a.prompt-a.cached, "prompt_ms", ms(a.first.Sub(a.admitted)),
		"predicted_n", a.done, "predicted_ms", ms(time.Since(a.first))))
}

const (
	jsonType   = "application/json"
	streamType = "text/event-stream; charset=utf-8"
)
