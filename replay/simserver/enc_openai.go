package simserver

// openAIEncoder writes OpenAI chat completions, and completions, with the habits of a.d.
type openAIEncoder struct {
	pre  []byte // the start of each event's object, up to its choices
	text bool   // completions: plain text in place of deltas
}

func newOpenAIEncoder(a *answer, text bool) *openAIEncoder {
	kind := "chat.completion.chunk"
	if text {
		kind = "text_completion"
	}
	return &openAIEncoder{append(members([]byte{'{'}, "id", a.id, "object", kind, "created", a.created.Unix(), "model", a.model), ','), text}
}

func (e *openAIEncoder) contentType() string { return streamType }

// start starts an event.
func (e *openAIEncoder) start(b []byte, a *answer) []byte {
	b = append(b, "data:"...)
	if e.text || !(a.d.tightAll || a.d.tightFirst && !a.begun) {
		b = append(b, ' ')
	}
	a.begun = true
	return append(b, e.pre...)
}

// choice writes an event with one choice; delta is, in pieces, the inside of its delta or of its text.
func (e *openAIEncoder) choice(b []byte, a *answer, finish string, usage bool, delta ...string) []byte {
	b = e.start(b, a)
	open, end := `"choices":[{"index":0,"delta":{`, `},"logprobs":null,"finish_reason":`
	if e.text {
		open, end = `"choices":[{"index":0,"text":"`, `","logprobs":null,"finish_reason":`
	}
	b = append(b, open...)
	for _, s := range delta {
		b = append(b, s...)
	}
	if b = append(b, end...); finish == "" {
		b = append(b, "null}]"...)
	} else {
		b = append(append(append(b, '"'), finish...), `"}]`...)
	}
	switch {
	case e.text && a.d.usageZeros:
		b = append(b, `,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`...)
	case usage || a.continuousUsage:
		b = appendUsage(b, a)
	case a.d.usageNull && a.includeUsage:
		b = append(b, `,"usage":null`...)
	}
	if a.d.obfuscation && !e.text {
		const pad = "x7Qm2kVd9Rt4Lz0W"
		b = members(b, "obfuscation", pad[:mix(a.rnd^uint64(a.done))%uint64(len(pad))])
	}
	return append(b, "}\n\n"...)
}

func (e *openAIEncoder) opening(b []byte, a *answer) []byte {
	if e.text {
		return b
	}
	if a.d.filterFirst {
		b = append(e.start(b, a), `"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}`+"\n\n"...)
	}
	if a.progress {
		for i := range 4 {
			b = append(e.start(b, a), `"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]`...)
			b = members(b, "prompt_progress", inner("total", a.prompt, "cache", a.cached, "processed", a.cached+(a.prompt-a.cached)*(i+1)/4, "time_ms", 1))
			b = append(b, "}\n\n"...)
		}
	}
	if a.d.role != "" {
		b = e.choice(b, a, "", false, a.d.role)
	}
	return b
}

func (e *openAIEncoder) delta(b []byte, a *answer, p part, text string, last bool) []byte {
	finish, role := "", ""
	if last && a.d.finishOnLast {
		finish = a.finish
	}
	if a.d.roleOnEvery {
		role = `"role":"assistant",`
	}
	usage := finish != "" && a.d.usageOnFinish
	switch {
	case e.text:
		return e.choice(b, a, finish, usage, text)
	case p == partReasoning && a.d.reasoningParts:
		return e.choice(b, a, finish, usage, role, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"`, text, `"}]}]`)
	case p == partReasoning:
		return e.choice(b, a, finish, usage, role, `"`, a.d.reasoning, `":"`, text, `"`)
	case p == partRefusal:
		return e.choice(b, a, finish, usage, role, `"refusal":"`, text, `"`)
	case p == partTool:
		id, name := "", ""
		if a.blocks == 0 {
			a.blocks = 1
			id, name = `"id":"call_`+a.tag+`","type":"function",`, `"name":"`+a.toolName+`",`
		}
		return e.choice(b, a, finish, usage, role, `"tool_calls":[{"index":0,`, id, `"function":{`, name, `"arguments":`, string(appendJSONString(nil, text)), `}}]`)
	}
	return e.choice(b, a, finish, usage, role, `"content":"`, text, `"`)
}

func (e *openAIEncoder) ending(b []byte, a *answer) []byte {
	if !a.d.finishOnLast || a.tokens == 0 {
		b = e.choice(b, a, a.finish, a.d.usageOnFinish)
	}
	if a.d.extension != "" && !e.text {
		b = append(e.start(b, a), a.d.extension+"}\n\n"...)
	}
	if a.includeUsage && !a.d.usageOnFinish {
		b = appendTimings(appendUsage(append(e.start(b, a), `"choices":[]`...), a), a)
		b = append(b, "}\n\n"...)
	}
	return e.mark(b, a)
}

// mark appends the end mark.
func (e *openAIEncoder) mark(b []byte, a *answer) []byte {
	switch {
	case a.noDone:
		return b
	case a.d.tightAll && !e.text:
		return append(b, "data:[DONE]\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (e *openAIEncoder) failure(b []byte, a *answer) ([]byte, bool) {
	style, name, done := a.d.errors, "", e.text
	switch late := a.d.late; {
	case late == lateAbort:
		return e.mark(e.choice(b, a, "abort", false), a), false
	case late == lateBreak:
		return b, true
	case late == lateEmpty && e.text:
		return e.choice(b, a, "", false), false
	case late == lateEmpty:
		return e.choice(b, a, "", false, emptyRole), false
	case e.text: // the same for all
	case late == lateTGI:
		b = object(append(b, "data:"...), "error", inner("message", lateMessage, "http_status_code", 422))
		return append(b, "\n\n"...), false
	case late == lateErrorDone:
		style, done = errNumber, true
	case late == lateEvent:
		name = "event: error\n"
	}
	b = append(appendError(append(b, name+"data: "...), style, 500, lateMessage, ""), "\n\n"...)
	if done {
		b = e.mark(b, a)
	}
	return b, false
}

func (e *openAIEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	kind, choice := "text_completion", []byte(`{"index":0`)
	if e.text {
		choice = members(choice, "text", reasoning+text)
	} else {
		kind, choice = "chat.completion", members(choice, "message", message(a, reasoning, text))
	}
	choice = append(members(choice, "logprobs", nil, "finish_reason", a.finish), '}')
	b = members(append(b, '{'), "id", a.id, "object", kind, "created", a.created.Unix(), "model", a.model, "choices", list(raw(choice)))
	return append(appendTimings(appendUsage(b, a), a), '}')
}

// message is the whole message of an answer without streaming.
func message(a *answer, reasoning, text string) raw {
	m := []byte(`{"role":"assistant"`)
	switch {
	case a.tool:
		m = members(m, "content", nil, "tool_calls", list(inner("id", "call_"+a.tag, "type", "function", "function", inner("name", a.toolName, "arguments", text))))
	case a.refusal:
		m = members(m, "content", nil, "refusal", text)
	case a.d.reasoningParts && reasoning != "":
		m = members(m, "content", list(inner("type", "thinking", "thinking", list(inner("type", "text", "text", reasoning))), inner("type", "text", "text", text)))
	default:
		m = members(m, "content", text)
	}
	if reasoning != "" && !a.d.reasoningParts {
		m = members(m, a.d.reasoning, reasoning)
	}
	return raw(append(m, '}'))
}
