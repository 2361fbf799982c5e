package analyze

import (
	"container/heap"
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"parley/analyze/stat"
	"parley/schemas"
)

// queueModel is a server that all conversations share, in virtual time: what intervals, comparisons and
// windows are tested on. A turn waits for a slot, then for the one prefill lane; its prefill takes a base
// time and a time for each token that is not in the prefix cache; then it decodes, the slower the more run
// beside it. It knows nothing of parley's simulated server, and makes rows directly.
//
// What belongs to the dataset (lengths, think times) comes from Data, the arrivals from Seed, so that runs can
// share them; what belongs to the server on that day comes from Noise.
type queueModel struct {
	Data, Seed, Noise uint64
	Seconds           float64 // of the run
	Warm              float64 // seconds before it that are cut off, and leave no rows
	Rate              float64 // open loop: conversations that arrive a second
	Users             int     // closed loop: conversations at once; each is followed by another
	Slots             int
	Cache             float64 // tokens that the prefix cache holds
	Slower            float64 // factor on all of the server's times; 0 is 1
	Mood              float64 // sigma of the logarithm of the run's own factor
	Drift             float64 // sigma of the logarithm of a factor that wanders while the run goes on
	DriftTau          float64 // seconds in which it forgets
	Jitter            float64 // sigma of the logarithm of each turn's own factor on the server
	Gap               float64 // seconds between tokens of a turn that runs alone
	Tokens            float64 // mean tokens of an answer
	Think             float64 // mean seconds between turns
}

// What the rest of the model is like.
const (
	queueTurns   = 3.5    // mean turns of a conversation
	queueFirst   = 1000.0 // mean tokens of a first prompt
	queueLater   = 400.0  // mean new tokens of a later one
	prefillBase  = 0.020  // seconds
	prefillToken = 0.080 / ((queueFirst + (queueTurns-1)*queueLater) / queueTurns)
	prefillMean  = 0.100 // seconds of a turn whose prefix is cached: what utilisation is made of
)

// plainQueue is a server of one tenth of a second of prefill a turn, at a utilisation of its prefill lane.
func plainQueue(utilisation float64) queueModel {
	return queueModel{
		Seconds: 600, Warm: 120, Rate: utilisation / prefillMean / queueTurns, Slots: 64, Cache: 1e6, Jitter: 0.05,
		Gap: 0.008, Tokens: 80, Think: 5,
	}
}

// closedQueue is a closed loop of so many conversations at that server.
func closedQueue(users int) queueModel {
	m := plainQueue(0)
	m.Rate, m.Users = 0, users
	return m
}

// kneeQueue is a closed loop at the knee of a server whose slots are the bottleneck.
func kneeQueue() queueModel {
	m := closedQueue(34)
	m.Slots, m.Gap = 8, 0.010
	return m
}

// turnOf is one turn of the model. Times are seconds of the model's clock.
type turnOf struct {
	conv, turn   int
	scheduled    float64
	first, last  float64 // 0: not yet
	prompt, held float64 // tokens
	cached       float64
	output       int
	think        float64
}

type queueRun struct {
	model queueModel
	turns []turnOf
}

type queueEvent struct {
	at   float64
	kind uint8 // 0 a turn is sent, 1 prefill is done, 2 the answer is done
	turn int
}

type queueEvents []queueEvent

func (e queueEvents) Len() int           { return len(e) }
func (e queueEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e queueEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *queueEvents) Push(x any)        { *e = append(*e, x.(queueEvent)) }
func (e *queueEvents) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// conversationPlan is what the dataset says of a conversation.
type conversationPlan struct {
	prompt, think []float64
	output        []int
}

func (m *queueModel) plan(c int) conversationPlan {
	r := rand.New(rand.NewPCG(m.Data, uint64(c)))
	var p conversationPlan
	lognormal := func(mean, sigma float64) float64 { return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2) }
	for {
		mean := queueLater
		think := 0.0
		if len(p.prompt) == 0 {
			mean = queueFirst
		} else {
			think = r.ExpFloat64() * m.Think
		}
		p.prompt = append(p.prompt, math.Ceil(lognormal(mean, 0.8)))
		p.think = append(p.think, think)
		p.output = append(p.output, 1+int(lognormal(m.Tokens, 0.7)))
		if r.Float64() < 1/queueTurns {
			return p
		}
	}
}

// run simulates a run.
func (m queueModel) run() *queueRun {
	out := &queueRun{model: m}
	server := rand.New(rand.NewPCG(m.Noise, 1<<41))
	slower := m.Slower
	if slower == 0 {
		slower = 1
	}
	slower *= math.Exp(m.Mood * server.NormFloat64())
	end := m.Warm + m.Seconds
	events := make(queueEvents, 0, 1024)
	push := func(at float64, kind uint8, turn int) { heap.Push(&events, queueEvent{at, kind, turn}) }
	var plans []conversationPlan
	begin := func(at float64) {
		c := len(plans)
		plans = append(plans, m.plan(c))
		out.turns = append(out.turns, turnOf{conv: c, scheduled: at, prompt: plans[c].prompt[0], output: plans[c].output[0]})
		push(at, 0, len(out.turns)-1)
	}
	arrivals := rand.New(rand.NewPCG(m.Seed, 1<<40))
	if m.Rate > 0 {
		for at := arrivals.ExpFloat64() / m.Rate; at < end; at += arrivals.ExpFloat64() / m.Rate {
			begin(at)
		}
	} else {
		for range m.Users {
			begin(0)
		}
	}
	var waiting, lane []int
	running, decoding, laneBusy := 0, 0, false
	drift, driftAt := server.NormFloat64(), 0.0
	speed := func(at float64) float64 {
		f := slower
		if m.Drift > 0 {
			k := math.Exp(-(at - driftAt) / m.DriftTau)
			drift = drift*k + math.Sqrt(1-k*k)*server.NormFloat64()
			driftAt = at
			f *= math.Exp(m.Drift * drift)
		}
		return f * math.Exp(m.Jitter*server.NormFloat64())
	}
	// The prefix cache: conversations, the one used longest ago first.
	type entry struct {
		conv   int
		tokens float64
	}
	cache, order := map[int]*list.Element{}, list.New()
	var cached float64
	touch := func(conv int, tokens float64) {
		e := cache[conv]
		if e == nil {
			e = order.PushBack(&entry{conv: conv})
			cache[conv] = e
		}
		order.MoveToBack(e)
		at := e.Value.(*entry)
		cached += tokens - at.tokens
		at.tokens = tokens
		for cached > m.Cache {
			oldest := order.Remove(order.Front()).(*entry)
			cached -= oldest.tokens
			delete(cache, oldest.conv)
		}
	}
	startPrefill := func(at float64) {
		if laneBusy || len(lane) == 0 {
			return
		}
		i := lane[0]
		lane = lane[1:]
		t := &out.turns[i]
		if e := cache[t.conv]; e != nil && t.turn > 0 {
			t.cached = min(e.Value.(*entry).tokens, t.held)
		}
		service := (prefillBase + prefillToken*(t.prompt-t.cached)) * speed(at)
		laneBusy = true
		push(at+service, 1, i)
	}
	admit := func(at float64) {
		for running < m.Slots && len(waiting) > 0 {
			running++
			lane = append(lane, waiting[0])
			waiting = waiting[1:]
		}
		startPrefill(at)
	}
	for len(events) > 0 {
		e := heap.Pop(&events).(queueEvent)
		if e.at >= end {
			break
		}
		switch e.kind {
		case 0:
			waiting = append(waiting, e.turn)
			admit(e.at)
		case 1:
			t := &out.turns[e.turn]
			t.first = e.at
			laneBusy = false
			decoding++
			gap := m.Gap * (1 + float64(decoding)/64) * speed(e.at)
			push(e.at+gap*float64(t.output-1), 2, e.turn)
			touch(t.conv, t.prompt+float64(t.output))
			startPrefill(e.at)
		case 2:
			t := &out.turns[e.turn]
			t.last = e.at
			running--
			decoding--
			p := &plans[t.conv]
			if next := t.turn + 1; next < len(p.prompt) {
				held := t.prompt + float64(t.output)
				at := e.at + p.think[next]
				out.turns = append(out.turns, turnOf{
					conv: t.conv, turn: next, scheduled: at, prompt: held + p.prompt[next], held: held, output: p.output[next], think: p.think[next],
				})
				push(at, 0, len(out.turns)-1)
			} else {
				if m.Users > 0 {
					begin(e.at)
				}
			}
			admit(e.at)
		}
	}
	return out
}

// rows makes the rows of a run. Turns that the end of the run met in flight are canceled, later ones not
// reached.
func (r *queueRun) rows() []schemas.Request {
	var rows []schemas.Request
	m := &r.model
	warm, end := m.Warm, m.Seconds
	for i := range r.turns {
		t := &r.turns[i]
		if t.scheduled < warm {
			continue
		}
		at := func(s float64) *int64 { return p(int64(math.Round((s - warm) * 1e9))) }
		row := schemas.Request{
			RunID: fmt.Sprintf("queue-%d-%d-%d", m.Data, m.Seed, m.Noise), RequestID: fmt.Sprintf("%d-%d", t.conv, t.turn),
			ConversationID: fmt.Sprintf("c%06d", t.conv), Turn: int64(t.turn), Phase: schemas.PhaseMain, Model: "queue",
			URL: "http://127.0.0.1:1", API: "chat", Attempts: 1, Status: string(schemas.StatusOK), ScheduledNS: at(t.scheduled),
		}
		if t.turn > 0 {
			row.ThinkTimeMS = p(t.think * 1e3)
		}
		asked := int64(t.output)
		row.OutputTokensAsked = &asked
		if t.scheduled-warm >= end {
			row.Status, row.Attempts = string(schemas.StatusNotReached), 0
			rows = append(rows, row)
			continue
		}
		row.ReadyNS, row.StartNS, row.SentNS = at(t.scheduled), at(t.scheduled), at(t.scheduled)
		row.AttemptNS = []int64{*row.StartNS}
		if t.last == 0 {
			row.Status, row.DoneNS = string(schemas.StatusCanceled), at(warm+end)
			if t.first > 0 {
				row.FirstTokenNS = at(t.first)
			}
			rows = append(rows, row)
			continue
		}
		row.FirstTokenNS, row.FirstAnswerNS, row.LastTokenNS, row.DoneNS = at(t.first), at(t.first), at(t.last), at(t.last)
		row.PromptTokens, row.CachedTokens, row.CompletionTokens = p(int64(t.prompt)), p(int64(t.cached)), p(asked)
		row.TokenSource, row.FinishReason, row.SawDone = p(schemas.TokensFromUsage), p("length"), true
		// Few chunks of many tokens: what the lists hold is the same at a fraction of the cost.
		const chunks = 8
		for c := range min(chunks, t.output) {
			share := 0.0
			if n := min(chunks, t.output); n > 1 {
				share = float64(c) / float64(n-1)
			}
			row.ChunkNS = append(row.ChunkNS, *row.FirstTokenNS+int64(share*float64(*row.LastTokenNS-*row.FirstTokenNS)))
			row.ChunkTokens = append(row.ChunkTokens, int64(t.output*(c+1)/min(chunks, t.output)-t.output*c/min(chunks, t.output)))
		}
		row.Derive()
		rows = append(rows, row)
	}
	return rows
}

// meta gives the metadata of the run, as replay would write it.
func (r *queueRun) meta() *schemas.RunMeta {
	m := &r.model
	meta := &schemas.RunMeta{
		RunID: fmt.Sprintf("queue-%d-%d-%d", m.Data, m.Seed, m.Noise), ToolVersion: "test", Seed: m.Seed, Place: schemas.Place{Repeat: int(m.Seed)}, Shards: 1, Config: []byte(`{}`),
		Dataset: schemas.DatasetRef{File: "queue.parquet", ContentHash: fmt.Sprint("queue-", m.Data)},
		Origin:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Clock: schemas.ClockInfo{Source: "kernel", KernelReads: 100},
		EndedNS: int64(m.Seconds * 1e9), StopNS: p(int64(m.Seconds * 1e9)), Ended: "duration",
	}
	if m.Users > 0 {
		meta.Concurrency = p(int64(m.Users))
	} else {
		meta.OfferedRate = &m.Rate
	}
	return meta
}

// memory makes the run one that analyze reads.
func (r *queueRun) memory(t testing.TB) *Runs {
	return runOfRows(t, r.rows(), r.meta(), Options{})
}

// truths are the figures of the server in the long run.
type truths struct{ mean, p50, p90, p99, requests, tokens float64 }

// longRun finds them from one long run of the model.
func (m queueModel) longRun(seconds float64) truths {
	m.Seconds, m.Data, m.Seed, m.Noise = seconds, 1<<30, 1<<30, 1<<30
	r := m.run()
	var ttft []float64
	var done, tokens float64
	for i := range r.turns {
		t := &r.turns[i]
		if t.scheduled >= m.Warm && t.last > 0 {
			ttft = append(ttft, (t.first-t.scheduled)*1e3)
		}
		if t.last >= m.Warm {
			done++
			tokens += float64(t.output)
		}
	}
	mean, _ := stat.MeanStd(ttft)
	ttft = stat.Sort(ttft, nil)
	return truths{mean, stat.Quantile(ttft, 0.5), stat.Quantile(ttft, 0.9), stat.Quantile(ttft, 0.99), done / seconds, tokens / seconds}
}
