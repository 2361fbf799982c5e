package importer

import (
	"encoding/json"
	"runtime/debug"
	"sync"

	"parley/generate/prefix"
	"parley/generate/tokenizer"
	"parley/schemas"
	"parley/schemas/random"
)

// countTokens fills the turns of a conversation with the tokens of its messages, and gives the chains of them all. A
// message's tokens are those of its text and, for tool calls, of the functions' names and arguments.
func (im *Importer) countTokens(c *schemas.Conversation) []prefix.Chain {
	size := 0
	for i := range c.Messages {
		if s := c.Messages[i].Content; s != nil {
			size += len(*s)
		}
	}
	if size >= longRow {
		defer thrifty()()
	}
	k := counter{tok: im.opts.Tokenizer, chains: make([]prefix.Chain, 0, min(size/4+16, maxChained))}
	if c.Tools != nil {
		k.at = k.at.WithText(*c.Tools)
	}
	sum := make([]int64, len(c.Messages)+1)
	for i := range c.Messages {
		k.message(&c.Messages[i])
		sum[i+1] = k.n
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
	return k.chains
}

// thrifty lets the collector run before as much again has gathered as is in use, until what it gives is called: beside a
// text of tens of megabytes that would be as many more.
func thrifty() (end func()) {
	change := func(by int) {
		frugal.Lock()
		defer frugal.Unlock()
		if frugal.n == 0 {
			frugal.percent = debug.SetGCPercent(30)
		}
		if frugal.n += by; frugal.n == 0 {
			debug.SetGCPercent(frugal.percent)
		}
	}
	change(1)
	return func() { change(-1) }
}

var frugal struct {
	sync.Mutex
	n, percent int // how many want it so, and what was set before
}

// counter counts the tokens of messages, one after the other.
type counter struct {
	tok    *tokenizer.Tokenizer
	n      int64
	at     prefix.Chain
	chains []prefix.Chain // of each token, up to maxChained
}

// maxChained bounds the tokens of a conversation that are compared with others: there is hardly a server whose context
// is longer.
const maxChained = 1 << 20

func (k *counter) message(m *schemas.Message) {
	k.at = k.at.WithText("\x00" + m.Role)
	if m.Parts != nil {
		k.at = k.at.WithText(*m.Parts)
	}
	if m.Content != nil {
		k.text(*m.Content)
	}
	if m.ToolCalls == nil {
		return
	}
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
			k.text(call.Function.Name)
			k.text(args)
		}
	}
}

func (k *counter) text(s string) {
	k.tok.Each(s, func(ids []int) {
		k.n += int64(len(ids))
		if len(k.chains) >= maxChained {
			return
		}
		for _, id := range ids {
			k.at = k.at.With(uint64(id))
			k.chains = append(k.chains, k.at)
		}
	})
}

// share raises what turns expect of a cache by what a conversation has in common with those before it.
func (im *Importer) share(c *schemas.Conversation, chains []prefix.Chain) {
	known := int64(im.seen.Known(0, chains))
	im.seen.Add(0, chains)
	for i := range c.Turns {
		if t := &c.Turns[i]; t.ExpectedCachedTokens != nil && *t.ExpectedCachedTokens < known {
			n := min(known, *t.PromptTokens)
			t.ExpectedCachedTokens = &n
		}
	}
}

// firstBlocks gives the blocks of a conversation's first prompt.
func firstBlocks(c *schemas.Conversation, chains []prefix.Chain) (p Prefix) {
	if len(c.Turns) == 0 || c.Turns[0].PromptTokens == nil {
		return p
	}
	p.Size = blockTokens
	for end := blockTokens; end <= min(len(chains), int(*c.Turns[0].PromptTokens), maxBlocks*blockTokens); end += blockTokens {
		p.Blocks = append(p.Blocks, uint64(chains[end-1]))
	}
	return p
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
