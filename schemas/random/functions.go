package random

import "math"

// Exp gives e^x within two units in the last place: x = k ln 2 + f with |f| <= ln 2 / 2, and the power
// series of e^f.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x), x > 709.782712893384: // the logarithm of the greatest number
		return x * math.Inf(1)
	case x < -745.2: // below the logarithm of half the least number
		return 0
	}
	// ln 2 in two parts; the first has so many zeros at its end that k times it is exact.
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	k := math.Floor(x/math.Ln2 + 0.5)
	f := (x - float64(k*high)) - float64(k*low)
	sum := 1.0
	for n := 14.0; n >= 1; n-- {
		sum = 1 + float64(f*sum)/n
	}
	return math.Ldexp(sum, int(k))
}

// Log gives the natural logarithm of a positive x within two units in the last place: x = m 2^k with m
// between the square root of 1/2 and that of 2, and the series of 2 artanh((m-1)/(m+1)) = ln m.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x), math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, k = 2*m, k-1
	}
	s := (m - 1) / (m + 1)
	z := s * s
	sum := 0.0
	for n := 23.0; n >= 3; n -= 2 {
		sum = float64(z * (sum + 1/n))
	}
	return float64(float64(k)*math.Ln2) + (2*s + float64(2*s*sum))
}

// Log1p gives the logarithm of 1+x, exact also for the smallest x (Kahan's correction).
func Log1p(x float64) float64 {
	y := 1 + x
	if y == 1 {
		return x
	}
	return Log(y) * x / (y - 1)
}

// NormalQuantile gives the number below which a standard normal variable is with probability p, from 0 to 1
// (both excluded): Wichura, Algorithm AS 241 (1988), whose relative error is about 1e-16.
func NormalQuantile(p float64) float64 {
	q := p - 0.5
	if math.Abs(q) <= 0.425 {
		x := 0.180625 - float64(q*q)
		return q * horner(x, 3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
			4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3) /
			horner(x, 1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
				2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3)
	}
	x := math.Sqrt(-Log(math.Min(p, 1-p)))
	if x <= 5 {
		x -= 1.6
		x = horner(x, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
			1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4) /
			horner(x, 1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
				1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9)
	} else {
		x -= 5
		x = horner(x, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
			2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7) /
			horner(x, 1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
				7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15)
	}
	return math.Copysign(x, q)
}

// horner gives the polynomial with these coefficients, that of x^0 first.
func horner(x float64, c ...float64) float64 {
	sum := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		sum = c[i] + float64(x*sum)
	}
	return sum
}
