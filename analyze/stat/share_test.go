package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Independent outcomes count each; those of a server that failed for a while count for few; of equal ones
// nothing can be seen.
func TestEffectiveTrials(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 2000
	outcomes := func(yes func(i int) bool) Sample {
		var in Sample
		for i := range n {
			v := 0.0
			if yes(i) {
				v = 1
			}
			in.Values = append(in.Values, v)
			in.Moments = append(in.Moments, int64(i))
			in.Cluster = append(in.Cluster, int32(r.IntN(400)))
		}
		return in
	}
	w := Window{To: n, Tau: math.NaN()}
	if got := EffectiveTrials(outcomes(func(int) bool { return false }), w); got != n {
		t.Errorf("none: %v", got)
	}
	if got := EffectiveTrials(outcomes(func(int) bool { return r.IntN(10) == 0 }), w); got < n/4 {
		t.Errorf("independent: %v of %d", got, n)
	}
	if got := EffectiveTrials(outcomes(func(i int) bool { return i >= 500 && i < 700 }), w); got > 40 {
		t.Errorf("a tenth of the time: %v of %d", got, n)
	}
	whole := outcomes(func(int) bool { return false })
	for i, c := range whole.Cluster {
		if c%10 == 0 {
			whole.Values[i] = 1
		}
	}
	if got := EffectiveTrials(whole, w); got > 500 || got < 200 {
		t.Errorf("whole conversations: %v of 400", got)
	}
}
