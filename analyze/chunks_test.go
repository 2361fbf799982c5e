package analyze

import (
	"math"
	"slices"
	"testing"

	"parley/analyze/stat"
	"parley/schemas"
)

// Counted gaps say what gaps in memory say, in the total and in every group, and say that they are counted.
func TestCountedGapsEqualExactOnes(t *testing.T) {
	o := Options{By: []GroupSpec{{Column: "turn"}}, Window: WindowSpec{Kind: WindowAll}}
	exact := analyzeOne(t, memoryRun(t, fullSpec(), o), o)
	before := exactGaps
	exactGaps = 100
	defer func() { exactGaps = before }()
	counted := analyzeOne(t, memoryRun(t, fullSpec(), o), o)
	compared := 0
	same := func(where string, a, b Num, tolerance float64) {
		t.Helper()
		if a.Known() != b.Known() || a.Known() && math.Abs(float64(a-b)) > tolerance*math.Abs(float64(a)) {
			t.Errorf("%s: exact %v, counted %v", where, a, b)
		}
		compared++
	}
	check := func(where string, a, b *Group) {
		for _, name := range []string{figITL, figChunkGap} {
			x, y := a.Figure(name), b.Figure(name)
			if x.RelativeError != 0 || y.RelativeError != stat.RelativeError {
				t.Fatalf("%s: %v and %v", where, x.RelativeError, y.RelativeError)
			}
			if x.N != y.N {
				t.Errorf("%s %s: %d and %d values", where, name, x.N, y.N)
			}
			if x.N == 0 {
				continue
			}
			same(where+" mean", x.Mean, y.Mean, 1e-9)
			same(where+" std", x.Std, y.Std, 1e-7)
			same(where+" min", x.Min, y.Min, 0)
			same(where+" max", x.Max, y.Max, 0)
			for i, p := range x.Percentiles {
				same(where+" percentile", p.Value, y.Percentiles[i].Value, stat.RelativeError)
			}
		}
	}
	check("total", &exact.Total, &counted.Total)
	if len(exact.Groups) != len(counted.Groups) || len(exact.Groups) < 5 {
		t.Fatalf("%d and %d groups", len(exact.Groups), len(counted.Groups))
	}
	for i := range exact.Groups {
		check("turn "+exact.Groups[i].Keys[0].Value, &exact.Groups[i], &counted.Groups[i])
	}
	if compared < 80 {
		t.Errorf("%d figures were compared", compared)
	}
}

// A server that claims numbers of tokens that cannot be true costs no more than one that does not: those of its
// answers are not known, the others' figures are what they were, and the verdict says so.
func TestClaimedTokensThatCannotBeTrue(t *testing.T) {
	o := Options{Window: WindowSpec{Kind: WindowAll}, Objectives: []Objective{{"ttft", 300}, {"tpot", 50}}}
	for _, exact := range []int64{exactGaps, 100} {
		before := exactGaps
		exactGaps = exact
		defer func() { exactGaps = before }()
		for _, c := range []struct {
			name   string
			change func(r *schemas.Request)
			fine   bool
		}{
			{"a billion", func(r *schemas.Request) { r.CompletionTokens = p(int64(1e9)) }, false},
			{"the largest number", func(r *schemas.Request) { r.CompletionTokens = p(int64(math.MaxInt64)) }, false},
			{"below 0", func(r *schemas.Request) { r.CompletionTokens = p(int64(-7)) }, false},
			{"more than bytes", func(r *schemas.Request) { r.BytesReceived, r.CompletionTokens = 900, p(int64(1000)) }, false},
			{"of each chunk", func(r *schemas.Request) {
				r.CompletionTokens, r.ChunkTokens = p(int64(math.MaxInt64)), slices.Repeat([]int64{math.MaxInt64 / 2}, len(r.ChunkNS))
			}, false},
			{"of the prompt", func(r *schemas.Request) { r.PromptTokens, r.CachedTokens = p(int64(math.MaxInt64)), p(int64(1e12)) }, false},
			{"compressed", func(r *schemas.Request) {
				r.BytesReceived, r.CompletionTokens, r.TimingNote = 900, p(int64(1000)), p("gzip")
			}, true},
			{"hidden reasoning", func(r *schemas.Request) {
				r.BytesReceived, r.CompletionTokens, r.ReasoningTokens = 900, p(int64(1000)), p(int64(990))
				r.FirstAnswerNS = r.FirstTokenNS
			}, true},
			{"many tokens a chunk", func(r *schemas.Request) { r.CompletionTokens = p(int64(5_000_000)) }, true},
		} {
			rows, meta := cleanRows()
			var told int64
			for i := range rows {
				rows[i].BytesReceived = 2000
				told += *rows[i].CompletionTokens
			}
			r := &rows[10]
			told -= *r.CompletionTokens
			c.change(r)
			if c.name == "many tokens a chunk" {
				r.BytesReceived = 20_000_000
			}
			r.Derive()
			got := analyzeOne(t, runOfRows(t, rows, meta, o), o)
			i := slices.IndexFunc(got.Verdict.Reasons, func(r schemas.Reason) bool { return r.Signal == "untrue_tokens" })
			if c.fine != (i < 0) {
				t.Errorf("%s: %+v", c.name, got.Verdict.Reasons)
			}
			if c.fine {
				told += *r.CompletionTokens
			} else if c.name == "of the prompt" {
				told += *r.CompletionTokens
			}
			for _, name := range []string{"tpot", "tpot_request", "normalized_latency"} {
				if f := got.Total.Figure(name); c.name != "many tokens a chunk" && (f.N < 700 || f.Min < 0.01) {
					t.Errorf("%s: %s of %d turns from %v ms on", c.name, name, f.N, f.Min)
				}
			}
			if sum := int64(got.Total.Tokens.Completion); sum != told {
				t.Errorf("%s: %d tokens, want %d", c.name, sum, told)
			}
			if itl := got.Total.Figure(figITL); itl.N > told || !(itl.Mean > 0) || float64(got.Total.Throughput.CompletionTokens)*float64(got.Total.Throughput.Seconds) > 1.01*float64(told) {
				t.Errorf("%s: %d ITLs of mean %v, %v tokens per second", c.name, itl.N, itl.Mean, got.Total.Throughput.CompletionTokens)
			}
		}
	}
}
