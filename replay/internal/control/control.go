// Package control asks a server about itself before a run: whether it is ready, which models it has,
// what kind of server it is, how to make it forget its prefix cache, and which request parameters it
// takes. It does no input or output of its own: callers pass a function that makes requests.
package control

import (
	"context"
	"net/http"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// Do makes one small request to the target and gives the whole (size-limited) response. path is
// absolute on the target's host, such as /health; the implementation adds the key. An error means that
// there was no response.
type Do func(ctx context.Context, method, path string, body []byte) (status int, header http.Header, response []byte, err error)

// Send sends one conversation of one user message with these parameters over the API under test and
// gives its row.
type Send func(ctx context.Context, prompt string, p *api.Params) *schemas.Request

// Server is a kind of server.
type Server string

// The kinds of server that Detect tells apart.
const (
	VLLM        Server = "vllm"
	SGLang      Server = "sglang"
	TensorRTLLM Server = "trtllm"
	LlamaCpp    Server = "llamacpp"
	OllamaAI    Server = "ollama"
	TGI         Server = "tgi"
	Dynamo      Server = "dynamo"
	LMStudio    Server = "lmstudio"
	Simulated   Server = "simserver"
	Unknown     Server = "unknown"
)

// Ready says how a server became ready.
type Ready struct {
	Waited time.Duration `json:"waited_ns"`
	Tries  int           `json:"tries"`
	By     string        `json:"by"` // the path that answered
}

// Probed is what the probe before a run found out.
type Probed struct {
	Requests        int      `json:"requests"`          // that the probe needed
	Usage           bool     `json:"usage"`             // the server sends a final usage
	ContinuousUsage bool     `json:"continuous_usage"`  // and one with every chunk
	CachedTokens    bool     `json:"cached_tokens"`     // the usage says how much of the prompt was cached
	IncludeUsage    bool     `json:"include_usage"`     // stream_options is taken
	TokenLimit      string   `json:"token_limit"`       // the name of the output limit that is sent
	LimitHeld       bool     `json:"limit_held"`        // the answer was not longer than asked
	IgnoreEOS       bool     `json:"ignore_eos"`        // taken, and the answer had the length asked for
	MinTokens       bool     `json:"min_tokens"`        // taken
	Streamed        bool     `json:"streamed"`          // the answer came as a stream
	Dropped         []string `json:"dropped,omitempty"` // parameters that the server refused, in order
	Notes           []string `json:"notes,omitempty"`   // in words, for the user
}
