package generate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/generate/config"
	"parley/generate/dist"
	"parley/generate/importer"
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

	Preset       string            `json:"preset,omitempty"`            // the preset that this is
	SharedPrefix *SharedPrefix     `json:"shared_prefix,omitempty"`     // a system prompt shared by groups of conversations
	PrefixTree   *PrefixTree       `json:"prefix_tree,omitempty"`       // instead: a tree of what conversations begin with
	Correlation  *Correlation      `json:"correlation,omitempty"`       // how lengths go together
	ThinkTime    *dist.Dist        `json:"think_time_s,omitempty"`      // seconds from an answer to the user's next message
	ToolUse      *ToolUse          `json:"tool_use,omitempty"`          // answers that call tools
	SubAgents    *SubAgents        `json:"sub_agents,omitempty"`        // agents that a session starts
	Arrivals     *Arrivals         `json:"arrivals,omitempty"`          // when conversations start
	Joint        *dist.Joint       `json:"joint_num_tokens,omitempty"`  // each request's input and output together, instead of the two num_tokens
	Languages    string            `json:"languages,omitempty"`         // the language of conversations, by share: en:0.7,zh:0.3; see prose.Languages
	Images       string            `json:"images,omitempty"`            // sizes of images, with the share of user messages that carry one: 1024x768:0.3
	MaxPrompt    int               `json:"max_prompt_tokens,omitempty"` // a conversation ends before the request whose prompt would be longer
	Tags         map[string]string `json:"tags,omitempty"`
	Filter       *importer.Filter  `json:"filter,omitempty"` // conversations to leave out

	dir string // of the config file: what relative file names are relative to
}

// PromptInput describes what users send.
type PromptInput struct {
	NumTurns       *dist.Dist `json:"num_turns,omitempty"`                // messages of both roles; at least 2, rounded up to an even number
	NumRequests    *dist.Dist `json:"num_requests,omitempty"`             // ours, instead of num_turns: requests, that is, answers
	CommonPrefix   *dist.Dist `json:"common_prefix_num_tokens,omitempty"` // drawn once, the same text in all conversations
	Prefix         *dist.Dist `json:"prefix_num_tokens,omitempty"`        // in front of each conversation's first message, its own
	NumTokens      *dist.Dist `json:"num_tokens,omitempty"`               // each user message (and tool result, unless tool_use says)
	FirstNumTokens *dist.Dist `json:"first_num_tokens,omitempty"`         // ours: the first user message, if it is to differ
}

// PromptOutput describes the answers.
type PromptOutput struct {
	NumTokens *dist.Dist `json:"num_tokens,omitempty"`
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
	// Code makes the conversation's own prefix, the tools' results and what is written into files source code, JSON,
	// and what programs print. Otherwise they are prose.
	Code bool `json:"code,omitempty"`
}

// Arrivals gives each conversation a start: the gaps between starts are gamma distributed with the mean
// 1/rate and the shape burstiness (1: Poisson; less: burstier).
type Arrivals struct {
	Rate       float64      `json:"rate"`                 // conversations per second
	Burstiness float64      `json:"burstiness,omitempty"` // 1 if absent
	Modulation []Modulation `json:"modulation,omitempty"` // rises and falls of the rate
	Tick       float64      `json:"tick_s,omitempty"`     // starts are rounded down to multiples of it, as some recorders do
}

// The value of filetype in a generation config.
const fileType = "generate_conversations"

// Lay lays a generation config, a JSON or YAML file, over the specification: what it says takes the place of what was
// there. Names of files in it are relative to its folder, or else to the working folder.
func (s *Spec) Lay(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	s.dir = filepath.Dir(path)
	if err := s.lay(text); err != nil {
		return fmt.Errorf("config %s: %w", path, err)
	}
	return nil
}

// ParseSpec reads a generation config from its JSON or YAML text. It tells every wrong name and type at
// once, each with its path; [Spec.Validate] looks at the values.
func ParseSpec(text []byte) (*Spec, error) {
	s := &Spec{}
	return s, s.lay(text)
}

func (s *Spec) lay(text []byte) error {
	v, err := config.Parse(text)
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("expected an object with num_conversations, prompt_input and prompt_output; a list of conversations is imported with --from")
	}
	before := *s
	var p config.Problems
	config.Decode("", m, s, &p)
	s.settle(&before)
	return p.Err()
}

// settle takes away those settings of before that a new one stands in the place of.
func (s *Spec) settle(before *Spec) {
	in, was := &s.PromptInput, before.PromptInput
	switch {
	case in.NumTurns != was.NumTurns && in.NumRequests == was.NumRequests:
		in.NumRequests = nil
	case in.NumTurns == was.NumTurns && in.NumRequests != was.NumRequests:
		in.NumTurns = nil
	}
	lengths := in.NumTokens != was.NumTokens || s.PromptOutput.NumTokens != before.PromptOutput.NumTokens
	switch {
	case s.Joint != before.Joint && !lengths:
		in.NumTokens, in.FirstNumTokens, s.PromptOutput.NumTokens = nil, nil, nil
	case s.Joint == before.Joint && lengths:
		s.Joint = nil
	}
}

// Validate tells every problem of the specification at once, each with its path in the config, and reads
// what the specification refers to.
func (s *Spec) Validate() error {
	var p config.Problems
	s.check(&p)
	return p.Err()
}

const noRequests = "%d: a conversation has at least one request"

func (s *Spec) check(p *config.Problems) {
	if s.FileType != "" && s.FileType != fileType {
		p.Add("filetype", "%q is not a generation config, which has %q", s.FileType, fileType)
	}
	if s.NumConversations < 0 || s.NumConversations > maxConversations {
		p.Add("num_conversations", "%d must be from 1 to %d", s.NumConversations, maxConversations)
	}
	for i, name := range s.TextFiles {
		if st, err := os.Stat(s.file(name)); err != nil {
			p.Add(fmt.Sprintf("text_files[%d]", i), "%w", err)
		} else if st.IsDir() {
			p.Add(fmt.Sprintf("text_files[%d]", i), "%s is a folder, not a text file", name)
		}
	}
	if s.MaxPrompt < 0 {
		p.Add("max_prompt_tokens", "%d must not be negative", s.MaxPrompt)
	}
	check := func(path string, d *dist.Dist, required bool) {
		if required {
			dist.CheckRequired(path, d, s.file, p)
		} else {
			d.Check(path, s.file, p)
		}
	}
	in := &s.PromptInput
	if in.NumTurns != nil && in.NumRequests != nil {
		p.Add("prompt_input.num_requests", "give either num_turns (messages of both roles) or num_requests")
	}
	check("prompt_input.num_turns", in.NumTurns, in.NumRequests == nil)
	check("prompt_input.num_requests", in.NumRequests, false)
	if n, ok := in.NumRequests.Always(); ok && n < 1 {
		p.Add("prompt_input.num_requests", noRequests, n)
	}
	check("prompt_input.common_prefix_num_tokens", in.CommonPrefix, false)
	check("prompt_input.prefix_num_tokens", in.Prefix, false)
	check("prompt_input.num_tokens", in.NumTokens, s.Joint == nil)
	check("prompt_input.first_num_tokens", in.FirstNumTokens, false)
	check("prompt_output.num_tokens", s.PromptOutput.NumTokens, s.Joint == nil)
	if s.Joint != nil {
		if in.NumTokens != nil || s.PromptOutput.NumTokens != nil {
			p.Add("joint_num_tokens", "give either these, or prompt_input.num_tokens with prompt_output.num_tokens")
		}
		s.Joint.Check("joint_num_tokens", s.file, p)
	}
	if _, err := s.languages(); err != nil {
		p.Add("languages", "%w", err)
	}
	if _, _, err := s.images(); err != nil {
		p.Add("images", "%w", err)
	}
	check("think_time_s", s.ThinkTime, false)
	if sp := s.SharedPrefix; sp != nil {
		if sp.Groups < 0 || sp.Groups > maxGroups {
			p.Add("shared_prefix.groups", "%d must be from 1 to %d", sp.Groups, maxGroups)
		}
		check("shared_prefix.num_tokens", sp.NumTokens, true)
	}
	if u := s.ToolUse; u != nil {
		p.Share("tool_use.share", u.Share)
		check("tool_use.think_time_s", u.ThinkTime, false)
		check("tool_use.num_tokens", u.NumTokens, false)
	}
	if s.SubAgents != nil {
		s.SubAgents.check("sub_agents.", s.file, p)
	}
	if s.Arrivals != nil {
		s.Arrivals.check(p)
	}
	if s.PrefixTree != nil {
		s.PrefixTree.check("prefix_tree.", s, p)
	}
	if s.Correlation != nil {
		s.Correlation.check("correlation.", s, p)
	}
	if s.Filter != nil {
		s.Filter.Check("filter.", "_", p)
	}
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
