package capacity

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"parley/analyze/stat"
)

// Objective is what has to hold: the mean over turns of what [Turn] has for it is at most Allowed.
type Objective struct {
	Text    string  // as it was given, such as ttft.p99<500ms
	Allowed float64 // of a percentile, the share of turns that may miss it; of a mean, 1: turns have the ratio to the limit
	Share   bool    // turns have 0 or 1
}

// Turn is one turn of a run.
type Turn struct {
	Begin, End float64   // when it was due, and when it ended, in seconds since the load began
	Miss       []float64 // for each objective: 1 if it missed it, 0 if it met it, or the ratio to the limit; NaN: it does not count
}

// Outcome is what a run came to.
type Outcome struct {
	Y         float64 `json:"y"`             // of the worst objective: above 0 it is missed
	SE        float64 `json:"se"`            // standard error of Y within the run
	Objective int     `json:"objective"`     // the worst one's place
	Share     float64 `json:"share"`         // of turns that missed it; of a mean, the mean over the limit
	Turns     int     `json:"turns"`         // that counted for it
	Seconds   float64 `json:"seconds"`       // from the load's begin
	Rising    bool    `json:"rising"`        // open loop: the requests in flight rose, so that the load was not carried
	Bad       string  `json:"bad,omitempty"` // why the run says nothing
}

// Held says whether the run met all objectives.
func (o *Outcome) Held() bool { return o.Y <= 0 }

// Of a run.
const (
	batches  = 8    // blocks of time: few and long ones know best how alike turns of one time are
	bins     = 240  // of the limit, that blocks are made of
	lookStep = 1.25 // between the times of looks
	firstAt  = 8    // of the limit: the first look
	fewTurns = 30   // before which nothing is judged
)

// Watch follows a run, and says when it can end.
type Watch struct {
	objectives  []Objective
	warm, limit float64
	level       float64 // of all looks together
	rough       bool    // a first impression is enough
	open        bool    // a queue may be growing yet: that a load is held shows at the end
	turns       []Turn
	n, sum      [][]float64 // by objective and bin of End
	next        float64     // time of the next look
	looks       int
}

// Add takes a turn that ended.
func (w *Watch) Add(t Turn) {
	w.turns = append(w.turns, t)
	if t.Begin < w.warm {
		return
	}
	bin := int(t.End / w.limit * bins)
	for j, miss := range t.Miss {
		if math.IsNaN(miss) {
			continue
		}
		for len(w.n[j]) <= bin {
			w.n[j], w.sum[j] = append(w.n[j], 0), append(w.sum[j], 0)
		}
		w.n[j][bin]++
		w.sum[j][bin] += miss
	}
}

// Look says whether the run can end at this moment (seconds under load); every turn that ended before has been added.
func (w *Watch) Look(now float64) bool {
	if now >= w.limit {
		return true
	}
	if now < w.next {
		return false
	}
	for w.next <= now {
		w.next *= lookStep
	}
	w.looks++
	o := w.judge(now)
	if o.Turns < fewTurns {
		return false
	}
	if w.rough && math.Abs(o.Y) > max(0.5, o.SE) && (o.Y > 0 || !w.open) {
		return true
	}
	spent := w.level * 6 / (math.Pi * math.Pi * float64(w.looks*w.looks))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: batches - 1}.Quantile(1 - spent/2)
	clear := true // every objective is held, or one is missed
	for j := range w.objectives {
		z := w.of(j, now).z
		if z > t {
			return true
		}
		clear = clear && z < -t
	}
	return !w.open && clear
}

// figure is what a run says of one objective.
type figure struct {
	y, se, z, mean float64
	n              int
}

// of works an objective out from blocks of time.
func (w *Watch) of(j int, now float64) figure {
	obj := &w.objectives[j]
	from, to := w.warm/w.limit*bins, min(now/w.limit*bins, float64(len(w.n[j])))
	var n, sum [batches]float64
	var all, total float64
	for bin := int(from); bin < len(w.n[j]) && float64(bin) < to; bin++ {
		b := min(batches-1, max(0, int((float64(bin)-from)/(to-from)*batches)))
		n[b] += w.n[j][bin]
		sum[b] += w.sum[j][bin]
		all += w.n[j][bin]
		total += w.sum[j][bin]
	}
	if all == 0 {
		return figure{y: -2, se: math.Inf(1), mean: math.NaN()}
	}
	f := figure{mean: total / all, n: int(all)}
	v := 0.0 // of the mean
	for b := range batches {
		d := sum[b] - f.mean*n[b]
		v += d * d
	}
	v *= batches / (batches - 1.0) / (all * all)
	if !obj.Share {
		// Their error is only seen: three blocks at least have to have turns.
		f.y, f.se = math.Log(f.mean/obj.Allowed), math.Sqrt(v)/f.mean
		f.z = f.y / f.se
		return f
	}
	alike := 1.0 // how many turns count as one
	if f.mean > 0 && f.mean < 1 {
		alike = max(1, v/(f.mean*(1-f.mean)/all))
	}
	f.se = math.Sqrt(alike / (all * obj.Allowed))
	corner := 3.0 / 8 * alike // Anscombe's
	f.y = 2 * (math.Sqrt((total+corner)/(all*obj.Allowed+corner)) - 1)
	f.z = (f.mean - obj.Allowed) / math.Sqrt(max(v, obj.Allowed*(1-obj.Allowed)*alike/all))
	return f
}

// judge gives the worst objective.
func (w *Watch) judge(now float64) Outcome {
	out := Outcome{Y: math.Inf(-1), Seconds: now}
	for j := range w.objectives {
		f := w.of(j, now)
		if f.y > out.Y || j == 0 {
			out.Y, out.SE, out.Objective, out.Share, out.Turns = f.y, f.se, j, f.mean, f.n
		}
	}
	return out
}

// Outcome judges a run that ended at this moment. In an open loop its turns have to be there also that ended later:
// a load is only carried if the requests in flight do not rise.
func (w *Watch) Outcome(now float64, open bool) Outcome {
	out := w.judge(now)
	if math.IsInf(out.SE, 1) || out.Turns < fewTurns/3 {
		out.Bad = fmt.Sprintf("only %d turns ended in it", out.Turns)
		return out
	}
	if open && out.Y > calmY { // a server's mood, and conversations that are still getting longer, move the number in flight too
		if change, level := stat.Level(w.inFlight((w.warm+now)/2, now)); !level && change.Relative > rises {
			out.Rising = true
			out.Y = max(out.Y, risingY)
			out.SE = min(out.SE, risingY/3)
		}
	}
	return out
}

// Requests in flight rise if they do so in the second half of a run by this share of their mean, and turns begin to miss.
const (
	rises = 0.5
	calmY = -1.0 // a quarter of what is allowed
)

// risingY is the Y of a run whose requests in flight rose.
const risingY = 1.0

// inFlight gives how many turns had begun and not ended, in steps of the time from one moment to another.
func (w *Watch) inFlight(begin, end float64) []float64 {
	steps := make([]float64, bins/2)
	width := (end - begin) / float64(len(steps))
	for _, t := range w.turns {
		for i := max(0, int((t.Begin-begin)/width)); i < len(steps); i++ {
			from, to := max(t.Begin, begin+float64(i)*width), min(t.End, begin+float64(i+1)*width)
			if t.End <= begin+float64(i)*width {
				break
			}
			steps[i] += max(0, to-from) / width
		}
	}
	return slices.Clip(steps)
}
