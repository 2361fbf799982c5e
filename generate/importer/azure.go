package importer

import (
	"encoding/json"
	"fmt"
	"time"

	"parley/generate/rawjson"
	"parley/schemas"
)

// azure reads Azure's LLM inference traces: arrivals and lengths, without conversations. Each record is a
// conversation of one turn.
type azure struct {
	*records
	first time.Time // of the first arrival
	times arrivals
}

func newAzure(im *Importer, src *source) (reader, error) {
	r, err := im.records(src, nil)
	return &azure{records: r}, err
}

// azureTimes are the forms of a time stamp: seven digits after the second in 2023, six and a zone in 2024.
// A fraction of any length is taken by the parser without being named.
var azureTimes = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339}

func (a *azure) next() (Item, error) {
	item, rec, err := a.record()
	if err != nil || item.problem != nil {
		return item, err
	}
	item.exact = true
	row := cells(rec.Data)
	var at time.Time
	stamp, _ := rawjson.Scalar(row["timestamp"])
	for _, form := range azureTimes {
		if at, err = time.Parse(form, stamp); err == nil {
			break
		}
	}
	if err != nil {
		item.problem = badRecord("the time stamp %q", clip(stamp))
		return item, nil
	}
	in, out, p := row.lengths("contexttokens", "generatedtokens")
	if item.problem = p; p != nil {
		return item, nil
	}
	if a.first.IsZero() {
		a.first = at
	}
	start := a.times.since(float64(at.Sub(a.first))/1e6, &item)
	number := item.where.Record
	item.work = a.im.lengths(fmt.Sprintf("azure-%d", number), start, nil, []exchange{{in: in, fresh: in, out: out, index: uint64(number)}})
	return item, nil
}

// row is a record of a trace of lengths, its fields by their plain names.
type row map[string]json.RawMessage

func cells(data []byte) row {
	r := row{}
	_ = rawjson.Walk(data, func(k, v []byte) bool { // damage shows as fields that are not there
		if name := plainName(string(k)); r[name] == nil {
			r[name] = v
		}
		return true
	})
	return r
}

// lengths gives the tokens of the prompt and of the answer, neither of which may be 0.
func (r row) lengths(prompt, answer string) (in, out int, p *problem) {
	for _, c := range []struct {
		name string
		to   *int
		most int
	}{{prompt, &in, maxPromptTokens}, {answer, &out, maxOutputTokens}} {
		var n number
		if err := n.UnmarshalJSON(r[c.name]); err != nil || !n.given {
			return 0, 0, badRecord("%s is %q", c.name, clip(string(r[c.name])))
		}
		if *c.to, p = n.count(c.name, c.most); p != nil {
			return 0, 0, p
		}
	}
	switch {
	case in == 0:
		return 0, 0, because("no prompt tokens")
	case out == 0:
		return 0, 0, because("no answer tokens: a failed request")
	}
	return in, out, nil
}

// exchange is a turn of a trace that records lengths only.
type exchange struct {
	in, fresh, out int
	index          uint64 // makes its text unique
	think          *float64
}

// lengths is the work of making a conversation of lengths.
func (im *Importer) lengths(id string, start float64, tags map[string]string, list []exchange) func() (made, *problem) {
	return func() (made, *problem) {
		if tags == nil {
			tags = map[string]string{}
		}
		c := schemas.Conversation{ConversationID: id, StartOffsetMS: &start, Tags: tags}
		say := func(role string, index uint64, n int) error {
			m := schemas.Message{Role: role}
			if !im.opts.Outline {
				text, err := im.blocks.unique(index, n)
				if err != nil {
					return err
				}
				m.Content = &text
			}
			c.Messages = append(c.Messages, m)
			return nil
		}
		for i, e := range list {
			if err := say("user", 2*e.index, e.fresh); err != nil {
				return made{}, fatal(err)
			}
			prompt, fresh, out, known := int64(e.in), int64(e.fresh), int64(e.out), int64(e.in-e.fresh)
			c.Turns = append(c.Turns, schemas.Turn{MessageIndex: int64(len(c.Messages)), NewTokens: &fresh, PromptTokens: &prompt,
				OutputTokens: &out, ThinkTimeMS: e.think, ExpectedCachedTokens: &known})
			if i < len(list)-1 {
				if err := say("assistant", 2*e.index+1, e.out); err != nil {
					return made{}, fatal(err)
				}
			}
		}
		if im.opts.Outline {
			c.Messages = nil
		}
		return made{rows: []schemas.Conversation{c}}, nil
	}
}
