package analyze

import (
	"math"
	"slices"
	"strings"
	"testing"

	"parley/schemas"
)

// reasonOf gives the reason of a signal in a verdict, nil for none.
func reasonOf(v schemas.Verdict, signal string) *schemas.Reason {
	if i := slices.IndexFunc(v.Reasons, func(r schemas.Reason) bool { return r.Signal == signal }); i >= 0 {
		return &v.Reasons[i]
	}
	return nil
}

// TestCachedCountsLeftOut has servers that leave out a count of 0, that tell nothing, and that tell 0 always.
func TestCachedCountsLeftOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		target int64 // what the probe was told at most
		cached func(i int, r *schemas.Request) *int64
		reuse  float64 // NaN: not known
		zeros  bool
	}{
		// Half of the rows tell 3/4 of their prompt, the others leave the count out.
		{"left out at 0", 0, func(i int, r *schemas.Request) *int64 {
			if i%2 == 0 {
				return p(*r.PromptTokens * 3 / 4)
			}
			return nil
		}, 0.375, false},
		{"only the probe was told", 96, func(int, *schemas.Request) *int64 { return nil }, 0, false},
		{"never told", 0, func(int, *schemas.Request) *int64 { return nil }, math.NaN(), false},
		{"tells 0 always", 0, func(int, *schemas.Request) *int64 { return p(int64(0)) }, math.NaN(), true},
		{"0 by a server that told more in the probe", 96, func(int, *schemas.Request) *int64 { return p(int64(0)) }, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, meta := cleanRows()
			for i := range rows {
				rows[i].URL, rows[i].API = "http://a", "anthropic"
				rows[i].PromptTokens = p(int64(1000)) // so that a share of rows is the same share of tokens
				rows[i].CachedTokens = c.cached(i, &rows[i])
			}
			meta.Targets = []schemas.Target{{URL: "http://a", API: "anthropic", CachedMost: c.target}, {URL: "http://b", API: "chat", CachedMost: 500}}
			o := Options{Figures: scalarFigures}
			got := analyzeOne(t, runOfRows(t, rows, meta, o), o).Total.Tokens
			if v := float64(got.CacheReuse); math.IsNaN(c.reuse) != math.IsNaN(v) || math.Abs(v-c.reuse) > 0.005 {
				t.Errorf("reuse %v, want %v", v, c.reuse)
			}
			if (got.CacheZeros > 0) != c.zeros || c.zeros && got.Cached.Known() {
				t.Errorf("%d rows that tell 0 always, %v cached", got.CacheZeros, got.Cached)
			}
		})
	}
}

func TestReuseAboveItsCeiling(t *testing.T) {
	rows, meta := cleanRows()
	for i := range rows {
		rows[i].CachedTokens = p(*rows[i].PromptTokens * 99 / 100)
	}
	o := Options{Figures: scalarFigures}
	r := reasonOf(analyzeOne(t, runOfRows(t, rows, meta, o), o).Verdict, "reuse_above_ceiling")
	if r == nil || r.Grade != schemas.Suspect || !strings.Contains(r.Text, "99 %") || !strings.Contains(r.Advice, "template") {
		t.Errorf("%+v", r)
	}
}

// TestPromptsCut has a server that cuts prompts at a length, one whose template adds to them, and live answers that
// are shorter than the recorded ones.
func TestPromptsCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		prompt func(r *schemas.Request) int64
		words  string
	}{
		{"cut", func(r *schemas.Request) int64 { return min(*r.ExpectedPromptTokens, 300) }, "tokens by the server's count, where"},
		{"template", func(r *schemas.Request) int64 { return *r.ExpectedPromptTokens + 40 + 5*r.Turn }, ""},
		{"another tokenizer", func(r *schemas.Request) int64 { return *r.ExpectedPromptTokens * 85 / 100 }, ""},
		{"shorter answers", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, meta := cleanRows()
			var live int64
			for i := range rows {
				r := &rows[i]
				if c.prompt != nil {
					r.PromptTokens = p(c.prompt(r))
					continue
				}
				// Recorded answers of 1,000 tokens, live ones of few.
				r.ExpectedPromptTokens = p(*r.ExpectedPromptTokens + 1000*r.Turn)
				if r.Turn == 0 {
					live = *r.ExpectedPromptTokens
				} else {
					live += *rows[i-1].CompletionTokens + *r.NewTokens
				}
				r.PromptTokens = p(live)
			}
			o := Options{Figures: scalarFigures}
			r := reasonOf(analyzeOne(t, runOfRows(t, rows, meta, o), o).Verdict, "prompts_cut")
			if (r == nil) != (c.words == "") || r != nil && (!strings.Contains(r.Text, c.words) || !strings.Contains(r.Advice, "tokenizer")) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestLengthAdvice never recommends what the run did already, or what its server refused.
func TestLengthAdvice(t *testing.T) {
	no, yes := false, true
	for _, c := range []struct {
		config string
		probe  *schemas.Probe
		longer bool
		has    string
		not    string
	}{
		{`{}`, nil, false, "--ignore-eos", ""},
		{`{"ignore_eos":true}`, &schemas.Probe{IgnoreEOS: &no}, false, "cannot be kept from ending", "--ignore-eos"},
		{`{"ignore_eos":true}`, &schemas.Probe{IgnoreEOS: &yes}, false, "ignores that", "--ignore-eos"},
		{`{"min_tokens":9}`, nil, false, "ignores that", "--min-tokens"},
		{`{"ignore_eos":true}`, nil, true, "does not hold the limit", "--ignore-eos"},
	} {
		rows, meta := cleanRows()
		meta.Config, meta.Probe = []byte(c.config), c.probe
		for i := range rows {
			asked := *rows[i].CompletionTokens * 2
			if c.longer {
				asked = max(1, *rows[i].CompletionTokens/2)
			}
			rows[i].OutputTokensAsked = &asked
		}
		o := Options{Figures: scalarFigures}
		r := reasonOf(analyzeOne(t, runOfRows(t, rows, meta, o), o).Verdict, "output_length")
		if r == nil || !strings.Contains(r.Advice, c.has) || c.not != "" && strings.Contains(r.Advice, c.not) {
			t.Errorf("%s: %+v", c.config, r)
		}
	}
}
