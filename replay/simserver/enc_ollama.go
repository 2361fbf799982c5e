package simserver

import "time"

// ollamaEncoder writes Ollama's own chat API: one JSON object per line
// (https://github.com/ollama/ollama/blob/main/docs/api.md).
type ollamaEncoder struct{}

func (e *ollamaEncoder) contentType() string { return "application/x-ndjson" }

// line starts a line with a message; pairs are the message's further members.
func (e *ollamaEncoder) line(b []byte, a *answer, content string, pairs ...any) []byte {
	m := members(members([]byte(`{"role":"assistant"`), "content", content), pairs...)
	return members(append(b, '{'), "model", a.model, "created_at", time.Now().UTC().Format(time.RFC3339Nano), "message", raw(append(m, '}')))
}

// call gives a tool call: Ollama sends it whole, with its arguments as an object. stream puts its tokens into one chunk.
func (e *ollamaEncoder) call(a *answer, text string) raw {
	return list(inner("function", inner("name", a.toolName, "arguments", raw(text))))
}

func (e *ollamaEncoder) opening(b []byte, _ *answer) []byte { return b }

func (e *ollamaEncoder) delta(b []byte, a *answer, p part, text string, _ bool) []byte {
	switch p {
	case partReasoning:
		b = e.line(b, a, "", "thinking", text)
	case partTool:
		b = e.line(b, a, "", "tool_calls", e.call(a, text))
	default:
		b = e.line(b, a, text)
	}
	return append(members(b, "done", false), "}\n"...)
}

// end appends the members that close an answer; those that are zero are left out.
func (e *ollamaEncoder) end(b []byte, a *answer) []byte {
	reason := a.finish
	if reason == "tool_calls" {
		reason = "stop"
	}
	b = members(b, "done", true, "done_reason", reason)
	prompt := a.first.Sub(a.admitted)
	gen := max(time.Since(a.first), 0)
	for _, m := range []struct {
		name string
		n    int64
	}{
		{"total_duration", int64(prompt + gen)}, {"prompt_eval_count", int64(a.prompt)}, {"prompt_eval_duration", int64(prompt)},
		{"eval_count", int64(a.done)}, {"eval_duration", int64(gen)},
	} {
		if m.n != 0 {
			b = members(b, m.name, m.n)
		}
	}
	return append(b, "}\n"...)
}

func (e *ollamaEncoder) ending(b []byte, a *answer) []byte {
	if a.noDone {
		return b
	}
	return e.end(e.line(b, a, ""), a)
}

func (e *ollamaEncoder) failure(b []byte, _ *answer) ([]byte, bool) {
	return append(appendError(b, errText, 500, lateMessage, ""), '\n'), false
}

func (e *ollamaEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	var more []any
	if a.tool {
		more, text = []any{"tool_calls", e.call(a, text)}, ""
	}
	if reasoning != "" {
		more = append(more, "thinking", reasoning)
	}
	return e.end(e.line(b, a, text, more...), a)
}
