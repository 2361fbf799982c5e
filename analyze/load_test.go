package analyze

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/analyze/internal/synth"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fullSpec is a run with every kind of row.
func fullSpec() synth.Spec {
	return synth.Spec{Seed: 3, Conversations: 160, Turns: 6, Slots: 16, TTFT: 60, Gap: 8, Spread: 0.4, Shared: 0.3, Chunks: 20,
		PerChunk: true, Cached: true, Failures: 0.05, Warmup: 60, Shed: 0.02, Looped: true, StopS: 12}
}

func writeRun(t testing.TB, path string, s synth.Spec) string {
	t.Helper()
	if _, err := synth.Write(path, s); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, paths ...string) *Runs {
	t.Helper()
	runs, err := Load(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runs.Close(); err != nil {
			t.Error(err)
		}
	})
	return runs
}

func analyzeOne(t testing.TB, runs *Runs, o Options) *RunResult {
	t.Helper()
	res, err := Analyze(t.Context(), runs, o)
	if err != nil {
		t.Fatal(err)
	}
	return &res.Runs[0]
}

// figuresOf gives what a run's rows say, without what its files say of themselves.
func figuresOf(t testing.TB, r *RunResult) string {
	t.Helper()
	text, err := json.Marshal([]any{r.Window, r.Total, r.Phases, r.Groups, r.CacheTurns})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var byTurn = Options{By: []GroupSpec{{Column: "turn"}}, Objectives: []Objective{{"ttft", 80}, {"tpot", 9}}}

// The same rows give the same figures as one file, as shards with other origins, and as a journal.
func TestShardsAndJournalEqualOneFile(t *testing.T) {
	dir := t.TempDir()
	s := fullSpec()
	whole := analyzeOne(t, load(t, writeRun(t, filepath.Join(dir, "whole.parquet"), s)), byTurn)
	want := figuresOf(t, whole)

	t.Run("again", func(t *testing.T) {
		if got := figuresOf(t, analyzeOne(t, load(t, filepath.Join(dir, "whole.parquet")), byTurn)); got != want {
			t.Error("a second analysis of the file differs in the last digits")
		}
	})
	t.Run("shards", func(t *testing.T) {
		shards := filepath.Join(dir, "shards")
		if err := os.Mkdir(shards, 0o755); err != nil {
			t.Fatal(err)
		}
		writeShards(t, shards, s)
		runs := load(t, shards)
		if runs.Len() != 1 {
			t.Fatalf("%d runs", runs.Len())
		}
		r := analyzeOne(t, runs, byTurn)
		if len(r.Files) != 2 || r.Total.Counts.Planned != whole.Total.Counts.Planned {
			t.Errorf("%d files, %d turns", len(r.Files), r.Total.Counts.Planned)
		}
		compareFigures(t, whole, r)
	})
	t.Run("journal", func(t *testing.T) {
		out := filepath.Join(dir, "killed.parquet")
		running := synth.Meta(s)
		running.Ended = "" // what stands in the journal of a run that was killed
		j, err := schemas.CreateJournal(out, running)
		if err != nil {
			t.Fatal(err)
		}
		var batch []schemas.Request
		for r := range synth.Rows(s) {
			if batch = append(batch, *r); len(batch) == 100 {
				if err := j.AppendRequests(batch); err != nil {
					t.Fatal(err)
				}
				batch = batch[:0]
			}
		}
		if err := j.AppendRequests(batch); err != nil {
			t.Fatal(err)
		}
		if err := j.Abandon(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{out, schemas.JournalPath(out)} { // the file that is not there yet means its journal
			runs := load(t, path)
			r := analyzeOne(t, runs, byTurn)
			if got := figuresOf(t, r); got != want {
				t.Errorf("%s: figures differ", path)
			}
			if !r.Unfinished || r.Verdict.Grade != schemas.Suspect {
				t.Errorf("%s: unfinished %v, %s", path, r.Unfinished, r.Verdict.Grade)
			}
		}
		meta := synth.Meta(s)
		meta.Planned = int64(len(readRows(t, filepath.Join(dir, "whole.parquet"))))
		res, err := Summary(t.Context(), schemas.JournalPath(out), meta, byTurn)
		if err != nil {
			t.Fatal(err)
		}
		if got := figuresOf(t, &res.Runs[0]); got != want {
			t.Error("the summary's figures differ")
		}
		if res.Runs[0].Unfinished {
			t.Error("a run that has just ended is called unfinished")
		}
	})
}

func readRows(t testing.TB, path string) []schemas.Request {
	t.Helper()
	f, err := schemas.Open[schemas.Request](path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []schemas.Request
	for r, err := range f.Rows(0) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// writeShards writes the run as two shards, the second with an origin 250 ms later.
func writeShards(t *testing.T, dir string, s synth.Spec) {
	t.Helper()
	const later = 250 * time.Millisecond
	var parts [2][]schemas.Request
	for r := range synth.Rows(s) {
		shard := 0
		if strings.HasSuffix(r.ConversationID, "1") || strings.HasSuffix(r.ConversationID, "4") {
			shard = 1
			p := part{shiftNS: -int64(later)}
			row := []schemas.Request{*r}
			row[0].ChunkNS = append([]int64(nil), r.ChunkNS...)
			// Moments may share one variable: give each its own before they are moved.
			v := reflect.ValueOf(&row[0]).Elem()
			for i := range v.NumField() {
				if f := v.Field(i); f.Type() == reflect.TypeFor[*int64]() && !f.IsNil() {
					c := f.Elem().Int()
					f.Set(reflect.ValueOf(&c))
				}
			}
			p.shiftRows(row)
			*r = row[0]
		}
		r.Shard = int64(shard)
		parts[shard] = append(parts[shard], *r)
	}
	for i, rows := range parts {
		meta := synth.Meta(s)
		meta.Shard, meta.Shards, meta.Planned, meta.Rows = i, 2, int64(len(rows)), int64(len(rows))
		meta.Origin = meta.Origin.Add(time.Duration(i) * later)
		w, err := schemas.Create[schemas.Request](filepath.Join(dir, []string{"a.parquet", "b.parquet"}[i]), false)
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
}

// compareFigures compares runs whose rows stand in different orders, so that sums differ in the last digit.
func compareFigures(t *testing.T, want, got *RunResult) {
	t.Helper()
	if got.Window != want.Window {
		t.Errorf("window %+v, want %+v", got.Window, want.Window)
	}
	for i := range want.Total.Figures {
		w, g := &want.Total.Figures[i], &got.Total.Figures[i]
		if w.Name != g.Name || w.N != g.N || !close9(w.Min, g.Min) || !close9(w.Max, g.Max) || !close9(w.Mean, g.Mean) || !close9(w.Std, g.Std) {
			t.Errorf("%s: %+v, want %+v", w.Name, g, w)
		}
		for k := range w.Percentiles {
			if p, q := w.Percentiles[k], g.Percentiles[k]; !close9(p.Value, q.Value) || !close9(p.Low, q.Low) || !close9(p.High, q.High) {
				t.Errorf("%s p%v: %+v, want %+v", w.Name, p.P, q, p)
			}
		}
	}
	if want.Total.Throughput.PeakInFlight != got.Total.Throughput.PeakInFlight || !close9(want.Total.Throughput.PeakTokenRate, got.Total.Throughput.PeakTokenRate) {
		t.Errorf("throughput %+v, want %+v", got.Total.Throughput, want.Total.Throughput)
	}
}

func close9(a, b Num) bool {
	return a.Known() == b.Known() && (!a.Known() || math.Abs(float64(a-b)) <= 1e-9*math.Abs(float64(a)))
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := writeRun(t, filepath.Join(dir, "run.parquet"), synth.Spec{Conversations: 3, Turns: 2, Chunks: 3})
	copyOf := filepath.Join(dir, "copy.parquet")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copyOf, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.parquet")
	if err := os.WriteFile(cut, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	conversations := filepath.Join(dir, "chat.parquet")
	w, err := schemas.Create[schemas.Conversation](conversations, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&schemas.DatasetMeta{}); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paths []string
		says  string
	}{
		{nil, "no result file"},
		{[]string{filepath.Join(dir, "none.parquet")}, "none.parquet"},
		{[]string{filepath.Join(dir, "none*.parquet")}, "matches no requests file"},
		{[]string{filepath.Join(dir, "[")}, "pattern"},
		{[]string{empty}, "holds no requests file"},
		{[]string{cut}, "cut.parquet"},
		{[]string{dir}, "cut.parquet"}, // a damaged file of a folder is not left out in silence
		{[]string{conversations}, "conversations file"},
		{[]string{path, copyOf}, "both shard 0"},
		{[]string{path, filepath.Join(dir, "gone.parquet")}, "gone.parquet"},
	} {
		runs, err := Load(t.Context(), c.paths)
		if err == nil {
			runs.Close()
			t.Errorf("%v: no error", c.paths)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v; want it to say %q", c.paths, err, c.says)
		}
	}
	if runs := load(t, path, path); runs.Len() != 1 || len(runs.list[0].parts) != 1 {
		t.Error("a file that is named twice is not one run")
	}
}

// A file in which bytes changed gives an error that names it, or the figures of the whole file where nothing
// that was read changed; never other figures.
func TestAnalyzeOfDamagedFile(t *testing.T) {
	path := writeRun(t, filepath.Join(t.TempDir(), "run.parquet"), synth.Spec{Conversations: 50, Turns: 4, Chunks: 30})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	figures := func() ([]byte, error) {
		runs, err := Load(t.Context(), []string{path})
		if err != nil {
			return nil, err
		}
		defer runs.Close()
		res, err := Analyze(t.Context(), runs, Options{By: []GroupSpec{{Column: "tag.source"}}})
		if err != nil {
			return nil, err
		}
		return json.Marshal(res)
	}
	whole, err := figures()
	if err != nil {
		t.Fatal(err)
	}
	refused, tried := 0, 0
	for at := 100; at < len(data)*3/4; at += len(data) / 40 {
		bad := append([]byte(nil), data...)
		bad[at] ^= 0x10
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		tried++
		got, err := figures()
		switch {
		case err == nil && !bytes.Equal(got, whole):
			t.Errorf("byte %d: other figures, and no error", at)
		case err != nil:
			refused++
			if !strings.Contains(err.Error(), path) {
				t.Errorf("byte %d: the error does not name the file: %v", at, err)
			}
		}
	}
	if refused < tried/2 {
		t.Errorf("only %d of %d damaged files were refused", refused, tried)
	}
}

// Files of one name are told apart by their folders, also across the sides of a comparison.
func TestLabelsOfEqualNames(t *testing.T) {
	of := func(paths ...string) *Runs {
		r := &Runs{}
		for _, path := range paths {
			r.list = append(r.list, &run{parts: []*part{{path: path}}})
		}
		return r
	}
	both := of("x/before/1.parquet", "x/after/1.parquet", "x/after/2.parquet")
	both.label()
	before, after := of("x/before/1.parquet"), of("x/after/1.parquet")
	before.label(after.list...)
	var got []string
	for _, r := range append(both.list, before.list...) {
		got = append(got, r.label)
	}
	if want := "before/1 after/1 2 before/1"; strings.Join(got, " ") != want {
		t.Errorf("labels %q, want %s", got, want)
	}
}
