package analyze

import (
	"fmt"
	"math"
	"strconv"

	"parley/analyze/stat"
	"parley/schemas"
)

// Limit is where a signal of the verdict makes a run suspect, and where invalid. Every threshold of the
// verdict stands in Limits and nowhere else.
type Limit struct {
	Signal  string
	Unit    string
	Suspect float64 // at and above this (below it, for signals that are good when high) the run is suspect
	Invalid float64 // the same for invalid; NaN is never
	Low     bool    // low values are bad
	Meaning string
	Advice  string
}

var never = math.NaN()

// Limits is the table of the verdict's thresholds. The error rate's upper one is what InferenceX fails a
// run for; the rest are ours: suspect is where the client's part could be seen in a median, invalid where
// it could be mistaken for the server's.
var Limits = []Limit{
	{"reconciled", "turns", 1, 1, false, "turns planned that are not rows, or the other way round", "report this: every planned turn must be a row"},
	{"ended", "", 1, 2, false, "how the run ended: 1 interrupted or at its deadline, 2 by an error, the watchdog or a kill", "run it again to its end, or choose a window that the run completed"},
	{"sample", "turns", 64, 11, true, "completed turns in the window", "replay more conversations (64 turns carry a p90, 662 a p99)"},
	{"send_lag_p99", "ms", 5, 50, false, "99th percentile of the client's own lateness: start - max(scheduled, ready)", "the client could not keep up: lower the rate, shard the run over more machines, or give the client cores of its own"},
	{"send_lag_share", "share", 0.02, 0.2, false, "share of turns that the client sent more than 5 ms late", "the client could not keep up: lower the rate, shard the run over more machines, or give the client cores of its own"},
	{"connection_wait_p99", "ms", 50, 1000, false, "99th percentile of the wait for a connection, which TTFT from sent leaves out", "connections are slow or refused: look at the server's accept queue, at proxies and at limits of open files; read TTFT from start"},
	{"arrival_rate", "share", 0.01, 0.05, false, "how far the conversations started per second fell from the schedule's", "the arrivals did not happen as planned: raise --max-conversations, lower the rate, or shard the run"},
	{"shed", "share", 0.0005, 0.05, false, "share of planned turns that were shed because the limit of conversations was full", "the server did not keep up with the rate: lower it, or read the figures as those of an overloaded server"},
	{"error_rate", "share", 0.01, 0.05, false, "failed turns among those that ended in the window", "look at the error kinds: latencies of the turns that completed say little of a server that refuses the rest"},
	{"client_cpu", "share", 0.8, 0.95, false, "share of all cores that the client used, mean over the run", "the client is saturated: give it more cores, or shard the run"},
	{"machine_idle", "share", 0.02, never, true, "lowest share of the client machine's cores left idle in a second", "something used all of the client's machine: give it cores of its own"},
	{"sched_latency_p99", "ms", 5, 50, false, "99th percentile of the Go scheduler's latency", "the client is short of processor time: give it cores of its own, or shard the run"},
	{"gc_pause_p99", "ms", 5, 50, false, "99th percentile of the garbage collector's pauses", "the client is short of memory or processor time: give it more, or shard the run"},
	{"backlog", "stalls", 1, never, false, "times the run held back turns because results could not be written", "the disk is too slow: write the output to a faster one"},
	{"output_length", "share", 0.1, 0.5, false, "how far the answers' tokens are from what was asked for", "set --ignore-eos or --min-tokens if the server knows them, or ask with --output-tokens for what the model gives"},
	{"usage_missing", "share", 0.01, never, false, "completed turns without a token count by the server", "token figures rest on estimates: let the server send usage, or give the tokenizer"},
	{"warm_cache", "share", 0.1, 0.5, false, "first turns' cache hits above what an empty cache could give", "the cache was warm from an earlier run: use --flush-cache or --salt"},
	{"steady", "share", 0.3, never, false, "change of the median TTFT from the window's first half to its second, where the two intervals do not meet", "the run was too short to settle, or the server is overloaded: run longer, lower the load, or choose a window"},
	{"no_steady_window", "", 1, never, false, "1: no stretch of full load was found", "run longer, or choose a window"},
	{"clock_fallback", "share", 0.01, never, false, "reads whose arrival was stamped by the process and not by the kernel", "the stamps include the time until the client got round to reading: watch the send lag and the client's CPU"},
	{"clock_step", "ms", 1, 10, false, "largest step of the wall clock against the monotonic one during the run", "the clock was set during the run: kernel stamps moved with it; stop time synchronisation from stepping, and run again"},
	{"calibration", "share", 0.1, 0.5, false, "p99 of what the client added to TTFT at this load, as a share of the median TTFT", "the client's own part is large: shard the run, or give the client cores of its own"},
}

func limitOf(signal string) Limit {
	for _, l := range Limits {
		if l.Signal == signal {
			return l
		}
	}
	panic("analyze: no limit for the signal " + signal) // a mistake in this package, which its tests find
}

// judge collects the reasons of a verdict.
type judge struct{ v schemas.Verdict }

// signal compares a value with its limits. detail, if not empty, says more than the number.
func (j *judge) signal(name string, value float64, detail string) {
	if math.IsNaN(value) {
		return
	}
	l := limitOf(name)
	beyond := func(limit float64) bool {
		if l.Low {
			return value < limit
		}
		return value >= limit
	}
	r := schemas.Reason{Signal: name, Value: value, Unit: l.Unit, Advice: l.Advice}
	switch {
	case beyond(l.Invalid):
		r.Grade, r.Limit = schemas.Invalid, l.Invalid
	case beyond(l.Suspect):
		r.Grade, r.Limit = schemas.Suspect, l.Suspect
	default:
		return
	}
	r.Text = l.Meaning + ": " + showUnit(value, l.Unit)
	if detail != "" {
		r.Text = detail
	}
	than := "at most"
	if l.Low {
		than = "at least"
	}
	if l.Unit != "" {
		r.Text += fmt.Sprintf(" (wanted %s %s)", than, showUnit(r.Limit, l.Unit))
	}
	j.v.Reasons = append(j.v.Reasons, r)
	if r.Grade == schemas.Invalid || j.v.Grade == schemas.Valid {
		j.v.Grade = r.Grade
	}
}

func showUnit(v float64, unit string) string {
	switch unit {
	case "share":
		return strconv.FormatFloat(v*100, 'g', 3, 64) + " %"
	case "":
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " " + unit
}

// verdict judges a run by its rows and by what its metadata says of the client.
func verdict(a *analysis, res *RunResult) schemas.Verdict {
	j := &judge{schemas.Verdict{Grade: schemas.Valid, Reasons: []schemas.Reason{}}}
	meta := &a.run.meta
	j.bookkeeping(a, res)
	g := &res.Total
	j.signal("sample", float64(g.Counts.OK), fmt.Sprintf("%d turns completed in the window", g.Counts.OK))
	j.lateness(a)
	if g.Counts.ErrorRate.Known() {
		j.signal("error_rate", float64(g.Counts.ErrorRate), fmt.Sprintf("%d of %d turns failed, %s", g.Counts.Failed, g.Counts.OK+g.Counts.Failed, showUnit(float64(g.Counts.ErrorRate), "share")))
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
		j.signal("output_length", off, fmt.Sprintf("answers had %d tokens where %d were asked for, %s off", g.Tokens.AskedGot, g.Tokens.Asked, showUnit(off, "share")))
	}
	if g.Counts.OK > 0 {
		told := g.Tokens.Sources[schemas.TokensFromUsage] + g.Tokens.Sources[schemas.TokensFromContinuous]
		missing := float64(g.Counts.OK-told) / float64(g.Counts.OK)
		j.signal("usage_missing", missing, "")
	}
	j.warmCache(res)
	if a.o.Window.Kind == WindowSteady {
		if !res.Window.Steady {
			j.signal("no_steady_window", 1, res.Window.How)
		}
		j.drift(a)
	}
	j.clock(a)
	if c := meta.Calibration; c != nil {
		if p50 := medianOf(g, "ttft"); p50 > 0 {
			j.signal("calibration", c.TTFTErrP99/p50, "")
		}
	}
	return j.v
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
func (j *judge) bookkeeping(a *analysis, res *RunResult) {
	meta := &a.run.meta
	switch {
	case res.Unfinished:
		j.signal("ended", 2, "the run did not finish: these are the rows that were safe when it stopped")
	case meta.Ended == "error" || meta.Ended == "watchdog":
		j.signal("ended", 2, fmt.Sprintf("the run ended by %s: %s", meta.Ended, meta.EndedDetail))
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
	if planned > 0 {
		j.signal("shed", shed/planned, fmt.Sprintf("%.0f of %.0f planned turns were shed", shed, planned))
	}
}

// lateness judges what the client added before sending.
func (j *judge) lateness(a *analysis) {
	late := lagScheduler(a.f, a.o)
	connect := between("start_ns", "sent_ns")(a.f, a.o)
	lags, waits := make([]float64, 0, a.f.rows), make([]float64, 0, a.f.rows)
	over := 0.0
	limit := limitOf("send_lag_p99").Suspect
	for row := range a.f.rows {
		if !a.f.main[row] || !a.w.holds(a.f, a.turn, row) {
			continue
		}
		if v := late(row); v == v {
			lags = append(lags, v)
			if v > limit {
				over++
			}
		}
		if v := connect(row); v == v {
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

// arrivals compares the rate at which conversations started with the rate of their schedule. Both come
// from the rows, so that chance in the arrivals is in neither.
func (j *judge) arrivals(a *analysis) {
	if a.run.meta.OfferedRate == nil {
		return
	}
	scheduled, start := a.f.ints("scheduled_ns"), a.f.ints("start_ns")
	var n int64
	planFrom, planTo := int64(math.MaxInt64), int64(math.MinInt64)
	from, to := planFrom, planTo
	for row := range a.f.rows {
		if a.turn[row] != 0 || scheduled[row] == schemas.NullInt || start[row] == schemas.NullInt {
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
	j.signal("arrival_rate", off, fmt.Sprintf("%.4g conversations per second started, the schedule had %.4g (asked for: %.4g), %s off", achieved, planned, *a.run.meta.OfferedRate, showUnit(off, "share")))
}

// warmCache finds a cache that knew the first turns before the run.
func (j *judge) warmCache(res *RunResult) {
	for _, c := range res.CacheTurns {
		if c.Turn != 0 || !c.Reuse.Known() || c.Rows == 0 {
			continue
		}
		above := float64(c.Reuse)
		if c.Ceiling.Known() {
			above -= float64(c.Ceiling)
			j.signal("warm_cache", above, fmt.Sprintf("first turns had %s of their prompt in the cache, where an empty cache could have given %s", showUnit(float64(c.Reuse), "share"), showUnit(float64(c.Ceiling), "share")))
		} else {
			j.signal("warm_cache", above, fmt.Sprintf("first turns had %s of their prompt in the cache", showUnit(above, "share")))
		}
	}
}

// drift compares the halves of the window.
func (j *judge) drift(a *analysis) {
	ttft := rowFigure("ttft").values(a.f, a.o)
	middle := a.w.from + (a.w.to-a.w.from)/2
	var halves [2]sample
	for row := range a.f.rows {
		if !a.in[row] || a.f.moment[row] == schemas.NullInt {
			continue
		}
		h := &halves[0]
		if a.f.moment[row] >= middle {
			h = &halves[1]
		}
		if v := ttft(row); v == v {
			h.values = append(h.values, v)
			h.cluster = append(h.cluster, a.f.conv[row])
		}
	}
	var p [2]Percentile
	o := &Options{Percentiles: []float64{50}}
	for i := range halves {
		var s scratch
		var f Figure
		s.summarize(&f, halves[i], o)
		if p[i] = f.Percentiles[0]; !p[i].Low.Known() || !p[i].High.Known() || p[i].Value <= 0 {
			return
		}
	}
	if p[0].High >= p[1].Low && p[1].High >= p[0].Low {
		return
	}
	change := math.Abs(float64(p[1].Value/p[0].Value) - 1)
	j.signal("steady", change, fmt.Sprintf("the median TTFT went from %.4g ms in the window's first half to %.4g ms in its second, %s", float64(p[0].Value), float64(p[1].Value), showUnit(change, "share")))
}

// clock judges the stamps.
func (j *judge) clock(a *analysis) {
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
		text := fmt.Sprintf("%s of the reads were stamped by the process and not by the kernel", showUnit(share, "share"))
		if fallback != "" {
			text += ": " + fallback
		}
		j.signal("clock_fallback", share, text)
	}
	if kernel > 0 {
		j.signal("clock_step", float64(stepNS)/1e6, "")
	}
}
