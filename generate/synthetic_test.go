package generate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/generate"
	"parley/generate/importer"
	"parley/schemas"
)

// few is the number of tokens after which texts that share nothing must differ.
const few = 6

// specs are the presets and the two example configs, cut to a size for tests.
func specs(t testing.TB) map[string]generate.Options {
	out := map[string]generate.Options{
		"vllm":    {Spec: config(t, "vllm_generate_multi_turn.json")},
		"example": {Spec: config(t, "example.yaml"), Conversations: 30},
	}
	for _, name := range generate.Presets() {
		o := generate.Options{Spec: preset(t, name), Conversations: 30}
		if name == "coding-agent" {
			o.Conversations, o.Spec.MaxPrompt = 3, 45_000
		}
		out[name] = o
	}
	return out
}

// Every figure of every turn must be what encoding the messages again gives, the first prompts must share
// what was asked for and no more, and the expected cached tokens must be the ceiling that comparing every
// prompt with all earlier ones gives.
func TestFiguresAreWhatTheMessagesSay(t *testing.T) {
	for name, o := range specs(t) {
		t.Run(name, func(t *testing.T) {
			tok := load(t, "o200k_base")
			o.Seed = 11
			rep, rows := run(t, o)
			n := o.Conversations
			if n == 0 {
				n = o.Spec.NumConversations
			}
			if len(rows) != n || rep.Conversations != int64(n) {
				t.Fatalf("%d rows, reported %d, asked for %d", len(rows), rep.Conversations, n)
			}
			var firsts [][]int
			var tokens, turns int64
			for i, c := range rows {
				checkShape(t, c)
				turns += int64(len(c.Turns))
				var all []int // the messages so far
				var sent []int64
				for _, m := range c.Messages {
					sent = append(sent, words(all))
					all = append(all, prompt(t, tok, m)...)
				}
				sent = append(sent, words(all))
				before := int64(0) // the previous prompt with its answer
				for k, turn := range c.Turns {
					now := sent[turn.MessageIndex]
					if *turn.PromptTokens != now {
						t.Fatalf("conversation %d, turn %d: prompt_tokens %d, encoded %d", i, k, *turn.PromptTokens, now)
					}
					if *turn.NewTokens != now-before {
						t.Fatalf("conversation %d, turn %d: new_tokens %d, encoded %d", i, k, *turn.NewTokens, now-before)
					}
					after := sent[turn.MessageIndex+1]
					if *turn.OutputTokens != after-now {
						t.Fatalf("conversation %d, turn %d: output_tokens %d, encoded %d", i, k, *turn.OutputTokens, after-now)
					}
					if k > 0 && *turn.ExpectedCachedTokens != before {
						t.Fatalf("conversation %d, turn %d: expected_cached_tokens %d of a history of %d", i, k, *turn.ExpectedCachedTokens, before)
					}
					before = after
				}
				tokens += before
				var first []int
				for _, m := range c.Messages[:c.Turns[0].MessageIndex] {
					first = append(first, prompt(t, tok, m)...)
				}
				ceiling := int64(0)
				for _, other := range firsts {
					ceiling = max(ceiling, words(commonPrefix(first, other)))
				}
				if e := *c.Turns[0].ExpectedCachedTokens; ceiling < e || ceiling > e+few {
					t.Fatalf("conversation %d: first prompt shares %d tokens with an earlier one, expected_cached_tokens %d", i, ceiling, e)
				}
				firsts = append(firsts, first)
			}
			if rep.Tokens != tokens || rep.Turns != turns {
				t.Errorf("reported %d tokens and %d turns, counted %d and %d", rep.Tokens, rep.Turns, tokens, turns)
			}
		})
	}
}

func checkShape(t *testing.T, c schemas.Conversation) {
	t.Helper()
	derived := schemas.DeriveTurns(c.Messages)
	if len(derived) != len(c.Turns) {
		t.Fatalf("%s: %d turns, the messages give %d", c.ConversationID, len(c.Turns), len(derived))
	}
	open := map[string]bool{}
	for i, m := range c.Messages {
		if m.ToolCalls != nil {
			_, id, _ := strings.Cut(*m.ToolCalls, `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			open[id] = true
		}
		if m.Role == "tool" {
			if !open[*m.ToolCallID] {
				t.Fatalf("%s: message %d answers no call: %q", c.ConversationID, i, *m.ToolCallID)
			}
			delete(open, *m.ToolCallID)
		}
		if m.Content == nil && m.ToolCalls == nil {
			t.Fatalf("%s: message %d has neither content nor tool calls", c.ConversationID, i)
		}
	}
	if len(open) > 0 {
		t.Fatalf("%s: calls without a result: %v", c.ConversationID, open)
	}
	if c.Turns[0].ThinkTimeMS != nil {
		t.Fatalf("%s: think time before the first turn", c.ConversationID)
	}
}

func TestVLLMExample(t *testing.T) {
	tok := load(t, "o200k_base")
	rep, rows := run(t, generate.Options{Spec: config(t, "vllm_generate_multi_turn.json"), Seed: 3})
	if len(rep.Notes) == 0 || !strings.Contains(rep.Notes[0], "reused in shuffled order") {
		t.Errorf("no note that the text was too short: %q", rep.Notes)
	}
	lengths := map[int]bool{}
	for _, c := range rows {
		n := len(c.Messages)
		lengths[n] = true
		if n < 12 || n > 18 || n%2 != 0 {
			t.Errorf("%s: %d messages", c.ConversationID, n)
		}
		if *c.PrefixGroup != "common" {
			t.Errorf("%s: prefix group %q", c.ConversationID, *c.PrefixGroup)
		}
		for k, turn := range c.Turns {
			fresh := *turn.NewTokens
			if k == 0 {
				if fresh < 500+120 || fresh > 500+5000+160 {
					t.Errorf("%s: first prompt of %d tokens", c.ConversationID, fresh)
				}
			} else if fresh < 120 || fresh > 160 {
				t.Errorf("%s: message of %d tokens", c.ConversationID, fresh)
			}
			if o := *turn.OutputTokens; o < 80 || o > 120 {
				t.Errorf("%s: answer of %d tokens", c.ConversationID, o)
			}
		}
	}
	if len(lengths) < 3 {
		t.Errorf("numbers of messages: %v", lengths)
	}
	// The text is the book's: long runs of it stand in the messages.
	book, err := os.ReadFile("testdata/book.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, quote := range []string{string(book[400:700]), string(book[2700:2900])} { // of the common prefix, and of what follows
		if !strings.Contains(*rows[0].Messages[0].Content, quote) {
			t.Errorf("the first conversation does not quote passage %d of the book", i)
		}
	}
	a := tok.Encode(*rows[0].Messages[0].Content)
	b := tok.Encode(*rows[23].Messages[0].Content)
	if n := len(commonPrefix(a, b)); n < 500 || n > 500+few {
		t.Errorf("first messages share %d tokens", n)
	}
}

// With enough text, neighbouring conversations share none of it.
func TestNeighboursShareNoText(t *testing.T) {
	dir := t.TempDir()
	_, rows := run(t, generate.Options{Spec: parse(t, `{"num_conversations":1,"prompt_input":{"num_turns":{"distribution":"constant","value":2},
		"num_tokens":{"distribution":"constant","value":30000}},"prompt_output":{"num_tokens":{"distribution":"constant","value":1}}}`)})
	name := filepath.Join(dir, "corpus.txt")
	if err := os.WriteFile(name, []byte(*rows[0].Messages[0].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := parse(t, fmt.Sprintf(`{"num_conversations":60,"text_files":[%q],"prompt_input":{"num_turns":{"distribution":"uniform","min":2,"max":8},
		"num_tokens":{"distribution":"uniform","min":10,"max":600}},"prompt_output":{"num_tokens":{"distribution":"uniform","min":1,"max":300}}}`, name))
	_, rows = run(t, generate.Options{Spec: s, Seed: 5})
	tok := load(t, "o200k_base")
	const window = 16
	before := map[string]bool{}
	for i, c := range rows {
		now := map[string]bool{}
		for _, m := range c.Messages {
			tokens := tok.Encode(*m.Content)
			for j := 0; j+window <= len(tokens); j++ {
				k := fmt.Sprint(tokens[j : j+window])
				if before[k] {
					t.Fatalf("conversations %d and %d share %d tokens", i-1, i, window)
				}
				now[k] = true
			}
		}
		before = now
	}
}

func TestSameBytesAtAnyNumberOfWorkers(t *testing.T) {
	for name, o := range specs(t) {
		t.Run(name, func(t *testing.T) {
			var files []string
			for _, workers := range []int{1, 7} {
				o.Output, o.Workers, o.Seed = filepath.Join(t.TempDir(), "x.parquet"), workers, 9
				run(t, o)
				b, err := os.ReadFile(o.Output)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, string(b))
			}
			if files[0] != files[1] {
				t.Error("the file depends on the number of workers")
			}
		})
	}
}

func TestShardsMakeTheWhole(t *testing.T) {
	for name, o := range specs(t) {
		t.Run(name, func(t *testing.T) {
			o.Seed = 4
			rep, whole := run(t, o)
			parts, dir := make([][]schemas.Conversation, 3), t.TempDir()
			for i := range parts {
				o.Shard, o.Shards, o.Output = i, 3, filepath.Join(dir, fmt.Sprintf("%d.parquet", i))
				_, parts[i] = run(t, o)
			}
			d, err := schemas.OpenDataset(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if hash := d.Meta().ContentHash; hash != rep.ContentHash {
				t.Errorf("the parts have the content hash %s, the whole %s", hash, rep.ContentHash)
			}
			for i, c := range whole {
				part := parts[i%3]
				if i/3 >= len(part) || schemas.HashConversation(&part[i/3]) != schemas.HashConversation(&c) {
					t.Fatalf("conversation %d is not in its shard", i)
				}
			}
			if n := len(parts[0]) + len(parts[1]) + len(parts[2]); n != len(whole) {
				t.Errorf("%d conversations in the shards, %d in the whole", n, len(whole))
			}
		})
	}
}

// A larger dataset begins with the smaller one, and another seed gives another dataset.
func TestNumberDoesNotChangeConversations(t *testing.T) {
	_, small := run(t, generate.Options{Spec: preset(t, "chat"), Conversations: 20, Seed: 1})
	_, large := run(t, generate.Options{Spec: preset(t, "chat"), Conversations: 50, Seed: 1})
	_, other := run(t, generate.Options{Spec: preset(t, "chat"), Conversations: 20, Seed: 2})
	for i := range small {
		if schemas.HashConversation(&small[i]) != schemas.HashConversation(&large[i]) {
			t.Fatalf("conversation %d changes with the number of conversations", i)
		}
		if schemas.HashConversation(&small[i]) == schemas.HashConversation(&other[i]) {
			t.Fatalf("conversation %d is the same with another seed", i)
		}
	}
}

func TestFilters(t *testing.T) {
	o := generate.Options{Spec: preset(t, "chat"), Conversations: 80, Filter: importer.Filter{MinTurns: 2, MaxTurns: 5, MaxPromptTokens: 1500}}
	rep, rows := run(t, o)
	if len(rows) != 80 {
		t.Fatalf("%d conversations", len(rows))
	}
	for _, c := range rows {
		if n := len(c.Turns); n < 2 || n > 5 || *c.Turns[n-1].PromptTokens > 1500 {
			t.Errorf("%s: %d turns, last prompt of %d tokens", c.ConversationID, n, *c.Turns[n-1].PromptTokens)
		}
	}
	for _, why := range []string{"fewer than 2 turns", "more than 5 turns", "prompt of more than 1500 tokens"} {
		if rep.Skipped[why] == 0 {
			t.Errorf("nothing skipped for %q: %v", why, rep.Skipped)
		}
	}
}

// The presets must have the figures that they were rounded from.
func TestPresetsHaveTheirFigures(t *testing.T) {
	quantile := func(x []float64, p float64) float64 {
		slices.Sort(x)
		return x[int(p*float64(len(x)-1))]
	}
	within := func(t *testing.T, what string, got, want, tolerance float64) {
		t.Helper()
		if got < want*(1-tolerance) || got > want*(1+tolerance) {
			t.Errorf("%s: %.4g, want %.4g within %.0f %%", what, got, want, 100*tolerance)
		}
	}
	figures := func(name string, n int) (turns, input, output, think []float64, rows []schemas.Conversation) {
		_, rows = run(t, generate.Options{Spec: preset(t, name), Conversations: n, Seed: 21})
		for _, c := range rows {
			turns = append(turns, float64(len(c.Turns)))
			for k, turn := range c.Turns {
				if k > 0 || name == "api" {
					input = append(input, float64(*turn.NewTokens))
				}
				output = append(output, float64(*turn.OutputTokens))
				if turn.ThinkTimeMS != nil {
					think = append(think, *turn.ThinkTimeMS/1000)
				}
			}
		}
		return turns, input, output, think, rows
	}
	mean := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return sum / float64(len(x))
	}

	turns, input, output, think, rows := figures("chat", 1500)
	differEarly(t, rows)
	one := 0.0
	for _, n := range turns {
		if n == 1 {
			one++
		}
	}
	within(t, "chat: share of one request", one/float64(len(turns)), 0.36, 0.1)
	if m := quantile(turns, 0.5); m != 2 {
		t.Errorf("chat: median of %v requests", m)
	}
	within(t, "chat: mean requests", mean(turns), 3.4, 0.1)
	if m := slices.Max(turns); m > 20 {
		t.Errorf("chat: %v requests", m)
	}
	within(t, "chat: median input", quantile(input, 0.5), 60, 0.1)
	within(t, "chat: mean input", mean(input), 200, 0.15)
	within(t, "chat: median output", quantile(output, 0.5), 200, 0.1)
	within(t, "chat: mean output", mean(output), 350, 0.1)
	within(t, "chat: median gap", quantile(think, 0.5), 100, 0.1)
	within(t, "chat: p90 gap", quantile(think, 0.9), 480, 0.15)

	_, input, output, _, rows = figures("api", 2500)
	differEarly(t, rows)
	within(t, "api: median input", quantile(input, 0.5), 1469, 0.06)
	within(t, "api: p90 input", quantile(input, 0.9), 5188, 0.1)
	within(t, "api: median output", quantile(output, 0.5), 13, 0.1)
	within(t, "api: p90 output", quantile(output, 0.9), 55, 0.15)
	within(t, "api: arrivals per second", float64(len(rows)-1)/(*rows[len(rows)-1].StartOffsetMS-*rows[0].StartOffsetMS)*1000, 2.57, 0.15)
}

// differEarly looks at the first user messages of many conversations: no two begin with the same tokens.
func differEarly(t *testing.T, rows []schemas.Conversation) {
	t.Helper()
	tok := load(t, "o200k_base")
	var firsts [][]int
	for _, c := range rows {
		for _, m := range c.Messages {
			if m.Role == "user" {
				firsts = append(firsts, tok.Encode(*m.Content))
				break
			}
		}
	}
	slices.SortFunc(firsts, slices.Compare)
	for i := 1; i < len(firsts); i++ {
		if n := len(commonPrefix(firsts[i-1], firsts[i])); n > few {
			t.Errorf("two of %d first messages share %d tokens", len(firsts), n)
		}
	}
}
