package simserver

import "strconv"

// chatEncoder writes OpenAI chat completions with the habits of a.d.
type chatEncoder struct {
	pre []byte
}

func (e *chatEncoder) contentType() string { return streamType }

// open starts an event up to the choices' delta.
func (e *chatEncoder) open(b []byte, a *answer) []byte {
	b = e.start(b, a)
	return append(b, `"choices":[{"index":0,"delta":{`...)
}

func (e *chatEncoder) start(b []byte, a *answer) []byte {
	b = append(b, "data:"...)
	if !(a.d.tightAll || a.d.tightFirst && !a.begun) {
		b = append(b, ' ')
	}
	a.begun = true
	return append(b, e.pre...)
}

// end closes delta, choice and event.
func (e *chatEncoder) end(b []byte, a *answer, finish string, usage bool) []byte {
	if finish == "" {
		b = append(b, `},"logprobs":null,"finish_reason":null}]`...)
	} else {
		b = append(b, `},"logprobs":null,"finish_reason":"`...)
		b = append(b, finish...)
		b = append(b, `"}]`...)
	}
	switch {
	case usage || a.continuousUsage:
		b = appendUsage(append(b, ','), a)
	case a.d.usageNull && a.includeUsage:
		b = append(b, `,"usage":null`...)
	}
	if a.d.obfuscation {
		const pad = "x7Qm2kVd9Rt4Lz0W"
		n := mix(a.rnd^uint64(a.done)) % uint64(len(pad))
		b = append(b, `,"obfuscation":"`...)
		b = append(b, pad[:n]...)
		b = append(b, '"')
	}
	return append(b, "}\n\n"...)
}

func (e *chatEncoder) opening(b []byte, a *answer) []byte {
	if a.d.filterFirst {
		b = e.start(b, a)
		b = append(b, `"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}`+"\n\n"...)
	}
	if a.progress {
		for i := range 4 {
			b = e.open(b, a)
			b = append(b, `"role":"assistant","content":null},"finish_reason":null}],"prompt_progress":{"total":`...)
			b = strconv.AppendInt(b, int64(a.prompt), 10)
			b = append(b, `,"cache":`...)
			b = strconv.AppendInt(b, int64(a.cached), 10)
			b = append(b, `,"processed":`...)
			b = strconv.AppendInt(b, int64(a.cached+(a.prompt-a.cached)*(i+1)/4), 10)
			b = append(b, `,"time_ms":1}}`+"\n\n"...)
		}
	}
	if a.d.role != "" {
		b = e.open(b, a)
		b = append(b, a.d.role...)
		b = e.end(b, a, "", false)
	}
	return b
}

func (e *chatEncoder) delta(b []byte, a *answer, p part, text string, last bool) []byte {
	b = e.open(b, a)
	if a.d.roleOnEvery {
		b = append(b, `"role":"assistant",`...)
	}
	switch p {
	case partReasoning:
		if a.d.reasoningParts {
			b = append(b, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"`...)
			b = append(b, text...)
			b = append(b, `"}]}]`...)
			break
		}
		b = append(b, '"')
		b = append(b, a.d.reasoning...)
		b = append(b, `":"`...)
		b = append(b, text...)
		b = append(b, '"')
	case partRefusal:
		b = append(b, `"refusal":"`...)
		b = append(b, text...)
		b = append(b, '"')
	case partTool:
		b = append(b, `"tool_calls":[{"index":0,`...)
		if a.blocks == 0 {
			a.blocks = 1
			b = append(b, `"id":"call_`+a.tag+`","type":"function",`...)
			b = append(b, `"function":{"name":"`+a.toolName+`","arguments":`...)
		} else {
			b = append(b, `"function":{"arguments":`...)
		}
		b = append(appendJSONString(b, text), `}}]`...)
	default:
		b = append(b, `"content":"`...)
		b = append(b, text...)
		b = append(b, '"')
	}
	finish := ""
	if last && a.d.finishOnLast {
		finish = a.finish
	}
	return e.end(b, a, finish, finish != "" && a.d.usageOnFinish)
}

func (e *chatEncoder) ending(b []byte, a *answer) []byte {
	if !a.d.finishOnLast || a.tokens == 0 {
		b = e.open(b, a)
		b = e.end(b, a, a.finish, a.d.usageOnFinish)
	}
	if a.d.extension != "" {
		b = e.start(b, a)
		b = append(b, a.d.extension+"}\n\n"...)
	}
	if a.includeUsage && !a.d.usageOnFinish {
		b = e.start(b, a)
		b = appendUsage(append(b, `"choices":[],`...), a)
		if a.d.timings {
			b = appendTimings(append(b, ','), a)
		}
		b = append(b, "}\n\n"...)
	}
	return e.mark(b, a)
}

// mark appends the end mark.
func (e *chatEncoder) mark(b []byte, a *answer) []byte {
	switch {
	case a.noDone:
		return b
	case a.d.tightAll:
		return append(b, "data:[DONE]\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (e *chatEncoder) failure(b []byte, a *answer) ([]byte, bool) {
	switch a.d.late {
	case lateErrorDone:
		b = appendError(append(b, "data: "...), errNumber, 500, lateMessage, "")
		return e.mark(append(b, "\n\n"...), a), false
	case lateError:
		b = appendError(append(b, "data: "...), a.d.errors, 500, lateMessage, "")
		return append(b, "\n\n"...), false
	case lateAbort:
		b = e.open(b, a)
		return e.mark(e.end(b, a, "abort", false), a), false
	case lateBreak:
		return b, true
	case lateEmpty:
		b = e.open(b, a)
		b = append(b, emptyRole...)
		return e.end(b, a, "", false), false
	case lateEvent:
		b = appendError(append(b, "event: error\ndata: "...), a.d.errors, 500, lateMessage, "")
		return append(b, "\n\n"...), false
	}
	b = appendJSONString(append(b, `data:{"error":{"message":`...), lateMessage)
	return append(b, `,"http_status_code":422}}`+"\n\n"...), false
}

func (e *chatEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	b = append(b, `{"id":"`+a.id+`","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, a.created.Unix(), 10)
	b = appendJSONString(append(b, `,"model":`...), a.model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant",`...)
	switch {
	case a.tool:
		b = append(b, `"content":null,"tool_calls":[{"id":"call_`+a.tag+`","type":"function","function":{"name":"`+a.toolName+`","arguments":`...)
		b = append(appendJSONString(b, text), `}}]`...)
	case a.refusal:
		b = appendJSONString(append(b, `"content":null,"refusal":`...), text)
	case a.d.reasoningParts && reasoning != "":
		b = appendJSONString(append(b, `"content":[{"type":"thinking","thinking":[{"type":"text","text":`...), reasoning)
		b = appendJSONString(append(b, `}]},{"type":"text","text":`...), text)
		b = append(b, `}]`...)
	default:
		b = appendJSONString(append(b, `"content":`...), text)
	}
	if reasoning != "" && !a.d.reasoningParts {
		b = appendJSONString(append(b, `,"`+a.d.reasoning+`":`...), reasoning)
	}
	b = append(b, `},"logprobs":null,"finish_reason":"`+a.finish+`"}],`...)
	b = appendUsage(b, a)
	if a.d.timings {
		b = appendTimings(append(b, ','), a)
	}
	return append(b, '}')
}
