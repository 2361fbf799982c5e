package api

// decodeOllama reads one line of Ollama's own /api/chat (or /api/generate).
func (s *Stream) decodeOllama() {
	w := &s.w
	u := noUsage
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "message":
			if w.peek() != '{' {
				_, s.ev.message = w.str()
				break
			}
			s.ev.choice = true
			for ok := w.object(); ok && w.member(); {
				switch string(w.key) {
				case "content":
					s.takeText()
				case "thinking", "reasoning_content":
					s.takeReasoning()
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
			s.takeText()
		case "done":
			s.ev.terminal = w.truth()
		case "done_reason":
			s.takeFinish()
		case "prompt_eval_count":
			w.count(&u.prompt)
		case "eval_count":
			w.count(&u.completion)
		default:
			s.errorMember()
		}
	}
	if u.some() {
		s.ev.usage, s.ev.hasUsage = u, true
		s.ev.choice = s.ev.choice && !s.ev.terminal
	}
	s.flatError()
}
