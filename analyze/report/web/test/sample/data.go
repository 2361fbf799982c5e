package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"parley/analyze"
	"parley/analyze/plots"
	"parley/schemas"
)

// turn is one made-up turn; times in seconds, sizes in tokens.
type turn struct {
	conversation, turn     int
	sent, first, end       float64
	prompt, cached, output float64
	status                 schemas.Status
}

// load makes conversations against a server with queueing: slow scales its latencies.
func load(seed uint64, conversations int, slow float64) []turn {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []turn
	for c := range conversations {
		at := float64(c%32)*0.25 + float64(c/32)*38*(0.8+0.4*rng.Float64())
		context := 200 + 800*rng.Float64()
		for k := range 6 + rng.IntN(9) {
			fresh := 40 + 300*rng.ExpFloat64()
			prompt := context + fresh
			cached := 0.0
			if k > 0 && rng.Float64() < 0.93 {
				cached = math.Floor(context/16) * 16
			}
			queue := 0.02 * rng.ExpFloat64()
			if rng.Float64() < 0.03 {
				queue += 0.6 * rng.ExpFloat64()
			}
			t := turn{conversation: c, turn: k, sent: at, prompt: prompt, cached: cached, status: schemas.StatusOK}
			t.first = at + slow*(0.018+(prompt-cached)/9000+queue)
			t.output = math.Ceil(20 + 180*rng.Float64())
			t.end = t.first + t.output*slow*(0.011+0.004*rng.Float64())
			switch x := rng.Float64(); {
			case x < 0.006:
				t.status, t.end = schemas.StatusHTTPError, at+0.004
			case x < 0.009:
				t.status, t.end = schemas.StatusTimeout, at+10
			}
			out = append(out, t)
			if t.status == schemas.StatusTimeout {
				break
			}
			context = prompt + t.output
			at = t.end + 0.4 + 2.2*rng.ExpFloat64()
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].sent < out[j].sent })
	return out
}

func quantile(sorted []float64, p float64) analyze.Num {
	if len(sorted) == 0 {
		return analyze.Missing
	}
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return analyze.Num(sorted[len(sorted)-1])
	}
	return analyze.Num(sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i]))
}

var asked = []float64{50, 90, 95, 99}

// needs is how many rows each of the percentiles takes.
var needs = map[float64]int64{50: 8, 90: 64, 95: 130, 99: 662}

func figure(name, title, unit string, values []float64, failed int) analyze.Figure {
	sort.Float64s(values)
	n := len(values)
	f := analyze.Figure{Name: name, Title: title, Unit: unit, Population: "completed turns sent in the window", N: int64(n), Clusters: int64(n / 9)}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	f.Mean, f.MeanLow, f.MeanHigh, f.Std = analyze.Missing, analyze.Missing, analyze.Missing, analyze.Missing
	f.Min, f.Max = analyze.Missing, analyze.Missing
	if n > 0 {
		f.Mean = analyze.Num(sum / float64(n))
		f.MeanLow, f.MeanHigh = f.Mean*0.97, f.Mean*1.03
		f.Min, f.Max = analyze.Num(values[0]), analyze.Num(values[n-1])
	}
	for _, p := range asked {
		x := analyze.Percentile{P: p, Value: analyze.Missing, Low: analyze.Missing, High: analyze.Missing, Needs: needs[p]}
		if int64(n) >= needs[p] {
			x.Carried = true
			x.Value = quantile(values, p)
			x.Low, x.High = quantile(values, p-40/math.Sqrt(float64(n))), quantile(values, math.Min(p+40/math.Sqrt(float64(n)), 100))
		}
		f.Percentiles = append(f.Percentiles, x)
	}
	if failed > 0 {
		for _, x := range f.Percentiles {
			at := x.P / 100 * float64(n+failed)
			if at >= float64(n) {
				x.Infinite, x.Value, x.Low, x.High = true, analyze.Missing, analyze.Missing, analyze.Missing
			}
			f.FailureAware = append(f.FailureAware, x)
		}
	}
	return f
}

func group(turns []turn, span float64, keys ...analyze.Key) analyze.Group {
	g := analyze.Group{Keys: keys}
	g.Counts.ByStatus = map[schemas.Status]int64{}
	g.Counts.ErrorKinds = map[string]int64{}
	conversations := map[int]bool{}
	var ttft, e2e, tpot, lag []float64
	for i, t := range turns {
		conversations[t.conversation] = true
		g.Counts.Planned++
		g.Counts.Sent++
		g.Counts.ByStatus[t.status]++
		if t.status != schemas.StatusOK {
			g.Counts.Failed++
			g.Counts.ErrorKinds[map[schemas.Status]string{schemas.StatusHTTPError: "overloaded", schemas.StatusTimeout: "idle_timeout"}[t.status]]++
			continue
		}
		g.Counts.OK++
		ttft = append(ttft, (t.first-t.sent)*1e3)
		e2e = append(e2e, (t.end-t.sent)*1e3)
		tpot = append(tpot, (t.end-t.first)*1e3/(t.output-1))
		lag = append(lag, 0.02+0.3*math.Abs(math.Sin(float64(i))))
		g.Tokens.Prompt += analyze.Num(t.prompt)
		g.Tokens.Cached += analyze.Num(t.cached)
		g.Tokens.Completion += analyze.Num(t.output)
		g.Tokens.Asked += int64(t.output)
		g.Tokens.AskedGot += int64(t.output)
	}
	g.Counts.Conversations = int64(len(conversations))
	g.Counts.ErrorRate = analyze.Num(float64(g.Counts.Failed) / float64(g.Counts.OK+g.Counts.Failed))
	failed := int(g.Counts.Failed)
	g.Figures = []analyze.Figure{
		figure("ttft", "TTFT", "ms", ttft, failed),
		figure("tpot", "TPOT", "ms/token", tpot, failed),
		figure("e2e", "E2E", "ms", e2e, failed),
		figure("send_lag", "Send lag", "ms", lag, 0),
	}
	ok := float64(g.Counts.OK)
	g.Tokens.CacheReuse = analyze.Num(float64(g.Tokens.Cached) / float64(g.Tokens.Prompt))
	g.Tokens.CacheCeiling = g.Tokens.CacheReuse * 1.08
	g.Tokens.MeanPrompt = analyze.Num(float64(g.Tokens.Prompt) / ok)
	g.Tokens.MeanOutput = analyze.Num(float64(g.Tokens.Completion) / ok)
	x := &g.Throughput
	x.Seconds = analyze.Num(span)
	x.Requests = analyze.Num(ok / span)
	x.PromptTokens = analyze.Num(float64(g.Tokens.Prompt) / span)
	x.CachedTokens = analyze.Num(float64(g.Tokens.Cached) / span)
	x.CompletionTokens = analyze.Num(float64(g.Tokens.Completion) / span)
	x.TotalTokens = x.PromptTokens + x.CompletionTokens
	x.PeakInFlight, x.PeakActive, x.MeanInFlight = 31, 40, 17.4
	x.PeakTokenRate = x.CompletionTokens * 1.4
	x.TokensPerUser = 1000 / g.Figures[1].Mean
	return g
}

func runResult(label string, turns []turn) analyze.RunResult {
	span := turns[len(turns)-1].end
	r := analyze.RunResult{
		Label: label, RunID: "01JDXW" + label, Files: []string{label + ".parquet"}, Ended: "complete",
		Origin: time.Date(2026, 11, 30, 9, 41, 7, 0, time.UTC), Duration: analyze.Num(span), ToolVer: "0.1.0", Seed: 7,
		Config:     []byte(`{"arrivals":{"kind":"closed","concurrency":32},"think":"recorded","timeout":"10m0s","history":"live","headers":["X-Session-ID: {conversation}"],"grace":"30s"}`),
		Dataset:    schemas.DatasetRef{File: "chat.parquet", ContentHash: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", Conversations: 120, Turns: 1190, Tokenizer: "o200k_base"},
		Targets:    []schemas.Target{{URL: "http://10.0.0.12:8000", API: "chat", Model: "Llama-3.1-8B-Instruct", Server: "vllm"}},
		Clock:      schemas.ClockInfo{Source: "kernel", KernelReads: 151234},
		Host:       schemas.Host{OS: "linux", Arch: "amd64", Kernel: "6.18.2", CPU: "EPYC 9354", CPUs: 32, GOMAXPROCS: 32},
		Health:     &schemas.Health{CPUShare: 0.021, CPUSharePeak: 0.034, SchedLatencyP50: 0.004, SchedLatencyP99: 0.21, GCPauseP99: 0.12, GCPauseTotal: 4.2, PeakRSSBytes: 83e6, PeakInFlight: 31, PeakActive: 40, WakeLatenessP50: 0.06, WakeLatenessP99: 0.31},
		Calibrated: &schemas.Calibration{Requests: 1190, Streams: 32, TTFTErrP50: 0.08, TTFTErrP99: 0.34, GapErrP50: 0.01, GapErrP99: 0.11, SendLagP99: 0.4, Description: "sim:?prefill=9000&itl=12ms&slots=32", When: "after"},
		Verdict: schemas.Verdict{Grade: schemas.Suspect, Reasons: []schemas.Reason{
			{Signal: "error_rate", Grade: schemas.Suspect, Value: 0.009, Limit: 0.005, Text: "0.9 % of the turns failed (bound 0.5 %).", Advice: "Look at the failures by kind; latencies leave failed turns out."},
		}},
		Window: analyze.Window{Kind: "steady", From: 12, To: analyze.Num(span - 20), Steady: true, Seconds: analyze.Num(span - 32), How: "Steady from 12 s, when every slot was busy, to the first conversation that found no successor."},
		Total:  group(turns, span-32),
	}
	byTurn := map[int][]turn{}
	for _, t := range turns {
		byTurn[t.turn] = append(byTurn[t.turn], t)
	}
	for k := range 14 {
		if list := byTurn[k]; len(list) > 0 {
			r.Groups = append(r.Groups, group(list, span-32, analyze.Key{Column: "turn", Value: fmt.Sprint(k), Low: analyze.Num(k), High: analyze.Num(k)}))
		}
	}
	return r
}

func runPlots(label string, turns []turn, seed uint64) plots.RunPlots {
	span := turns[len(turns)-1].end
	p := plots.RunPlots{Label: label, WindowFrom: 12, WindowTo: analyze.Num(span - 20)}
	var ttft, e2e, tpot, gaps []float64
	cloud := map[string]*plots.Points{}
	for _, f := range [][3]string{{"ttft", "TTFT", "ms"}, {"e2e", "E2E", "ms"}, {"tpot", "TPOT", "ms/token"}, {"send_lag", "Send lag", "ms"}} {
		cloud[f[0]] = &plots.Points{Figure: f[0], Title: f[1], Unit: f[2]}
	}
	p.Failures = plots.Points{Figure: "failed", Title: "Failed turns", Unit: "ms"}
	add := func(c *plots.Points, t, v float64) {
		c.T, c.V, c.Of = append(c.T, analyze.Num(t)), append(c.V, analyze.Num(v)), c.Of+1
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	steps := int(span) + 1
	zero := func() []analyze.Num { return make([]analyze.Num, steps) }
	s := plots.PerSecond{Step: 1, T: zero(), Started: zero(), Completed: zero(), Failed: zero(), PromptTokens: zero(), CompletionTokens: zero(), InFlight: zero(), InFlightPeak: zero(), Conversations: zero(), TTFTP50: zero(), TTFTMax: zero()}
	perSecond := make([][]float64, steps)
	lanes := map[int]*plots.Lane{}
	var order []int
	for _, t := range turns {
		lane, ok := lanes[t.conversation]
		if !ok {
			lane = &plots.Lane{Conversation: fmt.Sprintf("chat-%04d", t.conversation)}
			lanes[t.conversation] = lane
			order = append(order, t.conversation)
		}
		first := analyze.Num(t.first)
		if t.status != schemas.StatusOK {
			first = analyze.Missing
		}
		lane.Turns = append(lane.Turns, plots.Span{Turn: int64(t.turn), Status: string(t.status), Scheduled: analyze.Num(t.sent), Sent: analyze.Num(t.sent), First: first, End: analyze.Num(t.end), Prompt: analyze.Num(t.prompt), Output: analyze.Num(t.output)})
		s.Started[int(t.sent)]++
		for k := int(t.sent); k <= int(t.end) && k < steps; k++ {
			part := math.Min(t.end, float64(k+1)) - math.Max(t.sent, float64(k))
			s.InFlight[k] += analyze.Num(part)
			s.InFlightPeak[k]++
			if t.status == schemas.StatusOK {
				if d := math.Min(t.end, float64(k+1)) - math.Max(t.first, float64(k)); d > 0 {
					s.CompletionTokens[k] += analyze.Num(t.output * d / (t.end - t.first))
				}
			}
		}
		if t.status != schemas.StatusOK {
			s.Failed[min(int(t.end), steps-1)]++
			add(&p.Failures, t.sent, (t.end-t.sent)*1e3)
			p.Failures.Status = append(p.Failures.Status, string(t.status))
			continue
		}
		s.Completed[min(int(t.end), steps-1)]++
		s.PromptTokens[min(int(t.first), steps-1)] += analyze.Num(t.prompt)
		perSecond[int(t.sent)] = append(perSecond[int(t.sent)], (t.first-t.sent)*1e3)
		ttft = append(ttft, (t.first-t.sent)*1e3)
		e2e = append(e2e, (t.end-t.sent)*1e3)
		tpot = append(tpot, (t.end-t.first)*1e3/(t.output-1))
		for range 4 {
			gaps = append(gaps, math.Max(0, (t.end-t.first)*1e3/(t.output-1)*(1+0.25*rng.NormFloat64())))
		}
		add(cloud["ttft"], t.sent, (t.first-t.sent)*1e3)
		add(cloud["e2e"], t.sent, (t.end-t.sent)*1e3)
		add(cloud["tpot"], t.sent, (t.end-t.first)*1e3/(t.output-1))
		add(cloud["send_lag"], t.sent, 0.03+0.1*rng.ExpFloat64())
	}
	for k := range steps {
		s.T[k] = analyze.Num(k)
		s.Conversations[k] = 32
		sort.Float64s(perSecond[k])
		s.TTFTP50[k], s.TTFTMax[k] = quantile(perSecond[k], 50), quantile(perSecond[k], 100)
	}
	p.PerSecond = s
	for _, c := range order {
		p.Lanes = append(p.Lanes, *lanes[c])
	}
	p.LanesOf = int64(len(p.Lanes))
	for _, name := range []string{"ttft", "e2e", "tpot", "send_lag"} {
		p.OverTime = append(p.OverTime, *cloud[name])
	}
	curve := func(name, title, unit string, values []float64) plots.Curve {
		sort.Float64s(values)
		c := plots.Curve{Figure: name, Title: title, Unit: unit, N: int64(len(values))}
		for i, v := range values {
			c.Value = append(c.Value, analyze.Num(v))
			c.Share = append(c.Share, analyze.Num(float64(i+1)/float64(len(values))))
		}
		return c
	}
	p.CDFs = []plots.Curve{
		curve("ttft", "TTFT", "ms", ttft), curve("tpot", "TPOT", "ms/token", tpot), curve("itl", "ITL", "ms/token", gaps),
		curve("e2e", "E2E", "ms", e2e), curve("chunk_gap", "Chunk gap", "ms", append([]float64{0, 0, 0}, gaps...)),
	}
	bands := func(name, title string, xname string, bin func(turn) int, middle func(int) float64, value func(turn) float64) plots.Bands {
		sets := map[int][]float64{}
		for _, t := range turns {
			if t.status == schemas.StatusOK {
				sets[bin(t)] = append(sets[bin(t)], value(t))
			}
		}
		b := plots.Bands{Figure: name, Title: title, Unit: "ms", XName: xname}
		for k := range 64 {
			v := sets[k]
			if len(v) == 0 {
				continue
			}
			sort.Float64s(v)
			b.X = append(b.X, analyze.Num(middle(k)))
			b.Low, b.High = append(b.Low, analyze.Num(k)), append(b.High, analyze.Num(k+1))
			b.N = append(b.N, int64(len(v)))
			b.P50 = append(b.P50, quantile(v, 50))
			p90, p99 := analyze.Missing, analyze.Missing
			if len(v) >= 64 {
				p90 = quantile(v, 90)
			}
			if len(v) >= 110 {
				p99 = quantile(v, 99)
			}
			b.P90, b.P99, b.Mean = append(b.P90, p90), append(b.P99, p99), append(b.Mean, quantile(v, 50))
		}
		return b
	}
	byTurn := func(t turn) int { return t.turn }
	byPrompt := func(t turn) int { return int(t.prompt / 500) }
	same := func(k int) float64 { return float64(k) }
	middle := func(k int) float64 { return float64(k)*500 + 250 }
	first := func(t turn) float64 { return (t.first - t.sent) * 1e3 }
	whole := func(t turn) float64 { return (t.end - t.sent) * 1e3 }
	p.ByTurn = []plots.Bands{bands("ttft", "TTFT", "turn", byTurn, same, first), bands("e2e", "E2E", "turn", byTurn, same, whole)}
	p.ByContext = []plots.Bands{bands("ttft", "TTFT", "prompt_tokens", byPrompt, middle, first), bands("e2e", "E2E", "prompt_tokens", byPrompt, middle, whole)}
	p.CacheTurns = cacheTurns(turns)
	series := func(source, name string, rate bool, value func(float64) float64) {
		t := plots.TelemetrySeries{Source: source, Name: name, Rate: rate, Of: int64(steps)}
		for k := range steps {
			t.T, t.V = append(t.T, analyze.Num(k)), append(t.V, analyze.Num(value(float64(k))))
		}
		p.Telemetry = append(p.Telemetry, t)
	}
	series("client", "cpu_share", false, func(t float64) float64 { return 0.05 + 0.01*rng.NormFloat64() })
	series("client", "machine_idle_share", false, func(t float64) float64 { return 0.8 + 0.05*rng.NormFloat64() })
	series("client", "send_lag_p99_ms", false, func(t float64) float64 { return 0.2 + 0.1*rng.ExpFloat64() })
	series("client", "rss_bytes", false, func(t float64) float64 { return 6e7 + 2e7*(1-math.Exp(-t/20)) })
	series("client", "sched_latency_p99_ms", false, func(t float64) float64 { return 0.1 + 0.05*rng.ExpFloat64() })
	server := "http://10.0.0.12:8000/metrics"
	series(server, "running", false, func(t float64) float64 { return float64(s.InFlight[int(t)]) * 0.9 })
	series(server, "waiting", false, func(t float64) float64 { return float64(rng.IntN(3)) })
	series(server, "kv_usage", false, func(t float64) float64 { return 0.9 * (1 - math.Exp(-t/30)) })
	series(server, "prefix_cache_hits", true, func(t float64) float64 { return float64(s.PromptTokens[int(t)]) * 0.7 })
	series(server, "prefix_cache_queries", true, func(t float64) float64 { return float64(s.PromptTokens[int(t)]) })
	return p
}

func cacheTurns(turns []turn) []plots.CacheTurn {
	var out []plots.CacheTurn
	for k := range 14 {
		var rows int64
		var prompt, cached float64
		for _, t := range turns {
			if t.turn == k && t.status == schemas.StatusOK {
				rows++
				prompt += t.prompt
				cached += t.cached
			}
		}
		if rows > 0 {
			out = append(out, plots.CacheTurn{Turn: int64(k), Rows: rows, Reuse: analyze.Num(cached / prompt), Ceiling: analyze.Num(math.Min(1, cached/prompt*1.08))})
		}
	}
	return out
}
