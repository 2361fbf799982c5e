package analyze

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley/analyze/capacity"
	"parley/schemas"
)

// planOf makes the runs of a plan from what each gave: output tokens per second, and per second and user. The runs are
// handed over in the wrong order.
func planOf(t *testing.T, o Options, levels map[string][][2]float64) (*Result, *Plan) {
	t.Helper()
	runs, res := &Runs{}, &Result{}
	for name, values := range levels {
		level, side, _ := strings.Cut(name, " ")
		for repeat := range values {
			runs.list = append(runs.list, &run{label: fmt.Sprint(name, repeat), meta: schemas.RunMeta{
				Label: name, Place: schemas.Place{Plan: "p", Level: level, Side: side, Repeat: repeat}, Seed: uint64(repeat),
			}, parts: []*part{{path: "nowhere/x.parquet"}}})
		}
	}
	runs.sortPlan()
	for _, r := range runs.list {
		v := levels[r.meta.Label][r.meta.Repeat]
		rr := RunResult{Label: r.label, Verdict: schemas.Verdict{Grade: schemas.Valid}}
		rr.Total.Throughput.CompletionTokens, rr.Total.Throughput.TokensPerUser = Num(v[0]), Num(v[1])
		res.Runs = append(res.Runs, rr)
	}
	o.Baseline = &Runs{} // there are no turns here to compare
	plans(res, runs, &o)
	if len(res.Plans) != 1 {
		t.Fatalf("%d plans", len(res.Plans))
	}
	return res, &res.Plans[0]
}

func repeated(throughput, user float64) (out [][2]float64) {
	for _, f := range []float64{0.99, 1, 1.01} {
		out = append(out, [2]float64{throughput * f, user * f})
	}
	return out
}

// Levels stand in numeric order with intervals over their repeats, and the front has only what the repeats decide.
func TestPlanLevels(t *testing.T) {
	_, p := planOf(t, Options{GPUs: 2}, map[string][][2]float64{
		"concurrency=2":  repeated(100, 50),
		"concurrency=16": repeated(400, 20),
		"concurrency=4":  repeated(200, 40),
		"concurrency=32": repeated(300, 10), // worse than 16 in both
		"concurrency=64": repeated(398, 20), // noise decides between it and 16
		"concurrency=8":  repeated(350, 30),
	})
	var got []string
	for _, l := range p.Levels {
		got = append(got, fmt.Sprintf("%g %s", l.Load, l.Front))
	}
	if want := "2 on, 4 on, 8 on, 16 perhaps, 32 off, 64 perhaps"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	f := p.Levels[0].Figure("output_throughput")
	// Three values a percent apart: t(2) 4.30 x 1 % / sqrt 3.
	if f == nil || f.Runs != 3 || math.Abs(math.Log(float64(f.High/f.Mean))-0.0248) > 2e-4 || p.Levels[0].Figure("output_per_gpu").Mean != f.Mean/2 {
		t.Errorf("%+v", f)
	}
	// 100, 200 and 350 grow with the load, 350 to 400 does not.
	if len(p.Knees) != 1 || p.Knees[0].Load != 8 || p.Knees[0].Next != 16 || math.Abs(float64(p.Knees[0].Gain)-math.Log(400.0/350)/math.Log(2)) > 1e-3 {
		t.Errorf("knees %+v", p.Knees)
	}
}

// One run of a level decides nothing, of itself and of others.
func TestPlanOfSingleRuns(t *testing.T) {
	_, p := planOf(t, Options{}, map[string][][2]float64{"rate=0.5": {{100, 50}}, "rate=10": {{400, 20}}})
	for _, l := range p.Levels {
		if l.Front != MaybeOn || l.Figure("output_throughput").Low.Known() {
			t.Errorf("%+v", l)
		}
	}
	if p.Levels[0].Load != 0.5 || p.Load != "rate" || p.Knees[0].High.Known() {
		t.Errorf("%+v", p)
	}
}

// Levels that are all the same, but for noise, are never said to be on the front or off it in more than 5 % of plans.
func TestPlanFrontIsNoNoise(t *testing.T) {
	wrong, trials := 0, 400
	for seed := range trials {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		levels := map[string][][2]float64{}
		for _, n := range []string{"concurrency=1", "concurrency=2", "concurrency=3", "concurrency=4"} {
			for range 4 {
				levels[n] = append(levels[n], [2]float64{100 * math.Exp(0.03*r.NormFloat64()), 20 * math.Exp(0.03*r.NormFloat64())})
			}
		}
		_, p := planOf(t, Options{}, levels)
		if slices.ContainsFunc(p.Levels, func(l Level) bool { return l.Front != MaybeOn }) {
			wrong++
		}
	}
	if wrong > trials*8/100 {
		t.Errorf("%d of %d plans of equal levels have one that is on the front or off it", wrong, trials)
	}
}

func TestPlanSays(t *testing.T) {
	res, p := planOf(t, Options{}, map[string][][2]float64{"concurrency=40": repeated(400, 20), "concurrency=45": repeated(400, 20)})
	p.Search = &Search{Objectives: []string{"ttft.p95<300ms"}}
	if got := p.Say(res); len(got) != 1 || !strings.Contains(got[0], "goes on") {
		t.Errorf("%q", got)
	}
	p.Levels[1].Figures = append(p.Levels[1].Figures, Spread{Name: "ttft.p95", Mean: 3100})
	p.Search.Answer = &capacity.Answer{
		Resolved: true, Capacity: 42, Low: 40, High: 44, Binds: "ttft.p95<300ms", Cliff: true,
		Held: &capacity.Side{Load: 40, Runs: 3, Held: 3}, Failed: &capacity.Side{Load: 45, Runs: 4, Held: 1}, Runs: 15, Seconds: 108,
	}
	want := "42 conversations at once (95 %: 40 to 44), bound by ttft.p95<300ms; a cliff: at 45 it is 3.1 s\n" +
		"confirmed: 40 held in 3 of 3 runs, 45 failed in 3 of 4\n15 runs, 108 s under load"
	if got := strings.Join(p.Say(res), "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	p.Search.Answer = &capacity.Answer{Missing: "more time", Low: 30}
	if got := strings.Join(p.Say(res), "\n"); got != "UNRESOLVED: more time\nat least 30 conversations at once (95 %)" {
		t.Error(got)
	}
}
