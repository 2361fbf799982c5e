package simserver

// messagesEncoder writes Anthropic Messages
// (https://docs.anthropic.com/en/docs/build-with-claude/streaming).
type messagesEncoder struct {
	kind part
}

func (e *messagesEncoder) contentType() string { return streamType }

// event writes one event.
func (e *messagesEncoder) event(b []byte, kind string, pairs ...any) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: "...)
	return append(append(members(members(append(b, '{'), "type", kind), pairs...), '}'), "\n\n"...)
}

// claudeUsage gives the counts: input_tokens is without what came from the cache or goes into it, which is all whole
// blocks.
func claudeUsage(a *answer, output int) raw {
	created := 0
	if a.cfg.CacheBlocks > 0 && a.cfg.BlockSize > 0 {
		created = a.prompt/a.cfg.BlockSize*a.cfg.BlockSize - a.cached
	}
	return inner("input_tokens", a.prompt-a.cached-created, "cache_creation_input_tokens", created, "cache_read_input_tokens", a.cached, "output_tokens", output)
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
	b = e.event(b, "message_start", "message", inner("id", a.id, "type", "message", "role", "assistant", "model", a.model,
		"content", list(), "stop_reason", nil, "stop_sequence", nil, "usage", claudeUsage(a, 1)))
	return e.event(b, "ping")
}

func (e *messagesEncoder) closeBlock(b []byte, a *answer) []byte {
	if a.blocks == 0 {
		return b
	}
	return e.event(b, "content_block_stop", "index", a.blocks-1)
}

func (e *messagesEncoder) delta(b []byte, a *answer, p part, text string, _ bool) []byte {
	kind, member, block := "text_delta", "text", inner("type", "text", "text", "")
	switch p {
	case partReasoning:
		kind, member, block = "thinking_delta", "thinking", inner("type", "thinking", "thinking", "", "signature", "")
	case partTool:
		kind, member, block = "input_json_delta", "partial_json", inner("type", "tool_use", "id", "toolu_"+a.tag, "name", a.toolName, "input", inner())
	}
	if a.blocks == 0 || e.kind != p {
		b = e.closeBlock(b, a)
		a.blocks++
		e.kind = p
		b = e.event(b, "content_block_start", "index", a.blocks-1, "content_block", block)
	}
	return e.event(b, "content_block_delta", "index", a.blocks-1, "delta", inner("type", kind, member, text))
}

func (e *messagesEncoder) ending(b []byte, a *answer) []byte {
	b = e.closeBlock(b, a)
	b = e.event(b, "message_delta", "delta", inner("stop_reason", a.stopReason(), "stop_sequence", nil), "usage", inner("output_tokens", a.done))
	if a.noDone {
		return b
	}
	return e.event(b, "message_stop")
}

func (e *messagesEncoder) failure(b []byte, _ *answer) ([]byte, bool) {
	b = appendError(append(b, "event: error\ndata: "...), errClaude, 529, lateMessage, "")
	return append(b, "\n\n"...), false
}

func (e *messagesEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	var content []raw
	if reasoning != "" {
		content = append(content, inner("type", "thinking", "signature", "", "thinking", reasoning))
	}
	if a.tool {
		content = append(content, inner("type", "tool_use", "id", "toolu_"+a.tag, "name", a.toolName, "input", raw(text)))
	} else {
		content = append(content, inner("type", "text", "text", text))
	}
	return object(b, "id", a.id, "type", "message", "role", "assistant", "model", a.model, "content", list(content...),
		"stop_reason", a.stopReason(), "stop_sequence", nil, "usage", claudeUsage(a, a.done))
}
