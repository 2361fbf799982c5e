package sse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	gosse "github.com/tmaxmax/go-sse"
)

// got is one event, copied.
type got struct {
	Name, Data, ID string
	At             int64
}

// run feeds the pieces, each stamped with the offset of its end, and gives all events.
func run(p *Parser, pieces ...string) (events []got) {
	at := 0
	for _, piece := range pieces {
		at += len(piece)
		b := []byte(piece)
		p.Feed(b, int64(at))
		for {
			ev, ok := p.Next()
			if !ok {
				break
			}
			events = append(events, got{string(ev.Name), string(ev.Data), string(ev.ID), ev.At})
		}
		for i := range b {
			b[i] = '#' // a parser that keeps the caller's bytes is found out
		}
	}
	return events
}

func split(s string, sizes func() int) (pieces []string) {
	for s != "" {
		n := min(max(sizes(), 1), len(s))
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

// TestRules goes through the rules of the standard. The first ones are the examples in its text (section
// 9.2.6).
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string // name|data|id|the bytes up to the end of the event
	}{
		{"stock", "data: YHOO\ndata: +2\ndata: 10\n\n", []string{"|YHOO\n+2\n10||30"}},
		{"blocks", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
			[]string{"|first event|1|40", "|second event||62", "| third event||82"}},
		{"empty data", "data\n\ndata\ndata\n\ndata:", []string{"|||6", "|\n||17"}},
		{"one space", "data:test\n\ndata: test\n\n", []string{"|test||11", "|test||23"}},
		{"cr", "data: a\rdata: b\r\r", []string{"|a\nb||17"}},
		{"crlf ends at its cr", "data: a\r\ndata: b\r\n\r\n", []string{"|a\nb||19"}},
		{"mixed", "data: a\r\rdata: b\n\r\ndata: c\r\n\n", []string{"|a||9", "|b||18", "|c||29"}},
		{"bom", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []string{"|a||12"}},
		{"name", "event: x\ndata: a\n\nevent: y\n\ndata: b\n\n", []string{"x|a||18", "|b||37"}},
		{"name last wins", "event: x\nevent: y\ndata: a\n\n", []string{"y|a||27"}},
		{"id", "id: 7\ndata: a\n\ndata: b\n\nid: \x00\ndata: c\n\nid\ndata: d\n\n",
			[]string{"|a|7|15", "|b|7|24", "|c|7|39", "|d||51"}},
		{"unknown", "foo: x\n data: y\nDATA: z\ndata : w\ndata: a\n\n", []string{"|a||42"}},
		{"no end", "data: a\n", nil},
		{"empty event", ": comment\n\n\n\ndata: a\n\n", []string{"|a||22"}},
		{"field named error", "error: {}\n\nid: 1\nerror: a\n\n", []string{"error|{}||11", "error|a|1|27"}},
		{"error in comments", ": a\nevent: error\n: b\n\n: c\n\nevent: error\n: d\ndata: e\n\nevent: error\n\n",
			[]string{"error|a\nb||22", "error|e||53", "error|||67"}},
		{"colon in data", "data: a: b\n\n", []string{"|a: b||12"}},
	} {
		exact := run(new(Parser), split(c.in, func() int { return 1 })...)
		if a, b := fmt.Sprintf("%q", show(exact)), fmt.Sprintf("%q", c.want); a != b {
			t.Errorf("%s: %s, want %s", c.name, a, b)
			continue
		}
		for size := 2; size <= len(c.in); size++ {
			events := run(new(Parser), split(c.in, func() int { return size })...)
			if len(events) != len(exact) {
				t.Fatalf("%s in pieces of %d: %d events", c.name, size, len(events))
			}
			for i, ev := range events { // stamped with the end of the piece
				want := exact[i]
				want.At = min((want.At+int64(size)-1)/int64(size)*int64(size), int64(len(c.in)))
				if ev != want {
					t.Fatalf("%s in pieces of %d: %+v, want %+v", c.name, size, ev, want)
				}
			}
		}
	}
}

func TestComments(t *testing.T) {
	var p Parser
	run(&p, ": ping\n", ":\n\n", "data: x\n: in between\n\n", "retry: 3000\nretry: -1\nretry: 1x\nretry:\n")
	if n := p.Comments(); n != 3 {
		t.Errorf("%d comments", n)
	}
	p.Reset()
	if p.Comments() != 0 {
		t.Error("comments survive a reset")
	}
}

// TestTail checks what stands unfinished at the end: a browser and go-sse drop it in silence.
func TestTail(t *testing.T) {
	for _, c := range []struct {
		in, want string
		ok       bool
	}{
		{"data: a\n\n", "", false},
		{"data: a\n\ndata: b", "b", true},
		{"data: a\n\ndata: b\n", "b", true},
		{"data: a\n\ndata: b\ndata: c", "b\nc", true},
		{"data: a\n\nevent: x\n", "", false},
		{"data: a\n\n: comment", "", false},
		{"data: a\n\nda", "", false},
		{"data: a\n\r", "", false},
	} {
		for size := 1; size <= len(c.in); size++ {
			var p Parser
			run(&p, split(c.in, func() int { return size })...)
			ev, ok := p.Tail()
			if ok != c.ok || string(ev.Data) != c.want {
				t.Errorf("%q in pieces of %d: %q %v", c.in, size, ev.Data, ok)
			}
		}
	}
}

func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		name, in string
		fits     bool
	}{
		{"line", "data: " + strings.Repeat("x", 90) + "\n\n", true},
		{"line", "data: " + strings.Repeat("x", 100) + "\n\n", false},
		{"endless line", strings.Repeat("x", 1000), false},
		{"lines", strings.Repeat("data: 1234567890\n", 20), false},
		{"comment", ":" + strings.Repeat("x", 200) + "\n", false},
		{"many small events", strings.Repeat("data: 1234567890\n\n", 20), true},
	} {
		for _, size := range []int{1, 7, 64, 5000} {
			p := Parser{MaxEvent: 100}
			run(&p, split(c.in, func() int { return size })...)
			if err := p.Err(); (err == nil) != c.fits {
				t.Errorf("%s in pieces of %d: %v", c.name, size, err)
			}
			if !c.fits {
				if more := run(&p, "data: later\n\n"); more != nil {
					t.Errorf("%s: events after the limit: %v", c.name, more)
				}
				p.Reset()
				if more := run(&p, "data: later\n\n"); len(more) != 1 {
					t.Errorf("%s: nothing after a reset", c.name)
				}
			}
		}
	}
}

// TestBigEvent sends 3 MiB in one line and in many.
func TestBigEvent(t *testing.T) {
	line := strings.Repeat("0123456789abcdef", 3<<16)
	want := line + "\n" + line
	in := "data: " + line + "\r\ndata: " + line + "\r\n\r\n"
	rng := rand.New(rand.NewPCG(1, 2))
	var p Parser
	for _, size := range []int{1 << 30, 4096, 100} {
		p.Reset()
		events := run(&p, split(in, func() int { return 1 + rng.IntN(size) })...)
		if len(events) != 1 || events[0].Data != want {
			t.Fatalf("size %d: %d events", size, len(events))
		}
	}
	if p.Reset(); cap(p.data) > keepBuffer || cap(p.line) > keepBuffer {
		t.Error("a reset keeps the memory of a huge event")
	}
}

func TestNoAllocations(t *testing.T) {
	stream := []byte(strings.Repeat("event: delta\r\ndata: {\"a\":\"word\"}\r\n\r\n: ping\n\ndata: a\ndata: b\n\n", 50))
	var p Parser
	pass := func() {
		p.Reset()
		for b := stream; len(b) > 0; {
			n := min(97, len(b))
			p.Feed(b[:n], 1)
			for _, ok := p.Next(); ok; _, ok = p.Next() {
			}
			b = b[n:]
		}
	}
	pass()
	if n := testing.AllocsPerRun(20, pass); n != 0 {
		t.Errorf("%v allocations for 100 events", n)
	}
}

// FuzzChunking checks that the pieces in which a stream arrives make no difference to its events.
func FuzzChunking(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "\ufeffdata: a\r\n\r\nevent: x\rdata: b\r\r", ": c\n\ndata:x\ndata\n\nid: 1\nretry: 5\n\n", "data: \xff\xfe\x00\n\ndata: cut",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		one, many := Parser{MaxEvent: 1000}, Parser{MaxEvent: 1000}
		rng := rand.New(rand.NewPCG(seed, 0))
		a := run(&one, string(in))
		b := run(&many, split(string(in), func() int { return rng.IntN(20) })...)
		strip := func(events []got) {
			for i := range events {
				events[i].At = 0
			}
		}
		strip(a)
		strip(b)
		if x, y := fmt.Sprintf("%+q", show(a)), fmt.Sprintf("%+q", show(b)); x != y {
			t.Fatalf("in one piece %s\nin pieces %s", x, y)
		}
		if (one.Err() == nil) != (many.Err() == nil) {
			t.Fatalf("errors %v and %v", one.Err(), many.Err())
		}
		ca := one.Comments()
		cb := many.Comments()
		if ca != cb {
			t.Fatalf("%d comments and %d", ca, cb)
		}
		ta, oka := one.Tail()
		tb, okb := many.Tail()
		if oka != okb || !bytes.Equal(ta.Data, tb.Data) {
			t.Fatalf("tails %q %v and %q %v", ta.Data, oka, tb.Data, okb)
		}
	})
}

// FuzzOracle holds the parser against go-sse where that one follows the standard: on streams that end
// with a whole event, without a byte-order mark, and of lines within its limits. It dispatches events
// that have a name or an id and no data, which the standard forbids: events of no data are left out.
func FuzzOracle(f *testing.F) {
	for _, s := range []string{
		"data: a", "event: x\r\ndata: b\rdata: c", "id: 1\ndata:x\n\ndata\n\n:c\n\nretry: 10", "data:  two spaces\nfoo: bar\ndata", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		in += "\n\n\n"
		if len(in) > 30000 || strings.Contains(in, "\ufeff") {
			return
		}
		var want []got
		for ev, err := range gosse.Read(strings.NewReader(in), nil) {
			if err != nil {
				t.Skip(err)
			}
			if ev.Data != "" {
				want = append(want, got{Name: ev.Type, Data: ev.Data, ID: ev.LastEventID})
			}
		}
		var p Parser
		var events []got
		for _, ev := range run(&p, in) {
			if ev.At = 0; ev.Data != "" {
				events = append(events, ev)
			}
		}
		if a, b := fmt.Sprintf("%+q", show(events)), fmt.Sprintf("%+q", show(want)); a != b {
			t.Fatalf("%q:\n%s\ngo-sse\n%s", in, a, b)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	event := []byte(`data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"}}]}` + "\n\n")
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("%d events a feed", n), func(b *testing.B) {
			stream := bytes.Repeat(event, n)
			var p Parser
			b.ReportAllocs()
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				p.Feed(stream, 1)
				for _, ok := p.Next(); ok; _, ok = p.Next() {
				}
			}
		})
	}
}

// show gives events as strings that tell every byte.
func show(events []got) (lines []string) {
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%d", e.Name, e.Data, e.ID, e.At))
	}
	return lines
}
