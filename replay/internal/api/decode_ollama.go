package api

// decodeOllama reads one line of Ollama's own /api/chat (or /api/generate).
func (s *Stream) decodeOllama() {
	w := &s.w
	var message, kind, code bool
	u := noUsage
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "message":
			if w.peek() != '{' {
				_, message = w.str()
				break
			}
			s.ev.choice = true
			for ok := w.object(); ok && w.member(); {
				switch string(w.key) {
				case "content":
					if raw, ok := w.str(); ok {
						s.addText(raw)
					}
				case "thinking", "reasoning_content":
					if raw, ok := w.str(); ok {
						s.addReasoning(raw)
					}
				case "tool_calls":
					// Each line brings whole calls, all without an index.
					for ok := w.array(); ok && w.element(); {
						s.decodeCall(int64(len(s.calls)))
					}
				default:
					w.skip()
				}
			}
		case "response":
			if raw, ok := w.str(); ok {
				s.addText(raw)
			}
		case "done":
			s.ev.terminal = w.truth()
		case "done_reason":
			s.takeFinish()
		case "prompt_eval_count":
			w.count(&u.prompt)
		case "eval_count":
			w.count(&u.completion)
		default:
			s.errorMember(&message, &kind, &code)
		}
	}
	if u.some() {
		s.ev.usage, s.ev.hasUsage = u, true
		s.ev.choice = s.ev.choice && !s.ev.terminal
	}
	s.flatError(message, kind, code)
}
