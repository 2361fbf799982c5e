// Package random has the random numbers of datasets and schedules: streams of them by seed and purpose, and
// the distributions that are drawn from them.
//
// All of it comes out the same, to the last bit, on every processor. The standard library does not promise
// that: math.Exp and math.Log are assembly on some processors and choose fused instructions on others as the
// program runs, and so do rand.NormFloat64, rand.ExpFloat64 and rand.Zipf, which call them. And a compiler may
// fuse x*y + z into one instruction that rounds once (it does for arm64 and for GOAMD64=v3), but not across an
// explicit conversion. So every product here that is added to something stands in a float64(...), and so it
// must in code that uses this package and whose results are kept. What needs no such care is exact
// everywhere by IEEE 754: one operation by itself, math.Sqrt, math.Floor and its like, math.Frexp.
package random

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Stream gives the random numbers for one purpose: a PCG generator seeded with the first 16 bytes of the
// SHA-256 of (seed, purpose, index...). Every random decision takes its numbers from such a stream, with a
// purpose of its own and the number of the conversation (and of the turn) as its index, so that
//
//   - the same seed gives the same dataset and the same schedule, whatever the number of workers or shards;
//   - a new feature draws from a new purpose and reshuffles nothing;
//   - conversation 17 is the same conversation in a dataset of 100 and in one of 10,000.
func Stream(seed uint64, purpose string, index ...uint64) *rand.Rand {
	b := make([]byte, 0, 96)
	b = append(b, "parley stream 1\x00"...)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(purpose)))
	b = append(b, purpose...)
	for _, i := range index {
		b = binary.LittleEndian.AppendUint64(b, i)
	}
	sum := sha256.Sum256(b)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[0:]), binary.LittleEndian.Uint64(sum[8:])))
}

// Normal draws from the standard normal distribution.
func Normal(r *rand.Rand) float64 { return NormalQuantile(open(r)) }

// Exponential draws from the exponential distribution of mean 1.
func Exponential(r *rand.Rand) float64 { return -Log(open(r)) }

// open gives a number from the middle of one of 2^53 equal parts of (0, 1), so that it is neither 0 nor 1.
func open(r *rand.Rand) float64 { return (float64(r.Uint64()>>12) + 0.5) / (1 << 52) }

// Gamma draws from the gamma distribution of this shape (greater than 0) and scale 1, whose mean is the shape.
// The method is that of Marsaglia and Tsang, A simple method for generating gamma variables (2000); for
// shapes below 1 with their note 6: a draw of shape+1 times U^(1/shape).
func Gamma(r *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = Exp(Log(open(r)) / shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := Normal(r)
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = v * v * v
		if Log(open(r)) < float64(0.5*x*x)+d-float64(d*v)+float64(d*Log(v)) {
			return boost * d * v
		}
	}
}

// Poisson draws from the Poisson distribution of this mean, from 0 to 1e9. Small means are drawn by
// multiplying uniform numbers (Knuth), others by Hörmann, The transformed rejection method for generating
// Poisson random variables (1993), algorithm PTRS.
func Poisson(r *rand.Rand, mean float64) float64 {
	if mean < 10 {
		limit, k := Exp(-mean), 0.0
		for p := open(r); p > limit; p *= open(r) {
			k++
		}
		return k
	}
	logMean := Log(mean)
	b := 0.931 + float64(2.53*math.Sqrt(mean))
	a := -0.059 + float64(0.02483*b)
	invAlpha := 1.1239 + 1.1328/(b-3.4)
	vr := 0.9277 - 3.6224/(b-2)
	for {
		u, v := open(r)-0.5, open(r)
		us := 0.5 - math.Abs(u)
		k := math.Floor(float64((2*a/us+b)*u) + mean + 0.43)
		if us >= 0.07 && v <= vr {
			return k
		}
		if k < 0 || us < 0.013 && v > us {
			continue
		}
		if Log(v*invAlpha/(a/(us*us)+b)) <= float64(k*logMean)-mean-logFactorial(k) {
			return k
		}
	}
}

// logFactorial gives ln k! by Stirling's series, whose error from 10 on is below 1e-10.
func logFactorial(k float64) float64 {
	if k < 10 {
		p := 1.0
		for i := 2.0; i <= k; i++ {
			p *= i
		}
		return Log(p)
	}
	const halfLog2Pi = 0.91893853320467274178
	k2 := k * k
	return float64((k+0.5)*Log(k)) - k + halfLog2Pi + (1.0/12-(1.0/360-1/(1260*k2))/k2)/k
}

// Zipf draws 1, 2, 3, ... with probabilities in proportion to k^-alpha, alpha greater than 1; nothing is
// drawn beyond 2^62. The method is rejection from a Pareto distribution (Devroye, Non-Uniform Random Variate
// Generation, 1986, page 551).
func Zipf(r *rand.Rand, alpha float64) float64 {
	b := Exp((alpha - 1) * math.Ln2)
	for {
		x := math.Floor(math.Min(Exp(-Log(open(r))/(alpha-1)), 1<<62))
		t, slope := 1.0, alpha-1 // slope is x*(t-1), in its limit for large x
		if x < 1<<40 {
			t = Exp((alpha - 1) * Log1p(1/x))
			slope = x * (t - 1)
		}
		if open(r)*slope*b <= t*(b-1) {
			return x
		}
	}
}
