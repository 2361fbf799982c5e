package generate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/generate/dist"
)

// Spec says what conversations to make. The first block of fields is vLLM's generation config, which is
// read unchanged; the others are ours. Lengths are in tokens of the dataset's tokenizer.
type Spec struct {
	FileType         string       `json:"filetype"`
	NumConversations int          `json:"num_conversations"`
	TextFiles        []string     `json:"text_files,omitempty"` // none: the built-in prose
	PrintStats       bool         `json:"print_stats,omitempty"`
	PromptInput      PromptInput  `json:"prompt_input"`
	PromptOutput     PromptOutput `json:"prompt_output"`

	Preset       string            `json:"preset,omitempty"`        // the preset that this is
	SharedPrefix *SharedPrefix     `json:"shared_prefix,omitempty"` // a system prompt shared by groups of conversations
	ThinkTime    *dist.Dist        `json:"think_time_s,omitempty"`  // seconds from an answer to the user's next message
	ToolUse      *ToolUse          `json:"tool_use,omitempty"`      // answers that call tools
	Arrivals     *Arrivals         `json:"arrivals,omitempty"`      // when conversations start
	MaxPrompt    int               `json:"max_prompt_tokens,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`

	dir string // of the config file: what relative file names are relative to
}

// PromptInput describes what users send.
type PromptInput struct {
	NumTurns       *dist.Dist `json:"num_turns,omitempty"`                // messages of both roles; at least 2, rounded up to an even number
	NumRequests    *dist.Dist `json:"num_requests,omitempty"`             // ours, instead of num_turns: requests, that is, answers
	CommonPrefix   *dist.Dist `json:"common_prefix_num_tokens,omitempty"` // drawn once, the same text in all conversations
	Prefix         *dist.Dist `json:"prefix_num_tokens,omitempty"`        // in front of each conversation's first message, its own
	NumTokens      *dist.Dist `json:"num_tokens"`                         // each user message (and tool result, unless tool_use says)
	FirstNumTokens *dist.Dist `json:"first_num_tokens,omitempty"`         // ours: the first user message, if it is to differ
}

// PromptOutput describes the answers.
type PromptOutput struct {
	NumTokens *dist.Dist `json:"num_tokens"`
}

// SharedPrefix is a system message. Each group has its own text and length; each conversation belongs to
// one group, drawn evenly.
type SharedPrefix struct {
	Groups    int        `json:"groups"` // 1 if absent
	NumTokens *dist.Dist `json:"num_tokens"`
}

// ToolUse makes some answers call tools; the next request then carries the tool's result instead of a
// user's message.
type ToolUse struct {
	Share     float64    `json:"share"`                  // of the requests after the first that bring a tool's result, 0 to 1
	ThinkTime *dist.Dist `json:"think_time_s,omitempty"` // seconds that the tool takes
	NumTokens *dist.Dist `json:"num_tokens,omitempty"`   // of a result
}

// Arrivals gives each conversation a start: the gaps between starts are gamma distributed with the mean
// 1/rate and the shape burstiness (1: Poisson; less: burstier).
type Arrivals struct {
	Rate       float64 `json:"rate"`       // conversations per second
	Burstiness float64 `json:"burstiness"` // 1 if absent
}

// The value of filetype in a generation config.
const fileType = "generate_conversations"

// Validate tells every problem of the specification at once, each with its path in the config, and reads
// what the specification refers to.
func (s *Spec) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	if s.FileType != "" && s.FileType != fileType {
		bad("filetype: %q is not a generation config, which has %q", s.FileType, fileType)
	}
	if s.NumConversations < 0 || s.NumConversations > maxConversations {
		bad("num_conversations: %d must be from 1 to %d", s.NumConversations, maxConversations)
	}
	for i, name := range s.TextFiles {
		if st, err := os.Stat(s.file(name)); err != nil {
			bad("text_files[%d]: %w", i, err)
		} else if st.IsDir() {
			bad("text_files[%d]: %s is a folder, not a text file", i, name)
		}
	}
	if s.MaxPrompt < 0 {
		bad("max_prompt_tokens: %d must not be negative", s.MaxPrompt)
	}
	check := func(path string, d *dist.Dist, required bool) {
		switch {
		case d.Given():
			problems = append(problems, d.Check(path, s.dir))
		case d != nil:
			problems = append(problems, d.Check(path, s.dir)) // says that the name is missing
		case required:
			bad("%s: missing: give a distribution, such as {\"distribution\": \"constant\", \"value\": 100}", path)
		}
	}
	in := &s.PromptInput
	if in.NumTurns != nil && in.NumRequests != nil {
		bad("prompt_input.num_requests: give either num_turns (messages of both roles) or num_requests")
	}
	check("prompt_input.num_turns", in.NumTurns, in.NumRequests == nil)
	check("prompt_input.num_requests", in.NumRequests, false)
	check("prompt_input.common_prefix_num_tokens", in.CommonPrefix, false)
	check("prompt_input.prefix_num_tokens", in.Prefix, false)
	check("prompt_input.num_tokens", in.NumTokens, true)
	check("prompt_input.first_num_tokens", in.FirstNumTokens, false)
	check("prompt_output.num_tokens", s.PromptOutput.NumTokens, true)
	check("think_time_s", s.ThinkTime, false)
	if p := s.SharedPrefix; p != nil {
		if p.Groups < 0 || p.Groups > maxGroups {
			bad("shared_prefix.groups: %d must be from 1 to %d", p.Groups, maxGroups)
		}
		check("shared_prefix.num_tokens", p.NumTokens, true)
	}
	if u := s.ToolUse; u != nil {
		if !(u.Share >= 0 && u.Share <= 1) {
			bad("tool_use.share: %v must be from 0 to 1", u.Share)
		}
		check("tool_use.think_time_s", u.ThinkTime, false)
		check("tool_use.num_tokens", u.NumTokens, false)
	}
	if a := s.Arrivals; a != nil {
		if !(a.Rate > 0) || a.Rate > 1e6 {
			bad("arrivals.rate: %v must be greater than 0: it is the number of conversations that start per second", a.Rate)
		}
		if !(a.Burstiness >= 0) || a.Burstiness > 1e6 {
			bad("arrivals.burstiness: %v must not be negative: it is the shape of the gamma distribution of the gaps", a.Burstiness)
		}
	}
	return errors.Join(problems...)
}

const (
	maxConversations = 1 << 31
	maxGroups        = 10_000
	// maxMessageTokens bounds one message, and maxRequests one conversation, so that a slip in a config is
	// an error and not a machine without memory.
	maxMessageTokens = 4 << 20
	maxRequests      = 100_000
)

// file resolves a name in the config against the config's folder. A file that is not there is looked for
// in the working folder, where vLLM's script looks.
func (s *Spec) file(name string) string {
	if filepath.IsAbs(name) || s.dir == "" {
		return name
	}
	beside := filepath.Join(s.dir, name)
	if _, err := os.Stat(beside); err != nil {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return beside
}
