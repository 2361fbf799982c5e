package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"parley/schemas"
)

// writeRun writes the result and telemetry files of a made-up run of the given number of turns, with a chunk
// time for each token, as a replay would.
func writeRun(path string, rows int, slow float64, concurrency int64) (err error) {
	turns := load(11, rows/9+1, slow)
	if len(turns) < rows {
		return fmt.Errorf("%d turns, %d asked for", len(turns), rows)
	}
	turns = turns[:rows]
	w, err := schemas.Create[schemas.Request](path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	rng := rand.New(rand.NewPCG(3, 1))
	counts := map[schemas.Status]int64{}
	var ended int64
	for i, t := range turns {
		row := request(i, t, rng)
		counts[t.status]++
		ended = max(ended, *row.DoneNS)
		if err := w.Write(row); err != nil {
			return err
		}
	}
	name, err := writeTelemetry(path, float64(ended)/1e9)
	if err != nil {
		return err
	}
	meta := &schemas.RunMeta{
		RunID: "made-up", Label: "made-up", ToolVersion: "0.1.0", Seed: 7, Shards: 1,
		Config:  []byte(`{"arrivals":{"kind":"closed","concurrency":32},"think":"recorded"}`),
		Dataset: schemas.DatasetRef{File: "chat.parquet", ContentHash: "2c26b46b68ffc68ff99b453c1d304134", Conversations: int64(rows/9 + 1), Turns: int64(rows), Tokenizer: "o200k_base"},
		Targets: []schemas.Target{{URL: "http://10.0.0.12:8000", API: "chat", Model: "Llama-3.1-8B-Instruct", Server: "vllm"}},
		Origin:  time.Date(2026, 11, 30, 9, 41, 7, 0, time.UTC),
		Clock:   schemas.ClockInfo{Source: "kernel"},
		Host:    schemas.Host{OS: "linux", Arch: "amd64", CPUs: 8, GOMAXPROCS: 8},
		EndedNS: ended, Ended: "complete", Planned: int64(rows), Rows: int64(rows), Counts: counts,
		Concurrency: &concurrency, Telemetry: name,
	}
	return w.Close(meta)
}

// writeTelemetry writes what the client and the server would have said each second, and gives the file's name.
func writeTelemetry(path string, seconds float64) (name string, err error) {
	path = schemas.TelemetryPath(path)
	w, err := schemas.Create[schemas.Sample](path, true)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	rng := rand.New(rand.NewPCG(4, 1))
	cpu, hits := 0.0, 0.0
	for t := range int(seconds) {
		cpu += 0.2 + 0.1*rng.Float64()
		hits += float64(rng.IntN(9000))
		for _, s := range []schemas.Sample{
			{Source: "client", Name: "cpu_seconds_total", Value: cpu},
			{Source: "client", Name: "sched_latency_p99_ms", Value: 0.1 + 0.05*rng.ExpFloat64()},
			{Source: "http://10.0.0.12:8000/metrics", Name: "running", Value: float64(rng.IntN(32))},
			{Source: "http://10.0.0.12:8000/metrics", Name: "kv_usage", Value: 0.5 + 0.4*rng.Float64()},
			{Source: "http://10.0.0.12:8000/metrics", Name: "prefix_cache_hits", Value: hits},
		} {
			s.TimeNS = int64(t) * 1e9
			if err := w.Write(s); err != nil {
				return "", err
			}
		}
	}
	if err := w.Close(struct{}{}); err != nil {
		return "", err
	}
	return filepath.Base(path), nil
}

func request(i int, t turn, rng *rand.Rand) schemas.Request {
	ns := func(s float64) *int64 { v := int64(math.Round(s * 1e9)); return &v }
	num := func(v float64) *int64 { n := int64(v); return &n }
	text := func(s string) *string { return &s }
	yes := true
	lag := 0.00002 + 0.0001*rng.ExpFloat64()
	row := schemas.Request{
		RunID: "made-up", RequestID: fmt.Sprintf("r%07d", i), ConversationID: fmt.Sprintf("chat-%06d", t.conversation), Turn: int64(t.turn),
		Phase: schemas.PhaseMain, URL: "http://10.0.0.12:8000", API: "chat", Model: "Llama-3.1-8B-Instruct",
		Status: string(t.status), SawDone: t.status == schemas.StatusOK, Streamed: &yes, Attempts: 1, MessagesSent: int64(2*t.turn + 1),
		ScheduledNS: ns(t.sent - lag), ReadyNS: ns(t.sent - lag), StartNS: ns(t.sent - lag/2), SentNS: ns(t.sent), WroteNS: ns(t.sent + 0.00004),
		DoneNS: ns(t.end + 0.0001), ConnReused: &yes, BytesSent: int64(t.prompt * 5), OutputTokensAsked: num(t.output),
		ExpectedPromptTokens: num(t.prompt), ExpectedCachedTokens: num(t.cached * 1.02),
	}
	if t.status == schemas.StatusHTTPError {
		row.HTTPStatus, row.ErrorKind, row.ErrorMessage = num(503), text("overloaded"), text("no slot is free")
	}
	if t.status != schemas.StatusOK {
		return row
	}
	row.HTTPStatus, row.FinishReason, row.TokenSource = num(200), text("length"), text(schemas.TokensFromUsage)
	row.PromptTokens, row.CachedTokens, row.CompletionTokens = num(t.prompt), num(t.cached), num(t.output)
	row.FirstByteNS, row.FirstEventNS, row.FirstTokenNS, row.FirstAnswerNS = ns(t.first), ns(t.first), ns(t.first), ns(t.first)
	at := t.first
	for k := range int(t.output) {
		if k > 0 {
			at += (t.end - t.first) / (t.output - 1) * (0.7 + 0.6*rng.Float64())
		}
		row.ChunkNS = append(row.ChunkNS, *ns(at))
		row.ChunkTokens = append(row.ChunkTokens, 1)
	}
	row.LastTokenNS = ns(at)
	row.DoneNS = ns(at + 0.0001)
	row.Derive()
	return row
}
