package generate

import (
	"errors"
	"fmt"
)

// Filter leaves conversations out. The zero value keeps all.
type Filter struct {
	MinTurns        int `json:"min_turns,omitempty"`         // requests that a conversation must have
	MaxTurns        int `json:"max_turns,omitempty"`         // requests that it may have; 0: any number
	MaxPromptTokens int `json:"max_prompt_tokens,omitempty"` // tokens that its longest prompt may have; 0: any number
}

// Validate tells every problem at once.
func (f Filter) Validate() error {
	var problems []error
	for _, v := range []struct {
		flag string
		n    int
	}{{"--min-turns", f.MinTurns}, {"--max-turns", f.MaxTurns}, {"--max-prompt-tokens", f.MaxPromptTokens}} {
		if v.n < 0 {
			problems = append(problems, fmt.Errorf("%s: %d must not be negative", v.flag, v.n))
		}
	}
	if f.MaxTurns > 0 && f.MinTurns > f.MaxTurns {
		problems = append(problems, fmt.Errorf("--min-turns: %d is more than --max-turns, %d", f.MinTurns, f.MaxTurns))
	}
	return errors.Join(problems...)
}

// refuses gives the reason for which a conversation of so many turns and of such a longest prompt is left
// out, or "".
func (f Filter) refuses(turns, prompt int) string {
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

// skips counts what was left out, by reason.
type skips map[string]int64
