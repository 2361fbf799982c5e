package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/analyze/internal/synth"
	"parley/schemas"
)

var update = flag.Bool("update", false, "write the golden files anew")

// result analyzes runs of one dataset with everything that can be printed: two side by side, or so many a
// side, the second side slower.
func result(t *testing.T, kind string) *analyze.Result {
	t.Helper()
	dir := t.TempDir()
	s := synth.Spec{Seed: 3, Conversations: 160, Turns: 6, Slots: 16, TTFT: 60, Gap: 8, Spread: 0.4, Shared: 0.3, Chunks: 20,
		PerChunk: true, Cached: true, Failures: 0.05, Warmup: 60, Shed: 0.02, StopS: 12}
	load := func(name string, n int, s synth.Spec) *analyze.Runs {
		var paths []string
		for i := range n {
			s.Repeat, s.Noise = i, s.Noise+100*uint64(i)
			path := filepath.Join(dir, name+strconv.Itoa(i)+".parquet")
			if n == 1 {
				path = filepath.Join(dir, name+".parquet")
			}
			if _, err := synth.Write(path, s); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		r, err := analyze.Load(t.Context(), paths)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	slow := s
	slow.Noise, slow.Slower, slow.Slots = 9, 1.3, 8
	o := analyze.Options{By: []analyze.GroupSpec{{Column: "turn"}}, Objectives: []analyze.Objective{{Figure: "ttft", Limit: 80}, {Figure: "tpot", Limit: 9}}, GPUs: 2}
	var inputs *analyze.Runs
	var gates []string
	switch kind {
	case "two":
		inputs = load("run", 2, s)
	case "described":
		inputs, o.Baseline = load("after", 1, slow), load("before", 1, s)
		gates = []string{"ttft.p50 < +5%", "error_rate < 20%", "error_rate < 5%", "ttft.p50 < 1s"}
	case "compared":
		inputs, o.Baseline = load("after", 3, slow), load("before", 3, s)
		o.By = nil
		gates = []string{"ttft.turns < +5%", "ttft.p99 < +25%", "error_rate < 20%", "verdict >= VALID"}
	}
	for _, text := range gates {
		g, err := analyze.ParseGate(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Gates = append(o.Gates, g)
	}
	res, err := analyze.Analyze(t.Context(), inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at it, and write it anew with -update\n%s", path, firstDifference(got, want))
	}
}

func firstDifference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "line " + strconv.Itoa(i+1) + "\ngot  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"compared", "described", "two"} {
		res := result(t, name)
		for _, format := range []Format{Table, Markdown} {
			var b bytes.Buffer
			if err := Write(&b, format, res, Options{}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+"."+string(format), b.Bytes())
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	if err := Write(&bytes.Buffer{}, "xml", &analyze.Result{}, Options{}); err == nil || !strings.Contains(err.Error(), "xml") {
		t.Errorf("error: %v", err)
	}
}

// JSON reads back as the same result.
func TestJSONRoundTrip(t *testing.T) {
	res := result(t, "described")
	var first, second bytes.Buffer
	if err := Write(&first, JSON, res, Options{}); err != nil {
		t.Fatal(err)
	}
	var again analyze.Result
	if err := json.Unmarshal(first.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if err := Write(&second, JSON, &again, Options{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error(firstDifference(second.Bytes(), first.Bytes()))
	}
}

// The CSV has the exact numbers of the result.
func TestCSVIsExact(t *testing.T) {
	res := result(t, "described")
	var b bytes.Buffer
	if err := Write(&b, CSV, res, Options{}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := res.Runs[0].Total.Figure("ttft").Percentile(50)
	found := false
	for _, l := range lines {
		if l[2] == "window" && l[4] == "ttft" && l[5] == "p50" {
			v, err := strconv.ParseFloat(l[6], 64)
			found = err == nil && v == float64(want.Value)
		}
	}
	if !found {
		t.Error("the CSV does not have the median TTFT of the result")
	}
}

// hostile has what a terminal, a Markdown page or a spreadsheet would obey.
const hostile = "evil\x1b[2J\x1b]0;title\x07\r\n|`<script>alert(1)</script>[a](http://x) @team \u202egpj.exe\u0085\xff会話"

func TestStringsFromFilesAreHarmless(t *testing.T) {
	res := result(t, "described")
	r := &res.Runs[0]
	r.Label, r.Targets[0].Model, r.Dataset.File, r.Ended = hostile, hostile, hostile, hostile
	r.Total.Counts.ErrorKinds = map[string]int64{hostile: 1}
	r.Groups[0].Keys[0].Value, r.Groups[0].Keys[0].Column = hostile, hostile
	r.Warnings = append(r.Warnings, analyze.Warning{Kind: hostile, Text: hostile})
	r.Verdict.Reasons[0].Text = hostile
	res.Warnings = append(res.Warnings, analyze.Warning{Kind: hostile, Text: hostile})
	res.Heading = append(res.Heading, hostile)
	c := res.Comparisons[0]
	c.Baseline, c.Candidate, c.Level, c.Why, c.Notes = hostile, hostile, hostile, hostile, []string{hostile}
	c.Config = []compare.ConfigChange{{Setting: hostile, Baseline: hostile, Candidate: hostile}}
	res.Gates[0].Text, res.Gates[0].Of = hostile, hostile
	res.Sweep.Rows[0].Label = hostile
	for _, format := range []Format{Table, Markdown, CSV, JSON} {
		var b bytes.Buffer
		if err := Write(&b, format, res, Options{}); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(b.String(), func(r rune) bool {
			return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
		}); i >= 0 {
			t.Errorf("%s has a control character at byte %d: %q", format, i, b.String()[max(0, i-20):i+20])
		}
		if format == Markdown && (strings.Contains(b.String(), "<script") || strings.Contains(b.String(), "[a](") || strings.Contains(b.String(), "@team")) {
			t.Errorf("Markdown has live markup")
		}
	}
}

// Columns line up when a label is wide.
func TestWideCharactersLineUp(t *testing.T) {
	s := section{title: "t", left: 1, header: []string{"group", "n"}, rows: [][]string{{"会話の長い名前", "1"}, {"short", "22"}, {"é", "333"}}}
	lines := strings.Split(pretty(&s).Render(), "\n")
	for _, l := range lines[2:] {
		if got, want := text.StringWidthWithoutEscSequences(l), text.StringWidthWithoutEscSequences(lines[2]); got != want {
			t.Errorf("line %q is %d columns wide, want %d", l, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.000012345: "1.23e-05", 0.0123: "0.012", 1.23456: "1.235", 12.3456: "12.35", 123.456: "123.5", 1234.5: "1,234", 1234567.8: "1,234,568", -1234.6: "-1,235",
	} {
		if got := number(analyze.Num(v)); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
	if got := number(analyze.Missing); got != none {
		t.Errorf("a missing number prints as %q", got)
	}
}

func FuzzClean(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if strings.IndexFunc(got, schemas.Unprintable) >= 0 || strings.ToValidUTF8(got, "") != got {
			t.Errorf("clean(%q) = %q", s, got)
		}
		if clean(got) != got {
			t.Errorf("clean is not idempotent on %q", s)
		}
	})
}

// What failed, what was not sent and what users gave up are told apart, in words.
func TestKindsOfTurnsThatDidNotComplete(t *testing.T) {
	r := analyze.RunResult{Total: analyze.Group{Counts: analyze.Counts{
		ErrorKinds: map[string]int64{"reset": 3}, NotSent: map[string]int64{"conversation_failed": 285, "budget": 2},
		ByStatus: map[schemas.Status]int64{schemas.StatusAbandoned: 4},
	}}}
	want := []string{"Errors: reset 3", "Not sent: the run's requests or its time were used up 2, an earlier turn of the conversation failed 285", "Given up by their users: 4"}
	if got := requests(&r).after; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
