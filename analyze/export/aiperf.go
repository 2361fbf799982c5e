package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"parley/analyze"
	"parley/schemas"
)

// aiperfSchema is the version of the aggregate's layout (AIPerf's JsonExportData).
const aiperfSchema = "1.4"

// aiperfFiles makes the two files of an AIPerf run: a record per request (profile_export.jsonl), and the aggregate
// (profile_export_aiperf.json).
//
// AIPerf's formulas: times count from the request's start, before its connection; the latency ends with the last chunk
// that has content; ITL is one per request, (latency - TTFT) / (tokens - tokens of the first chunk); inter-chunk
// latencies are a list; deviations divide by n; output_sequence_length is with reasoning, output_token_count without.
func aiperfFiles(l *level, _ Facts) ([]File, error) {
	if len(l.turns) == 0 {
		return nil, errNoTurns
	}
	return below(l.name(),
		File{Path: "profile_export.jsonl", Write: l.aiperfRecords},
		jsonFile("profile_export_aiperf.json", true, l.aiperfAggregate()),
	), nil
}

// aiperfMetric is one figure of one turn.
type aiperfMetric struct {
	name, unit string
	of         func(t *analyze.Turn) float64
}

// aiperfMetrics are the figures that one turn has one of. Units as AIPerf displays them.
var aiperfMetrics = []aiperfMetric{
	{"time_to_first_token", "ms", func(t *analyze.Turn) float64 { return ms(span(t.Start, t.FirstToken)) }},
	{"request_latency", "ms", func(t *analyze.Turn) float64 { return ms(span(t.Start, t.LastToken)) }},
	{"inter_token_latency", "ms", aiperfITL},
	{"input_sequence_length", "tokens", func(t *analyze.Turn) float64 { return count(t.Prompt) }},
	{"output_sequence_length", "tokens", func(t *analyze.Turn) float64 { return count(t.Completion) }},
	{"output_token_count", "tokens", func(t *analyze.Turn) float64 { return count(t.Completion) - float64(max(0, t.Reasoning)) }},
	{"reasoning_token_count", "tokens", func(t *analyze.Turn) float64 { return count(t.Reasoning) }},
	{"output_token_throughput_per_user", "tokens/sec/user", func(t *analyze.Turn) float64 { return 1e3 / aiperfITL(t) }},
}

// aiperfITL is AIPerf's inter-token latency in milliseconds.
func aiperfITL(t *analyze.Turn) float64 {
	if t.Burst || t.Completion < 2 {
		return math.NaN()
	}
	first := t.FirstChunkTokens()
	if first >= t.Completion {
		first = 1
	}
	return per(ms(span(t.FirstToken, t.LastToken)), float64(t.Completion-t.Hidden-first))
}

type (
	aiperfRecord struct {
		Metadata aiperfMetadata         `json:"metadata"`
		Metrics  map[string]aiperfValue `json:"metrics"`
		Error    *aiperfError           `json:"error"`
	}
	aiperfMetadata struct {
		Session       int32  `json:"session_num"`
		Request       string `json:"x_request_id"`
		Correlation   string `json:"x_correlation_id"`
		Conversation  string `json:"conversation_id"`
		Turn          int64  `json:"turn_index"`
		Start         int64  `json:"request_start_ns"`
		Ack           *int64 `json:"request_ack_ns"`
		End           int64  `json:"request_end_ns"`
		Worker        string `json:"worker_id"`
		Processor     string `json:"record_processor_id"`
		Phase         string `json:"benchmark_phase"`
		Cancelled     bool   `json:"was_cancelled"`
		CancelledTime *int64 `json:"cancellation_time_ns"`
	}
	aiperfValue struct {
		Value any    `json:"value"`
		Unit  string `json:"unit"`
	}
	aiperfError struct {
		Code    *int64 `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
)

// aiperfRecords writes a line per turn.
func (l *level) aiperfRecords(w io.Writer) error {
	out := bufio.NewWriter(w)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for i := range l.turns {
		if err := e.Encode(l.aiperfRecord(&l.turns[i])); err != nil {
			return err
		}
	}
	return out.Flush()
}

func (l *level) aiperfRecord(t *analyze.Turn) aiperfRecord {
	origin := l.run.Origin.UnixNano()
	correlation := t.Conversation
	if t.Instance > 0 {
		correlation += fmt.Sprintf("#%d", t.Instance)
	}
	end := max(t.Start, t.Sent, t.Done)
	m := aiperfMetadata{
		Session: t.Session, Request: t.RequestID, Correlation: correlation, Conversation: t.Conversation, Turn: t.Turn,
		Start: origin + t.Start, End: origin + end, Worker: "parley", Processor: "parley", Phase: "profiling",
	}
	if t.FirstByte != schemas.NullInt {
		ack := origin + t.FirstByte
		m.Ack = &ack
	}
	if t.Status == schemas.StatusCanceled || t.Status == schemas.StatusAbandoned {
		at := origin + end
		m.Cancelled, m.CancelledTime = true, &at
	}
	r := aiperfRecord{Metadata: m, Metrics: map[string]aiperfValue{}, Error: aiperfFailure(t)}
	if r.Error != nil {
		return r
	}
	for _, metric := range aiperfMetrics {
		if v := known(metric.of(t)); v != nil {
			r.Metrics[metric.name] = aiperfValue{*v, metric.unit}
		}
	}
	if gaps := aiperfGaps(t); len(gaps) > 0 {
		r.Metrics["inter_chunk_latency"] = aiperfValue{gaps, "ms"}
	}
	return r
}

func aiperfGaps(t *analyze.Turn) []float64 {
	var gaps []float64
	for c := 1; c < len(t.ChunkNS); c++ {
		gaps = append(gaps, ms(float64(t.ChunkNS[c]-t.ChunkNS[c-1])))
	}
	return gaps
}

// aiperfFailure says how a turn failed; nil if it did not.
func aiperfFailure(t *analyze.Turn) *aiperfError {
	if t.Status == schemas.StatusOK {
		return nil
	}
	e := &aiperfError{Type: cmp.Or(t.Error, string(t.Status)), Message: cmp.Or(t.Message, failure(t))}
	if t.HTTPStatus != schemas.NullInt {
		e.Code = &t.HTTPStatus
	}
	return e
}

// aiperfAggregate gives the figures over all requests.
func (l *level) aiperfAggregate() map[string]any {
	out := map[string]any{
		"schema_version": aiperfSchema, "benchmark_id": l.run.RunID, "was_cancelled": l.run.Ended == "interrupted",
		"start_time": l.at(l.run.Window.From), "end_time": l.at(l.run.Window.To),
	}
	for _, metric := range aiperfMetrics {
		if s := l.collect(metric.of); len(s) > 0 {
			out[metric.name] = aiperfStats(s, metric.unit)
		}
	}
	var gaps sample
	for i := range l.turns {
		gaps = append(gaps, aiperfGaps(&l.turns[i])...)
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		out["inter_chunk_latency"] = aiperfStats(gaps, "ms")
	}
	one := func(name, unit string, v analyze.Num) {
		if x := known(float64(v)); x != nil {
			out[name] = map[string]any{"unit": unit, "avg": *x}
		}
	}
	t, c := &l.group.Throughput, &l.group.Counts
	one("request_throughput", "requests/sec", t.Requests)
	one("output_token_throughput", "tokens/sec", t.CompletionTokens)
	one("benchmark_duration", "sec", t.Seconds)
	one("request_count", "requests", analyze.Num(c.OK))
	one("error_request_count", "requests", analyze.Num(c.Failed))
	if g := l.group.Goodput; g != nil {
		one("goodput", "requests/sec", g.Requests)
		one("good_request_count", "requests", analyze.Num(g.Good))
	}
	out["error_summary"] = l.aiperfErrors()
	return out
}

// at gives the wall clock's time of a moment in seconds from the run's origin.
func (l *level) at(seconds analyze.Num) time.Time {
	return l.run.Origin.Add(time.Duration(float64(seconds) * 1e9)).UTC()
}

func aiperfStats(s sample, unit string) map[string]any {
	out := map[string]any{"unit": unit, "avg": s.mean(), "min": s[0], "max": s[len(s)-1], "std": s.std(0), "count": len(s), "sum": s.sum()}
	for _, p := range []float64{1, 5, 10, 25, 50, 75, 90, 95, 99} {
		out[llmdName(p)] = s.percentile(p)
	}
	return out
}

type aiperfErrorCount struct {
	Details aiperfError `json:"error_details"`
	Count   int64       `json:"count"`
}

// aiperfErrors counts the failures of each kind, with the text of the first.
func (l *level) aiperfErrors() []aiperfErrorCount {
	out := []aiperfErrorCount{}
	for i := range l.turns {
		e := aiperfFailure(&l.turns[i])
		if e == nil {
			continue
		}
		at := slices.IndexFunc(out, func(c aiperfErrorCount) bool { return c.Details.Type == e.Type })
		if at < 0 {
			at = len(out)
			out = append(out, aiperfErrorCount{Details: *e})
		}
		out[at].Count++
	}
	return out
}
