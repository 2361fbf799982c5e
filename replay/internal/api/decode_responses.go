package api

import (
	"bytes"
)

// decodeResponses reads one event, or a whole response, of OpenAI's Responses. The event's type is in its
// JSON; name is the event's name, for servers that leave it out there.
func (s *Stream) decodeResponses(name []byte) {
	w := &s.w
	var kind, delta []byte
	response, item, output := 0, 0, int64(0)
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "type":
			kind, s.ev.kind = w.str()
		case "delta":
			delta, _ = w.str()
		case "output_index":
			w.count(&output)
		case "response":
			response = w.place()
		case "item":
			item = w.place()
		case "error", "error_type", "message", "code", "detail":
			s.errorMember()
		case "object": // of a whole response: read it from its beginning
			if raw, ok := w.str(); ok && string(raw) == "response" {
				response = -1
			} else if string(raw) == "error" {
				s.ev.isError = true
			}
		default:
			w.skip()
		}
	}
	if w.bad {
		return
	}
	end := w.i
	if response < 0 {
		w.start(w.b)
		s.ev.isError, s.ev.errText = false, nil // response.error is read with its status
		s.decodeResponse(true)
		w.i = end
		return
	}
	if len(kind) == 0 {
		kind = name
	}
	switch k := string(kind); {
	case k == "error":
		s.ev.isError = true
		if s.ev.errText == nil {
			s.ev.errText = w.b
		}
	case k == "response.completed" || k == "response.incomplete" || k == "response.failed" || k == "response.cancelled":
		s.ev.terminal = true
		if response > 0 {
			w.i = response
			s.decodeResponse(true)
		}
	case response > 0: // created, queued, in_progress
		w.i = response
		s.decodeResponse(false)
	case k == "response.output_item.added" && item > 0:
		w.i = item
		s.decodeItem(output, false)
	case k == "response.output_item.done" && item > 0:
		// Repeats what the deltas brought; only what they did not bring is taken.
		w.i = item
		s.decodeItem(output, true)
	case len(delta) > 0 && bytes.HasSuffix(kind, []byte(".delta")):
		switch {
		case bytes.Contains(kind, []byte("reasoning")):
			s.addReasoning(delta)
		case bytes.Contains(kind, []byte("refusal")):
			s.ev.answer = true
			s.keep(&s.refusal, delta)
		case bytes.Contains(kind, []byte("output_text")):
			s.addText(delta)
		case bytes.Contains(kind, []byte("function_call")) || bytes.Contains(kind, []byte("tool_call")):
			s.ev.answer = true
			c := s.callAt(output, nil)
			s.keep(&c.args, delta)
		default:
			s.ev.answer = true
		}
	}
	w.i = end
	s.ev.message = s.ev.message && len(kind) == 0
	s.flatError()
}

// decodeResponse reads a response object. final says that the response is over: then its status is the
// finish reason, unless it tells why it is incomplete, and its output is taken where no deltas came.
func (s *Stream) decodeResponse(final bool) {
	w := &s.w
	var status, reason, errText []byte
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "id":
			s.takeID()
		case "status":
			status, _ = w.str()
		case "incomplete_details":
			for ok := w.object(); ok && w.member(); {
				if string(w.key) == "reason" {
					reason, _ = w.str()
				} else {
					w.skip()
				}
			}
		case "error":
			errText = w.skip()
		case "usage":
			s.takeUsage(false)
		case "output":
			if !final || s.textSeen || s.reasonsSeen {
				w.skip()
				break
			}
			at := int64(0)
			for ok := w.array(); ok && w.element(); {
				s.decodeItem(at, true)
				at++
			}
		default:
			w.skip()
		}
	}
	if !final || w.bad {
		return
	}
	switch string(status) {
	case "failed", "cancelled":
		s.ev.isError, s.ev.errText = true, errText
		return
	case "queued", "in_progress":
		return
	}
	if len(reason) == 0 {
		reason = status
	}
	s.ev.terminal = true
	if len(reason) > 0 {
		s.finish = bounded(appendUnescaped(s.finish[:0], reason))
	}
}

// decodeItem reads an output item: a message, a reasoning or a function call. done says that it is whole:
// its text is taken then, if no delta brought any of its kind.
func (s *Stream) decodeItem(output int64, done bool) {
	w := &s.w
	var kind, id, name, args []byte
	content, summary := 0, 0
	for ok := w.object(); ok && w.member(); {
		switch string(w.key) {
		case "type":
			kind, _ = w.str()
		case "call_id":
			id, _ = w.str()
		case "name":
			name, _ = w.str()
		case "arguments":
			args, _ = w.str()
		case "content":
			content = w.place()
		case "summary":
			summary = w.place()
		default:
			w.skip()
		}
	}
	if w.bad {
		return
	}
	end := w.i
	switch string(kind) {
	case "function_call":
		c := s.callAt(output, id)
		if len(c.name) == 0 {
			s.keep(&c.name, name)
		}
		if done && len(c.args) == 0 && len(args) > 0 && !s.textSeen {
			s.ev.answer = true
			s.keep(&c.args, args)
		}
	case "message":
		if done && content > 0 && !s.textSeen {
			w.i = content
			s.decodeContent(false)
		}
	case "reasoning":
		if done && !s.reasonsSeen {
			if content > 0 {
				w.i = content
				s.decodeContent(true)
			}
			if summary > 0 && !s.ev.reasoning {
				w.i = summary
				s.decodeContent(true)
			}
		}
	}
	w.i = end
}

// decodeContent reads a list of content parts of an output item.
func (s *Stream) decodeContent(reasoning bool) {
	w := &s.w
	for ok := w.array(); ok && w.element(); {
		for ok := w.object(); ok && w.member(); {
			switch string(w.key) {
			case "text":
				raw, _ := w.str()
				if reasoning {
					s.addReasoning(raw)
				} else {
					s.addText(raw)
				}
			case "refusal":
				s.takeRefusal()
			default:
				w.skip()
			}
		}
	}
}
