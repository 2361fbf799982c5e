package analyze

import (
	"math"
	"strings"
	"testing"
	"time"

	"parley/analyze/compare"
	"parley/schemas"
)

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]WindowSpec{
		"":          {Kind: WindowSteady},
		"steady":    {Kind: WindowSteady},
		"all":       {Kind: WindowAll},
		"10s:5m":    {Kind: WindowTime, From: 10 * time.Second, To: 5 * time.Minute},
		":1m":       {Kind: WindowTime, To: time.Minute},
		"30s:":      {Kind: WindowTime, From: 30 * time.Second},
		"turns":     {Kind: WindowTurns, FirstTurn: 1},
		"turns=2:":  {Kind: WindowTurns, FirstTurn: 2},
		"turns=2:5": {Kind: WindowTurns, FirstTurn: 2, LastTurn: 5},
		"turns=:5":  {Kind: WindowTurns, LastTurn: 5},
		"turns=3":   {Kind: WindowTurns, FirstTurn: 3, LastTurn: 4},
	} {
		if got, err := ParseWindow(text); err != nil || got != want {
			t.Errorf("ParseWindow(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, bad := range []string{"10", "10s", "5m:10s", "10s:10s", "-1s:5s", "a:b", "turns=x", "turns=5:2", "turns=-1:", "turns=9223372036854775807", "all:steady"} {
		if got, err := ParseWindow(bad); err == nil || !strings.Contains(err.Error(), "window") {
			t.Errorf("ParseWindow(%q) = %+v, %v", bad, got, err)
		}
	}
}

func TestParseGate(t *testing.T) {
	for text, want := range map[string]compare.Spec{
		"ttft.p99 < +5%":           {Figure: "ttft", Stat: "p99", Op: "<", Bound: 0.05, Signed: true, Share: true},
		"ttft.p99<+5%":             {Figure: "ttft", Stat: "p99", Op: "<", Bound: 0.05, Signed: true, Share: true},
		"tpot.median <= -2ms":      {Figure: "tpot", Stat: "p50", Op: "<=", Bound: -2, Signed: true},
		"e2e.p99.9 < 1.5s":         {Figure: "e2e", Stat: "p99.9", Op: "<", Bound: 1500},
		"error_rate < 1%":          {Figure: "error_rate", Op: "<", Bound: 0.01, Share: true},
		"ttft.turns < +3%":         {Figure: "ttft", Stat: "turns", Op: "<", Bound: 0.03, Signed: true, Share: true},
		"verdict >= SUSPECT":       {Figure: "verdict", Op: ">=", Grade: schemas.Suspect},
		"verdict>=valid":           {Figure: "verdict", Op: ">=", Grade: schemas.Valid},
		"output_throughput >= 100": {Figure: "output_throughput", Op: ">=", Bound: 100},
	} {
		want.Text = text
		if got, err := ParseGate(text); err != nil || got != want {
			t.Errorf("ParseGate(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"ttft.turns < 5ms":     "turn by turn",
		"ttft.turns < +5ms":    "turn by turn",
		"itl.turns < +5%":      "no statistic",
		"verdict < VALID":      "verdict >= SUSPECT",
		"verdict >= GOOD":      "verdict >= SUSPECT",
		"verdict.p50 >= VALID": "one value",
		"":                     "no < or >",
		"ttft.p99":             "no < or >",
		"ttft.p99 <":           "no bound",
		"ttft < 5ms":           "which statistic",
		"ttft.p99 < 5":         "duration",
		"ttft.p99 < 5%":        "sign",
		"ttft.p0 < 5ms":        "no statistic",
		"ttft.p100 < 5ms":      "no statistic",
		"ttft.pinf < 5ms":      "no statistic",
		"ttfx.p99 < 5ms":       "no figure",
		"error_rate.p99 < 1%":  "one value",
		"error_rate < x":       "no number",
		"error_rate < NaN%":    "no number",
		"goodput > Inf":        "no number",
		"ttft.p99 < + 5%":      "no number",
		"ttft.p99 = 5ms":       "no < or >",
		"ttft.p99 << 5ms":      "duration",
		"request_throughput >": "no bound",
	} {
		if got, err := ParseGate(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseGate(%q) = %+v, %v; want an error that says %q", text, got, err, says)
		}
	}
}

func TestParseObjective(t *testing.T) {
	for text, want := range map[string]Objective{
		"ttft=500ms": {"ttft", 500}, "tpot=0.05s": {"tpot", 50}, "e2el = 10s": {"e2e", 10_000},
	} {
		if got, err := ParseObjective(text); err != nil || got != want {
			t.Errorf("ParseObjective(%q) = %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "ttft", "ttft=", "ttft=5", "ttft=-5ms", "ttft=0s", "itl=5ms", "x=1s"} {
		if got, err := ParseObjective(bad); err == nil {
			t.Errorf("ParseObjective(%q) = %+v", bad, got)
		}
	}
}

func TestParseGroup(t *testing.T) {
	for text, want := range map[string]string{
		"turn": "turn", "conversation": "conversation_id", "tag.source": "tag.source", "time:10s": "time:10s",
		"prompt_tokens:1000": "prompt_tokens:1000", "uncached_tokens:0,100,1000": "uncached_tokens:0,100,1000", "ttft_ms:5": "ttft_ms:5",
	} {
		got, err := ParseGroup(text)
		if err != nil || got.String() != want {
			t.Errorf("ParseGroup(%q) = %v, %v", text, got, err)
			continue
		}
		again, err := ParseGroup(got.String())
		if err != nil || again.String() != got.String() {
			t.Errorf("ParseGroup(%q) does not read its own form: %v, %v", text, again, err)
		}
	}
	for _, bad := range []string{"", "nothing", "chunk_ns", "tags", "tag.", "model:5", "time:x", "time:0s", "prompt_tokens:0", "prompt_tokens:-1", "prompt_tokens:1,1", "prompt_tokens:NaN", "prompt_tokens:1,x"} {
		if got, err := ParseGroup(bad); err == nil {
			t.Errorf("ParseGroup(%q) = %+v", bad, got)
		}
	}
}

func TestOptionsValidateTellsEveryProblem(t *testing.T) {
	err := Options{From: "done", Percentiles: []float64{0, 100, math.NaN()}, Figures: []string{"x"}, Objectives: []Objective{{"itl", 1}, {"ttft", -1}}, GPUs: -1,
		By: []GroupSpec{{Column: "a"}, {Column: "turn"}, {Column: "turn"}}}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 10 {
		t.Errorf("%d problems, want 10:\n%v", n, err)
	}
}

func FuzzParseGate(f *testing.F) {
	for _, s := range []string{"ttft.p99 < +5%", "error_rate<1%", "e2e.mean >= -10ms", "goodput > 0x1p4", "ttft.p1e1 < 1s", "<", "ttft.p99 <= "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGate(s)
		if err != nil {
			return
		}
		if math.IsNaN(g.Bound) || math.IsInf(g.Bound, 0) || g.Op == "" || g.Figure == "" {
			t.Errorf("ParseGate(%q) = %+v", s, g)
		}
		if again, err := ParseGate(g.Text); err != nil || again != g {
			t.Errorf("ParseGate(%q) does not read its own text: %+v, %v", s, again, err)
		}
	})
}

func FuzzParseWindow(f *testing.F) {
	for _, s := range []string{"all", "10s:5m", "turns=1:3", ":", "turns=", "1h:", "turns=9223372036854775807:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ParseWindow(s)
		if err != nil {
			return
		}
		if w.From < 0 || w.To < 0 || w.To != 0 && w.To <= w.From || w.FirstTurn < 0 || w.LastTurn != 0 && w.LastTurn <= w.FirstTurn {
			t.Errorf("ParseWindow(%q) = %+v", s, w)
		}
	})
}

func FuzzParseObjective(f *testing.F) {
	for _, s := range []string{"ttft=500ms", "e2el=1s", "tpot=", "=1s", "ttft=1e300h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if o, err := ParseObjective(s); err == nil && !(o.Limit > 0 && !math.IsInf(o.Limit, 0)) {
			t.Errorf("ParseObjective(%q) = %+v", s, o)
		}
	})
}

func FuzzParseGroup(f *testing.F) {
	for _, s := range []string{"turn", "time:10s", "prompt_tokens:1,2,3", "tag.x", "uncached_tokens:1e300", "time:1ns,2ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGroup(s)
		if err != nil {
			return
		}
		if again, err := ParseGroup(g.String()); err != nil || again.String() != g.String() {
			t.Errorf("ParseGroup(%q) = %q, which reads as %q, %v", s, g, again, err)
		}
	})
}
