package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/analyze/plots"
	"parley/schemas"
)

// example is a result and plots with s in every place for text.
func example(s string) (*analyze.Result, *plots.Plots) {
	g := analyze.Group{
		Keys:   []analyze.Key{{Column: s, Value: s}},
		Counts: analyze.Counts{Planned: 3, Sent: 3, OK: 2, Failed: 1, ErrorRate: 1.0 / 3, ByStatus: map[schemas.Status]int64{"ok": 2, schemas.Status(s): 1}, ErrorKinds: map[string]int64{s: 1}},
		Figures: []analyze.Figure{{
			Name: "ttft", Title: s, Unit: s, Population: s, N: 2, Mean: 12.345678, MeanLow: 11, MeanHigh: analyze.Missing, Max: 20,
			Percentiles:  []analyze.Percentile{{P: 50, Value: 12.25, Low: 11.5, High: 13, Carried: true}, {P: 99, Value: analyze.Missing, Needs: 662}},
			FailureAware: []analyze.Percentile{{P: 50, Value: 13.5, Low: 12, High: 14, Carried: true}, {P: 99, Infinite: true, Value: analyze.Missing}},
		}},
		Tokens: analyze.Tokens{CacheReuse: 0.5, CacheCeiling: analyze.Missing, Sources: map[string]int64{s: 1}},
	}
	config, _ := json.Marshal(map[string]any{s: s, "list": []string{s}})
	run := analyze.RunResult{
		Label: s, RunID: s, Files: []string{s}, Ended: s, ToolVer: s, Config: config,
		Dataset: schemas.DatasetRef{File: s, ContentHash: s, Tokenizer: s},
		Targets: []schemas.Target{{URL: s, API: s, Model: s, Server: s}},
		Host:    schemas.Host{OS: s, Arch: s, Kernel: s, CPU: s}, Health: &schemas.Health{},
		Calibrated: &schemas.Calibration{Description: s, When: s}, Clock: schemas.ClockInfo{Source: s, Fallback: s},
		Verdict: schemas.Verdict{Grade: schemas.Grade(s), Reasons: []schemas.Reason{{Grade: schemas.Grade(s), Text: s, Advice: s}}},
		Window:  analyze.Window{Kind: s, How: s}, Total: g, Phases: []analyze.Group{g}, Groups: []analyze.Group{g},
		Warnings: []analyze.Warning{{Kind: s, Text: s}},
	}
	r := &analyze.Result{
		ToolVersion: s, Heading: []string{s}, From: analyze.FromSent, Percentiles: []float64{50, 99}, By: []string{s}, Level: 0.95,
		Objectives: []analyze.Objective{{Figure: s, Limit: 5}}, Runs: []analyze.RunResult{run},
		Comparisons: []*compare.Comparison{{Level: s, Baseline: s, Candidate: s, Why: s, Config: []compare.ConfigChange{{Setting: s, Baseline: s, Candidate: s}}, Rows: []compare.Difference{{Title: s, Unit: s}}, Notes: []string{s}}},
		Gates:       []compare.Gate{{Expression: s, Of: s, Outcome: compare.Failed, Text: s}},
		Sweep:       &analyze.Sweep{Rows: []analyze.SweepRow{{Label: s, Grade: schemas.Grade(s)}}, Labels: []analyze.Spread{{Label: s, Name: s, Unit: s}}},
		Warnings:    []analyze.Warning{{Text: s}},
	}
	p := &plots.Plots{Runs: []plots.RunPlots{{
		Label: s, Telemetry: []plots.TelemetrySeries{{Source: s, Name: s}},
		Lanes: []plots.Lane{{Conversation: s, Turns: []plots.Span{{Status: s}}}},
		CDFs:  []plots.Curve{{Figure: s, Title: s, Unit: s}},
	}}}
	return r, p
}

func written(t testing.TB, r *analyze.Result, p *plots.Plots) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// walk calls f for each element of the page.
func walk(n *html.Node, f func(*html.Node)) {
	if n.Type == html.ElementNode {
		f(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, f)
	}
}

func attribute(n *html.Node, name string) string {
	v, _ := attributeIf(n, name)
	return v
}

func attributeIf(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func text(n *html.Node) string {
	var b strings.Builder
	var down func(*html.Node)
	down = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			down(c)
		}
	}
	down(n)
	return b.String()
}

// checkPage says whether the page has the elements and attributes of the template and no others, and
// whether its data is what was given.
func checkPage(t *testing.T, page string, r *analyze.Result, p *plots.Plots) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	known := " html head meta title style body a header div span nav button main p h1 h2 h3 ul li dl dt dd small details summary section table thead tbody tr th td code footer noscript script "
	scripts := 0
	walk(doc, func(n *html.Node) {
		if !strings.Contains(known, " "+n.Data+" ") {
			t.Errorf("the page has an element <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" {
				t.Errorf("<%s> has an attribute %s", n.Data, a.Key)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				t.Errorf("a link leads to %q", a.Val)
			}
		}
		if n.Data != "script" {
			return
		}
		scripts++
		switch attribute(n, "id") {
		case "parley-result":
			sameJSON(t, text(n), r)
		case "parley-plots":
			sameJSON(t, text(n), p)
		default:
			if text(n) != script {
				t.Error("the script is not the embedded one, byte for byte: its hash cannot hold")
			}
		}
	})
	if scripts != 3 {
		t.Errorf("the page has %d scripts, not 3", scripts)
	}
}

func sameJSON(t *testing.T, got string, want any) {
	t.Helper()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("the embedded JSON: %v", err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("the embedded JSON is not what was given")
	}
}

func FuzzTextStaysText(f *testing.F) {
	for _, s := range []string{
		"plain", "", `</script><img src=x onerror="f()">`, "<!--<script>", `"><svg onload=f()>`, `' onmouseover='f()`,
		"\u2028f()\u2029", "{{.}}", "javascript:f()", "</style><script>f()</script>", "\x00\xff", "</title><base href=//x>", "|", "]]>",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, p := example(s)
		checkPage(t, written(t, r, p), r, p)
	})
}

func TestTablesAreFigures(t *testing.T) {
	r, p := example("x")
	doc, err := html.Parse(strings.NewReader(written(t, r, p)))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	walk(doc, func(n *html.Node) {
		if n.Data != "div" || attribute(n, "id") != "latency" {
			return
		}
		walk(n, func(tr *html.Node) {
			if tr.Data != "tr" {
				return
			}
			var row []string
			walk(tr, func(c *html.Node) {
				if c.Data == "td" || c.Data == "th" {
					csv, given := attributeIf(c, "data-csv")
					if !given {
						csv = text(c)
					}
					row = append(row, csv)
				}
			})
			rows = append(rows, row)
		})
	})
	want := [][]string{
		{"ms", "n", "mean|mean low|mean high", "p50|p50 low|p50 high", "p99", "max"},
		{"x (x)", "2", "12.345678|11|", "12.25|11.5|13", "", "20"},
		{"x, failed as \u221e (x)", "3", "||", "13.5|12|14", "inf", ""},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("the latency table is\n%q\nnot\n%q", rows, want)
	}
}

func TestHeadingSaysSimulated(t *testing.T) {
	r, p := example("x")
	r.Heading = nil
	r.Runs[0].Simulated = true
	r.Comparisons = nil
	page := written(t, r, p)
	head, _, _ := strings.Cut(page[strings.Index(page, "<main"):], `<div class="card verdict`)
	if !strings.Contains(head, "simulated server") {
		t.Errorf("nothing above the verdict says that the server was simulated: %s", head)
	}
}

func TestWriteChecks(t *testing.T) {
	r, p := example("x")
	p.Runs = nil
	if err := Write(&bytes.Buffer{}, r, p); err == nil || !strings.Contains(err.Error(), "1 runs, the plots 0") {
		t.Errorf("plots of another number of runs: %v", err)
	}
	r, p = example("x")
	r.Runs[0].Config = json.RawMessage("{")
	if err := Write(&bytes.Buffer{}, r, p); err == nil {
		t.Error("a configuration that is no JSON was written")
	}
}

func TestSameInputSameBytes(t *testing.T) {
	r, p := example("x")
	r.Runs[0].Config = json.RawMessage(`{"b":1,"a":{"d":2,"c":[3]},"e":0,"f":""}`)
	first := written(t, r, p)
	for range 5 {
		if written(t, r, p) != first {
			t.Fatal("two reports of one result differ")
		}
	}
}

// The bundle's own hash is checked by the browser; here, that it can be inlined and carries its licence.
func TestBundle(t *testing.T) {
	for name, part := range map[string]string{"script": script, "style sheet": style} {
		for _, bad := range []string{"</script", "</style", "<!--", "\r", "\x00"} {
			if strings.Contains(strings.ToLower(part), bad) {
				t.Errorf("the %s contains %q", name, bad)
			}
		}
		if !strings.Contains(part, "The MIT License") || !strings.Contains(part, "Leon Sorokin") {
			t.Errorf("the %s has no licence of uPlot", name)
		}
	}
}

func TestFlatten(t *testing.T) {
	got := flatten(json.RawMessage(`{"b":{"y":1.50,"x":"v"},"a":[1,"</x>"],"empty":"","zero":0,"off":false,"on":true,"none":null,"list":[]}`))
	want := []fact{{"a", `[1,"</x>"]`}, {"b.x", "v"}, {"b.y", "1.50"}, {"on", "true"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flatten gives %q, not %q", got, want)
	}
}

// A failed gate and a worse comparison are the headline, above a verdict that finds nothing wrong.
func TestAnswersStandAboveTheVerdict(t *testing.T) {
	r, p := example("x")
	r.Runs[0].Verdict = schemas.Verdict{Grade: schemas.Valid}
	r.Gates = []compare.Gate{{Expression: "ttft.p99 < +5%", Outcome: compare.Failed, Text: "it went up"}, {Expression: "e2e.p50 < 1s", Outcome: compare.Held}}
	r.Comparisons = []*compare.Comparison{{Tested: true, Slower: true, Baseline: "a", Candidate: "b"}}
	page := written(t, r, p)
	at := -1
	for _, want := range []string{`<div class="card verdict invalid"`, ">FAILED</span><span>Gates</span>", "1 held, 1 failed, 0 undecided", "WORSE beyond chance", `<span class="word">VALID`} {
		i := strings.Index(page[at+1:], want)
		if i < 0 {
			t.Fatalf("%q does not come after what should stand above it", want)
		}
		at += 1 + i
	}
	// Nothing that failed: no red.
	r.Gates = r.Gates[1:]
	r.Comparisons[0].Slower = false
	if page := written(t, r, p); strings.Contains(page, `<div class="card verdict invalid"`) || !strings.Contains(page, ">HELD</span><span>Gates</span>") {
		t.Error("gates that held and no difference are shown as bad")
	}
}
