// Package batch is a model of an inference engine that batches continuously: what vLLM, SGLang and TensorRT-LLM do
// on their accelerator, in steps, with neither clock nor goroutine. The simulated server runs it in real time, and
// package virtual in virtual time.
//
// # A step
//
// An engine works in steps. In each one, every running sequence that decodes makes its next token, and what is
// left of the budget of tokens ([Config.Budget]) goes to prompts, which are prefilled in pieces if they are longer
// (chunked prefill). A step takes
//
//	a + b x sequences that decode + c x prompt tokens prefilled in it
//
// with a = [Config.Step] (the weights are read once for all), b = [Config.PerSequence] (each sequence's keys and
// values are read) and c = [Config.PerToken] (the arithmetic of a prompt's token). Whatever a step makes is there at
// its end: tokens of all sequences come together, and who arrives meanwhile waits for the next step.
//
// # Memory
//
// Keys and values live in blocks of tokens ([Pool]). Running sequences and remembered prefixes share the pool: a
// block whose sequence has ended keeps its content, to be found by another prompt with the same beginning, until
// it is the one used longest ago and its room is needed. When a running sequence finds no room, the one that began
// last loses its blocks and goes back to the head of the queue, to be computed anew (preemption). The order of all
// this is that of vLLM's scheduler (vllm/v1/core/sched/scheduler.py, vllm/v1/core/kv_cache_manager.py, 2026):
// running sequences first, in the order in which they began; then the queue, first in first out, unless something
// was preempted in this step.
//
// # More
//
// With speculative decoding ([Config.Draft]) a sequence has several tokens verified in a step: as many come out as
// were guessed in a row, and one; each guess costs what a prompt's token does. With workers of their own for
// prefill ([Config.Prefillers]) a sequence is prefilled on one of them, its first token comes from there, and its
// blocks travel to the worker that decodes it.
//
// # Mood
//
// No two starts of a server are equally fast, and none stays as it is: all times have a factor of the start
// ([Config.Mood]), one that wanders while it runs ([Config.Drift], an Ornstein-Uhlenbeck process of its logarithm),
// and one of each step ([Config.Jitter]).
package batch
