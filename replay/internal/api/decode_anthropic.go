package api

// decodeAnthropic reads one event, or a whole response, of Anthropic's Messages. The names of the members
// say what they are wherever they stand, so the event's type is needed only to know the end.
func (s *Stream) decodeAnthropic() {
	w := &s.w
	index := int64(-1)
	block, delta := 0, 0 // where these members begin
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "type":
			if w.peek() == '"' {
				raw := w.rawString()
				s.ev.kind = true
				s.ev.isError = s.ev.isError || string(raw) == "error"
				s.ev.terminal = s.ev.terminal || string(raw) == "message_stop"
			} else {
				w.skip()
			}
		case "id":
			s.takeID()
		case "index":
			w.count(&index)
		case "message": // of message_start; a string in a flat error
			if w.peek() == '{' {
				s.decodeAnthropicMessage()
			} else {
				_, s.ev.message = w.str()
			}
		case "content": // of a whole response
			for ok := w.array(); ok && w.element(); {
				index++
				s.decodeBlock(index)
			}
		case "stop_reason":
			s.takeFinish()
		case "usage":
			s.takeUsage(true)
		case "content_block":
			block = w.place()
		case "delta":
			delta = w.place()
		default:
			s.errorMember()
		}
	}
	if w.bad {
		return
	}
	if s.ev.isError {
		return
	}
	end := w.i
	if block > 0 {
		w.i = block
		s.decodeBlock(max(index, 0))
	}
	if delta > 0 {
		w.i = delta
		s.decodeBlock(max(index, 0))
	}
	w.i = end
	s.flatError()
}

// decodeAnthropicMessage reads the message of message_start. Its output_tokens is a beginning, not a
// count of anything that has arrived.
func (s *Stream) decodeAnthropicMessage() {
	w := &s.w
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "id":
			s.takeID()
		case "usage":
			s.takeUsage(true)
			s.ev.usage.completion = -1
		default:
			w.skip()
		}
	}
}

// decodeBlock reads a content block or a delta of one.
func (s *Stream) decodeBlock(index int64) {
	w := &s.w
	var id, name, input, partial []byte
	tool := false
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "type":
			raw, _ := w.str()
			tool = string(raw) == "tool_use" || string(raw) == "server_tool_use"
		case "text":
			s.takeText()
		case "thinking":
			s.takeReasoning()
		case "signature":
			if raw, ok := w.str(); ok {
				s.keep(&s.signature, raw)
			}
		case "partial_json":
			partial, _ = w.str()
		case "id":
			id, _ = w.str()
		case "name":
			name, _ = w.str()
		case "input":
			input = w.skip()
		case "stop_reason":
			s.takeFinish()
		default:
			w.skip()
		}
	}
	if w.bad {
		return
	}
	if tool {
		c := s.callAt(index, id)
		if len(c.name) == 0 {
			s.keep(&c.name, name)
		}
		// A stream begins each call with an empty input and sends it in pieces; a whole response, and
		// some servers' streams, have it here.
		if len(input) > 2 && input[0] == '{' && !s.DiscardText {
			c.args = append(c.args, input...)
			s.ev.answer = true
		}
	}
	if len(partial) > 0 {
		s.ev.answer = true
		s.keep(&s.callAt(index, nil).args, partial)
	}
}
