package virtual

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"time"

	"parley/replay/load"
	"parley/replay/simserver/batch"
	"parley/schemas"
)

// assumedTokens is the length of an answer that nothing limits.
const assumedTokens = 200

// sampleEvery is the time between two samples of the server's figures.
const sampleEvery = int64(time.Second)

// Conversations is a dataset made ready to be played. Playing does not change it; it may be played by several at once.
type Conversations struct {
	ref      schemas.DatasetRef
	outlines []schemas.Outline
	turns    [][]turn
}

// turn is what a server is asked for in a turn.
type turn struct {
	prompt, output int
	hashes         []uint64
}

// blockSize is the tokens of a block; hashes are made for it once.
const blockSize = 16

// Read makes conversations ready. Prompts have the dataset's counts of tokens, where it has them, and else those of
// the turns' new tokens and answers. Each conversation's history is its own, but for what the dataset says that its
// first turn shares with others (expected_cached_tokens, by prefix group).
func Read(name string, outlines iter.Seq2[schemas.Outline, error]) (*Conversations, error) {
	c := &Conversations{ref: schemas.DatasetRef{File: name}}
	names := fnv.New64a()
	for o, err := range outlines {
		if err != nil {
			return nil, err
		}
		group := uint64(0)
		if o.PrefixGroup != nil {
			h := fnv.New64a()
			_, _ = h.Write([]byte(*o.PrefixGroup))
			group = h.Sum64()
		}
		shared := int64(0)
		if len(o.Turns) > 0 && o.Turns[0].ExpectedCachedTokens != nil {
			shared = *o.Turns[0].ExpectedCachedTokens
		}
		row := uint64(len(c.outlines))
		history, longest := int64(0), 0
		list := make([]turn, len(o.Turns))
		for i := range o.Turns {
			t := &o.Turns[i]
			if t.NewTokens != nil {
				history += *t.NewTokens
			}
			prompt, output := history, int64(assumedTokens)
			if t.PromptTokens != nil {
				prompt = *t.PromptTokens
			}
			if t.OutputTokens != nil {
				output = *t.OutputTokens
			}
			history = prompt + output
			list[i] = turn{prompt: int(max(1, prompt)), output: int(max(1, output))}
			longest = max(longest, list[i].prompt+list[i].output)
			fmt.Fprintf(names, "%s/%d/%d/%d;", o.ConversationID, i, prompt, output)
		}
		hashes := make([]uint64, longest/blockSize)
		for k := range hashes {
			of := row + 1
			if int64(k+1)*blockSize <= shared {
				of = group | 1<<63
			}
			hashes[k] = mix(of ^ mix(uint64(k)))
		}
		for i := range list {
			list[i].hashes = hashes[:(list[i].prompt+list[i].output)/blockSize]
		}
		c.outlines = append(c.outlines, o)
		c.turns = append(c.turns, list)
		c.ref.Conversations++
		c.ref.Turns += int64(len(list))
	}
	c.ref.ContentHash = fmt.Sprintf("virtual-%x", names.Sum64())
	return c, nil
}

// mix is SplitMix64's finalizer (Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func (c *Conversations) all() iter.Seq2[schemas.Outline, error] {
	return func(yield func(schemas.Outline, error) bool) {
		for _, o := range c.outlines {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Run is a run that was played.
type Run struct {
	Meta      schemas.RunMeta
	Rows      []schemas.Request // in the order in which they ended
	Telemetry []schemas.Sample  // each second, under the names of telemetry files
	Counts    batch.Counts      // of the engine, at the end
}

// Play plays a run. The rules are valid, the engine too; blocks have 16 tokens.
func (c *Conversations) Play(rules load.Rules, engine batch.Config) (*Run, error) {
	rules.Shards = max(rules.Shards, 1)
	if engine.BlockSize != blockSize {
		return nil, fmt.Errorf("virtual: blocks of %d tokens: only %d are possible", engine.BlockSize, blockSize)
	}
	x, err := load.Survey(c.ref.File, c.all, &rules)
	if err != nil {
		return nil, err
	}
	p := &player{c: c, x: x, rules: &rules, s: load.NewScheduler(x, &rules, load.Left{}), e: batch.New(engine), id: fmt.Sprintf("virtual-%d-%d", rules.Seed, engine.Seed)}
	defer p.s.Close()
	p.play()
	m := &p.run.Meta
	*m = schemas.RunMeta{
		RunID: p.id, ToolVersion: "virtual", Config: []byte(`{}`), Seed: rules.Seed, Shards: rules.Shards, Shard: rules.Shard,
		Dataset: c.ref, Simulated: true, Origin: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Targets: []schemas.Target{{URL: "sim:", API: "chat", Model: "sim", Server: "simserver"}},
		Clock:   schemas.ClockInfo{Source: "kernel", KernelReads: int64(len(p.run.Rows))},
		EndedNS: p.now, Ended: p.ended, Planned: p.s.Planned(), Rows: int64(len(p.run.Rows)), NotAdmitted: p.s.NotAdmitted(),
		Counts: map[schemas.Status]int64{}, Sessions: []schemas.Session{{}},
	}
	if reason, at := p.s.Stopped(); reason != "" && reason != load.EndComplete {
		m.StopNS = &at
	}
	if n := rules.Concurrency; len(n) == 1 {
		level := int64(n[0].Level)
		m.Concurrency = &level
	} else if r := rules.Rate; len(r) == 1 && !math.IsInf(r[0].Level, 1) {
		m.OfferedRate = &r[0].Level
	}
	for i := range p.run.Rows {
		m.Counts[schemas.Status(p.run.Rows[i].Status)]++
	}
	p.run.Counts = p.e.Counts()
	return &p.run, nil
}

// player is a run that is being played.
type player struct {
	c      *Conversations
	x      *load.Extent
	rules  *load.Rules
	s      *load.Scheduler
	e      *batch.Engine
	id     string
	now    int64
	sample int64 // the next sample's moment
	ended  string
	flying []*flight
	run    Run
}

// flight is a request under way.
type flight struct {
	row  *schemas.Request
	task load.Task
	turn int
	seq  *batch.Sequence
	at   int // in player.flying, -1 if it has ended
}

func (p *player) play() {
	for p.ended == "" {
		at, due := p.s.Next()
		step, busy := p.e.Next()
		switch {
		case busy && (!due || step <= at):
			p.to(step)
			for _, ev := range p.e.Advance(step) {
				if ev.Kind == batch.Tokens {
					p.tokens(ev)
				}
			}
		case due:
			p.to(at)
			p.perform(p.s.Step(load.Event{Kind: load.Came, At: at}))
		default: // a conversation that cannot go on: the scheduler ends by itself, so this cannot be
			panic("virtual: nothing is due and the run has not ended")
		}
	}
}

// to has the clock go on.
func (p *player) to(at int64) {
	for ; p.sample <= at; p.sample += sampleEvery {
		l, n := p.e.Load(), p.e.Counts()
		for _, f := range []struct {
			name  string
			value float64
		}{
			{"running", float64(l.Running)}, {"waiting", float64(l.Waiting)}, {"kv_usage", l.Usage}, {"prefix_cache_hits", float64(n.Hits)},
			{"prefix_cache_queries", float64(n.Queries)}, {"preemptions", float64(n.Preemptions)}, {"generation_tokens", float64(n.Generated)},
		} {
			p.run.Telemetry = append(p.run.Telemetry, schemas.Sample{TimeNS: p.sample, Source: "sim:", Name: f.name, Value: f.value})
		}
	}
	p.now = max(p.now, at)
}

func (p *player) perform(actions []load.Action) {
	var told, bad []load.Task
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case load.Start:
			if !p.start(a) {
				bad = append(bad, a.Task)
			} else if a.Tell {
				told = append(told, a.Task)
			}
		case load.Drop:
			p.drop(a)
		case load.Cut:
			p.cut(a.Reason)
		case load.End:
			p.ended = a.Reason
		}
	}
	for _, t := range told {
		p.perform(slices.Clone(p.s.Step(load.Event{Kind: load.Begun, At: p.now, Task: t})))
	}
	for _, t := range bad {
		p.perform(slices.Clone(p.s.Step(load.Event{Kind: load.Ended, At: p.now, Task: t, Outcome: load.Failed})))
	}
}

// start sends a turn, and says whether the engine takes it.
func (p *player) start(a *load.Action) bool {
	row := p.row(a)
	own := *a // the row keeps parts of it
	own.Fill(row, p.x, 0)
	now := p.now
	row.StartNS, row.SentNS, row.WroteNS, row.AttemptNS = &now, &now, &now, []int64{now}
	row.Attempts = 1
	t := &p.c.turns[a.Task.Row][a.Turn]
	f := &flight{row: row, task: a.Task, turn: int(a.Turn), at: len(p.flying)}
	seq, err := p.e.Add(now, batch.Request{Prompt: t.prompt, Output: t.output, Hashes: t.hashes}, f)
	if err != nil {
		status, kind, message := int64(400), "bad_request", err.Error()
		row.Status, row.HTTPStatus, row.ErrorKind, row.ErrorMessage, row.DoneNS = string(schemas.StatusHTTPError), &status, &kind, &message, &now
		row.Derive()
		p.run.Rows = append(p.run.Rows, *row)
		return false
	}
	f.seq = seq
	row.ChunkNS = make([]int64, 0, t.output)
	p.flying = append(p.flying, f)
	return true
}

// row makes the row of a turn with what is known beforehand.
func (p *player) row(a *load.Action) *schemas.Request {
	o := &p.c.outlines[a.Task.Row]
	t := &o.Turns[a.Turn]
	row := &schemas.Request{
		RunID: p.id, RequestID: fmt.Sprintf("%s-%d.%d-%d", p.id, a.Task.Row, a.Task.Pass, a.Turn), ConversationID: o.ConversationID,
		Instance: a.Task.Pass, Turn: int64(a.Turn), Phase: schemas.PhaseMain, Shard: int64(p.rules.Shard), URL: "sim:", API: "chat", Model: "sim",
		NewTokens: t.NewTokens, ExpectedPromptTokens: t.PromptTokens, ExpectedCachedTokens: t.ExpectedCachedTokens,
		PrefixGroup: o.PrefixGroup, Tags: o.Tags,
	}
	asked := int64(p.c.turns[a.Task.Row][a.Turn].output)
	row.OutputTokensAsked = &asked
	p.x.Place(row, a.Task)
	if a.Scheduled != load.None {
		scheduled := a.Scheduled
		row.ScheduledNS = &scheduled
	}
	return row
}

// drop makes the rows of turns that are not sent.
func (p *player) drop(a *load.Action) {
	one := *a
	for ; int(one.Turn) < len(p.c.turns[a.Task.Row]); one.Turn++ {
		row := p.row(&one)
		reason := a.Reason
		row.ErrorKind = &reason
		if row.Status = string(schemas.StatusNotReached); a.Shed {
			row.Status = string(schemas.StatusShed)
		}
		p.run.Rows = append(p.run.Rows, *row)
		one.Scheduled = load.None
	}
}

// tokens takes what came of a request.
func (p *player) tokens(ev batch.Event) {
	f := ev.Of.Tag.(*flight)
	if f.at < 0 { // cut in this very moment
		return
	}
	row := f.row
	row.ChunkNS = append(row.ChunkNS, ev.At)
	if ev.Tokens > 1 && row.ChunkTokens == nil {
		row.ChunkTokens = slices.Repeat([]int64{1}, len(row.ChunkNS)-1)
	}
	if row.ChunkTokens != nil {
		row.ChunkTokens = append(row.ChunkTokens, int64(ev.Tokens))
	}
	if f.seq.Done == f.seq.Output {
		p.end(f, schemas.StatusOK, load.OK)
	}
}

// end ends a request.
func (p *player) end(f *flight, status schemas.Status, how load.Outcome) {
	last := p.flying[len(p.flying)-1]
	p.flying[f.at], last.at = last, f.at
	p.flying, f.at = p.flying[:len(p.flying)-1], -1
	row, now := f.row, p.now
	row.Status, row.DoneNS = string(status), &now
	if n := len(row.ChunkNS); n > 0 {
		first, end := row.ChunkNS[0], row.ChunkNS[n-1]
		row.FirstByteNS, row.FirstEventNS, row.FirstTokenNS, row.FirstAnswerNS, row.LastTokenNS = &first, &first, &first, &first, &end
		code, streamed := int64(200), true
		row.HTTPStatus, row.Streamed, row.Events, row.Reads = &code, &streamed, int64(n), int64(n)
		prompt, cached, done, source := int64(f.seq.Prompt), int64(f.seq.Cached), int64(f.seq.Done), schemas.TokensFromUsage
		row.PromptTokens, row.CachedTokens, row.CompletionTokens, row.TokenSource = &prompt, &cached, &done, &source
	}
	if status == schemas.StatusOK {
		finish := "length"
		row.FinishReason, row.SawDone = &finish, true
	}
	row.Derive()
	p.run.Rows = append(p.run.Rows, *row)
	ev := load.Event{Kind: load.Ended, At: p.now, Task: f.task, Outcome: how}
	if turns := p.c.outlines[f.task.Row].Turns; f.turn+1 < len(turns) {
		ev.Pause, _ = p.rules.Pause(&turns[f.turn+1]) // Survey has passed over what is wrong with it
	}
	p.perform(slices.Clone(p.s.Step(ev)))
}

// cut cancels the requests under way.
func (p *player) cut(reason string) {
	for len(p.flying) > 0 {
		f := p.flying[0]
		p.e.Cancel(f.seq)
		kind := reason
		f.row.ErrorKind = &kind
		p.end(f, schemas.StatusCanceled, load.Canceled)
	}
}
