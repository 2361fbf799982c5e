package chatshape

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"parley/schemas"
)

// FuzzRead reads anything that is a JSON object. What comes is a conversation that servers take: known roles,
// no two neighbours of one role, a result only of a call that was made, and JSON where JSON is wanted.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","system":"S","tools":"[{\"name\":\"f\"}]","conversations":[{"from":"human","value":"q"},{"from":"function_call","value":"{\"name\":\"f\",\"arguments\":{}}"},{"from":"observation","value":"1"},{"from":"gpt","value":"r"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image"},{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"y"}]}]},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":null}}],"reasoning_content":"h"}],"images":[{"bytes":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"}]}`,
		`{"prompt":{"text":"q","role":"prompter","replies":[{"text":"r","role":"assistant","rank":1,"replies":[]}]}}`,
		`{"message_id":"m","parent_id":null,"role":"user","text":"x","message_tree_id":"t"}`,
		`{"custom_id":"r","url":"/v1/responses","body":{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}],"max_output_tokens":3,"n":2}}`,
		`{"chosen":"\n\nHuman: q\n\nAssistant: r","rejected":"\n\nHuman: q\n\nAssistant: s"}`,
		`{"instruction":"a","input":"b","output":"c","history":[["d","e"]]}`,
		`{"conversations":{"from":["human","gpt"],"value":["q","r"]}}`, `{"turns":["a","b"]}`, `[{"role":"user","content":"x"}]`,
		`{"image":"x.png","conversations":[{"from":"human","value":"<image>a<image>"},{"from":"human","value":"b"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || raw[0] != '{' && raw[0] != '[' {
			return
		}
		c, err := (&Reader{}).Read(raw)
		if err != nil {
			return
		}
		calls := map[string]bool{}
		for i, m := range c.Messages {
			if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
				t.Fatalf("message %d: role %q", i, m.Role)
			}
			if i > 0 && m.Role == c.Messages[i-1].Role && m.Role != "tool" {
				t.Fatalf("messages %d and %d are both of the %s", i-1, i, m.Role)
			}
			if m.Role == "tool" && (m.ToolCallID == nil || !calls[*m.ToolCallID]) {
				t.Fatalf("message %d answers no call", i)
			}
			for _, text := range []*string{m.Parts, m.ToolCalls} {
				if text != nil && (!json.Valid([]byte(*text)) || !strings.HasPrefix(*text, "[")) {
					t.Fatalf("message %d: %s", i, *text)
				}
			}
			if m.ToolCalls != nil {
				var list []schemas.ToolCall
				if err := json.Unmarshal([]byte(*m.ToolCalls), &list); err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					calls[c.ID] = true
				}
			}
		}
		if c.Tools != nil && !json.Valid([]byte(*c.Tools)) || c.Body != nil && !json.Valid([]byte(*c.Body)) {
			t.Fatalf("tools %v, body %v", c.Tools, c.Body)
		}
		for _, turn := range c.Turns {
			if turn.MessageIndex < 1 || turn.MessageIndex > int64(len(c.Messages)) {
				t.Fatalf("a turn at %d of %d messages", turn.MessageIndex, len(c.Messages))
			}
		}
	})
}
