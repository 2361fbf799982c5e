package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"parley/analyze/stat"
	"parley/schemas"
)

// How rows become groups: one level after the other, then crossed.

// grouping assigns rows to the groups of one level.
type grouping struct {
	id   []int32 // group of each row
	keys []Key   // of each group
	bins []span  // of groups by time or stage, for each key but a last one of rows outside of all
}

// groupRows makes the groups of one level.
func groupRows(f *frame, g GroupSpec, w window) (grouping, error) {
	switch {
	case g.Column == byTime:
		return groupTime(f, g, w)
	case g.columnType() == "string" || g.columnType() == "tag":
		return groupText(f, g), nil
	}
	values := g.numbers(f)
	if len(g.Edges) == 0 && g.Width == 0 {
		g = g.defaultBins(values)
	}
	var out grouping
	var err error
	if len(g.Edges) == 0 && g.Width == 0 {
		out, err = groupDistinct(g, values)
		if g.Column == byStage && err == nil {
			out.bins = f.stageBins(out.keys)
		}
	} else {
		out, err = groupBins(g, values)
	}
	return out, err
}

// stageBins gives the time of each stage of the load, until the next began; none if there is one stage only.
func (f *frame) stageBins(keys []Key) []span {
	stages := f.stages()
	if len(stages) < 2 {
		return nil
	}
	var out []span
	at := int64(math.MinInt64)
	for _, k := range keys {
		if k.Value == noValue {
			break
		}
		end := max(at, f.stageEnd(int64(k.Low), f.ints(byStage)))
		out = append(out, span{at, end, anyStage})
		at = end
	}
	return out
}

// groupTime makes bins of time that cover the window: about twenty of a round length if no width is given.
func groupTime(f *frame, g GroupSpec, w window) (grouping, error) {
	if len(g.Edges) == 0 && g.Width == 0 {
		g.Width = stat.NiceWidth(float64(w.to-w.from) / 20)
	}
	out := grouping{id: make([]int32, f.rows)}
	edges := []int64{w.from}
	if g.Width > 0 {
		width := max(int64(g.Width), 1)
		if (w.to-w.from)/width > maxGroups {
			return out, tooManyGroups(g)
		}
		low := w.from / width * width
		if low > w.from {
			low -= width
		}
		edges[0] = low
		for low < w.to {
			low += width
			edges = append(edges, low)
		}
	} else {
		for _, e := range g.Edges {
			if int64(e) > w.from && int64(e) < w.to {
				edges = append(edges, int64(e))
			}
		}
		edges = append(edges, w.to)
	}
	for i := 1; i < len(edges); i++ {
		low, high := edges[i-1], edges[i]
		out.bins = append(out.bins, span{low, high, anyStage})
		out.keys = append(out.keys, Key{g.Column, g.binName(float64(low), float64(high)), Num(float64(low) / 1e9), Num(float64(high) / 1e9)})
	}
	none := int32(len(out.bins))
	out.keys = append(out.keys, Key{g.Column, noValue, Missing, Missing})
	for row, m := range f.moment {
		if out.id[row] = none; m != schemas.NullInt {
			if b := out.binOf(m); b >= 0 {
				out.id[row] = int32(b)
			}
		}
	}
	return out, nil
}

// binOf gives the bin of a moment, or -1.
func (out *grouping) binOf(m int64) int {
	i := sort.Search(len(out.bins), func(i int) bool { return out.bins[i].to > m })
	if i == len(out.bins) || m < out.bins[i].from {
		return -1
	}
	return i
}

func groupText(f *frame, g GroupSpec) grouping {
	v := f.strs(g.Column)
	out := grouping{id: make([]int32, f.rows)}
	order := make([]int32, len(v.Values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return naturally(v.Values[a], v.Values[b]) })
	rank := make([]int32, len(order))
	for i, code := range order {
		rank[code] = int32(i)
		out.keys = append(out.keys, Key{g.Column, v.Values[code], Missing, Missing})
	}
	none := int32(len(order))
	for i, code := range v.Codes {
		if code < 0 {
			out.id[i] = none
		} else {
			out.id[i] = rank[code]
		}
	}
	out.keys = append(out.keys, Key{g.Column, noValue, Missing, Missing})
	return out
}

// noValue is the name of the group of rows without a value.
const noValue = "(none)"

// numbers gives the values of a column of numbers; NaN for null.
func (g GroupSpec) numbers(f *frame) []float64 {
	out := make([]float64, f.rows)
	value := func(v int64) float64 {
		if v == schemas.NullInt {
			return math.NaN()
		}
		return float64(v)
	}
	switch g.Column {
	case byUncached:
		prompt, cached := f.ints("prompt_tokens"), f.ints("cached_tokens")
		for i := range out {
			out[i] = value(prompt[i]) - value(cached[i])
		}
	default:
		v := f.column(g.Column)
		if v.Floats != nil {
			return slices.Clone(v.Floats)
		}
		for i, x := range v.Ints {
			out[i] = value(x)
		}
	}
	return out
}

// maxDistinct is how many distinct numbers are groups of their own before bins are made.
const maxDistinct = 64

// defaultBins chooses bins: of a column with few distinct
// numbers or of names in number form, none; else powers of two.
func (g GroupSpec) defaultBins(values []float64) GroupSpec {
	switch g.Column {
	case "turn", "instance", "shard", "http_status", "attempts", "messages_sent":
		return g
	}
	distinct := map[float64]bool{}
	high := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			high = max(high, v)
			if len(distinct) <= maxDistinct {
				distinct[v] = true
			}
		}
	}
	if len(distinct) <= maxDistinct && g.columnType() == "int" {
		return g
	}
	g.Edges = []float64{0}
	for e := 1.0; e <= high*2; e *= 2 {
		if e >= high/1024 { // ten octaves below the highest value is fine enough
			g.Edges = append(g.Edges, e)
		}
	}
	return g
}

func groupDistinct(g GroupSpec, values []float64) (grouping, error) {
	ids := map[float64]int32{}
	out := grouping{id: make([]int32, len(values))}
	none := int32(-1)
	for i, v := range values {
		if math.IsNaN(v) {
			if none < 0 {
				none = int32(len(out.keys))
				out.keys = append(out.keys, Key{g.Column, noValue, Missing, Missing})
			}
			out.id[i] = none
			continue
		}
		id, ok := ids[v]
		if !ok {
			if len(out.keys) >= maxGroups {
				return out, tooManyGroups(g)
			}
			id = int32(len(out.keys))
			ids[v] = id
			out.keys = append(out.keys, Key{g.Column, strconv.FormatFloat(v, 'f', -1, 64), Num(v), Num(v)})
		}
		out.id[i] = id
	}
	out.sortKeys()
	return out, nil
}

func tooManyGroups(g GroupSpec) error {
	return fmt.Errorf("more than %d groups by %s: group by wider bins (%s:WIDTH) or by something else", maxGroups, g.Column, g.Column)
}

func groupBins(g GroupSpec, values []float64) (grouping, error) {
	bin := func(v float64) (low, high float64) {
		if g.Width > 0 {
			low = math.Floor(v/g.Width) * g.Width
			return low, low + g.Width
		}
		i, found := slices.BinarySearch(g.Edges, v)
		if found {
			i++
		}
		low, high = math.Inf(-1), math.Inf(1)
		if i > 0 {
			low = g.Edges[i-1]
		}
		if i < len(g.Edges) {
			high = g.Edges[i]
		}
		return low, high
	}
	// Bins are numbered by their lower bounds.
	lows := make([]float64, len(values))
	highs := map[float64]float64{}
	for i, v := range values {
		lows[i] = math.NaN()
		if !math.IsNaN(v) {
			low, high := bin(v)
			lows[i] = low
			highs[low] = high
			if len(highs) > maxGroups {
				return grouping{}, tooManyGroups(g)
			}
		}
	}
	out, err := groupDistinct(g, lows)
	if err != nil {
		return out, err
	}
	for i := range out.keys {
		k := &out.keys[i]
		if k.Value != noValue {
			k.High = Num(highs[float64(k.Low)])
			k.Value = g.binName(float64(k.Low), float64(k.High))
			if math.IsInf(float64(k.Low), 0) {
				k.Low = Missing
			}
			if math.IsInf(float64(k.High), 0) {
				k.High = Missing
			}
		}
	}
	return out, nil
}

func (g GroupSpec) binName(low, high float64) string {
	edge := func(v float64) string {
		if g.Column == byTime {
			return time.Duration(v).String()
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	switch {
	case math.IsInf(low, 0):
		return "below " + edge(high)
	case math.IsInf(high, 0):
		return "from " + edge(low)
	}
	return edge(low) + " to " + edge(high)
}

// sortKeys numbers the groups in order of their numbers, rows without a value last.
func (out *grouping) sortKeys() {
	order := make([]int32, len(out.keys))
	for i := range order {
		order[i] = int32(i)
	}
	number := func(i int32) float64 {
		if k := out.keys[i]; k.Value != noValue {
			return float64(k.Low)
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch x, y := number(a), number(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	rank := make([]int32, len(order))
	keys := make([]Key, len(order))
	for i, old := range order {
		rank[old] = int32(i)
		keys[i] = out.keys[old]
	}
	out.keys = keys
	for i := range out.id {
		out.id[i] = rank[out.id[i]]
	}
}

// cross gives the bins of two levels that both have some: the times that they share.
func (out *grouping) cross(o *grouping) grouping {
	both := grouping{id: make([]int32, len(out.id))}
	index := map[[2]int32]int32{}
	for i, a := range out.bins {
		for j, b := range o.bins {
			if from, to := max(a.from, b.from), min(a.to, b.to); from < to {
				index[[2]int32{int32(i), int32(j)}] = int32(len(both.bins))
				both.bins = append(both.bins, span{from, to, anyStage})
			}
		}
	}
	for row := range both.id {
		b, ok := index[[2]int32{out.id[row], o.id[row]}]
		if both.id[row] = b; !ok {
			both.id[row] = int32(len(both.bins))
		}
	}
	return both
}

// groups is what the rows were grouped into. A group by time or stage has what happened in its time: the tokens
// that arrived in it and the turns that ended in it, whenever they were sent.
type groups struct {
	id   []int32   // group of each row
	keys [][]Key   // of each group
	told bool      // by how turns ended
	time *grouping // the level that is by time or stage, or what both share; nil if none is
	bins []int32   // with time, of each group: its bin; -1 for rows outside of all
	// With time, of the other level (all 0 without one): the group of each row, and the group of each pair of
	// bin and other; -1 where no row was sent.
	other  []int32
	others int
	pairs  []int32
}

// groupsOf makes the groups asked for.
func groupsOf(f *frame, by []GroupSpec, w window) (*groups, error) {
	levels := make([]grouping, len(by))
	for i := range by {
		var err error
		if levels[i], err = groupRows(f, by[i], w); err != nil {
			return nil, err
		}
		if len(levels[i].keys) > maxGroups+1 {
			return nil, tooManyGroups(by[i])
		}
	}
	one := grouping{id: make([]int32, f.rows), keys: make([]Key, 1)}
	if len(levels) == 1 {
		levels = append(levels, one)
	}
	out, err := combine(levels[0], levels[1], len(by))
	if err != nil {
		return nil, err
	}
	out.told = slices.ContainsFunc(by, func(g GroupSpec) bool {
		return g.Column == "status" || g.Column == "error_kind" || g.Column == "ended_reason"
	})
	if levels[0].bins != nil && levels[1].bins != nil {
		levels = []grouping{levels[0].cross(&levels[1]), one}
	}
	for i := range levels {
		if levels[i].bins != nil && out.time == nil {
			out.time = &levels[i]
			other := &levels[1-i]
			out.other, out.others = other.id, len(other.keys)
			out.pairs = slices.Repeat([]int32{-1}, len(levels[i].bins)*out.others)
			for row, g := range out.id {
				if b := int(levels[i].id[row]); b < len(levels[i].bins) {
					out.pairs[b*out.others+int(out.other[row])] = g
				}
			}
			out.addEmpty(len(by), i)
			out.bins = slices.Repeat([]int32{-1}, len(out.keys))
			for at, g := range out.pairs {
				if g >= 0 {
					out.bins[g] = int32(at / out.others)
				}
			}
		}
	}
	return out, nil
}

// addEmpty adds the bins of time in which no turn was sent: tokens may have arrived in them.
func (out *groups) addEmpty(levels, at int) {
	if levels > 1 {
		return
	}
	var keys [][]Key
	rank := make([]int32, len(out.keys))
	for b := range out.time.bins {
		if g := out.pairs[b]; g >= 0 {
			rank[g] = int32(len(keys))
		}
		out.pairs[b] = int32(len(keys))
		keys = append(keys, []Key{out.time.keys[b]})
	}
	for g, k := range out.keys {
		if k[at].Value == noValue {
			rank[g] = int32(len(keys))
			keys = append(keys, k)
		}
	}
	for row, g := range out.id {
		out.id[row] = rank[g]
	}
	out.keys = keys
}

// combine crosses two levels: groups of the first, divided by the second.
func combine(a, b grouping, levels int) (*groups, error) {
	out := &groups{id: make([]int32, len(a.id))}
	seen := map[[2]int32]int32{}
	var pairs [][2]int32
	for i := range a.id {
		p := [2]int32{a.id[i], b.id[i]}
		id, ok := seen[p]
		if !ok {
			if len(pairs) > maxGroups {
				return out, fmt.Errorf("more than %d groups: group by wider bins, or by one column", maxGroups)
			}
			id = int32(len(pairs))
			seen[p] = id
			pairs = append(pairs, p)
		}
		out.id[i] = id
	}
	order := make([]int32, len(pairs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(pairs[x][0], pairs[y][0]), cmp.Compare(pairs[x][1], pairs[y][1]))
	})
	rank := make([]int32, len(order))
	for i, old := range order {
		rank[old] = int32(i)
		out.keys = append(out.keys, []Key{a.keys[pairs[old][0]], b.keys[pairs[old][1]]}[:levels])
	}
	for i := range out.id {
		out.id[i] = rank[out.id[i]]
	}
	return out, nil
}

// rateRows gives, of each group, the rows of which something may count in its rates: its own, or those
// whose time overlaps its bin of time.
func (out *groups) rateRows(f *frame, rows []int32) [][]int32 {
	if out.time == nil {
		return divide(rows, out.id, len(out.keys))
	}
	all := make([][]int32, len(out.keys))
	for _, row := range rows {
		if f.end[row] == schemas.NullInt {
			continue
		}
		first := max(out.time.binOf(max(f.moment[row], out.time.bins[0].from)), 0)
		for b := first; b < len(out.time.bins) && out.time.bins[b].from <= f.end[row]; b++ {
			if g := out.pairs[b*out.others+int(out.other[row])]; g >= 0 {
				all[g] = append(all[g], row)
			}
		}
	}
	return all
}

// windowOf gives the window of a group's rates: the run's, within the group's bin of time or stage.
func (out *groups) windowOf(g int, w *window) *window {
	if out.time == nil || out.bins[g] < 0 {
		return w
	}
	bin := out.time.bins[out.bins[g]]
	part := *w
	part.spans = nil
	w.overlap(bin.from, bin.to, func(from, to int64) { part.spans = append(part.spans, span{from, to, anyStage}) })
	if len(part.spans) == 0 {
		part.spans = []span{{w.from, w.from, anyStage}}
	}
	part.from, part.to = part.spans[0].from, part.spans[len(part.spans)-1].to
	return &part
}
