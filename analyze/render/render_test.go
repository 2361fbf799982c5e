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
	for i := range res.Runs {
		res.Runs[i].Files = []string{filepath.Base(res.Runs[i].Files[0])} // the folder is another each time
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
	for name, forms := range map[string][]Options{"compared": {{}}, "described": {{}, {Detail: true}}, "two": {{}}} {
		res := result(t, name)
		for _, o := range forms {
			var b bytes.Buffer
			if err := Write(&b, Text, res, o); err != nil {
				t.Fatal(err)
			}
			if o.Detail {
				name += "_detail"
			}
			golden(t, name+".table", b.Bytes())
		}
	}
	var b bytes.Buffer
	if err := Write(&b, Markdown, result(t, "described"), Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "described.markdown", b.Bytes())
}

// The answer about one run takes twelve lines.
func TestShortFormIsShort(t *testing.T) {
	res := result(t, "described")
	res.Gates, res.Comparisons, res.Sweep, res.By, res.Runs[0].Groups, res.Runs[0].Verdict = nil, nil, nil, nil, nil, schemas.Verdict{Grade: schemas.Valid}
	var b bytes.Buffer
	if err := Write(&b, Text, res, Options{More: "--detail"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 12 {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
}

// No line is wider than the terminal, whatever the labels and the numbers are, and each number is whole.
func TestLinesFit(t *testing.T) {
	for _, kind := range []string{"compared", "described", "two"} {
		res := result(t, kind)
		long := strings.Repeat("a label without any space in it_", 3) + "会話の長い名前"
		const big = 123456789.123
		for i := range res.Runs {
			r := &res.Runs[i]
			r.Label += long
			r.Total.Throughput.CompletionTokens, r.Total.Tokens.Prompt = big, big
			for j := range r.Total.Figures {
				r.Total.Figures[j].Mean, r.Total.Figures[j].Max = big, big
				for k := range r.Total.Figures[j].Percentiles {
					p := &r.Total.Figures[j].Percentiles[k]
					p.Value, p.Low, p.High = big, big, big
				}
			}
			for j := range r.Groups {
				r.Groups[j].Keys[0].Value += long
			}
		}
		for _, c := range res.Comparisons {
			c.Baseline += long
			for i := range c.Rows {
				d := &c.Rows[i]
				d.Baseline, d.Candidate, d.Ratio, d.RatioLow, d.RatioHigh = big, big, big, big, big
			}
		}
		for _, o := range []Options{{}, {Detail: true}, {Detail: true, Width: 132}} {
			var b bytes.Buffer
			if err := Write(&b, Text, res, o); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if w := width(strings.TrimRight(line, "\n")); w > max(o.Width, 80) {
					t.Errorf("%s %+v: %d columns: %s", kind, o, w, line)
				}
			}
			if !strings.Contains(b.String(), "123,456,789") {
				t.Errorf("%s %+v: a number was cut", kind, o)
			}
		}
	}
}

// The short form leaves out nothing for good: the long one has each of its numbers, and all figures of the result.
func TestDetailHasEverything(t *testing.T) {
	res := result(t, "two")
	var b bytes.Buffer
	if err := Write(&b, Text, res, Options{Detail: true, Width: 200}); err != nil {
		t.Fatal(err)
	}
	for i := range res.Runs {
		for _, f := range res.Runs[i].Total.Figures {
			if f.N == 0 {
				continue
			}
			if !strings.Contains(b.String(), f.Title) || !strings.Contains(b.String(), Number(f.Max)) || !strings.Contains(b.String(), Number(f.Percentiles[1].Value)) {
				t.Errorf("the long form lacks %s", f.Name)
			}
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
	for _, format := range []Format{Text, Markdown, CSV, JSON} {
		var b bytes.Buffer
		if err := Write(&b, format, res, Options{Detail: true}); err != nil {
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
	var table Table
	table.keys("group")
	table.numbers("n")
	for name, n := range map[string]int64{"会話の長い名前": 1, "short": 22, "é": 333} {
		table.add(words(name), count(n))
	}
	var b bytes.Buffer
	if err := (&Document{Tables: []Table{table}}).writeText(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.Trim(b.String(), "\n"), "\n")
	for _, l := range lines {
		if width(l) != width(lines[0]) {
			t.Errorf("line %q is %d columns wide, want %d", l, width(l), width(lines[0]))
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.000012345: "<0.0001", -0.00001: ">-0.0001", 0.00123: "0.0012", 0.0123: "0.0123", 0.25: "0.250", 0.9996: "1.00", 1.23456: "1.23", 9.996: "10.0", 12.3456: "12.3",
		99.96: "100", 123.456: "123", 999.6: "1,000", 1234.5: "1,234", 1234567.8: "1,234,568", -1234.6: "-1,235",
	} {
		if got := Number(analyze.Num(v)); got != want {
			t.Errorf("Number(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0 %", 1: "100 %", 0.5: "50.0 %", 0.99996: ">99.9 %", 0.0105: "1.05 %", 0.000001: "<0.001 %", 1.119: "112 %"} {
		if got := Share(analyze.Num(v)); got != want {
			t.Errorf("Share(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0 s", 0.1073: "107 ms", 0.9999: "1.00 s", 34.12: "34.1 s", 119.4: "119 s", 191.6: "3 min 12 s", 180: "3 min", 3599.7: "1 h", 7322: "2 h 2 min", 273600: "3 d 4 h"} {
		if got := Duration(analyze.Num(v)); got != want {
			t.Errorf("Duration(%v) = %s, want %s", v, got, want)
		}
	}
	for _, got := range []string{Number(analyze.Missing), Share(analyze.Missing), Duration(analyze.Missing), Change(analyze.Missing), Points(analyze.Missing)} {
		if got != none {
			t.Errorf("a missing number prints as %q", got)
		}
	}
	for want, got := range map[string]string{
		"+36.0 %": Change(1.36), "-0.24 points": Points(-0.00242), "1.00–2.00": between(1, 2, Number), "-1.00 to +2.00 %": between(0.99, 1.02, Change),
		"1 turn": Counted(1, "turn"), "2,000 turns": Counted(2000, "turn"), "12.5": Given(12.5), "1,500": Given(1500), "?–2.00": between(analyze.Missing, 2, Number),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
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
	want := []string{"Failed: reset 3", "Not sent: an earlier turn of the conversation failed 285, the run's requests or its time were used up 2", "Given up by their users: 4"}
	var got []string
	for _, k := range kindsOf(&r.Total) {
		got = append(got, k.name+": "+k.list())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := len(failures(windows([]analyze.RunResult{r})).Rows); n != 4 {
		t.Errorf("%d rows of kinds", n)
	}
}

// Runs of one label have names that tell them apart.
func TestRunsOfOneLabelAreNamed(t *testing.T) {
	runs := []analyze.RunResult{{Label: "a", Files: []string{"x/1.parquet"}}, {Label: "b"}, {Label: "a", Files: []string{"x/2.parquet"}}, {Label: "a", Files: []string{"y/2.parquet"}}}
	var got []string
	for _, r := range Named(&analyze.Result{Runs: runs}).Runs {
		got = append(got, r.Label)
	}
	if want := []string{"1", "b", "2", "2 (2)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
