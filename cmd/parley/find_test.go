//go:build linux && !race

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"parley/analyze/capacity"
	"parley/schemas"
)

// TestFind searches over real sockets, five servers at once whose slots are their capacity: a conversation more than
// there are slots waits for half a turn or so, and one or two of them are the limit of a p80 of that. No answer may be
// wrong; a machine that is too busy for one leaves it unresolved.
func TestFind(t *testing.T) {
	data := dataset(t, 200, 4, 20)
	resolved := 0
	type search struct {
		p     *process
		dir   string
		slots int
	}
	var searches []search
	for slots := 2; slots <= 6; slots++ {
		server := self(t).simulator(t, fmt.Sprintf("base=20ms&prefill=0&itl=10ms&jitter=0&slots=%d", slots))
		defer func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		}()
		dir := filepath.Join(t.TempDir(), "capacity")
		p := launch(t, self(t).command("replay", data, "--url", server.URL, "-o", dir, "--find", "concurrency", "--objective", "ttft.p80<100ms",
			"--think", "none", "--duration", "3s", "--no-probe"))
		searches = append(searches, search{p, dir, slots})
	}
	for _, s := range searches {
		code := s.p.code(t, 2*patience)
		plan, err := schemas.ReadPlan(s.dir)
		if err != nil {
			t.Fatalf("%v\n%s", err, s.p.errs.String())
		}
		var a capacity.Answer
		if err := json.Unmarshal(plan.Search.Answer, &a); err != nil {
			t.Fatalf("exit code %d: %v\n%s", code, err, s.p.errs.String())
		}
		t.Logf("%d slots: exit code %d, %d runs, %.4g (%.4g to %.4g) %s", s.slots, code, a.Runs, a.Capacity, a.Low, a.High, a.Missing)
		if (code == codeOK) != a.Resolved || code != codeOK && code != codeUndecided {
			t.Errorf("exit code %d of %+v", code, a)
		}
		if !a.Resolved {
			continue
		}
		resolved++
		// Waits begin with the first conversation too many; how long a p80 stays under 80 ms goes by the slots.
		if a.High < float64(s.slots) || a.Low > float64(2*s.slots) {
			t.Errorf("%d slots: %.4g to %.4g", s.slots, a.Low, a.High)
		}
	}
	if resolved < 3 {
		t.Errorf("%d of 5 searches are resolved", resolved)
	}
}
