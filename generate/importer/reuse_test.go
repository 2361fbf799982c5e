package importer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"parley/schemas"
)

// TestReuse holds what turns expect of an infinite cache against all earlier prompts and answers, token by token:
// templates that share a beginning inside of a message, branches of a conversation, and answers that come again.
func TestReuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu")
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
		return b.String()
	}
	type message map[string]any
	var said [][]message
	templates := []string{text(70), text(33), text(5)}
	for i := range 150 {
		var list []message
		if k := r.IntN(4); k < len(templates) {
			role := []string{"system", "user"}[r.IntN(2)]
			list = append(list, message{"role": role, "content": templates[k] + text(1+r.IntN(20))})
		}
		if i > 0 && r.IntN(3) == 0 { // goes on from a part of an earlier one
			from := said[r.IntN(i)]
			list = append([]message{}, from[:r.IntN(len(from)+1)]...)
		}
		for n := r.IntN(3); len(list) == 0 || n >= 0; n-- {
			role := "user"
			if m := len(list); m > 0 && list[m-1]["role"] == "user" {
				role = "assistant"
			}
			list = append(list, message{"role": role, "content": text(1 + r.IntN(30))})
		}
		said = append(said, list)
	}
	var lines strings.Builder
	for _, list := range said {
		b, err := json.Marshal(map[string]any{"messages": list})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s\n", b)
	}
	rows, _ := read(t, write(t, "chats.jsonl", lines.String()), Options{})
	var earlier [][]string
	inside, turns := 0, 0
	for _, c := range rows {
		all, ends := tokensOf(t, &c)
		most := 0
		for _, e := range earlier {
			n := 0
			for n < len(all) && n < len(e) && all[n] == e[n] {
				n++
			}
			most = max(most, n)
		}
		earlier = append(earlier, all)
		history := 0
		for i, turn := range c.Turns {
			want := max(history, min(most, ends[turn.MessageIndex]))
			if got := num(turn.ExpectedCachedTokens); got != int64(want) || num(turn.PromptTokens) != int64(ends[turn.MessageIndex]) {
				t.Fatalf("%s, turn %d: %d of %d prompt tokens are expected in the cache, want %d of %d", c.ConversationID, i, got, num(turn.PromptTokens), want, ends[turn.MessageIndex])
			}
			if turns++; most > 0 && most < ends[1] {
				inside++
			}
			if history = ends[turn.MessageIndex]; int(turn.MessageIndex) < len(c.Messages) {
				history = ends[turn.MessageIndex+1]
			}
		}
	}
	if inside < 20 || turns < 200 {
		t.Errorf("%d of %d turns part from earlier ones inside of their first message: too few to tell", inside, turns)
	}
}

// tokensOf gives the tokens of a conversation, each with its role, and how many the first messages have.
func tokensOf(t *testing.T, c *schemas.Conversation) (all []string, ends []int) {
	ends = append(ends, 0)
	for i, m := range c.Messages {
		for k, id := range tok(t).Encode(*m.Content) {
			token := fmt.Sprint(id)
			if k == 0 {
				token = fmt.Sprint(i, m.Role, id)
			}
			all = append(all, token)
		}
		ends = append(ends, len(all))
	}
	return all, ends
}
