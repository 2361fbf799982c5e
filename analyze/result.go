package analyze

import (
	"encoding/json"
	"time"

	"parley/analyze/compare"
	"parley/analyze/plots"
	"parley/analyze/stat"
	"parley/schemas"
)

// Num is a number of a result; see [stat.Num].
type Num = stat.Num

// Missing is the Num that stands for no value.
var Missing = stat.Missing

// ResultSchema and ResultVersion name the layout of a [Result] in JSON. The minor number grows with a new
// field, the major one when a field changes its meaning or goes.
const (
	ResultSchema  = "parley.analysis"
	ResultVersion = "2.1"
)

// Result is everything that an analysis found out, as plain data: the renderers, the HTML report and the
// JSON export print from it and compute nothing. Latencies are in milliseconds, times of a run in seconds
// from its origin, rates per second and shares between 0 and 1, unless a unit stands beside them.
type Result struct {
	Schema      string                `json:"schema"`                // always parley.analysis
	Version     string                `json:"version"`               // of the layout, major.minor
	ToolVersion string                `json:"tool_version"`          // of the parley that analyzed
	Heading     []string              `json:"heading,omitempty"`     // what a reader must know before any figure (a simulated server, an unfinished run)
	From        Moment                `json:"from"`                  // the moment that latencies count from
	Percentiles []float64             `json:"percentiles"`           // asked for, in percent
	Level       float64               `json:"interval_level"`        // nominal coverage of the intervals, 0.95
	By          []string              `json:"by,omitempty"`          // columns of the groups
	Objectives  []Objective           `json:"objectives,omitempty"`  // of the goodput
	Runs        []RunResult           `json:"runs"`                  // one per run, in the order of the inputs
	Comparisons []*compare.Comparison `json:"comparisons,omitempty"` // against a baseline, one per load
	Gates       []compare.Gate        `json:"gates,omitempty"`       // what had to hold, and whether it did
	Plans       []Plan                `json:"plans,omitempty"`       // of runs that belong to plans: what they say together
	Sweep       *Sweep                `json:"sweep,omitempty"`       // several runs side by side
	Warnings    []Warning             `json:"warnings,omitempty"`    // about the analysis as a whole
}

// Warning is something that the analysis noticed and went on with.
type Warning struct {
	Kind string `json:"kind"` // one word: unfinished, mixed_versions, no_steady_window, small_sample, ...
	Text string `json:"text"` // one sentence
}

// Objective is one service level objective: a figure of a turn and the highest value that is good.
type Objective struct {
	Figure string  `json:"figure"`   // ttft, tpot, e2e, ...
	Limit  float64 `json:"limit_ms"` // the highest value that meets the objective
}

// RunResult is the analysis of one run.
type RunResult struct {
	Label       string               `json:"label"`                   // its own label, else its file's name
	RunID       string               `json:"run_id"`                  // the same for all shards of a run
	Files       []string             `json:"files"`                   // what it was read from
	Unfinished  bool                 `json:"unfinished,omitempty"`    // read from a journal, or ended before its time
	Simulated   bool                 `json:"simulated,omitempty"`     // against parley's own simulated server
	Ended       string               `json:"ended,omitempty"`         // why the run ended
	Origin      time.Time            `json:"origin"`                  // wall clock of moment 0
	Duration    Num                  `json:"duration_s"`              // from the first start to the last row's end
	ToolVer     string               `json:"tool_version"`            // of the parley that replayed
	Seed        uint64               `json:"seed"`                    // of the schedule
	Config      json.RawMessage      `json:"config,omitempty"`        // resolved configuration of the replay, secrets taken out
	Dataset     schemas.DatasetRef   `json:"dataset"`                 // what was replayed
	Targets     []schemas.Target     `json:"targets,omitempty"`       // the servers
	Clock       schemas.ClockInfo    `json:"clock"`                   // where the moments come from
	Host        schemas.Host         `json:"host"`                    // the client's machine
	Health      *schemas.Health      `json:"health,omitempty"`        // how the client itself was doing
	Calibrated  *schemas.Calibration `json:"calibration,omitempty"`   // what the client added at this load
	Verdict     schemas.Verdict      `json:"verdict"`                 // how far the figures can be trusted
	Offered     *float64             `json:"offered_rate,omitempty"`  // conversations per second that the load asked for
	Concurrency *int64               `json:"concurrency,omitempty"`   // conversations at once that it asked for
	Plan        string               `json:"plan,omitempty"`          // the plan of runs that it belongs to
	Window      Window               `json:"window"`                  // the part of the run that the figures cover
	Total       Group                `json:"total"`                   // the main phase in the window
	Phases      []Group              `json:"phases,omitempty"`        // each phase over the whole run, if there are several
	Groups      []Group              `json:"groups,omitempty"`        // by the columns asked for, within the window
	CacheTurns  []plots.CacheTurn    `json:"cache_by_turn,omitempty"` // prefix cache reuse at each turn index, in the window
	Jobs        *Jobs                `json:"jobs,omitempty"`          // trees of agents, in the window
	Warnings    []Warning            `json:"warnings,omitempty"`

	trials trials
}

// Window is the part of a run that figures cover, and how it was found.
type Window struct {
	Kind      string `json:"kind"`                // all, steady, time or turns
	From      Num    `json:"from_s"`              // from the run's origin; a turn belongs to the window that it was sent in
	To        Num    `json:"to_s"`                // exclusive
	FirstTurn int64  `json:"first_turn"`          // of kind turns: turns from this index
	LastTurn  int64  `json:"last_turn,omitempty"` // to this one, exclusive; 0 is no bound
	Steady    bool   `json:"steady"`              // of kind steady: a steady stretch was found
	How       string `json:"how"`                 // in words
	Seconds   Num    `json:"seconds"`             // the time that rates divide by
	// Relaxation is how long the server remembers what it did, as far as the run shows it: what it says of the
	// server in the long run takes a window of LongFrom seconds (of percentiles beyond p95: LongFromOuter).
	// Null where the run is too short to tell.
	Relaxation    Num `json:"relaxation_s"`
	LongFrom      Num `json:"long_run_from_s"`
	LongFromOuter Num `json:"long_run_from_outer_s"`

	Before int64 `json:"turns_before"` // turns of the main phase that the window leaves out: sent before it
	After  int64 `json:"turns_after"`  // sent after it
	Other  int64 `json:"turns_other"`  // left out for another reason: of kind turns, other turns of the conversations
}

// Key is one part of a group's name.
type Key struct {
	Column string `json:"column"` // the column that was grouped by
	Value  string `json:"value"`  // the value, or the bin in words; (none) for rows without one
	Low    Num    `json:"low"`    // of a bin: its lower bound; of a number: the number
	High   Num    `json:"high"`   // of a bin: its upper bound, exclusive
}

// Group is the figures of one population.
type Group struct {
	Keys       []Key      `json:"keys,omitempty"` // empty for the total
	Counts     Counts     `json:"counts"`
	Figures    []Figure   `json:"figures"`
	Throughput Throughput `json:"throughput"`
	Tokens     Tokens     `json:"tokens"`
	Goodput    *Goodput   `json:"goodput,omitempty"`
	Fluidity   *Fluidity  `json:"fluidity,omitempty"`
}

// Figure gives the figure with a name, or nil.
func (g *Group) Figure(name string) *Figure {
	for i := range g.Figures {
		if g.Figures[i].Name == name {
			return &g.Figures[i]
		}
	}
	return nil
}

// Counts says what a population is made of.
type Counts struct {
	Planned       int64                    `json:"planned"`               // all rows
	ByStatus      map[schemas.Status]int64 `json:"by_status"`             // rows by how they ended
	Sent          int64                    `json:"sent"`                  // rows that were attempted
	OK            int64                    `json:"ok"`                    // finished; what latencies cover
	Failed        int64                    `json:"failed"`                // errors of the server or of the way to it
	ErrorRate     Num                      `json:"error_rate"`            // failed / sent
	Censored      int64                    `json:"censored"`              // in flight when the run stopped them, or gave them up as --cancel asked: their latency is unknown
	InFlightAtEnd int64                    `json:"in_flight_at_end"`      // sent in the window, still running at its end
	Conversations int64                    `json:"conversations"`         // conversation instances among the rows
	ErrorKinds    map[string]int64         `json:"error_kinds,omitempty"` // failed turns by kind of failure
	NotSent       map[string]int64         `json:"not_sent,omitempty"`    // turns that were not sent, by reason
	Retried       int64                    `json:"retried"`               // rows that needed more than one attempt, replays on a fresh connection left out
}

// Figure is the distribution of one figure in one population.
type Figure struct {
	Name        string       `json:"name"`       // ttft, tpot, ...; see Figures
	Title       string       `json:"title"`      // for people
	Unit        string       `json:"unit"`       // ms or ms/token
	Population  string       `json:"population"` // which rows it covers, in words
	N           int64        `json:"n"`          // values
	Clusters    int64        `json:"clusters"`   // conversation instances among them
	Mean        Num          `json:"mean"`
	MeanLow     Num          `json:"mean_low"` // interval of the server's mean in the long run; null where the window is too short for one
	MeanHigh    Num          `json:"mean_high"`
	Std         Num          `json:"std"` // sample standard deviation (ddof 1)
	Min         Num          `json:"min"`
	Max         Num          `json:"max"`
	Percentiles []Percentile `json:"percentiles"`
	// RelativeError is how far percentiles can be from the exact ones, as a share: a run with more chunk gaps
	// than are kept in memory has them counted. 0: they are exact.
	RelativeError float64 `json:"relative_error,omitempty"`
	// FailureAware counts each failed turn as infinitely slow. Empty for figures without a failed
	// counterpart (chunk gaps) and where nothing failed.
	FailureAware []Percentile `json:"failure_aware,omitempty"`
}

// Percentile gives the percentile p (in percent), or nil.
func (f *Figure) Percentile(p float64) *Percentile {
	for i := range f.Percentiles {
		if f.Percentiles[i].P == p {
			return &f.Percentiles[i]
		}
	}
	return nil
}

// Percentile is one percentile. Its value is always given; what the sample says of the server is another
// matter: it has as many independent values as Effective says, for turns of one conversation are alike, and
// so is what ran at about the same time.
type Percentile struct {
	P          float64 `json:"p"` // in percent
	Value      Num     `json:"value"`
	Low        Num     `json:"low"` // interval of the server in the long run; null where the window is too short for one
	High       Num     `json:"high"`
	Lower      Num     `json:"lower"` // one-sided bounds; null where the sample gives none
	Upper      Num     `json:"upper"`
	Confidence float64 `json:"confidence,omitempty"` // of each of the two: 0.95, and 0.99 where the window is shorter than long_run_from_outer_s
	Effective  Num     `json:"effective"`            // independent values that the sample counts for; null where intervals were left out
	Carried    bool    `json:"carried"`              // these are enough to bound the percentile on its outer side; tables mark others with ~
	Needs      int64   `json:"needs"`                // independent values that it takes
	Infinite   bool    `json:"infinite,omitempty"`   // failure-aware only: the percentile is a failed turn
}

// Throughput is what a population got done in its window: what is counted and the seconds that it is divided
// by cover the same time. Warm-up turns that were still under way in it count too. Groups are divided by
// the window's length as well, so that the groups of one level add up to the total; groups by time have what
// happened in their part of the window, whenever the turn was sent, and divide by that part.
type Throughput struct {
	Seconds          Num   `json:"seconds"`
	Requests         Num   `json:"requests_per_s"`          // completed turns that ended in the window
	PromptTokens     Num   `json:"prompt_tokens_per_s"`     // of the same turns; null unless every one's count is known
	CachedTokens     Num   `json:"cached_tokens_per_s"`     // the same
	CompletionTokens Num   `json:"completion_tokens_per_s"` // tokens that arrived in the window, whatever became of their turn
	TotalTokens      Num   `json:"total_tokens_per_s"`
	Conversations    Num   `json:"conversations_started_per_s"`
	PeakInFlight     int64 `json:"peak_in_flight"`        // requests at once
	MeanInFlight     Num   `json:"mean_in_flight"`        // over the window
	PeakActive       int64 `json:"peak_conversations"`    // conversations at once, think time included
	PeakTokenRate    Num   `json:"peak_token_rate"`       // completion tokens of the best second, each at its arrival: any second of the window that begins on a hundredth; null for windows under 5 s
	TokensPerUser    Num   `json:"tokens_per_s_per_user"` // 1000 / mean TPOT
	// Intervals of three rates in the long run; null where the window is too short for them, and for groups.
	RequestsLow    Num `json:"requests_low"`
	RequestsHigh   Num `json:"requests_high"`
	CompletionLow  Num `json:"completion_tokens_low"`
	CompletionHigh Num `json:"completion_tokens_high"`
	TotalLow       Num `json:"total_tokens_low"`
	TotalHigh      Num `json:"total_tokens_high"`
}

// Tokens sums a population's tokens (completed turns), over the turns whose count is known; null where none is.
type Tokens struct {
	Prompt         Num              `json:"prompt"`
	Cached         Num              `json:"cached"`
	Completion     Num              `json:"completion"`
	Reasoning      Num              `json:"reasoning"`
	Asked          int64            `json:"asked"`          // output tokens asked for, over rows that asked and know their answer's length
	AskedGot       int64            `json:"asked_got"`      // completion tokens of the same rows
	CacheReuse     Num              `json:"cache_reuse"`    // cached / prompt over the rows whose server says both; null if none does, or if one contradicts itself
	CacheCeiling   Num              `json:"cache_ceiling"`  // the same of an infinite prefix cache, by the dataset, over the same rows (over all where no server says)
	CacheRows      int64            `json:"cache_rows"`     // rows whose server says both
	CacheZeros     int64            `json:"cache_zeros"`    // rows whose server tells 0 cached tokens always, although the ceiling says that it should not: no reuse is worked out from them
	Contradictions int64            `json:"contradictions"` // rows with more cached than prompt tokens, of which nothing can be believed
	MeanPrompt     Num              `json:"mean_prompt"`
	MeanOutput     Num              `json:"mean_completion"`
	Sources        map[string]int64 `json:"sources,omitempty"` // rows by token_source
}

// Goodput counts what met every objective. A turn that failed, was stopped, or of which the figure is not
// known has not met it; only an answer of one token may do without a time per token.
type Goodput struct {
	Requests Num   `json:"requests_per_s"`          // turns that ended in the window and met every objective
	Tokens   Num   `json:"completion_tokens_per_s"` // of the same turns
	Good     int64 `json:"good"`                    // of the turns sent in the window
	Of       int64 `json:"of"`                      // turns sent in the window
	Share    Num   `json:"share"`                   // good / of
}

// Fluidity is the share of tokens that arrived by their deadline when slack is carried over: the first
// token is due at the TTFT objective, each later one at the TPOT objective after the later of the one
// before's deadline and arrival.
type Fluidity struct {
	Share    Num   `json:"share"`
	Tokens   int64 `json:"tokens"`
	Good     Num   `json:"requests_at_0_9"` // share of turns with at least nine in ten tokens in time
	TTFT     Num   `json:"ttft_ms"`
	PerToken Num   `json:"tpot_ms"`
}
