package export

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/analyze"
	"parley/schemas"
)

// llmdVersion is the version of the report that is written; its schema forbids what it does not name.
const llmdVersion = "0.2.1"

var llmdPercentiles = []float64{0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9}

// llmdFacts are what describes the server. The server's component takes hw, framework_version and, where the server
// has not said what it is, framework.
var llmdFacts = []string{"hw", "framework", "framework_version", "role", "replicas", "tp", "dp", "ep", "pp", "cluster", "user", "description", "keywords"}

// The report's objects, as far as parley has something to say in them. Sources: llm-d-benchmark,
// analysis/benchmark_report, schema 0.2.1.
type (
	llmdReport struct {
		Version  string       `json:"version"`
		Run      llmdRun      `json:"run"`
		Scenario llmdScenario `json:"scenario"`
		Results  llmdResults  `json:"results"`
	}
	llmdRun struct {
		UID         string   `json:"uid"`
		EID         string   `json:"eid"`
		CID         string   `json:"cid,omitempty"`
		Time        llmdTime `json:"time"`
		User        string   `json:"user,omitempty"`
		Description string   `json:"description,omitempty"`
		Keywords    any      `json:"keywords,omitempty"`
	}
	llmdTime struct {
		Start    time.Time `json:"start"`
		End      time.Time `json:"end"`
		Duration string    `json:"duration"`
	}
	llmdScenario struct {
		Stack []llmdComponent `json:"stack,omitempty"`
		Load  *llmdLoad       `json:"load,omitempty"`
	}
	llmdComponent struct {
		Metadata     map[string]string `json:"metadata"`
		Standardized llmdEngine        `json:"standardized"`
		Native       struct{}          `json:"native"`
	}
	llmdEngine struct {
		Kind        string            `json:"kind"`
		Tool        string            `json:"tool"`
		ToolVersion string            `json:"tool_version"`
		Role        string            `json:"role"`
		Replicas    int               `json:"replicas"`
		Model       map[string]string `json:"model"`
		Accelerator llmdAccelerator   `json:"accelerator"`
	}
	llmdAccelerator struct {
		Model       string         `json:"model"`
		Count       int            `json:"count"`
		Parallelism map[string]int `json:"parallelism"`
	}
	llmdLoad struct {
		Metadata     map[string]string `json:"metadata"`
		Standardized llmdStandard      `json:"standardized"`
		Native       llmdNative        `json:"native"`
	}
	llmdNative struct {
		Config json.RawMessage `json:"config,omitempty"`
	}
	llmdStandard struct {
		Tool        string         `json:"tool"`
		ToolVersion string         `json:"tool_version"`
		Source      string         `json:"source"`
		Stage       int            `json:"stage"`
		Input       llmdLength     `json:"input_seq_len"`
		Output      *llmdLength    `json:"output_seq_len,omitempty"`
		MultiTurn   *llmdMultiTurn `json:"multi_turn,omitempty"`
		Rate        *float64       `json:"rate_qps,omitempty"`
		Concurrency *int64         `json:"concurrency,omitempty"`
	}
	llmdLength struct {
		Distribution string   `json:"distribution"`
		Value        float64  `json:"value"`
		Std          *float64 `json:"std_dev,omitempty"`
		Min          *int64   `json:"min,omitempty"`
		Max          *int64   `json:"max,omitempty"`
	}
	llmdMultiTurn struct {
		Enabled  bool        `json:"enabled"`
		MaxTurns *llmdLength `json:"max_turns,omitempty"`
	}
	llmdResults struct {
		Requests struct {
			Aggregate llmdAggregate `json:"aggregate"`
		} `json:"request_performance"`
		Sessions struct {
			Sessions llmdSessions `json:"sessions"`
		} `json:"session_performance"`
	}
	llmdAggregate struct {
		Requests   llmdRequests     `json:"requests"`
		Latency    map[string]stats `json:"latency,omitempty"`
		Throughput map[string]stats `json:"throughput,omitempty"`
	}
	llmdRequests struct {
		Total      int64 `json:"total"`
		Failures   int64 `json:"failures"`
		Incomplete int64 `json:"incomplete"`
		Input      stats `json:"input_length,omitempty"`
		Output     stats `json:"output_length,omitempty"`
	}
	llmdSessions struct {
		Total     int64 `json:"total"`
		Succeeded int64 `json:"succeeded"`
		Failed    int64 `json:"failed"`
		Events    int64 `json:"total_events"`
		Completed int64 `json:"total_events_completed"`
		Cancelled int64 `json:"total_events_cancelled"`
		PerEvent  stats `json:"events_per_session,omitempty"`
		Input     stats `json:"input_tokens_per_session,omitempty"`
		Output    stats `json:"output_tokens_per_session,omitempty"`
	}
)

// stats is a Statistics object: units, mean, and what else is known. Empty: nothing is.
type stats map[string]any

func llmdFiles(l *level, facts Facts) ([]File, error) {
	if len(l.turns) == 0 {
		return nil, errNoTurns
	}
	stack, err := l.llmdStack(facts)
	if err != nil {
		return nil, err
	}
	r := llmdReport{Version: llmdVersion, Run: l.llmdRun(facts)}
	r.Scenario = llmdScenario{Stack: stack, Load: l.llmdLoad()}
	a := &r.Results.Requests.Aggregate
	a.Requests = l.llmdRequests()
	a.Latency = map[string]stats{}
	for name, figure := range map[string][2]string{
		"time_to_first_token":              {"ttft", "ms"},
		"normalized_time_per_output_token": {"normalized_latency", "ms/token"},
		"time_per_output_token":            {"tpot", "ms/token"},
		"inter_token_latency":              {"itl", "ms/token"},
		"request_latency":                  {"e2e", "ms"},
	} {
		if s := ofFigure(l.group.Figure(figure[0]), figure[1]); s != nil {
			a.Latency[name] = s
		}
	}
	t := &l.group.Throughput
	a.Throughput = map[string]stats{}
	for name, rate := range map[string]analyze.Num{
		"input_token_rate": t.PromptTokens, "output_token_rate": t.CompletionTokens, "total_token_rate": t.TotalTokens, "request_rate": t.Requests,
	} {
		units := "tokens/s"
		if name == "request_rate" {
			units = "queries/s"
		}
		if rate.Known() {
			a.Throughput[name] = stats{"units": units, "mean": float64(rate)}
		}
	}
	r.Results.Sessions.Sessions = l.llmdSessions()
	return []File{jsonFile(l.name()+".json", true, r)}, nil
}

func (l *level) llmdRun(facts Facts) llmdRun {
	from, to := l.run.Window.From, l.run.Window.To
	if l.stage >= 0 { // its window is its own
		first, last := int64(math.MaxInt64), int64(0)
		for i := range l.turns {
			t := &l.turns[i]
			first, last = min(first, t.Start), max(last, t.Start, t.Done)
		}
		from, to = analyze.Num(float64(first)/1e9), analyze.Num(float64(last)/1e9)
	}
	uid := l.run.RunID
	if l.stage >= 0 {
		uid += fmt.Sprintf("-stage%d", l.stage)
	}
	return llmdRun{
		UID: uid, EID: l.experiment, CID: facts.text("cluster"), User: facts.text("user"), Description: facts.text("description"), Keywords: facts["keywords"],
		Time: llmdTime{Start: l.at(from), End: l.at(to), Duration: fmt.Sprintf("PT%.3fS", float64(to-from))},
	}
}

// llmdStack describes the server, where the operator told what the schema demands.
func (l *level) llmdStack(facts Facts) ([]llmdComponent, error) {
	tool := facts.text("framework")
	if tool == "" {
		tool = l.target().Server
	}
	hw, version := facts.text("hw"), facts.text("framework_version")
	if tool == "" || hw == "" || version == "" {
		return nil, nil
	}
	parallel := map[string]int{}
	for _, name := range []string{"tp", "dp", "ep", "pp"} {
		n, err := facts.number(name)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			parallel[name] = n
		}
	}
	replicas, err := facts.number("replicas")
	if err != nil {
		return nil, err
	}
	gpus, err := l.gpuCount(facts)
	if err != nil {
		return nil, err
	}
	if gpus == 0 {
		return nil, nil
	}
	role := facts.text("role")
	if role == "" {
		role = "replica"
	}
	return []llmdComponent{{
		Metadata: map[string]string{"label": tool, "cfg_id": l.run.RunID},
		Standardized: llmdEngine{
			Kind: "inference_engine", Tool: tool, ToolVersion: version, Role: role, Replicas: max(1, replicas),
			Model:       map[string]string{"name": l.target().Model},
			Accelerator: llmdAccelerator{Model: hw, Count: int(gpus), Parallelism: parallel},
		},
	}}, nil
}

// llmdLoad describes the load; nil where the server told no prompt's length, which the schema demands.
func (l *level) llmdLoad() *llmdLoad {
	input := l.collect(func(t *analyze.Turn) float64 { return count(t.Prompt) })
	std := llmdStandard{
		Tool: "parley", ToolVersion: l.run.ToolVer, Source: "unknown", Stage: max(0, l.stage),
	}
	x := lengths(input)
	if x == nil {
		return nil
	}
	std.Input = *x
	turns := map[int32]float64{}
	for i := range l.turns {
		t := &l.turns[i]
		turns[t.Session] = math.Max(turns[t.Session], float64(t.Turn+1))
	}
	var perSession sample
	for _, n := range turns {
		perSession = append(perSession, n)
	}
	slices.Sort(perSession)
	multi := perSession[len(perSession)-1] > 1
	std.MultiTurn = &llmdMultiTurn{Enabled: multi, MaxTurns: lengths(perSession)}
	if l.concurrency != nil && *l.concurrency > 0 {
		std.Concurrency = l.concurrency
	}
	if l.offered != nil && !multi { // a rate of conversations is one of requests only then
		std.Rate = l.offered
	}
	return &llmdLoad{Metadata: map[string]string{"cfg_id": l.run.Dataset.ContentHash}, Standardized: std, Native: llmdNative{Config: l.run.Config}}
}

// lengths describes what was drawn; nil of nothing.
func lengths(s sample) *llmdLength {
	if len(s) == 0 {
		return nil
	}
	least, most := int64(s[0]), int64(s[len(s)-1])
	if least == most {
		return &llmdLength{Distribution: "fixed", Value: s[0]}
	}
	return &llmdLength{Distribution: "other", Value: s.mean(), Std: known(s.std(1)), Min: &least, Max: &most}
}

func (l *level) llmdRequests() llmdRequests {
	c := &l.group.Counts
	return llmdRequests{
		Total: c.Sent, Failures: c.Failed, Incomplete: c.Censored + c.ByStatus[schemas.StatusAbandoned],
		Input:  ofSample(l.collect(func(t *analyze.Turn) float64 { return count(t.Prompt) }), "count"),
		Output: ofSample(l.collect(func(t *analyze.Turn) float64 { return count(t.Completion) }), "count"),
	}
}

// llmdSessions counts conversations by their turns in the window.
func (l *level) llmdSessions() llmdSessions {
	type session struct {
		events, input, output float64
		failed, ended         bool
	}
	sessions := map[int32]*session{}
	s := llmdSessions{}
	for i := range l.turns {
		t := &l.turns[i]
		c := sessions[t.Session]
		if c == nil {
			c = &session{}
			sessions[t.Session] = c
		}
		c.events++
		s.Events++
		switch {
		case t.Status == schemas.StatusOK:
			s.Completed++
			c.input += count(t.Prompt)
			c.output += count(t.Completion)
		case t.Status.Failed():
			c.failed = true
		default:
			s.Cancelled++
			c.ended = true
		}
	}
	var events, input, output sample
	for _, c := range sessions {
		s.Total++
		events = append(events, c.events)
		switch {
		case c.failed:
			s.Failed++
		case !c.ended:
			s.Succeeded++
			if !math.IsNaN(c.input) {
				input = append(input, c.input)
			}
			if !math.IsNaN(c.output) {
				output = append(output, c.output)
			}
		}
	}
	for to, from := range map[*stats]sample{&s.PerEvent: events, &s.Input: input, &s.Output: output} {
		slices.Sort(from)
		*to = ofSample(from, "count")
	}
	return s
}

// llmdName gives the name of a percentile: p50, p99p9.
func llmdName(p float64) string {
	return "p" + strings.ReplaceAll(strconv.FormatFloat(p, 'f', -1, 64), ".", "p")
}

// ofFigure gives the statistics of a figure of the analysis; nil if it has no value.
func ofFigure(f *analyze.Figure, units string) stats {
	if f == nil || f.N == 0 || !f.Mean.Known() {
		return nil
	}
	s := stats{"units": units, "mean": float64(f.Mean)}
	for name, v := range map[string]analyze.Num{"stddev": f.Std, "min": f.Min, "max": f.Max} {
		if v.Known() {
			s[name] = float64(v)
		}
	}
	for _, p := range llmdPercentiles {
		if v := f.Percentile(p); v != nil && v.Value.Known() {
			s[llmdName(p)] = float64(v.Value)
		}
	}
	return s
}

func ofSample(v sample, units string) stats {
	if len(v) == 0 {
		return nil
	}
	s := stats{"units": units, "mean": v.mean(), "stddev": v.std(1), "min": v[0], "max": v[len(v)-1]}
	for _, p := range llmdPercentiles {
		s[llmdName(p)] = v.percentile(p)
	}
	return s
}
