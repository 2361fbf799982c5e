package schemas

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// randomRequests makes rows with every kind of null and every length of list, among them lists that are
// longer than a page.
func randomRequests(n int, longList int) []Request {
	rng := rand.New(rand.NewPCG(7, 1))
	maybe := func() *int64 {
		if rng.IntN(4) == 0 {
			return nil
		}
		v := rng.Int64N(1e12)
		return &v
	}
	text := func(s string) *string {
		if rng.IntN(3) == 0 {
			return nil
		}
		return &s
	}
	rows := make([]Request, n)
	for i := range rows {
		r := &rows[i]
		r.RunID, r.RequestID, r.ConversationID = "run", fmt.Sprint("r", i), fmt.Sprint("c", i%37)
		r.Instance, r.Turn, r.Phase, r.Status = int64(i%3), int64(i%9), PhaseMain, string(Statuses[i%len(Statuses)])
		r.SawDone = rng.IntN(2) == 0
		if rng.IntN(3) > 0 {
			b := rng.IntN(2) == 0
			r.Streamed = &b
		}
		r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens = maybe(), maybe(), maybe(), maybe()
		r.ErrorKind, r.ResponseID, r.Text = text(fmt.Sprint("kind", i%5)), text(fmt.Sprint("resp", i)), text("an answer")
		if rng.IntN(2) == 0 {
			r.Tags = map[string]string{"source": fmt.Sprint("s", i%4), "lang": "en"}
		} else if rng.IntN(2) == 0 {
			r.Tags = map[string]string{"lang": "de"}
		}
		size := rng.IntN(5)
		if longList > 0 && i%50 == 17 {
			size = longList
		}
		at := int64(0)
		for range size {
			at += rng.Int64N(1e8)
			r.ChunkNS = append(r.ChunkNS, at)
		}
		if rng.IntN(2) == 0 {
			for range size {
				r.ChunkTokens = append(r.ChunkTokens, rng.Int64N(4))
			}
		}
		r.Derive()
	}
	return rows
}

func writeRandom(t *testing.T, rows []Request) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.parquet")
	w, err := Create[Request](path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&RunMeta{RunID: "run"}); err != nil {
		t.Fatal(err)
	}
	return path
}

var testColumns = []string{"conversation_id", "turn", "saw_done", "streamed", "sent_ns", "completion_tokens",
	"status", "error_kind", "response_id", "text", "ttft_ms", "tpot_ms", "tag.source", "tag.nobody"}

// readTable reads columns and lists of a file.
func readTable(ctx context.Context, path string, names ...string) (*Table, []Lists, error) {
	f, err := Open[Request](path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var table Table
	if err := ReadColumns(ctx, f, &table, names...); err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var lists []Lists
	err = ReadLists(ctx, f, func(_ int, l *Lists) error {
		mu.Lock()
		defer mu.Unlock()
		lists = append(lists, Lists{l.First, slices.Clone(l.Offsets), slices.Clone(l.NS), slices.Clone(l.TokenAt), slices.Clone(l.Tokens)})
		return nil
	})
	slices.SortFunc(lists, func(a, b Lists) int { return a.First - b.First })
	return &table, lists, err
}

func sameVector(a, b *Vector) bool {
	if a.Len() != b.Len() || !slices.Equal(a.Ints, b.Ints) {
		return false
	}
	for i := range a.Floats {
		if math.Float64bits(a.Floats[i]) != math.Float64bits(b.Floats[i]) {
			return false
		}
	}
	for i, code := range a.Codes {
		other := b.Codes[i]
		if (code < 0) != (other < 0) || code >= 0 && a.Values[code] != b.Values[other] {
			return false
		}
	}
	return true
}

func TestColumnsEqualRows(t *testing.T) {
	for _, size := range []int{1, 1023, 1024, 1025, 5000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rows := randomRequests(size, 60_000/max(1, size/200))
			got, lists, err := readTable(t.Context(), writeRandom(t, rows), testColumns...)
			if err != nil {
				t.Fatal(err)
			}
			var want Table
			if err := want.AppendRows(rows, testColumns...); err != nil {
				t.Fatal(err)
			}
			if got.Rows != size || want.Rows != size {
				t.Fatalf("rows: %d and %d of %d", got.Rows, want.Rows, size)
			}
			for _, name := range testColumns {
				if !sameVector(got.Vector(name), want.Vector(name)) {
					t.Errorf("column %s differs from the rows", name)
				}
			}
			next := 0
			for _, l := range lists {
				if l.First != next {
					t.Fatalf("batch starts at %d, want %d", l.First, next)
				}
				for i := range l.Rows() {
					ns, tokens := l.Row(i)
					if !slices.Equal(ns, rows[next].ChunkNS) || !slices.Equal(tokens, rows[next].ChunkTokens) {
						t.Fatalf("lists of row %d differ", next)
					}
					next++
				}
			}
			if next != size {
				t.Errorf("lists of %d rows, want %d", next, size)
			}
		})
	}
}

func TestColumnsOfSeveralFiles(t *testing.T) {
	rows := randomRequests(300, 0)
	var got, want Table
	for _, part := range [][]Request{rows[:100], rows[100:]} {
		f, err := Open[Request](writeRandom(t, part))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := ReadColumns(t.Context(), f, &got, testColumns...); err != nil {
			t.Fatal(err)
		}
	}
	if err := want.AppendRows(rows, testColumns...); err != nil {
		t.Fatal(err)
	}
	for _, name := range testColumns {
		if !sameVector(got.Vector(name), want.Vector(name)) {
			t.Errorf("column %s of two files differs from the rows", name)
		}
	}
}

func TestColumnType(t *testing.T) {
	for name, want := range map[string]string{
		"turn": "int", "saw_done": "int", "ttft_ms": "float", "model": "string", "tag.x": "tag",
		"chunk_ns": "", "tags": "", "tag.": "", "nothing": "", "": "",
	} {
		if got := ColumnType(name); got != want {
			t.Errorf("ColumnType(%q) = %q, want %q", name, got, want)
		}
	}
	// Every column that is no list or map can be read by itself.
	for _, c := range Dictionary(KindRequests) {
		if list := strings.HasPrefix(c.Type, "list") || strings.HasPrefix(c.Name, "tags"); !list && ColumnType(c.Name) == "" {
			t.Errorf("column %s has no type", c.Name)
		}
	}
}

// Every bit of a file matters: a flipped one gives an error that names the file, or (where it hits a
// column that is not read, or padding) the same data. It never panics and never gives other data.
func TestColumnsOfDamagedFiles(t *testing.T) {
	rows := randomRequests(60, 0)
	path := writeRandom(t, rows)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantTable, wantLists, err := readTable(t.Context(), path, testColumns...)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.parquet")
	check := func(what string, data []byte) {
		if err := os.WriteFile(bad, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, lists, err := readTable(t.Context(), bad, testColumns...)
		if err != nil {
			if !strings.Contains(err.Error(), bad) {
				t.Errorf("%s: the error does not name the file: %v", what, err)
			}
			return
		}
		for _, name := range testColumns {
			if !sameVector(got.Vector(name), wantTable.Vector(name)) {
				t.Errorf("%s: column %s is silently wrong", what, name)
			}
		}
		if !reflect.DeepEqual(lists, wantLists) {
			t.Errorf("%s: the lists are silently wrong", what)
		}
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 600 {
		data := slices.Clone(whole)
		bit := rng.IntN(len(data) * 8)
		data[bit/8] ^= 1 << (bit % 8)
		check(fmt.Sprintf("bit %d of byte %d", bit%8, bit/8), data)
	}
	for range 100 {
		cut := rng.IntN(len(whole))
		check(fmt.Sprintf("cut at %d", cut), whole[:cut])
	}
}
