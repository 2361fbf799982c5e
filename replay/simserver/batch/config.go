package batch

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config is an engine. See the package's documentation for what its parts do.
type Config struct {
	Step        time.Duration // a: of every step
	PerSequence time.Duration // b: of each sequence that decodes in it
	PerToken    time.Duration // c: of each prompt token (or guess) computed in it
	Delay       time.Duration // from a request's arrival until it stands in the queue

	Sequences int  // most that run at once on a worker; 0 is no limit
	Budget    int  // tokens computed in a step, at most; 0 is no limit
	Blocks    int  // of the cache of keys and values of a worker
	BlockSize int  // tokens per block
	NoSharing bool // no prefix is found again

	Draft  int     // tokens guessed for each step of a sequence; 0 is no speculative decoding
	Accept float64 // chance that a guess is right, if those before it were

	Workers    int           // that decode, and prefill unless others do; 0 is 1
	Prefillers int           // workers that only prefill
	Transfer   time.Duration // per prompt token, of the blocks' way from a prefiller

	Mood      float64       // standard deviation of the logarithm of the start's factor on all times
	Drift     float64       // the same of the factor that wanders
	DriftTime time.Duration // in which it forgets: its autocorrelation falls to 1/e; 0 is a minute
	Jitter    float64       // a step's own factor is even from 1-Jitter to 1+Jitter
	Seed      uint64        // of all chance
}

// Validate gives every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("batch: "+format, args...)) }
	for name, n := range map[string]int{"sequences": c.Sequences, "budget": c.Budget, "draft": c.Draft, "workers": c.Workers, "prefillers": c.Prefillers} {
		if n < 0 {
			bad("%s=%d: must not be negative", name, n)
		}
	}
	for name, d := range map[string]time.Duration{"step": c.Step, "per sequence": c.PerSequence, "per token": c.PerToken, "delay": c.Delay, "transfer": c.Transfer, "drift time": c.DriftTime} {
		if d < 0 {
			bad("%s=%v: must not be negative", name, d)
		}
	}
	if c.Step+c.PerSequence == 0 {
		bad("a step that takes no time never ends: give step or per sequence")
	}
	if c.Blocks < 1 || c.BlockSize < 1 {
		bad("blocks=%d of %d tokens: an engine needs room", c.Blocks, c.BlockSize)
	}
	for name, v := range map[string]float64{"accept": c.Accept, "jitter": c.Jitter} {
		if !(v >= 0 && v <= 1) {
			bad("%s=%v: must be from 0 to 1", name, v)
		}
	}
	for name, v := range map[string]float64{"mood": c.Mood, "drift": c.Drift} {
		if !(v >= 0 && v <= 2) {
			bad("%s=%v: must be from 0 to 2", name, v)
		}
	}
	return errors.Join(errs...)
}

// normal settles what 0 stands for.
func (c Config) normal() Config {
	if c.Sequences == 0 {
		c.Sequences = math.MaxInt32
	}
	if c.Budget == 0 {
		c.Budget = math.MaxInt32
	}
	c.Workers = max(c.Workers, 1)
	if c.DriftTime == 0 {
		c.DriftTime = time.Minute
	}
	return c
}
