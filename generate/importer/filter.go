package importer

import (
	"cmp"
	"fmt"
	"strings"

	"parley/generate/config"
)

// Filter leaves conversations out. The zero value keeps all.
type Filter struct {
	MinTurns        int `json:"min_turns,omitempty"`         // requests that a conversation must have
	MaxTurns        int `json:"max_turns,omitempty"`         // requests that it may have; 0: any number
	MaxPromptTokens int `json:"max_prompt_tokens,omitempty"` // tokens that its longest prompt may have; 0: any number
}

// Check tells every problem at once, by names with this in front and with this between words.
func (f Filter) Check(front, between string, p *config.Problems) {
	name := func(words ...string) string { return front + strings.Join(words, between) }
	if f.MinTurns < 0 {
		p.Add(name("min", "turns"), "%d must not be negative", f.MinTurns)
	}
	if f.MaxTurns < 0 {
		p.Add(name("max", "turns"), "%d must not be negative", f.MaxTurns)
	}
	if f.MaxPromptTokens < 0 {
		p.Add(name("max", "prompt", "tokens"), "%d must not be negative", f.MaxPromptTokens)
	}
	if f.MaxTurns > 0 && f.MinTurns > f.MaxTurns {
		p.Add(name("min", "turns"), "%d is more than %s, %d", f.MinTurns, name("max", "turns"), f.MaxTurns)
	}
}

// Over gives the filter with the limits of another one where it has none.
func (f Filter) Over(other *Filter) Filter {
	if other == nil {
		return f
	}
	return Filter{cmp.Or(f.MinTurns, other.MinTurns), cmp.Or(f.MaxTurns, other.MaxTurns), cmp.Or(f.MaxPromptTokens, other.MaxPromptTokens)}
}

// OrNil gives nil for a filter that keeps all.
func (f Filter) OrNil() *Filter {
	if f == (Filter{}) {
		return nil
	}
	return &f
}

// Refuses gives the reason for which a conversation of so many turns and of such a longest prompt is left
// out, or "".
func (f Filter) Refuses(turns, prompt int) string {
	switch {
	case turns < f.MinTurns:
		return fmt.Sprintf("fewer than %d turns", f.MinTurns)
	case f.MaxTurns > 0 && turns > f.MaxTurns:
		return fmt.Sprintf("more than %d turns", f.MaxTurns)
	case f.MaxPromptTokens > 0 && prompt > f.MaxPromptTokens:
		return fmt.Sprintf("prompt of more than %d tokens", f.MaxPromptTokens)
	}
	return ""
}
