package importer

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// repeated gives records of a ShareGPT array without end until there are n of them, and is no file: like
// a pipe.
type repeated struct {
	n, at int
	buf   []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.buf) == 0 {
		switch {
		case r.at == r.n:
			return 0, io.EOF
		case r.at == 0:
			r.buf = append(r.buf, '[')
		default:
			r.buf = append(r.buf, ",\n"...)
		}
		r.buf = fmt.Appendf(r.buf, `{"id":"c%d_%d","conversations":[{"from":"human","value":"question %d about %s"},{"from":"gpt","value":"answer %s"}]}`,
			r.at/2, r.at%2*2, r.at, strings.Repeat("something ", 20), strings.Repeat("or other ", 60))
		if r.at++; r.at == r.n {
			r.buf = append(r.buf, ']')
		}
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// TestMemoryDoesNotGrow imports ever more records: what is live may grow by what the joins need, some
// dozens of bytes for each, and not with the text.
func TestMemoryDoesNotGrow(t *testing.T) {
	live := func(records int) (uint64, int64) {
		im, err := Open([]string{"-"}, Options{Tokenizer: tok(t), Stdin: &repeated{n: records}})
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		var most uint64
		n := 0
		for _, err := range im.Conversations() {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%2000 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
		if n != records/2 {
			t.Fatalf("%d conversations of %d records", n, records)
		}
		return most, im.Report().Kept
	}
	small, _ := live(4000)
	large, kept := live(24000) // 20 MB of text
	if grown := int64(large) - int64(small); grown > 200*(kept-4000) {
		t.Errorf("%d records hold %d bytes more than 4,000", kept, grown)
	}
}

func BenchmarkShareGPT(b *testing.B) {
	const records = 4000
	size := int64(0)
	n, _ := io.Copy(io.Discard, &repeated{n: records})
	size += n
	b.SetBytes(size)
	for b.Loop() {
		im, err := Open([]string{"-"}, Options{Tokenizer: tok(b), Stdin: &repeated{n: records}})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range im.Conversations() {
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := im.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
