package capacity

import (
	"math"
	"slices"
)

// point is all runs of one load.
type point struct {
	load   float64
	y      float64 // their mean, weighted
	weight float64 // 1 / variance of y
	runs   int
	held   int
}

// isotonic fits values that never fall to points in order of their load (pool adjacent violators), and gives the sum
// of weighted squares that is left.
func isotonic(points []point, low, high float64) (fit []float64, rest float64) {
	type block struct {
		y, weight float64
		n         int
	}
	var blocks []block
	for _, p := range points {
		blocks = append(blocks, block{p.y, p.weight, 1})
		for len(blocks) > 1 {
			a, b := blocks[len(blocks)-2], blocks[len(blocks)-1]
			if a.y <= b.y {
				break
			}
			w := a.weight + b.weight
			blocks = append(blocks[:len(blocks)-2], block{(a.y*a.weight + b.y*b.weight) / w, w, a.n + b.n})
		}
	}
	for _, b := range blocks {
		for range b.n {
			fit = append(fit, min(max(b.y, low), high)) // the best fit within bounds is the best one, bounded
		}
	}
	for i, p := range points {
		rest += p.weight * (p.y - fit[i]) * (p.y - fit[i])
	}
	return fit, rest
}

// crossings gives, for each place between points (0: below all, len: above all), how much worse a fit is that has to be
// at most 0 below it and at least 0 above it than the best fit that crosses anywhere.
func crossings(points []point) []float64 {
	out := make([]float64, len(points)+1)
	least := math.Inf(1)
	for cut := range out {
		_, below := isotonic(points[:cut], math.Inf(-1), 0)
		_, above := isotonic(points[cut:], 0, math.Inf(1))
		out[cut] = below + above
		least = min(least, out[cut])
	}
	for i := range out {
		out[i] -= least
	}
	return out
}

// between gives the load at which y crosses 0, by a line through the points around it whose y is not far from 0; ok is
// false if they tell no rise.
func between(points []point) (load float64, slope float64, ok bool) {
	at := slices.Index(crossings(points), 0)
	if at == 0 || at == len(points) {
		return 0, 0, false
	}
	var w, x, y, xx, xy float64
	n := 0
	for i, p := range points {
		if d := i - at; math.Abs(p.y) > 1.5 && d != 0 && d != -1 {
			continue
		}
		u, v := math.Log(p.load), min(max(p.y, -1.5), 1.5)
		w += p.weight
		x += p.weight * u
		y += p.weight * v
		xx += p.weight * u * u
		xy += p.weight * u * v
		n++
	}
	slope = (w*xy - x*y) / (w*xx - x*x)
	below, above := points[at-1], points[at]
	load = math.Exp((x - y/slope) / w)
	if n < 2 || !(slope > 0) || !(load > below.load && load < above.load) {
		// By the two alone.
		a, b := min(max(below.y, -1.5), -0.05), max(min(above.y, 1.5), 0.05)
		slope = (b - a) / math.Log(above.load/below.load)
		load = below.load * math.Exp(-a/slope)
	}
	return load, slope, true
}
