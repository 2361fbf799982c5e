package record

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"parley/generate/prefix"
	"parley/generate/prose"
	"parley/generate/tokenizer"
	"parley/schemas"
)

// chain stands for all tokens of a prompt up to some place. It depends on the recorder's key, so that
// nobody else can tell which tokens it stands for.
type chain [sha256.Size]byte

func (c chain) with(text string) chain {
	return sha256.Sum256(append(c[:], text...))
}

// redactor counts the tokens of messages and, unless texts are to be kept, puts words in their place: for
// each token one word of one token, chosen by all tokens before it. So two prompts that have their first n
// tokens in common have n words in common, and part there for good.
type redactor struct {
	tok  *tokenizer.Tokenizer
	text *prose.Prose
	keep bool
	key  chain
	ids  []int // scratch
}

func newRedactor(tok *tokenizer.Tokenizer, text *prose.Prose, keep bool) *redactor {
	r := &redactor{tok: tok, text: text, keep: keep}
	_, _ = rand.Read(r.key[:]) // never fails
	return r
}

// message gives a message as it is to be kept, what stands for each of its tokens with all before it, and the chain
// behind it.
func (r *redactor) message(m schemas.Message, c chain) (kept schemas.Message, tokens []prefix.Chain, behind chain, err error) {
	c = c.with("\x00" + m.Role)
	through := func(text string) (string, error) {
		r.ids = r.tok.AppendEncode(r.ids[:0], text)
		ids := r.ids
		picks := make([]uint64, len(ids))
		var b [sha256.Size + 4]byte
		for i, id := range ids {
			copy(b[:], c[:])
			binary.LittleEndian.PutUint32(b[sha256.Size:], uint32(id))
			c = sha256.Sum256(b[:])
			picks[i] = binary.LittleEndian.Uint64(c[:])
			tokens = append(tokens, prefix.Chain(picks[i]))
		}
		if r.keep || text == "" {
			return text, nil
		}
		return r.text.Words(picks)
	}
	if m.Content != nil {
		text, err := through(*m.Content)
		if err != nil {
			return m, nil, c, err
		}
		m.Content = &text
	}
	if r.keep {
		if m.ToolCalls != nil {
			c = c.with(*m.ToolCalls)
		}
		return m, tokens, c, nil
	}
	m.Parts = nil // the words stand for the text of the parts; other parts are counted by the joiner
	if m.Name != nil {
		m.Name = r.named("name", *m.Name)
	}
	if m.ToolCallID != nil {
		m.ToolCallID = r.named("call", *m.ToolCallID)
	}
	if m.ToolCalls != nil {
		if m.ToolCalls, err = r.calls(*m.ToolCalls, through); err != nil {
			return m, nil, c, err
		}
	}
	return m, tokens, c, nil
}

// named replaces a name by one that is the same for the same name.
func (r *redactor) named(kind, name string) *string {
	sum := r.key.with(kind + "\x00" + name)
	out := kind + "_" + hex.EncodeToString(sum[:4])
	return &out
}

// calls replaces names and arguments of tool calls.
func (r *redactor) calls(text string, through func(string) (string, error)) (*string, error) {
	var calls []schemas.ToolCall
	if err := json.Unmarshal([]byte(text), &calls); err != nil {
		return nil, fmt.Errorf("tool calls: %w", err)
	}
	for i := range calls {
		c := &calls[i]
		words, err := through(c.Function.Arguments)
		if err != nil {
			return nil, err
		}
		args, err := json.Marshal(map[string]string{"text": words})
		if err != nil {
			return nil, err
		}
		c.ID, c.Function.Name, c.Function.Arguments = *r.named("call", c.ID), *r.named("tool", c.Function.Name), string(args)
	}
	out, err := json.Marshal(calls)
	s := string(out)
	return &s, err
}

// tools replaces tool definitions by as many of about the same length, with the names that calls have.
func (r *redactor) tools(text string) (string, error) {
	if r.keep {
		return text, nil
	}
	var tools []json.RawMessage
	if err := json.Unmarshal([]byte(text), &tools); err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	out := make([]tool, len(tools))
	c := r.key.with("tools")
	for i, raw := range tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return "", fmt.Errorf("tool %d: %w", i, err)
		}
		picks := make([]uint64, r.tok.Count(string(raw)))
		for j := range picks {
			c = c.with(string(raw))
			picks[j] = binary.LittleEndian.Uint64(c[:])
		}
		words, err := r.text.Words(picks)
		if err != nil {
			return "", err
		}
		out[i] = tool{"function", function{*r.named("tool", t.Function.Name), words, json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}}
	}
	text2, err := json.Marshal(out)
	return string(text2), err
}

// body keeps of the request's parameters what can hold no text of the application: numbers and switches.
func (r *redactor) body(text string) string {
	if r.keep {
		return text
	}
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &all) != nil {
		return ""
	}
	for name, v := range all {
		v = bytes.TrimSpace(v)
		if plain := string(v); plain != "true" && plain != "false" && (len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9')) {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	out, _ := json.Marshal(all) // came from JSON
	return string(out)
}
