package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/generate/chatshape"
	"parley/generate/prefix"
	"parley/generate/prose"
	"parley/schemas"
)

// joiner makes conversations of exchanges. All but snapshot is called from one goroutine.
type joiner struct {
	redact *redactor
	spool  *spool
	number int64
	ended  map[chain]*talk  // by all that was said, the last answer included
	asked  map[chain]*talk  // by all that was said before the last answer
	byID   map[string]*talk // by the identifier of the last answer, for the Responses API
	seen   prefix.Cache     // prompts and answers

	mu     sync.Mutex
	counts Counts
}

// talk is a conversation so far. Of its text only the shape is held.
type talk struct {
	number   int64
	keys     []chain // what was said up to each message
	chains   []chain // the same, of tokens
	tokens   []int   // of each message
	body     string
	end      time.Duration // of the last answer
	id       string
	messages []schemas.Message // only where a later request may refer to it by identifier
	turns    int
}

func newJoiner(o Options, text *prose.Prose, s *spool) *joiner {
	return &joiner{
		redact: newRedactor(o.Tokenizer, text, o.KeepText), spool: s,
		ended: map[chain]*talk{}, asked: map[chain]*talk{}, byID: map[string]*talk{},
		counts: Counts{Left: map[string]int64{}, Notes: map[string]int64{}},
	}
}

func (j *joiner) snapshot() Counts {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.counts
	c.Left, c.Notes = maps.Clone(c.Left), maps.Clone(c.Notes)
	return c
}

func (j *joiner) leave(reason string) {
	j.mu.Lock()
	j.counts.Left[reason]++
	j.mu.Unlock()
}

func (j *joiner) note(what string) {
	j.mu.Lock()
	j.counts.Notes[what]++
	j.mu.Unlock()
}

// add takes an exchange that has ended. An error is one of the spool.
func (j *joiner) add(x *exchange) error {
	j.mu.Lock()
	j.counts.Requests++
	j.mu.Unlock()
	switch {
	case x.request.over || x.answer.over:
		j.leave(fmt.Sprintf("longer than %d MiB", maxKept>>20))
		return nil
	case x.status == 0:
		j.leave("the server was not reached, or the application left before it answered")
		return nil
	case x.status/100 != 2:
		j.leave(fmt.Sprintf("answered with HTTP %d", x.status))
		return nil
	}
	said := readAnswer(x.answer.Bytes())
	if said.failed {
		j.leave("an error inside the answer")
		return nil
	}
	chat, err := new(chatshape.Reader).Read(x.request.Bytes())
	if err != nil {
		reason := "a request that is no chat"
		if errors.Is(err, chatshape.ErrNotText) {
			reason = "a request that asks for no text"
		}
		j.leave(reason)
		return nil
	}
	for _, n := range chat.Notes {
		j.note(n.What)
	}
	if x.broken {
		j.note("answers that were cut off")
	}
	var more struct {
		Previous string `json:"previous_response_id"`
		Model    string `json:"model"`
	}
	_ = json.Unmarshal(x.request.Bytes(), &more) // the chat was read from it
	messages := chat.Messages
	if m := messages[len(messages)-1]; m.Content != nil && strings.Contains(*m.Content, schemas.ProbeText) {
		j.leave("a probe of parley's own replay")
		return nil
	}
	if more.Previous != "" {
		before := j.byID[more.Previous]
		if before == nil {
			j.leave("it goes on from a response that was not recorded")
			return nil
		}
		messages = append(slices.Clone(before.messages), messages...)
	}
	return j.turn(x, chat, messages, said, more.Model)
}

// turn adds a turn to the conversation that it goes on with, or begins one.
func (j *joiner) turn(x *exchange, chat *chatshape.Chat, messages []schemas.Message, said *answer, model string) error {
	keys := make([]chain, len(messages))
	at := j.redact.key
	for i := range messages {
		at = key(at, &messages[i])
		keys[i] = at
	}
	t, have := j.find(keys, messages)
	row := entry{}
	if t == nil {
		j.number++
		t = &talk{number: j.number}
		row.Tags = map[string]string{"source": "recorded"}
		if model != "" {
			row.Tags["model"] = model
		}
		if chat.Tools != nil {
			tools, err := j.redact.tools(*chat.Tools)
			if err != nil {
				j.leave("tool definitions that cannot be read")
				return nil
			}
			row.Tools = &tools
		}
		if chat.Body != nil {
			t.body = j.redact.body(*chat.Body)
			row.Body = t.body
		}
	} else {
		delete(j.ended, t.keys[len(t.keys)-1])
		if n := len(t.keys) - 2; n >= 0 {
			delete(j.asked, t.keys[n])
		}
		delete(j.byID, t.id)
	}
	t.keys, t.chains, t.tokens = append(t.keys[:have:have], keys[have:]...), t.chains[:have], t.tokens[:have]
	row.Conversation, row.Keep = t.number, have
	row.ArrivalUS = x.arrival.Microseconds()
	fresh, tool := 0, false
	known := int64(t.sum(have))
	for i := have; i < len(messages); i++ {
		before := t.sum(i)
		kept, tokens, err := j.message(t, messages[i])
		if err != nil {
			j.leave("a message for which no words of the same length were found")
			return nil
		}
		if known == int64(before) {
			known += int64(j.seen.Known(before, tokens))
		}
		j.seen.Add(before, tokens)
		if messages[i].Role != "assistant" {
			fresh += len(tokens)
		}
		tool = messages[i].Role == "tool"
		row.Messages = append(row.Messages, kept)
	}
	prompt, newTokens := int64(t.sum(len(messages))), int64(fresh)
	row.Turn = schemas.Turn{MessageIndex: int64(len(messages)), PromptTokens: &prompt, NewTokens: &newTokens, ExpectedCachedTokens: &known}
	if chat.Body != nil {
		if body := j.redact.body(*chat.Body); body != t.body && body != "" {
			row.Turn.Body = &body
		}
	}
	if t.turns > 0 {
		wait := max(0, float64((x.arrival-t.end).Microseconds())/1000)
		if tool {
			row.Turn.ToolTimeMS = &wait
		} else {
			row.Turn.ThinkTimeMS = &wait
		}
	}
	// The answer, in the server's words until the application repeats it in its own.
	reply := said.message()
	kept, words, err := j.message(t, reply)
	if err != nil {
		j.leave("a message for which no words of the same length were found")
		return nil
	}
	j.seen.Add(int(prompt), words)
	tokens := said.completion
	if tokens == 0 {
		tokens = int64(len(words))
	}
	if tokens > 0 {
		row.Turn.OutputTokens = &tokens
	}
	row.Messages = append(row.Messages, kept)
	if err := j.spool.write(&row); err != nil {
		return err
	}
	t.keys = append(t.keys, key(at, &reply))
	t.end, t.id = x.end, said.id
	t.turns++
	j.ended[t.keys[len(t.keys)-1]] = t
	j.asked[at] = t
	if t.messages = nil; strings.HasSuffix(x.path, "/responses") && t.id != "" {
		t.messages = append(slices.Clone(messages), reply)
		j.byID[t.id] = t
	}
	j.mu.Lock()
	j.counts.Turns++
	j.counts.Conversations = j.number
	j.mu.Unlock()
	return nil
}

// sum gives the tokens of the first n messages.
func (t *talk) sum(n int) (sum int) {
	for _, k := range t.tokens[:n] {
		sum += k
	}
	return sum
}

// message takes a message to the end of a conversation.
func (j *joiner) message(t *talk, m schemas.Message) (schemas.Message, []prefix.Chain, error) {
	at := j.redact.key
	if n := len(t.chains); n > 0 {
		at = t.chains[n-1]
	}
	if m.Parts != nil && !j.redact.keep {
		j.note("messages of several parts (images), of which the words stand for the text")
	}
	kept, tokens, next, err := j.redact.message(m, at)
	t.chains, t.tokens = append(t.chains, next), append(t.tokens, len(tokens))
	return kept, tokens, err
}

// find gives the conversation that goes on with these messages, and how many of them it has already: those up
// to its last answer, which is taken in the words in which the application repeats it.
func (j *joiner) find(keys []chain, messages []schemas.Message) (*talk, int) {
	for i := len(keys) - 2; i > 0; i-- {
		if messages[i].Role != "assistant" {
			continue
		}
		if t := j.ended[keys[i]]; t != nil {
			return t, i
		}
		if t := j.asked[keys[i-1]]; t != nil {
			return t, i
		}
	}
	return nil, 0
}

// key adds a message to what was said. White space at the ends, and the identifiers of calls, which some
// applications make anew, do not count.
func key(before chain, m *schemas.Message) chain {
	var b strings.Builder
	b.WriteString("\x01" + m.Role + "\x02")
	if m.Content != nil {
		b.WriteString(strings.TrimSpace(*m.Content))
	}
	if m.Parts != nil {
		b.WriteString("\x03" + *m.Parts)
	}
	if m.ToolCalls != nil {
		var calls []schemas.ToolCall
		_ = json.Unmarshal([]byte(*m.ToolCalls), &calls) // chatshape wrote it
		for _, c := range calls {
			b.WriteString("\x04" + c.Function.Name + "\x05" + compact(c.Function.Arguments))
		}
	}
	return before.with(b.String())
}

func compact(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, _ := json.Marshal(v) // came from JSON
	return string(out)
}

// message gives an answer as a message of the history.
func (a *answer) message() schemas.Message {
	m := schemas.Message{Role: "assistant"}
	if text := a.text.String(); text != "" || len(a.calls) == 0 {
		m.Content = &text
	}
	if len(a.calls) > 0 {
		out, _ := json.Marshal(a.calls) // strings only
		s := string(out)
		m.ToolCalls = &s
	}
	return m
}
