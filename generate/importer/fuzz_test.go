package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"parley/generate/prose"
)

// FuzzImport feeds every format anything. A prompt of millions of tokens is no fault, so those of traces
// are left out here by their size.
func FuzzImport(f *testing.F) {
	for _, s := range []string{
		`[{"id":"a_1","conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"y"}]},{"id":"a_0","conversations":[]}]`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`,
		`{"custom_id":"a","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"x"}],"max_tokens":5}}`,
		`{"question_id":1,"turns":["a","b"]}`,
		`{"timestamp":0,"input_length":20,"output_length":5,"hash_ids":[1]}`,
		`{"chat_id":2,"parent_chat_id":1,"timestamp":3,"input_length":20,"output_length":5,"hash_ids":[1,2]}`,
		`{"id":"t","block_size":16,"requests":[{"t":0,"in":40,"out":3,"hash_ids":[1,2]},{"t":1,"type":"subagent","requests":[{"t":1,"in":20,"out":1}]},{"t":2,"in":60,"out":3,"hash_ids":[1,5]}]}`,
		`{"session_id":"s","turns":[{"text":"a","delay":1},{"texts":["b"]}]}`,
		`{"session_id":"s","delay":1,"input_length":10,"hash_ids":[1]}`,
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n",
		"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,1,2.5,C,40,18,58,x\n",
	} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "x")
	}
	once := sync.OnceValues(func() (*prose.Prose, error) { return prose.New(tok(f)) })
	f.Fuzz(func(t *testing.T, data []byte, which string) {
		if len(data) > 5000 {
			return
		}
		format := Auto
		if which != "" {
			format = formats[int(which[0])%len(formats)].format
		}
		if format == Conversations || bytes.HasPrefix(data, []byte("PAR1")) {
			return // FuzzParquet
		}
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		im, err := Open([]string{path}, Options{Tokenizer: tok(t), Format: format, LinkPrefixes: len(data)%2 == 0})
		if err != nil {
			return
		}
		defer im.Close()
		im.blocks.prose = once
		most := tokensAsked(data)
		for item, err := range im.Items() {
			if err != nil {
				t.Fatal(err)
			}
			if most > 5000 {
				continue
			}
			res, err := im.Finish(item)
			if err != nil {
				t.Fatal(err)
			}
			rows, _ := im.Commit(res)
			for _, c := range rows {
				for _, turn := range c.Turns {
					if turn.MessageIndex < 1 || turn.MessageIndex > int64(len(c.Messages)) || *turn.PromptTokens < *turn.NewTokens || turn.OutputTokens != nil && *turn.OutputTokens < 1 {
						t.Fatalf("%q: turn %+v of %d messages", data, turn, len(c.Messages))
					}
				}
			}
		}
	})
}

// tokensAsked gives the largest whole number in the data.
func tokensAsked(data []byte) int {
	most, n := 0, 0
	for _, c := range data {
		if c >= '0' && c <= '9' {
			n = min(n*10+int(c-'0'), 1<<40)
			most = max(most, n)
			continue
		}
		if c == 'e' || c == 'E' {
			return 1 << 40
		}
		n = 0
	}
	return most
}
