package analyze

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/schemas"
)

// checkReturned compares the analyses of files that other programs wrote with that of the rows they came from.
func checkReturned(t *testing.T, source, dir string) {
	t.Helper()
	o := Options{Window: WindowSpec{Kind: WindowAll}, By: []GroupSpec{{Column: "turn"}, {Column: "tag.source"}}, Objectives: []Objective{{"ttft", 80}}}
	want := analyzeOne(t, load(t, source), o)
	if want.Total.Figure(figITL).N == 0 || len(want.Groups) < 4 {
		t.Fatalf("the source has too little to compare: %d ITLs, %d groups", want.Total.Figure(figITL).N, len(want.Groups))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	for _, path := range files {
		if filepath.Base(path) == "run.parquet" {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			o := o
			tags := !strings.HasPrefix(filepath.Base(path), "pandas") // pandas has no maps
			if !tags {
				o.By = o.By[:1]
			}
			got := analyzeOne(t, load(t, path), o)
			if !slices.ContainsFunc(got.Warnings, func(w Warning) bool { return w.Kind == "rewritten" }) {
				t.Errorf("no warning: %+v", got.Warnings)
			}
			if got.Unfinished || slices.ContainsFunc(got.Verdict.Reasons, func(r schemas.Reason) bool { return r.Signal == "reconciled" || r.Signal == "ended" }) {
				t.Errorf("unfinished %v, %+v", got.Unfinished, got.Verdict.Reasons)
			}
			compareTotals(t, &want.Total, &got.Total)
			if tags && len(got.Groups) != len(want.Groups) {
				t.Errorf("%d groups, want %d", len(got.Groups), len(want.Groups))
			}
			for i := range got.Groups {
				if tags {
					compareTotals(t, &want.Groups[i], &got.Groups[i])
				}
			}
		})
	}
}

func compareTotals(t *testing.T, want, got *Group) {
	t.Helper()
	if got.Counts.OK != want.Counts.OK || got.Counts.Conversations != want.Counts.Conversations || got.Goodput.Good != want.Goodput.Good {
		t.Errorf("counts %+v, want %+v", got.Counts, want.Counts)
	}
	if !near(float64(got.Throughput.CompletionTokens), float64(want.Throughput.CompletionTokens)) || !near(float64(got.Throughput.PromptTokens), float64(want.Throughput.PromptTokens)) {
		t.Errorf("throughput %+v, want %+v", got.Throughput, want.Throughput)
	}
	for i := range want.Figures {
		w := &want.Figures[i]
		g := got.Figure(w.Name)
		if g == nil || g.N != w.N || w.N > 0 && (!near(float64(g.Mean), float64(w.Mean)) || g.Percentiles[0].Value != w.Percentiles[0].Value) {
			t.Errorf("%s: %+v, want %+v", w.Name, g, w)
		}
	}
}

// Files of pandas, polars, DuckDB and pyarrow, made by testdata/returned.py.
func TestFilesThatCameBack(t *testing.T) {
	dir := filepath.Join("testdata", "returned")
	checkReturned(t, filepath.Join(dir, "run.parquet"), dir)
	// In a folder they are found, and each is a run of its own.
	folder := t.TempDir()
	for _, name := range []string{"pandas.parquet", "polars.parquet"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if runs := load(t, folder); runs.Len() != 2 {
		t.Errorf("%d runs in the folder", runs.Len())
	}
	// What has no rows of requests says what it lacks.
	path := filepath.Join(t.TempDir(), "other.parquet")
	data, err := os.ReadFile(filepath.Join("..", "schemas", "testdata", "conversations-1.0.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), []string{path}); err == nil || !strings.Contains(err.Error(), "conversations file") {
		t.Errorf("error: %v", err)
	}
}

// The same with files that the programs at hand write now: CI names a Python that has them.
func TestFilesThatComeBackNow(t *testing.T) {
	python := os.Getenv("PARLEY_PYTHON")
	if python == "" {
		t.Skip("PARLEY_PYTHON names no Python with pandas, polars, duckdb and pyarrow")
	}
	dir := t.TempDir()
	source := writeRun(t, filepath.Join(t.TempDir(), "run.parquet"), fullSpec())
	if out, err := exec.Command(python, filepath.Join("testdata", "returned.py"), source, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows := slices.DeleteFunc(readRows(t, source), func(r schemas.Request) bool { return r.Phase == schemas.PhaseWarmup })
	filtered := filepath.Join(t.TempDir(), "main.parquet")
	w, err := schemas.Create[schemas.Request](filtered, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&schemas.RunMeta{Ended: "complete", Planned: int64(len(rows))}); err != nil {
		t.Fatal(err)
	}
	checkReturned(t, filtered, dir)
}
