package simserver

// responsesEncoder writes OpenAI Responses
// (https://platform.openai.com/docs/api-reference/responses-streaming).
type responsesEncoder struct {
	kind   part
	text   []byte // of the item that is open
	output []raw  // finished items
}

func (e *responsesEncoder) contentType() string { return streamType }

// event writes an event of the given type with the members of its object.
func (e *responsesEncoder) event(b []byte, a *answer, name string, pairs ...any) []byte {
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	b = members(members(append(b, '{'), "type", name, "sequence_number", a.events), pairs...)
	a.events++
	return append(b, "}\n\n"...)
}

func (e *responsesEncoder) response(b []byte, a *answer, status string) []byte {
	b = members(append(b, '{'), "id", a.id, "object", "response", "created_at", a.created.Unix(), "status", status, "model", a.model)
	switch status {
	case "failed":
		b = members(b, "error", inner("code", "server_error", "message", lateMessage))
		fallthrough
	case "in_progress":
		return append(members(b, "output", list(), "usage", nil), '}')
	case "incomplete":
		b = members(b, "incomplete_details", inner("reason", "max_output_tokens"))
	}
	return append(members(b, "output", list(e.output...), "usage", inner(
		"input_tokens", a.prompt, "input_tokens_details", inner("cached_tokens", a.cached),
		"output_tokens", a.done, "output_tokens_details", inner("reasoning_tokens", a.doneReasoning()), "total_tokens", a.prompt+a.done)), '}')
}

func (e *responsesEncoder) opening(b []byte, a *answer) []byte {
	for _, name := range []string{"response.created", "response.in_progress"} {
		b = e.event(b, a, name, "response", raw(e.response(nil, a, "in_progress")))
	}
	return b
}

// placed writes an event about the item that is open, and one more member.
func (e *responsesEncoder) placed(b []byte, a *answer, event, name string, value any) []byte {
	if e.kind == partTool {
		return e.event(b, a, event, "item_id", itemID(e.kind, a), "output_index", a.blocks-1, name, value)
	}
	return e.event(b, a, event, "item_id", itemID(e.kind, a), "output_index", a.blocks-1, "content_index", 0, name, value)
}

func itemID(p part, a *answer) string {
	return [...]string{"msg_", "rs_", "msg_", "fc_"}[p] + a.tag
}

// item gives an output item; one that has only begun has no content.
func (e *responsesEncoder) item(a *answer, status, text string) raw {
	content := list()
	m := members([]byte{'{'}, "id", itemID(e.kind, a), "status", status)
	switch e.kind {
	case partReasoning:
		if status == "completed" {
			content = list(inner("type", "reasoning_text", "text", text))
		}
		m = members(m, "type", "reasoning", "summary", list(), "content", content)
	case partTool:
		m = members(m, "type", "function_call", "call_id", "call_"+a.tag, "name", a.toolName, "arguments", text)
	default:
		if status == "completed" {
			content = list(e.contentPart(text))
		}
		m = members(m, "type", "message", "role", "assistant", "content", content)
	}
	return raw(append(m, '}'))
}

func (e *responsesEncoder) contentPart(text string) raw {
	if e.kind == partRefusal {
		return inner("type", "refusal", "refusal", text)
	}
	return inner("type", "output_text", "annotations", list(), "text", text)
}

// stem is the name of the deltas of what is open.
func (e *responsesEncoder) stem() (name, member string) {
	switch e.kind {
	case partReasoning:
		return "response.reasoning_text", "text"
	case partRefusal:
		return "response.refusal", "refusal"
	case partTool:
		return "response.function_call_arguments", "arguments"
	}
	return "response.output_text", "text"
}

func (e *responsesEncoder) closeItem(b []byte, a *answer) []byte {
	if a.blocks == 0 {
		return b
	}
	name, member := e.stem()
	text := string(e.text)
	b = e.placed(b, a, name+".done", member, text)
	if e.kind == partText || e.kind == partRefusal {
		b = e.placed(b, a, "response.content_part.done", "part", e.contentPart(text))
	}
	item := e.item(a, "completed", text)
	e.output = append(e.output, item)
	e.text = e.text[:0]
	return e.event(b, a, "response.output_item.done", "output_index", a.blocks-1, "item", item)
}

func (e *responsesEncoder) delta(b []byte, a *answer, p part, text string, _ bool) []byte {
	if a.blocks == 0 || e.kind != p {
		b = e.closeItem(b, a)
		a.blocks++
		e.kind = p
		b = e.event(b, a, "response.output_item.added", "output_index", a.blocks-1, "item", e.item(a, "in_progress", ""))
		if p == partText || p == partRefusal {
			b = e.placed(b, a, "response.content_part.added", "part", e.contentPart(""))
		}
	}
	e.text = append(e.text, text...)
	name, _ := e.stem()
	return e.placed(b, a, name+".delta", "delta", text)
}

func (e *responsesEncoder) ending(b []byte, a *answer) []byte {
	b = e.closeItem(b, a)
	if a.noDone {
		return b
	}
	status := "completed"
	if a.finish == "length" && !a.d.continuous { // vLLM says completed all the same
		status = "incomplete"
	}
	return e.event(b, a, "response."+status, "response", raw(e.response(nil, a, status)))
}

func (e *responsesEncoder) failure(b []byte, a *answer) ([]byte, bool) {
	return e.event(b, a, "response.failed", "response", raw(e.response(nil, a, "failed"))), false
}

func (e *responsesEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	if reasoning != "" {
		e.kind = partReasoning
		e.output = append(e.output, e.item(a, "completed", reasoning))
	}
	if a.done > a.reasoning {
		e.kind = a.partAt(a.reasoning)
		e.output = append(e.output, e.item(a, "completed", text))
	}
	status := "completed"
	if a.finish == "length" {
		status = "incomplete"
	}
	return e.response(b, a, status)
}
