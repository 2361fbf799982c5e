package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/replay/engine"
	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/load"
	"parley/replay/simserver"
	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryStore keeps rows in memory.
type memoryStore struct {
	dir     string
	mu      sync.Mutex
	rows    []schemas.Request
	samples []schemas.Sample
	append  func(rows []schemas.Request) error // called before rows are taken
}

func (m *memoryStore) Dir() string { return m.dir }

func (m *memoryStore) AppendRequests(rows []schemas.Request) error {
	if m.append != nil {
		if err := m.append(rows); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = append(m.rows, rows...)
	return nil
}

func (m *memoryStore) AppendSamples(rows []schemas.Sample) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples = append(m.samples, rows...)
	return nil
}

// fakeServer answers requests without a connection: what it does stands in answer.
type fakeServer struct {
	clk     *clock.Clock
	answer  func(id string, turn int64, row *schemas.Request) time.Duration // how long a request takes; may set the row's status
	deaf    bool                                                            // requests do not end when they are canceled
	mu      sync.Mutex
	now     int
	most    int
	history map[string][]string // by conversation and instance: what the last request sent
}

type fakeSession struct {
	s    *fakeServer
	c    *engine.Conversation
	sent []string
}

func (f *fakeSession) Append(m schemas.Message) error {
	f.sent = append(f.sent, m.Role+":"+*m.Content)
	return nil
}

func (f *fakeSession) AppendAnswer(a api.Answer, _ *schemas.Message) (bool, error) {
	f.sent = append(f.sent, "assistant:"+*a.Message.Content)
	return true, nil
}

func (f *fakeSession) Do(ctx context.Context, _ int64, row *schemas.Request) api.Answer {
	s := f.s
	start := s.clk.Now()
	row.StartNS, row.SentNS = moment(start), moment(start)
	row.Status = string(schemas.StatusOK)
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.history[fmt.Sprintf("%s/%d", row.ConversationID, row.Instance)] = slices.Clone(f.sent)
	s.mu.Unlock()
	d := time.Second
	if s.answer != nil {
		d = s.answer(row.ConversationID, row.Turn, row)
	}
	done := ctx.Done()
	if s.deaf {
		done = nil
	}
	select {
	case <-time.After(d):
	case <-done:
		row.Status = string(schemas.StatusCanceled)
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	row.DoneNS = moment(s.clk.Now())
	text := fmt.Sprintf("live %s.%d", row.ConversationID, row.Turn)
	return api.Answer{Message: schemas.Message{Role: "assistant", Content: &text}}
}

// talk is a conversation of so many turns, with a think time before each but the first.
func talk(id string, turns int, think time.Duration) schemas.Conversation {
	c := schemas.Conversation{ConversationID: id}
	text := func(format string, args ...any) *string { s := fmt.Sprintf(format, args...); return &s }
	for t := range turns {
		c.Messages = append(c.Messages, schemas.Message{Role: "user", Content: text("ask %s.%d", id, t)})
		turn := schemas.Turn{MessageIndex: int64(len(c.Messages))}
		if t > 0 && think > 0 {
			ms := float64(think) / 1e6
			turn.ThinkTimeMS = &ms
		}
		n := int64(10)
		turn.OutputTokens = &n
		c.Turns = append(c.Turns, turn)
		c.Messages = append(c.Messages, schemas.Message{Role: "assistant", Content: text("recorded %s.%d", id, t)})
	}
	return c
}

func talks(n, turns int, think time.Duration) []schemas.Conversation {
	out := make([]schemas.Conversation, n)
	for i := range out {
		out[i] = talk(fmt.Sprintf("c%d", i), turns, think)
	}
	return out
}

// memoryDataset is a dataset without a file: the Parquet reader shares its decoders with the whole
// process, which a synctest bubble may not.
type memoryDataset []schemas.Conversation

func (m memoryDataset) Path() string { return "memory" }

func (m memoryDataset) Outlines() iter.Seq2[schemas.Outline, error] {
	return func(yield func(schemas.Outline, error) bool) {
		for _, c := range m {
			o := schemas.Outline{ConversationID: c.ConversationID, Turns: c.Turns, StartOffsetMS: c.StartOffsetMS,
				ParentID: c.ParentID, ParentTurn: c.ParentTurn, ParentDelayMS: c.ParentDelayMS, ParentFrom: c.ParentFrom}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (m memoryDataset) Conversations(first int64) iter.Seq2[schemas.Conversation, error] {
	return func(yield func(schemas.Conversation, error) bool) {
		for _, c := range m[first:] {
			c.Messages, c.Turns = slices.Clone(c.Messages), slices.Clone(c.Turns)
			if !yield(c, nil) {
				return
			}
		}
	}
}

// trial is one run of the engine against a fake server in virtual time.
type trial struct {
	cfg       Config
	convs     []schemas.Conversation
	sim       string // the query of a simulated server, in place of the fake one
	server    fakeServer
	store     memoryStore
	cancel    time.Duration    // hard stop after this time
	drain     time.Duration    // first Ctrl-C after this time
	suspend   [2]time.Duration // after the first, the client is suspended for the second
	sleep     [2]time.Duration // after the first, the machine sleeps for the second
	left      *left
	backlog   int64 // the collector's bound, 0 for the usual one
	lateClose bool  // the store may still be writing when the run is over

	e        *engine.Engine
	rules    *load.Rules
	truth    bytes.Buffer
	rows     []schemas.Request // sorted by conversation, instance, turn
	err      error
	closeErr error
	took     time.Duration
}

func (r *trial) run(t *testing.T) {
	t.Helper()
	r.cfg.Dataset, r.cfg.Output, r.cfg.URLs = "memory", "memory.out", []string{"http://server"}
	cfg, err := r.cfg.settle()
	if err != nil {
		t.Fatal(err)
	}
	r.rules = &cfg.rules
	data := memoryDataset(r.convs)
	x, err := load.Survey("memory", data.Outlines, r.rules)
	if err != nil {
		t.Fatal(err)
	}
	r.store.dir = t.TempDir()
	r.server.history = map[string][]string{}
	synctest.Test(t, func(t *testing.T) {
		origin := time.Now()
		clk := clock.New(origin)
		r.server.clk = clk
		if r.suspend[1] > 0 { // whoever wakes finds that so much time has passed
			defer time.AfterFunc(r.suspend[0], func() { clk.Restart(origin.Add(-r.suspend[1])) }).Stop()
		}
		set := engine.Settings{
			Rules: r.rules, Extent: x, Dataset: data, Clock: clk, Store: &r.store, RunID: "run", API: cfg.API,
			Targets: []schemas.Target{{URL: "http://server"}}, Begin: func(int) int64 { return clk.Now() },
			Open:    func(c *engine.Conversation) (engine.Session, error) { return &fakeSession{s: &r.server, c: c}, nil },
			Timeout: cfg.Timeout, IdleTimeout: cfg.IdleTimeout, LiveHistory: cfg.History == "live", OutputTokens: cfg.outputTokens,
			Backlog: r.backlog,
		}
		if r.sleep[1] > 0 {
			set.Slept = func() time.Duration {
				if clk.Now() < int64(r.sleep[0]) {
					return 7 * time.Hour // before the run
				}
				return 7*time.Hour + r.sleep[1]
			}
		}
		if r.left != nil {
			set.Left, set.Resumed, set.Answers = r.left.Left, true, r.left.saved
		}
		if r.sim != "" {
			stop := r.simulate(t, cfg, clk, &set)
			defer stop()
		}
		e := engine.New(set)
		defer e.Close()
		r.e = e
		hard, cancel := context.WithCancel(context.Background())
		defer cancel()
		if r.cancel > 0 {
			defer time.AfterFunc(r.cancel, cancel).Stop()
		}
		drain := make(chan struct{})
		if r.drain > 0 {
			defer time.AfterFunc(r.drain, func() { close(drain) }).Stop()
		}
		r.err = e.Run(hard, drain)
		r.took = time.Duration(clk.Now())
		if r.closeErr = e.Finish(time.Minute); r.closeErr != nil && r.err == nil {
			r.err = r.closeErr
		}
		if r.lateClose {
			time.Sleep(1000 * time.Hour)
		}
		if r.server.deaf {
			time.Sleep(time.Hour) // the abandoned requests end, and with them the bubble
		}
	})
	r.rows = r.store.rows
	slices.SortFunc(r.rows, func(a, b schemas.Request) int {
		return cmp.Or(cmp.Compare(a.ConversationID, b.ConversationID), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Turn, b.Turn))
	})
	for i := 1; i < len(r.rows); i++ {
		a, b := &r.rows[i-1], &r.rows[i]
		if a.ConversationID == b.ConversationID && a.Instance == b.Instance && a.Turn == b.Turn {
			t.Errorf("two rows for turn %d of %s/%d", a.Turn, a.ConversationID, a.Instance)
		}
	}
}

// simulate has the engine talk to a simulated server over connections in memory.
func (r *trial) simulate(t *testing.T, cfg *settled, clk *clock.Clock, set *engine.Settings) (stop func()) {
	sim, err := simserver.ParseQuery(r.sim)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simserver.NewWithLog(sim, &r.truth)
	if err != nil {
		t.Fatal(err)
	}
	ln := simserver.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(ctx, ln)
	}()
	client, err := newClient(cfg, "http://memory", clk, ln.Dial)
	if err != nil {
		t.Fatal(err)
	}
	to := &server{Target: schemas.Target{URL: "http://memory", Model: "sim"}, client: client, params: baseParams(cfg, "sim")}
	whole := &run{cfg: cfg, meta: schemas.RunMeta{RunID: "run"}}
	set.Open = func(c *engine.Conversation) (engine.Session, error) { return whole.openLine(to, c) }
	return func() {
		client.Close()
		cancel()
		<-served
		s.Close()
	}
}

// truths gives the simulated server's log by response id.
func (r *trial) truths(t *testing.T) map[string]simserver.Truth {
	t.Helper()
	out := map[string]simserver.Truth{}
	for line := range bytes.Lines(r.truth.Bytes()) {
		var truth simserver.Truth
		if err := json.Unmarshal(line, &truth); err != nil {
			t.Fatal(err)
		}
		out[truth.ResponseID] = truth
	}
	return out
}

// counts gives the number of rows by status and kind.
func (r *trial) counts() map[string]int {
	out := map[string]int{}
	for _, row := range r.rows {
		key := row.Status
		if row.ErrorKind != nil {
			key += " " + *row.ErrorKind
		}
		out[key]++
	}
	return out
}

// check holds a trial against what it was to give.
func (r *trial) check(t *testing.T, want map[string]int, most int, took time.Duration) {
	t.Helper()
	if r.err != nil {
		t.Errorf("the run failed: %v", r.err)
	}
	r.checkRows(t, want)
	if r.server.most != most {
		t.Errorf("%d requests at once, want %d", r.server.most, most)
	}
	if (r.took - took).Abs() > time.Millisecond {
		t.Errorf("the run took %v, want %v", r.took, took)
	}
}

func (r *trial) checkRows(t *testing.T, want map[string]int) {
	t.Helper()
	if got := r.counts(); !maps.Equal(got, want) {
		t.Errorf("rows: %v, want %v", got, want)
	}
	if int64(len(r.rows)) != r.e.Totals().Planned {
		t.Errorf("%d rows, %d turns planned", len(r.rows), r.e.Totals().Planned)
	}
}

func moment(ns int64) *int64 { return &ns }
