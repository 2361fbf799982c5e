package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/schemas/random"
)

// weighted is one of the models of a mix.
type weighted struct {
	name string
	upTo float64 // it takes the draws below this
}

// parseModels reads --model: a name, which gives nil, or a mix such as base=0.7,adapter=0.3. Weights are relative.
func parseModels(text string) ([]weighted, error) {
	if !strings.Contains(text, "=") {
		return nil, nil
	}
	var models []weighted
	sum := 0.0
	for part := range strings.SplitSeq(text, ",") {
		name, weight, ok := strings.Cut(part, "=")
		w, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || !(w > 0) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("%q: give a name, or a mix such as base=0.7,adapter=0.3 with positive weights", part)
		}
		for _, m := range models {
			if m.name == name {
				return nil, fmt.Errorf("%q is in the mix twice", name)
			}
		}
		sum += w
		models = append(models, weighted{name, sum})
	}
	for i := range models {
		models[i].upTo /= sum
	}
	return models, nil
}

// modelOf gives the model that a conversation of the dataset asks for, "" where the run has no mix: then it is the
// target's. It is the same in each pass and shard.
func (s *settled) modelOf(row int32) string {
	if len(s.models) == 0 {
		return ""
	}
	u := random.Stream(s.Seed, "model", uint64(row)).Float64()
	for _, m := range s.models {
		if u < m.upTo {
			return m.name
		}
	}
	return s.models[len(s.models)-1].name
}

// parseCancel reads --cancel: SHARE:TIME, such as 5%:2s or 0.05:2s.
func parseCancel(text string) (share float64, after time.Duration, err error) {
	part, wait, ok := strings.Cut(text, ":")
	number, percent := strings.CutSuffix(strings.TrimSpace(part), "%")
	share, err1 := strconv.ParseFloat(number, 64)
	after, err2 := time.ParseDuration(strings.TrimSpace(wait))
	if percent {
		share /= 100
	}
	if !ok || err1 != nil || err2 != nil || !(share > 0 && share <= 1) || after <= 0 {
		return 0, 0, fmt.Errorf("%q: give a share of the turns and a time, such as 5%%:2s", text)
	}
	return share, after, nil
}

// leaveAfter gives when a turn is given up after its start, 0 for never.
func (s *settled) leaveAfter(row int32, instance, turn int64) time.Duration {
	if s.cancelShare > 0 && random.Stream(s.Seed, fmt.Sprintf("cancel %d %d", instance, turn), uint64(row)).Float64() < s.cancelShare {
		return s.cancelAfter
	}
	return 0
}
