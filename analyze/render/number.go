package render

import (
	"math"
	"strconv"
	"strings"

	"parley/analyze"
)

// Numbers as all printers show them. The report's script has the same rules (web/src/format.ts), which a test
// holds against these.

const none = "-" // no value

// Number prints a figure with three digits, or all digits before the point: 0.031, 2.50, 62.2, 749, 21,619.
// What is not 0 never prints as 0.
func Number(n analyze.Num) string { return rounded(float64(n), 4) }

// Share prints a share in percent. What is not all never prints as all.
func Share(n analyze.Num) string {
	switch {
	case !n.Known():
		return none
	case n < 1 && n >= 0.9995:
		return ">99.9 %"
	case n == 1:
		return "100 %"
	}
	return rounded(float64(n)*100, 3) + " %"
}

// rounded prints v with three digits, and so many after the point at most.
func rounded(v float64, most int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	if v == 0 {
		return "0"
	}
	// The size after rounding: 9.996 has two digits before the point.
	three, _ := strconv.ParseFloat(strconv.FormatFloat(math.Abs(v), 'e', 2, 64), 64)
	digits := min(max(2-int(math.Floor(math.Log10(three)+1e-9)), 0), most)
	text := strconv.FormatFloat(math.Abs(v), 'f', digits, 64)
	prefix := ""
	if strings.Trim(text, "0.") == "" {
		prefix, text = "<", text[:len(text)-1]+"1"
	}
	if v < 0 {
		if prefix != "" {
			prefix = ">"
		}
		prefix += "-"
	}
	return prefix + grouped(text)
}

// Count prints a whole number.
func Count(n int64) string { return grouped(strconv.FormatInt(n, 10)) }

// Counted prints a number of things: 1 turn, 2,000 turns.
func Counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Given prints a number as a person gave it: 500, 12.5.
func Given(v float64) string { return grouped(strconv.FormatFloat(v, 'f', -1, 64)) }

// grouped puts commas between thousands.
func grouped(text string) string {
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	return b.String()
}

// Duration prints a length of time in the units that people use: 107 ms, 34.1 s, 5 min 41 s, 2 h 2 min, 3 d 4 h.
func Duration(seconds analyze.Num) string {
	s := float64(seconds)
	whole := int64(math.Round(s))
	two := func(unit int64, big, small string) string {
		n, rest := whole/unit, whole%unit
		switch big {
		case "h":
			rest = rest / 60
		case "d":
			rest = rest / 3600
		}
		if rest == 0 {
			return Count(n) + " " + big
		}
		return Count(n) + " " + big + " " + Count(rest) + " " + small
	}
	switch {
	case !seconds.Known():
		return none
	case s == 0:
		return "0 s"
	case math.Abs(s) < 0.9995:
		return rounded(s*1000, 4) + " ms"
	case whole < 120:
		return rounded(s, 4) + " s"
	case whole < 3600:
		return two(60, "min", "s")
	case whole < 48*3600:
		return two(3600, "h", "min")
	}
	return two(86400, "d", "h")
}

// Change prints a ratio as a change in percent, Points a difference of shares in percentage points.
func Change(ratio analyze.Num) string { return signed(ratio-1, Share) }

// Points prints a difference of shares in percentage points.
func Points(d analyze.Num) string {
	if !d.Known() {
		return none
	}
	return signed(d, func(n analyze.Num) string { return rounded(float64(n)*100, 2) }) + " points"
}

func signed(n analyze.Num, show func(analyze.Num) string) string {
	text := show(n)
	if n > 0 {
		return "+" + text
	}
	return text
}

// between prints two bounds; ? is one that is not known.
func between(low, high analyze.Num, show func(analyze.Num) string) string {
	bound := func(n analyze.Num) string {
		if !n.Known() {
			return "?"
		}
		return show(n)
	}
	a, b := bound(low), bound(high)
	for _, unit := range []string{" %", " points"} { // said once
		if strings.HasSuffix(b, unit) {
			a = strings.TrimSuffix(a, unit)
		}
	}
	if strings.ContainsAny(a[:1]+b[:1], "+-<>") {
		return a + " to " + b
	}
	return a + "\u2013" + b
}

func percentName(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }
