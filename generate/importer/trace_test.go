package importer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"testing"

	"parley/schemas"
)

// tokenBlocks gives the chained hashes of the blocks of a prompt's tokens: what a prefix cache goes by.
func tokenBlocks(tokens []int, size int) []uint64 {
	var out []uint64
	var h maphash.Hash
	h.SetSeed(idSeed)
	for i := 0; i < len(tokens); i += size {
		for _, t := range tokens[i:min(i+size, len(tokens))] {
			maphash.WriteComparable(&h, t)
		}
		out = append(out, h.Sum64()) // of all tokens so far
	}
	return out
}

// promptTokens gives the tokens of what a turn sends, message by message.
func promptTokens(t testing.TB, c *schemas.Conversation, turn int) []int {
	var all []int
	for _, m := range c.Messages[:c.Turns[turn].MessageIndex] {
		all = tok(t).AppendEncode(all, *m.Content)
	}
	return all
}

type mooncakeRow struct {
	In  int      `json:"input_length"`
	Out int      `json:"output_length"`
	IDs []uint64 `json:"hash_ids"`
	At  float64  `json:"timestamp"`
}

func mooncakeRows(t *testing.T, path string, most int) (rows []mooncakeRow) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() && len(rows) < most {
		var r mooncakeRow
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// TestRealMooncakeCeiling replays the prompts of the trace into an infinite prefix cache: block for block
// of their tokens it must hit what the trace's hashes hit. PARLEY_FULL=1 takes all 4,000 lines (34,480 of
// 105,904 blocks, 32.56 %) instead of the first 300.
func TestRealMooncakeCeiling(t *testing.T) {
	path := shared(t, "mooncake_conversation_4000.jsonl")
	limit := 300
	if os.Getenv("PARLEY_FULL") != "" {
		limit = 4000
	}
	lines := mooncakeRows(t, path, limit)
	im, err := Open([]string{path}, Options{Tokenizer: tok(t), Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	var byHash, byTokens blockCache
	hits, total, n := 0, 0, 0
	for c, err := range im.Conversations() {
		if err != nil {
			t.Fatal(err)
		}
		want := lines[n]
		tokens := promptTokens(t, &c, 0)
		if len(tokens) != want.In || num(c.Turns[0].PromptTokens) != int64(want.In) || num(c.Turns[0].OutputTokens) != int64(want.Out) || *c.StartOffsetMS != want.At {
			t.Fatalf("line %d: %d tokens, turn %+v, want %+v", n+1, len(tokens), c.Turns[0], want)
		}
		blocks := tokenBlocks(tokens, mooncakeBlock)
		if len(blocks) != len(want.IDs) {
			t.Fatalf("line %d: %d blocks, want %d", n+1, len(blocks), len(want.IDs))
		}
		got, exp := byTokens.hits(blocks), byHash.hits(want.IDs)
		if got != exp {
			t.Fatalf("line %d: %d blocks of tokens hit, by the hashes %d", n+1, got, exp)
		}
		if e := num(c.Turns[0].ExpectedCachedTokens); e != int64(min(exp*mooncakeBlock, want.In)) {
			t.Fatalf("line %d: %d cached tokens expected, by the hashes %d blocks", n+1, e, exp)
		}
		hits, total, n = hits+exp, total+len(blocks), n+1
	}
	if n != limit {
		t.Fatalf("%d conversations, want %d", n, limit)
	}
	if limit == 4000 && (hits != 34480 || total != 105904) {
		t.Errorf("%d of %d blocks hit", hits, total)
	}
	t.Logf("%d of %d blocks hit: %.2f %%", hits, total, 100*float64(hits)/float64(total))
}

func TestMooncake(t *testing.T) {
	lines := `{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [1, 2, 3]}
{"timestamp": 3000, "input_length": 1600, "output_length": 6, "hash_ids": [1, 2, 9, 10]}
{"timestamp": 3000, "input_length": 1300, "output_length": 7, "hash_ids": [1, 2]}
{"timestamp": 6000, "input_length": 1300, "output_length": 7, "hash_ids": [1, 2]}
{"timestamp": 6000, "input_length": 0, "output_length": 7, "hash_ids": []}
{"timestamp": 6000, "output_length": 7, "hash_ids": []}
{"timestamp": 6000, "input_length": 100, "output_length": 7, "hash_ids": [1,2,3,4,5]}
{"timestamp": "x", "input_length": 100, "output_length": 7, "hash_ids": [1]}
{"timestamp": 9000, "input_length": 10000000000, "output_length": 7, "hash_ids": [1]}
`
	path := write(t, "m.jsonl", lines)
	rows, r := read(t, path, Options{})
	if r.Format() != string(Mooncake) || len(rows) != 4 || r.Skipped["bad record"] != 5 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	if !strings.Contains(fmt.Sprint(r.Problems), `"x" is no number`) {
		t.Errorf("problems %v", r.Problems)
	}
	var blocks [][]uint64
	for i := range rows {
		blocks = append(blocks, tokenBlocks(promptTokens(t, &rows[i], 0), mooncakeBlock))
	}
	same := func(a, b int) (n int) {
		for n < min(len(blocks[a]), len(blocks[b])) && blocks[a][n] == blocks[b][n] {
			n++
		}
		return n
	}
	// The last two round down: their third block is nobody else's.
	if same(0, 1) != 2 || same(0, 2) != 2 || same(2, 3) != 2 || len(blocks[2]) != 3 {
		t.Errorf("blocks in common: %d %d %d", same(0, 1), same(0, 2), same(2, 3))
	}
	again, _ := read(t, path, Options{})
	other, _ := read(t, path, Options{Seed: 1})
	if *again[1].Messages[0].Content != *rows[1].Messages[0].Content {
		t.Error("the same seed gives other text")
	}
	if *other[1].Messages[0].Content == *rows[1].Messages[0].Content {
		t.Error("another seed gives the same text")
	}
	jittered, _ := read(t, path, Options{JitterMS: 3000})
	moved := 0
	for i := range jittered {
		d := *jittered[i].StartOffsetMS - *rows[i].StartOffsetMS
		if d < 0 || d >= 3000 {
			t.Errorf("arrival %d moved by %v ms", i, d)
		}
		if d > 0 {
			moved++
		}
	}
	if moved == 0 {
		t.Error("no arrival moved")
	}
}

func TestMooncakeLinked(t *testing.T) {
	lines := `{"timestamp": 0, "input_length": 1030, "output_length": 50, "hash_ids": [1, 2, 3]}
{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [1, 7]}
{"timestamp": 60000, "input_length": 1600, "output_length": 60, "hash_ids": [1, 2, 9, 10]}
{"timestamp": 90000, "input_length": 2100, "output_length": 70, "hash_ids": [1, 2, 9, 11, 12]}
`
	rows, r := read(t, write(t, "m.jsonl", lines), Options{LinkPrefixes: true})
	if len(rows) != 2 || r.Kept != 4 || r.Turns != 4 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	c := rows[0]
	if len(c.Turns) != 3 || *c.Turns[1].ThinkTimeMS != 60000 || *c.Turns[2].ThinkTimeMS != 30000 {
		t.Fatalf("turns %+v", c.Turns)
	}
	for i, want := range []struct{ in, fresh, cached int64 }{{1030, 1030, 0}, {1600, 520, 1080}, {2100, 440, 1660}} {
		turn := c.Turns[i]
		if n := len(promptTokens(t, &c, i)); int64(n) != want.in || num(turn.PromptTokens) != want.in || num(turn.NewTokens) != want.fresh || num(turn.ExpectedCachedTokens) != want.cached {
			t.Errorf("turn %d: %d tokens, %d/%d/%d, want %+v", i, n, num(turn.PromptTokens), num(turn.NewTokens), num(turn.ExpectedCachedTokens), want)
		}
	}
	if got := num(rows[1].Turns[0].ExpectedCachedTokens); got != 512 {
		t.Errorf("the other conversation expects %d cached tokens, want one block", got)
	}
}

func TestQwen(t *testing.T) {
	lines := `{"chat_id": 10, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 40, "output_length": 8, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}
{"chat_id": 11, "parent_chat_id": 10, "timestamp": 11.5, "input_length": 60, "output_length": 9, "type": "text", "turn": 2, "hash_ids": [1, 2, 4, 5]}
{"chat_id": 12, "parent_chat_id": 10, "timestamp": 12.5, "input_length": 60, "output_length": 9, "type": "text", "turn": 2, "hash_ids": [1, 2, 6, 7]}
{"chat_id": 13, "parent_chat_id": 5, "timestamp": 13.5, "input_length": 33, "output_length": 9, "type": "search", "turn": 3, "hash_ids": [8, 9, 20]}
{"chat_id": 14, "parent_chat_id": 11, "timestamp": 14.5, "input_length": 50, "output_length": 9, "type": "text", "turn": 3, "hash_ids": [1, 30, 31, 32]}
{"chat_id": 15, "parent_chat_id": 14, "timestamp": 15.5, "input_length": 0, "output_length": 9, "type": "text", "turn": 4, "hash_ids": []}
`
	rows, r := read(t, write(t, "q.jsonl", lines), Options{})
	if r.Format() != string(Qwen) || r.Read != 6 || r.Kept != 5 || r.Turns != 5 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	var ids []string
	for _, c := range rows {
		ids = append(ids, fmt.Sprintf("%s:%d", c.ConversationID, len(c.Turns)))
	}
	// 12 is 10's second child, 14 changed its parent's prompt, 13's parent is not there.
	if got := strings.Join(ids, " "); got != "qwen-10:2 qwen-14:1 qwen-12:1 qwen-13:1" {
		t.Errorf("conversations %s", got)
	}
	c := rows[0]
	if *c.StartOffsetMS != 0 || *c.Turns[1].ThinkTimeMS != 10000 || num(c.Turns[1].ExpectedCachedTokens) != 48 || c.Tags["type"] != "text" {
		t.Errorf("%+v", c)
	}
	for i, want := range []int{40, 60} {
		if n := len(promptTokens(t, &c, i)); n != want {
			t.Errorf("turn %d has %d tokens, want %d", i, n, want)
		}
	}
	if got := num(rows[2].Turns[0].ExpectedCachedTokens); got != 32 {
		t.Errorf("the second child expects %d cached tokens, want two blocks", got)
	}
	a, b := promptTokens(t, &rows[0], 0), promptTokens(t, &rows[2], 0)
	if ab, bb := tokenBlocks(a, qwenBlock), tokenBlocks(b, qwenBlock); ab[1] != bb[1] || ab[2] == bb[2] {
		t.Error("the two children do not share exactly their parent's blocks")
	}
	for _, want := range []string{"outside of the file: 1", "goes on elsewhere: 1", "do not go on from their parent's prompt: 1"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("notes %q lack %q", r.Notes, want)
		}
	}
}

func TestAgent(t *testing.T) {
	ids := func(from, to int) string {
		var s []string
		for i := from; i <= to; i++ {
			s = append(s, fmt.Sprint(i))
		}
		return strings.Join(s, ",")
	}
	trace := fmt.Sprintf(`{"id":"tr","block_size":16,"hash_id_scope":"local","tool_tokens":20,"system_tokens":13,"requests":[
 {"t":0,"type":"n","model":"big","in":100,"out":30,"hash_ids":[%s],"api_time":2,"think_time":0},
 {"t":10,"type":"s","model":"big","in":200,"out":40,"hash_ids":[%s],"api_time":3,"think_time":7.5},
 {"t":12,"type":"subagent","agent_id":"a1","subagent_type":"Explore","tool_tokens":0,"system_tokens":17,"duration_ms":5000,"requests":[
   {"t":13,"type":"n","model":"small","in":50,"out":5,"hash_ids":[200,201,202],"api_time":1},
   {"t":20,"type":"n","model":"small","in":90,"out":5,"hash_ids":[200,201,202,203,204],"api_time":1,"think_time":100}]},
 {"t":30,"type":"s","model":"big","in":210,"out":40,"hash_ids":[%s],"think_time":1},
 {"t":40,"type":"s","model":"big","in":300,"out":4,"hash_ids":[%s],"think_time":1}
]}`, ids(1, 6), ids(1, 12), ids(1, 7)+","+ids(50, 55), ids(1, 7)+","+ids(50, 60))
	rows, r := read(t, write(t, "a.json", trace), Options{})
	if r.Format() != string(Agent) || len(rows) != 3 || r.Read != 1 || r.Turns != 6 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	root, branch, kid := rows[0], rows[1], rows[2]
	if root.ConversationID != "tr" || len(root.Turns) != 2 || root.ParentID != nil || root.Messages[0].Role != "system" || root.Turns[0].MessageIndex != 2 {
		t.Errorf("root %+v", root)
	}
	if *root.Turns[1].ThinkTimeMS != 7500 || num(root.Turns[1].PromptTokens) != 200 || num(root.Turns[1].NewTokens) != 70 || num(root.Turns[1].ExpectedCachedTokens) != 130 {
		t.Errorf("second turn %+v", root.Turns[1])
	}
	if n := tok(t).Count(*root.Messages[0].Content); n != 33 {
		t.Errorf("the system message has %d tokens, want tools and system together: 33", n)
	}
	// The third request keeps 7 of the second's 12 blocks: 112 tokens, so the system message, the first
	// question and 12 tokens of the answer.
	if branch.ConversationID != "tr/2" || *branch.ParentID != "tr" || *branch.ParentTurn != 1 || len(branch.Turns) != 2 {
		t.Errorf("branch %+v", branch)
	}
	// The sub-agent ended at 21 s (its last request's answer), the next request is of 30 s.
	if w := branch.Turns[0]; *branch.ParentFrom != schemas.FromEnd || *branch.ParentDelayMS != 0 || fmt.Sprint(w.Joins) != "[tr/a1]" || *w.ToolTimeMS != 9000 || w.ThinkTimeMS != nil {
		t.Errorf("the branch, which waits for the sub-agent, begins with %+v", w)
	}
	if got := outlineRoles(branch); got != "s u a u a u" {
		t.Errorf("the branch's messages are %s", got)
	}
	if *branch.Messages[0].Content != *root.Messages[0].Content || *branch.Messages[1].Content != *root.Messages[1].Content {
		t.Error("the branch does not begin with its parent's messages")
	}
	if got := num(branch.Turns[0].ExpectedCachedTokens); got != 112 {
		t.Errorf("the branch expects %d cached tokens, want 7 blocks", got)
	}
	if kid.ConversationID != "tr/a1" || *kid.ParentID != "tr" || *kid.ParentTurn != 1 || *kid.ParentDelayMS != 2000 || kid.ParentFrom != nil || kid.Tags["subagent"] != "Explore" || kid.Tags["model"] != "small" {
		t.Errorf("sub-agent %+v", kid)
	}
	if got := *kid.Turns[1].ThinkTimeMS; got != 6000 {
		t.Errorf("a think time longer than the gap gives %v ms, want the gap without the answer: 6000", got)
	}
	for i := range rows {
		for j, turn := range rows[i].Turns {
			if n := len(promptTokens(t, &rows[i], j)); int64(n) != *turn.PromptTokens {
				t.Errorf("conversation %d turn %d has %d tokens, want %d", i, j, n, *turn.PromptTokens)
			}
		}
	}
}

func outlineRoles(c schemas.Conversation) string {
	var out []string
	for _, m := range c.Messages {
		out = append(out, m.Role[:1])
	}
	return strings.Join(out, " ")
}

// TestRealAgentTraces counts what the four traces hold: requests become turns one to one, and every prompt
// has exactly the tokens that the trace says.
func TestRealAgentTraces(t *testing.T) {
	for _, c := range []struct {
		name          string
		conversations int
		turns         int64
		first         int // block after which the context was rewritten; 0: never
	}{
		{"agent_trace_0002.json", 2, 33, 237}, {"agent_trace_0016.json", 1, 12, 0},
		{"agent_trace_0034.json", 1, 7, 0}, {"agent_trace_0048.json", 2, 21, 237},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := shared(t, c.name)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var trace agentTrace
			if err := json.Unmarshal(data, &trace); err != nil {
				t.Fatal(err)
			}
			rows, r := read(t, path, Options{})
			if len(rows) != c.conversations || r.Turns != c.turns || int64(len(trace.Requests)) != c.turns {
				t.Fatalf("%d conversations, %d turns of %d requests", len(rows), r.Turns, len(trace.Requests))
			}
			n := 0
			for i := range rows {
				for j, turn := range rows[i].Turns {
					q := trace.Requests[n]
					if num(turn.PromptTokens) != int64(q.In) || num(turn.OutputTokens) != int64(q.Out) {
						t.Errorf("request %d: turn %+v, want %d and %d tokens", n, turn, q.In, q.Out)
					}
					if j == len(rows[i].Turns)-1 {
						if got := len(promptTokens(t, &rows[i], j)); got != q.In {
							t.Errorf("request %d: the prompt has %d tokens, want %d", n, got, q.In)
						}
					}
					n++
				}
			}
			if c.first > 0 {
				if got := num(rows[1].Turns[0].ExpectedCachedTokens); got != int64(c.first*64) {
					t.Errorf("the second conversation expects %d cached tokens, want %d blocks", got, c.first)
				}
				a, b := promptTokens(t, &rows[0], 0), promptTokens(t, &rows[1], 0)
				if ab, bb := tokenBlocks(a, 64), tokenBlocks(b, 64); ab[c.first-1] != bb[c.first-1] || ab[c.first] == bb[c.first] {
					t.Errorf("the two conversations do not share exactly %d blocks", c.first)
				}
			}
		})
	}
}

// TestRealTrees counts the edges of the traces with sub-agents. Those that one answer called start together,
// a second after it, and the parent's next turn waits for all of them.
func TestRealTrees(t *testing.T) {
	for _, c := range []struct {
		name   string
		agents int
		joins  map[string]string // by the turn's prompt tokens, which are unique in the trace
		starts map[string]string
	}{
		{"agent_trace_0010.json", 4,
			map[string]string{"trace_0010 1": "trace_0010/agent_001", "ALL": "trace_0010/agent_002 trace_0010/agent_003 trace_0010/agent_004"},
			map[string]string{"agent_001": "0.6", "agent_002": "1.0", "agent_003": "1.0", "agent_004": "1.0"}},
		{"agent_trace_0014.json", 1, map[string]string{"ALL": "trace_0014/agent_001"}, map[string]string{"agent_001": "0.2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, r := read(t, shared(t, c.name), Options{})
			joined := map[string]int{}
			var lists []string
			for _, row := range rows {
				for _, turn := range row.Turns {
					if len(turn.Joins) > 0 {
						lists = append(lists, strings.Join(turn.Joins, " "))
						if turn.ToolTimeMS == nil || *turn.ToolTimeMS < 0 || *turn.ToolTimeMS > 20_000 {
							t.Errorf("after %v the tool time is %v", turn.Joins, turn.ToolTimeMS)
						}
					}
					for _, id := range turn.Joins {
						joined[id]++
					}
				}
			}
			agents := 0
			for _, row := range rows {
				name, ok := row.Tags["subagent"], false
				if name == "" {
					continue
				}
				id := row.ConversationID[strings.Index(row.ConversationID, "/")+1:]
				if want, first := c.starts[id]; first {
					agents, ok = agents+1, true
					if got := fmt.Sprintf("%.1f", *row.ParentDelayMS/1000); got != want || row.ParentFrom == nil {
						t.Errorf("%s starts %s s after its parent's answer, want %s", row.ConversationID, got, want)
					}
				}
				if !ok && row.ParentID == nil {
					t.Errorf("%s has no parent", row.ConversationID)
				}
				if joined[row.ConversationID] != 1 {
					t.Errorf("%s is waited for %d times, want once", row.ConversationID, joined[row.ConversationID])
				}
			}
			if agents != c.agents {
				t.Errorf("%d sub-agents, want %d (report %v)", agents, c.agents, r.Notes)
			}
			if len(lists) != len(c.joins) {
				t.Errorf("turns that wait: %q, want %d", lists, len(c.joins))
			}
		})
	}
}

func TestFolderOfTraces(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b.json", "a.json"} {
		text := fmt.Sprintf(`{"id":%q,"block_size":16,"requests":[{"t":0,"type":"n","in":20,"out":3,"hash_ids":[1]}]}`, n)
		if n == "b.json" {
			text = "{\n \"id\": }\n" + text
		}
		if err := os.WriteFile(dir+"/"+n, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows, r := read(t, dir, Options{})
	if len(rows) != 2 || rows[0].ConversationID != "a.json" || rows[1].ConversationID != "b.json" {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	if len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0].File, "b.json") {
		t.Errorf("problems %v", r.Problems)
	}
	a, b := promptTokens(t, &rows[0], 0), promptTokens(t, &rows[1], 0)
	if fmt.Sprint(a[:16]) == fmt.Sprint(b[:16]) {
		t.Error("identifiers are local to a trace, and the two have the same block 1")
	}
}
