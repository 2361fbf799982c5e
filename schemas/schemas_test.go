package schemas

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "renew the golden files and the fixture of this version")

func ptr[T any](v T) *T { return &v }

// fullRequest has every column set, so that one that does not survive is seen.
func fullRequest(i int) Request {
	r := Request{RunID: "run", RequestID: fmt.Sprint("req-", i), ConversationID: "c\x00é", Tags: map[string]string{"source": "test", "b": ""}}
	v := reflect.ValueOf(&r).Elem()
	for f := range v.NumField() {
		field := v.Field(f)
		switch p := field.Addr().Interface().(type) {
		case *string:
			if *p == "" {
				*p = fmt.Sprint("s", f)
			}
		case *int64:
			*p = int64(f*1000 + i)
		case *bool:
			*p = true
		case **string:
			*p = ptr(fmt.Sprint("t", f))
		case **int64:
			*p = ptr(int64(f*1_000_000_007 + i))
		case **float64:
			*p = ptr(float64(f) + 0.25)
		case **bool:
			*p = ptr(false)
		case *[]int64:
			*p = []int64{0, int64(i), 1 << 40, -5}
		}
	}
	return r
}

func sampleRequests(n int) []Request {
	rows := make([]Request, n)
	for i := range rows {
		switch i % 3 {
		case 0:
			rows[i] = fullRequest(i)
		case 1: // every nullable column null
			rows[i] = Request{RunID: "run", RequestID: fmt.Sprint("req-", i), Status: string(StatusNotReached)}
		case 2: // zero values are not nulls
			rows[i] = Request{RequestID: fmt.Sprint("req-", i), HTTPStatus: ptr(int64(0)), Text: ptr(""), TTFTMS: ptr(0.0), ChunkNS: []int64{0}, Tags: map[string]string{"": ""}}
		}
	}
	return rows
}

func sampleConversation() Conversation {
	return Conversation{
		ConversationID: "c1",
		Messages: []Message{
			{Role: "system", Content: ptr("be kind")},
			{Role: "user", Content: ptr("look"), Parts: ptr(`[{"type":"text","text":"look"}]`), Name: ptr("ann")},
			{Role: "assistant", ToolCalls: ptr(`[{"id":"t1"}]`)},
			{Role: "tool", Content: ptr(""), ToolCallID: ptr("t1")},
		},
		Tools: ptr("[]"),
		Turns: []Turn{
			{MessageIndex: 2, NewTokens: ptr(int64(3)), OutputTokens: ptr(int64(0))},
			{MessageIndex: 4, PromptTokens: ptr(int64(9)), ThinkTimeMS: ptr(0.0), ToolTimeMS: ptr(7.5), Joins: []string{"c2", ""}, ExpectedCachedTokens: ptr(int64(4))},
		},
		StartOffsetMS: ptr(1.5), ParentID: ptr("c0"), ParentTurn: ptr(int64(0)), ParentDelayMS: ptr(2.0), ParentFrom: ptr("end"),
		PrefixGroup: ptr("g"), Body: ptr(`{"temperature":0}`), Tags: map[string]string{"lang": "en"},
	}
}

// normal makes empty and absent lists and maps alike: a file does not tell them apart.
func normal[T any](v T) T {
	rv := reflect.ValueOf(&v).Elem()
	for i := range rv.NumField() {
		f := rv.Field(i)
		if (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0 {
			f.SetZero()
		}
	}
	if c, ok := any(&v).(*Conversation); ok {
		for i := range c.Turns {
			c.Turns[i] = normal(c.Turns[i])
		}
	}
	return v
}

func writeFile[T Row](t *testing.T, path string, meta any, rows ...T) {
	t.Helper()
	w, err := Create[T](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(meta); err != nil {
		t.Fatal(err)
	}
}

func readFile[T Row](path string) ([]T, error) {
	f, err := Open[T](path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []T
	for r, err := range f.Rows(0) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, normal(r))
	}
	return rows, nil
}

func checkRows[T any](t *testing.T, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(normal(got[i]), normal(want[i])) {
			t.Fatalf("row %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestRequestsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.parquet")
	want := sampleRequests(5000)
	writeFile(t, path, RunMeta{RunID: "run", Planned: 5000}, want...)
	got, err := readFile[Request](path)
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, got, want)
	f, err := Open[Request](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var meta RunMeta
	if err := f.Meta(&meta); err != nil || meta.Planned != 5000 {
		t.Fatalf("metadata %+v, %v", meta, err)
	}
	for r, err := range f.Rows(4321) {
		if err != nil || r.RequestID != "req-4321" {
			t.Fatalf("row 4321 is %s, %v", r.RequestID, err)
		}
		break
	}
}

func TestConversationsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chat.parquet")
	want := sampleConversation()
	writeFile(t, path, DatasetMeta{Conversations: 1}, want)
	got, err := readFile[Conversation](path)
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, got, []Conversation{want})
	d, err := OpenDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for o, err := range d.Outlines() {
		if err != nil {
			t.Fatal(err)
		}
		if o.ConversationID != "c1" || !reflect.DeepEqual(normal(Conversation{Turns: o.Turns}).Turns, want.Turns) || *o.ParentFrom != "end" || *o.ParentDelayMS != 2 || o.Tags["lang"] != "en" {
			t.Fatalf("outline %+v", o)
		}
	}
}

func TestWriterManners(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	w, err := Create[Sample](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("an unfinished file has its final name")
	}
	// Somebody else makes the file meanwhile: it is not overwritten.
	if err := os.WriteFile(path, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	_ = w.Close(nil)
	w2, err := Create[Sample](path, false)
	if !errors.Is(err, ErrExists) {
		t.Fatalf("a second file over the first: %v", err)
	}
	_ = w2
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w, err = Create[Sample](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Fatalf("an aborted writer leaves %v", left)
	}
	if _, err := Create[Sample](filepath.Join(dir, "no", "x.parquet"), false); err == nil {
		t.Fatal("a file in a folder that is not there")
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	samples := filepath.Join(dir, "s.parquet")
	writeFile(t, samples, nil, Sample{Name: "x"})
	text := filepath.Join(dir, "t.parquet")
	if err := os.WriteFile(text, []byte("not a Parquet file, but long enough to look at"), 0o644); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.parquet")
	w, err := createVersion[Sample](newer, false, fmt.Sprintf("%d.0", MajorVersion+1))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{samples, "is a telemetry file: a requests file is wanted"},
		{text, "not a whole Parquet file"},
		{filepath.Join(dir, "none.parquet"), "no such file"},
		{dir, "is a folder"},
	} {
		_, err := Open[Request](c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %q and the path", c.path, err, c.want)
		}
	}
	if _, err := Open[Sample](newer); err == nil || !strings.Contains(err.Error(), "use a newer parley") {
		t.Errorf("newer version: %v", err)
	}
}

// Damage must give an error that names the file or leave the rows as they were: never a panic, never
// other rows.
func TestDamagedParquet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.parquet")
	want := sampleRequests(300)
	writeFile(t, path, RunMeta{}, want...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	bad := filepath.Join(dir, "bad.parquet")
	silent := 0
	check := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(bad, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := readFile[Request](bad)
		if err != nil {
			if !strings.Contains(err.Error(), bad) {
				t.Errorf("%s: error does not name the file: %v", what, err)
			}
			return
		}
		for i := range want {
			if !reflect.DeepEqual(normal(got[i]), normal(want[i])) {
				silent++
				t.Logf("%s: row %d differs and no error", what, i)
				return
			}
		}
	}
	for range 400 {
		at, bit := rng.IntN(len(whole)), rng.IntN(8)
		data := append([]byte(nil), whole...)
		data[at] ^= 1 << bit
		check(fmt.Sprintf("bit %d of byte %d", bit, at), data)
	}
	for range 100 {
		n := rng.IntN(len(whole))
		check(fmt.Sprintf("cut to %d bytes", n), whole[:n])
	}
	if silent > 0 {
		t.Errorf("%d of 500 damaged files gave other rows without an error", silent)
	}
}

func TestJournal(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	meta := &RunMeta{RunID: "r1", Planned: 90}
	j, err := CreateJournal(out, meta)
	if err != nil {
		t.Fatal(err)
	}
	want := sampleRequests(90)
	for i := 0; i < 90; i += 30 {
		if err := j.AppendRequests(want[i : i+30]); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.AppendSamples([]Sample{{TimeNS: 1, Source: "client", Name: "x", Value: 2}}); err != nil {
		t.Fatal(err)
	}
	// Before it is closed, as after a kill, every batch is there.
	got, state := readAll(t, j.Dir())
	if state.Finished || len(state.Damage) > 0 {
		t.Fatalf("state %+v", state)
	}
	checkRows(t, got, want)
	if _, err := CreateJournal(out, meta); !errors.Is(err, ErrExists) {
		t.Fatalf("a second journal in the same place: %v", err)
	}
	if err := j.Abandon(); err != nil {
		t.Fatal(err)
	}

	j, err = ResumeJournal(out, &RunMeta{RunID: "r1", ResumedFrom: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.AppendRequests(want[:5]); err != nil {
		t.Fatal(err)
	}
	meta.Ended = "complete"
	if err := j.Finish(meta); err != nil {
		t.Fatal(err)
	}
	got, state = readAll(t, j.Dir())
	if !state.Finished || len(got) != 95 {
		t.Fatalf("%d rows, state %+v", len(got), state)
	}
	n, err := SealRun(out, meta, false)
	if err != nil || n != 95 {
		t.Fatalf("sealed %d rows, %v", n, err)
	}
	if _, err := os.Stat(j.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the journal is still there")
	}
	sealed, err := readFile[Request](out)
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, sealed, append(append([]Request(nil), want...), want[:5]...))
	samples, err := readFile[Sample](TelemetryPath(out))
	if err != nil || len(samples) != 1 || samples[0].Value != 2 {
		t.Fatalf("telemetry %v, %v", samples, err)
	}
}

func readAll(t *testing.T, dir string) ([]Request, JournalState) {
	t.Helper()
	var rows []Request
	state, err := ReadJournal(dir, func(batch []Request) error {
		rows = append(rows, batch...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, state
}

// A journal cut anywhere gives all batches before the cut; one with a flipped bit gives what stands
// before it, and says so. Neither ever gives other rows.
func TestDamagedJournal(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	j, err := CreateJournal(out, &RunMeta{})
	if err != nil {
		t.Fatal(err)
	}
	want := sampleRequests(60)
	for i := 0; i < 60; i += 10 {
		if err := j.AppendRequests(want[i : i+10]); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Abandon(); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(j.Dir(), "requests-000001.arrows")
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	sums, _, err := readSums(segment)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		data := append([]byte(nil), whole...)
		at := rng.IntN(len(whole))
		cut := rng.IntN(2) == 0
		if cut {
			data = data[:at]
		} else {
			data[at] ^= 1 << rng.IntN(8)
		}
		if err := os.WriteFile(segment, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, state := readAll(t, j.Dir())
		batches := 0
		for batches < len(sums) && sums[batches].end <= int64(at) {
			batches++
		}
		if len(got) != batches*10 {
			t.Fatalf("damage at %d (cut %v): %d rows, want %d", at, cut, len(got), batches*10)
		}
		// Damage after the last sum is in the end marker of the stream, which carries no row.
		if batches < len(sums) && len(state.Damage) == 0 {
			t.Fatalf("damage at %d (cut %v) is not told", at, cut)
		}
		checkRows(t, got, want[:len(got)])
	}
}

func TestSealKeepsDamagedJournal(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	j, err := CreateJournal(out, &RunMeta{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.AppendRequests(sampleRequests(3)), j.Finish(&RunMeta{})); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(j.Dir(), "requests-000001.arrows")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(segment, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := SealRun(out, &RunMeta{}, false); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("sealed a damaged journal: %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a file stands under the final name")
	}
	if !IsJournal(j.Dir()) {
		t.Fatal("the journal is gone")
	}
}

func TestDictionary(t *testing.T) {
	for _, kind := range []Kind{KindConversations, KindRequests, KindTelemetry} {
		for _, c := range Dictionary(kind) {
			if c.Doc == "" || !strings.HasSuffix(c.Doc, ".") {
				t.Errorf("%s.%s has no sentence that describes it", kind, c.Name)
			}
			if (strings.HasSuffix(c.Name, "_ns") && c.Unit != "ns") || (strings.HasSuffix(c.Name, "_ms") && c.Unit != "ms") {
				t.Errorf("%s.%s has the unit %q", kind, c.Name, c.Unit)
			}
		}
	}
	page, want := "README.md", DictionaryMarkdown()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("schemas/README.md is not what the row types say: renew it with 'go test ./schemas -update'")
	}
}

// TestFixtures reads one file per kind and version that was ever released.
func TestFixtures(t *testing.T) {
	version := fmt.Sprintf("%d.%d", MajorVersion, MinorVersion)
	names := map[Kind]string{}
	for _, k := range []Kind{KindConversations, KindRequests, KindTelemetry} {
		names[k] = filepath.Join("testdata", string(k)+"-"+version+".parquet")
	}
	if *update {
		for _, name := range names {
			os.Remove(name)
		}
		writeFile(t, names[KindConversations], DatasetMeta{ToolVersion: "fixture", Conversations: 1}, sampleConversation())
		writeFile(t, names[KindRequests], RunMeta{RunID: "run", Origin: time.Unix(1.7e9, 0).UTC(), Counts: map[Status]int64{StatusOK: 6}}, sampleRequests(6)...)
		writeFile(t, names[KindTelemetry], RunMeta{RunID: "run"}, Sample{TimeNS: 5, Source: "client", Name: "cpu", Raw: ptr("x"), Value: 0.5})
	}
	for _, pattern := range []string{"conversations-*.parquet", "requests-*.parquet", "telemetry-*.parquet"} {
		files, _ := filepath.Glob(filepath.Join("testdata", pattern))
		if len(files) == 0 {
			t.Fatalf("no fixture %s", pattern)
		}
		for _, path := range files {
			kind, err := Inspect(path)
			if err != nil {
				t.Fatal(err)
			}
			switch kind {
			case KindConversations:
				rows, err := readFile[Conversation](path)
				if err != nil || len(rows) != 1 || *rows[0].Messages[0].Content != "be kind" || *rows[0].Turns[1].PromptTokens != 9 {
					t.Errorf("%s: %v %v", path, rows, err)
				}
				old := strings.Contains(path, "-1.0.")
				if turn := rows[0].Turns[1]; (turn.ToolTimeMS == nil) != old || (len(turn.Joins) == 0) != old {
					t.Errorf("%s: tool time %v, joins %q", path, turn.ToolTimeMS, turn.Joins)
				}
				// The hash that version 1.0 gave this conversation: what it did not know does not change it.
				if sum := HashConversation(&rows[0]); old && fmt.Sprintf("%x", sum[:8]) != "3d64883a5b0db180" {
					t.Errorf("%s: the conversation's hash is %x now", path, sum)
				}
			case KindRequests:
				rows, err := readFile[Request](path)
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) != 6 || rows[0].ChunkNS[2] != 1<<40 || rows[1].SentNS != nil || *rows[2].Text != "" {
					t.Errorf("%s: %v", path, rows)
				}
				if old := strings.Contains(path, "-1.0."); (rows[0].AttemptNS == nil) != old || (rows[0].Stage == nil) != old {
					t.Errorf("%s: attempts at %v, stage %v", path, rows[0].AttemptNS, rows[0].Stage)
				}
			case KindTelemetry:
				rows, err := readFile[Sample](path)
				if err != nil || len(rows) != 1 || rows[0].Value != 0.5 {
					t.Errorf("%s: %v %v", path, rows, err)
				}
			default:
				t.Errorf("%s is of kind %q", path, kind)
			}
		}
	}
}

func TestContentHashTellsEveryColumn(t *testing.T) {
	base := sampleConversation()
	seen := map[string]string{fmt.Sprint(HashConversation(&base)): "the original"}
	var walk func(path string, v reflect.Value)
	note := func(path string) {
		sum := fmt.Sprint(HashConversation(&base))
		if other, ok := seen[sum]; ok {
			t.Errorf("changing %s gives the hash of %s", path, other)
		}
		seen[sum] = path
	}
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "Index" && name != "ContentHash" { // which tell of the row, not of what it says
					walk(path+"."+name, v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.Pointer:
			old := reflect.ValueOf(v.Interface())
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			} else {
				v.SetZero()
			}
			note(path)
			v.Set(old)
		case reflect.String:
			old := v.String()
			v.SetString(old + "!")
			note(path)
			v.SetString(old)
		case reflect.Int64:
			v.SetInt(v.Int() + 1)
			note(path)
			v.SetInt(v.Int() - 1)
		case reflect.Map:
			base.Tags["x"] = "y"
			note(path)
			delete(base.Tags, "x")
		}
	}
	walk("", reflect.ValueOf(&base).Elem())
	if len(seen) < 30 {
		t.Errorf("only %d changes were tried", len(seen))
	}
}

func TestDeriveTurns(t *testing.T) {
	for _, c := range []struct {
		roles string
		want  []int64
	}{
		{"", nil},
		{"u", []int64{1}},
		{"ua", []int64{1}},
		{"sua", []int64{2}},
		{"aua", []int64{2}}, // starts with an answer: history
		{"uaua", []int64{1, 3}},
		{"uauatau", []int64{1, 3, 5, 7}},
		{"uaa", []int64{1}},
		{"s", nil},
	} {
		names := map[rune]string{'u': "user", 'a': "assistant", 's': "system", 't': "tool"}
		var messages []Message
		for _, r := range c.roles {
			messages = append(messages, Message{Role: names[r], Content: ptr("x")})
		}
		var got []int64
		for _, turn := range DeriveTurns(messages) {
			got = append(got, turn.MessageIndex)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: turns at %v, want %v", c.roles, got, c.want)
		}
	}
}

func TestDerive(t *testing.T) {
	r := Request{ScheduledNS: ptr(int64(0)), SentNS: ptr(int64(2e6)), FirstTokenNS: ptr(int64(12e6)), LastTokenNS: ptr(int64(112e6)),
		CompletionTokens: ptr(int64(11)), ChunkNS: []int64{12e6, 62e6, 112e6}}
	r.Derive()
	text, _ := json.Marshal([]*float64{r.SendLagMS, r.TTFTMS, r.E2EMS, r.TPOTMS})
	if string(text) != "[2,10,110,10]" {
		t.Errorf("derived %s", text)
	}
	r.ChunkTokens = []int64{6, 2, 3}
	if r.Derive(); *r.TPOTMS != 20 {
		t.Errorf("TPOT %v, want 100 ms over the 5 tokens after the first chunk", *r.TPOTMS)
	}
	r.ChunkNS, r.ChunkTokens = r.ChunkNS[:1], nil
	if r.Derive(); r.TPOTMS != nil {
		t.Errorf("TPOT %v of one chunk", *r.TPOTMS)
	}
}

func FuzzReadSums(f *testing.F) {
	f.Add([]byte("100 5 0000abcd\n200 5 0000abce\n"))
	f.Add([]byte("100 5 xyz\n1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		segment := filepath.Join(t.TempDir(), "a.arrows")
		if err := os.WriteFile(strings.TrimSuffix(segment, ".arrows")+".sums", data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(segment, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readSegment(segment, func([]Request) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
