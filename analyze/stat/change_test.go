//go:build !race

// One goroutine counts for seconds here: .ci/run has it without the race detector.

package stat

import (
	"math/rand/v2"
	"testing"
)

// Of simulated histories: without a shift, one in twenty has a change at most; with shifts of some series, the share of
// wrong ones among those found is bounded, and those of three standard deviations are found where they are.
func TestSteps(t *testing.T) {
	const histories, figures, nights, shifted = 30, 12, 30, 3
	alarms, found, wrong, near := 0, 0, 0, 0
	for h := range uint64(histories) {
		r := rand.New(rand.NewPCG(h, 5))
		quiet, moved := make([][]float64, figures), make([][]float64, figures)
		at := make([]int, figures)
		for i := range figures {
			at[i] = 8 + r.IntN(nights-16)
			for n := range nights {
				quiet[i] = append(quiet[i], r.NormFloat64())
				v := r.NormFloat64()
				if i < shifted && n >= at[i] {
					v += 3
				}
				moved[i] = append(moved[i], v)
			}
		}
		for _, steps := range Steps(quiet, 0.05, h) {
			if len(steps) > 0 {
				alarms++
				break
			}
		}
		mine, other := 0, 0
		for i, steps := range Steps(moved, 0.05, h) {
			switch {
			case len(steps) > 0 && i < shifted:
				mine++
				if d := steps[0].At - at[i]; d >= -2 && d <= 2 {
					near++
				}
			case len(steps) > 0:
				other++
			}
		}
		found += mine
		wrong += other
	}
	t.Logf("%d of %d histories without a shift alarm; %d of %d shifts found, %d at their place, %d figures wrongly", alarms, histories, found, histories*shifted, near, wrong)
	if alarms > histories*15/100 || found < histories*shifted*95/100 || near < found*85/100 || wrong > (found+wrong)*8/100 {
		t.Error("histories are judged wrongly")
	}
}

// A series that went up and came back has both changes; what is too short has none.
func TestStepsThereAndBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s []float64
	for n := range 45 {
		v := 0.1 * r.NormFloat64()
		if n >= 15 && n < 30 {
			v++
		}
		s = append(s, v)
	}
	got := Steps([][]float64{s, {1, 2, 3, 9, 9}, nil}, 0.05, 1)
	if len(got[0]) != 2 || got[0][0].At != 15 || got[0][1].At != 30 || got[1] != nil || got[2] != nil {
		t.Errorf("%+v", got)
	}
}
