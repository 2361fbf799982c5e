package analyze

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/analyze/compare"
	"parley/analyze/stat"
)

// The simulations run the whole analysis over runs of the queue model, whose truth is known. Their size comes
// from PARLEY_SIMULATE: full is what STATISTICS.md shows (`make simulate` writes its tables), short what
// CI has time for; without it, a handful of runs shows that the machinery works.
type simulationSize struct {
	name        string
	runs        int     // of a coverage
	lengths     []int   // seconds of a run
	truth       float64 // seconds of the run that gives the truth
	comparisons int     // of equal servers
	powers      int     // of a slower one
	windows     int
	slack       float64 // in standard errors of the share that was found, on top of what is accepted
}

func simulation() simulationSize {
	switch os.Getenv("PARLEY_SIMULATE") {
	case "full":
		return simulationSize{"full", 150, []int{60, 300, 600, 1800}, 200_000, 400, 200, 200, 1.65}
	case "short":
		return simulationSize{"short", 60, []int{600}, 60_000, 40, 40, 60, 2.6}
	}
	return simulationSize{"tiny", 4, []int{600}, 3_000, 4, 4, 3, 100}
}

// parallel runs work for 0 to n-1 on all processors.
func parallel(n int, work func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	wg.Wait()
}

// tally counts how often something held.
type tally struct{ hits, of int }

func (c *tally) add(hit bool) {
	c.of++
	if hit {
		c.hits++
	}
}

func (c tally) share() float64 { return float64(c.hits) / float64(c.of) }

func (c tally) String() string {
	if c.of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*c.share())
}

// least and most fail the test if the share is on the wrong side of what is accepted, by more than chance
// explains.
func (c tally) least(t *testing.T, size simulationSize, what string, accepted float64) {
	if c.of > 0 && c.share() < accepted-c.chance(size, accepted) {
		t.Errorf("%s: %d of %d, want at least %.0f %%", what, c.hits, c.of, 100*accepted)
	}
}

func (c tally) most(t *testing.T, size simulationSize, what string, accepted float64) {
	if c.of > 0 && c.share() > accepted+c.chance(size, accepted) {
		t.Errorf("%s: %d of %d, want at most %.1f %%", what, c.hits, c.of, 100*accepted)
	}
}

func (c tally) chance(size simulationSize, accepted float64) float64 {
	return size.slack * math.Sqrt(accepted*(1-accepted)/float64(c.of))
}

// statisticsPage replaces one table of STATISTICS.md, when the full simulation was asked to with -update.
func statisticsPage(t *testing.T, size simulationSize, name string, rows []string) {
	t.Logf("%s (%s)\n%s", name, size.name, strings.Join(rows, "\n"))
	if size.name != "full" || !*update {
		return
	}
	const path = "STATISTICS.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("%s has no table %s", path, name)
	}
	_, after, _ := strings.Cut(rest, end)
	if err := os.WriteFile(path, []byte(before+begin+strings.Join(rows, "\n")+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// loads are the servers and loads that intervals and comparisons are tried on.
var loads = []struct {
	name  string
	model queueModel
	least float64 // coverage accepted of the mean, p50, p90 and throughput
	shown bool    // ten minutes must be enough for these
	power float64 // accepted of five pairs; at the knee less can be had
}{
	{"open, 0.3", plainQueue(0.3), 0.92, true, 0.75},
	{"open, 0.6", plainQueue(0.6), 0.92, true, 0.75},
	{"open, 0.8", plainQueue(0.8), 0.88, false, 0.75},
	{"closed, 0.6", closedQueue(27), 0.92, true, 0.75},
	{"closed, knee", kneeQueue(), 0.88, false, 0.65},
}

var simulationOptions = Options{Figures: []string{"ttft", "tpot", "e2e"}, Percentiles: []float64{50, 90, 99}}

// simulated analyzes one run of the model.
func simulated(t *testing.T, m queueModel, o Options) (*run, *RunResult) {
	runs := m.run().memory(t)
	o = o.withDefaults()
	res, err := analyzeRun(context.Background(), runs.list[0], &o)
	if err != nil {
		t.Error(err)
	}
	return runs.list[0], res
}

// Intervals of one run cover what the server does in the long run, or are withheld.
func TestSimulatedCoverage(t *testing.T) {
	size := simulation()
	rows := []string{
		"| load | run | shown | mean | p50 | p90 | p99 | p99 shown | requests/s | tokens/s | gate on p90 wrongly held | failed | has an upper bound | on p99: held | failed | has one |",
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
	}
	for _, load := range loads {
		truth := load.model.longRun(size.truth)
		for _, seconds := range size.lengths {
			m := load.model
			m.Seconds = float64(seconds)
			var lock sync.Mutex
			var shown, shown99 tally
			var gates [4]tally
			var decided [2]tally
			var covered [6]tally
			parallel(size.runs, func(i int) {
				m := m
				m.Data, m.Seed, m.Noise = uint64(i), uint64(i), uint64(i)
				_, res := simulated(t, m, simulationOptions)
				g := &res.Total
				f := g.Figure("ttft")
				p50, p90, p99 := f.Percentile(50), f.Percentile(90), f.Percentile(99)
				lock.Lock()
				defer lock.Unlock()
				shown.add(f.MeanLow.Known() && p50.Low.Known() && p90.Low.Known() && g.Throughput.RequestsLow.Known() && g.Throughput.CompletionLow.Known())
				shown99.add(p99.Low.Known())
				for at, c := range [...]struct {
					p     *Percentile
					truth float64
				}{{p90, truth.p90}, {p99, truth.p99}} {
					// A gate at the truth: one a hair below fails, one a hair above holds.
					gates[at].add(c.p.Upper.Known() && float64(c.p.Upper) < c.truth)
					gates[at+2].add(c.p.Lower.Known() && float64(c.p.Lower) > c.truth)
					decided[at].add(c.p.Upper.Known())
				}
				for at, c := range [...]struct {
					low, high Num
					truth     float64
				}{
					{f.MeanLow, f.MeanHigh, truth.mean}, {p50.Low, p50.High, truth.p50}, {p90.Low, p90.High, truth.p90}, {p99.Low, p99.High, truth.p99},
					{g.Throughput.RequestsLow, g.Throughput.RequestsHigh, truth.requests}, {g.Throughput.CompletionLow, g.Throughput.CompletionHigh, truth.tokens},
				} {
					if c.low.Known() && c.high.Known() {
						covered[at].add(float64(c.low) <= c.truth && c.truth <= float64(c.high))
					}
				}
			})
			rows = append(rows, fmt.Sprintf("| %s | %d s | %v | %v | %v | %v | %v | %v | %v | %v | %v | %v | %v | %v | %v | %v |",
				load.name, seconds, shown, covered[0], covered[1], covered[2], covered[3], shown99, covered[4], covered[5], gates[0], gates[2], decided[0], gates[1], gates[3], decided[1]))
			what := fmt.Sprintf("%s, %d s: ", load.name, seconds)
			for at, figure := range [...]string{"p90", "p99"} {
				gates[at].most(t, size, what+"gates on "+figure+" at the truth wrongly held", 0.05)
				gates[at+2].most(t, size, what+"gates on "+figure+" at the truth wrongly failed", 0.05)
			}
			if seconds < 600 || shown.share() < 0.1 {
				continue // the few that are shown of a short run stand in the table
			}
			for at, figure := range [...]string{"mean", "p50", "p90", "p99", "requests/s", "tokens/s"} {
				least := load.least
				if figure == "p99" {
					least = 0.88
				}
				if covered[at].of >= size.runs/10 {
					covered[at].least(t, size, what+"coverage of "+figure, least)
				}
			}
			if seconds == 600 && load.shown {
				shown.least(t, size, what+"intervals shown", 0.95)
			}
		}
	}
	statisticsPage(t, size, "coverage", rows)
}

// A window that grows is not steady, and a stable one does not drift.
func TestSimulatedWindows(t *testing.T) {
	size := simulation()
	rows := []string{"| load | run | called steady |", "| --- | --- | --- |"}
	for _, c := range []struct {
		name    string
		model   queueModel
		seconds float64
	}{
		{"open, 0.7", plainQueue(0.7), 120}, {"open, 0.7", plainQueue(0.7), 300}, {"open, 0.7", plainQueue(0.7), 600}, {"closed, knee", kneeQueue(), 300},
		{"open, 1.1 x capacity", plainQueue(1.1), 120}, {"open, 1.1 x capacity", plainQueue(1.1), 300}, {"open, 1.1 x capacity", plainQueue(1.1), 600},
	} {
		var lock sync.Mutex
		var steady tally
		parallel(size.windows, func(i int) {
			m := c.model
			m.Data, m.Seed, m.Noise, m.Seconds, m.Warm = uint64(i), uint64(i), uint64(i), c.seconds, 0
			_, res := simulated(t, m, simulationOptions)
			lock.Lock()
			defer lock.Unlock()
			steady.add(res.Window.Steady)
		})
		rows = append(rows, fmt.Sprintf("| %s | %v s | %v |", c.name, c.seconds, steady))
		what := fmt.Sprintf("%s, %v s: called steady", c.name, c.seconds)
		switch {
		case c.seconds < 300: // in the table only
		case strings.Contains(c.name, "1.1"):
			steady.most(t, size, what, 0.05)
		default:
			steady.least(t, size, what, 0.95)
		}
	}
	statisticsPage(t, size, "windows", rows)
}

// sideOf makes the values of runs that a comparison is about: the arrivals from seeds from first on, the server's
// own chances from noise on.
func sideOf(t *testing.T, m queueModel, first, n int, noise uint64) []compare.Run {
	o := simulationOptions
	o.NoIntervals = true
	o = o.withDefaults()
	var out []compare.Run
	for i := range n {
		m.Seed, m.Noise = uint64(first+i), noise+uint64(first+i)
		r, res := simulated(t, m, o)
		runs := &Runs{list: []*run{r}}
		out = append(out, valuesOf(runs, []RunResult{*res}, runGroup{runs: []int{0}}, &o, true)...)
	}
	return out
}

// alone gives the runs of a side schedules of their own.
func alone(side []compare.Run) []compare.Run {
	for i := range side {
		side[i].Pair.Seed += 1 << 20
	}
	return side
}

// Comparisons of runs of the same server on days of different mood do not alarm more often than they say, and
// find a server that is slower by 5 %.
func TestSimulatedComparisons(t *testing.T) {
	size := simulation()
	rows := []string{
		"| load | A/A, 5 pairs: primary figure | all figures (Holm) | A/A, 5 against 5, no pairs: all figures | 5 % slower, 5 pairs: primary figure | 10 pairs | 5 pairs, any figure (Holm) |",
		"| --- | --- | --- | --- | --- | --- | --- |",
	}
	for at, load := range loads {
		if at%2 == 0 && size.name == "tiny" {
			continue
		}
		m := load.model
		m.Seconds, m.Warm, m.Mood = 60, 30, 0.02
		var lock sync.Mutex
		var alarm, alarmAll, found, foundAll, foundTen, unpaired tally
		parallel(size.comparisons, func(i int) {
			m := m
			m.Data = uint64(i)
			base, same := sideOf(t, m, 16*i, 10, uint64(i)<<16), sideOf(t, m, 16*i, 5, uint64(i)<<16+100)
			decide := func(a, b []compare.Run) (primary, any bool) {
				c := compare.New(slices.Clone(a), slices.Clone(b))
				compare.Decide(c)
				row := c.PrimaryRow()
				return row != nil && row.Alone, c.Slower || c.Faster
			}
			aa, aaAll := decide(base[:5], same)
			_, un := decide(base[5:], alone(same))
			var five, fiveAll, ten bool
			if i < size.powers {
				m.Slower = 1.05
				slower := sideOf(t, m, 16*i, 10, uint64(i)<<16+200)
				five, fiveAll = decide(base[:5], slower[:5])
				ten, _ = decide(base, slower)
			}
			lock.Lock()
			defer lock.Unlock()
			alarm.add(aa)
			alarmAll.add(aaAll)
			unpaired.add(un)
			if i < size.powers {
				found.add(five)
				foundAll.add(fiveAll)
				foundTen.add(ten)
			}
		})
		rows = append(rows, fmt.Sprintf("| %s | %v | %v | %v | %v | %v | %v |", load.name, alarm, alarmAll, unpaired, found, foundTen, foundAll))
		alarm.most(t, size, load.name+": A/A alarms of the primary figure", 0.065)
		alarmAll.most(t, size, load.name+": A/A alarms of all figures", 0.065)
		unpaired.most(t, size, load.name+": A/A alarms of all figures, unpaired", 0.065)
		found.least(t, size, load.name+": 5 % slower, found by five pairs", load.power)
		foundTen.least(t, size, load.name+": 5 % slower, found by ten pairs", 0.95)
	}
	statisticsPage(t, size, "comparisons", rows)
}

// Intervals over repeated runs cover what such runs give.
func TestSimulatedRepeats(t *testing.T) {
	size := simulation()
	rows := []string{"| load | run | ttft.mean | ttft.p50 | ttft.p99 | output_throughput |", "| --- | --- | --- | --- | --- | --- |"}
	for at, load := range loads {
		if size.name != "full" && at%2 == 0 {
			continue
		}
		m := load.model
		m.Seconds, m.Warm, m.Mood = 60, 30, 0.02
		names := []string{"ttft.mean", "ttft.p50", "ttft.p99", "output_throughput"}
		values := make([][]float64, len(names)) // of every run
		groups := size.comparisons
		if size.name == "short" {
			groups = 300 // runs are cheap here, and few groups say little of a share near 1
		}
		n := 5 * groups
		for i := range values {
			values[i] = make([]float64, n)
		}
		parallel(n, func(i int) {
			m := m
			m.Data, m.Seed, m.Noise = 7, uint64(i), uint64(i)
			o := simulationOptions
			o.NoIntervals = true
			_, res := simulated(t, m, o)
			figures := gateFigures(res)
			for k, name := range names {
				values[k][i] = figures[name].Value
			}
		})
		line := fmt.Sprintf("| %s | 60 s ", load.name)
		for k, name := range names {
			logs := make([]float64, n)
			for i, v := range values[k] {
				logs[i] = math.Log(v)
			}
			truth, _ := stat.MeanStd(logs)
			truth = math.Exp(truth)
			var covered tally
			for i := 0; i < n; i += 5 {
				s := spread(load.name, name, values[k][i:i+5])
				covered.add(float64(s.Low) <= truth && truth <= float64(s.High))
			}
			line += fmt.Sprintf("| %v ", covered)
			covered.least(t, size, load.name+": coverage of "+name+" over five runs", 0.93)
		}
		rows = append(rows, line+"|")
	}
	statisticsPage(t, size, "repeats", rows)
}
