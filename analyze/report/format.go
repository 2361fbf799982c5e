package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/analyze"
)

const (
	dash     = "\u2013"
	infinity = "\u221e"
	thin     = "\u2009" // between the parts of an interval
)

// number prints a value with three to four significant digits and separators between thousands: whole
// numbers as they are, others with the digits that their size deserves. The script's number function has
// the same rules.
func number(v float64) string {
	if math.IsNaN(v) {
		return dash
	}
	if math.IsInf(v, 0) {
		if v < 0 {
			return "\u2212" + infinity
		}
		return infinity
	}
	size := math.Abs(v)
	switch {
	case size >= 1000 || v == math.Trunc(v):
		return fixed(v, 0)
	case size >= 100:
		return fixed(v, 1)
	case size >= 10:
		return fixed(v, 2)
	case size >= 0.1:
		return fixed(v, 3)
	case size >= 0.01:
		return fixed(v, 4)
	case size >= 0.001:
		return fixed(v, 5)
	}
	return strings.ReplaceAll(strconv.FormatFloat(v, 'e', 2, 64), "-", "\u2212")
}

// fixed prints v with the given digits after the point.
func fixed(v float64, digits int) string {
	text := strconv.FormatFloat(math.Abs(v), 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	var b strings.Builder
	if v < 0 && strings.Trim(text, "0.") != "" {
		b.WriteString("\u2212")
	}
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	if fraction != "" {
		b.WriteByte('.')
		b.WriteString(fraction)
	}
	return b.String()
}

func count(n int64) string { return fixed(float64(n), 0) }

func percent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dash
	}
	share := v * 100
	digits := 2
	switch {
	case share == math.Trunc(share):
		digits = 0
	case math.Abs(share) >= 10:
		digits = 1
	case math.Abs(share) < 0.1:
		digits = 3
	}
	return fixed(share, digits) + thin + "%"
}

// signed is number with a plus before what is positive.
func signed(text string, v float64) string {
	if v > 0 {
		return "+" + text
	}
	return text
}

// seconds prints a length of time in the largest unit that reads well.
func seconds(v analyze.Num) string {
	s := float64(v)
	whole := int64(math.Round(s))
	switch {
	case !v.Known():
		return dash
	case s >= 3600:
		return count(whole/3600) + " h " + count(whole%3600/60) + " min"
	case s >= 120:
		return count(whole/60) + " min " + count(whole%60) + " s"
	}
	return number(s) + " s"
}

// sentence makes a sentence of a phrase.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	r, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(r)) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// exact is a value for the CSV: the shortest text that reads back as the same number; nothing where there
// is none.
func exact(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	if math.IsInf(v, 0) {
		return "inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
