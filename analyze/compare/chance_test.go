package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"parley/schemas"
)

// chanceSide makes runs of 60 turns of one dataset. Each run has a mood, which all of its turns share: that is what
// makes a run one observation, however many turns it has.
func chanceSide(rng *rand.Rand, data []float64, n int, factor, mood float64) []Run {
	var out []Run
	for i := range n {
		m := factor * math.Exp(mood*rng.NormFloat64())
		r := Run{Label: "r", Grade: schemas.Valid, Pair: Pair{Dataset: "d", Repeat: i}, Latency: map[string][]float64{}, Figures: map[string]Figure{}}
		for t, d := range data {
			r.Turns = append(r.Turns, Turn{fmt.Sprint(t), 0, 0})
			r.Latency["ttft"] = append(r.Latency["ttft"], d*m*math.Exp(0.2*rng.NormFloat64()))
		}
		r.Figures["request_throughput"] = Value(10 / m)
		out = append(out, r)
	}
	return out
}

// At a true change that is exactly a gate's bound, the gate is held, or failed, by chance in one of twenty at
// most; a gate well on one side is decided; and equal servers are called different in one of twenty comparisons
// at most, for the figure looked at first and for all figures together. Pairs or not.
func TestChance(t *testing.T) {
	sims := 400
	if testing.Short() {
		sims = 100
	}
	allowed := func(share float64) int { // with three standard deviations of the simulation itself
		return int(math.Ceil(float64(sims)*share + 3*math.Sqrt(float64(sims)*share*(1-share))))
	}
	for _, paired := range []bool{true, false} {
		t.Run(fmt.Sprintf("paired %v", paired), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			counts := map[string]int{}
			for range sims {
				data := make([]float64, 60)
				for i := range data {
					data[i] = 100 * math.Exp(0.8*rng.NormFloat64())
				}
				make2 := func(factor float64) ([]Run, *Comparison) {
					base, cand := chanceSide(rng, data, 5, 1, 0.02), chanceSide(rng, data, 5, factor, 0.02)
					if !paired {
						for i := range cand {
							cand[i].Pair.Seed = 1
						}
					}
					return cand, New(base, cand)
				}
				check := func(name, text string, cand []Run, c *Comparison) {
					g := gate(t, text)
					counts[name+" "+string(g.Check(cand, c).Outcome)]++
				}
				_, equal := make2(1)
				if equal.Slower || equal.Faster {
					counts["all figures"]++
				}
				if p := equal.PrimaryRow(); p.Alone {
					counts["primary"]++
				}
				cand, c := make2(1.05)
				for _, stat := range []string{"mean", "p90"} {
					check("ttft at the bound", "ttft."+stat+" < +5%", cand, c)
				}
				check("throughput at the bound", "request_throughput > -4.7619047619%", cand, c)
				check("absolute at the bound", "request_throughput > 9.52380952381", cand, nil)
				if cand, c = make2(1); true {
					check("well below", "ttft.mean < +15%", cand, c)
				}
				cand, c = make2(1.3)
				check("well above", "ttft.mean < +10%", cand, c)
			}
			t.Logf("of %d: %v", sims, counts)
			for name, most := range map[string]int{
				"all figures": allowed(0.05), "primary": allowed(0.05),
				"ttft at the bound held": 2 * allowed(0.05), "ttft at the bound failed": 2 * allowed(0.05),
				"throughput at the bound held": allowed(0.05), "throughput at the bound failed": allowed(0.05),
				"absolute at the bound held": allowed(0.05), "absolute at the bound failed": allowed(0.05),
				"well below failed": 0, "well above held": 0,
			} {
				if counts[name] > most {
					t.Errorf("%s: %d of %d, want at most %d", name, counts[name], sims, most)
				}
			}
			for _, name := range []string{"well below held", "well above failed"} {
				if counts[name] < sims*9/10 {
					t.Errorf("%s: %d of %d", name, counts[name], sims)
				}
			}
		})
	}
}
