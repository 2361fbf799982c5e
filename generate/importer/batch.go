package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"parley/schemas"
)

// newBatch reads OpenAI's batch requests. Each is one request, so one turn, whose body's parameters are
// kept, apart from what the replay decides: the stream, the model (kept as a tag) and the number of tokens
// (kept as the turn's).
func newBatch(im *Importer) reader {
	return newScanReader(im, func(data []byte, rec record) ([]schemas.Conversation, *problem) {
		c, p := batchRecord(data, rec.number)
		if p != nil {
			return nil, p
		}
		return []schemas.Conversation{c}, nil
	})
}

func batchRecord(data []byte, number int64) (schemas.Conversation, *problem) {
	var c schemas.Conversation
	var line struct {
		CustomID json.RawMessage            `json:"custom_id"`
		Method   string                     `json:"method"`
		URL      string                     `json:"url"`
		Body     map[string]json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(data, &line); err != nil {
		return c, badRecord("%v", err)
	}
	if line.Body == nil {
		return c, badRecord("it has no body")
	}
	c.ConversationID = fmt.Sprintf("request-%d", number)
	if id, ok := scalar(line.CustomID); ok {
		c.ConversationID = id
	}
	body := maps.Clone(line.Body)
	take := func(key string) json.RawMessage {
		v := body[key]
		delete(body, key)
		return v
	}
	var raw json.RawMessage
	switch {
	case !missing(body["messages"]):
		raw = take("messages")
	case !missing(body["input"]) && strings.HasSuffix(line.URL, "/responses"):
		raw = take("input")
	case !missing(body["prompt"]):
		raw = take("prompt")
	default:
		p := because("not a request for text")
		p.detail = fmt.Sprintf("the body of a request to %s has neither messages nor a prompt", line.URL)
		return c, p
	}
	var p *problem
	if raw[0] == '"' {
		user := "user"
		c.Messages, p = messages([]chatMessage{{role: &user, content: raw}})
	} else {
		c.Messages, p = parseMessages(raw)
	}
	if s := take("instructions"); p == nil && !missing(s) {
		var first []schemas.Message
		system := "system"
		first, p = messages([]chatMessage{{role: &system, content: s}})
		c.Messages = append(first, c.Messages...)
	}
	if p != nil {
		return c, p
	}
	turn := schemas.Turn{MessageIndex: int64(len(c.Messages))}
	for _, key := range []string{"max_completion_tokens", "max_tokens", "max_output_tokens"} {
		if v := take(key); turn.OutputTokens == nil && !missing(v) {
			var n int64
			if err := json.Unmarshal(v, &n); err != nil || n < 1 {
				return c, badRecord("%s is %s", key, v)
			}
			turn.OutputTokens = &n
		}
	}
	if len(c.Messages) > 0 {
		c.Turns = []schemas.Turn{turn}
	}
	if t := take("tools"); !missing(t) && t[0] == '[' {
		s := compact(t)
		c.Tools = &s
	}
	c.Tags = map[string]string{}
	if m, ok := scalar(take("model")); ok {
		c.Tags["model"] = m
	}
	take("stream")
	take("stream_options")
	if len(body) > 0 {
		var b bytes.Buffer
		enc := json.NewEncoder(&b) // with sorted keys
		enc.SetEscapeHTML(false)
		if err := enc.Encode(body); err != nil {
			return c, badRecord("%v", err)
		}
		s := strings.TrimSpace(b.String())
		c.Body = &s
	}
	return c, nil
}
