package chatshape

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"parley/generate/rawjson"
	"parley/schemas"
)

// node is a message of a tree of replies.
type node struct {
	o        object
	id       string
	rank     float64
	children []*node
}

// tree reads a tree of replies (OASST) along the best ranked ones.
func (b *builder) tree(raw []byte) error {
	root, err := nodeOf(raw, 0)
	if err != nil {
		return err
	}
	return b.path(root)
}

func nodeOf(raw []byte, depth int) (*node, error) {
	if depth > 200 {
		return nil, errors.New("replies nested deeper than 200")
	}
	o, err := objectOf(raw)
	if err != nil {
		return nil, err
	}
	n := newNode(o)
	if list := o.get("replies"); listOf(list, 0) {
		var bad error
		err = rawjson.Walk(list, func(_, v []byte) bool {
			var kid *node
			if kid, bad = nodeOf(v, depth+1); bad == nil {
				n.children = append(n.children, kid)
			}
			return bad == nil
		})
		err = errors.Join(err, bad)
	}
	return n, err
}

func newNode(o object) *node {
	n := &node{o: o, id: o.text("message_id"), rank: math.Inf(1)}
	if r, err := strconv.ParseFloat(o.text("rank"), 64); err == nil {
		n.rank = r
	}
	return n
}

// path reads the messages from a node on, of several replies the one of the best rank, or the first.
func (b *builder) path(n *node) error {
	if s := n.o.text("lang"); s != "" {
		b.chat.Tags["language"] = s
	}
	for i := 0; ; i++ {
		o := n.o
		delete(o, "type")
		if err := b.message(o); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if len(n.children) == 0 {
			return nil
		}
		best := n.children[0]
		for _, kid := range n.children[1:] {
			b.note("replies beside the best one, left out", "%s", kid.id)
			if kid.rank < best.rank {
				best = kid
			}
		}
		n = best
	}
}

// rows reads records that are a message each. Those with parents are a tree.
func (b *builder) rows(records [][]byte) error {
	b.chat.Shape = "rows"
	nodes := map[string]*node{}
	var root *node
	for i, raw := range records {
		o, err := objectOf(raw)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := b.about(o); err != nil {
				return err
			}
			if id := o.text(groupKeys...); id != "" {
				b.chat.ConversationID = id
			}
			if s := o.text(systemKeys...); s != "" {
				b.say("system", s)
			}
		}
		n := newNode(o)
		if n.id == "" {
			if err := b.message(o); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			continue
		}
		nodes[n.id] = n
		switch up := nodes[o.text("parent_id")]; {
		case up != nil:
			up.children = append(up.children, n)
		case root == nil:
			root = n
		default:
			b.note("messages whose parent is not there, left out", "%s", n.id)
		}
	}
	if root == nil {
		return nil
	}
	return b.path(root)
}

// afterMessages reads what may stand beside a list of messages: the answer of a log, and of preference data the
// answer that was chosen.
func (b *builder) afterMessages(o object) error {
	if raw := o.get("preferred_output", "chosen"); raw != nil {
		b.refused(o)
		if n := len(b.list); n > 0 && b.list[n-1].Role == "assistant" {
			return nil // the messages are the chosen ones already
		}
		return b.answer(raw)
	}
	raw := o.get("response")
	if len(raw) > 0 && raw[0] == '{' { // OpenAI's: {"body": {"choices": [{"message": ...}]}}
		if inner := rawjson.Field(raw, "body"); len(inner) > 0 && inner[0] == '{' {
			raw = inner
		}
		if choices := rawjson.Field(raw, "choices"); listOf(choices, '{') {
			var first json.RawMessage
			_ = rawjson.Walk(choices, func(_, v []byte) bool { // there is a first one
				first = rawjson.Field(v, "message")
				return false
			})
			raw = first
		}
	}
	if n := len(b.list); raw != nil && n > 0 && b.list[n-1].Role != "assistant" {
		return b.answer(raw)
	}
	return nil
}

func (b *builder) refused(o object) {
	if raw := o.get("non_preferred_output", "rejected"); raw != nil {
		b.note("answers that were rejected, left out", "%s", clip(raw))
	}
}

// answer reads an assistant's answer: a text, a message, or a list of them.
func (b *builder) answer(raw []byte) error {
	switch {
	case raw[0] == '"':
		s, err := rawjson.Text(raw)
		b.say("assistant", s)
		return err
	case raw[0] == '{':
		return b.item(raw, 0)
	case listOf(raw, '{'):
		return b.messages(raw)
	}
	return errors.New("its answer is neither text nor a message")
}

// preference reads a pair of answers of which one was chosen.
func (b *builder) preference(o object) error {
	b.refused(o)
	chosen := asJSON(o["chosen"])
	if listOf(chosen, '{') { // the whole conversation, or the answer alone
		before := len(b.list)
		if err := b.messages(chosen); err != nil {
			return err
		}
		if len(b.list) == before || b.list[before].Role != "assistant" {
			return nil
		}
		answer := b.list[before:]
		b.list = b.list[:before:before]
		if raw := o.get("prompt", "question", "instruction", "input"); raw != nil {
			if err := b.prompt(raw); err != nil {
				return err
			}
		}
		b.list = append(b.list, answer...)
		return nil
	}
	if s, err := rawjson.Text(chosen); err == nil && b.transcript(s) {
		return nil
	}
	if raw := o.get("prompt", "question", "instruction", "input"); raw != nil {
		if err := b.prompt(raw); err != nil {
			return err
		}
	}
	return b.answer(chosen)
}

// asked reads a question, what it is about, and its answer.
func (b *builder) asked(question string, o object, answers []string) error {
	if raw := asJSON(o.get("history")); listOf(raw, '[') || listOf(raw, '{') {
		if err := b.messages(raw); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	raw := o.get(question)
	if raw != nil && raw[0] == '"' {
		s, err := rawjson.Text(raw)
		if err != nil {
			return err
		}
		for _, key := range contextKeys {
			if about := o.text(key); key != question && about != "" && !slices.Contains(answers, key) {
				s = *joined(&s, &about)
			}
		}
		b.say("user", s)
	} else if err := b.prompt(raw); err != nil {
		return err
	}
	if raw := o.get(answers...); raw != nil && string(raw) != `""` {
		return b.answer(raw)
	}
	return nil
}

// prompt reads what is asked: a text, or messages.
func (b *builder) prompt(raw []byte) error {
	if inner := asJSON(raw); listOf(inner, '{') && rawjson.Field(firstOf(inner), "role") != nil || listOf(raw, 0) {
		return b.messages(inner)
	}
	s, ok := rawjson.Scalar(raw)
	if !ok {
		return errors.New("its prompt is neither text nor a list of messages")
	}
	if !b.transcript(s) {
		b.say("user", s)
	}
	return nil
}

func firstOf(list []byte) (first []byte) {
	_ = rawjson.Walk(list, func(_, v []byte) bool { // damage shows later
		first = v
		return false
	})
	return first
}

// questions reads questions without answers. The place of each answer but the last is a message without
// content.
func (b *builder) questions(raw []byte) error {
	var list []string
	if err := json.Unmarshal(asJSON(raw), &list); err != nil {
		return errors.New("its questions are no list of texts")
	}
	for i, s := range list {
		if i > 0 {
			b.list = append(b.list, message{Message: schemas.Message{Role: "assistant"}})
		}
		b.say("user", s)
	}
	return nil
}
