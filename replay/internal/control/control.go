// Package control asks a server about itself before a run: whether it is ready, which models it has,
// what kind of server it is, how to make it forget its prefix cache, and which request parameters it
// takes. It does no input or output of its own: callers pass a function that makes requests.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// Do makes one small request to the target and gives the whole (size-limited) response. path is absolute
// on the target's host, such as /health; the implementation adds the key. An error means that there was
// no response; it must not hold a secret. The transport's Fetch is one.
type Do func(ctx context.Context, method, path string, body []byte) (status int, header http.Header, response []byte, err error)

// Send sends one request with these parameters over the API under test and gives its row: a conversation like
// those of the run, which ends with the user's message text. salt goes before its first message and makes it unlike any
// other conversation.
type Send func(ctx context.Context, salt, text string, p *api.Params) *schemas.Request

// response is what a server said to a small request.
type response struct {
	Status int
	Body   []byte
}

func (do Do) ask(ctx context.Context, method, path string) (r response, err error) {
	r.Status, _, r.Body, err = do(ctx, method, path, nil)
	return r, err
}

// get makes a GET request and says whether its answer is a 200.
func (do Do) get(ctx context.Context, path string) (response, bool) {
	r, err := do.ask(ctx, http.MethodGet, path)
	return r, err == nil && r.Status == http.StatusOK
}

// Ready says how a server became ready.
type Ready struct {
	Waited time.Duration `json:"waited_ns"`
	Tries  int           `json:"tries"`
	Path   string        `json:"path"` // that answered
}

// readyPaths are asked in turn; a server has at least one of them. LiteLLM's comes first, because its /health sends
// requests to the servers behind it.
var readyPaths = []string{liteLLMPath, "/health", "/v1/models", "/api/tags", "/"}

const liteLLMPath = "/health/liveliness"

// WaitReady asks until the server says that it is ready, and at most for limit (0: once). It is not ready
// while nothing answers, or while it answers 503 (llama.cpp and others that are loading a model) or 502 or
// 504 (a proxy before a server that is starting). A 404 only means that this server has no such path; a
// 401 or 403 that one without a key may not ask it, but that it is there. note is told after two seconds why it still
// waits, and again when the reason changes.
func WaitReady(ctx context.Context, do Do, limit time.Duration, note func(why string)) (Ready, error) {
	const pause, patience = 500 * time.Millisecond, 2 * time.Second
	begin := time.Now()
	var ready Ready
	told := ""
	for {
		ready.Tries++
		path, err := isReady(ctx, do)
		ready.Waited = time.Since(begin)
		if err == nil {
			ready.Path = path
			return ready, nil
		}
		if ctx.Err() != nil {
			return ready, context.Cause(ctx)
		}
		if ready.Waited+pause > limit {
			return ready, fmt.Errorf("the server was not ready within %v (asked %d times; the last answer: %w); give it more time, or check --url",
				limit, ready.Tries, err)
		}
		if why := err.Error(); ready.Waited >= patience && why != told {
			told = why
			note(why)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func isReady(ctx context.Context, do Do) (path string, err error) {
	for _, path := range readyPaths {
		r, err := do.ask(ctx, http.MethodGet, path)
		switch {
		case err != nil:
			return "", err // nobody is there: the other paths need not be asked
		case r.Status == http.StatusServiceUnavailable || r.Status == http.StatusBadGateway || r.Status == http.StatusGatewayTimeout:
			return "", answered(path, r)
		case r.Status == http.StatusOK || r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
			return path, nil
		}
	}
	return "/", nil // it answers; what it can do, the probe finds out
}

// answered is the error of a path that answered with another status than 200, with what the server said.
func answered(path string, r response) *Refused {
	return &Refused{Path: path, Status: r.Status, Text: api.ErrorText(r.Body), Kind: api.ErrorKind(r.Status, r.Body)}
}

// Refused is the error of a small request that was answered with another status than 200.
type Refused struct {
	Path   string
	Status int
	Text   string // the server's, "" for none
	Kind   string // of the api package's kinds
}

func (e *Refused) Error() string {
	text := fmt.Sprintf("GET %s: HTTP %d", e.Path, e.Status)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Models gives the names of the server's models, its first one first. The error of a server that refused to say is,
// or wraps, a *Refused.
func Models(ctx context.Context, do Do) ([]string, error) {
	type entry struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Model string `json:"model"`
	}
	var problems []error
	for _, path := range []string{"/v1/models", "/api/tags", "/info"} {
		r, err := do.ask(ctx, http.MethodGet, path)
		if err != nil {
			return nil, fmt.Errorf("asking for the models: %w", err)
		}
		if r.Status != http.StatusOK {
			refused := answered(path, r)
			if r.Status != http.StatusNotFound { // it has this list, and keeps it to itself
				return nil, refused
			}
			problems = append(problems, refused)
			continue
		}
		var list struct {
			Data    []entry `json:"data"`
			Models  []entry `json:"models"`
			ModelID string  `json:"model_id"` // TGI's /info
		}
		if err := json.Unmarshal(r.Body, &list); err != nil {
			problems = append(problems, fmt.Errorf("GET %s: not JSON", path))
			continue
		}
		var names []string
		for _, e := range append(list.Data, list.Models...) {
			for _, name := range []string{e.ID, e.Model, e.Name} {
				if name != "" {
					names = append(names, name)
					break
				}
			}
		}
		if list.ModelID != "" {
			names = append(names, list.ModelID)
		}
		if len(names) > 0 {
			return dedupe(names), nil
		}
		problems = append(problems, fmt.Errorf("GET %s: no models in it", path))
	}
	return nil, fmt.Errorf("the server does not say which models it has: %w", errors.Join(problems...))
}

// dedupe keeps the first of equal names (llama.cpp lists its model in both forms).
func dedupe(names []string) []string {
	kept := names[:0]
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			kept = append(kept, n)
		}
	}
	return kept
}

// Server is a kind of server.
type Server string

// The kinds of server that Detect tells apart.
const (
	VLLM        Server = "vllm"
	SGLang      Server = "sglang"
	TensorRTLLM Server = "trtllm"
	LlamaCpp    Server = "llamacpp"
	Ollama      Server = "ollama"
	TGI         Server = "tgi"
	Dynamo      Server = "dynamo"
	LiteLLM     Server = "litellm"
	LMStudio    Server = "lmstudio"
	Simulated   Server = "simserver"
	Unknown     Server = "unknown"
)

// owners are the owners that servers give their models, and where such a server tells its version.
var owners = map[string]struct {
	kind         Server
	path, member string
}{
	"simserver":          {Simulated, "", ""},
	"vllm":               {VLLM, "/version", "version"},
	"sglang":             {SGLang, "/get_server_info", "version"},
	"llamacpp":           {LlamaCpp, "/props", "build_info"},
	"tensorrt_llm":       {TensorRTLLM, "/version", "version"},
	"nvidia":             {Dynamo, "", ""},
	"dynamo":             {Dynamo, "", ""},
	"organization_owner": {LMStudio, "", ""},
}

// Detect tells the kind of server by what only it has, and its version where it tells one. A server that
// gives nothing away is Unknown, which is no error.
func Detect(ctx context.Context, do Do) (kind Server, version string) {
	models, ok := do.get(ctx, "/v1/models")
	owner := ""
	if ok {
		var list struct {
			Data []struct {
				OwnedBy string `json:"owned_by"`
			} `json:"data"`
		}
		if json.Unmarshal(models.Body, &list) == nil && len(list.Data) > 0 {
			owner = strings.ToLower(list.Data[0].OwnedBy)
		}
	}
	text := func(path string, members ...string) (value string, has bool) {
		r, ok := do.get(ctx, path)
		if !ok {
			return "", false
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(r.Body, &object) != nil {
			return "", false
		}
		for _, m := range members {
			if raw, ok := object[m]; ok {
				_ = json.Unmarshal(raw, &value) // what is no text leaves it empty
				return value, true
			}
		}
		return "", false
	}
	if known, ok := owners[owner]; ok {
		if known.path != "" {
			version, _ = text(known.path, known.member)
		}
		return known.kind, version
	}
	if r, ok := do.get(ctx, liteLLMPath); ok && strings.Contains(string(r.Body), "alive") {
		return LiteLLM, ""
	}
	if version, ok := text("/api/version", "version"); ok {
		return Ollama, version
	}
	if _, ok := text("/get_model_info", "model_path"); ok {
		version, _ = text("/get_server_info", "version")
		return SGLang, version
	}
	if version, ok := text("/props", "build_info", "default_generation_settings"); ok {
		return LlamaCpp, version
	}
	if version, ok := text("/info", "version"); ok {
		return TGI, version
	}
	if r, ok := do.get(ctx, "/metrics"); ok {
		for _, m := range []struct {
			prefix string
			kind   Server
		}{
			{"vllm:", VLLM}, {"sglang:", SGLang}, {"trtllm_", TensorRTLLM}, {"llamacpp:", LlamaCpp}, {"tgi_", TGI}, {"dynamo_", Dynamo},
			{`"kvCacheStats"`, TensorRTLLM},
		} {
			if strings.Contains(string(r.Body), m.prefix) {
				return m.kind, ""
			}
		}
	}
	return Unknown, ""
}
