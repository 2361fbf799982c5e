package load

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

func take(n int, seq iter.Seq[time.Duration]) []time.Duration {
	var out []time.Duration
	for d := range seq {
		if out = append(out, d); len(out) == n {
			break
		}
	}
	return out
}

func gapsOf(offsets []time.Duration) []float64 {
	gaps := make([]float64, len(offsets))
	prev := time.Duration(0)
	for i, o := range offsets {
		gaps[i] = (o - prev).Seconds()
		prev = o
	}
	return gaps
}

// kolmogorov gives the Kolmogorov-Smirnov distance of a sample from a distribution, allowing each value
// to be off by the nanosecond to which gaps are rounded: a bursty process has many shorter ones.
func kolmogorov(sample []float64, cdf func(float64) float64) float64 {
	sorted := slices.Sorted(slices.Values(sample))
	n := float64(len(sorted))
	d := 0.0
	for i, x := range sorted {
		d = max(d, cdf(x-1e-9)-float64(i)/n, float64(i+1)/n-cdf(x+1e-9))
	}
	return d
}

// dispersion gives the index of dispersion (variance over mean) of the number of arrivals in windows.
func dispersion(offsets []time.Duration, window time.Duration) float64 {
	counts := make([]float64, int(offsets[len(offsets)-1]/window))
	for _, o := range offsets {
		if i := int(o / window); i < len(counts) {
			counts[i]++
		}
	}
	var sum, sq float64
	for _, c := range counts {
		sum += c
	}
	mean := sum / float64(len(counts))
	for _, c := range counts {
		sq += (c - mean) * (c - mean)
	}
	return sq / float64(len(counts)-1) / mean
}

// TestArrivalDistributions holds the random sequences against the distributions that they are named
// after. The bounds are those of a test at the 0.1 % level; the seeds are fixed, so the outcome is too.
func TestArrivalDistributions(t *testing.T) {
	const n = 50_000
	for _, rate := range []float64{0.25, 5, 500} {
		for _, shape := range []float64{0.25, 1, 4} {
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("rate=%g,shape=%g,seed=%d", rate, shape, seed), func(t *testing.T) {
					seq, dist := Gamma(rate, shape, seed), distuv.Gamma{Alpha: shape, Beta: shape * rate}
					if shape == 1 {
						seq = Poisson(rate, seed)
					}
					offsets := take(n, seq)
					gaps := gapsOf(offsets)
					// Rate: the mean of n gaps is normal with the standard error 1/(rate·sqrt(n·shape)).
					mean := offsets[n-1].Seconds() / n
					if z := (mean*rate - 1) * math.Sqrt(n*shape); math.Abs(z) > 3.3 {
						t.Errorf("mean gap %g s at rate %g is %.1f standard errors off", mean, rate, z)
					}
					if d, limit := kolmogorov(gaps, dist.CDF), 1.95/math.Sqrt(n); d > limit {
						t.Errorf("Kolmogorov-Smirnov distance %.5f, limit %.5f", d, limit)
					}
					// Windows of 50 arrivals are long against the gaps, so the index is near its limit 1/shape.
					if i := dispersion(offsets, time.Duration(50/rate*1e9)); math.Abs(i*shape-1) > 0.12 {
						t.Errorf("index of dispersion %.3f, want about %.3f", i, 1/shape)
					}
				})
			}
		}
	}
}

func TestArrivalsAreReproducible(t *testing.T) {
	seq := Poisson(3, 7)
	if a, b := take(1000, seq), take(1000, seq); !slices.Equal(a, b) {
		t.Error("the same sequence gave two schedules")
	}
	if a, b := take(1000, Poisson(3, 7)), take(1000, Poisson(3, 8)); slices.Equal(a, b) {
		t.Error("two seeds gave one schedule")
	}
}

func TestConstantDoesNotDrift(t *testing.T) {
	offsets := take(3_000_001, Constant(3))
	if got := offsets[3_000_000]; got != 1_000_000*time.Second {
		t.Errorf("arrival 3,000,000 at 3 per second is due at %v", got)
	}
	if offsets[0] != 0 {
		t.Errorf("the first is due at %v", offsets[0])
	}
}

func TestRecorded(t *testing.T) {
	s := time.Second
	tests := []struct {
		name    string
		offsets []time.Duration
		speed   float64
		loops   int
		want    []time.Duration
	}{
		{"as it was", []time.Duration{5 * s, 6 * s, 9 * s}, 1, 1, []time.Duration{0, 1 * s, 4 * s}},
		{"twice as fast", []time.Duration{0, 2 * s, 4 * s}, 2, 1, []time.Duration{0, s, 2 * s}},
		{"two passes", []time.Duration{0, s, 4 * s}, 1, 2, []time.Duration{0, s, 4 * s, 6 * s, 7 * s, 10 * s}},
		{"all together", []time.Duration{s, s}, 1, 2, []time.Duration{0, 0, 0, 0}},
		{"one", []time.Duration{s}, 1, 3, []time.Duration{0, s, 2 * s}},
		{"none", nil, 1, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := take(-1, Recorded(tt.offsets, tt.speed, tt.loops)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSpreadAndAtOnce(t *testing.T) {
	if got, want := take(-1, Spread(4, 8*time.Second)), []time.Duration{0, 2e9, 4e9, 6e9}; !slices.Equal(got, want) {
		t.Errorf("Spread: %v, want %v", got, want)
	}
	if got := take(3, AtOnce(-1)); !slices.Equal(got, []time.Duration{0, 0, 0}) {
		t.Errorf("AtOnce: %v", got)
	}
	if got := take(-1, AtOnce(2)); len(got) != 2 {
		t.Errorf("AtOnce(2): %v", got)
	}
}

// TestRamp counts the arrivals of a constant process under a ramp: after t of a ramp over R there must
// have been rate·t²/(2R), and after the ramp the rate is the process's own.
func TestRamp(t *testing.T) {
	const rate = 100.0
	over := 20 * time.Second
	offsets := take(5_000, Ramp(Constant(rate), over))
	if !slices.IsSorted(offsets) {
		t.Fatal("arrivals go back in time")
	}
	count := func(at time.Duration) int {
		n, _ := slices.BinarySearch(offsets, at)
		return n
	}
	for _, at := range []time.Duration{5e9, 10e9, 15e9, 20e9} {
		want := rate * at.Seconds() * at.Seconds() / 2 / over.Seconds()
		if got := count(at); math.Abs(float64(got)-want) > 1.5 {
			t.Errorf("%d arrivals by %v, want %.0f", got, at, want)
		}
	}
	if got := count(40*time.Second) - count(30*time.Second); got < 999 || got > 1001 {
		t.Errorf("%d arrivals in 10 s after the ramp, want 1000", got)
	}
}

// A ramp within the first of several stages: the stage's rate is reached at its end, and the later stages are where
// they were.
func TestStagesWithRamp(t *testing.T) {
	offsets := take(4_000, Staged(Constant, []Stage{{Level: 20, For: 30 * time.Second}, {Level: 50, For: 10 * time.Second}, {Level: 5}}, 20*time.Second))
	for at, want := range map[time.Duration]float64{
		10e9: 50, 20e9: 200, 30e9: 400, 40e9: 900, 60e9: 1000,
	} {
		if n, _ := slices.BinarySearch(offsets, at); math.Abs(float64(n)-want) > 1.5 || !slices.IsSorted(offsets) {
			t.Errorf("%d arrivals by %v, want %.0f", n, at, want)
		}
	}
}

func TestSlowRatesEnd(t *testing.T) {
	// Ten thousand arrivals at one in 10,000 years do not fit a time.Duration: the sequence must end, not wrap.
	for name, seq := range map[string]iter.Seq[time.Duration]{
		"poisson": Poisson(1/3.2e11, 1), "constant": Constant(1 / 3.2e11), "ramp": Ramp(Constant(1e-9), 1<<62),
	} {
		offsets := take(10_000, seq)
		if !slices.IsSorted(offsets) || len(offsets) == 10_000 || (len(offsets) > 0 && offsets[0] < 0) {
			t.Errorf("%s: %d offsets, sorted %v", name, len(offsets), slices.IsSorted(offsets))
		}
	}
}

// The schedule of a seed is the same to the nanosecond on every processor: CI runs this in builds for others too.
func TestSameBits(t *testing.T) {
	poisson := func(rate float64) iter.Seq[time.Duration] { return Poisson(rate, 42) }
	var trace []time.Duration
	for i := range 500 {
		trace = append(trace, time.Duration(i*i)*1234567*time.Nanosecond/7)
	}
	h := sha256.New()
	for _, seq := range []iter.Seq[time.Duration]{
		poisson(3.7), Gamma(3.7, 0.21, 42), Gamma(0.3, 5.5, 42), Constant(7.3), Recorded(trace, 1.7, 0), Ramp(poisson(11), 37*time.Second),
		Staged(poisson, []Stage{{Level: 1.3, For: 17 * time.Second}, {Level: 7.9, For: 3100 * time.Millisecond}, {Level: 0.7, For: time.Hour}}, 0),
	} {
		for _, d := range take(5000, seq) {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(d)))
		}
	}
	const want = "fa7e21bd51f9c6b11b2dd625664988eade8f7221cac7806c0f906d0fdb8d7e40"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
