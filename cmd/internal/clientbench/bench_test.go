package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

func ptr[T any](v T) *T { return &v }

// fixture writes a result file and a truth log in which the client is late by known amounts.
func fixture(t *testing.T, n int, tokenLate, gapLate time.Duration) (rows, log string) {
	t.Helper()
	dir := t.TempDir()
	rows, log = filepath.Join(dir, "run.parquet"), filepath.Join(dir, "truth.jsonl")
	w, err := schemas.Create[schemas.Request](rows, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	const base = int64(1_800_000_000_000_000_000) // the server's clock; the client's starts at 0
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		start := int64(i) * 10e6
		true5 := []int64{start + 500e6, start + 550e6, start + 600e6}
		tr := simserver.Truth{ResponseID: id, Chunks: 3, ReceivedNS: base + start, FirstNS: base + true5[0], LastNS: base + true5[2]}
		row := schemas.Request{RequestID: id, ResponseID: &id, Status: string(schemas.StatusOK), ScheduledNS: ptr(start - 2e6), StartNS: ptr(start - 1e6), SentNS: ptr(start)}
		for k, ns := range true5 {
			tr.ChunkNS = append(tr.ChunkNS, base+ns)
			late := int64(tokenLate)
			if k == 2 {
				late += int64(gapLate)
			}
			row.ChunkNS = append(row.ChunkNS, ns+late)
		}
		row.FirstTokenNS, row.LastTokenNS = &row.ChunkNS[0], &row.ChunkNS[2]
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "%s\n", line)
	}
	fmt.Fprintln(f, `{"response_id":"probe","chunks":1}`)
	if err := w.Close(schemas.RunMeta{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return rows, log
}

func TestMatch(t *testing.T) {
	rows, log := fixture(t, 101, 300*time.Microsecond, 700*time.Microsecond)
	truth, err := readTruth(log)
	if err != nil {
		t.Fatal(err)
	}
	r := &result{load: load{over: plain, streams: 1000, requests: 101, ramp: time.Second, itl: 50 * time.Millisecond}}
	if err := r.match(rows, truth); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("rows", float64(r.rows), 101)
	near("matched", float64(r.matched), 101)
	near("chunks", float64(r.chunks), 303)
	near("true TTFT", quantile(r.trueTTFT, .5), 500)
	near("TTFT error", quantile(r.ttftError, .99), 0.3)
	near("gap error p99", quantile(r.gapError, .99), 0.7)
	near("gap error p25", quantile(r.gapError, .25), 0)
	near("send lag", quantile(r.sendLag, .5), 2)
	near("connection wait", quantile(r.connWait, .5), 1)
	near("rate", r.sentRate, 100)
	near("held (ms)", float64(r.held)/1e6, 1600)
	if p := checkLimits([]*result{r}); len(p) != 0 {
		t.Errorf("limits: %v", p)
	}
	var out strings.Builder
	printTable(&out, []*result{r})
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || strings.Count(lines[0], "|") != strings.Count(lines[2], "|") || !strings.Contains(lines[2], "| 0.300 |") {
		t.Errorf("table:\n%s", out.String())
	}
}

func TestLimitsFail(t *testing.T) {
	rows, log := fixture(t, 50, 9*time.Millisecond, 9*time.Millisecond)
	truth, err := readTruth(log)
	if err != nil {
		t.Fatal(err)
	}
	r := &result{load: load{over: plain, streams: 1000, requests: 60, ramp: time.Second, itl: 50 * time.Millisecond}, clientCPU: 20, wrkCPU: 10}
	r.serverStats.MaxInFlight = 1001
	if err := r.match(rows, truth); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(checkLimits([]*result{r}), "\n")
	for _, want := range []string{"50 rows of 60", "median TTFT error", "p99 TTFT error", "p99 gap error", "1001 in flight", "over wrk's is 2.00"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not among the problems:\n%s", want, all)
		}
	}
	r = &result{load: load{streams: 50, requests: 50, rate: 500, arrivals: "constant"}}
	if err := r.match(rows, truth); err != nil {
		t.Fatal(err)
	}
	all = strings.Join(checkLimits([]*result{r}), "\n")
	if !strings.Contains(all, "p99 send lag (ms) is 2.00, limit 1.00") || !strings.Contains(all, "against what was asked") {
		t.Errorf("open loop: %s", all)
	}
	slow := &result{load: load{over: overTLS, streams: 1000, requests: 50, ramp: time.Second, itl: 50 * time.Millisecond}, clientCPU: 14}
	if err := slow.match(rows, truth); err != nil {
		t.Fatal(err)
	}
	all = strings.Join(checkLimits([]*result{{load: load{over: plain, streams: 1000, requests: 0}, clientCPU: 10}, slow}), "\n")
	if !strings.Contains(all, "over TLS (ms) is 9.00, limit 0.100") || !strings.Contains(all, "over that without TLS is 1.40, limit 1.30") {
		t.Errorf("TLS: %s", all)
	}
	delete(truth, "r1")
	if truth["r2"].ChunkNS = truth["r2"].ChunkNS[1:]; r.match(rows, truth) == nil {
		t.Error("a chunk that the client made up went unnoticed")
	}
	if err := new(result).match(rows, nil); err == nil {
		t.Error("a log without one of the requests went unnoticed")
	}
}

func TestCPUBetween(t *testing.T) {
	s := []sample{{at: 0, cpu: 0}, {at: 100, cpu: 50}, {at: 200, cpu: 250}}
	for _, c := range []struct{ from, to, want int64 }{{0, 200, 250}, {50, 150, 125}, {100, 900, 200}, {-5, 0, 0}} {
		if got := cpuBetween(s, c.from, c.to); int64(got) != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.from, c.to, got, c.want)
		}
	}
	me, err := readSample(os.Getpid())
	if err != nil || me.rss < 1<<20 {
		t.Errorf("own sample: %+v, %v", me, err)
	}
}

func TestLoads(t *testing.T) {
	o, err := parse([]string{"-streams", "1,2000,10000", "-hold", "2m"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ls := o.loads()
	if len(ls) != 3 || ls[0].requests != 3 || ls[1].itl != 50*time.Millisecond || ls[1].tokens < 2400 || ls[2].itl != time.Second || ls[2].tokens != 121 || ls[2].ramp != 2*time.Second {
		t.Errorf("%+v", ls)
	}
	o, err = parse([]string{"-streams", "1000", "-over", "plain,tls,net-http,http2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if ls := o.loads(); len(ls) != 4 || ls[1].over != overTLS || !ls[1].noWrk || !strings.Contains(ls[1].query("l", "c.pem"), "tls_cert=c.pem") || strings.Contains(ls[0].query("l", "c.pem"), "tls") || !strings.Contains(ls[3].query("l", "c.pem"), "http2") {
		t.Errorf("%+v", ls)
	}
	o, err = parse([]string{"-open-loop", "500", "-duration", "10s"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if ls := o.loads(); len(ls) != 2 || ls[0].requests != 5000 || ls[1].arrivals != "poisson" {
		t.Errorf("%+v", ls)
	}
	for _, bad := range [][]string{{"-streams", "0"}, {"-streams", "x"}, {"-over", "air"}, {"more"}, {"-nope"}} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if _, err := simserver.ParseQuery(ls[1].query("/tmp/x.jsonl", "/tmp/x.pem")); err != nil {
		t.Error(err)
	}
}

func TestDataset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.parquet")
	if err := writeDataset(path, load{requests: 30, tokens: 7}); err != nil {
		t.Fatal(err)
	}
	d, err := schemas.OpenDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var ids []string
	for c, err := range d.Conversations(0) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ConversationID)
		if len(c.Turns) != 1 || *c.Turns[0].OutputTokens != 7 || len(strings.Fields(*c.Messages[0].Content)) != 50 {
			t.Errorf("%+v", c)
		}
	}
	if len(slices.Compact(ids)) != 30 {
		t.Errorf("%d different conversations of 30", len(ids))
	}
}
