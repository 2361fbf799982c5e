package main

import (
	"fmt"

	"parley/analyze"
	"parley/analyze/compare"
	"parley/analyze/plots"
	"parley/schemas"
)

func result(runs ...analyze.RunResult) *analyze.Result {
	return &analyze.Result{
		Schema: analyze.ResultSchema, Version: analyze.ResultVersion, ToolVersion: "0.1.0", From: analyze.FromSent,
		Percentiles: asked, Level: 0.95, By: []string{"turn"}, Runs: runs,
	}
}

func one() (*analyze.Result, *plots.Plots) {
	turns := load(7, 120, 1)
	r := result(runResult("run", turns))
	return r, &plots.Plots{Runs: []plots.RunPlots{runPlots("run", turns, 7)}}
}

func two() (*analyze.Result, *plots.Plots) {
	before, after := load(7, 120, 1), load(7, 120, 1.12)
	r := result(runResult("after", after), runResult("before", before))
	r.Runs[1].Verdict = schemas.Verdict{Grade: schemas.Valid}
	c := &compare.Comparison{Baseline: "before (5 runs)", Candidate: "after (5 runs)", Tested: true, Paired: true, Why: "5 pairs of runs with the same dataset, level, repeat and seed, compared pair by pair",
		Common: 1120, Most: 1180, Slower: true, Primary: "ttft.p50",
		Config: []compare.ConfigChange{{Setting: "targets.0.url", Baseline: "http://10.0.0.12:8000", Candidate: "http://10.0.0.13:8000"}}}
	for _, d := range []struct {
		name, title, unit string
		base, ratio       analyze.Num
		changed           bool
	}{
		{"ttft.p50", "TTFT p50", "ms", 61.2, 1.119, true}, {"ttft.p99", "TTFT p99", "ms", 1204, 1.08, false},
		{"tpot.p50", "TPOT p50", "ms/token", 13.02, 1.121, true}, {"request_throughput", "Turns per second", "1/s", 9.81, 0.99, false},
	} {
		x := compare.Difference{Name: d.name, Title: d.title, Unit: d.unit, Baseline: d.base, Candidate: d.base * d.ratio, Diff: d.base * (d.ratio - 1),
			DiffLow: d.base * (d.ratio - 1.04), DiffHigh: d.base * (d.ratio - 0.96), Ratio: d.ratio, RatioLow: d.ratio - 0.04, RatioHigh: d.ratio + 0.04, P: 0.31, Tested: true}
		if d.changed {
			x.P, x.Changed, x.Worse = 0.0000004, true, true
		}
		c.Rows = append(c.Rows, x)
	}
	r.Comparisons = []*compare.Comparison{c}
	r.Gates = []compare.Gate{
		{Expression: "ttft.p99 < +10%", Of: "after (5 runs)", Outcome: compare.Undecided, Value: 0.08, Low: 0.04, High: 0.12, Text: "ttft.p99 went from 1204 ms to 1300 ms, +8 % (95 %: +4 % to +12 %); wanted < +10 %; it would take about 6 more runs a side like these"},
		{Expression: "tpot.p50 < +5%", Of: "after (5 runs)", Outcome: compare.Failed, Value: 0.121, Low: 0.08, High: 0.16, Text: "tpot.p50 went from 13.02 ms to 14.6 ms, +12.1 % (95 %: +8 % to +16 %); wanted < +5 %"},
	}
	return r, &plots.Plots{Runs: []plots.RunPlots{runPlots("after", after, 8), runPlots("before", before, 7)}}
}

func sweep() (*analyze.Result, *plots.Plots) {
	r := result()
	p := &plots.Plots{}
	s := &analyze.Sweep{GPUs: 2}
	for i, concurrency := range []int{4, 8, 16, 32, 64, 128} {
		slow := 1 + float64(concurrency*concurrency)/3000
		label := fmt.Sprintf("c%d", concurrency)
		turns := load(uint64(i), 20+concurrency, slow)
		run := runResult(label, turns)
		run.Groups = nil
		run.Simulated = true
		r.Runs = append(r.Runs, run)
		plots := runPlots(label, turns, uint64(i))
		p.Runs = append(p.Runs, plots)
		x := run.Total.Throughput
		out := analyze.Num(float64(concurrency)*60) / analyze.Num(slow)
		s.Rows = append(s.Rows, analyze.SweepRow{Label: label, Grade: schemas.Valid, Concurrency: analyze.Num(concurrency), Rate: analyze.Missing,
			Requests: x.Requests, OutputTokens: out, TotalTokens: out * 8, PerUser: x.TokensPerUser, PerGPU: out * 4, OutputPerGPU: out / 2,
			TTFTP50: analyze.Num(60 * slow), TTFTP99: analyze.Num(400 * slow * slow), TPOTP50: analyze.Num(12 * slow), E2EP50: analyze.Num(1500 * slow),
			ErrorRate: 0.009, GoodputShare: analyze.Missing, Pareto: concurrency < 128})
	}
	for _, name := range []string{"ttft.p50", "ttft.p99"} {
		s.Labels = append(s.Labels, analyze.Spread{Label: "c32", Runs: 3, Name: name, Unit: "ms", Mean: 80, Std: 2, CV: 0.025, Low: 76, High: 84, Min: 78, Max: 82})
	}
	r.Sweep = s
	r.By = nil
	r.Heading = []string{"Run against parley's own simulated server: these are not the figures of a real one"}
	return r, p
}

// hostile has, in each place that a server, a dataset or a user can write into, a text that would run a
// script, end an element, or become a formula, if anything took it for more than text.
func hostile() (*analyze.Result, *plots.Plots) {
	turns := load(7, 12, 1)
	attacks := []string{
		`</script><img src=x onerror="window.owned=1">`,
		`<!--<script>`,
		`"><svg onload=window.owned=1>`,
		`' onmouseover='window.owned=1`,
		"\u2028window.owned=1\u2029",
		`{{.}}${window.owned=1}`,
		`=HYPERLINK("http://192.0.2.1/")`,
		`javascript:window.owned=1`,
		"\u202egnp.exe, \x00\x1b[31m",
	}
	i := 0
	next := func() string { i++; return attacks[i%len(attacks)] }
	run := runResult(attacks[0], turns)
	run.RunID, run.Ended, run.Files = next(), next(), attacks
	run.Dataset.File, run.Dataset.Tokenizer = next(), next()
	run.Targets = []schemas.Target{{URL: attacks[7], API: next(), Model: attacks[0], Server: next()}}
	run.Config = []byte(`{"</script><script>window.owned=1</script>":"</script><img src=x onerror=window.owned=1>","a":["<!--<script>"]}`)
	run.Window.How = attacks[0]
	run.Host.CPU = next()
	run.Verdict.Reasons = nil
	run.Total.Counts.ErrorKinds = map[string]int64{}
	for _, a := range attacks {
		run.Verdict.Reasons = append(run.Verdict.Reasons, schemas.Reason{Signal: a, Grade: schemas.Grade(a), Text: a, Advice: a})
		run.Total.Counts.ErrorKinds[a] = 1
	}
	run.Warnings = []analyze.Warning{{Kind: attacks[1], Text: attacks[0]}, {Kind: "x", Text: attacks[2]}}
	for j := range run.Groups {
		run.Groups[j].Keys[0].Value = next()
	}
	for j := range run.Total.Figures {
		run.Total.Figures[j].Population = next()
	}
	r := result(run)
	r.Heading, r.ToolVersion = attacks, attacks[0]
	r.Gates = []compare.Gate{{Expression: attacks[0], Text: attacks[2]}}
	p := runPlots(attacks[0], turns, 7)
	for j := range p.Lanes {
		p.Lanes[j].Conversation = next()
		for k := range p.Lanes[j].Turns {
			if k%3 == 0 {
				p.Lanes[j].Turns[k].Status = next()
			}
		}
	}
	for j := range p.Telemetry {
		p.Telemetry[j].Source, p.Telemetry[j].Name = next(), next()
	}
	for j := range p.CDFs {
		p.CDFs[j].Title = next()
	}
	for j := range p.OverTime {
		p.OverTime[j].Title, p.OverTime[j].Unit = next(), next()
	}
	return r, &plots.Plots{Runs: []plots.RunPlots{p}}
}
