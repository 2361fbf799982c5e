package simserver

import (
	"strconv"
	"time"
)

// ollamaEncoder writes Ollama's own chat API: one JSON object per line
// (https://github.com/ollama/ollama/blob/main/docs/api.md).
type ollamaEncoder struct{}

func (e *ollamaEncoder) contentType() string { return "application/x-ndjson" }

func (e *ollamaEncoder) start(b []byte, a *answer) []byte {
	b = appendJSONString(append(b, `{"model":`...), a.model)
	b = append(b, `,"created_at":"`...)
	b = time.Now().UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, `","message":{"role":"assistant","content":`...)
}

func (e *ollamaEncoder) opening(b []byte, _ *answer) []byte { return b }

func (e *ollamaEncoder) delta(b []byte, a *answer, p part, text string, _ bool) []byte {
	b = e.start(b, a)
	switch p {
	case partReasoning:
		b = appendJSONString(append(b, `"","thinking":`...), text)
	case partTool:
		// Ollama sends a call whole; its arguments are an object. stream puts its tokens into one chunk.
		b = append(b, `"","tool_calls":[{"function":{"name":"`+a.toolName+`","arguments":`+text+`}}]`...)
	default:
		b = appendJSONString(b, text)
	}
	return append(b, `},"done":false}`+"\n"...)
}

// end appends the members that close an answer; those that are zero are left out.
func (e *ollamaEncoder) end(b []byte, a *answer) []byte {
	reason := a.finish
	if reason == "tool_calls" {
		reason = "stop"
	}
	b = append(b, `,"done":true,"done_reason":"`+reason+`"`...)
	num := func(name string, n int64) {
		if n != 0 {
			b = strconv.AppendInt(append(b, `,"`+name+`":`...), n, 10)
		}
	}
	prompt := a.first.Sub(a.admitted)
	gen := max(time.Since(a.first), 0)
	num("total_duration", int64(prompt+gen))
	num("prompt_eval_count", int64(a.prompt))
	num("prompt_eval_duration", int64(prompt))
	num("eval_count", int64(a.done))
	num("eval_duration", int64(gen))
	return append(b, "}\n"...)
}

func (e *ollamaEncoder) ending(b []byte, a *answer) []byte {
	if a.noDone {
		return b
	}
	return e.end(append(e.start(b, a), `""}`...), a)
}

func (e *ollamaEncoder) failure(b []byte, _ *answer) ([]byte, bool) {
	return append(appendError(b, errText, 500, lateMessage, ""), '\n'), false
}

func (e *ollamaEncoder) body(b []byte, a *answer, reasoning, text string) []byte {
	b = e.start(b, a)
	if a.tool {
		b = append(b, `"","tool_calls":[{"function":{"name":"`+a.toolName+`","arguments":`+text+`}}]`...)
	} else {
		b = appendJSONString(b, text)
	}
	if reasoning != "" {
		b = appendJSONString(append(b, `,"thinking":`...), reasoning)
	}
	return e.end(append(b, '}'), a)
}
