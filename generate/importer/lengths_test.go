package importer

import (
	"fmt"
	"strings"
	"testing"
)

func TestAIPerf(t *testing.T) {
	lines := `{"session_id":"s1","turns":[{"text":"one","timestamp":500,"output_length":9},{"texts":["two"],"delay":1500,"output_length":8},{"texts":[{"name":"q","contents":["a","b"]}],"image":"https://x/y.png"}]}
{"session_id":"s2","turns":[{"text":"x","delay":1,"timestamp":2}]}
{"session_id":"s3","turns":[{"text":"x","timestamp":100},{"text":"y","timestamp":350}]}
{"session_id":"s4","turns":[{"output_length":3}]}
`
	rows, r := read(t, write(t, "p.jsonl", lines), Options{})
	if r.Format() != string(AIPerf) || len(rows) != 2 || r.Skipped["bad record"] != 2 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	c := rows[0]
	if outline(c) != "u:one|a:<nil>|u:two|a:<nil>|u:ab" || *c.StartOffsetMS != 400 || *c.Turns[1].ThinkTimeMS != 1500 || num(c.Turns[1].OutputTokens) != 8 || c.Turns[2].MessageIndex != 5 {
		t.Errorf("%s %+v", outline(c), c)
	}
	if *c.Messages[4].Parts != `[{"text":"a","type":"text"},{"text":"b","type":"text"},{"image_url":{"url":"https://x/y.png"},"type":"image_url"}]` {
		t.Errorf("parts %s", *c.Messages[4].Parts)
	}
	if *rows[1].Turns[1].ThinkTimeMS != 250 {
		t.Errorf("time stamps give %v ms", *rows[1].Turns[1].ThinkTimeMS)
	}
	if !strings.Contains(fmt.Sprint(r.Problems), "both a delay and a timestamp") {
		t.Errorf("problems %v", r.Problems)
	}
}

// TestAIPerfParameters keeps what each turn asks for, and reads turns that are records of their own.
func TestAIPerfParameters(t *testing.T) {
	lines := `{"session_id":"s","turns":[{"text":"one","extra":{"top_p":0.5,"a":{"b":[1]}}},{"text":"two","max_tokens":7,"image":"pic.png"}]}
{"text":"alone","output_length":12.0,"timestamp":1766000000500}
{"texts":["a"],"output_length":3,"timestamp":1766000000000,"extra":{"seed":1}}
`
	rows, r := read(t, write(t, "p.jsonl", lines), Options{})
	if len(rows) != 3 || r.Format() != string(AIPerf) {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	if b := rows[0].Turns[0].Body; b == nil || *b != `{"a":{"b":[1]},"top_p":0.5}` || rows[0].Turns[1].Body != nil || num(rows[0].Turns[1].OutputTokens) != 7 {
		t.Errorf("turns %+v", rows[0].Turns)
	}
	if outline(rows[1]) != "u:alone" || num(rows[1].Turns[0].OutputTokens) != 12 || *rows[1].StartOffsetMS != 500 || *rows[2].StartOffsetMS != 0 || *rows[2].Turns[0].Body != `{"seed":1}` {
		t.Errorf("%+v %+v", rows[1], rows[2])
	}
	if n := strings.Join(r.Notes, "\n"); !strings.Contains(n, "images left out: a name of a file is no URL and no data: 1 (") || !strings.Contains(n, "p.jsonl:1 (record 1): pic.png") {
		t.Errorf("notes %s", n)
	}
}

func TestAIPerfRaw(t *testing.T) {
	lines := `{"session_id":"b","delay":0,"input_length":600,"output_length":4,"hash_ids":[7,8]}
{"session_id":"a","timestamp":10,"text_input":"hello","output_length":4}
{"session_id":"b","delay":250,"input_length":100,"output_length":0,"hash_ids":[9]}
{"timestamp":20,"input_length":600,"output_length":4,"hash_ids":[7,10]}
`
	rows, r := read(t, write(t, "p.jsonl", lines), Options{})
	if r.Format() != string(AIPerfRaw) || len(rows) != 3 || r.Read != 4 || r.Kept != 4 || r.Turns != 4 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	c := rows[0]
	if c.ConversationID != "b" || len(c.Turns) != 2 || *c.Turns[1].ThinkTimeMS != 250 || num(c.Turns[1].PromptTokens) != 700 || num(c.Turns[1].OutputTokens) != 1 {
		t.Errorf("%+v", c)
	}
	if outline(rows[1]) != "u:hello" || *rows[1].StartOffsetMS != 0 {
		t.Errorf("%+v", rows[1])
	}
	a, b := promptTokens(t, &rows[0], 0), promptTokens(t, &rows[2], 0)
	if fmt.Sprint(a[:512]) != fmt.Sprint(b[:512]) || len(b) != 600 {
		t.Error("the common block is not the same")
	}
}

func TestAzure(t *testing.T) {
	text := "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,48,10\r\n2023-11-16 18:17:04.0319601,31,8\r\n" +
		"2023-11-16 18:17:05.0,0,8\r\n2023-11-16 18:17:06.0,9,0\r\nyesterday,9,9\r\n2023-11-16 18:17:07.0,\"9\"x,9\r\n2024-05-10 00:00:00.009930+00:00,12,3"
	rows, r := read(t, write(t, "a.csv", text), Options{})
	if r.Format() != string(Azure) || len(rows) != 3 || r.Skipped["bad record"] != 2 || r.Skipped["no answer tokens: a failed request"] != 1 || r.Skipped["no prompt tokens"] != 1 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	if *rows[1].StartOffsetMS != 52.0001 {
		t.Errorf("an arrival of seven digits is %v ms", *rows[1].StartOffsetMS)
	}
	for i, want := range []int{48, 31, 12} {
		if n := len(promptTokens(t, &rows[i], 0)); n != want {
			t.Errorf("row %d has %d tokens, want %d", i, n, want)
		}
	}
}

func TestRealAzure(t *testing.T) {
	path := shared(t, "azure_2023_code.csv")
	im, err := Open([]string{path}, Options{Tokenizer: tok(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	// The items alone: 18 million tokens of text are not needed to count rows.
	rows, bad := 0, 0
	for item, err := range im.Items() {
		if err != nil {
			t.Fatal(err)
		}
		if item.problem != nil {
			bad++
			continue
		}
		rows++
	}
	if rows != 8819 || bad != 0 {
		t.Errorf("%d rows and %d bad ones, the file has 8,819", rows, bad)
	}
}

func TestBurstGPT(t *testing.T) {
	text := `Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,1,2.5,ChatGPT,40,18,58,Conversation log
6,2,1,GPT-4,20,0,20,Conversation log
8,2,1,GPT-4,20,30,50,Conversation log
45,1,3,ChatGPT,100,20,120,Conversation log
60,1,3,ChatGPT,15,20,35,Conversation log
70,,1,GPT-4,12,5,17,API log
`
	rows, r := read(t, write(t, "b.csv", text), Options{})
	if r.Format() != string(BurstGPT) || len(rows) != 3 || r.Read != 6 || r.Kept != 5 || r.Skipped["no answer tokens: a failed request"] != 1 {
		t.Fatalf("%d rows, %+v", len(rows), r)
	}
	c := rows[0]
	if len(c.Turns) != 3 || *c.StartOffsetMS != 0 || *c.Turns[1].ThinkTimeMS != 37500 || *c.Turns[2].ThinkTimeMS != 12000 || c.Tags["model"] != "ChatGPT" || c.Tags["log_type"] != "Conversation log" {
		t.Errorf("%+v", c)
	}
	for i, want := range []struct{ prompt, fresh int64 }{{40, 40}, {100, 42}, {135, 15}} {
		if turn := c.Turns[i]; num(turn.PromptTokens) != want.prompt || num(turn.NewTokens) != want.fresh || int64(len(promptTokens(t, &c, i))) != want.prompt {
			t.Errorf("turn %d: %d and %d tokens (%d in the text), want %+v", i, num(turn.PromptTokens), num(turn.NewTokens), len(promptTokens(t, &c, i)), want)
		}
	}
	old := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,ChatGPT,10,5,15,Conversation log\n2,ChatGPT,10,6,16,Conversation log\n"
	rows, _ = read(t, write(t, "b.csv", old), Options{})
	if len(rows) != 2 || *rows[1].StartOffsetMS != 1000 {
		t.Errorf("without sessions: %+v", rows)
	}
	if *rows[0].Messages[0].Content == *rows[1].Messages[0].Content {
		t.Error("two rows have the same text")
	}
}
