package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"math"
	"slices"
)

// ContentHash hashes the rows of a dataset in order. It depends on what the rows say only, not on how
// the file encodes them, so that a copy with another compression, the same rows in several parts, and the same
// dataset made on another machine, of whatever processor, can be told to be the same.
type ContentHash struct{ h hash.Hash }

// NewContentHash begins an empty hash.
func NewContentHash() *ContentHash { return &ContentHash{sha256.New()} }

// Add adds the next conversation by its own hash; see HashConversation.
func (c *ContentHash) Add(sum [sha256.Size]byte) { c.h.Write(sum[:]) }

// String gives "sha256:" and the hash in hexadecimal digits.
func (c *ContentHash) String() string { return "sha256:" + hex.EncodeToString(c.h.Sum(nil)) }

// HashConversation hashes one conversation: every column but Index and ContentHash, each value with its length
// before it and each null told apart from an empty value.
func HashConversation(c *Conversation) [sha256.Size]byte {
	h := hasher{sha256.New(), nil}
	h.str(c.ConversationID)
	h.num(int64(len(c.Messages)))
	for _, m := range c.Messages {
		h.str(m.Role)
		for _, s := range []*string{m.Content, m.Parts, m.Name, m.ToolCallID, m.ToolCalls} {
			h.opt(s)
		}
		h.later("reasoning_content", m.Reasoning)
	}
	h.opt(c.Tools)
	h.num(int64(len(c.Turns)))
	for _, t := range c.Turns {
		h.num(t.MessageIndex)
		for _, n := range []*int64{t.NewTokens, t.PromptTokens, t.OutputTokens, t.ExpectedCachedTokens} {
			h.optNum(n)
		}
		h.optFloat(t.ThinkTimeMS)
		h.later("body", t.Body)
		if t.ToolTimeMS != nil {
			h.str("tool_time_ms")
			h.optFloat(t.ToolTimeMS)
		}
		if len(t.Joins) > 0 {
			h.str("joins")
			h.num(int64(len(t.Joins)))
			for _, id := range t.Joins {
				h.str(id)
			}
		}
	}
	h.optFloat(c.StartOffsetMS)
	h.opt(c.ParentID)
	h.optNum(c.ParentTurn)
	h.optFloat(c.ParentDelayMS)
	h.later("parent_from", c.ParentFrom)
	h.opt(c.PrefixGroup)
	h.opt(c.Body)
	h.num(int64(len(c.Tags)))
	for _, k := range sortedKeys(c.Tags) {
		h.str(k)
		h.str(c.Tags[k])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

type hasher struct {
	hash.Hash
	buf []byte
}

func (h *hasher) num(n int64) {
	h.buf = binary.LittleEndian.AppendUint64(h.buf[:0], uint64(n))
	h.Write(h.buf)
}

func (h *hasher) str(s string) {
	h.num(int64(len(s)))
	for len(s) > 0 { // by pieces, as a text may be long
		n := min(len(s), 32<<10)
		h.buf = append(h.buf[:0], s[:n]...)
		h.Write(h.buf)
		s = s[n:]
	}
}

func (h *hasher) opt(s *string) {
	if s == nil {
		h.num(-1)
		return
	}
	h.str(*s)
}

// later hashes a column that format 1.0 did not have: null leaves the hash as it was there.
func (h *hasher) later(name string, s *string) {
	if s != nil {
		h.str(name)
		h.str(*s)
	}
}

func (h *hasher) optNum(n *int64) {
	if n == nil {
		h.num(0)
		return
	}
	h.num(1)
	h.num(*n)
}

func (h *hasher) optFloat(f *float64) {
	if f == nil {
		h.num(0)
		return
	}
	h.num(1)
	h.num(int64(math.Float64bits(*f)))
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
