package simserver

import "strconv"

// responsesEncoder writes OpenAI Responses
// (https://platform.openai.com/docs/api-reference/responses-streaming).
type responsesEncoder struct {
	kind   part
	text   []byte // of the item that is open
	output []byte // finished items
}

func (e *responsesEncoder) contentType() string { return streamType }

// event starts an event of the given type; what follows are members of its object.
func (e *responsesEncoder) event(b []byte, a *answer, name string) []byte {
	b = append(b, "event: "+name+"\ndata: {\"type\":\""+name+"\",\"sequence_number\":"...)
	b = strconv.AppendInt(b, int64(a.events), 10)
	a.events++
	return append(b, ',')
}

func (e *responsesEncoder) response(b []byte, a *answer, status string) []byte {
	b = append(b, `"response":{"id":"`+a.id+`","object":"response","created_at":`...)
	b = strconv.AppendInt(b, a.created.Unix(), 10)
	b = appendJSONString(append(b, `,"status":"`+status+`","model":`...), a.model)
	switch status {
	case "in_progress":
		return append(b, `,"output":[],"usage":null}`...)
	case "failed":
		b = appendJSONString(append(b, `,"error":{"code":"server_error","message":`...), lateMessage)
		return append(b, `},"output":[],"usage":null}`...)
	case "incomplete":
		b = append(b, `,"incomplete_details":{"reason":"max_output_tokens"}`...)
	}
	b = append(append(b, `,"output":[`...), e.output...)
	b = append(b, `],"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, int64(a.prompt), 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(a.cached), 10)
	b = append(b, `},"output_tokens":`...)
	b = strconv.AppendInt(b, int64(a.done), 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(a.doneReasoning()), 10)
	b = append(b, `},"total_tokens":`...)
	b = strconv.AppendInt(b, int64(a.prompt+a.done), 10)
	return append(b, `}}`...)
}

func (e *responsesEncoder) opening(b []byte, a *answer) []byte {
	for _, name := range []string{"response.created", "response.in_progress"} {
		b = e.response(e.event(b, a, name), a, "in_progress")
		b = append(b, "}\n\n"...)
	}
	return b
}

// place appends which item an event is about.
func (e *responsesEncoder) place(b []byte, a *answer) []byte {
	b = append(b, `"item_id":"`...)
	b = append(append(b, itemID(e.kind, a)...), `","output_index":`...)
	b = strconv.AppendInt(b, int64(a.blocks-1), 10)
	if e.kind != partTool {
		b = append(b, `,"content_index":0`...)
	}
	return b
}

func itemID(p part, a *answer) string {
	return [...]string{"msg_", "rs_", "msg_", "fc_"}[p] + a.tag
}

func (e *responsesEncoder) item(b []byte, a *answer, status string, text []byte) []byte {
	b = append(b, `{"id":"`+itemID(e.kind, a)+`","status":"`+status+`",`...)
	switch e.kind {
	case partReasoning:
		b = append(b, `"type":"reasoning","summary":[],"content":[`...)
		if text != nil {
			b = append(appendJSONString(append(b, `{"type":"reasoning_text","text":`...), string(text)), '}')
		}
		return append(b, `]}`...)
	case partTool:
		b = append(b, `"type":"function_call","call_id":"call_`+a.tag+`","name":"`+a.toolName+`","arguments":`...)
		return append(appendJSONString(b, string(text)), '}')
	}
	b = append(b, `"type":"message","role":"assistant","content":[`...)
	if text != nil {
		b = e.contentPart(b, text)
	}
	return append(b, `]}`...)
}

func (e *responsesEncoder) contentPart(b, text []byte) []byte {
	if e.kind == partRefusal {
		return append(appendJSONString(append(b, `{"type":"refusal","refusal":`...), string(text)), '}')
	}
	return append(appendJSONString(append(b, `{"type":"output_text","annotations":[],"text":`...), string(text)), '}')
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
	b = e.place(e.event(b, a, name+".done"), a)
	b = appendJSONString(append(b, `,"`+member+`":`...), string(e.text))
	b = append(b, "}\n\n"...)
	if e.kind == partText || e.kind == partRefusal {
		b = e.place(e.event(b, a, "response.content_part.done"), a)
		b = e.contentPart(append(b, `,"part":`...), e.text)
		b = append(b, "}\n\n"...)
	}
	b = e.event(b, a, "response.output_item.done")
	b = strconv.AppendInt(append(b, `"output_index":`...), int64(a.blocks-1), 10)
	from := len(append(b, `,"item":`...))
	b = e.item(append(b, `,"item":`...), a, "completed", e.text)
	if len(e.output) > 0 {
		e.output = append(e.output, ',')
	}
	e.output = append(e.output, b[from:]...)
	e.text = e.text[:0]
	return append(b, "}\n\n"...)
}

func (e *responsesEncoder) delta(b []byte, a *answer, p part, text string, _ bool) []byte {
	if a.blocks == 0 || e.kind != p {
		b = e.closeItem(b, a)
		a.blocks++
		e.kind = p
		b = e.event(b, a, "response.output_item.added")
		b = strconv.AppendInt(append(b, `"output_index":`...), int64(a.blocks-1), 10)
		b = e.item(append(b, `,"item":`...), a, "in_progress", nil)
		b = append(b, "}\n\n"...)
		if p == partText || p == partRefusal {
			b = e.place(e.event(b, a, "response.content_part.added"), a)
			b = e.contentPart(append(b, `,"part":`...), nil)
			b = append(b, "}\n\n"...)
		}
	}
	e.text = append(e.text, text...)
	name, _ := e.stem()
	b = e.place(e.event(b, a, name+".delta"), a)
	b = appendJSONString(append(b, `,"delta":`...), text)
	return append(b, "}\n\n"...)
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
	b = e.response(e.event(b, a, "response."+status), a, status)
	return append(b, "}\n\n"...)
}

func (e *responsesEncoder) failure(b []byte, a *answer) ([]byte, bool) {
	b = e.response(e.event(b, a, "response.failed"), a, "failed")
	return append(b, "}\n\n"...), false
}

func (e *responsesEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	add := func(p part, text string) {
		e.kind = p
		if len(e.output) > 0 {
			e.output = append(e.output, ',')
		}
		e.output = e.item(e.output, a, "completed", []byte(text))
	}
	if reasoning != "" {
		add(partReasoning, reasoning)
	}
	if a.done > a.reasoning {
		add(a.partAt(a.reasoning), text)
	}
	status := "completed"
	if a.finish == "length" {
		status = "incomplete"
	}
	const wrap = `"response":`
	return append(b, e.response(nil, a, status)[len(wrap):]...)
}
