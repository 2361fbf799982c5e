package render

import (
	"math"
	"strconv"
	"strings"

	"parley/analyze"
)

const none = "-"

// number prints a figure with about four digits, and with separators of thousands.
func number(n analyze.Num) string {
	if !n.Known() {
		return none
	}
	v := float64(n)
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 1000:
		return grouped(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.001:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func count(n int64) string { return grouped(strconv.FormatInt(n, 10)) }

// grouped puts commas between thousands.
func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

func percent(n analyze.Num) string {
	if !n.Known() {
		return none
	}
	v := float64(n) * 100
	switch a := math.Abs(v); {
	case a == 0 || a >= 99.995 && a <= 100.005:
		return strconv.FormatFloat(v, 'f', 0, 64) + " %"
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64) + " %"
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " %"
}

// percentile prints a percentile, with a ~ where the sample is too small to be sure of it.
func percentile(p *analyze.Percentile) string {
	switch {
	case p == nil:
		return none
	case p.Infinite:
		return "failed"
	case !p.Value.Known():
		return none
	case !p.Carried:
		return "~" + number(p.Value)
	}
	return number(p.Value)
}

// interval prints the bounds of a percentile.
func interval(low, high analyze.Num) string {
	if !low.Known() && !high.Known() {
		return none
	}
	bound := func(n analyze.Num) string {
		if !n.Known() {
			return "?"
		}
		return number(n)
	}
	return "[" + bound(low) + ", " + bound(high) + "]"
}

func percentName(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }
