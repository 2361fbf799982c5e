package api

// decodeChat reads one event, or a whole response, of OpenAI's chat completions and completions, with
// the differences of the servers that speak them.
func (s *Stream) decodeChat() {
	w := &s.w
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "id":
			s.takeID()
		case "choices":
			for ok := w.array(); ok && w.element(); {
				s.ev.choice = true
				s.decodeChoice()
			}
		case "usage":
			s.takeUsage(false)
		case "timings":
			s.takeTimings()
		default:
			s.errorMember()
		}
	}
	s.flatError()
}

// decodeChoice reads one element of choices.
func (s *Stream) decodeChoice() {
	w := &s.w
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "delta", "message":
			s.decodeDelta()
		case "text":
			s.takeText()
		case "finish_reason":
			s.takeFinish()
		case "usage": // Moonshot's place for it
			s.takeUsage(false)
		default:
			w.skip()
		}
	}
}

// decodeDelta reads a delta, or the message of a whole response.
func (s *Stream) decodeDelta() {
	w := &s.w
	var reasoning []byte
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "content":
			if w.peek() == '[' {
				s.decodeParts()
			} else {
				s.takeText()
			}
		case "reasoning", "reasoning_content":
			// Servers between the two names send both, with the same text.
			if raw, ok := w.str(); ok && len(raw) > 0 {
				reasoning = raw
			}
		case "refusal":
			s.takeRefusal()
		case "tool_calls":
			at := int64(0)
			for ok := w.array(); ok && w.element(); {
				s.decodeCall(at)
				at++
			}
		case "function_call":
			if w.peek() == '{' {
				s.decodeFunction(s.callAt(0, nil))
			} else {
				w.skip()
			}
		default:
			w.skip()
		}
	}
	if len(reasoning) > 0 {
		s.addReasoning(reasoning)
	}
}

// decodeParts reads content that is a list of parts (Mistral).
func (s *Stream) decodeParts() {
	w := &s.w
	for ok := w.array(); ok && w.element(); {
		for ok := w.object(); ok && w.member(); {
			switch string(w.key) {
			case "text":
				s.takeText()
			case "thinking":
				if w.peek() != '[' {
					s.takeReasoning()
					break
				}
				for ok := w.array(); ok && w.element(); {
					for ok := w.object(); ok && w.member(); {
						if string(w.key) != "text" {
							w.skip()
						} else {
							s.takeReasoning()
						}
					}
				}
			default:
				w.skip()
			}
		}
	}
}

// decodeCall reads one element of tool_calls; at is its place in the list, for servers that send no
// index.
func (s *Stream) decodeCall(at int64) {
	w := &s.w
	index, id, function := at, []byte(nil), 0
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "index":
			w.count(&index)
		case "id":
			if raw, ok := w.str(); ok {
				id = raw
			}
		case "function":
			function = w.place()
		default:
			w.skip()
		}
	}
	if len(id) > 0 {
		s.ev.answer = true
	}
	c := s.callAt(index, id)
	if function == 0 || w.bad {
		return
	}
	end := w.i
	w.i = function
	s.decodeFunction(c)
	w.i = end
}

// decodeFunction reads the name and the arguments of a call (or a piece of them).
func (s *Stream) decodeFunction(c *call) {
	w := &s.w
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "name":
			if raw, ok := w.str(); ok && len(raw) > 0 {
				s.ev.answer = true
				if len(c.name) == 0 {
					s.keep(&c.name, raw)
				}
			}
		case "arguments":
			if w.peek() == '{' { // Ollama
				s.ev.answer = true
				if raw := w.skip(); !s.DiscardText {
					c.args = append(c.args, raw...)
				}
			} else if raw, ok := w.str(); ok && len(raw) > 0 {
				s.ev.answer = true
				s.keep(&c.args, raw)
			}
		default:
			w.skip()
		}
	}
}

// callAt gives the call with an index. A new id under an index that has one begins a new call: some
// servers give every call the index 0.
func (s *Stream) callAt(index int64, id []byte) *call {
	for i := len(s.calls) - 1; i >= 0; i-- {
		c := &s.calls[i]
		if c.index != index {
			continue
		}
		if len(id) == 0 || s.DiscardText {
			return c
		}
		s.scratch = appendUnescaped(s.scratch[:0], id)
		if len(c.id) == 0 {
			c.id = append(c.id, s.scratch...)
			return c
		}
		if string(c.id) == string(s.scratch) {
			return c
		}
		break
	}
	if len(s.calls) == maxCalls { // nobody means this: the rest goes into the last one
		return &s.calls[maxCalls-1]
	}
	if n := len(s.calls); n < cap(s.calls) {
		s.calls = s.calls[:n+1]
		c := &s.calls[n]
		c.index, c.id, c.name, c.args = index, c.id[:0], c.name[:0], c.args[:0]
	} else {
		s.calls = append(s.calls, call{index: index})
	}
	c := &s.calls[len(s.calls)-1]
	s.keep(&c.id, id)
	return c
}

// addText books a piece of the answer, given as the raw bytes of a JSON string.
func (s *Stream) addText(raw []byte) {
	if len(raw) > 0 {
		s.ev.answer = true
		s.keep(&s.text, raw)
	}
}

func (s *Stream) addReasoning(raw []byte) {
	if len(raw) > 0 {
		s.ev.reasoning = true
		s.keep(&s.reasoning, raw)
	}
}

// takeText takes a member that is a piece of the answer.
func (s *Stream) takeText() {
	raw, _ := s.w.str()
	s.addText(raw)
}

// takeReasoning takes one that is a piece of the reasoning.
func (s *Stream) takeReasoning() {
	raw, _ := s.w.str()
	s.addReasoning(raw)
}

// takeRefusal takes one that is a piece of a refusal.
func (s *Stream) takeRefusal() {
	if raw, _ := s.w.str(); len(raw) > 0 {
		s.ev.answer = true
		s.keep(&s.refusal, raw)
	}
}

// keep appends the value of a raw JSON string, unless no text is wanted.
func (s *Stream) keep(to *[]byte, raw []byte) {
	if !s.DiscardText {
		*to = appendUnescaped(*to, raw)
	}
}

func (s *Stream) takeID() {
	if raw, ok := s.w.str(); ok && len(s.id) == 0 {
		s.id = bounded(appendUnescaped(s.id, raw))
	}
}

// takeFinish takes a finish reason; null and "" are none.
func (s *Stream) takeFinish() {
	if raw, ok := s.w.str(); ok && len(raw) > 0 {
		s.finish = bounded(appendUnescaped(s.finish[:0], raw))
	}
}

// bounded cuts what ought to be a short name.
func bounded(b []byte) []byte { return b[:min(len(b), maxMessage)] }

func (s *Stream) takeUsage(disjoint bool) {
	if u, ok := s.w.readUsage(disjoint); ok {
		if !s.ev.hasUsage {
			s.ev.usage, s.ev.hasUsage = noUsage, true
		}
		s.ev.usage.merge(&u)
	}
}

// takeTimings reads llama.cpp's timings: prompt_n counts only what was newly evaluated.
func (s *Stream) takeTimings() {
	w := &s.w
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "cache_n":
			w.count(&s.timings.hit)
		case "prompt_n":
			w.count(&s.timings.miss)
		case "predicted_n":
			w.count(&s.timings.completion)
		default:
			w.skip()
		}
	}
}
