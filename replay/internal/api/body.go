package api

import (
	"fmt"
	"math"
	"strconv"
)

// anthropicMaxTokens is sent as max_tokens, which Anthropic's API requires, where no limit is asked for.
const anthropicMaxTokens = 4096

// Body gives the body of a request with all messages so far, in segments to be written one after the
// other. They are valid until the next call of a method of the history. An error names what is wrong
// with the parameters.
func (h *History) Body(p *Params) ([][]byte, error) {
	switch h.api.Kind {
	case Completions:
		h.tail = append(h.tail[:0], '"')
	default:
		h.tail = append(h.tail[:0], ']')
	}
	members, err := lay(append(h.members[:0], h.body...), p.Body)
	if err != nil {
		return nil, fmt.Errorf("the turn's body: %w", err)
	}
	options := h.options[:0]

	limit := p.TokenLimit
	if limit == "" {
		limit = h.api.TokenLimits[0]
	}
	output := p.OutputTokens
	if output <= 0 && h.api.Kind == Anthropic && !has(members, limit) {
		output = anthropicMaxTokens
	}
	if output > 0 { // the source's own limit goes, under whatever name
		for _, name := range [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
			members = remove(members, name)
		}
	}

	stream := "false"
	if p.Stream {
		stream = "true"
	}
	if p.Model != "" {
		members = set(members, "model", appendQuoted(nil, p.Model))
	}
	members = set(members, "stream", []byte(stream))
	if p.Stream && (p.IncludeUsage || p.ContinuousUsage) && (h.api.Kind == Chat || h.api.Kind == Completions) {
		value := `{"include_usage":true}`
		if p.ContinuousUsage {
			value = `{"include_usage":true,"continuous_usage_stats":true}`
		}
		members = set(members, "stream_options", []byte(value))
	}
	// Ollama's own API has the parameters of sampling in an object of their own.
	knobs := &members
	if h.api.Kind == Ollama {
		knobs = &options
		for _, m := range members {
			if m.name == "options" {
				inner, err := parseObject(m.raw)
				if err != nil {
					return nil, fmt.Errorf("options: %w", err)
				}
				options = append(options, inner...)
			}
		}
		if output > 0 {
			options = remove(options, limit)
		}
	}
	if output > 0 {
		*knobs = set(*knobs, limit, strconv.AppendInt(nil, output, 10))
	}
	if p.IgnoreEOS && output > 0 { // without a limit the answer would fill the context
		*knobs = set(*knobs, "ignore_eos", []byte("true"))
	}
	if least := p.MinTokens; least > 0 {
		if output > 0 {
			least = min(least, output) // more is refused
		}
		*knobs = set(*knobs, "min_tokens", strconv.AppendInt(nil, least, 10))
	}
	if p.Seed != nil {
		*knobs = set(*knobs, "seed", strconv.AppendInt(nil, *p.Seed, 10))
	}
	if t := p.Temperature; t != nil {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			return nil, fmt.Errorf("temperature %v is not a number that JSON can carry", *t)
		}
		*knobs = set(*knobs, "temperature", strconv.AppendFloat(nil, *p.Temperature, 'g', -1, 64))
	}
	if len(h.tools) > 0 && h.api.Kind != Completions {
		members = set(members, "tools", h.tools)
	}
	if h.api.Kind == Anthropic && len(h.system) > 0 {
		system := h.systemText
		if system == nil {
			system = append(append([]byte{'['}, h.system...), ']')
		}
		members = set(members, "system", system)
	}
	for _, extra := range p.Extra {
		more, err := parseObject(extra)
		if err != nil {
			return nil, fmt.Errorf("extra body: %w", err)
		}
		if err := CheckExtra(extra); err != nil {
			return nil, fmt.Errorf("extra body: %w", err)
		}
		for _, m := range more {
			if h.api.Kind == Ollama && m.name == "options" {
				inner, err := parseObject(m.raw)
				if err != nil {
					return nil, fmt.Errorf("extra body: options: %w", err)
				}
				for _, o := range inner {
					options = set(options, o.name, o.raw)
				}
				continue
			}
			members = set(members, m.name, m.raw)
		}
	}
	for _, f := range p.Fields {
		if ours(f.Name) {
			return nil, fmt.Errorf("body field %q: parley fills it itself", f.Name)
		}
		members = set(members, f.Name, appendQuoted(nil, f.Value))
	}
	if len(options) > 0 {
		members = set(members, "options", appendObject(nil, options))
	}
	for _, m := range members {
		h.tail = append(h.tail, ',')
		h.tail = appendQuoted(h.tail, m.name)
		h.tail = append(h.tail, ':')
		h.tail = append(h.tail, m.raw...)
	}
	h.tail = append(h.tail, '}')
	h.members, h.options = members, options
	h.segs = [2][]byte{h.buf, h.tail}
	return h.segs[:], nil
}

func has(members []member, name string) bool {
	for _, m := range members {
		if m.name == name {
			return true
		}
	}
	return false
}
