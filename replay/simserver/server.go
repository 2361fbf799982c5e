package simserver

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a simulated server. It may serve several listeners at once; they share slots and cache.
type Server struct {
	cfg         Config
	d           *dialect
	start       time.Time
	run         string // tells the response ids of different servers apart
	seq         atomic.Uint64
	chunks      atomic.Int64
	died        chan struct{}
	die         sync.Once
	truth       *truthLog
	accelerator accelerator
	stats       stats
}

// New makes a server, and creates the truth log's file. [Server.Close] closes it.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Model == "" {
		cfg.Model = "sim"
	}
	if cfg.Dialect == "" {
		cfg.Dialect = "vllm"
	}
	if cfg.BlockSize == 0 {
		cfg.BlockSize = 16
	}
	if cfg.Output == 0 {
		cfg.Output = 128
	}
	if cfg.FailStatus == 0 {
		cfg.FailStatus = http.StatusInternalServerError
	}
	d := dialects[cfg.Dialect]
	if cfg.ChunkTokens == 0 {
		cfg.ChunkTokens = max(d.chunkTokens, 1)
	}
	if cfg.HoldText == 0 {
		cfg.HoldText = d.hold
	}
	truth, err := openTruthLog(cfg.Log)
	if err != nil {
		return nil, err
	}
	return newServer(cfg, d, truth), nil
}

// NewWithLog is [New] with the truth log going to w.
func NewWithLog(cfg Config, w io.Writer) (*Server, error) {
	cfg.Log = ""
	s, err := New(cfg)
	if err == nil {
		s.truth = newTruthLog(w)
	}
	return s, err
}

func newServer(cfg Config, d *dialect, truth *truthLog) *Server {
	now := time.Now()
	s := &Server{
		cfg: cfg, d: d, start: now, truth: truth, died: make(chan struct{}),
		run: tagWord(derive(int64(now.UnixNano()), "run", 0)),
	}
	if s.accelerator = newConstant(cfg); cfg.batches() {
		s.accelerator = newBatched(cfg)
	}
	return s
}

// Close writes what is left of the truth log and closes its file.
func (s *Server) Close() error { return s.truth.close() }

// ServeHTTP answers one request under net/http.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.dead() {
		panic(http.ErrAbortHandler)
	}
	body, status := readBody(r.Body, r.ContentLength, s.maxBody())
	s.route(newHTTPSink(w, r), &request{r: r, body: body, status: status, received: time.Now()})
}

func (s *Server) maxBody() int64 {
	if s.cfg.MaxBody > 0 {
		return s.cfg.MaxBody
	}
	return 64 << 20
}

func (s *Server) dead() bool {
	select {
	case <-s.died:
		return true
	default:
		return false
	}
}

// wrote counts a chunk, and dies at the one that die_after names.
func (s *Server) wrote() {
	if n := s.chunks.Add(1); s.cfg.DieAfter > 0 && n == int64(s.cfg.DieAfter) {
		s.die.Do(func() { close(s.died) })
	}
}

// stats are counters of the whole server.
type stats struct {
	inFlight, maxInFlight          atomic.Int64
	requests, refused, faults      atomic.Int64
	promptTokens, generationTokens atomic.Int64
	success                        atomic.Int64
	echoed, issued                 atomic.Int64
	canceled                       atomic.Int64
}

// enter counts a request as in flight and gives how many are, itself included.
func (t *stats) enter() int64 {
	n := t.inFlight.Add(1)
	for {
		m := t.maxInFlight.Load()
		if n <= m || t.maxInFlight.CompareAndSwap(m, n) {
			return n
		}
	}
}
