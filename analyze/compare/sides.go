package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/analyze/stat"
	"parley/schemas"
)

// sides is two groups of runs and what they have in common. If they are paired, base[i] and cand[i] are a
// pair.
type sides struct {
	base, cand []*Run
	paired     bool
	why        string
	alone      []*Run  // runs without a counterpart, where the others are pairs
	groups     [][]int // runs (baseline first) that must have turns in common: each pair, or all of them
	common     [][]int // of each run, where the turns that all of its group have stand in it; nil: none
	cache      map[string]columns
}

// columns is a latency over the turns that count, a slice per run (baseline first).
type columns struct{ turns, sorted [][]float64 }

func newSides(base, cand []Run) *sides {
	s := &sides{cache: map[string]columns{}}
	for i := range base {
		s.base = append(s.base, &base[i])
	}
	for i := range cand {
		s.cand = append(s.cand, &cand[i])
	}
	s.pair()
	s.findCommon()
	return s
}

func (s *sides) tested() bool { return len(s.base) > 1 && len(s.cand) > 1 }

func (s *sides) runs() []*Run { return slices.Concat(s.base, s.cand) }

// pair puts runs that correspond beside each other. Single runs without a counterpart (one failed, say) are
// left out where most have one.
func (s *sides) pair() {
	var a, b, alone []*Run
	left := slices.Clone(s.cand)
	for _, r := range s.base {
		at := slices.IndexFunc(left, func(o *Run) bool { return r.Pair.Dataset != "" && o.Pair == r.Pair })
		if at < 0 {
			alone = append(alone, r)
			continue
		}
		a, b = append(a, r), append(b, left[at])
		left = slices.Delete(left, at, at+1)
	}
	alone = append(alone, left...)
	smaller := min(len(s.base), len(s.cand))
	switch {
	case smaller < 2:
		s.why = fmt.Sprintf("%s against %s: only several runs a side can tell a change from chance", counted(len(s.cand), "run"), counted(len(s.base), "run"))
		s.paired = len(s.base) == 1 && len(s.cand) == 1 && len(a) == 1
	case len(a) > 1 && 2*len(a) > smaller:
		s.base, s.cand, s.paired, s.alone = a, b, true, alone
		s.why = fmt.Sprintf("%s of runs with the same dataset, level, repeat and seed, compared pair by pair", counted(len(a), "pair"))
	default:
		s.why = fmt.Sprintf("%s against %s, not paired: they differ in dataset, level, repeat or seed", counted(len(s.cand), "run"), counted(len(s.base), "run"))
	}
}

// name names a run among those of its label.
func (r *Run) name() string {
	return fmt.Sprintf("%s (repeat %d, seed %d)", r.Label, r.Pair.Repeat, r.Pair.Seed)
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// findCommon finds the turns that completed in the windows of both runs of each pair, or of all runs where
// they are no pairs.
func (s *sides) findCommon() {
	all := s.runs()
	for _, r := range all[1:] {
		if r.Pair.Dataset == "" || r.Pair.Dataset != all[0].Pair.Dataset {
			return // the same name is not the same turn
		}
	}
	if s.paired {
		for i := range s.base {
			s.groups = append(s.groups, []int{i, len(s.base) + i})
		}
	} else {
		s.groups = [][]int{nil}
		for i := range all {
			s.groups[0] = append(s.groups[0], i)
		}
	}
	s.common = make([][]int, len(all))
	for _, group := range s.groups {
		seen := make(map[Turn]int, len(all[group[0]].Turns)) // in how many runs of the group so far
		for n, run := range group {
			for _, t := range all[run].Turns {
				if seen[t] == n {
					seen[t] = n + 1
				}
			}
		}
		order := map[Turn]int{}
		for _, t := range all[group[0]].Turns {
			if _, twice := order[t]; seen[t] == len(group) && !twice {
				order[t] = len(order)
			}
		}
		for _, run := range group {
			s.common[run] = make([]int, len(order))
			for i, t := range all[run].Turns {
				if at, ok := order[t]; ok {
					s.common[run][at] = i
				}
			}
		}
	}
}

// commonTurns gives how many turns each group has in common: of pairs, the one that has fewest.
func (s *sides) commonTurns() int {
	if s.common == nil {
		return 0
	}
	fewest := math.MaxInt
	for _, turns := range s.common {
		fewest = min(fewest, len(turns))
	}
	return fewest
}

func (s *sides) mostTurns() int {
	most := 0
	for _, r := range s.runs() {
		most = max(most, len(r.Turns))
	}
	return most
}

// overCommon says whether latencies are taken over the common turns: not if there are none.
func (s *sides) overCommon() bool { return s.commonTurns() > 0 }

// notes tells what a reader of the comparison must know.
func (s *sides) notes() []string {
	var out []string
	var invalid []string
	suspect := 0
	for _, r := range s.runs() {
		switch r.Grade {
		case schemas.Invalid:
			invalid = append(invalid, r.name())
		case schemas.Suspect:
			suspect++
		}
	}
	if len(invalid) > 0 {
		out = append(out, "INVALID: "+strings.Join(invalid, ", ")+"; what differs may be the client's doing, or that of a server that failed")
	}
	if suspect > 0 {
		out = append(out, fmt.Sprintf("%s of %d SUSPECT: what differs may come from the reasons of the verdicts", counted(suspect, "run"), len(s.runs())))
	}
	for _, r := range s.alone {
		out = append(out, fmt.Sprintf("the run %s has no counterpart on the other side and is left out", r.name()))
	}
	if s.tested() {
		switch n, most := s.commonTurns(), s.mostTurns(); {
		case n == 0:
			out = append(out, "the runs have no turns in common: each is taken with all of its own, and what differs may be the turns")
		case 2*n < most:
			of := "all runs"
			if s.paired {
				of = "a pair of runs"
			}
			out = append(out, fmt.Sprintf("only %d turns are common to %s, of up to %d: latencies are those of the common ones", n, of, most))
		}
	}
	real := slices.ContainsFunc(s.runs(), func(r *Run) bool { return !r.Simulated })
	if real && slices.ContainsFunc(s.runs(), func(r *Run) bool { return r.Simulated }) {
		out = append(out, "some of the runs are against the simulated server, others are not")
	}
	return out
}

// columns gives a latency over the turns that count. Over the common turns the slices of a group
// correspond, and a turn that has no value in one run is left out of all.
func (s *sides) columns(figure string) columns {
	if c, ok := s.cache[figure]; ok {
		return c
	}
	all := s.runs()
	out := make([][]float64, len(all))
	if s.overCommon() {
		for _, group := range s.groups {
			for at := range s.common[group[0]] {
				whole := true
				for _, n := range group {
					v := all[n].Latency[figure]
					whole = whole && len(v) > 0 && !math.IsNaN(v[s.common[n][at]])
				}
				for _, n := range group {
					if whole {
						out[n] = append(out[n], all[n].Latency[figure][s.common[n][at]])
					}
				}
			}
		}
	} else {
		for n, r := range all {
			out[n] = slices.DeleteFunc(slices.Clone(r.Latency[figure]), math.IsNaN)
		}
	}
	c := columns{turns: out, sorted: make([][]float64, len(out))}
	for n := range out {
		c.sorted[n] = stat.Sort(slices.Clone(out[n]), nil)
	}
	s.cache[figure] = c
	return c
}

// scale is how differences of a figure are taken.
type scale int

const (
	logScale   scale = iota // as ratios
	plainScale              // as differences
)

// measurement is a figure on both sides.
type measurement struct {
	base, cand float64 // the sides' means
	scale      scale
	tested     bool
	paired     bool
	test       stat.Test // on the scale: of logarithms or of the values
	spread     float64   // standard deviation of a pair's difference, or pooled of a run's value, for the number of runs it takes
}

// measure works out a figure of both sides and tests its difference. Without several runs a side nothing is
// tested, and the interval is made of the runs' own.
func (s *sides) measure(figure, statistic string, sc scale) measurement {
	m := measurement{scale: sc, paired: s.paired, test: stat.Test{P: math.NaN(), Interval: stat.Unknown}}
	if statistic == turnsStat {
		return s.measureTurns(figure, m)
	}
	var a, b []float64
	for i, r := range s.runs() {
		v := math.NaN()
		if _, ok := r.Latency[figure]; ok && s.tested() {
			v = statistics(s.columns(figure).sorted[i], statistic)
		} else if f, ok := r.Figures[join(figure, statistic)]; ok {
			v = f.Value
		}
		if i < len(s.base) {
			a = append(a, v)
		} else {
			b = append(b, v)
		}
	}
	if sc == logScale && slices.ContainsFunc(slices.Concat(a, b), func(v float64) bool { return v <= 0 }) {
		m.scale = plainScale // a value of 0 has no logarithm
	}
	m.base, m.cand = meanOf(a, m.scale), meanOf(b, m.scale)
	a, b = onScale(a, m.scale), onScale(b, m.scale)
	if !s.tested() {
		m.test.Interval = s.describe(join(figure, statistic), m.scale)
		return m
	}
	if math.IsNaN(m.base) || math.IsNaN(m.cand) {
		return m // a run does not know the figure
	}
	if s.paired {
		m.test = stat.Paired(a, b)
	} else {
		m.test = stat.Welch(a, b)
	}
	m.finish(len(s.base), len(s.cand))
	return m
}

// measureTurns compares turn by turn: the factor by which the same turns are slower, of each pair of runs,
// where enough of them met nobody else over these alone ([stat.Shifts]).
func (s *sides) measureTurns(figure string, m measurement) measurement {
	m.base, m.cand, m.scale = math.NaN(), math.NaN(), logScale
	if !s.paired || !s.overCommon() {
		return m
	}
	pairs := make([][]stat.TurnPair, len(s.base))
	for i, a := range s.base {
		b, va, vb := s.cand[i], a.Latency[figure], s.cand[i].Latency[figure]
		if len(va) == 0 || len(vb) == 0 {
			return m
		}
		for n, at := range s.common[i] {
			to := s.common[len(s.base)+i][n]
			p := stat.TurnPair{A: va[at], B: vb[to]}
			if len(a.Others) > 0 && len(b.Others) > 0 {
				p.Others = a.Others[at] + b.Others[to]
			}
			pairs[i] = append(pairs[i], p)
		}
	}
	shifts, _ := stat.Shifts(pairs)
	mean, _ := stat.MeanStd(shifts)
	if math.IsNaN(mean) {
		return m
	}
	m.base, m.cand = 1, math.Exp(mean)
	if s.tested() {
		m.test = stat.PairedDifferences(shifts)
		m.finish(len(s.base), len(s.cand))
	}
	return m
}

// finish takes differences that are nothing but rounding as none: the throughput of an open loop is that
// of its schedule.
func (m *measurement) finish(base, cand int) {
	const rounding = 1e-12
	m.tested = !math.IsNaN(m.test.P)
	if size := max(1, math.Abs(m.base), math.Abs(m.cand)); m.test.SE < rounding*size && math.Abs(m.test.Diff) < rounding*size {
		m.test.Diff, m.test.SE, m.test.P, m.test.Interval = 0, 0, 1, stat.Interval{}
	}
	n := float64(base)
	if !m.paired {
		n = 1 / (1/float64(base) + 1/float64(cand))
	}
	m.spread = m.test.SE * math.Sqrt(n)
}

// statistics gives a statistic of sorted values: mean, std, min, max or a percentile such as p99. NaN for
// none.
func statistics(sorted []float64, statistic string) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	switch statistic {
	case "mean":
		mean, _ := stat.MeanStd(sorted)
		return mean
	case "std":
		_, std := stat.MeanStd(sorted)
		return std
	case "min":
		return sorted[0]
	case "max":
		return sorted[len(sorted)-1]
	}
	p, ok := percentile(statistic)
	if !ok {
		return math.NaN()
	}
	return stat.Quantile(sorted, p/100)
}

// percentile reads the name of a percentile, in percent.
func percentile(statistic string) (float64, bool) {
	digits, ok := strings.CutPrefix(statistic, "p")
	if !ok || digits == "" || digits[0] < '0' || digits[0] > '9' {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits, 64)
	return p, err == nil && p > 0 && p < 100
}

func onScale(values []float64, sc scale) []float64 {
	if sc == plainScale {
		return values
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

// meanOf gives the mean of values: on the scale of logarithms the geometric one.
func meanOf(values []float64, sc scale) float64 {
	if len(values) == 1 {
		return values[0]
	}
	mean, _ := stat.MeanStd(onScale(values, sc))
	if sc == logScale {
		return math.Exp(mean)
	}
	return mean
}

// describe makes the interval of a difference of two runs from their own intervals: each side's distance
// from its limit, squared and added (Zou and Donner, Statistics in Medicine 27, 2008). It knows nothing of
// how runs vary. Unknown where a side has several runs, or its run was too short for an interval.
func (s *sides) describe(name string, sc scale) stat.Interval {
	if len(s.base) != 1 || len(s.cand) != 1 {
		return stat.Unknown
	}
	a, aOK := s.base[0].Figures[name]
	b, bOK := s.cand[0].Figures[name]
	if !aOK || !bOK {
		return stat.Unknown
	}
	if sc == logScale {
		a, b = a.log(), b.log()
	}
	d := b.Value - a.Value
	return stat.Interval{Low: d - math.Hypot(b.Value-b.Low, a.High-a.Value), High: d + math.Hypot(b.High-b.Value, a.Value-a.Low)}
}

func (f Figure) log() Figure {
	f.Value, f.Low, f.High = math.Log(f.Value), math.Log(f.Low), math.Log(f.High)
	return f
}
