package replay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"parley/replay/engine"
	"parley/replay/internal/api"
	"parley/replay/internal/clock"
	"parley/replay/internal/observe"
	"parley/replay/internal/scrape"
	"parley/replay/internal/wire"
	"parley/replay/load"
	"parley/schemas"
)

// Hooks connect a run with the program around it. All are optional.
type Hooks struct {
	// Drain, once closed or sent to, stops the starting of turns: those that run may end within the grace.
	// The end of Run's context is the hard stop: requests under way are cut off.
	Drain <-chan struct{}
	// Started is called when the load begins, on a goroutine of its own, with a function that tells how far
	// it is; that function may be called at any time from then on.
	Started func(progress func() Progress)
	// Note is told, in one line each, what goes on before the load (waiting for the server, probing) and
	// what the run noticed.
	Note func(text string)
	// Rows is told the rows as they go into the journal, some at a time, on one goroutine. It may keep none of them.
	Rows func(rows []schemas.Request)
	// Enough, once closed, stops the run as its Duration does.
	Enough <-chan struct{}

	dial  dialer // in tests: connections in memory
	quiet bool   // in tests: no series of the client's own health
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Outcome is what a run came to. The rows are in the journal (schemas.JournalPath of the output), which
// schemas.SealRun turns into the files.
type Outcome struct {
	Journal string
	Meta    schemas.RunMeta
	// Pace is the run's server's pace in the median, for Calibrate.
	Pace Pace
	// HTTP2 says that a server was spoken to by HTTP/2.
	HTTP2 bool
	// Sealable says that the journal is whole: the run ended by itself or was stopped, and its rows
	// reconcile. A journal that is not can still be read by analyze.
	Sealable bool
}

// Pace is how fast a server answered, in the median of the turns that were measured; 0 without any.
type Pace = engine.Pace

// Progress is how far a run has come.
type Progress = engine.Progress

// collectorLimit is how long the collector may take to write what it holds at the end of a run.
const collectorLimit = time.Minute

// Run replays a dataset against the servers and writes a row for each planned turn into the journal
// beside the output. It returns an outcome whenever there is a journal, also with an error. The errors of
// single requests are rows, not errors of Run.
//
// What is planned, and how a conversation keeps its place, [load.Scheduler] tells. A planned turn that is not
// sent is a row of the status shed or not_reached, whose error_kind says why.
//
// # Scheduled, ready, start
//
// A turn is scheduled, if it is a conversation's first, at its arrival (open loop), at the moment at which
// its place among the Concurrency conversations became free or, under Ramp, was opened (closed loop), or
// at its parent's turn's start or end plus a delay (a conversation that another one starts); later turns at the
// end of the previous turn, or of the last conversation that they join, plus think and tool time. A turn is ready
// at the latest of its scheduled moment, that at which its conversation's place was free, that at which a place
// among MaxInFlight requests was free, and the end of a back-off.
//
// # Stagger
//
// With Stagger each of the first Concurrency conversations begins at a turn drawn evenly from its turns,
// with the recorded history up to there, as if the run had been going on for long; the turns before, and what
// they started, are not planned. The first turn, which brings into the server's cache what it would hold by
// then, is a row of the warm-up.
func Run(ctx context.Context, cfg Config, hooks Hooks) (*Outcome, error) {
	s, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	if hooks.Note == nil {
		hooks.Note = func(string) {}
	}
	ds, x, err := s.survey()
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	r := &run{cfg: s, hooks: hooks, ds: ds, x: x}
	if s.VerifyOutput != "" {
		if r.verifier, err = newVerifier(s.VerifyOutput); err != nil {
			return nil, fmt.Errorf("--verify-output: %w", err)
		}
	}
	defer r.endObserving()
	return r.run(ctx)
}

// dataset is what a run needs of a schemas.Dataset.
type dataset interface {
	engine.Dataset
	Meta() schemas.DatasetMeta
	Outlines() iter.Seq2[schemas.Outline, error]
}

// run is one call of Run.
type run struct {
	cfg      *settled
	hooks    Hooks
	ds       dataset
	x        *load.Extent
	clk      *clock.Clock
	servers  []*server
	sample   *sample
	meta     schemas.RunMeta
	journal  *schemas.Journal
	left     *left
	e        *engine.Engine
	monitor  *engine.Monitor
	scrapes  []*scrape.Scraper
	closers  []*wire.Client // of metrics elsewhere
	verifier *verifier
	page     *observe.Page     // nil: nobody asked for it
	exporter *observe.Exporter // the same
	drain    chan struct{}     // closed: no turn is to start any more
}

// ErrInterrupted is wrapped by the error of a run that was stopped before its load began. There is no
// outcome then.
var ErrInterrupted = errors.New("stopped before the load began")

func (r *run) run(ctx context.Context) (_ *Outcome, err error) {
	if err := r.describe(); err != nil {
		return nil, err
	}
	origin := time.Now()
	if dir := schemas.JournalPath(r.cfg.Output); !r.cfg.Resume && schemas.IsJournal(dir) {
		return nil, fmt.Errorf("%s holds the rows of a run that was killed: read it with 'parley analyze %s', continue it with --resume, or remove it", dir, dir)
	}
	if r.cfg.Resume {
		if r.left, err = readLeft(schemas.JournalPath(r.cfg.Output)); err != nil {
			return nil, err
		}
		if err := r.continues(r.left.meta); err != nil {
			return nil, err
		}
		origin = r.left.meta.Origin
	}
	r.clk = clock.New(origin)
	defer func() {
		for _, c := range r.closers {
			_ = c.Close()
		}
	}()
	for _, url := range r.cfg.URLs {
		client, err := newClient(r.cfg, url, r.clk, r.hooks.dial)
		if err != nil {
			return nil, fmt.Errorf("--url %s: %w", PublicURL(url), err)
		}
		defer client.Close()
		a, err := api.New(r.cfg.API)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, &server{Target: schemas.Target{URL: client.URL(), API: r.cfg.API, Model: r.cfg.Model}, api: a, client: client})
	}
	if err := r.checkLimits(); err != nil {
		return nil, err
	}
	if err := r.observe(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	defer close(ended)
	preparing, cancel := r.listen(ctx, ended)
	defer cancel()
	if err := r.scout(preparing); err != nil {
		if preparing.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrInterrupted, err)
		}
		return nil, err
	}
	r.meta.Targets = publicTargets(r.servers)
	if r.left != nil {
		if err := r.sameTargets(r.left.meta); err != nil {
			return nil, err
		}
	}
	r.expect()
	if r.cfg.Resume {
		r.journal, err = schemas.ResumeJournal(r.cfg.Output, &r.meta)
	} else {
		r.journal, err = schemas.CreateJournal(r.cfg.Output, &r.meta)
	}
	if err != nil {
		return nil, err
	}
	return r.load(ctx, preparing)
}

// listen passes the wish to drain on to the engine, and gives a context for the preparations, which end
// with it.
func (r *run) listen(ctx context.Context, ended <-chan struct{}) (preparing context.Context, cancel func()) {
	preparing, cancel = context.WithCancel(ctx)
	r.drain = make(chan struct{})
	go func() {
		select {
		case <-r.hooks.Drain:
			close(r.drain)
			cancel()
		case <-ended:
		}
	}()
	return preparing, cancel
}

// describe fills in the metadata that is known beforehand.
func (r *run) describe() error {
	cfg := r.cfg
	m := &r.meta
	m.ToolVersion = schemas.Version()
	m.Label, m.Place = cfg.Label, cfg.Place
	m.Config = configText(cfg.Config)
	m.Seed, m.Shard, m.Shards = cfg.Seed, cfg.rules.Shard, cfg.rules.Shards
	m.Simulated = cfg.Simulated
	m.RunID = cfg.RunID
	if m.RunID == "" {
		if cfg.rules.Shards > 1 {
			return errors.New("--run-id: the shards of one run need the same one: give any text")
		}
		b := make([]byte, 6)
		if _, err := rand.Read(b); err != nil {
			return err
		}
		m.RunID = hex.EncodeToString(b)
	}
	m.Dataset = datasetRef(r.ds, r.x)
	for _, w := range []struct {
		n    int
		text string
	}{
		{r.x.Empty, "%d conversations of the dataset have no turn to replay"},
		{r.x.Loose, "%d joins of the dataset name conversations that are not of the same tree: nothing waits for them"},
		{r.x.Duplicates, "%d conversations of the dataset have the identifier of another one: request_id tells their rows apart"},
	} {
		if w.n > 0 {
			m.Warnings = append(m.Warnings, fmt.Sprintf(w.text, w.n))
		}
	}
	if r.x.Beyond > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%d conversations of the dataset name a turn that their parent does not have, and start with its nearest one; the first is %s", r.x.Beyond, r.x.FirstBeyond))
	}
	rules := &cfg.rules
	if len(rules.Rate) == 1 && !math.IsInf(rules.Rate[0].Level, 1) {
		share := rules.Rate[0].Level / float64(rules.Shards)
		m.OfferedRate = &share
	}
	if n := r.cfg.rules.MostPlaces(); n > 0 {
		m.Concurrency = &n
	}
	kernel, cpu, mem := engine.HostFacts()
	m.Host = schemas.Host{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: kernel, CPU: cpu, CPUs: runtime.NumCPU(),
		GOMAXPROCS: runtime.GOMAXPROCS(0), MemBytes: mem, GoVersion: runtime.Version(),
	}
	if !cfg.StartAt.IsZero() && time.Until(cfg.StartAt) <= 0 {
		return fmt.Errorf("--start-at %s has passed", cfg.StartAt.Format(time.RFC3339))
	}
	return nil
}

// connections gives how many connections the load may need at once, 0 if nothing bounds them. A tree of
// conversations has one place and may send several requests at once: it is not a bound then.
func (r *run) connections() int {
	n := int(r.cfg.rules.MostPlaces())
	if n == 0 {
		n = int(r.cfg.rules.Share(int64(r.cfg.MaxConversations)))
	}
	if m := int(r.cfg.rules.Share(int64(r.cfg.MaxInFlight))); m > 0 && (n == 0 || m < n) {
		n = m
	}
	return n
}

// expectMost is how many turns are played through to tell what a run is to be expected to look like.
const expectMost = 100_000

// expect says, before the load begins, what it will look like, and warns when it cannot be what was asked for.
func (r *run) expect() {
	if r.hooks.quiet {
		return
	}
	shape, err := load.Rehearse(r.x, &r.cfg.rules, r.ds.Outlines, r.cfg.outputTokens, expectMost)
	if err != nil {
		return // the load will say what is wrong with the file
	}
	r.hooks.Note(Expectation(shape))
	if n := r.cfg.rules.MostPlaces(); shape.MostActive < n && !shape.Cut && shape.Ended == load.EndComplete {
		r.warn(fmt.Sprintf("--concurrency %d: the dataset has only %d conversations, and never more than %d of them run at once: use --loops, more conversations, or less concurrency", n, r.x.Conversations(), shape.MostActive))
	}
}

// checkLimits raises the limit of open files, and says if it or the ports cannot carry the load.
func (r *run) checkLimits() error {
	n := r.connections()
	if err := wire.CheckLimits(max(n, r.cfg.Preconnect)); err != nil {
		return err
	}
	per := (n + len(r.servers) - 1) / len(r.servers)
	for _, s := range r.servers {
		if err := s.client.CheckPorts(per); err != nil {
			return err
		}
	}
	return nil
}

// used gives the servers that this shard comes to. Conversations are spread by their number in the whole schedule, of
// which a shard has every nth.
func (r *run) used() (used []*server) {
	for i, s := range r.servers {
		for k := range len(r.servers) {
			if (r.cfg.rules.Shard+k*r.cfg.rules.Shards)%len(r.servers) == i {
				used = append(used, s)
				break
			}
		}
	}
	return used
}

// preconnect makes the connections before the load where the load's size is known.
func (r *run) preconnect(ctx context.Context) error {
	n := r.cfg.Preconnect
	if n == 0 {
		n = r.connections()
	}
	if n <= 0 || r.cfg.Preconnect < 0 {
		return nil
	}
	used := r.used()
	for i, s := range used {
		part := int(load.Share(int64(n), i, len(used)))
		if err := s.client.Preconnect(ctx, part); err != nil {
			// The load will show what is wrong, request by request.
			r.warn(fmt.Sprintf("not all of %d connections to %s could be made before the load: %v", part, s.URL, err))
		}
	}
	return ctx.Err()
}

func (r *run) warn(text string) {
	r.meta.Warnings = append(r.meta.Warnings, text)
	r.hooks.Note(text)
}

// warnOnce is warn for what may come up again.
func (r *run) warnOnce(text string) {
	if !slices.Contains(r.meta.Warnings, text) {
		r.warn(text)
	}
}

// load runs the load, and ends the journal.
func (r *run) load(ctx, preparing context.Context) (*Outcome, error) {
	var helpers sync.WaitGroup
	helping, cancel := context.WithCancel(context.Background())
	defer cancel()
	set := engine.Settings{
		Rules: &r.cfg.rules, Extent: r.x, Dataset: r.ds, Clock: r.clk, Store: r.journal,
		RunID: r.meta.RunID, API: r.cfg.API, Targets: r.meta.Targets,
		Open:    func(c *engine.Conversation) (engine.Session, error) { return r.openLine(r.servers[c.Server()], c) },
		Begin:   func(held int) int64 { return r.begin(preparing, helping, &helpers, held) },
		Timeout: r.cfg.Timeout, IdleTimeout: r.cfg.IdleTimeout, LiveHistory: r.cfg.History == "live", OutputTokens: r.cfg.outputTokens,
		Model: r.cfg.modelOf,
	}
	if see := r.observers(); len(see) > 0 {
		set.Store = watched{r.journal, see}
	}
	if r.left != nil {
		set.Left, set.Resumed, set.Answers = r.left.Left, true, r.left.saved
	}
	r.e = engine.New(set)
	defer r.e.Close()
	if r.left != nil {
		// Its rows count in the progress and in the sums.
		if _, err := schemas.ReadJournal(r.journal.Dir(), func(rows []schemas.Request) error {
			for i := range rows {
				r.e.Count(&rows[i])
			}
			return nil
		}); err != nil {
			return nil, errors.Join(err, r.journal.Abandon())
		}
	}
	runErr := r.e.Run(ctx, r.drain)
	cancel()
	helpers.Wait() // the scrapes' last round is bounded by their time-out
	return r.finish(runErr)
}

// watched is a journal whose rows others see as they come, on the goroutine that writes them.
type watched struct {
	*schemas.Journal
	see []func([]schemas.Request)
}

func (w watched) AppendRequests(rows []schemas.Request) error {
	for _, see := range w.see {
		see(rows)
	}
	return w.Journal.AppendRequests(rows)
}

// begin is called when the first conversations are ready. It makes the connections, and settles when the
// schedule begins.
func (r *run) begin(preparing, helping context.Context, helpers *sync.WaitGroup, held int) int64 {
	e := r.e
	if err := r.preconnect(preparing); err != nil {
		e.Stop(load.EndInterrupted)
	}
	r.monitor = engine.NewMonitor(e)
	r.monitor.Start()
	// A moment to start the goroutines of those that are ready.
	lead := 2*time.Millisecond + time.Duration(held)*2*time.Microsecond
	base := r.clk.Now() + int64(lead)
	if !r.cfg.Resume {
		origin := time.Now().Add(lead)
		if !r.cfg.StartAt.IsZero() {
			origin = r.cfg.StartAt
			if late := time.Since(origin); late > 0 {
				r.warn(fmt.Sprintf("the preparations ended %v after --start-at", late))
			}
		}
		r.clk.Restart(origin)
		base = 0
	}
	r.meta.Origin = r.clk.Wall(0)
	session := schemas.Session{StartNS: base}
	if r.left != nil {
		session.LoadNS = r.left.Time
	}
	r.meta.Sessions = append(r.meta.Sessions, session)
	r.monitor.Restart(base)
	meta := r.meta
	// Nothing of what follows may hold up the first turns.
	helpers.Go(func() {
		if err := r.journal.SaveMeta(&meta); err != nil {
			e.Fail(fmt.Errorf("save the run's metadata: %w", err))
		}
	})
	if !r.hooks.quiet {
		helpers.Go(func() { r.monitor.Run(helping) })
	}
	for _, s := range r.scrapes {
		helpers.Go(func() { s.Run(helping) })
	}
	if r.hooks.Enough != nil {
		helpers.Go(func() {
			select {
			case <-r.hooks.Enough:
				e.Stop(load.EndDuration)
			case <-helping.Done():
			}
		})
	}
	if r.exporter != nil {
		helpers.Go(func() { r.exporter.Run(helping) })
	}
	if r.page != nil {
		r.page.Follow(func() observe.State {
			p := e.Progress()
			return observe.State{Planned: p.Planned, InFlight: p.InFlight, Active: p.Active, Backlog: p.Backlog}
		})
	}
	if r.hooks.Started != nil {
		helpers.Go(func() { r.hooks.Started(e.Progress) })
	}
	return base
}

// finish ends the journal with the final metadata.
func (r *run) finish(runErr error) (*Outcome, error) {
	e, m := r.e, &r.meta
	m.EndedNS = r.clk.Now()
	closeErr := e.Finish(collectorLimit)
	if runErr == nil || closeErr != nil && !errors.Is(runErr, closeErr) {
		runErr = errors.Join(runErr, closeErr)
	}
	reason, at := e.Stopped()
	m.Ended = reason
	if reason != load.EndComplete {
		m.StopNS = &at
	}
	total := e.Totals()
	if total.Looped && !r.cfg.Salt {
		m.Warnings = append(m.Warnings, "the dataset was replayed more than once without --salt: from the second pass on a prefix cache knows every prompt")
	}
	if total.Suspended > 0 {
		r.warn(fmt.Sprintf("the client was suspended for %.1f s: the process or its machine was stopped, or had no processor; what was due in that time was late by as much", total.Suspended.Seconds()))
	}
	if total.Slept > 0 {
		r.warn(fmt.Sprintf("the machine slept for %.1f s, which no moment of the run shows: requests that were under way may have broken (canceled, suspended), and the server has had a pause", total.Slept.Seconds()))
	}
	m.Planned, m.NotAdmitted, m.Counts, m.Rows = total.Planned, total.NotAdmitted, total.Counts, total.Rows
	written := total.Written
	if r.left != nil {
		written += r.left.Rows
	}
	if runErr == nil && (m.Rows != m.Planned || written != m.Planned) {
		runErr = fmt.Errorf("%w: %d planned, %d counted, %d written", errReconcile, m.Planned, m.Rows, written)
	}
	if r.monitor != nil {
		m.Health = r.monitor.Summary()
		for _, s := range r.scrapes {
			st := s.Stats()
			m.Health.Scrapes += st.Scrapes
			m.Health.ScrapesFailed += st.Failures
			if st.Scrapes == 0 && st.LastErr != "" {
				r.warn("no scrape of the server's metrics succeeded: " + st.LastErr)
			}
		}
	}
	if r.verifier != nil {
		found, text := r.verifier.result()
		if m.Verification = found; found.Different > 0 {
			r.warn(text)
		} else {
			r.hooks.Note(text)
		}
	}
	r.exported()
	r.clockInfo()
	out := &Outcome{Journal: r.journal.Dir(), Pace: total.Pace, HTTP2: slices.ContainsFunc(r.servers, func(s *server) bool { return s.client.HTTP2() })}
	if runErr != nil {
		m.EndedDetail = runErr.Error()
		if m.Ended == load.EndComplete {
			m.Ended = load.EndError
		}
	}
	var endErr error
	switch {
	case errors.Is(closeErr, engine.ErrStuck):
		// The collector still holds the journal.
	case runErr != nil && !e.Alive():
		endErr = r.journal.Abandon()
	default:
		endErr = r.journal.Finish(m)
		out.Sealable = endErr == nil && !errors.Is(runErr, errReconcile)
	}
	out.Meta = *m
	return out, errors.Join(runErr, endErr)
}

// clockInfo says which clocks the run's moments come from.
func (r *run) clockInfo() {
	r.clk.Resample()
	info := r.clk.Info()
	c := &r.meta.Clock
	c.OffsetStartNS, c.OffsetEndNS, c.LargestStepNS = info.OffsetStartNS, info.OffsetEndNS, info.MaxDriftNS
	for _, s := range r.servers {
		st := s.client.Stats()
		c.KernelReads += st.KernelReads
		c.UserReads += st.UserReads
	}
	c.Source = "kernel"
	if c.KernelReads == 0 || c.UserReads > c.KernelReads/100 {
		c.Source = "user"
		c.Fallback = "the kernel gave no receive stamps for these connections"
		if r.cfg.UserClock {
			c.Fallback = "--user-clock"
		}
	}
	if info.Steps > 0 {
		r.warn(fmt.Sprintf("the wall clock was stepped %d times during the run: moments of arrivals around it are off by as much", info.Steps))
	}
}

// errReconcile says that rows and plan do not agree. It is a fault of parley.
var errReconcile = errors.New("the number of rows is not the number of planned turns: this is a fault of parley, please report it")
