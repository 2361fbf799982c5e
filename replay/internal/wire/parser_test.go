package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/replay/internal/api"
)

// taken is what a parser found.
type taken struct {
	status  int
	headers []string
	body    []byte
	err     string
	kind    string
	keep    bool
	used    int
}

type taker struct{ taken }

func (t *taker) head(p *parser) error {
	t.status = p.status
	for _, f := range p.fields {
		t.headers = append(t.headers, http.CanonicalHeaderKey(string(f.name))+": "+string(f.value))
	}
	slices.Sort(t.headers)
	return nil
}

func (t *taker) data(b []byte) error {
	t.body = append(t.body, b...)
	return nil
}

// parse feeds the pieces, then the end of the connection.
func parse(maxHeader, maxBody int64, pieces ...[]byte) taken {
	var p parser
	var t taker
	p.reset(maxHeader, maxBody)
	var err error
	for _, piece := range pieces {
		var n int
		piece = slices.Clone(piece) // nothing may be kept of it
		n, err = p.feed(piece, &t)
		clear(piece)
		if t.used += n; err != nil {
			break
		}
	}
	if err == nil {
		err = p.eof()
	}
	if err != nil {
		t.err = err.Error()
		var f *api.Failure
		if errors.As(err, &f) {
			t.kind = f.Kind
		}
	}
	t.keep = p.keep && p.complete()
	return t.taken
}

// bytewise cuts b into single bytes.
func bytewise(b []byte) [][]byte {
	pieces := make([][]byte, len(b))
	for i := range b {
		pieces[i] = b[i : i+1]
	}
	return pieces
}

func randomly(b []byte, r *rand.Rand) (pieces [][]byte) {
	for len(b) > 0 {
		n := 1 + r.IntN(min(len(b), 40))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

func (t taken) equal(u taken) bool {
	return t.status == u.status && slices.Equal(t.headers, u.headers) && bytes.Equal(t.body, u.body) && t.kind == u.kind && t.keep == u.keep && (t.used == u.used || t.kind != "")
}

func TestParser(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, test := range []struct {
		name, in string
		status   int
		body     string
		kind     string
		keep     bool
		rest     int // bytes after the response
	}{
		{name: "chunked", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", status: 200, body: "hello!", keep: true},
		{name: "extensions and trailers", in: "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0;last\r\nX-T: 1\r\nX-U: 2\r\n\r\n", status: 200, body: "hello", keep: true},
		{name: "upper-case sizes, space before extension", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0A ;x\r\n0123456789\r\n0\r\n\r\n", status: 200, body: "0123456789", keep: true},
		{name: "length", in: "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc", status: 404, body: "abc", keep: true},
		{name: "more than the length", in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", status: 200, body: "abc", keep: true, rest: 3},
		{name: "until the end", in: "HTTP/1.1 200 OK\r\n\r\nall of it", status: 200, body: "all of it"},
		{name: "close", in: "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x"},
		{name: "HTTP/1.0", in: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x"},
		{name: "HTTP/1.0 that keeps", in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", keep: true},
		{name: "HTTP/1.0 has no chunks", in: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx", status: 200, body: "1\r\nx"},
		{name: "bare line feeds", in: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", status: 200, body: "ok", keep: true},
		{name: "folded", in: "HTTP/1.1 200 OK\r\nX: a\r\n  b\r\n\tc\r\nContent-Length: 0\r\n\r\n", status: 200, keep: true},
		{name: "interim", in: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", keep: true},
		{name: "space before colon", in: "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nall", status: 200, body: "all"},
		{name: "no content", in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, keep: true},
		{name: "not modified, with a length", in: "HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n", status: 304, keep: true},
		{name: "no reason", in: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", status: 200, keep: true},
		{name: "the same length twice", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", keep: true},
		{name: "chunks win over a length", in: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: "x", keep: true},

		{name: "nothing", in: "", kind: KindEOF},
		{name: "half a header", in: "HTTP/1.1 200 OK\r\nX: y", kind: KindEOF},
		{name: "cut length", in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", status: 200, body: "ab", kind: KindCutBody},
		{name: "cut chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", status: 200, body: "hel", kind: KindCutBody},
		{name: "cut after a chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", status: 200, body: "x", kind: KindCutBody},
		{name: "cut trailer", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n", status: 200, kind: KindCutBody},
		{name: "two lengths", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", kind: KindBadResponse},
		{name: "negative length", in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", kind: KindBadResponse},
		{name: "other coding", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", kind: KindBadResponse},
		{name: "SSH", in: "SSH-2.0-OpenSSH_9.6", kind: KindBadResponse},
		{name: "HTTP/2", in: "HTTP/2 200\r\n\r\n", kind: KindBadResponse},
		{name: "TLS alert", in: "\x15\x03\x01\x00\x02\x02\x16", kind: KindBadResponse},
		{name: "no colon", in: "HTTP/1.1 200 OK\r\nbad line\r\n\r\n", kind: KindBadResponse},
		{name: "tab before colon", in: "HTTP/1.1 200 OK\r\nX\t: y\r\n\r\n", kind: KindBadResponse},
		{name: "fold first", in: "HTTP/1.1 200 OK\r\n x: y\r\n\r\n", kind: KindBadResponse},
		{name: "status of two digits", in: "HTTP/1.1 20 OK\r\n\r\n", kind: KindBadResponse},
		{name: "status with a sign", in: "HTTP/1.1 +20 OK\r\n\r\n", kind: KindBadResponse},
		{name: "switching", in: "HTTP/1.1 101 Switching Protocols\r\n\r\n", kind: KindBadResponse},
		{name: "endless interim", in: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 40), kind: KindBadResponse},
		{name: "no size", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", status: 200, kind: KindBadResponse},
		{name: "size not hex", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n", status: 200, kind: KindBadResponse},
		{name: "negative size", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", status: 200, kind: KindBadResponse},
		{name: "huge size", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", status: 200, kind: KindBadResponse},
		{name: "no line end after a chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy", status: 200, body: "x", kind: KindBadResponse},
		{name: "endless size line", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + long, status: 200, kind: KindLineTooLong},
		{name: "header flood", in: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Flood: "+long+"\r\n", 4), kind: KindHeaderTooLarge},
		{name: "one endless header line", in: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat(long, 4), kind: KindHeaderTooLarge},
		{name: "trailer flood", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: "+long+"\r\n", 4), status: 200, kind: KindHeaderTooLarge},
		{name: "length above the limit", in: "HTTP/1.1 200 OK\r\nContent-Length: 20001\r\n\r\n", kind: KindBodyTooLarge},
		{name: "endless body", in: "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(long, 5), status: 200, body: "", kind: KindBodyTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := []byte(test.in)
			got := parse(16<<10, 20000, in)
			if got.status != test.status || got.kind != test.kind || got.keep != test.keep {
				t.Errorf("status %d, kind %q (%s), keep %t; want %d, %q, %t", got.status, got.kind, got.err, got.keep, test.status, test.kind, test.keep)
			}
			if test.kind != KindBodyTooLarge && string(got.body) != test.body {
				t.Errorf("body %q, want %q", got.body, test.body)
			}
			if test.kind == "" && got.used != len(in)-test.rest {
				t.Errorf("used %d of %d bytes, %d should be left", got.used, len(in), test.rest)
			}
			if test.kind == KindBodyTooLarge {
				return // how much of the body is given before the error depends on the pieces
			}
			if by := parse(16<<10, 20000, bytewise(in)...); !by.equal(got) && test.kind == "" {
				t.Errorf("byte by byte: %+v, in one piece: %+v", by, got)
			} else if by.kind != got.kind {
				t.Errorf("byte by byte: kind %q, in one piece %q", by.kind, got.kind)
			}
		})
	}
}

func TestFoldedValue(t *testing.T) {
	got := parse(1000, 1000, []byte("HTTP/1.1 200 OK\r\nX: a\r\n  b\r\n\tc \r\nY:\r\nContent-Length: 0\r\n\r\n"))
	if want := []string{"Content-Length: 0", "X: a b c", "Y: "}; !slices.Equal(got.headers, want) {
		t.Fatalf("%q, want %q", got.headers, want)
	}
}

// oracle reads with net/http, interim responses skipped.
func oracle(in []byte) (t taken, ok bool) {
	counting := bytes.NewReader(in)
	r := bufio.NewReader(counting)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return t, false
		}
		if resp.ProtoMajor != 1 || resp.ProtoMinor > 1 || resp.StatusCode == 101 {
			return t, false
		}
		if resp.StatusCode >= 100 && resp.StatusCode <= 199 {
			continue
		}
		t.status = resp.StatusCode
		body, err := io.ReadAll(resp.Body)
		t.body = body
		return t, err == nil && resp.StatusCode >= 200
	}
}

func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		response(),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.0 500 Oh\nX: a\n b\n\nbody",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\nT 0:0\n\r\n0",
		"HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		one := parse(1<<20, 1<<20, in)
		by := parse(1<<20, 1<<20, bytewise(in)...)
		some := parse(1<<20, 1<<20, randomly(in, rand.New(rand.NewPCG(seed, 1)))...)
		if !one.equal(by) || !one.equal(some) {
			t.Fatalf("the pieces matter:\none   %+v\nbytes %+v\nsome  %+v", one, by, some)
		}
		want, ok := oracle(in)
		if !ok {
			return
		}
		if one.kind == KindLineTooLong || one.kind == KindBodyTooLarge || one.kind == KindHeaderTooLarge {
			return // net/http counts otherwise
		}
		if one.err != "" && want.status < 1000 {
			t.Fatalf("net/http takes it as %d with %q; here: %s", want.status, want.body, one.err)
		}
		if one.status != want.status || !bytes.Equal(one.body, want.body) {
			t.Fatalf("net/http: %d with %q; here: %d with %q", want.status, want.body, one.status, one.body)
		}
	})
}

// What is accepted in excess of net/http stays within what is meant to be.
func TestParserAgreesOnGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		body := make([]byte, r.IntN(300))
		for j := range body {
			body[j] = "data: x\n{}"[r.IntN(10)]
		}
		var in string
		switch r.IntN(3) {
		case 0:
			in = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(string(body), 1+r.IntN(50))
		case 1:
			in = fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: %d\r\nX-A: b\r\n\r\n%s", 200+r.IntN(300), len(body), body)
		default:
			in = "HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n" + string(body)
		}
		in = in[:len(in)-r.IntN(2)*r.IntN(len(in))] // half of them cut
		got := parse(1<<20, 1<<20, randomly([]byte(in), r)...)
		want, ok := oracle([]byte(in))
		if ok != (got.err == "") || ok && (got.status != want.status || !bytes.Equal(got.body, want.body)) {
			t.Fatalf("%d: %q:\nnet/http %t %+v\nhere %+v", i, in, ok, want, got)
		}
	}
}

func TestParserAllocatesNothing(t *testing.T) {
	chunk := []byte("c8\r\n" + strings.Repeat("x", 200) + "\r\n")
	var p parser
	var n nobody
	p.reset(1<<20, 1<<60)
	if _, err := p.feed([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), n); err != nil {
		t.Fatal(err)
	}
	if allocs := testing.AllocsPerRun(1000, func() {
		p.feed(chunk[:10], n)
		p.feed(chunk[10:], n)
	}); allocs != 0 {
		t.Fatalf("%v allocations per chunk", allocs)
	}
}

type nobody struct{}

func (nobody) head(*parser) error { return nil }
func (nobody) data([]byte) error  { return nil }

func BenchmarkParser(b *testing.B) {
	chunk := []byte("c8\r\n" + strings.Repeat("x", 200) + "\r\n")
	var p parser
	p.reset(1<<20, 1<<60)
	p.feed([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), nobody{})
	b.ReportAllocs()
	for b.Loop() {
		p.feed(chunk, nobody{})
	}
}
