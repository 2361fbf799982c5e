package random

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// The functions agree with the standard library's (and gonum's) to a few units in the last place.
func TestFunctions(t *testing.T) {
	r := Stream(1, "test functions")
	relative := func(name string, x, got, want float64) {
		t.Helper()
		if got != want && !(math.Abs(got-want) <= 1e-15*math.Max(math.Abs(want), 1e-300)) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s(%v) = %v, want %v", name, x, got, want)
		}
	}
	for range 200_000 {
		x := (r.Float64() - 0.5) * 1400
		relative("Exp", x, Exp(x), math.Exp(x))
		y := math.Exp(x / 2)
		relative("Log", y, Log(y), math.Log(y))
		z := math.Exp(-r.Float64() * 40)
		relative("Log1p", z, Log1p(z), math.Log1p(z))
		relative("Log1p", -z, Log1p(-z), math.Log1p(-z))
	}
	for _, x := range []float64{0, 1, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, -1e-320, 709.7, 709.8, -740, -746} {
		relative("Exp", x, Exp(x), math.Exp(x))
		relative("Log", x, Log(x), math.Log(x))
	}
	for e := 1.0; e < 300; e++ {
		p := math.Pow(10, -e)
		if got, want := NormalQuantile(p), mathext.NormalQuantile(p); math.Abs(got/want-1) > 1e-11 {
			t.Errorf("NormalQuantile(%v) = %v, want %v", p, got, want)
		}
	}
	for k := 0.0; k < 200; k++ {
		if want, _ := math.Lgamma(k + 1); math.Abs(logFactorial(k)-want) > 1e-9 {
			t.Errorf("logFactorial(%v) = %v, want %v", k, logFactorial(k), want)
		}
	}
}

// Each distribution is what it says: its sample against the distribution function of gonum, by Kolmogorov's
// distance (for whole numbers, which have steps, an upper bound of it).
func TestDistributions(t *testing.T) {
	const n = 200_000
	// The distance of a true sample exceeds 1.95/sqrt(n) once in a thousand times; seeds are fixed.
	limit := 1.95 / math.Sqrt(n)
	zipf := func(alpha float64) func(float64) float64 {
		zeta, sums := mathext.Zeta(alpha, 1), []float64{0}
		return func(k float64) float64 {
			for len(sums) <= int(k) {
				sums = append(sums, sums[len(sums)-1]+math.Pow(float64(len(sums)), -alpha)/zeta)
			}
			return sums[int(k)]
		}
	}
	for name, c := range map[string]struct {
		draw func(*rand.Rand) float64
		cdf  func(float64) float64
	}{
		"normal":       {Normal, distuv.UnitNormal.CDF},
		"exponential":  {Exponential, distuv.Exponential{Rate: 1}.CDF},
		"gamma 0.1":    {func(r *rand.Rand) float64 { return Gamma(r, 0.1) }, distuv.Gamma{Alpha: 0.1, Beta: 1}.CDF},
		"gamma 1":      {func(r *rand.Rand) float64 { return Gamma(r, 1) }, distuv.Gamma{Alpha: 1, Beta: 1}.CDF},
		"gamma 7.5":    {func(r *rand.Rand) float64 { return Gamma(r, 7.5) }, distuv.Gamma{Alpha: 7.5, Beta: 1}.CDF},
		"poisson 0.3":  {func(r *rand.Rand) float64 { return Poisson(r, 0.3) }, distuv.Poisson{Lambda: 0.3}.CDF},
		"poisson 9":    {func(r *rand.Rand) float64 { return Poisson(r, 9) }, distuv.Poisson{Lambda: 9}.CDF},
		"poisson 12":   {func(r *rand.Rand) float64 { return Poisson(r, 12) }, distuv.Poisson{Lambda: 12}.CDF},
		"poisson 3000": {func(r *rand.Rand) float64 { return Poisson(r, 3000) }, distuv.Poisson{Lambda: 3000}.CDF},
		"zipf 1.8":     {func(r *rand.Rand) float64 { return min(Zipf(r, 1.8), 1e6) }, zipf(1.8)},
		"zipf 3":       {func(r *rand.Rand) float64 { return Zipf(r, 3) }, zipf(3)},
	} {
		r, x := Stream(7, name), make([]float64, n)
		for i := range x {
			x[i] = c.draw(r)
		}
		slices.Sort(x)
		worst := 0.0
		for i, v := range x {
			if i+1 < n && x[i+1] == v || v >= 1e6 {
				continue
			}
			worst = max(worst, math.Abs(c.cdf(v)-float64(i+1)/n))
		}
		if worst > limit {
			t.Errorf("%s: distance %v from its distribution, at most %v", name, worst, limit)
		}
	}
	r, sum := Stream(7, "large"), make([]float64, 10_000)
	for i := range sum {
		sum[i] = Poisson(r, 1e9)
	}
	if mean, sd := stat.MeanStdDev(sum, nil); math.Abs(mean-1e9) > 4*math.Sqrt(1e9/1e4) || math.Abs(sd/math.Sqrt(1e9)-1) > 0.03 {
		t.Errorf("poisson 1e9: mean %v, standard deviation %v", mean, sd)
	}
	if x := Zipf(r, 1.0001); x < 1 || x > 1<<62 {
		t.Errorf("zipf 1.0001: %v", x)
	}
}

// A draw depends on its stream only, not on how many others are drawn: these are the numbers of this
// version, on any machine.
func TestStreamsAreFixed(t *testing.T) {
	r := Stream(7, "turns", 3)
	if a, b := r.Uint64(), r.Uint64(); a != 0x762a68fe526ccc47 || b != 0xd00377d6623c7d38 {
		t.Errorf("stream (7, turns, 3) gives %#x, %#x", a, b)
	}
	seen := map[uint64]bool{}
	for _, purpose := range []string{"a", "b", "ab", ""} {
		for i := range uint64(100) {
			seen[Stream(1, purpose, i).Uint64()] = true
			seen[Stream(1, purpose, i, 0).Uint64()] = true
		}
	}
	if len(seen) != 800 {
		t.Errorf("%d different first numbers of 800 streams", len(seen))
	}
}

// The bits are those of every other processor: CI runs this test in builds for others as well.
func TestSameBits(t *testing.T) {
	h := sha256.New()
	r := Stream(42, "bits", 1, 2)
	for range 20_000 {
		for _, x := range []float64{
			Normal(r), Exponential(r), Gamma(r, 0.25), Gamma(r, 3), Poisson(r, 4), Poisson(r, 400), Zipf(r, 1.5),
			Exp(float64(r.Float64()*1400) - 700), Log(r.Float64()), Log1p(-r.Float64()), NormalQuantile(r.Float64() / (1 << 40)),
		} {
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
	}
	const want = "c737c0cd279c4b82e65b405b27cb8d37e1bb115f1daf4cbd0086098f14bde8c0"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
