package generate

import (
	"cmp"
	"errors"
	"path/filepath"

	"parley/generate/config"
	"parley/generate/dist"
)

// Recipe names what a specification is put together from: a preset, over it a config, over that lengths. Each
// may be missing.
type Recipe struct {
	Preset string // its name; see Presets
	Config string // the file of a generation config, of which all or some fields are given

	// Lengths in the short form of distributions (see dist.Parse); "" leaves what is below. Input and output tokens
	// from two columns of one file are drawn together, row by row.
	Turns        string // requests of a conversation
	InputTokens  string // of each user message
	OutputTokens string // of each answer
	SharedPrefix string // tokens of a system message that conversations share

	Languages, Images string // see Spec; "" leaves what is below
}

// Given says whether there is anything to make a specification of.
func (r Recipe) Given() bool { return r != (Recipe{}) }

// lengthsOnly is how many conversations there are where nothing says.
const lengthsOnly = 1000

// Spec puts the specification together. It tells all that is wrong with it at once.
func (r Recipe) Spec() (*Spec, error) {
	s := &Spec{}
	var unread error
	if r.Preset != "" {
		preset, err := Preset(r.Preset)
		if err != nil {
			return nil, err
		}
		s = preset
	}
	if r.Config != "" {
		unread = s.Lay(r.Config)
	} else if r.Preset == "" {
		s.NumConversations = lengthsOnly
	}
	var p config.Problems
	r.lengths(s, &p)
	s.Languages, s.Images = cmp.Or(r.Languages, s.Languages), cmp.Or(r.Images, s.Images)
	s.check(&p)
	return s, errors.Join(unread, p.Err())
}

// lengths lays the lengths over a specification.
func (r Recipe) lengths(s *Spec, p *config.Problems) {
	lay := func(flag, text string, to **dist.Dist) bool {
		if text != "" {
			d := dist.Parse(flag, text, p)
			*to = &d
		}
		return text != ""
	}
	in, before := &s.PromptInput, *s
	if !lay("--turns", r.Turns, &in.NumRequests) && r.Config == "" && r.Preset == "" {
		in.NumRequests = ref(dist.Constant(1))
	}
	if n, ok := in.NumRequests.Always(); ok && n < 1 && r.Turns != "" {
		p.Add("--turns", noRequests, n)
		in.NumRequests = ref(dist.Constant(1)) // told once
	}
	if r.InputTokens != "" {
		in.FirstNumTokens = nil
		if s.ToolUse != nil {
			s.ToolUse.NumTokens = nil
		}
	}
	if joint := together(r.InputTokens, r.OutputTokens); joint != nil {
		s.Joint = joint
	} else {
		lay("--input-tokens", r.InputTokens, &in.NumTokens)
		lay("--output-tokens", r.OutputTokens, &s.PromptOutput.NumTokens)
	}
	if r.SharedPrefix != "" {
		if s.SharedPrefix == nil {
			s.SharedPrefix = &SharedPrefix{Groups: 1}
		}
		lay("--shared-prefix", r.SharedPrefix, &s.SharedPrefix.NumTokens)
	}
	s.settle(&before)
}

// together gives the pairs of two columns of one file.
func together(input, output string) *dist.Joint {
	file, in, ok := dist.Column(input)
	other, out, ok2 := dist.Column(output)
	if !ok || !ok2 || filepath.Clean(file) != filepath.Clean(other) || in == out {
		return nil
	}
	return &dist.Joint{File: absolute(file), Input: in, Output: out}
}

// absolute keeps a name of the working folder from being looked for beside a config.
func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}
