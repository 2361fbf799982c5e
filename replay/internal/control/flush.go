package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"parley/replay/internal/api"
	"parley/schemas"
)

// FlushCache makes the server forget its prefix cache. That the server said yes does not prove that it
// did: see Flush.
func FlushCache(ctx context.Context, do Do, kind Server) error {
	post := func(path, hint string) error {
		r, err := do.ask(ctx, http.MethodPost, path)
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("POST %s: HTTP %d; %s", path, r.Status, hint)
		}
		if err != nil {
			return fmt.Errorf("flushing the cache: %w", err)
		}
		return nil
	}
	switch kind {
	case VLLM:
		return post("/reset_prefix_cache", "vLLM offers it only when started with VLLM_SERVER_DEV_MODE=1")
	case SGLang:
		return post("/flush_cache", "SGLang refuses while requests are running or waiting")
	case Simulated:
		return post("/flush_cache", "")
	case LlamaCpp:
		r, ok := do.get(ctx, "/slots")
		if !ok {
			return errors.New("flushing the cache: GET /slots failed; start llama-server with --slots and --slot-save-path")
		}
		var slots []struct {
			ID int64 `json:"id"`
		}
		if err := json.Unmarshal(r.Body, &slots); err != nil || len(slots) == 0 {
			return errors.New("flushing the cache: GET /slots gave no list of slots")
		}
		for _, slot := range slots {
			if err := post(fmt.Sprintf("/slots/%d?action=erase", slot.ID), "llama-server offers it only when started with --slot-save-path"); err != nil {
				return err
			}
		}
		return nil
	case Unknown:
		// Whoever it is, it may know one of the two usual paths.
		for _, path := range []string{"/reset_prefix_cache", "/flush_cache"} {
			if r, err := do.ask(ctx, http.MethodPost, path); err != nil {
				return fmt.Errorf("flushing the cache: %w", err)
			} else if r.Status == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("flushing the cache: no way is known to make a server of the kind %s forget its prefix cache; use --salt", kind)
}

// Flushed says what came of a flush.
type Flushed struct {
	Server   Server `json:"server"`
	Verified *bool  `json:"verified,omitempty"` // null: could not be told
	Before   *int64 `json:"cached_before,omitempty"`
	After    *int64 `json:"cached_after,omitempty"`
	Note     string `json:"note"`
}

// Flush makes the server forget its prefix cache and looks whether it did: a prompt of its own is sent
// until the server says that it came from the cache, then the cache is flushed and the prompt sent once
// more. The error is that of the flush itself; a flush that had no effect is Verified false.
func Flush(ctx context.Context, do Do, kind Server, salt string, p api.Params, send Send) (Flushed, error) {
	f := Flushed{Server: kind}
	p.OutputTokens, p.IgnoreEOS, p.MinTokens = 1, false, 0
	cached := func() (*int64, error) {
		row := send(ctx, salt, probeText, &p)
		switch schemas.Status(row.Status) {
		case schemas.StatusOK, schemas.StatusEmpty: // one token may be one that is not shown
			return row.CachedTokens, nil
		}
		return nil, errors.New("looking at the cache: " + reason(row))
	}
	var problem error
	for n := range 3 { // the first can hit by its template only; the third is for a server of two replicas
		c, err := cached()
		if err != nil {
			problem = err
			break
		}
		if f.Before = c; n > 0 && c != nil && *c > 0 {
			break
		}
	}
	if err := FlushCache(ctx, do, kind); err != nil {
		return f, err
	}
	if problem != nil {
		f.Note = "the cache was flushed, but whether it worked could not be told: " + problem.Error()
		return f, nil
	}
	if f.Before == nil || *f.Before == 0 {
		f.Note = "the cache was flushed, but whether it worked could not be told: the server reports no cached tokens for a repeated prompt"
		return f, nil
	}
	after, err := cached()
	if err != nil {
		f.Note = "the cache was flushed, but whether it worked could not be told: " + err.Error()
		return f, nil
	}
	f.After = after
	worked := after == nil || *after == 0 // some servers leave the count out when it is 0
	f.Verified = &worked
	if !worked {
		f.Note = fmt.Sprintf("the server said that it flushed its cache, but %d of the tokens of a repeated prompt still came from it (%d before)", *after, *f.Before)
		return f, nil
	}
	f.Note = fmt.Sprintf("the cache was flushed: a repeated prompt had %d tokens from it before, none after", *f.Before)
	return f, FlushCache(ctx, do, kind) // what the looking has left there
}

// reason gives a failed row in words.
func reason(row *schemas.Request) string {
	words := []string{row.Status}
	if row.ErrorKind != nil {
		words = append(words, *row.ErrorKind)
	}
	if row.ErrorMessage != nil {
		words = append(words, *row.ErrorMessage)
	}
	return strings.Join(words, ": ")
}
