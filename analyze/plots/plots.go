// Package plots makes what a report draws: series thinned to a budget of points without losing extremes, from values,
// moments and turns, wherever these come from.
package plots

import (
	"cmp"

	"parley/analyze/stat"
)

// Num is a number that may be missing.
type Num = stat.Num

// Missing is the Num that stands for no value.
var Missing = stat.Missing

// Budget bounds how much a report draws. Zero values give the defaults.
type Budget struct {
	Points  int // of a cloud or a curve; 4000
	Lanes   int // conversations in the swim-lanes; 200
	Turns   int // turns in all lanes; 8000
	Seconds int // steps of the series per second, above which steps get longer; 1200
}

// WithDefaults gives the budget with its defaults filled in.
func (b Budget) WithDefaults() Budget {
	b.Points = cmp.Or(b.Points, 4000)
	b.Lanes = cmp.Or(b.Lanes, 200)
	b.Turns = cmp.Or(b.Turns, 8000)
	b.Seconds = cmp.Or(b.Seconds, 1200)
	return b
}

// Plots is what the HTML report draws: series thinned to a budget of points without losing extremes.
// Times are seconds from the run's origin, latencies milliseconds. Parallel slices have equal lengths;
// null stands where there is no value.
type Plots struct {
	Runs []RunPlots `json:"runs"` // in the order of Result.Runs
}

// RunPlots is the series of one run, over the whole run (the window is drawn over them).
type RunPlots struct {
	Label      string            `json:"label"`
	WindowFrom Num               `json:"window_from_s"`
	WindowTo   Num               `json:"window_to_s"`
	OverTime   []Points          `json:"over_time"` // figures of turns at the moment they were sent: ttft, e2e, tpot, send_lag
	Failures   Points            `json:"failures"`  // one point per failed turn: when it was sent, how long it lasted
	CDFs       []Curve           `json:"cdfs"`      // ttft, tpot, itl, e2e, chunk_gap in the window
	ByTurn     []Bands           `json:"by_turn"`
	ByContext  []Bands           `json:"by_context"` // by bins of prompt_tokens
	PerSecond  PerSecond         `json:"per_second"`
	CacheTurns []CacheTurn       `json:"cache_by_turn"`
	Lanes      []Lane            `json:"lanes"`
	LanesOf    int64             `json:"lanes_of"` // conversation instances in the run; Lanes holds some of them
	Telemetry  []TelemetrySeries `json:"telemetry"`
}

// Points is a cloud of points, in order of time.
type Points struct {
	Figure string   `json:"figure"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	T      []Num    `json:"t"`
	V      []Num    `json:"v"`
	Status []string `json:"status,omitempty"` // of failures
	Of     int64    `json:"of"`               // points before thinning
}

// Curve is an empirical distribution: Share of the values are at most Value.
type Curve struct {
	Figure string `json:"figure"`
	Title  string `json:"title"`
	Unit   string `json:"unit"`
	Value  []Num  `json:"value"`
	Share  []Num  `json:"share"`
	N      int64  `json:"n"`
}

// Bands is percentiles of a figure along a number.
type Bands struct {
	Figure string  `json:"figure"`
	Title  string  `json:"title"`
	Unit   string  `json:"unit"`
	XName  string  `json:"x_name"` // turn, prompt_tokens
	X      []Num   `json:"x"`      // the turn, or the middle of the bin
	Low    []Num   `json:"low"`    // the bin's bounds
	High   []Num   `json:"high"`
	N      []int64 `json:"n"`
	P50    []Num   `json:"p50"`
	P90    []Num   `json:"p90"`
	P99    []Num   `json:"p99"` // null where the bin cannot carry it
	Mean   []Num   `json:"mean"`
}

// CacheTurn is prefix cache reuse at one turn index.
type CacheTurn struct {
	Turn    int64 `json:"turn"`
	Rows    int64 `json:"rows"` // that reuse and ceiling cover
	Reuse   Num   `json:"reuse"`
	Ceiling Num   `json:"ceiling"`
}

// PerSecond is series with one value per Step seconds; T is the start of each.
type PerSecond struct {
	Step             Num   `json:"step_s"`
	T                []Num `json:"t"`
	Started          []Num `json:"started_per_s"`
	Completed        []Num `json:"completed_per_s"`
	Failed           []Num `json:"failed_per_s"`
	PromptTokens     []Num `json:"prompt_tokens_per_s"`     // of completed turns, at their end
	CompletionTokens []Num `json:"completion_tokens_per_s"` // at each token's arrival
	InFlight         []Num `json:"in_flight"`               // mean over the step
	InFlightPeak     []Num `json:"in_flight_peak"`
	Conversations    []Num `json:"conversations"` // active, mean over the step
	TTFTP50          []Num `json:"ttft_p50"`      // of turns sent in the step
	TTFTMax          []Num `json:"ttft_max"`
}

// Lane is one conversation in the swim-lane plot.
type Lane struct {
	Conversation string `json:"conversation"`
	Instance     int64  `json:"instance"`
	Turns        []Span `json:"turns"`
}

// Span is one turn in a lane.
type Span struct {
	Turn      int64  `json:"turn"`
	Status    string `json:"status"`
	Scheduled Num    `json:"scheduled_s"`
	Sent      Num    `json:"sent_s"`
	First     Num    `json:"first_token_s"`
	End       Num    `json:"end_s"`
	Prompt    Num    `json:"prompt_tokens"`
	Output    Num    `json:"completion_tokens"`
}

// TelemetrySeries is one figure of the client or of a server over time.
type TelemetrySeries struct {
	Source string `json:"source"`
	Name   string `json:"name"`
	Rate   bool   `json:"rate"` // a counter, shown as its increase per second
	T      []Num  `json:"t"`
	V      []Num  `json:"v"`
	Of     int64  `json:"of"` // samples before thinning
}
