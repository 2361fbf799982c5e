package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
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
			s := NewScanner(in)
			if slow {
				s.buf = make([]byte, 3)
			}
			var got []string
			for {
				rec, err := s.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if rec.Bad != "" {
					got = append(got, "!")
					continue
				}
				if at := c.in[rec.Off:]; !strings.HasPrefix(at, string(rec.Data)) {
					t.Errorf("%.60q: record %d is not at offset %d", c.in, rec.Number, rec.Off)
				}
				if want := 1 + int64(strings.Count(c.in[:rec.Off], "\n")); rec.Line != want {
					t.Errorf("%.60q: record %d is on line %d, not %d", c.in, rec.Number, want, rec.Line)
				}
				got = append(got, string(rec.Data))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%.60q: got %s, want %s", c.in, g, c.want)
			}
		}
	}
}

func TestScannerTellsReadErrors(t *testing.T) {
	broken := errors.New("the disk is gone")
	s := NewScanner(io.MultiReader(strings.NewReader(`[{"a":1},{"b":`), iotest.ErrReader(broken)))
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func FuzzScanner(f *testing.F) {
	for _, s := range []string{`[{"a":1},{"b":"x"}]`, "{\"a\":\"\\u00e9\"}\n{", `[{"a":"x"y"},{"b":2}]`, "[[[[", `{"a":[1,2,{"b":null}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner(bytes.NewReader(data))
		for n := 0; ; n++ {
			rec, err := s.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if n > len(data)+2 {
				t.Fatal("more records than bytes")
			}
			if rec.Bad != "" {
				continue
			}
			if text := string(AppendText(nil, rec.Data)); !json.Valid([]byte(text)) {
				t.Fatalf("%q as a text is %s", rec.Data, text)
			} else if back, err := Text([]byte(text)); err != nil || back != strings.ToValidUTF8(string(rec.Data), "\ufffd") && utf8.Valid(rec.Data) {
				t.Fatalf("%q came back from a text as %q, %v", rec.Data, back, err)
			}
			if !bytes.Equal(data[rec.Off:rec.Off+int64(len(rec.Data))], rec.Data) {
				t.Fatalf("record at %d is not what stands there", rec.Off)
			}
			// What encoding/json takes, walk takes apart alike.
			var want map[string]json.RawMessage
			if rec.Data[0] == '{' && json.Unmarshal(rec.Data, &want) == nil {
				got, err := Members(rec.Data)
				if err != nil {
					t.Fatalf("%q: %v", rec.Data, err)
				}
				for k, v := range want {
					if strings.ContainsRune(k, '\ufffd') || len(got) != len(want) {
						continue // keys with escapes or bad UTF-8 stay as they stand
					}
					if g, ok := got[k]; ok && !bytes.Equal(g, v) {
						t.Fatalf("%q: key %q is %q, want %q", rec.Data, k, g, v)
					}
				}
			}
		}
	})
}

// FuzzText decodes what encoding/json decodes, and alike.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a"`, `"\ud83d\ude00\ud83d\u0041\/\b\t\"\\"`, `"\u00"`, `"\x"`, "\"a\nb\"", "\"\xff\u00e9\"", `"a"b"`, `"\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want string
		no := json.Unmarshal(raw, &want)
		got, err := Text(raw)
		if len(raw) == 0 || raw[0] != '"' || raw[len(raw)-1] != '"' {
			return // white space around it
		}
		if bytes.ContainsFunc(raw, func(r rune) bool { return r < 0x20 }) {
			return // the scanner passes no such text
		}
		if (err == nil) != (no == nil) || got != want && no == nil {
			t.Fatalf("%q: got %q, %v; encoding/json gives %q, %v", raw, got, err, want, no)
		}
	})
}
