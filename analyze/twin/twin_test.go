package twin

import (
	"math"
	"testing"
)

// The parts of a step are what the steps were made of; a part that would be negative is left out.
func TestSolve(t *testing.T) {
	for _, c := range []struct{ make, want [3]float64 }{
		{[3]float64{8, 0.2, 0.06}, [3]float64{8, 0.2, 0.06}},
		{[3]float64{8, 0, 0.06}, [3]float64{8, 0, 0.06}},
		{[3]float64{8, -0.1, 0}, [3]float64{7.22, 0, 0}},
	} {
		var n normal
		for d := 1; d <= 16; d++ {
			for p := range 3 {
				s := step{decoding: d, prompt: float64(100 * p)}
				s.lasted = c.make[0] + c.make[1]*float64(d) + c.make[2]*s.prompt
				n.add(&s, 1)
			}
		}
		for k, v := range n.solve() {
			if math.Abs(v-c.want[k]) > 0.1*math.Abs(c.want[k])+1e-6 {
				t.Errorf("of %v: %v, want %v", c.make, n.solve(), c.want)
				break
			}
		}
	}
}

// Chunks of a step come together, and a request that comes again is in the next one.
func TestSplit(t *testing.T) {
	ms := func(list ...float64) (out []int64) {
		for _, v := range list {
			out = append(out, int64(v*1e6))
		}
		return out
	}
	list := []request{{chunks: ms(100, 110, 120, 150)}, {chunks: ms(110.4, 120.3, 150.2, 160)}, {chunks: ms(150.9, 160.5)}}
	steps := split(list)
	type seen struct {
		decoding, firsts int
		timed            bool
		lasted           float64
	}
	want := []seen{{0, 1, false, 0}, {1, 1, true, 10}, {2, 0, true, 10}, {2, 1, true, 30}, {2, 0, true, 10}}
	if len(steps) != len(want) {
		t.Fatalf("%d steps, want %d", len(steps), len(want))
	}
	for i, s := range steps {
		if got := (seen{s.decoding, len(s.firsts), s.timed, s.lasted}); got != want[i] {
			t.Errorf("step %d: %+v, want %+v", i, got, want[i])
		}
	}
	// A prompt of 700 tokens with a budget of 512 takes two steps: the whole one first.
	list[2].computed, list[2].sent = 700, int64(105e6)
	spread(list, steps, 512)
	if steps[3].prompt != 190 || steps[2].prompt != 510 {
		t.Errorf("spread: %v and %v", steps[2].prompt, steps[3].prompt)
	}
	spread(list, steps, 0)
	if steps[3].prompt != 700 || steps[2].prompt != 0 {
		t.Errorf("without a budget: %v and %v", steps[2].prompt, steps[3].prompt)
	}
}
