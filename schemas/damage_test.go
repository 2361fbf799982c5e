package schemas

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// damaged flips bits of a file and cuts it at many places: whoever reads it gets an error that names it, or
// the rows as they were.
func damaged[T Row](t *testing.T, want []T) {
	dir := t.TempDir()
	path, bad := filepath.Join(dir, "good.parquet"), filepath.Join(dir, "bad.parquet")
	w, err := Create[T](path, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(want); i += 50 {
		if err := w.Write(want[i:min(i+50, len(want))]...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(struct{}{}); err != nil {
		t.Fatal(err)
	}
	good, err := readFile[T](path)
	if err != nil || len(good) != len(want) {
		t.Fatalf("%d rows, %v", len(good), err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	errors := 0
	check := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(bad, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := readFile[T](bad)
		switch {
		case err != nil && !strings.Contains(err.Error(), bad):
			t.Errorf("%s: the error does not name the file: %v", what, err)
		case err != nil:
			errors++
		case !reflect.DeepEqual(got, good):
			t.Errorf("%s: other rows and no error", what)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		at, bit := rng.IntN(len(whole)), rng.IntN(8)
		data := append([]byte(nil), whole...)
		data[at] ^= 1 << bit
		check(fmt.Sprintf("bit %d of byte %d", bit, at), data)
	}
	for i := range 100 {
		n := i * len(whole) / 100
		check(fmt.Sprintf("cut to %d of %d bytes", n, len(whole)), whole[:n])
	}
	if errors < 300 {
		t.Errorf("only %d of 400 damaged files were refused", errors)
	}
}

// TestDamagedTelemetryAndDatasets is TestDamagedParquet for the other two kinds of files.
func TestDamagedTelemetryAndDatasets(t *testing.T) {
	t.Run("telemetry", func(t *testing.T) {
		var rows []Sample
		for i := range 400 {
			raw := fmt.Sprintf("raw%d", i%7)
			rows = append(rows, Sample{TimeNS: int64(i) * 1e9, Source: "client", Name: fmt.Sprintf("figure%d", i%5), Raw: &raw, Value: float64(i) / 3})
		}
		damaged(t, rows)
	})
	t.Run("datasets", func(t *testing.T) {
		var rows []Conversation
		for i := range 100 {
			ask, answer, n := fmt.Sprintf("question %d", i), strings.Repeat("answer ", i%9), int64(i)
			rows = append(rows, Conversation{ConversationID: fmt.Sprint("c", i), Tags: map[string]string{"k": fmt.Sprint(i % 3)},
				Messages: []Message{{Role: "user", Content: &ask}, {Role: "assistant", Content: &answer}}, Turns: []Turn{{MessageIndex: 1, OutputTokens: &n}}})
		}
		damaged(t, rows)
	})
}

// FuzzFile reads whatever it is given as each kind of file: rows or an error, never a panic, and an error
// names the file.
func FuzzFile(f *testing.F) {
	dir := f.TempDir()
	add := func(name string, write func(path string) error) {
		path := filepath.Join(dir, name)
		if err := write(path); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	add("s", func(path string) error { return small(path, Sample{Source: "client", Name: "x", Value: 1}) })
	add("r", func(path string) error { return small(path, Request{RequestID: "r", Status: "ok"}) })
	add("c", func(path string) error { return small(path, Conversation{ConversationID: "c"}) })
	f.Add([]byte("PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "any.parquet")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err1 := readFile[Sample](path)
		_, err2 := readFile[Request](path)
		_, err3 := readFile[Conversation](path)
		for _, err := range []error{err1, err2, err3} {
			if err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("the error does not name the file: %v", err)
			}
		}
	})
}

func small[T Row](path string, row T) error {
	w, err := Create[T](path, false)
	if err != nil {
		return err
	}
	if err := w.Write(row); err != nil {
		return err
	}
	return w.Close(struct{}{})
}
