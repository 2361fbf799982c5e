package generate_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/generate"
	"parley/schemas"
)

// sessions gives rows by their identifier, and fails for one that is there twice.
func sessions(t *testing.T, rows []schemas.Conversation) map[string]*schemas.Conversation {
	t.Helper()
	out := map[string]*schemas.Conversation{}
	for i := range rows {
		c := &rows[i]
		if out[c.ConversationID] != nil {
			t.Fatalf("%s is there twice", c.ConversationID)
		}
		out[c.ConversationID] = c
	}
	return out
}

// TestSubAgents makes coding-agent sessions with many more sub-agents than the preset has, and follows every
// edge of them.
func TestSubAgents(t *testing.T) {
	s := preset(t, "coding-agent")
	requests := s.PromptInput.NumRequests.Clamped(5, 12)
	s.PromptInput.NumRequests = &requests
	s.SubAgents.Share, s.SubAgents.Joined = 0.3, 0.7
	rep, rows := run(t, generate.Options{Spec: s, Conversations: 30, Seed: 3})
	byID := sessions(t, rows)
	roots, kids, joined, beside := 0, 0, map[string]string{}, 0
	for _, c := range rows {
		for i, turn := range c.Turns {
			for _, id := range turn.Joins {
				k := byID[id]
				if k == nil || *k.ParentID != c.ConversationID || int(*k.ParentTurn) != i-1 {
					t.Fatalf("turn %d of %s waits for %s, which its answer before did not start", i, c.ConversationID, id)
				}
				joined[id] = c.ConversationID
			}
			if role := c.Messages[turn.MessageIndex-1].Role; (turn.ToolTimeMS != nil) != (role == "tool") || len(turn.Joins) > 0 && role != "tool" {
				t.Errorf("turn %d of %s ends with a %s message and has the tool time %v", i, c.ConversationID, role, turn.ToolTimeMS)
			}
		}
		if c.ParentID == nil {
			roots++
			continue
		}
		kids++
		if *c.ParentFrom != schemas.FromEnd || *c.ParentDelayMS < 200 || *c.ParentDelayMS > 1000 || c.StartOffsetMS != nil || c.Tags["subagent"] == "" || *c.PrefixGroup != "sub-agents" {
			t.Errorf("sub-agent %s: %v ms after the %s", c.ConversationID, *c.ParentDelayMS, *c.ParentFrom)
		}
		if joined[c.ConversationID] == "" {
			beside++
		}
	}
	if roots != 30 || kids < 20 || beside == 0 || beside*2 > kids || rep.Conversations != int64(roots+kids) || rep.SubAgents != int64(kids) {
		t.Errorf("%d sessions with %d sub-agents, %d of them not waited for", roots, kids, beside)
	}
	// The system message of sub-agents is theirs alone, and only the first of all does not find it cached.
	var system string
	uncached := 0
	firsts := map[string]bool{}
	for _, c := range rows {
		if c.ParentID == nil {
			continue
		}
		if m := *c.Messages[0].Content; system == "" {
			system = m
		} else if m != system {
			t.Fatal("two sub-agents have different system messages")
		}
		if *c.Turns[0].ExpectedCachedTokens == 0 {
			uncached++
		}
		first := *c.Messages[1].Content
		if len(strings.Fields(first)) > 8 {
			first = strings.Join(strings.Fields(first)[:8], " ")
		}
		if firsts[first] {
			t.Errorf("two sub-agents begin with %q", first)
		}
		firsts[first] = true
	}
	if uncached != 1 {
		t.Errorf("%d sub-agents do not expect their system message in the cache, want the first alone", uncached)
	}
}

// TestSubAgentsInShards asks that a tree is never torn apart, and that the parts are the whole.
func TestSubAgentsInShards(t *testing.T) {
	s := preset(t, "coding-agent")
	requests := s.PromptInput.NumRequests.Clamped(3, 6)
	s.PromptInput.NumRequests = &requests
	s.SubAgents.Share = 0.3
	rep, whole := run(t, generate.Options{Spec: s, Conversations: 12, Seed: 5})
	var parts []string
	dir := t.TempDir()
	for i := range 3 {
		_, rows := run(t, generate.Options{Spec: s, Conversations: 12, Seed: 5, Shard: i, Shards: 3, Output: filepath.Join(dir, fmt.Sprintf("part-%d.parquet", i))})
		byID := sessions(t, rows)
		for _, c := range rows {
			if c.ParentID != nil && byID[*c.ParentID] == nil {
				t.Errorf("part %d has %s without its parent", i, c.ConversationID)
			}
			parts = append(parts, fmt.Sprintf("%s %x", c.ConversationID, schemas.HashConversation(&c)))
		}
	}
	var all []string
	for _, c := range whole {
		all = append(all, fmt.Sprintf("%s %x", c.ConversationID, schemas.HashConversation(&c)))
	}
	d, err := schemas.OpenDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	i := 0
	for c, err := range d.Conversations(0) {
		if err != nil || c.ConversationID != whole[i].ConversationID {
			t.Fatalf("conversation %d of the parts is %s, that of the whole %s: %v", i, c.ConversationID, whole[i].ConversationID, err)
		}
		i++
	}
	if m := d.Meta(); i != len(whole) || m.ContentHash != rep.ContentHash || m.Turns != rep.Turns {
		t.Errorf("the parts have %d conversations and %d turns of the hash %s, the whole %d and %d of %s", i, m.Turns, m.ContentHash, len(whole), rep.Turns, rep.ContentHash)
	}
	slices.Sort(parts)
	slices.Sort(all)
	if !slices.Equal(parts, all) {
		t.Errorf("three parts have %d conversations, the whole %d, and they are not the same", len(parts), len(all))
	}
}
