package simserver

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Config says how the server behaves. The zero value is a server without limits and without delays that
// never fails and caches nothing; [Default] is a plausible single accelerator. The name tag of a field is
// its name in a sim: URL and, with dashes, its flag in llmsim; the help tag is its documentation.
//
// Faults are probabilities from 0 to 1. Whether a request is hit depends only on Seed, the fault's name and the
// request's number in order of arrival.
type Config struct {
	Model    string `name:"model" default:"sim" help:"Name of the model that /v1/models lists; requests may name any."`
	Dialect  string `name:"dialect" default:"vllm" help:"Whose habits to follow: vllm, sglang, trtllm, llamacpp, ollama, tgi, openai, azure, mistral, anthropic, responses, dynamo or lmstudio."`
	Seed     int64  `name:"seed" default:"0" help:"Seed of lengths, words, jitter and faults."`
	Log      string `name:"log" help:"File for the truth log, JSON lines."`
	LogChunk bool   `name:"log_chunks" help:"Write times of all chunks go into the truth log."`

	Engine       string        `name:"engine" default:"" help:"constant: a token takes the same time however many run; batched: continuous batching in steps, as real servers do it. Empty is constant, and batched where gpu is given."`
	GPU          string        `name:"gpu" default:"" help:"Batched: steps, memory and limits of an 8 B model on this accelerator: h100, h200, a100, l40s or mi300x; empty is h100. What is given besides wins."`
	Step         time.Duration `name:"step" default:"0s" help:"Batched: fixed part of a step; 0 is the gpu's."`
	StepSequence time.Duration `name:"step_seq" default:"0s" help:"Batched: part of a step for each sequence that decodes in it."`
	StepToken    time.Duration `name:"step_token" default:"0s" help:"Batched: part of a step for each prompt token computed in it."`
	Budget       int           `name:"budget" default:"0" help:"Batched: most tokens computed in a step; longer prompts are prefilled in pieces. 0 is no limit."`
	Draft        int           `name:"draft" default:"0" help:"Batched: tokens guessed for a sequence in each step (speculative decoding)."`
	Accept       float64       `name:"accept" default:"0.7" help:"Batched: chance that a guess is right."`
	Workers      int           `name:"workers" default:"1" help:"Batched: accelerators with a copy of the model each."`
	Prefillers   int           `name:"prefillers" default:"0" help:"Batched: further accelerators that only prefill; the others then only decode."`
	Transfer     time.Duration `name:"transfer" default:"1us" help:"Batched: time per prompt token of the way from a prefiller."`
	Mood         float64       `name:"mood" default:"0" help:"Batched: how much starts of the server differ in speed (standard deviation of the logarithm; drawn from seed)."`
	Drift        float64       `name:"drift" default:"0" help:"Batched: how much the speed wanders while the server runs (the same)."`
	DriftTime    time.Duration `name:"drift_time" default:"1m" help:"Batched: time in which the wandering speed forgets."`

	Prefill       float64       `name:"prefill" default:"20000" help:"Constant: uncached prompt tokens per second; 0 is infinitely fast."`
	PrefillShared bool          `name:"prefill_shared" help:"Constant: one prompt at a time is prefilled, in order; otherwise each slot has the full rate."`
	Base          time.Duration `name:"base" default:"10ms" help:"Fixed part of the time to first token; batched: before the queue."`
	TTFT          time.Duration `name:"ttft" default:"0s" help:"Constant: fixed time to first token in place of base and prefill; 0 is off."`
	ITL           time.Duration `name:"itl" default:"12ms" help:"Constant: time per output token."`
	Jitter        float64       `name:"jitter" default:"0.1" help:"Each gap (batched: step) is varied by up to this share of it, evenly."`
	ChunkTokens   int           `name:"chunk_tokens" default:"0" help:"Tokens per chunk; 0 is the dialect's habit."`
	Slots         int           `name:"slots" default:"64" help:"Requests that run at once; 0 is no limit."`
	Queue         int           `name:"queue" default:"0" help:"Requests that may wait for a slot; 0 is no limit, -1 is none. Others are refused with the dialect's overload status."`
	CacheBlocks   int           `name:"cache_blocks" default:"65536" help:"Capacity of the prefix cache in blocks (batched: of the KV cache, which running requests share with it); 0 is no prefix cache."`
	BlockSize     int           `name:"block" default:"16" help:"Tokens per block."`
	Output        int           `name:"output" default:"128" help:"Mean length of an answer in tokens where the request does not fix it; lengths are even from half to one and a half of it."`
	MaxModelLen   int           `name:"max_model_len" default:"131072" help:"Prompt and answer together, in tokens; a longer prompt is refused, a longer answer is cut."`
	Reasoning     int           `name:"reasoning" default:"0" help:"Reasoning tokens before the answer, part of its length."`
	Tools         float64       `name:"tools" default:"0" help:"Share of answers that are a tool call."`
	Refusal       float64       `name:"refusal" default:"0" help:"Share of answers that are refusal deltas (chat only)."`
	RoleEarly     bool          `name:"role_early" help:"The first (role-only) event is sent before the prefill, in every dialect."`
	KeepAlive     time.Duration `name:"keepalive" default:"0s" help:"Comment lines at this interval until the first token; 0 is none. Sends the headers early."`
	HoldText      float64       `name:"hold" default:"0" help:"Share of chunks whose text is held back and comes with the next chunk (parsers and detokenizers do this); trtllm sends an empty chunk in place."`
	NoCacheReport bool          `name:"no_cache_report" help:"Leave cached token counts out of usage, as vLLM and SGLang do without their switches."`
	Identify      bool          `name:"identify" help:"Say that it is the dialect's server (owner of the models, version, how to flush the cache) and not the simulated one."`
	IssueHeader   string        `name:"issue_header" help:"Name of a response header with a fresh value on requests that do not bring one back, such as x-session-token."`
	Cookie        bool          `name:"cookie" help:"Set a session cookie on requests that bring none."`

	Fail          float64       `name:"fail" default:"0" help:"Answered with fail_status."`
	FailStatus    int           `name:"fail_status" default:"500" help:"Status of fail."`
	TooMany       float64       `name:"429" default:"0" help:"Answered with 429 and Retry-After."`
	RetryAfter    time.Duration `name:"retry_after" default:"1s" help:"Retry-After of 429 and 503."`
	RetryDate     bool          `name:"retry_date" help:"Retry-After as a date instead of seconds."`
	Never         float64       `name:"never" default:"0" help:"Never answered at all."`
	SlowHeaders   float64       `name:"slow_headers" default:"0" help:"Headers dribble out over slow_headers_for before anything else."`
	SlowHeaderFor time.Duration `name:"slow_headers_for" default:"5s" help:"Duration of slow_headers."`
	Cut           float64       `name:"cut" default:"0" help:"Connection closed half-way through the answer."`
	Reset         float64       `name:"reset" default:"0" help:"Connection reset (RST) half-way through the answer."`
	Truncate      float64       `name:"truncate" default:"0" help:"Stream ended in good order half-way, with no finish reason and no [DONE]."`
	Stall         float64       `name:"stall" default:"0" help:"Silence half-way through the answer."`
	StallFor      time.Duration `name:"stall_for" default:"0s" help:"Duration of stall; 0 is until the client leaves."`
	ErrorInStream float64       `name:"error_in_stream" default:"0" help:"Error inside the stream half-way through the answer, in the dialect's form."`
	Empty         float64       `name:"empty" default:"0" help:"Finished with no token at all."`
	HugeLine      float64       `name:"huge_line" default:"0" help:"One event of the answer is a line of huge_line_bytes."`
	HugeLineBytes int           `name:"huge_line_bytes" default:"2097152" help:"Length of a huge line."`
	SplitUTF8     float64       `name:"split_utf8" default:"0" help:"Text outside ASCII, each chunk written in two pieces that split a character."`
	CRLF          float64       `name:"crlf" default:"0" help:"Lines end in CR LF."`
	Gzip          float64       `name:"gzip" default:"0" help:"Answer compressed although nobody asked."`
	NoDone        float64       `name:"no_done" default:"0" help:"No [DONE] at the end."`
	HangAfterDone float64       `name:"hang_after_done" default:"0" help:"Response not ended after its last event."`
	PlainJSON     float64       `name:"plain_json" default:"0" help:"A whole JSON body although a stream was asked for."`

	TLSCert string `name:"tls_cert" help:"Serve TLS, with a certificate of its own for localhost, 127.0.0.1 and ::1, which is written to this file (PEM) for clients to trust."`
	HTTP2   bool   `name:"http2" help:"Serve HTTP/2, over TLS or to clients that know it beforehand, and nothing else."`

	CloseIdle time.Duration `name:"close_idle" default:"0s" help:"Idle kept-alive connections are closed after this; 0 is 2 minutes."`
	Loading   time.Duration `name:"loading" default:"0s" help:"Time after the start during which everything is answered with 503."`
	SlowStart time.Duration `name:"slow_start" default:"0s" help:"Time after the start before connections are accepted."`
	DieAfter  int           `name:"die_after" default:"0" help:"The server dies (listener closed, connections reset) when it has written this many chunks in all; 0 is never."`
	MaxBody   int64         `name:"max_body" default:"67108864" help:"Largest request body in bytes; larger ones get 413."`
}

// Default gives the configuration that a sim: URL without parameters stands for.
func Default() Config {
	var c Config
	if err := eachParam(&c, func(p param) error {
		if p.def == "" {
			return nil
		}
		return p.set(p.def)
	}); err != nil {
		panic(err) // a default tag of Config does not parse; TestDefault keeps this from happening
	}
	return c
}

// Validate returns every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("simserver: "+format, args...)) }
	if c.Dialect != "" && !slices.Contains(Dialects(), c.Dialect) {
		bad("dialect=%s: unknown; use one of %s", c.Dialect, strings.Join(Dialects(), ", "))
	}
	if c.FailStatus != 0 && (c.FailStatus < 400 || c.FailStatus > 599) {
		bad("fail_status=%d: must be 400 to 599", c.FailStatus)
	}
	if c.Queue < -1 {
		bad("queue=%d: must be -1 (none), 0 (no limit) or more", c.Queue)
	}
	if c.IssueHeader != "" && strings.ContainsFunc(c.IssueHeader, func(r rune) bool {
		return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		bad("issue_header=%q: not a header name", c.IssueHeader)
	}
	switch c.Engine {
	case "", "constant", "batched":
	default:
		bad("engine=%s: unknown; use constant or batched", c.Engine)
	}
	if _, ok := gpus[c.GPU]; !ok && c.GPU != "" {
		bad("gpu=%s: unknown; use one of %s", c.GPU, strings.Join(slices.Sorted(maps.Keys(gpus)), ", "))
	} else if c.GPU != "" && c.Engine == "constant" {
		bad("gpu=%s: the constant engine has none; leave engine out", c.GPU)
	}
	if c.batches() {
		if err := c.Batch().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("simserver: %w", err))
		}
	}
	shares := []string{"jitter", "tools", "refusal", "hold", "accept"}
	faults := false
	_ = eachParam(&c, func(p param) error {
		if p.name == "fail" {
			faults = true
		}
		switch v := p.v.Interface().(type) {
		case float64:
			share := (faults || slices.Contains(shares, p.name))
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || share && v > 1 {
				if share {
					bad("%s=%v: must be from 0 to 1", p.name, v)
				} else {
					bad("%s=%v: must be 0 or more", p.name, v)
				}
			}
		case time.Duration:
			if v < 0 {
				bad("%s=%v: must not be negative", p.name, v)
			}
		case int:
			if v < 0 && p.name != "queue" {
				bad("%s=%d: must not be negative", p.name, v)
			}
		case int64:
			if v < 0 && p.name != "seed" {
				bad("%s=%d: must not be negative", p.name, v)
			}
		}
		return nil
	})
	return errors.Join(errs...)
}

// param is one field of a Config under its name in a URL.
type param struct {
	name, def, help string
	v               reflect.Value
}

// eachParam calls f for every field of c in order, and joins the errors.
func eachParam(c *Config, f func(param) error) error {
	v := reflect.ValueOf(c).Elem()
	var errs []error
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		errs = append(errs, f(param{tag.Get("name"), tag.Get("default"), tag.Get("help"), v.Field(i)}))
	}
	return errors.Join(errs...)
}
