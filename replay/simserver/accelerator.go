package simserver

import (
	"math"
	"time"

	"parley/replay/simserver/batch"
)

// gpu is an accelerator by its data sheet: memory in GB, its bandwidth in TB/s, and dense BF16 arithmetic in TFLOPS.
// large tells those for which vLLM has larger batches by default.
type gpu struct {
	memory, bandwidth, tflops float64
	large                     bool
}

// Sources: NVIDIA's data sheets of the H100 SXM, H200 SXM, A100 80GB SXM and L40S, AMD's of the MI300X; figures
// without sparsity.
var gpus = map[string]gpu{
	"h100":   {80, 3.35, 989, true},
	"h200":   {141, 4.8, 989, true},
	"a100":   {80, 2.039, 312, false},
	"l40s":   {48, 0.864, 362, false},
	"mi300x": {192, 5.3, 1307, true},
}

// The model is Llama 3.1 8B in BF16 (its model card: 8.03 billion parameters, 32 layers, 8 heads of keys and values
// of 128 numbers each), served as vLLM does by default: nine tenths of the memory (gpu_memory_utilization), of which
// what the weights and some GB of activations leave is for keys and values.
const (
	parameters  = 8.03e9
	weights     = 2 * parameters       // bytes
	kvToken     = 2 * 32 * 8 * 128 * 2 // bytes of keys and values of a token
	activations = 3e9                  // bytes
	typical     = 1500                 // tokens of a typical sequence, whose keys and values each step reads
)

// Kernels come to about three quarters of the bandwidth and half of the arithmetic of the data sheets.
const (
	bandwidthShare = 0.75
	tflopsShare    = 0.5
)

// batches says whether the engine is the one that batches.
func (c *Config) batches() bool { return c.Engine == "batched" || c.Engine == "" && c.GPU != "" }

// preset sets what the accelerator decides: a step reads all weights, and the keys and values of each sequence; a
// prompt's token takes two operations for each parameter.
func (c *Config) preset() {
	name := c.GPU
	if name == "" {
		name = "h100"
	}
	g, ok := gpus[name]
	if !ok || !c.batches() {
		return
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * 1e9).Round(100 * time.Nanosecond) }
	bytes := g.bandwidth * 1e12 * bandwidthShare
	c.Step = seconds(weights / bytes)
	c.StepSequence = seconds(kvToken * typical / bytes)
	c.StepToken = seconds(2 * parameters / (g.tflops * 1e12 * tflopsShare))
	c.CacheBlocks = int((0.9*g.memory*1e9 - weights - activations) / kvToken / float64(c.BlockSize))
	// vLLM's defaults for its server (vllm/engine/arg_utils.py): 8,192 tokens and 1,024 sequences on accelerators
	// of at least 70 GiB other than the A100, else 2,048 and 256.
	if c.Budget, c.Slots = 2048, 256; g.large {
		c.Budget, c.Slots = 8192, 1024
	}
}

// Batch gives the engine that batches, as package batch has it.
func (c *Config) Batch() batch.Config {
	b := batch.Config{
		Step: c.Step, PerSequence: c.StepSequence, PerToken: c.StepToken, Delay: c.Base, Sequences: c.Slots, Budget: c.Budget,
		Blocks: c.CacheBlocks, BlockSize: c.BlockSize, Draft: c.Draft, Accept: c.Accept, Workers: c.Workers, Prefillers: c.Prefillers,
		Transfer: c.Transfer, Mood: c.Mood, Drift: c.Drift, DriftTime: c.DriftTime, Jitter: c.Jitter, Seed: uint64(c.Seed),
	}
	if b.Blocks == 0 { // as without a cache: memory is no limit
		b.Blocks, b.NoSharing = math.MaxInt32, true
	}
	if b.Step == 0 && b.PerSequence == 0 { // a Config that no preset has been through
		d := Config{Engine: "batched", GPU: c.GPU, BlockSize: b.BlockSize}
		d.preset()
		b.Step, b.PerSequence, b.PerToken = d.Step, d.StepSequence, d.StepToken
	}
	return b
}

// accelerator does the work: it says when each token is there.
type accelerator interface {
	// enqueue takes a request in; nil means that the queue is full.
	enqueue(j *job) (work, error)
	// remember puts blocks into the prefix cache, where that is not the engine's own matter.
	remember(hashes []uint64)
	resetCache()
	load() load
}

// work is a request's part of an accelerator's work.
type work interface {
	// admitted waits until the work has begun, and sets when that was and what the cache had.
	admitted() error
	// first waits for the first token, or until a moment if that is earlier, and says whether the token is there.
	first(until time.Time) (bool, error)
	// next waits for the next tokens after the first i, and says how many came with them, at most and, unless the
	// engine has its own mind, as many as asked for.
	next(i, asked int) (int, error)
	// leave ends the work.
	leave()
}

// load is a look at an accelerator's state.
type load struct {
	running, waiting, cached int
	usage                    float64
	hits, queries            int64
	preemptions              int64
}
