package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// Rules are a run's load with everything settled: whoever makes them has validated them. Numbers are those of
// the whole run, of which a shard takes its share.
type Rules struct {
	Concurrency []Stage // closed loop: conversations (trees of them) at once; nil in an open loop
	Rate        []Stage // open loop: conversations that start per second; nil in a closed loop and for recorded arrivals
	Arrivals    string  // open loop: poisson, gamma, constant or recorded
	Burstiness  float64 // shape of gamma arrivals
	Speed       float64 // of recorded arrivals

	MaxConversations int  // open loop: most at once, 0 for no limit
	Shed             bool // what arrives while they are full is not sent
	MaxInFlight      int  // requests at once, 0 for no limit

	Think    Scale         // think times: a person's
	Tool     Scale         // tool times
	ThinkCap time.Duration // longest think time, 0 for no limit
	Ramp     time.Duration
	Stagger  bool

	Duration    time.Duration // from the load's begin until no turn starts any more, 0 for no limit
	Requests    int64         // turns of the main phase, 0 for no limit
	MinDuration time.Duration // Requests stops the run only after this time
	Deadline    time.Duration // everything is cut off then, 0 for never
	Loops       int           // passes over the dataset, 0 for no end
	Grace       time.Duration // from a stop until what still runs is cut off; negative for never
	CountGrace  time.Duration // the same after Requests stopped the run

	Warmup     int64         // the first turns are warm-up
	WarmupTime time.Duration // and all that start within this time

	KeepGoing bool // a failed turn does not end its conversation
	MaxErrors Budget

	Shard, Shards int
	Seed          uint64
}

// Open says whether conversations arrive by themselves, not when a place is free.
func (r *Rules) Open() bool { return r.Concurrency == nil }

// Bounded says whether the run stops by a count or a time, not at the dataset's end: it then plans only what
// it comes to.
func (r *Rules) Bounded() bool { return r.Requests > 0 || r.Duration > 0 }

// A Stage is a level of load that holds for a time.
type Stage struct {
	Level float64       `json:"level"`            // conversations at once, or conversations that start per second
	For   time.Duration `json:"for_ns,omitempty"` // 0 in a last stage: until the run ends
}

// ParseStages reads stages such as 8:2m,16:2m, or a single level without a time. All but the last need a
// time.
func ParseStages(text string) ([]Stage, error) {
	var stages []Stage
	parts := strings.Split(text, ",")
	for i, part := range parts {
		level, length, timed := strings.Cut(strings.TrimSpace(part), ":")
		v, err := strconv.ParseFloat(level, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number: give LEVEL, or stages such as 8:2m,16:2m", level)
		}
		s := Stage{Level: v}
		if timed {
			if s.For, err = time.ParseDuration(length); err != nil || s.For <= 0 {
				return nil, fmt.Errorf("%q: a stage is LEVEL:TIME, such as 8:2m", part)
			}
		} else if i < len(parts)-1 {
			return nil, fmt.Errorf("%q: each stage but the last needs its time, such as 8:2m", part)
		}
		stages = append(stages, s)
	}
	return stages, nil
}

// length gives the time of all stages, 0 if the last has no end.
func length(stages []Stage) (total time.Duration) {
	for _, s := range stages {
		if s.For == 0 {
			return 0
		}
		total += s.For
	}
	return total
}

// Length gives the time of all the load's stages, 0 if the last has no end.
func (r *Rules) Length() time.Duration { return max(length(r.Concurrency), length(r.Rate)) }

// stages gives the load's stages, nil for a load that has only one level.
func (r *Rules) stages() []Stage {
	if len(r.Concurrency)+len(r.Rate) < 2 {
		return nil
	}
	return append(r.Concurrency[:len(r.Concurrency):len(r.Concurrency)], r.Rate...)
}

// Budget says how many failed turns a run bears.
type Budget struct {
	Off   bool    // any number
	Count int64   // the run stops with so many; 0 is not asked for
	Share float64 // the run stops when more than this share of the last 100 turns failed; 0 is not asked for
}

// ParseBudget reads none, a count such as 50, or a share such as 10%. "" is the default: see [Scheduler].
func ParseBudget(text string) (b Budget, err error) {
	percent, isShare := strings.CutSuffix(text, "%")
	switch {
	case text == "":
	case text == "none":
		b.Off = true
	case isShare:
		b.Share, err = strconv.ParseFloat(percent, 64)
		if b.Share /= 100; err != nil || !(b.Share > 0) || b.Share >= 1 {
			return b, fmt.Errorf("%q: a share is above 0%% and below 100%%", text)
		}
	default:
		if b.Count, err = strconv.ParseInt(text, 10, 64); err != nil || b.Count < 1 {
			return b, fmt.Errorf("%q: give a count of at least 1, a share such as 10%%, or none", text)
		}
	}
	return b, nil
}

// Scale turns the dataset's think or tool times into the run's.
type Scale struct {
	Fixed  bool
	Time   time.Duration // if Fixed
	Factor float64       // if not
}

// ParseScale reads recorded, none, a duration, or a factor such as 0.5x. "" is recorded.
func ParseScale(text string) (Scale, error) {
	factor, isFactor := strings.CutSuffix(text, "x")
	switch {
	case text == "" || text == "recorded":
		return Scale{Factor: 1}, nil
	case text == "none":
		return Scale{Fixed: true}, nil
	case isFactor:
		f, err := strconv.ParseFloat(factor, 64)
		if err != nil || !(f >= 0) || f > 1e6 {
			return Scale{}, fmt.Errorf("%q: a factor is a number followed by x, such as 0.5x", text)
		}
		return Scale{Factor: f}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return Scale{}, fmt.Errorf("%q: give recorded, none, a duration such as 2s, or a factor such as 0.5x", text)
	}
	return Scale{Fixed: true, Time: d}, nil
}

func (s Scale) of(recorded time.Duration) time.Duration {
	if s.Fixed {
		return s.Time
	}
	return time.Duration(float64(recorded) * s.Factor)
}

// Pause is the time between what a turn waits for (the end of the one before it, or of a conversation that it
// joins) and its own moment.
type Pause struct {
	Think time.Duration
	Tool  time.Duration // negative: the dataset has none
}

func (p Pause) total() int64 { return int64(p.Think + max(0, p.Tool)) }

// Pause gives the pause before a turn. A fixed tool time is for turns that have one, and a fixed think time for
// those that do not wait for a tool alone.
func (r *Rules) Pause(t *schemas.Turn) (Pause, error) {
	p := Pause{Tool: -1}
	if t.ToolTimeMS != nil {
		d, err := milliseconds(*t.ToolTimeMS)
		if err != nil {
			return p, fmt.Errorf("tool_time_ms: %w", err)
		}
		p.Tool = r.Tool.of(d)
	}
	think := time.Duration(0)
	if t.ThinkTimeMS != nil {
		d, err := milliseconds(*t.ThinkTimeMS)
		if err != nil {
			return p, fmt.Errorf("think_time_ms: %w", err)
		}
		think = d
	}
	if t.ThinkTimeMS != nil || t.ToolTimeMS == nil {
		p.Think = r.Think.of(think)
	}
	if r.ThinkCap > 0 {
		p.Think = min(p.Think, r.ThinkCap)
	}
	return p, nil
}

// Share gives the part of a whole that one shard has: the parts add up to the whole.
func Share(whole int64, shard, shards int) int64 {
	n := whole / int64(shards)
	if int64(shard) < whole%int64(shards) {
		n++
	}
	return n
}

// Share gives this shard's part of a whole.
func (r *Rules) Share(whole int64) int64 { return Share(whole, r.Shard, r.Shards) }

// Places gives this shard's part of a stage's conversations at once.
func (r *Rules) Places(stage int) int64 { return r.Share(int64(r.Concurrency[stage].Level)) }

// MostPlaces gives how many conversations this shard of a closed loop has at once in its largest stage, 0 for an open
// loop.
func (r *Rules) MostPlaces() (most int64) {
	for stage := range r.Concurrency {
		most = max(most, r.Places(stage))
	}
	return most
}
