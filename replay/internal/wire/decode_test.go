package wire

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

func rawDeflate(text string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.DefaultCompression)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// The decoders give the same whatever the pieces.
func TestDecoder(t *testing.T) {
	text := strings.Repeat(sseBody, 20)
	r := rand.New(rand.NewPCG(1, 2))
	for name, in := range map[string]string{
		"gzip": compress("gzip", text), "x-gzip": compress("gzip", text[:900]) + compress("gzip", text[900:]),
		" Deflate": compress("deflate", text), "deflate": rawDeflate(text),
	} {
		for _, pieces := range [][][]byte{{[]byte(in)}, bytewise([]byte(in)), randomly([]byte(in), r)} {
			var got []byte
			d, err := newDecoder(name, 1<<20, func(b []byte) error { got = append(got, b...); return nil })
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pieces {
				if err := d.feed(p); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if err := d.finish(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			d.close()
			if string(got) != text {
				t.Fatalf("%s in %d pieces: %d bytes, want %d", name, len(pieces), len(got), len(text))
			}
		}
		d, _ := newDecoder(name, 1<<20, func([]byte) error { return nil })
		d.feed([]byte(in[:len(in)/2]))
		if err := d.finish(); err == nil || failure(err, reading).Kind != KindCutBody {
			t.Fatalf("%s cut in the middle: %v", name, err)
		}
		d.close()
	}
}

// What a server flushes is decoded when it arrives, not later.
func TestDecoderGivesFlushedData(t *testing.T) {
	var wire bytes.Buffer
	w := gzip.NewWriter(&wire)
	got := ""
	d, err := newDecoder("gzip", 1<<20, func(b []byte) error { got += string(b); return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	want := ""
	for range 5 {
		io.WriteString(w, "data: 1\n\n")
		want += "data: 1\n\n"
		w.Flush()
		if err := d.feed(wire.Bytes()); err != nil {
			t.Fatal(err)
		}
		wire.Reset()
		if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add("gzip", []byte(compress("gzip", sseBody)), uint64(1))
	f.Add("deflate", []byte(compress("deflate", sseBody)), uint64(2))
	f.Add("deflate", []byte(rawDeflate(sseBody)), uint64(3))
	f.Fuzz(func(t *testing.T, encoding string, in []byte, seed uint64) {
		decode := func(pieces ...[]byte) (string, bool) {
			var got []byte
			d, err := newDecoder(encoding, 1<<16, func(b []byte) error { got = append(got, b...); return nil })
			if d == nil {
				return "", err == nil
			}
			defer d.close()
			for _, p := range pieces {
				if err = d.feed(p); err != nil {
					return "", false // how much came out before depends on the pieces
				}
			}
			if err = d.finish(); err != nil {
				return "", false
			}
			return string(got), true
		}
		one, ok := decode(in)
		if some, k := decode(randomly(in, rand.New(rand.NewPCG(seed, 1)))...); some != one || k != ok {
			t.Fatalf("the pieces matter: %d bytes %t, %d bytes %t", len(one), ok, len(some), k)
		}
	})
}
