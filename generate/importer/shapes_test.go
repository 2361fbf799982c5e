package importer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parley/schemas"
)

// shapes are records as public datasets have them, and what becomes of them: identifier; messages; and what
// there is besides (see inFull).
var shapes = []struct {
	name    string
	records string // one JSON object a line
	want    string // one conversation a line, then notes
}{
	{"ShareGPT", `{"id":"a","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"r"}]}`,
		`a | u:q a:r`},
	{"ShareGPT that begins with an answer", `{"id":"a","conversations":[{"from":"gpt","value":"hello"},{"from":"human","value":"q"},{"from":"bing","value":"r"}]}`,
		"a | u:q a:r\nanswers at the beginning that nobody asked for, left out: 1"},
	{"ShareGPT split by length", `{"id":"a_0","conversations":[{"from":"human","value":"1"},{"from":"gpt","value":"2"}]}
{"id":"a_2","conversations":[{"from":"human","value":"3"},{"from":"gpt","value":"4"}]}`,
		"a | u:1 a:2 u:3 a:4\nconversations joined from parts: 1\nparts in them: 2"},
	{"ShareGPT whose roles do not alternate", `{"id":"a","conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"z"},{"from":"gpt","value":"z2"},{"from":"human","value":"y"},{"from":"gpt","value":"w"}]}`,
		"a | u:x a:z\\n\\nz2 u:y a:w\nneighbouring messages of one role, merged: 1"},
	{"ShareGPT with user and text", `{"conversation_id":"a","items":[{"user":"human","text":"q"},{"user":"gpt","text":"r"}]}`, `a | u:q a:r`},
	{"LLaMA-Factory with tools", `{"system":"SYS","tools":"[{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}]","conversations":[{"from":"human","value":"q"},{"from":"function_call","value":"{\"name\":\"f\",\"arguments\":{\"a\":1}}"},{"from":"observation","value":"42"},{"from":"gpt","value":"It is 42"}]}`,
		`conversation-1 | s:SYS u:q a:call_0=f({"a":1}) t:42(call_0) a:It is 42 | tools [{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`},
	{"WildChat with times", `{"conversation_hash":"h","model":"gpt-4","conversation":[{"role":"user","content":"Hi","timestamp":null},{"role":"assistant","content":"Hello","timestamp":"2023-04-09T00:02:53Z"},{"role":"user","content":"More","timestamp":null},{"role":"assistant","content":"Sure","timestamp":"2023-04-09T00:03:53Z"}]}`,
		`h | u:Hi a:Hello u:More a:Sure | think 60000 | model=gpt-4`},
	{"LMSYS", `{"conversation_id":"c","model":"koala-13b","conversation":[{"content":"q","role":"user"},{"content":"r","role":"assistant"}],"turn":1,"language":"German","openai_moderation":[{"flagged":false}]}`,
		`c | u:q a:r | language=German model=koala-13b`},
	{"UltraChat's data", `{"id":"7","data":["q1","r1","q2","r2"]}`, `7 | u:q1 a:r1 u:q2 a:r2`},
	{"UltraChat 200k", `{"prompt":"q","prompt_id":"p","messages":[{"content":"q","role":"user"},{"content":"r","role":"assistant"}]}`, `p | u:q a:r`},
	{"OASST tree", `{"message_tree_id":"t","prompt":{"message_id":"m0","text":"q","role":"prompter","lang":"en","replies":[{"message_id":"m1","text":"worse","role":"assistant","rank":1,"replies":[]},{"message_id":"m2","text":"best","role":"assistant","rank":0,"replies":[{"message_id":"m3","text":"more","role":"prompter","replies":[]}]}]}}`,
		"t | u:q a:best u:more | language=en\nreplies beside the best one, left out: 1"},
	{"OASST flat", `{"message_id":"m0","message_tree_id":"t","text":"q","role":"prompter","lang":"en"}
{"message_id":"m1","parent_id":"m0","message_tree_id":"t","text":"worse","role":"assistant","rank":1}
{"message_id":"m2","parent_id":"m0","message_tree_id":"t","text":"best","role":"assistant","rank":0}
{"message_id":"n0","message_tree_id":"u","text":"other","role":"prompter","lang":"de"}`,
		"t | u:q a:best | language=en\nu | u:other | language=de\nreplies beside the best one, left out: 1"},
	{"a message a record", `{"conversation_id":"c","turn":1,"role":"user","content":"q","tools":[{"type":"function","function":{"name":"f"}}]}
{"conversation_id":"c","turn":2,"role":"assistant","content":"r"}
{"conversation_id":"c","turn":3,"role":"user","content":"more","delay_seconds":1.5}
{"conversation_id":"d","turn":1,"role":"user","content":"other"}`,
		`c | u:q a:r u:more | tools [{"type":"function","function":{"name":"f"}}] | think 1500` + "\nd | u:other"},
	{"Dolly with context", `{"instruction":"Who?","context":"It was Ada.","response":"Ada","category":"closed_qa"}`,
		`conversation-1 | u:Who?\n\nIt was Ada. a:Ada | category=closed_qa`},
	{"Alpaca", `{"instruction":"Sum up","input":"a long text","output":"short"}`, `conversation-1 | u:Sum up\n\na long text a:short`},
	{"Alpaca with history and system", `{"instruction":"q2","input":"","output":"r2","system":"SYS","history":"[[\"q1\",\"r1\"]]"}`, `conversation-1 | s:SYS u:q1 a:r1 u:q2 a:r2`},
	{"preference of texts", `{"prompt":"q","chosen":"good","rejected":"bad"}`,
		"conversation-1 | u:q a:good\nanswers that were rejected, left out: 1"},
	{"preference of conversations", `{"prompt":"q","chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"good"}],"rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"bad"}]}`,
		"conversation-1 | u:q a:good\nanswers that were rejected, left out: 1"},
	{"preference after a conversation", `{"conversations":[{"from":"human","value":"q"}],"chosen":{"from":"gpt","value":"good"},"rejected":{"from":"gpt","value":"bad"}}`,
		"conversation-1 | u:q a:good\nanswers that were rejected, left out: 1"},
	{"preference of transcripts", `{"chosen":"\n\nHuman: q1\n\nAssistant: r1\n\nHuman: q2\n\nAssistant: r2","rejected":"\n\nHuman: q1\n\nAssistant: no"}`,
		"conversation-1 | u:q1 a:r1 u:q2 a:r2\nanswers that were rejected, left out: 1"},
	{"tool calls", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}]},{"role":"tool","content":"7","tool_call_id":"c1"},{"role":"assistant","content":"7 it is"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`,
		`conversation-1 | u:q a:c1=f({"x": 1}) t:7(c1) a:7 it is | tools [{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`},
	{"tool calls with arguments as an object and without identifiers", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"name":"f","arguments":{"x":1}}]},{"role":"tool","name":"f","content":"7"}]}`,
		`conversation-1 | u:q a:call_0=f({"x":1}) t:7(call_0)`},
	{"function_call, the old form", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"7"}],"functions":[{"name":"f","description":"F"}]}`,
		`conversation-1 | u:q a:call_0=f({}) t:7(call_0) | tools [{"type":"function","function":{"name":"f","description":"F"}}]`},
	{"a result that nobody called for", `{"messages":[{"role":"user","content":"q"},{"role":"tool","content":"7"},{"role":"assistant","content":"r"}]}`,
		"conversation-1 | u:q\\n\\n7 a:r\nneighbouring messages of one role, merged: 1\nresults of tools that nobody called, said by the user: 1"},
	{"Anthropic's blocks", `{"system":"SYS","messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"7"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
		`conversation-1 | s:SYS u:q a:c1=f({"x":1}) t:7(c1) | tools [{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`},
	{"image parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]},{"role":"assistant","content":[{"type":"text","text":"A cat"}]}]}`,
		`conversation-1 | u:What?[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}] a:A cat`},
	{"image marks", `{"id":"a","images":["https://x/y.png"],"conversations":[{"from":"human","value":"<image>\nWhat?"},{"from":"gpt","value":"A cat"}]}`,
		`a | u:What?[{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"text","text":"What?"}] a:A cat`},
	{"image marks of files that are elsewhere", `{"id":"a","image":"coco/9.jpg","conversations":[{"from":"human","value":"What?\n<image>"},{"from":"gpt","value":"a tray"}]}`,
		"a | u:What? a:a tray\nimages left out, with their marks: a name of a file is no URL and no data: 1"},
	{"image parts without data", `{"messages":[{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image"}]},{"role":"assistant","content":[{"type":"text","text":"A cat"}]}],"images":[{"bytes":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB","path":null}]}`,
		`conversation-1 | u:What?[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"}}] a:A cat`},
	{"an image beside a question", `{"image":{"url":"https://x/y.png"},"question":"What?","answer":"A cat"}`,
		`conversation-1 | u:What?[{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"text","text":"What?"}] a:A cat`},
	{"parts that are texts", `{"messages":[{"role":"user","content":["a","b"]},{"role":"assistant","content":["c"]}]}`,
		`conversation-1 | u:ab[{"type":"text","text":"a"},{"type":"text","text":"b"}] a:c`},
	{"reasoning", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"r","reasoning_content":"hm"}]}`, `conversation-1 | u:q a:r{hm}`},
	{"a wrapper of a dataset server", `{"row_idx":0,"row":{"messages":[{"role":"user","content":"q"}]}}`, `conversation-1 | u:q`},
	{"a log of requests", `{"id":"l","request":{"model":"m","messages":[{"role":"user","content":"q"}],"temperature":0.5},"response":{"choices":[{"message":{"role":"assistant","content":"r"}}]}}`,
		`l | u:q a:r | body {"temperature":0.5} | model=m`},
	{"messages as JSON text", `{"messages":"[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"r\"}]"}`, `conversation-1 | u:q a:r`},
	{"lists of roles and contents", `{"conversations":{"from":["human","gpt"],"value":["q","r"]}}`, `conversation-1 | u:q a:r`},
	{"questions with their answers", `{"conversation":[{"system":"SYS","input":"q1","output":"r1"},{"system":null,"input":"q2","output":"r2"}]}`, `conversation-1 | s:SYS u:q1 a:r1 u:q2 a:r2`},
	{"prompt and response", `{"prompt":"q","response":"r","system_prompt":"SYS"}`, `conversation-1 | s:SYS u:q a:r`},
	{"a prompt that is messages", `{"prompt":[{"role":"system","content":"SYS"},{"role":"user","content":"q"}],"completion":"r"}`, `conversation-1 | s:SYS u:q a:r`},
	{"MT-Bench", `{"question_id":81,"category":"writing","turns":["first","second"]}`, `81 | u:first a:<none> u:second | category=writing`},
	{"vLLM's custom", `{"prompt":"Say hi","output_tokens":5}`, `conversation-1 | u:Say hi | out 5`},
	{"a batch of OpenAI", `{"custom_id":"r1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"q1"},{"role":"assistant","content":"r1"},{"role":"user","content":"q2"}],"temperature":0.25,"max_tokens":77,"stream":true}}`,
		`r1 | u:q1 a:r1 u:q2 | out 77 | body {"temperature":0.25} | model=m`},
	{"a batch of Anthropic", `{"custom_id":"r1","params":{"model":"m","max_tokens":9,"system":"SYS","messages":[{"role":"user","content":"q"}]}}`,
		`r1 | s:SYS u:q | out 9 | model=m`},
	{"a batch of responses", `{"custom_id":"r1","method":"POST","url":"/v1/responses","body":{"input":"q","instructions":"SYS","max_output_tokens":9}}`, `r1 | s:SYS u:q | out 9`},
	{"parameters beside messages", `{"messages":[{"role":"user","content":"a"}],"max_tokens":33,"temperature":0.5,"seed":"set A","score":0.9}`,
		`conversation-1 | u:a | out 33 | body {"temperature":0.5}`},
	{"parameters in a bag", `{"messages":[{"role":"user","content":"a"}],"sampling_params":{"top_p":0.5,"max_tokens":4}}`, `conversation-1 | u:a | out 4 | body {"top_p":0.5}`},
	{"a limit beside an answer", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"max_tokens":900}`,
		"conversation-1 | u:a a:b\nlimits of tokens beside recorded answers, whose lengths are asked for instead: 1"},
}

// inFull writes a conversation in one line.
func inFull(c *schemas.Conversation) string {
	var b strings.Builder
	b.WriteString(c.ConversationID + " |")
	for _, m := range c.Messages {
		fmt.Fprintf(&b, " %s:", m.Role[:1])
		var calls []struct {
			ID       string `json:"id"`
			Function struct{ Name, Arguments string }
		}
		switch {
		case m.ToolCalls != nil:
			if err := json.Unmarshal([]byte(*m.ToolCalls), &calls); err != nil {
				b.WriteString(err.Error())
			}
			for _, call := range calls {
				fmt.Fprintf(&b, "%s=%s(%s)", call.ID, call.Function.Name, call.Function.Arguments)
			}
		case m.Content == nil:
			b.WriteString("<none>")
		}
		for _, s := range []struct {
			from, to string
			text     *string
		}{{"", "", m.Content}, {"", "", m.Parts}, {"(", ")", m.ToolCallID}, {"{", "}", m.Reasoning}} {
			if s.text != nil {
				b.WriteString(s.from + strings.ReplaceAll(*s.text, "\n", `\n`) + s.to)
			}
		}
	}
	for _, s := range []struct {
		name string
		text *string
	}{{"tools", c.Tools}, {"body", c.Body}} {
		if s.text != nil {
			fmt.Fprintf(&b, " | %s %s", s.name, *s.text)
		}
	}
	var tags []string
	for k, v := range c.Tags {
		tags = append(tags, k+"="+v)
	}
	slices.Sort(tags)
	s := b.String()
	for i, t := range c.Turns {
		if t.ThinkTimeMS != nil {
			s += fmt.Sprintf(" | think %v", *t.ThinkTimeMS)
		}
		if recorded := int(t.MessageIndex) < len(c.Messages); t.OutputTokens != nil && (!recorded || *t.OutputTokens > 3) && i == len(c.Turns)-1 && !recorded {
			at := strings.Index(s, " | body ")
			if at < 0 {
				at = len(s)
			}
			s = s[:at] + fmt.Sprintf(" | out %d", *t.OutputTokens) + s[at:]
		}
	}
	if len(tags) > 0 {
		s += " | " + strings.Join(tags, " ")
	}
	return s
}

// TestShapes reads every shape from a JSON array, JSON lines and Parquet, with one result.
func TestShapes(t *testing.T) {
	if len(shapes) < 25 {
		t.Fatalf("%d shapes", len(shapes))
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			lines := strings.Split(shape.records, "\n")
			files := map[string]string{
				"array":   write(t, "a.json", "[\n"+strings.Join(lines, ",\n")+"\n]"),
				"lines":   write(t, "a.jsonl", shape.records+"\n"),
				"parquet": asParquet(t, lines),
			}
			for carrier, path := range files {
				rows, r := read(t, path, Options{})
				var got []string
				for i := range rows {
					got = append(got, inFull(&rows[i]))
				}
				for _, p := range r.Problems {
					got = append(got, p.Reason+": "+p.Detail)
				}
				for _, n := range r.Notes {
					what, example, _ := strings.Cut(n, " (")
					if example != "" && !strings.Contains(example, filepath.Base(path)+":") {
						what = n + " does not say where"
					}
					got = append(got, what)
				}
				if g := strings.Join(got, "\n"); g != shape.want {
					t.Errorf("from %s:\n%s\nwant\n%s", carrier, g, shape.want)
				}
			}
		})
	}
}

// asParquet writes records as a Parquet file whose columns have the types of their values.
func asParquet(t *testing.T, records []string) string {
	t.Helper()
	var all *jsonType
	for _, r := range records {
		d := json.NewDecoder(strings.NewReader(r))
		d.UseNumber()
		all = all.merge(typeOf(t, d))
	}
	typ := all.goType()
	path := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewWriter(f, parquet.SchemaOf(reflect.New(typ).Interface()))
	for _, r := range records {
		row := reflect.New(typ)
		if err := json.Unmarshal([]byte(r), row.Interface()); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(row.Interface()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// jsonType is the type of a JSON value.
type jsonType struct {
	kind   reflect.Kind // Invalid for null
	names  []string     // of an object's fields
	fields map[string]*jsonType
	elem   *jsonType
}

func typeOf(t *testing.T, d *json.Decoder) *jsonType {
	t.Helper()
	tok, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := tok.(type) {
	case json.Delim:
		out := &jsonType{kind: reflect.Slice}
		if v == '{' {
			out = &jsonType{kind: reflect.Struct, fields: map[string]*jsonType{}}
		}
		for d.More() {
			if v == '[' {
				out.elem = out.elem.merge(typeOf(t, d))
				continue
			}
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			out.names = append(out.names, key.(string))
			out.fields[key.(string)] = typeOf(t, d)
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		return out
	case string:
		return &jsonType{kind: reflect.String}
	case bool:
		return &jsonType{kind: reflect.Bool}
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return &jsonType{kind: reflect.Int64}
		}
		return &jsonType{kind: reflect.Float64}
	}
	return &jsonType{}
}

func (a *jsonType) merge(b *jsonType) *jsonType {
	switch {
	case a == nil || a.kind == reflect.Invalid:
		return b
	case b == nil || b.kind == reflect.Invalid:
		return a
	case a.kind == reflect.Slice:
		a.elem = a.elem.merge(b.elem)
	case a.kind == reflect.Struct:
		for _, n := range b.names {
			if _, ok := a.fields[n]; !ok {
				a.names = append(a.names, n)
			}
			a.fields[n] = a.fields[n].merge(b.fields[n])
		}
	case a.kind == reflect.Int64 && b.kind == reflect.Float64:
		return b
	}
	return a
}

func (a *jsonType) goType() reflect.Type {
	switch {
	case a == nil || a.kind == reflect.Invalid:
		return reflect.TypeFor[string]()
	case a.kind == reflect.Slice:
		return reflect.SliceOf(a.elem.goType())
	case a.kind != reflect.Struct:
		return map[reflect.Kind]reflect.Type{reflect.String: reflect.TypeFor[string](), reflect.Bool: reflect.TypeFor[bool](),
			reflect.Int64: reflect.TypeFor[int64](), reflect.Float64: reflect.TypeFor[float64]()}[a.kind]
	}
	var fields []reflect.StructField
	for i, n := range a.names {
		typ, option := a.fields[n].goType(), "optional"
		if typ.Kind() == reflect.Slice {
			option = "list"
		} else {
			typ = reflect.PointerTo(typ)
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: typ,
			Tag: reflect.StructTag(fmt.Sprintf(`parquet:"%s,%s" json:"%s"`, n, option, n))})
	}
	return reflect.StructOf(fields)
}

// TestColumns reads a chat whose fields have names of their own.
func TestColumns(t *testing.T) {
	for record, columns := range map[string]map[string]string{
		`{"chat_log":[{"role":"user","content":"q"},{"role":"assistant","content":"r"}]}`: {"messages": "chat_log"},
		`{"x":{"ask":"q","say":"r"}}`: {"prompt": "x.ask", "response": "x.say"},
		`{"messages":[{"role":"user","content":"not this"}],"better":[{"role":"user","content":"q"},{"role":"assistant","content":"r"}]}`: {"messages": "better"},
	} {
		for _, path := range []string{write(t, "a.jsonl", record), asParquet(t, []string{record})} {
			rows, r := read(t, path, Options{Columns: columns})
			if len(rows) != 1 || outline(rows[0]) != "u:q|a:r" {
				t.Errorf("%s of %s: %v, %+v", record, path, rows, r.Problems)
			}
		}
	}
	_, r := read(t, write(t, "a.jsonl", `{"messages":[]}`), Options{Columns: map[string]string{"messages": "absent"}})
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].String(), "it has no absent (for messages)") {
		t.Errorf("a column that is not there: %+v", r.Problems)
	}
}

// TestChatsInCSV reads chats from CSV, whatever stands between the columns.
func TestChatsInCSV(t *testing.T) {
	for _, sep := range []string{",", ";", "\t"} {
		text := strings.ReplaceAll("\ufeffid|prompt|response|max_tokens\n7|\"two\nlines, and more; so\"|r|\n8|42||5\n", "|", sep)
		rows, r := read(t, write(t, "a.csv", text), Options{})
		if len(rows) != 2 || rows[0].ConversationID != "7" || outline(rows[0]) != "u:two\nlines, and more; so|a:r" || outline(rows[1]) != "u:42" || num(rows[1].Turns[0].OutputTokens) != 5 {
			t.Errorf("%q: %+v, %+v", sep, rows, r)
		}
	}
}

// TestBareLists reads lines that are lists of messages, and a file that is one.
func TestBareLists(t *testing.T) {
	one := `[{"role":"user","content":"q"},{"role":"assistant","content":"r"}]`
	for text, want := range map[string]int{one: 1, one + "\n" + one + "\n": 2, "[" + one + "," + one + "]": 2} {
		rows, r := read(t, write(t, "a.json", text), Options{})
		if len(rows) != want || outline(rows[0]) != "u:q|a:r" {
			t.Errorf("%s: %d conversations, %+v", text, len(rows), r)
		}
	}
}
