package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/schemas"
)

// madeRuns is the script command `runs FOLDER N TTFT FAILED`: it writes N repeats with a median TTFT in
// milliseconds, of whose turns a share failed. Their times are made up, so that what
// is concluded from them is the same on every machine.
func madeRuns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: runs FOLDER N TTFT FAILED")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ttft, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	failed, err := strconv.ParseFloat(args[3], 64)
	ts.Check(err)
	for i := range n {
		ts.Check(madeRun(ts.MkAbs(filepath.Join(args[0], fmt.Sprintf("%d.parquet", i))), args[0], i, ttft, failed))
	}
}

func madeRun(path, label string, repeat int, ttft, failed float64) error {
	data := rand.New(rand.NewPCG(1, 1)) // of the dataset: the same in all runs
	own := rand.New(rand.NewPCG(uint64(repeat), uint64(ttft)))
	mood := math.Exp(0.005 * own.NormFloat64())
	meta := &schemas.RunMeta{
		RunID: fmt.Sprint(label, repeat), Label: label, ToolVersion: "test", Seed: uint64(repeat), Place: schemas.Place{Repeat: repeat}, Shards: 1, Ended: "complete",
		Dataset: schemas.DatasetRef{File: "d.parquet", ContentHash: "sha256:d"}, Origin: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Targets: []schemas.Target{{URL: "http://server:8000", API: "chat", Model: "m"}}, Clock: schemas.ClockInfo{Source: "kernel", KernelReads: 1},
		Config: fmt.Appendf(nil, `{"concurrency":16,"max_batch":%g}`, ttft),
	}
	var rows []schemas.Request
	slots := make([]int64, 16)
	for c := range 160 {
		at := &slots[c%len(slots)]
		for turn := range 5 {
			due := *at
			first := due + int64(1e6*ttft*mood*math.Exp(0.3*data.NormFloat64()+0.05*own.NormFloat64()))
			last := first + 20e6
			r := schemas.Request{
				RunID: meta.RunID, RequestID: fmt.Sprint(c, "-", turn), ConversationID: fmt.Sprint("c", c), Turn: int64(turn), Phase: schemas.PhaseMain,
				URL: meta.Targets[0].URL, API: "chat", Model: "m", Attempts: 1, Status: string(schemas.StatusOK),
				ScheduledNS: ptr(due), ReadyNS: ptr(due), StartNS: ptr(due), SentNS: ptr(due), FirstTokenNS: ptr(first), LastTokenNS: ptr(last), DoneNS: ptr(last),
				ChunkNS: []int64{first, first + 10e6, last}, CompletionTokens: ptr(int64(3)), PromptTokens: ptr(int64(100)), TokenSource: ptr(schemas.TokensFromUsage),
			}
			if own.Float64() < failed {
				r.Status, r.ChunkNS, r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens = string(schemas.StatusHTTPError), nil, nil, nil, nil
			}
			r.Derive()
			rows = append(rows, r)
			*at = last
		}
	}
	w, err := schemas.Create[schemas.Request](path, true)
	if err != nil {
		return err
	}
	if err := w.Write(rows...); err != nil {
		return err
	}
	meta.Planned, meta.Rows = w.Rows(), w.Rows()
	return w.Close(meta)
}

func ptr[T any](v T) *T { return &v }
