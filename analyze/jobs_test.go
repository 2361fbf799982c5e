package analyze

import (
	"fmt"
	"strings"
	"testing"

	"parley/schemas"
)

// treeRows are jobs of two turns with two sub-agents between them, of which the second turn waits for the
// slower: 100 ms of client, 1 s to the answer, 3 s of the slow sub-agent after a delay of 0.5 s, 2 s of a tool,
// and 1 s to the last token. One job begins each second.
func treeRows(jobs int) []schemas.Request {
	var rows []schemas.Request
	for i := range jobs {
		at := float64(1000 * i)
		root := fmt.Sprintf("job%d", i)
		turn := func(conversation string, index int64, scheduled, start, end float64) *schemas.Request {
			rows = append(rows, turnRow(conversation, index, at+scheduled, at+start, at+start, at+start, at+start+10, at+end, at+end))
			r := &rows[len(rows)-1]
			r.RootID = &root
			r.PromptTokens, r.CachedTokens, r.CompletionTokens, r.TokenSource = p(int64(100)), p(int64(60)), p(int64(20)), p(schemas.TokensFromUsage)
			return r
		}
		kid := func(name string, end float64) {
			r := turn(root+"/"+name, 0, 1600, 1600, end)
			r.ParentID, r.ParentTurn = &root, p(int64(0))
		}
		turn(root, 0, 0, 100, 1100)
		kid("fast", 2000)
		kid("slow", 4600)
		last := turn(root, 1, 6600, 6600, 7600)
		last.JoinedID, last.ToolTimeMS, last.WaitJoinMS = p(root+"/slow"), p(2000.0), p(3500.0)
	}
	return rows
}

func TestJobs(t *testing.T) {
	rows := treeRows(30)
	w, err := ParseWindow("all")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Window: w, GPUs: 2}
	res := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o)
	j := res.Jobs
	if j == nil || j.Planned != 30 || j.Ended != 30 || j.Broken != 0 || j.Left != 0 {
		t.Fatalf("%+v", j)
	}
	seconds := float64(29*1000+7600-100) / 1000 // the window begins with the first sending
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"time", float64(j.Time.Mean), 7600}, {"server", float64(j.Server), 1 + 3 + 1}, {"tool", float64(j.Tool), 0.5 + 2},
		{"client", float64(j.Client), 0.1}, {"person", float64(j.Person), 0}, {"steps", float64(j.Steps), 3}, {"turns", float64(j.Turns), 4},
		{"conversations", float64(j.Members), 3}, {"per hour", float64(j.PerHour), 30 / seconds * 3600}, {"per GPU", float64(j.PerGPUHour), 15 / seconds * 3600},
		{"per minute", float64(j.Pace), 4 / (7.6 / 60)},
		{"uncached", float64(j.Uncached), 30 * 4 * 40 / seconds}, {"cached", float64(j.Cached), 30 * 4 * 60 / seconds}, {"output", float64(j.Output), 30 * 4 * 20 / seconds},
	} {
		if !within(c.got, c.want, 1e-6) && c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}

	// A failed sub-agent breaks its job, and an answer without the server's counts leaves both sums unknown.
	rows[1].Status, rows[5].CachedTokens, rows[5].TokenSource = string(schemas.StatusHTTPError), nil, p(schemas.TokensFromChunks)
	j = analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o).Jobs
	if j.Ended != 29 || j.Broken != 1 || j.Uncached.Known() || j.Cached.Known() || !j.Output.Known() {
		t.Errorf("one broken job: %+v", j)
	}

	// Only jobs that end in the window count, over the window's time.
	if o.Window, err = ParseWindow("10s:20s"); err != nil {
		t.Fatal(err)
	}
	j = analyzeOne(t, runOfRows(t, treeRows(30), &schemas.RunMeta{}, o), o).Jobs
	if j.Ended != 10 || j.Left != 20 || !within(float64(j.PerHour), 3600, 1e-9) || !within(float64(j.UnderWay), 7.6, 0.02) {
		t.Errorf("in a window of ten seconds: %+v", j)
	}
}

// TestNoJobs asks that runs without trees and tools have none, and that no figure is made of nothing.
func TestNoJobs(t *testing.T) {
	rows := treeRows(5)
	for i := range rows {
		r := &rows[i]
		r.ParentID, r.ParentTurn, r.JoinedID, r.ToolTimeMS, r.RootID = nil, nil, nil, nil, nil
	}
	o := Options{}
	if j := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o).Jobs; j != nil {
		t.Errorf("%+v", j)
	}
	rows = treeRows(1)
	rows[0].Status = string(schemas.StatusHTTPError)
	j := analyzeOne(t, runOfRows(t, rows, &schemas.RunMeta{}, o), o).Jobs
	if j.Ended != 0 || j.Server.Known() || j.Pace.Known() || j.Time.Mean.Known() {
		t.Errorf("no job that ended well: %+v", j)
	}
	if text := fmt.Sprintf("%+v", j); strings.Contains(text, "+Inf") {
		t.Error(text)
	}
}
