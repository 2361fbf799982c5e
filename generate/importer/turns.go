package importer

import (
	"encoding/json"
	"hash/maphash"

	"parley/schemas"
	"parley/schemas/random"
)

// countTokens fills the turns of a conversation with the tokens of its messages. A message's tokens are those of its text and, for tool calls, of the functions' names and
// arguments.
func (im *Importer) countTokens(c *schemas.Conversation) {
	sum := make([]int64, len(c.Messages)+1)
	for i := range c.Messages {
		sum[i+1] = sum[i] + im.messageTokens(&c.Messages[i])
	}
	answered := 0 // messages up to and with the previous turn's answer
	for i := range c.Turns {
		t := &c.Turns[i]
		at := int(t.MessageIndex)
		if at < 0 || at > len(c.Messages) {
			continue
		}
		answered = min(answered, at)
		prompt, fresh := sum[at], sum[at]-sum[answered]
		t.PromptTokens, t.NewTokens = &prompt, &fresh
		known := int64(0)
		if i > 0 {
			known = sum[answered]
		}
		t.ExpectedCachedTokens = &known
		answered = at
		if at < len(c.Messages) && c.Messages[at].Role == "assistant" {
			m := &c.Messages[at]
			if t.OutputTokens == nil && (m.Content != nil || m.ToolCalls != nil || m.Reasoning != nil) {
				n := sum[at+1] - sum[at]
				if m.Reasoning != nil {
					n += int64(im.opts.Tokenizer.Count(*m.Reasoning))
				}
				n = max(n, 1) // a server is not asked for nothing
				t.OutputTokens = &n
			}
			answered++
		}
	}
}

func (im *Importer) messageTokens(m *schemas.Message) int64 {
	n := 0
	if m.Content != nil {
		n = im.opts.Tokenizer.Count(*m.Content)
	}
	if m.ToolCalls != nil {
		var calls []struct {
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		}
		if json.Unmarshal([]byte(*m.ToolCalls), &calls) == nil {
			for _, call := range calls {
				args := string(call.Function.Arguments)
				var text string
				if json.Unmarshal(call.Function.Arguments, &text) == nil {
					args = text
				}
				n += im.opts.Tokenizer.Count(call.Function.Name) + im.opts.Tokenizer.Count(args)
			}
		}
	}
	return int64(n)
}

// expectSystemPrompt raises the first turn's expected cached tokens when its system prompt came before.
func (im *Importer) expectSystemPrompt(c *schemas.Conversation) {
	if im.opts.Tokenizer == nil || len(c.Messages) == 0 || len(c.Turns) == 0 || c.Messages[0].Role != "system" || c.Messages[0].Content == nil {
		return
	}
	t := &c.Turns[0]
	if t.ExpectedCachedTokens == nil || *t.ExpectedCachedTokens > 0 {
		return
	}
	h := maphash.String(idSeed, *c.Messages[0].Content)
	if _, known := im.systems[h]; known {
		n := im.messageTokens(&c.Messages[0])
		t.ExpectedCachedTokens = &n
	}
	im.systems[h] = struct{}{}
}

// jitter moves a recorded arrival later, by a time that depends on the seed and on the conversation's
// place in the output.
func (im *Importer) jitter(c *schemas.Conversation) {
	if im.opts.JitterMS <= 0 || c.StartOffsetMS == nil {
		return
	}
	im.jittered++
	at := *c.StartOffsetMS + float64(random.Stream(im.opts.Seed, "import jitter", uint64(im.jittered)).Float64()*im.opts.JitterMS)
	c.StartOffsetMS = &at
}
