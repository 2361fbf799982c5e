package capacity

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Config is what to search, and how.
type Config struct {
	Objectives []Objective
	Open       bool    // loads are rates, and any number; else conversations at once, and whole
	First      float64 // the load to begin with
	Max        float64 // the largest that can be put on the server
	Limit      float64 // seconds of one run at most
	Warm       float64 // seconds at its begin that do not count
	Resolution float64 // ratio of the interval's ends, less 1
	MaxRuns    int     // after which the search gives up
}

// Defaults of a search.
const (
	DefaultResolution = 0.10
	DefaultRuns       = 60
	// Level is the chance of an interval that misses the capacity; what is spent on single runs' early ends is a part of it.
	Level     = 0.05
	atLeast   = 3   // runs that confirm each side
	priorDF   = 4   // runs that the prior noise counts for
	priorY    = 0.4 // what runs differ by, before any repeat says so: 3 % in load where a percent of load is 0.13 of y
	clearZ    = 3.0 // standard errors of a mean that is said to be on one side when loads contradict each other
	roughness = 0.10
)

// Probe is a run to make.
type Probe struct {
	Load  float64
	Phase string // doubling, above, narrowing, confirming
}

// Run is a run that was made.
type Run struct {
	Probe
	Outcome
}

// Search is the state of a search. All of it follows from its configuration and the runs so far, in order.
type Search struct {
	Config
	Runs []Run
}

// New begins a search.
func New(c Config) *Search {
	if c.Resolution == 0 {
		c.Resolution = DefaultResolution
	}
	if c.MaxRuns == 0 {
		c.MaxRuns = DefaultRuns
	}
	return &Search{Config: c}
}

// Add takes a run that was made.
func (s *Search) Add(p Probe, o Outcome) { s.Runs = append(s.Runs, Run{p, o}) }

// Watch gives what follows the run of a probe.
func (s *Search) Watch(p Probe) *Watch {
	i := float64(len(s.Runs) + 1)
	w := &Watch{
		objectives: s.Objectives, open: s.Open, warm: s.Warm, limit: s.Limit, rough: p.Phase == "doubling" || p.Phase == "above",
		level: Level * 6 / (math.Pi * math.Pi * i * i), next: s.Warm + (s.Limit-s.Warm)/firstAt,
		n: make([][]float64, len(s.Objectives)), sum: make([][]float64, len(s.Objectives)),
	}
	if w.rough {
		w.level = roughness
	}
	return w
}

// noise gives the variance of what runs of one load differ by beyond their own errors, from repeated runs near the
// limit and a prior guess.
func (s *Search) noise() float64 {
	sum, df := priorDF*priorY*priorY, float64(priorDF)
	byLoad := map[float64][]Run{}
	for _, r := range s.Runs {
		if r.Bad == "" {
			r.Y = min(max(r.Y, -2), 4)
			byLoad[r.Load] = append(byLoad[r.Load], r)
		}
	}
	for _, runs := range byLoad {
		var y, inner float64
		for _, r := range runs {
			y += r.Y / float64(len(runs))
			inner += r.SE * r.SE / float64(len(runs))
		}
		for _, r := range runs {
			sum += (r.Y - y) * (r.Y - y)
		}
		sum -= inner * float64(len(runs)-1)
		df += float64(len(runs) - 1)
	}
	return max(sum/df, 0.1*0.1)
}

// df is the degrees of freedom of noise.
func (s *Search) df() float64 {
	df := float64(priorDF)
	seen := map[float64]int{}
	for _, r := range s.Runs {
		if r.Bad == "" {
			if seen[r.Load]++; seen[r.Load] > 1 {
				df++
			}
		}
	}
	return df
}

// points puts runs of one load together, in order of the load.
func (s *Search) points() []point {
	noise := s.noise()
	var out []point
	for _, r := range s.Runs {
		if r.Bad != "" {
			continue
		}
		i := slices.IndexFunc(out, func(p point) bool { return p.load == r.Load })
		if i < 0 {
			i = len(out)
			out = append(out, point{load: r.Load})
		}
		p := &out[i]
		w := 1 / (noise + r.SE*r.SE)
		p.y = (p.y*p.weight + min(max(r.Y, -2), 4)*w) / (p.weight + w)
		p.weight += w
		p.runs++
		if r.Held() {
			p.held++
		}
	}
	for i := range out {
		// The share is looked for on average over moods, and y bends: its square has what runs differ by on top.
		p := &out[i]
		p.y = 2 * (math.Sqrt((1+p.y/2)*(1+p.y/2)+noise/4) - 1)
	}
	slices.SortFunc(out, func(a, b point) int {
		if a.load < b.load {
			return -1
		}
		return 1
	})
	return out
}

// interval gives the places between points at which the limit may be.
func (s *Search) interval(points []point) (low, high int) {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: s.df()}.Quantile(1 - Level/2*0.4)
	low, high = -1, -1
	for cut, worse := range crossings(points) {
		if worse <= t*t {
			if low < 0 {
				low = cut
			}
			high = cut
		}
	}
	return low, high
}

// level gives the nearest load that can be put on, not above the limit of all.
func (s *Search) level(load float64, round func(float64) float64) float64 {
	// Steps of 2 % from the first: repeated runs meet each other.
	const step = 0.02
	if !s.Open {
		if load > 1/step {
			load = math.Exp(round(math.Log(load)/step) * step)
		}
		return min(max(round(load), 1), s.Max)
	}
	k := round(math.Log(load/s.First) / step)
	return min(s.First*math.Exp(k*step), s.Max)
}

// Next gives the run to make next; false: the search is over.
func (s *Search) Next() (Probe, bool) {
	if len(s.Runs) >= s.MaxRuns || s.contradiction() != "" || s.tooManyBad() {
		return Probe{}, false
	}
	points := s.points()
	if len(points) == 0 {
		return Probe{s.First, "doubling"}, true
	}
	last := points[len(points)-1]
	failed := slices.IndexFunc(points, func(p point) bool { return p.y > 0 })
	if failed < 0 { // all held so far
		if last.load >= s.Max {
			return Probe{last.load, "confirming"}, last.runs < atLeast
		}
		return Probe{s.level(last.load*2, math.Round), "doubling"}, true
	}
	if failed == 0 && len(points) == 1 || !slices.ContainsFunc(points, func(p point) bool { return p.y <= 0 }) { // none held
		if lowest := points[0]; lowest.load <= s.least() {
			return Probe{lowest.load, "confirming"}, lowest.runs < atLeast
		}
		return Probe{s.level(points[0].load/2, math.Floor), "doubling"}, true
	}
	// Does a load above the first that failed fail, too?
	if top := s.level(2*points[failed].load, math.Round); last.load < top*0.99 && s.Max >= top && !s.probed("above") {
		return Probe{top, "above"}, true
	}
	at, slope, ok := between(points)
	if !ok {
		if crossings(points)[0] == 0 { // the lowest load is not carried, though it looked so
			return Probe{s.level(points[0].load/1.5, math.Floor), "narrowing"}, points[0].load > s.least()
		}
		return Probe{s.level(last.load*1.5, math.Ceil), "narrowing"}, last.load < s.Max
	}
	i := slices.IndexFunc(points, func(p point) bool { return p.load >= at })
	below, above := points[i-1].load, points[i].load
	if s.wide(below, above) && above/below > 1+2*s.Resolution {
		// A line says more than the middle, unless both ends are far from the limit.
		middle := math.Sqrt(below * above)
		if slope*math.Log(above/below) < 2 {
			middle = min(max(at, below*math.Pow(above/below, 0.2)), above*math.Pow(below/above, 0.2))
		}
		next := s.level(middle, math.Round)
		if next > below && next < above {
			return Probe{next, "narrowing"}, true
		}
	}
	return s.confirm(points, at)
}

// wide says whether loads are farther apart than the resolution asks for.
func (s *Search) wide(low, high float64) bool {
	if !s.Open {
		return high-1-low > max(1, low*s.Resolution)
	}
	return high/low > 1+s.Resolution
}

// confirm repeats runs on both sides of the limit until the interval is narrow.
func (s *Search) confirm(points []point, at float64) (Probe, bool) {
	from, to := s.interval(points)
	if from > 0 && to < len(points) && to >= 0 && !s.wide(points[from-1].load, points[to].load) {
		l, h := points[from-1], points[to]
		switch {
		case l.runs < atLeast && (l.runs <= h.runs || h.runs >= atLeast):
			return Probe{l.load, "confirming"}, true
		case h.runs < atLeast:
			return Probe{h.load, "confirming"}, true
		}
		return Probe{}, false
	}
	low, high := s.pair(points, at)
	z := func(load float64) float64 {
		for _, p := range points {
			if p.load == load {
				return math.Abs(p.y) * math.Sqrt(p.weight)
			}
		}
		return 0
	}
	if low >= 1 && z(low) <= z(high) || s.Open && z(low) <= z(high) {
		return Probe{low, "confirming"}, true
	}
	return Probe{high, "confirming"}, true
}

// pair gives the loads on both sides of where the limit seems to be that together are as narrow as is asked for: those
// that were run most, if they leave room on both sides.
func (s *Search) pair(points []point, at float64) (low, high float64) {
	half := math.Sqrt(1 + s.Resolution*0.95)
	low, high = s.level(at/half, math.Round), s.level(at*half, math.Round)
	if !s.Open {
		low, high = min(low, math.Ceil(at)-1), max(high, math.Floor(at)+1)
		for s.wide(low, high) {
			if at-low > high-at {
				low++
			} else {
				high--
			}
		}
	}
	best := 0.0
	try := func(l, h, weight float64) {
		room := s.Resolution * 0.25
		fits := s.Open && math.Log(at/l) > room && math.Log(h/at) > room || !s.Open && l < at && h > at && min(math.Log(at/l), math.Log(h/at)) > min(room, 0.4/at)
		if fits && !s.wide(l, h) && weight > best {
			low, high, best = l, h, weight
		}
	}
	for _, a := range points {
		for _, b := range points {
			try(a.load, b.load, a.weight+b.weight)
		}
		try(a.load, high, a.weight)
		try(low, a.load, a.weight)
	}
	return low, high
}

// least is the smallest load that is tried.
func (s *Search) least() float64 {
	if s.Open {
		return s.First / 50
	}
	return 1
}

func (s *Search) probed(phase string) bool {
	return slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Phase == phase })
}

func (s *Search) tooManyBad() bool {
	n := 0
	for _, r := range s.Runs {
		if r.Bad != "" {
			n++
		}
	}
	return n > 2 && n > len(s.Runs)/3
}

// contradiction says that a load clearly holds that is above one that clearly fails, in words.
func (s *Search) contradiction() string {
	points := s.points()
	for i, a := range points {
		if a.y*math.Sqrt(a.weight) < clearZ {
			continue
		}
		for _, b := range points[i+1:] {
			if b.y*math.Sqrt(b.weight) < -clearZ {
				return fmt.Sprintf("%s holds the objectives, and %s does not: the server does not get slower with its load alone", s.show(b.load), s.show(a.load))
			}
		}
	}
	return ""
}

func (s *Search) show(load float64) string { return fmt.Sprintf("%.4g", load) }

// Side is a load on one side of the limit, and how its runs went.
type Side struct {
	Load float64 `json:"load"`
	Runs int     `json:"runs"`
	Held int     `json:"held"` // of them
}

// Answer is what a search came to.
type Answer struct {
	Resolved bool    `json:"resolved"`
	Capacity float64 `json:"capacity"` // the best guess; 0 if there is none
	Low      float64 `json:"low"`      // the capacity is at least this, and
	High     float64 `json:"high"`     // at most this, with 95 % confidence; 0: not known
	Binds    string  `json:"binds,omitempty"`
	Cliff    bool    `json:"cliff"` // just above, the objective is missed by far
	Held     *Side   `json:"held,omitempty"`
	Failed   *Side   `json:"failed,omitempty"`
	Runs     int     `json:"runs"`
	Seconds  float64 `json:"seconds"`           // under load
	Missing  string  `json:"missing,omitempty"` // of an unresolved search: why, and what would resolve it
}

// cliffY is the y that is far from the limit.
const cliffY = 1.5

// Answer tells what the runs say so far.
func (s *Search) Answer() Answer {
	a := Answer{Runs: len(s.Runs)}
	for _, r := range s.Runs {
		a.Seconds += r.Seconds
	}
	points := s.points()
	if s.tooManyBad() {
		for _, r := range s.Runs {
			if r.Bad != "" {
				a.Missing = "too many runs say nothing: " + r.Bad
			}
		}
		return a
	}
	if a.Missing = s.contradiction(); a.Missing != "" {
		return a
	}
	if len(points) == 0 {
		a.Missing = "no run was made"
		return a
	}
	from, to := s.interval(points)
	if from > 0 {
		l := points[from-1]
		a.Low, a.Held = l.load, &Side{l.load, l.runs, l.held}
	}
	if to >= 0 && to < len(points) {
		h := points[to]
		a.High, a.Failed = h.load, &Side{h.load, h.runs, h.held}
		if !s.Open {
			a.High--
		}
		for _, r := range s.Runs {
			if r.Load == h.load && !r.Held() {
				a.Binds = s.Objectives[r.Objective].Text
				if r.Rising {
					a.Binds = "requests in flight that rise"
				}
			}
		}
		a.Cliff = h.y > cliffY
	}
	if load, _, ok := between(points); ok {
		if a.Capacity = load; !s.Open {
			a.Capacity = math.Floor(load)
		}
		a.Capacity = min(max(a.Capacity, a.Low), max(a.High, a.Low))
	}
	switch last := points[len(points)-1]; {
	case a.Held == nil && a.Failed != nil && points[0].y > 0 && points[0].load <= s.least():
		a.Missing = fmt.Sprintf("the objectives fail at %s, the smallest load: they need other limits, or a faster server", s.show(points[0].load))
	case a.Failed == nil && last.load >= s.Max:
		a.Missing = fmt.Sprintf("the objectives hold at %s, the largest load that can be put on: give more conversations", s.show(last.load))
	case a.Held == nil || a.Failed == nil || s.wide(a.Held.Load, a.Failed.Load):
		a.Missing = fmt.Sprintf("after %d runs the limit is not known to %.3g %%: runs of the same load differ by much; longer runs (--duration), or a quieter server", len(s.Runs), s.Resolution*100)
	case a.Held.Runs < atLeast || a.Failed.Runs < atLeast || a.Held.Held*2 < a.Held.Runs || a.Failed.Held*2 > a.Failed.Runs:
		a.Missing = fmt.Sprintf("%d of %d runs held at %s, and %d of %d at %s: more runs", a.Held.Held, a.Held.Runs, s.show(a.Held.Load), a.Failed.Held, a.Failed.Runs, s.show(a.Failed.Load))
	default:
		a.Resolved = true
	}
	return a
}
