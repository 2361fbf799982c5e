package importer

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"parley/schemas"
)

// TestTreesStayWhole reads datasets of parley in which sessions start sub-agents: a limit counts sessions, a filter takes
// a session's sub-agents along, and identifiers that come twice are made unique with all that names them.
func TestTreesStayWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trees.parquet")
	out, err := schemas.Create[schemas.Conversation](path, false)
	if err != nil {
		t.Fatal(err)
	}
	text := "hello"
	row := func(id string, turns int) schemas.Conversation {
		c := schemas.Conversation{ConversationID: id, Tags: map[string]string{}}
		for range turns {
			c.Messages = append(c.Messages, schemas.Message{Role: "user", Content: &text}, schemas.Message{Role: "assistant", Content: &text})
			c.Turns = append(c.Turns, schemas.Turn{MessageIndex: int64(len(c.Messages) - 1)})
		}
		return c
	}
	turn, delay := int64(0), 1.0
	for i := range 4 {
		root := row(fmt.Sprint("s", i), 2+i)
		var kids []schemas.Conversation
		for k := range 2 {
			kid := row(fmt.Sprintf("s%d/%d", i, k), 1)
			kid.ParentID, kid.ParentTurn, kid.ParentDelayMS = &root.ConversationID, &turn, &delay
			root.Turns[1].Joins = append(root.Turns[1].Joins, kid.ConversationID)
			kids = append(kids, kid)
		}
		if err := out.Write(append([]schemas.Conversation{root}, kids...)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(schemas.DatasetMeta{}); err != nil {
		t.Fatal(err)
	}
	names := func(rows []schemas.Conversation) (list []string) {
		for _, c := range rows {
			list = append(list, c.ConversationID)
			if c.ParentID != nil && !slices.Contains(list, *c.ParentID) {
				t.Errorf("%s has the parent %s, which is not there", c.ConversationID, *c.ParentID)
			}
			for _, turn := range c.Turns {
				for _, id := range turn.Joins {
					if !slices.ContainsFunc(rows, func(k schemas.Conversation) bool { return k.ConversationID == id && *k.ParentID == c.ConversationID }) {
						t.Errorf("%s waits for %s, which is not its own", c.ConversationID, id)
					}
				}
			}
		}
		return list
	}
	rows, _ := read(t, path, Options{Limit: 2})
	if got := names(rows); len(got) != 6 {
		t.Errorf("two sessions are %v", got)
	}
	rows, r := read(t, path, Options{Filter: Filter{MinTurns: 4}})
	if got := names(rows); len(got) != 6 || got[0] != "s2" || r.Skipped["started by one that was left out"] != 4 {
		t.Errorf("sessions of four turns and more are %v; left out %v", got, r.Skipped)
	}
	im, err := Open([]string{path, path}, Options{Tokenizer: tok(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	rows = nil
	for c, err := range im.Conversations() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, c)
	}
	if got := names(rows); len(got) != 24 || got[12] != "s0#2" || got[13] != "s0/0#2" {
		t.Errorf("twice the same are %v", got)
	}
}
