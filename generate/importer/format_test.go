package importer

import (
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		head string
		want Format
	}{
		{`[{"id":"a_0","conversations":[{"from":"human"`, ShareGPT},
		{"\ufeff [\n {\"id\": \"a\", \"conversation\": [", ShareGPT},
		{`{"messages":[{"role":"user","content":"` + strings.Repeat("x", 5000), OpenAI},
		{`[{"id":1,"session_id":"s","messages":[`, OpenAI},
		{`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}`, Batch},
		{`{"question_id": 81, "category": "writing", "turns": ["a", "b"]}`, Questions},
		{`{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1`, Mooncake},
		{`{"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.0, "input_length": 5, "hash_ids": [1]}`, Qwen},
		{`{"id":"trace_0002","models":["m"],"block_size":64,"requests":[{"t":0.0,`, Agent},
		{`{"session_id":"a","turns":[{"text":"x"}]}`, AIPerf},
		{`{"session_id":"a","delay":3,"input_length":5}`, AIPerfRaw},
		{`{"text_input":"a","output_length":5}`, AIPerfRaw},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n2023", Azure},
		{"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n", BurstGPT},
		{"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n", BurstGPT},
		{"PAR1\x15\x00", Parquet},
	} {
		got, err := Detect([]byte(c.head), "f")
		if err != nil || got != c.want {
			t.Errorf("%.60q: got %q, %v, want %q", c.head, got, err, c.want)
		}
	}
	for head, want := range map[string]string{
		"": "is empty", " \n": "is empty", "[]": "no records", "hello, world": "neither JSON", `{"a":1,"b":[2]}`: "keys a, b", `[1,2]`: "not with an object",
	} {
		if _, err := Detect([]byte(head), "my.file"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "my.file") {
			t.Errorf("%q: got %v, want %q", head, err, want)
		}
	}
	for _, f := range Formats {
		if got, err := ParseFormat(string(f.Format)); err != nil || got != f.Format {
			t.Errorf("ParseFormat(%q) = %q, %v", f.Format, got, err)
		}
	}
}
