package simserver

import "strconv"

// completionsEncoder writes OpenAI completions.
type completionsEncoder struct {
	pre []byte
}

func (e *completionsEncoder) contentType() string { return streamType }

func (e *completionsEncoder) chunk(b []byte, a *answer, text, finish string) []byte {
	b = append(append(b, "data: "...), e.pre...)
	b = append(b, `"choices":[{"index":0,"text":"`...)
	b = append(b, text...)
	if finish == "" {
		b = append(b, `","logprobs":null,"finish_reason":null}]`...)
	} else {
		b = append(b, `","logprobs":null,"finish_reason":"`+finish+`"}]`...)
	}
	switch {
	case a.d.usageZeros:
		b = append(b, `,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`...)
	case a.continuousUsage:
		b = appendUsage(append(b, ','), a)
	case a.d.usageNull && a.includeUsage:
		b = append(b, `,"usage":null`...)
	}
	return append(b, "}\n\n"...)
}

func (e *completionsEncoder) opening(b []byte, _ *answer) []byte { return b }

func (e *completionsEncoder) delta(b []byte, a *answer, _ part, text string, last bool) []byte {
	finish := ""
	if last && a.d.finishOnLast {
		finish = a.finish
	}
	return e.chunk(b, a, text, finish)
}

func (e *completionsEncoder) ending(b []byte, a *answer) []byte {
	if !a.d.finishOnLast || a.tokens == 0 {
		b = e.chunk(b, a, "", a.finish)
	}
	if a.includeUsage {
		b = append(append(b, "data: "...), e.pre...)
		b = appendUsage(append(b, `"choices":[],`...), a)
		if a.d.timings {
			b = appendTimings(append(b, ','), a)
		}
		b = append(b, "}\n\n"...)
	}
	return e.mark(b, a)
}

func (e *completionsEncoder) mark(b []byte, a *answer) []byte {
	if a.noDone {
		return b
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (e *completionsEncoder) failure(b []byte, a *answer) ([]byte, bool) {
	switch a.d.late {
	case lateBreak:
		return b, true
	case lateAbort:
		return e.mark(e.chunk(b, a, "", "abort"), a), false
	case lateEmpty:
		return e.chunk(b, a, "", ""), false
	}
	b = appendError(append(b, "data: "...), a.d.errors, 500, lateMessage, "")
	return e.mark(append(b, "\n\n"...), a), false
}

func (e *completionsEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	b = append(b, `{"id":"`+a.id+`","object":"text_completion","created":`...)
	b = strconv.AppendInt(b, a.created.Unix(), 10)
	b = appendJSONString(append(b, `,"model":`...), a.model)
	b = appendJSONString(append(b, `,"choices":[{"index":0,"text":`...), reasoning+text)
	b = append(b, `,"logprobs":null,"finish_reason":"`+a.finish+`"}],`...)
	return append(appendUsage(b, a), '}')
}
