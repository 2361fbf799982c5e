package plots

import (
	"math"
	"slices"
	"testing"

	"parley/analyze/stat"
	"parley/schemas"
)

// Two conversations by hand: one of two turns, and one whose only turn failed.
func turnsByHand() []Turn {
	s := func(v float64) int64 { return int64(v * 1e9) }
	return []Turn{
		{Session: 0, Conversation: "a", Index: 0, Status: schemas.StatusOK, Moment: s(0.5), Scheduled: s(0.5), Sent: s(0.5), First: s(0.7), End: s(2.5), TTFT: 200, Prompt: 10, Output: 20},
		{Session: 1, Conversation: "b", Index: 0, Status: schemas.StatusTimeout, Moment: s(1), Scheduled: s(1), Sent: s(1), First: schemas.NullInt, End: s(2), TTFT: math.NaN(), Prompt: schemas.NullInt, Output: schemas.NullInt},
		{Session: 0, Conversation: "a", Index: 1, Status: schemas.StatusOK, Moment: s(3), Scheduled: s(3), Sent: s(3), First: s(3.1), End: s(3.5), TTFT: 100, Prompt: 40, Output: 5},
	}
}

func TestPerSecondByHand(t *testing.T) {
	got := NewPerSecond(slices.Values(turnsByHand()), 2, 3_500_000_000, []int64{0, 0, 8, 12, 0, 0, 0, 5}, 500_000_000, 100)
	for name, c := range map[string]struct{ got, want []Num }{
		"started":       {got.Started, []Num{1, 1, 0, 1}},
		"completed":     {got.Completed, []Num{0, 0, 1, 1}},
		"failed":        {got.Failed, []Num{0, 0, 1, 0}},
		"prompt":        {got.PromptTokens, []Num{0, 0, 10, 40}},
		"tokens":        {got.CompletionTokens, []Num{0, 20, 0, 5}},
		"in flight":     {got.InFlight, []Num{0.5, 2, 0.5, 0.5}},
		"peak":          {got.InFlightPeak, []Num{1, 2, 1, 1}},
		"conversations": {got.Conversations, []Num{0.5, 2, 1, 0.5}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if got.TTFTP50[0] != 200 || got.TTFTP50[1].Known() || got.TTFTMax[3] != 100 {
		t.Errorf("TTFT %v, %v", got.TTFTP50, got.TTFTMax)
	}
	if long := NewPerSecond(slices.Values(turnsByHand()), 2, 3_500_000_000, nil, 1, 1); long.Step != 2 || len(long.T) != 2 {
		t.Errorf("with one step to spend: %v steps of %v s", len(long.T), long.Step)
	}
}

func TestLanesByHand(t *testing.T) {
	lanes := NewLanes(slices.Values(turnsByHand()), 2, Budget{}.WithDefaults())
	if len(lanes) != 2 || lanes[0].Conversation != "a" || len(lanes[0].Turns) != 2 || lanes[0].Turns[1].Output != 5 || lanes[1].Turns[0].First.Known() {
		t.Errorf("%+v", lanes)
	}
}

// A cloud that is thinned keeps its extremes and its order; a distribution goes from the least to the greatest value.
func TestThinnedKeepsExtremes(t *testing.T) {
	var at []int64
	var v []float64
	for i := range 10_000 {
		at, v = append(at, int64(i)*1e6), append(v, float64(i%97))
	}
	v[4321] = 5000
	v[77] = -5
	c := NewPoints("x", "X", "ms", at, v, nil, 300)
	if len(c.T) > 300 || c.Of != 10_000 || slices.Max(c.V) != 5000 || slices.Min(c.V) != -5 || !slices.IsSorted(c.T) {
		t.Errorf("%d points from %v to %v", len(c.T), slices.Min(c.V), slices.Max(c.V))
	}
	sorted := stat.Sort(slices.Clone(v), nil)
	if d := NewCurve("x", "X", "ms", sorted, 50); d.Value[0] != -5 || d.Value[len(d.Value)-1] != 5000 || d.Share[len(d.Share)-1] != 1 || d.N != 10_000 {
		t.Errorf("%+v", d)
	}
	var h stat.Histogram
	h.AddAll(sorted[1:])
	if d := CountedCurve("x", "X", "ms", &h, 50); d.N != 9999 || math.Abs(float64(d.Value[len(d.Value)-1])-5000) > 1 {
		t.Errorf("%+v", d)
	}
}
