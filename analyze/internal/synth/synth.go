// Package synth makes requests files of runs that never happened: of any size, with known parameters, and
// with every kind of row that a real run has. Tests, the check against DuckDB and the benchmark read them.
package synth

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"parley/schemas"
)

// Spec says what a run was like. The zero value of a field leaves its effect out.
type Spec struct {
	Seed          uint64
	Conversations int
	Turns         int     // of each conversation, at most; each has at least one
	Slots         int     // conversations at once
	TTFT          float64 // median, ms
	Gap           float64 // median between chunks, ms
	Spread        float64 // sigma of the logarithm of a turn's own TTFT
	Shared        float64 // sigma of the logarithm of what the turns of a conversation share
	Chunks        int     // mean number of chunks of an answer
	PerChunk      bool    // token counts with each chunk, several tokens in some
	Failures      float64 // share of turns that fail
	Warmup        int     // turns of the warm-up phase
	Shed          float64 // share of conversations that are shed
	Cached        bool    // the server tells cached tokens
	Slower        float64 // factor on TTFT and gaps that only the run's noise seed does not share; 0 is 1
	Noise         uint64  // seed of what differs between two runs of one dataset
	Repeat        int     // which repeat of its level the run is
	StopS         float64 // the run stops after so many seconds: later turns are canceled or not reached
	Untrue        bool    // one answer in forty or so tells a number of tokens that cannot be true
	Looped        bool    // every other conversation is the second instance of the one before
}

func rng(seed, purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed*0x9e3779b97f4a7c15+purpose, index))
}

// Rows gives the rows of a run, conversation by conversation.
func Rows(s Spec) iter.Seq[*schemas.Request] {
	return func(yield func(*schemas.Request) bool) {
		slots := make([]int64, max(1, s.Slots))
		for c := range s.Conversations {
			if !s.conversation(c, &slots[c%len(slots)], yield) {
				return
			}
		}
	}
}

func ptr[T any](v T) *T { return &v }

// conversation makes the rows of one conversation, which begins at *at and leaves its end there.
func (s *Spec) conversation(c int, at *int64, yield func(*schemas.Request) bool) bool {
	// What belongs to the dataset comes from Seed alone, so that two runs can share it.
	data := rng(s.Seed, 1, uint64(c))
	noise := rng(s.Seed+s.Noise, 2, uint64(c))
	turns := 1 + data.IntN(max(1, s.Turns))
	shared := math.Exp(s.Shared * data.NormFloat64())
	own := math.Exp(s.Shared * noise.NormFloat64())
	slower := s.Slower
	if slower == 0 {
		slower = 1
	}
	id, instance := c, int64(0)
	if s.Looped {
		id, instance = c/2, int64(c%2)
	}
	shed := noise.Float64() < s.Shed
	alive := !shed
	prompt := int64(20 + data.IntN(2000))
	var held int64
	for turn := range turns {
		r := schemas.Request{
			RunID: "synth", RequestID: fmt.Sprintf("%d-%d", c, turn), ConversationID: fmt.Sprintf("conv-%06d", id), Instance: instance,
			Turn: int64(turn), Phase: schemas.PhaseMain, URL: fmt.Sprintf("http://127.0.0.1:%d", 8000+c%2), API: "chat", Model: "sim",
			MessagesSent: int64(2*turn + 1), Attempts: 1,
			Tags: map[string]string{"source": []string{"web", "code", "mail"}[id%3]},
		}
		if c*max(1, s.Turns) < s.Warmup {
			r.Phase = schemas.PhaseWarmup
		}
		asked := int64(1 + data.IntN(max(1, 2*s.Chunks-1)))
		think := int64(data.ExpFloat64() * 2e8)
		r.OutputTokensAsked = &asked
		r.NewTokens, r.ExpectedPromptTokens, r.ExpectedCachedTokens = ptr(prompt-held), ptr(prompt), ptr(held)
		if turn > 0 {
			r.ThinkTimeMS = ptr(float64(think) / 1e6)
			*at += think
		}
		switch {
		case shed:
			r.Status, r.Attempts = string(schemas.StatusShed), 0
			r.ScheduledNS = ptr(*at)
		case !alive || s.StopS > 0 && float64(*at) > s.StopS*1e9:
			r.Status, r.Attempts = string(schemas.StatusNotReached), 0
		default:
			s.turn(&r, at, noise, prompt, held, asked, shared*own*slower, slower)
			alive = r.Status == string(schemas.StatusOK)
		}
		if !yield(&r) {
			return false
		}
		held = prompt + asked
		prompt = held + int64(10+data.IntN(300))
	}
	return true
}

// turn makes the moments of a turn that was sent.
func (s *Spec) turn(r *schemas.Request, at *int64, noise *rand.Rand, prompt, held, asked int64, effect, slower float64) {
	lag := func(mean float64) int64 { return int64(noise.ExpFloat64() * mean) }
	r.ScheduledNS = ptr(*at)
	ready := *at - 1000 + lag(2000)
	start := max(ready, *at) + lag(40_000)
	sent := start + lag(30_000)
	r.ReadyNS, r.StartNS, r.SentNS, r.WroteNS = &ready, &start, &sent, ptr(sent+lag(10_000))
	first := sent + int64(s.TTFT*1e6*effect*math.Exp(s.Spread*noise.NormFloat64()))
	r.FirstByteNS = ptr(sent + (first-sent)/2)
	r.FirstEventNS = ptr(first - 1)
	r.ConnReused = ptr(noise.IntN(8) > 0)
	fails := noise.Float64() < s.Failures
	if fails && noise.IntN(2) == 0 {
		r.Status = string(schemas.StatusHTTPError)
		r.HTTPStatus, r.ErrorKind = ptr(int64(503)), ptr("overloaded")
		r.DoneNS = &first
		r.FirstEventNS = nil
		*at = first
		return
	}
	r.HTTPStatus, r.Streamed = ptr(int64(200)), ptr(true)
	s.chunks(r, first, asked, noise, slower)
	last := r.ChunkNS[len(r.ChunkNS)-1]
	r.FirstTokenNS, r.FirstAnswerNS, r.LastTokenNS, r.DoneNS = &first, &first, &last, ptr(last+lag(50_000))
	if noise.IntN(10) == 0 && len(r.ChunkNS) > 1 { // a reasoning model
		r.FirstAnswerNS = ptr(r.ChunkNS[len(r.ChunkNS)/2])
		r.ReasoningTokens = ptr(int64(len(r.ChunkNS) / 2))
	}
	r.Status, r.TokenSource = string(schemas.StatusOK), ptr(schemas.TokensFromUsage)
	r.PromptTokens, r.FinishReason, r.SawDone = ptr(prompt+12), ptr("length"), true
	if s.Cached {
		r.CachedTokens = ptr(held / 16 * 16)
	}
	switch {
	case s.StopS > 0 && float64(*r.DoneNS) > s.StopS*1e9:
		r.Status, r.ErrorKind = string(schemas.StatusCanceled), nil
		r.DoneNS = ptr(max(sent, int64(s.StopS*1e9)))
		r.LastTokenNS, r.FirstTokenNS, r.FirstAnswerNS, r.ChunkNS, r.ChunkTokens = nil, nil, nil, nil, nil
	case fails:
		r.Status, r.ErrorKind, r.SawDone = string(schemas.StatusIncomplete), ptr("cut"), false
	}
	if s.Untrue && r.CompletionTokens != nil && asked%41 == 7 {
		switch prompt % 4 {
		case 0:
			r.CompletionTokens = ptr(asked * 100_000_000)
		case 1:
			r.BytesReceived = asked - 1 // fewer than one a token
		case 2:
			r.PromptTokens = ptr(-prompt)
		default:
			r.BytesReceived, r.TimingNote = asked-1, ptr("gzip") // of compressed bytes that is possible
		}
	}
	r.ResponseID = ptr("resp-" + r.RequestID)
	r.Derive()
	*at = *r.DoneNS
}

func (s *Spec) chunks(r *schemas.Request, first, asked int64, noise *rand.Rand, slower float64) {
	r.ChunkNS = make([]int64, 0, asked)
	at := first
	var tokens int64
	for tokens < asked {
		if len(r.ChunkNS) > 0 {
			at += int64(s.Gap * 1e6 * slower * (0.5 + noise.Float64()))
		}
		k := int64(1)
		if s.PerChunk {
			if k = int64(noise.IntN(4)); noise.IntN(10) < 7 {
				k = 1
			}
			k = min(k, asked-tokens)
			r.ChunkTokens = append(r.ChunkTokens, k)
		}
		r.ChunkNS = append(r.ChunkNS, at)
		tokens += k
	}
	r.CompletionTokens = &asked
}

// Meta gives the metadata of a run.
func Meta(s Spec) *schemas.RunMeta {
	config, err := json.Marshal(map[string]any{"concurrency": s.Slots, "seed": s.Seed})
	if err != nil {
		panic(err) // a map of numbers
	}
	return &schemas.RunMeta{
		RunID: fmt.Sprintf("synth-%d-%d", s.Seed, s.Noise), ToolVersion: "test", Config: config, Seed: s.Seed, Place: schemas.Place{Repeat: s.Repeat}, Shards: 1,
		Dataset:   schemas.DatasetRef{File: "synth.parquet", ContentHash: fmt.Sprintf("synth-%d-%d", s.Seed, s.Conversations)},
		Targets:   []schemas.Target{{URL: "http://127.0.0.1:8000", API: "chat", Model: "sim"}},
		Origin:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Clock:     schemas.ClockInfo{Source: "kernel", KernelReads: 100},
		Ended:     "complete",
		Telemetry: "",
	}
}

// Write writes a run to a file and gives the number of rows.
func Write(path string, s Spec) (int64, error) {
	w, err := schemas.Create[schemas.Request](path, true)
	if err != nil {
		return 0, err
	}
	meta := Meta(s)
	meta.Counts = map[schemas.Status]int64{}
	batch := make([]schemas.Request, 0, 4096)
	for r := range Rows(s) {
		meta.Counts[schemas.Status(r.Status)]++
		if r.DoneNS != nil {
			meta.EndedNS = max(meta.EndedNS, *r.DoneNS)
		}
		if batch = append(batch, *r); len(batch) == cap(batch) {
			if err := w.Write(batch...); err != nil {
				return 0, err
			}
			batch = batch[:0]
		}
	}
	if err := w.Write(batch...); err != nil {
		return 0, err
	}
	meta.Planned, meta.Rows = w.Rows(), w.Rows()
	return w.Rows(), w.Close(meta)
}
