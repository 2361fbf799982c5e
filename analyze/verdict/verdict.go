// Package verdict says how far the figures of a run can be trusted: signals in, reasons out.
//
// INVALID is kept for a client that distorted what it measured, and for a server that mostly failed: such
// figures are of no use. All else that speaks against a figure (a short run, short answers, a warm cache, a
// proxy that buffers) makes a run SUSPECT: its figures are true, and need to be read with the reason in mind.
package verdict

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"parley/schemas"
)

// Signal is one thing that a run shows.
type Signal struct {
	Name  string  // a signal of [Limits]
	Value float64 // in the limit's unit; NaN: not known, no reason
	Text  string  // a phrase with the number; empty: the limit's meaning and the value
	// Advice is what to do about it; empty: the limit's.
	Advice string
}

// Limit is where a signal makes a run suspect, and where invalid. Every threshold of the verdict stands in
// Limits and nowhere else.
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

const clientLate = "the client could not keep up: lower the rate, shard the run over more machines, or give the client cores of its own"

// Limits is the table of the thresholds. They are ours: suspect is where an effect could be seen in a
// median; invalid, of the client's own signals, where it could be mistaken for the server's. A server mostly
// failed if it failed half of the turns: what is left is not what users get.
var Limits = []Limit{
	{"reconciled", "turns", 1, 1, false, "turns planned that are not rows, or the other way round", "report this: every planned turn must be a row"},
	{"ended", "", 1, 2, false, "how the run ended: 1 before its time, 2 by an error or the watchdog", "run it again to its end, or choose a window that the run completed"},
	{"sample", "turns", 64, never, true, "completed turns in the window", "a short run: replay more conversations (64 turns carry a p90, 662 a p99)"},
	{"send_lag_p99", "ms", 5, 50, false, "99th percentile of the client's own lateness: start of the first attempt - max(scheduled, ready)", clientLate},
	{"send_lag_share", "share", 0.02, never, false, "share of turns that the client sent more than 5 ms late", clientLate},
	{"connection_wait_p99", "ms", 50, never, false, "99th percentile of the wait for a connection, which TTFT from sent leaves out", "connections are slow or refused: look at the server's accept queue, at proxies and at limits of open files; read TTFT from start"},
	{"arrival_rate", "share", 0.01, never, false, "how far the conversations started per second fell from the schedule's", "the arrivals did not happen as planned: raise --max-conversations, lower the rate, or shard the run"},
	{"concurrency", "share", 0.02, never, false, "how far the conversations at once stayed below --concurrency", "use a dataset with more conversations, --loops, or a lower --concurrency"},
	{"shed", "share", 0.0005, 0.5, false, "share of planned turns that were shed because the limit of conversations was full", "the server did not keep up with the rate: lower it, or read the figures as those of an overloaded server"},
	{"lost", "share", 0.1, never, false, "turns not sent because an earlier turn of their conversation, or one that it needs, failed, as a share of those planned before the run's end", "the later turns, with the longest prompts, are missing: look at the error kinds, or send them all the same with --keep-going"},
	{"error_rate", "share", 0.01, 0.5, false, "failed turns among those sent in the window", "look at the error kinds: latencies of the turns that completed say little of a server that refuses the rest"},
	{"retried", "share", 0.01, never, false, "share of turns that were sent again after an answer such as 429 or 503", "the server refused turns before it served them: latencies from sent leave out the refused attempts; read those from scheduled"},
	{"client_cpu", "share", 0.8, 0.95, false, "share of all cores that the client used, mean over the run", "the client is saturated: give it more cores, or shard the run"},
	{"machine_idle", "share", 0.02, never, true, "lowest share of the client machine's cores left idle in a second", "something used all of the client's machine: give it cores of its own"},
	{"sched_latency_p99", "ms", 5, 50, false, "99th percentile of the Go scheduler's latency", "the client is short of processor time: give it cores of its own, or shard the run"},
	{"gc_pause_p99", "ms", 5, 50, false, "99th percentile of the garbage collector's pauses", "the client is short of memory or processor time: give it more, or shard the run"},
	{"backlog", "stalls", 1, never, false, "times the run held back turns because results could not be written", "the disk is too slow: write the output to a faster one"},
	{"output_length", "share", 0.1, never, false, "how far the answers' tokens are from what was asked for", "set --ignore-eos or --min-tokens if the server knows them, or ask with --output-tokens for what the model gives"},
	{"usage_missing", "share", 0.01, never, false, "completed turns without a token count by the server", "token figures rest on estimates: let the server send usage, or give the tokenizer"},
	{"cached_above_prompt", "share", 0, never, false, "completed turns with more cached tokens than prompt tokens", "the server contradicts itself: cache reuse is not worked out from such turns; look at what its usage counts"},
	{"reuse_above_ceiling", "share", 0.05, never, false, "cache reuse above what an infinite cache could give, over the same turns", "the cache was warm from before (--salt, --flush-cache), the server's template is long beside the prompts, or it counts as cached what was not"},
	{"prompts_cut", "share", 0.01, never, false, "completed turns of whose prompt the server counted less than three quarters of the tokens that were sent", "the server cuts long prompts off without a word (raise its context length), or counts with another tokenizer than the dataset's (make the dataset with the model's: generate --tokenizer)"},
	{"untrue_tokens", "share", 0, never, false, "answers with a number of tokens that cannot be true", "the server contradicts itself: these answers count as ones without a token count; look at what its usage tells"},
	{"bursts", "share", 0.1, never, false, "completed answers of several tokens of which most chunks came together with the one before", "something between buffers the stream, or the server does not stream: TTFT is that buffer's, and ITL and TPOT are left out"},
	{"warm_cache", "share", 0.1, never, false, "first turns' cache hits above what an empty cache could give", "the cache was warm from an earlier run, an earlier pass over the dataset, or prompts that begin alike: --salt keeps runs and passes apart, --flush-cache runs"},
	{"steady", "share", 0.05, never, false, "trend or shift of requests in flight, tokens per second or TTFT over the window, as a share of its mean", "the run was too short to settle, or the server is overloaded: run longer, lower the load, or choose a window"},
	{"no_steady_window", "", 1, never, false, "1: no stretch of full load was found", "run longer, or choose a window"},
	{"clock_fallback", "share", 0.01, never, false, "reads whose arrival was stamped by the process and not by the kernel", "the stamps include the time until the client got round to reading: watch the send lag and the client's CPU"},
	{"clock_step", "ms", 1, 10, false, "largest step of the wall clock against the monotonic one during the run", "the clock was set during the run: kernel stamps moved with it; stop time synchronisation from stepping, and run again"},
	{"calibration", "share", 0.1, 0.5, false, "p99 of what the client added to TTFT at this load, as a share of the median TTFT", "the client's own part is large: shard the run, or give the client cores of its own"},
}

// LimitOf gives the limit of a signal. It panics for a name that Limits lacks: a mistake in the caller's
// code, which its tests find.
func LimitOf(signal string) Limit {
	i := slices.IndexFunc(Limits, func(l Limit) bool { return l.Signal == signal })
	if i < 0 {
		panic("verdict: no limit for the signal " + signal)
	}
	return Limits[i]
}

// Judge compares signals with their limits. The grade is that of the worst reason.
func Judge(list []Signal) schemas.Verdict {
	v := schemas.Verdict{Grade: schemas.Valid, Reasons: []schemas.Reason{}}
	for _, s := range list {
		r, ok := LimitOf(s.Name).reason(s)
		if !ok {
			continue
		}
		v.Reasons = append(v.Reasons, r)
		if rank(r.Grade) < rank(v.Grade) {
			v.Grade = r.Grade
		}
	}
	return v
}

// AtLeast says whether a grade is as good as another, or better.
func AtLeast(grade, wanted schemas.Grade) bool { return rank(grade) >= rank(wanted) }

func rank(g schemas.Grade) int {
	return slices.Index([]schemas.Grade{schemas.Invalid, schemas.Suspect, schemas.Valid}, g)
}

func (l Limit) beyond(value, limit float64) bool {
	if l.Low {
		return value < limit
	}
	return value >= limit && (value > 0 || limit > 0) // a limit of 0: any at all
}

func (l Limit) reason(s Signal) (schemas.Reason, bool) {
	r := schemas.Reason{Signal: s.Name, Value: s.Value, Unit: l.Unit, Advice: l.Advice, Text: s.Text}
	if s.Advice != "" {
		r.Advice = s.Advice
	}
	switch {
	case l.beyond(s.Value, l.Invalid):
		r.Grade, r.Limit = schemas.Invalid, l.Invalid
	case l.beyond(s.Value, l.Suspect):
		r.Grade, r.Limit = schemas.Suspect, l.Suspect
	default:
		return r, false
	}
	if r.Text == "" {
		r.Text = l.Meaning + ": " + Show(s.Value, l.Unit)
	}
	if l.Unit != "" {
		than := "at most"
		if l.Low {
			than = "at least"
		}
		wanted := than + " " + Show(r.Limit, l.Unit)
		if r.Limit == 0 {
			wanted = "none"
		}
		r.Text += fmt.Sprintf(" (wanted %s)", wanted)
	}
	return r, true
}

// Show prints a value with its unit; shares in percent.
func Show(v float64, unit string) string {
	switch unit {
	case "share":
		return strconv.FormatFloat(v*100, 'g', 3, 64) + " %"
	case "":
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " " + unit
}
