package simserver

import "strconv"

// messagesEncoder writes Anthropic Messages
// (https://docs.anthropic.com/en/docs/build-with-claude/streaming).
type messagesEncoder struct {
	kind part
}

func (e *messagesEncoder) contentType() string { return streamType }

// appendClaudeUsage appends the input's counts: input_tokens is without what came from the cache or goes
// into it, which is all whole blocks.
func appendClaudeUsage(b []byte, a *answer, output int) []byte {
	created := 0
	if a.cfg.CacheBlocks > 0 && a.cfg.BlockSize > 0 {
		created = a.prompt/a.cfg.BlockSize*a.cfg.BlockSize - a.cached
	}
	b = append(b, `"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, int64(a.prompt-a.cached-created), 10)
	b = append(b, `,"cache_creation_input_tokens":`...)
	b = strconv.AppendInt(b, int64(created), 10)
	b = append(b, `,"cache_read_input_tokens":`...)
	b = strconv.AppendInt(b, int64(a.cached), 10)
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, int64(output), 10)
	return append(b, '}')
}

func (a *answer) stopReason() string {
	switch a.finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return "end_turn"
}

func (e *messagesEncoder) opening(b []byte, a *answer) []byte {
	b = append(b, "event: message_start\n"+`data: {"type":"message_start","message":{"id":"`+a.id+`","type":"message","role":"assistant","model":`...)
	b = appendJSONString(b, a.model)
	b = append(b, `,"content":[],"stop_reason":null,"stop_sequence":null,`...)
	b = appendClaudeUsage(b, a, 1)
	b = append(b, "}}\n\n"...)
	return append(b, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

func (e *messagesEncoder) index(b []byte, a *answer) []byte {
	return strconv.AppendInt(append(b, `"index":`...), int64(a.blocks-1), 10)
}

func (e *messagesEncoder) closeBlock(b []byte, a *answer) []byte {
	if a.blocks == 0 {
		return b
	}
	b = e.index(append(b, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\","...), a)
	return append(b, "}\n\n"...)
}

func (e *messagesEncoder) delta(b []byte, a *answer, p part, text string, _ bool) []byte {
	if a.blocks == 0 || e.kind != p {
		b = e.closeBlock(b, a)
		a.blocks++
		e.kind = p
		b = e.index(append(b, "event: content_block_start\ndata: {\"type\":\"content_block_start\","...), a)
		switch p {
		case partReasoning:
			b = append(b, `,"content_block":{"type":"thinking","thinking":"","signature":""}}`...)
		case partTool:
			b = append(b, `,"content_block":{"type":"tool_use","id":"toolu_`+a.tag+`","name":"`+a.toolName+`","input":{}}}`...)
		default:
			b = append(b, `,"content_block":{"type":"text","text":""}}`...)
		}
		b = append(b, "\n\n"...)
	}
	b = e.index(append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\","...), a)
	switch p {
	case partReasoning:
		b = append(b, `,"delta":{"type":"thinking_delta","thinking":`...)
	case partTool:
		b = append(b, `,"delta":{"type":"input_json_delta","partial_json":`...)
	default:
		b = append(b, `,"delta":{"type":"text_delta","text":`...)
	}
	return append(appendJSONString(b, text), "}}\n\n"...)
}

func (e *messagesEncoder) ending(b []byte, a *answer) []byte {
	b = e.closeBlock(b, a)
	b = append(b, "event: message_delta\n"+`data: {"type":"message_delta","delta":{"stop_reason":"`+a.stopReason()+`","stop_sequence":null},"usage":{"output_tokens":`...)
	b = strconv.AppendInt(b, int64(a.done), 10)
	b = append(b, "}}\n\n"...)
	if a.noDone {
		return b
	}
	return append(b, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

func (e *messagesEncoder) failure(b []byte, _ *answer) ([]byte, bool) {
	b = appendError(append(b, "event: error\ndata: "...), errClaude, 529, lateMessage, "")
	return append(b, "\n\n"...), false
}

func (e *messagesEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	b = append(b, `{"id":"`+a.id+`","type":"message","role":"assistant","model":`...)
	b = append(appendJSONString(b, a.model), `,"content":[`...)
	if reasoning != "" {
		b = appendJSONString(append(b, `{"type":"thinking","signature":"","thinking":`...), reasoning)
		b = append(b, `},`...)
	}
	if a.tool {
		b = append(b, `{"type":"tool_use","id":"toolu_`+a.tag+`","name":"`+a.toolName+`","input":`+text+`}`...)
	} else {
		b = append(appendJSONString(append(b, `{"type":"text","text":`...), text), '}')
	}
	b = append(b, `],"stop_reason":"`+a.stopReason()+`","stop_sequence":null,`...)
	return append(appendClaudeUsage(b, a, a.done), '}')
}
