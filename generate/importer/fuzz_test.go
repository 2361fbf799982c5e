package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"parley/generate/prose"
)

// TestScanner cuts what may come in a file into records, in pieces of every size.
func TestScanner(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`[{"a":1},{"b":"x]}\"{"}]`, `{"a":1} {"b":"x]}\"{"}`},
		{"{\"a\":1}\n{\"b\":[1,{\"c\":2}]}\n", `{"a":1} {"b":[1,{"c":2}]}`},
		{"\ufeff[ {\"a\": 1}\n,\r\n {} ]\n", `{"a": 1} {}`},
		{`[]`, ``}, {``, ``}, {`[`, `!`},
		{"{\n \"a\": {\n  \"b\": 1}\n}\n{\"c\":2}", "{\n \"a\": {\n  \"b\": 1}\n} {\"c\":2}"},
		{"[{\"a\":\"x\"y\"},\n{\"b\":2}]", `! {"b":2}`},
		{"[{\"a\":\"un\nclosed\"},{\"b\":2},{\"c\":3}]", `! {"b":2} {"c":3}`},
		{"{\"a\":\nnonsense\n{\"b\":2}\n", `! {"b":2}`},
		{"x\n{\"b\":2}\n", `! {"b":2}`},
		{`[1,"two",{"b":2},null]`, `! ! {"b":2} !`},
		{`[{"a":1},{"b":`, `{"a":1} !`},
		{`[{"a":[1}},{"b":2}]`, `! {"b":2}`},
		{strings.Repeat(`{"a":`, maxDepth+1), `!`},
		{`[[1,2],{"b":2}]`, `[1,2] {"b":2}`},
	} {
		for _, slow := range []bool{false, true} {
			var in io.Reader = strings.NewReader(c.in)
			if slow {
				in = iotest.OneByteReader(in)
			}
			s := newScanner(in)
			if slow {
				s.buf = make([]byte, 3)
			}
			var got []string
			for {
				rec, err := s.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if rec.bad != "" {
					got = append(got, "!")
					continue
				}
				if at := c.in[rec.off:]; !strings.HasPrefix(at, string(rec.data)) {
					t.Errorf("%.60q: record %d is not at offset %d", c.in, rec.number, rec.off)
				}
				if want := 1 + int64(strings.Count(c.in[:rec.off], "\n")); rec.line != want {
					t.Errorf("%.60q: record %d is on line %d, not %d", c.in, rec.number, want, rec.line)
				}
				got = append(got, string(rec.data))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%.60q: got %s, want %s", c.in, g, c.want)
			}
		}
	}
}

func TestScannerTellsReadErrors(t *testing.T) {
	broken := errors.New("the disk is gone")
	s := newScanner(io.MultiReader(strings.NewReader(`[{"a":1},{"b":`), iotest.ErrReader(broken)))
	if _, err := s.next(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func FuzzScanner(f *testing.F) {
	for _, s := range []string{`[{"a":1},{"b":"x"}]`, "{\"a\":\"\\u00e9\"}\n{", `[{"a":"x"y"},{"b":2}]`, "[[[[", `{"a":[1,2,{"b":null}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newScanner(bytes.NewReader(data))
		for n := 0; ; n++ {
			rec, err := s.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if n > len(data)+2 {
				t.Fatal("more records than bytes")
			}
			if rec.bad != "" {
				continue
			}
			if !bytes.Equal(data[rec.off:rec.off+int64(len(rec.data))], rec.data) {
				t.Fatalf("record at %d is not what stands there", rec.off)
			}
			// What encoding/json takes, walk takes apart alike.
			var want map[string]json.RawMessage
			if rec.data[0] == '{' && json.Unmarshal(rec.data, &want) == nil {
				got, err := members(rec.data)
				if err != nil {
					t.Fatalf("%q: %v", rec.data, err)
				}
				for k, v := range want {
					if strings.ContainsRune(k, '\ufffd') || len(got) != len(want) {
						continue // keys with escapes or bad UTF-8 stay as they stand
					}
					if g, ok := got[k]; ok && !bytes.Equal(g, v) {
						t.Fatalf("%q: key %q is %q, want %q", rec.data, k, g, v)
					}
				}
			}
		}
	})
}

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
	formats := append([]struct {
		Format Format
		Help   string
	}{{Auto, ""}}, Formats...)
	f.Fuzz(func(t *testing.T, data []byte, which string) {
		if len(data) > 5000 {
			return
		}
		format := Auto
		if which != "" {
			format = formats[int(which[0])%len(formats)].Format
		}
		if format == Parquet || bytes.HasPrefix(data, []byte("PAR1")) {
			return // schemas.FuzzForeign
		}
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		im, err := Open(path, Options{Tokenizer: tok(t), Format: format, LinkPrefixes: len(data)%2 == 0})
		if err != nil {
			return
		}
		defer im.Close()
		if im.blocks != nil {
			im.blocks.prose = once
		}
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
