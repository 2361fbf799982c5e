// Package api is everything above the HTTP body: how each API wants a conversation asked ([History]),
// and what the bytes of an answer mean, whenever they arrive ([Stream]).
//
// It knows nothing of connections. The transport asks an [API] for the path and the headers, writes the
// segments that [History.Body] gives, and feeds a Stream with the bytes of the response's body, each
// piece with its arrival time.
package api

import (
	"fmt"
	"regexp"
	"strings"
)

// Kind names an API.
type Kind string

// The APIs that parley speaks.
const (
	Chat        Kind = "chat"        // OpenAI chat completions, POST /v1/chat/completions
	Completions Kind = "completions" // OpenAI completions, POST /v1/completions
	Responses   Kind = "responses"   // OpenAI Responses, POST /v1/responses
	Anthropic   Kind = "anthropic"   // Anthropic Messages, POST /v1/messages
	Ollama      Kind = "ollama"      // Ollama's own, POST /api/chat
)

// Kinds lists the APIs.
var Kinds = []Kind{Chat, Completions, Responses, Anthropic, Ollama}

// Header is one fixed header of an API's requests.
type Header struct{ Name, Value string }

// An API is one of the ways in which servers are asked. It is immutable and may be shared.
type API struct {
	Kind Kind
	// Path follows the target's base URL. Where the base URL ends in /v1 already, the path's own /v1
	// is left out: see URL.
	Path string
	// Accept is the Accept header of a streaming request.
	Accept string
	// Headers are the fixed headers, besides Content-Type (always application/json), Accept and the
	// key's.
	Headers []Header
	// KeyHeader and KeyPrefix say how an API key is sent: KeyHeader: KeyPrefix + key.
	KeyHeader, KeyPrefix string
	// TokenLimits are the names of the output-token limit that servers of this API know, the usual one
	// first. Params.TokenLimit chooses.
	TokenLimits []string
}

// New gives the API of a kind: chat, completions, responses, anthropic or ollama.
func New(kind string) (*API, error) {
	a := &API{Kind: Kind(kind), Accept: "text/event-stream", KeyHeader: "Authorization", KeyPrefix: "Bearer "}
	switch a.Kind {
	case Chat:
		a.Path = "/v1/chat/completions"
		a.TokenLimits = []string{"max_tokens", "max_completion_tokens"}
	case Completions:
		a.Path = "/v1/completions"
		a.TokenLimits = []string{"max_tokens"}
	case Responses:
		a.Path = "/v1/responses"
		a.TokenLimits = []string{"max_output_tokens"}
	case Anthropic:
		a.Path = "/v1/messages"
		a.Headers = []Header{{"anthropic-version", "2023-06-01"}}
		a.KeyHeader, a.KeyPrefix = "x-api-key", ""
		a.TokenLimits = []string{"max_tokens"}
	case Ollama:
		a.Path = "/api/chat"
		a.Accept = "application/x-ndjson"
		a.TokenLimits = []string{"num_predict"}
	default:
		names := make([]string, len(Kinds))
		for i, k := range Kinds {
			names[i] = string(k)
		}
		return nil, fmt.Errorf("unknown API %q: use one of %s", kind, strings.Join(names, ", "))
	}
	return a, nil
}

// JoinPath gives the path of the API's requests under a base URL's path:
//
//   - "" or "/base" gives /base/v1/chat/completions;
//   - a base with a version in it, or a deployment (Azure), is not given another: /v1beta/openai gives
//     /v1beta/openai/chat/completions;
//   - a base that is the whole endpoint stays as it is.
func (a *API) JoinPath(base string) string {
	base = strings.TrimRight(base, "/")
	end := a.end()
	switch {
	case strings.HasSuffix(base, end):
		return base
	case a.Kind == Ollama && strings.HasSuffix(base, "/api"), version.MatchString(base):
		return base + end
	}
	return base + a.Path
}

// ModelsPath gives the path of the list of models that goes with a base URL's path.
func (a *API) ModelsPath(base string) string {
	if a.Kind == Ollama {
		return "/v1/models" // the other API of the same server
	}
	return strings.TrimSuffix(a.JoinPath(base), a.end()) + "/models"
}

// end is what the paths of all endpoints of the API end with, whatever stands in the place of /v1.
func (a *API) end() string { return strings.TrimPrefix(strings.TrimPrefix(a.Path, "/v1"), "/api") }

// version finds a version (/v1, /v1beta, /v4) or a deployment in a path.
var version = regexp.MustCompile(`/v\d+[a-z0-9]*(/|$)|/deployments/`)
