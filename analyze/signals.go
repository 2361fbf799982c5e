package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"parley/analyze/stat"
	"parley/analyze/verdict"
	"parley/schemas"
)

// The signals of a verdict: what the rows of a run and its metadata say against its figures. What a signal
// means, and from where on it counts, stands in package verdict.

// signals collects the signals of one run.
type signals struct{ list []verdict.Signal }

// signal adds a value; text, if not empty, says more than the number.
func (j *signals) signal(name string, value float64, text string) {
	j.list = append(j.list, verdict.Signal{Name: name, Value: value, Text: text})
}

// judgeRun judges a run by its rows and by what its metadata says of the client.
func judgeRun(a *analysis, res *RunResult) schemas.Verdict {
	j := &signals{}
	meta := &a.run.meta
	j.bookkeeping(a, res)
	g := &res.Total
	j.signal("sample", float64(g.Counts.OK), fmt.Sprintf("%d turns completed in the window", g.Counts.OK))
	j.lateness(a)
	j.concurrency(a)
	if g.Counts.Retried > 0 {
		again := float64(g.Counts.Retried) / float64(g.Counts.Sent)
		j.signal("retried", again, fmt.Sprintf("%d of %d turns were sent again after a refusal, %s", g.Counts.Retried, g.Counts.Sent, verdict.Show(again, "share")))
	}
	if text := a.allFailed(); text != "" {
		j.signal("error_rate", 1, text)
	} else if g.Counts.ErrorRate.Known() {
		j.signal("error_rate", float64(g.Counts.ErrorRate), fmt.Sprintf("%d of %d turns failed, %s", g.Counts.Failed, g.Counts.Sent, verdict.Show(float64(g.Counts.ErrorRate), "share")))
	}
	if h := meta.Health; h != nil {
		j.signal("client_cpu", h.CPUShare, "")
		if h.MachineIdleMin >= 0 {
			j.signal("machine_idle", h.MachineIdleMin, "")
		}
		j.signal("sched_latency_p99", h.SchedLatencyP99, "")
		j.signal("gc_pause_p99", h.GCPauseP99, "")
		j.signal("backlog", float64(h.BacklogStalls), "")
	}
	if g.Tokens.Asked > 0 {
		off := math.Abs(float64(g.Tokens.AskedGot)/float64(g.Tokens.Asked) - 1)
		advice := j.lengthAdvice(meta, g.Tokens.AskedGot > g.Tokens.Asked)
		j.list = append(j.list, verdict.Signal{Name: "output_length", Value: off, Advice: advice, Text: fmt.Sprintf("answers had %d tokens where %d were asked for, %s off", g.Tokens.AskedGot, g.Tokens.Asked, verdict.Show(off, "share"))})
	}
	if g.Counts.OK > 0 {
		told := g.Tokens.Sources[schemas.TokensFromUsage] + g.Tokens.Sources[schemas.TokensFromContinuous]
		missing := float64(g.Counts.OK-told) / float64(g.Counts.OK)
		j.signal("usage_missing", missing, "")
	}
	j.contradictions(a)
	j.promptsCut(a)
	j.reuseAbove(g)
	if c := a.chunks; c.pieces > 0 {
		j.signal("bursts", float64(c.bursts)/float64(c.pieces), fmt.Sprintf("most gaps are zero: %d of %d answers came in one piece or in bursts", c.bursts, c.pieces))
	}
	j.warmCache(res)
	if a.o.Window.Kind == WindowSteady {
		if d := a.w.drift; d.what != "" {
			j.signal("steady", d.change, d.text)
		} else if !res.Window.Steady {
			j.signal("no_steady_window", 1, res.Window.How)
		}
	}
	j.clock(a)
	if c := meta.Calibration; c != nil {
		if p50 := medianOf(g, "ttft"); p50 > 0 {
			j.signal("calibration", c.TTFTErrP99/p50, "")
		}
	}
	return verdict.Judge(j.list)
}

// allFailed says, of a run that never came to its main phase, that all turns that it sent failed; else nothing.
func (a *analysis) allFailed() string {
	rows := make([]int32, 0, a.f.rows)
	for row := range a.f.rows {
		if schemas.Statuses[a.f.status[row]].Sent() {
			if a.f.main[row] {
				return ""
			}
			rows = append(rows, int32(row))
		}
	}
	c := countsOf(a.f)(rows, &a.w)
	if c.Sent == 0 || c.Failed < c.Sent {
		return ""
	}
	var kinds []string
	for _, kind := range slices.SortedFunc(maps.Keys(c.ErrorKinds), func(x, y string) int {
		return cmp.Or(cmp.Compare(c.ErrorKinds[y], c.ErrorKinds[x]), cmp.Compare(x, y))
	}) {
		kinds = append(kinds, fmt.Sprintf("%s: %d", kind, c.ErrorKinds[kind]))
	}
	text := fmt.Sprintf("all %d turns that were sent failed (all in the warm-up)", c.Sent)
	if len(kinds) > 0 {
		text += ", " + strings.Join(kinds, ", ")
	}
	return text
}

func medianOf(g *Group, figure string) float64 {
	if f := g.Figure(figure); f != nil {
		if p := f.Percentile(50); p != nil {
			return float64(p.Value)
		}
	}
	return math.NaN()
}

// bookkeeping checks that every planned turn is a row, and how the run ended.
func (j *signals) bookkeeping(a *analysis, res *RunResult) {
	meta := &a.run.meta
	switch {
	case res.Unfinished:
		j.signal("ended", 1, "the run did not finish: these are the rows that were safe when it stopped")
	case meta.Ended == "error" || meta.Ended == "watchdog":
		detail, _, more := strings.Cut(meta.EndedDetail, "\n") // a watchdog's dump, or a stack
		if more {
			detail += " (ended_detail in its metadata has the rest)"
		}
		j.signal("ended", 2, fmt.Sprintf("the run ended by %s: %s", meta.Ended, strings.TrimPrefix(detail, "watchdog: ")))
	case meta.Ended == "max_errors":
		j.signal("ended", 1, "the run gave the server up, because too many turns failed (--max-errors)")
	case meta.Ended == "interrupted" || meta.Ended == "deadline":
		j.signal("ended", 1, fmt.Sprintf("the run was cut short: %s", meta.Ended))
	}
	if !res.Unfinished && meta.Planned > 0 {
		off := math.Abs(float64(meta.Planned - int64(a.f.rows)))
		j.signal("reconciled", off, fmt.Sprintf("%d turns were planned, and there are %d rows", meta.Planned, a.f.rows))
	}
	var shed, planned float64
	for row := range a.f.rows {
		planned++
		if schemas.Statuses[a.f.status[row]] == schemas.StatusShed {
			shed++
		}
	}
	kinds := a.f.strs("error_kind")
	var lost, due float64 // due: all but what the end of the run took
	for row := range a.f.rows {
		because := ""
		if schemas.Statuses[a.f.status[row]] == schemas.StatusNotReached && kinds.Codes[row] >= 0 {
			because = kinds.Values[kinds.Codes[row]]
		}
		switch because {
		case "conversation_failed", "joined_failed", "parent_not_reached":
			lost++
			due++
		case "":
			due++
		}
	}
	if lost > 0 {
		j.signal("lost", lost/due, fmt.Sprintf("%.0f of %.0f turns were not sent, because a turn before them failed, %s", lost, due, verdict.Show(lost/due, "share")))
	}
	if planned > 0 {
		j.signal("shed", shed/planned, fmt.Sprintf("%.0f of %.0f planned turns were shed", shed, planned))
	}
}

// lateness judges what the client itself added before the first attempt. What a server's refusals and the
// waits before further attempts cost is not the client's, nor is it a wait for a connection.
func (j *signals) lateness(a *analysis) {
	late := lagScheduler(a.f, a.o)
	connect := between("start_ns", "sent_ns")(a.f, a.o)
	attempts, stale := a.f.ints("attempts"), a.f.ints("stale_replays")
	first := a.run.tellsAttempts()
	lags, waits := make([]float64, 0, a.f.rows), make([]float64, 0, a.f.rows)
	over := 0.0
	limit := verdict.LimitOf("send_lag_p99").Suspect
	for row := range a.f.rows {
		if !a.f.main[row] || !a.w.holds(a.f, row) {
			continue
		}
		if v := late(row); v == v && (first || attempts[row] <= 1) {
			lags = append(lags, v)
			if v > limit {
				over++
			}
		}
		if v := connect(row); v == v && attempts[row]-stale[row] <= 1 {
			waits = append(waits, v)
		}
	}
	if len(lags) > 0 {
		scratch := make([]float64, len(lags))
		j.signal("send_lag_p99", stat.Quantile(stat.Sort(lags, scratch), 0.99), "")
		j.signal("send_lag_share", over/float64(len(lags)), "")
	}
	if len(waits) > 0 {
		j.signal("connection_wait_p99", stat.Quantile(stat.Sort(waits, nil), 0.99), "")
	}
	j.arrivals(a)
}

// tellsAttempts says whether start_ns is that of the first attempt. In files of version 1.0 it is the last one's,
// and of a turn that was sent again it says nothing of the client.
func (r *run) tellsAttempts() bool {
	return !slices.ContainsFunc(r.parts, func(p *part) bool {
		if p.file == nil || p.file.Parquet() == nil {
			return false
		}
		_, ok := p.file.Parquet().Schema().Lookup("attempt_ns", "list", "element")
		return !ok
	})
}

// concurrency finds a load that the dataset had too few conversations for.
func (j *signals) concurrency(a *analysis) {
	if a.run.meta.Concurrency == nil {
		return
	}
	asked, there := *a.run.meta.Concurrency, int64(a.f.convs)+a.run.meta.NotAdmitted
	if there < asked {
		missing := 1 - float64(there)/float64(asked)
		j.signal("concurrency", missing, fmt.Sprintf("%d conversations at once were asked for, and the run had only %d in all, %s fewer", asked, there, verdict.Show(missing, "share")))
	}
}

// contradictions finds counts of one answer that cannot both be true.
func (j *signals) contradictions(a *analysis) {
	prompt, cached := a.f.ints("prompt_tokens"), a.f.ints("cached_tokens")
	var above, of, sent int64
	for row := range a.f.rows {
		if a.f.moment[row] != schemas.NullInt {
			sent++
		}
		if a.in[row] && prompt[row] != schemas.NullInt && cached[row] != schemas.NullInt {
			of++
			if cached[row] > prompt[row] {
				above++
			}
		}
	}
	untrue := 0
	for _, row := range a.f.untrue {
		if a.f.moment[row] != schemas.NullInt {
			untrue++
		}
	}
	if untrue > 0 {
		j.signal("untrue_tokens", float64(untrue)/float64(sent), fmt.Sprintf("%d of %d answers tell a number of tokens that cannot be true: more than bytes came, more than any model holds, or below 0", untrue, sent))
	}
	if above > 0 {
		j.signal("cached_above_prompt", float64(above)/float64(of), fmt.Sprintf("%d of %d answers tell more cached tokens than prompt tokens", above, of))
	}
}

// arrivals compares the rate at which conversations started with the rate of their schedule. Both come
// from the rows, so that chance in the arrivals is in neither.
func (j *signals) arrivals(a *analysis) {
	if a.run.meta.OfferedRate == nil {
		return
	}
	scheduled, start := a.f.ints("scheduled_ns"), a.f.ints("start_ns")
	var n int64
	planFrom, planTo := int64(math.MaxInt64), int64(math.MinInt64)
	from, to := planFrom, planTo
	for row := range a.f.rows {
		if a.f.turn[row] != 0 || scheduled[row] == schemas.NullInt || start[row] == schemas.NullInt {
			continue
		}
		n++
		planFrom, planTo = min(planFrom, scheduled[row]), max(planTo, scheduled[row])
		from, to = min(from, start[row]), max(to, start[row])
	}
	if n < 10 || planTo <= planFrom || to <= from {
		return
	}
	planned := float64(n-1) / (float64(planTo-planFrom) / 1e9)
	achieved := float64(n-1) / (float64(to-from) / 1e9)
	off := math.Abs(achieved/planned - 1)
	j.signal("arrival_rate", off, fmt.Sprintf("%.4g conversations per second started, the schedule had %.4g (asked for: %.4g), %s off", achieved, planned, *a.run.meta.OfferedRate, verdict.Show(off, "share")))
}

// warmCache finds a cache that knew the first turns before the run.
func (j *signals) warmCache(res *RunResult) {
	for _, c := range res.CacheTurns {
		if c.Turn != 0 || !c.Reuse.Known() || c.Rows == 0 {
			continue
		}
		above := float64(c.Reuse)
		if c.Ceiling.Known() {
			above -= float64(c.Ceiling)
			j.signal("warm_cache", above, fmt.Sprintf("first turns had %s of their prompt in the cache, where an empty cache could have given %s", verdict.Show(float64(c.Reuse), "share"), verdict.Show(float64(c.Ceiling), "share")))
		} else {
			j.signal("warm_cache", above, fmt.Sprintf("first turns had %s of their prompt in the cache", verdict.Show(above, "share")))
		}
	}
}

// clock judges the stamps.
func (j *signals) clock(a *analysis) {
	var kernel, user, stepNS int64
	fallback := ""
	for _, p := range a.run.parts {
		c := p.meta.Clock
		kernel += c.KernelReads
		user += c.UserReads
		stepNS = max(stepNS, c.LargestStepNS, -c.LargestStepNS)
		if c.Fallback != "" {
			fallback = c.Fallback
		}
	}
	if kernel+user > 0 {
		share := float64(user) / float64(kernel+user)
		text := fmt.Sprintf("%s of the reads were stamped by the process and not by the kernel", verdict.Show(share, "share"))
		if fallback != "" {
			text += ": " + fallback
		}
		j.signal("clock_fallback", share, text)
	}
	if kernel > 0 {
		j.signal("clock_step", float64(stepNS)/1e6, "")
	}
}
