package api

import (
	"strings"

	"parley/schemas"
)

// Fill writes into the row all that the response said: http_status, status and error, finish_reason,
// saw_done, streamed, response_id, the moments from first_event_ns to done_ns, events, comments, token
// counts and their source, and the chunk lists. The text columns are not filled: see Answer. The row
// shares nothing with the stream afterwards. Fill is to be called after Finish.
func (s *Stream) Fill(row *schemas.Request) {
	if s.hasHead {
		status := int64(s.status)
		row.HTTPStatus = &status
	}
	row.Status, row.ErrorKind, row.ErrorMessage = string(schemas.StatusOK), nil, nil
	if s.fail != nil {
		s.fail.Fill(row)
	}
	row.FinishReason = s.label(s.finish)
	row.ResponseID = s.label(s.id)
	row.SawDone = s.sawDone
	row.Streamed = nil
	if s.hasHead && s.streamed != 0 {
		yes := s.streamed == 1
		row.Streamed = &yes
	}

	row.FirstEventNS = moment(s.firstEvent)
	row.FirstTokenNS = moment(s.firstToken)
	row.FirstAnswerNS = moment(s.firstAnswer)
	row.LastTokenNS = moment(s.lastToken)
	row.DoneNS = moment(s.done)
	row.Events = s.count
	row.Comments = s.parser.Comments()

	u := s.usage
	u.fallBack(&s.timings)
	prompt, cached := u.totals()
	row.PromptTokens = known(prompt)
	row.CachedTokens = known(cached)
	row.ReasoningTokens = known(u.reasoning)
	row.CompletionTokens, row.TokenSource = nil, nil
	switch {
	case u.completion > 0 || u.completion == 0 && len(s.chunkNS) == 0: // a zero beside chunks is no count
		row.CompletionTokens = known(u.completion)
		source := schemas.TokensFromUsage
		if s.usage.completion >= 0 && !s.finalUsage || s.usage.completion < 0 && !s.terminal && len(s.finish) == 0 {
			source = schemas.TokensFromContinuous
		}
		row.TokenSource = &source
	case len(s.chunkNS) > 0:
		source := schemas.TokensFromChunks
		row.CompletionTokens = known(int64(len(s.chunkNS)))
		row.TokenSource = &source
	}

	row.ChunkNS, row.ChunkTokens = nil, nil
	if len(s.chunkNS) > 0 {
		row.ChunkNS = append(make([]int64, 0, len(s.chunkNS)), s.chunkNS...)
	}
	if s.continuous && s.sumChunks() > 0 {
		row.ChunkTokens = append(make([]int64, 0, len(s.chunkTokens)), s.chunkTokens...)
	}
}

func (s *Stream) sumChunks() (sum int64) {
	for _, n := range s.chunkTokens {
		sum += n
	}
	return sum
}

// completion gives the server's count of output tokens, -1 where it gave none.
func (s *Stream) completion() int64 {
	u := s.usage
	u.fallBack(&s.timings)
	return u.completion
}

// fallBack takes from llama.cpp's timings what the usage does not say.
func (u *usage) fallBack(timings *usage) {
	if u.completion < 0 {
		u.completion = timings.completion
	}
	prompt, cached := timings.totals()
	if u.prompt < 0 && u.uncached < 0 {
		u.prompt = prompt
	}
	if u.cached < 0 {
		u.cached = cached
	}
}

func moment(ns int64) *int64 {
	if ns == never {
		return nil
	}
	return &ns
}

func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// label gives a short text of the server's, nil for none.
func (s *Stream) label(b []byte) *string {
	if len(b) == 0 {
		return nil
	}
	t := s.clean(string(b))
	return &t
}

// redact blots the secrets out of an answer, in case a server repeats what it was sent. Very short ones
// are left: they would be found in any text.
func (s *Stream) redact(text string) string {
	for _, secret := range s.Secrets {
		if len(secret) >= 6 {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	return text
}

// Answer is what the server said.
type Answer struct {
	Message   schemas.Message // role assistant, content, tool calls in OpenAI's form
	Reasoning string          // the reasoning's text
	Signature string          // Anthropic's signature of the reasoning, which must go back with it
}

// Answer gives the text and the tool calls of the answer; a refusal is its text where there is no other.
// It allocates, and shares nothing with the stream.
func (s *Stream) Answer() Answer {
	a := Answer{Message: schemas.Message{Role: "assistant"}, Reasoning: s.redact(string(s.reasoning)), Signature: string(s.signature)}
	content := s.redact(string(s.text))
	if content == "" {
		content = s.redact(string(s.refusal))
	}
	if content != "" || len(s.calls) == 0 {
		a.Message.Content = &content
	}
	if len(s.calls) > 0 {
		calls := make([]toolCall, len(s.calls))
		for i, c := range s.calls {
			calls[i] = toolCall{id: string(c.id), name: string(c.name), args: string(c.args)}
		}
		joined := s.redact(writeCalls(calls))
		a.Message.ToolCalls = &joined
	}
	return a
}
