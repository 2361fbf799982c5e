package importer

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestShareGPT(t *testing.T) {
	path := write(t, "s.json", `[
  {"id":"abc_5","conversations":[{"from":"human","value":"five"},{"from":"gpt","value":"six"}]},
  {"id":"abc_3","conversations":[{"from":"human","value":"three"},{"from":"bing","value":"four"}]},
  {"id":"solo","conversations":[{"from":"system","value":"be brief"},{"from":"user","value":"hi"},{"from":"chatgpt","value":"hello"},{"from":"human","value":"more"}]},
  {"id":"abc_0","conversations":[{"from":"gpt","value":"dropped"},{"from":"human","value":"one"},{"from":"bard","value":"two"}]},
  {"id":"lone_7","conversations":[{"from":"human","value":"日本語 ünï"},{"from":"gpt","value":"は い"}]},
  {"id":"robot","conversations":[{"from":"alien","value":"x"}]},
  {"id":"none"},
  {"id":"empty","conversations":[]},
  {"id":"bad","conversations":[{"from":"human","value":{"a":1}}]},
  {"id":"solo","conversations":[{"from":"human","value":"again"},{"from":"gpt","value":""}]},
  {"conversations":[{"from":"human","value":"no id"},{"from":"gpt","value":"fine"}]},
  {"id":"answers","conversations":[{"from":"gpt","value":"only"}]}
]`)
	rows, r := read(t, path, Options{})
	var got []string
	for _, c := range rows {
		got = append(got, c.ConversationID+" "+outline(c))
	}
	want := []string{
		"abc u:one|a:two|u:three|a:four|u:five|a:six",
		"solo s:be brief|u:hi|a:hello|u:more",
		"lone_7 u:日本語 ünï|a:は い",
		"solo#2 u:again|a:",
		"conversation-11 u:no id|a:fine",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Format() != "chat" || r.Read != 12 || r.Kept != 7 || r.Skipped["bad record"] != 3 || r.Skipped["no turn: nobody asks for an answer"] != 2 {
		t.Errorf("report %+v", r)
	}
	if p := r.Problems[0].String(); !strings.Contains(p, ":7 (record 6): bad record: message 0: the role \"alien\" is not known") {
		t.Errorf("a problem reads %q", p)
	}
	solo := rows[1]
	if len(solo.Turns) != 2 || solo.Turns[0].MessageIndex != 2 || solo.Turns[1].MessageIndex != 4 || solo.Turns[1].OutputTokens != nil {
		t.Errorf("turns %+v", solo.Turns)
	}
	k := tok(t)
	if got, want := num(solo.Turns[1].PromptTokens), int64(k.Count("be brief")+k.Count("hi")+k.Count("hello")+k.Count("more")); got != want {
		t.Errorf("the second prompt has %d tokens, want %d", got, want)
	}
	if got, want := num(solo.Turns[1].NewTokens), int64(k.Count("more")); got != want {
		t.Errorf("%d new tokens, want %d", got, want)
	}
	if got, want := num(solo.Turns[1].ExpectedCachedTokens), num(solo.Turns[1].PromptTokens)-num(solo.Turns[1].NewTokens); got != want {
		t.Errorf("%d cached tokens expected, want %d", got, want)
	}
	if got := num(rows[3].Turns[0].OutputTokens); got != 1 {
		t.Errorf("an empty answer asks for %d tokens, want 1", got)
	}
}

// TestJoin joins what shows that it was one conversation, and leaves numbered examples apart.
func TestJoin(t *testing.T) {
	const whole, cut, rest = `{"from":"human","value":"q"},{"from":"gpt","value":"a"}`, `{"from":"human","value":"q"}`, `{"from":"gpt","value":"a"}`
	file := func(parts map[int]string) string {
		var all []string
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			all = append(all, fmt.Sprintf(`{"id":"name_%d","conversations":[%s]}`, n, parts[n]))
		}
		slices.Reverse(all)
		return write(t, "s.json", "["+strings.Join(all, ",\n")+"]")
	}
	numbered, many := map[int]string{}, map[int]string{}
	for i := range MaxParts + 1 {
		many[i] = whole
		if i < 10 {
			numbered[i] = whole
		}
	}
	for _, c := range []struct {
		name                string
		parts               map[int]string
		auto, always, never int
		note                string
	}{
		{"numbered by message", map[int]string{0: whole, 2: whole + "," + whole, 6: whole}, 1, 1, 3, "joined from parts"},
		{"counted, cut through an exchange", map[int]string{0: whole + "," + cut, 1: rest + "," + whole, 2: whole}, 1, 1, 3, "joined from parts"},
		{"examples that somebody numbered", numbered, 10, 1, 10, "nothing shows that they are parts of one (--join always joins them): 10"},
		{"some of many examples", map[int]string{3: whole, 17: whole}, 2, 1, 2, "nothing shows"},
		{"more than a conversation has", many, MaxParts + 1, 1, MaxParts + 1, "more than 100 of one name"},
	} {
		path := file(c.parts)
		for join, want := range map[Join]int{"": c.auto, JoinAuto: c.auto, JoinAlways: c.always, JoinNever: c.never} {
			rows, r := read(t, path, Options{Join: join})
			if len(rows) != want || r.Kept != int64(len(c.parts)) {
				t.Errorf("%s: join %q gives %d conversations of %d records, want %d", c.name, join, len(rows), r.Kept, want)
			}
			if join == JoinAuto && !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("%s: the notes do not tell: %q", c.name, r.Notes)
			}
		}
	}
}

func TestShareGPTFromStdinAndCompressed(t *testing.T) {
	text := `[{"id":"a_2","conversations":[{"from":"human","value":"2"},{"from":"gpt","value":"y"}]},
		{"id":"a_0","conversations":[{"from":"human","value":"1"},{"from":"gpt","value":"x"}]}]`
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	for name, opts := range map[string]Options{"-": {Stdin: strings.NewReader(text)}, "- ": {Stdin: &packed}} {
		rows, _ := read(t, strings.TrimSpace(name), opts)
		if len(rows) != 1 || outline(rows[0]) != "u:1|a:x|u:2|a:y" {
			t.Errorf("%q: %v", name, rows)
		}
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestOpenAI(t *testing.T) {
	lines := `{"id":"one","source":"web","messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"look "},{"type":"image_url","image_url":{"url":"https://x/y.png?a=1&b=<2>"}},{"type":"text","text":"here"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"q\": 1}"}}]},{"role":"tool","tool_call_id":"c1","content":"found"},{"role":"assistant","content":"done"}],"tools":[{"type":"function"}]}
{"messages":[{"role":"user","content":"trailing"}]}
{"messages":[{"role":"user","content":"x"},{"role":"assistant"}]}
{"messages":"no list"}
not json
{"messages":[{"role":"user","content":"cut
{"messages":[{"role":"user","content":"after"},{"role":"assistant","content":"ok"}]}
`
	rows, r := read(t, write(t, "o.jsonl", lines), Options{})
	if r.Format() != "chat" || r.Read != 7 || len(rows) != 3 || r.Skipped["bad record"] != 4 {
		t.Fatalf("%d rows, report %+v", len(rows), r)
	}
	c := rows[0]
	if c.ConversationID != "one" || c.Tags["source"] != "web" || *c.Tools != `[{"type":"function"}]` {
		t.Errorf("%+v", c)
	}
	user := c.Messages[1]
	if *user.Content != "look here" || *user.Parts != `[{"type":"text","text":"look "},{"type":"image_url","image_url":{"url":"https://x/y.png?a=1&b=<2>"}},{"type":"text","text":"here"}]` {
		t.Errorf("parts came as %q and %q", *user.Content, *user.Parts)
	}
	if call := c.Messages[2]; call.Content != nil || *call.ToolCalls != `[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"q\": 1}"}}]` {
		t.Errorf("tool call %+v", call)
	}
	if result := c.Messages[3]; *result.ToolCallID != "c1" || result.Role != "tool" {
		t.Errorf("tool result %+v", result)
	}
	if len(c.Turns) != 2 || num(c.Turns[0].OutputTokens) != int64(tok(t).Count("find")+tok(t).Count(`{"q": 1}`)) {
		t.Errorf("turns %+v", c.Turns)
	}
	if rows[1].ConversationID != "conversation-2" || len(rows[1].Turns) != 1 || rows[1].Turns[0].MessageIndex != 1 {
		t.Errorf("%+v", rows[1])
	}
	if outline(rows[2]) != "u:after|a:ok" {
		t.Errorf("after a damaged line: %s", outline(rows[2]))
	}
	// The same records as one array.
	array := "[" + `{"messages":[{"role":"user","content":"a"}]}` + ",\n" + `{"messages":[{"role":"user","content":"unescaped " quote"}]}` + ",\n" +
		`{"messages":[{"role":"user","content":"b"},{"role":"assistant","content":"B"}]}` + "]"
	rows, r = read(t, write(t, "o.json", array), Options{})
	if len(rows) != 2 || outline(rows[1]) != "u:b|a:B" || r.Problems[0].Line != 2 {
		t.Errorf("array: %d rows, %+v", len(rows), r)
	}
}

func TestBatch(t *testing.T) {
	lines := `{"custom_id":"r1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"q1"},{"role":"assistant","content":"a1"},{"role":"user","content":"q2"}],"temperature":0.2,"max_tokens":77,"stream":true,"response_format":{"type":"json_object"}}}
{"custom_id":"r2","method":"POST","url":"/v1/completions","body":{"prompt":"text","top_p":0.5}}
{"custom_id":"r3","method":"POST","url":"/v1/embeddings","body":{"input":"text"}}
{"custom_id":"r4","method":"POST","url":"/v1/responses","body":{"input":"ask","instructions":"rules"}}
`
	rows, r := read(t, write(t, "b.jsonl", lines), Options{})
	if r.Format() != "chat" || len(rows) != 3 || r.Skipped["not a request for text"] != 1 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	c := rows[0]
	if len(c.Turns) != 1 || c.Turns[0].MessageIndex != 3 || num(c.Turns[0].OutputTokens) != 77 || c.Tags["model"] != "m" {
		t.Errorf("%+v", c)
	}
	if *c.Body != `{"response_format":{"type":"json_object"},"temperature":0.2}` {
		t.Errorf("body %s", *c.Body)
	}
	if outline(rows[1]) != "u:text" || *rows[1].Body != `{"top_p":0.5}` || outline(rows[2]) != "s:rules|u:ask" {
		t.Errorf("%s, %s", outline(rows[1]), outline(rows[2]))
	}
}

func TestFilters(t *testing.T) {
	var b strings.Builder
	for n := 1; n <= 5; n++ {
		b.WriteString(`{"messages":[`)
		for i := range n {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `{"role":"user","content":"%s"},{"role":"assistant","content":"a"}`, strings.Repeat("word ", 10*n))
		}
		b.WriteString("]}\n")
	}
	path := write(t, "o.jsonl", b.String())
	turns := func(opts Options) string {
		rows, _ := read(t, path, opts)
		var out []string
		for _, c := range rows {
			out = append(out, fmt.Sprint(len(c.Turns)))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Filter: Filter{MinTurns: 2}}, "2 3 4 5"},
		{Options{Filter: Filter{MaxTurns: 3}}, "1 2 3"},
		{Options{Filter: Filter{MinTurns: 2, MaxTurns: 2}}, "2"},
		{Options{Filter: Filter{MaxPromptTokens: 100}}, "1 2 3"},
		{Options{Limit: 2, Filter: Filter{MinTurns: 2}}, "2 3"},
	} {
		if got := turns(c.opts); got != c.want {
			t.Errorf("%+v: got turns %s, want %s", c.opts, got, c.want)
		}
	}
}

func TestRealShareGPT(t *testing.T) {
	rows, r := read(t, shared(t, "sharegpt_dummy.json"), Options{})
	// 500 records identity_0 to identity_499, 167 of two messages, 166 of four, 167 of six; the number is
	// a counter there, not a part.
	if r.Read != 500 || r.Kept != 500 || len(rows) != 500 || r.Turns != (167*2+166*4+167*6)/2 {
		t.Errorf("%d rows, %+v", len(rows), r)
	}
}

func TestRealQuestions(t *testing.T) {
	rows, r := read(t, shared(t, "mt_bench_question.jsonl"), Options{})
	if r.Format() != "chat" || len(rows) != 80 || r.Turns != 160 {
		t.Errorf("%d rows, %+v", len(rows), r)
	}
	c := rows[0]
	if c.ConversationID != "81" || c.Tags["category"] != "writing" || len(c.Messages) != 3 || c.Messages[1].Content != nil ||
		c.Turns[0].MessageIndex != 1 || c.Turns[1].MessageIndex != 3 || c.Turns[0].OutputTokens != nil {
		t.Errorf("%+v", c)
	}
}

func TestOptionsValidate(t *testing.T) {
	o := Options{Filter: Filter{MinTurns: 5, MaxTurns: 2, MaxPromptTokens: -1}, JitterMS: -1, Join: "x", Format: "y"}
	err := o.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`format "y"`, `join "x"`, "max_prompt_tokens: -1", "min_turns: 5 is more than max_turns, 2", "jitter"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell %q", err, want)
		}
	}
	if _, err := Open([]string{"/nonexistent/file"}, Options{Tokenizer: tok(t)}); err == nil || !strings.Contains(err.Error(), "/nonexistent/file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestParquet(t *testing.T) {
	rows, r := read(t, "testdata/messages.parquet", Options{})
	if r.Format() != "chat" || r.Read != 7 || len(rows) != 3 || r.Skipped["bad record"] != 3 || r.Skipped["no turn: nobody asks for an answer"] != 1 {
		t.Errorf("%d rows, %+v", len(rows), r)
	}
	if p := fmt.Sprint(r.Problems); !strings.Contains(p, `messages.parquet: row 5: bad record: message 0: the role "martian" is not known`) {
		t.Errorf("problems %s", p)
	}
	rows, _ = read(t, "testdata/wildchat.parquet", Options{})
	if turn := rows[0].Turns[1]; *turn.ThinkTimeMS != 45500 || num(turn.PromptTokens) < 4 || num(turn.OutputTokens) < 1 {
		t.Errorf("turn %+v", turn)
	}
	// What parley wrote can be imported again, with the tokens of another tokenizer.
	rows, r = read(t, "../../schemas/testdata/conversations-1.0.parquet", Options{})
	if len(rows) == 0 || r.Format() != "conversations" {
		t.Errorf("%d rows, %+v", len(rows), r)
	}
}

// TestShareGPTRepeated holds the same conversations several times, as a file made large by repeating does.
func TestShareGPTRepeated(t *testing.T) {
	one := `{"id":"a_2","conversations":[{"from":"human","value":"2"},{"from":"gpt","value":"y"}]},
{"id":"a_0","conversations":[{"from":"human","value":"1"},{"from":"gpt","value":"x"}]},
{"id":"b","conversations":[{"from":"human","value":"b"},{"from":"gpt","value":"B"}]}`
	rows, r := read(t, write(t, "s.json", "["+one+",\n"+one+",\n"+one+"]"), Options{})
	var got []string
	for _, c := range rows {
		got = append(got, c.ConversationID+" "+outline(c))
	}
	want := "a u:1|a:x|u:2|a:y, b u:b|a:B, a#2 u:1|a:x|u:2|a:y, b#2 u:b|a:B, a#3 u:1|a:x|u:2|a:y, b#3 u:b|a:B"
	if strings.Join(got, ", ") != want || r.Kept != 9 {
		t.Errorf("got %s, %+v", strings.Join(got, ", "), r)
	}
}

func TestUniqueIdentifiers(t *testing.T) {
	s := idSet{}
	var got []string
	for _, id := range []string{"a", "a#2", "a", "a", "b", "a", "a#5", "b", "b#2", "b#2"} {
		got = append(got, s.unique(id))
	}
	if strings.Join(got, " ") != "a a#2 a#3 a#4 b a#5 a#5#2 b#2 b#2#2 b#2#3" {
		t.Errorf("got %v", got)
	}
}

// TestFinishByManyGoroutines has the work done side by side; the result must be that of one alone.
func TestFinishByManyGoroutines(t *testing.T) {
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, `{"timestamp": %d, "input_length": %d, "output_length": 5, "hash_ids": [1, %d]}`+"\n", i*1000, 513+i, 2+i%7)
	}
	path := write(t, "m.jsonl", lines.String())
	want, _ := read(t, path, Options{})
	im, err := Open([]string{path}, Options{Tokenizer: tok(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	var items []Item
	for item, err := range im.Items() {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	results := make([]Result, len(items))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < len(items); i += 4 {
				res, err := im.Finish(items[i])
				if err != nil {
					t.Error(err)
				}
				results[i] = res
			}
		})
	}
	wg.Wait()
	for i, res := range results {
		rows, _ := im.Commit(res)
		if len(rows) != 1 || *rows[0].Messages[0].Content != *want[i].Messages[0].Content || rows[0].ConversationID != want[i].ConversationID {
			t.Fatalf("item %d differs", i)
		}
	}
}
