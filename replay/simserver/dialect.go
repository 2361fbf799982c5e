package simserver

import (
	"maps"
	"net/http"
	"slices"
)

// dialect is the habits of one server: what its OpenAI-compatible stream looks like, what it refuses,
// and how it reports errors. The habits are those of the servers' sources and documentation in autumn 2026.
type dialect struct {
	paths       []api   // APIs that it serves
	chunkTokens int     // tokens per chunk unless configured
	hold        float64 // share of chunks whose text is held back, unless configured
	holdEmpty   bool    // a held chunk is sent with empty text

	role           string // members of the delta of the role-only chunk; none if empty
	roleOnEvery    bool   // each delta has the role, and no chunk is without text
	roleEarly      bool   // the first event leaves before the prefill
	filterFirst    bool   // Azure's chunk of prompt filter results comes first
	tightFirst     bool   // no space after "data:" in the first event
	tightAll       bool   // in none
	reasoning      string // name of the delta's reasoning member
	reasoningParts bool   // Mistral: content is a list of parts while it thinks
	finishOnLast   bool   // finish_reason is on the last token's chunk
	extension      string // a chunk with neither choices nor usage before the end
	timings        bool   // llama.cpp's timings object
	obfuscation    bool   // OpenAI's random field

	usageOnFinish bool        // usage on the chunk with the finish reason, unasked
	usageNull     bool        // usage: null on the chunks before
	usageZeros    bool        // completions chunks have a usage of zeros
	continuous    bool        // knows continuous_usage_stats
	cached        cachedHabit // prompt_tokens_details.cached_tokens

	ignoreEOS bool // knows ignore_eos
	minTokens bool // knows min_tokens
	onlyMax   bool // knows max_tokens and not max_completion_tokens
	refuse    []refusal

	overload int        // status when the queue is full
	errors   errorStyle // bodies of error responses
	late     lateStyle  // an error inside the stream
	failOK   bool       // a failed stream is a 200 with an event of the error
	overflow bool       // too long a prompt gives an empty answer instead of an error
}

type cachedHabit uint8

const (
	cachedAlways  cachedHabit = iota
	cachedNonZero             // left out when it is 0
	cachedNever
)

type errorStyle uint8

const (
	errOpenAI   errorStyle = iota // {"error":{"message","type","param","code":"text"}}
	errNumber                     // the same with a number as code
	errObject                     // {"object":"error","message","type","param","code"}
	errText                       // {"error":"text"}
	errTextType                   // {"error":"text","error_type":"overloaded"}
	errAzure                      // {"error":{"code":"429","message"}}
	errFlat                       // {"message","type","code"}
	errMistral                    // errObject, and {"detail":[..]} with 422
	errClaude                     // {"type":"error","error":{"type","message"}}
)

type lateStyle uint8

const (
	lateErrorDone lateStyle = iota // data: {"error":..} and [DONE]
	lateError                      // data: {"error":..} and the end
	lateAbort                      // finish_reason "abort"
	lateBreak                      // the connection breaks
	lateEmpty                      // an empty delta and the end
	lateEvent                      // event: error
	lateTGI                        // {"error":{"message","http_status_code":422}}
)

// refusal is a request member that a server refuses, and how.
type refusal struct {
	member  string
	status  int
	message string
	when    func(*Config, api) bool // nil is always
}

// api is one of the APIs.
type api uint8

const (
	chat api = iota
	completions
	responses
	messages
	ollamaChat
)

func (a api) path() string {
	return [...]string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat"}[a]
}

// Dialects lists the names of the dialects.
func Dialects() []string { return slices.Sorted(maps.Keys(dialects)) }

const emptyRole = `"role":"assistant","content":""`

var openAIRefuses = []refusal{
	{"ignore_eos", http.StatusBadRequest, "Unrecognized request argument supplied: ignore_eos", nil},
	{"min_tokens", http.StatusBadRequest, "Unrecognized request argument supplied: min_tokens", nil},
	{"continuous_usage_stats", http.StatusBadRequest, "Unknown parameter: 'stream_options.continuous_usage_stats'.", nil},
	{"max_tokens", http.StatusBadRequest, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
		func(c *Config, x api) bool { return c.Reasoning > 0 && x == chat }},
}

var mistralRefuses = []refusal{
	{"stream_options", http.StatusUnprocessableEntity, "Extra inputs are not permitted", nil},
	{"ignore_eos", http.StatusUnprocessableEntity, "Extra inputs are not permitted", nil},
	{"min_tokens", http.StatusUnprocessableEntity, "Extra inputs are not permitted", nil},
	{"max_completion_tokens", http.StatusUnprocessableEntity, "Extra inputs are not permitted", nil},
}

var dialects = map[string]*dialect{
	"vllm": {
		paths: []api{chat, completions, responses, messages}, role: emptyRole, reasoning: "reasoning", finishOnLast: true,
		continuous: true, ignoreEOS: true, minTokens: true, overload: http.StatusServiceUnavailable, errors: errNumber,
	},
	"sglang": {
		paths: []api{chat, completions}, role: emptyRole, reasoning: "reasoning_content", extension: `"sglext":{"routed_experts":null}`,
		continuous: true, cached: cachedNonZero, ignoreEOS: true, minTokens: true,
		overload: http.StatusServiceUnavailable, errors: errObject, late: lateAbort,
	},
	"trtllm": {
		paths: []api{chat, completions}, role: `"role":"assistant"`, tightFirst: true, reasoning: "reasoning_content", hold: 0.125, holdEmpty: true,
		ignoreEOS: true, minTokens: true, overload: http.StatusServiceUnavailable, errors: errObject, late: lateBreak, finishOnLast: true,
	},
	"llamacpp": {
		paths: []api{chat, completions, messages}, role: `"role":"assistant","content":null`, reasoning: "reasoning_content", timings: true,
		ignoreEOS: true, overload: http.StatusServiceUnavailable, errors: errNumber, late: lateError,
	},
	"ollama": {
		paths: []api{chat, completions, ollamaChat}, roleOnEvery: true, reasoning: "reasoning", usageZeros: true, cached: cachedNever,
		onlyMax: true, overload: http.StatusServiceUnavailable, errors: errOpenAI, late: lateEmpty,
	},
	"tgi": {
		paths: []api{chat, completions}, roleOnEvery: true, tightAll: true, reasoning: "reasoning", finishOnLast: true, cached: cachedNever,
		overload: http.StatusTooManyRequests, errors: errTextType, late: lateTGI,
	},
	"openai": {
		paths: []api{chat, completions, responses}, role: `"role":"assistant","content":"","refusal":null`, roleEarly: true, reasoning: "reasoning_content",
		usageNull: true, obfuscation: true, refuse: openAIRefuses, overload: http.StatusTooManyRequests, errors: errOpenAI, late: lateError,
	},
	"azure": {
		paths: []api{chat, completions, responses}, role: emptyRole, filterFirst: true, roleEarly: true, reasoning: "reasoning_content", chunkTokens: 16,
		usageNull: true, refuse: openAIRefuses, overload: http.StatusTooManyRequests, errors: errAzure, late: lateError,
	},
	"mistral": {
		paths: []api{chat}, role: emptyRole, roleEarly: true, reasoningParts: true, finishOnLast: true, usageOnFinish: true, cached: cachedNever,
		refuse: mistralRefuses, overload: http.StatusTooManyRequests, errors: errMistral, late: lateErrorDone,
	},
	"anthropic": {
		paths: []api{messages}, roleEarly: true, overload: 529, errors: errClaude, late: lateEvent,
	},
	"responses": {
		paths: []api{responses}, roleEarly: true, refuse: openAIRefuses[:2], overload: http.StatusTooManyRequests, errors: errOpenAI, late: lateEvent,
	},
	"dynamo": {
		paths: []api{chat, completions, responses}, role: emptyRole, reasoning: "reasoning_content", chunkTokens: 4, finishOnLast: true,
		ignoreEOS: true, minTokens: true, overload: 529, errors: errFlat, late: lateEvent,
	},
	"lmstudio": {
		paths: []api{chat, completions}, role: emptyRole, reasoning: "reasoning_content", cached: cachedNever, failOK: true, overflow: true,
		overload: http.StatusServiceUnavailable, errors: errText, late: lateEvent,
	},
}
