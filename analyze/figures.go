package analyze

import (
	"math"

	"parley/schemas"
)

// figure is one figure of a turn: how it is called, which columns it needs, and its value.
type figure struct {
	name, title, unit string
	columns           []string
	values            func(f *frame, o *Options) func(row int) float64 // NaN: the turn has none
	aware             bool                                             // has a failure-aware variant
	perToken          bool                                             // rests on the times between chunks
	wholeAnswer       bool                                             // grows with the answer, so that stopped turns are missed
}

// Names of figures that do not come from a row by itself.
const (
	figChunkGap  = "chunk_gap"
	figITL       = "itl"
	figConvTime  = "conversation_time"
	figConvBusy  = "conversation_time_without_think"
	popCompleted = "completed turns"
)

// between gives the figure of the time from one moment to another, in milliseconds.
func between(from, to string) func(*frame, *Options) func(int) float64 {
	return func(f *frame, _ *Options) func(int) float64 {
		a, b := f.ints(from), f.ints(to)
		return func(row int) float64 {
			if a[row] == schemas.NullInt || b[row] == schemas.NullInt {
				return math.NaN()
			}
			return float64(b[row]-a[row]) / 1e6
		}
	}
}

// since is between, from the moment that latencies count from.
func since(to string) func(*frame, *Options) func(int) float64 {
	return func(f *frame, o *Options) func(int) float64 {
		return between(o.From.column(), to)(f, o)
	}
}

func (m Moment) column() string { return string(m) + "_ns" }

// rowFigures lists the figures of a turn, in the order of reports. The formulas are those of the data
// dictionary and of measurement: milliseconds throughout.
var rowFigures = []figure{
	{"ttft", "TTFT", "ms", nil, since("first_token_ns"), true, false, false},
	{"ttft_sent", "TTFT from sent", "ms", nil, between("sent_ns", "first_token_ns"), false, false, false},
	{"ttft_start", "TTFT from start", "ms", nil, between("start_ns", "first_token_ns"), false, false, false},
	{"ttft_scheduled", "TTFT from scheduled", "ms", nil, between("scheduled_ns", "first_token_ns"), true, false, false},
	{"ttfb", "TTFB", "ms", []string{"first_byte_ns"}, since("first_byte_ns"), false, false, false},
	{"ttfa", "TTFA", "ms", []string{"first_answer_ns"}, since("first_answer_ns"), false, false, false},
	{"tpot", "TPOT", "ms", []string{"tpot_ms"}, tpot, false, true, false},
	{"tpot_request", "TPOT, (E2E-TTFT)/(n-1)", "ms", nil, tpotRequest, false, true, false},
	{"e2e", "E2E", "ms", nil, since("last_token_ns"), true, false, true},
	{"e2e_scheduled", "E2E from scheduled", "ms", nil, between("scheduled_ns", "last_token_ns"), true, false, true},
	{"normalized_latency", "E2E per output token", "ms", nil, normalized, true, false, false},
	{"send_lag", "Send lag", "ms", nil, sendLag, false, false, false},
	{"lag_slot", "Lag: slot", "ms", nil, lagSlot, false, false, false},
	{"lag_scheduler", "Lag: scheduler", "ms", nil, lagScheduler, false, false, false},
	{"lag_connection", "Lag: connection", "ms", nil, lagConnection, false, false, false},
	{"lag_retries", "Back-off and failed attempts", "ms", nil, lagRetries, false, false, false},
	{"write_time", "Request write", "ms", []string{"wrote_ns"}, between("sent_ns", "wrote_ns"), false, false, false},
}

// FigureNames gives the names of all figures, in the order of reports.
func FigureNames() []string {
	var names []string
	for _, f := range rowFigures {
		names = append(names, f.name)
		if f.name == "tpot_request" {
			names = append(names, figITL, figChunkGap)
		}
	}
	return append(names, figConvTime, figConvBusy)
}

// ObjectiveFigures gives the figures that an objective can be set for: those that one turn has one of.
func ObjectiveFigures() []string {
	return []string{"ttft", "ttft_sent", "ttft_start", "ttft_scheduled", "ttfb", "ttfa", "tpot", "tpot_request", "e2e", "e2e_scheduled", "normalized_latency", "send_lag"}
}

func rowFigure(name string) *figure {
	for i := range rowFigures {
		if rowFigures[i].name == name {
			return &rowFigures[i]
		}
	}
	return nil
}

// tpot is the time per output token after the first chunk. The file has it, worked out from the chunk
// lists when the row was made, so that they need not be read. Reasoning tokens that were counted but never
// streamed are taken out: they did not come in the time that is divided.
func tpot(f *frame, _ *Options) func(int) float64 {
	v := f.floats("tpot_ms")
	first, last := f.ints("first_token_ns"), f.ints("last_token_ns")
	return func(row int) float64 {
		hidden := f.hidden(row)
		if hidden == 0 || math.IsNaN(v[row]) {
			return v[row]
		}
		span := float64(last[row]-first[row]) / 1e6
		// The first chunk's tokens are in the quotient only.
		return perToken(span, math.Round(span/v[row])-float64(hidden))
	}
}

// tpotRequest is TPOT the way other clients work it out.
func tpotRequest(f *frame, _ *Options) func(int) float64 {
	first, last, completion := f.ints("first_token_ns"), f.ints("last_token_ns"), f.ints("completion_tokens")
	return func(row int) float64 {
		if first[row] == schemas.NullInt || last[row] == schemas.NullInt || completion[row] == schemas.NullInt {
			return math.NaN()
		}
		return perToken(float64(last[row]-first[row])/1e6, float64(completion[row]-f.hidden(row)-1))
	}
}

func perToken(ms, tokens float64) float64 {
	if !(tokens >= 1) {
		return math.NaN()
	}
	return ms / tokens
}

func normalized(f *frame, o *Options) func(int) float64 {
	e2e, n := since("last_token_ns")(f, o), f.ints("completion_tokens")
	return func(row int) float64 {
		if n[row] < 1 {
			return math.NaN()
		}
		return e2e(row) / float64(n[row])
	}
}

// lagSlot is how long after its scheduled moment a turn still waited for its slot.
func lagSlot(f *frame, _ *Options) func(int) float64 {
	wait := between("scheduled_ns", "ready_ns")(f, nil)
	return func(row int) float64 {
		if v := wait(row); !(v < 0) {
			return v
		}
		return 0
	}
}

// lagScheduler is how late the client was with a turn that could and should have gone.
func lagScheduler(f *frame, _ *Options) func(int) float64 {
	scheduled, ready, start := f.ints("scheduled_ns"), f.ints("ready_ns"), f.ints("start_ns")
	return func(row int) float64 {
		if scheduled[row] == schemas.NullInt || start[row] == schemas.NullInt {
			return math.NaN()
		}
		// A null ready_ns is the smallest number, and so changes nothing.
		return float64(start[row]-max(scheduled[row], ready[row])) / 1e6
	}
}

// sentAgain says whether the time from a turn's start to its sending has failed attempts in it, and the waits after
// them: those are the server's doing and not the client's.
func (f *frame) sentAgain() func(row int) bool {
	attempts := f.ints("attempts")
	return func(row int) bool { return f.firsts && attempts[row] > 1 }
}

// sendLag is how late a turn went: of one that was sent again, how late its first attempt began.
func sendLag(f *frame, _ *Options) func(int) float64 {
	sent, start, again := between("scheduled_ns", "sent_ns")(f, nil), between("scheduled_ns", "start_ns")(f, nil), f.sentAgain()
	return func(row int) float64 {
		if again(row) {
			return start(row)
		}
		return sent(row)
	}
}

// lagConnection is the wait for a connection, of turns that were sent once.
func lagConnection(f *frame, _ *Options) func(int) float64 {
	wait, again := between("start_ns", "sent_ns")(f, nil), f.sentAgain()
	return func(row int) float64 {
		if again(row) {
			return math.NaN()
		}
		return wait(row)
	}
}

// lagRetries is the time from the start of a turn's first attempt to the sending of its last one.
func lagRetries(f *frame, _ *Options) func(int) float64 {
	wait, again := between("start_ns", "sent_ns")(f, nil), f.sentAgain()
	return func(row int) float64 {
		if !again(row) {
			return math.NaN()
		}
		return wait(row)
	}
}
