// Package compare judges several runs together: how two groups of runs differ, and whether a gate held.
// Values in, judgement out: it knows no files.
//
// A run is one observation of a server. Its turns shared the server's moods, so that however many they
// are, two runs that differ may have met it on different days. Only several runs a side can tell a change
// from chance; a comparison of one run a side is a description. Of each run one number counts for every
// figure: the logarithm of a percentile, a mean or a rate (a share as it is), over the turns that the
// runs have in common (the two of a pair, else all of them). Runs that are pairs (the same dataset, level, repeat and seed, so the same schedule) are
// compared pair by pair with Student's t, others by Welch's t. What is called a change beyond chance is so
// for all figures together (Holm's correction at 5 %).
package compare

import (
	"fmt"
	"math"
	"slices"

	"parley/analyze/stat"
	"parley/schemas"
)

// Num is a number that may be missing.
type Num = stat.Num

// Level is the chance that equal runs are called different in any figure of a comparison.
const Level = 0.05

// Run is what a comparison needs to know of one run.
type Run struct {
	Label     string
	RunID     string
	Pair      Pair
	Grade     schemas.Grade
	Simulated bool
	Turns     []Turn               // completed turns in the window, in any order
	Others    []int32              // of each turn: how many others awaited their first token when it was sent; empty: not known
	Latency   map[string][]float64 // of ttft, tpot, e2e: one value per turn, ms; NaN if it has none
	Figures   map[string]Figure    // of the run by itself, by name: ttft.p99, itl.mean, error_rate, ...
}

// Pair says which run of the other side a run corresponds to.
type Pair struct {
	Dataset string // content hash
	Level   string // the load, of runs of a plan
	Repeat  int
	Seed    uint64
}

// Turn names a turn in every run of one dataset.
type Turn struct {
	Conversation string
	Instance     int64
	Index        int64
}

// Figure is a figure of one run, and what that run by itself says of the server.
type Figure struct {
	Value        float64 // NaN: not known
	Low, High    float64 // interval within the run, 95 %; NaN where the run is too short to say
	Lower, Upper float64 // one-sided bounds; NaN where the sample does not give one
	Confidence   float64 // of each of these; 0 is 95 %
	N, Effective float64 // values, and how many independent ones they count for; 0: not known
	LongFrom     float64 // seconds of a window that is long enough for the interval; 0: not known
}

// Value makes a figure of which nothing but the value is known.
func Value(v float64) Figure {
	nan := math.NaN()
	return Figure{Value: v, Low: nan, High: nan, Lower: nan, Upper: nan}
}

// ShareOf makes the figure of a share: k of n, which count for so many independent trials (0: all of them).
// Its bounds are those of Clopper and Pearson (Biometrika 26, 1934).
func ShareOf(k, n int64, effective float64) Figure {
	if n == 0 {
		return Value(math.NaN())
	}
	f := Value(float64(k) / float64(n))
	f.N, f.Effective = float64(n), float64(n)
	if effective > 0 {
		f.Effective = min(f.Effective, effective)
	}
	f.Lower, f.Upper = shareBounds(f.Value, f.Effective)
	return f
}

// Comparison sets a group of runs against a baseline.
type Comparison struct {
	Level         string         `json:"level,omitempty"` // the load, where the runs have several
	Baseline      string         `json:"baseline"`        // name of the side
	Candidate     string         `json:"candidate"`
	BaselineRuns  []RunRef       `json:"baseline_runs"`
	CandidateRuns []RunRef       `json:"candidate_runs"`
	Tested        bool           `json:"tested"`       // several runs a side: differences are tested against chance
	Paired        bool           `json:"paired"`       // run by run
	Why           string         `json:"why"`          // why tested and paired or not, in words
	Common        int64          `json:"common_turns"` // completed turns that the runs of a pair (the one with fewest), or else all runs have; latencies of a tested comparison are over these
	Most          int64          `json:"most_turns"`   // completed turns of the run that has most
	Config        []ConfigChange `json:"config_changes,omitempty"`
	Rows          []Difference   `json:"rows"`
	Primary       string         `json:"primary,omitempty"` // the row that is looked at first: tested by itself at 5 %
	Slower        bool           `json:"slower"`            // some figure got worse beyond chance, of all figures together
	Faster        bool           `json:"faster"`            // some figure got better beyond chance, of all figures together
	Notes         []string       `json:"notes,omitempty"`

	sides *sides // for the gates
}

// RunRef names a run of a side.
type RunRef struct {
	Label  string        `json:"label"`
	RunID  string        `json:"run_id"`
	Grade  schemas.Grade `json:"grade"`
	Repeat int           `json:"repeat"`
	Seed   uint64        `json:"seed"`
}

// ConfigChange is one setting that differs between the sides.
type ConfigChange struct {
	Setting   string `json:"setting"` // dotted path
	Baseline  string `json:"baseline"`
	Candidate string `json:"candidate"`
}

// Difference is one figure on both sides. Of several runs a side has the mean (of latencies and rates the
// geometric one).
type Difference struct {
	Name       string `json:"name"` // ttft.p50, ttft.turns, request_throughput, ...
	Title      string `json:"title"`
	Unit       string `json:"unit"` // ms, 1/s, share, or ratio
	Baseline   Num    `json:"baseline"`
	Candidate  Num    `json:"candidate"`
	Diff       Num    `json:"diff"`     // candidate - baseline
	DiffLow    Num    `json:"diff_low"` // of shares: interval of the difference
	DiffHigh   Num    `json:"diff_high"`
	Ratio      Num    `json:"ratio"`     // candidate / baseline
	RatioLow   Num    `json:"ratio_low"` // of latencies and rates: interval of the ratio
	RatioHigh  Num    `json:"ratio_high"`
	Tested     bool   `json:"tested"`        // false: the interval, if any, comes from within the runs, and says nothing of chance between runs
	P          Num    `json:"p"`             // two-sided, of no difference
	Changed    bool   `json:"changed"`       // beyond chance, of all figures together (Holm)
	Alone      bool   `json:"changed_alone"` // beyond chance at 5 % if this figure were the only one
	Worse      bool   `json:"worse"`         // it went in the bad direction
	HighIsGood bool   `json:"high_is_good"`
}

// latencies are the figures of turns that are compared, with their statistics.
var latencies = []struct{ name, title string }{{"ttft", "TTFT"}, {"tpot", "TPOT"}, {"e2e", "E2E"}}

// Latencies gives the names of the figures that [Run.Latency] has.
func Latencies() []string {
	var names []string
	for _, l := range latencies {
		names = append(names, l.name)
	}
	return names
}

var latencyStats = []string{"mean", "p50", "p90", "p99"}

// turnsStat is the statistic of a pair of runs: the factor by which the same turns are slower.
const turnsStat = "turns"

// New compares two groups of runs of one level.
func New(base, cand []Run) *Comparison {
	s := newSides(base, cand)
	c := &Comparison{
		Baseline: sideName(s.base), Candidate: sideName(s.cand), BaselineRuns: refs(s.base), CandidateRuns: refs(s.cand),
		Tested: s.tested(), Paired: s.paired, Why: s.why, Common: int64(s.commonTurns()), Most: int64(s.mostTurns()),
		Notes: s.notes(), sides: s,
	}
	for _, f := range latencies {
		c.add(f.name, turnsStat, f.title+", turn by turn", "ratio", false)
		for _, st := range latencyStats {
			c.add(f.name, st, f.title+" "+st, "ms", false)
		}
	}
	for _, p := range Plain {
		c.add(p.Name, "", p.Title, p.Unit, p.HighIsGood)
	}
	for _, name := range []string{"ttft.turns", "e2e.turns", "ttft.mean", "e2e.mean"} {
		if i := c.row(name); c.Tested && i >= 0 && c.Rows[i].Tested {
			c.Primary = name
			break
		}
	}
	Decide(c)
	return c
}

func (c *Comparison) row(name string) int {
	return slices.IndexFunc(c.Rows, func(d Difference) bool { return d.Name == name })
}

// PrimaryRow gives the row that is looked at first, or nil.
func (c *Comparison) PrimaryRow() *Difference {
	if i := c.row(c.Primary); i >= 0 {
		return &c.Rows[i]
	}
	return nil
}

// add adds the row of a figure, unless neither side knows it.
func (c *Comparison) add(figure, statistic, title, unit string, highIsGood bool) {
	name := join(figure, statistic)
	scale := logScale
	if unit == "share" {
		scale = plainScale
	}
	m := c.sides.measure(figure, statistic, scale)
	if math.IsNaN(m.base) && math.IsNaN(m.cand) {
		return
	}
	d := Difference{
		Name: name, Title: title, Unit: unit, Baseline: Num(m.base), Candidate: Num(m.cand), Diff: Num(m.cand - m.base),
		DiffLow: stat.Missing, DiffHigh: stat.Missing, Ratio: stat.Missing, RatioLow: stat.Missing, RatioHigh: stat.Missing,
		P: Num(m.test.P), Tested: m.tested, HighIsGood: highIsGood,
	}
	if m.base != 0 {
		d.Ratio = Num(m.cand / m.base)
	}
	if m.scale == logScale {
		d.RatioLow, d.RatioHigh = Num(math.Exp(m.test.Interval.Low)), Num(math.Exp(m.test.Interval.High))
	} else {
		d.DiffLow, d.DiffHigh = Num(m.test.Interval.Low), Num(m.test.Interval.High)
	}
	d.Worse = d.Diff != 0 && d.Diff.Known() && (d.Diff > 0) != highIsGood
	c.Rows = append(c.Rows, d)
}

// Decide marks what changed beyond chance in comparisons that are shown together: of all their figures
// together, an alarm by chance has the probability [Level] at most.
func Decide(all ...*Comparison) {
	var p []float64
	var rows []*Difference
	var of []*Comparison
	for _, c := range all {
		c.Slower, c.Faster = false, false
		for i := range c.Rows {
			rows, of = append(rows, &c.Rows[i]), append(of, c)
			if c.Rows[i].Tested {
				p = append(p, float64(c.Rows[i].P))
			} else {
				p = append(p, math.NaN())
			}
		}
	}
	for i, changed := range stat.Holm(p, Level) {
		d, c := rows[i], of[i]
		d.Alone, d.Changed = p[i] <= Level, changed
		c.Slower = c.Slower || changed && d.Worse
		c.Faster = c.Faster || changed && !d.Worse
	}
}

// Headline says in a few words what a comparison found.
func (c *Comparison) Headline() string {
	primary := c.PrimaryRow()
	text := "No difference beyond chance"
	switch {
	case !c.Tested:
		text = "A description, not tested"
	case c.Slower && c.Faster:
		text = "MIXED: some figures got worse beyond chance, others better"
	case c.Slower:
		text = "WORSE beyond chance"
	case c.Faster:
		text = "BETTER beyond chance"
	case primary != nil && primary.Alone && primary.Worse:
		text = primary.Title + " is WORSE beyond chance taken alone; nothing is, of all figures together"
	case primary != nil && primary.Alone:
		text = primary.Title + " is BETTER beyond chance taken alone; nothing is, of all figures together"
	}
	invalid := 0
	for _, r := range slices.Concat(c.BaselineRuns, c.CandidateRuns) {
		if r.Grade == schemas.Invalid {
			invalid++
		}
	}
	if invalid > 0 {
		text += fmt.Sprintf(", of runs of which %d of %d are INVALID", invalid, len(c.BaselineRuns)+len(c.CandidateRuns))
	}
	return text
}

// Bad says whether the comparison found a change for the worse.
func (c *Comparison) Bad() bool {
	p := c.PrimaryRow()
	return c.Slower || p != nil && p.Alone && p.Worse
}

// TestedRows counts the figures that were tested.
func (c *Comparison) TestedRows() int {
	n := 0
	for _, d := range c.Rows {
		if d.Tested {
			n++
		}
	}
	return n
}

func join(figure, statistic string) string {
	if statistic == "" {
		return figure
	}
	return figure + "." + statistic
}

func refs(runs []*Run) []RunRef {
	out := make([]RunRef, len(runs))
	for i, r := range runs {
		out[i] = RunRef{r.Label, r.RunID, r.Grade, r.Pair.Repeat, r.Pair.Seed}
	}
	return out
}

// sideName names a side by the labels of its runs.
func sideName(runs []*Run) string {
	var labels []string
	for _, r := range runs {
		if !slices.Contains(labels, r.Label) {
			labels = append(labels, r.Label)
		}
	}
	switch n := len(labels); {
	case n == 1 && len(runs) > 1:
		return fmt.Sprintf("%s (%d runs)", labels[0], len(runs))
	case n == 1:
		return labels[0]
	case n == 2:
		return labels[0] + " and " + labels[1]
	}
	return fmt.Sprintf("%s to %s (%d runs)", labels[0], labels[len(labels)-1], len(runs))
}
