package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// What a sample says of a percentile of what it was drawn from is decided by how many of its values lie
// beyond it, whatever their distribution: of n independent values, the number at or below the true
// q-quantile is binomial (n, q). So the k-th smallest value lies above the quantile with the probability
// P(Binomial(n, q) <= k-1), which the incomplete beta function gives for any real n and k. Values of a
// run are dependent; n is their effective number ([Effective]), and order statistics are spread over it.
// The bounds are those of Thompson (Annals of Mathematical Statistics 7, 1936) and of Clopper and Pearson.

// Confidence of one-sided bounds, and nominal coverage of two-sided intervals.
const Confidence = 0.95

// ShortConfidence is that of one-sided bounds where the window has fewer than [LongTausOuter] relaxation times: a run
// that happens to miss the server's slow moments looks calmer than it is, and one that meets them worse. At 95 %
// up to one in eight such bounds was wrong, at this level at most one in twenty (STATISTICS.md).
const ShortConfidence = 0.99

// Needs gives how many independent values it takes to bound the q-quantile (0 to 1) on its outer side; with 95 %
// confidence 5 for the median, 29 for p90, 59 for p95, 299 for p99, 2,995 for p99.9. It is the smallest n whose
// largest value lies above the quantile with that confidence, q^n <= 1 - confidence (Wilks, 1941).
func Needs(q, confidence float64) int64 {
	q = max(q, 1-q)
	if q >= 1 {
		return math.MaxInt64
	}
	return int64(math.Ceil(math.Log(1-confidence) / math.Log(q)))
}

// Carries says whether so many independent values bound the q-quantile on its outer side with 95 % confidence.
func Carries(q, effective float64) bool {
	q = max(q, 1-q)
	return q < 1 && effective*math.Log(q) <= math.Log(1-Confidence)*(1-1e-12)
}

// UpperShare gives the share of a sample of n independent values below which its q-quantile lies with the
// confidence given: k/n with the smallest k for which P(Binomial(n, q) <= k-1) reaches it. NaN if not
// even all of the sample do.
func UpperShare(q, n, confidence float64) float64 {
	at := func(k float64) float64 { return mathext.RegIncBeta(n-k+1, k, 1-q) }
	if !(n > 0) || at(n) < confidence-1e-12 {
		return math.NaN()
	}
	low, high := bracket(n, q, distuv.UnitNormal.Quantile(confidence))
	if !(low > 0) || at(low) >= confidence {
		low = 0
	}
	if high > n || at(high) < confidence {
		high = n
	}
	for high-low > 1e-6 {
		if mid := (low + high) / 2; at(mid) >= confidence {
			high = mid
		} else {
			low = mid
		}
	}
	return high / n
}

// LowerShare gives the share of a sample of n independent values above which its q-quantile lies with the
// confidence given: k/n with the largest k for which P(Binomial(n, q) >= k) reaches it. NaN if k would
// be less than one value.
func LowerShare(q, n, confidence float64) float64 {
	at := func(k float64) float64 { return mathext.RegIncBeta(k, n-k+1, q) }
	if !(n >= 1) || at(1) < confidence {
		return math.NaN()
	}
	low, high := bracket(n, q, -distuv.UnitNormal.Quantile(confidence))
	if low < 1 || at(low) < confidence {
		low = 1
	}
	if high > n || at(high) >= confidence {
		if high = n; at(high) >= confidence {
			return 1
		}
	}
	for high-low > 1e-6 {
		if mid := (low + high) / 2; at(mid) >= confidence {
			low = mid
		} else {
			high = mid
		}
	}
	return low / n
}

// bracket brackets a one-sided bound of how many of n values lie below their q-quantile, by the normal
// approximation: most bounds lie in it, which saves most of the search.
func bracket(n, q, z float64) (low, high float64) {
	at := n*q + z*math.Sqrt(n*q*(1-q))
	return at - 1.5, at + 1.5
}
